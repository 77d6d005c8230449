"""What the compiled kernels check themselves, so that a mistake in Python reaches no other memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from posenc import _backend
from posenc._plan import Plan

SHAPE = (2, 70, 4)
ROWS = 140
SWAPPED = np.dtype(np.int64).newbyteorder()
SWAPPED_FLOAT = np.dtype(np.float64).newbyteorder()


class NotATuple:
    """Unpacked like a pair, but nothing holds on to what comes out."""

    def __iter__(self) -> Any:
        return iter([None, plan_of(2)])


def plan_of(n: int) -> Plan:
    turns, table = np.zeros((4, n)), np.zeros((96, 2, n))
    return Plan(turns, table, table, 2.0**53 - 31, False, False, 1.0)


def fill(start: float = 0.0) -> None:
    _backend.kernels.fill(np.zeros(SHAPE), start, None, plan_of(2), False, 0, ROWS)


def gather_add(x: Any = None, start: float = 0.0, positions: Any = None) -> None:
    out = np.zeros(SHAPE)
    given = out if x is None else x
    _backend.kernels.gather_add(
        out, given, None, start, positions, None, np.zeros((70, 4)), 1.0, False, 0, ROWS
    )


def rotate(positions: Any, *plans: Any) -> None:
    x = np.zeros(SHAPE)
    _backend.kernels.rotate(x, x, 0.0, positions, plans, False, False, False, 0, ROWS)


def concatenate(*parts: Any) -> None:
    _backend.kernels.concatenate(np.zeros(SHAPE), parts, False)


def of_pairs(*pairs: int) -> tuple[Any, Plan]:
    return np.array(pairs, np.int64), plan_of(len(pairs))


def try_add(plan: Any) -> None:
    x = np.zeros(SHAPE)
    _backend.kernels.try_add(x, x, 0, None, None, 1.0, 1, plan, 4)


def count_within(*lengths: int) -> None:
    _backend.kernels.count_within(np.zeros(2, np.int64), np.array(lengths, np.int64))


def aligned_array(size: int, buffer: Any) -> None:
    _backend.kernels.aligned_array(buffer, (size,), np.dtype(np.uint8))


POSITIONS = np.zeros(70)
# By the argument that is refused, and what is wrong with it.
REFUSED: dict[tuple[str, str], Callable[[], None]] = {
    ("start", "NaN"): lambda: fill(start=np.nan),
    ("start", "infinite"): lambda: fill(start=-np.inf),
    ("start", "beyond the table"): lambda: gather_add(start=1.0),
    ("start", "no row of the table"): lambda: gather_add(start=np.nan),
    ("x", "of another byte order"): lambda: gather_add(x=np.zeros(SHAPE, SWAPPED_FLOAT)),
    ("positions", "of another byte order"): lambda: gather_add(positions=np.zeros(70, SWAPPED)),
    ("positions", "missing"): lambda: rotate((None,), (None, plan_of(2))),
    ("plans", "without pairs"): lambda: rotate((POSITIONS,), (None, plan_of(0))),
    ("plans", "with a pair twice"): lambda: rotate((POSITIONS,) * 2, of_pairs(0), of_pairs(0)),
    ("plans", "with a pair too many"): lambda: rotate((POSITIONS,) * 2, of_pairs(0), of_pairs(2)),
    ("plans", "with a negative pair"): lambda: rotate((POSITIONS,), of_pairs(-1, 0)),
    ("plans", "of too many axes"): lambda: rotate((POSITIONS,) * 65, *[of_pairs()] * 65),
    ("parts", "of too few columns"): lambda: concatenate((0, np.zeros((2, 3)))),
    ("parts", "of too many columns"): lambda: concatenate((0, np.zeros((2, 5)))),
    ("parts", "of too few rows"): lambda: concatenate((1, np.zeros((69, 4)))),
    ("parts", "of the last axis"): lambda: concatenate((2, np.zeros((4, 4)))),
    ("parts", "of another dtype"): lambda: concatenate((0, np.zeros((2, 4), np.float32))),
    ("parts", "none"): lambda: concatenate((0, None)),
    ("parts", "too many"): lambda: concatenate(*[(0, np.zeros((2, 0)))] * 65),
    ("plan", "of numbers"): lambda: try_add((1, 2, 3, 2.0**53, False, False, 1.0)),
    ("lengths", "negative"): lambda: count_within(3, -1),
    ("lengths", "that overflow"): lambda: count_within(2**62, 2**62, 2**62, 2**62, 2),
    ("lengths", "too few"): lambda: count_within(1),
    ("buffer", "too small"): lambda: aligned_array(128, np.zeros(128, np.uint8)[1:]),
    ("buffer", "not contiguous"): lambda: aligned_array(8, np.zeros(4096, np.uint8)[::16]),
}


@pytest.fixture
def compiled(backend: str) -> None:
    if backend == "numpy":
        pytest.skip("NumPy checks every index itself")


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("wrong", REFUSED, ids=" ".join)
def test_a_compiled_kernel_refuses_what_would_reach_other_memory(wrong: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=f"^{wrong[0]} does not fit"):
        REFUSED[wrong]()


@pytest.mark.usefixtures("compiled")
def test_what_a_kernel_reads_belongs_to_its_arguments() -> None:
    with pytest.raises(TypeError, match="tuple"):
        rotate((POSITIONS,), NotATuple())


@pytest.mark.usefixtures("compiled")
def test_arrays_without_axes_are_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        _backend.kernels.make_table(np.zeros((96, 2, 3)), np.zeros(()), 1.0)
    with pytest.raises(ValueError, match="does not fit"):
        _backend.kernels.count_kept(np.zeros((), np.int64), np.ones((), np.bool_), 0, 0)
