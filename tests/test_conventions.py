"""Conventions beyond the paper's, against their one formula in mpmath."""

import itertools
import math
import pickle
import re
from typing import Any

import mpmath
import numpy as np
import pytest
from arrays import (
    DTYPES,
    SIXTEEN_BITS,
    Array,
    Dtype,
    accumulation_dtype,
    assert_same_bits,
    every_dtype,
    random,
    sums,
)
from hypothesis import given
from hypothesis import strategies as st
from internals import kernels_of, plan_of

import posenc
from posenc import _backend

POSITIONS = [0, 1, 2, 7, 62, 63, 64, 97, -33, -70, 513, 100000, 2**40 + 1, 0.5, -1e6 / 7]
CONVENTIONS: list[dict[str, Any]] = [
    {},
    {"shift": 1.0},
    {"shift": 0.5, "base": 77.5},
    {"freq_scale": 2.5, "base": 3.0},
    {"freq_scale": 2 * math.pi},
    {"amplitude": 0.25},
    {"amplitude": -3.0, "shift": -2.0},
    {"shift": 1.0, "amplitude": 0.3, "freq_scale": 0.1, "base": 500.0},
]


def formula(d: int, positions: list[float], **keywords: Any) -> Array:
    """amplitude * (sin | cos)(p * freq_scale * base^(-i / (D - shift))), as it reads."""
    get = {"base": 10000.0, "shift": 0.0, "freq_scale": 1.0, "amplitude": 1.0} | keywords
    odd = keywords.get("odd", "trim")
    n = d // 2 if odd == "zero" else (d + 1) // 2
    steps = mpmath.mpf(d) / 2 if odd in ("trim", "error") else mpmath.mpf(n)
    steps -= mpmath.mpf(get["shift"])
    rows = []
    for position in positions:
        first, second = [], []
        for i in range(n):
            power = mpmath.mpf(get["base"]) ** (-i / steps) if steps > 0 else mpmath.mpf(1)
            cosine, sine = mpmath.cos_sin(mpmath.mpf(position) * get["freq_scale"] * power)
            first.append(float(get["amplitude"] * sine))
            second.append(float(get["amplitude"] * cosine))
        if keywords.get("cos_first"):
            first, second = second, first
        split = keywords.get("layout") == "split"
        row = first + second if split else [*itertools.chain(*zip(first, second, strict=True))]
        rows.append([*row, 0.0][:d] if odd == "zero" else row[:d])
    return np.array(rows)


@pytest.mark.parametrize("keywords", CONVENTIONS, ids=str)
@pytest.mark.parametrize("odd", ["trim", "ceil", "zero"])
@pytest.mark.parametrize("d_model", [2, 3, 6, 7, 30])
def test_every_keyword_is_in_the_formula(
    backend: str, d_model: int, odd: str, keywords: dict[str, Any]
) -> None:
    for layout, cos_first in itertools.product(("interleaved", "split"), (False, True)):
        convention = {**keywords, "odd": odd, "layout": layout, "cos_first": cos_first}
        encoding = posenc.Sinusoidal(d_model, **convention)
        expected = formula(d_model, POSITIONS, **convention)
        bound = 2.0**-50 * max(1.0, abs(keywords.get("amplitude", 1.0)))
        got = encoding.encode(POSITIONS)
        assert np.abs(got - expected).max() <= bound
        consecutive = encoding.table(300, start=-130)
        np.testing.assert_array_equal(
            consecutive[[130, 131, 193, 194]], encoding.encode([0, 1, 63, 64])
        )


@given(
    d_model=st.integers(2, 40),
    odd=st.sampled_from(["trim", "ceil", "zero"]),
    layout=st.sampled_from(["interleaved", "split"]),
    cos_first=st.booleans(),
    amplitude=st.sampled_from([1.0, 0.37]),
    start=st.integers(-300, 300),
    dtype=st.sampled_from(DTYPES),
)
def test_every_route_has_the_same_bits(
    backend: str,
    d_model: int,
    odd: str,
    layout: str,
    cos_first: bool,
    amplitude: float,
    start: int,
    dtype: Dtype,
) -> None:
    convention: dict[str, Any] = {
        "odd": odd,
        "layout": layout,
        "cos_first": cos_first,
        "amplitude": amplitude,
    }
    encoding = posenc.Sinusoidal(d_model, **convention)
    table = encoding.table(150, start=start, dtype=dtype)
    out = np.full((2, 150, d_model + 5), 7, dtype)
    assert encoding.fill(out[..., 2 : d_model + 2], start=start).base is out
    for item in range(2):
        assert_same_bits(out[item, :, 2 : d_model + 2], table)
    assert (out[..., :2] == 7).all()
    assert (out[..., d_model + 2 :] == 7).all()
    order = np.random.default_rng(0).permutation(150)
    scattered = encoding.encode(start + order, dtype=dtype)
    assert_same_bits(scattered, table[order])
    for position in (0, 77, 149):
        one = posenc.encode(start + position, d_model, dtype=dtype, **convention)
        assert_same_bits(one, table[position])

    precise = encoding.table(150, start=start, dtype=accumulation_dtype(dtype))
    weight = random((50, d_model), dtype)
    ids = np.random.default_rng(2).integers(0, 50, (3, 150))
    mask = ids % 4 > 0
    x = weight[ids]
    plain, expected = sums(x, 1.5, np.float32(-0.0)), sums(x, 1.5, precise)
    assert_same_bits(encoding.add(x, start=start, scale=1.5), expected)
    assert_same_bits(encoding.embed(ids, weight, start=start, scale=1.5), expected)
    expected[~mask] = plain[~mask]
    got = encoding.embed(ids, weight, positions=start + np.arange(150), mask=mask, scale=1.5)
    assert_same_bits(got, expected)
    assert encoding.add(x, start=start, mask=mask, scale=1.5, out=x, workers=2) is x
    assert_same_bits(x, expected)


def test_all_backends_agree_on_every_convention() -> None:
    tables = []
    for name in _backend.available():
        kernels = kernels_of(name)
        plan = plan_of(posenc.Sinusoidal(34, cos_first=True, amplitude=0.7, shift=0.5))
        out = np.empty((1, 400, 34), np.float32)
        kernels.fill(out, -200.0, None, plan, False, 0, 400)
        positions = np.array([[-1e15, 3000.0, 4000.5, 1e9, -7.0]])
        other = np.empty((1, 5, 34))
        kernels.fill(other, 0.0, positions, plan, False, 0, 5)
        tables.append(out.tobytes() + other.tobytes())
    assert len(set(tables)) == 1


def test_one_frequency_alone_is_freq_scale_itself(backend: str) -> None:
    # facebookresearch/fairseq and openai/whisper divide by zero at d_model = 2 and 3.
    for d_model in (2, 3):
        got = posenc.Sinusoidal(d_model, shift=1.0, odd="zero", layout="split").encode([3])[0, :2]
        np.testing.assert_allclose(got, [math.sin(3), math.cos(3)], rtol=1e-15)


def test_frequencies_are_taken_as_exact(backend: str) -> None:
    frequencies = np.array([1.0, 0.3, 0.0123, -2.0, 0.0])
    encoding = posenc.Sinusoidal(10, frequencies=frequencies, cos_first=True, amplitude=2.0)
    got = encoding.encode(POSITIONS)
    for row, position in zip(got, POSITIONS, strict=True):
        for i, frequency in enumerate(frequencies.tolist()):
            cosine, sine = mpmath.cos_sin(mpmath.mpf(position) * mpmath.mpf(frequency))
            assert abs(row[2 * i] - float(2 * cosine)) <= 2.0**-49
            assert abs(row[2 * i + 1] - float(2 * sine)) <= 2.0**-49
    assert encoding == posenc.Sinusoidal(
        10, frequencies=tuple(frequencies), cos_first=True, amplitude=2.0
    )
    assert pickle.loads(pickle.dumps(encoding)) == encoding
    assert hash(encoding) == hash(pickle.loads(pickle.dumps(encoding)))
    assert posenc.Sinusoidal(2, frequencies=[1.0]) == posenc.Sinusoidal(2, frequencies=np.ones(1))


def test_frequencies_like_the_formulas_come_close_to_it(backend: str) -> None:
    rounded = 10000.0 ** (-np.arange(32) / 32)
    got = posenc.encode(range(2000), 64, frequencies=rounded)
    np.testing.assert_allclose(got, posenc.positional_encoding(2000, 64), rtol=0, atol=5e-13)


# Of each preset, the formula as its framework has it, for a width of 30.
_TIMING: dict[str, Any] = {"layout": "split", "shift": 1.0, "odd": "zero"}
_SPLIT: dict[str, Any] = {"layout": "split"}
PRESETS: dict[str, dict[str, Any]] = {
    "vaswani": {},
    "pytorch-tutorial": {},
    "keras": {},
    "positional-encodings": {"odd": "ceil"},
    "marian": _SPLIT,
    "ctrl": _SPLIT,
    "gptj": _SPLIT,
    "transformer-xl": _SPLIT,
    "fairseq": _TIMING,
    "m2m100": _TIMING,
    "tensor2tensor": _TIMING,
    "whisper": {"layout": "split", "shift": 1.0},
    "ctranslate2": {"layout": "split", "shift": 1.0},
    "musicgen": {**_TIMING, "cos_first": True},
    "diffusers": _TIMING,
    "dit": {"layout": "split", "cos_first": True},
    "flux": {"layout": "split", "cos_first": True, "freq_scale": 1000.0},
    "x-transformers": {"layout": "split", "amplitude": 30**-0.5},
    "mlx": {"layout": "split", "shift": 1.0, "amplitude": math.sqrt(2 / 30)},
}
# And for one of 7, where there is one: the last cosine left out, or a column of zeros at the end.
ODD = {
    **dict.fromkeys(("vaswani", "keras", "marian", "ctrl", "gptj", "transformer-xl"), "trim"),
    "positional-encodings": "ceil",
    **dict.fromkeys(
        ("fairseq", "m2m100", "tensor2tensor", "musicgen", "diffusers", "dit", "flux"), "zero"
    ),
}


def test_every_preset_has_its_formula_here() -> None:
    assert [*PRESETS] == [*posenc.presets()]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_the_formulas_of_their_frameworks(backend: str, name: str) -> None:
    positions = POSITIONS[:12]
    got = posenc.Sinusoidal.preset(name, 30).encode(positions)
    assert np.abs(got - formula(30, positions, **PRESETS[name])).max() <= 2.0**-50
    if name in ODD:
        got = posenc.Sinusoidal.preset(name, 7).encode(positions)
        expected = formula(7, positions, **{**PRESETS[name], "odd": ODD[name]})
        assert np.abs(got - expected).max() <= 2.0**-50
    else:
        with pytest.raises(ValueError, match=r"d_model must be .*even"):
            posenc.Sinusoidal.preset(name, 7)


@pytest.mark.parametrize("name", PRESETS)
def test_keywords_of_a_preset_give_way_to_those_that_are_given(backend: str, name: str) -> None:
    changed = posenc.Sinusoidal.preset(name, 30, base=100.0)
    expected = formula(30, POSITIONS[:12], **{**PRESETS[name], "base": 100.0})
    assert np.abs(changed.encode(POSITIONS[:12]) - expected).max() <= 2.0**-50


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_says_where_its_framework_begins(name: str) -> None:
    """Or what its positions are instead of indices, or which other one says so."""
    texts = posenc.presets()
    same = re.search(r"\b[Aa]s ([\w-]+)[.,:]", texts[name])
    text = texts[same[1]] if same else texts[name]
    begins = r"from (position|start_index|the positions)|positions are (distances|timesteps)"
    assert re.search(begins, text, re.IGNORECASE), text


@every_dtype
def test_odd_widths_of_many_rows(backend: str, dtype: Dtype) -> None:
    x = random((2, 300, 7), dtype)
    rows = posenc.positional_encoding(300, 7, odd="trim", dtype=accumulation_dtype(dtype))
    assert_same_bits(posenc.add(x, odd="trim"), sums(x, 1.0, rows))


def test_an_odd_width_is_checked_on_the_short_way_too(backend: str) -> None:
    for odd, width in (("ceil", 6), ("trim", 6), ("zero", 4)):
        encoding: Any = posenc.Sinusoidal(5, odd=odd)  # type: ignore[arg-type]
        x, out = np.zeros((2, 1, 1, width), np.float32)
        with pytest.raises(ValueError, match="last axis 5"):
            encoding.add(x, out=out)


def test_frequencies_that_change_are_not_remembered(backend: str) -> None:
    class Changing:
        values = np.array([1.0, 0.5])

        def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
            return self.values.copy()

    changing = Changing()
    first = posenc.encode([3], 4, frequencies=changing)
    changing.values[:] = 0.25
    second = posenc.encode([3], 4, frequencies=changing)
    np.testing.assert_array_equal(second, posenc.encode([3], 4, frequencies=[0.25, 0.25]))
    assert (first != second).any()


def test_a_shift_close_to_the_number_of_pairs_is_quick(backend: str) -> None:
    for shift in (1.999999, 2 - 1e-12):
        got = posenc.Sinusoidal(4, shift=shift).encode([5])[0]
        np.testing.assert_allclose(got, [math.sin(5), math.cos(5), 0, 1], rtol=1e-15)


def test_a_negative_zero_is_a_zero(backend: str) -> None:
    assert np.signbit(posenc.positional_encoding(2, 6, amplitude=-0.0)).sum() == 0
    assert posenc.Sinusoidal(6, amplitude=-0.0) == posenc.Sinusoidal(6, amplitude=0.0)


def test_frequencies_of_ones_own_in_the_order_of_a_preset(backend: str) -> None:
    got = posenc.Sinusoidal.preset("musicgen", 4, frequencies=[1.0, 0.5])
    assert got == posenc.Sinusoidal(4, layout="split", cos_first=True, frequencies=[1.0, 0.5])


def test_what_is_prepared_does_not_depend_on_errstate(backend: str) -> None:
    with np.errstate(all="raise"):
        posenc.Sinusoidal(4, amplitude=1e-307, base=1e9).table(3)


def test_amplitudes_beyond_sixteen_bits_are_infinite(backend: str) -> None:
    for dtype in SIXTEEN_BITS:
        got = posenc.encode([1.0, -1.0], 2, amplitude=1e300, dtype=dtype)
        np.testing.assert_array_equal(got.astype(float)[:, 0], [math.inf, -math.inf])
