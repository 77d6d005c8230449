"""Arrays in and out: whatever a loader hands over is read right, and only `out` is written."""

import _thread
import operator
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from arrays import (
    ROWS,
    VECTORS,
    Array,
    Dtype,
    Form,
    accumulation_dtype,
    assert_fresh,
    assert_same_bits,
    every_dtype,
    every_other_row,
    sequence_first,
    sums,
)
from hypothesis import given
from reference import table

import posenc


@pytest.mark.parametrize("order", ["<", ">"])
@every_dtype
@pytest.mark.parametrize("form", ROWS, ids=lambda f: f.__name__)
def test_add_reads_x_in_any_form(backend: str, form: Form, dtype: Dtype, order: Any) -> None:
    # dask/distributed#1978, microsoft/CNTK#1090, silx-kit/silx#1146, numpy/numpy#26775
    x = np.random.default_rng(3).standard_normal((3, 70, 10)).astype(dtype)
    rows = posenc.positional_encoding(70, 10, dtype=accumulation_dtype(dtype))
    expected = sums(x, 1.5, rows)
    given = form(x.astype(x.dtype.newbyteorder(order)))
    before = given.tobytes()
    got = posenc.add(given, scale=1.5)
    assert_same_bits(got, expected)
    assert given.tobytes() == before
    assert not np.shares_memory(got, given)
    out = np.empty((3, 70, 10), dtype)
    assert posenc.add(given, scale=1.5, out=out) is out
    assert_same_bits(out, expected)


@pytest.mark.parametrize("dtype", [">f4", "<f8"])
def test_add_reads_broadcast_and_memory_mapped_x(backend: str, dtype: str, tmp_path: Any) -> None:
    x = np.broadcast_to(np.arange(6, dtype=dtype), (2, 4, 6))
    expected = x + posenc.positional_encoding(4, 6, dtype=x.dtype.newbyteorder("="))
    np.testing.assert_array_equal(posenc.add(x), expected)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    got = posenc.add(mapped)
    assert type(got) is np.ndarray
    np.testing.assert_array_equal(got, expected)
    del mapped, got


def test_add_takes_nested_lists(backend: str) -> None:
    got = posenc.add([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    expected = [[1.0, 2.0, 1.0, 2.0], [1.84147098, 1.54030231, 1.00999983, 1.99995]]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-8)
    assert got.dtype == np.float64


@pytest.mark.parametrize("shape", [(4, 6), (3, 4, 6), (2, 3, 4, 6), (2, 1, 3, 4, 6)])
def test_every_item_of_a_batch_begins_at_the_start(backend: str, shape: tuple[int, ...]) -> None:
    # DiffPoseTalk/DiffPoseTalk#20 (one row for all), tatp22/multidim-positional-encoding#2
    expected = np.broadcast_to(table(range(5, 9), 6), shape)
    got = posenc.add(np.zeros(shape), start=5)
    assert got.shape == shape
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(posenc.fill(np.empty(shape), start=5), got)


def test_leading_axes_that_do_not_merge(backend: str) -> None:
    big = np.full((3, 8, 5, 9, 12), 9.0, np.float32)
    out = big[::2, 1:7:2, :, 1:8, 2:10]
    expected = posenc.positional_encoding(7, 8, dtype=np.float32)
    assert posenc.fill(out) is out
    np.testing.assert_array_equal(out, np.broadcast_to(expected, out.shape))
    assert (big == 9).sum() == big.size - out.size
    x = big[::2, 1:7:2, :, 2:9, 4:12]
    positions = np.arange(2 * 3 * 5 * 7).reshape(2, 3, 5, 7)
    rows = posenc.encode(positions, 8, dtype=np.float32)
    np.testing.assert_array_equal(posenc.add(x, positions=positions), x + rows)
    np.testing.assert_array_equal(posenc.encode(positions, 8, out=out), rows)
    for few in (positions[0], positions[0, 0], positions[0, 0, 0], positions[:, :1]):
        expected = x + posenc.encode(few, 8, dtype=np.float32)
        np.testing.assert_array_equal(posenc.add(x, positions=few), expected)


@given(
    lead=st.lists(st.integers(0, 3), max_size=3),
    steps=st.lists(st.sampled_from([1, 2, -1]), min_size=4, max_size=4),
    length=st.integers(0, 70),
    pairs=st.integers(1, 9),
    left=st.integers(0, 3),
)
def test_fill_writes_any_view_and_nothing_beside_it(
    backend: str, lead: list[int], steps: list[int], length: int, pairs: int, left: int
) -> None:
    shape = (*lead, length, 2 * pairs)
    big = np.full([2 * n + 1 for n in shape[:-1]] + [2 * pairs + 4], 9.0, np.float32)
    rows = tuple(
        slice(None, n * step, step) if step > 0 else slice(-1, -1 - n, -1)
        for n, step in zip(shape[:-1], steps, strict=False)
    )
    out = big[(*rows, slice(left, left + 2 * pairs))]
    assert out.shape == shape
    posenc.fill(out, start=-3)
    expected = posenc.positional_encoding(length, 2 * pairs, start=-3, dtype=np.float32)
    np.testing.assert_array_equal(out, np.broadcast_to(expected, shape))
    assert (big == 9).sum() == big.size - out.size


def test_rows_that_are_interleaved_without_overlap_are_legal(backend: str) -> None:
    # Offsets 0, 2, 4 and 3, 5, 7 rows: no axis nests in the other.
    buffer = np.zeros(8 * 4)
    out = np.lib.stride_tricks.as_strided(buffer, (2, 3, 4), (3 * 32, 2 * 32, 8))
    expected = np.broadcast_to(posenc.positional_encoding(3, 4), (2, 3, 4))
    np.testing.assert_array_equal(posenc.fill(out), expected)


@every_dtype
def test_empty_arrays_come_back_empty(backend: str, dtype: Dtype) -> None:
    # cython/cython#3334: the address of element 0 of nothing
    assert posenc.positional_encoding(0, 8, dtype=dtype).shape == (0, 8)
    assert posenc.positional_encoding(0, 8, start=2**53, dtype=dtype).shape == (0, 8)
    nothing: list[Any] = [[], np.empty((0,), int), np.empty((2, 0)), np.empty((0, 3), bool)]
    for positions in nothing:
        got = posenc.encode(positions, 8, dtype=dtype)
        assert got.shape == (*np.shape(positions), 8)
        assert got.dtype == dtype
    for shape in ((0, 8), (2, 0, 8), (0, 5, 8), (0, 0, 3, 8)):
        x = np.zeros(shape, dtype)
        assert posenc.add(x).shape == shape
        assert posenc.add(x, positions=np.zeros(shape[:-1])).dtype == dtype
        assert posenc.add(x, out=x) is x
        assert posenc.fill(x) is x


def test_results_are_fresh_aligned_and_the_callers_own(backend: str) -> None:
    # sherpa/sherpa#673: editing a result poisoned the next one
    made: list[Callable[[], Array]] = [
        lambda: posenc.positional_encoding(70, 6),
        lambda: posenc.positional_encoding(33, 6, dtype=np.float32),
        lambda: posenc.encode(np.arange(70), 6),
        lambda: posenc.encode(3, 6),
        lambda: posenc.add(np.zeros((2, 5, 6), np.float32)),
        lambda: posenc.Sinusoidal(6).table(9),
    ]
    for make in made:
        first = make()
        assert_fresh(first, first.dtype, first.shape)
        kept = first.copy()
        first[...] = 7
        second = make()
        np.testing.assert_array_equal(second, kept)
        assert not np.shares_memory(first, second)


def test_in_place_is_out_of_place(backend: str) -> None:
    # numpy/numpy#11381: identical in and out must stay legal
    x = np.random.default_rng(0).standard_normal((4, 100, 34)).astype(np.float32)
    expected = posenc.add(x, scale=3.0)
    for out in (x.copy(), sequence_first(x), every_other_row(x)):
        assert posenc.add(out, scale=3.0, out=out) is out
        np.testing.assert_array_equal(out, expected)
    # the same memory under another name
    same = x.copy()
    posenc.add(same[:, :, :], scale=3.0, out=same)
    np.testing.assert_array_equal(same, expected)
    single = x[:1].copy()
    posenc.add(single[0][np.newaxis], scale=3.0, out=single)
    np.testing.assert_array_equal(single, expected[:1])


def test_add_leaves_x_alone(backend: str) -> None:
    # NVIDIA-NeMo/Speech#7440
    x = np.zeros((1, 3, 4))
    got = posenc.add(x)
    assert not x.any()
    assert not np.shares_memory(x, got)


def test_out_may_lie_beside_x_in_one_buffer(backend: str) -> None:
    both = np.ones((50, 16))
    x, out = both[:, :8], both[:, 8:]
    expected = x + posenc.positional_encoding(50, 8)
    np.testing.assert_array_equal(posenc.add(x, out=out), expected)
    assert (x == 1).all()


def test_out_may_be_a_subclass_and_is_returned_itself(backend: str, tmp_path: Any) -> None:
    mapped = np.lib.format.open_memmap(tmp_path / "t.npy", "w+", np.float32, (3, 40, 8))
    assert posenc.fill(mapped) is mapped
    assert posenc.add(mapped, out=mapped) is mapped
    expected = 2 * posenc.positional_encoding(40, 8, dtype=np.float32)
    np.testing.assert_array_equal(mapped, np.broadcast_to(expected, mapped.shape))
    matrix = np.zeros((40, 8)).view(np.matrix)
    assert posenc.fill(matrix) is matrix
    np.testing.assert_array_equal(matrix, posenc.positional_encoding(40, 8))
    del mapped


# pandas and others hand over whatever the platform calls an integer: numpy/numpy#24224
INTEGERS = ["b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", "p", "P", ">i2", ">i4", ">i8", ">u4"]


@pytest.mark.parametrize("dtype", [*INTEGERS, "e", "f", "d", "g", ">f4", ">f8"])
def test_positions_of_any_real_dtype_mean_the_same(backend: str, dtype: str) -> None:
    # huggingface/transformers#47674: an integer dtype leaked into the result
    expected = posenc.encode(list(range(100)), 8)
    positions = np.arange(100).astype(dtype)
    got = posenc.encode(positions, 8)
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == np.float64
    got = posenc.encode(positions, 8, dtype=np.float32)
    np.testing.assert_array_equal(got, posenc.positional_encoding(100, 8, dtype=np.float32))
    assert len(np.unique(got, axis=0)) == 100


def test_positions_of_bool_are_zero_and_one(backend: str) -> None:
    expected = posenc.encode([1, 0, 1], 8)
    np.testing.assert_array_equal(posenc.encode([True, False, True], 8), expected)
    np.testing.assert_array_equal(posenc.encode(np.array([1, 0, 1], object), 8), expected)


def test_positions_of_any_form_are_read_and_left_alone(backend: str) -> None:
    # sgl-project/sglang#26799: the caller's positions were changed
    positions = np.arange(24.0).reshape(4, 6) * 37 - 100
    expected = posenc.encode(positions.copy(), 8)
    for form in VECTORS:
        given = form(positions)
        before = given.tobytes()
        np.testing.assert_array_equal(posenc.encode(given, 8), expected)
        assert given.tobytes() == before
    got = posenc.encode(np.array([[1, 2], [3, 4]]).T, 4)
    np.testing.assert_array_equal(got, posenc.encode([[1, 3], [2, 4]], 4))


def test_positions_may_be_the_memory_that_is_written(backend: str) -> None:
    buffer = np.arange(40.0).reshape(20, 2)
    expected = posenc.encode(buffer[:, 0].copy(), 2)
    np.testing.assert_array_equal(posenc.encode(buffer[:, 0], 2, out=buffer), expected)


def test_packed_documents_count_from_zero_each(backend: str) -> None:
    # pytorch/torchtitan#2559: the second document went on counting
    got = posenc.add(np.zeros((1, 5, 4)), positions=[[0, 1, 2, 0, 1]])[0]
    np.testing.assert_array_equal(got[[0, 3]], [[0, 1, 0, 1]] * 2)
    np.testing.assert_array_equal(got[1], got[4])
    np.testing.assert_allclose(got[2], table([2], 4)[0], rtol=0, atol=1e-15)


def test_padding_shifts_no_position_by_itself(backend: str) -> None:
    # facebookresearch/fairseq#123: tokens 5 3 6 7 and three pads
    positions = [2, 3, 4, 5, 1, 1, 1]
    got = posenc.encode(positions, 6)
    np.testing.assert_allclose(got, table(positions, 6), rtol=0, atol=1e-15)
    assert np.abs(got).max(axis=1).min() > 0


@pytest.mark.parametrize("integer", [int, np.int64, np.int32, np.uint8, lambda n: np.array(n)])
def test_sizes_and_starts_are_anything_that_counts(backend: str, integer: Any) -> None:
    # facebookresearch/fairseq#293
    got = posenc.positional_encoding(integer(3), integer(4), start=integer(5), workers=integer(1))
    np.testing.assert_array_equal(got, posenc.positional_encoding(8, 4)[5:8])
    assert operator.index(integer(3)) == len(got)


def test_float64_stays_float64_and_float32_float32(backend: str) -> None:
    # Kyubyong/transformer#19, lucasb-eyer/pydensecrf#52
    x = np.full((3, 4), 1e-9)
    assert posenc.add(x).dtype == np.float64
    assert posenc.add(x)[1, 0] - 0.8414709848078965 == pytest.approx(1e-9, rel=1e-6)
    assert posenc.add(x.astype(np.float32)).dtype == np.float32
    assert posenc.positional_encoding(3, 4).dtype == np.float64
    assert posenc.encode(np.array([1], np.float32), 4).dtype == np.float64
    assert posenc.encode([1], 4, out=np.empty((1, 4), np.float32)).dtype == np.float32


def test_nan_and_infinity_in_x_pass_through_without_a_warning(backend: str) -> None:
    x = np.array([[np.nan, np.inf], [-np.inf, 1.0]], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = posenc.add(x)
    np.testing.assert_array_equal(got[0], [np.nan, np.inf])
    assert got[1, 0] == -np.inf


@pytest.mark.parametrize(
    "scale",
    [
        3,
        np.float32(0.1),
        np.array(0.1),
        np.array(3),
        Decimal("0.1"),
        np.int64(-7),
        2**24 + 1,
        Fraction(1, 3),
        np.longdouble(1) + np.longdouble(2) ** -24 + np.longdouble(2) ** -60,
        float("nan"),
    ],
    ids=repr,
)
def test_scale_is_any_real_scalar_rounded_once(backend: str, scale: Any) -> None:
    x = np.ones((3, 4), np.float32)
    expected = x * np.float32(scale) + posenc.positional_encoding(3, 4, dtype=np.float32)
    np.testing.assert_array_equal(posenc.add(x, scale=scale), expected)


def test_threads_reach_axes_that_do_not_merge(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = []
    start = _thread.start_new_thread

    def counted(*arguments: Any) -> None:
        starts.append(arguments)
        start(*arguments)

    monkeypatch.setattr(_thread, "start_new_thread", counted)
    out = np.empty((12, 8, 64, 256), np.float32)[:, ::2]
    expected = posenc.positional_encoding(64, 256, dtype=np.float32)
    posenc.fill(out, workers=2)
    assert len(starts) == 1
    np.testing.assert_array_equal(out, np.broadcast_to(expected, out.shape))
    x = np.ones((6, 8, 64, 256), np.float32)
    got = posenc.add(x, positions=np.arange(64), workers=3, out=x)
    np.testing.assert_array_equal(got, np.broadcast_to(1 + expected, x.shape))


@pytest.mark.slow
def test_more_than_2_to_the_31_elements() -> None:
    # scikit-learn/scikit-learn#5371, quantling/pyndl#161: 9 GB, and no tail of zeros
    got = posenc.positional_encoding(4194305, 512, dtype=np.float32)
    assert got.size > 2**31
    np.testing.assert_allclose(got[-1, :2], [0.975129395, 0.221636331], rtol=0, atol=6e-8)
    np.testing.assert_allclose(got[-1, -2:], [0.950728601, 0.310024398], rtol=0, atol=6e-8)
    assert got[::4096, 1::2].any(axis=1).all()
