"""Positional encodings for Transformers on the CPU: exact, in place, at the speed of memory."""

from . import positions
from ._config import __version__, show_config
from .sinusoidal import Sinusoidal, add, encode, fill, positional_encoding

__all__ = [
    "Sinusoidal",
    "__version__",
    "add",
    "encode",
    "fill",
    "positional_encoding",
    "positions",
    "show_config",
]
