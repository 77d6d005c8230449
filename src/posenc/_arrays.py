"""What the arguments of a call may be: every check, once. The kernels trust what passes here."""

import contextlib
import itertools
import math
import numbers
import operator
from collections.abc import Iterable, Mapping
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from . import _backend

Array = npt.NDArray[Any]

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16))
_WANTED = "float64, float32, float16 or bfloat16"
_STREAM = 24 << 20  # bytes of output from which it is written past the caches
_ALIGNMENT = 64  # bytes: a cache line, an AVX-512 register, and what JAX takes without a copy


def integer(name: str, value: SupportsIndex, least: int | None = None) -> int:
    """``value`` as an int, at least ``least``."""
    try:
        result = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if least is not None and result < least:
        raise ValueError(f"{name} must be at least {least}, got {shown(result)}")
    return result


def float_dtype(dtype: npt.DTypeLike | None) -> np.dtype[Any]:
    """A dtype of `_WANTED`, in native byte order."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        try:
            import ml_dtypes  # noqa: F401 - from then on NumPy knows the name
        except ModuleNotFoundError:
            raise TypeError(
                "dtype bfloat16 needs the package ml_dtypes: pip install ml_dtypes"
            ) from None
    with contextlib.suppress(TypeError):
        result = np.dtype(dtype)
        if _is_float(result):
            return result
    raise TypeError(f"dtype must be {_WANTED} in native byte order, got {dtype!r}")


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype in _FLOATS or is_bfloat16(dtype)


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """By name, as ml_dtypes, whose type it is, is not required."""
    return dtype.itemsize == 2 and dtype.isnative and dtype.name == "bfloat16"


def working(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What is added in: float32 for 16 bits."""
    return _FLOATS[0] if dtype.itemsize == 2 else dtype


def plain_halves(array: Array) -> Array:
    """What the kernels take: of bfloat16 the bits, as uint16."""
    return array.view(np.uint16) if is_bfloat16(array.dtype) else array


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """A fresh C-contiguous array whose data begins at a multiple of 64 bytes."""
    buffer = np.empty(math.prod(shape) * dtype.itemsize + _ALIGNMENT, np.uint8)
    return _backend.kernels.aligned(buffer, shape, dtype)


def output(
    out: Array, shape: tuple[int, ...] | None = None, dtype: np.dtype[Any] | None = None
) -> Array:
    """``out`` as a plain ndarray, once a kernel may write to all of it.

    ``None`` for a shape or a dtype leaves it open.
    """
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out must be a NumPy array, got {type(out).__name__}")
    out = out.view(np.ndarray)  # of which nobody else can change the shape
    if not _is_float(out.dtype) or (dtype is not None and out.dtype != dtype):
        wanted = f"{_WANTED} in native byte order" if dtype is None else dtype
        raise TypeError(f"out must have dtype {wanted}, got {out.dtype}")
    if shape is not None and out.shape != shape:
        raise ValueError(f"out must have shape {shape}, got {out.shape}")
    if not out.flags.writeable:
        raise ValueError("out must be writeable, got a read-only array")
    if not out.flags.aligned:
        raise ValueError(f"out must be aligned for {out.dtype}, got an array that is not")
    if out.size and not out.flags.c_contiguous:
        if out.strides[-1] != out.itemsize:
            raise ValueError(
                f"out must have unit stride on its last axis ({out.itemsize} bytes), "
                f"got strides {out.strides}"
            )
        if _rows_overlap(out):
            raise ValueError(
                f"out must not overlap itself, got strides {out.strides} for shape {out.shape}"
            )
    return out


def result(
    out: Array | None, shape: tuple[int, ...], dtype: npt.DTypeLike | None
) -> tuple[Array, Array]:
    """``out``, or a fresh array of the dtype, float64 for ``None``; and the same as an ndarray."""
    wanted = None if dtype is None else float_dtype(dtype)
    if out is None:
        out = empty(shape, wanted or _FLOATS[1])
    return out, output(out, shape, wanted)


def streams(out: Array) -> bool:
    """Whether ``out`` is to be written past the caches, as it is larger than what is left of them."""
    return out.nbytes > _STREAM


def _rows_overlap(out: Array) -> bool:
    """Whether any two rows along the last axis share memory."""
    row = out.shape[-1] * out.itemsize
    axes = sorted(
        (abs(stride), length)
        for stride, length in zip(out.strides[:-1], out.shape[:-1], strict=True)
        if length > 1
    )
    span = row
    for stride, length in axes:
        if stride < span:
            break
        span += stride * (length - 1)
    else:
        return False
    # The axes are not nested in one another, which as_strided can make: look at every row.
    first = np.zeros((1,), np.intp)
    for stride, length in axes:
        first = np.add.outer(first, stride * np.arange(length)).ravel()
    return bool((np.diff(np.sort(first)) < row).any())


def addend(x: npt.ArrayLike) -> Array:
    """``x`` as an array of floats of any byte order, with two axes or more."""
    result = _floats("x", x)
    width("x", result)
    return result


def embeddings(name: str, weight: npt.ArrayLike) -> Array:
    """A table of embeddings as an array of floats of any byte order, with two axes."""
    result = _floats(name, weight)
    if result.ndim != 2:
        raise ValueError(f"{name} must have shape (rows, d_model), got shape {result.shape}")
    return result


def _floats(name: str, values: npt.ArrayLike) -> Array:
    result = np.asarray(values).view()  # of which nobody else can change the shape
    if not _is_float(result.dtype.newbyteorder("=")):
        raise TypeError(f"{name} must have dtype {_WANTED}, got {result.dtype}")
    return result


def width(name: str, array: Array) -> int:
    """The last axis of an array of rows."""
    if array.ndim < 2:
        raise ValueError(f"{name} must have shape (..., length, d_model), got shape {array.shape}")
    return int(array.shape[-1])


def in_place(x: Array, out: Array) -> bool:
    """Whether ``out`` is ``x``; ValueError where they share memory in any other way."""
    if not np.may_share_memory(x, out):
        return False
    if (
        x.dtype == out.dtype
        and x.ctypes.data == out.ctypes.data
        and all(
            a == b or length < 2
            for a, b, length in zip(x.strides, out.strides, x.shape, strict=True)
        )
    ):
        return True
    if overlap(x, out):
        raise ValueError("out must be x itself or share no memory with it, got a partial overlap")
    return False


def beside(
    x: Array, out: Array | None, read: Mapping[str, Array] | None = None
) -> tuple[Array, Array, Array]:
    """``out`` for an ``x``, fresh unless given; the same as an ndarray; ``x`` as the kernels read it.

    It shares no memory with what else is ``read``, by name. An ``x`` that the kernels cannot read is
    copied to it, so this comes after all other checks.
    """
    dtype = x.dtype.newbyteorder("=")
    if out is None:
        out = empty(x.shape, dtype)
    plain = output(out, x.shape, dtype)
    for name, array in (read or {}).items():
        apart(name, array, plain)
    if in_place(x, plain):
        return out, plain, plain
    if kernel_ready(x):
        return out, plain, x
    np.copyto(plain, x)
    return out, plain, plain


def apart(name: str, array: Array, out: Array) -> None:
    """ValueError where ``out`` shares memory with an array that is read at will."""
    if overlap(array, out):
        raise ValueError(f"out must share no memory with {name}, got an overlap")


def overlap(a: Array, b: Array) -> bool:
    """Whether two arrays share memory, or it is too hard to tell."""
    if not np.may_share_memory(a, b):
        return False
    try:
        return bool(np.shares_memory(a, b, max_work=1 << 16))  # type: ignore[arg-type]
    except RuntimeError:
        return True


def kernel_ready(x: Array) -> bool:
    """Whether the kernels can read ``x`` where it lies."""
    return _is_float(x.dtype) and x.flags.aligned and (x.strides[-1] == x.itemsize or x.size == 0)


def positions(values: npt.ArrayLike, limit: float) -> npt.NDArray[np.float64]:
    """Positions as a fresh C-contiguous array of float64, in which integers up to 2^53 are exact.

    Copied first, so that nobody can change them between the checks and the kernel.
    """
    own = np.array(values)
    kind = own.dtype.kind
    if kind not in "biuf" and not (
        kind == "O" and all(isinstance(p, numbers.Integral) for p in own.flat)
    ):
        raise TypeError(f"positions must be bool, integer or float, got dtype {own.dtype}")
    if own.size and kind != "b":
        # As Python numbers: in float64 an integer just beyond the limit would round to it.
        for extreme in (np.min(own), np.max(own)):
            number = extreme.item() if isinstance(extreme, np.generic) else extreme
            if not -limit <= number <= limit:
                raise ValueError(
                    f"positions must be finite and within {limit:.17g} of 0, got {shown(extreme)}"
                )
    return np.asarray(own, np.float64, order="C")


def integers(name: str, values: npt.ArrayLike) -> Array:
    """``values`` as an array of bool or of any integer dtype."""
    result = _integral(name, values, "bool or integer")
    if result.dtype.kind != "O":
        return result
    try:
        return result.astype(np.int64)
    except OverflowError:
        largest = max(result.flat, key=abs)
        raise ValueError(f"{name} must fit in int64, got {shown(largest)}") from None


def _integral(name: str, values: npt.ArrayLike, wanted: str) -> Array:
    """``values`` as an array of bool, of any integer dtype, or of Python's integers."""
    try:
        result = np.asarray(values)
    except ValueError as error:  # lists of several lengths, or nested too deep
        raise ValueError(f"{name} must be an array of integers: {error}") from None
    if result.dtype.kind in "biu":
        return result
    # NumPy makes floats of an empty list, and floats or objects of Python's integers from 2^63 on.
    own = result if isinstance(values, np.ndarray) else np.array(values, dtype=object)
    if own.dtype.kind != "O" or not all(isinstance(value, numbers.Integral) for value in own.flat):
        raise TypeError(f"{name} must be {wanted}, got dtype {result.dtype}")
    return own


def indices(name: str, values: npt.ArrayLike, count: int, of: str) -> npt.NDArray[np.int64]:
    """``values`` as a fresh array of int64 that index ``count`` things, with an axis or more."""
    own = np.array(_integral(name, values, "integer"), order="C")
    if own.dtype == np.bool_:
        raise TypeError(f"{name} must be integer, got dtype bool")
    if not own.ndim:
        raise ValueError(f"{name} must have shape (..., length), got shape ()")
    if own.size and not (own.min() >= 0 and own.max() < count):
        at = np.unravel_index(int(((own < 0) | (own >= count)).argmax()), own.shape)
        raise IndexError(
            f"{name} must be at least 0 and below {count}, the number of {of}, "
            f"got {shown(own[at])} at index {tuple(map(int, at))}"
        )
    return own.astype(np.int64, copy=False)


def switches(name: str, values: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Bool, or integers that are 0 and 1, as a fresh C-contiguous array of bool."""
    given = integers(name, values)
    if given.dtype != np.bool_ and not 0 <= np.bitwise_or.reduce(given, axis=None) <= 1:
        wrong = given[(given != 0) & (given != 1)][0]
        raise ValueError(f"{name} must be bool, or integers that are 0 and 1, got {wrong}")
    return np.not_equal(given, 0, order="C")


def start(first: SupportsIndex, length: int, limit: float) -> float:
    """The position of the first of ``length`` rows."""
    result = integer("start", first)
    last = result + max(length - 1, 0)
    if not -limit <= result <= last <= limit:
        raise ValueError(
            f"start must leave all {length} positions within {limit:.17g} of 0, got {shown(result)}"
        )
    return float(result)


def places(
    first: SupportsIndex, values: npt.ArrayLike | None, length: int, limit: float
) -> tuple[float, npt.NDArray[np.float64] | None]:
    """`start` of ``length`` rows and None, or 0 and `positions`: never both."""
    begin = start(first, length, limit)
    if values is None:
        return begin, None
    if begin:
        raise ValueError(f"start must be 0 where positions are given, got {first}")
    return 0.0, positions(values, limit)


def shown(number: Any) -> str:
    """A number for a message; Python refuses to print integers of thousands of digits."""
    if isinstance(number, int) and number.bit_length() > 1000:
        return f"an integer of {number.bit_length()} bits"
    return str(number)


def spread(name: str, values: Array, rows: tuple[int, ...]) -> Array:
    """Broadcast to the rows of x: over its leading axes, never along a sequence."""
    if values.ndim and values.shape[-1] == rows[-1] and values.ndim <= len(rows):
        with contextlib.suppress(ValueError):
            return np.broadcast_to(values, rows)
    raise ValueError(
        f"{name} must have shape (..., {rows[-1]}) and broadcast to {rows}, the rows, "
        f"got shape {values.shape}"
    )


def real(name: str, value: float | None, dtype: np.dtype[Any] = _FLOATS[1]) -> float:
    """A real scalar, rounded once to the dtype, as a float; arrays are refused."""
    if isinstance(value, np.generic) and _is_float(value.dtype):
        value = float(value)
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a real number, got {type(value).__name__}")
    if type(value) is float and value.is_integer() and -(2**24) <= value <= 2**24:
        return value  # exact in either dtype
    try:
        with np.errstate(all="ignore"):
            result = float(dtype.type(value))
    except OverflowError:
        raise ValueError(f"{name} must fit in a float64, got {shown(value)}") from None
    return math.nan if math.isnan(result) else result  # one NaN for all, see _halves.h


def finite(name: str, value: float, positive: bool = False) -> float:
    """A finite real scalar, as a float."""
    result = real(name, value)
    if not math.isfinite(result) or (positive and result <= 0):
        raise ValueError(f"{name} must be finite{' and positive' * positive}, got {result}")
    return result


def choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    """One of some strings."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}")
    return value


def boolean(name: str, value: bool) -> bool:
    """A bool, of Python or of NumPy."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be a bool, got {value!r}")
    return bool(value)


def vector(name: str, values: npt.ArrayLike) -> tuple[float, ...]:
    """Finite numbers with one axis, as floats."""
    given = np.asarray(values)
    if given.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be real numbers, got dtype {given.dtype}")
    if given.ndim != 1 or not given.size:
        raise ValueError(f"{name} must have one axis and an element, got shape {given.shape}")
    numbers = tuple(given.astype(np.float64).tolist())
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"{name} must be finite, got {numbers}")
    return numbers


def batches(leading: int, *arrays: Array | None) -> list[tuple[Any, ...]]:
    """The arrays with a single axis in place of their ``leading`` first, for the kernels.

    One tuple of views where these axes merge in every array, else one for each index of all but the
    last of them. An array may be None, and stays so.
    """
    if leading == 1:
        return [arrays]
    if leading == 0:
        return [tuple(a if a is None else a[np.newaxis] for a in arrays)]
    merged = [a if a is None else _merged(a, leading) for a in arrays]
    if all(a is None or m is not None for a, m in zip(arrays, merged, strict=True)):
        return [tuple(merged)]
    shape = next(a.shape for a in arrays if a is not None)
    return [
        tuple(a if a is None else a[index] for a in arrays)
        for index in np.ndindex(shape[: leading - 1])
    ]


def _merged(array: Array, leading: int) -> Array | None:
    """A view with a single axis in place of the ``leading`` first, where there is one."""
    shape, strides = array.shape, array.strides
    if array.flags.c_contiguous:  # which is much quicker
        return array.reshape(math.prod(shape[:leading]), *shape[leading:])
    axes = [i for i in range(leading) if shape[i] > 1]
    if any(strides[i] != strides[j] * shape[j] for i, j in itertools.pairwise(axes)):
        return None
    return np.lib.stride_tricks.as_strided(
        array,
        (math.prod(shape[:leading]), *shape[leading:]),
        (strides[axes[-1]] if axes else 0, *strides[leading:]),
    )


def sides(shape: Iterable[SupportsIndex]) -> tuple[int, ...]:
    """The shape of a grid of one axis or more."""
    result = tuple(integer("shape", side, least=0) for side in _several("shape", shape, "integers"))
    if not result:
        raise ValueError("shape must have an axis or more, got ()")
    return result


def permutation(name: str, values: Iterable[SupportsIndex], count: int) -> tuple[int, ...]:
    """Each of 0 to ``count - 1`` once."""
    result = tuple(integer(name, value) for value in _several(name, values, "integers"))
    if sorted(result) != list(range(count)):
        raise ValueError(
            f"{name} must be each of {', '.join(map(str, range(count)))}, got {result}"
        )
    return result


def coordinates(values: Iterable[npt.ArrayLike], shape: tuple[int, ...]) -> list[Array]:
    """An array for each axis of a grid, with a coordinate for each point there."""
    result = list(map(np.asarray, _several("coordinates", values, "arrays")))
    if len(result) != len(shape):
        raise ValueError(f"coordinates must be {len(shape)}, one for each axis, got {len(result)}")
    for axis, (where, side) in enumerate(zip(result, shape, strict=True)):
        if where.shape != (side,):
            raise ValueError(
                f"coordinates must have shape ({side},) on axis {axis}, got {where.shape}"
            )
        if where.dtype.kind not in "biuf":
            raise TypeError(f"coordinates must be bool, integer or float, got dtype {where.dtype}")
        if not np.isfinite(where).all():
            raise ValueError(f"coordinates must be finite, got {where[~np.isfinite(where)][0]}")
    return result


def _several(name: str, values: Iterable[Any], of: str) -> list[Any]:
    try:
        return list(values)
    except TypeError:
        raise TypeError(f"{name} must be a sequence of {of}, got {values!r}") from None


def between(name: str, value: SupportsIndex, least: int, most: int) -> int:
    """``value`` as an int from ``least`` to ``most``."""
    result = integer(name, value, least)
    if result > most:
        raise ValueError(f"{name} must be at most {most}, got {shown(result)}")
    return result


_MOST_BYTES = 2**63 - 1  # NumPy counts them in an int64


def addressable(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """``shape``, which depends on the argument ``name``, once NumPy can say how large it is.

    NumPy counts an empty array's other axes too. What is below may still be more than there is
    memory for.
    """
    elements = math.prod(max(side, 1) for side in shape)
    if elements * dtype.itemsize + _ALIGNMENT > _MOST_BYTES:
        raise ValueError(
            f"{name} must leave a result below 2**63 bytes, got {shown(elements)} entries"
        )
    return shape


def empty_as_integers(values: npt.ArrayLike) -> npt.ArrayLike:
    """``values``, or integers where they are an empty array of floats, NumPy's own of ``[]``."""
    if isinstance(values, np.ndarray) and not values.size and values.dtype.kind == "f":
        return np.empty(values.shape, np.int64)
    return values
