"""Biases and buckets of distances, held against their papers in exact arithmetic."""

import math
import signal
import time
from collections.abc import Callable
from fractions import Fraction

import hypothesis.strategies as st
import mpmath
import numpy as np
import pytest
from arrays import (
    ALL,
    DTYPES,
    FLOAT64,
    Array,
    Dtype,
    accumulation_dtype,
    assert_fresh,
    assert_same_bits,
    every_dtype,
)
from hypothesis import assume, given
from measure import BOUND, memory_beside, seconds_to_see_ctrl_c

import posenc

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


@pytest.mark.parametrize("heads", [*range(1, 72), 128, 1000])
def test_slopes_are_the_doubles_nearest_to_the_exact_ones(heads: int) -> None:
    got = posenc.alibi_slopes(heads)
    assert_fresh(got, FLOAT64, (heads,))
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
    heads: int, q_len: int, k_len: int, causal: bool, dtype: Dtype
) -> None:
    got = posenc.alibi_bias(heads, q_len, k_len, causal=causal, dtype=dtype)
    assert_fresh(got, dtype, (heads, q_len, k_len))
    slopes = posenc.alibi_slopes(heads).tolist()
    away = [[distance(i, j, q_len, k_len) for j in range(k_len)] for i in range(q_len)]
    exact = [
        [[-math.inf if causal and d > 0 else -slope * abs(d) for d in row] for row in away]
        for slope in slopes
    ]
    wide = np.array(exact).reshape(got.shape).astype(accumulation_dtype(dtype))
    expected = wide.astype(dtype)
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
    assert_fresh(got, np.dtype(np.int64), (q_len, k_len))
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


def test_edges_of_many_buckets_are_whole_where_powers_are() -> None:
    # 2^15 (2^16)^(j / 16) is 2^(15 + j); powers n^32768 of all integers would take minutes
    exact, left = 2**15, 2**15
    whole = [2 ** (15 + j) for j in range(1, 16)]
    got = posenc.t5_buckets(
        q_positions=[0],
        k_positions=[[-n, 1 - n] for n in whole],
        bidirectional=False,
        num_buckets=2**16,
        max_distance=2**31,
    )
    edges = [exact + j * left // 16 for j in range(1, 16)]
    assert got[:, 0].tolist() == [[edge, edge - 1] for edge in edges]


@given(
    buckets=st.integers(2, 400),
    farthest=st.integers(2, 2**32) | st.integers(0, 32).map(lambda k: 2**k),
    step=st.integers(1, 200),
)
def test_buckets_are_exact_on_both_sides_of_an_edge(buckets: int, farthest: int, step: int) -> None:
    exact = buckets // 2
    left = buckets - exact
    assume(farthest > exact and step < left)
    edge = int(mpmath.floor(exact * (mpmath.mpf(farthest) / exact) ** (mpmath.mpf(step) / left)))
    near = [edge - 1, edge, edge + 1, edge + 2]
    got = posenc.t5_buckets(
        q_positions=np.array(near),
        k_positions=[0],
        bidirectional=False,
        num_buckets=buckets,
        max_distance=farthest,
    )
    assert got[:, 0].tolist() == [bucket(-n, False, buckets, farthest) for n in near]


def test_results_without_an_entry_need_no_memory_for_their_other_axis() -> None:
    assert posenc.t5_buckets(0, 2**45).shape == (0, 2**45)
    assert posenc.t5_buckets(2**45, 0).shape == (2**45, 0)
    assert posenc.alibi_bias(2, 0, 2**45).shape == (2, 0, 2**45)
    assert posenc.alibi_bias(2, q_positions=[], k_positions=[1, 2]).shape == (2, 0, 2)
    assert posenc.t5_buckets(q_positions=np.zeros((3, 0))).shape == (3, 0, 0)


# Given positions.


@st.composite
def positions(draw: st.DrawFn) -> tuple[Array, Array]:
    """Those of queries and of keys, of leading axes that broadcast."""
    leading = draw(st.lists(st.integers(0, 3), max_size=2))
    arrays = []
    for _ in range(2):
        shape = [side if draw(st.booleans()) else 1 for side in leading]
        shape = shape[draw(st.integers(0, len(shape))) :]
        most = draw(st.sampled_from([3, 300, 2**52]))
        size = (*shape, draw(st.integers(0, 5)))
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        arrays.append(rng.integers(-most, most, size, endpoint=True))
    return arrays[0], arrays[1]


def pairs(of: tuple[Array, Array]) -> Array:
    """The distances, as Python's integers."""
    queries, keys = (array.astype(object) for array in of)
    return np.asarray(keys[..., np.newaxis, :] - queries[..., np.newaxis], object)


@given(
    of=positions(),
    heads=st.integers(1, 5),
    causal=st.booleans(),
    dtype=st.sampled_from(DTYPES),
)
def test_biases_of_given_positions_are_those_of_their_distances(
    of: tuple[Array, Array], heads: int, causal: bool, dtype: Dtype
) -> None:
    queries, keys = of
    got = posenc.alibi_bias(
        heads, q_positions=queries, k_positions=keys, causal=causal, dtype=dtype
    )
    away = pairs(of)
    assert_fresh(got, dtype, (*away.shape[:-2], heads, *away.shape[-2:]))
    for head, slope in enumerate(posenc.alibi_slopes(heads).tolist()):
        exact = [
            -math.inf if causal and d > 0 else -float(Fraction(slope) * abs(d)) for d in away.flat
        ]
        wide = np.array(exact).reshape(away.shape)
        with np.errstate(over="ignore"):
            expected = wide.astype(accumulation_dtype(dtype)).astype(dtype)
        np.testing.assert_array_equal(got[..., head, :, :], expected)


@given(of=positions(), size=sizes)
def test_buckets_of_given_positions_are_those_of_their_distances(
    of: tuple[Array, Array], size: tuple[bool, int, int]
) -> None:
    bidirectional, num_buckets, max_distance = size
    assume(num_buckets >= 4 or not bidirectional)
    assume(max_distance > num_buckets // (4 if bidirectional else 2))
    got = posenc.t5_buckets(
        q_positions=of[0],
        k_positions=of[1],
        bidirectional=bidirectional,
        num_buckets=num_buckets,
        max_distance=max_distance,
    )
    away = pairs(of)
    assert_fresh(got, np.dtype(np.int64), away.shape)
    capped = [max(-max_distance, min(d, max_distance)) for d in away.flat]
    assert got.ravel().tolist() == [bucket(d, *size) for d in capped]


@every_dtype
@pytest.mark.parametrize(("q_len", "k_len"), [(7, 7), (1, 9), (300, 400)])
def test_consecutive_positions_have_the_bits_of_lengths(
    q_len: int, k_len: int, dtype: Dtype
) -> None:
    keys = np.arange(5, 5 + k_len)
    queries = keys[k_len - q_len :]
    for causal in (True, False):
        got = posenc.alibi_bias(
            5, q_positions=queries, k_positions=keys, causal=causal, dtype=dtype
        )
        expected = posenc.alibi_bias(5, q_len, k_len, causal=causal, dtype=dtype)
        assert_same_bits(got, expected)
        buckets = posenc.t5_buckets(q_positions=queries, k_positions=keys, bidirectional=causal)
        assert_same_bits(buckets, posenc.t5_buckets(q_len, k_len, bidirectional=causal))


def test_keys_stand_where_queries_do_unless_they_are_given() -> None:
    where = np.array([[3, 1, 4], [1, 5, 9]], np.uint8)  # whose differences would wrap
    kept = where.copy()
    for got, expected in [
        (
            posenc.alibi_bias(4, q_positions=where),
            posenc.alibi_bias(4, q_positions=where, k_positions=where.tolist()),
        ),
        (
            posenc.t5_buckets(q_positions=where),
            posenc.t5_buckets(q_positions=where.astype(">i2"), k_positions=where.astype(object)),
        ),
    ]:
        np.testing.assert_array_equal(got, expected)
    deep = where.reshape([2] + [1] * 28 + [3])
    np.testing.assert_array_equal(
        posenc.alibi_bias(4, q_positions=deep).reshape(2, 4, 3, 3),
        posenc.alibi_bias(4, q_positions=where),
    )
    assert posenc.t5_buckets(q_positions=where)[0].tolist() == [[0, 2, 17], [18, 0, 19], [1, 3, 0]]
    np.testing.assert_array_equal(where, kept)


def test_packed_documents_have_their_own_distances() -> None:
    # pytorch/torchtitan#2559: positions that begin anew in every document
    lengths = [3, 1, 4]
    where = posenc.positions.from_lengths(lengths)
    biases, buckets = posenc.alibi_bias(2, q_positions=where), posenc.t5_buckets(q_positions=where)
    begin = 0
    for length in lengths:
        own = slice(begin, begin + length)
        np.testing.assert_array_equal(biases[:, own, own], posenc.alibi_bias(2, length, length))
        np.testing.assert_array_equal(buckets[own, own], posenc.t5_buckets(length, length))
        begin += length


def test_padded_rows_count_by_their_mask() -> None:
    # huggingface/transformers#17866: the biases of BLOOM where rows are padded on the left
    mask = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    where = posenc.positions.from_mask(mask)
    scores = np.zeros((2, 6, 5, 5), np.float32)
    biases = posenc.alibi_bias(6, q_positions=where, causal=False, dtype=np.float32)
    scores += biases
    np.testing.assert_array_equal(biases[0, :, 2:, 2:], posenc.alibi_bias(6, 3, 3, causal=False))
    np.testing.assert_array_equal(biases[1], posenc.alibi_bias(6, 5, 5, causal=False))
    token = posenc.alibi_bias(6, q_positions=where[:, -1:], k_positions=where, causal=False)
    np.testing.assert_array_equal(token, biases[:, :, -1:])
    slopes = posenc.alibi_slopes(6)
    bloom = slopes[:, np.newaxis] * (where * mask)[:, np.newaxis]  # (batch, heads, keys)
    last = biases[:, :, -1] - biases[:, :, -1, :1]  # but for a constant, and for what is hidden
    np.testing.assert_allclose(last[1], bloom[1], rtol=1e-6)
    np.testing.assert_allclose(last[0, :, 2:], bloom[0, :, 2:], rtol=1e-6)


def test_boxes_have_the_buckets_of_their_sides() -> None:
    # LayoutLMv3: 64 buckets up to 256 of the left and the lower sides, which are 0 to 1000
    boxes = np.random.default_rng(3).integers(0, 1001, (2, 40, 4))
    for side in (0, 3):
        where = boxes[:, :, side]
        got = posenc.t5_buckets(q_positions=where, num_buckets=64, max_distance=256)
        for page, i, j in np.ndindex(2, 40, 40):
            away = int(where[page, j] - where[page, i])
            assert got[page, i, j] == bucket(max(-256, min(away, 256)), True, 64, 256)


# Large results.


MANY = np.arange(10**6)


@pytest.mark.alone
@pytest.mark.parametrize(
    "call",
    [
        lambda: ALL.alibi_bias(16, 1, 200_000, dtype="f2"),
        lambda: ALL.alibi_bias(2, 1, 10**6, dtype="bfloat16"),
        lambda: ALL.alibi_bias(2, 10**6, 1, causal=False),
        lambda: ALL.alibi_bias(64, 0, 10**6),
        lambda: ALL.alibi_bias(2**16, 3, 2, dtype="f2"),
        lambda: ALL.alibi_bias(2, q_positions=[7], k_positions=MANY, dtype="f2"),
        lambda: ALL.alibi_bias(2, q_positions=MANY, k_positions=[7], dtype="f4"),
        lambda: ALL.alibi_bias(2**16, q_positions=[3], k_positions=[1, 2]),
        lambda: ALL.alibi_bias(2, q_positions=MANY.reshape(1000, 10, 100)[:, :, :3]),
        lambda: ALL.t5_buckets(1, 10**6),
        lambda: ALL.t5_buckets(10**6, 2, bidirectional=False),
        lambda: ALL.t5_buckets(q_positions=[7], k_positions=MANY[::-1]),
        lambda: ALL.t5_buckets(q_positions=MANY.reshape(-1, 2)),
        lambda: ALL.t5_buckets(1, 10**6, num_buckets=2**16, max_distance=2**32),
    ],
)
def test_results_of_any_shape_are_made_in_bounded_memory(
    call: Callable[[], Array],
) -> None:
    assert memory_beside(call) < BOUND


@pytest.mark.alone
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an interval timer")
@pytest.mark.parametrize(
    "call",
    [
        "posenc.alibi_bias(8, 8192, 8192, dtype='f4')",
        "posenc.alibi_bias(8, q_positions=np.arange(8192), dtype='f4')",
        "posenc.t5_buckets(12000, 12000)",
        "posenc.t5_buckets(q_positions=np.arange(12000))",
    ],
)
def test_ctrl_c_is_seen_amid_a_large_result(call: str) -> None:
    assert seconds_to_see_ctrl_c(call) < 0.5


@pytest.mark.parametrize(
    ("heads", "q_len", "k_len"), [(3, 40_000, 2), (2, 2, 70_000), (1, 1200, 900), (40_000, 2, 3)]
)
def test_large_results_have_the_bits_of_small_ones(heads: int, q_len: int, k_len: int) -> None:
    def some(axis: int) -> list[int]:
        return sorted({i for n in (0, axis // 3, axis // 2, 2**15, axis) for i in (n - 1, n)})

    at = [[i for i in some(length) if 0 <= i < length] for length in (heads, q_len, k_len)]
    rows, columns = np.array(at[1]) + k_len - q_len, np.array(at[2])
    slopes = posenc.alibi_slopes(heads)[at[0], np.newaxis, np.newaxis]
    away = columns - rows[:, np.newaxis]
    expected = np.where(away > 0, -np.inf, slopes * -np.abs(away)).astype(np.float32)
    whole = posenc.alibi_bias(heads, q_len, k_len, dtype=np.float32)
    assert whole[np.ix_(*at)].tobytes() == expected.tobytes()
    given = posenc.alibi_bias(
        heads, q_positions=np.arange(k_len - q_len, k_len), k_positions=range(k_len), dtype="f4"
    )
    assert given.tobytes() == whole.tobytes()
    buckets = posenc.t5_buckets(q_len, k_len)
    near = posenc.t5_buckets(q_positions=rows, k_positions=columns)
    assert np.array_equal(buckets[np.ix_(*at[1:])], near)


@pytest.mark.alone
def test_edges_of_thousands_of_buckets_are_found_at_once() -> None:
    began = time.perf_counter()
    posenc.t5_buckets(1, 100_000, num_buckets=4096, max_distance=10**6)
    assert time.perf_counter() - began < 0.15


def test_positions_that_a_conversion_changes_are_checked_after_it() -> None:
    queries = np.array([1, 2])

    class Changes:
        def __array__(self, dtype: object = None, copy: object = None) -> Array:
            queries[0] = 2**60
            return np.array([3])

    with pytest.raises(ValueError, match=r"^q_positions must be within 2\*\*52 of 0"):
        ALL.t5_buckets(q_positions=queries, k_positions=Changes())


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
    # more than anybody has, before anything is made of it
    (ValueError, ("heads", "65536", str(2**40)), lambda: ALL.alibi_slopes(2**40)),
    (ValueError, ("heads", "65536", str(2**40)), lambda: ALL.alibi_bias(2**40, 0, 0)),
    (ValueError, ("heads", "1329 bits"), lambda: ALL.alibi_slopes(10**400)),
    (ValueError, ("q_len and k_len", "2**63 bytes"), lambda: ALL.alibi_bias(8, 2**40, 2**40)),
    (ValueError, ("q_len and k_len", "2**63 bytes"), lambda: ALL.t5_buckets(2**40, 2**40)),
    (ValueError, ("k_len", str(2**52), str(2**70)), lambda: ALL.t5_buckets(0, 2**70)),
    (ValueError, ("k_len", str(2**52)), lambda: ALL.alibi_bias(1, 0, 2**70)),
    (ValueError, ("q_len", str(2**52)), lambda: ALL.t5_buckets(2**70, 0)),
    (ValueError, ("num_buckets", "65536"), lambda: ALL.t5_buckets(1, 1, num_buckets=2**40)),
    (
        ValueError,
        ("max_distance", str(2**32), "1329 bits"),
        lambda: ALL.t5_buckets(1, 3, num_buckets=4, max_distance=10**400),
    ),
    # switches are no numbers
    (TypeError, ("heads",), lambda: ALL.alibi_slopes(True)),
    (TypeError, ("heads",), lambda: ALL.alibi_bias(np.True_, 2, 2)),
    (TypeError, ("q_len",), lambda: ALL.alibi_bias(2, True, 2)),
    (TypeError, ("k_len",), lambda: ALL.t5_buckets(2, True)),
    (TypeError, ("num_buckets",), lambda: ALL.t5_buckets(2, 2, num_buckets=True)),
    (TypeError, ("max_distance",), lambda: ALL.t5_buckets(2, 2, max_distance=True)),
    # lengths or positions
    (TypeError, ("q_len", "q_positions", "None"), lambda: ALL.alibi_bias(2)),
    (TypeError, ("k_len", "q_positions", "None"), lambda: ALL.t5_buckets(3)),
    (ValueError, ("q_len", "both"), lambda: ALL.alibi_bias(2, 3, q_positions=[1, 2, 3])),
    (ValueError, ("k_len", "both"), lambda: ALL.t5_buckets(k_len=3, q_positions=[1, 2, 3])),
    (ValueError, ("q_positions", "k_positions"), lambda: ALL.t5_buckets(k_positions=[1, 2])),
    (TypeError, ("q_positions", "float64"), lambda: ALL.t5_buckets(q_positions=[0.0, 1.0])),
    (TypeError, ("q_positions", "bool"), lambda: ALL.alibi_bias(2, q_positions=[True])),
    (TypeError, ("k_positions", "<U1"), lambda: ALL.t5_buckets(q_positions=[1], k_positions="1")),
    (ValueError, ("q_positions", "axes", "0"), lambda: ALL.t5_buckets(q_positions=3)),
    (ValueError, ("q_positions", "30"), lambda: ALL.t5_buckets(q_positions=np.ones([1] * 31, int))),
    (
        ValueError,
        ("k_positions", "(3, 5)", "(2, 5)"),
        lambda: ALL.t5_buckets(q_positions=np.ones((2, 5), int), k_positions=np.ones((3, 5), int)),
    ),
    (
        ValueError,
        ("q_positions", "2**52", str(2**52 + 1)),
        lambda: ALL.alibi_bias(2, q_positions=[0, 2**52 + 1]),
    ),
    (
        ValueError,
        ("k_positions", "2**52", str(-(2**63))),
        lambda: ALL.t5_buckets(q_positions=[0], k_positions=[3, -(2**63)]),
    ),
    (
        ValueError,
        ("q_positions", "2**52", str(2**64 - 1)),
        lambda: ALL.t5_buckets(q_positions=np.array([2**64 - 1], np.uint64)),
    ),
    (ValueError, ("q_positions", "1329 bits"), lambda: ALL.t5_buckets(q_positions=[10**400])),
]


@pytest.mark.parametrize(("error", "words", "call"), CASES)
def test_bad_values_are_named(
    error: type[Exception], words: tuple[str, ...], call: Callable[[], object]
) -> None:
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert message.startswith(words[0])
    assert len(message) <= 300
