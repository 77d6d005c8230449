"""Every class of transformers with rotary positions: what it turns is what `Rotary.from_config` reads
from the same configuration, or there is a refusal that names a key.

Each is built from its own defaults, and from variants as released files have them: every rope_type,
in the older and in the newer keys, with keys left out.
"""

import collections
import copy
import importlib
import importlib.util
import inspect
import math
import pkgutil
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import transformers
from peers import Array

import posenc
from posenc._rope_models import FAMILIES, REFUSED

LENGTH = 24
# Scores of as many columns, of angles in float32.
SCORES = 2e-4

# Classes that are not made from the configuration of their annotation, or from others too.
CONFIGS = {
    "BltRotaryEmbedding": "BltLocalEncoder BltLocalDecoder BltGlobalTransformer BltPatcher",
    "ClvpRotaryPositionalEmbedding": "ClvpEncoder",
    "CsmRotaryEmbedding": "Csm CsmDepthDecoder",
    "DeepseekOcr2VisionRotaryEmbedding": "DeepseekOcr2VisionEncoder",
    "DiaRotaryEmbedding": "DiaEncoder DiaDecoder",
    "Emu3RotaryEmbedding": "Emu3Text",
    "GlmAsrRotaryEmbedding": "GlmAsrEncoder",
    "MimiRotaryEmbedding": "Mimi MimiEncoder MimiDecoder",
    "MiniMaxM3VLRotaryEmbedding": "MiniMaxM3VLText",
    "MuseGlimmerTextRotaryEmbedding": "MuseGlimmerText",
    "MuseSparkTextRotaryEmbedding": "MuseSparkText",
    "Nemotron3DiarizationRotaryEmbedding": "Nemotron3DiarizationAudio",
    "Nemotron3_5TranscribeRotaryEmbedding": "Nemotron3_5TranscribeAsrAudio "
    "Nemotron3_5TranscribeWordTimestamp",
    "PaddleOCRRotaryEmbedding": "PaddleOCRText",
    "PocketTTSAudioTokenizerRotaryEmbedding": "PocketTTSAudioTokenizer PocketTTSAudioTokenizerEncoder "
    "PocketTTSAudioTokenizerDecoder",
    "Qwen2VLRotaryEmbedding": "Qwen2VLText",
    "Qwen2_5_VLRotaryEmbedding": "Qwen2_5_VLText",
    "Qwen2_5OmniRotaryEmbedding": "Qwen2_5OmniText Qwen2_5OmniTalker",
    "Qwen2_5OmniDiTRotaryEmbedding": "Qwen2_5OmniDiT",
    "Qwen3OmniMoeTalkerRotaryEmbedding": "Qwen3OmniMoeTalkerText",
    "Qwen3OmniMoeRotaryEmbedding": "Qwen3OmniMoeTalkerCodePredictor Qwen3OmniMoeCode2Wav",
    "SeamlessM4TConformerRotaryPositionalEmbedding": "SeamlessM4T",
    "Step3p7RotaryEmbedding": "Step3p7Text",
    "T5GemmaRotaryEmbedding": "T5GemmaModule",
    "T5Gemma2RotaryEmbedding": "T5Gemma2Text T5Gemma2Decoder",
    "VoxtralRealtimeRotaryEmbedding": "VoxtralRealtimeText VoxtralRealtimeEncoder",
    "Wav2Vec2BertRotaryPositionalEmbedding": "Wav2Vec2Bert",
    "Wav2Vec2ConformerRotaryPositionalEmbedding": "Wav2Vec2Conformer",
}


CLASS = re.compile(r"class \w*(Rotary\w*Embedding|RopePositionEmbedding)")


# Models that are made of the classes of another, with a configuration of their own.
BORROWED = {
    "ExaoneConfig": "llama.LlamaRotaryEmbedding",
    "InternLM3Config": "llama.LlamaRotaryEmbedding",
    "IQuestCoderConfig": "llama.LlamaRotaryEmbedding",
    "SarvamMLAConfig": "deepseek_v3.DeepseekV3RotaryEmbedding",
    "SarvamMoEConfig": "glm4_moe.Glm4MoeRotaryEmbedding",
}


class Case(NamedTuple):
    module: Any
    rotary: Any
    config: Any

    def __str__(self) -> str:
        return f"{self.rotary.__name__}-{self.config.__name__}"


def cases() -> Iterator[Case]:
    for package in pkgutil.iter_modules(transformers.models.__path__):
        name = f"transformers.models.{package.name}.modeling_{package.name}"
        spec = importlib.util.find_spec(name)
        # not all can be imported without other packages
        if spec is None or not CLASS.search(Path(str(spec.origin)).read_text()):
            continue
        module = importlib.import_module(name)
        for of, rotary in list(vars(module).items()):
            if inspect.isclass(rotary) and rotary.__module__ == name and CLASS.match(f"class {of}"):
                for config in configs(package.name, module, rotary):
                    yield Case(module, rotary, config)


def borrowed() -> Iterator[Case]:
    for config, of in BORROWED.items():
        package, rotary = of.split(".")
        module = importlib.import_module(f"transformers.models.{package}.modeling_{package}")
        yield Case(module, getattr(module, rotary), getattr(transformers, config))


def configs(package: str, module: Any, rotary: Any) -> list[Any]:
    if rotary.__name__ in CONFIGS:
        source = importlib.import_module(f"transformers.models.{package}.configuration_{package}")
        return [getattr(source, f"{of}Config") for of in CONFIGS[rotary.__name__].split()]
    annotation = list(inspect.signature(rotary.__init__).parameters.values())[1].annotation
    return [getattr(module, annotation) if isinstance(annotation, str) else annotation]


CASES = [*cases(), *borrowed()]

# What a class makes of a configuration: its frequencies, its factor, and how it turns.


class Turned(NamedTuple):
    frequencies: Array
    attention: float | None
    scores: Array  # of queries and keys that it has turned, each at its position


class Theirs(Exception):
    """Their class has an error of its own."""


def built(case: Case, raw: Mapping[str, Any]) -> tuple[Any, Any]:
    try:
        config = case.config(**copy.deepcopy(dict(raw)))
        return config, case.rotary(config).eval()  # in training some shift their positions
    except Exception as error:
        raise Theirs(repr(error)) from error


def axes_of(case: Case) -> int:
    """How many positions a token has for them."""
    if case.rotary.__name__ == "MiniMaxM3VLVisionRotaryEmbedding":
        return 3
    if hasattr(case.rotary, "compute_axial_rope_parameters") or is_patches(case):
        return 2
    if hasattr(case.rotary, "freqs_ci") or case.rotary.__name__ == "Llama4VisionRotaryEmbedding":
        return 2
    found = re.search(r"position_ids\.expand\((\d)", inspect.getsource(case.rotary.forward))
    return int(found[1]) if found else 1


def is_patches(case: Case) -> bool:
    return "pixel_values" in inspect.signature(case.rotary.forward).parameters


def positions_of(case: Case, config: Any) -> Array:
    """Of as many axes as there are, none like another."""
    axes = axes_of(case)
    if is_patches(case):
        side = config.image_size // config.patch_size
        centres = (np.arange(side) + 0.5) / side * 2.0 - 1.0
        return 2.0 * math.pi * np.stack(np.meshgrid(centres, centres, indexing="ij")).reshape(2, -1)
    if case.rotary.__name__ == "Llama4VisionRotaryEmbedding":
        side = config.image_size // config.patch_size
        cells = np.arange(side * side)
        return np.concatenate([[cells // side + 1, cells % side + 1], [[0], [0]]], axis=1)
    if "position_ids" not in inspect.signature(case.rotary.forward).parameters:
        return np.arange(LENGTH)
    rng = np.random.default_rng(7)
    return rng.integers(0, 40, (axes, LENGTH) if axes > 1 else LENGTH)


def tables(case: Case, config: Any, rotary: Any, layer_type: str | None, where: Array) -> Any:
    """What their forward pass returns."""
    x = torch.zeros(1, LENGTH, 64)
    names = inspect.signature(rotary.forward).parameters
    more = {"layer_type": layer_type} if layer_type is not None else {}
    if is_patches(case):
        return rotary(torch.zeros(1, 3, config.image_size, config.image_size))
    if case.rotary.__name__ == "Llama4VisionRotaryEmbedding":
        return rotary(x)
    if "position_ids" not in names:
        return rotary(x)
    ids = torch.from_numpy(where)
    if hasattr(case.rotary, "compute_axial_rope_parameters"):
        return rotary(x, ids.T.contiguous())
    return rotary(x, ids[:, None] if ids.ndim == 2 else ids[None], **more)


def apply(case: Case, config: Any, made: Any, x: Array) -> Any:
    """Queries, or keys, as their function turns them."""
    module, name = case.module, case.rotary.__name__
    heads = torch.from_numpy(x)[None, None]  # batch, heads, length, width
    if name == "Llama4VisionRotaryEmbedding":
        turned = module.vision_apply_rotary_emb(heads.transpose(1, 2), heads.transpose(1, 2), made)
        return turned[0].transpose(1, 2)[0, 0].numpy()
    if isinstance(made, torch.Tensor) and made.is_complex():
        if "llama4" in module.__name__:
            heads = heads.transpose(1, 2)
        return module.apply_rotary_emb(heads, heads, made)[0].reshape(x.shape).numpy()
    if name in ("GPTJRotaryEmbedding", "CodeGenRotaryEmbedding"):
        return module.apply_rotary_pos_emb(heads.transpose(1, 2), *made)[0, :, 0].numpy()
    if isinstance(made, torch.Tensor):  # a method of their attention: in halves
        cosine, sine = made[0][:, 0, 0], made[1][:, 0, 0]
        half = x.shape[-1] // 2
        turned = torch.cat([-heads[..., half:], heads[..., :half]], dim=-1)
        return (heads * cosine + turned * sine)[0, 0].numpy()
    cosine, sine = (of.detach() for of in made)
    function = function_of(case, config)
    names = list(inspect.signature(function).parameters)
    if function.__name__ == "apply_rotary_pos_emb_vision":  # length, heads, width
        return function(heads[0].transpose(0, 1), heads[0].transpose(0, 1), cosine, sine)[0][:, 0]
    if name == "Qwen2_5OmniDiTRotaryEmbedding":
        heads = module.deinterleave_head_dim(heads)
    if names[0] == "x":
        return function(heads, cosine, sine)[0, 0].numpy()
    if cosine.ndim == 2 and "unsqueeze_dim" in names:
        return function(heads, heads, cosine, sine, unsqueeze_dim=0)[0][0, 0].numpy()
    return function(heads, heads, cosine, sine)[0][0, 0].numpy()


def function_of(case: Case, config: Any) -> Any:
    module = case.module
    picture = hasattr(case.rotary, "compute_axial_rope_parameters")
    names = ["apply_rotary_pos_emb"]
    if picture:
        names = [
            "apply_rotary_pos_emb_vision",
            "apply_rotary_pos_emb_2d",
            "apply_rotary_pos_emb_2d_self_attn",
            *names,
        ]
    elif "Audio" not in case.rotary.__name__:
        by_key = "config.rope_interleave" in inspect.getsource(module)
        if not by_key or config.rope_interleave:
            names = ["apply_rotary_pos_emb_interleave", *names]
    return next(getattr(module, of) for of in names if hasattr(module, of))


def theirs(case: Case, raw: Mapping[str, Any], layer_type: str | None) -> tuple[Turned, Array]:
    config, rotary = built(case, raw)
    try:
        where = positions_of(case, config)
        made = tables(case, config, rotary, layer_type, where)
        own = getattr(config, "qk_rope_head_dim", None)
        width = 2 * made.shape[-1] if is_complex(made) else made[0].shape[-1]
        if case.rotary.__name__ in ONE_OF_EACH:
            width *= 2
        if own and "qk_rope_head_dim" in case.config.__dataclass_fields__ and own != width:
            raise Theirs(f"{width} columns do not fit in {own}")
        q, k = queries(where.shape[-1], width)
        turned = [np.asarray(apply(case, config, made, x), np.float64) for x in (q, k)]
        prefix = f"{layer_type}_" if layer_type is not None else ""
        frequencies = np.asarray(getattr(rotary, f"{prefix}inv_freq", []), np.float64)
        attention = getattr(rotary, f"{prefix}attention_scaling", None)
        if case.rotary.__name__ == "PhimoeRotaryEmbedding":  # which has others for its tables
            attention = None
    except Theirs:
        raise
    except Exception as error:
        raise Theirs(repr(error)) from error
    return Turned(frequencies, attention, turned[0] @ turned[1].T), where


# Whose tables have each pair once.
ONE_OF_EACH = (
    "CodeGenRotaryEmbedding",
    "DeepseekV4RotaryEmbedding",
    "GPTJRotaryEmbedding",
    "GptOssRotaryEmbedding",
    "OpenAIPrivacyFilterRotaryEmbedding",
)


def is_complex(made: Any) -> bool:
    return isinstance(made, torch.Tensor) and made.is_complex()


def queries(length: int, width: int) -> Array:
    return np.random.default_rng(3).uniform(-0.5, 0.5, (2, length, width)).astype(np.float32)


def ours(
    case: Case, raw: Mapping[str, Any], layer_type: str | None, where: Array
) -> tuple[posenc.Rotary, Array]:
    rotary = posenc.Rotary.from_config(
        {**raw, "model_type": case.config.model_type},
        layer_type=layer_type,
        seq_len=max(int(where.max()), 0) + 1,
    )
    q, k = (rotary.rotate(x, positions=where) for x in queries(where.shape[-1], rotary.dim))
    return rotary, q.astype(np.float64) @ k.astype(np.float64).T


# The configurations.

TYPES: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 1024},
    "longrope": {"factor": 4.0, "original_max_position_embeddings": 1024},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 1024,
    },
    "proportional": {"partial_rotary_factor": 0.25},
    "axial": {},
}
MORE_OF_TYPES: list[dict[str, Any]] = [
    {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 512},
    {"rope_type": "yarn", **TYPES["yarn"], "beta_fast": 0, "beta_slow": 0},
    {"rope_type": "yarn", **TYPES["yarn"], "beta_fast": 64.0, "beta_slow": 2, "truncate": False},
    {"rope_type": "yarn", **TYPES["yarn"], "mscale": 0.707, "mscale_all_dim": 1.0},
    {"rope_type": "yarn", **TYPES["yarn"], "mscale": 0.707, "mscale_all_dim": 0.0},
    {"rope_type": "yarn", **TYPES["yarn"], "attention_factor": 1.5},
    {"rope_type": "llama3", **TYPES["llama3"], "high_freq_factor": 1.0},
    {"rope_type": "default", "partial_rotary_factor": 0.5},
    {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5},
    {"rope_type": "dynamic", "factor": 1.0, "alpha": 1000.0},
    {"rope_type": "dynamic", "factor": 1.0, "alpha": 0},
    {"rope_type": "default", "mrope_section": [2, 3, 3]},
    {"rope_type": "default", "mrope_section": [16, 24, 24]},
    {"rope_type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": True},
    {"rope_type": "default", "mrope_section": [24, 20, 20], "interleaved": True},
    {"type": "mrope", "mrope_section": [16, 24, 24]},
    {"type": "su", "factor": 4.0, "original_max_position_embeddings": 1024},
    {"rope_type": "default", "attn_factor": 0.8},
    {"rope_type": "longrope", **TYPES["longrope"], "short_mscale": 1.25, "long_mscale": 1.5},
]
BESIDE: list[dict[str, Any]] = [
    {"rope_theta": 20000.0},
    {"rope_theta": 20000.0, "rope_scaling": None, "partial_rotary_factor": 0.5},
    {"rotary_emb_base": 20000.0, "rotary_pct": 0.5},
    {"rotary_embedding_base": 20000.0},
    {"rope_pct": 0.25},
    {"rotary_dim": 32},
    {"rope_interleave": True},
    {"rope_interleave": False},
    {"head_dim": 96},
    {"head_dim": None},
    {"qk_rope_head_dim": 48},
    {"rope_local_base_freq": 20000.0},
    {"global_rope_theta": 20000.0, "local_rope_theta": 30000.0},
    {"swa_rope_theta": 30000.0},
    {"compress_rope_theta": 30000.0},
    {"layer_rope_theta": [20000.0, 20000.0]},
    {"layer_rope_theta": [20000.0, 30000.0], "rope_theta": 20000.0},
    {"rope_ratio": 8.0},
    {"original_max_position_embeddings": 512, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
    {
        "original_max_position_embeddings": 512,
        "rope_scaling": {"rope_type": "llama3", **TYPES["llama3"]},
    },
]


def is_about_rope(key: str) -> bool:
    return bool(re.search("rope_(param|scal|theta|inter)|_theta$|partial_rotary|rotary_emb", key))


def with_factors(rope: dict[str, Any], pairs: int) -> dict[str, Any]:
    """A rope dictionary of longrope with its divisors, all others as they are."""
    if rope.get("rope_type", rope.get("type")) not in ("longrope", "su"):
        return rope
    short, long = np.linspace(1, 2, pairs).tolist(), np.linspace(1, 40, pairs).tolist()
    return {**rope, "short_factor": short, "long_factor": long}


def variants(case: Case) -> Iterator[tuple[dict[str, Any], str | None]]:
    saved = saved_config(case)
    silent = {key: value for key, value in saved.items() if not is_about_rope(key)}
    layers = [k for k, v in (saved.get("rope_parameters") or {}).items() if isinstance(v, dict)]
    ropes = [{"rope_type": name, **of} for name, of in TYPES.items()]
    ropes = ropes + MORE_OF_TYPES if case in EACH_SOURCE else ropes[:4]
    ropes = [with_factors(rope, pairs_of(case)) for rope in ropes]
    for layer_type in layers or [None]:
        yield saved, layer_type
        if not case.config.model_type:  # a part of a model, that no file is of
            continue
        yield silent, layer_type
        for beside in BESIDE:
            if "head_dim" in beside and "head_dim" in case.config.attribute_map:
                continue  # another name of another key
            yield {**silent, **beside}, layer_type
        for rope in ropes:
            newer: dict[str, Any] = {"rope_theta": 20000.0, **rope}
            if layers:
                newer = {name: dict(newer) for name in layers}
            yield {**silent, "rope_parameters": newer}, layer_type
            yield {**silent, "rope_theta": 20000.0, "rope_scaling": rope}, layer_type
        for rope in ropes[:3]:
            given = saved.get("rope_parameters") or {}
            kept = {key: given[key] for key in KEPT if key in given}
            yield {**saved, "rope_scaling": {"rope_theta": 10000.0, **kept, **rope}}, layer_type


def saved_config(case: Case) -> dict[str, Any]:
    """What they save of the defaults, with a layer of each type at least."""
    saved: dict[str, Any] = case.config().to_dict()
    saved.pop("model_type", None)
    if case.rotary.__name__ == "CohereCompassRotaryEmbedding":  # its defaults have none, and fail
        saved["rope_parameters"] = {
            "full_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 20000.0},
        }
    if is_patches(case):
        saved["image_size"] = 4 * saved["patch_size"]
    if case.rotary.__name__ in ("LagunaRotaryEmbedding", "MellumRotaryEmbedding"):
        saved["layer_types"][0] = "sliding_attention"
    if case.rotary.__name__ == "ZayaRotaryEmbedding":
        saved["layer_types"][0], saved["sliding_window"] = "hybrid_sliding", 4096
    return saved


def pairs_of(case: Case) -> int:
    rotary = case.rotary(case.config(**saved_config(case)))
    return next((len(of) for key, of in rotary.named_buffers() if key.endswith("inv_freq")), 32)


# What stays where rope_scaling stands above rope_parameters; transformers forgets it.
KEPT = ("rope_theta", "partial_rotary_factor", "mrope_section")
# One for each way to write the rotary class.
EACH_SOURCE = list(
    {
        re.sub(r"\w+Config|class \w+", "", inspect.getsource(case.rotary)): case for case in CASES
    }.values()
)
NAMES = re.compile("[a-z]+_[a-z_]+|layout|factor|alpha|truncate|interleaved")


def outcome(case: Case, raw: Mapping[str, Any], layer_type: str | None) -> str:
    """'same' or 'refused' by posenc, or 'fails' there; AssertionError where the two differ."""
    try:
        their, where = theirs(case, raw, layer_type)
    except Theirs:
        return "fails"
    try:
        rotary, scores = ours(case, raw, layer_type, where)
    except (TypeError, ValueError) as error:
        return f"refused: {error}"
    assert_same(their, rotary, scores)
    return "same"


def assert_same(their: Turned, rotary: posenc.Rotary, scores: Array) -> None:
    if len(their.frequencies) == len(rotary.frequencies) and rotary.axes is None:
        ours = np.abs(rotary.frequencies)
        np.testing.assert_allclose(their.frequencies, ours, rtol=2.4e-6, atol=0.0)
    if their.attention is not None:
        assert rotary.attention_factor == pytest.approx(their.attention, rel=1e-6)
    assert their.scores.shape == scores.shape
    np.testing.assert_allclose(
        their.scores, scores, rtol=0.0, atol=SCORES * rotary.attention_factor**2
    )


COUNTS: collections.Counter[tuple[str, str]] = collections.Counter()
AS_SAVED: dict[str, str] = {}


# What these take are no positions alone, or what they turn are no columns of one head.
UNLIKE = (
    "ClvpRotaryPositionalEmbedding",
    "EfficientLoFTRRotaryEmbedding",
    "EsmFold2RotaryEmbedding",
    "MusicFlamingoRotaryEmbedding",
)


@pytest.mark.parametrize("case", [c for c in CASES if c.rotary.__name__ in UNLIKE], ids=str)
def test_classes_unlike_any_rotary_are_refused(case: Case) -> None:
    for raw, layer_type in variants(case):
        config = {**raw, "model_type": case.config.model_type, "text_config": None}
        with pytest.raises(ValueError, match=r"model_type|config must be without"):
            posenc.Rotary.from_config(config, layer_type=layer_type, rope_theta=10000.0)
        COUNTS["as saved" if raw == saved_config(case) else "variants", "refused"] += 1


@pytest.mark.parametrize("case", [c for c in CASES if c.rotary.__name__ not in UNLIKE], ids=str)
def test_what_a_class_turns(case: Case) -> None:
    for number, (raw, layer_type) in enumerate(variants(case)):
        what, _, why = outcome(case, raw, layer_type).partition(": ")
        assert what != "refused" or (len(why) <= 300 and NAMES.search(why)), why
        COUNTS["as saved" if not number else "variants", what] += 1
        if not number and why:
            AS_SAVED[str(case)] = why


def test_every_row_has_a_class() -> None:
    types = {case.config.model_type for case in CASES}
    aliases = {"paddleocr_vl", "qwen2_vl", "qwen2_5_vl"}  # flat files from before text_config
    still = {"glm5_next_text", "kimi_linear"}  # which have no class for it
    assert set(FAMILIES) | set(REFUSED) == (types | aliases | still) - {""}


def test_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """Runs last, to say how many there were of each kind."""
    with capsys.disabled():
        print(f"\n{len(CASES)} rotary classes of transformers {transformers.__version__}")
        for (kind, what), count in sorted(COUNTS.items()):
            print(f"{kind}: {count} {what}{' in transformers' if what == 'fails' else ''}")
        print("differing: 0, or a test above has failed")
        for case, why in AS_SAVED.items():
            print(f"{case} is refused: {why}")
