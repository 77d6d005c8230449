"""Look for float32 entries of a table that are not the nearest float32 to the exact value.

    python tools/scan.py                            # positions 0 ... 2^20 - 1, d_model 512
    python tools/scan.py --positions 100000 --d-model 64 --base 500000 --jobs 2

An entry can only be wrong where the exact value lies close to the middle between two float32. Every
entry whose float64 value is within 2^-49 of one, twice the error that posenc allows itself, is
judged: the exact value at 300 bits, from mpmath (much faster where gmpy2 is installed too).
"""

import argparse
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import mpmath
import numpy as np
import numpy.typing as npt

import posenc

ZONE = 2.0**-49
BITS = 300
# Entries of a block: some 50 MB with all that is computed of it.
BLOCK = 1 << 20


class Block(NamedTuple):
    """The suspects of a block: entries close to the middle between two float32."""

    entries: int
    positions: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    doubles: npt.NDArray[np.float64]
    singles: npt.NDArray[np.float32]


class Wrong(NamedTuple):
    """An entry that is not the nearest float32."""

    position: int
    column: int
    distance: float  # of the exact value from the middle


class Result(NamedTuple):
    """What a scan found."""

    scanned: int
    judged: int
    wrong: list[Wrong]
    largest_error: float  # of the float64 entries judged


def scan(start: int, count: int, d_model: int, base: float, jobs: int = 1) -> Result:
    """Scan `count` positions from `start` on."""
    step = max(1, BLOCK // d_model)
    starts = range(start, start + count, step)

    def look(first: int) -> Block:
        return suspects(first, min(step, start + count - first), d_model, base)

    scanned = judged = 0
    wrong: list[Wrong] = []
    largest = 0.0
    with mpmath.workprec(BITS), ThreadPoolExecutor(jobs) as pool:
        for block in _in_order(pool, look, starts, jobs):
            scanned += block.entries
            judged += len(block.positions)
            for position, column, double, single in zip(
                *(values.tolist() for values in block[1:]), strict=True
            ):
                value = exact(position, column, d_model, base)
                largest = max(largest, float(abs(value - double)))
                distance = beyond_middle(single, value)
                if distance > 0:
                    wrong.append(Wrong(position, column, distance))
    return Result(scanned, judged, wrong, largest)


def suspects(start: int, count: int, d_model: int, base: float) -> Block:
    """The entries of `count` rows that are close to the middle between two float32."""
    doubles = posenc.positional_encoding(count, d_model, start=start, base=base)
    singles = posenc.positional_encoding(count, d_model, start=start, base=base, dtype=np.float32)
    rows, columns = np.nonzero(near_middle(doubles))
    return Block(
        doubles.size,
        start + rows,
        columns,
        doubles[rows, columns],
        singles[rows, columns],
    )


def near_middle(doubles: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Whether a double, 0 excepted, is within `ZONE` of the middle between two float32."""
    nearest = doubles.astype(np.float32)
    rest = doubles - nearest
    toward_rest = np.where(rest > 0, np.float32(np.inf), np.float32(-np.inf))
    half = np.abs(np.nextafter(nearest, toward_rest).astype(np.float64) - nearest) / 2
    near: npt.NDArray[np.bool_] = (np.abs(rest) >= half - ZONE) & (doubles != 0)
    return near


def exact(position: int, column: int, d_model: int, base: float) -> Any:
    """An entry of the interleaved table, at the working precision."""
    frequency = mpmath.mpf(base) ** (mpmath.mpf(-2 * (column // 2)) / d_model)
    function = mpmath.cos if column % 2 else mpmath.sin
    return function(position * frequency)


def beyond_middle(single: float, value: Any) -> float:
    """How far a value lies beyond the middle between a float32 and the next one on its side."""
    side = math.inf if value > single else -math.inf
    following = float(np.nextafter(np.float32(single), np.float32(side)))
    middle = (mpmath.mpf(single) + mpmath.mpf(following)) / 2
    return float(value - middle if side > 0 else middle - value)


def _in_order(pool: ThreadPoolExecutor, look: Any, starts: range, jobs: int) -> Iterator[Block]:
    """The blocks, of which no more than `jobs` are made ahead."""
    for first in range(0, len(starts), jobs):
        yield from pool.map(look, starts[first : first + jobs])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--start", type=int, default=0, help="first position (default 0)")
    parser.add_argument(
        "--positions", type=int, default=1 << 20, help="number of positions (default 2^20)"
    )
    parser.add_argument("--d-model", type=int, default=512, help="columns (default 512)")
    parser.add_argument("--base", type=float, default=10000.0, help="base (default 10000)")
    parser.add_argument("--jobs", type=int, default=1, help="threads (default 1)")
    given = parser.parse_args()
    result = scan(given.start, given.positions, given.d_model, given.base, given.jobs)
    print(f"scanned {result.scanned} entries")
    print(f"judged {result.judged} within 2^-49 of the middle between two float32")
    print(f"not the nearest float32: {len(result.wrong)}")
    for position, column, distance in result.wrong:
        print(f"  position {position}, column {column}: {distance:.2g} beyond the middle")
    print(f"largest float64 error among those judged: {result.largest_error:.3g}")


if __name__ == "__main__":
    main()
