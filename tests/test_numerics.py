"""The error bounds that docs/numerics.md derives, and the tools that its figures come from."""

import functools
import importlib.util
import math
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import pytest

import posenc
from posenc import _frequencies, _numpy

ROOT = Path(__file__).parents[1]

# The unit in the last place of numbers from 1/2 to 1, and what docs/numerics.md derives in such units.
UNIT = 2.0**-53
SINE_BOUND, COSINE_BOUND = 1.45, 1.2


@functools.cache
def tool(name: str) -> ModuleType:
    """A program of tools/, which an installed package does not have."""
    path = ROOT / "tools" / f"{name}.py"
    if not path.exists():
        pytest.skip("needs the source tree")
    spec = importlib.util.spec_from_file_location(f"posenc_tools_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def value_at(coefficients: tuple[float, ...], z: mpmath.mpf) -> mpmath.mpf:
    return mpmath.fsum(c * z**k for k, c in enumerate(coefficients))


def test_the_numpy_kernels_have_the_coefficients_of_the_proof() -> None:
    minimax = tool("minimax")
    assert _numpy._SINE == minimax.SINE
    assert _numpy._COSINE == minimax.COSINE


def test_the_compiled_kernels_have_the_coefficients_of_the_proof() -> None:
    minimax = tool("minimax")
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.pxi")]
    (source,) = (text for text in sources if "void sincos_poly(" in text)
    for letter, numbers in (("S", minimax.SINE), ("C", minimax.COSINE)):
        found = re.findall(rf"double {letter}([1-6]) = (\S+) +# (\S+)$", source, re.MULTILINE)
        assert [int(k) for k, _, _ in found] == [1, 2, 3, 4, 5, 6]
        assert tuple(float(number) for _, number, _ in found) == numbers
        assert tuple(float.fromhex(number) for _, _, number in found) == numbers


def test_the_polynomials_errors_are_proved() -> None:
    minimax = tool("minimax")
    sine, cosine = minimax.sine_error(), minimax.cosine_error()
    assert 2.0**-56.37 < sine.attained <= sine.bound < 2.0**-56.36
    assert 2.0**-59.94 < cosine.attained <= cosine.bound < 2.0**-59.93


def test_no_point_contradicts_the_proof() -> None:
    minimax = tool("minimax")
    sine, cosine = minimax.sine_error(), minimax.cosine_error()
    largest_sine = largest_cosine = mpmath.mpf(0)
    with mpmath.workprec(200):
        for i in range(1, 501):
            x = mpmath.pi / 4 * i / 500
            z = x * x
            s = x + x * z * value_at(minimax.SINE, z)
            c = 1 - z / 2 + z * z * value_at(minimax.COSINE, z)
            largest_sine = max(largest_sine, abs(s / mpmath.sin(x) - 1))
            largest_cosine = max(largest_cosine, abs(c - mpmath.cos(x)))
    assert 0.99 * sine.attained < largest_sine <= sine.bound
    assert 0.99 * cosine.attained < largest_cosine <= cosine.bound


def test_an_exchange_to_full_precision_gives_the_leading_coefficients() -> None:
    minimax = tool("minimax")
    with mpmath.workprec(200):
        for numbers, search in (
            (minimax.SINE, minimax.minimax_sine),
            (minimax.COSINE, minimax.minimax_cosine),
        ):
            coefficients, _ = search()
            assert [float(number) for number in coefficients[:2]] == list(numbers[:2])
            for number, exact in zip(numbers, coefficients, strict=True):
                assert abs(number / exact - 1) < 3e-9


def test_one_evaluation_stays_within_its_bound(backend: str) -> None:
    # A fractional position is evaluated at once, and at d_model 2 its angle is the position.
    angles = np.random.default_rng(5).uniform(0.0, np.pi / 4, 4000)
    rows = posenc.encode(angles, 2)
    with mpmath.workprec(120):
        for angle, (sine, cosine) in zip(angles.tolist(), rows.tolist(), strict=True):
            exact_cosine, exact_sine = mpmath.cos_sin(mpmath.mpf(angle))
            assert abs(sine - exact_sine) <= SINE_BOUND * min(UNIT, math.ulp(sine))
            assert abs(cosine - exact_cosine) <= COSINE_BOUND * UNIT


def test_a_scan_judges_the_entries_close_to_a_middle_and_finds_them_right() -> None:
    scan = tool("scan")
    result = scan.scan(0, 8192, 512, 10000.0, jobs=2)
    assert result.scanned == 8192 * 512
    assert result.judged == 2
    assert result.wrong == []
    assert 0 < result.largest_error < 2.0**-50


def test_a_scan_finds_the_one_entry_of_2_to_the_20_rows_that_is_not_the_nearest() -> None:
    (found,) = tool("scan").scan(477_576, 1, 512, 10000.0).wrong
    assert (found.position, found.column) == (477_576, 255)
    assert 8.9e-17 < found.distance < 9.1e-17


def test_a_scan_picks_what_is_close_to_a_middle() -> None:
    near_middle = tool("scan").near_middle
    middle = 0.75 + 2.0**-25
    below_one = 1 - 2.0**-25  # float32 above 1 are twice as far apart
    assert near_middle(
        np.array([middle, middle + 2.0**-50, middle - 2.0**-50, below_one, -below_one])
    ).all()
    assert not near_middle(
        np.array([0.0, 0.75, middle + 2.0**-48, middle - 2.0**-48, 1 + 2.0**-25])
    ).any()


def test_a_scan_finds_a_wrong_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = tool("scan")
    monkeypatch.setattr(scan, "ZONE", 2.0**-30)
    table = posenc.positional_encoding
    position, column = 5, 1

    def wrong(*arguments: int, **given: Any) -> npt.NDArray[Any]:
        result = table(*arguments, **given)
        if result.dtype == np.float32:
            result[position, column] = np.nextafter(result[position, column], np.float32(2))
        return result

    right = scan.suspects(0, 8, 64, 10000.0)
    assert position in right.positions[right.columns == column]
    monkeypatch.setattr(posenc, "positional_encoding", wrong)
    (found,) = scan.scan(0, 8, 64, 10000.0).wrong
    assert (found.position, found.column) == (position, column)
    assert found.distance > 0


def scaled(mantissas: list[int]) -> list[tuple[int, int]]:
    return [(mantissa, -17 * i - 190) for i, mantissa in enumerate(mantissas)]


def assert_same_doubles(leaps: list[int], steps: list[int]) -> None:
    """Many products at a time give the doubles that Python's integers give one by one."""
    a, b = scaled(leaps), scaled(steps)
    got = _frequencies._doubles_of_products(a, b, len(a) * len(b))
    expected = _frequencies._doubles([_frequencies._product(x, y) for x in a for y in b])
    assert got[0].tolist() == expected[0].tolist()
    assert got[1].tolist() == expected[1].tolist()


def test_frequencies_by_limbs_are_those_by_integers() -> None:
    # a carry that is lost, a limb of too little or too great a weight
    random = np.random.default_rng(11)
    for count in (1, 7, 60):
        mantissas = [int.from_bytes(random.bytes(24), "big") | 1 << 191 for _ in range(2 * count)]
        assert_same_doubles(mantissas[:count], mantissas[count:])
    assert_same_doubles([2**192 - 1, 2**191], [2**192 - 1, 2**191])


def test_frequencies_are_rounded_once() -> None:
    # ties, and what breaks them far below, in the nearest double and in the one that it leaves
    one = 1 << 191
    ties = [one + sign * (1 << 191 - 53) for sign in (1, 3)]
    ties += [tie + (1 << 191 - at) for tie in (one, ties[0]) for at in (60, 90, 107)]
    ties += [tie + (1 << 191 - at - 54) for tie in ties for at in (60, 90, 107)]
    broken = [
        tie + sign * (1 << at) for tie in ties for at in (0, 20, 60, 75, 90) for sign in (1, -1)
    ]
    assert_same_doubles([one, one + (1 << 190)], ties + broken)


@pytest.mark.parametrize("count", [100, 2000])
def test_frequencies_beyond_a_double_are_refused(count: int) -> None:
    # one by one and many at a time
    with pytest.raises(ValueError, match="base must leave frequencies that do"):
        _frequencies.angular_frequencies(5e-324, count)
