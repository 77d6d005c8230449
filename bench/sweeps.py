"""What the address and the size of arrays do to a call, on every instruction set of this machine.

    python bench/sweeps.py FILE

writes a JSON file, of which pictures.py draws offsets.png and sizes.png. Calls are timed in turn,
and a ratio is the median over the rounds.
"""

import argparse
import contextlib
import functools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pytest
from common import COLUMNS, QUICK, flush, running_on, view
from groups import memset, packed
from rivals import Call

import posenc
from posenc import _backend

MEGABYTE = 1 << 20
D_MODEL, HEAD, WORDS = 512, 64, 32000
OFFSETS = (0, 16, 48, 64, 80, 128, 2048, 2112)  # modulo 4096
NUMPY = 16  # where NumPy's own large arrays begin, modulo 4096
SWEPT = 64 * MEGABYTE  # of output, in the sweep over offsets
SIZES = [MEGABYTE << power >> 2 for power in range(11)]
COLD = 64 * MEGABYTE  # larger outputs are in no cache anyway


class Work(NamedTuple):
    ours: Call
    floor: Call


class Sweeps:
    """Works of any size on the same memory, so that what they read and write begins where it must."""

    def __init__(self, size: int) -> None:
        self.x, self.out = (np.ones(size // 4 + 1024, np.float32).view(np.uint8) for _ in range(2))
        self.words = np.ones(WORDS * D_MODEL + 1024, np.float32).view(np.uint8)
        self.encoding, self.rotary = posenc.Sinusoidal(D_MODEL), posenc.Rotary(HEAD)

    def arrays(self, shape: tuple[int, ...], x_at: int, out_at: int) -> Any:
        return view(self.x, shape, "float32", x_at), view(self.out, shape, "float32", out_at)

    def fill(self, size: int, x_at: int, out_at: int) -> Work:
        _, out = self.arrays((size // (4 * D_MODEL), D_MODEL), x_at, out_at)
        return Work(lambda: self.encoding.fill(out), memset(out))

    def batch(self, size: int, x_at: int, out_at: int) -> Work:
        return self._add((8, size // (32 * D_MODEL), D_MODEL), x_at, out_at)

    def sequence(self, size: int, x_at: int, out_at: int) -> Work:
        return self._add((1, size // (4 * D_MODEL), D_MODEL), x_at, out_at)

    def _add(self, shape: tuple[int, ...], x_at: int, out_at: int) -> Work:
        x, out = self.arrays(shape, x_at, out_at)
        return Work(lambda: self.encoding.add(x, out=out), lambda: np.copyto(out, x))

    def packed(self, size: int, x_at: int, out_at: int) -> Work:
        shape = (8, size // (32 * D_MODEL), D_MODEL)
        x, out = self.arrays(shape, x_at, out_at)
        at, add = _packed(shape), self.encoding.add
        return Work(lambda: add(x, positions=at, out=out), lambda: np.copyto(out, x))

    def embed(self, size: int, x_at: int, out_at: int) -> Work:
        shape = (8, size // (32 * D_MODEL), D_MODEL)
        weight = view(self.words, (WORDS, D_MODEL), "float32", x_at)
        _, out = self.arrays(shape, x_at, out_at)
        ids, embed = _ids(shape[:2]), self.encoding.embed
        return Work(
            lambda: embed(ids, weight, out=out),
            lambda: np.take(weight, ids, axis=0, out=out, mode="clip"),
        )

    def rotate(self, size: int, x_at: int, out_at: int) -> Work:
        x, out = self.arrays((1, 16, size // (64 * HEAD), HEAD), x_at, out_at)
        return Work(lambda: self.rotary.rotate(x, out=out), lambda: np.copyto(out, x))


_packed = functools.cache(packed)


@functools.cache
def _ids(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(0).integers(0, WORDS, shape)


# By the words of the pictures.
CALLS: dict[str, Callable[[Sweeps, int, int, int], Work]] = {
    "fill": Sweeps.fill,
    "add, a batch": Sweeps.batch,
    "add, one sequence": Sweeps.sequence,
    "add, packed": Sweeps.packed,
    "embed": Sweeps.embed,
    "rotate": Sweeps.rotate,
}


def over_offsets(sweeps: Sweeps, offsets: Sequence[int], size: int) -> dict[str, Any]:
    """By instruction set and call: time over its floor's, by where x (rows) and out begin."""
    found: dict[str, Any] = {backend: {"at": offsets} for backend in COLUMNS}
    for name, make in CALLS.items():
        for backend in COLUMNS:
            found[backend][name] = []
        for x_at in offsets if name != "fill" else offsets[:1]:
            cells = [_beside_floor(make(sweeps, size, x_at, out_at)) for out_at in offsets]
            for backend in COLUMNS:
                found[backend][name].append([cell[backend] for cell in cells])
    return found


def _beside_floor(work: Work) -> dict[str, float]:
    ours_on = [functools.partial(_on, backend, work.ours) for backend in COLUMNS]
    floor, *ours = _seconds([work.floor, *ours_on], 3)
    return {backend: _ratio(of, floor) for backend, of in zip(COLUMNS, ours, strict=True)}


def _on(backend: str, call: Call) -> None:
    with running_on(backend):
        call()


def over_sizes(sweeps: Sweeps, sizes: list[int]) -> dict[str, Any]:
    """By instruction set and call: time streamed over time stored, in warm and in cold caches."""
    found: dict[str, Any] = {}
    for backend in COLUMNS:
        found[backend] = {"bytes": sizes}
        for name, make in CALLS.items():
            of_call: dict[str, list[float]] = {"warm": [], "cold": []}
            for size in sizes:
                work = make(sweeps, size, NUMPY, NUMPY)
                of_call["warm"].append(_streamed(backend, work.ours, None))
                if size <= COLD:
                    of_call["cold"].append(_streamed(backend, work.ours, flush))
            found[backend][name] = of_call
    return found


def _streamed(backend: str, call: Call, before: Call | None) -> float:
    calls = [functools.partial(_stored, backend, stream, call) for stream in (True, False)]
    return _ratio(*_seconds(calls, 5 if before else None, before))


def _stored(backend: str, stream: bool, call: Call) -> None:
    with _storing(backend, stream):
        call()


@contextlib.contextmanager
def _storing(backend: str, stream: bool) -> Iterator[None]:
    """Let the kernels store past the caches, or not, whatever the call asks for."""
    with running_on(backend) as kernels, pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(_backend, "kernels", _Told(kernels, stream))
        yield


class _Told:
    """Kernels that are told how to store. Those that would decide it themselves decline."""

    def __init__(self, kernels: Any, stream: bool) -> None:
        self._kernels, self._stream = kernels, stream

    def __getattr__(self, name: str) -> Any:
        kernel = getattr(self._kernels, name)
        if name.startswith("try_"):
            return lambda *_: None
        if name not in ("fill", "add", "rotate"):
            return kernel
        return lambda *arguments: kernel(*arguments[:-3], self._stream, *arguments[-2:])


def _seconds(
    calls: Sequence[Call], rounds: int | None, before: Call | None = None
) -> list[list[float]]:
    """Seconds of each call in every round, by default of as many as take a fortieth of a second."""
    if rounds is None:
        began = time.perf_counter()
        for call in calls:
            call()
        rounds = min(max(5, int(0.025 / (time.perf_counter() - began))), 100)
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, seconds in zip(calls, found, strict=True):
            if before:
                before()
            began = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - began)
    return found


def _ratio(over: list[float], under: list[float]) -> float:
    return round(median(a / b for a, b in zip(over, under, strict=True)), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    file: Path = parser.parse_args().file
    offsets, sizes = (OFFSETS[:2], SIZES[:2]) if QUICK else (OFFSETS, SIZES)
    swept = SIZES[0] if QUICK else SWEPT
    sweeps = Sweeps(max(*sizes, swept))
    by_offset, by_size = over_offsets(sweeps, offsets, swept), over_sizes(sweeps, sizes)
    found = {b: {"offsets": by_offset[b], "sizes": by_size[b]} for b in COLUMNS}
    file.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
