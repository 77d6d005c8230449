"""Positional encodings for Transformers on the CPU: exact, in place, at the speed of memory."""

from . import positions
from ._config import __version__, show_config
from ._presets import presets
from .learned import Learned
from .sinusoidal import Sinusoidal, add, embed, encode, fill, positional_encoding

__all__ = [
    "Learned",
    "Sinusoidal",
    "__version__",
    "add",
    "embed",
    "encode",
    "fill",
    "positional_encoding",
    "positions",
    "presets",
    "show_config",
]
