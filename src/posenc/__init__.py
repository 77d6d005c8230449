"""Positional encodings for Transformers on the CPU: exact, in place, at the speed of memory."""

from . import positions
from ._config import __version__, show_config
from ._presets import presets
from .bias import alibi_bias, alibi_slopes, t5_buckets
from .grid import grid_encoding
from .learned import Learned
from .relative import relative_encoding
from .rotary import Rotary
from .sinusoidal import Sinusoidal, add, embed, encode, fill, positional_encoding

__all__ = [
    "Learned",
    "Rotary",
    "Sinusoidal",
    "__version__",
    "add",
    "alibi_bias",
    "alibi_slopes",
    "embed",
    "encode",
    "fill",
    "grid_encoding",
    "positional_encoding",
    "positions",
    "presets",
    "relative_encoding",
    "show_config",
    "t5_buckets",
]
