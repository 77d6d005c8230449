"""``x * scale + encoding`` in one pass: what all encodings that are added have in common."""

from abc import ABC, abstractmethod
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _arrays, _checks, _pieces

Array = npt.NDArray[Any]


class Source(ABC):
    """Rows that are added to embeddings, by their positions.

    Nobody changes one once it is made, so what was checked of it holds until the kernel has run:
    a call reads its instance's source once, at its start.
    """

    width: int

    @abstractmethod
    def given(self, positions: npt.ArrayLike) -> Array:
        """A caller's positions as an array of our own."""

    @abstractmethod
    def resolve(
        self, start: int, positions: Array | None, rows: tuple[int, ...], of: str
    ) -> tuple[float, Array | None]:
        """Where the rows of the argument `of` begin, and the positions of all where these are given."""

    @abstractmethod
    def add(
        self,
        out: Array,
        x: Array,
        ids: Array | None,
        start: float,
        positions: Array | None,
        mask: Array | None,
        stream: bool,
        scale: float,
    ) -> None:
        """The kernel's call: arguments as in _core.pyi."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any] | None:
        """The one dtype of the embeddings that the rows are added to, None for any."""

    def gathered(self) -> dict[str, Array]:
        """What the kernel gathers from, and no result may be written to, by name."""
        return {}


def add(
    source: Source,
    x: npt.ArrayLike,
    start: SupportsIndex,
    positions: npt.ArrayLike | None,
    mask: npt.ArrayLike | None,
    scale: float,
    out: Array | None,
    workers: SupportsIndex,
) -> Array:
    """``x * scale`` and the rows of the source."""
    given = _arrays.as_array("x", x)
    first, where, keep, factor, threads = _converted(source, start, positions, mask, scale, workers)
    # No code but ours and NumPy's from here on.
    embedded = _arrays.addend(given, source.width)
    _check_dtype(source, "x", embedded)
    rows = embedded.shape[:-1]
    begin, where = source.resolve(first, where, rows, "x")
    keep = None if keep is None else _arrays.spread("mask", keep, rows)
    factor = _arrays.rounded(factor, _arrays.working(embedded.dtype.newbyteorder("=")))
    out, plain, embedded = _arrays.beside(embedded, out, source.gathered())
    _run(source, plain, embedded, None, begin, where, keep, factor, threads)
    return out


def embed(
    source: Source,
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
    given = _arrays.as_array(name, weight)
    chosen = _arrays.indices("ids", ids)
    _arrays.few_axes("ids", chosen)
    first, where, keep, factor, threads = _converted(source, start, positions, mask, scale, workers)
    # No code but ours and NumPy's from here on.
    table = _arrays.embeddings(name, given, source.width)
    _check_dtype(source, name, table)
    chosen = _arrays.within("ids", chosen, len(table), f"rows of {name}")
    begin, where = source.resolve(first, where, chosen.shape, "ids")
    keep = None if keep is None else _arrays.spread("mask", keep, chosen.shape)
    dtype = table.dtype.newbyteorder("=")
    factor = _arrays.rounded(factor, _arrays.working(dtype))
    shape = (*chosen.shape, source.width)
    if out is None:
        out = _arrays.empty(shape, dtype, "ids")
    plain = _arrays.output(out, shape, dtype)
    for read, array in {**source.gathered(), name: table}.items():
        _arrays.apart(read, array, plain)
    if _arrays.kernel_ready(table):
        _run(source, plain, table, chosen, begin, where, keep, factor, threads)
    elif plain.size:  # what is looked up is less than the table
        for index in np.ndindex(chosen.shape[:-1]):
            plain[index] = table[chosen[index]]
        _run(source, plain, plain, None, begin, where, keep, factor, threads)
    return out


def _check_dtype(source: Source, name: str, array: Array) -> None:
    if source.dtype is not None and array.dtype.newbyteorder("=") != source.dtype:
        raise TypeError(
            f"{name} must have the dtype of the learned positions, {source.dtype}, "
            f"got {_checks.shown(array.dtype)}"
        )


def _converted(
    source: Source,
    start: SupportsIndex,
    positions: npt.ArrayLike | None,
    mask: npt.ArrayLike | None,
    scale: float,
    workers: SupportsIndex,
) -> tuple[int, Array | None, Array | None, float | np.floating[Any], int]:
    """Arguments as numbers and arrays of our own: whatever code of the caller's that runs."""
    first = _checks.integer("start", start)
    where = None if positions is None else source.given(positions)
    if where is not None and first:
        raise ValueError(f"start must be 0 where positions are given, got {_checks.shown(first)}")
    keep = None if mask is None else _arrays.switches("mask", mask)
    return first, where, keep, _checks.real("scale", scale), _pieces.count(workers)


def _run(
    source: Source,
    out: Array,
    x: Array,
    ids: Array | None,
    start: float,
    positions: Array | None,
    mask: Array | None,
    scale: float,
    workers: int,
) -> None:
    """In pieces, and over threads."""
    if not out.size:
        return
    stream = _arrays.streams(out)
    out, x = _arrays.plain_halves(out), _arrays.plain_halves(x)
    of_items = None if ids is not None else x
    batches: list[Any] = _arrays.batches(out.ndim - 2, out, of_items, ids, positions, mask)

    def work(batch: int, items: slice, rows: slice) -> None:
        pieces: list[Any] = [a if a is None else a[items, rows] for a in batches[batch]]
        to, of_rows, chosen, at, keep = pieces
        of_rows = x if of_rows is None else of_rows
        source.add(to, of_rows, chosen, start + rows.start, at, keep, stream, scale)

    items, length, width = batches[0][0].shape
    _pieces.run_views(work, (len(batches), items, length), width * out.itemsize, workers)
