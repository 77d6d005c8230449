"""The floating-point formats of the outputs: one row for each."""

import sys
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ._checks import shown


class Format(NamedTuple):
    """How values of a format are stored, computed with and rounded.

    Attributes
    ----------
    name : str
    kernel_dtype : dtype
        What the kernels see: of bfloat16 the bits, as uint16.
    accumulation : dtype
        What sums and products are computed in.
    digits : int
        Binary digits of the significand, the implicit one included.
    least : float
        The least positive normal value: below it, the spacing of values is constant.
    """

    name: str
    kernel_dtype: np.dtype[Any]
    accumulation: np.dtype[Any]
    digits: int
    least: float

    @property
    def widens(self) -> bool:
        """Whether sums are computed in a wider dtype than they are stored in."""
        return self.kernel_dtype != self.accumulation


_FLOAT64, _FLOAT32 = np.dtype(np.float64), np.dtype(np.float32)

# By the dtype that the kernels see.
FORMATS: Final = {
    row.kernel_dtype: row
    for row in (
        Format("float64", _FLOAT64, _FLOAT64, 53, 2.0**-1022),
        Format("float32", _FLOAT32, _FLOAT32, 24, 2.0**-126),
        Format("float16", np.dtype(np.float16), _FLOAT32, 11, 2.0**-14),
        Format("bfloat16", np.dtype(np.uint16), _FLOAT32, 8, 2.0**-126),
    )
}

# Types of ml_dtypes, which NumPy does not know until that is imported, as the kernels see them.
_EXTENSIONS: Final = {"bfloat16": np.dtype(np.uint16)}
_OF_NUMPY = frozenset(dtype for dtype in FORMATS if dtype not in _EXTENSIONS.values())

_names = [row.name for row in FORMATS.values()]
NAMES = f"{', '.join(_names[:-1])} or {_names[-1]}"


def float_dtype(dtype: npt.DTypeLike | None) -> np.dtype[Any]:
    """The dtype of one of the formats, in native byte order."""
    if isinstance(dtype, str) and dtype in list(_EXTENSIONS):
        try:
            import ml_dtypes  # noqa: F401 - from then on NumPy knows the name
        except ModuleNotFoundError:
            raise TypeError(
                f"dtype {dtype} needs the package ml_dtypes: pip install ml_dtypes"
            ) from None
    try:
        result = np.dtype(dtype)
        if is_float(result):
            return result
    except (MemoryError, RecursionError):
        raise
    except Exception:  # noqa: BLE001, S110 - NumPy raises many kinds, a SyntaxError among them
        pass
    raise TypeError(f"dtype must be {NAMES} in native byte order, got {shown(dtype)}")


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether this is the dtype of one of the formats, in native byte order."""
    return dtype in _OF_NUMPY or _bits_of(dtype) is not None


def _bits_of(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """What the kernels see of one of `_EXTENSIONS` in native byte order; None of another dtype.

    Its type decides: another type may have the same name. ml_dtypes need not be imported.
    """
    ml_dtypes = sys.modules.get("ml_dtypes")
    if ml_dtypes is None or not dtype.isnative:
        return None
    kinds = (bits for name, bits in _EXTENSIONS.items() if dtype.type is getattr(ml_dtypes, name))
    return next(kinds, None)


def accumulation_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What products and sums are computed in: float32 for the 16-bit formats."""
    return FORMATS[_bits_of(dtype) or dtype].accumulation


def kernel_bits(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array as the kernels take it: bfloat16 as its bits."""
    bits = _bits_of(array.dtype)
    return array if bits is None else array.view(bits)
