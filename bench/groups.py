"""What is timed: calls of posenc, each beside what a user would write instead on the same arrays."""

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
from posenc import _arrays

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
    array = _arrays.empty(shape, _arrays.float_dtype(dtype))
    array[...] = 1
    return array


def fill(shape: tuple[int, int], dtype: str) -> Work:
    out = aligned(shape, dtype)
    rivals = {
        "out.fill": Rival(lambda: out.fill(1.5), math.inf),
        "one worker": Rival(lambda: posenc.fill(out)),
    }
    return Work(lambda: posenc.fill(out), rivals | formulas(out, np.arange(shape[0])))


def fill_by_two(shape: tuple[int, int], dtype: str) -> Work:
    work = fill(shape, dtype)
    out = work.ours()
    return work._replace(ours=lambda: posenc.fill(out, workers=2))


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


def add(call: str, shape: tuple[int, ...], dtype: str) -> Work:
    length, d_model = shape[-2:]
    start = TOKEN if length == 1 else 0
    at = POSITIONS[call](shape) if call in POSITIONS else None
    if at is None:
        table = posenc.positional_encoding(length, d_model, start=start, dtype=dtype)
    else:
        table = posenc.positional_encoding(int(at.max()) + 1, d_model, dtype=dtype)
    x, y, out = (aligned(shape, dtype) for _ in range(3))
    x[...] = np.random.default_rng(1).standard_normal(d_model)
    scale = np.dtype(dtype).type(SCALE)
    add = posenc.Sinusoidal(d_model).add
    by_positions: tuple[Call, Call] = (
        lambda: add(x, positions=at, out=out),
        lambda: np.add(x, table[at], out=out),
    )
    ours, cached = {
        "add": (lambda: add(x, start=start, out=out), lambda: np.add(x, table, out=out)),
        "add, new": (lambda: add(x, start=start), lambda: x + table),
        "add in place": (lambda: add(y, start=start, out=y), lambda: np.add(y, table, out=y)),
        "add scaled": (
            lambda: add(x, start=start, scale=SCALE, out=out),
            lambda: np.add(x * scale, table, out=out),
        ),
        "add packed": by_positions,
        "add random": by_positions,
    }[call]
    rivals = {
        "np.copyto": Rival(lambda: np.copyto(out, x), math.inf),
        "cached table": Rival(cached),
    }
    if "torch" in INSTALLED:
        rivals["torch"] = torch_add(call, x, y, out, table, at)
    return Work(ours, rivals, lambda: np.copyto(y, x))


def torch_add(call: str, x: Array, y: Array, out: Array, table: Array, at: Array | None) -> Rival:
    """The cached table again."""
    torch = single_threaded_torch()
    tx, ty, to, tt = (torch.from_numpy(array) for array in (x, y, out, table))
    if at is not None:
        indices = torch.from_numpy(at)
        return Rival(lambda: torch.add(tx, tt[indices], out=to))
    return {
        "add": Rival(lambda: torch.add(tx, tt, out=to)),
        "add, new": Rival(lambda: tx + tt),
        "add in place": Rival(lambda: ty.add_(tt)),
        "add scaled": Rival(lambda: torch.add(tt, tx, alpha=SCALE, out=to), 1e-4),  # one rounding
    }[call]


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
        "cached table": Rival(lambda: np.add(weight[ids] * scale, table, out=out)),
    }
    return Work(lambda: embed(ids, weight, scale=SCALE, out=out), rivals)


def add_halves(shape: tuple[int, ...], dtype: str) -> Work:
    """Beside a copy of as many float32."""
    x, out = (aligned(shape, dtype) for _ in range(2))
    x[...] = np.random.default_rng(1).standard_normal(shape[-1])
    wide, copied = (aligned(shape, "float32") for _ in range(2))
    add = posenc.Sinusoidal(shape[-1]).add
    floor = {"np.copyto": Rival(lambda: np.copyto(copied, wide), math.inf)}
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
    cos, sin, other, another = (aligned(shape, dtype) for _ in range(4))
    rotary = posenc.Rotary(dim)

    def copy() -> None:
        np.copyto(cos, other)
        np.copyto(sin, another)

    ours = partial(rotary.tables, length, out=(cos, sin))
    return Work(lambda: ours()[0], {"np.copyto": Rival(copy, math.inf)})


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


POSITIONS = {"add packed": packed, "add random": scattered}


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
    of = partial(group, "Tables", "fill", fill, ["out.fill", *FORMULAS])
    for shape in (1, 512), (64, 256), (512, 512), (2048, 1024), (8192, 1024), (32768, 1024):
        yield of(shape)
    for shape in (512, 512), (2048, 1024):
        yield of(shape, cold=True)
    for shape in (1, 512), (64, 256), (512, 512), (2048, 1024), (16384, 1024):
        yield of(shape, "float64")
    numpys = ["NumPy float32", "NumPy float64"]
    for dtype in "float32", "float64":
        for shape in (1, 512), (512, 512), (2048, 1024):
            yield group("New tables", "positional_encoding", new_table, numpys, shape, dtype)
    yield group("Threads", "fill, workers=2,", fill_by_two, ["one worker"], (32768, 1024))


def encodings() -> Iterator[Group]:
    shape = (8192, 512)
    for call, first in {"encode fractional": 0.0, "encode fractional from 1e9": 1e9}.items():
        # Far off, angles in float32 mean nothing.
        rivals = ["NumPy float64"] if first else list(FORMULAS)
        yield group("Encodings", call, partial(encode, first), rivals, shape)


def additions() -> Iterator[Group]:
    token, cached, batch, long = (1, 1, 512), (32, 64, 256), (8, 2048, 1024), (1, 32768, 1024)
    rivals = ["np.copyto", "cached table", *(["torch"] if "torch" in INSTALLED else [])]
    for call, shapes, cold, float64 in (
        ("add", [token, (4, 64, 256), cached, (8, 512, 512), batch, long], [token, cached], True),
        ("add, new", [batch], [], False),
        ("add in place", [token, cached, batch, long], [], True),
        ("add scaled", [token, cached, batch, long], [], False),
        ("add packed", [cached, batch, long], [cached], True),
        ("add random", [batch], [], False),
    ):
        of = partial(group, "Additions", call, partial(add, call), rivals)
        for shape in shapes:
            yield of(shape)
        for shape in cold:
            yield of(shape, cold=True)
        if float64:
            yield of(cached, "float64")
            yield of(batch, "float64")


def pipelines() -> Iterator[Group]:
    shape = (16, 1024, 512)
    yield group("Token ids", "embed", embed, ["np.take", "cached table"], shape)
    for dtype in "float16", "bfloat16":
        yield group("16 bits", "add", add_halves, ["np.copyto"], shape, dtype)


def rotations() -> Iterator[Group]:
    names = {"onnxruntime": "onnxruntime", "mlx": "MLX"}
    rivals = ["np.copyto", "NumPy, tables ready", *(names[n] for n in names if n in INSTALLED)]
    for layout in "half", "interleaved":
        for shape in (1, 32, 1, 128), (4, 16, 1024, 64):
            yield group("Rotary", f"rotate {layout}", partial(rotate, layout), rivals, shape)
    yield group("Rotary", "rotary tables", rotary_tables, ["np.copyto"], (16384, 128))


GROUPS = [*tables(), *encodings(), *additions(), *pipelines(), *rotations()]
