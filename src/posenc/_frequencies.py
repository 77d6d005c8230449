"""Angular frequencies to twice the precision of a double, and the rows that serve every position."""

import decimal
import functools
import math
from typing import NamedTuple, TypeAlias

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

# A double beyond overflows in Dekker's split.
_LARGEST_SPLIT = 2.0**996

# Bits of the mantissas while frequencies are multiplied up.
_BITS = 192

# A positive number as an integer of `_BITS` bits and the power of two that scales it.
Scaled: TypeAlias = tuple[int, int]

# 2 / pi to 64 digits, and a context whose precision is ours whatever the caller's is.
_ONE = decimal.Decimal(1)
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
    try:
        return _schedule(*_geometric_turns(base, count))
    except OverflowError:
        raise ValueError(f"base must be larger, its frequencies overflow, got {base}") from None


@functools.lru_cache(maxsize=8)
def explicit(frequencies: tuple[float, ...]) -> Schedule:
    """The schedule of these angular frequencies, taken as exact."""
    per_radian, shift = _mantissa(_PER_RADIAN)
    products, shifts = [], []
    for frequency in frequencies:
        numerator, denominator = frequency.as_integer_ratio()
        products.append(numerator * per_radian)
        shifts.append(shift + 1 - denominator.bit_length())
    try:
        return _schedule(*_doubles(products, shifts))
    except OverflowError:
        raise ValueError(f"frequencies must be smaller, got {max(map(abs, frequencies))}") from None


def _schedule(nearest: list[float], left: list[float]) -> Schedule:
    fastest = max(map(abs, nearest))
    if fastest > _LARGEST_SPLIT:
        raise OverflowError
    count = len(nearest)
    turns = np.empty((4, count))
    turns[0], turns[3] = nearest, left
    reach = _MOST_TURNS // fastest if fastest else _LARGEST_POSITION
    # Beyond the table, a row's anchor lies up to 31 positions further out than the row.
    limit = min(_LARGEST_POSITION, reach if reach < _NEAR else max(_NEAR - 1.0, reach - 31.0))
    table = _arrays.empty((_NEAR + _ANCHORS, 2, count), np.dtype(np.float64))
    _backend.kernels.tabulate(table, turns, reach)
    return Schedule(turns, table, limit)


def _geometric_turns(base: float, count: int) -> tuple[list[float], list[float]]:
    """Quarter turns per position, as the two doubles nearest to the exact value.

    At position 2^53 an error of 2^-106 in a frequency is one of 2^-53 in the angle, so products of
    double-doubles (2^-104 each) would not do: mantissas are integers of 192 bits here, and what is
    rounded are their exact products.
    """
    context = _EXACT.copy()  # for this thread alone
    exponent = context.divide(decimal.Decimal(-1), decimal.Decimal(count))
    ratio = _mantissa(context.power(decimal.Decimal.from_float(base), exponent))
    # every frequency is one of some sqrt(count) leaps times one of as many steps
    width = 1 << count.bit_length() // 2
    *steps, leap = _powers(_mantissa(_ONE), ratio, width + 1)
    leaps = _powers(_mantissa(_PER_RADIAN), leap, -(-count // width))
    products = [a * b for a, _ in leaps for b, _ in steps][:count]
    shifts = [i + j for _, i in leaps for _, j in steps]
    return _doubles(products, shifts)


def _doubles(products: list[int], shifts: list[int]) -> tuple[list[float], list[float]]:
    """Integers times powers of two: the nearest doubles, and those nearest to what they leave."""
    nearest = list(map(float, products))
    left = [float(a - int(b)) for a, b in zip(products, nearest, strict=True)]
    return list(map(math.ldexp, nearest, shifts)), list(map(math.ldexp, left, shifts))


def _powers(first: Scaled, ratio: Scaled, count: int) -> list[Scaled]:
    """``first * ratio ** i`` for i = 0 ... count - 1."""
    value, shift = first
    factor, factor_shift = ratio
    powers = []
    for _ in range(count):
        powers.append((value, shift))
        value *= factor
        excess = value.bit_length() - _BITS
        value >>= excess
        shift += factor_shift + excess
    return powers


def _mantissa(number: decimal.Decimal) -> Scaled:
    """A positive number as an integer of 192 bits, cut off there, and a power of two to scale it."""
    numerator, denominator = number.as_integer_ratio()
    shift = numerator.bit_length() - denominator.bit_length() - _BITS - 1
    quotient = (numerator << max(-shift, 0)) // (denominator << max(shift, 0))
    excess = quotient.bit_length() - _BITS
    return quotient >> excess, shift + excess
