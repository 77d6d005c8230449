"""The kernels' walk: any range of rows of any array, in the order of _core.pyi, to the same bits."""

import itertools
from typing import Any, NamedTuple

import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings

from posenc import _backend, _numpy
from posenc._plan import ANCHOR_SPACING, Plan

Array = npt.NDArray[Any]
AxisPlan = tuple[Array | None, Plan]

# As the kernels see them: bfloat16 as its bits.
DTYPES = [np.dtype(t) for t in (np.float64, np.float32, np.float16, np.uint16)]
KERNELS = ["fill", "add", "embed", "gather_add", "gather_embed", "rotate", "tables"]
# Bytes of memory that nothing was written to.
UNTOUCHED = 0xA5


class Layout(NamedTuple):
    """How an array lies in memory: the order of its axes there, steps along them, columns between."""

    order: list[int]
    steps: list[int]
    padding: int


class Operands(NamedTuple):
    """What a kernel reads and writes; of `embed` x is a table."""

    outs: list[Array]
    x: Array | None = None
    ids: Array | None = None
    positions: tuple[Array, ...] = ()
    mask: Array | None = None


class Call(NamedTuple):
    """A kernel and what does not depend on the rows."""

    kernel: str
    plans: tuple[AxisPlan, ...]
    table: Array
    start: int
    scale: float
    interleaved: bool
    inverse: bool
    stream: bool

    def run(self, on: Operands, first: int, stop: int, kernels: Any = None) -> None:
        kernels = kernels or _backend.kernels
        where = on.positions[0] if on.positions else None
        start, plan = float(self.start), self.plans[0][1]
        if self.kernel == "fill":
            kernels.fill(on.outs[0], start, where, plan, self.stream, first, stop)
        elif self.kernel == "rotate":
            kernels.rotate(
                on.outs[0],
                on.x,
                start,
                on.positions,
                self.plans,
                self.interleaved,
                self.inverse,
                self.stream,
                first,
                stop,
            )
        elif self.kernel == "tables":
            kernels.tables(*on.outs, start, on.positions, self.plans, self.interleaved, first, stop)
        else:
            gathers = self.kernel.startswith("gather")
            (kernels.gather_add if gathers else kernels.add)(
                on.outs[0],
                on.x,
                on.ids,
                start,
                where,
                on.mask,
                self.table if gathers else plan,
                self.scale,
                self.stream,
                first,
                stop,
            )


def make_plan(
    n: int, interleaved: bool = False, cos_first: bool = False, amplitude: float = 1.0
) -> Plan:
    """A plan by the kernels of the backend, of frequencies whose tails are not 0."""
    turns = np.empty((4, n))
    turns[0] = 2 / np.pi * 10000.0 ** (-np.arange(n) / n)
    turns[3] = turns[0] * 2.0**-55
    rows = np.empty((96, 2, n))
    kernels: Any = _backend.kernels
    kernels.make_table(rows, turns, 2.0**53)
    table, offsets = rows * amplitude, rows
    if cos_first:
        table = np.ascontiguousarray(table[:, ::-1])
        offsets = rows[:ANCHOR_SPACING] * [[-1.0], [1.0]]
    return Plan(turns, table, offsets, 2.0**53 - 31, interleaved, cos_first, amplitude)


def select(plan: Plan, pairs: Array) -> Plan:
    turns, rows, offsets = (
        np.ascontiguousarray(each[..., pairs])
        for each in (plan.quarter_turns, plan.table, plan.offsets)
    )
    return plan._replace(quarter_turns=turns, table=rows, offsets=offsets)


def random(seed: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return stored(np.random.default_rng(seed).standard_normal(shape), dtype)


def stored(values: npt.ArrayLike, dtype: np.dtype[Any]) -> Array:
    """Values in a dtype as the kernels see it."""
    values = np.asarray(values)
    if dtype == np.uint16:
        return values.astype(ml_dtypes.bfloat16).view(np.uint16)
    return values.astype(dtype)


def laid_out(shape: tuple[int, ...], dtype: np.dtype[Any], layout: Layout) -> tuple[Array, Array]:
    """Memory that nothing was written to, and an array in it."""
    *rows, width = shape
    steps = [layout.steps[axis] for axis in layout.order]
    sizes = [rows[axis] for axis in layout.order]
    memory = np.empty(
        [size * abs(step) for size, step in zip(sizes, steps, strict=True)]
        + [width + layout.padding],
        dtype,
    )
    memory.view(np.uint8)[...] = UNTOUCHED
    view = memory[(*(slice(None, None, step) for step in steps), slice(width))]
    return memory, view.transpose([*np.argsort(layout.order), len(rows)])


def walk_order(rows: tuple[int, ...]) -> list[tuple[int, ...]]:
    *leading, length = rows
    return [
        (*entry, row)
        for block in range(0, length, ANCHOR_SPACING)
        for entry in np.ndindex(*leading)
        for row in range(block, min(block + ANCHOR_SPACING, length))
    ]


def entry_by_entry(call: Call, on: Operands) -> list[Array]:
    """The results of NumPy's kernels for each batch entry, on plain arrays (length, width)."""
    results = [np.empty(out.shape, out.dtype) for out in on.outs]
    rows = on.outs[0].shape[:-1]
    for entry in np.ndindex(*rows[:-1]):

        def own(array: Array, entry: tuple[int, ...] = entry) -> Array:
            return np.ascontiguousarray(np.broadcast_to(array, rows)[entry])

        plain = Operands(
            [result[entry] for result in results],
            on.x if on.x is None or on.ids is not None else np.ascontiguousarray(on.x[entry]),
            None if on.ids is None else own(on.ids),
            tuple(map(own, on.positions)),
            None if on.mask is None else own(on.mask),
        )
        call.run(plain, 0, rows[-1], _numpy)
    return results


@st.composite
def layouts(draw: st.DrawFn, axes: int) -> Layout:
    order = draw(st.permutations(range(axes)))
    steps = draw(st.lists(st.sampled_from([1, 2, -1, -2]), min_size=axes, max_size=axes))
    return Layout(order, steps, draw(st.integers(0, 2)))


@st.composite
def shapes_of_rows(draw: st.DrawFn) -> tuple[int, ...]:
    leading = draw(st.lists(st.sampled_from([1, 2, 3]), max_size=4))
    around = st.sampled_from([63, 64, 65, 127, 128, 129]) | st.integers(1, 140)
    return (*leading, draw(st.integers(1, 3) if np.prod(leading) > 12 else around))


def for_rows(draw: st.DrawFn, rows: tuple[int, ...], values: str, bound: int = 0) -> Array:
    """Something for rows, which broadcasts to them, with any strides but on the last axis."""
    kept = draw(st.integers(0, len(rows) - 1))
    shape = [*(draw(st.sampled_from([1, size])) for size in rows[kept:-1]), rows[-1]]
    step = draw(st.sampled_from([1, 2, -1])) if len(shape) > 1 else 1
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    shape[0] *= abs(step)
    array: Array
    if values == "mask":
        array = rng.random(shape) < 0.7
    elif values == "index":
        array = rng.integers(0, bound, shape)
    elif values == "fractional":
        array = rng.uniform(-5000, 5000, shape)
    elif values == "scattered":
        array = rng.integers(-9000, 9000, shape).astype(float)
    else:
        array = np.cumsum(rng.random(shape) < 0.9, -1) + rng.integers(-99, 9000) * 1.0
    return array[::step]


@st.composite
def ranges(draw: st.DrawFn, total: int) -> list[tuple[int, int]]:
    """Ranges that cover all rows, in any order; some are empty."""
    at = sorted(draw(st.lists(st.integers(0, total), max_size=4)))
    return draw(st.permutations(list(itertools.pairwise([0, *at, total]))))


def plans_of_axes(draw: st.DrawFn, n: int) -> tuple[AxisPlan, ...]:
    whole = make_plan(n, amplitude=draw(st.sampled_from([1.0, 1.25])))
    axes = draw(st.integers(0, 3))
    if not axes:
        return ((None, whole),)
    axis_of = np.array(draw(st.lists(st.integers(0, axes - 1), min_size=n, max_size=n)))
    pairs = [np.flatnonzero(axis_of == axis).astype(np.int64) for axis in range(axes)]
    return tuple((each, select(whole, each)) for each in pairs)


@st.composite
def calls(draw: st.DrawFn, kernel: str, rows: tuple[int, ...]) -> tuple[Call, Operands]:
    """A call and its operands, with outputs that are still to be laid out."""
    dtype, n = draw(st.sampled_from(DTYPES)), draw(st.sampled_from([1, 2, 5, 33]))
    if kernel in ("rotate", "tables"):
        plans = plans_of_axes(draw, n)
        width = 2 * n + (draw(st.integers(0, 2)) if kernel == "rotate" else 0)
    else:
        order = draw(st.booleans()), draw(st.booleans()), draw(st.sampled_from([1.0, 0.75]))
        plans = ((None, make_plan(n, *order)),)
        width = 2 * n + draw(st.integers(-1, 1))
    gathers = kernel.startswith("gather")
    count = rows[-1] + 5
    positions: tuple[Array, ...] = ()
    if len(plans) > 1 or plans[0][0] is not None or draw(st.booleans()):
        kinds = st.sampled_from(["scattered", "fractional", "packed"])
        positions = tuple(
            for_rows(draw, rows, "index" if gathers else draw(kinds), count) for _ in plans
        )
    starts = st.just(0) if positions else st.integers(0, 5) if gathers else st.integers(-200, 9000)
    call = Call(
        kernel,
        plans,
        random(1, (count, width), dtype),
        draw(starts),
        draw(st.sampled_from([1.0, 0.3])),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.booleans()),
    )
    shape = (*rows, width)
    outs = [np.empty(shape, dtype) for _ in range(2 if kernel == "tables" else 1)]
    adds = kernel not in ("fill", "rotate", "tables")
    mask = for_rows(draw, rows, "mask") if adds and draw(st.booleans()) else None
    if kernel.endswith("embed"):
        weight = random(2, (14, width + 1), dtype)[::2, :-1]
        return call, Operands(outs, weight, for_rows(draw, rows, "index", 7), positions, mask)
    x = None
    if adds or kernel == "rotate":
        _, x = laid_out(shape, dtype, draw(layouts(len(rows))))
        x[...] = random(3, shape, dtype)
        if draw(st.booleans()):
            x = np.broadcast_to(x[(0,) * (len(rows) - 1)], shape)
    return call, Operands(outs, x, None, positions, mask)


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=25)
@given(data=st.data())
def test_ranges_of_rows_have_the_bits_of_a_loop_over_entries_and_nothing_else_is_written(
    backend: str, kernel: str, data: st.DataObject
) -> None:
    rows = data.draw(shapes_of_rows(), "rows")
    call, on = data.draw(calls(kernel, rows))
    expected = entry_by_entry(call, on)
    layout = data.draw(layouts(len(rows)))
    placed = [laid_out(out.shape, out.dtype, layout) for out in on.outs]
    wanted = [laid_out(out.shape, out.dtype, layout) for out in on.outs]
    on = on._replace(outs=[out for _, out in placed])
    if on.x is not None and on.ids is None and data.draw(st.booleans(), "in place"):
        placed[0][1][...] = wanted[0][1][...] = on.x
        on = on._replace(x=placed[0][1])
    order = walk_order(rows)
    for first, stop in data.draw(ranges(len(order))):
        call.run(on, first, stop)
        for at in order[first:stop]:
            for (_, to), values in zip(wanted, expected, strict=True):
                to[at] = values[at]
        for (memory, _), (right, _) in zip(placed, wanted, strict=True):
            np.testing.assert_array_equal(memory.view(np.uint8), right.view(np.uint8))


@pytest.mark.parametrize("positioned", [False, True])
@pytest.mark.parametrize("rows", [(0,), (0, 3), (2, 0, 65), (2, 0)], ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
def test_arrays_without_rows_are_left_alone(
    backend: str, kernel: str, rows: tuple[int, ...], positioned: bool
) -> None:
    plan = make_plan(3)
    call = Call(kernel, ((None, plan),), np.ones((5, 6)), 0, 1.0, False, False, False)
    ids = np.zeros(rows, np.int64) if kernel.endswith("embed") else None
    outs = [np.empty((*rows, 6)) for _ in range(2 if kernel == "tables" else 1)]
    x = np.ones((5, 6)) if ids is not None else outs[0]
    kind = np.int64 if kernel.startswith("gather") else np.float64
    call.run(Operands(outs, x, ids, (np.zeros(rows, kind),) if positioned else ()), 0, 0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("cos_first", [True, False])
def test_an_odd_width_is_an_even_one_without_its_last_cosine_or_with_a_column_of_zeros(
    backend: str, dtype: np.dtype[Any], interleaved: bool, cos_first: bool
) -> None:
    plan = make_plan(4, interleaved, cos_first)
    call = Call("fill", ((None, plan),), np.empty(0), 70, 0.3, False, False, False)
    x = random(4, (2, 70, 9), dtype)
    x[..., -1] = stored([[0.0], [-0.0]], dtype)  # the sum of -0.0 and 0.0 is 0.0
    for kernel in ("fill", "add"):
        results = []
        for width in (8, 7, 9):
            out = np.empty((2, 70, width), dtype)
            own = np.ascontiguousarray(x[..., :width])
            call._replace(kernel=kernel).run(Operands([out], own), 0, 140)
            results.append(out)
        even, less, more = results
        assert less.tobytes() == even[..., :7].tobytes()
        assert more[..., :8].tobytes() == even.tobytes()
        assert not any(more[..., 8].tobytes())
