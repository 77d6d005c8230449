"""Embeddings plus encodings, beside a table kept from before and the floor of any add, a copy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from rivals import BACKENDS, agree_to_the_bit, aligned, group, use

import posenc

Array = npt.NDArray[Any]

SHAPES = [(1, 1, 512), (32, 64, 256), (8, 2048, 1024), (1, 32768, 1024)]
CASES = [
    pytest.param(shape, dtype, id=f"{'x'.join(map(str, shape))}-{dtype}")
    for dtype in ("float32", "float64")
    for shape in SHAPES
    if dtype == "float32" or np.prod(shape) <= 1 << 24
]
SCALE = 32.0


def packed(shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Documents of 16 to 2000 tokens, one after the other in every row, each counting from 0."""
    rng = np.random.default_rng(0)
    positions = np.empty(shape[:2], np.int64)
    for row in positions:
        first = 0
        while first < len(row):
            size = min(int(rng.integers(16, 2000)), len(row) - first)
            row[first : first + size] = np.arange(size)
            first += size
    return positions


class Work:
    """The arrays of one shape, and the ways to add to them."""

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        length, d_model = shape[-2:]
        self.x = aligned(shape, dtype)
        self.x[...] = np.random.default_rng(1).standard_normal(d_model)
        self.y = self.x.copy()
        self.out = aligned(shape, dtype)
        self.table = posenc.positional_encoding(length, d_model, dtype=dtype)
        self.positions = packed(shape)
        self.encoding = posenc.Sinusoidal(d_model)

    def ours(self) -> dict[str, Callable[[], Array]]:
        add, x, y, out = self.encoding.add, self.x, self.y, self.out
        return {
            "add": lambda: add(x, out=out),
            "add in place": lambda: add(y, out=y),
            "add scaled": lambda: add(x, scale=SCALE, out=out),
            "add packed": lambda: add(x, positions=self.positions, out=out),
        }

    def theirs(self) -> dict[str, Callable[[], Array]]:
        """The same from a table kept from before."""
        x, y, out, table = self.x, self.y, self.out, self.table
        scale = x.dtype.type(SCALE)
        return {
            "add": lambda: np.add(x, table, out=out),
            "add in place": lambda: np.add(y, table, out=y),
            "add scaled": lambda: np.add(x * scale, table, out=out),
            "add packed": lambda: np.add(x, table[self.positions], out=out),
        }


CALLS = ["add", "add in place", "add scaled", "add packed"]


@pytest.mark.parametrize(("shape", "dtype"), CASES)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("backend", BACKENDS)
def bench_add(
    benchmark: Any, monkeypatch: Any, backend: str, call: str, shape: tuple[int, ...], dtype: str
) -> None:
    work = Work(shape, dtype)
    if call != "add in place":
        agree_to_the_bit(monkeypatch, lambda: work.ours()[call]().copy())
        np.testing.assert_array_equal(work.ours()[call]().copy(), work.theirs()[call]())
    use(backend, monkeypatch)
    benchmark.group = group(call, shape, dtype)
    benchmark.name = f"posenc {backend}"
    benchmark(work.ours()[call])


@pytest.mark.parametrize(("shape", "dtype"), CASES)
@pytest.mark.parametrize("call", CALLS)
def bench_cached_table(benchmark: Any, call: str, shape: tuple[int, ...], dtype: str) -> None:
    benchmark.group = group(call, shape, dtype)
    benchmark.name = "cached table"
    benchmark(Work(shape, dtype).theirs()[call])


@pytest.mark.parametrize(("shape", "dtype"), CASES)
@pytest.mark.parametrize("call", CALLS)
def bench_floor(benchmark: Any, call: str, shape: tuple[int, ...], dtype: str) -> None:
    work = Work(shape, dtype)
    benchmark.group = group(call, shape, dtype)
    benchmark.name = "np.copyto"
    benchmark(np.copyto, work.out, work.x)
