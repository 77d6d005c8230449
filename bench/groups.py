"""What is timed: calls of posenc, each beside what a user would write instead on the same arrays.

The name of a group begins with the call that is timed: `posenc.add` is the function, `Sinusoidal(d).add`
the method of an object that was made beforehand, whose d is the last number of the shape.
"""

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from rivals import (
    FORMULAS,
    INSTALLED,
    Array,
    Call,
    Formula,
    mlx_rotary,
    onnx_rotary,
    single_threaded_torch,
)

import posenc
from posenc import _arrays, _formats

SCALE = 32.0
TOKEN = 77  # position of the one token that is added alone


class Rival(NamedTuple):
    """A call whose result is within `error` of posenc's; a floor, which does less, has `inf`."""

    call: Call
    error: float = 0.0


class Work(NamedTuple):
    """A call of posenc and its rivals; `reset` before each where they change what they read."""

    ours: Call
    rivals: dict[str, Rival]
    reset: Call = lambda: None


class Group(NamedTuple):
    """One call on one shape: `make` gives its work, as the arrays of all would not fit in memory."""

    section: str
    name: str
    make: Callable[[], Work]
    rivals: tuple[str, ...]
    cold: bool


def aligned(shape: tuple[int, ...], dtype: str) -> Array:
    """Memory like that of the library's own results, its pages already there."""
    array = _arrays.empty(shape, _formats.float_dtype(dtype))
    array[...] = 1
    return array


def fill(call: str, shape: tuple[int, int], dtype: str) -> Work:
    out = aligned(shape, dtype)
    prepared = posenc.Sinusoidal(shape[1])
    ours: Call = {
        "posenc.fill": lambda: posenc.fill(out),
        "posenc.fill, workers=2": lambda: posenc.fill(out, workers=2),
        "Sinusoidal(d).fill": lambda: prepared.fill(out),
    }[call]
    rivals = {
        "memset": Rival(memset(out), math.inf),
        "one worker": Rival(lambda: posenc.fill(out)),
    }
    return Work(ours, rivals | formulas(out, np.arange(shape[0])))


def memset(*arrays: Array) -> Call:
    """The C library's, which is as fast as memory can be written."""
    blocks = [(array.ctypes.data, array.nbytes) for array in arrays]

    def call() -> None:
        for address, size in blocks:
            ctypes.memset(address, 63, size)

    return call


def new_table(shape: tuple[int, int], dtype: str) -> Work:
    length, d_model = shape

    def rival(formula: Formula) -> Rival:
        return Rival(
            lambda: formula.prepare(np.empty(shape, dtype), np.arange(length))(),
            formula.error(length),
        )

    return Work(
        lambda: posenc.positional_encoding(length, d_model, dtype=dtype),
        {name: rival(formula) for name, formula in FORMULAS.items()},
    )


def encode(first: float, shape: tuple[int, int], dtype: str) -> Work:
    """Fractional positions, spread over 1e5 from the first on."""
    length, d_model = shape
    out = aligned(shape, dtype)
    positions = np.random.default_rng(0).uniform(first, first + 1e5, length)
    encode = posenc.Sinusoidal(d_model).encode
    return Work(lambda: encode(positions, out=out), formulas(out, positions))


def formulas(out: Array, positions: Array) -> dict[str, Rival]:
    largest = float(positions.max())
    return {
        name: Rival(formula.prepare(out, positions), formula.error(largest))
        for name, formula in FORMULAS.items()
    }


def add(call: str, how: str, shape: tuple[int, ...], dtype: str) -> Work:
    """`how` says what is added: nothing more, or one of the words below."""
    length, d_model = shape[-2:]
    start = TOKEN if length == 1 else 0
    at = POSITIONS[how](shape) if how in POSITIONS else None
    if at is None:
        table = posenc.positional_encoding(length, d_model, start=start, dtype=dtype)
    else:
        table = posenc.positional_encoding(int(at.max()) + 1, d_model, dtype=dtype)
    x, y, out = (aligned(shape, dtype) for _ in range(3))
    x[...] = np.random.default_rng(1).standard_normal(d_model)
    scale = np.dtype(dtype).type(SCALE)
    add: Callable[..., Array] = {
        "posenc.add": posenc.add,
        "Sinusoidal(d).add": posenc.Sinusoidal(d_model).add,
    }[call]
    by_positions: tuple[Call, Call] = (
        lambda: add(x, positions=at, out=out),
        lambda: np.add(x, table[at], out=out),
    )
    ours, kept = {
        "": (lambda: add(x, start=start, out=out), lambda: np.add(x, table, out=out)),
        "new array": (lambda: add(x, start=start), lambda: x + table),
        "in place": (lambda: add(y, start=start, out=y), lambda: np.add(y, table, out=y)),
        "scaled": (
            lambda: add(x, start=start, scale=SCALE, out=out),
            lambda: np.add(x * scale, table, out=out),
        ),
        "packed positions": by_positions,
        "random positions": by_positions,
    }[how]
    rivals = {
        "np.copyto": Rival(lambda: np.copyto(out, x), math.inf),
        "kept table": Rival(kept),
    }
    if "torch" in INSTALLED:
        rivals["torch"] = torch_add(how, x, y, out, table, at)
    return Work(ours, rivals, lambda: np.copyto(y, x))


def torch_add(how: str, x: Array, y: Array, out: Array, table: Array, at: Array | None) -> Rival:
    """The kept table again."""
    torch = single_threaded_torch()
    tx, ty, to, tt = (torch.from_numpy(array) for array in (x, y, out, table))
    if at is not None:
        indices = torch.from_numpy(at)
        return Rival(lambda: torch.add(tx, tt[indices], out=to))
    return {
        "": Rival(lambda: torch.add(tx, tt, out=to)),
        "new array": Rival(lambda: tx + tt),
        "in place": Rival(lambda: ty.add_(tt)),
        "scaled": Rival(lambda: torch.add(tt, tx, alpha=SCALE, out=to), 1e-4),  # one rounding
    }[how]


def embed(shape: tuple[int, ...], dtype: str) -> Work:
    """Token ids of a vocabulary of 32000."""
    length, d_model = shape[-2:]
    rng = np.random.default_rng(0)
    weight = aligned((32000, d_model), dtype)
    weight[...] = rng.standard_normal(weight.shape)
    ids = rng.integers(0, len(weight), shape[:-1])
    out, scale = aligned(shape, dtype), np.dtype(dtype).type(SCALE)
    table = posenc.positional_encoding(length, d_model, dtype=dtype)
    embed = posenc.Sinusoidal(d_model).embed
    rivals = {
        "np.take": Rival(lambda: np.take(weight, ids, axis=0, out=out, mode="clip"), math.inf),
        "kept table": Rival(lambda: np.add(weight[ids] * scale, table, out=out)),
    }
    return Work(lambda: embed(ids, weight, scale=SCALE, out=out), rivals)


def add_16_bits(shape: tuple[int, ...], dtype: str) -> Work:
    x, out = (aligned(shape, dtype) for _ in range(2))
    x[...] = np.random.default_rng(1).standard_normal(shape[-1])
    bits, copied = x.view(np.uint16), out.view(np.uint16)  # memory is copied, whatever it holds
    add = posenc.Sinusoidal(shape[-1]).add
    floor = {"np.copyto": Rival(lambda: np.copyto(copied, bits), math.inf)}
    return Work(lambda: add(x, out=out), floor)


def rotate(layout: str, shape: tuple[int, ...], dtype: str) -> Work:
    """Queries or keys, beside NumPy and compiled rotations with tables kept from before."""
    length, dim = shape[-2:]
    x, out = (aligned(shape, dtype) for _ in range(2))
    x[...] = np.random.default_rng(1).standard_normal(dim)
    rotary = posenc.Rotary(dim, layout=layout)  # type: ignore[arg-type]
    cos, sin = rotary.tables(length, dtype=dtype)
    first, second = (
        (np.s_[..., 0::2], np.s_[..., 1::2])
        if layout == "interleaved"
        else (np.s_[..., : dim // 2], np.s_[..., dim // 2 :])
    )

    def in_numpy() -> Array:
        a, b = x[first], x[second]
        out[first] = a * cos[first] - b * sin[first]
        out[second] = b * cos[first] + a * sin[first]
        return out

    rivals = {
        "np.copyto": Rival(lambda: np.copyto(out, x), math.inf),
        "NumPy, tables ready": Rival(in_numpy),
    }
    paired = layout == "interleaved"
    if "onnxruntime" in INSTALLED:
        rivals["onnxruntime"] = Rival(onnx_rotary(x, cos[first], sin[first], paired), 1e-5)
    if "mlx" in INSTALLED:
        rivals["MLX"] = Rival(mlx_rotary(x, paired), math.inf)  # its angles are float32
    return Work(lambda: rotary.rotate(x, out=out), rivals)


def rotary_tables(shape: tuple[int, int], dtype: str) -> Work:
    length, dim = shape
    cos, sin = (aligned(shape, dtype) for _ in range(2))
    ours = partial(posenc.Rotary(dim).tables, length, out=(cos, sin))
    return Work(lambda: ours()[0], {"memset": Rival(memset(cos, sin), math.inf)})


def packed(shape: tuple[int, ...]) -> Array:
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


def scattered(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(0).integers(0, 131072, shape[:2])


POSITIONS = {"packed positions": packed, "random positions": scattered}


def group(
    section: str,
    call: str,
    make: Callable[[Any, str], Work],
    rivals: Sequence[str],
    shape: tuple[int, ...],
    dtype: str = "float32",
    cold: bool = False,
) -> Group:
    name = f"{call} {shape} {dtype}" + (", cold" if cold else "")
    able = tuple(r for r in rivals if r not in FORMULAS or dtype in FORMULAS[r].dtypes)
    return Group(section, name, partial(make, shape, dtype), able, cold)


def tables() -> Iterator[Group]:
    rivals = ["memset", *FORMULAS]
    of = partial(group, "Tables", "posenc.fill", partial(fill, "posenc.fill"), rivals)
    for shape in (1, 512), (64, 256), (512, 512), (2048, 1024), (8192, 1024), (32768, 1024):
        yield of(shape)
    for shape in (512, 512), (2048, 1024):
        yield of(shape, cold=True)
    for shape in (1, 512), (64, 256), (512, 512), (2048, 1024), (16384, 1024):
        yield of(shape, "float64")
    prepared = "Sinusoidal(d).fill"
    yield group("Tables", prepared, partial(fill, prepared), rivals, (1, 512))
    numpys = ["NumPy float32", "NumPy float64"]
    for dtype in "float32", "float64":
        for shape in (1, 512), (512, 512), (2048, 1024):
            yield group("New tables", "posenc.positional_encoding", new_table, numpys, shape, dtype)
    by_two = "posenc.fill, workers=2"
    yield group("Threads", by_two, partial(fill, by_two), ["one worker"], (32768, 1024))


def encodings() -> Iterator[Group]:
    shape = (8192, 512)
    for how, first in {"fractional": 0.0, "fractional from 1e9": 1e9}.items():
        # Far off, angles in float32 mean nothing.
        rivals = ["NumPy float64"] if first else list(FORMULAS)
        call = f"Sinusoidal(d).encode {how}"
        yield group("Encodings", call, partial(encode, first), rivals, shape)


class Additions(NamedTuple):
    """One way to add, and the shapes in float32; float64 is timed in two of them."""

    how: str
    shapes: list[tuple[int, ...]]
    call: str = "Sinusoidal(d).add"
    cold: Sequence[tuple[int, ...]] = ()
    float64: bool = False


TOKEN_SHAPE, SMALL, BATCH, LONG = (1, 1, 512), (32, 64, 256), (8, 2048, 1024), (1, 32768, 1024)
ADDITIONS = [
    Additions(
        how="",
        shapes=[TOKEN_SHAPE, (4, 64, 256), SMALL, (8, 512, 512), BATCH, LONG],
        cold=[TOKEN_SHAPE, SMALL],
        float64=True,
    ),
    Additions(how="", shapes=[TOKEN_SHAPE], call="posenc.add"),
    Additions(how="new array", shapes=[BATCH]),
    Additions(how="in place", shapes=[TOKEN_SHAPE, SMALL, BATCH, LONG], float64=True),
    Additions(how="scaled", shapes=[TOKEN_SHAPE, SMALL, BATCH, LONG]),
    Additions(how="packed positions", shapes=[SMALL, BATCH, LONG], cold=[SMALL], float64=True),
    Additions(how="random positions", shapes=[BATCH]),
]


def additions() -> Iterator[Group]:
    rivals = ["np.copyto", "kept table", *(["torch"] if "torch" in INSTALLED else [])]
    for line in ADDITIONS:
        name = f"{line.call} {line.how}".strip()
        of = partial(group, "Additions", name, partial(add, line.call, line.how), rivals)
        for shape in line.shapes:
            yield of(shape)
        for shape in line.cold:
            yield of(shape, cold=True)
        if line.float64:
            yield of(SMALL, "float64")
            yield of(BATCH, "float64")


def pipelines() -> Iterator[Group]:
    shape = (16, 1024, 512)
    yield group("Token ids", "Sinusoidal(d).embed", embed, ["np.take", "kept table"], shape)
    for dtype in "float16", "bfloat16":
        yield group("16 bits", "Sinusoidal(d).add", add_16_bits, ["np.copyto"], shape, dtype)


def rotations() -> Iterator[Group]:
    names = {"onnxruntime": "onnxruntime", "mlx": "MLX"}
    rivals = ["np.copyto", "NumPy, tables ready", *(names[n] for n in names if n in INSTALLED)]
    for layout in "half", "interleaved":
        for shape in (1, 32, 1, 128), (4, 16, 1024, 64):
            call = f"Rotary(d).rotate {layout}"
            yield group("Rotary", call, partial(rotate, layout), rivals, shape)
    yield group("Rotary", "Rotary(d).tables", rotary_tables, ["memset"], (16384, 128))


GROUPS = [*tables(), *encodings(), *additions(), *pipelines(), *rotations()]
