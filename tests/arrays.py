"""What the tests share: the dtypes, arrays in every form that NumPy has, and how they are compared."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import posenc

Array = npt.NDArray[Any]
Dtype = np.dtype[Any]
Form = Callable[[Array], Array]

ALL: Any = posenc  # past the type checker: for calls that are wrong on purpose

# Of each dtype the binary digits, and the exponent of the smallest normal number.
FORMATS: dict[Dtype, tuple[int, int]] = {
    np.dtype(np.float32): (24, -126),
    np.dtype(np.float64): (53, -1022),
    np.dtype(np.float16): (11, -14),
    np.dtype(ml_dtypes.bfloat16): (8, -126),
}
DTYPES = list(FORMATS)
FLOAT32, FLOAT64, FLOAT16, BFLOAT16 = DTYPES
WIDE, SIXTEEN_BITS = DTYPES[:2], DTYPES[2:]

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
every_wide_dtype = pytest.mark.parametrize("dtype", WIDE, ids=str)
every_16_bit_dtype = pytest.mark.parametrize("dtype", SIXTEEN_BITS, ids=str)


def accumulation_dtype(dtype: Dtype) -> Dtype:
    """The dtype in which sums and rotations are computed: float32 for 16 bits."""
    return FLOAT32 if dtype.itemsize == 2 else dtype


def random(shape: tuple[int, ...], dtype: Dtype) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


def sums(x: Array, scale: float, rows: Any) -> Array:
    """``x * scale + rows``, each operation rounded; of 16 bits in float32, and once at the end."""
    wide = accumulation_dtype(x.dtype)
    with np.errstate(all="ignore"):
        result: Array = (x.astype(wide) * wide.type(scale) + rows.astype(wide)).astype(x.dtype)
    return result


def bits(array: Array) -> Array:
    """The bits of each element, as an unsigned integer."""
    return np.array(array, order="C").view(f"u{array.itemsize}")


def assert_same_bits(got: Array, expected: Array, *, any_nan: bool = False) -> None:
    """The dtype, the shape and every bit, where `any_nan` takes one NaN for another."""
    __tracebackhide__ = True
    assert got.dtype == expected.dtype, f"dtype {got.dtype} instead of {expected.dtype}"
    assert got.shape == expected.shape, f"shape {got.shape} instead of {expected.shape}"
    differ = bits(got) != bits(expected)
    if any_nan:
        differ &= ~(np.isnan(got) & np.isnan(expected))
    if differ.any():
        first = tuple(np.argwhere(differ)[0].tolist())
        raise AssertionError(
            f"{np.count_nonzero(differ)} of {differ.size} elements differ, first at {first}: "
            f"{got[first]!r} instead of {expected[first]!r}"
        )


def assert_fresh(got: Array, dtype: Dtype, shape: tuple[int, ...]) -> None:
    """As every result is: of one's own, writeable, C-contiguous and aligned to 64 bytes."""
    assert type(got) is np.ndarray
    assert (got.dtype, got.shape) == (dtype, shape)
    assert got.flags.carray
    assert got.base is None or got.base.dtype == np.uint8
    assert not got.size or got.ctypes.data % 64 == 0


# The same values in other memory.


def misaligned(x: Array) -> Array:
    raw = np.zeros(x.nbytes + 1, np.uint8)[1:]
    result: Array = raw.view(x.dtype).reshape(x.shape)
    result[...] = x
    return result


def read_only(x: Array) -> Array:
    x = x.copy()
    x.flags.writeable = False
    return x


def from_bytes(x: Array) -> Array:
    return np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape)


def byte_swapped(x: Array) -> Array:
    return x.astype(x.dtype.newbyteorder())


def field_of_a_record(x: Array) -> Array:
    # numpy/numpy#16660: a field at stride 17
    records = np.zeros(x.shape[:-1], [("tag", "S1"), ("x", x.dtype, x.shape[-1:])])
    records["x"] = x
    return records["x"]


def spoiled(shape: tuple[int, ...], dtype: Dtype) -> Array:
    """Elements that are noticed where they are read: NaN, or the largest number."""
    if dtype.kind == "b":
        return np.ones(shape, dtype)
    return np.full(shape, np.iinfo(dtype).max if dtype.kind in "iu" else np.nan, dtype)


def every_other_column(x: Array) -> Array:
    wide = spoiled((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    return wide[..., ::2]


def every_other_row(x: Array) -> Array:
    tall = spoiled((*x.shape[:-2], 2 * x.shape[-2], x.shape[-1]), x.dtype)
    tall[..., ::2, :] = x
    return tall[..., ::2, :]


def spaced(x: Array) -> Array:
    """Every other element of each axis but the last, of which a middle part: no two axes merge."""
    room = spoiled((*(2 * side for side in x.shape[:-1]), x.shape[-1] + 5), x.dtype)
    view: Array = room[(*(slice(None, None, 2),) * (x.ndim - 1), slice(3, -2))]
    view[...] = x
    return view


def backwards(x: Array) -> Array:
    return x[..., ::-1].copy()[..., ::-1]


def rows_backwards(x: Array) -> Array:
    return x[..., ::-1, :].copy()[..., ::-1, :]


def batch_last(x: Array) -> Array:
    return np.moveaxis(np.moveaxis(x, 0, -1).copy(), -1, 0)


def sequence_first(x: Array) -> Array:
    return x.swapaxes(0, 1).copy().swapaxes(0, 1)


# Forms of arrays of one axis and more, of two and more, and of those that outputs may have too.
VECTORS: list[Form] = [
    np.ascontiguousarray,
    np.asfortranarray,
    misaligned,
    read_only,
    from_bytes,
    byte_swapped,
    every_other_column,
    backwards,
    spaced,
]
ROWS: list[Form] = [
    *VECTORS,
    field_of_a_record,
    every_other_row,
    rows_backwards,
    batch_last,
    sequence_first,
]
