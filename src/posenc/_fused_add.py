"""``x * scale + rows`` in one pass: what all encodings that are added to embeddings share."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _arrays, _backend, _checks, _formats, _pieces
from ._arrays import Array

if TYPE_CHECKING:
    from typing import Protocol

    class Source(Protocol):
        """Where the rows come from that are added, by their positions.

        Nobody changes one once it is made: a call reads its instance's source once, at its start,
        and what was checked of it holds until the kernel has run.
        """

        @property
        def width(self) -> int:
            """The number of columns."""

        @property
        def dtype(self) -> np.dtype[Any] | None:
            """The one dtype of the embeddings that the rows are added to, None for any."""

        @property
        def kernel(self) -> Callable[..., None]:
            """`add` or `gather_add` of the backend in use."""

        @property
        def rows(self) -> Any:
            """A plan, or a table to gather from."""

        @property
        def operand(self) -> Any:
            """The same as the kernel takes it."""

        def as_positions(self, positions: npt.ArrayLike) -> Array:
            """A caller's positions as an array of our own."""

        def resolve(
            self, start: int, positions: Array | None, rows: tuple[int, ...], of: str
        ) -> tuple[float, Array | None]:
            """``start`` or the positions, once rows of that shape, the argument `of`'s, have them."""

        def gathered(self) -> dict[str, Array]:
            """Arrays that the kernel gathers from, by the names that messages have for them."""


class _Options(NamedTuple):
    """A call's options as numbers and arrays of our own, of which `_resolve` makes the kernel's."""

    start: float
    positions: Array | None
    mask: Array | None
    scale: float | np.floating[Any]
    workers: int


def add(
    source: "Source",
    x: npt.ArrayLike,
    start: SupportsIndex,
    positions: npt.ArrayLike | None,
    mask: npt.ArrayLike | None,
    scale: float,
    out: Array | None,
    workers: SupportsIndex,
) -> Array:
    """``x * scale`` and the rows of the source."""
    done: Array | None = _backend.kernels.try_add(
        out, x, start, positions, mask, scale, workers, source.rows, source.width
    )
    if done is not None:
        return done
    given = _arrays.as_array("x", x)
    options = _convert(source, start, positions, mask, scale, workers)
    # No code but ours and NumPy's from here on.
    embedded = _arrays.as_embeddings(given, source.width)
    _check_dtype(source, "x", embedded)
    options = _resolve(source, options, embedded.shape[:-1], "x", embedded.dtype)
    out, plain, embedded = _arrays.prepare_out_and_x(embedded, out, source.gathered())
    kernel = _bind_kernel(source, plain, embedded, None, options)
    _pieces.run(kernel, *_arrays.rows_of(plain), options.workers)
    return out


def embed(
    source: "Source",
    ids: npt.ArrayLike,
    name: str,
    weight: npt.ArrayLike,
    start: SupportsIndex,
    positions: npt.ArrayLike | None,
    mask: npt.ArrayLike | None,
    scale: float,
    out: Array | None,
    workers: SupportsIndex,
) -> Array:
    """``weight[ids] * scale`` and the rows of the source; the table is the argument `name`."""
    done: Array | None = _backend.kernels.try_embed(
        out, ids, weight, start, positions, mask, scale, workers, source.rows, source.width
    )
    if done is not None:
        return done
    given = _arrays.as_array(name, weight)
    chosen = _arrays.as_indices("ids", ids)
    _arrays.check_ndim("ids", chosen)
    options = _convert(source, start, positions, mask, scale, workers)
    # No code but ours and NumPy's from here on.
    table = _arrays.as_table(name, given, source.width)
    _check_dtype(source, name, table)
    chosen = _arrays.check_indices("ids", chosen, len(table), f"rows of {name}")
    options = _resolve(source, options, chosen.shape, "ids", table.dtype)
    shape, dtype = (*chosen.shape, source.width), table.dtype.newbyteorder("=")
    if out is None:
        out = _arrays.empty(shape, dtype, "ids")
    plain = _arrays.as_output(out, shape, dtype)
    for read, array in {**source.gathered(), name: table}.items():
        _arrays.require_disjoint(read, array, plain)
    if _arrays.kernel_ready(table):
        kernel = _bind_kernel(source, plain, table, chosen, options)
    else:
        _gather_rows(plain, table, chosen)
        kernel = _bind_kernel(source, plain, plain, None, options)
    _pieces.run(kernel, *_arrays.rows_of(plain), options.workers)
    return out


def _convert(
    source: "Source",
    start: SupportsIndex,
    positions: npt.ArrayLike | None,
    mask: npt.ArrayLike | None,
    scale: float,
    workers: SupportsIndex,
) -> _Options:
    """A caller's options; converting them may run code of the caller's."""
    first = _checks.integer("start", start)
    own_positions = None if positions is None else source.as_positions(positions)
    if positions is not None and first:
        raise ValueError(f"start must be 0 where positions are given, got {_checks.shown(first)}")
    own_mask = None if mask is None else _arrays.as_bool_mask("mask", mask)
    factor = _checks.real("scale", scale)
    return _Options(first, own_positions, own_mask, factor, _pieces.thread_count(workers))


def _check_dtype(source: "Source", name: str, array: Array) -> None:
    if source.dtype is not None and array.dtype.newbyteorder("=") != source.dtype:
        raise TypeError(
            f"{name} must have the dtype of the learned positions, {source.dtype}, "
            f"got {_checks.shown(array.dtype)}"
        )


def _resolve(
    source: "Source", options: _Options, rows: tuple[int, ...], of: str, dtype: np.dtype[Any]
) -> _Options:
    """The options for rows of that shape and dtype, those of the argument `of`, once they fit."""
    start, positions = source.resolve(int(options.start), options.positions, rows, of)
    if options.mask is not None:
        _arrays.check_broadcast("mask", options.mask, rows)
    wide = _formats.accumulation_dtype(dtype.newbyteorder("="))
    scale = _arrays.round_scalar(options.scale, wide)
    return _Options(start, positions, options.mask, scale, options.workers)


def _gather_rows(out: Array, table: Array, ids: Array) -> None:
    """``out[...] = table[ids]``, with a copy of one sequence at a time rather than of the table."""
    if out.size:
        for index in np.ndindex(ids.shape[:-1]):
            out[index] = table[ids[index]]


def _bind_kernel(
    source: "Source", out: Array, x: Array, ids: Array | None, options: _Options
) -> Callable[[int, int], None]:
    """The kernel's call, but for the range of rows."""
    return functools.partial(
        source.kernel,
        _formats.kernel_bits(out),
        _formats.kernel_bits(x),
        ids,
        options.start,
        options.positions,
        options.mask,
        source.operand,
        options.scale,
        _arrays.use_streaming_stores(out),
    )
