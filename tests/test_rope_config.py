"""`Rotary.from_config`: what a configuration says, as a rotation.

`theta` and `yarn` restate the formulas of transformers in plain float64, step by step as the library
does: a test against them finds what has changed, and not what both misread. Whoever doubts the
formulas looks elsewhere: the numbers in this file that come from a report or a model card, and
`tests/oracles/test_transformers.py`, `test_rotary_classes.py` and `test_rotary_embedding_torch.py`,
which hold the frequencies against those of the frameworks' own classes.
"""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from arrays import Array

import posenc

from_config = posenc.Rotary.from_config


def theta(base: float, dim: int) -> Array:
    return np.array([base ** (-2 * i / dim) for i in range(dim // 2)])


def assert_near(rotary: posenc.Rotary, expected: Any, attention: float = 1.0) -> None:
    np.testing.assert_allclose(rotary.frequencies, expected, rtol=1e-13, atol=0)
    assert rotary.attention_factor == pytest.approx(attention, rel=1e-15)


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


def yarn(factor: float, fast: float, slow: float, truncate: bool, dim: int = 128) -> Array:
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
    assert rotary.attention_factor == pytest.approx(attention, abs=1e-8)


def test_attention_of_yarn() -> None:
    # sgl-project/sglang#33558 squared it, sgl-project/sglang#22711 has two scales that cancel
    def attention(**more: float) -> float:
        return from_config({**YARN, "factor": 40.0, **more}, head_dim=64).attention_factor

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
        assert from_config({**config, **more}, head_dim=96).attention_factor == expected


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
        ({"rope_type": "su2", "rope_theta": 1e4}, "rope_type.*'su2'"),
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
        ({"rope_type": "linear", "factor": 2.0, "rope_theta": 5e-324}, "rope_theta.*5e-324"),
        ({**YARN, "factor": 2.0, "short_factor": [1.0] * 32}, "short_factor.*'yarn'"),
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


# A model's own rotation: what its class fills in, and what other keys say.


@pytest.mark.parametrize(
    ("config", "dim"),
    [
        # GLM-5 and Mistral-Small-4, whose head_dim is not of what turns
        ({"head_dim": 192, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64}, 64),
        ({"qk_rope_head_dim": 64, "partial_rotary_factor": 0.5}, 64),
        ({"rotary_dim": 30, "head_dim": 44}, 30),  # 44 * (30 / 44) is below 30
        ({"rotary_dim": 60, "head_dim": 104}, 60),
        ({"hidden_size": 2560, "num_attention_heads": 32, "rope_pct": 0.25}, 20),
        ({"model_type": "jetmoe", "kv_channels": 128, "hidden_size": 2048}, 128),
        ({"model_type": "zamba2", "attention_head_dim": 160, "hidden_size": 2560}, 160),
        ({"model_type": "phi", "hidden_size": 2048, "num_attention_heads": 32}, 32),
        ({"model_type": "gemma", "hidden_size": 3072, "num_attention_heads": 16}, 256),
    ],
)
def test_the_width_is_that_of_the_class(config: dict[str, Any], dim: int) -> None:
    assert from_config({"rope_theta": 1e4, **config}).dim == dim


def test_every_even_rotary_dim_is_the_width() -> None:
    for head_dim in (44, 88, 104, 168, 176):  # where a quotient would be just below
        for rotary_dim in range(2, head_dim + 1, 2):
            config = {"rope_theta": 1e4, "rotary_dim": rotary_dim}
            assert from_config(config, head_dim=head_dim).dim == rotary_dim, head_dim
    with pytest.raises(ValueError, match=r"rotary_dim must be at most head_dim, 8, got 10"):
        from_config({"rope_theta": 1e4, "rotary_dim": 10}, head_dim=8)
    with pytest.raises(ValueError, match="rotary_dim must be what other keys leave"):
        from_config({"rope_theta": 1e4, "rotary_dim": 4, "partial_rotary_factor": 1.0}, head_dim=8)


def test_a_theta_of_the_class() -> None:
    """Llama-2, Pythia and GPT-J have no rope_theta in their files."""
    heads = {"hidden_size": 4096, "num_attention_heads": 32}
    assert from_config({"model_type": "llama", **heads}) == posenc.Rotary(128)
    neox = {"rotary_emb_base": 20000, "rotary_pct": 0.25}
    expected = posenc.Rotary(16, base=20000.0)
    for more in ({}, {"model_type": "gpt_neox"}):
        assert (
            from_config({"hidden_size": 512, "num_attention_heads": 8, **neox, **more}) == expected
        )
    gptj = {"model_type": "gptj", "n_embd": 4096, "n_head": 16, "rotary_dim": 64}
    assert from_config(gptj) == posenc.Rotary(64, layout="interleaved")


def test_no_theta_and_no_class_names_the_argument() -> None:
    heads = {"hidden_size": 4096, "num_attention_heads": 32}
    with pytest.raises(ValueError, match=r"rope_theta for .* or give rope_theta="):
        from_config({"model_type": "unheard_of", **heads})
    assert from_config(heads, rope_theta=5e5) == posenc.Rotary(128, base=5e5)
    for key in ("rope_theta", "rotary_emb_base"):
        assert from_config({key: 1e4, **heads}, rope_theta=5e5) == posenc.Rotary(128, base=5e5)


@pytest.mark.parametrize(
    ("config", "layout"),
    [
        ({}, "half"),
        ({"rope_interleave": True}, "interleaved"),
        ({"model_type": "llama"}, "half"),
        ({"model_type": "glm4_moe"}, "half"),
        ({"model_type": "glm4"}, "interleaved"),
        ({"model_type": "cohere"}, "interleaved"),
        ({"model_type": "deepseek_v3"}, "interleaved"),
        ({"model_type": "deepseek_v3", "rope_interleave": False}, "half"),
        ({"model_type": "llama4_text"}, "interleaved"),
    ],
)
def test_the_layout_is_the_models(config: dict[str, Any], layout: str) -> None:
    """vllm-project/vllm#26995, huggingface/transformers#25199: plausible garbage in the other one."""
    config = {"rope_theta": 1e4, "partial_rotary_factor": 1.0, "head_dim": 64, **config}
    assert from_config(config).layout == layout
    assert from_config(config, layout="half").layout == "half"


def test_a_layout_that_the_class_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="rope_interleave must be True"):
        from_config({"model_type": "glm_moe_dsa", "rope_interleave": False})


def test_hunyuans_alpha() -> None:
    """A base that is stretched at any length, as in HunYuanDenseV1RotaryEmbedding."""
    scaling = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}
    config = {"rope_theta": 1e4, "head_dim": 128, "rope_scaling": scaling}
    expected = posenc.Rotary(128, base=1e4 * 1000.0 ** (128 / 126))
    for model in ({}, {"model_type": "hunyuan_v1_dense"}):
        rotary = from_config({**config, **model})
        np.testing.assert_allclose(rotary.frequencies, expected.frequencies, rtol=1e-13)
    with pytest.raises(ValueError, match="alpha must be left out for model_type 'llama'"):
        from_config({**config, "model_type": "llama", "max_position_embeddings": 4096})


def longrope(kind: str, **more: Any) -> dict[str, Any]:
    return {
        "rope_theta": 1e4,
        "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096,
        "rope_scaling": {
            "type": kind,
            "short_factor": [1.5] * 48,
            "long_factor": [9.0] * 48,
            **more,
        },
    }


def test_other_names_of_longrope() -> None:
    """ml-explore/mlx-examples#799: Phi-3's first files say su; its class takes yarn for it too."""
    expected = from_config(longrope("longrope"), head_dim=96)
    assert expected.attention_factor == pytest.approx(1.1902380714238083)
    assert from_config(longrope("su"), head_dim=96) == expected
    for kind in ("su", "yarn", "longrope"):
        config = {**longrope(kind), "model_type": "phi3"}
        assert from_config(config, head_dim=96) == expected


def test_factors_of_phi_3_5_moe() -> None:
    config = longrope("longrope", short_mscale=1.25, long_mscale=1.5)
    assert from_config(config, head_dim=96).attention_factor == 1.25
    assert from_config(config, head_dim=96, seq_len=5000).attention_factor == 1.5
    with pytest.raises(ValueError, match="seq_len must be at most 4096 for model_type 'phimoe'"):
        from_config({**config, "model_type": "phimoe"}, head_dim=96, seq_len=5000)


def test_equal_factors_of_llama_4() -> None:
    """meta-llama/llama-models#322: Scout has 1 for both, so its ramp is a step."""
    config = {
        "rope_type": "llama3",
        "rope_theta": 5e5,
        "factor": 16.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
    }
    expected = theta(5e5, 128)
    expected[2 * math.pi / expected > 8192] /= 16.0
    assert_near(from_config(config, head_dim=128), expected)


def test_a_beta_of_0_is_the_default() -> None:
    given = from_config({**YARN, "factor": 4.0, "beta_fast": 0, "beta_slow": 0.0}, head_dim=128)
    assert given == from_config({**YARN, "factor": 4.0}, head_dim=128)


def test_rope_scaling_stands_above_rope_parameters() -> None:
    """sgl-project/sglang#26187: the YaRN of one of them dropped without a word. A theta stays."""
    plain = {"rope_type": "default", "rope_theta": 1e4}
    both = {"rope_parameters": plain, "rope_scaling": {"type": "linear", "factor": 4.0}}
    assert_near(from_config(both, head_dim=128), theta(1e4, 128) / 4)
    with pytest.raises(ValueError, match="must agree on rope_theta, got 2"):
        from_config(
            {"rope_parameters": plain, "rope_scaling": {"type": "linear", "rope_theta": 2e4}},
            head_dim=128,
        )
    for scaling in ("linear", 1.0, [4.0]):
        with pytest.raises(TypeError, match="rope_scaling must be a mapping"):
            from_config({"rope_theta": 1e4, "rope_scaling": scaling}, head_dim=64)


def test_two_lengths_of_training_must_agree() -> None:
    config = {**longrope("longrope", original_max_position_embeddings=8192)}
    with pytest.raises(ValueError, match="original_max_position_embeddings must be the same"):
        from_config(config, head_dim=96)


LAYERS: dict[str, Any] = {
    "full_attention": {
        "rope_type": "yarn",
        "factor": 8.0,
        "original_max_position_embeddings": 4096,
    },
    "sliding_attention": {"rope_type": "default"},
    "linear_attention": None,
}


def test_a_layer_type_is_picked() -> None:
    """With the theta inside or beside, which transformers fills in."""
    for inside, beside in (({}, {"rope_theta": 1e4}), ({"rope_theta": 1e4}, {})):
        layers = {key: value and {**value, **inside} for key, value in LAYERS.items()}
        config = {"head_dim": 64, "rope_parameters": layers, **beside}
        full = from_config(config, layer_type="full_attention")
        assert full == from_config({**YARN, "factor": 8.0}, head_dim=64)
        assert from_config(config, layer_type="sliding_attention") == posenc.Rotary(64)
        for wrong in (None, "full", "linear_attention"):
            with pytest.raises(ValueError, match="layer_type must be one"):
                from_config(config, layer_type=wrong)
    with pytest.raises(ValueError, match="layer_type must be None"):
        from_config({"rope_theta": 1e4}, head_dim=8, layer_type="full_attention")


def test_layer_types_of_gemma_3() -> None:
    """Its files have two thetas, and a rope_scaling for one of them."""
    text = {
        "model_type": "gemma3_text",
        "head_dim": 256,
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    }
    whole = {"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 1152}}
    for config in (text, whole):
        assert_near(from_config(config, layer_type="full_attention"), theta(1e6, 256) / 8)
        assert from_config(config, layer_type="sliding_attention") == posenc.Rotary(256)
        with pytest.raises(ValueError, match="layer_type must be one of full_attention, sliding"):
            from_config(config)


def test_a_dictionary_of_one_layer_type_with_its_model() -> None:
    config = {"model_type": "gemma3_text", "rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}
    assert_near(from_config(config, head_dim=256), theta(1e6, 256) / 8)
    with pytest.raises(ValueError, match="rope_theta, head_dim"):
        from_config({"model_type": "gemma4_text", "rope_type": "default"})
    gpt_oss = {**YARN, "model_type": "gpt_oss", "factor": 4.0}
    assert from_config(gpt_oss) == from_config({**YARN, "factor": 4.0}, head_dim=64)


def test_global_heads_of_gemma_4_are_wider() -> None:
    config = {"model_type": "gemma4_text", "head_dim": 256, "global_head_dim": 512}
    assert from_config(config, layer_type="sliding_attention") == posenc.Rotary(256)
    expected = theta(1e6, 512)
    expected[64:] = 0.0
    assert_near(from_config(config, layer_type="full_attention"), expected)


def test_parts_of_a_model_are_named() -> None:
    with pytest.raises(ValueError, match="it may be in 'thinker_config'"):
        from_config({"model_type": "qwen2_5_omni", "thinker_config": {"rope_theta": 1e6}})


@pytest.mark.parametrize(
    ("config", "axes", "layout"),
    [
        ({"model_type": "qwen2_vl"}, (0,) * 16 + (1,) * 24 + (2,) * 24, "half"),
        ({"model_type": "ernie4_5_vl_moe_text"}, (1, 2) * 22 + (0,) * 20, "interleaved"),
        ({"interleaved": True, "mrope_section": [24, 20, 20]}, (0, 1, 2) * 20 + (0,) * 4, "half"),
        ({"model_type": "qwen3_vl_text"}, (0, 1, 2) * 20 + (0,) * 4, "half"),
        ({"model_type": "pixtral"}, (0,) * 32 + (1,) * 32, "half"),
        ({"model_type": "step3p5_vision"}, (1,) * 32 + (0,) * 32, "half"),
        ({"model_type": "kimi_k25_vision"}, (1, 0) * 32, "half"),
        ({"model_type": "minimax_m3_vl_vision"}, (0,) * 21 + (1,) * 21 + (2,) * 21, "half"),
    ],
)
def test_the_order_of_axes_is_the_models(
    config: dict[str, Any], axes: tuple[int, ...], layout: str
) -> None:
    rotary = from_config({"rope_theta": 1e4, "head_dim": 128, **config})
    assert (rotary.axes, rotary.layout) == (axes, layout)


def test_frequencies_of_pixtral() -> None:
    """Rows have the even ones of the whole width, columns the odd."""
    expected = theta(1e4, 64)
    rotary = from_config({"model_type": "pixtral", "head_dim": 64})
    assert_near(rotary, [*expected[::2], *expected[1::2]])


def test_nanochat_turns_backwards() -> None:
    rotary = from_config({"model_type": "nanochat", "head_dim": 16})
    assert_near(rotary, -theta(1e4, 16))


# Refusals: a key that may change the rotation, and nothing is known of it.


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"rope_scaling": {"type": "linear", "factor": 2.0, "strange": 1}}, "'strange'"),
        ({"rope_ratio": 8.0}, "'rope_ratio'"),
        ({"rotary_base": 8.0}, "'rotary_base'"),
        ({"use_dynamic_ntk": True}, "'use_dynamic_ntk'"),
        ({"rope_type": "linear", "factor": 2.0, "strange": 1}, "'strange'"),
        ({"interleaved": True}, "interleaved must come with mrope_section"),
        ({"model_type": "gemma4_vision"}, "model_type 'gemma4_vision'"),
        ({"model_type": "mistral_large4_text"}, "model_type 'mistral_large4_text'"),
        ({"model_type": "llama", "partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"model_type": "llama", "mrope_section": [2, 3, 3]}, "mrope_section"),
        ({"model_type": "qwen3_vl_vision", "rope_type": "linear", "factor": 2.0}, "rope_type"),
        ({"model_type": "llama", "rope_type": "axial"}, "rope_type"),
        ({"layer_rope_theta": [1e4, 2e4]}, "layer_rope_theta"),
        ({"rotary_emb_base": 2e4}, "rotary_emb_base must be rope_theta"),
        (
            {"model_type": "gemma3_text", "rope_parameters": {"rope_type": "linear"}},
            "full_attention",
        ),
        ({"model_type": "gemma4_text", "rope_scaling": {"rope_type": "linear"}}, "rope_scaling"),
    ],
)
def test_what_is_not_understood_is_named(config: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        from_config({"rope_theta": 1e4, "head_dim": 16, **config})


def test_attn_factor_is_refused() -> None:
    """deepseek-ai/DeepSeek-R1#684: transformers does without it, others multiply by it."""
    scaling = {"rope_type": "yarn", "factor": 4.0, "attn_factor": 0.8782488562869419}
    with pytest.raises(ValueError, match=r"'attn_factor'.*attention_factor"):
        from_config({"head_dim": 128, "rope_theta": 1e6, "rope_scaling": scaling})


def test_keys_that_say_nothing_of_the_rotation_are_passed_over() -> None:
    config = {
        "rope_theta": 1e4,
        "use_dynamic_ntk": False,
        "rope_ratio": None,
        "no_rope_layers": [1, 0],
        "vocab_size": 5,
        "type": "something else",
        "rope_scaling": {"rope_type": "default", "finetuned": True, "llama_4_scaling_beta": 0.1},
    }
    assert from_config(config, head_dim=8) == posenc.Rotary(8)


# Configurations are files of others: whatever they say, an error is short, named, and comes at once.

LONGROPE = {
    "rope_type": "longrope",
    "factor": 2,
    "original_max_position_embeddings": 4096,
    "long_factor": [1] * 4,
}
FULL_YARN = {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 4096}


@pytest.mark.parametrize(
    ("config", "named"),
    [
        *(
            ({"head_dim": value}, "head_dim")
            for value in (10**12, 10**400, True, "8", -3, 2.5, [8])
        ),
        ({"head_dim": None, "hidden_size": 10**400, "num_attention_heads": 1}, "hidden_size"),
        ({"head_dim": None, "hidden_size": 8, "num_attention_heads": 16}, "hidden_size"),
        ({"rotary_dim": 10**400}, "rotary_dim"),
        *(
            ({"rope_type": "linear", "factor": value}, "factor")
            for value in (10**400, math.inf, math.nan, True, "4", [4], {"a": 1}, -1, 1e-320)
        ),
        ({**FULL_YARN, "beta_fast": 5e-324}, "beta_fast"),
        ({**FULL_YARN, "truncate": "false"}, "truncate"),
        ({**FULL_YARN, "original_max_position_embeddings": True}, "original_max_position"),
        (
            {
                "rope_type": "dynamic",
                "factor": 1e200,
                "max_position_embeddings": 5,
                "seq_len": 9,
                "head_dim": 4,
            },
            "factor",
        ),
        ({"rope_type": "x" * 10**6}, "rope_type"),
        ({"rope_type": ["x"] * 10**6}, "rope_type"),
        *(
            ({**LONGROPE, "short_factor": value}, "short_factor")
            for value in (["1"] * 4, [True] * 4, [math.inf] * 4, [10**400] * 4, "abcd", [1] * 10**6)
        ),
        ({**LONGROPE, "short_factor": [[1], 2, 3, 4]}, "short_factor"),
        ({**LONGROPE, "short_factor": [5e-324] * 4}, "factor"),
        *(
            ({"mrope_section": value}, "mrope_section")
            for value in ([True] * 4, "abcd", [1, 1, 2.0], [[1], [3]], [-1, 2, 3], [1] * 10**6, 5)
        ),
        # whose sum is 4 in int64
        ({"mrope_section": [2**62, 2**62, 2**62, 2**62 + 4]}, "mrope_section"),
        ({"mrope_section": [10**5000, 1, 1]}, "mrope_section"),
        ({"rope_parameters": [1]}, "rope_parameters"),
        ({"rope_parameters": {"a" * 10**6: 1}}, "config"),
        ({"rope_" + "a" * 10**6: 1}, "config"),
        ({"model_type": ["llama"]}, "model_type"),
        ({"model_type": 10**5000, "text_config": {"head_dim": 0, "rope_theta": 1e4}}, "head_dim"),
        ({"rope_interleave": "yes"}, "rope_interleave"),
        ({"layer_types": 5, "per_layer_config": 5, "rope_theta": {}}, "rope_theta"),
    ],
)
def test_hostile_values_are_refused_at_once(config: dict[str, Any], named: str) -> None:
    with np.errstate(all="raise"), pytest.raises((TypeError, ValueError), match=named) as caught:
        from_config({"rope_theta": 1e4, "head_dim": 8, **config})
    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize("integer", [np.int64, np.array], ids=["scalar", "array of no axes"])
def test_lengths_are_integers_of_any_kind(integer: Any) -> None:
    config = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    lengths: dict[str, Any] = {"head_dim": 8, "max_position_embeddings": 16, "seq_len": 20}
    given = {key: integer(value) for key, value in lengths.items()}
    assert from_config(config, **given) == from_config(config, **lengths)
    stretched = {**YARN, "factor": None}
    yarn = from_config(stretched, head_dim=integer(8), max_position_embeddings=integer(16384))
    assert yarn == from_config({**YARN, "factor": 4.0}, head_dim=8)
    with pytest.raises(ValueError, match="seq_len must be at least 1, got -1"):
        from_config({"rope_theta": 1e4}, head_dim=8, seq_len=-1)


@pytest.mark.parametrize("length", [10186, 70000, 131072, 999983])
def test_logarithms_and_powers_are_those_of_every_machine(length: int) -> None:
    """libm's end in other bits where the processor fuses multiplications and additions."""
    config = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 3.0}
    rotary = from_config(config, head_dim=64, max_position_embeddings=4096, seq_len=length)
    stretch, exponent = 1.0 + 3.0 * (length - 4096) / 4096, 64 / 62
    assert rotary.base == 1e4 * float(mpmath.mpf(stretch) ** mpmath.mpf(exponent))
    factor = length / 4096
    yarn = from_config({**YARN, "factor": factor}, head_dim=64)
    assert yarn.attention_factor == 0.1 * float(mpmath.log(mpmath.mpf(factor))) + 1.0
