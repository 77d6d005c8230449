"""Encodings of the points of a grid: `grid_encoding`, and how frameworks arrange them."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _arrays, _backend, _blocks, _checks, _formats
from ._arrays import Array
from .sinusoidal import Source, convert_keywords, source_of

# Every version of NumPy has 32 axes, and the last one of the result is that of the columns.
_MAX_AXES = 32 - 1

# The default dtype, and the widest: the size of a result is checked for it, whatever the dtype.
_WIDEST = np.dtype(np.float64)

# Bytes of the encodings that are copied to the points of a tile, and of the temporaries of each
# coordinate.
_ENCODED_BYTES = 1 << 21
_COORDINATE_BYTES = 64

# The coordinates of some points of an axis: of their indices, and of the number of points there.
_Coordinates = Callable[[Array, int], Array]


class _Columns(NamedTuple):
    """Columns of an axis's encodings, which follow one another in a grid."""

    axis: int
    of: slice


class _Arrangement(NamedTuple):
    """What a preset sets.

    Attributes
    ----------
    axes : tuple of int, optional
        The order in which the axes have their columns, for a fixed number of axes; by default that
        of the shape, for any number.
    shares : tuple of int, optional
        The ratio of the axes' numbers of columns; by default all are equal.
    per_axis : bool
        Whether the columns of an axis are adjacent.
    cut : bool
        Whether each axis gets ``ceil(d_model / (2 * axes))`` pairs of columns, and the result is
        truncated to `d_model`.
    coordinates : callable
        Those of an axis.
    layout : str
    """

    axes: tuple[int, ...] | None = None
    shares: tuple[int, ...] | None = None
    per_axis: bool = True
    cut: bool = False
    coordinates: _Coordinates = lambda indices, _: indices
    layout: str = "interleaved"


_PRESETS = {
    "detr": _Arrangement((0, 1), coordinates=lambda indices, _: indices + 1),
    "diffusers-2d": _Arrangement(
        (1, 0), coordinates=lambda indices, length: indices / (length / 16), layout="split"
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
    """Return the encodings of all points of a grid: pixels, patches, voxels or frames.

    The columns are divided among the axes. Those of an axis hold the sinusoidal encoding of the
    point's coordinate on that axis, as `posenc.encode` returns it for that number of columns.

    Parameters
    ----------
    shape : sequence of int
        Number of points on each axis, for 1 to 31 axes; for an image, (height, width).
    d_model : int
        Number of columns. Unless a preset differs, each axis has the same number.
    axes : sequence of int, optional
        The order of the axes' columns; by default the order of `shape`. It does not change the
        order of the points.
    per_axis : bool, default True
        Whether the columns of an axis are adjacent. If False, the sines of all axes come first, and
        then the cosines of all axes.
    coordinates : sequence of array_like of bool, int or float, optional
        For each axis of `shape`, the coordinates of its points, one for each point; by default 0,
        1, 2 and so on.
    extra_rows : int, default 0
        Number of rows of zeros before the points, for class tokens. If it is not 0, the points are
        rows too, with the last axis varying fastest.
    preset : str, optional
        The name of a framework's arrangement, from the list below.
    dtype : {float64, float32, float16, bfloat16}, optional
        By default the dtype of `out`, or float64 without `out`.
    out : ndarray of `dtype`, optional
        Where to write the result. It must meet the requirements of `posenc.fill`.
    **convention
        Keywords of `Sinusoidal`, which apply to every axis.

    Returns
    -------
    ndarray of `dtype`, shape shape + (d_model,) or (extra_rows + prod(shape), d_model)
        `out`, or a new array as from `posenc.positional_encoding`.

    Raises
    ------
    TypeError
        If an argument has the wrong type; and as for `posenc.encode`.
    ValueError
        If `d_model` cannot be divided into pairs for the axes; `axes`, `coordinates` or `preset` do
        not fit `shape`; `per_axis` is False and the layout is not split; or the result would have
        2**63 bytes or more; and as for `posenc.encode`. Nothing has been written if an error is
        raised.
    MemoryError
        If there is not enough memory for the result.

    Notes
    -----
    A preset sets `axes`, `coordinates`, `per_axis` and the layout. `axes`, `coordinates` and
    `layout` override it.

    ====================  ==========================================================================
    mae                   `get_2d_sincos_pos_embed` of facebookresearch/mae: (height, width), the
                          columns of the width first, split
    diffusers-2d          `get_2d_sincos_pos_embed` of huggingface/diffusers: as mae, but on every
                          axis coordinates are scaled to less than 16, its ``base_size``
    diffusers-3d          `get_3d_sincos_pos_embed` of huggingface/diffusers: (frames, height,
                          width), a quarter of the columns for the frames, then those of the width
                          and of the height, split
    timm                  `build_sincos2d_pos_embed` of huggingface/pytorch-image-models: (height,
                          width), all sines first
    rt-detr               `build_2d_sinusoidal_position_embedding` of huggingface/transformers, for
                          ViT-MAE and others too: (height, width), split
    detr                  `PositionEmbeddingSine` of facebookresearch/detr, neither normalized nor
                          masked: (height, width), interleaved, coordinates from 1
    positional-encodings  tatp22/multidim-positional-encoding: interleaved, for any number of axes
                          and any `d_model`: ``2 * ceil(d_model / (2 * axes))`` columns for each
                          axis, of which the first `d_model` in all are kept
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
    lengths = _check_shape(shape)
    width = _checks.integer("d_model", d_model, 1, _checks.MAX_COLUMNS)
    zero_rows = _checks.integer("extra_rows", extra_rows, least=0)
    points = math.prod(lengths)
    result_shape = _arrays.check_size("shape", (*lengths, width), _WIDEST)
    if zero_rows:
        result_shape = _arrays.check_size("extra_rows", (zero_rows + points, width), _WIDEST)
    arrangement = _Arrangement() if preset is None else _arrangement(preset, lengths)
    order: Sequence[int] = arrangement.axes or range(len(lengths))
    if axes is not None:
        order = _check_order(axes, len(lengths))
    together = _checks.boolean("per_axis", per_axis) and arrangement.per_axis
    convention.setdefault("layout", arrangement.layout if together else "split")
    convention = convert_keywords(grid_encoding, convention)
    if not together and convention["layout"] != "split":
        raise ValueError(
            "layout must be 'split' where all sines come before all cosines, "
            f"got {convention['layout']!r}"
        )
    sources = _sources(width, arrangement, len(lengths), together, convention)
    wanted = None if dtype is None else _formats.float_dtype(dtype)
    # The last conversion, as coordinates may be the caller's own arrays: see `_as_numbers`.
    if coordinates is not None:
        arrays = _as_coordinates(coordinates, lengths, sources)
    elif points:  # else an axis may be longer than what can be encoded
        _check_coordinates(arrangement, lengths, sources)
    out, plain = _arrays.prepare_out(out, result_shape, wanted, "shape")
    if coordinates is None:
        coordinates_of = [_default_coordinates(arrangement, length) for length in lengths]
    else:
        coordinates_of = [_caller_coordinates(array, plain) for array in arrays]
    if zero_rows:
        _write_zeros(plain[:zero_rows])
        plain = plain[zero_rows:].reshape(*lengths, width)
    columns = _columns([source.width for source in sources], order, together, width)
    _write(plain, sources, coordinates_of, columns)
    return out


def _check_shape(shape: Iterable[SupportsIndex]) -> tuple[int, ...]:
    """The shape of a grid, as integers of Python's own."""
    given = _as_list("shape", shape, "integers")
    if not 1 <= len(given) <= _MAX_AXES:
        raise ValueError(
            f"shape must have 1 to {_MAX_AXES} axes, "
            f"got {'more' if len(given) > _MAX_AXES else '()'}"
        )
    return tuple(_checks.integer("shape", length, least=0) for length in given)


def _check_order(axes: Iterable[SupportsIndex], count: int) -> tuple[int, ...]:
    """Each of 0 to ``count - 1`` once."""
    result = tuple(_checks.integer("axes", axis) for axis in _as_list("axes", axes, "integers"))
    if sorted(result) != list(range(count)):
        wrong = [a for i, a in enumerate(result) if not 0 <= a < count or a in result[:i]]
        got = f"{_checks.shown(wrong[0])} among them" if wrong else f"{len(result)}"
        raise ValueError(
            f"axes must be each of {', '.join(map(str, range(count)))} once, got {got}"
        )
    return result


def _as_coordinates(
    coordinates: Iterable[npt.ArrayLike], lengths: tuple[int, ...], sources: Sequence[Source]
) -> list[Array]:
    """An array for each axis of a grid, with a coordinate for each point there."""
    given = _as_list("coordinates", coordinates, "arrays")
    if len(given) != len(lengths):
        raise ValueError(
            f"coordinates must be {len(lengths)}, one array for each axis, got {len(given)}"
        )
    limits = [source.plan.max_position for source in sources]
    names = [f"coordinates[{axis}]" for axis in range(len(given))]
    # All are converted before any is checked: an object's conversion may change an array.
    arrays = [_as_numbers(*each) for each in zip(names, given, limits, strict=True)]
    for name, array, length, limit in zip(names, arrays, lengths, limits, strict=True):
        if array.shape != (length,):
            raise ValueError(
                f"{name} must have shape ({length},), got {_checks.shown(array.shape)}"
            )
        for block in _blocks.blocks(array.shape, _blocks.COMPUTED):
            _arrays.as_positions(array[block], limit, name)
    return arrays


def _as_numbers(name: str, values: npt.ArrayLike, limit: float) -> Array:
    """The caller's own array where it is one of numbers, which may be too large to copy.

    Another thread may change it: `Source.encode` checks what it copies of it, block by block.
    Numbers in anything else are copied and checked at once.
    """
    if issubclass(type(values), np.ndarray):
        array = _arrays.as_plain(_arrays.as_array(name, values))
        if array.dtype != object:
            return array
    return _arrays.as_positions(values, limit, name)


def _check_coordinates(
    arrangement: _Arrangement, lengths: tuple[int, ...], sources: Sequence[Source]
) -> None:
    """ValueError where the coordinates of an arrangement cannot be encoded."""
    for axis, (length, source) in enumerate(zip(lengths, sources, strict=True)):
        limit = source.plan.max_position
        first, last = arrangement.coordinates(np.array([0, length - 1]), length)
        if not -limit <= first <= last <= limit:
            raise ValueError(
                f"shape must leave coordinates within {limit:.17g} of 0, got {last} on axis {axis}"
            )


def _as_list(name: str, values: Iterable[Any], of: str) -> list[Any]:
    """A sequence as a list, which ends after one more than there can be axes."""
    try:
        return list(itertools.islice(values, _MAX_AXES + 1))
    except TypeError:
        raise TypeError(f"{name} must be a sequence of {of}, got {type(values).__name__}") from None


def _arrangement(preset: str, lengths: tuple[int, ...]) -> _Arrangement:
    found = _PRESETS[_checks.choice("preset", preset, tuple(_PRESETS))]
    if found.axes and len(found.axes) != len(lengths):
        raise ValueError(
            f"shape must have {len(found.axes)} axes for the preset {preset}, got {len(lengths)}"
        )
    return found


def _sources(
    d_model: int, arrangement: _Arrangement, count: int, together: bool, convention: dict[str, Any]
) -> list[Source]:
    """The encodings of each axis, for keywords that are converted.

    How `d_model` is shared is checked here, where the width that the caller gave is known.
    """
    odd = convention.get("odd", "error")
    widths = _widths(d_model, arrangement, count, odd=together and odd != "error")
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
    return [source_of(columns, convention) for columns in widths]


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


def _columns(
    widths: Sequence[int], order: Sequence[int], together: bool, d_model: int
) -> list[_Columns]:
    """What a grid of so many columns has of the encodings of each axis, in its order."""
    result = []
    left = d_model
    for part in (0,) if together else (0, 1):  # sines and cosines, or sines and then cosines
        for axis in order:
            size = widths[axis] if together else widths[axis] // 2
            kept = min(size, left)  # less where the arrangement cuts
            if kept > 0:
                result.append(_Columns(axis, slice(part * size, part * size + kept)))
            left -= kept
    return result


def _default_coordinates(arrangement: _Arrangement, length: int) -> Callable[[slice], Array]:
    """The coordinates of an arrangement, for a range of points on an axis."""
    return lambda part: arrangement.coordinates(np.arange(part.start, part.stop), length)


def _caller_coordinates(array: Array, out: Array) -> Callable[[slice], Array]:
    """The coordinates that a caller gave, for a range of points on an axis."""
    own = array.copy() if np.may_share_memory(array, out) else array
    return lambda part: own[part]


def _write(
    grid: Array,
    sources: Sequence[Source],
    coordinates_of: Sequence[Callable[[slice], Array]],
    columns: Sequence[_Columns],
) -> None:
    """Fill ``grid`` (..., d_model), tile by tile.

    A tile is as long on each axis as there is room for encodings of that axis, which are then copied
    to all points of the tile. A single axis needs no copies.
    """
    shape = grid.shape[:-1]
    if len(shape) == 1 and grid.shape[-1] == sources[0].width:
        for (part,) in _blocks.tiles(shape, [_ENCODED_BYTES // _COORDINATE_BYTES]):
            sources[0].encode(coordinates_of[0](part), None, grid[part], 1)
        return
    steps = [
        _rows_at_once(source, length, len(shape), grid.itemsize)
        for source, length in zip(sources, shape, strict=True)
    ]
    encoded = [
        _arrays.empty((step, source.width), grid.dtype)
        for step, source in zip(steps, sources, strict=True)
    ]
    stream = _arrays.use_streaming_stores(grid)
    parts = [slice(0)] * len(shape)  # of each axis, what `encoded` has
    for tile in _blocks.tiles(shape, steps):
        for axis, part in enumerate(tile):
            if part != parts[axis]:
                rows = encoded[axis][: part.stop - part.start]
                sources[axis].encode(coordinates_of[axis](part), None, rows, 1)
                parts[axis] = part
        _concatenate(grid[tile], encoded, columns, stream)


def _rows_at_once(source: Source, length: int, axes: int, itemsize: int) -> int:
    """How many rows of an axis of so many points are encoded at once, in a grid of so many axes."""
    row_bytes = source.width * itemsize + _COORDINATE_BYTES
    return max(1, min(length, _ENCODED_BYTES // (axes * row_bytes)))


def _concatenate(
    points: Array, encoded: Sequence[Array], columns: Sequence[_Columns], stream: bool
) -> None:
    """Copy the rows of each axis to all points of a tile (..., d_model)."""
    points = _formats.kernel_bits(points)
    rows = [(axis, _formats.kernel_bits(encoded[axis][:, of])) for axis, of in columns]
    shape = points.shape[:-1]
    for block in _blocks.blocks(shape, _blocks.COPIED // points.shape[-1]):
        parts = tuple([(axis, each[: shape[axis]][block[axis]]) for axis, each in rows])
        _backend.kernels.concatenate(points[block], parts, stream)


def _write_zeros(rows: Array) -> None:
    for block in _blocks.blocks(rows.shape, _blocks.COPIED):
        rows[block] = 0
