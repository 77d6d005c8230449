"""What the configuration of a model in Hugging Face transformers says of its rotary frequencies.

The formulas of `ROPE_INIT_FUNCTIONS` in transformers 5.24, in float64. With theta_i of the plain
schedule, all but `dynamic` (another base) and `longrope` (a divisor for each pair) blend theta_i
and theta_i / factor by a ramp.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _arrays, _checks, _frequencies

Floats = npt.NDArray[np.float64]


class Rope(NamedTuple):
    """Arguments of `Rotary`: a base or frequencies, the other is None."""

    dim: int
    base: float | None = None
    frequencies: Floats | None = None
    attention: float = 1.0
    axes: tuple[int, ...] | None = None


class _Config:
    """A configuration's values, checked as they are asked for."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = {key: value for key, value in _flat(values).items() if value is not None}
        rope_type = self.values.get("rope_type", self.values.get("type", "default"))
        if not isinstance(rope_type, str) or rope_type not in _FORMULAS:
            raise ValueError(f"rope_type must be one of {', '.join(_FORMULAS)}, got {rope_type!r}")
        self.rope_type = rope_type
        self._fall_back()
        wanted = ("rope_theta", "head_dim", *_REQUIRED.get(rope_type, ()))
        missing = [key for key in wanted if key not in self.values]
        if missing:
            raise ValueError(f"config must have {', '.join(missing)} for rope_type {rope_type!r}")
        self.theta = self.number("rope_theta")
        self.head_dim = self.integer("head_dim")
        self.partial = self.number("partial_rotary_factor", 1.0)
        if self.partial > 1.0:
            raise ValueError(f"partial_rotary_factor must be at most 1, got {self.partial}")

    def _fall_back(self) -> None:
        """What transformers takes from other values where it is not there."""
        if "qk_rope_head_dim" in self.values:
            self.values.setdefault("head_dim", self.values["qk_rope_head_dim"])
        if "rotary_pct" in self.values:
            self.values.setdefault("partial_rotary_factor", self.values["rotary_pct"])
        if "hidden_size" in self.values and "num_attention_heads" in self.values:
            width = self.integer("hidden_size") // self.integer("num_attention_heads")
            self.values.setdefault("head_dim", width)
        if "rotary_dim" in self.values and "head_dim" in self.values:
            part = self.integer("rotary_dim") / self.integer("head_dim")
            self.values.setdefault("partial_rotary_factor", part)
        if "max_position_embeddings" not in self.values:
            return
        longest = self.number("max_position_embeddings")
        if self.rope_type in ("yarn", "longrope", "llama3"):
            self.values.setdefault("original_max_position_embeddings", longest)
        if self.rope_type in ("yarn", "longrope"):
            original = self.number("original_max_position_embeddings")
            self.values.setdefault("factor", longest / original)

    def number(self, key: str, default: float | None = None) -> float:
        value = self.values[key] if default is None else self.values.get(key, default)
        return _checks.finite(key, value, positive=True)

    def integer(self, key: str) -> int:
        return _checks.integer(key, self.values[key], least=1)

    @property
    def dim(self) -> int:
        """The columns that turn."""
        dim = int(self.head_dim * self.partial)
        if dim % 2 or not dim:
            raise ValueError(
                f"head_dim and partial_rotary_factor must leave an even number of columns, not 0, "
                f"got {self.head_dim} * {self.partial:g} = {dim}"
            )
        return dim

    def plain(self) -> Floats:
        return _plain(self.theta, self.dim)


def from_config(values: Mapping[str, Any]) -> Rope:
    """What `Rotary` needs to know."""
    with np.errstate(all="ignore"):
        return _from_config(_Config(values))


def _from_config(config: _Config) -> Rope:
    rope = _FORMULAS[config.rope_type](config)
    sections = config.values.get("mrope_section")
    if sections is None:
        return rope
    return rope._replace(axes=_sections(config, rope.dim // 2))


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """The rotary parameters of a whole configuration over its other values."""
    flat = dict(values)
    for key in ("rope_scaling", "rope_parameters"):  # the older name, whose values give way
        if isinstance(flat.get(key), Mapping):
            flat |= flat.pop(key)
    layers = [key for key, of in flat.items() if isinstance(of, Mapping) and "rope_theta" in of]
    if layers:
        raise ValueError(f"config must be that of one layer type, got {', '.join(layers)}")
    return flat


def _plain(base: float, dim: int) -> Floats:
    """``base ** (-2 * i / dim)``."""
    return _frequencies.radians(base, dim // 2)


def _blend(config: _Config, kept: Floats) -> Floats:
    """theta where `kept` is 1, theta / factor where it is 0."""
    theta = config.plain()
    return theta / config.number("factor") * (1.0 - kept) + theta * kept


def _default(config: _Config) -> Rope:
    return Rope(config.dim, config.theta)


def _linear(config: _Config) -> Rope:
    return Rope(config.dim, frequencies=config.plain() / config.number("factor"))


def _dynamic(config: _Config) -> Rope:
    """NTK-aware: a base for the length of the sequence, beyond that of the training."""
    dim, factor = config.dim, config.number("factor")
    trained = config.number("max_position_embeddings")
    length = max(config.number("seq_len", trained), trained)
    stretch = factor * length / trained - (factor - 1.0)
    # the only pair of two columns turns by 1 whatever the base is
    return Rope(dim, config.theta * stretch ** (dim / (dim - 2)) if dim > 2 else config.theta)


def _yarn(config: _Config) -> Rope:
    """Peng et al., "YaRN" (arXiv:2309.00071): a ramp over the pairs' numbers."""
    dim, factor = config.dim, config.number("factor")
    trained = config.number("original_max_position_embeddings")
    if config.theta <= 1.0:
        raise ValueError(f"rope_theta must be above 1 for rope_type 'yarn', got {config.theta}")

    def pair(turns: float) -> float:
        """The pair, of as many as there would be, that turns so often in the training's length."""
        return dim * math.log(trained / (2.0 * math.pi * turns)) / (2.0 * math.log(config.theta))

    low = pair(config.number("beta_fast", 32.0))
    high = pair(config.number("beta_slow", 1.0))
    if config.values.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0.0), min(high, dim - 1.0)
    if low == high:
        high += 0.001
    kept = 1.0 - np.clip((np.arange(dim // 2) - low) / (high - low), 0.0, 1.0)
    return Rope(dim, frequencies=_blend(config, kept), attention=_yarn_attention(config, factor))


def _yarn_attention(config: _Config, factor: float) -> float:
    """An explicit one, or the paper's; DeepSeek's two scales divide, so equal ones cancel."""
    if "attention_factor" in config.values:
        return config.number("attention_factor")

    def scale(mscale: float) -> float:
        return 1.0 if factor <= 1.0 else 0.1 * mscale * math.log(factor) + 1.0

    if config.values.get("mscale") and config.values.get("mscale_all_dim"):
        return scale(config.number("mscale")) / scale(config.number("mscale_all_dim"))
    return scale(1.0)


def _longrope(config: _Config) -> Rope:
    """Ding et al., "LongRoPE" (arXiv:2402.13753): a divisor for each pair."""
    dim, factor = config.dim, config.number("factor")
    trained = config.number("original_max_position_embeddings")
    key = "long_factor" if config.number("seq_len", trained) > trained else "short_factor"
    divisors = np.asarray(config.values[key], np.float64)
    if divisors.shape != (dim // 2,) or not (divisors > 0.0).all():
        raise ValueError(f"{key} must be {dim // 2} positive numbers, got {config.values[key]}")
    attention = 1.0
    if factor > 1.0 and trained > 1.0:
        attention = math.sqrt(1.0 + math.log(factor) / math.log(trained))
    return Rope(
        dim,
        frequencies=config.plain() / divisors,
        attention=config.number("attention_factor", attention),
    )


def _llama3(config: _Config) -> Rope:
    """Llama 3.1: a ramp over the turns that a pair makes in the training's length."""
    low, high = config.number("low_freq_factor"), config.number("high_freq_factor")
    if not low < high:
        raise ValueError(f"high_freq_factor must be above low_freq_factor, {low}, got {high}")
    turns = config.number("original_max_position_embeddings") * config.plain() / (2.0 * math.pi)
    kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return Rope(config.dim, frequencies=_blend(config, kept))


def _proportional(config: _Config) -> Rope:
    """As Gemma: the first pairs of the whole head's schedule turn, the others stand still."""
    dim = config.head_dim
    if dim % 2:
        raise ValueError(f"head_dim must be even, columns turn in pairs, got {dim}")
    theta = _plain(config.theta, dim) / config.number("factor", 1.0)
    theta[int(config.partial * dim // 2) :] = 0.0
    return Rope(dim, frequencies=theta)


def _axial(config: _Config) -> Rope:
    """As in vision models: half of the pairs turn by rows, half by columns of a picture."""
    dim = config.head_dim
    if dim % 4:
        raise ValueError(f"head_dim must be a multiple of 4 for rope_type 'axial', got {dim}")
    axes = (0,) * (dim // 4) + (1,) * (dim // 4)
    return Rope(dim, frequencies=np.tile(_plain(config.theta, dim // 2), 2), axes=axes)


def _sections(config: _Config, pairs: int) -> tuple[int, ...]:
    """Which row of positions turns each pair: time, height or width, as in Qwen2-VL and Qwen3-VL."""
    sections = _arrays.integers("mrope_section", config.values["mrope_section"])
    if sections.ndim != 1 or sections.min(initial=0) < 0 or sections.sum() != pairs:
        raise ValueError(
            f"mrope_section must be lengths whose sum is {pairs}, the number of pairs, "
            f"got {config.values['mrope_section']}"
        )
    if not config.values.get("mrope_interleaved"):
        return tuple(np.repeat(np.arange(len(sections)), sections).tolist())
    if len(sections) != 3:
        raise ValueError(f"mrope_section must be 3 if interleaved, got {len(sections)} of them")
    # Pairs take turns, as long as a section has pairs left; all others belong to time.
    axes = np.zeros(pairs, np.int64)
    for axis in (1, 2):
        axes[axis : 3 * int(sections[axis]) : 3] = axis
    return tuple(axes.tolist())


_FORMULAS: dict[str, Callable[[_Config], Rope]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
    "axial": _axial,
    "mrope": _default,  # what Qwen2-VL's first files say
}
_REQUIRED = {
    "linear": ("factor",),
    "dynamic": ("factor", "max_position_embeddings"),
    "yarn": ("factor", "original_max_position_embeddings"),
    "longrope": ("factor", "original_max_position_embeddings", "short_factor", "long_factor"),
    "llama3": (
        "factor",
        "original_max_position_embeddings",
        "low_freq_factor",
        "high_freq_factor",
    ),
}
