"""Private names of the library that several test files lean on."""

import contextlib
import importlib
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import posenc
from posenc import _arrays, _backend, _cache

# The backends from the best to the last, whether this machine has them or not, and their modules.
MODULES: dict[str, str] = {name: f"posenc.{file}" for name, file in _backend._MODULES.items()}


def kernels_of(backend: str) -> ModuleType:
    return importlib.import_module(MODULES[backend])


def plan_of(encoding: posenc.Sinusoidal | posenc.Rotary) -> Any:
    """What the kernels are handed of an encoding."""
    source: Any = encoding._source if isinstance(encoding, posenc.Sinusoidal) else encoding._plan
    return source.plan


def max_position(encoding: posenc.Sinusoidal | posenc.Rotary) -> float:
    """The largest position that the kernels resolve."""
    result: float = plan_of(encoding).max_position
    return result


def forget() -> None:
    """Nothing is prepared any more."""
    _cache.clear()


# Within ``with``:


@contextlib.contextmanager
def declining() -> Iterator[None]:
    """No call takes the short way: Python checks all arguments."""
    kernels = SimpleNamespace(**vars(_backend.kernels))
    for name in vars(kernels):
        if name.startswith("try_"):
            setattr(kernels, name, lambda *arguments: None)
    with mock.patch.object(_backend, "kernels", kernels):
        yield


@contextlib.contextmanager
def streaming() -> Iterator[None]:
    """Outputs of any size are written as large ones are, by non-temporal stores."""
    with declining(), mock.patch.object(_arrays, "_STREAM_BYTES", 0):
        yield
