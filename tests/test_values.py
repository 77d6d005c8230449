"""The numbers: exact within the promised bounds, as mpmath sees it."""

import decimal
import itertools
import math
from typing import NamedTuple

import hypothesis.strategies as st
import mpmath
import numpy as np
import pytest
from arrays import FLOAT32, FLOAT64, Dtype, assert_same_bits, every_wide_dtype
from hypothesis import given
from internals import forget, max_position
from reference import BOUND, error, half_ulp_float32, row, sine_cosine, table

import posenc

SCHEDULES = [
    (512, 10000.0),
    (1024, 10000.0),
    (128, 500000.0),
    (64, 1e6),
    (6, 10000.0),
    (768, 10000.0),
    (10, 1.0),
    (12, 2.0),
    (32, 1e30),
    (16, 1e100),
]
RANGES = [64, 130, 8192, 10**6, 2**24, 2**31, 2**40, 2**53]
LANDMARKS = [0, -1, 1, -3, 31, 32, 33, 63, 64, 65, 96, 97, 160, 161, 355, 2**24 - 1, 2**24 + 1]
LANDMARKS += [2**31 - 1, 2**31 + 1, 2**53, -(2**53), 2**53 - 1]
# Where a sine or cosine passes very near 0 at a large position: (d_model, pair, position).
ZERO_CROSSINGS = [(64, 0, 411557987), (64, 0, 245850922), (1024, 47, 740789594)]


class Sample(NamedTuple):
    position: float
    pair: int
    exact: tuple[mpmath.mpf, mpmath.mpf]


def samples(d_model: int, base: float) -> list[Sample]:
    rng = np.random.default_rng(d_model)
    whole = [int(p) for limit in RANGES for p in rng.integers(-limit, limit, 14)]
    real = [float(p) for p in (*rng.uniform(-1e4, 1e4, 20), *rng.uniform(0, 1, 10))]
    positions = [*LANDMARKS, *whole, *real, np.pi, 1e-200, 1e9 + 0.5, 2.0**40 + 0.25, 2.0**52 - 0.5]
    found = [
        Sample(position, int(pair), sine_cosine(position, d_model, base, int(pair)))
        for position in positions
        for pair in rng.integers(0, d_model // 2, 8)
    ]
    found += [
        Sample(position, pair, sine_cosine(position, d_model, base, pair))
        for width, pair, position in ZERO_CROSSINGS
        if width == d_model and base == 10000.0
    ]
    return found


@pytest.fixture(scope="module", params=SCHEDULES, ids=lambda s: f"d{s[0]}-base{s[1]:g}")
def judged(request: pytest.FixtureRequest) -> tuple[int, float, list[Sample]]:
    """Some 2800 entries of a schedule, 28 000 in all, for every backend to meet."""
    d_model, base = request.param
    return d_model, base, samples(d_model, base)


def encoded(
    judged: tuple[int, float, list[Sample]], dtype: Dtype
) -> list[tuple[np.floating, mpmath.mpf, Sample]]:
    d_model, base, found = judged
    rows = posenc.encode([s.position for s in found], d_model, base=base, dtype=dtype)
    return [
        (rows[i, 2 * s.pair + half], s.exact[half], s)
        for i, s in enumerate(found)
        for half in (0, 1)
    ]


def test_float32_entries_are_the_nearest_ones(
    backend: str, judged: tuple[int, float, list[Sample]]
) -> None:
    for got, exact, sample in encoded(judged, FLOAT32):
        assert error(got, exact) <= half_ulp_float32(exact) + BOUND, sample


def test_float64_entries_are_within_2_to_the_minus_50(
    backend: str, judged: tuple[int, float, list[Sample]]
) -> None:
    for got, exact, sample in encoded(judged, FLOAT64):
        assert error(got, exact) <= BOUND, sample


def test_small_angles_keep_their_relative_accuracy(
    backend: str, judged: tuple[int, float, list[Sample]]
) -> None:
    d_model, base, _ = judged
    checked = 0
    for got, exact, sample in encoded(judged, FLOAT64):
        small = abs(sample.position) * base ** (-2 * sample.pair / d_model) < math.pi / 4
        if small and exact:
            checked += 1
            assert error(got, exact) <= 5 * np.spacing(abs(float(exact))), sample
    assert checked > 100


def test_rows_just_beyond_the_table_keep_their_relative_accuracy(backend: str) -> None:
    # Rows 97 to 127 are turned back from an anchor at 128: the worst cancellation there is.
    d_model = 512
    rows = posenc.encode(np.arange(97, 128), d_model)
    worst = 0.0
    for r, pair in itertools.product(range(31), range(140, 256, 3)):
        for half, exact in enumerate(sine_cosine(97 + r, d_model, 10000.0, pair)):
            got = rows[r, 2 * pair + half]
            worst = max(worst, error(got, exact) / float(np.spacing(abs(float(exact)))))
    assert worst <= 5


@given(
    position=st.floats(-(2.0**53), 2.0**53),
    d_model=st.integers(1, 40).map(lambda n: 2 * n),
    base=st.floats(1.0, 1e100),
)
def test_any_position_and_base_within_the_bounds(
    backend: str, position: float, d_model: int, base: float
) -> None:
    got = posenc.encode(position, d_model, base=base)
    for pair in range(d_model // 2):
        for half, exact in enumerate(sine_cosine(position, d_model, base, pair)):
            assert error(got[2 * pair + half], exact) <= BOUND


@pytest.mark.parametrize("base", [0.9, 0.1, 0.01, 5e-29, 1e-30, 1e200])
def test_bases_beyond_the_promise_are_as_exact_where_they_resolve(
    backend: str, base: float
) -> None:
    d_model = 6
    limit = int(max_position(posenc.Sinusoidal(d_model, base=base)))
    positions = {0, 1, 3, 70, 1000, limit // 2, *range(max(limit - 70, 0), limit + 1)}
    for position in (p * sign for p in positions if p <= limit for sign in (1, -1)):
        got = posenc.encode(position, d_model, base=base)
        for pair in range(3):
            for half, exact in enumerate(sine_cosine(position, d_model, base, pair)):
                assert error(got[2 * pair + half], exact) <= BOUND, position
    with pytest.raises(ValueError, match="positions"):
        posenc.encode(limit + 1, d_model, base=base)


def test_position_zero_is_exactly_zero_and_one(backend: str) -> None:
    for zero in (0, 0.0, -0.0, False):
        got = posenc.encode(zero, 66)
        np.testing.assert_array_equal(got, [0.0, 1.0] * 33)
        assert not np.signbit(got).any()
    assert not np.signbit(posenc.positional_encoding(1, 66, dtype=np.float32)).any()


def test_the_cosine_of_pi_is_exactly_minus_one(backend: str) -> None:
    # numpy/numpy#23399: a fast cosine that misses its landmarks is noticed.
    sine, cosine = posenc.encode([np.pi], 2)[0]
    assert cosine == -1.0
    exact = mpmath.sin(mpmath.mpf(np.pi))
    assert error(sine, exact) <= 2 * np.spacing(float(exact))


@every_wide_dtype
def test_negative_positions_mirror_positive_ones(backend: str, dtype: Dtype) -> None:
    rng = np.random.default_rng(7)
    positions = [*range(1, 400), *rng.integers(0, 2**53, 50), *rng.uniform(0, 1e6, 50)]
    ahead = posenc.encode(positions, 66, dtype=dtype)
    behind = posenc.encode([-p for p in positions], 66, dtype=dtype)
    np.testing.assert_array_equal(behind[:, 1::2], ahead[:, 1::2])
    np.testing.assert_array_equal(behind[:, 0::2], -ahead[:, 0::2])
    assert (np.signbit(behind[:, 0::2]) != np.signbit(ahead[:, 0::2])).all()


def test_a_shift_is_the_same_rotation_for_every_position(backend: str) -> None:
    # Vaswani et al., section 3.5: PE(p + k) is a linear function of PE(p), for any fixed k.
    d_model = 64
    for shift in (1, 7, 500, -3):
        turn = posenc.encode(shift, d_model)
        sine, cosine = turn[0::2], turn[1::2]
        rows = posenc.encode(np.arange(-40, 900), d_model)
        turned = np.empty_like(rows)
        turned[:, 0::2] = rows[:, 0::2] * cosine + rows[:, 1::2] * sine
        turned[:, 1::2] = rows[:, 1::2] * cosine - rows[:, 0::2] * sine
        shifted = posenc.encode(np.arange(-40, 900) + shift, d_model)
        np.testing.assert_allclose(turned, shifted, rtol=0, atol=4 * BOUND)


def test_the_dot_product_of_two_rows_depends_on_their_distance_alone(backend: str) -> None:
    rows = posenc.positional_encoding(700, 128, start=10**6)
    for distance in (0, 1, 5, 64, 300):
        products = np.einsum("pi,pi->p", rows[: 700 - distance], rows[distance:])
        assert np.ptp(products) <= 128 * BOUND


def test_sines_and_cosines_of_a_pair_share_a_frequency(backend: str) -> None:
    rows = posenc.positional_encoding(3000, 30)
    np.testing.assert_allclose(rows[:, 0::2] ** 2 + rows[:, 1::2] ** 2, 1.0, rtol=0, atol=1e-14)


# Values from the reports named, or computed with mpmath from the formula, to nine places.
@pytest.mark.parametrize(
    ("position", "d_model", "base", "expected"),
    [
        # jadore801120/attention-is-all-you-need-pytorch#32: the exponent counts pairs, not columns
        (1, 4, 10000, [0.841470985, 0.540302306, 0.00999983333, 0.999950000]),
        # goodfire-ai/spd#88: divide by the wavelength
        (
            1,
            6,
            10000,
            [0.841470985, 0.540302306, 0.0463992235, 0.998922976, 0.00215443302, 0.999997679],
        ),
        # hojonathanho/diffusion#15: the paper's spacing, whose last frequency is not 1/base
        (
            1,
            8,
            10000,
            [
                0.841470985,
                0.540302306,
                0.0998334166,
                0.995004165,
                0.00999983333,
                0.99995,
                0.00099999983,
                0.9999995,
            ],
        ),
        # huggingface/transformers#29285: angles in float32 drift
        (100000, 4, 10000, [0.035748798, -0.999360807, 0.826879541, 0.562379076]),
        (999999, 4, 10000, [-0.977352032, 0.211619958, -0.296077713, -0.955163854]),
        # modelscope/DiffSynth-Studio#1025: fractional time steps
        (np.float32(998.3897), 4, 10000, [-0.594588994, 0.804029806, -0.530439674, -0.847722686]),
        (937, 4, 10000, [0.721100368, 0.692830613, 0.0547505702, -0.998500063]),
        (750, 4, 10000, [0.74507295, -0.666982982, 0.937999977, 0.346635318]),
        # numpy/numpy#23289: a power that differs by CPU
        (1, 4, 100, [0.841470985, 0.540302306, 0.0998334166, 0.995004165]),
        # turboderp-org/exllamav2#606: negative positions are positions
        (-1, 4, 10000, [-0.841470985, 0.540302306, -0.00999983333, 0.99995]),
        (-5, 4, 10000, [0.958924275, 0.283662185, -0.0499791693, 0.99875026]),
        # EleutherAI/gpt-neox#1016, pytorch/pytorch#81926: positions of low precision collide
        (257, 2, 10000, [-0.573357175, 0.819305529]),
        (2049, 2, 10000, [0.630028460, 0.776572044]),
        (65536, 2, 10000, [0.692065454, -0.721834751]),
    ],
)
@every_wide_dtype
def test_published_values(
    backend: str,
    position: float,
    d_model: int,
    base: float,
    expected: list[float],
    dtype: Dtype,
) -> None:
    got = posenc.encode(position, d_model, base=base, dtype=dtype)
    np.testing.assert_allclose(got, expected, rtol=0, atol=6e-8 if dtype == np.float32 else 1e-9)
    assert got.dtype == dtype


def test_a_far_position_of_a_wide_encoding(backend: str) -> None:
    # KellerJordan/modded-nanogpt#39: a float32 angle gives 0.4861 here.
    got = posenc.encode([131071], 512)[0, 2:4]
    np.testing.assert_allclose(got, [0.493705510, -0.869629156], rtol=0, atol=1e-9)


def test_a_large_position_in_any_lane_of_strided_positions(backend: str) -> None:
    # numpy/numpy#16572: a vector kernel sent the wrong lane to its slow path.
    for lane in range(32):
        positions = np.zeros(64, np.float32)
        positions[2 * lane] = 72000.0
        positions[2 * lane + 1] = np.nan  # between the strides, never to be read
        got = posenc.encode(positions[::2], 2)
        expected = np.tile([0.0, 1.0], (32, 1))
        expected[lane] = row(72000, 2)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("d_model", [4, 8, 512])
def test_split_cosines_are_of_the_angles_and_not_of_the_sines(backend: str, d_model: int) -> None:
    # huggingface/transformers#11724: the sines were written over the angles.
    out = np.full((3, d_model), 9.0)
    posenc.fill(out, layout="split")
    expected = table(range(3), d_model)
    np.testing.assert_allclose(out[:, : d_model // 2], expected[:, 0::2], rtol=0, atol=1e-15)
    np.testing.assert_allclose(out[:, d_model // 2 :], expected[:, 1::2], rtol=0, atol=1e-15)


@every_wide_dtype
@pytest.mark.parametrize("d_model", [2, 4, 6, 34, 512])
def test_split_is_interleaved_with_its_columns_in_another_order(
    backend: str, d_model: int, dtype: Dtype
) -> None:
    # allenai/allennlp#2993
    split = posenc.positional_encoding(150, d_model, start=-20, layout="split", dtype=dtype)
    pairs = posenc.positional_encoding(150, d_model, start=-20, dtype=dtype)
    assert_same_bits(split[:, : d_model // 2], pairs[:, 0::2])
    assert_same_bits(split[:, d_model // 2 :], pairs[:, 1::2])


def test_int_and_float_bases_are_the_same(backend: str) -> None:
    expected = posenc.positional_encoding(70, 6, base=10000)
    for base in (10000.0, np.float64(10000), np.int64(10000), np.float32(10000)):
        assert_same_bits(posenc.positional_encoding(70, 6, base=base), expected)
    assert_same_bits(posenc.positional_encoding(70, 6), expected)


@pytest.mark.parametrize(("d_model", "base"), [*SCHEDULES, (64, 1e-20), (4096, 10000.0)])
def test_frequencies_are_exact_to_twice_the_precision_of_a_double(
    d_model: int, base: float
) -> None:
    turns = posenc.Sinusoidal(d_model, base=base)._source.plan.quarter_turns
    assert (turns[1] + turns[2] == turns[0]).all()
    for pair in {0, 1, d_model // 4, d_model // 2 - 1}:
        exact = mpmath.mpf(base) ** (mpmath.mpf(-2 * pair) / d_model) * 2 / mpmath.pi
        got = mpmath.mpf(turns[0, pair]) + mpmath.mpf(turns[3, pair])
        assert abs(got - exact) <= abs(exact) * mpmath.mpf(2) ** -106
        assert abs(turns[3, pair]) <= np.spacing(turns[0, pair]) / 2


def test_the_callers_decimal_context_changes_nothing_and_is_left_alone(backend: str) -> None:
    expected = posenc.positional_encoding(70, 24, base=333.0)
    forget()
    with decimal.localcontext() as context:
        context.prec = 3
        context.rounding = decimal.ROUND_UP
        context.traps[decimal.Inexact] = True
        context.traps[decimal.FloatOperation] = True
        assert_same_bits(posenc.positional_encoding(70, 24, base=333.0), expected)
        assert context.prec == 3
        assert not any(context.flags.values())


def test_tiny_positions_keep_their_relative_accuracy(backend: str) -> None:
    for position in (1e-200, -1e-260, 3e-280):
        got = posenc.encode(position, 6)
        assert (got[1::2] == 1.0).all()
        for pair in range(3):
            exact = sine_cosine(position, 6, 10000.0, pair)[0]
            assert error(got[2 * pair], exact) <= 5 * np.spacing(abs(float(exact)))
    # below the smallest subnormal number a sine is 0
    np.testing.assert_array_equal(posenc.encode(1e-310, 64, base=1e100)[-2:], [0.0, 1.0])
