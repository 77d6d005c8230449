"""Which kernels this process uses: the best that the processor runs, or POSENC_BACKEND's."""

import importlib
import os
import warnings
from typing import TYPE_CHECKING

# Best first. _core.pyx is compiled once for each instruction set, _numpy.py is its twin.
_MODULES = {
    "avx512": "_core_avx512",
    "avx2": "_core_avx2",
    "baseline": "_core",
    "numpy": "_numpy",
}


def _import(name: str) -> bool:
    """Whether the backend is here and runs here; ImportError if it is here and does not load."""
    module = f"{__package__}.{_MODULES[name]}"
    try:
        # Wider code must not even be imported where the processor lacks it: it may run at once.
        if name in ("avx512", "avx2"):
            baseline = importlib.import_module(f"{__package__}._core")
            if name not in baseline.instruction_sets():
                return False
        importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name in (
            module,
            f"{__package__}._core",
        ):
            return False
        raise ImportError(
            f"posenc's {name} kernels are installed but do not load: {error}"
        ) from error
    return True


def _loads(name: str) -> bool:
    try:
        return _import(name)
    except ImportError as error:
        warnings.warn(f"{error}; using the next best", RuntimeWarning, stacklevel=2)
        return False


def available() -> list[str]:
    """The backends that this machine can use, the best first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return [name for name in _MODULES if _loads(name)]


def _choose() -> str:
    forced = os.environ.get("POSENC_BACKEND")
    if not forced:
        return next(name for name in _MODULES if _loads(name))
    if forced not in _MODULES or not _import(forced):
        raise ImportError(
            f"POSENC_BACKEND={forced} is not a backend of this installation on this machine: "
            f"use one of {', '.join(available())}, or unset it"
        )
    return forced


name = _choose()
if TYPE_CHECKING:
    from . import _core

    kernels = _core
else:
    kernels = importlib.import_module(f"{__package__}.{_MODULES[name]}")
