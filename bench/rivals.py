"""What a user would write instead of posenc, on one thread, and how far each is known to be off."""

import importlib
import importlib.util
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from common import Array

Call = Callable[[], Any]


class Formula(NamedTuple):
    """The paper's formula, written out in a library.

    `prepare(out, positions)` gives the call to time. It fills `out` and returns it, and its entries
    are off by at most `error(largest position)`.
    """

    prepare: Callable[[Array, Array], Call]
    error: Callable[[float], float]
    dtypes: tuple[str, ...]


def numpy_float64(out: Array, positions: Array) -> Call:
    d_model = out.shape[1]

    def call() -> Array:
        angles = positions[:, np.newaxis] / 10000 ** (np.arange(0, d_model, 2) / d_model)
        out[:, 0::2] = np.sin(angles)
        out[:, 1::2] = np.cos(angles)
        return out

    return call


def numpy_float32(out: Array, positions: Array) -> Call:
    d_model = out.shape[1]

    def call() -> Array:
        exponents = np.arange(0, d_model, 2, dtype=np.float32) / np.float32(d_model)
        column = positions.astype(np.float32)[:, np.newaxis]
        angles = column * np.float32(10000) ** -exponents
        np.sin(angles, out=out[:, 0::2])
        np.cos(angles, out=out[:, 1::2])
        return out

    return call


def torch_calls(name: str, *arguments: Any) -> dict[str, Call]:
    """A function of torch_rivals.py, as it stands and compiled: none where torch is missing."""
    if "torch" not in INSTALLED:
        return {}
    calls: dict[str, Call] = importlib.import_module("torch_rivals").calls(name, *arguments)
    return calls


def torch_formula(row: str) -> Callable[[Array, Array], Call]:
    return lambda out, positions: torch_calls("formula", positions.astype(np.float32), out)[row]


def numba_loop(out: Array, positions: Array) -> Call:
    numba = importlib.import_module("numba")

    def loop(out: Array, positions: Array, frequencies: Array) -> None:
        for p in range(len(positions)):
            for i in range(len(frequencies)):
                angle = positions[p] * frequencies[i]
                out[p, 2 * i] = np.sin(angle)
                out[p, 2 * i + 1] = np.cos(angle)

    d_model = out.shape[1]
    compiled = numba.njit(fastmath=True)(loop)

    def call() -> Array:
        compiled(out, positions, 10000.0 ** (-np.arange(0, d_model, 2) / d_model))
        return out

    return call


def jax_numpy(out: Array, positions: Array) -> Call:
    """A jitted formula; its result stays in JAX's own memory."""
    os.environ["NPROC"] = "1"  # the threads that XLA starts at its import; its flags leave four
    jax = importlib.import_module("jax")
    jnp = jax.numpy
    length, d_model = out.shape
    given = jnp.asarray(positions.astype(np.float32))

    def formula(position: Any) -> Any:
        frequencies = 10000.0 ** (-jnp.arange(0, d_model, 2) / d_model)
        angles = position[:, None] * frequencies
        return jnp.stack([jnp.sin(angles), jnp.cos(angles)], -1).reshape(length, d_model)

    compiled = jax.jit(formula)
    return lambda: compiled(given).block_until_ready()


def onnx_rotary(x: Array, cos: Array, sin: Array, interleaved: bool) -> Call:
    """The operator RotaryEmbedding of ONNX in onnxruntime, its caches ready."""
    onnx, runtime = importlib.import_module("onnx"), importlib.import_module("onnxruntime")
    make, single, integer = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    names = ["x", "cos", "sin", "at"]
    node = make.make_node("RotaryEmbedding", names, ["y"], interleaved=int(interleaved))
    inputs = [
        make.make_tensor_value_info(name, integer if name == "at" else single, None)
        for name in names
    ]
    result = make.make_tensor_value_info("y", single, None)
    graph = make.make_graph([node], "rotary", inputs, [result])
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 23)], ir_version=10)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(model.SerializeToString(), options)
    at = np.tile(np.arange(x.shape[-2]), (x.shape[0], 1))
    caches = {"cos": np.ascontiguousarray(cos), "sin": np.ascontiguousarray(sin)}
    return lambda: session.run(None, {"x": x, "at": at, **caches})[0]


def mlx_rotary(x: Array, interleaved: bool) -> Call:
    """MLX's fused rotation; input and result stay in its own memory."""
    mx = importlib.import_module("mlx.core")
    given = mx.array(x)

    def call() -> Any:
        options = {"base": 10000.0, "scale": 1.0, "offset": 0}
        result = mx.fast.rope(given, x.shape[-1], traditional=interleaved, **options)
        mx.eval(result)
        return result

    return call


def angles_in_float64(largest: float) -> float:
    return 6e-8 + 1e-15 * largest


def angles_in_float32(largest: float) -> float:
    return 1e-7 + 5e-7 * largest


TORCH = ("torch", "torch.compile")
OPTIONAL = ("torch", "numba", "jax", "onnxruntime", "mlx")
INSTALLED = [name for name in OPTIONAL if importlib.util.find_spec(name)]

_ALL = {
    "NumPy float32": Formula(numpy_float32, angles_in_float32, ("float32",)),
    "NumPy float64": Formula(numpy_float64, angles_in_float64, ("float32", "float64")),
    "torch": Formula(torch_formula("torch"), angles_in_float32, ("float32",)),
    "torch.compile": Formula(torch_formula("torch.compile"), angles_in_float32, ("float32",)),
    "numba": Formula(numba_loop, angles_in_float64, ("float32", "float64")),
    "JAX": Formula(jax_numpy, angles_in_float32, ("float32",)),
}
FORMULAS = {
    name: formula
    for name, formula in _ALL.items()
    if name.startswith("NumPy") or name.lower().removesuffix(".compile") in INSTALLED
}
