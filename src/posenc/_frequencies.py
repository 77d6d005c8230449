"""Angular frequencies to twice the precision of a double, and the rows that serve every position."""

import decimal
import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from . import _arrays, _backend

# The kernels read positions 0 to 63 from a table, and turn all others from the nearest multiple of
# 64. Of these it holds the first 32: sequences up to 2080 need no other.
_NEAR = 64
_ANCHORS = 32

# Integers up to here are exact in a double; the kernels reduce up to 2^53 quarter turns.
_LARGEST_POSITION = 2.0**53
_MOST_TURNS = 2.0**53

# Bits of the mantissas while frequencies are multiplied up, and the factor of Dekker's split.
_BITS = 192
_SPLIT = 134217729.0

# 2 / pi to 64 digits, and a context whose precision is ours whatever the caller's is.
_PER_RADIAN = decimal.Decimal("0.6366197723675813430755350534900574481378385829618257949906693762")
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
        Quarter turns per position: the double nearest to each frequency, its upper and its lower
        half, and what the double leaves out.
    table : ndarray of float64, shape (96, 2, n)
        Sines and cosines of positions 0, 1, ..., 63, then of 64, 128, ..., 2048.
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
        raise ValueError(f"base must be larger, its frequencies overflow, got {base}")
    reach = float(np.floor(_MOST_TURNS / turns[0].max()))
    # Beyond the table, a row's anchor lies up to 31 positions further out than the row.
    limit = min(_LARGEST_POSITION, reach if reach < _NEAR else max(_NEAR - 1.0, reach - 31.0))
    anchors = np.arange(1.0, _ANCHORS + 1) * _NEAR
    # Positions out of reach are asked for by nobody; in their place stands one that is no NaN.
    positions = np.minimum(np.concatenate([np.arange(float(_NEAR)), anchors]), reach)
    table = _arrays.empty((len(positions), 2, count), np.dtype(np.float64))
    _backend.kernels.direct_rows(table, positions, turns)
    return Schedule(turns, table, limit)


def _geometric_turns(base: float, count: int) -> npt.NDArray[np.float64]:
    """Quarter turns per position, each the two doubles nearest to the exact value.

    At position 2^53 an error of 2^-106 in a frequency is one of 2^-53 in the angle, so products of
    double-doubles (2^-104 each) would not do: mantissas are integers of 192 bits here.
    """
    context = _EXACT.copy()  # for this thread alone
    exponent = context.divide(decimal.Decimal(-1), decimal.Decimal(count))
    ratio, ratio_shift = _mantissa(context.power(decimal.Decimal.from_float(base), exponent))
    value, shift = _mantissa(_PER_RADIAN)
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
    with np.errstate(all="ignore"):
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
