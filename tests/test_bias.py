"""Biases and buckets of distances, held against their papers in exact arithmetic."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import ml_dtypes
import mpmath
import numpy as np
import numpy.typing as npt
import pytest
import reference  # noqa: F401 - sets the precision of mpmath
from hypothesis import assume, given

import posenc

ALL: Any = posenc  # past the type checker: some calls are wrong on purpose
DTYPES = [np.dtype(t) for t in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16)]
lengths = st.integers(0, 30)


def exponents(heads: int) -> list[Fraction]:
    """ofirpress/attention_with_linear_biases, fairseq/models/transformer.py: get_slopes."""
    if math.log2(heads).is_integer():
        return [Fraction(-8 * (i + 1), heads) for i in range(heads)]
    below: int = 2 ** math.floor(math.log2(heads))
    return exponents(below) + exponents(2 * below)[0::2][: heads - below]


def distance(query: int, key: int, q_len: int, k_len: int) -> int:
    return key - (k_len - q_len + query)


def bucket(away: int, bidirectional: bool, num_buckets: int, max_distance: int) -> int:
    """`_relative_position_bucket` of T5, and the logarithm by comparing powers of fractions."""
    first = 0
    if bidirectional:
        num_buckets //= 2
        first = num_buckets * (away > 0)
        away = abs(away)
    else:
        away = -min(away, 0)
    max_exact = num_buckets // 2
    if away < max_exact:
        return first + away
    ratio, most = Fraction(away, max_exact), Fraction(max_distance, max_exact)
    left = num_buckets - max_exact
    steps = 0
    while steps < left - 1 and ratio**left >= most ** (steps + 1):
        steps += 1
    return first + max_exact + steps


def check(got: npt.NDArray[Any], dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """As every result is: fresh, writeable, C-contiguous and aligned."""
    assert type(got) is np.ndarray
    assert (got.dtype, got.shape) == (dtype, shape)
    assert got.flags.carray
    assert got.base is None or got.base.dtype == np.uint8
    assert not got.size or got.ctypes.data % 64 == 0


@pytest.mark.parametrize("heads", [*range(1, 72), 128, 1000])
def test_slopes_are_the_doubles_nearest_to_the_exact_ones(heads: int) -> None:
    got = posenc.alibi_slopes(heads)
    check(got, np.dtype(np.float64), (heads,))
    powers = [mpmath.mpf(2) ** (mpmath.mpf(e.numerator) / e.denominator) for e in exponents(heads)]
    assert got.tolist() == [float(power) for power in powers]
    assert all(math.frexp(got[i])[0] == 0.5 for i, e in enumerate(exponents(heads)) if e == int(e))


def test_slopes_of_the_paper() -> None:
    assert posenc.alibi_slopes(8).tolist() == [2.0**-k for k in range(1, 9)]
    halves = [2.0 ** (-k / 2) for k in range(1, 17)]
    np.testing.assert_allclose(posenc.alibi_slopes(16), halves, rtol=1e-15)


@given(
    heads=st.integers(1, 12),
    q_len=lengths,
    k_len=lengths,
    causal=st.booleans(),
    dtype=st.sampled_from(DTYPES),
)
def test_biases_fall_with_the_distance(
    heads: int, q_len: int, k_len: int, causal: bool, dtype: np.dtype[Any]
) -> None:
    got = posenc.alibi_bias(heads, q_len, k_len, causal=causal, dtype=dtype)
    check(got, dtype, (heads, q_len, k_len))
    slopes = posenc.alibi_slopes(heads).tolist()
    away = [[distance(i, j, q_len, k_len) for j in range(k_len)] for i in range(q_len)]
    exact = [
        [[-math.inf if causal and d > 0 else -slope * abs(d) for d in row] for row in away]
        for slope in slopes
    ]
    wide = np.float32 if dtype.itemsize == 2 else dtype
    expected = np.array(exact).reshape(got.shape).astype(wide).astype(dtype)
    np.testing.assert_array_equal(got, expected)
    assert not np.signbit(got[got == 0]).any()


def test_biases_of_a_token_after_its_keys_and_beyond_the_range() -> None:
    whole = posenc.alibi_bias(3, 9, 9)
    np.testing.assert_array_equal(posenc.alibi_bias(3, 1, 9), whole[:, -1:])
    np.testing.assert_array_equal(posenc.alibi_bias(3, 4, 9), whole[:, -4:])
    long = posenc.alibi_bias(8, 1, 140000, dtype=np.float16)
    assert long[0, 0, 0] == -np.inf
    assert long[1, 0, 0] == -35008  # 34999.75 in steps of 32


sizes = st.tuples(st.booleans(), st.integers(2, 60), st.integers(2, 300))


@given(q_len=lengths, k_len=lengths, size=sizes)
def test_buckets_are_exact(q_len: int, k_len: int, size: tuple[bool, int, int]) -> None:
    bidirectional, num_buckets, max_distance = size
    assume(num_buckets >= 4 or not bidirectional)
    assume(max_distance > num_buckets // (4 if bidirectional else 2))
    got = posenc.t5_buckets(
        q_len,
        k_len,
        bidirectional=bidirectional,
        num_buckets=num_buckets,
        max_distance=max_distance,
    )
    check(got, np.dtype(np.int64), (q_len, k_len))
    for i in range(q_len):
        for j in range(k_len):
            assert got[i, j] == bucket(distance(i, j, q_len, k_len), *size)


@pytest.mark.parametrize(
    "size", [(True, 32, 128), (False, 32, 128), (True, 32, 20), (False, 8, 256), (True, 320, 800)]
)
def test_buckets_of_every_distance(size: tuple[bool, int, int]) -> None:
    far = 1000
    line = dict(zip(("bidirectional", "num_buckets", "max_distance"), size, strict=True))
    behind = ALL.t5_buckets(1, far, **line)[0]
    assert behind.tolist() == [bucket(j - (far - 1), *size) for j in range(far)]
    ahead = ALL.t5_buckets(far, 1, **line)[:, 0]
    assert ahead.tolist() == [bucket(far - 1 - i, *size) for i in range(far)]


def test_buckets_agree_with_float32_where_its_logarithm_is_right() -> None:
    # huggingface/transformers, models/t5/modeling_t5.py, in its float32. At 16, 32 and 64 the
    # logarithm is a whole number, and whether it comes out just below depends on the processor.
    away = np.arange(-300, 301)
    for bidirectional in (True, False):
        half = 16 if bidirectional else 32
        e = half // 2
        n = np.abs(away) if bidirectional else np.maximum(-away, 0)
        logs = np.log(np.maximum(n, 1).astype(np.float32) / np.float32(e))
        large = e + (logs / np.float32(math.log(128 / e)) * np.float32(half - e)).astype(int)
        theirs = np.where(n < e, n, np.minimum(large, half - 1))
        theirs += half * (away > 0) * bidirectional
        table = posenc.t5_buckets(301, 601, bidirectional=bidirectional)
        ours = np.concatenate([table[-1, 300:], table[0, 301:]])
        assert table[-1, 300:].size == 301
        clear = ~np.isin(n, [16, 32, 64])
        np.testing.assert_array_equal(ours[clear], theirs[clear])


@pytest.mark.parametrize(
    ("size", "edge", "expected"),
    [
        # 4 (128 / 4)^(i / 5) for i = 1, 2, 4: in float64 the logarithms come out too small
        ((9, 128), 8, 5),
        ((9, 128), 16, 6),
        ((9, 128), 64, 8),
        # 24 (81 / 24)^(8 / 24): in float32
        ((48, 81), 36, 32),
    ],
)
def test_edges_that_logarithms_miss(size: tuple[int, int], edge: int, expected: int) -> None:
    num_buckets, max_distance = size
    got = posenc.t5_buckets(
        1, 100, bidirectional=False, num_buckets=num_buckets, max_distance=max_distance
    )
    assert got[0, ::-1][edge - 1 : edge + 1].tolist() == [expected - 1, expected]


def test_sizes_beyond_reason_are_answered() -> None:
    table = posenc.t5_buckets(3, 4, num_buckets=10**4, max_distance=10**30)
    assert table.tolist() == [[1, 0, 5001, 5002], [2, 1, 0, 5001], [3, 2, 1, 0]]
    assert posenc.t5_buckets(1, 3, num_buckets=4, max_distance=10**400).tolist() == [[1, 1, 0]]


CASES: list[tuple[type[Exception], tuple[str, ...], Callable[[], object]]] = [
    (ValueError, ("heads", "1", "0"), lambda: ALL.alibi_slopes(0)),
    (TypeError, ("heads", "8.0"), lambda: ALL.alibi_slopes(8.0)),
    (ValueError, ("heads", "-2"), lambda: ALL.alibi_bias(-2, 3, 4)),
    (ValueError, ("q_len", "-1"), lambda: ALL.alibi_bias(2, -1, 4)),
    (TypeError, ("k_len", "None"), lambda: ALL.alibi_bias(2, 3, None)),
    (TypeError, ("dtype", "int"), lambda: ALL.alibi_bias(2, 3, 4, dtype=int)),
    (TypeError, ("causal", "'no'"), lambda: ALL.alibi_bias(2, 3, 4, causal="no")),
    (TypeError, ("bidirectional", "None"), lambda: ALL.t5_buckets(3, 4, bidirectional=None)),
    (ValueError, ("k_len", "-1"), lambda: ALL.t5_buckets(3, -1)),
    (TypeError, ("q_len", "3.0"), lambda: ALL.t5_buckets(3.0, 3)),
    (ValueError, ("num_buckets", "4", "3"), lambda: ALL.t5_buckets(3, 3, num_buckets=3)),
    (
        ValueError,
        ("num_buckets", "2", "1"),
        lambda: ALL.t5_buckets(3, 3, num_buckets=1, bidirectional=False),
    ),
    (ValueError, ("max_distance", "9", "8"), lambda: ALL.t5_buckets(3, 3, max_distance=8)),
    (TypeError, ("max_distance",), lambda: ALL.t5_buckets(3, 3, max_distance=128.0)),
]


@pytest.mark.parametrize(("error", "words", "call"), CASES)
def test_bad_values_are_named(
    error: type[Exception], words: tuple[str, ...], call: Callable[[], object]
) -> None:
    with pytest.raises(error) as caught:
        call()
    assert all(word in str(caught.value) for word in words), caught.value
