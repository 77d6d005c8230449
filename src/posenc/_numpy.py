"""The compiled kernels in NumPy: the fallback where nothing is compiled, and a second opinion.

The same IEEE operations in the same order, so the same bits; the Cython sources say why each is
there, and _core.pyi what every kernel does.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, ParamSpec, TypeAlias

import numpy as np
import numpy.typing as npt

from ._formats import FORMATS, Format
from ._plan import ANCHOR_SPACING, Plan

Floats: TypeAlias = npt.NDArray[np.float64]
Array: TypeAlias = npt.NDArray[Any]
Indices: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
AxisPlan: TypeAlias = tuple[Indices | None, Plan]
P = ParamSpec("P")

# From float64 to float32, entry by entry.
_CAST: Final = "same_kind"

# Added and subtracted again, they leave a multiple of 1 and of 4.
_ROUND: Final = 6755399441055744.0  # 1.5 * 2^52
_ROUND_4: Final = 27021597764222976.0  # 1.5 * 2^54
_SPLIT: Final = 134217729.0  # 2^27 + 1, of Veltkamp's split
# pi / 2: the nearest double, the two parts of its Veltkamp split, and what the double leaves out.
_HALF_PI: Final = 1.5707963267948966
_HALF_PI_SPLIT: Final = (1.5707963407039642, -1.3909067675399456e-08)
_HALF_PI_LOW: Final = 6.123233995736766e-17
# Minimax polynomials on [-pi / 4, pi / 4].
_SINE: Final = (
    -0.1666666666666663,
    0.008333333333322118,
    -0.00019841269829589558,
    2.7557313621391203e-06,
    -2.5050747763583287e-08,
    1.5896230192794875e-10,
)
_COSINE: Final = (
    0.0416666666666666,
    -0.0013888888888874138,
    2.4801587289491827e-05,
    -2.7557314355240523e-07,
    2.0875723684190937e-09,
    -1.135966985291976e-11,
)

_CACHE_LINE: Final = 64
# Pairs of a tile of rows, and values of one product: so many that the overhead of NumPy's calls is
# small, so few that the caches hold them.
_TILE_PAIRS: Final = 1 << 16
_PRODUCT_SIZE: Final = 1 << 14
# Bytes of offsets that are kept in the order of the output.
_OFFSETS_BYTES: Final = 1 << 22
# Values of a run of rows over one anchor, on average, from which runs are computed one by one.
_RUN_SIZE: Final = 1 << 12


def _silent(kernel: Callable[P, None]) -> Callable[P, None]:
    """Like the compiled kernels, signal nothing, whatever the caller's errstate is."""

    @functools.wraps(kernel)
    def silent(*args: P.args, **kwargs: P.kwargs) -> None:
        with np.errstate(all="ignore"):
            kernel(*args, **kwargs)

    return silent


def try_add_small(*arguments: object) -> bool:
    """Never: compared with NumPy's own calls, the checks in Python cost little."""
    return False


def aligned_array(
    buffer: npt.NDArray[np.uint8], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Array:
    first = -buffer.__array_interface__["data"][0] % _CACHE_LINE
    size = math.prod(shape) * dtype.itemsize
    return buffer[first : first + size].view(dtype).reshape(shape)


@_silent
def make_table(table: Floats, quarter_turns: Floats, max_anchor_position: float) -> None:
    quarter_turns[1], quarter_turns[2] = _veltkamp_split(quarter_turns[0])
    anchors = ANCHOR_SPACING * np.arange(1.0, len(table) - ANCHOR_SPACING + 1)
    positions = np.concatenate([np.arange(float(ANCHOR_SPACING)), anchors])
    positions = np.minimum(positions, max_anchor_position)
    for rows in _row_blocks(slice(0, len(table)), quarter_turns.shape[1]):
        table[rows] = _sines_cosines(positions[rows], quarter_turns)


@_silent
def fill(
    out: Array,
    start: float,
    positions: Floats | None,
    plan: Plan,
    stream: bool,
    first: int,
    stop: int,
) -> None:
    (positions,) = _broadcast_any(out, positions)
    maker, row_format = RowMaker(plan), FORMATS[out.dtype]
    made_in = np.dtype(np.float64) if row_format.widens else out.dtype
    in_place = made_in == out.dtype and out.shape[-1] == 2 * maker.n
    for part in _walk(out, first, stop, maker.n, start, positions):
        to = out[part.at]
        if not part.repeats:
            at = part.positions(start, positions)
            if in_place:
                rows = to
                maker.write(rows, at)
            else:
                rows = _rounded(maker.rows(at, out.shape[-1], made_in), row_format)
        if rows is not to:
            to[...] = rows


@_silent
def add(
    out: Array,
    x: Array,
    ids: Indices | None,
    start: float,
    positions: Floats | None,
    mask: Mask | None,
    plan: Plan,
    scale: float,
    stream: bool,
    first: int,
    stop: int,
) -> None:
    ids, positions, mask = _broadcast_any(out, ids, positions, mask)
    maker, dtype = RowMaker(plan), FORMATS[out.dtype].accumulation
    for part in _walk(out, first, stop, maker.n, start, positions):
        if not part.repeats:
            rows = maker.rows(part.positions(start, positions), out.shape[-1], dtype)
        _scale_and_add(part.at, out, x, ids, mask, rows, scale)


@_silent
def gather_add(
    out: Array,
    x: Array,
    ids: Indices | None,
    start: float,
    positions: Indices | None,
    mask: Mask | None,
    table: Array,
    scale: float,
    stream: bool,
    first: int,
    stop: int,
) -> None:
    ids, positions, mask = _broadcast_any(out, ids, positions, mask)
    row_format = FORMATS[out.dtype]
    for part in _walk(out, first, stop, out.shape[-1], 0.0, positions):
        if not part.repeats:
            rows_of_table = part.positions(start, positions).astype(np.intp)
            rows = _widened(table[rows_of_table], row_format)
        _scale_and_add(part.at, out, x, ids, mask, rows, scale)


@_silent
def rotate(
    out: Array,
    x: Array,
    start: float,
    positions: tuple[Floats, ...],
    plans: tuple[AxisPlan, ...],
    interleaved: bool,
    inverse: bool,
    stream: bool,
    first: int,
    stop: int,
) -> None:
    maker, x_format = TableMaker(plans), FORMATS[out.dtype]
    n, positions = maker.n, tuple(_broadcast(each, out) for each in positions)
    columns_a, columns_b = _pair_columns(n, interleaved)
    for part in _walk(out, first, stop, n, start, *positions):
        if not part.repeats:
            of_axes = [part.positions(start, each) for each in positions or (None,)]
            rows = maker.rows(of_axes, x_format.accumulation)
            sines, cosines = rows[:, :n], rows[:, n:]
            if inverse:
                np.negative(sines, out=sines)
        to, source = out[part.at], x[part.at]
        a, b = (_widened(source[:, columns], x_format) for columns in (columns_a, columns_b))
        rotated_a, rotated_b = a * cosines - b * sines, b * cosines + a * sines
        to[:, columns_a] = _rounded(rotated_a, x_format)
        to[:, columns_b] = _rounded(rotated_b, x_format)
        to[:, 2 * n :] = source[:, 2 * n :]


@_silent
def tables(
    cosines: Array,
    sines: Array,
    start: float,
    positions: tuple[Floats, ...],
    plans: tuple[AxisPlan, ...],
    interleaved: bool,
    first: int,
    stop: int,
) -> None:
    maker, row_format = TableMaker(plans), FORMATS[sines.dtype]
    n, positions = maker.n, tuple(_broadcast(each, sines) for each in positions)
    for part in _walk(sines, first, stop, n, start, *positions):
        if not part.repeats:
            of_axes = [part.positions(start, each) for each in positions or (None,)]
            rows = _rounded(maker.rows(of_axes, np.dtype(np.float64)), row_format)
        for columns in _pair_columns(n, interleaved):
            sines[part.at][:, columns] = rows[:, :n]
            cosines[part.at][:, columns] = rows[:, n:]


def count_within(out: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> None:
    begins = np.repeat(np.cumsum(lengths) - lengths, lengths)
    np.subtract(np.arange(len(out)), begins, out=out)


def count_segments(out: npt.NDArray[np.int64], begins: npt.NDArray[np.bool_]) -> None:
    if not out.size:  # else a row of any length
        return
    index = np.arange(out.shape[-1])
    np.maximum.accumulate(np.where(begins, index, 0), axis=-1, out=out)
    np.subtract(index, out, out=out)


def count_kept(
    out: npt.NDArray[np.int64], keep: npt.NDArray[np.bool_], base: int, pad: int
) -> None:
    np.cumsum(keep, axis=-1, out=out)
    # A product, as an index would be slow where padding is scattered.
    out += base - pad
    out *= keep
    out += pad


class _Part(NamedTuple):
    """Rows of one batch entry, as many as a tile has.

    Attributes
    ----------
    at : tuple
        Index of the batch entry, and at the end the slice of its rows.
    repeats : bool
        Whether the part before this one has the same positions.
    """

    at: tuple[Any, ...]
    repeats: bool

    def positions(self, start: float, positions: Array | None) -> Array:
        """The positions of the rows: those given, else consecutive ones from `start` on."""
        if positions is not None:
            given: Array = positions[self.at]
            return given
        rows = self.at[-1]
        return start + np.arange(rows.start, rows.stop)


def _walk(
    out: Array, first: int, stop: int, n: int, start: float, *positions: Array | None
) -> Iterator[_Part]:
    """Rows [first, stop) of the walk over ``out``, in parts; `positions` have the shape of its rows.

    All batch entries of a tile come one after another, so that those that share positions can share
    its rows.
    """
    *leading, length = out.shape[:-1]
    given = [each for each in positions if each is not None]
    # The axes along which positions differ: a broadcast axis has stride 0.
    differ = [axis for axis in range(len(leading)) if any(each.strides[axis] for each in given)]
    for entries, rows in _rectangles(math.prod(leading), length, first, stop):
        for tile in _row_blocks(rows, n, start):
            previous = None
            for entry in range(entries.start, entries.stop):
                index = _index_of(entry, leading)
                current = [index[axis] for axis in differ]
                yield _Part((*index, tile), current == previous)
                previous = current


def _index_of(entry: int, leading: Sequence[int]) -> tuple[int, ...]:
    """The index of a batch entry, counted in C order over the leading axes."""
    index = []
    for size in reversed(leading):
        entry, last = divmod(entry, size)
        index.append(last)
    return tuple(reversed(index))


def _rectangles(entries: int, length: int, first: int, stop: int) -> Iterator[tuple[slice, slice]]:
    """Rows [first, stop) of the walk as rectangles: batch entries, and rows of each of them.

    The walk goes block by block of `ANCHOR_SPACING` rows, in a block entry by entry, and in an entry
    row by row. Whole blocks next to each other are one rectangle, as are whole entries of a block.
    """
    total = entries * length
    while first < stop:
        row = first // (ANCHOR_SPACING * entries) * ANCHOR_SPACING
        height = min(ANCHOR_SPACING, length - row)
        begin, end = row * entries, (row + height) * entries
        if first == begin and stop >= end:
            last = length if stop == total else stop // (ANCHOR_SPACING * entries) * ANCHOR_SPACING
            yield slice(0, entries), slice(row, last)
            first = last * entries
            continue
        entry, skipped = divmod(first - begin, height)
        whole = 0 if skipped else (min(stop, end) - first) // height
        if whole:
            yield slice(entry, entry + whole), slice(row, row + height)
            first += whole * height
        else:
            count = min(height - skipped, stop - first)
            yield slice(entry, entry + 1), slice(row + skipped, row + skipped + count)
            first += count


def _row_blocks(rows: slice, n: int, start: float = 0.0) -> Iterator[slice]:
    """Rows in tiles of at most `_TILE_PAIRS` pairs, if they have more than one row.

    Where so many fit in, tiles end where the anchor changes: `start` is the position of row 0.
    """
    step = max(1, _TILE_PAIRS // n)
    first, stop = rows.start, rows.start + step
    if step >= ANCHOR_SPACING:
        step -= step % ANCHOR_SPACING
        # Position 33 is the first whose nearest anchor is 64.
        beyond = int((ANCHOR_SPACING // 2 + 1 - start - first) % ANCHOR_SPACING)
        stop = first + beyond + step - (ANCHOR_SPACING if beyond else 0)
    while first < rows.stop:
        yield slice(first, min(stop, rows.stop))
        first, stop = stop, stop + step


def _broadcast(values: Array, out: Array) -> Array:
    """What is given for rows, for all rows of ``out``: along repeated axes the stride is 0."""
    return np.broadcast_to(values, out.shape[:-1])


def _broadcast_any(out: Array, *given: Array | None) -> Iterator[Array | None]:
    """The same of arrays that may be None, and stay so."""
    for values in given:
        yield None if values is None else _broadcast(values, out)


def _scale_and_add(
    at: tuple[Any, ...],
    out: Array,
    x: Array,
    ids: Indices | None,
    mask: Mask | None,
    rows: Array,
    scale: float,
) -> None:
    """``x * scale + rows`` for a part of ``out``; ``x * scale`` where the mask is False."""
    to, row_format = out[at], FORMATS[out.dtype]
    source = _widened(x[at] if ids is None else x[ids[at]], row_format)
    factor = source.dtype.type(scale)
    result = to if to.dtype == source.dtype else np.empty(to.shape, source.dtype)
    if mask is not None:
        np.multiply(source, factor, out=result)
        np.add(result, rows, out=result, where=mask[at][:, np.newaxis])
    elif factor == 1:
        np.add(source, rows, out=result)
    else:
        np.multiply(source, factor, out=result)
        np.add(result, rows, out=result)
    if result is not to:
        to[...] = _rounded(result, row_format)


def _pair_columns(n: int, interleaved: bool) -> tuple[slice, slice]:
    """The columns of the first and of the second members of n pairs."""
    if interleaved:
        return slice(0, 2 * n, 2), slice(1, 2 * n, 2)
    return slice(0, n), slice(n, 2 * n)


def _widened(values: Array, of: Format) -> Array:
    """The values of a format in what it is computed with: of bfloat16's bits, float32."""
    if of.kernel_dtype == np.uint16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(of.accumulation, copy=False)


def _rounded(values: Array, to: Format) -> Array:
    """Values of float64 or float32, rounded once to the format: to nearest, ties to even.

    Those of float64 are rounded to the digits of a 16-bit format first, and are exact in float32
    then: NumPy's own conversion of float64 rounds some subnormal float16 wrongly.
    """
    if not to.widens:
        return values.astype(to.kernel_dtype, copy=False)
    if values.dtype == np.float64:
        power = (values.view(np.uint64) & np.uint64(0x7FF << 52)).view(np.float64)
        # The sum with 1.5 * 2^52 units in the last place has just the digits that are to stay.
        round_bias = np.clip(power, to.least, 2.0**200) * 1.5 * 2.0 ** (53 - to.digits)
        values = np.copysign((values + round_bias) - round_bias, values).astype(np.float32)
    if to.kernel_dtype == np.uint16:  # bfloat16 is the upper half of float32
        bits = values.view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return values.astype(to.kernel_dtype)


class TableMaker:
    """Rows of sines, then cosines, of pairs that one or several positions rotate, for one call."""

    def __init__(self, plans: Sequence[AxisPlan]) -> None:
        # An axis of positions need not rotate any pair.
        self.axes = [
            (axis, pairs, RowMaker(plan))
            for axis, (pairs, plan) in enumerate(plans)
            if plan.quarter_turns.size
        ]
        self.n = sum(maker.n for _, _, maker in self.axes)

    def rows(self, positions: Sequence[Floats], dtype: np.dtype[Any]) -> Array:
        """The rows, rounded once to `dtype`; `positions` has an array for each plan.

        They are valid until the next call.
        """
        rows = None
        for axis, pairs, maker in self.axes:
            of_axis = maker.rows(positions[axis], 2 * maker.n, dtype)
            if pairs is None:  # the axis rotates all of them
                return of_axis
            if rows is None:
                rows = np.empty((len(of_axis), 2 * self.n), dtype)
            rows[:, pairs] = of_axis[:, : maker.n]
            rows[:, self.n + pairs] = of_axis[:, maker.n :]
        assert rows is not None
        return rows


class RowMaker:
    """Rows of a plan, and scratch of one call to make them in.

    "Sines" are cosines and the other way round if the plan has cosines first.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.n = plan.quarter_turns.shape[1]
        self.step = max(1, _PRODUCT_SIZE // (2 * self.n))
        self.keeps_offsets = ANCHOR_SPACING * 4 * self.n * 8 <= _OFFSETS_BYTES
        self.offsets: dict[int, tuple[Floats, Floats]] = {}
        # Memory to hold on to: to get it anew, and clear, costs more than the products in it.
        self.products = np.empty((2, self.step, 2 * self.n))
        self.scratch: Array | None = None

    def rows(self, positions: Floats, width: int, dtype: np.dtype[Any]) -> Array:
        """The rows of `positions`, valid until the next call: (length, width) of `dtype`.

        Of an odd width the last cosine is left out, or a column of zeros is added.
        """
        if self.scratch is None or len(self.scratch) < len(positions):
            self.scratch = np.empty((len(positions), max(width, 2 * self.n)), dtype)
            self.scratch[:, 2 * self.n :] = 0.0
        rows = self.scratch[: len(positions)]
        self.write(rows[:, : 2 * self.n], positions)
        return rows[:, :width]

    def write(self, out: Array, positions: Floats) -> None:
        """The rows of `positions` into `out` (length, 2 * n)."""
        anchors = _anchors_of(positions)
        offsets = (positions - anchors).astype(np.intp)
        if ((anchors == 0.0) & (offsets >= 0)).all():
            self.store(out, *_sines_first(self.plan.table[offsets]))
            return
        if not offsets.any():
            self.store(out, *_anchor_rows(anchors, self.plan))
            return
        changes = (np.diff(anchors) != 0.0) | (np.diff(offsets) != 1)
        stops = [*(np.flatnonzero(changes) + 1).tolist(), len(out)]
        if len(stops) * _RUN_SIZE > out.size:
            self.add_angles_by_row(out, anchors, offsets)
            return
        starts = [0, *stops[:-1]]
        sines, cosines = _anchor_rows(anchors[starts], self.plan)
        swapped = self.ordered(cosines, sines)
        for run, anchor in enumerate(self.ordered(sines, cosines)):
            first = starts[run]
            rows = out[first : stops[run]]
            if anchors[first] == 0.0 and offsets[first] >= 0:
                # Row 0 is (0, amplitude): angle addition gives the table's rows to the bit.
                self.store(rows, *_sines_first(self.plan.table[offsets[first : stops[run]]]))
            else:
                self.add_angles(rows, anchor, swapped[run], int(offsets[first]))

    def add_angles_by_row(self, out: Array, anchors: Floats, offsets: npt.NDArray[np.intp]) -> None:
        """Rows whose anchors and offsets have no order, by angle addition."""
        if len(anchors) == 1:  # one token, for which the search takes long
            sines, cosines = _anchor_rows(anchors, self.plan)
        else:
            distinct, which = np.unique(anchors, return_inverse=True)
            sines, cosines = _anchor_rows(distinct, self.plan)[:, which]
        u, v = _sines_first(self.plan.offsets[np.abs(offsets)])
        u = u * np.sign(offsets)[:, np.newaxis]
        product = self.ordered(sines, cosines) * self.ordered(v, v)
        np.add(product, self.ordered(cosines, sines) * self.ordered(u, -u), out=out, casting=_CAST)

    def add_angles(self, out: Array, anchor: Floats, swapped: Floats, low: int) -> None:
        """The rows from offset `low` after an anchor on, by angle addition.

        Offsets k and -k share their products: ``sin(a ± k) = sin a cos k ± cos a sin k`` and
        ``cos(a ± k) = cos a cos k ∓ sin a sin k``. `swapped` has sines and cosines exchanged.
        """
        high = low + len(out) - 1
        if low <= 0 <= high:
            out[-low] = anchor
        least = max(low, -high, 1)
        for chunk in range(least // self.step, max(high, -low) // self.step + 1):
            cosines, sines = self.offset_factors(chunk)
            base = chunk * self.step
            begin, end = max(least, base), min(max(high, -low) + 1, base + self.step)
            one, two = self.products[:, : end - begin]
            np.multiply(anchor, cosines[begin - base : end - base], out=one)
            np.multiply(swapped, sines[begin - base : end - base], out=two)
            # Of offsets begin ... end - 1, those that are in low ... high, and so of the negative.
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

    def offset_factors(self, chunk: int) -> tuple[Floats, Floats]:
        """What multiplies an anchor and its swapped row, for `step` offsets."""
        if chunk in self.offsets:
            return self.offsets[chunk]
        stop = min((chunk + 1) * self.step, ANCHOR_SPACING)
        sines, cosines = _sines_first(self.plan.offsets[chunk * self.step : stop])
        factors = self.ordered(cosines, cosines), self.ordered(sines, -sines)
        if self.keeps_offsets:
            self.offsets[chunk] = factors
        return factors

    def ordered(self, sines: Floats, cosines: Floats) -> Floats:
        """Sines and cosines, each (m, n), in the order of the output, (m, 2 * n)."""
        rows = np.empty((len(sines), 2 * self.n))
        self.store(rows, sines, cosines)
        return rows

    def store(self, out: Array, sines: Floats, cosines: Floats) -> None:
        """Sines and cosines, each (m, n), into the columns that the plan says."""
        first, second = _pair_columns(self.n, self.plan.interleaved)
        out[:, first] = sines
        out[:, second] = cosines


def _anchors_of(positions: Floats) -> Floats:
    """The position whose row each row is made from by angle addition.

    Of an integer it is 0 below 64 in magnitude, else the nearest multiple of 64, of two the one
    nearer to 0. A fractional position is its own anchor.
    """
    size = np.abs(positions)
    integral = np.floor(size)
    rounded = np.floor((integral + (ANCHOR_SPACING // 2 - 1)) / ANCHOR_SPACING) * ANCHOR_SPACING
    anchors = np.copysign(rounded, positions)
    anchors[integral < ANCHOR_SPACING] = 0.0
    return np.where(size == integral, anchors, positions)


def _anchor_rows(anchors: Floats, plan: Plan) -> Floats:
    """Sines and cosines of anchors, shape (2, len(anchors), n), from the table where it has them."""
    last = ANCHOR_SPACING * (len(plan.table) - ANCHOR_SPACING)
    known = (anchors == 0.0) | (
        (anchors >= ANCHOR_SPACING) & (anchors <= last) & (anchors % ANCHOR_SPACING == 0.0)
    )
    rows = np.empty((len(anchors), 2, plan.quarter_turns.shape[1]))
    if known.any():
        index = (anchors[known] // ANCHOR_SPACING).astype(np.intp)
        rows[known] = plan.table[np.where(index > 0, index + ANCHOR_SPACING - 1, 0)]
    if not known.all():
        computed = _sines_cosines(anchors[~known], plan.quarter_turns)
        if plan.amplitude != 1.0:
            computed *= plan.amplitude
        rows[~known] = computed[:, ::-1] if plan.cos_first else computed
    return _sines_first(rows)


def _sines_first(rows: Floats) -> Floats:
    """Sines and cosines as two arrays: (m, 2, n) as (2, m, n)."""
    return rows.swapaxes(0, 1)


def _sines_cosines(positions: Floats, quarter_turns: Floats) -> Floats:
    """Sines and cosines of positions at every frequency, shape (len(positions), 2, n)."""
    quadrant, high, low = _reduced(positions[:, np.newaxis], quarter_turns)
    angle = _HALF_PI * high
    angle_low = _product_error(_HALF_PI_SPLIT, _veltkamp_split(high), angle)
    angle_low += _HALF_PI * low + _HALF_PI_LOW * high
    z = angle * angle
    zz = z * z
    s = angle + (angle_low + (z * angle) * _polynomial(z, zz, _SINE))
    c = 1.0 - (0.5 * z - (zz * _polynomial(z, zz, _COSINE) - angle * angle_low))
    quadrant -= (quadrant + _ROUND_4) - _ROUND_4
    odd = np.abs(quadrant)
    sign = 1.0 - odd
    rows = np.empty((len(positions), 2, quarter_turns.shape[1]))
    rows[:, 0] = np.where(odd == 1.0, quadrant * c, sign * s)
    rows[:, 1] = np.where(odd == 1.0, -quadrant * s, sign * c)
    return rows


def _reduced(position: Floats, quarter_turns: Floats) -> tuple[Floats, Floats, Floats]:
    """Range reduction: quarter turns, and the rest of the angle as a double-double of them.

    Multiples of four are off the quarter turns already where the rest was large.
    """
    frequency, upper, lower, frequency_low = quarter_turns
    product = position * frequency
    tail = _product_error(_veltkamp_split(position), (upper, lower), product)
    tail += position * frequency_low
    rest = product - ((product + _ROUND_4) - _ROUND_4)
    quadrant = ((rest + tail) + _ROUND) - _ROUND
    rest -= quadrant
    high = rest + tail
    low = high - rest
    low = (rest - (high - low)) + (tail - low)
    return quadrant, high, low


def _veltkamp_split(values: Floats) -> tuple[Floats, Floats]:
    """The upper and the lower half of the significand of each value, as doubles."""
    scaled = _SPLIT * values
    upper = scaled - (scaled - values)
    return upper, values - upper


def _product_error(
    a: tuple[Floats | float, Floats | float], b: tuple[Floats, Floats], product: Floats
) -> Floats:
    """What a rounded product leaves out, by Dekker: of factors that are split."""
    (a_upper, a_lower), (b_upper, b_lower) = a, b
    error = (a_upper * b_upper - product) + a_upper * b_lower + a_lower * b_upper
    return error + a_lower * b_lower


def _polynomial(z: Floats, zz: Floats, k: tuple[float, ...]) -> Floats:
    """A polynomial in z by Estrin's scheme, with ``zz = z * z``."""
    return (k[0] + z * k[1]) + zz * ((k[2] + z * k[3]) + zz * (k[4] + z * k[5]))
