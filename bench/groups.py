"""What is timed: calls of posenc, each beside what a user would write instead on the same arrays.

The name of a group begins with the call that is timed: `posenc.add` is the function, `Sinusoidal(d).add`
the method of an object that was made beforehand, whose d is the last number of the shape. Arrays
begin where NumPy's come to lie unless the name says where else.
"""

import ctypes
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from common import ALIGNED, Array, ones
from one_token import Token, numpy_rotation, tokens
from rivals import FORMULAS, INSTALLED, TORCH, Call, Formula, mlx_rotary, onnx_rotary, torch_calls

import posenc

SCALE = 32.0
SIXTEEN = {"float16": 8e-3, "bfloat16": 6e-2}  # by which sums that are rounded twice may differ
Shape = tuple[int, ...]


class Rival(NamedTuple):
    """A call whose result is within `error` of posenc's; a floor, which does less, has `inf`."""

    call: Call
    error: float = 0.0


class Work(NamedTuple):
    """A call of posenc and its rivals; `reset` before each where they change what they read."""

    ours: Call
    rivals: dict[str, Rival]
    reset: Call = lambda: None


class Memory(NamedTuple):
    """Where arrays begin modulo 4096; None: where NumPy's come to lie, the large ones at 16."""

    x: int | None = None
    out: int | None = None


MEMORY = {
    "": Memory(),
    "all aligned": Memory(ALIGNED, ALIGNED),
    "out= an earlier result": Memory(None, ALIGNED),
}


class Group(NamedTuple):
    """One call on one shape: `make` gives its work, as the arrays of all would not fit in memory."""

    section: str
    name: str
    make: Callable[[Shape], Work]
    shape: Shape
    rivals: tuple[str, ...]
    cold: bool = False


def group(
    section: str,
    call: str,
    make: Callable[[Shape, str, Memory], Work],
    rivals: Sequence[str],
    shape: Shape,
    dtype: str = "float32",
    memory: str = "",
    cold: bool = False,
) -> Group:
    words = [f"{call} {shape} {dtype}", memory, "cold" if cold else ""]
    name, place = ", ".join(filter(None, words)), MEMORY[memory]
    able = tuple(rival for rival in rivals if rival not in TORCH or "torch" in INSTALLED)
    return Group(section, name, lambda of: make(of, dtype, place), shape, able, cold)


# Tables.


def fill(call: str, shape: Shape, dtype: str, memory: Memory) -> Work:
    out = ones(shape, dtype, memory.out)
    prepared = posenc.Sinusoidal(shape[1], layout="split" if "split" in call else "interleaved")
    ours: Call = {
        "posenc.fill": lambda: posenc.fill(out),
        "posenc.fill, workers=2": lambda: posenc.fill(out, workers=2),
    }.get(call, lambda: prepared.fill(out))
    rivals = {
        "memset": Rival(memset(out), math.inf),
        "out.fill": Rival(lambda: out.fill(1.5), math.inf),
    }
    return Work(ours, rivals | formulas(out, np.arange(shape[0])))


def memset(*arrays: Array) -> Call:
    """The C library's, which is as fast as memory can be written."""
    blocks = [(array.ctypes.data, array.nbytes) for array in arrays]

    def call() -> None:
        for address, size in blocks:
            ctypes.memset(address, 63, size)

    return call


def formulas(out: Array, positions: Array) -> dict[str, Rival]:
    largest = float(positions.max())
    able = {name: f for name, f in FORMULAS.items() if out.dtype.name in f.dtypes}
    return {
        name: Rival(formula.prepare(out, positions), formula.error(largest))
        for name, formula in able.items()
    }


def new_table(shape: Shape, dtype: str, _: Memory) -> Work:
    length, d_model = shape
    table = posenc.positional_encoding(length, d_model, dtype=dtype)

    def rival(formula: Formula) -> Rival:
        return Rival(
            lambda: formula.prepare(np.empty(shape, dtype), np.arange(length))(),
            formula.error(length),
        )

    rivals = {name: rival(formula) for name, formula in FORMULAS.items()}
    return Work(
        lambda: posenc.positional_encoding(length, d_model, dtype=dtype),
        rivals | {"table.copy()": Rival(table.copy)},
    )


def encode(first: float, shape: Shape, dtype: str, memory: Memory) -> Work:
    """Fractional positions, spread over 1e5 from the first on."""
    out = ones(shape, dtype, memory.out)
    positions = np.random.default_rng(0).uniform(first, first + 1e5, shape[0])
    encode = posenc.Sinusoidal(shape[1]).encode
    return Work(lambda: encode(positions, out=out), formulas(out, positions))


# Additions.


class Addition(NamedTuple):
    """How rows are added: where to, at which positions, with which scale, in which layout."""

    to: str = "out"  # or "new", or "in place"
    positions: str = ""  # or a name of POSITIONS
    scale: float = 1.0
    layout: str = "interleaved"
    prepared: bool = True


def packed(shape: Shape) -> Array:
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


def scattered(shape: Shape) -> Array:
    return np.random.default_rng(0).integers(0, 131072, shape[:2])


POSITIONS = {"packed": packed, "random": scattered}


def add(how: Addition, shape: Shape, dtype: str, memory: Memory) -> Work:
    length, d_model = shape[-2:]
    at = POSITIONS[how.positions](shape) if how.positions else None
    encoding = posenc.Sinusoidal(d_model, layout=how.layout)  # type: ignore[arg-type]
    table = encoding.table(length if at is None else int(at.max()) + 1, dtype=dtype)
    source = ones(shape, dtype, memory.x)
    source[...] = np.random.default_rng(1).standard_normal(d_model)
    x = source.copy() if how.to == "in place" else source
    to = (
        {"in place": x, "new": None}.get(how.to)
        if how.to != "out"
        else ones(shape, dtype, memory.out)
    )
    call: Callable[..., Array] = encoding.add if how.prepared else posenc.add
    given: dict[str, Any] = {} if at is None else {"positions": at}
    if how.scale != 1.0:
        given["scale"] = how.scale
    scale = table.dtype.type(how.scale)

    def kept() -> Array:
        rows = table if at is None else table[at]
        return np.add(x if how.scale == 1.0 else x * scale, rows, out=to)

    error = SIXTEEN.get(dtype, 0.0)
    rivals = {
        "np.copyto": Rival(lambda: np.copyto(source if to is None else to, source), math.inf),
        "x.copy()": Rival(x.copy, math.inf),
        "kept table": Rival(kept, error),
    }
    rounded_once = max(error, 0.0 if how.scale == 1.0 else 1e-4)
    for name, torch in torch_calls("add", x, table, at, how.scale, to).items():
        rivals[name] = Rival(torch, rounded_once)
    return Work(lambda: call(x, **given, out=to), rivals, lambda: np.copyto(x, source))


# Token ids.


def embed(call: str, shape: Shape, dtype: str, memory: Memory) -> Work:
    """Token ids of a vocabulary of 32000."""
    length, d_model = shape[-2:]
    rng = np.random.default_rng(0)
    weight = ones((32000, d_model), dtype, memory.x)
    weight[...] = rng.standard_normal(weight.shape)
    ids = rng.integers(0, len(weight), shape[:-1])
    out, scale = ones(shape, dtype, memory.out), weight.dtype.type(SCALE)
    prepared = posenc.Sinusoidal(d_model, layout="split" if "split" in call else "interleaved")
    table = prepared.table(length, dtype=dtype)
    to = None if "new" in call else out
    embed = posenc.embed if call.startswith("posenc") else prepared.embed
    rivals = {
        "np.take": Rival(lambda: np.take(weight, ids, axis=0, out=out, mode="clip"), math.inf),
        "weight[ids]": Rival(lambda: weight[ids], math.inf),
        "kept table": Rival(lambda: np.add(weight[ids] * scale, table, out=to)),
    }
    for name, torch in torch_calls("embed", ids, weight, table, SCALE, to).items():
        rivals[name] = Rival(torch, 1e-4)
    return Work(lambda: embed(ids, weight, scale=SCALE, out=to), rivals)


# Rotary.


def rotate(how: str, libraries: bool, shape: Shape, dtype: str, memory: Memory) -> Work:
    """Queries or keys, beside rotations with tables kept from before, of `libraries` too."""
    layout = how.split()[0]
    length, dim = shape[-2:]
    source, out = ones(shape, dtype, memory.x), ones(shape, dtype, memory.out)
    source[...] = np.random.default_rng(1).standard_normal(dim)
    x = source.copy() if "in place" in how else source
    to = x if "in place" in how else None if "new" in how else out
    rotary = posenc.Rotary(dim, layout=layout)  # type: ignore[arg-type]
    tables = rotary.tables(length, dtype=dtype)
    at = np.tile(np.arange(length), (shape[0], 1, 1)) if "positions" in how else None
    by_torch = torch_calls(f"rotate_{layout}", x, *tables, at, to)
    rivals = {
        "np.copyto": Rival(lambda: np.copyto(out, source), math.inf),
        "x.copy()": Rival(x.copy, math.inf),
        "NumPy, tables ready": Rival(numpy_rotation(layout, x, *tables, at, to), 1e-6),
        **{name: Rival(call, 4 * SIXTEEN.get(dtype, 2.5e-7)) for name, call in by_torch.items()},
    }
    if libraries:
        rivals |= library_rotations(layout, x, *tables)
    where: dict[str, Any] = {} if at is None else {"positions": at}
    ours = partial(rotary.rotate, x, **where, out=to)
    return Work(ours, rivals, lambda: np.copyto(x, source))


def library_rotations(layout: str, x: Array, cos: Array, sin: Array) -> dict[str, Rival]:
    paired, half = layout == "interleaved", x.shape[-1] // 2
    rivals = {}
    if "onnxruntime" in INSTALLED:
        columns = np.s_[..., 0::2] if paired else np.s_[..., :half]
        rivals["onnxruntime"] = Rival(onnx_rotary(x, cos[columns], sin[columns], paired), 1e-5)
    if "mlx" in INSTALLED:
        rivals["MLX"] = Rival(mlx_rotary(x, paired), math.inf)  # its angles are float32
    return rivals


def rotary_tables(shape: Shape, dtype: str, memory: Memory) -> Work:
    length, dim = shape
    cos, sin = (ones(shape, dtype, memory.out) for _ in range(2))
    ours = partial(posenc.Rotary(dim).tables, length, out=(cos, sin))
    return Work(lambda: ours()[0], {"memset": Rival(memset(cos, sin), math.inf)})


# All of them.


def token_groups() -> Iterator[Group]:
    def make(token: Token, _: Shape) -> Work:
        numpy, call, torch, error = token.instead
        found = {numpy: call, **torch_calls(*torch)}
        rivals = {name: Rival(each, error) for name, each in found.items()}
        return Work(token.call, rivals, token.reset)

    for token in tokens():
        rivals = (token.instead.numpy, *(TORCH if "torch" in INSTALLED else ()))
        yield Group("One token", token.written, partial(make, token), (), rivals)


def table_groups() -> Iterator[Group]:
    floors = ["memset", "out.fill"]
    numpys = ["NumPy float32", "NumPy float64", *TORCH]
    of = partial(group, "Tables", "posenc.fill", partial(fill, "posenc.fill"))
    for shape in (64, 256), (512, 512), (2048, 1024), (4096, 1024):
        yield of([*floors, *FORMULAS], shape)
    yield of([*floors, *numpys], (32768, 1024))
    for shape in (512, 512), (32768, 1024):
        yield of(floors, shape, memory="all aligned")
    for shape in (128, 128), (16384, 64), (131072, 8):
        yield of([*floors, *numpys], shape)
    yield of(floors, (512, 512), cold=True)
    for shape in (512, 512), (2048, 1024), (16384, 1024):
        yield of([*floors, "NumPy float64"], shape, "float64")
    for dtype in SIXTEEN:
        yield of(floors, (2048, 1024), dtype)
    split = "Sinusoidal(d, layout='split').fill"
    yield group("Tables", split, partial(fill, split), floors, (2048, 1024))
    new = partial(group, "New tables", "posenc.positional_encoding", new_table)
    for shape in (512, 512), (2048, 1024):
        for dtype in "float32", "float64":
            numpys = ["NumPy float32"] if dtype == "float32" else []
            yield new(["table.copy()", *numpys, "NumPy float64"], shape, dtype)
    two = "posenc.fill, workers=2"
    yield group("Threads", two, partial(fill, two), floors, (32768, 1024))
    for how, first in {"fractional": 0.0, "fractional from 1e9": 1e9}.items():
        # Far off, angles in float32 mean nothing.
        rivals = ["NumPy float64"] if first else list(FORMULAS)
        name = f"Sinusoidal(d).encode {how}"
        yield group("Encodings", name, partial(encode, first), rivals, (8192, 512))


# A quarter of a megabyte to 67, as loaders make them; small and many; one long sequence.
SIZES: list[Shape] = [(8, 16, 512), (8, 64, 512), (8, 256, 512), (8, 1024, 512), (8, 2048, 1024)]
SMALL, BATCH, LONG = (32, 64, 256), (8, 2048, 1024), (1, 16384, 1024)
HEADS, MORE_HEADS = (4, 16, 1024, 64), (4, 16, 4096, 64)  # queries or keys
PLAIN, NEW, IN_PLACE = Addition(), Addition(to="new"), Addition(to="in place")
SCALED, PACKED = Addition(scale=SCALE), Addition(positions="packed")
SPLIT = Addition(layout="split")


def addition_groups() -> Iterator[Group]:
    def of(call: str, how: Addition, shapes: Iterable[Shape], **where: Any) -> Iterator[Group]:
        floor = "x.copy()" if how.to == "new" else "np.copyto"
        rivals = [floor, "kept table", *TORCH]
        for shape in shapes:
            yield group("Additions", call, partial(add, how), rivals, shape, **where)

    method = "Sinusoidal(d).add"
    yield from of("posenc.add", Addition(prepared=False), SIZES[:1])
    yield from of(method, PLAIN, [*SIZES, SMALL, LONG])
    yield from of(f"{method} in place", IN_PLACE, [*SIZES, LONG])
    yield from of(f"{method} scaled", SCALED, [*SIZES, LONG])
    yield from of(f"{method} packed", PACKED, [*SIZES, SMALL, LONG])
    yield from of(f"{method} random", Addition(positions="random"), [SMALL, BATCH])
    yield from of(f"{method} new", NEW, [SIZES[1], BATCH])
    yield from of(f"{method} packed, new", PACKED._replace(to="new"), [SIZES[1], BATCH])
    for memory in list(MEMORY)[1:]:
        yield from of(method, PLAIN, [BATCH, LONG], memory=memory)
        yield from of(f"{method} scaled", SCALED, [BATCH], memory=memory)
        yield from of(f"{method} packed", PACKED, [BATCH], memory=memory)
    split = "Sinusoidal(d, layout='split').add"
    yield from of(split, SPLIT, [BATCH, LONG])
    yield from of(f"{split} packed", SPLIT._replace(positions="packed"), [BATCH])
    yield from of(f"{method} packed", PACKED, [(8, 2048, 1022)])
    yield from of(method, PLAIN, [BATCH, LONG], dtype="float64")
    yield from of(f"{method} packed", PACKED, [BATCH], dtype="float64")
    yield from of(method, PLAIN, [SMALL], cold=True)
    yield from of(f"{method} packed", PACKED, [SMALL], cold=True)


def embedding_groups() -> Iterator[Group]:
    method, shape = "Sinusoidal(d).embed", (16, 1024, 512)
    rivals = ["np.take", "kept table", *TORCH]

    def of(
        call: str, *shapes: Shape, rivals: list[str] = rivals, memory: str = ""
    ) -> Iterator[Group]:
        for shape in shapes:
            make = partial(embed, call)
            yield group("Token ids", call, make, rivals, shape, memory=memory)

    yield from of("posenc.embed", (8, 16, 512))
    yield from of(method, (8, 16, 512), (8, 256, 512), shape)
    for memory in list(MEMORY)[1:]:
        yield from of(method, shape, memory=memory)
    yield from of(f"{method} new", shape, rivals=["weight[ids]", "kept table", *TORCH])
    yield from of("Sinusoidal(d, layout='split').embed", shape)


def sixteen_bit_groups() -> Iterator[Group]:
    """In shapes that are timed in float32 too."""
    rivals = ["np.copyto", *TORCH]
    for dtype in SIXTEEN:
        of = partial(group, "16 bits", dtype=dtype)
        for shape in SIZES[1], SIZES[3], LONG:
            yield of("Sinusoidal(d).add", partial(add, PLAIN), [*rivals, "kept table"], shape)
        yield of("Sinusoidal(d).add packed", partial(add, PACKED), rivals, BATCH)
        rotation = partial(rotate, "half", False)
        yield of("Rotary(d).rotate half", rotation, ["np.copyto", "torch.compile"], MORE_HEADS)


def rotary_groups() -> Iterator[Group]:
    numpys = ["NumPy, tables ready", *TORCH]
    libraries = [name for name in ("onnxruntime", "MLX") if name.lower() in INSTALLED]

    def of(how: str, shape: Shape, rivals: list[str], memory: str = "") -> Group:
        call, make = (
            f"Rotary(d).rotate {how}",
            partial(rotate, how, not {*libraries}.isdisjoint(rivals)),
        )
        return group("Rotary", call, make, rivals, shape, memory=memory)

    for layout in "half", "interleaved":
        for shape in (1, 16, 64, 64), HEADS:
            yield of(layout, shape, ["np.copyto", *numpys, *libraries])
        yield of(layout, MORE_HEADS, ["np.copyto", "torch.compile"])
    for memory in list(MEMORY)[1:]:
        yield of("half", MORE_HEADS, ["np.copyto"], memory)
    for how in "half positions", "half in place":
        yield of(how, HEADS, ["np.copyto", *numpys])
    yield of("half new", HEADS, ["x.copy()", *numpys])
    yield group("Rotary", "Rotary(d).tables", rotary_tables, ["memset"], (16384, 128))


GROUPS = [
    *token_groups(),
    *table_groups(),
    *addition_groups(),
    *embedding_groups(),
    *sixteen_bit_groups(),
    *rotary_groups(),
]
