"""``x * scale + encoding`` in one pass: what all encodings that are added have in common."""

from abc import ABC, abstractmethod
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _arrays, _workers

Array = npt.NDArray[Any]


class Added(ABC):
    """An encoding of width `d_model` whose rows are added to embeddings."""

    d_model: int

    @abstractmethod
    def _places(
        self, start: SupportsIndex, positions: npt.ArrayLike | None, rows: tuple[int, ...]
    ) -> tuple[float, Array | None]:
        """The checked position of the first row, and the positions of all or None."""

    @abstractmethod
    def _add_to(
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

    @abstractmethod
    def _read(self) -> dict[str, Array]:
        """What is read at will, and no result may be written to, by name."""

    def _add(
        self,
        x: Array,
        start: SupportsIndex,
        positions: npt.ArrayLike | None,
        mask: npt.ArrayLike | None,
        scale: float,
        out: Array | None,
        workers: SupportsIndex,
    ) -> Array:
        """`add` for an `x` that is an array of floats with two axes or more."""
        if x.shape[-1] != self.d_model:
            raise ValueError(f"x must have last axis {self.d_model}, got shape {x.shape}")
        first, where = self._places(start, positions, x.shape[:-1])
        keep = _kept(mask, x.shape[:-1])
        factor = _arrays.real("scale", scale, _arrays.working(x.dtype.newbyteorder("=")))
        threads = _workers.count(workers)
        out, plain, x = _arrays.beside(x, out, self._read())
        self._run(plain, x, None, first, where, keep, factor, threads)
        return out

    def _embed(
        self,
        ids: npt.ArrayLike,
        name: str,
        weight: Array,
        start: SupportsIndex,
        positions: npt.ArrayLike | None,
        mask: npt.ArrayLike | None,
        scale: float,
        out: Array | None,
        workers: SupportsIndex,
    ) -> Array:
        """`embed` for a table, called `name`, that is an array of floats with two axes."""
        if weight.shape[-1] != self.d_model:
            raise ValueError(f"{name} must have last axis {self.d_model}, got shape {weight.shape}")
        rows = _arrays.indices("ids", ids, len(weight), f"rows of {name}")
        first, where = self._places(start, positions, rows.shape)
        keep = _kept(mask, rows.shape)
        dtype = weight.dtype.newbyteorder("=")
        factor = _arrays.real("scale", scale, _arrays.working(dtype))
        threads = _workers.count(workers)
        shape = (*rows.shape, self.d_model)
        if out is None:
            out = _arrays.empty(shape, dtype)
        plain = _arrays.output(out, shape, dtype)
        for read, array in {**self._read(), name: weight}.items():
            _arrays.apart(read, array, plain)
        if _arrays.kernel_ready(weight):
            self._run(plain, weight, rows, first, where, keep, factor, threads)
        else:  # what is looked up is less than the table
            for index in np.ndindex(rows.shape[:-1]):
                plain[index] = weight[rows[index]]
            self._run(plain, plain, None, first, where, keep, factor, threads)
        return out

    def _run(
        self,
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
            to, source, chosen, at, keep = pieces
            source = x if source is None else source
            self._add_to(to, source, chosen, start + rows.start, at, keep, stream, scale)

        items, length, width = batches[0][0].shape
        _workers.run(work, (len(batches), items, length), width * out.itemsize, workers)


def _kept(mask: npt.ArrayLike | None, rows: tuple[int, ...]) -> Array | None:
    return None if mask is None else _arrays.spread("mask", _arrays.switches("mask", mask), rows)
