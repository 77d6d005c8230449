"""Frequencies to twice the precision of a double, in quarter turns per position.

Nothing here comes from libm, whose results differ between machines.
"""

import decimal
import functools
import math
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
# The double nearest to each frequency, and the double nearest to what that leaves.
QuarterTurns: TypeAlias = tuple[Floats, Floats]

# Of a larger double the kernels' Veltkamp split overflows.
_MAX_SPLIT = 2.0**996

# Bits of the mantissas while frequencies are multiplied up, and of the limbs that NumPy takes of
# them: the sum of as many products of two as there are limbs is exact in float64.
_BITS = 192
_LIMB_BITS = 24
_LIMBS = _BITS // _LIMB_BITS
# Frequencies up to which Python's own integers are faster than NumPy's calls.
_FEW = 128

# An integer, most often of `_BITS` bits, and the exponent of the power of two that scales it.
Scaled: TypeAlias = tuple[int, int]

# Bounds of the argument of exp: the results have some 2000 digits, far more than a double's range.
_MAX_EXPONENT = decimal.Decimal(4600)
_MIN_EXPONENT = decimal.Decimal(-4600)
# Quarter turns in a radian, 2 / pi, to 64 digits.
_PER_RADIAN = decimal.Decimal("0.6366197723675813430755350534900574481378385829618257949906693762")
# Of a precision that is ours whatever the caller's context is.
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


def geometric(
    base: float, count: int, divisor: float | None = None, shift: float = 0.0, scale: float = 1.0
) -> QuarterTurns:
    """``scale * base ** (-i / (divisor - shift))`` radians per position for i = 0 ... count - 1.

    The divisor is `count` unless given; where it is not larger than `shift`, all are `scale`.
    """
    try:
        return _splittable(_geometric(base, count, divisor or count, shift, scale))
    except OverflowError:
        factor = f" times freq_scale {scale}" * (scale != 1.0)
        raise ValueError(
            f"base must leave frequencies that do not overflow, got {base}{factor}"
        ) from None


def explicit(frequencies: tuple[float, ...]) -> QuarterTurns:
    """Angular frequencies in radians per position, taken as exact."""
    per_radian = _mantissa(*_PER_RADIAN.as_integer_ratio())
    scaled = [_product(per_radian, _ratio(frequency)) for frequency in frequencies]
    try:
        return _splittable(_doubles(scaled))
    except OverflowError:
        raise ValueError(f"frequencies must be smaller, got {max(map(abs, frequencies))}") from None


@functools.lru_cache(maxsize=8)
def angular_frequencies(base: float, count: int) -> Floats:
    """The doubles nearest to ``base ** (-i / count)`` radians per position, read-only."""
    try:
        nearest, left = _geometric(base, count, count, 0.0, 1.0)
    except OverflowError:
        raise ValueError(f"base must leave frequencies that do not overflow, got {base}") from None
    context = _EXACT.copy()  # for this thread alone
    exact = decimal.Decimal.from_float  # the constructor would leave a flag in the caller's context
    pairs = zip(nearest.tolist(), left.tolist(), strict=True)
    sums = [context.add(exact(hi), exact(lo)) for hi, lo in pairs]
    result = np.array([float(context.divide(total, _PER_RADIAN)) for total in sums])
    result.flags.writeable = False
    return result


def logarithm(number: float) -> float:
    """The double nearest to the natural logarithm of a positive number."""
    return float(_EXACT.copy().ln(decimal.Decimal.from_float(number)))


def power(number: float, exponent: float) -> float:
    """The double nearest to a power of a positive number."""
    exact = decimal.Decimal.from_float
    return float(_EXACT.copy().power(exact(number), exact(exponent)))


def _splittable(frequencies: QuarterTurns) -> QuarterTurns:
    """The frequencies, or an OverflowError where the kernels' arithmetic would overflow."""
    if np.abs(frequencies[0]).max() > _MAX_SPLIT:
        raise OverflowError
    return frequencies


def _geometric(base: float, count: int, divisor: float, shift: float, scale: float) -> QuarterTurns:
    """As `geometric`; an OverflowError where a frequency is beyond a double.

    At position 2^53 a relative error of 2^-106 in a frequency is one of 2^-53 in the angle.
    Products of double-doubles have errors of 2^-104 each, too much, so the mantissas are integers
    of 192 bits.
    """
    context = _EXACT.copy()  # for this thread alone
    exact = decimal.Decimal.from_float
    steps_to_base = context.subtract(exact(float(divisor)), exact(shift))
    ratio = _mantissa(1, 1)
    if steps_to_base > 0:
        ratio = _root_of_inverse(exact(base), steps_to_base, context)
    first = _PER_RADIAN if scale == 1.0 else context.multiply(_PER_RADIAN, exact(scale))
    # Every frequency is the product of one of about sqrt(count) steps and one of as many leaps.
    width = 1 << count.bit_length() // 2
    *steps, leap = _powers(_mantissa(1, 1), ratio, width + 1)
    leaps = _powers(_mantissa(*first.as_integer_ratio()), leap, -(-count // width))
    if count <= _FEW:
        return _doubles([_product(a, b) for a in leaps for b in steps][:count])
    return _doubles_of_products(leaps, steps, count)


def _root_of_inverse(
    base: decimal.Decimal, degree: decimal.Decimal, context: decimal.Context
) -> Scaled:
    """``base ** (-1 / degree)``: a square root for each factor 2 of the degree, and one power."""
    halvings = 0
    if degree == degree.to_integral_value():
        integer = int(degree)
        halvings = (integer & -integer).bit_length() - 1
        degree = decimal.Decimal(integer >> halvings)
    if degree == 1:
        numerator, denominator = base.as_integer_ratio()
        value, shift = _mantissa(denominator, numerator)
    else:
        # 64 digits are nearly six more than the mantissas hold; `power` would take half as long again.
        exponent = context.divide(context.ln(base), context.minus(degree))
        # At the bounds all frequencies but the first underflow or overflow; beyond them the integers
        # below would be too long.
        root = context.exp(max(min(exponent, _MAX_EXPONENT), _MIN_EXPONENT))
        value, shift = _mantissa(*root.as_integer_ratio())
    for _ in range(halvings):
        even = _BITS + (shift + _BITS) % 2
        value, shift = math.isqrt(value << even), (shift - even) // 2
    return value, shift


def _doubles(scaled: list[Scaled]) -> QuarterTurns:
    """The nearest doubles, and those nearest to what they leave."""
    nearest = [float(value) for value, _ in scaled]
    left = [float(a - int(b)) for (a, _), b in zip(scaled, nearest, strict=True)]
    shifts = [shift for _, shift in scaled]
    return _array(map(math.ldexp, nearest, shifts)), _array(map(math.ldexp, left, shifts))


def _array(numbers: Iterable[float]) -> Floats:
    return np.array(list(numbers), np.float64)


def _doubles_of_products(leaps: list[Scaled], steps: list[Scaled], count: int) -> QuarterTurns:
    """`_doubles` of the first `count` products ``leap * step``, for many at a time.

    An integer of 55 bits or more, whose last bit is set if anything is left out below it, is rounded
    to a double as the whole number is: the tie and what breaks it are above that bit.
    """
    limbs = _product_limbs(leaps, steps)[:, :count]
    upper = limbs[-1] << 14 | limbs[-2] >> 10  # of 61 or 62 bits
    lower = (limbs[-2] & 1023) << 44 | limbs[-3] << 20 | limbs[-4] >> 4  # the next 54
    below = (limbs[-4] & 15 | np.bitwise_or.reduce(limbs[:-4])) > 0
    nearest = (upper | (lower > 0) | below).astype(np.float64)
    rest = ((upper - nearest.astype(np.int64)) << 54) + lower | below
    shifts = np.add.outer([shift for _, shift in leaps], [shift for _, shift in steps])
    shifts = shifts.ravel()[:count].astype(np.intc) + (2 * _BITS - 62)
    with np.errstate(all="ignore"):
        nearest = np.ldexp(nearest, shifts)
        left = np.ldexp(rest.astype(np.float64), shifts - 54)
    if np.isinf(nearest).any():
        raise OverflowError
    for i in np.flatnonzero(np.abs(rest) < 1 << 54).tolist():
        leap, step = divmod(i, len(steps))
        (nearest[i],), (left[i],) = _doubles([_product(leaps[leap], steps[step])])
    return nearest, left


def _product_limbs(leaps: list[Scaled], steps: list[Scaled]) -> npt.NDArray[np.int64]:
    """The limbs of ``leap * step`` from 2^168 on, the lowest first; the last has 47 or 48 bits.

    Products of limbs that are worth less are left out, 2^195 in all, of a product of 2^382 or more.
    """
    a, b = _limbs(leaps), _limbs(steps)
    sums = np.empty((_LIMBS, len(leaps), len(steps)))
    for i, column in enumerate(sums):
        np.einsum("il,is->ls", a[i:], b[i:][::-1], out=column)
    limbs = sums.reshape(_LIMBS, -1).astype(np.int64)
    for i in range(_LIMBS - 1):
        limbs[i + 1] += limbs[i] >> _LIMB_BITS
        limbs[i] &= (1 << _LIMB_BITS) - 1
    return limbs


def _limbs(scaled: list[Scaled]) -> Floats:
    """Mantissas as integers of `_LIMB_BITS` bits, shape (`_LIMBS`, len(scaled)), lowest first."""
    joined = b"".join([mantissa.to_bytes(_BITS // 8, "little") for mantissa, _ in scaled])
    of_bytes = np.frombuffer(joined, np.uint8).reshape(len(scaled), _LIMBS, _LIMB_BITS // 8)
    low, middle, high = of_bytes.T.astype(np.float64)
    return low + 256 * middle + 65536 * high


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
    """A positive ratio as an integer of 192 bits, truncated, and the exponent that scales it."""
    shift = numerator.bit_length() - denominator.bit_length() - _BITS - 1
    quotient = (numerator << max(-shift, 0)) // (denominator << max(shift, 0))
    excess = quotient.bit_length() - _BITS
    return quotient >> excess, shift + excess
