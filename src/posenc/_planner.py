"""Making plans. This is not in _plan.py, which the NumPy kernels import, as it calls kernels."""

import numpy as np
import numpy.typing as npt

from . import _arrays, _backend
from ._frequencies import QuarterTurns
from ._plan import ANCHOR_SPACING, Plan

_FLOAT64 = np.dtype(np.float64)

# Anchors in a table, after the rows of positions 0 to 63: positions up to 2080 need no other.
_ANCHORS = 32

# float64 has every integer up to here.
_MAX_POSITION = 2.0**53
# The kernels' range reduction is exact up to here.
_MAX_QUARTER_TURNS = 2.0**53


def make_plan(
    frequencies: QuarterTurns, interleaved: bool, cos_first: bool = False, amplitude: float = 1.0
) -> Plan:
    """The plan of rows at these frequencies, in the given order."""
    nearest, left = frequencies
    quarter_turns = np.empty((4, len(nearest)))
    quarter_turns[0], quarter_turns[3] = nearest, left
    fastest = float(np.abs(nearest).max())
    max_anchor = _MAX_QUARTER_TURNS // fastest if fastest else _MAX_POSITION
    rows = _empty(ANCHOR_SPACING + _ANCHORS, 2, len(nearest))
    _backend.kernels.make_table(rows, quarter_turns, max_anchor)
    table, offsets = rows, rows
    if amplitude != 1.0:
        table = _empty(*rows.shape)
        with np.errstate(all="ignore"):
            np.multiply(rows, amplitude, out=table)
    if cos_first:
        table = _copy(table[:, ::-1])
        offsets = _copy(rows[:ANCHOR_SPACING] * [[-1.0], [1.0]])
    limit = _max_position(max_anchor)
    return Plan(quarter_turns, table, offsets, limit, interleaved, cos_first, amplitude)


def select(plan: Plan, pairs: npt.NDArray[np.int64]) -> Plan:
    """The plan of some of the pairs of another."""
    table = _copy(plan.table[..., pairs])
    separate = plan.offsets is not plan.table
    return plan._replace(
        quarter_turns=np.ascontiguousarray(plan.quarter_turns[:, pairs]),
        table=table,
        offsets=_copy(plan.offsets[..., pairs]) if separate else table,
    )


def _max_position(max_anchor: float) -> float:
    """The largest position that is not beyond `max_anchor`, and neither is its anchor.

    From position 64 on, the anchor of a row may be 31 positions farther from 0 than the row.
    """
    if max_anchor < ANCHOR_SPACING:
        return max_anchor
    farther = ANCHOR_SPACING // 2 - 1
    return min(_MAX_POSITION, max(ANCHOR_SPACING - 1.0, max_anchor - farther))


def _empty(*shape: int) -> npt.NDArray[np.float64]:
    return _arrays.empty(shape, _FLOAT64)


def _copy(array: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return _arrays.aligned_copy(array, _FLOAT64)
