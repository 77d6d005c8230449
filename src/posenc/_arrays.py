"""The checks of a call's arrays: each is made once, here, and the kernels rely on it.

Conversion comes first, as it may run code of the caller's: `as_array` converts, and all that follows
uses NumPy's own functions on the result. A kernel reads an array either through an `as_plain` view,
made after the last conversion, or through a copy of our own.
"""

import math
import numbers
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _backend
from ._checks import MAX_COLUMNS, shown, unmasked
from ._formats import NAMES, float_dtype, is_float

Array = npt.NDArray[Any]

_FLOAT64 = np.dtype(np.float64)
_STREAM_BYTES = 24 << 20  # bytes of output from which non-temporal stores are faster
_ALIGNMENT = 64  # bytes: a cache line, an AVX-512 register, and what JAX takes without a copy
_MAX_BYTES = 2**63 - 1  # NumPy counts them in an int64
# The most axes that an array of NumPy has.
MAX_AXES = 64 if int(np.__version__.partition(".")[0]) > 1 else 32
# The types of most elements of lists: these need no further conversion.
_NUMBERS = (int, float, bool)
# float64 has every integer up to here.
_EXACT_INTEGERS = 2**53


def as_array(name: str, values: npt.ArrayLike, dtype: type | None = None) -> Array:
    """Whatever NumPy, or DLPack on the CPU, makes an array of; masked elements are refused.

    It may be the caller's own array, which the caller's code can still change: see `as_plain`.
    """
    if type(values) is np.ndarray:
        return values
    if issubclass(type(values), np.ndarray):
        unmasked(name, values)
        return values  # type: ignore[return-value]
    tuples = _as_tuples(name, values)
    try:
        result = np.asarray(tuples, dtype)
        if result.dtype == object and not result.ndim and hasattr(type(values), "__dlpack__"):
            result = np.from_dlpack(values)  # type: ignore[arg-type]
    except (MemoryError, RecursionError):
        raise
    except ValueError as error:  # of lists: their lengths differ, or they are nested too deep
        raise ValueError(
            f"{name} must be an array, or sequences of one length, got {_describe(values)}"
        ) from error
    except Exception as error:
        raise TypeError(f"{name} must be an array_like, got {_describe(values)}") from error
    return result


def _as_tuples(name: str, values: Any, depth: int = 0) -> Any:
    """Lists as tuples, at every depth.

    While NumPy converts a list, an element's ``__array__`` can shorten it, and NumPy then reads
    beyond its end.
    """
    if depth < MAX_AXES and _is_sequence(values):
        return tuple(
            [
                item if type(item) in _NUMBERS else _as_tuples(name, item, depth + 1)
                for item in elements(values)
            ]
        )
    unmasked(name, values)
    return values


def _is_sequence(values: Any) -> bool:
    """Whether this is a list or a tuple: by its type, as ``__class__`` can be anything."""
    return issubclass(type(values), list | tuple)


def elements(values: Any) -> list[Any]:
    """The elements of a list or a tuple; methods of a subclass are not called."""
    own = list if issubclass(type(values), list) else tuple
    return list(own.__getitem__(values, slice(None)))


def _describe(values: Any) -> str:
    kind = type(values)
    builtin = kind.__module__ == "builtins"
    return shown(values) if builtin else f"{kind.__module__}.{kind.__qualname__}"[:80]


def as_plain(array: Array) -> Array:
    """A view as an ndarray proper, whose shape the caller's code cannot change."""
    return np.ndarray.view(array, np.ndarray)


def check_ndim(name: str, array: Array) -> None:
    """ValueError unless NumPy allows a result with one more axis, that of the columns."""
    if array.ndim >= MAX_AXES:
        raise ValueError(f"{name} must have at most {MAX_AXES - 1} axes, got {array.ndim}")


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], of: str = "length") -> Array:
    """A fresh C-contiguous array whose data begins at a multiple of 64 bytes.

    Messages name the argument ``of``, on which the shape depends.
    """
    check_size(of, shape, dtype)
    size = math.prod(shape) * dtype.itemsize + _ALIGNMENT
    try:
        buffer = np.empty(size, np.uint8)
    except MemoryError:
        raise MemoryError(
            f"no memory for an array of shape {shown(shape)} and dtype {dtype}"
        ) from None
    return _backend.kernels.aligned_array(buffer, shape, dtype)


def aligned_copy(array: Array, dtype: np.dtype[Any]) -> Array:
    """A copy as `empty` makes arrays: C-contiguous, its data aligned to 64 bytes."""
    result = empty(array.shape, dtype)
    result[...] = array
    return result


def as_output(
    out: Array, shape: tuple[int, ...] | None = None, dtype: np.dtype[Any] | None = None
) -> Array:
    """``out`` as a plain ndarray that a kernel can write to; ``None`` is any shape or dtype."""
    if not issubclass(type(out), np.ndarray):
        raise TypeError(f"out must be a NumPy array, got {type(out).__name__}")
    unmasked("out", out)
    out = as_plain(out)
    if not is_float(out.dtype) or (dtype is not None and out.dtype != dtype):
        wanted = f"{NAMES} in native byte order" if dtype is None else dtype
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


def prepare_out(
    out: Array | None, shape: tuple[int, ...], dtype: npt.DTypeLike | None, of: str = "length"
) -> tuple[Array, Array]:
    """``out``, or a fresh array of the dtype, by default float64; and the same as a plain ndarray."""
    wanted = None if dtype is None else float_dtype(dtype)
    if out is None:
        out = empty(shape, wanted or _FLOAT64, of)
    return out, as_output(out, shape, wanted)


def rows_of(out: Array) -> tuple[int, int]:
    """The number of rows along the last axis, and the bytes of each."""
    return math.prod(out.shape[:-1]), out.shape[-1] * out.itemsize


def use_streaming_stores(out: Array) -> bool:
    """Whether non-temporal stores are faster: ``out`` is too large to stay in the caches."""
    return out.nbytes > _STREAM_BYTES


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
    # The rows of two axes interleave. Rows that need more memory than they span overlap; otherwise
    # compare the addresses of all.
    lengths = [length for _, length in axes]
    if row * math.prod(lengths) > row + sum(stride * (length - 1) for stride, length in axes):
        return True
    first = np.zeros((1,), np.intp)
    for stride, length in axes:
        first = np.add.outer(first, stride * np.arange(length, dtype=np.intp)).ravel()
    return bool((np.diff(np.sort(first)) < row).any())


def as_embeddings(x: Array, columns: int | None = None) -> Array:
    """A plain view of ``x``: floats of any byte order, of shape (..., length, columns)."""
    result = _as_floats("x", x)
    if columns not in (None, last_axis("x", result)):
        raise ValueError(f"x must have last axis {columns}, got shape {shown(result.shape)}")
    return result


def as_table(name: str, weight: Array, columns: int | None = None) -> Array:
    """A plain view of a table of embeddings: floats of any byte order, of shape (rows, columns)."""
    result = _as_floats(name, weight)
    if result.ndim != 2:
        raise ValueError(f"{name} must have shape (rows, d_model), got shape {shown(result.shape)}")
    if columns not in (None, result.shape[-1]):
        raise ValueError(f"{name} must have last axis {columns}, got shape {result.shape}")
    return result


def _as_floats(name: str, array: Array) -> Array:
    result = as_plain(array)
    if not is_float(result.dtype.newbyteorder("=")):
        raise TypeError(f"{name} must have dtype {NAMES}, got {shown(result.dtype)}")
    return result


def last_axis(name: str, array: Array) -> int:
    """The length of the last axis of an array of rows, which has two axes or more."""
    shape = as_plain(array).shape
    if len(shape) < 2:
        raise ValueError(f"{name} must have shape (..., length, d_model), got shape {shape}")
    return int(shape[-1])


def usual_width(array: object) -> int:
    """The length of the last axis of an array that can have rows of floats; 0 of other objects.

    It is quick, as most arrays are such: others are for the checks of the argument.
    """
    if type(array) is np.ndarray and array.ndim > 1 and is_float(array.dtype):
        return int(array.shape[-1])
    return 0


def in_place(x: Array, out: Array) -> bool:
    """Whether ``out`` is ``x``; ValueError where they share memory in any other way."""
    if not np.may_share_memory(x, out):
        return False
    if (
        x.dtype == out.dtype
        and _address(x) == _address(out)
        and all(
            a == b or length < 2
            for a, b, length in zip(x.strides, out.strides, x.shape, strict=True)
        )
    ):
        return True
    if overlap(x, out):
        raise ValueError("out must be x itself or share no memory with it, got a partial overlap")
    return False


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]  # quicker than `ctypes`
    return address


def prepare_out_and_x(
    x: Array, out: Array | None, gathered: Mapping[str, Array] | None = None
) -> tuple[Array, Array, Array]:
    """``out``, fresh unless given; the same as a plain ndarray; and ``x`` as the kernels can read it.

    `gathered` are the other arrays that the kernel reads, by the names that messages have for them:
    ``out`` must share no memory with these. An ``x`` that the kernels cannot read where it lies is
    copied to ``out``, so this comes after all other checks.
    """
    dtype = x.dtype.newbyteorder("=")
    if out is None:
        out = empty(x.shape, dtype, "x")
    plain = as_output(out, x.shape, dtype)
    for name, array in (gathered or {}).items():
        require_disjoint(name, array, plain)
    if in_place(x, plain):
        return out, plain, plain
    if kernel_ready(x):
        return out, plain, x
    np.copyto(plain, x)
    return out, plain, plain


def require_disjoint(name: str, array: Array, out: Array) -> None:
    """ValueError where ``out`` shares memory with an array that the kernel gathers from."""
    if overlap(array, out):
        raise ValueError(f"out must share no memory with {name}, got an overlap")


def overlap(a: Array, b: Array) -> bool:
    """Whether two arrays share memory, or may, where it would take too long to tell."""
    if not np.may_share_memory(a, b):
        return False
    try:
        return bool(np.shares_memory(a, b, max_work=1 << 16))  # type: ignore[arg-type]
    except RuntimeError:
        return True


def kernel_ready(x: Array) -> bool:
    """Whether the kernels can read ``x`` where it lies."""
    return is_float(x.dtype) and x.flags.aligned and (x.strides[-1] == x.itemsize or x.size == 0)


def as_positions(
    values: npt.ArrayLike, max_position: float, name: str = "positions"
) -> npt.NDArray[np.float64]:
    """Positions as a fresh C-contiguous array of float64, which has all integers up to 2^53.

    Copied first: another thread may change the original between the checks and the kernel.
    """
    own = np.array(as_plain(as_array(name, values)), order="C")
    if own.dtype == object:
        own = _python_integers(name, own, "bool, integer or float")
    elif not _is_real(own.dtype):
        raise TypeError(f"{name} must be bool, integer or float, got dtype {shown(own.dtype)}")
    elif own.dtype.kind == "V":
        own = own.astype(np.float64)
    if own.size:
        # As Python numbers: in float64 an integer just beyond the bound would round to it.
        # One token's is both, and need not be searched for.
        extremes = [own.item()] if own.size == 1 else [own.min(), own.max()]
        extremes += _rounded_integers(name, values, own)
        for extreme in extremes:
            number = extreme.item() if isinstance(extreme, np.generic) else extreme
            if not -max_position <= number <= max_position:
                reason = ", as far as its frequencies go" * (max_position < _EXACT_INTEGERS)
                raise ValueError(
                    f"{name} must be finite and within {max_position:.17g} of 0{reason}, "
                    f"got {shown(number)}"
                )
    return np.asarray(own, np.float64, order="C")


def _is_real(dtype: np.dtype[Any]) -> bool:
    """Whether it holds real numbers of NumPy, or of an extension type that casts to float64 safely."""
    return dtype.kind in "biuf" or (dtype.kind == "V" and np.can_cast(dtype, np.float64))


def _rounded_integers(name: str, values: npt.ArrayLike, own: Array) -> list[int]:
    """The integers of a list that NumPy made floats of, where that may have rounded them."""
    if not _is_sequence(values) or own.dtype.kind != "f":
        return []
    if not (np.abs(own) >= _EXACT_INTEGERS).any():
        return []
    given = as_array(name, values, object).ravel().tolist()
    return [operator.index(value) for value in given if isinstance(value, numbers.Integral)]


def _python_integers(name: str, own: Array, wanted: str) -> Array:
    """An array of objects, which must all be integers, as an array of Python's own ints."""
    ints = []
    for value in own.ravel().tolist():
        try:
            if not isinstance(value, numbers.Integral):
                raise TypeError
            ints.append(operator.index(value))
        except TypeError:
            kind = "float64" if type(value) is float else "object"
            raise TypeError(f"{name} must be {wanted}, got dtype {kind}") from None
        if int(value) != ints[-1]:  # a subclass: it is not clear which of the two is meant
            raise TypeError(
                f"{name} must be {wanted}, got an object that is {shown(ints[-1])} as an index and "
                f"{shown(int(value))} as an int"
            )
    result = np.empty(len(ints), dtype=object)
    result[:] = ints
    return result.reshape(own.shape)


def as_integers(name: str, values: npt.ArrayLike, *, bools: bool = False) -> Array:
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
    """``values`` as an array of any integer dtype or of Python's ints, or where ``bools`` of bool."""
    wanted = "bool or integer" if bools else "integer"
    result = as_plain(as_array(name, values))
    if result.dtype.kind in ("biu" if bools else "iu"):
        return result
    if not result.size and result.dtype.kind == "f":  # NumPy's dtype of an empty list
        return result.astype(np.int64)
    if result.dtype.kind == "f" and _is_sequence(values):
        result = as_array(name, values, object)  # integers from 2^63 on are floats beside others
    if result.dtype != object:
        raise TypeError(f"{name} must be {wanted}, got dtype {shown(result.dtype)}")
    return _python_integers(name, result, wanted)


def as_indices(name: str, values: npt.ArrayLike) -> Array:
    """``values`` as a fresh array of integers, with an axis or more: see `check_indices`."""
    own = np.array(_integral(name, values), order="C")
    if not own.ndim:
        raise ValueError(f"{name} must have shape (..., length), got shape ()")
    return own


def check_indices(name: str, own: Array, count: int, of: str) -> npt.NDArray[np.int64]:
    """The result of `as_indices` as int64, or an IndexError: each must be from 0 to ``count - 1``."""
    if own.size and not (own.min() >= 0 and own.max() < count):
        at = np.unravel_index(int(((own < 0) | (own >= count)).argmax()), own.shape)
        raise IndexError(
            f"{name} must be at least 0 and below {count}, the number of {of}, "
            f"got {shown(own[at])} at index {shown(tuple(map(int, at)))}"
        )
    return own.astype(np.int64, copy=False)


def as_bool_mask(name: str, values: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Bool, or integers that are 0 and 1, as a fresh C-contiguous array of bool."""
    given = as_integers(name, values, bools=True)
    if given.dtype != np.bool_ and not 0 <= np.bitwise_or.reduce(given, axis=None) <= 1:
        wrong = given[(given != 0) & (given != 1)][0]
        raise ValueError(f"{name} must be bool, or integers that are 0 and 1, got {wrong}")
    return np.array(np.not_equal(given, 0), order="C")


def check_start(first: int, length: int, max_position: float, of: str | None = None) -> float:
    """``first`` as a float, once ``length`` rows from there on are within `max_position`.

    Messages name the argument ``of``, whose length it is; the length may be an argument itself.
    """
    bound = int(max_position)
    if -bound <= first and first + max(length - 1, 0) <= bound:
        return float(first)
    most = bound + 1 if first == 0 else 2 * bound + 1
    if length > most:
        what = "length must be" if of is None else f"{of} must have a length of"
        raise ValueError(
            f"{what} at most {most}, as frequencies are resolved at positions up to {bound}, "
            f"got {shown(length)}"
        )
    raise ValueError(
        f"start must leave all {length} positions within {bound} of 0, got {shown(first)}"
    )


def check_broadcast(name: str, values: Array, rows: tuple[int, ...]) -> Array:
    """``values``, which must broadcast to the rows of x: over leading axes, never along a sequence.

    The kernels broadcast.
    """
    lead = values.shape[:-1]
    fits = values.shape == rows or (
        0 < values.ndim <= len(rows)
        and values.shape[-1] == rows[-1]
        and all(
            own in (1, whole)
            for own, whole in zip(lead, rows[len(rows) - values.ndim : -1], strict=True)
        )
    )
    if not fits:
        raise ValueError(
            f"{name} must have shape (..., {rows[-1]}) and broadcast to {shown(rows)}, the rows, "
            f"got shape {shown(values.shape)}"
        )
    return values


def round_scalar(number: float | np.floating[Any], dtype: np.dtype[Any]) -> float:
    """A real number, rounded once to float32 or float64, as a float."""
    if type(number) is float and number.is_integer() and -(2**24) <= number <= 2**24:
        return number  # exact in either
    with np.errstate(all="ignore"):
        result = float(dtype.type(number))
    # One NaN for all: of two, backends may keep either's bits.
    return math.nan if math.isnan(result) else result


def as_vector(name: str, values: npt.ArrayLike) -> tuple[float, ...]:
    """An array_like of finite numbers with one axis, as a tuple of floats."""
    own = np.array(as_plain(as_array(name, values)))
    if not _is_real(own.dtype) or own.dtype == np.bool_:
        raise TypeError(f"{name} must be real numbers, got dtype {shown(own.dtype)}")
    if own.ndim != 1 or not own.size:
        raise ValueError(f"{name} must have one axis and an element, got shape {shown(own.shape)}")
    if own.size > MAX_COLUMNS:
        raise ValueError(f"{name} must be at most {MAX_COLUMNS} numbers, got {own.size}")
    numbers = tuple((own.astype(np.float64) + 0.0).tolist())  # -0.0 is 0.0
    for number in numbers:
        if not math.isfinite(number):
            raise ValueError(f"{name} must be finite, got {number}")
    return numbers


def check_size(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """``shape``, or a ValueError that names the argument it depends on: NumPy must allow its size.

    NumPy counts the other axes of an empty array too. There may still be too little memory.
    """
    count = math.prod(max(length, 1) for length in shape)
    if count * dtype.itemsize + _ALIGNMENT > _MAX_BYTES:
        raise ValueError(
            f"{name} must leave a result below 2**63 bytes, got {shown(count)} entries"
        )
    return shape
