"""Whatever NumPy can read as an array gives the bits of that array, in every argument of every call.

That is what has `__array__`, `__array_interface__`, `__dlpack__`, a buffer or items. Every warning is
an error here: NumPy 2 warns where it asks for a copy of what has an `__array__` without ``copy=``, as
all had that were written for NumPy 1 (numpy/numpy#25941).
"""

import array
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from arrays import ALL, Array, assert_same_bits, byte_swapped

import posenc


class OldArray:
    """As NumPy 1 wanted them."""

    def __init__(self, values: Array) -> None:
        self.values = values

    def __array__(self, dtype: Any = None) -> Array:
        return self.values if dtype is None else self.values.astype(dtype)


class NewArray:
    """As NumPy 2 wants them: it may be asked for a copy."""

    def __init__(self, values: Array) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        result = self.values if dtype is None else self.values.astype(dtype)
        return result.copy() if copy else result


class Interface:
    def __init__(self, values: Array) -> None:
        self.values = values

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.values.__array_interface__


class DLPack:
    """With the keywords that are there since 2023: max_version, dl_device and copy."""

    def __init__(self, values: Array) -> None:
        self.values = values

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.values.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # kDLCPU


class OldDLPack:
    """Without them."""

    def __init__(self, values: Array) -> None:
        self.values = values

    def __dlpack__(self, stream: None = None) -> Any:
        return self.values.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class Items:
    """A sequence, and no list."""

    def __init__(self, values: Array) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> Any:
        item = self.values[index]
        return Items(item) if item.ndim else item.item()


class Subclass(np.ndarray):
    pass


def items(values: Array) -> Any:
    return Items(values) if values.ndim else values.item()


def arrays(values: Array) -> Any:
    """The lists of one axis as `array.array`."""
    if values.ndim > 1:
        return [arrays(item) for item in values]
    if values.ndim == 0:
        return values.item()
    return array.array(values.dtype.char, values.tolist())


FORMS: dict[str, Callable[[Array], Any]] = {
    "__array__ of NumPy 1": OldArray,
    "__array__ of NumPy 2": NewArray,
    "__array_interface__": Interface,
    "__dlpack__": DLPack,
    "__dlpack__ without keywords": OldDLPack,
    "items": items,
    "lists": lambda values: values.tolist(),
    "tuples": lambda values: tuple(values.tolist()) if values.ndim else values.item(),
    "array.array": arrays,
    "memoryview": lambda values: values.data,
    "subclass": lambda values: values.view(Subclass),
    "masked, with nothing masked": np.ma.MaskedArray,
    "masked, with a mask of False": lambda values: np.ma.MaskedArray(
        values, np.zeros_like(values, bool)
    ),
}


class Argument(NamedTuple):
    """An argument, what it is given as an array, and a call with it."""

    name: str
    values: Array
    call: Callable[[Any], Any]


_random = np.random.default_rng(7)
X = _random.standard_normal((2, 3, 8))
WEIGHT = _random.standard_normal((9, 8))
IDS = np.array([[8, 0, 3], [1, 1, 7]])
WHERE = np.array([[0.5, 1e4, -3.0], [1.0, 2.0, 3.0]])
ROWS = np.array([[0, 8, 3], [5, 5, 1]])
MASK = np.array([[1, 0, 1], [0, 1, 1]])
THETA = np.array([1.0, 0.5, 0.1, 0.002])
AXES = np.array([0, 1, 1, 0])
SINUSOIDAL = posenc.Sinusoidal(8)
LEARNED = posenc.Learned(WEIGHT)
ROTARY = posenc.Rotary(8)
OUT = np.empty((3, 8))

ARGUMENTS = {
    "add, x": Argument("x", X, lambda a: ALL.add(a)),
    "add, x and out": Argument("x", X, lambda a: ALL.add(a, out=np.empty_like(X))),
    "add, positions": Argument("positions", WHERE, lambda a: ALL.add(X, positions=a)),
    "add, mask": Argument("mask", MASK, lambda a: ALL.add(X, mask=a)),
    "add, frequencies": Argument("frequencies", THETA, lambda a: ALL.add(X, frequencies=a)),
    "embed, ids": Argument("ids", IDS, lambda a: ALL.embed(a, WEIGHT)),
    "embed, ids of one sequence": Argument("ids", IDS[0], lambda a: ALL.embed(a, WEIGHT)),
    "embed, weight": Argument("weight", WEIGHT, lambda a: ALL.embed(IDS, a)),
    "embed, positions": Argument("positions", WHERE, lambda a: ALL.embed(IDS, WEIGHT, positions=a)),
    "embed, mask": Argument("mask", MASK, lambda a: ALL.embed(IDS, WEIGHT, mask=a)),
    "embed, frequencies": Argument(
        "frequencies", THETA, lambda a: ALL.embed(IDS, WEIGHT, frequencies=a)
    ),
    "encode, positions": Argument("positions", WHERE, lambda a: ALL.encode(a, 8)),
    "encode, whole positions": Argument("positions", ROWS, lambda a: ALL.encode(a, 8)),
    "encode, positions of one sequence": Argument(
        "positions", WHERE[1], lambda a: ALL.encode(a, 8)
    ),
    "encode, one position": Argument("positions", np.array(3.5), lambda a: ALL.encode(a, 8)),
    "encode, frequencies": Argument(
        "frequencies", THETA, lambda a: ALL.encode(WHERE, 8, frequencies=a)
    ),
    "fill, frequencies": Argument("frequencies", THETA, lambda a: ALL.fill(OUT, frequencies=a)),
    "positional_encoding, frequencies": Argument(
        "frequencies", THETA, lambda a: ALL.positional_encoding(3, 8, frequencies=a)
    ),
    "relative_encoding, frequencies": Argument(
        "frequencies", THETA, lambda a: ALL.relative_encoding(3, 8, frequencies=a)
    ),
    "grid_encoding, coordinates": Argument(
        "coordinates", THETA, lambda a: ALL.grid_encoding((2, 4), 8, coordinates=[[7, 5], a])
    ),
    "grid_encoding, frequencies": Argument(
        "frequencies", THETA, lambda a: ALL.grid_encoding((2, 4), 16, frequencies=a)
    ),
    "Sinusoidal, frequencies": Argument(
        "frequencies", THETA, lambda a: ALL.Sinusoidal(8, frequencies=a).table(3)
    ),
    "Sinusoidal.preset, frequencies": Argument(
        "frequencies", THETA, lambda a: ALL.Sinusoidal.preset("gptj", 8, frequencies=a).table(3)
    ),
    "Sinusoidal.encode, positions": Argument("positions", WHERE, lambda a: SINUSOIDAL.encode(a)),
    "Sinusoidal.add, x": Argument("x", X, lambda a: SINUSOIDAL.add(a)),
    "Sinusoidal.add, x and out": Argument(
        "x", X, lambda a: SINUSOIDAL.add(a, out=np.empty_like(X))
    ),
    "Sinusoidal.add, positions": Argument(
        "positions", WHERE, lambda a: SINUSOIDAL.add(X, positions=a)
    ),
    "Sinusoidal.add, mask": Argument("mask", MASK, lambda a: SINUSOIDAL.add(X, mask=a)),
    "Sinusoidal.embed, ids": Argument("ids", IDS, lambda a: SINUSOIDAL.embed(a, WEIGHT)),
    "Sinusoidal.embed, weight": Argument("weight", WEIGHT, lambda a: SINUSOIDAL.embed(IDS, a)),
    "Learned, weight": Argument("weight", WEIGHT, lambda a: ALL.Learned(a).weight),
    "Learned.add, x": Argument("x", X, lambda a: LEARNED.add(a)),
    "Learned.add, positions": Argument("positions", ROWS, lambda a: LEARNED.add(X, positions=a)),
    "Learned.add, mask": Argument("mask", MASK, lambda a: LEARNED.add(X, mask=a)),
    "Learned.embed, ids": Argument("ids", IDS, lambda a: LEARNED.embed(a, WEIGHT)),
    "Learned.embed, token_weight": Argument(
        "token_weight", WEIGHT[1:], lambda a: LEARNED.embed(MASK, a)
    ),
    "Learned.embed, positions": Argument(
        "positions", ROWS, lambda a: LEARNED.embed(IDS, WEIGHT, positions=a)
    ),
    "Learned.embed, mask": Argument("mask", MASK, lambda a: LEARNED.embed(IDS, WEIGHT, mask=a)),
    "Rotary, frequencies": Argument(
        "frequencies", THETA, lambda a: ALL.Rotary(8, base=None, frequencies=a).rotate(X)
    ),
    "Rotary, axes": Argument(
        "axes", AXES, lambda a: ALL.Rotary(8, axes=a).rotate(X[0], positions=WHERE)
    ),
    "Rotary.tables, positions": Argument("positions", WHERE, lambda a: ROTARY.tables(positions=a)),
    "Rotary.rotate, x": Argument("x", X, lambda a: ROTARY.rotate(a)),
    "Rotary.rotate, x and out": Argument("x", X, lambda a: ROTARY.rotate(a, out=np.empty_like(X))),
    "Rotary.rotate, positions": Argument(
        "positions", WHERE, lambda a: ROTARY.rotate(X, positions=a)
    ),
    "from_lengths": Argument("lengths", np.array([3, 0, 2]), posenc.positions.from_lengths),
    "from_cu_seqlens": Argument(
        "cu_seqlens", np.array([0, 3, 3, 5]), posenc.positions.from_cu_seqlens
    ),
    "to_lengths": Argument(
        "position_ids", np.array([0, 1, 0, 1, 2]), lambda a: ALL.positions.to_lengths(a)
    ),
    "to_cu_seqlens": Argument(
        "position_ids", np.array([[0, 1, 0, 1, 2]]), lambda a: ALL.positions.to_cu_seqlens(a)
    ),
    "alibi_bias, q_positions": Argument(
        "q_positions", ROWS, lambda a: ALL.alibi_bias(2, q_positions=a)
    ),
    "alibi_bias, k_positions": Argument(
        "k_positions", ROWS, lambda a: ALL.alibi_bias(2, q_positions=MASK, k_positions=a)
    ),
    "t5_buckets, q_positions": Argument(
        "q_positions", ROWS, lambda a: ALL.t5_buckets(q_positions=a)
    ),
    "t5_buckets, k_positions": Argument(
        "k_positions", ROWS[0], lambda a: ALL.t5_buckets(q_positions=IDS[0], k_positions=a)
    ),
    "from_segments": Argument("segments", IDS, posenc.positions.from_segments),
    "from_segments, one sequence": Argument("segments", IDS[0], posenc.positions.from_segments),
    "from_mask": Argument("mask", MASK, posenc.positions.from_mask),
    "from_mask, one sequence": Argument("mask", MASK[0], posenc.positions.from_mask),
    "from_ids": Argument("ids", IDS, lambda a: posenc.positions.from_ids(a, 1)),
    "from_ids, one sequence": Argument("ids", IDS[0], lambda a: posenc.positions.from_ids(a, 1)),
}


def assert_same(got: Any, expected: Any) -> None:
    """Of a call that returns an array or several."""
    assert type(got) is type(expected)
    several = isinstance(expected, tuple)
    for one, other in zip(*(x if several else (x,) for x in (got, expected)), strict=True):
        assert type(one) is type(other) is np.ndarray
        assert_same_bits(one, other)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_an_array_like_gives_the_bits_of_its_array(argument: str, form: str) -> None:
    _, values, call = ARGUMENTS[argument]
    own = values.copy()
    assert_same(call(FORMS[form](own)), call(values))
    assert own.tobytes() == values.tobytes()


# Right or wrong, what is asked of an array and of what stands for one is the same.
VARIANTS: dict[str, Callable[[Array], Array]] = {
    "float32": lambda values: values.astype(np.float32),
    "float16": lambda values: values.astype(np.float16),
    "int32": lambda values: values.astype(np.int32),
    "uint8": lambda values: np.abs(values).astype(np.uint8),
    "bool": lambda values: values != 0,
    "complex": lambda values: values.astype(np.complex64),
    "text": lambda values: values.astype(str),
    "dates": lambda values: values.astype(np.int64).view("M8[s]"),
    "fields": lambda values: values.view([("value", values.dtype)]),
    "Python numbers": lambda values: values.astype(object),
    "another byte order": byte_swapped,
    "steps back": lambda values: values[..., ::-1] if values.ndim else values,
    "nothing": lambda values: values[:0] if values.ndim else values,
    "an axis more": lambda values: values[np.newaxis],
    "an axis less": lambda values: values[0, ...] if values.ndim else values,
    "NaN": lambda values: np.full(values.shape, np.nan),
    "large": lambda values: np.full(values.shape, 2**63, np.uint64),
}


@pytest.mark.parametrize("form", ["__array__ of NumPy 1", "__array_interface__"])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_an_array_like_is_refused_as_its_array_is(argument: str, variant: str, form: str) -> None:
    _, values, call = ARGUMENTS[argument]
    given = np.asarray(VARIANTS[variant](values))
    expected, got = outcome(call, given), outcome(call, FORMS[form](given))
    if isinstance(expected, Exception):
        assert (type(got), str(got)) == (type(expected), str(expected))
    else:
        assert not isinstance(got, Exception), got
        assert_same(got, expected)


def outcome(call: Callable[[Any], Any], given: Any) -> Any:
    try:
        return call(given)
    except (TypeError, ValueError, IndexError) as error:
        return error


def refused(argument: str, given: Any) -> str:
    """The message, which begins with the argument's name and is no library's own."""
    name, _, call = ARGUMENTS[argument]
    with pytest.raises((TypeError, ValueError)) as caught:
        call(given)
    message = str(caught.value)
    assert re.match(rf"{name}(\[\d\])? must ", message), message
    assert len(message) <= 300
    return message


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_masked_elements_are_refused(argument: str) -> None:
    """Their values are arbitrary, and NumPy hands them over in silence: numpy/numpy#26669."""
    _, values, _ = ARGUMENTS[argument]
    mask = np.zeros(values.shape, bool)
    mask[(-1,) * mask.ndim] = True
    refused(argument, np.ma.MaskedArray(values, mask))
    refused(argument, np.ma.MaskedArray(values, True))


class Raising:
    """As a tensor that requires its gradient, or one without data."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        raise self.error


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Can't call numpy() on Tensor that requires grad."),
        TypeError("Cannot copy out of meta tensor; no data!"),
        NotImplementedError("quantized"),
        ValueError("no " * 1000),
        AttributeError("values"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_what_cannot_be_made_an_array_is_refused_by_name(argument: str, error: Exception) -> None:
    message = refused(argument, Raising(error))
    assert str(error) not in message


class OnAnotherDevice:
    def __dlpack__(self, **keywords: Any) -> Any:
        raise BufferError("Cannot export an array from the device")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0  # kDLCUDA


class WithoutColumns:
    """On this device, and of a kind that there is no array for."""

    def __dlpack__(self, **keywords: Any) -> Any:
        raise BufferError("unsupported")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class Claiming:
    """With an interface that is none."""

    __array_interface__ = "float64"


class Wrong:
    """`__array__` that returns none."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return [1.0, 2.0]


@pytest.mark.parametrize(
    "kind", [OnAnotherDevice, WithoutColumns, Claiming, Wrong, object, dict, set]
)
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_what_is_no_array_is_refused_by_name(argument: str, kind: type) -> None:
    refused(argument, kind())


class Index:
    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


INTEGERS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "length": (3, lambda n: ALL.positional_encoding(n, 8)),
    "d_model": (8, lambda n: ALL.encode(WHERE, n)),
    "start": (2, lambda n: ALL.add(X, start=n)),
    "start of learned": (2, lambda n: LEARNED.add(X, start=n)),
    "start of a rotation": (2, lambda n: ROTARY.rotate(X, start=n)),
    "workers": (2, lambda n: ALL.add(X, workers=n)),
    "length of a relative encoding": (3, lambda n: ALL.relative_encoding(n, 8)),
    "a side": (3, lambda n: ALL.grid_encoding((n, 2), 8)),
    "extra_rows": (3, lambda n: ALL.grid_encoding((2, 2), 8, extra_rows=n)),
    "an axis": (1, lambda n: ALL.grid_encoding((2, 2), 8, axes=(n, 0))),
    "dim": (8, lambda n: ALL.Rotary(n).rotate(X)),
    "length of tables": (3, lambda n: ROTARY.tables(n)),
    "heads": (6, lambda n: ALL.alibi_slopes(n)),
    "q_len": (6, lambda n: ALL.alibi_bias(2, n, 7)),
    "k_len": (6, lambda n: ALL.t5_buckets(2, n)),
    "num_buckets": (6, lambda n: ALL.t5_buckets(9, 9, num_buckets=n)),
    "max_distance": (64, lambda n: ALL.t5_buckets(9, 9, max_distance=n)),
    "padding_idx": (1, lambda n: posenc.positions.from_ids(IDS, n)),
}


@pytest.mark.parametrize("form", [Index, np.array, np.int8, np.uint64])
@pytest.mark.parametrize("argument", INTEGERS)
def test_integers_are_what_has_an_index(argument: str, form: Callable[[int], Any]) -> None:
    """Numbers of a length often come as an array of no axes, or as one element of an array."""
    value, call = INTEGERS[argument]
    assert_same(call(form(value)), call(value))
    for no_integer in (
        np.float64(value),
        np.array(float(value)),
        np.array([value, value]),
        str(value),
    ):
        with pytest.raises(TypeError, match="must be an integer"):
            call(no_integer)


REALS: dict[str, Callable[[Any], Any]] = {
    "scale": lambda value: ALL.add(X, scale=value),
    "base": lambda value: ALL.positional_encoding(3, 8, base=value),
    "base of a rotation": lambda value: ALL.Rotary(8, base=value).rotate(X),
    "shift": lambda value: ALL.positional_encoding(3, 8, shift=value),
    "freq_scale": lambda value: ALL.positional_encoding(3, 8, freq_scale=value),
    "amplitude": lambda value: ALL.positional_encoding(3, 8, amplitude=value),
    "attention_factor": lambda value: ALL.Rotary(8, attention_factor=value).rotate(X),
}


@pytest.mark.parametrize(
    "form",
    [int, np.float64, np.float32, np.float16, np.int64, np.uint8, Decimal, Fraction, np.array],
)
@pytest.mark.parametrize("argument", REALS)
def test_reals_are_what_has_a_float(argument: str, form: Callable[[float], Any]) -> None:
    assert_same(REALS[argument](form(2)), REALS[argument](2.0))


@pytest.mark.parametrize(
    "value",
    [
        "2",
        2j,
        np.complex64(2),
        True,
        np.True_,
        np.array(True),
        np.array([2.0]),
        np.array(2j),
        [2.0],
    ],
    ids=repr,
)
@pytest.mark.parametrize("argument", REALS)
def test_what_is_no_real_number_is_refused_by_name(argument: str, value: Any) -> None:
    """A bool is a mistake, and of a complex number a part would be lost."""
    with pytest.raises(TypeError) as caught:
        REALS[argument](value)
    assert str(caught.value).startswith(f"{argument.split()[0]} must be a real number, got ")
