"""What all benchmarks stand on: memory, backends, and caches that hold nothing of a call's."""

import contextlib
import functools
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from posenc import _backend, _formats

Array = npt.NDArray[Any]

# The best first. The instruction sets that tables have columns for; the others are shown once.
BACKENDS = _backend.available()
COLUMNS = [b for b in BACKENDS if b not in ("baseline", "numpy")] or BACKENDS[:1]
# What run.py asks of the processes that it starts: "quick" is a trial on short arrays, "again" times
# alone, whose results an earlier process has verified.
ASKED = os.environ.get("POSENC_BENCH", "")
QUICK, VERIFY = ASKED == "quick", ASKED != "again"
# Where posenc's own large results begin, modulo 4096. NumPy's begin at 16.
ALIGNED = 64


def ones(shape: tuple[int, ...], dtype: str = "float32", at: int | None = None) -> Array:
    """Ones where NumPy's memory comes to lie, or in memory that begins `at`, modulo 4096."""
    if at is None:
        return np.ones(shape, _formats.float_dtype(dtype))
    size = math.prod(shape) * _formats.float_dtype(dtype).itemsize
    made = view(np.empty(size + 4096, np.uint8), shape, dtype, at)
    made[...] = 1
    return made


def view(memory: Array, shape: tuple[int, ...], dtype: str, at: int) -> Array:
    """An array of that shape in these bytes, from the first address that is `at` modulo 4096."""
    of = _formats.float_dtype(dtype)
    begin = (at - memory.ctypes.data) % 4096
    return memory[begin : begin + math.prod(shape) * of.itemsize].view(of).reshape(shape)


@contextlib.contextmanager
def running_on(backend: str) -> Iterator[Any]:
    """Let posenc run on the backend, and give its kernels."""
    module = _backend._import(backend)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(_backend, "kernels", module)
        monkeypatch.setattr(_backend, "name", backend)
        yield module


def flush() -> None:
    """Walk over more memory than the caches hold, so that the next call finds its arrays in none."""
    elsewhere = _elsewhere()
    np.add(elsewhere, 1.0, out=elsewhere)


@functools.cache
def _elsewhere() -> Array:
    return np.ones(1 << 25)  # 256 MB
