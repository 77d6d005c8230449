"""The calls of tests/fuzz.py: from one seed any call of the public API, about half of them right.

A `Scene` draws sizes that fit together, `VALID` and `TOGETHER` make arguments of them by the names
of the parameters, which come from the signatures, and `SPOILERS` then damage some.
"""

import contextlib
import dataclasses
import functools
import inspect
import itertools
import json
import math
import mmap
import operator
import pickle
import random
import re
import types
import warnings
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, NamedTuple, cast, get_args, get_origin

import numpy as np
import numpy.typing as npt

import posenc
from posenc import _arrays, _rope_config, grid

Array = npt.NDArray[Any]

FLOATS = ["f8", "f4", "f2"]
with contextlib.suppress(ModuleNotFoundError):
    import ml_dtypes

    FLOATS.append(ml_dtypes.bfloat16)
INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
GUARD = 64  # bytes of a pattern before and after every array
PATTERN = 0xA5


# --- memory -------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """Where an array lies in a buffer of ours; None for one that owns its memory."""

    array: Array
    buffer: int | None
    offset: int
    layout: tuple[tuple[int, ...], Any, tuple[int, ...]]  # shape, dtype, strides
    writeable: bool


def _numbers() -> Array:
    """What arrays of floats hold: of all sizes, and now and then no number."""
    values = np.random.default_rng(0).standard_normal(1 << 14)
    values[::311] = np.resize([0.0, -0.0, np.nan, np.inf, -np.inf, 6e4, 1e-8], len(values[::311]))
    return values


@functools.cache
def _pool(dtype: Any) -> Array:
    with np.errstate(all="ignore"):
        return _numbers().astype(dtype)


class Memory:
    """Arrays in buffers with a pattern around and between their elements, and what they held."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.buffers: list[Array] = []
        self.places: dict[int, _Place] = {}
        self.before: list[bytes] = []
        self.known: list[Array] = []  # so that no other gets the id of one that is gone

    def floats(self, shape: tuple[int, ...], dtype: Any, legal: bool = False) -> Array:
        """An array of any layout; one that can be written to if `legal`."""
        size, pool = math.prod(shape), _pool(np.dtype(dtype))
        first = self.rng.randrange(len(pool))
        return self.array(np.resize(pool[first:], shape) if size else np.empty(shape, dtype), legal)

    def array(self, values: Array, legal: bool = False) -> Array:
        """A copy of `values` in memory of its own."""
        rng, shape, dtype = self.rng, values.shape, values.dtype
        if dtype.hasobject:
            return values
        if rng.random() < 0.15:
            own = np.array(values, order="C")
            self.places[id(own)] = _Place(own, None, 0, (shape, dtype, own.strides), True)
            return own
        order, free = list(range(len(shape)))[::-1], 1 if legal else 0
        steps, signs = [1] * len(shape), [1] * len(shape)
        if rng.random() < 0.5:  # else C-contiguous
            mixed = order[free:]
            if rng.random() < 0.3:
                rng.shuffle(mixed)
            order[free:] = mixed
            for axis in mixed:
                steps[axis] = rng.choice((1, 1, 2) if legal else (1, 1, 1, 2, 2, 0))
                signs[axis] = rng.choice((1, 1, -1))
        if not legal and dtype.itemsize > 1 and rng.random() < 0.1:
            dtype = dtype.newbyteorder()
        offset = GUARD + dtype.itemsize * rng.randrange(8)
        offset += rng.random() < 0.1 and not legal
        strides, span = [0] * len(shape), dtype.itemsize
        for axis in order:
            stride = span * steps[axis]
            strides[axis] = stride * signs[axis]
            offset += stride * max(shape[axis] - 1, 0) * (signs[axis] < 0)
            span = max(stride * shape[axis], span)
        room = offset + span + GUARD
        backing = rng.random()
        if backing < 0.03:
            buffer: Array = np.frombuffer(mmap.mmap(-1, room), np.uint8)
        else:
            buffer = np.empty(room, np.uint8)
        buffer[:] = PATTERN
        np.ndarray(shape, dtype, buffer, offset, strides)[...] = values
        if not legal and backing > 0.95:
            buffer = np.frombuffer(buffer.tobytes(), np.uint8)  # read-only
        self.buffers.append(buffer)
        return self.adopt(np.ndarray(shape, dtype, buffer, offset, strides))

    def view(
        self, of: Array, shape: tuple[int, ...], strides: tuple[int, ...] | None, skip: int
    ) -> Array:
        """An array of another shape in the memory of `of`, as far as that reaches."""
        place = self.places.get(id(of))
        if place is None or place.buffer is None:
            return of
        offset = place.offset + skip * of.itemsize
        return np.ndarray(shape, of.dtype, self.buffers[place.buffer], offset, strides)

    def adopt(self, array: Array) -> Array:
        """Know an array that was made of one of ours, by its address."""
        plain, layout = np.ndarray.view(array, np.ndarray), _layout(array)
        self.known.append(array)
        for number, buffer in enumerate(self.buffers):
            offset = plain.ctypes.data - buffer.ctypes.data
            if 0 <= offset < len(buffer):
                self.places[id(array)] = _Place(
                    array, number, offset, layout, plain.flags.writeable
                )
        owner: Any = plain
        while isinstance(owner, np.ndarray) and owner.base is not None:
            owner = owner.base
        if id(owner) in self.places:
            self.places[id(array)] = self.places[id(owner)]
        return array

    def seal(self) -> None:
        """Take down what all memory holds."""
        self.before = [buffer.tobytes() for buffer in self.buffers]
        self.owned = {
            key: place.array.tobytes() for key, place in self.places.items() if place.buffer is None
        }

    def changed(self, written: list[Any]) -> bool:
        """Whether anything changed but the elements of the arrays `written`."""
        may = [self.places[id(each)] for each in written if id(each) in self.places]
        may = [place for place in may if place.writeable]
        for number, (buffer, before) in enumerate(zip(self.buffers, self.before, strict=True)):
            if buffer.tobytes() == before:
                continue
            expected = np.frombuffer(before, np.uint8).copy()
            for place in may:
                if place.buffer == number:
                    # As it was, and as somebody may have made it amid the call.
                    for shape, dtype, strides in (place.layout, _layout(place.array)):
                        to, new = (
                            np.ndarray(shape, dtype, memory, place.offset, strides)
                            for memory in (expected, buffer)
                        )
                        to[...] = new
            if expected.tobytes() != buffer.tobytes():
                return True
        free = {id(place.array) for place in may}
        owned = [(self.places[key], before) for key, before in self.owned.items()]
        return any(
            place.array.tobytes() != before
            for place, before in owned
            if id(place.array) not in free and _layout(place.array) == place.layout
        )


def _layout(array: Array) -> tuple[tuple[int, ...], Any, tuple[int, ...]]:
    plain = np.ndarray.view(array, np.ndarray)
    return plain.shape, plain.dtype, plain.strides


# --- arguments that fit together ------------------------------------------------------------------


class Scene:
    """Sizes that fit together, and what is made of them."""

    def __init__(self, rng: random.Random, call: str) -> None:
        self.rng, self.memory = rng, Memory(rng)
        large = rng.random() < 0.004  # so large that threads are started
        self.length = 1100 if large else self.pick(0, 1, 1, 2, 3, 5, 8, 17, 64, 65, 130)
        self.lead = self.pick((), (), (), (1,), (2,), (3,), (2, 3), (0,), (2, 1, 3), (1,) * 5)
        if rng.random() < 0.01:
            self.lead = (1,) * rng.randrange(28, 31)
        if self.length > 17:
            self.lead = self.pick((), (2,))
        self.width = 512 if large else 2 * self.pick(1, 1, 2, 3, 4, 4, 5, 8, 16, 33)
        self.dtype = self.pick(*FLOATS)
        self.vocabulary, self.learned = self.pick(1, 3, 20, 200), self.length + self.pick(0, 0, 7)
        self.convention = self._convention(call)
        self.rotation = self._rotation()
        self.far = 2**45 if rng.random() < 0.1 else 3000

    @property
    def rows(self) -> tuple[int, ...]:
        return *self.lead, self.length

    def pick(self, *values: Any) -> Any:
        return self.rng.choice(values)

    def some(self, **values: Any) -> dict[str, Any]:
        """Some of the keywords."""
        odds = self.rng.random()
        return {name: value for name, value in values.items() if self.rng.random() < odds}

    def _convention(self, call: str) -> dict[str, Any]:
        """Keywords of `Sinusoidal` that fit `width`, which they may make odd."""
        if self.rng.random() < 0.5:
            return {}
        keywords = self.some(
            base=self.pick(1.0, 100, 500000.0, self.rng.uniform(1, 1e6)),
            shift=self.pick(1.0, 0.5, -1),
            odd=self.pick("trim", "ceil", "zero"),
            freq_scale=self.pick(2 * math.pi, 0.5, 1),
            layout=self.pick("split", "interleaved"),
            cos_first=self.pick(True, False),
            amplitude=self.pick(0.5, 1, -3.0, self.rng.uniform(0.1, 2)),
        )
        if call == "grid_encoding":
            keywords.pop("odd", None)
        elif self.rng.random() < 0.2:
            for name in ("base", "shift", "odd", "freq_scale"):
                keywords.pop(name, None)
            keywords["frequencies"] = self.reals(self.width // 2)
        if "odd" in keywords and self.width > 2:
            self.width -= self.pick(0, 1)
        return keywords

    def _rotation(self) -> dict[str, Any]:
        """Arguments of `Rotary` that fit `width`."""
        self.dim = 2 * self.rng.randint(1, max(self.width // 2, 1))
        keywords = self.some(
            base=self.pick(100, 500000.0, self.rng.uniform(1, 1e6)),
            layout=self.pick("half", "interleaved"),
            attention_factor=self.pick(0.5, 1, self.rng.uniform(0.1, 2)),
            axes=[self.rng.randrange(3) for _ in range(self.dim // 2)],
        )
        if self.rng.random() < 0.2:
            keywords |= {"base": None, "frequencies": self.reals(self.dim // 2)}
        self.axes = max(keywords["axes"]) + 1 if "axes" in keywords else 0
        return {"dim": self.dim, **keywords}

    def reals(self, count: int) -> Any:
        values = [self.rng.uniform(-4, 4) for _ in range(count)]
        return self.pick(values, tuple(values), np.array(values), np.array(values, "f4"))

    def floats(self, *shape: int) -> Array:
        return self.memory.floats(shape, self.dtype)

    def integers(self, shape: tuple[int, ...], low: int, high: int, forms: bool = True) -> Any:
        """Integers of any dtype and form from `low` to `high - 1`."""
        count = math.prod(shape)
        values = [self.rng.randrange(low, max(high, low + 1)) for _ in range(count)]
        whole = np.array(values, np.int64).reshape(shape)
        fitting = [d for d in INTEGERS if np.iinfo(d).min <= low and high <= np.iinfo(d).max]
        form = self.rng.random() if forms else 1.0
        if form < 0.2 and count:
            return whole.tolist()
        if form < 0.25:
            return whole.astype(object)
        return self.memory.array(whole.astype(self.pick(*fitting)))

    def positions(self, shape: tuple[int, ...], forms: bool = True) -> Any:
        """Positions of any kind."""
        if self.rng.random() < 0.5:
            return self.integers(shape, -self.far, self.far, forms)
        values = np.array([self.rng.uniform(-300, 300) for _ in range(math.prod(shape))])
        values = values.reshape(shape)
        values = self.pick(values, np.round(values), values.astype("f4"), values.astype("f2"))
        return self.memory.array(values)

    def shared(self, rows: tuple[int, ...], free: bool = True) -> tuple[int, ...]:
        """A shape that broadcasts to `rows` over the axes that lead; if `free`, with any number."""
        first = self.rng.randrange(len(rows)) if free else 0
        return *(self.pick(n, 1) for n in rows[first:-1]), rows[-1]

    def turned(self) -> Any:
        """Positions for `Rotary.rotate`."""
        rows = self.pick(self.rows[-1:], self.shared(self.rows, free=False))
        return self.positions((self.axes, *rows) if self.axes else rows)

    def mask(self, shape: tuple[int, ...]) -> Any:
        return self.pick(self.integers(shape, 0, 2), self.integers(shape, 0, 2, False) == 1)

    def grid(self) -> dict[str, Any]:
        shape = tuple(self.rng.randrange(4) for _ in range(self.pick(1, 2, 2, 3)))
        unit = 2 * len(shape)
        keywords = self.some(
            axes=self.rng.sample(range(len(shape)), len(shape)),
            coordinates=[self.positions((side,), forms=False) for side in shape],
            extra_rows=self.pick(0, 1, 2),
            per_axis=True,
        )
        if self.rng.random() < 0.2:
            keywords["per_axis"] = False
            self.convention["layout"] = "split"
        elif self.rng.random() < 0.2:
            name = self.pick(*grid._PRESETS)
            sides = len(grid._PRESETS[name].axes or shape)
            shape, unit = tuple(self.rng.randrange(1, 4) for _ in range(sides)), 16
            self.convention.clear()
            keywords = {"preset": name}
        return {"shape": shape, "d_model": unit * self.pick(1, 2, 3), **keywords}

    def config(self) -> dict[str, Any]:
        """A config.json that says what its type needs."""
        kind = self.pick(
            "default", "default", "linear", "dynamic", "yarn", "longrope", "llama3", "axial"
        )
        dim = 4 * self.pick(1, 2, 8, 16)
        length = self.pick(2048, 4096, 32768)
        rope: dict[str, Any] = {"rope_type": kind, "rope_theta": self.pick(10000.0, 500000)}
        rope["factor"] = self.pick(2.0, 4, self.rng.uniform(1, 40))
        rope["original_max_position_embeddings"] = length
        if kind == "longrope":
            for key in ("short_factor", "long_factor"):
                rope[key] = [self.rng.uniform(1, 30) for _ in range(dim // 2)]
        if kind == "llama3":
            rope |= {"low_freq_factor": 1.0, "high_freq_factor": self.pick(4.0, 2)}
        rope |= self.some(beta_fast=self.pick(32, 16.0), mscale=1.0, mscale_all_dim=0.7)
        if kind == "default" and self.rng.random() < 0.7:
            first = self.rng.randrange(dim // 2)
            rope["mrope_section"] = [first, dim // 2 - first, 0]
        rest = {"max_position_embeddings": self.pick(1, 4) * length}
        if self.rng.random() < 0.5:
            rest |= {"head_dim": dim}
            keywords: dict[str, Any] = {}
        else:
            keywords = {"head_dim": dim}
        where = self.pick("rope_scaling", "rope_parameters", "")
        config = {**rest, where: rope} if where else {**rest, **rope}
        keywords |= self.some(seq_len=self.pick(1, length, 10 * length), layout=self.pick("half"))
        return {"config": json.loads(json.dumps(config)), **keywords}

    def out(self, call: str, arguments: dict[str, Any]) -> Any:
        """What the result of the call may go to."""
        x, width, dtype = arguments.get("x"), self.width, self.dtype
        if x is not None and self.rng.random() < 0.3 and np.dtype(x.dtype) == dtype:
            arguments["x"] = self.memory.floats(x.shape, dtype, legal=True)
            return arguments["x"]
        shape: tuple[int, ...] = (*self.rows, width)
        if call.endswith("encode"):
            shape = (*np.shape(arguments["positions"]), width)
        elif call == "relative_encoding":
            shape = (max(2 * self.length - 1, 0), width)
        elif call == "grid_encoding":
            rows = arguments.get("extra_rows", 0)
            shape = arguments["shape"]
            shape = (rows + math.prod(shape),) if rows else tuple(shape)
            shape = (*shape, arguments["d_model"])
        elif call == "Rotary.tables":
            shape = np.shape(arguments["positions"]) if "positions" in arguments else (self.length,)
            shape = (*(shape[1:] if self.axes and "positions" in arguments else shape), self.dim)
            return tuple(self.memory.floats(shape, dtype, legal=True) for _ in range(2))
        return self.memory.floats(shape, dtype, legal=True)


def _axes(scene: Scene) -> tuple[int, ...]:
    return (scene.axes,) if scene.axes else ()


def _between(scene: Scene) -> dict[str, Any]:
    """Queries and keys: how many, or where they stand."""
    if scene.rng.random() < 0.5:
        return {"q_len": scene.length, "k_len": scene.length + scene.pick(0, 0, 1, 30)}
    at = {"q_positions": scene.integers(scene.rows, 0, 300)}
    if scene.rng.random() < 0.5:
        at["k_positions"] = scene.integers((*scene.lead, scene.rng.randrange(9)), 0, 300)
    return at


def _packed(scene: Scene) -> Array:
    documents = [np.arange(scene.rng.randint(1, 9)) for _ in range(scene.rng.randrange(1, 5))]
    return np.concatenate(documents)


# By the name of the parameter, where several share it by that of the call too.
VALID: dict[str, Callable[[Scene], Any]] = {
    "length": lambda s: s.length,
    "d_model": lambda s: s.width,
    "start": lambda s: s.pick(0, 1, 77, s.rng.randint(-s.far, s.far)),
    "Learned.add.start": lambda s: s.rng.randint(0, s.learned - s.length),
    "Learned.embed.start": lambda s: s.rng.randint(0, s.learned - s.length),
    "dtype": lambda s: s.pick(s.dtype, np.dtype(s.dtype)),
    "workers": lambda s: s.pick(1, 2, 3, -1),
    "x": lambda s: s.floats(*s.rows, s.width),
    "ids": lambda s: s.integers(s.rows, 0, s.vocabulary),
    "positions.from_ids.ids": lambda s: s.integers(s.rows, 0, 3),
    "padding_idx": lambda s: s.pick(0, 1, 2, -1),
    "weight": lambda s: s.floats(s.vocabulary, s.width),
    "Learned.weight": lambda s: s.floats(s.learned, s.width),
    "token_weight": lambda s: s.floats(s.vocabulary, s.width),
    "positions": lambda s: s.positions(s.shared(s.rows)),
    "encode.positions": lambda s: s.positions(s.pick(s.rows, ())),
    "Sinusoidal.encode.positions": lambda s: s.positions(s.pick(s.rows, ())),
    "Learned.add.positions": lambda s: s.integers(s.shared(s.rows), 0, s.learned),
    "Learned.embed.positions": lambda s: s.integers(s.shared(s.rows), 0, s.learned),
    "Rotary.tables.positions": lambda s: s.positions((*_axes(s), *s.rows)),
    "Rotary.rotate.positions": Scene.turned,
    "mask": lambda s: s.mask(s.shared(s.rows)),
    "scale": lambda s: s.pick(2.0, 1.0, 3, math.sqrt(s.width), np.float32(0.1), Fraction(1, 3)),
    "inverse": lambda s: s.pick(True, False),
    "causal": lambda s: s.pick(True, False),
    "bidirectional": lambda s: s.pick(True, False),
    "name": lambda s: s.pick(*posenc.presets()),
    "heads": lambda s: s.rng.randint(1, 20),
    "num_buckets": lambda s: s.rng.randint(4, 40),
    "max_distance": lambda s: s.rng.randint(41, 300),
    "lengths": lambda s: s.integers((s.pick(0, 1, 3, 8),), 0, 9),
    "cu_seqlens": lambda s: [0, *itertools.accumulate(s.rng.randrange(9) for _ in range(4))],
    "segments": lambda s: s.integers(s.rows, 0, 3),
    "position_ids": _packed,
}
# Calls whose arguments fit one another alone, and which keywords those are.
TOGETHER: dict[str, Callable[[Scene], dict[str, Any]]] = {
    "Sinusoidal": lambda s: {"d_model": s.width, **s.convention},
    "Rotary": lambda s: s.rotation,
    "grid_encoding": Scene.grid,
    "Rotary.from_config": Scene.config,
    "alibi_bias": _between,
    "t5_buckets": _between,
}
_ALONE = {
    "Sinusoidal": {field.name for field in dataclasses.fields(posenc.Sinusoidal)},
    "Rotary": {field.name for field in dataclasses.fields(posenc.Rotary)},
    "grid_encoding": {"axes", "coordinates", "extra_rows", "per_axis", "preset"},
    "Rotary.from_config": {
        *("head_dim", "max_position_embeddings", "seq_len", "layout"),
        *("rope_theta", "layer_type"),
    },
    **{
        name: {"q_len", "k_len", "q_positions", "k_positions"}
        for name in ("alibi_bias", "t5_buckets")
    },
}


def _generator(call: str, parameter: inspect.Parameter) -> Callable[[Scene], Any]:
    """Of one that no table knows, say a keyword of next week: by its annotation."""
    for key in (f"{call}.{parameter.name}", parameter.name):
        if key in VALID:
            return VALID[key]
    parts = {parameter.annotation, *get_args(parameter.annotation)}
    words = [word for part in parts if get_origin(part) is Literal for word in get_args(part)]
    if words:
        return lambda s: s.pick(*words)
    if bool in parts:
        return lambda s: s.pick(True, False)
    if float in parts:
        return lambda s: s.rng.uniform(0.5, 4)
    if any(getattr(part, "__name__", "") in ("SupportsIndex", "int") for part in parts):
        return lambda s: s.rng.randint(1, 9)
    return lambda s: s.integers(s.rows, 0, 9)


# --- the public API ------------------------------------------------------------------------------


def _replaced(instance: Any, **changes: Any) -> Any:
    return dataclasses.replace(instance, **changes)


def _pickled(instance: Any) -> Any:
    return pickle.loads(pickle.dumps(instance))


def _forged(instance: Any, **changes: Any) -> Any:
    """Unpickled from arguments that somebody has changed; a state is refused."""
    make, arguments = instance.__reduce__()[:2]
    if isinstance(make, functools.partial):
        make = functools.partial(make.func, *make.args, **{**make.keywords, **changes})
    other = make(*arguments)
    try:
        other.__setstate__(changes)
    except TypeError:
        return _used(other)
    raise AssertionError("a state was taken")


def _used(instance: Any) -> Any:
    if isinstance(instance, posenc.Rotary):
        return instance.tables(3)
    if isinstance(instance, posenc.Learned):
        return instance.add(np.zeros_like(instance.weight))
    return instance.table(3)


def _seen(instance: Any) -> Any:
    other = _pickled(instance)
    equal = isinstance(instance, posenc.Learned) or (
        instance == other and hash(instance) == hash(other)
    )
    return repr(instance), equal


OPERATIONS = {"replace": _replaced, "pickle": _pickled, "forge": _forged, "look at": _seen}
CLASSES = ("Sinusoidal", "Learned", "Rotary")


@functools.cache
def public() -> dict[str, inspect.Signature]:
    """Every public call by its name; those of an instance without `self`."""
    found: dict[str, Any] = {}
    for prefix, home in (("", posenc), ("positions.", posenc.positions)):
        for name in home.__all__:
            thing = getattr(home, name)
            if not callable(thing):
                continue
            found[prefix + name] = inspect.signature(thing)
            for method in vars(thing) if isinstance(thing, type) else ():
                if not method.startswith("_") and callable(getattr(thing, method)):
                    signature = inspect.signature(getattr(thing, method))
                    own = [p for p in signature.parameters.values() if p.name != "self"]
                    found[f"{name}.{method}"] = signature.replace(parameters=own)
    for operation, name in itertools.product(OPERATIONS, CLASSES):
        own = (
            [p for p in found[name].parameters.values()]
            if operation in ("replace", "forge")
            else []
        )
        own = [p.replace(kind=p.KEYWORD_ONLY, default=None) for p in own]
        found[f"{operation} {name}"] = inspect.Signature(own)
    return found


# --- a call ---------------------------------------------------------------------------------------


@dataclasses.dataclass
class Call:
    """One call and all that it is judged by."""

    name: str
    scene: Scene
    arguments: dict[str, Any]
    parameters: list[inspect.Parameter]
    by_position: bool
    instance: Any = None
    extra: tuple[Any, ...] = ()
    spoilt: list[str] = dataclasses.field(default_factory=list)
    raised: list[BaseException] = dataclasses.field(default_factory=list)
    huge: bool = False  # memory may end
    fickle: bool = False  # what it does depends on how often it is asked
    shallow: int = 0  # frames of stack that are left, if any number
    armed: bool = False  # whether it runs, so that hostile objects do what they do

    def target(self) -> Any:
        home, _, method = self.name.rpartition(".")
        if home in ("", "positions") and " " not in self.name:
            return getattr(posenc.positions if home else posenc, method)
        if " " in self.name:
            return functools.partial(OPERATIONS[self.name.rpartition(" ")[0]], self.instance)
        return getattr(self.instance, method)

    def __call__(self) -> Any:
        rest, first = dict(self.arguments), []
        for parameter in self.parameters:
            if not self.by_position or parameter.kind != parameter.POSITIONAL_OR_KEYWORD:
                break
            if parameter.name not in rest:
                break
            first.append(rest.pop(parameter.name))
        self.armed = True
        try:
            return self.target()(*first, *self.extra, **rest)
        finally:
            self.armed = False

    def outputs(self) -> list[Any]:
        out = self.arguments.get("out")
        return list(out) if isinstance(out, tuple | list) else [out]

    def __str__(self) -> str:
        shown = [*map(show, self.extra)]
        shown += [f"{name}={show(value)}" for name, value in self.arguments.items()]
        on = f" on {show(self.instance)}" if self.instance is not None else ""
        spoilt = f"  # {'; '.join(self.spoilt)}" if self.spoilt else ""
        return f"{self.name}({', '.join(shown)}){on}{spoilt}"


def show(value: Any) -> str:
    """A value in at most some 400 characters, whatever it does when it is asked for them."""
    try:
        text = repr(value)
        if isinstance(value, np.ndarray):
            plain = np.ndarray.view(value, np.ndarray)
            text = repr(plain.tolist()) if 0 < plain.size < 9 else ""
            layout = f"{plain.dtype} {plain.shape} strides {plain.strides}"
            text = f"{type(value).__name__}<{layout}> {text}"
    except Exception as error:  # noqa: BLE001
        text = f"<{type(value).__name__}: {error}>"
    text = re.sub(" at 0x[0-9a-f]+", "", text)
    return text if len(text) < 400 else text[:400] + "..."


def make(seed: int, name: str | None = None, spoil: bool | None = None) -> Call:
    """The call of a seed, on the backend that is in use."""
    rng = random.Random(seed)
    name = name or rng.choice(WEIGHTED)
    scene = Scene(rng, name)
    parameters = list(public()[name].parameters.values())
    arguments = TOGETHER[name](scene) if name in TOGETHER else {}
    arguments = dict(arguments)
    late = []
    for parameter in parameters:
        wanted = parameter.default is parameter.empty or rng.random() < 0.3
        if parameter.name in arguments:
            continue
        if parameter.kind == parameter.VAR_KEYWORD:
            arguments |= scene.convention
        elif parameter.name == "out":
            late += [parameter] if wanted else []
        elif wanted and parameter.name not in _ALONE.get(name, ()):
            arguments[parameter.name] = _generator(name, parameter)(scene)
    _agree(name, scene, arguments)
    for _ in late:
        arguments["out"] = scene.out(name, arguments)
    call = Call(name, scene, arguments, parameters, rng.random() < 0.6)
    of = next(
        (each for each in CLASSES if name.startswith(f"{each}.") or name.endswith(f" {each}")), ""
    )
    if of:
        call.instance = instance(of, scene)
    if spoil or (spoil is None and rng.random() < 0.55):
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            spoiler: Callable[[Call, random.Random], None] = rng.choice(SPOILERS)
            spoiler(call, rng)
    scene.memory.seal()
    return call


def instance(of: str, scene: Scene) -> Any:
    if of == "Learned":
        return posenc.Learned(scene.floats(scene.learned, scene.width))
    return getattr(posenc, of)(**TOGETHER[of](scene))


def _agree(name: str, scene: Scene, arguments: dict[str, Any]) -> None:
    """Leave out what excludes one another."""
    if "positions" in arguments:
        arguments.pop("start", None)
    elif name == "Rotary.tables":
        arguments["length"] = scene.length
    if name == "Sinusoidal.preset":
        arguments["d_model"] += arguments["d_model"] % 2
        arguments.pop("frequencies", None)
    if name.startswith(("replace ", "forge ")):
        given = scene.rotation if name.endswith("Rotary") else scene.convention
        arguments.clear()
        for key in ("layout", "attention_factor", "amplitude", "base"):
            if given.get(key) is not None and not name.endswith("Learned"):
                arguments[key] = given[key]


WEIGHTED = [
    name
    for name in public()
    for _ in range(
        4 if name.rpartition(".")[2] in ("add", "embed", "encode", "rotate", "from_config") else 2
    )
    if name not in ("presets", "show_config") or _ == 0
]


# --- what damages it ------------------------------------------------------------------------------

HUGE: list[int] = [2**31 - 1, 2**31, 2**32, 2**40, 2**53, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64]
HUGE += [10**30, 10**400, 10**5000]
HUGE += [-number for number in HUGE]
ODD = [0, -1, 1, 3, 7, True, False, math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e308, 1e-300, 0.5]
EXCEPTIONS: list[type[BaseException]] = [
    *(KeyboardInterrupt, RecursionError, MemoryError, ValueError, TypeError, KeyError, IndexError),
    *(
        AttributeError,
        OverflowError,
        RuntimeError,
        StopIteration,
        SystemExit,
        GeneratorExit,
        OSError,
    ),
    type("Own", (BaseException,), {}),
]
_JUNK: list[Callable[[], Any]] = [
    *(lambda value=value: value for value in (None, "x", "", b"x", 1j, "1", "float32", ..., 1.5)),
    *(lambda kind=kind: kind() for kind in (list, dict, tuple, set, object, bytearray)),
    *(lambda value=value: value for value in (Decimal(1), Fraction(1, 3), range(3), slice(3), len)),
    lambda: np.array(3),
    lambda: np.array([3.0]),
    lambda: np.float32(2),
    lambda: np.int8(-1),
    lambda: np.bool_(True),
    lambda: np.timedelta64(1),
    lambda: [[1.0, 2.0], [3.0]],
    lambda: [[1], 2],
    lambda: memoryview(b"abcdefgh"),
    lambda: functools.reduce(lambda inner, _: [inner], range(70), cast(Any, 1)),
    lambda: np.zeros((1,) * _arrays.MAX_AXES, "i8"),
    lambda: np.zeros((1,) * min(40, _arrays.MAX_AXES), object),
    lambda: [1] * 70,
    lambda: np.empty((0, 2**40), "f4"),
    lambda: np.empty((2**40, 0), "f8"),
    lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
    lambda: np.array([(1, 2.0)], "i4,f8"),
    lambda: np.array(["2017"], "M8[Y]"),
    lambda: np.array([{}, None], object),
    lambda: np.ones((2, 4), np.longdouble),
    lambda: np.ones((2, 4), "c8"),
]


def _lies(rng: random.Random, name: str, self: Any) -> Any:
    """What `name` says instead."""
    number = rng.choice((-1, 0, 1, 3, 10**13, 2**62, 2**63, 10**30))
    if name == "__len__":
        return number % 2**62  # beyond, it is Python that raises
    if name in ("__int__", "__index__", "__trunc__", "ndim", "size", "itemsize", "nbytes"):
        return number
    if name == "__float__":
        return rng.choice((math.nan, math.inf, 1e300, -1.0, 0.5))
    if name == "flags":
        words = ("writeable", "aligned", "c_contiguous", "f_contiguous", "owndata")
        return types.SimpleNamespace(**dict.fromkeys(words, True))
    if name in ("shape", "strides"):
        return rng.choice(((), (3,), (3, 64, 128), (2**40, 4), (-1, 2)))
    if name == "dtype":
        return np.dtype(rng.choice(("f4", "f8", "i8", "O")))
    if name.startswith("__") and name[2:4] in ("lt", "le", "gt", "ge", "eq", "ne", "bo", "co"):
        return rng.random() < 0.5
    if name == "__hash__":
        return 7
    return rng.choice((self, None, np.zeros(3), "x", number))


class Hostile:
    """What an object does at its n-th use: raise, lie from then on, or act on the call."""

    def __init__(self, call: Call, rng: random.Random, names: Sequence[str]) -> None:
        self.call, self.names = call, names
        self.seed = rng.random()
        self.deed = rng.choice(("raise", "lie", "lie", "act", "act"))
        self.at = rng.choice((1, 1, 2, 3, 7)) if self.deed != "act" else rng.choice((1, 1, 2))
        self.exception = rng.choice(EXCEPTIONS)
        self.uses = 0
        call.fickle |= self.at > 1 or self.deed == "act"
        call.huge = True

    def __call__(self, name: str, honest: Callable[[], Any], self_: Any) -> Any:
        if not self.call.armed:
            return honest()
        try:
            return self._behave(name, honest, self_)
        except BaseException as error:
            self.call.raised.append(error)
            raise

    def _behave(self, name: str, honest: Callable[[], Any], self_: Any) -> Any:
        if name not in self.names:
            return honest()
        self.uses += 1
        if self.deed == "lie" and self.uses >= self.at:
            # the same each time
            return _lies(random.Random(f"{self.seed}{name}"), name, self_)
        if self.uses == self.at:
            if self.deed == "raise":
                raise self.exception("amid the call")
            act(self.call, random.Random(self.seed))
        return honest()


def _viewed(values: Iterable[Any]) -> set[int]:
    """The owners of memory that others are views of: no call of NumPy outlives that they let it go."""
    found: set[int] = set()
    for value in values:
        if isinstance(value, list | tuple):
            found |= _viewed(value)
        elif isinstance(value, dict):
            found |= _viewed(value.values())
        elif isinstance(value, Stand):
            found |= _viewed([value.value])
        owner = value
        while issubclass(type(owner), np.ndarray):
            owner = np.ndarray.base.__get__(owner)  # whatever its class says of it
            found.add(id(owner))
    return found


def act(call: Call, rng: random.Random) -> None:
    """Change what a call is about while it runs."""
    arrays = [place.array for place in call.scene.memory.places.values()]
    own = [place.array for place in call.scene.memory.places.values() if place.buffer is None]
    viewed = _viewed([*call.arguments.values(), getattr(call.instance, "weight", None)])
    own = [array for array in own if id(array) not in viewed]
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        what = rng.randrange(8)
        if what < 2 and call.instance is not None:
            other = instance(type(call.instance).__name__, Scene(rng, call.name))
            if what:
                call.instance.__dict__.update(other.__dict__)
            else:
                fields = [f for f in dataclasses.fields(other) if f.init]
                call.instance.__init__(**{f.name: getattr(other, f.name) for f in fields})
        elif what < 3 and call.instance is not None:
            tamper(call, rng)
        elif what < 4 and own:
            rng.choice(own).resize(rng.choice(((0,), (1 << 16,))), refcheck=False)
        elif what < 6 and arrays:
            array = rng.choice(arrays)
            name, value = rng.choice(
                (
                    ("shape", (array.size,)),
                    ("shape", array.shape[::-1]),
                    ("strides", (0,) * array.ndim),
                    ("dtype", f"i{array.itemsize}"),
                )
            )
            setattr(array, name, value)
        elif what < 7 and arrays:
            rng.choice(arrays).setflags(write=False)
        else:
            for value in call.arguments.values():
                if isinstance(value, dict):  # of a list NumPy itself reads what is gone
                    value.clear()
            posenc.add(np.ones((1, 2, 6), "f4"), base=7.0)


def tamper(call: Call, rng: random.Random) -> None:
    """Change a public attribute of a frozen instance."""
    if call.instance is not None:
        fields = [f.name for f in dataclasses.fields(call.instance) if f.name[0] != "_"]
        name = rng.choice(fields)
        now = getattr(call.instance, name)
        call.huge = True
        value: Any = rng.choice((2, 4, 6, 4096, 2**40)) if isinstance(now, int | float) else now
        if isinstance(now, np.ndarray):
            value = np.zeros((1, 2), now.dtype)
        elif isinstance(now, str):
            value = rng.choice(("half", "interleaved", "split", "zero"))
        object.__setattr__(call.instance, name, value)
        call.spoilt.append(f"{name} = {show(value)} on the instance")


def _honest(name: str, honest: Callable[[], Any], self: Any) -> Any:
    return honest()


def _hostile_type(base: type, names: str, attributes: str = "") -> type:
    """A subclass whose methods ask `Hostile` first, those that the instance says."""

    def method(name: str) -> Any:
        honest = getattr(base, name)

        def ask(self: Any, *arguments: Any, **keywords: Any) -> Any:
            behave = object.__getattribute__(self, "__dict__").get("hostile", _honest)
            return behave(name, lambda: honest(self, *arguments, **keywords), self)

        return ask

    def attribute(name: str) -> Any:
        ask = getattr(base, name)

        def get(self: Any) -> Any:
            behave = object.__getattribute__(self, "__dict__").get("hostile", _honest)
            return behave(name, lambda: ask.__get__(self), self)

        return property(get)

    body = {name: method(name) for name in names.split()}
    body |= {name: attribute(name) for name in attributes.split()}
    made = type(f"Hostile{base.__name__.title()}", (base,), body)
    made.twisted = [*names.split(), *attributes.split()]  # type: ignore[attr-defined]
    return made


_ORDER = "__lt__ __le__ __gt__ __ge__ __eq__ __ne__ __hash__ __str__ __repr__ __format__"
_ARITHMETIC = (
    "__int__ __float__ __bool__ __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __neg__"
)
_ARITHMETIC += " __abs__ __truediv__ __rtruediv__ __floordiv__ __mod__ __trunc__ as_integer_ratio"
_SEQUENCE = "__len__ __iter__ __getitem__ __contains__ __eq__ __hash__ __repr__"
_TYPES: dict[type, type] = {
    int: _hostile_type(int, f"{_ORDER} {_ARITHMETIC} __index__ bit_length __or__ __and__"),
    float: _hostile_type(float, f"{_ORDER} {_ARITHMETIC} is_integer"),
    str: _hostile_type(str, f"{_ORDER} {_SEQUENCE} lower encode"),
    list: _hostile_type(list, "__len__ __iter__ __getitem__ __contains__ __eq__ __repr__"),
    tuple: _hostile_type(tuple, _SEQUENCE),
    dict: _hostile_type(
        dict,
        "__len__ __iter__ __getitem__ __contains__ __eq__ __repr__ get keys items values __or__",
    ),
    np.ndarray: _hostile_type(
        np.ndarray,
        "view reshape astype copy __getitem__ __len__ min max any all sum ravel swapaxes tolist "
        "__array__ __array_finalize__ __array_ufunc__ __array_function__ __array_wrap__ __repr__",
        "flags shape strides dtype ndim size nbytes itemsize ctypes flat base T data",
    ),
}


class Stand:
    """Stands for a value by every protocol that there is."""

    hostile: Callable[..., Any]

    def __init__(self, value: Any) -> None:
        self.value = value

    def _ask(self, name: str, honest: Callable[[], Any]) -> Any:
        return self.hostile(name, honest, self)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._ask("__array__", lambda: np.array(self.value, dtype))

    def __index__(self) -> Any:
        return self._ask("__index__", lambda: operator.index(self.value))

    def __float__(self) -> Any:
        return self._ask("__float__", lambda: float(self.value))

    def __len__(self) -> Any:
        return self._ask("__len__", lambda: len(self.value))

    def __iter__(self) -> Any:
        return self._ask("__iter__", lambda: iter(self.value))

    def __getitem__(self, key: Any) -> Any:
        return self._ask("__getitem__", lambda: self.value[key])


def _hostile(call: Call, rng: random.Random, value: Any) -> Any:
    """A twin of the value, of a subclass if there is one, or what stands for it."""
    made: Any
    base = np.ndarray if isinstance(value, np.ndarray) else type(value)
    if base in _TYPES and rng.random() < 0.75:
        twisted = _TYPES[base].twisted  # type: ignore[attr-defined]
        made = value.view(_TYPES[base]) if base is np.ndarray else _TYPES[base](value)
        which = rng.sample(twisted, rng.choice((1, 1, 2, len(twisted))))
    else:
        made, which = (
            Stand(value),
            ["__array__", "__index__", "__float__", "__len__", "__iter__", "__getitem__"],
        )
    made.hostile = Hostile(call, rng, which)
    call.spoilt.append(f"{made.hostile.deed} by {', '.join(which[:3])} at use {made.hostile.at}")
    return call.scene.memory.adopt(made) if isinstance(made, np.ndarray) else made


def _spoil_hostile(call: Call, rng: random.Random) -> None:
    """An argument, or an element of one, that lies, raises or acts."""
    if not call.arguments:
        return
    name = rng.choice(list(call.arguments))
    value = call.arguments[name]
    call.spoilt.append(f"{name} is hostile")
    if rng.random() < 0.3 and type(value) in (list, dict) and value:
        key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
        value[key] = _hostile(call, rng, value[key])
    elif (
        rng.random() < 0.3
        and type(value) is np.ndarray
        and value.dtype.kind in "iuf"
        and value.ndim < 30
        and value.size < 1 << 16
    ):
        objects = value.astype(object)
        for index in range(min(objects.size, 3)):
            objects.flat[index] = _hostile(call, rng, objects.flat[index])
        call.arguments[name] = objects
    else:
        call.arguments[name] = _hostile(call, rng, value)


def _spoil_value(call: Call, rng: random.Random) -> None:
    """An argument, or an element of one, of another type, or a number out of all bounds."""
    if not call.arguments:
        return
    name = rng.choice(list(call.arguments))
    value = call.arguments[name]
    new = rng.choice((rng.choice(HUGE), rng.choice(ODD), rng.choice(_JUNK)()))
    call.huge |= (isinstance(new, int) and abs(new) >= 2**24) or isinstance(new, np.ndarray)
    call.spoilt.append(f"{name} is bad")
    if isinstance(value, list | tuple) and value and rng.random() < 0.6:
        changed = _wrapping(list(value)) if rng.random() < 0.2 else list(value)
        for _ in range(rng.choice((1, 1, len(changed)))):
            changed[rng.randrange(len(changed))] = new
        call.arguments[name] = type(value)(changed)
    elif isinstance(value, np.ndarray) and value.size and isinstance(new, int | float):
        if value.flags.writeable:
            with contextlib.suppress(Exception), np.errstate(all="ignore"):
                value.flat[rng.randrange(value.size)] = new
    else:
        call.arguments[name] = new


def _wrapping(values: list[Any]) -> list[Any]:
    """Integers whose sum in 64 bits is that of others, by way of numbers beyond all memory."""
    if not all(isinstance(value, int) for value in values):
        return values
    return [2**62, 2**62, 2**62, 2**62 + sum(values)]


def _spoil_array(call: Call, rng: random.Random) -> None:
    """An array of another shape, dtype or place, over itself or over another argument."""
    arrays = {k: v for k, v in call.arguments.items() if type(v) is np.ndarray}
    if not arrays:
        return _spoil_value(call, rng)
    memory = call.scene.memory
    name, value = rng.choice(list(arrays.items()))
    other = rng.choice(list(arrays.values()))
    # What is read in full takes its time: only what is written may be of any size.
    side = rng.choice((2, 3, 5000, 70000, 2**31, 2**40) if name == "out" else (2, 3))
    kind = rng.choice(("i8", "?", "O", "f4", "f8", "c16", ">f4"))
    new = rng.choice(
        (
            lambda: value.reshape(value.shape[::-1]),
            lambda: value[..., np.newaxis],
            lambda: value[..., :-1] if value.ndim else value,
            lambda: memory.array(value.astype(kind)) if value.size < 1 << 16 else value.view(kind),
            lambda: memory.view(other, value.shape, None, rng.choice((0, 1, 8))),
            lambda: memory.view(value, (side, side, *value.shape[-1:]), (0, 0, value.itemsize), 0),
            lambda: memory.view(value, (3, side, *value.shape[-1:]), (8, 16, value.itemsize), 0),
            lambda: value.reshape(
                (1,) * rng.randrange(1, max(_arrays.MAX_AXES - value.ndim, 2)) + value.shape
            ),
            lambda: np.zeros((*value.shape[:-1], 0), value.dtype),
            lambda: np.lib.stride_tricks.as_strided(
                np.zeros(1, value.dtype), (side, side, 2), (0,) * 3
            ),
        )
    )
    with contextlib.suppress(Exception), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = new()
        # lengths of other numbers, too, may add up to more than there is memory for
        call.huge |= made.size > 1 << 24 or made.ndim > 32 or name in ("lengths", "cu_seqlens")
        call.arguments[name] = memory.adopt(made)
    call.spoilt.append(f"{name} is another array")


def _spoil_names(call: Call, rng: random.Random) -> None:
    """An argument too many, too few, or of another call."""
    call.huge = True
    what = rng.randrange(4)
    names = list(call.arguments)
    if what == 0 and names:
        del call.arguments[rng.choice(names)]
    elif what == 1:
        call.extra = (rng.choice(_JUNK)(),) * rng.randint(1, 3)
    elif what == 2 and len(names) > 1:
        one, two = rng.sample(names, 2)
        call.arguments[one], call.arguments[two] = call.arguments[two], call.arguments[one]
    else:
        name = rng.choice((*VALID, "basis", "self", "cls", "é" * 100)).rpartition(".")[2]
        with contextlib.suppress(Exception):
            call.arguments[name] = VALID[name](call.scene) if name in VALID else 1
    call.spoilt.append("other arguments")


@functools.cache
def _vocabulary() -> list[str]:
    """The words of a configuration, as the source has them."""
    return sorted(
        {*re.findall(r'"([a-z_0-9]{3,})"', inspect.getsource(_rope_config)), "text_config", "type"}
    )


def _json(rng: random.Random, depth: int = 0) -> Any:
    """Any JSON."""
    kind = rng.randrange(9 if depth < 3 else 7)
    if kind < 3:
        return rng.choice((1, 2, 4, 8, 64, 0.25, 4096, 10000.0, rng.uniform(0, 100)))
    if kind < 5:
        return rng.choice((*HUGE, *ODD, None))
    if kind < 7:
        return rng.choice((*_vocabulary(), "", "1", "true", "x" * 5000))
    if kind < 8:
        item = _json(rng, depth + 1)
        return (
            [item] * rng.choice((0, 1, 2, 3, 4, 32, 1000)) if rng.random() < 0.5 else [item, 2**62]
        )
    keys = rng.sample(_vocabulary(), rng.randrange(7))
    return {key: _json(rng, depth + 1) for key in keys}


def _spoil_config(call: Call, rng: random.Random) -> None:
    """A configuration that says anything; of other calls, an instance that is not what it was."""
    config = call.arguments.get("config")
    if not isinstance(config, dict):
        return tamper(call, rng) if call.instance is not None else _spoil_hostile(call, rng)
    inner = rng.choice([config, *(v for v in config.values() if isinstance(v, dict))])
    for _ in range(rng.choice((1, 1, 2, 5))):
        key = rng.choice((rng.choice(_vocabulary()), rng.choice(list(inner) or ["type"])))
        if isinstance(inner.get(key), list) and rng.random() < 0.5:
            inner[key] = _wrapping(inner[key])
        else:
            inner[key] = _json(rng)
    call.huge = True
    call.spoilt.append("another config")


def _spoil_stack(call: Call, rng: random.Random) -> None:
    """Hardly any stack is left."""
    call.shallow = rng.randint(3, 40)
    call.fickle = True
    call.spoilt.append(f"{call.shallow} frames of stack")


SPOILERS: list[Callable[[Call, random.Random], None]] = [
    *[_spoil_hostile] * 4,
    *[_spoil_value] * 4,
    *[_spoil_array] * 3,
    *[_spoil_config] * 2,
    _spoil_names,
    _spoil_stack,
]
