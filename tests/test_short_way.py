"""The short way of a call does what the checks in Python and the kernels do, or declines.

What it takes for usual must be so: each test compares with the same call where it declines.
"""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from arrays import (
    DTYPES,
    Array,
    assert_fresh,
    assert_same_bits,
    byte_swapped,
    misaligned,
    random,
    read_only,
)
from hypothesis import given
from hypothesis import strategies as st
from internals import declining

import posenc
from posenc import _backend

WIDTH = 8
TABLE = np.random.default_rng(1).standard_normal((40, WIDTH))
BOUND = 2**53


class Sub(np.ndarray):
    """A subclass, whose methods are the caller's code."""


def strided(x: Array) -> Array:
    return np.repeat(x, 2, axis=0)[::2]


FORMS: list[Callable[[Array], Array]] = [
    lambda x: x,
    lambda x: x,
    lambda x: x,
    strided,
    read_only,
    misaligned,
    byte_swapped,
    lambda x: x.view(Sub),
    lambda x: x[:0],
    lambda x: x[0],
    lambda x: x.view(f"u{x.itemsize}") if x.dtype.kind in "fV" else x.astype(np.uint64),
    lambda x: np.ma.array(x, mask=True),
]
forms = st.sampled_from(FORMS)
dtypes = st.sampled_from(DTYPES)
shapes = st.sampled_from([(1, 1), (2, 3), (1, 5), (2, 1, 4), (3,), (2, 3, 2), (70,)])
numbers = st.sampled_from(
    [
        0,
        0,
        0,
        1,
        7,
        -3,
        39,
        64,
        5.5,
        True,
        np.int64(2),
        "2",
        None,
        BOUND,
        BOUND - 1,
        2**63,
        -(2**64),
    ]
)
scales = st.sampled_from(
    [1.0, 1.0, 22, 0.1, -0.0, 1e300, np.inf, np.nan, True, np.float32(0.1), 2**53 + 1, 2**2000, "1"]
)
workers = st.sampled_from([1, 1, 1, 1, 2, -1, 0, True, 1.0])
entries = st.sampled_from([0, 0, 1, 5, 39, 40, -1, BOUND, BOUND + 1, -BOUND, 2**63 - 1])
int_dtypes = st.sampled_from(
    [np.int64, np.int32, np.int64, np.int32, np.int16, np.uint64, np.bool_]
)


@st.composite
def integers(draw: Any, rows: tuple[int, ...]) -> Any:
    """An array of ints for rows of that shape, most often one that fits."""
    lead = tuple(draw(st.sampled_from([n, 1])) for n in rows[:-1])
    shape = draw(st.sampled_from([rows, rows, rows[-1:], (*lead, rows[-1]), (2, *rows), rows[:-1]]))
    size = int(np.prod(shape))
    values = draw(st.lists(entries, min_size=size, max_size=size) | st.just([3] * size))
    with np.errstate(all="ignore"):
        array = np.array(values, object).astype(np.int64).astype(draw(int_dtypes)).reshape(shape)
    return draw(st.sampled_from([None, array, array, array, array.tolist()]))


@st.composite
def positions(draw: Any, rows: tuple[int, ...]) -> Any:
    given = draw(integers(rows))
    if type(given) is np.ndarray and given.size and draw(st.integers(0, 3)) == 0:
        given = given.astype(draw(st.sampled_from([np.float64, np.float32])))
        given.flat[0] = draw(st.sampled_from([0.5, -0.0, np.nan, np.inf, 2.0**53, 2.0**53 + 2]))
    return given


@st.composite
def masks(draw: Any, rows: tuple[int, ...]) -> Any:
    given = draw(integers(rows))
    if given is None or draw(st.booleans()):
        return None
    with np.errstate(all="ignore"):  # integers beyond int64 are floats here
        return np.asarray(given).astype(np.int64 if draw(st.integers(0, 5)) == 0 else np.bool_)


@st.composite
def outputs(draw: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    if draw(st.booleans()):
        return None
    dtype = draw(st.sampled_from([dtype, dtype, dtype, np.dtype(np.float32)]))
    return draw(forms)(np.full(shape, 9, dtype))


def call(function: Callable[..., Any], arguments: dict[str, Any], way: str) -> Any:
    """The result of a call with arguments of its own, or its error; and what `out` then holds."""
    memory: dict[int, Any] = {}

    def copied(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        if id(value) not in memory:
            form = next((f for f in (strided,) if not value.flags.c_contiguous), lambda x: x)
            memory[id(value)] = (
                form(np.array(value, subok=True)) if value.flags.writeable else value
            )
        return memory[id(value)]

    own = {name: copied(value) for name, value in arguments.items()}
    try:
        result = function(**own)
    except Exception as error:  # noqa: BLE001 - whatever it is, both ways must agree
        return (type(error), str(error)), own.get("out")
    assert own.get("out") is None or result is own["out"], way
    return result, own.get("out")


def both_ways(function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    short, out = call(function, arguments, "short")
    with declining():
        slow, slow_out = call(function, arguments, "slow")
    if isinstance(slow, tuple) or isinstance(short, tuple):
        assert isinstance(short, tuple)
        assert short == slow
    else:
        assert_same_bits(np.asarray(short), np.asarray(slow), any_nan=True)
        if arguments.get("out") is None:
            assert_fresh(short, slow.dtype, slow.shape)
    if isinstance(out, np.ndarray) and out.dtype.kind in "fV":
        assert_same_bits(np.asarray(out), np.asarray(slow_out), any_nan=True)


def sources(dtype: Any) -> list[Any]:
    odd = posenc.Sinusoidal(WIDTH, odd="zero")
    split = posenc.Sinusoidal(WIDTH, layout="split", base=0.01)  # whose positions end early
    return [posenc.Sinusoidal(WIDTH), odd, split, posenc.Learned(TABLE.astype(dtype))]


@given(data=st.data())
def test_sums_are_the_same_by_either_way(backend: str, data: Any) -> None:
    dtype, rows = data.draw(dtypes), data.draw(shapes)
    source = data.draw(st.sampled_from(sources(data.draw(st.sampled_from([dtype, DTYPES[0]])))))
    x = data.draw(forms)(random((*rows, WIDTH + data.draw(st.sampled_from([0, 0, 0, 1]))), dtype))
    arguments = {
        "x": x,
        "start": data.draw(numbers),
        "positions": data.draw(positions(rows)),
        "mask": data.draw(masks(rows)),
        "scale": data.draw(scales),
        "workers": data.draw(workers),
        "out": x
        if data.draw(st.integers(0, 3)) == 0
        else data.draw(outputs((*rows, WIDTH), dtype)),
    }
    both_ways(source.add, arguments)


@given(data=st.data())
def test_sums_with_gathered_rows_are_the_same_by_either_way(backend: str, data: Any) -> None:
    dtype, rows = data.draw(dtypes), data.draw(shapes)
    source = data.draw(st.sampled_from(sources(dtype)))
    weight = data.draw(forms)(random((40, WIDTH), dtype))
    arguments = {
        "ids": data.draw(integers(rows)),
        "start": data.draw(numbers),
        "positions": data.draw(positions(rows)),
        "mask": data.draw(masks(rows)),
        "scale": data.draw(scales),
        "workers": data.draw(workers),
        "out": data.draw(outputs((*rows, WIDTH), dtype)),
    }
    both_ways(lambda ids, **rest: source.embed(ids, weight, **rest), arguments)


@given(data=st.data())
def test_encodings_are_the_same_by_either_way(backend: str, data: Any) -> None:
    dtype, rows = data.draw(dtypes), data.draw(shapes)
    encoding = data.draw(st.sampled_from(sources(dtype)[:3]))
    wanted = data.draw(st.sampled_from([None, dtype, dtype.type, str(dtype), dtype.newbyteorder()]))
    shared = {"workers": data.draw(workers)}
    out = data.draw(outputs((*rows, WIDTH), dtype))
    where = data.draw(positions(rows))
    both_ways(encoding.encode, {"positions": where, "dtype": wanted, "out": out, **shared})
    shared["start"] = data.draw(numbers)
    both_ways(encoding.fill, {"out": out, **shared})
    wanted = data.draw(st.sampled_from([float, np.float32, np.float64, wanted or dtype]))
    both_ways(encoding.table, {"length": data.draw(numbers), "dtype": wanted, **shared})


@given(data=st.data())
def test_rotations_are_the_same_by_either_way(backend: str, data: Any) -> None:
    dtype, rows = data.draw(dtypes), data.draw(shapes)
    axes = data.draw(st.sampled_from([None, None, [0, 1, 0]]))
    layout = data.draw(st.sampled_from(["half", "interleaved"]))
    rotary = posenc.Rotary(6, layout=layout, axes=axes)
    width = data.draw(st.sampled_from([6, 7, WIDTH, 5]))
    x = data.draw(forms)(random((*rows, width), dtype))
    arguments = {
        "x": x,
        "start": data.draw(numbers),
        "positions": data.draw(positions(rows)),
        "inverse": data.draw(st.sampled_from([False, False, True, np.True_, 1])),
        "workers": data.draw(workers),
        "out": x
        if data.draw(st.integers(0, 3)) == 0
        else data.draw(outputs((*rows, width), dtype)),
    }
    both_ways(rotary.rotate, arguments)


def test_the_short_way_takes_usual_calls(backend: str) -> None:
    # One that declined everything would pass what is above.
    if backend == "numpy":
        pytest.skip("it has none")
    kernels: Any = _backend.kernels
    for dtype in DTYPES:
        plan, learned = posenc.Sinusoidal(WIDTH)._source.plan, TABLE.astype(dtype)
        x, at = random((2, 3, WIDTH), dtype), np.array([[0, 9, 2]], np.int32)
        mask, ids = np.ones((2, 3), np.bool_), np.ones((2, 3), np.int64)
        for rows in (plan, learned):
            for options in ((0, at, mask), (5, None, None)):
                assert kernels.try_add(x, x, *options, 2, 1, rows, WIDTH) is x
                embedded = kernels.try_embed(None, ids, learned, *options, 1.0, 1, rows, WIDTH)
                assert_fresh(embedded, dtype, x.shape)
        assert kernels.try_fill(x, 5, 1, plan, WIDTH) is x
        assert_fresh(kernels.try_table(4, 0, dtype, 1, plan, WIDTH), dtype, (4, WIDTH))
        encoded = kernels.try_encode(None, at, dtype.type, 1, plan, WIDTH)
        assert_fresh(encoded, dtype, (1, 3, WIDTH))
        rotary = posenc.Rotary(WIDTH)._plan.plan
        assert kernels.try_rotate(x, x, 0, at, True, 1, rotary, WIDTH, False) is x
        assert_fresh(
            kernels.try_rotate(None, x, 3, None, False, 1, rotary, WIDTH, True), dtype, x.shape
        )


def test_memory_that_overlaps_in_part_is_declined(backend: str) -> None:
    # One row too far would read what was written before.
    buffer, encoding = np.ones((5, WIDTH), np.float32), posenc.Sinusoidal(WIDTH)
    learned = posenc.Learned(buffer)
    ids = np.zeros((1, 4), np.int64)
    calls: list[Callable[[], object]] = [
        lambda: encoding.add(buffer[1:], out=buffer[:-1]),
        lambda: encoding.embed(ids[0], buffer, out=buffer[1:]),
        lambda: learned.add(np.ones((4, WIDTH), np.float32), out=buffer[1:]),
        lambda: posenc.Rotary(WIDTH).rotate(buffer[:-1], out=buffer[1:]),
    ]
    for each in calls:
        with pytest.raises(ValueError, match=r"^out must .*overlap"):
            each()
        np.testing.assert_array_equal(buffer, 1)


def test_a_dtype_of_another_package_with_the_name_of_one_is_no_other(backend: str) -> None:
    # Of eight bits, which the kernels would read as sixteen.
    x = np.ones((1, 2, WIDTH), ml_dtypes.float8_e4m3fn)
    with pytest.raises(TypeError, match=r"^x must have dtype"):
        posenc.Sinusoidal(WIDTH).add(x)


def test_calls_of_the_module_are_checked_though_their_source_is_prepared(backend: str) -> None:
    # What is prepared is found by a width, which 8.0 and True equal or might.
    posenc.positional_encoding(1, WIDTH)
    wrong: list[Any] = [float(WIDTH), np.float64(WIDTH), True]
    for width in wrong:
        with pytest.raises(TypeError, match=r"^d_model must be an integer"):
            posenc.positional_encoding(1, width)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        posenc.fill(np.ones((1, WIDTH)), stort=1)
