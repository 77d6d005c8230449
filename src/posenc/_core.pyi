"""The contract of the kernels, which every backend meets. Python checks all of it; the compiled
kernels check once more what costs nanoseconds: axes, shapes, dtypes, widths, numbers of pairs and
lengths to count, but no position and no id.

Arrays
    ``out`` and ``x`` have shape (..., length, width), with any number of leading axes, none
    included, and one dtype of float64, float32, float16 and, for the bits of bfloat16, uint16. They
    are aligned, in native byte order, and have unit stride on the last axis and any other strides.
    Elements of ``out`` do not overlap. ``x`` is ``out``, or shares no memory with it. Where there are
    ``ids``, ``x`` is a table (m, width) that shares no memory with ``out``, and a row of ``out`` is
    computed from ``x[id]``.

    ``ids`` (int64), ``positions`` (float64; int64 in `gather_add`) and ``mask`` (bool) have shape
    (..., length), unit stride on the last axis and any other strides. Their leading axes broadcast
    to those of ``out``; the last is ``length``. Where ``positions`` are None, rows are those of
    ``start``, ``start + 1``, ... in every batch entry. No position is beyond the plan's
    ``max_position``, and ids and the positions of `gather_add` are rows of their tables.

Ranges of rows
    A batch entry is an index of the leading axes; in C order these are 0, 1, ... A call computes
    rows [first, stop) of all rows, which are counted in walk order: the axis of length is cut into
    blocks of `ANCHOR_SPACING` rows, and the order is block by block, in a block batch entry by batch
    entry, and in an entry row by row. With ``entries`` batch entries, block b begins at
    ``b * ANCHOR_SPACING * entries``, and the end is ``entries * length``. A range may begin and end
    anywhere. Nothing outside it is written, and a row has the same bits whatever the range is.

Widths
    Of n frequencies there are 2 * n columns. The width of `fill` and `add` may also be 2 * n - 1,
    without the last cosine, or 2 * n + 1, with a last column of zeros.

Rounding
    Rows are made in float64. `fill` and `tables` round them once to the dtype. Where something is
    added or rotated, they are rounded once to the dtype of the sum, and so is each operation: this
    is the dtype of ``out``, or float32 for 16 bits, and then the result is rounded once more.

``stream`` asks for non-temporal stores, which leave the caches as they are. It changes no bit.

Short ways
    What begins with `try_` takes a caller's arguments as they are, whatever they are, and returns
    the result of the call. If an argument is not usual or not right, it returns None instead, and
    nothing was written: the checks in Python either say what is wrong or call a kernel. Usual are
    arrays of NumPy's own type, C-contiguous, aligned and in native byte order; int32 or int64 for
    positions and ids, which may also be float64 for a plan, and bool for masks; ints and floats of
    Python's own types, one worker, and a result of at most 16 MB.

The kernels that count tokens, from `count_within` on, take C-contiguous arrays alone.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from ._plan import Plan

def instruction_sets() -> list[str]:
    """The instruction sets beyond the baseline that this processor runs: of `_core` alone."""

def aligned_array(
    buffer: npt.NDArray[np.uint8], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """An array over ``buffer``, from its first multiple of 64 bytes on."""

def make_table(
    table: npt.NDArray[np.float64],
    quarter_turns: npt.NDArray[np.float64],
    max_anchor_position: float,
) -> None:
    """Compute all of a plan's ``table`` (m, 2, n), and the Veltkamp split in ``quarter_turns`` (4, n).

    Anchors beyond ``max_anchor_position`` cannot be reduced, and their rows are never read: they are
    those of ``max_anchor_position``, which keeps NaN out.
    """

def fill(
    out: npt.NDArray[Any],
    start: float,
    positions: npt.NDArray[np.float64] | None,
    plan: Plan,
    stream: bool,
    first: int,
    stop: int,
) -> None:
    """``out = PE``, the rows of the plan."""

def add(
    out: npt.NDArray[Any],
    x: npt.NDArray[Any],
    ids: npt.NDArray[np.int64] | None,
    start: float,
    positions: npt.NDArray[np.float64] | None,
    mask: npt.NDArray[np.bool_] | None,
    plan: Plan,
    scale: float,
    stream: bool,
    first: int,
    stop: int,
) -> None:
    """``out = x * scale + PE``; ``x * scale`` where ``mask`` is False."""

def gather_add(
    out: npt.NDArray[Any],
    x: npt.NDArray[Any],
    ids: npt.NDArray[np.int64] | None,
    start: float,
    positions: npt.NDArray[np.int64] | None,
    mask: npt.NDArray[np.bool_] | None,
    table: npt.NDArray[Any],
    scale: float,
    stream: bool,
    first: int,
    stop: int,
) -> None:
    """``out = x * scale + table[positions]``, with a ``table`` (m, width) of the dtype of ``out``;
    ``x * scale`` where ``mask`` is False.

    ``table`` has unit stride on the last axis and shares no memory with ``out``.
    """

def rotate(
    out: npt.NDArray[Any],
    x: npt.NDArray[Any],
    start: float,
    positions: tuple[npt.NDArray[np.float64], ...],
    plans: tuple[tuple[npt.NDArray[np.int64] | None, Plan], ...],
    interleaved: bool,
    inverse: bool,
    stream: bool,
    first: int,
    stop: int,
) -> None:
    """RoPE: pairs (a, b) of ``x`` as (a * cos - b * sin, b * cos + a * sin), other columns as they are.

    ``plans`` is ``((None, plan),)`` where one position rotates all pairs; ``positions`` are then one
    array, or none for ``start``, ``start + 1``, ... Else both have an item for each axis of
    positions, and with a plan comes a C-contiguous array of the numbers of its pairs, which may be
    empty; every pair belongs to one axis. The plans are planar, with sines first.

    With n pairs in all, pair i is columns 2 * i and 2 * i + 1 if ``interleaved``, else i and n + i,
    and columns from 2 * n on are copied. ``inverse`` negates the sines, which rotates back.
    """

def tables(
    cosines: npt.NDArray[Any],
    sines: npt.NDArray[Any],
    start: float,
    positions: tuple[npt.NDArray[np.float64], ...],
    plans: tuple[tuple[npt.NDArray[np.int64] | None, Plan], ...],
    interleaved: bool,
    first: int,
    stop: int,
) -> None:
    """Cosines and sines of the pairs that `rotate` rotates with the same arguments.

    Both arrays have shape (..., length, 2 * n), as ``out`` has elsewhere, and share no memory. Each
    value is there twice, in both columns of its pair.
    """

def concatenate(
    out: npt.NDArray[Any], parts: tuple[tuple[int, npt.NDArray[Any]], ...], stream: bool
) -> None:
    """Put every row of ``out`` (..., length, width) together from rows of ``parts``, at most 64.

    A part is an axis of ``out``, any but the last, and rows (m, columns) with m that axis's length:
    a row of ``out`` takes the one that its index on the axis says. They follow one another, and have
    the width of ``out`` together, unit stride on the last axis, its dtype and none of its memory.
    """

def try_fill(
    out: object, start: object, workers: object, plan: Plan, width: int
) -> npt.NDArray[Any] | None:
    """``out`` filled with rows of the plan."""

def try_table(
    length: object, start: object, dtype: object, workers: object, plan: Plan, width: int
) -> npt.NDArray[Any] | None:
    """A new table of rows of the plan."""

def try_encode(
    out: object, positions: object, dtype: object, workers: object, plan: Plan, width: int
) -> npt.NDArray[Any] | None:
    """Rows of the plan for the positions, in ``out`` or a new array."""

def try_add(
    out: object,
    x: object,
    start: object,
    positions: object,
    mask: object,
    scale: object,
    workers: object,
    rows: Plan | npt.NDArray[Any],
    width: int,
) -> npt.NDArray[Any] | None:
    """``x * scale`` and rows of a plan or of a learned table."""

def try_embed(
    out: object,
    ids: object,
    weight: object,
    start: object,
    positions: object,
    mask: object,
    scale: object,
    workers: object,
    rows: Plan | npt.NDArray[Any],
    width: int,
) -> npt.NDArray[Any] | None:
    """``weight[ids] * scale`` and the same rows."""

def try_rotate(
    out: object,
    x: object,
    start: object,
    positions: object,
    inverse: object,
    workers: object,
    plan: Plan,
    dim: int,
    interleaved: bool,
) -> npt.NDArray[Any] | None:
    """``x`` with its first ``dim`` columns rotated by the plan of all pairs."""

def count_within(out: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> None:
    """``out`` (sum(lengths),) counts 0, 1, ... for each of ``lengths`` (m,), none of them negative."""

def count_segments(out: npt.NDArray[np.int64], begins: npt.NDArray[np.bool_]) -> None:
    """``out`` (..., length) counts 0, 1, ... anew from every True in ``begins`` of the same shape.

    Rows begin with True.
    """

def count_kept(
    out: npt.NDArray[np.int64], keep: npt.NDArray[np.bool_], base: int, pad: int
) -> None:
    """``out = base + cumsum(keep, -1)`` where ``keep``, else ``pad``; both (..., length)."""
