"""A call's work in pieces: over threads that end with it, and between which signals are seen."""

import itertools
import os
from collections import deque
from collections.abc import Callable
from typing import SupportsIndex

from . import _arrays

# Bytes of output between two looks at signals: a few milliseconds. A multiple of a tile's rows
# keeps pieces from sharing a tile.
_PIECE = 1 << 23
_ROWS = 64
# Bytes of output from which a thread is worth its start.
_THREAD = 1 << 20


def count(workers: SupportsIndex) -> int:
    """``workers`` as in scipy.fft: a number of threads, or from -1 on down from the CPUs' number."""
    number = _arrays.integer("workers", workers)
    if number > 0:
        return number
    affinity = getattr(os, "sched_getaffinity", None)
    cpus = len(affinity(0)) if affinity else os.cpu_count() or 1
    if number == 0 or number < -cpus:
        raise ValueError(
            f"workers must be 1 or more, or -1 to -{cpus} on this machine, got {number}"
        )
    return cpus + 1 + number


def run(
    work: Callable[[slice, slice], None], items: int, rows: int, row_bytes: int, workers: int
) -> None:
    """``work(items, rows)`` for slices that together cover ``items`` times ``rows`` rows."""
    size = items * rows * row_bytes
    workers = min(workers, size // _THREAD)
    if size <= _PIECE and workers <= 1:
        work(slice(0, items), slice(0, rows))
        return
    limit = _PIECE if workers <= 1 else min(_PIECE, size // (2 * workers))
    row_step = max(limit // (items * row_bytes) // _ROWS, 1) * _ROWS
    item_step = max(limit // (min(row_step, rows) * row_bytes), 1)
    pieces = deque(itertools.product(_slices(items, item_step), _slices(rows, row_step)))
    if workers <= 1:
        for piece in pieces:
            work(*piece)
    else:
        _share(work, pieces, workers)


def _slices(length: int, step: int) -> list[slice]:
    return [slice(first, min(first + step, length)) for first in range(0, length, step)]


def _share(
    work: Callable[[slice, slice], None], pieces: deque[tuple[slice, slice]], workers: int
) -> None:
    import threading  # here, as one thread is the rule and its import takes a millisecond

    errors: list[BaseException] = []

    def drain() -> None:
        try:
            while True:
                try:
                    piece = pieces.popleft()
                except IndexError:
                    return
                work(*piece)
        except BaseException as error:  # noqa: BLE001 - raised again where the call was made
            pieces.clear()
            errors.append(error)

    threads = [threading.Thread(target=drain) for _ in range(min(workers, len(pieces)) - 1)]
    try:
        for thread in threads:
            thread.start()
        drain()
    finally:
        pieces.clear()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
    if errors:
        raise errors[0]
