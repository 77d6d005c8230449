"""Angular frequencies to twice the precision of a double, and the rows that serve every position."""

import decimal
import functools
import math
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from . import _arrays, _backend
from ._encoder import Encoder

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

# A number as an integer, most often of `_BITS` bits, and the power of two that scales it.
Scaled: TypeAlias = tuple[int, int]

# 2 / pi to 64 digits, bounds of an exponent, and a context whose precision is ours whatever the
# caller's is.
_FAR = decimal.Decimal(4600)  # exp of which has some 2000 digits
_NEGLIGIBLE = decimal.Decimal(-4600)
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
    """The part of an `Encoder` that frequencies alone decide: sines first, amplitude 1."""

    turns: npt.NDArray[np.float64]
    table: npt.NDArray[np.float64]
    limit: float


def written(
    schedule: Schedule, paired: bool, cos_first: bool = False, amplitude: float = 1.0
) -> Encoder:
    """How the rows of a schedule are written."""
    turns, rows, limit = schedule
    table, offsets = rows, rows
    if amplitude != 1.0:
        with np.errstate(all="ignore"):
            table = rows * amplitude
    if cos_first:
        table = np.ascontiguousarray(table[:, ::-1])
        offsets = rows[:_NEAR] * [[-1.0], [1.0]]
    return Encoder(turns, table, offsets, limit, paired, cos_first, amplitude)


def geometric(
    base: float, count: int, divisor: float | None = None, shift: float = 0.0, scale: float = 1.0
) -> Schedule:
    """The schedule of ``scale * base ** (-i / (divisor - shift))`` for i = 0 ... count - 1.

    The divisor is `count` unless given; where it is not larger than `shift`, all are `scale`.
    """
    try:
        return _schedule(*_geometric_turns(base, count, divisor or count, shift, scale))
    except OverflowError:
        factor = f" times freq_scale {scale}" * (scale != 1.0)
        raise ValueError(
            f"base must leave frequencies that do not overflow, got {base}{factor}"
        ) from None


def explicit(frequencies: tuple[float, ...]) -> Schedule:
    """The schedule of these angular frequencies, taken as exact."""
    per_radian = _mantissa(*_PER_RADIAN.as_integer_ratio())
    scaled = [_product(per_radian, _ratio(frequency)) for frequency in frequencies]
    try:
        return _schedule(*_doubles(scaled))
    except OverflowError:
        raise ValueError(f"frequencies must be smaller, got {max(map(abs, frequencies))}") from None


@functools.lru_cache(maxsize=8)
def radians(base: float, count: int) -> npt.NDArray[np.float64]:
    """The doubles nearest to ``base ** (-i / count)``, read-only: without libm, so everywhere."""
    try:
        nearest, left = _geometric_turns(base, count, count, 0.0, 1.0)
    except OverflowError:
        raise ValueError(f"base must leave frequencies that do not overflow, got {base}") from None
    context = _EXACT.copy()  # for this thread alone
    exact = decimal.Decimal.from_float  # the constructor would leave a flag in the caller's context
    sums = [context.add(exact(hi), exact(lo)) for hi, lo in zip(nearest, left, strict=True)]
    result = np.array([float(context.divide(total, _PER_RADIAN)) for total in sums])
    result.flags.writeable = False
    return result


def logarithm(number: float) -> float:
    """The double nearest to the natural logarithm of a positive number: without libm."""
    return float(_EXACT.copy().ln(decimal.Decimal.from_float(number)))


def power(number: float, exponent: float) -> float:
    """The double nearest to a power of a positive number: without libm."""
    exact = decimal.Decimal.from_float
    return float(_EXACT.copy().power(exact(number), exact(exponent)))


def part(schedule: Schedule, columns: npt.NDArray[np.intp]) -> Schedule:
    """The schedule of some of its frequencies."""
    turns, table, limit = schedule
    chosen = _arrays.empty((len(table), 2, len(columns)), table.dtype)
    np.take(table, columns, axis=2, out=chosen)
    return Schedule(np.ascontiguousarray(turns[:, columns]), chosen, limit)


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


def _geometric_turns(
    base: float, count: int, divisor: float, shift: float, scale: float
) -> tuple[list[float], list[float]]:
    """Quarter turns per position, as the two doubles nearest to the exact value.

    At position 2^53 an error of 2^-106 in a frequency is one of 2^-53 in the angle, so products of
    double-doubles (2^-104 each) would not do: mantissas are integers of 192 bits here, and what is
    rounded are their exact products.
    """
    context = _EXACT.copy()  # for this thread alone
    exact = decimal.Decimal.from_float
    steps_to_base = context.subtract(exact(float(divisor)), exact(shift))
    ratio = _mantissa(1, 1)
    if steps_to_base > 0:
        ratio = _root_of_inverse(exact(base), steps_to_base, context)
    first = _PER_RADIAN if scale == 1.0 else context.multiply(_PER_RADIAN, exact(scale))
    # every frequency is one of some sqrt(count) leaps times one of as many steps
    width = 1 << count.bit_length() // 2
    *steps, leap = _powers(_mantissa(1, 1), ratio, width + 1)
    leaps = _powers(_mantissa(*first.as_integer_ratio()), leap, -(-count // width))
    return _doubles([_product(a, b) for a in leaps for b in steps][:count])


def _root_of_inverse(
    base: decimal.Decimal, degree: decimal.Decimal, context: decimal.Context
) -> Scaled:
    """``base ** (-1 / degree)``: square roots as long as the degree is even, then the rest of it."""
    halvings = 0
    if degree == degree.to_integral_value():
        whole = int(degree)
        halvings = (whole & -whole).bit_length() - 1
        degree = decimal.Decimal(whole >> halvings)
    if degree == 1:
        numerator, denominator = base.as_integer_ratio()
        value, shift = _mantissa(denominator, numerator)
    else:
        # Two thirds of the time of `power`, and nearly six digits more than the mantissas hold.
        exponent = context.divide(context.ln(base), context.minus(degree))
        # Beyond, all but the first frequency are 0 or overflow, and integers would be too long.
        root = context.exp(max(min(exponent, _FAR), _NEGLIGIBLE))
        value, shift = _mantissa(*root.as_integer_ratio())
    for _ in range(halvings):
        even = _BITS + (shift + _BITS) % 2
        value, shift = math.isqrt(value << even), (shift - even) // 2
    return value, shift


def _doubles(scaled: list[Scaled]) -> tuple[list[float], list[float]]:
    """The nearest doubles, and those nearest to what they leave."""
    nearest = [float(value) for value, _ in scaled]
    left = [float(a - int(b)) for (a, _), b in zip(scaled, nearest, strict=True)]
    shifts = [shift for _, shift in scaled]
    return list(map(math.ldexp, nearest, shifts)), list(map(math.ldexp, left, shifts))


def _powers(first: Scaled, ratio: Scaled, count: int) -> list[Scaled]:
    """``first * ratio ** i`` for i = 0 ... count - 1."""
    powers = [first]
    for _ in range(count - 1):
        value, shift = _product(powers[-1], ratio)
        excess = value.bit_length() - _BITS
        powers.append((value >> excess, shift + excess))
    return powers


def _product(a: Scaled, b: Scaled) -> Scaled:
    return a[0] * b[0], a[1] + b[1]


def _ratio(number: float) -> Scaled:
    numerator, denominator = number.as_integer_ratio()
    return numerator, 1 - denominator.bit_length()


def _mantissa(numerator: int, denominator: int) -> Scaled:
    """A positive ratio as an integer of 192 bits, cut off there, and a power of two to scale it."""
    shift = numerator.bit_length() - denominator.bit_length() - _BITS - 1
    quotient = (numerator << max(-shift, 0)) // (denominator << max(shift, 0))
    excess = quotient.bit_length() - _BITS
    return quotient >> excess, shift + excess
