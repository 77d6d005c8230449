"""Non-temporal stores: the bits of ordinary ones, at every address, and nothing else is written.

They stand for a kind of fault that arrays of our own making never show: rows that begin within a
cache line, whose ends share it with other rows, and inputs that lie a little behind the output
modulo 4096 bytes, for which there is another way through the kernels.
"""

import functools
import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import posenc
from posenc import _backend

Array = npt.NDArray[Any]

UNTOUCHED = 0xA5
WIDTHS = [2, 14, 64, 66, 126, 128, 256, 300, 510, 512, 1000, 1022, 1024]
DTYPES = [np.dtype(t) for t in (np.float32, np.float64, np.float16, np.uint16)]
# Offsets of a float64 array modulo 4096 bytes: on a cache line, as NumPy's arrays, and elsewhere.
OFFSETS = [0, 8, 16, 48, 64, 80, 2112]
# How far x lies behind the output modulo 4096 bytes.
LAGS = [0, 8, 48, 128, 1024, -16]


def place(shape: tuple[int, ...], dtype: np.dtype[Any], offset: int) -> tuple[Array, Array]:
    """An array at an offset modulo 4096 bytes, and all of the memory around it."""
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.full(size + 2 * 4096, UNTOUCHED, np.uint8)
    first = (offset - memory.ctypes.data) % 4096
    return memory[first : first + size].view(dtype).reshape(shape), memory


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    drawn = rng.standard_normal(shape, np.float32)
    bits = (drawn.view(np.uint32) >> 16).astype(np.uint16)
    return bits if dtype == np.uint16 else drawn.astype(dtype)


def positions_of(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Array | None:
    rows = np.arange(np.prod(shape)).reshape(shape)
    return {
        "from a start": None,
        "packed": (rows % 37).astype(np.float64),
        "around 0": (rows % 140 - 70).astype(np.float64),
        "far apart": rng.integers(-(2**40), 2**40, shape).astype(np.float64),
        "fractional": rng.uniform(0, 1000, shape).round(2),
    }[kind]


def kernel_call(
    kernel: Any, arguments: list[Any], stream: bool, first: int, stop: int, out: Array
) -> None:
    kernel(out, *arguments, stream, first, stop)


def written(call: Any, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int) -> bytes:
    """What ``call(out)`` writes to an array at that offset, and it writes nothing around it."""
    out, memory = place(shape, dtype, offset)
    call(out)
    first = out.ctypes.data - memory.ctypes.data
    assert (memory[:first] == UNTOUCHED).all()
    assert (memory[first + out.nbytes :] == UNTOUCHED).all()
    return out.tobytes()


KINDS = ["from a start", "packed", "around 0", "far apart", "fractional"]


@pytest.mark.parametrize("layout", ["interleaved", "split"])
@pytest.mark.parametrize("width", WIDTHS)
def test_streamed_rows_have_the_bits_of_stored_ones_at_every_address(
    backend: str, width: int, layout: Any
) -> None:
    if backend == "numpy":
        pytest.skip("NumPy has no non-temporal stores")
    rng = np.random.default_rng([width, len(layout)])
    plan = posenc.Sinusoidal(width, layout=layout)._source.plan
    kernels: Any = _backend.kernels
    for kind, dtype in itertools.product(KINDS, DTYPES):
        offset = int(rng.choice(OFFSETS))
        shape = (int(rng.integers(1, 4)), int(rng.integers(1, 100)), width)
        start = 0.0 if kind != "from a start" else float(rng.choice([0, -70, 1000, 2**33]))
        positions = positions_of(rng, kind, shape[:-1])
        first, stop = sorted(rng.integers(0, shape[0] * shape[1] + 1, 2).tolist())
        x, _ = place(shape, dtype, offset - int(rng.choice(LAGS)))
        x[...] = values(rng, shape, dtype)
        table, _ = place((50, width), dtype, int(rng.choice(OFFSETS)))
        table[...] = values(rng, table.shape, dtype)
        ids = rng.integers(0, 50, shape[:-1])
        mask = rng.random(shape[:-1]) < 0.7
        indices = rng.integers(0, 50, shape[:-1])
        where = (start, positions)
        for kernel, *arguments in (
            (kernels.fill, *where, plan),
            (kernels.add, x, None, *where, None, plan, 1.5),
            (kernels.add, x, None, *where, mask, plan, 1.5),
            (kernels.add, table, ids, *where, None, plan, 1.5),
            (kernels.gather_add, x, None, 0.0, indices, mask, table, 1.5),
        ):
            ends = []
            for stream in (True, False):
                call = functools.partial(kernel_call, kernel, arguments, stream, first, stop)
                ends.append(written(call, shape, dtype, offset))
            assert ends[0] == ends[1], (kernel, kind, dtype, offset, shape, first, stop)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["interleaved", "split"])
def test_batch_entries_that_lie_apart_by_any_number_of_elements_are_streamed(
    backend: str, layout: Any, dtype: Any
) -> None:
    """Rows may begin on a cache line in one entry and within a pair of columns in the next."""
    encoding = posenc.Sinusoidal(1024, layout=layout)
    positions = np.random.default_rng(0).integers(0, 10**6, (2, 70)).astype(np.float64)
    kernels: Any = _backend.kernels
    room = np.zeros((70, 2, 1025), dtype)
    out = room[:, :, :1024].transpose(1, 0, 2)
    kernels.fill(out, 0.0, positions, encoding._source.plan, True, 0, 140)
    np.testing.assert_array_equal(out, encoding.encode(positions, dtype=dtype))
    assert not room[:, :, 1024].any()
