"""Angular frequencies to twice the precision of a double, and the rows that serve every position."""

import decimal
import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from . import _arrays, _backend

# Rows of a table: positions 0 to 63, from which the kernels turn all others.
TABLE_ROWS = 64

# Integers up to here are exact in a double; the kernels' range reduction holds up to 2^51 turns.
_LARGEST_POSITION = 2.0**53
_MOST_TURNS = 2.0**51

# Bits of the mantissas while frequencies are multiplied up, and of Dekker's upper half.
_BITS = 192
_SPLIT = 134217729.0

# 1 / (2 pi) to 64 digits, and a context whose precision is ours whatever the caller's is.
_PER_TURN = decimal.Decimal("0.1591549430918953357688837633725143620344596457404564487476673441")
_EXACT = decimal.Context(
    prec=64,
    rounding=decimal.ROUND_HALF_EVEN,
    Emin=decimal.MIN_EMIN,
    Emax=decimal.MAX_EMAX,
    capitals=1,
    clamp=0,
    flags=[],
    traps=[],
)


class Schedule(NamedTuple):
    """What the kernels need to know of one set of frequencies.

    Attributes
    ----------
    turns : ndarray of float64, shape (4, n)
        Turns per position: the double nearest to each frequency, its upper and its lower half, and
        what the double leaves out.
    table : ndarray of float64, shape (64, 2, n)
        Sines and cosines of positions 0 to 63.
    limit : float
        The largest position, in magnitude, that the kernels resolve.
    """

    turns: npt.NDArray[np.float64]
    table: npt.NDArray[np.float64]
    limit: float


@functools.lru_cache(maxsize=8)
def geometric(base: float, count: int) -> Schedule:
    """The schedule of ``base ** (-i / count)`` for i = 0 ... count - 1."""
    turns = _geometric_turns(base, count)
    if not np.isfinite(turns).all():
        raise ValueError(f"base must leave all frequencies finite, got {base}")
    limit = min(_LARGEST_POSITION, float(np.floor(_MOST_TURNS / turns[0].max())))
    table = _arrays.empty((TABLE_ROWS, 2, count), np.dtype(np.float64))
    _backend.kernels.direct_rows(table, np.minimum(np.arange(float(TABLE_ROWS)), limit), turns)
    return Schedule(turns, table, limit)


def _geometric_turns(base: float, count: int) -> npt.NDArray[np.float64]:
    """Turns per position, each the two doubles nearest to the exact value.

    At position 2^53 an error of 2^-106 in a frequency is one of 2^-53 in the angle, so products of
    double-doubles (2^-104 each) would not do: mantissas are integers of 192 bits here.
    """
    exponent = _EXACT.divide(decimal.Decimal(-1), decimal.Decimal(count))
    ratio, ratio_shift = _mantissa(_EXACT.power(decimal.Decimal(base), exponent))
    value, shift = _mantissa(_PER_TURN)
    nearest, left, shifts = [], [], []
    for _ in range(count):
        high = float(value)
        nearest.append(high)
        left.append(float(value - int(high)))
        shifts.append(shift)
        value *= ratio
        excess = value.bit_length() - _BITS
        value >>= excess
        shift += ratio_shift + excess
    turns = np.empty((4, count))
    with np.errstate(over="ignore", invalid="ignore"):
        turns[0] = np.ldexp(nearest, shifts)
        spread = _SPLIT * turns[0]
        turns[1] = spread - (spread - turns[0])
        turns[2] = turns[0] - turns[1]
        turns[3] = np.ldexp(left, shifts)
    return turns


def _mantissa(number: decimal.Decimal) -> tuple[int, int]:
    """A positive number as an integer of 192 bits, cut off there, and a power of two to scale it."""
    numerator, denominator = number.as_integer_ratio()
    shift = numerator.bit_length() - denominator.bit_length() - _BITS - 1
    quotient = (numerator << max(-shift, 0)) // (denominator << max(shift, 0))
    excess = quotient.bit_length() - _BITS
    return quotient >> excess, shift + excess
