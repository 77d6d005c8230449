"""What the classes of Hugging Face transformers fill in where a configuration is silent.

A row for each family of models that are read alike, by their ``model_type``. Its source is the
configuration class of that name in transformers 5.24 and the rotary class that is made from it.
tests/oracles/test_rotary_classes.py builds every one of them and compares its rotation with what
its row says; to add a model is to add its name to a row, or a row.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Axes = Literal[
    "none",
    # text, pictures and video, by the lengths in `mrope_section`
    "blocks",  # time, then height, then width
    "interleaved",  # all three, pair by pair
    "height and width interleaved, then time",
    # pictures
    "rows, columns",
    "columns, rows",
    "column, row, column, ...",
    "row, column, row, ...",
    "rows of even pairs, columns of odd",
    "frames, rows, columns",
]


class Layer(NamedTuple):
    """One of several layer types, where the class has no one value for all."""

    theta: float = 10000.0
    partial: float = 1.0
    rope_type: str = "default"
    # In files from before `rope_parameters`: the key of the theta, None if it is always the default,
    # and whether `rope_scaling` is for this type.
    theta_key: str | None = "rope_theta"
    scaled: bool = False
    attention_factor: float | None = None  # of yarn there
    written: float = 1.0  # `partial` where its parameters are written out, without one
    head_dim: tuple[str, int] | None = None  # a key of its own, and the default


class Family(NamedTuple):
    """Values where a configuration has none, and which keys the class reads, ignores and refuses."""

    theta: float = 10000.0
    head_dim: int | None = None  # None: the quotient
    quotient: tuple[str, ...] = ("hidden_size", "num_attention_heads")  # the first by all others
    width: str | None = None  # the key of it, where not head_dim
    partial: float = 1.0
    part: bool = False  # whether less than a head can be rotated
    layout: Literal["half", "interleaved"] = "half"
    rope_interleave: bool = False  # whether that key decides the layout
    inverse: bool = False  # rotates by the negative angles
    axes: Axes = "none"
    sections: tuple[int, ...] = ()
    alpha: bool = False  # whether `dynamic` reads it
    only: tuple[str, ...] = ()  # the rope_types there are, if not all
    longrope: tuple[str, ...] = ("su",)  # other names of this rope_type
    mscales: bool = False  # whether short_mscale and long_mscale are its factors
    layers: Mapping[str, Layer] = {}
    nested: bool = False  # whether the layer types' parameters must be written out
    updates: bool = False  # whether `rope_scaling` goes over those that are written out
    parameters: Mapping[str, Any] = {}  # where there are neither rope_parameters nor rope_scaling
    reads: tuple[str, ...] = ()  # other names of its keys that this class knows
    # Keys that its class does not read: allowed where they agree with what it reads, or refused.
    ignores: tuple[str, ...] = ()
    refuses: tuple[str, ...] = ()


_SCALING = ("rope_parameters", "rope_scaling")
_PICTURE = Family(axes="rows, columns", only=("axial",))
_INTERLEAVED = Family(layout="interleaved")
# Multi-head latent attention, as DeepSeek's: a part of each head is rotated, whose width has a key.
_LATENT = Family(head_dim=64, width="qk_rope_head_dim", layout="interleaved")
_NEOX = Family(
    part=True,
    reads=("rotary_emb_base", "rotary_pct"),
    ignores=("rope_theta", "partial_rotary_factor"),
)
_GEMMA = {
    "full_attention": Layer(1e6, scaled=True),
    "sliding_attention": Layer(theta_key="rope_local_base_freq"),
}
_GEMMA4 = {
    "full_attention": Layer(1e6, 0.25, "proportional", head_dim=("global_head_dim", 512)),
    "sliding_attention": Layer(),
}
_BERT = {
    "full_attention": Layer(160000.0, theta_key="global_rope_theta", scaled=True),
    "sliding_attention": Layer(theta_key="local_rope_theta", scaled=True),
}
_LLAMA31 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
_GPT_OSS = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}
_MINISTRAL = {
    "rope_type": "yarn",
    "rope_theta": 1e6,
    "factor": 16.0,
    "original_max_position_embeddings": 16384,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}

_ROWS: dict[str, Family] = {
    # Whole heads in halves, as Llama.
    (
        "arcee aria_text chameleon deepseek_ocr2_encoder diffllama doge dots1 esmc "
        "eurobert exaone4 exaone_moe falcon falcon_h1 gradium_phonon_tts granite granite4_vision_text "
        "granite_docling_text granite_swa granitemoe granitemoe_swa granitemoehybrid "
        "granitemoeshared hyperclovax idefics jais2 kyutai_speech_to_text lasr_encoder llama mimi "
        "mimi_decoder mimi_encoder ministral mistral moshi olmo olmo2 olmo_hybrid olmoe pocket_tts "
        "pocket_tts_audio_tokenizer pocket_tts_audio_tokenizer_decoder "
        "pocket_tts_audio_tokenizer_encoder "
        "qwen2 qwen2_moe qwen3_moe starcoder2 voxtral_realtime_text"
    ): Family(),
    "deepseek_ocr2_text unlimited_ocr_text": Family(ignores=("head_dim",)),
    "neucodec voxtral_realtime_encoder xcodec2": Family(head_dim=64),
    "timesfm2_5": Family(head_dim=80),
    (
        "afmoe dia_decoder dia_encoder flint hrm_text internlm3 iquestcoder kolibri1 lara_mini "
        "molmo2_text "
        "muse_glimmer_text qwen3 qwen3_omni_moe_talker_code_predictor seed_oss"
    ): Family(head_dim=128),
    "gemma gemma2 t5_gemma_module vaultgemma": Family(head_dim=256),
    "nomic_bert": Family(1000.0),
    "jina_embeddings_v3": Family(20000.0),
    "gte": Family(160000.0),
    "bitnet csm csm_depth_decoder_model evolla exaone flex_olmo mllama_text_model": Family(
        500000.0
    ),
    "muse_glimmer_assistant": Family(500000.0, 128),
    "emu3_text_model lfm2 lfm2_moe minimax mixtral": Family(1e6),
    "smollm3": Family(2e6),
    "hy_v3": Family(11158840.0, 128),
    "muse_spark_text": Family(
        head_dim=64, parameters={"rope_type": "default", "rope_theta": 500000.0}
    ),
    "apertus apertus1p5_text": Family(12e6, parameters={**_LLAMA31, "rope_theta": 12e6}),
    "cwm": Family(1e6, 128, parameters={**_LLAMA31, "rope_theta": 1e6, "factor": 16.0}),
    "higgs_audio_v2": Family(
        head_dim=128,
        parameters={
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 32.0,
            "low_freq_factor": 0.125,
            "high_freq_factor": 0.5,
            "original_max_position_embeddings": 1024,
        },
    ),
    "gpt_oss": Family(150000.0, 64, parameters=_GPT_OSS),
    "ministral3": Family(head_dim=128, parameters=_MINISTRAL),
    "hunyuan_v1_dense hunyuan_v1_moe hunyuan_vl_text": Family(alpha=True),
    "phimoe": Family(1e6, only=("default", "longrope"), mscales=True),
    "nanochat": Family(inverse=True),
    "dbrx": Family(quotient=("d_model", "n_heads")),
    "jetmoe": Family(head_dim=128, width="kv_channels"),
    "zamba2": Family(quotient=("attention_head_dim",)),
    "esm": Family(refuses=_SCALING),
    "wav2vec2-bert wav2vec2-conformer": Family(
        reads=("rotary_embedding_base",), refuses=(*_SCALING, "rope_theta", "head_dim")
    ),
    "seamless_m4t": Family(
        quotient=("hidden_size", "speech_encoder_attention_heads"),
        reads=("rotary_embedding_base",),
        refuses=(*_SCALING, "rope_theta", "head_dim"),
    ),
    # Part of a head in halves, as GPT-NeoX and Phi.
    "glm4_moe glmasr_encoder persimmon phi": Family(partial=0.5, part=True),
    "nemotron": Family(partial=0.5, part=True),
    "dots3_note_audio_encoder": Family(partial=0.5, part=True, ignores=("head_dim",)),
    "bamba": Family(partial=0.5, part=True, ignores=("partial_rotary_factor",)),
    "recurrent_gemma": Family(partial=0.5, part=True, only=("default",)),
    "nemotron3_5_transcribe_asr_audio nemotron3_5_transcribe_word_timestamp": Family(
        part=True,
        parameters={
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
        },
    ),
    "nemotron3_diarization_audio": Family(part=True),
    "phi3 phi4_multimodal": Family(part=True, longrope=("su", "yarn")),
    "gpt_neox": _NEOX._replace(partial=0.25),
    "gpt_neox_japanese": _NEOX,
    "stablelm": Family(partial=0.25, part=True),
    "qwen3_next": Family(head_dim=256, partial=0.25, part=True),
    "solar_open": Family(1e6, 128, part=True),
    "sarvam_moe": Family(8e6, 64, part=True),
    "minimax_m2": Family(5e6, 128, part=True, reads=("rotary_dim",)),
    "minimax_m3_vl_text": Family(5e6, 128, part=True, ignores=("rotary_dim",)),
    # Neighbouring columns.
    "blt_patcher cohere2": _INTERLEAVED,
    "cohere2_moe": _INTERLEAVED._replace(head_dim=128, refuses=("rope_scaling",)),
    "blt_global_transformer blt_local_decoder blt_local_encoder": _INTERLEAVED._replace(
        theta=500000.0
    ),
    "cohere ernie4_5_moe": _INTERLEAVED._replace(theta=500000.0),
    "ernie4_5 llama4_text": _INTERLEAVED._replace(theta=500000.0, head_dim=128),
    "helium": _INTERLEAVED._replace(theta=100000.0, head_dim=128),
    "qwen2_5_omni_dit": _INTERLEAVED._replace(head_dim=64),
    "pe_audio_encoder pe_audio_video_encoder pe_video_encoder": _INTERLEAVED._replace(
        theta=20000.0, head_dim=128
    ),
    "openai_privacy_filter": _INTERLEAVED._replace(
        theta=150000.0, head_dim=64, parameters=_GPT_OSS
    ),
    "glm glm4": _INTERLEAVED._replace(head_dim=128, partial=0.5, part=True),
    "moonshine": _INTERLEAVED._replace(
        quotient=("hidden_size", "decoder_num_attention_heads"), partial=0.9, part=True
    ),
    "moonshine_streaming": _INTERLEAVED._replace(
        part=True,
        parameters={
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.8,
        },
    ),
    "codegen gptj": _INTERLEAVED._replace(
        head_dim=64, width="rotary_dim", refuses=(*_SCALING, "rope_theta")
    ),
    # Multi-head latent attention: the width is qk_rope_head_dim, the layout often a key.
    "axk1 deepseek_v3 sarvam_mla youtu": _LATENT._replace(rope_interleave=True),
    "glm4_moe_lite": _LATENT._replace(rope_interleave=True, part=True),
    "mistral4": _LATENT._replace(
        rope_interleave=True,
        parameters={
            **_MINISTRAL,
            "rope_theta": 1e4,
            "factor": 128.0,
            "original_max_position_embeddings": 8192,
        },
    ),
    "axk2": _LATENT._replace(head_dim=32),
    "deepseek_v2 deepseek_v32 glm_moe_dsa": _LATENT,
    "bailing_hybrid": _LATENT._replace(theta=6e6),
    "longcat_flash": _LATENT._replace(theta=1e7),
    "hy_v4": _LATENT._replace(layout="half"),
    "minicpm3": _LATENT._replace(head_dim=32, layout="half"),
    # Several axes of positions.
    "qwen2_5_omni_text qwen2_5_vl qwen2_5_vl_text qwen2_vl qwen2_vl_text": Family(
        1e6, axes="blocks", sections=(16, 24, 24)
    ),
    "qwen2_5_omni_talker": Family(1e6, 128, axes="blocks", sections=(16, 24, 24)),
    "paddleocr_vl paddleocr_vl_text": Family(500000.0, 128, axes="blocks", sections=(16, 24, 24)),
    "glm4v_moe_text": Family(partial=0.5, part=True, axes="blocks", sections=(8, 12, 12)),
    "glm_image_text": Family(part=True, axes="blocks", sections=(8, 12, 12)),
    "glm4v_text glm_ocr_text": _INTERLEAVED._replace(
        part=True, axes="blocks", sections=(8, 12, 12)
    ),
    "qwen3_vl_text": Family(500000.0, 128, axes="interleaved", sections=(24, 20, 20)),
    "qwen3_vl_moe_text": Family(500000.0, axes="interleaved", sections=(24, 20, 20)),
    "qwen3_omni_moe_text": Family(1e6, axes="interleaved", sections=(24, 20, 20)),
    "qwen3_omni_moe_talker_text": Family(axes="interleaved", sections=(24, 20, 20)),
    "cosmos3_edge_text": Family(
        1e8,
        128,
        axes="interleaved",
        sections=(24, 20, 20),
        only=("default",),
        parameters={"rope_type": "default", "rope_theta": 1e8},
    ),
    "qwen3_5_moe_text qwen3_5_text": Family(
        head_dim=256, partial=0.25, part=True, axes="interleaved", sections=(11, 11, 10)
    ),
    "qwen4_exp_text": Family(head_dim=256, part=True, axes="interleaved", sections=(11, 11, 10)),
    "hy_v4_vl_text": _LATENT._replace(axes="interleaved", sections=(12, 10, 10)),
    "ernie4_5_vl_moe_text": _INTERLEAVED._replace(
        theta=500000.0,
        axes="height and width interleaved, then time",
        sections=(22, 22, 20),
        only=("default",),
    ),
    # Pictures.
    (
        "cohere_compass_vision dots3_note_vision_encoder ernie4_5_vl_moe_vision exaone4_5_vision "
        "glm4v_moe_vision glm4v_vision glm5_next_vision glm_ocr_vision mlcd_vision_model "
        "muse_glimmer_vision muse_spark_vision paddleocr_vl_vision qwen2_5_omni_vision_encoder "
        "qwen2_5_vl_vision qwen3_5_moe_vision qwen3_5_vision qwen3_omni_moe_vision_encoder "
        "qwen3_vl_moe_vision qwen3_vl_vision qwen4_exp_vision video_llama_3_vision"
    ): _PICTURE,
    "qwen2_vl_vision": _PICTURE._replace(quotient=("embed_dim", "num_heads")),
    "lfm3_vl_vision": _PICTURE._replace(theta=1e6),
    # Positions are 2 pi times the coordinates of the middle of a patch, from -1 to 1.
    "eomt_dinov3": _PICTURE._replace(theta=100.0, ignores=("head_dim",)),
    "dinov3_vit sapiens2": _PICTURE._replace(theta=100.0, refuses=(*_SCALING, "head_dim")),
    "sam3_vit_model": _PICTURE._replace(layout="interleaved"),
    "edgetam_video sam2_video sam3_tracker_video": _PICTURE._replace(
        layout="interleaved",
        ignores=("head_dim",),
        quotient=(
            "memory_attention_hidden_size",
            "memory_attention_downsample_rate",
            "memory_attention_num_attention_heads",
        ),
    ),
    "step3p5_vision": _PICTURE._replace(axes="columns, rows"),
    "inkling2_vision": _PICTURE._replace(axes="columns, rows", layout="interleaved"),
    # Positions begin at 1.
    "llama4_vision_model": _PICTURE._replace(
        axes="columns, rows", layout="interleaved", ignores=("head_dim",)
    ),
    "kimi_k25_vision": _PICTURE._replace(axes="column, row, column, ..."),
    "pixtral": _PICTURE._replace(axes="rows of even pairs, columns of odd"),
    "minimax_m3_vl_vision": _PICTURE._replace(axes="frames, rows, columns"),
    # A rotation for each layer type.
    "gemma3_text gemma3n_text t5gemma2_decoder t5gemma2_text": Family(
        head_dim=256, layers=_GEMMA, updates=True
    ),
    "modernbert modernbert-decoder": Family(layers=_BERT, updates=True),
    "olmo3": Family(
        layers={
            "full_attention": Layer(500000.0, scaled=True),
            "sliding_attention": Layer(500000.0, theta_key=None),
        },
        updates=True,
    ),
    "gemma4_text gemma4_unified_text": Family(head_dim=256, layers=_GEMMA4, nested=True),
    "diffusion_gemma_text": Family(head_dim=256, part=True, layers=_GEMMA4, nested=True),
    "embedding_gemma2_text": Family(
        head_dim=256,
        layers={
            "full_attention": Layer(1e6, head_dim=("global_head_dim", 512)),
            "sliding_attention": Layer(),
        },
        nested=True,
    ),
    "dory": Family(
        head_dim=256,
        layers={"full_attention": Layer(1e7), "sliding_attention": Layer()},
        nested=True,
    ),
    "ultrabert": Family(
        layers={"full_attention": Layer(2560000.0), "sliding_attention": Layer()}, nested=True
    ),
    "beam": Family(head_dim=128, layers={"sliding_attention": Layer()}, nested=True),
    "lfm3": Family(
        head_dim=128,
        layers={
            "full_attention": Layer(1e6, 0.5, "proportional"),
            "sliding_attention": Layer(),
        },
        nested=True,
    ),
    "laguna": Family(
        head_dim=128,
        part=True,
        layers={"full_attention": Layer(500000.0, 0.5), "sliding_attention": Layer()},
        nested=True,
    ),
    "mellum": Family(
        head_dim=128,
        part=True,
        layers={"full_attention": Layer(500000.0), "sliding_attention": Layer()},
        nested=True,
    ),
    "mimo_v2_flash": Family(
        head_dim=192,
        part=True,
        only=("default",),
        layers={
            "full_attention": Layer(5e6, 0.334, written=0.334),
            "sliding_attention": Layer(partial=0.334, written=0.334, theta_key="swa_rope_theta"),
        },
        nested=True,
    ),
    "zaya": Family(
        head_dim=128,
        part=True,
        layers={"hybrid": Layer(5e6, 0.5), "hybrid_sliding": Layer(partial=0.5)},
        nested=True,
    ),
    "step3p5": Family(head_dim=128, part=True, layers={"full_attention": Layer()}, nested=True),
    "neomme": Family(
        head_dim=64,
        part=True,
        longrope=(),
        axes="row, column, row, ...",
        layers={
            "full_attention": Layer(1e6, 0.25, written=0.25),
            "sliding_attention": Layer(),
        },
    ),
    "cohere_compass_text": Family(axes="interleaved", sections=(24, 20, 20), nested=True),
    "deepseek_v4": _INTERLEAVED._replace(
        head_dim=512,
        part=True,
        layers={
            "main": Layer(partial=0.125),
            "compress": Layer(
                160000.0, 0.125, theta_key="compress_rope_theta", scaled=True, attention_factor=1.0
            ),
        },
    ),
    "dots3_note_text": _LATENT._replace(
        layers={
            "indexed_attention": Layer(8e7),
            "sliding_attention": Layer(50000.0, theta_key="swa_rope_theta"),
        },
        nested=True,
    ),
}

FAMILIES = {name: family for names, family in _ROWS.items() for name in names.split()}

# Whose rotation no `Rotary` has, whatever the configuration says.
REFUSED: dict[str, str] = {
    "clvp_encoder": "its width is that of a projection",
    "efficientloftr": "it turns columns of all heads together",
    "glm5_next_text": "it turns nothing",
    "kimi_linear": "it turns nothing",
    "gemma4_vision": "it turns each half of a head in halves, by Rotary(head_dim // 2)",
    "mistral_large4_text": "it multiplies its frequencies by weights of the model",
    "musicflamingo": "it turns by seconds and by windows of them",
}
