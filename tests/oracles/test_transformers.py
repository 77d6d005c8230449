"""transformers: sinusoids of every kind, rotary frequencies and rotations, grids and biases."""

import importlib
import math
from typing import Any

import numpy as np
import pytest
import reference
import torch
import transformers
from peers import (
    DOUBLE_ANGLES,
    EXACT_ANGLES,
    FREQUENCIES,
    POWERS_OF_TWO,
    Array,
    Peer,
    assert_buckets,
    assert_near,
    from_loop,
    from_table,
    single_angles,
)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

import posenc

ANY_WIDTH = (5, 6, 33, 64, 512)


def model(name: str) -> Any:
    return importlib.import_module(f"transformers.models.{name}.modeling_{name}")


def xlm(length: int, width: int) -> Any:
    return model("xlm").create_sinusoidal_embeddings(length, width, torch.empty(length, width))


def marian(name: str, embedding: str) -> Peer:
    module = model(name)
    make = getattr(module, f"{embedding}SinusoidalPositionalEmbedding")
    rows = from_loop(lambda *shape: make(*shape).create_weight(), module)
    return Peer("marian", rows, double=True, widths=ANY_WIDTH)


def m2m100(name: str, embedding: str) -> Peer:
    table = getattr(model(name), f"{embedding}SinusoidalPositionalEmbedding").get_embedding
    return Peer("m2m100", from_table(lambda *shape: table(*shape, None)), widths=ANY_WIDTH)


def musicgen(name: str, embedding: str) -> Peer:
    table = getattr(model(name), f"{embedding}SinusoidalPositionalEmbedding").get_embedding
    return Peer("musicgen", from_table(table), widths=ANY_WIDTH)


def omni(length: int, width: int) -> Any:
    return model("qwen2_5_omni").SinusoidsPositionEmbedding(length, width).positional_embedding


def pegasus_x(positions: Array, width: int, dtype: torch.dtype = torch.float32) -> Any:
    embedding = model("pegasus_x").PegasusXSinusoidalPositionalEmbedding(width)
    x = torch.empty(1, len(positions), width, dtype=dtype)
    return embedding(x, position_ids=torch.from_numpy(positions)[:, None])[0].float()


def ctrl(length: int, width: int) -> Any:
    return model("ctrl").positional_encoding(length, width, torch.float32)


def speecht5(length: int, width: int) -> Any:
    return model("speecht5").SpeechT5ScaledPositionalEncoding(0.0, width, length).pe[0]


def vibevoice(positions: Array, width: int) -> Any:
    config = transformers.PreTrainedConfig(
        frequency_embedding_size=width, diffusion_max_period=10000
    )
    embedding = model("vibevoice").VibeVoiceDiffusionHeadSinusoidalEmbedding(config)
    return embedding(torch.from_numpy(positions))


def llama(positions: Array, width: int) -> Any:
    """The sines and the cosines of its rotations, each pair once."""
    cosine, sine = llama_rotary(width)(torch.empty(0), torch.from_numpy(positions)[None])
    return torch.cat([sine[0, :, : width // 2], cosine[0, :, : width // 2]], dim=-1)


def llama_rotary(width: int, **parameters: Any) -> Any:
    config = transformers.LlamaConfig(hidden_size=width, num_attention_heads=1, **parameters)
    return model("llama").LlamaRotaryEmbedding(config)


PEERS = {
    "XLM": Peer("vaswani", from_loop(xlm, model("xlm")), double=True, widths=ANY_WIDTH),
    "SpeechT5": Peer("vaswani", from_table(speecht5)),
    "Marian": marian("marian", "Marian"),
    "Pegasus": marian("pegasus", "Pegasus"),
    "RoFormer": marian("roformer", "RoFormer"),
    "Informer": marian("informer", "Informer"),
    "Autoformer": marian("autoformer", "Autoformer"),
    "TimeSeries": marian("time_series_transformer", "TimeSeries"),
    "M2M100": m2m100("m2m_100", "M2M100"),
    "NLLB-MoE": m2m100("nllb_moe", "NllbMoe"),
    "XGLM": m2m100("xglm", "XGLM"),
    "Speech2Text": m2m100("speech_to_text", "Speech2Text"),
    "Kosmos-2": m2m100("kosmos2", "Kosmos2Text"),
    "SeamlessM4T": m2m100("seamless_m4t", "SeamlessM4T"),
    "TrOCR": m2m100("trocr", "TrOCR"),
    "FSMT": m2m100("fsmt", ""),
    "TIPSv2": m2m100("tipsv2", "Tipsv2"),
    "Musicgen": musicgen("musicgen", "Musicgen"),
    "Musicgen Melody": musicgen("musicgen_melody", "MusicgenMelody"),
    "Whisper": Peer("whisper", from_table(model("whisper").sinusoids)),
    "Qwen2.5-Omni": Peer("whisper", from_table(omni)),
    "Pegasus-X": Peer("whisper", pegasus_x),
    "CTRL": Peer("ctrl", from_table(ctrl)),
    "GPT-J": Peer("gptj", from_table(model("gptj").create_sinusoidal_positions)),
    "Llama": Peer("gptj", llama),
    "VibeVoice": Peer("dit", vibevoice),
}


@pytest.mark.parametrize("name", PEERS)
def test_sinusoids(name: str) -> None:
    PEERS[name].check()


@pytest.mark.parametrize(
    "name",
    [name for name, peer in PEERS.items() if peer.preset in ("m2m100", "musicgen", "whisper")],
)
def test_two_columns_divide_by_zero_there(name: str) -> None:
    """Or give NaN. There is one frequency, and with posenc it is 1."""
    if name in ("Qwen2.5-Omni", "Pegasus-X"):
        with np.errstate(divide="ignore"):
            assert np.isnan(np.asarray(PEERS[name].rows(np.arange(3), 2))).any()
    else:
        with pytest.raises(ZeroDivisionError):
            PEERS[name].rows(np.arange(3), 2)
    positions = np.array([0, 1, 1000])
    exact = reference.table(positions.tolist(), 2)
    if PEERS[name].preset == "musicgen":
        exact = exact[:, ::-1]
    assert_near(PEERS[name].ours(positions, 2), exact, reference.BOUND)


@pytest.mark.parametrize(("name", "pairs"), [("M2M100", 2), ("GPT-J", 3), ("Llama", 3)])
def test_a_million_is_beyond_angles_in_float32(name: str, pairs: int) -> None:
    """It is posenc that has the exact values."""
    positions = np.arange(999_990, 1_000_000)
    ours = PEERS[name].ours(positions, 6)
    assert np.abs(np.asarray(PEERS[name].rows(positions, 6)) - ours).max() > 1e-4
    exact = [
        [reference.sine_cosine(position, 2 * pairs, 10000.0, i) for i in range(3)]
        for position in positions.tolist()
    ]
    columns = np.array(exact, np.float64).transpose(0, 2, 1).reshape(-1, 6)
    assert_near(ours, columns, reference.BOUND)


def test_bfloat16_is_beyond_its_angles_at_300() -> None:
    positions = np.arange(300)
    theirs = pegasus_x(positions, 64, torch.bfloat16)
    assert np.abs(np.asarray(theirs) - PEERS["Pegasus-X"].ours(positions, 64)).max() > 0.5


def test_padding() -> None:
    """Tokens from padding_idx + 1, zero rows for padding."""
    ids = torch.tensor([[5, 6, 7, 1, 1], [1, 1, 8, 9, 2]])
    theirs = model("m2m_100").M2M100SinusoidalPositionalEmbedding(16, 64, padding_idx=1)(ids)
    where = posenc.positions.from_ids(ids.numpy(), padding_idx=1)
    ours = posenc.Sinusoidal.preset("m2m100", 64).add(
        np.zeros((2, 5, 64)), positions=where, mask=ids.numpy() != 1
    )
    assert_near(theirs, ours, single_angles(6))


def test_relative_encoding() -> None:
    config = transformers.Wav2Vec2ConformerConfig(hidden_size=64, max_source_positions=300)
    theirs = model("wav2vec2_conformer").Wav2Vec2ConformerRelPositionalEmbedding(config).pe[0]
    assert_near(theirs, posenc.relative_encoding(300, 64), single_angles(299))


def test_relative_encoding_of_xlnet() -> None:
    """Its distances begin one further, and its sines stand before its cosines."""
    theirs = model("xlnet").XLNetModel.positional_embedding(
        torch.arange(300.0, -300.0, -1.0), 10000.0 ** (-torch.arange(0.0, 64.0, 2.0) / 64)
    )
    ours = posenc.relative_encoding(301, 64, layout="split")[:-1]
    assert_near(theirs[:, 0], ours, single_angles(300))


# Grids: sides differ, so that none is taken for the other.


def test_grid_of_rt_detr() -> None:
    build = model("rt_detr").build_2d_sinusoidal_position_embedding
    theirs = build(5, 9, embed_dim=64, cls_token=True)
    ours = posenc.grid_encoding((5, 9), 64, preset="rt-detr", extra_rows=1)
    assert_near(theirs, ours, DOUBLE_ANGLES)


def test_grid_of_detr() -> None:
    sine = model("detr").DetrSinePositionEmbedding(32)
    theirs = sine(torch.Size([1, 3, 5, 9]), "cpu", torch.float32)[0].permute(1, 2, 0)
    ours = posenc.grid_encoding((5, 9), 64, preset="detr")
    assert_near(theirs, ours, single_angles(9))


def test_normalised_grid_of_detr() -> None:
    sine = model("detr").DetrSinePositionEmbedding(32, normalize=True)
    theirs = sine(torch.Size([1, 3, 5, 9]), "cpu", torch.float32)[0].permute(1, 2, 0)
    turns = [np.arange(1, side + 1) / (side + 1e-6) * 2 * math.pi for side in (5, 9)]
    ours = posenc.grid_encoding((5, 9), 64, preset="detr", coordinates=turns)
    assert_near(theirs, ours, single_angles(2 * math.pi))


# Rotary: frequencies of every type, then what they turn.

YARN = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 4096}
LONGROPE = {
    "rope_type": "longrope",
    "original_max_position_embeddings": 4096,
    "short_factor": [1.0 + i / 64 for i in range(32)],
    "long_factor": [1.0 + i / 2 for i in range(32)],
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
ROPE: dict[str, tuple[dict[str, Any], int | None]] = {
    "linear": ({"rope_type": "linear", "factor": 4.0}, None),
    "linear, partial": (
        {"rope_type": "linear", "factor": 4.0, "partial_rotary_factor": 0.25},
        None,
    ),
    "dynamic": ({"rope_type": "dynamic", "factor": 2.0}, None),
    "dynamic, short": ({"rope_type": "dynamic", "factor": 2.0}, 100),
    "dynamic, long": ({"rope_type": "dynamic", "factor": 2.0}, 70000),
    "yarn": (YARN, None),
    "yarn, partial": ({**YARN, "partial_rotary_factor": 0.5}, None),
    "yarn, factor of the lengths": ({**YARN, "factor": None}, None),
    "yarn, no stretch": ({**YARN, "factor": 1.0}, None),
    "yarn, betas": ({**YARN, "beta_fast": 64, "beta_slow": 2, "rope_theta": 1e6}, None),
    "yarn, attention": ({**YARN, "attention_factor": 1.5}, None),
    "yarn, mscale": ({**YARN, "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.8}, None),
    "yarn, equal mscales": ({**YARN, "factor": 40.0, "mscale": 0.7, "mscale_all_dim": 0.7}, None),
    "yarn, one mscale": ({**YARN, "factor": 40.0, "mscale": 0.7}, None),
    "yarn, not truncated": ({**YARN, "factor": 40.0, "truncate": False}, None),
    "longrope": (LONGROPE, None),
    "longrope, at the length": (LONGROPE, 4096),
    "longrope, beyond it": (LONGROPE, 4097),
    "longrope, factor": ({**LONGROPE, "factor": 2.0}, 9999),
    "longrope, attention": ({**LONGROPE, "attention_factor": 1.25}, None),
    "llama3": (LLAMA3, None),
    "llama3, partial": ({**LLAMA3, "factor": 32.0, "partial_rotary_factor": 0.5}, None),
    "proportional": ({"rope_type": "proportional", "partial_rotary_factor": 0.25}, None),
    "proportional, factor": (
        {"rope_type": "proportional", "partial_rotary_factor": 0.3, "factor": 8.0},
        None,
    ),
}


def test_every_type_is_here() -> None:
    assert {parameters["rope_type"] for parameters, _ in ROPE.values()} == set(ROPE_INIT_FUNCTIONS)


@pytest.mark.parametrize("name", ROPE)
def test_rotary_frequencies(name: str) -> None:
    given, seq_len = ROPE[name]
    parameters = {"rope_theta": 10000.0, **given}
    config = transformers.LlamaConfig(
        hidden_size=128,
        num_attention_heads=2,
        max_position_embeddings=65536,
        rope_parameters=dict(parameters),
    )
    make = ROPE_INIT_FUNCTIONS[parameters["rope_type"]]
    frequencies, attention = make(config, seq_len=seq_len)
    ours = posenc.Rotary.from_config(
        parameters, head_dim=64, max_position_embeddings=65536, seq_len=seq_len
    )
    # where it is not truncated, its difference of two float32 loses more
    within = 2.4e-6 if name == "yarn, not truncated" else FREQUENCIES
    np.testing.assert_allclose(frequencies, ours.frequencies, rtol=within, atol=0.0)
    assert ours.attention_factor == pytest.approx(attention, rel=1e-15)


@pytest.mark.parametrize(
    ("name", "rotary", "part"),
    [
        ("llama", "Llama", 1.0),
        ("gpt_neox", "GPTNeoX", 0.25),
        ("phi", "Phi", 0.5),
        ("glm", "Glm", 0.5),
    ],
)
def test_default_rotary_frequencies(name: str, rotary: str, part: float) -> None:
    parameters = {"rope_type": "default", "rope_theta": 12345.0, "partial_rotary_factor": part}
    config = transformers.AutoConfig.for_model(
        name, hidden_size=160, num_attention_heads=2, head_dim=80, rope_parameters=dict(parameters)
    )
    theirs = getattr(model(name), f"{rotary}RotaryEmbedding")(config)
    ours = posenc.Rotary.from_config(parameters, head_dim=80)
    np.testing.assert_allclose(theirs.inv_freq, ours.frequencies, rtol=FREQUENCIES, atol=0.0)


def test_tables_of_their_frequencies() -> None:
    theirs = llama_rotary(64, rope_parameters={"rope_theta": 10000.0, **YARN})
    cosine, sine = theirs(torch.empty(0), torch.from_numpy(POWERS_OF_TWO)[None])
    rotary = posenc.Rotary(
        64,
        frequencies=theirs.inv_freq.numpy().astype(np.float64),
        attention_factor=theirs.attention_scaling,
    )
    ours = rotary.tables(len(POWERS_OF_TWO), positions=POWERS_OF_TWO)
    assert_near(cosine[0], ours[0], EXACT_ANGLES * rotary.attention_factor)
    assert_near(sine[0], ours[1], EXACT_ANGLES * rotary.attention_factor)


def heads(length: int, width: int) -> Array:
    """Queries of two sequences and three heads, small enough for two products to err as one."""
    return np.random.default_rng(7).uniform(-0.5, 0.5, (2, 3, length, width)).astype(np.float32)


def test_rotation_in_halves() -> None:
    """As in Llama: near with its tables, and the same bits with ours."""
    x = heads(300, 64)
    rotary = posenc.Rotary(64)
    ours = rotary.rotate(x)
    rotate = model("llama").apply_rotary_pos_emb
    query = torch.from_numpy(x)
    tables = llama_rotary(64)(query, torch.arange(300)[None])
    assert_near(rotate(query, query, *tables)[0], ours, single_angles(299))
    exact = [torch.from_numpy(t)[None] for t in rotary.tables(300, dtype=np.float32)]
    assert np.array_equal(rotate(query, query, *exact)[0], ours)


def test_rotation_of_pairs() -> None:
    """As in GPT-J, whose heads stand behind the sequence."""
    x = heads(300, 64)
    rotary = posenc.Rotary(64, layout="interleaved")
    ours = rotary.rotate(x)
    rotate = model("gptj").apply_rotary_pos_emb
    query = torch.from_numpy(x).transpose(1, 2)
    table = model("gptj").create_sinusoidal_positions(300, 64)
    theirs = rotate(query, *table[None].chunk(2, dim=-1)).transpose(1, 2)
    assert_near(theirs, ours, single_angles(299))
    cosine, sine = (torch.from_numpy(t)[None, :, ::2] for t in rotary.tables(300, dtype=np.float32))
    assert np.array_equal(rotate(query, sine, cosine).transpose(1, 2), ours)


@pytest.mark.parametrize(
    ("name", "rotary", "parameters"),
    [
        ("qwen2_vl", "Qwen2VL", {"mrope_section": [8, 12, 12]}),
        ("qwen3_vl", "Qwen3VLText", {"mrope_section": [12, 10, 10], "mrope_interleaved": True}),
    ],
)
def test_rotary_in_time_height_and_width(
    name: str, rotary: str, parameters: dict[str, Any]
) -> None:
    parameters = {"rope_type": "default", "rope_theta": 1e6, **parameters}
    config = transformers.AutoConfig.for_model(
        f"{name}_text", hidden_size=128, num_attention_heads=2, head_dim=64
    )
    config.rope_parameters = parameters
    positions = np.random.default_rng(7).integers(0, 300, (3, 2, 50))
    theirs = getattr(model(name), f"{rotary}RotaryEmbedding")(config)(
        torch.empty(0), torch.from_numpy(positions)
    )
    ours = posenc.Rotary.from_config(parameters, head_dim=64).tables(50, positions=positions)
    for their, our in zip(theirs, ours, strict=True):
        assert_near(their, our, single_angles(299))


def test_axial_rotary() -> None:
    """Of height and width, as in the vision tower of Qwen3-VL."""
    parameters = {"rope_type": "axial", "rope_theta": 10000.0}
    config = transformers.PreTrainedConfig(head_dim=64, rope_parameters=parameters)
    positions = np.random.default_rng(7).integers(0, 40, (2, 50))
    theirs = model("qwen3_vl").Qwen3VLVisionRotaryEmbedding(config)(
        torch.empty(0), torch.from_numpy(positions.T)
    )
    ours = posenc.Rotary.from_config(parameters, head_dim=64).tables(50, positions=positions)
    for their, our in zip(theirs, ours, strict=True):
        assert_near(their, our, single_angles(40))


def test_axial_rotary_in_two_halves() -> None:
    """As in the vision tower of Gemma 4, where each half has halves of its own."""
    parameters = {"rope_type": "axial", "rope_theta": 100.0}
    config = transformers.PreTrainedConfig(head_dim=64, rope_parameters=parameters)
    positions = np.random.default_rng(7).integers(0, 40, (2, 50))
    theirs = model("gemma4").Gemma4VisionRotaryEmbedding(config)(
        torch.empty(0), torch.from_numpy(positions.T)[None]
    )
    rotary = posenc.Rotary(32, base=100.0)
    halves = [rotary.tables(50, positions=axis) for axis in positions]
    for their, *ours in zip(theirs, *halves, strict=True):
        assert_near(their[0], np.concatenate(ours, axis=-1), single_angles(40))


# Biases.


@pytest.mark.parametrize("heads", range(1, 72))
def test_alibi_slopes(heads: int) -> None:
    slopes = posenc.alibi_slopes(heads)
    bloom = model("bloom")._get_alibi_slopes(heads, torch.device("cpu"))
    assert_near(bloom, slopes, single_angles(1))
    assert_near(model("mpt").build_mpt_alibi_tensor(heads, 2)[:, 0, 0], -slopes, single_angles(1))


def test_alibi_bias() -> None:
    """MPT biases the last query; Bloom all alike, which softmax does not see."""
    ours = posenc.alibi_bias(12, 20, 20, causal=False)
    assert_near(model("mpt").build_mpt_alibi_tensor(12, 20), ours[:, -1:].copy(), single_angles(19))
    bloom = model("bloom").build_alibi_tensor(torch.ones(1, 20), 12, torch.float32)
    assert_near(bloom, ours[:, -1:] - ours[:, -1:, :1], single_angles(19))
    causal = posenc.alibi_bias(12, 20, 20, causal=True)
    behind = np.tri(20, dtype=bool)
    assert np.array_equal(causal[:, behind], ours[:, behind])
    assert (causal[:, ~behind] == -np.inf).all()


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (64, 256), (24, 100), (32, 1000)])
def test_t5_buckets(bidirectional: bool, buckets: int, farthest: int) -> None:
    """Of fewer queries than keys: the last ones."""
    check_t5_buckets(900, 1500, bidirectional, buckets, farthest)


def test_t5_buckets_with_whole_edges() -> None:
    """24 * (81/24)^(1/3) is 36, and 54 comes next: where theirs depend on the processor."""
    assert check_t5_buckets(1, 81, False, 48, 81) == [36, 54]
    ours = posenc.t5_buckets(1, 81, bidirectional=False, num_buckets=48, max_distance=81)[0]
    assert ours[::-1][[35, 36, 53, 54]].tolist() == [31, 32, 39, 40]


def check_t5_buckets(
    queries: int, keys: int, bidirectional: bool, buckets: int, farthest: int
) -> list[int]:
    distances = np.arange(keys) - np.arange(keys - queries, keys)[:, np.newaxis]
    bucket = model("t5").T5Attention._relative_position_bucket
    theirs = bucket(torch.from_numpy(distances), bidirectional, buckets, farthest)
    ours = posenc.t5_buckets(
        queries, keys, bidirectional=bidirectional, num_buckets=buckets, max_distance=farthest
    )
    return assert_buckets(theirs, ours, distances, bidirectional, buckets, farthest)
