"""Tables: `fill` of a ready array and `positional_encoding`, from one token to 134 MB."""

from typing import Any

import numpy as np
import pytest
from rivals import BACKENDS, RIVALS, Rival, agree_to_the_bit, aligned, group, use

import posenc

SHAPES = {
    "float32": [(1, 512), (64, 256), (512, 512), (2048, 1024), (32768, 1024)],
    "float64": [(1, 512), (64, 256), (512, 512), (2048, 1024), (16384, 1024)],
}
CASES = [
    pytest.param(shape, dtype, id=f"{shape[0]}x{shape[1]}-{dtype}")
    for dtype, shapes in SHAPES.items()
    for shape in shapes
]


@pytest.mark.parametrize(("shape", "dtype"), CASES)
@pytest.mark.parametrize("backend", BACKENDS)
def bench_fill(
    benchmark: Any, monkeypatch: Any, backend: str, shape: tuple[int, int], dtype: str
) -> None:
    out = aligned(shape, dtype)
    agree_to_the_bit(monkeypatch, lambda: posenc.fill(out[:3000]).copy())
    use(backend, monkeypatch)
    benchmark.group = group("fill", shape, dtype)
    benchmark.name = f"posenc {backend}"
    benchmark(posenc.fill, out)


@pytest.mark.parametrize(("shape", "dtype"), CASES)
def bench_floor(benchmark: Any, shape: tuple[int, int], dtype: str) -> None:
    out = aligned(shape, dtype)
    benchmark.group = group("fill", shape, dtype)
    benchmark.name = "out.fill"
    benchmark(out.fill, 1.5)


@pytest.mark.parametrize(("shape", "dtype"), CASES)
@pytest.mark.parametrize("rival", RIVALS, ids=lambda r: r.name.replace(" ", "-"))
def bench_rival(benchmark: Any, rival: Rival, shape: tuple[int, int], dtype: str) -> None:
    if dtype not in rival.dtypes:
        pytest.skip(f"{rival.name} has no {dtype}")
    out = aligned(shape, dtype)
    work = rival.prepare(out)
    work()
    error = float(np.abs(out - posenc.positional_encoding(*shape)).max())
    assert error <= rival.error(shape[0])
    benchmark.extra_info["error"] = error
    benchmark.group = group("fill", shape, dtype)
    benchmark.name = rival.name
    benchmark(work)


@pytest.mark.parametrize(("shape", "dtype"), CASES)
@pytest.mark.parametrize("backend", BACKENDS)
def bench_positional_encoding(
    benchmark: Any, monkeypatch: Any, backend: str, shape: tuple[int, int], dtype: str
) -> None:
    agree_to_the_bit(
        monkeypatch, lambda: posenc.positional_encoding(min(shape[0], 3000), shape[1], dtype=dtype)
    )
    use(backend, monkeypatch)
    benchmark.group = group("positional_encoding", shape, dtype)
    benchmark.name = f"posenc {backend}"
    benchmark(posenc.positional_encoding, *shape, dtype=dtype)


@pytest.mark.parametrize(("shape", "dtype"), CASES)
def bench_formula(benchmark: Any, shape: tuple[int, int], dtype: str) -> None:
    numpy_float64 = RIVALS[0]
    benchmark.group = group("positional_encoding", shape, dtype)
    benchmark.name = numpy_float64.name
    benchmark(lambda: numpy_float64.prepare(np.empty(shape, dtype))())
