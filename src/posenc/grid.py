"""Encodings of the points of a grid: `grid_encoding`, and how frameworks arrange them."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _arrays, _checks
from .sinusoidal import Array, Source, converted, prepared

# Axes that NumPy has in all versions, but for that of the columns.
_MOST_AXES = 32 - 1

# What the result is made of unless something else is asked for, and no dtype is wider.
_WIDEST = np.dtype(np.float64)


class _Arrangement(NamedTuple):
    """What a preset says.

    Attributes
    ----------
    axes : tuple of int, optional
        The order in which the axes have their columns, and so their number; any number without.
    shares : tuple of int, optional
        What part of the columns each axis has; the same without.
    per_axis : bool
    cut : bool
        Whether axes get whole pairs, as many as it takes, and what is then too wide is cut.
    coordinates : callable
        Those of an axis of so many points.
    layout : str
    """

    axes: tuple[int, ...] | None = None
    shares: tuple[int, ...] | None = None
    per_axis: bool = True
    cut: bool = False
    coordinates: Callable[[int], Array] = np.arange
    layout: str = "interleaved"


_PRESETS = {
    "detr": _Arrangement((0, 1), coordinates=lambda side: np.arange(1, side + 1)),
    "diffusers-2d": _Arrangement(
        (1, 0), coordinates=lambda side: np.arange(side) / (side / 16), layout="split"
    ),
    "diffusers-3d": _Arrangement((0, 2, 1), shares=(2, 3, 3), layout="split"),
    "mae": _Arrangement((1, 0), layout="split"),
    "positional-encodings": _Arrangement(cut=True),
    "rt-detr": _Arrangement((0, 1), layout="split"),
    "timm": _Arrangement((0, 1), per_axis=False, layout="split"),
}


def grid_encoding(
    shape: Sequence[SupportsIndex],
    d_model: SupportsIndex,
    *,
    axes: Sequence[SupportsIndex] | None = None,
    per_axis: bool = True,
    coordinates: Sequence[npt.ArrayLike] | None = None,
    extra_rows: SupportsIndex = 0,
    preset: str | None = None,
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    **convention: Any,
) -> Array:
    """The encodings of all points of a grid: pixels, patches, voxels or frames.

    Every axis has columns of its own, which hold the sinusoidal encoding of the point's coordinate
    on that axis, as wide as they are: `posenc.encode`.

    Parameters
    ----------
    shape : sequence of int
        Number of points on each axis, for 1 to 31 axes: (height, width) of an image, say.
    d_model : int
        Number of columns, shared equally among the axes.
    axes : sequence of int, optional
        The order in which the axes have their columns; else that of `shape`. It moves no points.
    per_axis : bool, default True
        Whether the columns of an axis stand together. Else all sines of all axes come first, then
        all cosines.
    coordinates : sequence of array_like of bool, int or float, optional
        For each axis of `shape` the coordinates of its points, as many as there are; else 0, 1, 2
        and so on.
    extra_rows : int, default 0
        Number of rows of zeros before the points, for class tokens. Where there are any, the points
        are rows too, the last axis fastest.
    preset : str, optional
        The arrangement of a framework, below.
    dtype : {float64, float32, float16, bfloat16}, optional
        That of `out`, else float64.
    out : ndarray of `dtype`, optional
        Where to put the result, on the terms of `posenc.fill`.
    **convention
        Keywords of `Sinusoidal`, for every axis.

    Returns
    -------
    ndarray of `dtype`, shape shape + (d_model,) or (extra_rows + prod(shape), d_model)
        `out`, or a fresh array as from `posenc.positional_encoding`.

    Raises
    ------
    TypeError
        If an argument has the wrong type; and as `posenc.encode` does.
    ValueError
        If the axes do not divide `d_model` into pairs, `axes`, `coordinates` or `preset` do not fit
        `shape`, all sines are to come first in a layout that is not split, or the result is beyond
        all memory; and as `posenc.encode` does. Nothing has been written then.
    MemoryError
        If the result is beyond the memory at hand.

    Notes
    -----
    A preset stands for what `axes`, `coordinates` and the layout would be, unless they are given.

    ====================  ==========================================================================
    mae                   `get_2d_sincos_pos_embed` of facebookresearch/mae: (height, width), the
                          columns of the width first, split
    diffusers-2d          the same of huggingface/diffusers: its coordinates go up to 16 whatever the
                          sides are, which is its ``base_size``
    diffusers-3d          `get_3d_sincos_pos_embed` there: (frames, height, width), a quarter of the
                          columns for the frames, then the width's and the height's, split
    timm                  `build_sincos2d_pos_embed` of huggingface/pytorch-image-models: (height,
                          width), all sines first
    rt-detr               `build_2d_sinusoidal_position_embedding` of huggingface/transformers, for
                          ViT-MAE and others too: (height, width), split
    detr                  `PositionEmbeddingSine` of facebookresearch/detr, neither normalized nor
                          masked: (height, width), interleaved, coordinates from 1
    positional-encodings  of tatp22/multidim-positional-encoding: interleaved, any number of axes and
                          any width: ``2 * ceil(d_model / (2 * axes))`` columns each, then cut
    ====================  ==========================================================================

    Examples
    --------
    >>> import numpy as np
    >>> import posenc
    >>> grid = posenc.grid_encoding((3, 4), 8)
    >>> grid.shape
    (3, 4, 8)
    >>> bool((grid[2, 3] == np.hstack([posenc.encode(2, 4), posenc.encode(3, 4)])).all())
    True
    >>> posenc.grid_encoding((3, 4), 8, preset="mae", extra_rows=1).shape
    (13, 8)
    """
    sides = _sides(shape)
    width = _checks.integer("d_model", d_model, 1, _checks.MOST_COLUMNS)
    rows = _checks.integer("extra_rows", extra_rows, least=0)
    whole = _arrays.addressable("shape", (*sides, width), _WIDEST)
    if rows:
        whole = (rows + math.prod(sides), width)
        _arrays.addressable("extra_rows", whole, _WIDEST)
    arrangement = _Arrangement() if preset is None else _arrangement(preset, sides)
    order: Sequence[int] = arrangement.axes or range(len(sides))
    if axes is not None:
        order = _order(axes, len(sides))
    parts = 1 if _checks.boolean("per_axis", per_axis) and arrangement.per_axis else 2
    convention.setdefault("layout", arrangement.layout if parts == 1 else "split")
    convention = converted(grid_encoding, convention)
    if parts == 2 and convention["layout"] != "split":
        raise ValueError(
            "layout must be 'split' where all sines come before all cosines, "
            f"got {convention['layout']!r}"
        )
    of_axes = _axes(width, arrangement, len(sides), parts, convention)
    points = None if coordinates is None else _points(coordinates, sides, of_axes)
    out, plain = _arrays.result(out, whole, dtype, "shape")
    encoded = []
    if math.prod(sides):  # else a side may be larger than memory
        if points is None:
            points = _counted(arrangement, sides, of_axes)
        encoded = [
            axis.encode(where, plain.dtype, None, 1)
            for axis, where in zip(of_axes, points, strict=True)
        ]
    if rows:
        plain[:rows] = 0
        plain = plain[rows:].reshape(*sides, width)
    if encoded:
        _place(plain, encoded, order, parts)
    return out


def _sides(shape: Iterable[SupportsIndex]) -> tuple[int, ...]:
    """The shape of a grid."""
    given = _several("shape", shape, "integers")
    if not 1 <= len(given) <= _MOST_AXES:
        raise ValueError(
            f"shape must have 1 to {_MOST_AXES} axes, "
            f"got {'more' if len(given) > _MOST_AXES else '()'}"
        )
    return tuple(_checks.integer("shape", side, least=0) for side in given)


def _order(axes: Iterable[SupportsIndex], count: int) -> tuple[int, ...]:
    """Each of 0 to ``count - 1`` once."""
    result = tuple(_checks.integer("axes", axis) for axis in _several("axes", axes, "integers"))
    if sorted(result) != list(range(count)):
        wrong = [a for i, a in enumerate(result) if not 0 <= a < count or a in result[:i]]
        got = f"{_checks.shown(wrong[0])} among them" if wrong else f"{len(result)}"
        raise ValueError(
            f"axes must be each of {', '.join(map(str, range(count)))} once, got {got}"
        )
    return result


def _points(
    coordinates: Iterable[npt.ArrayLike], sides: tuple[int, ...], prepared: Sequence[Source]
) -> list[Array]:
    """An array for each axis of a grid, with a coordinate for each point there."""
    given = _several("coordinates", coordinates, "arrays")
    if len(given) != len(sides):
        raise ValueError(
            f"coordinates must be {len(sides)}, one array for each axis, got {len(given)}"
        )
    result = []
    for axis, (values, side, source) in enumerate(zip(given, sides, prepared, strict=True)):
        where = _arrays.positions(values, source.encoder.limit, f"coordinates[{axis}]")
        if where.shape != (side,):
            raise ValueError(
                f"coordinates[{axis}] must have shape ({side},), got {_checks.shown(where.shape)}"
            )
        result.append(where)
    return result


def _counted(
    arrangement: _Arrangement, sides: tuple[int, ...], prepared: Sequence[Source]
) -> list[Array]:
    """The coordinates of an arrangement, if they can be encoded."""
    points = [arrangement.coordinates(side) for side in sides]
    for axis, (where, source) in enumerate(zip(points, prepared, strict=True)):
        limit = source.encoder.limit
        if not -limit <= where[0] <= where[-1] <= limit:
            raise ValueError(
                f"shape must leave coordinates within {limit:.17g} of 0, got {where[-1]} on axis "
                f"{axis}"
            )
    return points


def _several(name: str, values: Iterable[Any], of: str) -> list[Any]:
    """As a list, which ends after one more than there can be axes."""
    try:
        return list(itertools.islice(values, _MOST_AXES + 1))
    except TypeError:
        raise TypeError(f"{name} must be a sequence of {of}, got {type(values).__name__}") from None


def _arrangement(preset: str, sides: tuple[int, ...]) -> _Arrangement:
    found = _PRESETS[_checks.choice("preset", preset, tuple(_PRESETS))]
    if found.axes and len(found.axes) != len(sides):
        raise ValueError(
            f"shape must have {len(found.axes)} axes for the preset {preset}, got {len(sides)}"
        )
    return found


def _axes(
    d_model: int, arrangement: _Arrangement, count: int, parts: int, convention: dict[str, Any]
) -> list[Source]:
    """The encoding of each axis.

    What depends on how `d_model` is shared is checked here, as it is what the caller knows.
    """
    odd = convention.get("odd", "error")
    widths = _widths(d_model, arrangement, count, odd=parts == 1 and odd != "error")
    if odd == "zero" and min(widths) < 2:
        raise ValueError(
            f"d_model must leave 2 columns or more to each axis where odd='zero', got {d_model}"
        )
    if convention.get("frequencies") is not None:
        found = len(convention["frequencies"])
        for columns in widths:
            if columns % 2 == 0 and columns != 2 * found:
                raise ValueError(
                    f"frequencies must be {columns // 2}, half of the {columns} columns that an "
                    f"axis has of d_model = {d_model}, got {found}"
                )
    return [prepared(grid_encoding, columns, convention) for columns in widths]


def _widths(d_model: int, arrangement: _Arrangement, count: int, odd: bool) -> list[int]:
    """The number of columns of each axis, which may be odd if ``odd``."""
    if arrangement.cut:
        return [2 * -(-d_model // (2 * count))] * count
    shares = arrangement.shares or (1,) * count
    unit = sum(shares) if odd else 2 * sum(shares)
    if d_model % unit:
        raise ValueError(
            f"d_model must be a multiple of {unit}, for sines and cosines on {count} axes, "
            f"got {d_model}"
        )
    return [d_model // sum(shares) * share for share in shares]


def _place(grid: Array, encoded: Sequence[Array], order: Sequence[int], parts: int) -> None:
    """Spread the rows of each axis over the others, in as many parts, side by side."""
    first = 0
    for part in range(parts):
        for axis in order:
            size = encoded[axis].shape[1] // parts
            columns = grid[..., first : first + size]  # fewer, or none, where they are cut
            rows = encoded[axis][:, part * size :][:, : columns.shape[-1]]
            columns[...] = np.expand_dims(rows, tuple(range(1, len(encoded) - axis)))
            first += size
