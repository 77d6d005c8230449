"""Which kernels this process uses: the best that the processor runs, or POSENC_BACKEND's."""

import contextlib
import importlib
import os
import sys
import warnings
from importlib.machinery import EXTENSION_SUFFIXES
from types import ModuleType
from typing import TYPE_CHECKING

# Best first. _core.pyx is compiled once for each instruction set: _core_<set> is for the one beyond
# the baseline that has the backend's name. _numpy.py is its twin.
_MODULES = {
    "avx512": "_core_avx512",
    "avx2": "_core_avx2",
    "baseline": "_core",
    "numpy": "_numpy",
}


class _Absent(ImportError):
    """A backend that is not here or not for this processor, which is no fault to warn of."""


def _import(backend: str) -> ModuleType:
    """The kernels of the backend; _Absent, or the ImportError of kernels that do not load."""
    # Wider code must not even be imported where the processor lacks it: it may run at once.
    if _is_wide(backend) and backend not in _instruction_sets():
        raise _Absent(f"posenc's {backend} kernels are not for this processor")
    module = _full_name(backend)
    try:
        return importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            raise _Absent(f"posenc's {backend} kernels are not here") from error
        raise ImportError(
            f"posenc's {backend} kernels are installed but do not load: {error}"
        ) from error


def _full_name(backend: str) -> str:
    return f"{__package__}.{_MODULES[backend]}"


def _is_wide(backend: str) -> bool:
    return _MODULES[backend].startswith("_core_")


def _instruction_sets() -> list[str]:
    try:
        baseline = importlib.import_module(_full_name("baseline"))
    except Exception:  # noqa: BLE001 - missing or broken: that is said of the baseline itself
        return []
    sets: list[str] = baseline.instruction_sets()
    return sets


def available() -> list[str]:
    """The backends that this machine can use, the best first."""
    found = []
    for backend in _MODULES:
        with contextlib.suppress(ImportError):
            _import(backend)
            found.append(backend)
    return found


def unavailable() -> dict[str, str]:
    """The other backends, and why this machine cannot use them."""
    reasons = {}
    for backend in _MODULES:
        try:
            _import(backend)
        except _Absent:
            reasons[backend] = _why_absent(backend)
        except ImportError as error:
            reasons[backend] = f"installed but does not load: {error.__cause__}"
    return reasons


def _why_absent(backend: str) -> str:
    if _is_wide(backend) and "baseline" in available() and backend not in _instruction_sets():
        return f"this processor lacks {backend}"
    if sys.modules.get(_full_name(backend), ...) is None:
        return "kept from being imported by a None in sys.modules"
    module = _MODULES[backend]
    files = _binaries(module)
    if not files:
        return "not in this installation"
    if not set(files) & {module + suffix for suffix in EXTENSION_SUFFIXES}:
        return f"compiled for another Python or system: {files[0]}"
    if _is_wide(backend):
        return "not used without the baseline kernels, which know the processor"
    return "in a zip archive or the like, from which compiled modules cannot be loaded"


def _binaries(module: str) -> list[str]:
    """The files of the package that hold the module, whatever Python they are for."""
    from importlib import resources  # here, for it takes longer than the rest of `import posenc`

    try:
        names = [file.name for file in resources.files(__package__).iterdir()]
    except OSError:  # a frozen application need not have the package's folder
        return []
    return [n for n in names if n.startswith(f"{module}.") and n.endswith((".so", ".pyd"))]


def _choose() -> str:
    forced = os.environ.get("POSENC_BACKEND")
    return _forced(forced) if forced else _best()


def _forced(backend: str) -> str:
    if backend in _MODULES:
        with contextlib.suppress(_Absent):
            _import(backend)
            return backend
    usable = available()
    if not usable:
        return _best()  # there is none, and it says so
    raise ImportError(
        f"POSENC_BACKEND={backend:.40} is not a backend of this installation on this machine "
        f"({unavailable().get(backend, 'an unknown name')}): "
        f"use one of {', '.join(usable)}, or unset it"
    )


def _best() -> str:
    """The best backend that can be used, with a warning of every better one that is broken."""
    for backend in _MODULES:
        try:
            _import(backend)
        except ImportError as error:
            cause = error.__cause__
            if not isinstance(error, _Absent):
                warnings.warn(f"{error}; using the next best", RuntimeWarning, stacklevel=1)
        else:
            return backend
    raise ImportError(_NOTHING) from cause


_NOTHING = (
    f"none of posenc's kernels can be imported ({', '.join(_MODULES.values())}): "
    "install posenc again, with pip install --force-reinstall posenc, "
    "or have the tool that packed it take all of its modules"
)

name = _choose()
if TYPE_CHECKING:
    from . import _core

    kernels = _core
else:
    kernels = _import(name)
