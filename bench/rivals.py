"""What a user would write instead of posenc, and how far each is known to be off.

A rival fills a given array with the encodings of positions 0, 1, 2, ... in the paper's convention.
"""

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from posenc import _arrays, _backend

Array = npt.NDArray[Any]


class Rival(NamedTuple):
    """`prepare(out)` gives the call to time; its entries are off by at most `error(length)`."""

    name: str
    prepare: Callable[[Array], Callable[[], object]]
    error: Callable[[int], float]
    dtypes: tuple[str, ...] = ("float32", "float64")


def group(call: str, shape: tuple[int, ...], dtype: str) -> str:
    """The name of what is compared: report.py reads it."""
    return f"{call} {shape} {dtype}"


def aligned(shape: tuple[int, ...], dtype: str) -> Array:
    """Memory like that of the library's own results, its pages already there."""
    array = _arrays.empty(shape, np.dtype(dtype))
    array[...] = 1
    return array


def numpy_float64(out: Array) -> Callable[[], object]:
    length, d_model = out.shape

    def work() -> None:
        angles = np.arange(length)[:, np.newaxis] / 10000 ** (np.arange(0, d_model, 2) / d_model)
        out[:, 0::2] = np.sin(angles)
        out[:, 1::2] = np.cos(angles)

    return work


def numpy_float32(out: Array) -> Callable[[], object]:
    length, d_model = out.shape

    def work() -> None:
        exponents = np.arange(0, d_model, 2, dtype=np.float32) / np.float32(d_model)
        positions = np.arange(length, dtype=np.float32)[:, np.newaxis]
        angles = positions * np.float32(10000) ** -exponents
        np.sin(angles, out=out[:, 0::2])
        np.cos(angles, out=out[:, 1::2])

    return work


def torch_tutorial(out: Array) -> Callable[[], object]:
    """pytorch.org's "Language Modeling with nn.Transformer" tutorial."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    length, d_model = out.shape
    table = torch.from_numpy(out)

    def work() -> None:
        position = torch.arange(length).unsqueeze(1)
        step = -np.log(10000.0) / d_model
        div_term = torch.exp(torch.arange(0, d_model, 2) * step)
        table[:, 0::2] = torch.sin(position * div_term)
        table[:, 1::2] = torch.cos(position * div_term)

    return work


def numba_loop(out: Array) -> Callable[[], object]:
    numba = importlib.import_module("numba")

    def loop(out: Array, frequencies: Array) -> None:
        for p in range(out.shape[0]):
            for i in range(len(frequencies)):
                angle = p * frequencies[i]
                out[p, 2 * i] = np.sin(angle)
                out[p, 2 * i + 1] = np.cos(angle)

    d_model = out.shape[1]
    compiled = numba.njit(fastmath=True)(loop)

    def work() -> None:
        compiled(out, 10000.0 ** (-np.arange(0, d_model, 2) / d_model))

    return work


def jax_numpy(out: Array) -> Callable[[], object]:
    """A jitted formula; its result stays in JAX's own memory, so `out` gets it once."""
    jax = importlib.import_module("jax")
    jnp = jax.numpy
    length, d_model = out.shape

    def formula() -> Any:
        frequencies = 10000.0 ** (-jnp.arange(0, d_model, 2) / d_model)
        angles = jnp.arange(length)[:, None] * frequencies
        return jnp.stack([jnp.sin(angles), jnp.cos(angles)], -1).reshape(length, d_model)

    make = jax.jit(formula)
    out[...] = make()
    return lambda: make().block_until_ready()


def _angles_in_float64(length: int) -> float:
    return 6e-8 + 1e-15 * length


def _angles_in_float32(length: int) -> float:
    return 1e-7 + 5e-7 * length


RIVALS = [
    Rival("NumPy float64", numpy_float64, _angles_in_float64),
    Rival("NumPy float32", numpy_float32, _angles_in_float32, ("float32",)),
]
if importlib.util.find_spec("torch"):
    RIVALS.append(Rival("torch tutorial", torch_tutorial, _angles_in_float32, ("float32",)))
if importlib.util.find_spec("numba"):
    RIVALS.append(Rival("numba", numba_loop, _angles_in_float64))
if importlib.util.find_spec("jax"):
    RIVALS.append(Rival("JAX", jax_numpy, _angles_in_float32, ("float32",)))

BACKENDS = _backend.available()


def use(backend: str, monkeypatch: Any) -> None:
    """Let posenc run on this backend until the test ends."""
    module = importlib.import_module(f"posenc.{_backend._MODULES[backend]}")
    monkeypatch.setattr(_backend, "kernels", module)


def agree_to_the_bit(monkeypatch: Any, make: Callable[[], Array]) -> None:
    """Every backend makes the same array."""
    made = []
    for backend in BACKENDS:
        use(backend, monkeypatch)
        made.append(make())
    for other in made[1:]:
        np.testing.assert_array_equal(made[0], other)
