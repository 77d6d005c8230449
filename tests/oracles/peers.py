"""What the oracles have in common: how near they must be, and how to get at their rows.

Logarithms, powers, sines and cosines of another library may end in other bits on another processor,
so of these none is asserted to the last bit. Bits are asserted where all that another library does
is to add and to multiply, one at a time, which IEEE 754 leaves no choice in.
"""

import bisect
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import numpy.typing as npt

import posenc

Array = npt.NDArray[Any]
Table = Callable[[int, int], Any]  # of a length and a width, from position 0
Rows = Callable[[Array, int], Any]  # of positions and a width

# How far entries in float32 may be: from angles in float64, and from angles that are exact.
DOUBLE_ANGLES = 1e-7
EXACT_ANGLES = 1.2e-7

# How far frequencies in float32 may be from ours, as a part of them.
FREQUENCIES = 5e-7

# float32 has them exactly, and their products with any float32.
POWERS_OF_TWO = 2 ** np.arange(21)


def single_angles(reach: float) -> float:
    """How far entries may be from angles in float32, of positions up to `reach`."""
    return 2e-7 * max(1.0, reach)


def assert_near(theirs: Any, ours: Array, within: float) -> None:
    assert theirs.shape == ours.shape
    np.testing.assert_allclose(np.asarray(theirs, np.float64), ours, rtol=0.0, atol=within)


def assert_buckets(
    theirs: Any,
    ours: Array,
    distances: Array,
    bidirectional: bool,
    num_buckets: int,
    max_distance: int,
) -> list[int]:
    """That ours are exact, and theirs too but where a logarithm is a whole number.

    There it may come out just below in float32, which is one bucket less: the distances returned.
    """
    away = np.abs(distances) if bidirectional else np.maximum(-distances, 0)
    ahead = num_buckets // 2 if bidirectional else 0
    exact, whole = _buckets(int(away.max()) + 1, num_buckets - ahead, max_distance)
    assert np.array_equal(ours, exact[away] + ahead * (distances > 0))
    fell = whole[away] & (np.asarray(theirs) != ours)
    assert np.array_equal(theirs, ours - fell)
    edges: list[int] = np.flatnonzero(whole).tolist()
    return edges


def _buckets(count: int, num_buckets: int, max_distance: int) -> tuple[Array, Array]:
    """T5's buckets of 0, 1, ... in integers, and whether a logarithm there is a whole number.

    It is i where ``n**left`` is the i-th of the powers: both sides without their logarithms.
    """
    e = num_buckets // 2
    left = num_buckets - e
    powers = [max_distance**i * e ** (left - i) for i in range(1, left)]
    exact = [n if n < e else e + bisect.bisect_right(powers, n**left) for n in range(count)]
    return np.array(exact), np.array([n**left in powers for n in range(count)])


class Peer(NamedTuple):
    """A sinusoidal encoding of another library, and posenc's preset for it."""

    preset: str
    rows: Rows
    double: bool = False  # whether its angles are in float64
    widths: tuple[int, ...] = (6, 64, 512)

    def ours(self, positions: Array, width: int) -> Array:
        return posenc.Sinusoidal.preset(self.preset, width).encode(positions)

    def check(self) -> None:
        positions = np.arange(300)
        within = DOUBLE_ANGLES if self.double else single_angles(positions[-1])
        for width in self.widths:
            assert_near(self.rows(positions, width), self.ours(positions, width), within)


def from_table(table: Table) -> Rows:
    return lambda positions, width: table(int(positions.max()) + 1, width)[positions]


def from_loop(table: Table, module: ModuleType) -> Rows:
    """Of a table made by a loop in Python, which a million rows would keep busy for minutes: its
    ``range(length)`` becomes the positions."""

    def rows(positions: Array, width: int) -> Any:
        assert len(positions) != width

        def counted(stop: int) -> Any:
            return positions.tolist() if stop == len(positions) else range(stop)

        with mock.patch.object(module, "range", counted, create=True):
            return table(len(positions), width)

    return rows
