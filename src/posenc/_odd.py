"""Odd widths, which pairs of sines and cosines do not fill: as the kernels, one column off.

The kernels write all pairs of some rows into scratch. Of an odd width the last cosine is left out
if there is a pair too many, or a last column is 0 if there is a column too many.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _arrays, _backend
from ._encoder import Encoder

Array = npt.NDArray[Any]

# Bytes of scratch.
_SCRATCH = 1 << 20


def fill(out: Array, start: float, positions: Array | None, encoder: Encoder, stream: bool) -> None:
    for item, rows in _blocks(out):
        out[item, rows] = _rows(out[item, rows], item, rows, start, positions, encoder)


def add(
    out: Array,
    x: Array,
    ids: Array | None,
    start: float,
    positions: Array | None,
    mask: Array | None,
    encoder: Encoder,
    stream: bool,
    scale: float,
) -> None:
    for item, rows in _blocks(out):
        to = out[item, rows]
        whole = np.empty(to.shape, np.float32) if to.itemsize == 2 else to
        table = np.ascontiguousarray(_rows(whole, item, rows, start, positions, encoder))
        one = slice(item, item + 1)
        _backend.kernels.add_rows(
            out[one, rows],
            x if ids is not None else x[one, rows],
            None if ids is None else ids[one, rows],
            np.arange(len(table), dtype=np.int64)[np.newaxis],
            None if mask is None else mask[one, rows],
            table,
            stream,
            scale,
        )


def _blocks(out: Array) -> Iterator[tuple[int, slice]]:
    step = max(1, _SCRATCH // (out.shape[2] * 8))
    for item in range(len(out)):
        for first in range(0, out.shape[1], step):
            yield item, slice(first, min(first + step, out.shape[1]))


def _rows(
    like: Array, item: int, rows: slice, start: float, positions: Array | None, encoder: Encoder
) -> Array:
    """Rows of the shape and dtype of `like`, which they may be a view of more of."""
    length, width = like.shape
    pairs = 2 * encoder.turns.shape[1]
    scratch = _arrays.empty((1, length, max(pairs, width)), like.dtype)
    at = None if positions is None else positions[item : item + 1, rows]
    _backend.kernels.fill(scratch[..., :pairs], start + rows.start, at, encoder, False)
    scratch[..., pairs:] = 0
    return scratch[0, :, :width]
