"""What tests/fuzz.py holds against a call: a clean exception, or the right bits on every backend.

Exempt, as in the README: payloads of NaN; and where a call was spoilt, results below 1e-300 and
the signs of zeros, which an amplitude of 5e-324 would leave to the backend.
"""

import contextlib
import dataclasses
import functools
import itertools
import math
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from fuzz_arguments import CLASSES, Call, make, show
from internals import forget, kernels_of

import posenc
from posenc import _backend

Array = npt.NDArray[Any]

SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
PATIENCE = 5 if SANITIZED else 1  # how many times longer everything may take
CLEAN = (TypeError, ValueError, IndexError)
LONGEST_MESSAGE = 300
SECONDS = 4.0 * PATIENCE  # of the processor, for a call
GROWTH = (3000 if SANITIZED else 400) << 20  # bytes of resident memory, for a call
SAMPLE = 6  # rows of a result that are made again, one by one


class Fault(NamedTuple):
    """What is wrong with a call."""

    kind: str
    text: str
    fatal: bool = False  # whether memory is no longer what it was, and the process should end


class Outcome(NamedTuple):
    """How a call ended on one backend."""

    backend: str
    call: Call
    result: Any
    error: BaseException | None
    seconds: float
    growth: int

    @property
    def kind(self) -> str:
        return "result" if self.error is None else type(self.error).__name__


@functools.cache
def backends() -> dict[str, Any]:
    return {name: kernels_of(name) for name in _backend.available()}


@contextlib.contextmanager
def using(name: str) -> Iterator[None]:
    """The backend, with nothing prepared by another."""
    before = _backend.kernels, _backend.name
    _backend.kernels, _backend.name = backends()[name], name
    forget()
    try:
        yield
    finally:
        _backend.kernels, _backend.name = before


def _peak() -> int:
    """Bytes of resident memory, at most so far: ru_maxrss begins with that of the parent."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def run(seed: int, backend: str, name: str | None = None, spoil: bool | None = None) -> Outcome:
    """Make the call of a seed anew, and make it."""
    with using(backend), warnings.catch_warnings():
        warnings.simplefilter("error")
        call = make(seed, name, spoil)
        result, error = None, None
        limit = sys.getrecursionlimit()
        resident = _peak()
        begin = time.process_time()
        try:
            if call.shallow:
                sys.setrecursionlimit(_depth() + call.shallow)
            result = call()
        except BaseException as caught:  # noqa: BLE001
            error = caught
        finally:
            sys.setrecursionlimit(limit)
        seconds = time.process_time() - begin
        growth = _peak() - resident
    return Outcome(backend, call, result, error, seconds, growth)


def _depth() -> int:
    frame, depth = sys._getframe(), 0
    while frame := frame.f_back:  # type: ignore[assignment]
        depth += 1
    return depth + 8


def check(
    seed: int, name: str | None = None, spoil: bool | None = None
) -> tuple[list[Outcome], Fault | None]:
    """The call of a seed on every backend, and what is wrong with it."""
    outcomes = []
    for backend in backends():
        outcomes.append(run(seed, backend, name, spoil))
        if fault := alone(outcomes[-1]):
            return outcomes, fault._replace(text=f"{backend}: {fault.text}")
    return outcomes, together(outcomes)


def alone(outcome: Outcome) -> Fault | None:
    """What is wrong with one outcome by itself."""
    call = outcome.call
    # Where the stack ends amid a call, it may have begun to write.
    written = call.outputs() if outcome.error is None or call.shallow else []
    if call.scene.memory.changed(written):
        refused = f"though {outcome.error!r:.200}" if outcome.error else "beside out"
        return Fault("memory changed", f"memory of an argument was written to, {refused}", True)
    if outcome.seconds > SECONDS:
        return Fault("slow", f"took {outcome.seconds:.1f} s of the processor, {outcome.kind}", True)
    if outcome.growth > GROWTH + _size(outcome.result):
        return Fault(
            "memory", f"took {outcome.growth >> 20} MB beyond all before, {outcome.kind}", True
        )
    if outcome.error is not None:
        return _unclean(outcome.error, call)
    out = call.arguments.get("out")
    if out is not None and call.name in _RETURN_OUT and outcome.result is not out:
        same = type(out) in (tuple, list) and all(map(lambda a, b: a is b, outcome.result, out))
        if not same and not (isinstance(out, tuple | list) and call.spoilt):
            return Fault("result", "is not out")
    return None


def _size(result: Any) -> int:
    if isinstance(result, tuple | list):
        return sum(map(_size, result))
    return result.nbytes if type(result) is np.ndarray else 0


_RETURN_OUT = {"add", "fill", "encode", "embed", "relative_encoding", "grid_encoding"}
_RETURN_OUT |= {f"{c}.{m}" for c in CLASSES for m in (*_RETURN_OUT, "rotate", "tables")}


def _unclean(error: BaseException, call: Call) -> Fault | None:
    if any(error is raised for raised in call.raised):
        return None
    if isinstance(error, MemoryError) and call.huge:
        return None
    if isinstance(error, RecursionError) and call.shallow:
        return None
    try:
        text = str(error)
    except Exception as other:  # noqa: BLE001
        return Fault("exception", f"{type(error).__name__} without words: {other!r:.200}")
    if type(error) not in CLEAN:
        where = error.__traceback__
        while where and where.tb_next:
            where = where.tb_next
        at = (
            f"{where.tb_frame.f_code.co_filename.rpartition('/')[2]}:{where.tb_lineno}"
            if where
            else ""
        )
        return Fault("exception", f"{type(error).__name__} at {at}: {text:.200}")
    if not text or len(text) > LONGEST_MESSAGE:
        return Fault("message", f"{type(error).__name__} of {len(text)} characters: {text:.100}")
    return None


def together(outcomes: list[Outcome]) -> Fault | None:
    """What is wrong with the outcomes of one call on all backends."""
    first = outcomes[0]
    call = first.call
    if not call.fickle:
        for other in outcomes[1:]:
            if MemoryError in map(type, (first.error, other.error)) and call.huge:
                continue
            if _words(first.error) != _words(other.error) or first.kind != other.kind:
                return Fault(
                    "backends differ",
                    f"{first.backend}: {first.error!r:.200}, {other.backend}: {other.error!r:.200}",
                )
            exempt = bool(call.spoilt)
            if first.error is None and bits(first.result, exempt) != bits(other.result, exempt):
                return Fault("backends differ", f"other bits: {first.backend}, {other.backend}")
    if first.error is None and not call.spoilt:
        with using(first.backend), np.errstate(all="ignore"):
            wrong = judge_values(call, first.result)
        if wrong:
            return Fault("wrong result", wrong)
    return None


def _words(error: BaseException | None) -> str:
    """Its message, in which objects are at no address."""
    with contextlib.suppress(Exception):
        return re.sub("0x[0-9a-f]+", "0x", str(error))
    return ""


def bits(value: Any, exempt: bool = False) -> Any:
    """What a result is, to the bit."""
    if isinstance(value, np.ndarray):
        plain = np.array(np.ndarray.view(value, np.ndarray))
        if plain.dtype.kind in "fV":
            with np.errstate(all="ignore"):
                plain[np.isnan(plain)] = np.nan
                if exempt:
                    plain[np.abs(plain.astype("f8")) < 1e-300] = 0
        return plain.dtype, plain.shape, plain.tobytes()
    if isinstance(value, dict):
        return {key: bits(each) for key, each in value.items() if key != "backend"}
    if isinstance(value, list | tuple):
        return [bits(each, exempt) for each in value]
    if type(value).__name__ in CLASSES:
        names = [field.name for field in dataclasses.fields(value) if field.name[0] != "_"]
        return [bits(getattr(value, name)) for name in names]
    return value


# --- what is right --------------------------------------------------------------------------------


def judge_values(call: Call, result: Any) -> str:
    """What is wrong with the values of a call that was as it should be."""
    judge = JUDGES.get(call.name)
    known = judge and set(call.arguments) <= judge.known | set(call.scene.convention)
    return judge.values(_Arguments(call), result) or "" if judge and known else ""


class _Arguments:
    """A call's arguments for a judge, with their defaults."""

    def __init__(self, call: Call) -> None:
        self.call, self.scene, self.instance = call, call.scene, call.instance
        self.given = call.arguments
        self.dtype = np.dtype(self.scene.dtype)

    def __getitem__(self, name: str) -> Any:
        defaults = {p.name: p.default for p in self.call.parameters}
        return self.given.get(name, defaults[name])

    def working(self) -> np.dtype[Any]:
        return np.dtype("f4") if self.dtype.itemsize == 2 else self.dtype

    def encoding(self, width: int) -> posenc.Sinusoidal:
        if isinstance(self.instance, posenc.Sinusoidal):
            return self.instance
        return posenc.Sinusoidal(width, **self.scene.convention)

    def row(self, position: Any, width: int, dtype: Any) -> Array:
        """A row by itself, rounded from float64."""
        exact = self.encoding(width).encode(float(position))
        return rounded(exact, np.dtype(dtype))

    def positions(self, rows: tuple[int, ...]) -> Array:
        """The position of every row."""
        where = self.given.get("positions")
        if where is None:
            where = self["start"] + np.arange(rows[-1], dtype="i8")
        spread: Array = np.broadcast_to(np.asarray(where), rows)
        return spread


def rounded(values: Array, dtype: np.dtype[Any]) -> Array:
    """Rounded once: to 16 bits by way of float32, to odd, from which no bit is missing."""
    if dtype.itemsize > 2:
        return values.astype(dtype)
    single = values.astype("f4")
    inexact = single.astype("f8") != values
    outward = np.abs(single.astype("f8")) > np.abs(values)
    pattern = single.view("u4") - (inexact & outward)
    result: Array = (pattern | inexact).astype("u4").view("f4").astype(dtype)
    return result


def differ(a: Any, b: Any) -> bool:
    return bool(bits(np.asarray(a)) != bits(np.asarray(b)))


def _sample(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Some of the rows, the last among them."""
    count = math.prod(shape)
    some = sorted({*range(min(count, SAMPLE - 2)), count // 2, count - 1}) if count else []
    return [tuple(map(int, np.unravel_index(i, shape))) for i in some]


def _table(start: Callable[[_Arguments, int], int], step: int = 1) -> Callable[..., str | None]:
    def values(a: _Arguments, result: Array) -> str | None:
        width = result.shape[-1]
        for index in _sample(result.shape[:-1]):
            position = start(a, result.shape[-2]) + step * index[-1]
            if differ(result[index], a.row(position, width, result.dtype)):
                return f"row {index} is not that of position {position}"
        return None

    return values


def _encoded(a: _Arguments, result: Array) -> str | None:
    where = np.asarray(a["positions"])
    for index in _sample(where.shape):
        if differ(result[index], a.row(where[index], result.shape[-1], result.dtype)):
            return f"row {index} is not that of position {where[index]}"
    return None


def _added(a: _Arguments, result: Array) -> str | None:
    """x * scale + table, each rounded, by hand."""
    working, rows = a.working(), result.shape[:-1]
    mask, x = a.given.get("mask"), a.given.get("x")
    if x is not None and a.given.get("out") is x:
        return None  # it is gone; `changed` and the other backends have judged
    keep = np.broadcast_to(np.asarray(True if mask is None else mask), rows)
    where = a.positions(rows)
    for index in _sample(rows):
        source = x[index] if x is not None else _looked_up(a, index)
        expected = source.astype(working) * working.type(a["scale"])
        if keep[index] and isinstance(a.instance, posenc.Learned):
            expected = expected + a.instance.weight[where[index]].astype(working)
        elif keep[index]:
            expected = expected + a.row(where[index], result.shape[-1], working)
        if differ(result[index], expected.astype(result.dtype)):
            return f"row {index} is not x * scale + that of position {where[index]}"
    return None


def _looked_up(a: _Arguments, index: tuple[int, ...]) -> Array:
    weight: Array = a.given["weight" if "weight" in a.given else "token_weight"]
    row: Array = weight[np.asarray(a["ids"])[index]]
    return row


def _turned(a: _Arguments, result: Array) -> str | None:
    rotary, x, working = a.instance, a["x"], a.working()
    if rotary.axes is not None or a.given.get("out") is x:
        return None
    n, where = rotary.dim // 2, a.positions(result.shape[:-1])
    paired = rotary.layout == "interleaved"
    first = slice(0, 2 * n, 2) if paired else slice(0, n)
    second = slice(1, 2 * n, 2) if paired else slice(n, 2 * n)
    for index in _sample(result.shape[:-1]):
        cos, sin = rotary.tables(positions=float(where[index]), dtype=working)
        cos, sin = cos[first], -sin[first] if a["inverse"] else sin[first]
        one, two = (x[index][..., half].astype(working) for half in (first, second))
        expected = x[index].astype(working)
        expected[first], expected[second] = one * cos - two * sin, two * cos + one * sin
        if differ(result[index], expected.astype(result.dtype)):
            return f"row {index} is not turned by position {where[index]}"
    return None


def _tables(a: _Arguments, result: tuple[Array, Array]) -> str | None:
    rotary, rows = a.instance, result[0].shape[:-1]
    if rotary.axes is not None:
        return None
    where = a.positions(rows) if rows else np.asarray(a["positions"])
    for index in _sample(rows):
        single = rotary.tables(positions=float(where[index]))
        for each, exact in zip(result, single, strict=True):
            if differ(each[index], rounded(exact, each.dtype)):
                return f"row {index} is not that of position {where[index]}"
    return None


def _slopes(a: _Arguments, result: Array) -> str | None:
    heads = a["heads"]
    whole = 1 << heads.bit_length() - 1
    exact = [2 ** (-8 * (k + 1) / whole) for k in range(whole)]
    exact += [2 ** (-4 * (k + 1) / whole) for k in range(0, 2 * (heads - whole), 2)]
    return None if np.allclose(result, exact, rtol=1e-15, atol=0) else f"{result} for {exact}"


def _bias(a: _Arguments, result: Array) -> str | None:
    queries, keys = np.arange(a["q_len"]) + a["k_len"] - a["q_len"], np.arange(a["k_len"])
    distance = keys - queries[:, np.newaxis]
    exact = posenc.alibi_slopes(a["heads"])[:, np.newaxis, np.newaxis] * -np.abs(distance)
    if a["causal"]:
        exact = np.where(distance > 0, -np.inf, exact)
    exact = exact.astype("f4") if result.dtype.itemsize == 2 else exact
    return "not -slope * |distance|" if differ(result, exact.astype(result.dtype)) else None


def _buckets(a: _Arguments, result: Array) -> str | None:
    for i, j in _sample(result.shape):
        distance = j - (a["k_len"] - a["q_len"] + i)
        buckets = a["num_buckets"] // 2 if a["bidirectional"] else a["num_buckets"]
        ahead = buckets if a["bidirectional"] and distance > 0 else 0
        n = abs(distance) if a["bidirectional"] else max(-distance, 0)
        exact, farthest = buckets // 2, a["max_distance"]
        bucket = n
        if n >= exact:
            left = buckets - exact
            at = [k for k in range(left) if farthest**k * exact ** (left - k) <= n**left]
            bucket = exact + max(at)
        if result[i, j] != ahead + bucket:
            return f"{result[i, j]} at {i, j}, not {ahead + bucket}"
    return None


def _each(sequence: Callable[[_Arguments, list[int]], list[int]], name: str) -> Callable[..., Any]:
    def values(a: _Arguments, result: Array) -> str | None:
        given = np.asarray(a[name])
        rows = given.reshape(-1, given.shape[-1]) if given.size else given.reshape(0, 1)
        exact = [sequence(a, row.tolist()) for row in rows]
        right = result.reshape(len(rows), -1).tolist() == exact if given.size else not result.size
        return None if right else f"{result.tolist()} for {given.tolist()}"

    return values


def _of_lengths(a: _Arguments, lengths: list[int]) -> list[int]:
    return [position for length in lengths for position in range(length)]


def _of_offsets(a: _Arguments, ends: list[int]) -> list[int]:
    return _of_lengths(a, [b - a for a, b in itertools.pairwise(ends)])


def _of_segments(a: _Arguments, ids: list[int]) -> list[int]:
    found: list[int] = []
    for i, each in enumerate(ids):
        found.append(found[-1] + 1 if i and each == ids[i - 1] else 0)
    return found


def _of_mask(a: _Arguments, mask: list[int]) -> list[int]:
    return [sum(map(bool, mask[:i])) if keep else 0 for i, keep in enumerate(mask)]


def _of_ids(a: _Arguments, ids: list[int]) -> list[int]:
    pad = a["padding_idx"]
    counts = [sum(each != pad for each in ids[: i + 1]) for i in range(len(ids))]
    return [pad if each == pad else pad + count for each, count in zip(ids, counts, strict=True)]


def _grid(a: _Arguments, result: Array) -> str | None:
    shape, extra = tuple(a["shape"]), a["extra_rows"]
    if result[:extra].any() if extra else False:
        return "rows before the points that are not 0"
    points = result[extra:].reshape(*shape, a["d_model"])
    width = a["d_model"] // len(shape)
    for index in _sample(shape):
        for column, axis in enumerate(a.given.get("axes", range(len(shape)))):
            where = index[axis]
            if "coordinates" in a.given:
                where = np.asarray(a["coordinates"][axis])[where]
            part = points[index][column * width : (column + 1) * width]
            if differ(part, a.row(where, width, result.dtype)):
                return f"point {index} is not that of coordinate {where} on axis {axis}"
    return None


def _preset(a: _Arguments, result: Any) -> str | None:
    overrides = {k: v for k, v in a.given.items() if k not in ("name", "d_model")}
    wrong = {k: v for k, v in overrides.items() if getattr(result, k) != v}
    return f"not {wrong}" if wrong else None


class _Judge(NamedTuple):
    values: Callable[[_Arguments, Any], str | None]
    known: set[str]  # parameters: with others, backends are compared alone


_ADD = {
    "x",
    "ids",
    "weight",
    "token_weight",
    "start",
    "positions",
    "mask",
    "scale",
    "out",
    "workers",
}
_TABLE = {"length", "d_model", "start", "dtype", "out", "workers", "positions"}
_start = _table(lambda a, length: a["start"])
JUDGES = {
    "positional_encoding": _Judge(_start, _TABLE),
    "fill": _Judge(_start, _TABLE),
    "encode": _Judge(_encoded, _TABLE),
    "add": _Judge(_added, _ADD),
    "embed": _Judge(_added, _ADD),
    "relative_encoding": _Judge(_table(lambda a, length: length // 2, -1), _TABLE),
    "grid_encoding": _Judge(
        _grid, {"shape", "d_model", "axes", "coordinates", "extra_rows", "dtype", "out"}
    ),
    "Sinusoidal.table": _Judge(_start, _TABLE),
    "Sinusoidal.fill": _Judge(_start, _TABLE),
    "Sinusoidal.encode": _Judge(_encoded, _TABLE),
    "Sinusoidal.add": _Judge(_added, _ADD),
    "Sinusoidal.embed": _Judge(_added, _ADD),
    "Sinusoidal.preset": _Judge(_preset, {"name", "d_model"}),
    "Learned.add": _Judge(_added, _ADD),
    "Learned.embed": _Judge(_added, _ADD),
    "Rotary.rotate": _Judge(_turned, {"x", "start", "positions", "out", "inverse", "workers"}),
    "Rotary.tables": _Judge(_tables, _TABLE),
    "alibi_slopes": _Judge(_slopes, {"heads"}),
    "alibi_bias": _Judge(_bias, {"heads", "q_len", "k_len", "causal", "dtype"}),
    "t5_buckets": _Judge(
        _buckets, {"q_len", "k_len", "bidirectional", "num_buckets", "max_distance"}
    ),
    "positions.from_lengths": _Judge(_each(_of_lengths, "lengths"), {"lengths"}),
    "positions.from_cu_seqlens": _Judge(_each(_of_offsets, "cu_seqlens"), {"cu_seqlens"}),
    "positions.from_segments": _Judge(_each(_of_segments, "segments"), {"segments"}),
    "positions.from_mask": _Judge(_each(_of_mask, "mask"), {"mask"}),
    "positions.from_ids": _Judge(_each(_of_ids, "ids"), {"ids", "padding_idx"}),
    **{
        f"look at {name}": _Judge(lambda a, r: None if r[1] else "not equal to its copy", set())
        for name in CLASSES
    },
    **{f"pickle {name}": _Judge(lambda a, r: _same_as(a.instance, r), set()) for name in CLASSES},
}


def _same_as(instance: Any, other: Any) -> str | None:
    return None if bits(instance) == bits(other) else f"{show(other)} of {show(instance)}"
