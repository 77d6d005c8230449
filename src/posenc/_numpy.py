"""The kernels of _core.pyx in NumPy: the fallback where nothing is compiled, and a second opinion.

The same IEEE operations in the same order, so the same bits; _core.pyx says why each is there.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_ROUND = 6755399441055744.0  # 1.5 * 2^52
_SPLIT = 134217729.0  # 2^27 + 1
_TAU = 6.283185307179586
_TAU_UPPER = 6.283185362815857
_TAU_LOWER = -5.563627070159782e-08
_TAU_LO = 2.4492935982947064e-16
_SINE = (
    -0.1666666666666663,
    0.008333333333322118,
    -0.00019841269829589558,
    2.7557313621391203e-06,
    -2.5050747763583287e-08,
    1.5896230192794875e-10,
)
_COSINE = (
    0.0416666666666666,
    -0.0013888888888874138,
    2.4801587289491827e-05,
    -2.7557314355240523e-07,
    2.0875723684190937e-09,
    -1.135966985291976e-11,
)

# Entries of a block of rows: a few temporaries of this many doubles stay in a level-2 cache.
_BLOCK = 1 << 15
# Runs over one anchor are turned as blocks where they have this many rows on average.
_RUN = 8


def instruction_sets() -> list[str]:
    """None beyond the baseline: NumPy chooses its own."""
    return []


def direct_rows(out: Floats, positions: Floats, turns: Floats) -> None:
    for rows in _blocks(len(positions), turns.shape[1]):
        _direct(out[rows, 0], out[rows, 1], positions[rows, None], turns)


def fill(
    out: npt.NDArray[Any],
    start: float,
    positions: Floats | None,
    turns: Floats,
    table: Floats,
    gap: int,
) -> None:
    count = out.shape[1]
    for item, batch in enumerate(out):
        for rows in _blocks(count, turns.shape[1]):
            _make_rows(batch[rows], _at(item, rows, start, positions), turns, table, gap)


def add(
    out: npt.NDArray[Any],
    x: npt.NDArray[Any],
    scale: float,
    start: float,
    positions: Floats | None,
    turns: Floats,
    table: Floats,
    gap: int,
) -> None:
    factor = out.dtype.type(scale)
    shared = positions is None or positions.strides[0] == 0
    for rows in _blocks(out.shape[1], turns.shape[1]):
        tile = np.empty((rows.stop - rows.start, out.shape[2]), out.dtype)
        for item in range(len(out)):
            if item == 0 or not shared:
                _make_rows(tile, _at(item, rows, start, positions), turns, table, gap)
            np.multiply(x[item, rows], factor, out=out[item, rows])
            np.add(out[item, rows], tile, out=out[item, rows])


def _blocks(count: int, n: int) -> Iterator[slice]:
    step = max(1, _BLOCK // n)
    for first in range(0, count, step):
        yield slice(first, min(first + step, count))


def _at(item: int, rows: slice, start: float, positions: Floats | None) -> Floats:
    if positions is None:
        return start + np.arange(rows.start, rows.stop)
    return positions[item, rows]


def _make_rows(
    out: npt.NDArray[Any], positions: Floats, turns: Floats, table: Floats, gap: int
) -> None:
    size = np.abs(positions)
    whole = np.floor(size)
    anchors = np.copysign(np.floor((whole + 31.0) / 64.0) * 64.0, positions)
    anchors[whole < 64.0] = 0.0
    anchors = np.where(size == whole, anchors, positions)
    offsets = (positions - anchors).astype(np.intp)
    n = turns.shape[1]
    sines, cosines = (out[:, 0::2], out[:, 1::2]) if gap == 1 else (out[:, :n], out[:, n:])
    distinct, which = np.unique(anchors, return_inverse=True)
    anchor = np.empty((2, len(distinct), n))
    _direct(anchor[0], anchor[1], distinct[:, None], turns)
    runs = np.flatnonzero((np.diff(which) != 0) | (np.diff(offsets) != 1)) + 1
    if len(runs) * _RUN > len(out):
        _rotate(sines, cosines, anchor[:, which], *_offset_rows(table, offsets))
        return
    low = offsets.min()
    nearby = _offset_rows(table, np.arange(low, offsets.max() + 1))
    for first, stop in itertools.pairwise((0, *runs, len(out))):
        run = slice(offsets[first] - low, offsets[stop - 1] - low + 1)
        _rotate(sines[first:stop], cosines[first:stop], anchor[:, which[first]], *nearby[:, run])


def _offset_rows(table: Floats, offsets: npt.NDArray[np.intp]) -> Floats:
    """Sines and cosines of offsets of either sign, shape (2, len(offsets), n)."""
    rows = table[np.abs(offsets)].swapaxes(0, 1)
    rows[0, offsets < 0] *= -1.0
    return rows


def _rotate(
    sines: npt.NDArray[Any],
    cosines: npt.NDArray[Any],
    anchor: Floats,
    offset_sines: Floats,
    offset_cosines: Floats,
) -> None:
    """Rows turned from an anchor of their own each, or all from the same one."""
    one = anchor[0] * offset_cosines
    two = anchor[1] * offset_sines
    np.add(one, two, out=sines, casting="same_kind")
    np.multiply(anchor[1], offset_cosines, out=one)
    np.multiply(anchor[0], offset_sines, out=two)
    np.subtract(one, two, out=cosines, casting="same_kind")


def _direct(sines: Floats, cosines: Floats, position: Floats, turns: Floats) -> None:
    """Sine and cosine of a column of positions at every frequency."""
    hi, hi_upper, hi_lower, lo = turns
    upper = _SPLIT * position - (_SPLIT * position - position)
    lower = position - upper
    product = position * hi
    tail = ((upper * hi_upper - product) + upper * hi_lower + lower * hi_upper) + lower * hi_lower
    tail += position * lo
    rest = product - ((product + _ROUND) - _ROUND)
    f = rest + tail
    r = f - rest
    tail = (rest - (f - r)) + (tail - r)
    quarter = (4.0 * f + _ROUND) - _ROUND
    f -= 0.25 * quarter
    g = f + tail
    w = tail - (g - f)
    angle = _TAU * g
    upper = _SPLIT * g - (_SPLIT * g - g)
    lower = g - upper
    angle_lo = (
        (upper * _TAU_UPPER - angle) + upper * _TAU_LOWER + lower * _TAU_UPPER
    ) + lower * _TAU_LOWER
    angle_lo += _TAU * w + _TAU_LO * g
    z = angle * angle
    r = _horner(z, _SINE[1:])
    f = z * angle
    s = angle - ((z * (0.5 * angle_lo - f * r) - angle_lo) - f * _SINE[0])
    r = z * _horner(z, _COSINE)
    half = 0.5 * z
    f = 1.0 - half
    c = f + (((1.0 - f) - half) + (z * r - angle * angle_lo))
    quarter -= 4.0 * ((0.25 * quarter + _ROUND) - _ROUND)
    odd = np.abs(quarter)
    sign = 1.0 - odd
    sines[...] = np.where(odd == 1.0, quarter * c, sign * s)
    cosines[...] = np.where(odd == 1.0, -quarter * s, sign * c)


def _horner(z: Floats, coefficients: tuple[float, ...]) -> Floats:
    result = z * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        result += coefficient
        result *= z
    result += coefficients[0]
    return result
