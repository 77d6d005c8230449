"""Exact positional encodings for Transformers on the CPU, added to embeddings in one pass."""

import importlib
from typing import TYPE_CHECKING, Any

from ._config import __version__, show_config
from .sinusoidal import Sinusoidal, add, embed, encode, fill, positional_encoding

if TYPE_CHECKING:
    from . import positions
    from ._presets import presets
    from .bias import alibi_bias, alibi_slopes, t5_buckets
    from .grid import grid_encoding
    from .learned import Learned
    from .relative import relative_encoding
    from .rotary import Rotary

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

# Imported on first access: together they take as long to import as everything else.
_LATER = {
    "Learned": "learned",
    "Rotary": "rotary",
    "alibi_bias": "bias",
    "alibi_slopes": "bias",
    "grid_encoding": "grid",
    "presets": "_presets",
    "relative_encoding": "relative",
    "t5_buckets": "bias",
}


def __getattr__(name: str) -> Any:
    if name == "positions":
        return importlib.import_module(".positions", __name__)
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
