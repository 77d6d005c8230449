"""Conventions beyond the paper's, against their one formula in mpmath."""

import importlib
import itertools
import math
import pickle
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import numpy.typing as npt
import pytest
import reference  # noqa: F401 - 80 digits
from hypothesis import given
from hypothesis import strategies as st

import posenc
from posenc import _backend, _odd

Array = npt.NDArray[Any]

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
    dtype=st.sampled_from([np.float64, np.float32, np.float16, ml_dtypes.bfloat16]),
)
def test_every_route_has_the_same_bits(
    backend: str,
    d_model: int,
    odd: str,
    layout: str,
    cos_first: bool,
    amplitude: float,
    start: int,
    dtype: Any,
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
        np.testing.assert_array_equal(out[item, :, 2 : d_model + 2], table)
    assert (out[..., :2] == 7).all()
    assert (out[..., d_model + 2 :] == 7).all()
    order = np.random.default_rng(0).permutation(150)
    scattered = encoding.encode(start + order, dtype=dtype)
    np.testing.assert_array_equal(scattered, table[order])
    for position in (0, 77, 149):
        one = posenc.encode(start + position, d_model, dtype=dtype, **convention)
        np.testing.assert_array_equal(one, table[position])

    wide = np.float32 if np.dtype(dtype).itemsize == 2 else dtype
    precise = encoding.table(150, start=start, dtype=wide)
    weight = np.random.default_rng(1).standard_normal((50, d_model)).astype(dtype)
    ids = np.random.default_rng(2).integers(0, 50, (3, 150))
    mask = ids % 4 > 0
    x = weight[ids]
    plain = x.astype(wide) * np.dtype(wide).type(1.5)
    expected = (plain + precise).astype(dtype)
    np.testing.assert_array_equal(encoding.add(x, start=start, scale=1.5), expected)
    np.testing.assert_array_equal(encoding.embed(ids, weight, start=start, scale=1.5), expected)
    expected[~mask] = plain.astype(dtype)[~mask]
    got = encoding.embed(ids, weight, positions=start + np.arange(150), mask=mask, scale=1.5)
    np.testing.assert_array_equal(got, expected)
    assert encoding.add(x, start=start, mask=mask, scale=1.5, out=x, workers=2) is x
    np.testing.assert_array_equal(x, expected)


def test_all_backends_agree_on_every_convention() -> None:
    tables = []
    for name in _backend.available():
        kernels = importlib.import_module(f"posenc.{_backend._MODULES[name]}")
        encoder = posenc.Sinusoidal(34, cos_first=True, amplitude=0.7, shift=0.5)._source.encoder
        out = np.empty((1, 400, 34), np.float32)
        kernels.fill(out, -200.0, None, encoder, False)
        positions = np.array([[-1e15, 3000.0, 4000.5, 1e9, -7.0]])
        other = np.empty((1, 5, 34))
        kernels.fill(other, 0.0, positions, encoder, False)
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


@pytest.mark.parametrize("name", posenc.presets())
def test_presets_are_conventions(backend: str, name: str) -> None:
    encoding = posenc.Sinusoidal.preset(name, 8)
    keywords = encoding._convention()
    np.testing.assert_array_equal(encoding.table(70), posenc.positional_encoding(70, 8, **keywords))
    changed = posenc.Sinusoidal.preset(name, 8, base=100.0)
    assert changed.base == 100.0
    assert changed.layout == encoding.layout


def test_presets_of_other_frameworks(backend: str) -> None:
    expected: dict[str, dict[str, Any]] = {
        "vaswani": {"odd": "trim"},
        "fairseq": {"layout": "split", "shift": 1.0, "odd": "zero"},
        "musicgen": {"layout": "split", "shift": 1.0, "odd": "zero", "cos_first": True},
        "positional-encodings": {"odd": "ceil"},
        "x-transformers": {"layout": "split", "amplitude": 30**-0.5},
        "mlx": {"layout": "split", "shift": 1.0, "amplitude": math.sqrt(2 / 30)},
        "flux": {"layout": "split", "odd": "zero", "cos_first": True, "freq_scale": 1000.0},
    }
    for name, keywords in expected.items():
        got = posenc.Sinusoidal.preset(name, 30).encode(POSITIONS[:12])
        assert np.abs(got - formula(30, POSITIONS[:12], **keywords)).max() <= 2.0**-50


def test_every_preset_says_where_its_framework_begins() -> None:
    for name, text in posenc.presets().items():
        assert text.endswith("."), name
        assert len(text) > 20


def test_odd_widths_run_in_little_memory(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_odd, "_SCRATCH", 1000)
    x = np.random.default_rng(0).standard_normal((2, 300, 7)).astype(np.float32)
    table = posenc.positional_encoding(300, 7, odd="trim", dtype=np.float32)
    np.testing.assert_array_equal(posenc.add(x, odd="trim"), x + table)


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
    for dtype in (np.float16, ml_dtypes.bfloat16):
        got = posenc.encode([1.0, -1.0], 2, amplitude=1e300, dtype=dtype)
        np.testing.assert_array_equal(got.astype(float)[:, 0], [math.inf, -math.inf])
