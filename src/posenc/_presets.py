"""The conventions of frameworks, by name."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _checks


class _Preset(NamedTuple):
    """What differs from the paper, and where it is from."""

    text: str
    keywords: dict[str, Any] = {}  # noqa: RUF012 - never written
    amplitude: Callable[[int], float] | None = None


_SPLIT = {"layout": "split", "odd": "trim"}
_TIMING = {"layout": "split", "shift": 1.0, "odd": "zero"}

# Formulas as in each project's own source; most compute them in float32.
_PRESETS = {
    "vaswani": _Preset(
        "Attention Is All You Need, 3.5; XLM, Flaubert and OpenNMT-py. From position 0.",
        {"odd": "trim"},
    ),
    "pytorch-tutorial": _Preset(
        "PositionalEncoding of pytorch.org's transformer tutorial. From position 0.",
    ),
    "keras": _Preset(
        "keras_hub.layers.SinePositionEncoding; base is its max_wavelength. From start_index.",
        {"odd": "trim"},
    ),
    "positional-encodings": _Preset(
        "PositionalEncoding1D of the package positional-encodings. From position 0.",
        {"odd": "ceil"},
    ),
    "marian": _Preset(
        "transformers' Marian, Pegasus, RoFormer, Informer, Autoformer. From position 0.", _SPLIT
    ),
    "ctrl": _Preset("transformers' CTRL. From position 0.", _SPLIT),
    "gptj": _Preset(
        "create_sinusoidal_positions of transformers' GPT-J and CodeGen. From position 0.", _SPLIT
    ),
    "transformer-xl": _Preset(
        "PositionalEmbedding of Transformer-XL, whose positions are distances from L - 1 down.",
        _SPLIT,
    ),
    "fairseq": _Preset(
        "fairseq's SinusoidalPositionalEmbedding. Tokens from position padding_idx + 1, padding "
        "gets no encoding.",
        _TIMING,
    ),
    "m2m100": _Preset(
        "transformers' M2M100, NLLB-MoE, XGLM, Speech2Text, Kosmos-2, SeamlessM4T. As fairseq.",
        _TIMING,
    ),
    "tensor2tensor": _Preset(
        "get_timing_signal_1d of tensor2tensor; base is max_timescale / min_timescale, freq_scale "
        "is min_timescale. From start_index.",
        _TIMING,
    ),
    "whisper": _Preset(
        "sinusoids of Whisper's encoder; base is max_timescale. From position 0.",
        {"layout": "split", "shift": 1.0},
    ),
    "ctranslate2": _Preset(
        "CTranslate2's position encoder. From position 1.", {"layout": "split", "shift": 1.0}
    ),
    "musicgen": _Preset("transformers' Musicgen. From position 0.", {**_TIMING, "cos_first": True}),
    "diffusers": _Preset(
        "get_timestep_embedding of diffusers; shift is downscale_freq_shift, cos_first is "
        "flip_sin_to_cos, freq_scale is scale, base is max_period. Positions are timesteps.",
        _TIMING,
    ),
    "dit": _Preset(
        "timestep_embedding of GLIDE, ADM, DiT and ggml; base is max_period. Positions are "
        "timesteps.",
        {"layout": "split", "odd": "zero", "cos_first": True},
    ),
    "flux": _Preset(
        "timestep_embedding of FLUX: as dit, of timesteps from 0 to 1.",
        {"layout": "split", "odd": "zero", "cos_first": True, "freq_scale": 1000.0},
    ),
    "x-transformers": _Preset(
        "ScaledSinusoidalEmbedding of x-transformers with its first scale, d_model ** -0.5. From "
        "position 0.",
        {"layout": "split"},
        lambda d_model: 1 / math.sqrt(d_model),
    ),
    "mlx": _Preset(
        "mlx.nn.SinusoidalPositionalEncoding; base is max_freq / min_freq, freq_scale is max_freq, "
        "with full_turns times 2*pi. From the positions that it is given.",
        {"layout": "split", "shift": 1.0},
        lambda d_model: math.sqrt(2 / d_model),
    ),
}


def presets() -> dict[str, str]:
    """Return the names for `Sinusoidal.preset`, each with a description.

    Returns
    -------
    dict of str to str
        For each name: the source of the formula, the keywords that its parameters correspond to,
        and the position of the framework's first token, which is not part of a preset.

    Examples
    --------
    >>> import posenc
    >>> posenc.presets()["ctrl"]
    "transformers' CTRL. From position 0."
    """
    return {name: preset.text for name, preset in _PRESETS.items()}


def convention(name: str, d_model: int) -> dict[str, Any]:
    """The keywords of a preset."""
    preset = _PRESETS[_checks.choice("name", name, tuple(_PRESETS))]
    if preset.amplitude is None:
        return preset.keywords
    return {**preset.keywords, "amplitude": preset.amplitude(d_model)}
