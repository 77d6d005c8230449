"""Blocks of an array, in which NumPy's expressions work: few enough entries for a cache, and for
Python to check for signals within milliseconds."""

import math
from collections.abc import Iterator, Sequence

# Entries of a block of an expression: its temporaries stay in a level-2 cache, and it takes far
# longer than the Python calls around it.
COMPUTED = 1 << 16
# Entries of a block that is copied: that needs no temporaries, and takes some milliseconds.
COPIED = 1 << 20


def blocks(shape: Sequence[int], entries: int) -> Iterator[tuple[slice, ...]]:
    """Indices of blocks that together cover an array of this shape, in C order: one at the least.

    Each has at most so many entries, but one at the least, and is contiguous where the array is.
    """
    if math.prod(shape) <= entries:
        return iter([(slice(None),) * len(shape)])
    steps = []
    for length in reversed(shape):
        steps.append(max(1, min(length, entries)))
        entries //= steps[-1]
    return tiles(shape, steps[::-1])


def tiles(shape: Sequence[int], steps: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    """Indices of tiles that together cover an array of this shape, each at most `steps` long."""
    if 0 in shape:
        return
    if not shape:
        yield ()
        return
    for first in range(0, shape[0], steps[0]):
        along = slice(first, min(first + steps[0], shape[0]))
        for others in tiles(shape[1:], steps[1:]):
            yield along, *others
