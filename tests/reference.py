"""What is right: mpmath, at the 80 digits of conftest.py, and the library's promises in terms of it."""

import functools
import math
from collections.abc import Sequence
from fractions import Fraction

import mpmath
import numpy as np
import numpy.typing as npt

# The promise for float64, and the tie zone of float32.
BOUND = 2.0**-50


@functools.cache
def frequency(d_model: int, base: float, pair: int) -> mpmath.mpf:
    return mpmath.mpf(base) ** (mpmath.mpf(-2 * pair) / d_model)


def sine_cosine(
    position: float, d_model: int, base: float, pair: int
) -> tuple[mpmath.mpf, mpmath.mpf]:
    angle = mpmath.mpf(position) * frequency(d_model, base, pair)
    cosine, sine = mpmath.cos_sin(angle)
    return sine, cosine


def row(position: float, d_model: int, base: float = 10000.0) -> list[float]:
    """An interleaved row, each entry the double nearest to the exact value."""
    return [
        float(value)
        for pair in range(d_model // 2)
        for value in sine_cosine(position, d_model, base, pair)
    ]


def table(
    positions: Sequence[float], d_model: int, base: float = 10000.0
) -> npt.NDArray[np.float64]:
    return np.array([row(position, d_model, base) for position in positions])


def error(got: np.floating, exact: mpmath.mpf) -> float:
    return float(abs(mpmath.mpf(float(got)) - exact))


def half_ulp_float32(exact: mpmath.mpf) -> float:
    """Half the distance between the two float32 around an exact value."""
    # From the side of 0: float32 just below a power of two are twice as dense as above.
    toward_zero = np.float32(float(abs(exact)))
    if mpmath.mpf(float(toward_zero)) > abs(exact):
        toward_zero = np.nextafter(toward_zero, np.float32(0))
    return float(np.spacing(toward_zero)) / 2


def rounded(value: float, digits: int, least: int) -> float:
    """A double to `digits` binary digits, ties to even; below 2**least to as many places as there."""
    exponent = max(math.frexp(value)[1] - digits, least + 1 - digits)
    unit = Fraction(2) ** exponent
    return math.copysign(float(round(Fraction(value) / unit) * unit), value)
