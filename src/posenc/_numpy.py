"""The compiled kernels in NumPy: the fallback where nothing is compiled, and a second opinion.

The same IEEE operations in the same order, so the same bits; _rows.pxi says why each is there.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
P = ParamSpec("P")

_ROUND = 6755399441055744.0  # 1.5 * 2^52
_ROUND_4 = 27021597764222976.0  # 1.5 * 2^54
_SPLIT = 134217729.0  # 2^27 + 1
_QUARTER = 1.5707963267948966
_QUARTER_UPPER = 1.5707963407039642
_QUARTER_LOWER = -1.3909067675399456e-08
_QUARTER_LO = 6.123233995736766e-17
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

# Rows of a table before its anchors, and the distance of these.
_NEAR = 64
# Entries of a block of rows: so many that NumPy's calls weigh little, so few that caches hold them.
_BLOCK = 1 << 16
# Runs over one anchor are turned as blocks where they have this many rows on average.
_RUN = 8


# Like the compiled kernels, these signal nothing, whatever the caller's errstate is.
def _silent(kernel: Callable[P, None]) -> Callable[P, None]:
    @functools.wraps(kernel)
    def silent(*args: P.args, **kwargs: P.kwargs) -> None:
        with np.errstate(all="ignore"):
            kernel(*args, **kwargs)

    return silent


def ready(out: object, x: object, d_model: int) -> bool:
    """Never: beside NumPy's own calls the checks in Python cost little."""
    return False


@_silent
def direct_rows(out: Floats, positions: Floats, turns: Floats) -> None:
    for rows in _blocks(len(positions), turns.shape[1]):
        out[rows] = _direct(positions[rows], turns)


@_silent
def fill(
    out: npt.NDArray[Any],
    start: float,
    positions: Floats | None,
    turns: Floats,
    table: Floats,
    paired: bool,
    stream: bool,
) -> None:
    for rows in _blocks(out.shape[1], turns.shape[1]):
        for item, batch in enumerate(out):
            _write_rows(batch[rows], _at(item, rows, start, positions), turns, table, paired)


@_silent
def add(
    out: npt.NDArray[Any],
    x: npt.NDArray[Any],
    start: float,
    positions: Floats | None,
    turns: Floats,
    table: Floats,
    paired: bool,
    stream: bool,
    scale: float,
) -> None:
    factor = out.dtype.type(scale)
    shared = positions is None or positions.strides[0] == 0
    for rows in _blocks(out.shape[1], turns.shape[1]):
        tile = np.empty((rows.stop - rows.start, out.shape[2]), out.dtype)
        for item in range(len(out)):
            if item == 0 or not shared:
                _write_rows(tile, _at(item, rows, start, positions), turns, table, paired)
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


def _write_rows(
    out: npt.NDArray[Any], positions: Floats, turns: Floats, table: Floats, paired: bool
) -> None:
    n = turns.shape[1]
    sines, cosines = (out[:, 0::2], out[:, 1::2]) if paired else (out[:, :n], out[:, n:])
    anchors = _anchors_of(positions)
    offsets = (positions - anchors).astype(np.intp)
    near = (anchors == 0.0) & (offsets >= 0)
    if near.all():
        sines[...], cosines[...] = _lead(table[offsets])
        return
    if not offsets.any():
        sines[...], cosines[...] = _anchor_rows(anchors, turns, table)
        return
    changes = (np.diff(anchors) != 0.0) | (np.diff(offsets) != 1)
    stops = [*(np.flatnonzero(changes) + 1).tolist(), len(out)]
    if len(stops) * _RUN > len(out):
        distinct, which = np.unique(anchors, return_inverse=True)
        anchor = _anchor_rows(distinct, turns, table)
        _rotate(sines, cosines, anchor[:, which], _offset_rows(table, offsets))
        return
    starts = [0, *stops[:-1]]
    anchor = _anchor_rows(anchors[starts], turns, table)
    low = offsets.min()
    nearby = _offset_rows(table, np.arange(low, offsets.max() + 1))
    for run, (first, stop) in enumerate(zip(starts, stops, strict=True)):
        begin = offsets[first] - low
        turned = nearby[:, begin : begin + stop - first]
        _rotate(sines[first:stop], cosines[first:stop], anchor[:, run], turned)


def _anchors_of(positions: Floats) -> Floats:
    """The position that each row is turned from: see anchor_of in _rows.pxi."""
    size = np.abs(positions)
    whole = np.floor(size)
    anchors = np.copysign(np.floor((whole + 31.0) / _NEAR) * _NEAR, positions)
    anchors[whole < _NEAR] = 0.0
    return np.where(size == whole, anchors, positions)


def _anchor_rows(anchors: Floats, turns: Floats, table: Floats) -> Floats:
    """Sines and cosines of anchors, shape (2, len(anchors), n), from the table where it has them."""
    farthest = _NEAR * (len(table) - _NEAR)
    known = (anchors == 0.0) | (
        (anchors >= _NEAR) & (anchors <= farthest) & (anchors % _NEAR == 0.0)
    )
    if known.all():
        index = (anchors // _NEAR).astype(np.intp)
        return _lead(table[np.where(index > 0, index + _NEAR - 1, 0)])
    rows = np.empty((len(anchors), 2, turns.shape[1]))
    if known.any():
        rows[known] = _anchor_rows(anchors[known], turns, table).swapaxes(0, 1)
    rows[~known] = _direct(anchors[~known], turns)
    return _lead(rows)


def _offset_rows(table: Floats, offsets: npt.NDArray[np.intp]) -> Floats:
    """Sines and cosines of offsets of either sign, shape (2, len(offsets), n)."""
    rows = _lead(table[np.abs(offsets)])
    rows[0, offsets < 0] *= -1.0
    return rows


def _lead(rows: Floats) -> Floats:
    """Sines and cosines in front: (m, 2, n) as (2, m, n)."""
    return rows.swapaxes(0, 1)


def _rotate(
    sines: npt.NDArray[Any], cosines: npt.NDArray[Any], anchor: Floats, offset: Floats
) -> None:
    """Rows turned from an anchor of their own each, or all from the same one."""
    one = anchor[0] * offset[1]
    two = anchor[1] * offset[0]
    np.add(one, two, out=sines, casting="same_kind")
    np.multiply(anchor[1], offset[1], out=one)
    np.multiply(anchor[0], offset[0], out=two)
    np.subtract(one, two, out=cosines, casting="same_kind")


def _direct(positions: Floats, turns: Floats) -> Floats:
    """Sines and cosines of positions at every frequency, shape (len(positions), 2, n)."""
    position = positions[:, np.newaxis]
    hi, hi_upper, hi_lower, lo = turns
    upper = _SPLIT * position - (_SPLIT * position - position)
    lower = position - upper
    product = position * hi
    tail = ((upper * hi_upper - product) + upper * hi_lower + lower * hi_upper) + lower * hi_lower
    tail += position * lo
    rest = product - ((product + _ROUND_4) - _ROUND_4)
    quarter = ((rest + tail) + _ROUND) - _ROUND
    rest -= quarter
    g = rest + tail
    w = g - rest
    w = (rest - (g - w)) + (tail - w)
    angle = _QUARTER * g
    upper = _SPLIT * g - (_SPLIT * g - g)
    lower = g - upper
    angle_lo = (
        (_QUARTER_UPPER * upper - angle) + _QUARTER_UPPER * lower + _QUARTER_LOWER * upper
    ) + _QUARTER_LOWER * lower
    angle_lo += _QUARTER * w + _QUARTER_LO * g
    z = angle * angle
    zz = z * z
    s = angle + (angle_lo + (z * angle) * _polynomial(z, zz, _SINE))
    c = 1.0 - (0.5 * z - (zz * _polynomial(z, zz, _COSINE) - angle * angle_lo))
    quarter -= (quarter + _ROUND_4) - _ROUND_4
    odd = np.abs(quarter)
    sign = 1.0 - odd
    rows = np.empty((len(positions), 2, turns.shape[1]))
    rows[:, 0] = np.where(odd == 1.0, quarter * c, sign * s)
    rows[:, 1] = np.where(odd == 1.0, -quarter * s, sign * c)
    return rows


def _polynomial(z: Floats, zz: Floats, k: tuple[float, ...]) -> Floats:
    return (k[0] + z * k[1]) + zz * ((k[2] + z * k[3]) + zz * (k[4] + z * k[5]))
