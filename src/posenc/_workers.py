"""A call's work in pieces: over threads that end with it, and between which signals are seen."""

import itertools
import os
import time
from collections import deque
from collections.abc import Callable
from typing import SupportsIndex

from . import _arrays

# Bytes of output between two looks at signals: some tens of milliseconds. Pieces of fewer rows than
# lie between two anchors would make many an anchor twice.
_PIECE = 1 << 26
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
    work: Callable[[int, slice, slice], None],
    shape: tuple[int, int, int],
    row_bytes: int,
    workers: int,
) -> None:
    """``work(batch, items, rows)``, which together cover the batches, items and rows of `shape`."""
    batches, items, rows = shape
    size = batches * items * rows * row_bytes
    workers = min(workers, size // _THREAD)
    if workers <= 1 and size <= _PIECE and batches == 1:
        work(0, slice(0, items), slice(0, rows))
        return
    limit = _PIECE if workers <= 1 else min(_PIECE, size // (2 * workers))
    row_step = max(limit // (items * row_bytes) // _ROWS, 1) * _ROWS
    item_step = max(limit // (min(row_step, rows) * row_bytes), 1)
    pieces = itertools.product(range(batches), slices(items, item_step), slices(rows, row_step))
    if workers <= 1:
        for piece in pieces:
            work(*piece)
    else:
        _share(work, deque(pieces), workers)


def slices(length: int, step: int) -> list[slice]:
    """What covers `length` things, `step` at a time."""
    return [slice(first, min(first + step, length)) for first in range(0, length, step)]


def _share(
    work: Callable[[int, slice, slice], None],
    pieces: deque[tuple[int, slice, slice]],
    workers: int,
) -> None:
    import threading  # here, as one thread is the rule and its import takes a millisecond

    errors: list[BaseException] = []  # the first of them is raised again below

    def stop(error: BaseException) -> None:
        pieces.clear()
        errors.append(error)

    def drain() -> None:
        try:
            while True:
                try:
                    piece = pieces.popleft()
                except IndexError:
                    return
                work(*piece)
        except BaseException as error:  # noqa: BLE001
            stop(error)

    threads: list[threading.Thread] = []
    try:
        for _ in range(min(workers, len(pieces)) - 1):
            threads.append(threading.Thread(target=drain))
            threads[-1].start()
    except RuntimeError:  # the system has no more of them: those there are will do
        threads.pop()
    except BaseException as error:  # noqa: BLE001
        stop(error)
    drain()
    while threads:  # whatever signal comes: no thread may outlive the call
        try:
            for _ in range(50):  # start() may have been interrupted, and the thread about to begin
                if threads[-1].ident is not None:
                    threads[-1].join()
                    break
                time.sleep(0.01)
            threads.pop()
        except BaseException as error:  # noqa: BLE001
            stop(error)
    if errors:
        raise errors[0]
