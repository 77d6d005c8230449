"""A call's rows in ranges: over threads that end with it, and with checks for signals between."""

import _thread
import os
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import SupportsIndex

from . import _checks
from ._plan import ANCHOR_SPACING

# Bytes of output between two checks for signals: some tens of milliseconds.
_PIECE_BYTES = 1 << 26
# Bytes of output from which a thread is worth its start.
_THREAD_BYTES = 1 << 20
# Milliseconds to wait for a thread that has not begun.
_PATIENCE_MS = 1000


def thread_count(workers: SupportsIndex) -> int:
    """``workers`` as in scipy.fft: a number of threads, or from -1 on down from the CPUs' number."""
    number = _checks.integer("workers", workers)
    if number > 0:
        return number
    affinity = getattr(os, "sched_getaffinity", None)
    cpus = len(affinity(0)) if affinity else os.cpu_count() or 1
    if number == 0 or number < -cpus:
        raise ValueError(
            f"workers must be 1 or more, or -1 to -{cpus} on this machine, "
            f"got {_checks.shown(number)}"
        )
    return cpus + 1 + number


def run(kernel: Callable[[int, int], None], rows: int, row_bytes: int, workers: int) -> None:
    """``kernel(first, stop)`` for ranges that together cover so many rows, if these have any bytes.

    Python checks for signals between two ranges. Each of the threads takes one range after another.
    """
    size = rows * row_bytes
    if not size:
        return
    workers = min(workers, size // _THREAD_BYTES)
    if workers <= 1 and size <= _PIECE_BYTES:
        kernel(0, rows)
        return
    limit = _PIECE_BYTES if workers <= 1 else min(_PIECE_BYTES, size // (2 * workers))
    # Between two anchors at the least: in smaller ranges the same anchor is computed many times.
    step = max(limit // (row_bytes * ANCHOR_SPACING), 1) * ANCHOR_SPACING
    pieces = ((first, min(first + step, rows)) for first in range(0, rows, step))
    if workers <= 1:
        for first, stop in pieces:
            kernel(first, stop)
    else:
        _share(kernel, deque(pieces), workers)


def _share(
    kernel: Callable[[int, int], None], pieces: deque[tuple[int, int]], workers: int
) -> None:
    """Run the kernel on the pieces in this thread and in up to ``workers - 1`` others.

    The other threads are waited for by means of our own: after an exception from a signal,
    `threading.Thread.join` may return while the thread still runs (python/cpython#89437), and
    `Thread.start` may wait for ever where the new thread has no memory to begin.
    What ends a thread, or says why, needs no memory.
    """
    others = min(workers, len(pieces)) - 1
    begun, ended = [False] * others, [False] * others
    locks = [_thread.allocate_lock() for _ in range(others)]
    for lock in locks:
        lock.acquire()
    tickets: list[weakref.ref[_Ticket]] = []
    gone: deque[weakref.ref[_Ticket]] = deque()
    failure: list[BaseException | None] = [None]

    def drain() -> None:
        try:
            while True:
                try:
                    piece = pieces.popleft()
                except IndexError:
                    return
                kernel(*piece)
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread, below
            failure[0] = failure[0] or error
            pieces.clear()

    def other(index: int, ticket: _Ticket) -> None:
        del ticket  # which the thread still has, but no frame that an error keeps
        try:
            begun[index] = True
            drain()
        finally:
            ended[index] = True
            locks[index].release()

    def start() -> None:
        for index in range(others):
            ticket = _Ticket()
            tickets.append(weakref.ref(ticket, gone.append))
            try:
                _thread.start_new_thread(other, (index, ticket))
            except RecursionError:
                raise
            except (RuntimeError, MemoryError):  # the system has no more: those there are will do
                tickets.pop()
                return

    def settle() -> None:
        while True:
            try:
                pieces.clear()
                # One that has not begun will find no piece left, so nothing more is written ...
                for index, lock in enumerate(locks):
                    while begun[index] and not ended[index]:
                        lock.acquire()
                # ... but let it begin, as a fork while there are threads is one with threads.
                for _ in range(_PATIENCE_MS):
                    if all(begun[: len(tickets)]) or len(gone) == len(tickets):
                        break
                    time.sleep(0.001)
                return
            except BaseException as error:  # noqa: BLE001 - whatever signal comes
                failure[0] = failure[0] or error

    # An exception from a signal may come wherever Python looks for one, at the first line of settle
    # or of its handler too: a second one and a third must then meet such a place at once.
    try:
        try:
            try:
                start()
                drain()
            finally:
                settle()
        finally:
            settle()
    finally:
        settle()
    if failure[0] is not None:
        raise failure[0]


class _Ticket:
    """What a thread alone has, so that it is gone when the thread is, whether that had begun or not."""

    __slots__ = ("__weakref__",)
