"""Where the polynomials of the sine and the cosine come from, and how far they are off.

    python tools/minimax.py                 # the coefficients, and both parts below
    python tools/minimax.py --check-only    # the proof of the error bounds alone

The kernels take, for |x| <= pi/4 and z = x * x,

    sin x  as  x + x^3 (S1 + S2 z + ... + S6 z^5)             least relative error
    cos x  as  1 - z/2 + z^2 (C1 + C2 z + ... + C6 z^5)       least absolute error

The coefficients are those of the minimax polynomials, found by a Remez exchange and rounded to
double one by one. An exchange to full precision, as here, gives S1, S2, C1 and C2 to the bit. The
others differ by 3 parts in 10^9 at most, as if that exchange had stopped a little short of full
precision: how it was done is not known. Other coefficients would change results, so these
stay, and what is proved is the error of exactly these doubles, in rational arithmetic, from Taylor's
series with its remainder. Most of it comes from rounding S1 and C1 to double.
"""

import argparse
import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import mpmath

SINE = (
    -0.1666666666666663,
    0.008333333333322118,
    -0.00019841269829589558,
    2.7557313621391203e-06,
    -2.5050747763583287e-08,
    1.5896230192794875e-10,
)
COSINE = (
    0.0416666666666666,
    -0.0013888888888874138,
    2.4801587289491827e-05,
    -2.7557314355240523e-07,
    2.0875723684190937e-09,
    -1.135966985291976e-11,
)

# Above pi/4 (1 + 2^-50): reduced angles pass pi/4 by 2^-52 of a quarter turn at most.
END = Fraction(7853981633974491, 10**16)
# Terms of Taylor's series that are kept: the next is below 2^-100 at END.
TERMS = 14
# Intervals of z that the error is bounded on one by one.
PIECES = 128


class Error(NamedTuple):
    """The largest error of a polynomial: a value that it takes, and a bound that is proved."""

    attained: float
    bound: float


@functools.cache
def sine_error() -> Error:
    """The relative error of the sine's polynomial."""
    lead = [Fraction(1), *map(Fraction, SINE)]
    return largest_error(lead, _taylor(1), relative=True)


@functools.cache
def cosine_error() -> Error:
    """The absolute error of the cosine's polynomial."""
    lead = [Fraction(1), Fraction(-1, 2), *map(Fraction, COSINE)]
    return largest_error(lead, _taylor(0), relative=False)


def largest_error(polynomial: list[Fraction], series: list[Fraction], relative: bool) -> Error:
    """The largest difference of a polynomial from an alternating series on 0 <= z <= END^2.

    On an interval of radius r around c the polynomial sum a_k (z - c)^k is at most
    |a_0| + |a_1| r + |a_2| r^2 + ...; the remainder of the series is below its next term.
    """
    end = END * END
    remainder = abs(series[-1]) * end ** (len(series) - 1)
    series = series[:-1]
    difference = [-term for term in series]
    for k, coefficient in enumerate(polynomial):
        difference[k] += coefficient
    radius = end / (2 * PIECES)
    attained = bound = Fraction(0)
    for piece in range(PIECES):
        shifted = _shifted(difference, (2 * piece + 1) * radius)
        most = _value([abs(a) for a in shifted], radius) + remainder
        least = abs(_value(shifted, radius)) - remainder
        # sin x / x falls: least at the right end of the piece, where `least` is taken too
        right = _value(series, (2 * piece + 2) * radius) if relative else Fraction(1)
        bound = max(bound, most / (right - remainder * relative))
        attained = max(attained, least / (right + remainder * relative))
    return Error(_down(attained), _up(bound))


def _taylor(first: int) -> list[Fraction]:
    """Coefficients in z of cos x (first = 0) or sin x / x (first = 1), and one more."""
    return [Fraction((-1) ** k, math.factorial(2 * k + first)) for k in range(TERMS + 1)]


def _shifted(polynomial: Sequence[Fraction], center: Fraction) -> list[Fraction]:
    """The coefficients of powers of z - center: Horner's scheme, again and again."""
    result = list(polynomial)
    for first in range(len(result)):
        for k in range(len(result) - 2, first - 1, -1):
            result[k] += center * result[k + 1]
    return result


def _value(polynomial: Sequence[Fraction], z: Fraction) -> Fraction:
    result = Fraction(0)
    for coefficient in reversed(polynomial):
        result = result * z + coefficient
    return result


def _up(value: Fraction) -> float:
    return math.nextafter(float(value), math.inf)


def _down(value: Fraction) -> float:
    return math.nextafter(float(value), 0.0)


Function = Callable[[Any], Any]


def minimax_sine() -> tuple[list[Any], Any]:
    """Coefficients of least relative error for the sine, unrounded, and that error."""
    return remez(
        lambda x: (mpmath.sin(x) - x) / mpmath.sin(x),
        [_weighted_power(3 + 2 * k, mpmath.sin) for k in range(6)],
    )


def minimax_cosine() -> tuple[list[Any], Any]:
    """Coefficients of least absolute error for the cosine, unrounded, and that error."""
    return remez(
        lambda x: mpmath.cos(x) - 1 + x * x / 2,
        [_weighted_power(4 + 2 * k, lambda x: 1) for k in range(6)],
    )


def _weighted_power(exponent: int, unit: Function) -> Function:
    return lambda x: x**exponent / unit(x)


def remez(function: Function, basis: list[Function]) -> tuple[list[Any], Any]:
    """The combination of `basis` nearest to `function` on [0, pi/4], and its largest error.

    Remez' exchange: the combination whose error takes one size, with signs that alternate, at as
    many points as there are unknowns; then the points at which that error is largest; and again.
    """
    end = mpmath.pi / 4
    n = len(basis)
    points = [end * mpmath.sin(mpmath.pi * (i + 1) / (2 * (n + 1))) for i in range(n + 1)]
    while True:
        rows = [[g(x) for g in basis] + [(-1) ** i] for i, x in enumerate(points)]
        solution = mpmath.lu_solve(
            mpmath.matrix(rows), mpmath.matrix([function(x) for x in points])
        )
        *coefficients, level = solution

        def error(x: Any, coefficients: list[Any] = coefficients) -> Any:
            return function(x) - mpmath.fdot(
                (c, g(x)) for c, g in zip(coefficients, basis, strict=True)
            )

        points = _extrema(error, end, n + 1)
        largest = max(abs(error(x)) for x in points)
        if largest - abs(level) <= largest * mpmath.mpf(2) ** -60:
            return coefficients, largest


def _extrema(error: Function, end: Any, count: int) -> list[Any]:
    """The points, one in each run of a sign, at which the error is largest."""
    step = end / 200
    grid = [step * (i + 1) for i in range(200)]
    runs: list[tuple[Any, Any]] = []
    for x in grid:
        value = error(x)
        if runs and (runs[-1][1] > 0) == (value > 0):
            runs[-1] = max(runs[-1], (x, value), key=lambda pair: abs(pair[1]))
        else:
            runs.append((x, value))
    if len(runs) != count:
        raise ArithmeticError(f"the error changes its sign {len(runs) - 1} times, not {count - 1}")
    return [x if x == end else _vertex(error, x, step) for x, _ in runs]


def _vertex(error: Function, x: Any, step: Any) -> Any:
    """An extremum near x: the vertices of ever smaller parabolas."""
    for _ in range(6):
        left, middle, right = error(x - step), error(x), error(x + step)
        x += step * (left - right) / (2 * (left - 2 * middle + right))
        step /= 30
    return x


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check-only", action="store_true", help="prove the error bounds, search nothing"
    )
    arguments = parser.parse_args()
    for letter, numbers in (("S", SINE), ("C", COSINE)):
        for k, number in enumerate(numbers, 1):
            print(f"{letter}{k} {number.hex():<24} {number!r}")
    for name, result in (
        ("sine, relative", sine_error()),
        ("cosine, absolute", cosine_error()),
    ):
        print(
            f"{name} error on [-pi/4, pi/4]: at most 2^{math.log2(result.bound):.4f} (proved), "
            f"2^{math.log2(result.attained):.4f} is attained"
        )
    if not arguments.check_only:
        _compare()


def _compare() -> None:
    """Print how far the coefficients are from a Remez exchange to full precision."""
    with mpmath.workprec(200):
        for letter, numbers, search in (
            ("S", SINE, minimax_sine),
            ("C", COSINE, minimax_cosine),
        ):
            coefficients, error = search()
            size = mpmath.nstr(mpmath.log(error, 2), 6)
            print(f"\nRemez exchange, {letter}: error 2^{size} before rounding")
            for k, (ours, theirs) in enumerate(zip(numbers, coefficients, strict=True), 1):
                same = "the same double" if ours == float(theirs) else "not repeated to the bit"
                apart = mpmath.nstr(theirs / ours - 1, 2)
                print(f"{letter}{k} {float(theirs).hex():<24} {same}, relative difference {apart}")


if __name__ == "__main__":
    main()
