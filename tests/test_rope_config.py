"""`Rotary.from_config`: formulas of transformers, restated here in plain float64."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import posenc

Floats = npt.NDArray[np.float64]

from_config = posenc.Rotary.from_config


def theta(base: float, dim: int) -> Floats:
    return np.array([base ** (-2 * i / dim) for i in range(dim // 2)])


def assert_near(rotary: posenc.Rotary, expected: Any, attention: float = 1.0) -> None:
    np.testing.assert_allclose(rotary.frequencies, expected, rtol=1e-13, atol=0)
    assert rotary.attention == pytest.approx(attention, rel=1e-15)


def test_default_is_the_plain_schedule() -> None:
    for config in ({}, {"rope_type": "default"}, {"type": "default"}, {"rope_type": None}):
        rotary = from_config({"rope_theta": 5e5, **config}, head_dim=64)
        assert rotary == posenc.Rotary(64, base=5e5)
    partial = {"rope_theta": 1e4, "partial_rotary_factor": 0.25, "head_dim": 96}
    assert from_config(partial) == posenc.Rotary(24)
    assert from_config(partial, head_dim=64, layout="interleaved") == posenc.Rotary(
        16, layout="interleaved"
    )


def test_linear() -> None:
    # ggml-org/ggml#835: applied twice
    config = {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}
    assert_near(from_config(config, head_dim=64), theta(1e4, 64) / 4)
    cos, sin = from_config(config, head_dim=4).tables(1, start=3)
    got = [sin[0, 0], cos[0, 0], sin[0, 1], cos[0, 1]]
    np.testing.assert_allclose(got, [0.68163876, 0.731688869, 0.00749992969, 0.999971875], 1e-8)


def test_dynamic_depends_on_its_arguments_alone() -> None:
    # huggingface/transformers#27226, vllm-project/vllm#5093: scaled once, scaled for ever
    config = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    for length, base in ((None, 1e4), (8, 9e4), (4, 1e4), (16, 49e4), (3, 1e4)):
        rotary = from_config(config, head_dim=4, max_position_embeddings=4, seq_len=length)
        assert_near(rotary, theta(base, 4))
    long = from_config(config, head_dim=4, max_position_embeddings=4, seq_len=8)
    assert long.tables(1, start=3)[1][0, 1] == pytest.approx(0.00999983333, rel=1e-8)
    short = from_config({**config, "max_position_embeddings": 4, "seq_len": 4}, head_dim=4)
    assert short.tables(1, start=3)[1][0, 1] == pytest.approx(0.0299955002, rel=1e-8)
    assert_near(from_config(config, head_dim=2, max_position_embeddings=4, seq_len=9), [1.0])


YARN = {"rope_type": "yarn", "rope_theta": 1e4, "original_max_position_embeddings": 4096}


def yarn(factor: float, fast: float, slow: float, truncate: bool, dim: int = 128) -> Floats:
    def pair(turns: float) -> float:
        return dim * math.log(4096 / (turns * 2 * math.pi)) / (2 * math.log(1e4))

    low, high = pair(fast), pair(slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    values = []
    for i, plain in enumerate(theta(1e4, dim)):
        ramp = min(max((i - low) / (high - low), 0), 1)
        values.append(plain / factor * ramp + plain * (1 - ramp))
    return np.array(values)


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize(("fast", "slow"), [(32, 1), (40, 2)])
@pytest.mark.parametrize(
    ("factor", "attention"),
    [(4, 1.13862944), (16, 1.27725887), (40, 1.36888795), (128, 1.48520303), (0.5, 1.0)],
)
def test_yarn(factor: float, attention: float, fast: float, slow: float, truncate: bool) -> None:
    config = {**YARN, "factor": factor, "truncate": truncate, "beta_fast": fast, "beta_slow": slow}
    rotary = from_config(config, head_dim=128)
    np.testing.assert_allclose(rotary.frequencies, yarn(factor, fast, slow, truncate), 1e-13)
    assert rotary.attention == pytest.approx(attention, abs=1e-8)


def test_attention_of_yarn() -> None:
    # sgl-project/sglang#33558 squared it, sgl-project/sglang#22711 has two scales that cancel
    def attention(**more: float) -> float:
        return from_config({**YARN, "factor": 40.0, **more}, head_dim=64).attention

    ln = math.log(40)
    assert attention(attention_factor=1.5, mscale=3.0) == 1.5
    assert attention(mscale=0.707, mscale_all_dim=0.707) == 1.0
    assert attention(mscale=0.707) == attention()
    assert attention(mscale=0.707, mscale_all_dim=0.0) == attention()
    expected = (0.0707 * ln + 1) / (0.1 * ln + 1)
    assert attention(mscale=0.707, mscale_all_dim=1.0) == pytest.approx(expected, rel=1e-15)


def test_what_yarn_takes_from_the_model() -> None:
    config = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}
    implied = from_config(config, head_dim=64, max_position_embeddings=4096)
    assert implied == from_config({**YARN, "factor": 4.0}, head_dim=64)
    ratio = from_config(YARN, head_dim=64, max_position_embeddings=16384)
    assert ratio == implied


@pytest.mark.parametrize("length", [None, 4096, 4097, 99999])
def test_longrope(length: int | None) -> None:
    short, long = np.linspace(1, 2, 48).tolist(), np.linspace(1, 60, 48).tolist()
    config = {
        "rope_type": "longrope",
        "rope_theta": 1e4,
        "short_factor": short,
        "long_factor": long,
        "original_max_position_embeddings": 4096,
    }
    rotary = from_config(config, head_dim=96, max_position_embeddings=131072, seq_len=length)
    divisors = long if length is not None and length > 4096 else short
    attention = math.sqrt(1 + math.log(32) / math.log(4096))
    assert_near(rotary, theta(1e4, 96) / np.array(divisors), attention)
    for more, expected in (({"factor": 1.0}, 1.0), ({"factor": 8, "attention_factor": 1.1}, 1.1)):
        assert from_config({**config, **more}, head_dim=96).attention == expected


def test_llama3() -> None:
    config = {
        "rope_type": "llama3",
        "rope_theta": 5e5,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    expected = []
    for plain in theta(5e5, 128):
        wavelength = 2 * math.pi / plain
        if wavelength < 8192 / 4:
            expected.append(plain)
        elif wavelength > 8192 / 1:
            expected.append(plain / 8)
        else:
            smooth = (8192 / wavelength - 1) / (4 - 1)
            expected.append((1 - smooth) * plain / 8 + smooth * plain)
    assert_near(from_config(config, head_dim=128), expected)


@pytest.mark.parametrize(("proportion", "turning"), [(1.0, 32), (0.25, 8), (0.3, 9)])
def test_proportional(proportion: float, turning: int) -> None:
    config = {
        "rope_type": "proportional",
        "rope_theta": 1e6,
        "partial_rotary_factor": proportion,
    }
    expected = theta(1e6, 64)
    expected[turning:] = 0.0
    assert_near(from_config(config, head_dim=64), expected)
    assert_near(from_config({**config, "factor": 8.0}, head_dim=64), expected / 8)


def test_axial() -> None:
    rotary = from_config({"rope_type": "axial", "rope_theta": 1e4}, head_dim=64)
    assert_near(rotary, [*theta(1e4, 32), *theta(1e4, 32)])
    assert rotary.axes == (0,) * 16 + (1,) * 16


def test_sections() -> None:
    config: dict[str, Any] = {"type": "mrope", "rope_theta": 1e6, "mrope_section": [2, 3, 3]}
    assert from_config(config, head_dim=16).axes == (0, 0, 1, 1, 1, 2, 2, 2)
    config = {**config, "mrope_section": [4, 2, 2], "mrope_interleaved": True}
    assert from_config(config, head_dim=16).axes == (0, 1, 2, 0, 1, 2, 0, 0)


def test_a_whole_configuration() -> None:
    parameters = {**YARN, "factor": 4.0}
    model = {"hidden_size": 512, "num_attention_heads": 8, "model_type": "llama"}
    expected = from_config(parameters, head_dim=64)
    assert from_config({**model, "rope_parameters": parameters}) == expected
    theta, scaling = parameters.pop("rope_theta"), parameters
    assert from_config({**model, "rope_theta": theta, "rope_scaling": scaling}) == expected
    old = {**model, "rope_theta": theta, "rope_scaling": None, "head_dim": 32}
    assert from_config(old) == posenc.Rotary(32)
    nested = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    with pytest.raises(ValueError, match="full_attention, sliding_attention"):
        from_config({**model, "rope_parameters": nested})


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"rope_type": "su", "rope_theta": 1e4}, "rope_type.*'su'"),
        ({"rope_type": 3, "rope_theta": 1e4}, "rope_type.*3"),
        ({"rope_type": "linear", "factor": 2.0}, "rope_theta"),
        ({"rope_type": "linear"}, "rope_theta, factor"),
        ({"rope_type": "dynamic", "rope_theta": 1e4}, "factor, max_position_embeddings"),
        ({"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}, "original_max_position"),
        ({"rope_type": "longrope", "rope_theta": 1e4}, "short_factor, long_factor"),
        ({"rope_type": "llama3", "rope_theta": 1e4}, "low_freq_factor, high_freq_factor"),
        ({"rope_type": "linear", "rope_theta": 1e4, "factor": 0.0}, "factor"),
        ({"rope_theta": -1.0}, "rope_theta"),
        ({"rope_theta": 1e4, "partial_rotary_factor": 1.5}, "partial_rotary_factor"),
        ({"rope_theta": 1e4, "partial_rotary_factor": 0.11}, "partial_rotary_factor.*7"),
        ({"rope_theta": 1e4, "mrope_section": [1, 2, 3]}, "mrope_section"),
        ({**YARN, "factor": 2.0, "rope_theta": 1.0}, "rope_theta"),
    ],
)
def test_what_is_wrong_is_named(config: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        from_config(config, head_dim=64)


def test_a_head_must_be_given() -> None:
    with pytest.raises(ValueError, match="head_dim"):
        from_config({"rope_theta": 1e4})
    with pytest.raises(ValueError, match="65"):
        from_config({"rope_theta": 1e4}, head_dim=65)
    with pytest.raises(ValueError, match=r"head_dim.*66"):
        from_config({"rope_type": "axial", "rope_theta": 1e4}, head_dim=66)
    with pytest.raises(TypeError, match="config"):
        from_config([])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "dim"),
    [
        ({"hidden_size": 7168, "num_attention_heads": 128, "qk_rope_head_dim": 64}, 64),
        ({"head_dim": 128, "rotary_dim": 64}, 64),
        ({"hidden_size": 512, "num_attention_heads": 8, "rotary_pct": 0.25}, 16),
    ],
)
def test_whole_configurations_say_how_much_turns(config: dict[str, object], dim: int) -> None:
    assert posenc.Rotary.from_config({"rope_theta": 1e4, **config}).dim == dim


def test_the_callers_errstate_does_not_matter() -> None:
    config = {"rope_type": "linear", "factor": 1e300, "rope_theta": 1e30}
    with np.errstate(all="raise"):
        posenc.Rotary.from_config(config, head_dim=64)
