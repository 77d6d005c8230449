"""What the arrays of a call may be: every check, once. The kernels trust what passes here.

Arguments are converted first, as that may run code of the caller's, and checked after: `as_array`
converts, all else looks at what it gave, through NumPy's own functions alone. A kernel reads an
array either through a `plain` view made after the last conversion, or through a copy of our own.
"""

import contextlib
import itertools
import math
import numbers
import operator
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _backend
from ._checks import MOST_COLUMNS, shown, unmasked

Array = npt.NDArray[Any]

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16))
_WANTED = "float64, float32, float16 or bfloat16"
_STREAM = 24 << 20  # bytes of output from which it is written past the caches
_ALIGNMENT = 64  # bytes: a cache line, an AVX-512 register, and what JAX takes without a copy
# Axes that an array of NumPy may have, and a result has one more than its positions or ids.
MOST_AXES = 64 if int(np.__version__.partition(".")[0]) > 1 else 32
# What most lists hold, and no more need be asked of.
_NUMBERS = (int, float, bool)
# Beyond, float64 no longer has every integer.
_EXACT_INTEGERS = 2**53


def as_array(name: str, values: npt.ArrayLike, dtype: type | None = None) -> Array:
    """An array of what NumPy, or DLPack on the CPU, makes one of; with nothing in it masked.

    May be the caller's own, which the caller's code can still change: see `plain`.
    """
    if type(values) is np.ndarray:
        return values
    if issubclass(type(values), np.ndarray):
        unmasked(name, values)
        return values  # type: ignore[return-value]
    held = _held(name, values)
    try:
        result = np.asarray(held, dtype)
        if result.dtype == object and not result.ndim and hasattr(type(values), "__dlpack__"):
            result = np.from_dlpack(values)  # type: ignore[arg-type]
    except (MemoryError, RecursionError):
        raise
    except ValueError as error:  # of lists: their lengths differ, or they are nested too deep
        raise ValueError(
            f"{name} must be an array, or sequences of one length, got {_kind_of(values)}"
        ) from error
    except Exception as error:
        raise TypeError(f"{name} must be an array_like, got {_kind_of(values)}") from error
    return result


def _held(name: str, values: Any, depth: int = 0) -> Any:
    """Lists as tuples, all the way down: NumPy reads a list that changes amid its conversion, as by
    an element's ``__array__``, beyond its end."""
    if depth < MOST_AXES and _is_sequence(values):
        return tuple(
            [
                item if type(item) in _NUMBERS else _held(name, item, depth + 1)
                for item in items(values)
            ]
        )
    unmasked(name, values)
    return values


def _is_sequence(values: Any) -> bool:
    """Whether it is a list or a tuple, and not an object that says so of itself."""
    return issubclass(type(values), list | tuple)


def items(values: Any) -> list[Any]:
    """What a list or a tuple holds, whatever its subclass says."""
    own = list if issubclass(type(values), list) else tuple
    return list(own.__getitem__(values, slice(None)))


def _kind_of(values: Any) -> str:
    kind = type(values)
    builtin = kind.__module__ == "builtins"
    return shown(values) if builtin else f"{kind.__module__}.{kind.__qualname__}"[:80]


def plain(array: Array) -> Array:
    """A view of which nobody else can change the shape, whatever subclass the array is of."""
    return np.ndarray.view(array, np.ndarray)


def few_axes(name: str, array: Array) -> None:
    """ValueError where a result with an axis more could not be."""
    if array.ndim >= MOST_AXES:
        raise ValueError(f"{name} must have at most {MOST_AXES - 1} axes, got {array.ndim}")


def float_dtype(dtype: npt.DTypeLike | None) -> np.dtype[Any]:
    """A dtype of `_WANTED`, in native byte order."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        try:
            import ml_dtypes  # noqa: F401 - from then on NumPy knows the name
        except ModuleNotFoundError:
            raise TypeError(
                "dtype bfloat16 needs the package ml_dtypes: pip install ml_dtypes"
            ) from None
    try:
        result = np.dtype(dtype)
        if _is_float(result):
            return result
    except (MemoryError, RecursionError):
        raise
    except Exception:  # noqa: BLE001, S110 - whatever NumPy says of it, a SyntaxError even
        pass
    raise TypeError(f"dtype must be {_WANTED} in native byte order, got {shown(dtype)}")


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype in _FLOATS or is_bfloat16(dtype)


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """By its type, if that is imported: a name is what the type says of itself."""
    ml_dtypes = sys.modules.get("ml_dtypes")
    return ml_dtypes is not None and dtype.type is ml_dtypes.bfloat16 and dtype.isnative


def working(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What is added in: float32 for 16 bits."""
    return _FLOATS[0] if dtype.itemsize == 2 else dtype


def plain_halves(array: Array) -> Array:
    """What the kernels take: of bfloat16 the bits, as uint16."""
    return array.view(np.uint16) if is_bfloat16(array.dtype) else array


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], of: str = "length") -> Array:
    """A fresh C-contiguous array whose data begins at a multiple of 64 bytes.

    Its shape is that of the argument ``of``.
    """
    addressable(of, shape, dtype)
    size = math.prod(shape) * dtype.itemsize + _ALIGNMENT
    try:
        buffer = np.empty(size, np.uint8)
    except MemoryError:
        raise MemoryError(
            f"no memory for an array of shape {shown(shape)} and dtype {dtype}"
        ) from None
    return _backend.kernels.aligned(buffer, shape, dtype)


def output(
    out: Array, shape: tuple[int, ...] | None = None, dtype: np.dtype[Any] | None = None
) -> Array:
    """``out`` as a plain ndarray, once a kernel may write to all of it.

    ``None`` for a shape or a dtype leaves it open.
    """
    if not issubclass(type(out), np.ndarray):
        raise TypeError(f"out must be a NumPy array, got {type(out).__name__}")
    unmasked("out", out)
    out = plain(out)
    if not _is_float(out.dtype) or (dtype is not None and out.dtype != dtype):
        wanted = f"{_WANTED} in native byte order" if dtype is None else dtype
        raise TypeError(f"out must have dtype {wanted}, got {shown(out.dtype)}")
    if shape is not None and out.shape != shape:
        raise ValueError(f"out must have shape {shown(shape)}, got {shown(out.shape)}")
    if not out.flags.writeable:
        raise ValueError("out must be writeable, got a read-only array")
    if not out.flags.aligned:
        raise ValueError(f"out must be aligned for {out.dtype}, got an array that is not")
    if out.size and not out.flags.c_contiguous:
        if out.strides[-1] != out.itemsize:
            raise ValueError(
                f"out must have unit stride on its last axis ({out.itemsize} bytes), "
                f"got strides {shown(out.strides)}"
            )
        if _rows_overlap(out):
            raise ValueError(
                f"out must not overlap itself, got strides {shown(out.strides)} for shape "
                f"{shown(out.shape)}"
            )
    return out


def result(
    out: Array | None, shape: tuple[int, ...], dtype: npt.DTypeLike | None, of: str = "length"
) -> tuple[Array, Array]:
    """``out``, or a fresh array of the dtype, float64 for ``None``; and the same as an ndarray."""
    wanted = None if dtype is None else float_dtype(dtype)
    if out is None:
        out = empty(shape, wanted or _FLOATS[1], of)
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
    # Two axes interleave, as as_strided allows. If the rows need more memory than they span, some
    # overlap; else compare the addresses of all rows.
    lengths = [length for _, length in axes]
    if row * math.prod(lengths) > row + sum(stride * (length - 1) for stride, length in axes):
        return True
    first = np.zeros((1,), np.intp)
    for stride, length in axes:
        first = np.add.outer(first, stride * np.arange(length, dtype=np.intp)).ravel()
    return bool((np.diff(np.sort(first)) < row).any())


def addend(x: Array, columns: int | None = None) -> Array:
    """A plain view of ``x``: floats of any byte order, with two axes or more, the last of `columns`."""
    result = _floats("x", x)
    if columns not in (None, width("x", result)):
        raise ValueError(f"x must have last axis {columns}, got shape {shown(result.shape)}")
    return result


def embeddings(name: str, weight: Array, columns: int | None = None) -> Array:
    """A plain view of a table of embeddings: floats of any byte order, with two axes."""
    result = _floats(name, weight)
    if result.ndim != 2:
        raise ValueError(f"{name} must have shape (rows, d_model), got shape {shown(result.shape)}")
    if columns not in (None, result.shape[-1]):
        raise ValueError(f"{name} must have last axis {columns}, got shape {result.shape}")
    return result


def _floats(name: str, array: Array) -> Array:
    result = plain(array)
    if not _is_float(result.dtype.newbyteorder("=")):
        raise TypeError(f"{name} must have dtype {_WANTED}, got {shown(result.dtype)}")
    return result


def width(name: str, array: Array) -> int:
    """The last axis of an array of rows."""
    shape = plain(array).shape
    if len(shape) < 2:
        raise ValueError(f"{name} must have shape (..., length, d_model), got shape {shape}")
    return int(shape[-1])


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
        out = empty(x.shape, dtype, "x")
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


def positions(
    values: npt.ArrayLike, limit: float, name: str = "positions"
) -> npt.NDArray[np.float64]:
    """Positions as a fresh C-contiguous array of float64, in which integers up to 2^53 are exact.

    Copied first, so that nobody can change them between the checks and the kernel.
    """
    own = np.array(plain(as_array(name, values)), order="C")
    if own.dtype == object:
        own = _python_integers(name, own, "bool, integer or float")
    elif not _is_real(own.dtype):
        raise TypeError(f"{name} must be bool, integer or float, got dtype {shown(own.dtype)}")
    elif own.dtype.kind == "V":
        own = own.astype(np.float64)
    if own.size:
        # As Python numbers: in float64 an integer just beyond the limit would round to it.
        extremes = [own.min(), own.max()]
        extremes += _rounded_integers(name, values, own)
        for extreme in extremes:
            number = extreme.item() if isinstance(extreme, np.generic) else extreme
            if not -limit <= number <= limit:
                reason = ", as far as its frequencies go" * (limit < _EXACT_INTEGERS)
                raise ValueError(
                    f"{name} must be finite and within {limit:.17g} of 0{reason}, "
                    f"got {shown(number)}"
                )
    return np.asarray(own, np.float64, order="C")


def _is_real(dtype: np.dtype[Any]) -> bool:
    """Whether it holds real numbers that float64 has: of NumPy, or as bfloat16 of ml_dtypes."""
    return dtype.kind in "biuf" or (dtype.kind == "V" and np.can_cast(dtype, np.float64))


def _rounded_integers(name: str, values: npt.ArrayLike, own: Array) -> list[int]:
    """The integers of a list in which NumPy has made floats of them, where that may have rounded."""
    if not _is_sequence(values) or own.dtype.kind != "f":
        return []
    if not (np.abs(own) >= _EXACT_INTEGERS).any():
        return []
    given = as_array(name, values, object).ravel().tolist()
    return [operator.index(value) for value in given if isinstance(value, numbers.Integral)]


def _python_integers(name: str, own: Array, wanted: str) -> Array:
    """An array of objects, each an integer, as one of Python's own ints."""
    ints = []
    for value in own.ravel().tolist():
        try:
            if not isinstance(value, numbers.Integral):
                raise TypeError
            ints.append(operator.index(value))
        except TypeError:
            kind = "float64" if type(value) is float else "object"
            raise TypeError(f"{name} must be {wanted}, got dtype {kind}") from None
        if int(value) != ints[-1]:  # a subclass, of which either might be meant
            raise TypeError(
                f"{name} must be {wanted}, got an object that is {shown(ints[-1])} as an index and "
                f"{shown(int(value))} as an int"
            )
    result = np.empty(len(ints), dtype=object)
    result[:] = ints
    return result.reshape(own.shape)


def integers(name: str, values: npt.ArrayLike, *, bools: bool = False) -> Array:
    """``values`` as an array of any integer dtype, or of bool where ``bools``."""
    result = _integral(name, values, bools)
    if result.dtype.kind != "O":
        return result
    try:
        return result.astype(np.int64)
    except OverflowError:
        largest = max(result.ravel().tolist(), key=abs)
        raise ValueError(f"{name} must fit in int64, got {shown(largest)}") from None


def _integral(name: str, values: npt.ArrayLike, bools: bool = False) -> Array:
    """``values`` as an array of any integer dtype, or of Python's own ints; of bool if ``bools``."""
    wanted = "bool or integer" if bools else "integer"
    result = plain(as_array(name, values))
    if result.dtype.kind in ("biu" if bools else "iu"):
        return result
    if not result.size and result.dtype.kind == "f":  # NumPy's dtype of an empty list
        return result.astype(np.int64)
    if result.dtype.kind == "f" and _is_sequence(values):
        result = as_array(name, values, object)  # integers from 2^63 on are floats beside others
    if result.dtype != object:
        raise TypeError(f"{name} must be {wanted}, got dtype {shown(result.dtype)}")
    return _python_integers(name, result, wanted)


def indices(name: str, values: npt.ArrayLike) -> Array:
    """``values`` as a fresh array of integers, with an axis or more: see `within`."""
    own = np.array(_integral(name, values), order="C")
    if not own.ndim:
        raise ValueError(f"{name} must have shape (..., length), got shape ()")
    return own


def within(name: str, own: Array, count: int, of: str) -> npt.NDArray[np.int64]:
    """`indices` as int64, once each is that of one of ``count`` things."""
    if own.size and not (own.min() >= 0 and own.max() < count):
        at = np.unravel_index(int(((own < 0) | (own >= count)).argmax()), own.shape)
        raise IndexError(
            f"{name} must be at least 0 and below {count}, the number of {of}, "
            f"got {shown(own[at])} at index {shown(tuple(map(int, at)))}"
        )
    return own.astype(np.int64, copy=False)


def switches(name: str, values: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Bool, or integers that are 0 and 1, as a fresh C-contiguous array of bool."""
    given = integers(name, values, bools=True)
    if given.dtype != np.bool_ and not 0 <= np.bitwise_or.reduce(given, axis=None) <= 1:
        wrong = given[(given != 0) & (given != 1)][0]
        raise ValueError(f"{name} must be bool, or integers that are 0 and 1, got {wrong}")
    return np.array(np.not_equal(given, 0), order="C")


def start(first: int, length: int, limit: float, of: str | None = None) -> float:
    """The position of the first of ``length`` rows: those of an argument, or an argument itself."""
    reach = int(limit)
    if -reach <= first and first + max(length - 1, 0) <= reach:
        return float(first)
    most = reach + 1 if first == 0 else 2 * reach + 1
    if length > most:
        what = "length must be" if of is None else f"{of} must have a length of"
        raise ValueError(
            f"{what} at most {most}, as frequencies are resolved at positions up to {reach}, "
            f"got {shown(length)}"
        )
    raise ValueError(
        f"start must leave all {length} positions within {reach} of 0, got {shown(first)}"
    )


def spread(name: str, values: Array, rows: tuple[int, ...]) -> Array:
    """Broadcast to the rows of x: over its leading axes, never along a sequence."""
    if values.ndim and values.shape[-1] == rows[-1] and values.ndim <= len(rows):
        with contextlib.suppress(ValueError):
            return np.broadcast_to(values, rows)
    raise ValueError(
        f"{name} must have shape (..., {rows[-1]}) and broadcast to {shown(rows)}, the rows, "
        f"got shape {shown(values.shape)}"
    )


def rounded(number: float | np.floating[Any], dtype: np.dtype[Any]) -> float:
    """A real number, rounded once to the dtype, as a float."""
    if type(number) is float and number.is_integer() and -(2**24) <= number <= 2**24:
        return number  # exact in either dtype
    with np.errstate(all="ignore"):
        result = float(dtype.type(number))
    return math.nan if math.isnan(result) else result  # one NaN for all, see _halves.h


def vector(name: str, values: npt.ArrayLike) -> tuple[float, ...]:
    """Finite numbers with one axis, as floats."""
    own = np.array(plain(as_array(name, values)))
    if not _is_real(own.dtype) or own.dtype == np.bool_:
        raise TypeError(f"{name} must be real numbers, got dtype {shown(own.dtype)}")
    if own.ndim != 1 or not own.size:
        raise ValueError(f"{name} must have one axis and an element, got shape {shown(own.shape)}")
    if own.size > MOST_COLUMNS:
        raise ValueError(f"{name} must be at most {MOST_COLUMNS} numbers, got {own.size}")
    numbers = tuple((own.astype(np.float64) + 0.0).tolist())  # -0.0 is 0.0
    for number in numbers:
        if not math.isfinite(number):
            raise ValueError(f"{name} must be finite, got {number}")
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
