"""The compiled kernels in NumPy: the fallback where nothing is compiled, and a second opinion.

The same IEEE operations in the same order, so the same bits; the Cython sources say why each is
there, and _core.pyi what every kernel does.
"""

import functools
import itertools
import math
import operator
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

# The rows of sines and of cosines, of two rows for a position.
_SINES_COSINES: Final = np.array([[0], [1]])

_CACHE_LINE: Final = 64
# Pairs of a tile of rows, of batch entries or scattered rows that are computed at once, and of one
# evaluation or product: so many that the overhead of NumPy's calls is small, so few that the caches hold them.
_TILE_PAIRS: Final = 1 << 16
_BOX_PAIRS: Final = 1 << 14
_PRODUCT_PAIRS: Final = 1 << 13
# Values of consecutive rows, on average, from which these are computed by runs; a few stretches of
# them are in any case.
_STRETCH_SIZE: Final = 1 << 12
_FEW_STRETCHES: Final = 3


def _silent(kernel: Callable[P, None]) -> Callable[P, None]:
    """Like the compiled kernels, signal nothing, whatever the caller's errstate is."""

    @functools.wraps(kernel)
    def silent(*args: P.args, **kwargs: P.kwargs) -> None:
        with np.errstate(all="ignore"):
            kernel(*args, **kwargs)

    return silent


def _decline(*arguments: object) -> None:
    """There is no short way: compared with NumPy's own calls, the checks in Python cost little."""


try_fill = try_table = try_encode = try_add = try_embed = try_rotate = _decline


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
    maker, row_format = RowMaker(plan), FORMATS[out.dtype]
    made_in = np.dtype(np.float64) if row_format.widens else out.dtype
    in_place = made_in == out.dtype and out.shape[-1] == 2 * maker.n
    for part in _walk(out, first, stop, maker.n, start, positions):
        to = out[part.at]
        if not part.repeats:
            at = part.positions(start, positions)
            if in_place and to.ndim == 2:
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
    maker, dtype = RowMaker(plan), FORMATS[out.dtype].accumulation
    for part in _walk(out, first, stop, maker.n, start, positions):
        if not part.repeats:
            rows = maker.rows(part.positions(start, positions), out.shape[-1], dtype)
        _scale_and_add(part, out, x, ids, mask, rows, scale)


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
    row_format = FORMATS[out.dtype]
    for part in _walk(out, first, stop, out.shape[-1], 0.0, positions):
        if not part.repeats:
            at = part.positions(start, positions)
            own = table[at.start : at.stop] if isinstance(at, range) else table[at]
            rows = _widened(own, row_format)
        _scale_and_add(part, out, x, ids, mask, rows, scale)


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
    n, positions = maker.n, _of_one_shape(positions)
    columns_a, columns_b = _pair_columns(n, interleaved)
    for part in _walk(out, first, stop, n, start, *positions):
        if not part.repeats:
            of_axes = [part.positions(start, each) for each in positions or (None,)]
            rows = maker.rows(of_axes, x_format.accumulation)
            sines, cosines = rows[..., :n], rows[..., n:]
            if inverse:
                np.negative(sines, out=sines)
        to, source = out[part.at], x[part.at]
        a, b = (_widened(source[..., columns], x_format) for columns in (columns_a, columns_b))
        rotated_a, rotated_b = a * cosines - b * sines, b * cosines + a * sines
        to[..., columns_a] = _rounded(rotated_a, x_format)
        to[..., columns_b] = _rounded(rotated_b, x_format)
        to[..., 2 * n :] = source[..., 2 * n :]


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
    n, positions = maker.n, _of_one_shape(positions)
    for part in _walk(sines, first, stop, n, start, *positions):
        if not part.repeats:
            of_axes = [part.positions(start, each) for each in positions or (None,)]
            rows = _rounded(maker.rows(of_axes, np.dtype(np.float64)), row_format)
        for columns in _pair_columns(n, interleaved):
            sines[part.at][..., columns] = rows[..., :n]
            cosines[part.at][..., columns] = rows[..., n:]


def concatenate(out: Array, parts: tuple[tuple[int, Array], ...], stream: bool) -> None:
    first = 0
    for axis, rows in parts:
        others = [1] * (out.ndim - 2 - axis)
        columns = rows.shape[1]
        out[..., first : first + columns] = rows.reshape(len(rows), *others, columns)
        first += columns


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
    """Rows of one batch entry, as many as a tile has, or the same rows of several entries.

    Attributes
    ----------
    at : tuple
        Index of the batch entries, of slices and integers, and at the end the slice of their rows.
    repeats : bool
        Whether the part before this one has the same positions.
    """

    at: tuple[Any, ...]
    repeats: bool

    def of(self, values: Array) -> Array:
        """What is given for rows, for these: it broadcasts to them, and no axis before it is 1."""
        *leading, rows = self.at[-values.ndim :]
        index: list[Any] = []
        for each, size in zip(leading, values.shape, strict=False):
            repeated = slice(None) if isinstance(each, slice) and slice in map(type, index) else 0
            index.append(each if size > 1 else repeated)
        part: Array = values[(*index, rows)]
        return part

    def positions(self, start: float, positions: Array | None) -> Array | range:
        """The positions of the rows: those given, else consecutive ones from `start` on."""
        if positions is not None:
            return self.of(positions)
        first, rows = int(start), self.at[-1]
        return range(first + rows.start, first + rows.stop)


def _walk(
    out: Array, first: int, stop: int, n: int, start: float, *positions: Array | None
) -> Iterator[_Part]:
    """Rows [first, stop) of the walk over ``out``, in parts; `positions` broadcast to its rows.

    All batch entries of a tile come one after another, so that those that share positions can share
    its rows.
    """
    *leading, length = out.shape[:-1]
    given = [each.shape[-2::-1] for each in positions if each is not None]
    # The axes along which positions differ; the last one is -1.
    differ = [~axis for shape in given for axis, size in enumerate(shape) if size > 1]
    for entries, rows in _rectangles(math.prod(leading), length, first, stop):
        for tile in _row_blocks(rows, n, start):
            most = max(1, _BOX_PAIRS // (n * (tile.stop - tile.start)))
            previous = None
            for box in _boxes(entries.start, entries.stop, leading, most):
                current = [box[axis] for axis in differ]
                yield _Part((*box, tile), current == previous)
                previous = current


def _boxes(first: int, stop: int, leading: Sequence[int], most: int) -> Iterator[tuple[Any, ...]]:
    """Indices of batch entries [first, stop), counted in C order, of at most so many at once."""
    if not leading:
        yield ()
        return
    inner = math.prod(leading[1:])
    while first < stop:
        index, skipped = divmod(first, inner)
        count = min((stop - first) // inner, most // inner)
        if count and not skipped:
            of_axis = slice(index, index + count) if count > 1 else index
            yield (of_axis, *(slice(None) if size > 1 else 0 for size in leading[1:]))
            first += count * inner
        else:
            end = min(stop - index * inner, inner)
            for box in _boxes(skipped, end, leading[1:], most):
                yield (index, *box)
            first = index * inner + end


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


def _of_one_shape(positions: tuple[Floats, ...]) -> tuple[Floats, ...]:
    """Positions of several axes with one shape."""
    return positions if len(positions) < 2 else tuple(np.broadcast_arrays(*positions))


def _scale_and_add(
    part: _Part,
    out: Array,
    x: Array,
    ids: Indices | None,
    mask: Mask | None,
    rows: Array,
    scale: float,
) -> None:
    """``x * scale + rows`` for a part of ``out``; ``x * scale`` where the mask is False."""
    to, row_format = out[part.at], FORMATS[out.dtype]
    source = _widened(x[part.at] if ids is None else x[part.of(ids)], row_format)
    factor = source.dtype.type(scale)
    result = to if to.dtype == source.dtype else np.empty(to.shape, source.dtype)
    if mask is not None:
        np.multiply(source, factor, out=result)
        np.add(result, rows, out=result, where=part.of(mask)[..., np.newaxis])
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

    def rows(self, positions: Sequence[Floats | range], dtype: np.dtype[Any]) -> Array:
        """The rows, rounded once to `dtype`; `positions` has an item for each plan.

        They are valid until the next call.
        """
        rows = None
        for axis, pairs, maker in self.axes:
            of_axis = maker.rows(positions[axis], 2 * maker.n, dtype)
            if pairs is None:  # the axis rotates all of them
                return of_axis
            if rows is None:
                rows = np.empty((*of_axis.shape[:-1], 2 * self.n), dtype)
            rows[..., pairs] = of_axis[..., : maker.n]
            rows[..., self.n + pairs] = of_axis[..., maker.n :]
        assert rows is not None
        return rows


class RowMaker:
    """Rows of a plan, and scratch of one call to make them in.

    "Sines" are cosines and the other way round if the plan has cosines first.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.n = plan.quarter_turns.shape[1]
        self.columns = _pair_columns(self.n, plan.interleaved)
        self.step = max(1, _PRODUCT_PAIRS // self.n)
        # Memory to hold on to: to get it anew, and clear, costs more than the products in it.
        self.products = np.empty(0)
        self.scratch: Array | None = None

    def rows(self, positions: Floats | range, width: int, dtype: np.dtype[Any]) -> Array:
        """The rows of `positions` (...), valid until the next call: (..., width) of `dtype`.

        Of an odd width the last cosine is left out, or a column of zeros is added.
        """
        shape = (len(positions),) if isinstance(positions, range) else positions.shape
        count = math.prod(shape)
        if self.scratch is None or len(self.scratch) < count:
            self.scratch = np.empty((count, max(width, 2 * self.n)), dtype)
            self.scratch[:, 2 * self.n :] = 0.0
        rows = self.scratch[:count]
        at = positions if isinstance(positions, range) else positions.reshape(-1)
        self.write(rows[:, : 2 * self.n], at)
        return rows[:, :width].reshape(*shape, width)

    def write(self, out: Array, positions: Floats | range) -> None:
        """The rows of `positions` (length,) into `out` (length, 2 * n)."""
        if isinstance(positions, range):
            stretches = [positions]
        else:
            stretches = _stretches_of(positions, _FEW_STRETCHES + out.size // _STRETCH_SIZE)
            if not stretches:
                step = max(1, _BOX_PAIRS // self.n)
                for block in range(0, len(out), step):
                    part = slice(block, block + step)
                    self.write_by_row(out[part], positions[part])
                return
        runs = [run for stretch in stretches for run in _runs_of(stretch)]
        anchors = self.anchor_rows([run.anchor for run in runs])
        row = done = 0
        for (at_zero, low, length), group in itertools.groupby(runs, _Run.kind):
            count = len(list(group))
            rows = out[row : row + count * length].reshape(count, length, -1)
            if at_zero and low >= 0:
                self.store(rows, *_sines_first(self.plan.table[low : low + length]))
            else:
                self.add_angles(rows, anchors[:, done : done + count], low)
            row, done = row + count * length, done + count

    def write_by_row(self, out: Array, positions: Floats) -> None:
        """Rows whose positions have no order, each from its own origin."""
        origins = _origins_of(positions)
        offsets = (positions - origins).astype(np.intp)
        rows = _origin_rows(origins, self.plan)
        still = offsets == 0
        if not still.all():
            sines, cosines = _rows_at(np.abs(offsets), self.plan.offsets)
            sines *= np.sign(offsets)[:, np.newaxis]
            one, two = rows * cosines, rows[::-1] * sines
            one[0] += two[0]
            one[1] -= two[1]
            one[:, still] = rows[:, still]  # to add 0.0 would lose the sign of -0.0
            rows = one
        self.store(out, *rows)

    def anchor_rows(self, anchors: list[int]) -> Floats:
        """The rows of anchors, (2, len(anchors), n)."""
        index = anchors[0] // ANCHOR_SPACING + ANCHOR_SPACING - 1
        if len(anchors) == 1 and ANCHOR_SPACING <= index < len(self.plan.table):
            # one token, for which the search takes long
            return _sines_first(self.plan.table[index : index + 1])
        return _origin_rows(np.array(anchors, np.float64), self.plan)

    def add_angles(self, out: Array, anchors: Floats, low: int) -> None:
        """Rows from offset `low` after an anchor on: `out` (m, length, 2 * n), `anchors` (2, m, n).

        Offsets k and -k share their products: ``sin(a ± k) = sin a cos k ± cos a sin k`` and
        ``cos(a ± k) = cos a cos k ∓ sin a sin k``.
        """
        high = low + out.shape[1] - 1
        if low <= 0 <= high:
            self.store(out[:, -low], *anchors)
        least, most = max(low, -high, 1), max(high, -low)
        at_once = max(1, self.step // max(1, most + 1 - least))
        for at in range(0, len(out), at_once):
            rows, of = out[at : at + at_once], anchors[:, at : at + at_once, np.newaxis]
            for begin in range(least, most + 1, self.step):
                end = min(begin + self.step, most + 1)
                sines, cosines = _sines_first(self.plan.offsets[begin:end])
                one, two = products = self.room((2, 2, len(rows), end - begin, self.n))
                np.multiply(of, cosines, out=one)
                np.multiply(of[::-1], sines, out=two)
                # Of offsets begin ... end - 1, those in low ... high, and so of the negative ones.
                first, stop = max(begin, low), min(end, high + 1)
                if first < stop:
                    used = products[..., first - begin : stop - begin, :]
                    self.combine(rows[:, first - low : stop - low], np.add, np.subtract, *used)
                first, stop = max(begin, -high), min(end, 1 - low)
                if first < stop:
                    used = products[..., first - begin : stop - begin, :]
                    mirrored = rows[:, 1 - stop - low : 1 - first - low][:, ::-1]
                    self.combine(mirrored, np.subtract, np.add, *used)

    def combine(
        self, out: Array, sine: np.ufunc, cosine: np.ufunc, one: Floats, two: Floats
    ) -> None:
        """Sines of two products by one operation, cosines by the other."""
        first, second = self.columns
        sine(one[0], two[0], out=out[..., first], casting=_CAST)
        cosine(one[1], two[1], out=out[..., second], casting=_CAST)

    def room(self, shape: tuple[int, ...]) -> Floats:
        """Memory of the call's own, uninitialised."""
        size = math.prod(shape)
        if self.products.size < size:
            self.products = np.empty(size)
        return self.products[:size].reshape(shape)

    def store(self, out: Array, sines: Floats, cosines: Floats) -> None:
        """Sines and cosines, each (..., n), into the columns that the plan says."""
        first, second = self.columns
        out[..., first] = sines
        out[..., second] = cosines


class _Run(NamedTuple):
    """Consecutive positions over one anchor: `low`, low + 1, ... from it."""

    anchor: int
    low: int
    length: int

    def kind(self) -> tuple[bool, int, int]:
        """Runs next to each other that have this in common are computed together."""
        return self.anchor == 0, self.low, self.length


def _runs_of(positions: range) -> Iterator[_Run]:
    """The runs of consecutive positions.

    The anchor is 0 below 64 in magnitude, else the nearest multiple of 64, of two the one nearer to
    0. Negative positions over anchor 0 are a run of their own.
    """
    half = ANCHOR_SPACING // 2
    first = positions.start
    while first < positions.stop:
        size = abs(first)
        nearest = (size + half - 1) // ANCHOR_SPACING * ANCHOR_SPACING
        if size < ANCHOR_SPACING:
            anchor, stop = 0, ANCHOR_SPACING if first >= 0 else 0
        elif first > 0:
            anchor, stop = nearest, nearest + half + 1
        else:
            anchor, stop = -nearest, min(half - nearest, 1 - ANCHOR_SPACING)
        stop = min(stop, positions.stop)
        yield _Run(anchor, first - anchor, stop - first)
        first = stop


def _stretches_of(positions: Floats, most: int) -> list[range]:
    """Consecutive positions as ranges; none where they are more, or where one has a fraction."""
    if len(positions) == 1:  # one token, for which the search takes long
        (position,) = positions.tolist()
        return [range(int(position), int(position) + 1)] if position.is_integer() else []
    breaks = np.flatnonzero(positions[1:] - positions[:-1] != 1.0) + 1
    if len(breaks) >= most or (positions != np.floor(positions)).any():
        return []
    begins = [0, *breaks.tolist()]
    firsts = map(int, positions[begins].tolist())
    counts = map(operator.sub, [*begins[1:], len(positions)], begins)
    return [range(first, first + count) for first, count in zip(firsts, counts, strict=True)]


def _origins_of(positions: Floats) -> Floats:
    """The position from whose row each row is made.

    A row of the table, and of a fractional position, is its own; others have their anchor.
    """
    size = np.abs(positions)
    integral = np.floor(size)
    rounded = np.floor((integral + (ANCHOR_SPACING // 2 - 1)) / ANCHOR_SPACING) * ANCHOR_SPACING
    anchors = np.copysign(rounded, positions)
    anchors[integral < ANCHOR_SPACING] = 0.0
    own = (size != integral) | ((positions >= 0.0) & (positions < ANCHOR_SPACING))
    return np.where(own, positions, anchors)


def _origin_rows(origins: Floats, plan: Plan) -> Floats:
    """Sines and cosines of origins, shape (2, len(origins), n), from the table where it has them."""
    last = ANCHOR_SPACING * (len(plan.table) - ANCHOR_SPACING)
    known = (origins >= 0.0) & (origins <= last) & (origins == np.floor(origins))
    anchors = origins // ANCHOR_SPACING + (ANCHOR_SPACING - 1)
    indices = np.where(origins < ANCHOR_SPACING, origins, anchors).astype(np.intp)
    if known.all():
        return _rows_at(indices, plan.table)
    distinct, which = np.unique(origins[~known], return_inverse=True)
    table = _evaluated(distinct, plan)
    if known.any():
        indices[known] += len(table)
        table = np.concatenate([table, plan.table])
    indices[~known] = which
    return _rows_at(indices, table)


def _rows_at(indices: npt.NDArray[np.intp], table: Floats) -> Floats:
    """Rows of a table, (m, 2, n), as sines and cosines: (2, len(indices), n)."""
    both: npt.NDArray[np.intp] = 2 * indices + _SINES_COSINES
    return table.reshape(-1, table.shape[2]).take(both, 0)


def _evaluated(positions: Floats, plan: Plan) -> Floats:
    """Sines and cosines of positions as the table has them, shape (len(positions), 2, n)."""
    rows = _sines_cosines(positions, plan.quarter_turns)
    if plan.amplitude != 1.0:
        rows *= plan.amplitude
    return rows[:, ::-1] if plan.cos_first else rows


def _sines_first(rows: Floats) -> Floats:
    """Sines and cosines as two arrays: (m, 2, n) as (2, m, n)."""
    return rows.swapaxes(0, 1)


def _sines_cosines(positions: Floats, quarter_turns: Floats) -> Floats:
    """Sines and cosines of positions at every frequency, shape (len(positions), 2, n)."""
    rows = np.empty((len(positions), 2, quarter_turns.shape[1]))
    step = max(1, _PRODUCT_PAIRS // quarter_turns.shape[1])
    for first in range(0, len(positions), step):
        part = slice(first, first + step)
        _evaluate(rows[part], positions[part], quarter_turns)
    return rows


def _evaluate(rows: Floats, positions: Floats, quarter_turns: Floats) -> None:
    """The same into `rows`, so few that the caches hold them."""
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
    rows[:, 0] = np.where(odd == 1.0, quadrant * c, sign * s)
    rows[:, 1] = np.where(odd == 1.0, -quadrant * s, sign * c)


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
