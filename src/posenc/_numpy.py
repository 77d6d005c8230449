"""The compiled kernels in NumPy: the fallback where nothing is compiled, and a second opinion.

The same IEEE operations in the same order, so the same bits; _rows.pxi says why each is there.
"""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, Final, ParamSpec

import numpy as np
import numpy.typing as npt

from ._encoder import Encoder

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
P = ParamSpec("P")

# To float32, entry by entry.
_CAST: Final = "same_kind"

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

# Bytes of a cache line.
_LINE = 64
# Rows of a table before its anchors, and the distance of these.
_NEAR = 64
# Pairs of a block of rows, and entries of a product: so many that NumPy's calls weigh little, so few
# that the caches hold them.
_BLOCK = 1 << 16
_PRODUCT = 1 << 14
# Runs over one anchor are turned as such from this many entries on average.
_RUN = 1 << 12


# Like the compiled kernels, these signal nothing, whatever the caller's errstate is.
def _silent(kernel: Callable[P, None]) -> Callable[P, None]:
    @functools.wraps(kernel)
    def silent(*args: P.args, **kwargs: P.kwargs) -> None:
        with np.errstate(all="ignore"):
            kernel(*args, **kwargs)

    return silent


def add_at_once(*arguments: object) -> bool:
    """Never: beside NumPy's own calls the checks in Python cost little."""
    return False


def aligned(buffer: npt.NDArray[np.uint8], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    first = -buffer.__array_interface__["data"][0] % _LINE
    size = math.prod(shape) * dtype.itemsize
    return buffer[first : first + size].view(dtype).reshape(shape)


@_silent
def tabulate(table: Floats, turns: Floats, reach: float) -> None:
    spread = _SPLIT * turns[0]
    turns[1] = spread - (spread - turns[0])
    turns[2] = turns[0] - turns[1]
    anchors = _NEAR * np.arange(1.0, len(table) - _NEAR + 1)
    positions = np.minimum(np.concatenate([np.arange(float(_NEAR)), anchors]), reach)
    for rows in _blocks(len(table), turns.shape[1]):
        table[rows] = _direct(positions[rows], turns)


@_silent
def fill(
    out: Array,
    start: float,
    positions: Floats | None,
    encoder: Encoder,
    stream: bool,
) -> None:
    maker = _Rows(encoder)
    for rows in _blocks(out.shape[1], encoder.turns.shape[1], start):
        for item, batch in enumerate(out):
            to = batch[rows]
            whole = np.empty(to.shape) if out.itemsize == 2 else to
            maker.write(whole, _at(item, rows, start, positions))
            if whole is not to:
                to[...] = _halves(whole, to.dtype)


@_silent
def add(
    out: Array,
    x: Array,
    ids: Indices | None,
    start: float,
    positions: Floats | None,
    mask: Mask | None,
    encoder: Encoder,
    stream: bool,
    scale: float,
) -> None:
    maker = _Rows(encoder)
    shared = positions is None or positions.strides[0] == 0
    for rows in _blocks(out.shape[1], encoder.turns.shape[1], start):
        tile = np.empty((rows.stop - rows.start, out.shape[2]), _working(out.dtype))
        for item in range(len(out)):
            if item == 0 or not shared:
                maker.write(tile, _at(item, rows, start, positions))
            _add(out, x, ids, tile, mask, scale, item, rows)


@_silent
def add_rows(
    out: Array,
    x: Array,
    ids: Indices | None,
    positions: Indices,
    mask: Mask | None,
    rows: Array,
    stream: bool,
    scale: float,
) -> None:
    for block in _blocks(out.shape[1], out.shape[2]):
        for item in range(len(out)):
            tile = _whole(rows[positions[item, block]])
            _add(out, x, ids, tile, mask, scale, item, block)


@_silent
def turn_pairs(out: Array, x: Array, rows: Array, paired: bool, stream: bool) -> None:
    turned = rows.shape[2]
    n = turned // 2
    first, second = _columns(n, paired)
    each = len(out) // len(rows)
    for block in _blocks(out.shape[1], n):
        for item, (to, source) in enumerate(zip(out[:, block], x[:, block], strict=True)):
            sines, cosines = np.split(rows[item // each, block], 2, axis=1)
            a, b = _whole(source[:, first]), _whole(source[:, second])
            turned_a, turned_b = a * cosines - b * sines, b * cosines + a * sines
            to[:, first], to[:, second] = _as(to.dtype, turned_a), _as(to.dtype, turned_b)
            to[:, turned:] = source[:, turned:]


@_silent
def tables(
    cosines: Array,
    sines: Array,
    start: float,
    positions: Floats | None,
    encoder: Encoder,
    paired: bool,
) -> None:
    maker, n = _Rows(encoder), encoder.turns.shape[1]
    for rows in _blocks(cosines.shape[1], n, start):
        for item in range(len(cosines)):
            whole = np.empty((rows.stop - rows.start, 2 * n))
            maker.write(whole, _at(item, rows, start, positions))
            for columns in _columns(n, paired):
                sines[item, rows, columns] = _as(sines.dtype, whole[:, :n].copy())
                cosines[item, rows, columns] = _as(cosines.dtype, whole[:, n:].copy())


def _columns(n: int, paired: bool) -> tuple[slice, slice]:
    """The first and the second columns of n pairs."""
    if paired:
        return slice(0, 2 * n, 2), slice(1, 2 * n, 2)
    return slice(0, n), slice(n, 2 * n)


def _add(
    out: Array,
    x: Array,
    ids: Indices | None,
    tile: Array,
    mask: Mask | None,
    scale: float,
    item: int,
    rows: slice,
) -> None:
    """``x * scale + tile`` for some rows of an item."""
    to = out[item, rows]
    source = _whole(x[item, rows] if ids is None else x[ids[item, rows]])
    factor = source.dtype.type(scale)
    result = to if to.itemsize > 2 else np.empty(to.shape, source.dtype)
    if mask is not None:
        np.multiply(source, factor, out=result)
        np.add(result, tile, out=result, where=mask[item, rows, np.newaxis])
    elif factor == 1:
        np.add(source, tile, out=result)
    else:
        np.multiply(source, factor, out=result)
        np.add(result, tile, out=result)
    if result is not to:
        to[...] = _halves(result, to.dtype)


def _working(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32) if dtype.itemsize == 2 else dtype


def _whole(rows: Array) -> Array:
    """Halves as float32, others as they are."""
    if rows.dtype == np.uint16:
        return (rows.astype(np.uint32) << 16).view(np.float32)
    return rows.astype(_working(rows.dtype), copy=False)


def _as(dtype: np.dtype[Any], rows: Array) -> Array:
    """Rows as they are, or where the dtype has 16 bits rounded to it."""
    return rows if dtype.itemsize > 2 else _halves(rows, dtype)


def _halves(rows: Array, dtype: np.dtype[Any]) -> Array:
    """Rounded once to float16, or to bfloat16 as its bits: see _halves.h.

    NumPy's own conversion of float64 rounds some subnormal float16 wrongly.
    """
    if rows.dtype == np.float64:
        digits, least = (11, 2.0**-14) if dtype == np.float16 else (8, 2.0**-126)
        power = (rows.view(np.uint64) & np.uint64(0x7FF << 52)).view(np.float64)
        magnet = np.clip(power, least, 2.0**200) * 1.5 * 2.0 ** (53 - digits)
        rows = np.copysign((rows + magnet) - magnet, rows).astype(np.float32)
    if dtype == np.float16:
        return rows.astype(np.float16)
    bits = rows.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def runs(out: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> None:
    begins = np.repeat(np.cumsum(lengths) - lengths, lengths)
    np.subtract(np.arange(len(out)), begins, out=out)


def segments(out: npt.NDArray[np.int64], begins: npt.NDArray[np.bool_]) -> None:
    if not out.size:  # else a row of any length
        return
    index = np.arange(out.shape[-1])
    np.maximum.accumulate(np.where(begins, index, 0), axis=-1, out=out)
    np.subtract(index, out, out=out)


def counts(out: npt.NDArray[np.int64], keep: npt.NDArray[np.bool_], base: int, pad: int) -> None:
    np.cumsum(keep, axis=-1, out=out)
    # A product, as an index would be slow where padding is scattered.
    out += base - pad
    out *= keep
    out += pad


def _blocks(count: int, n: int, start: float = 0.0) -> Iterator[slice]:
    """Slices of `count` rows: as far as there are so many, the rows of anchors are kept together."""
    step = max(1, _BLOCK // n)
    first = 0
    stop = step
    if step >= _NEAR:
        step -= step % _NEAR
        stop = int((_NEAR // 2 + 1 - start) % _NEAR) + step - _NEAR
    while first < count:
        yield slice(first, min(stop, count))
        first, stop = stop, stop + step


def _at(item: int, rows: slice, start: float, positions: Floats | None) -> Floats:
    if positions is None:
        return start + np.arange(rows.start, rows.stop)
    return positions[item, rows]


class _Rows:
    """An encoder's rows; of its offsets what multiplies them, as it is needed, for one call.

    "Sines" are cosines and the other way round if the encoder has these first.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.n = encoder.turns.shape[1]
        self.step = max(1, _PRODUCT // (2 * self.n))
        self.offsets: dict[int, tuple[Floats, Floats]] = {}
        # Memory to hold on to: to get it anew, and clear, costs more than the products in it.
        self.products = np.empty((2, self.step, 2 * self.n))

    def write(self, out: Array, positions: Floats) -> None:
        """The rows of `positions` into `out` (length, d_model)."""
        anchors = _anchors_of(positions)
        offsets = (positions - anchors).astype(np.intp)
        if ((anchors == 0.0) & (offsets >= 0)).all():
            self.place(out, *_lead(self.encoder.table[offsets]))
            return
        if not offsets.any():
            self.place(out, *_anchor_rows(anchors, self.encoder))
            return
        changes = (np.diff(anchors) != 0.0) | (np.diff(offsets) != 1)
        stops = [*(np.flatnonzero(changes) + 1).tolist(), len(out)]
        if len(stops) * _RUN > out.size:
            distinct, which = np.unique(anchors, return_inverse=True)
            sines, cosines = _anchor_rows(distinct, self.encoder)[:, which]
            u, v = _lead(self.encoder.offsets[np.abs(offsets)])
            u = u * np.sign(offsets)[:, np.newaxis]
            product = self.rows(sines, cosines) * self.rows(v, v)
            np.add(product, self.rows(cosines, sines) * self.rows(u, -u), out=out, casting=_CAST)
            return
        starts = [0, *stops[:-1]]
        sines, cosines = _anchor_rows(anchors[starts], self.encoder)
        swapped = self.rows(cosines, sines)
        for run, anchor in enumerate(self.rows(sines, cosines)):
            first = starts[run]
            rows = out[first : stops[run]]
            if anchors[first] == 0.0 and offsets[first] >= 0:
                self.place(rows, *_lead(self.encoder.table[offsets[first : stops[run]]]))
            else:
                self.turn(rows, anchor, swapped[run], int(offsets[first]))

    def turn(self, out: Array, anchor: Floats, swapped: Floats, low: int) -> None:
        """The rows from `low` after an anchor on: two mirrored ones from the same products."""
        high = low + len(out) - 1
        if low <= 0 <= high:
            out[-low] = anchor
        least = max(low, -high, 1)
        for chunk in range(least // self.step, max(high, -low) // self.step + 1):
            cosines, sines = self.offset_rows(chunk)
            base = chunk * self.step
            begin, end = max(least, base), min(max(high, -low) + 1, base + self.step)
            one, two = self.products[:, : end - begin]
            np.multiply(anchor, cosines[begin - base : end - base], out=one)
            np.multiply(swapped, sines[begin - base : end - base], out=two)
            # those k of begin ... end - 1 whose row low <= k <= high is there, or -k likewise
            first, stop = max(begin, low), min(end, high + 1)
            if first < stop:
                used = slice(first - begin, stop - begin)
                to = out[first - low : stop - low]
                np.add(one[used], two[used], out=to, casting=_CAST)
            first, stop = max(begin, -high), min(end, 1 - low)
            if first < stop:
                used = slice(first - begin, stop - begin)
                to = out[1 - stop - low : 1 - first - low][::-1]
                np.subtract(one[used], two[used], out=to, casting=_CAST)

    def offset_rows(self, chunk: int) -> tuple[Floats, Floats]:
        """What multiplies an anchor and its swap, for `step` offsets."""
        if chunk not in self.offsets:
            near = self.encoder.offsets[chunk * self.step : min((chunk + 1) * self.step, _NEAR)]
            sines, cosines = _lead(near)
            self.offsets[chunk] = self.rows(cosines, cosines), self.rows(sines, -sines)
        return self.offsets[chunk]

    def rows(self, sines: Floats, cosines: Floats) -> Floats:
        """Sines and cosines, each (m, n), in the order of the result, (m, 2 * n)."""
        rows = np.empty((len(sines), 2 * self.n))
        self.place(rows, sines, cosines)
        return rows

    def place(self, out: Array, sines: Floats, cosines: Floats) -> None:
        paired, n = self.encoder.paired, self.n
        first, second = (out[:, 0::2], out[:, 1::2]) if paired else (out[:, :n], out[:, n:])
        first[...] = sines
        second[...] = cosines


def _anchors_of(positions: Floats) -> Floats:
    """The position that each row is turned from: see anchor_of in _rows.pxi."""
    size = np.abs(positions)
    whole = np.floor(size)
    anchors = np.copysign(np.floor((whole + 31.0) / _NEAR) * _NEAR, positions)
    anchors[whole < _NEAR] = 0.0
    return np.where(size == whole, anchors, positions)


def _anchor_rows(anchors: Floats, encoder: Encoder) -> Floats:
    """Sines and cosines of anchors, shape (2, len(anchors), n), from the table where it has them."""
    farthest = _NEAR * (len(encoder.table) - _NEAR)
    known = (anchors == 0.0) | (
        (anchors >= _NEAR) & (anchors <= farthest) & (anchors % _NEAR == 0.0)
    )
    rows = np.empty((len(anchors), 2, encoder.turns.shape[1]))
    if known.any():
        index = (anchors[known] // _NEAR).astype(np.intp)
        rows[known] = encoder.table[np.where(index > 0, index + _NEAR - 1, 0)]
    if not known.all():
        direct = _direct(anchors[~known], encoder.turns)
        if encoder.amplitude != 1.0:
            direct *= encoder.amplitude
        rows[~known] = direct[:, ::-1] if encoder.cos_first else direct
    return _lead(rows)


def _lead(rows: Floats) -> Floats:
    """Sines and cosines in front: (m, 2, n) as (2, m, n)."""
    return rows.swapaxes(0, 1)


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
