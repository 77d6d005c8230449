"""Which kernels this process uses: the best that the processor runs, or POSENC_BACKEND's."""

import contextlib
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
    # Wider code must not even be imported where the processor lacks it: it may run at once.
    if name in ("avx512", "avx2") and name not in _instruction_sets():
        return False
    try:
        importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            return False
        raise ImportError(
            f"posenc's {name} kernels are installed but do not load: {error}"
        ) from error
    return True


def _instruction_sets() -> list[str]:
    try:
        baseline = importlib.import_module(f"{__package__}._core")
    except Exception:  # noqa: BLE001 - missing or broken: that is said of the baseline itself
        return []
    sets: list[str] = baseline.instruction_sets()
    return sets


def available() -> list[str]:
    """The backends that this machine can use, the best first."""
    found = []
    for backend in _MODULES:
        with contextlib.suppress(ImportError):
            if _import(backend):
                found.append(backend)
    return found


def _choose() -> str:
    forced = os.environ.get("POSENC_BACKEND")
    if not forced:
        for backend in _MODULES:
            try:
                if _import(backend):
                    return backend
            except ImportError as error:
                warnings.warn(f"{error}; using the next best", RuntimeWarning, stacklevel=1)
    elif forced in _MODULES and _import(forced):
        return forced
    raise ImportError(
        f"POSENC_BACKEND={forced} is not a backend of this installation on this machine: "
        f"use one of {', '.join(available())}, or unset it"
    )


name = _choose()
if TYPE_CHECKING:
    from . import _core

    kernels = _core
else:
    kernels = importlib.import_module(f"{__package__}.{_MODULES[name]}")
