"""What the scalars and options of a call may be, and how messages show what came.

A caller's object is converted once, to a plain number of Python's own, and what came out is checked:
an object may answer differently each time it is asked.
"""

import math
import operator
import reprlib
import sys
from typing import Any, SupportsFloat, SupportsIndex

import numpy as np

# Characters of a value in a message.
_SHOWN = 60
_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = _SHOWN
_repr.maxtuple = 16

# The largest width, whose plan takes 50 MB: over three times that of PaLM, 18432 (arXiv:2204.02311).
MAX_COLUMNS = 1 << 16


def shown(value: Any) -> str:
    """A value for a message, of bounded length, whatever it is."""
    try:
        text = _text(value)
    except Exception:  # noqa: BLE001 - a message must not fail
        text = f"an object of type {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _text(value: Any) -> str:
    kind = type(value)
    if issubclass(kind, np.ndarray):
        plain = np.ndarray.view(value, np.ndarray)
        return f"an array of shape {shown(plain.shape)} and dtype {shown(plain.dtype)}"
    if issubclass(kind, np.dtype):
        return str(value)
    if issubclass(kind, int) and kind is not bool:
        value = operator.index(value)
        if value.bit_length() > 256:  # Python refuses to print thousands of digits
            return f"an integer of {value.bit_length()} bits"
    return _repr.repr(value.item() if issubclass(kind, np.generic) else value)


def unmasked(name: str, value: Any) -> None:
    """ValueError for a masked array in which anything is masked: its mask would be lost."""
    masked = sys.modules.get("numpy.ma")
    if masked is not None and issubclass(type(value), masked.MaskedArray):
        count = int(np.count_nonzero(masked.getmaskarray(value)))
        if count:
            raise ValueError(f"{name} must have nothing masked, got {count} masked elements")


def integer(
    name: str, value: SupportsIndex, least: int | None = None, most: int | None = None
) -> int:
    """``value`` as an int of Python's own, from ``least`` to ``most``; bools are refused."""
    if type(value) is int:
        result = value
    else:
        if is_bool(value):
            raise TypeError(f"{name} must be an integer, got the bool {shown(value)}")
        unmasked(name, value)
        try:
            result = operator.index(value)
        except (TypeError, ValueError):
            raise TypeError(f"{name} must be an integer, got {shown(value)}") from None
    if least is not None and result < least:
        raise ValueError(f"{name} must be at least {least}, got {shown(result)}")
    if most is not None and result > most:
        raise ValueError(f"{name} must be at most {most}, got {shown(result)}")
    return result


def is_bool(value: Any) -> bool:
    """Whether this is a bool of Python, or a scalar of an array library's bool."""
    if isinstance(value, bool | np.bool_):
        return True
    dtype = getattr(value, "dtype", None)
    return dtype is not None and str(dtype).rpartition(".")[2] in ("bool", "bool_")


def real(name: str, value: SupportsFloat | SupportsIndex) -> float | np.floating[Any]:
    """A real scalar as a float, or as NumPy's own where that is wider; bools are refused.

    Whatever has ``__float__`` or ``__index__`` and no axis, 0-d arrays and tensors among it.
    """
    if type(value) is float:
        return value
    if not _is_real(value):
        what = "a bool" if is_bool(value) else type(value).__name__
        raise TypeError(f"{name} must be a real number, got {what}")
    unmasked(name, value)
    if isinstance(value, np.longdouble):
        return np.longdouble(value)
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must fit in a float64, got {shown(value)}") from None
    except RecursionError:
        raise
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} must be a real number, got {type(value).__name__}") from error


def _is_real(value: Any) -> bool:
    """Whether this converts to a float as it is: complex scalars would lose their imaginary part."""
    dtype = getattr(value, "dtype", None)
    return (
        (hasattr(type(value), "__float__") or hasattr(type(value), "__index__"))
        and not is_bool(value)
        and not getattr(value, "shape", ())
        and getattr(dtype, "kind", "f") in "iufV"
        and "complex" not in str(dtype)
    )


def finite(name: str, value: SupportsFloat | SupportsIndex, positive: bool = False) -> float:
    """A finite real scalar, as a float."""
    result = float(real(name, value))
    if not math.isfinite(result) or (positive and result <= 0):
        raise ValueError(f"{name} must be finite{' and positive' * positive}, got {result}")
    return result


def choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    """One of some strings."""
    if issubclass(type(value), str):
        for each in choices:
            if str.__eq__(each, value):
                return each
    wanted = f"{name} must be one of {', '.join(choices)}, got "
    raise ValueError(wanted + shown(value)[: 300 - len(wanted)])


def boolean(name: str, value: Any) -> bool:
    """A bool, of Python or of NumPy, or a 0-d array of it."""
    unmasked(name, value)
    if issubclass(type(value), np.ndarray):
        plain = np.ndarray.view(value, np.ndarray)
        if plain.ndim == 0 and plain.dtype == np.bool_:
            return bool(plain[()])
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be a bool, got {shown(value)}")
    return bool(value)
