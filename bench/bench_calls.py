"""Every call beside its rivals: a group of pytest-benchmark for each call and shape.

The rows of a group follow one another, so that the machine's drift hits them alike.
"""

import functools
import importlib
import math
from typing import Any

import numpy as np
import pytest
import report
from groups import GROUPS, Group, Work

from posenc import _backend

BACKENDS = _backend.available()
ROWS = [
    pytest.param(group, row, id=f"{group.name}-{row}")
    for group in GROUPS
    for row in (*(f"posenc {backend}" for backend in BACKENDS), *group.rivals)
]


@pytest.mark.parametrize(("group", "row"), ROWS)
def bench_call(benchmark: Any, monkeypatch: pytest.MonkeyPatch, group: Group, row: str) -> None:
    work = verified(group)
    if row in work.rivals:
        call = work.rivals[row].call
    else:
        call = work.ours
        use(row.removeprefix("posenc "), monkeypatch)
    benchmark.group = group.name
    benchmark.name = row
    benchmark.extra_info["section"] = group.section
    if group.cold:
        benchmark.pedantic(call, setup=flush, rounds=15)
    else:
        benchmark(call)


def bench_every_group_that_the_report_shows_is_measured() -> None:
    shown = {line.group: line.instead for line in report.SELECTION}
    shown |= {name: {rival: ""} for name, rival in report.MEASURES.items()}
    measured = {group.name: group.rivals for group in GROUPS}
    for name, among in shown.items():
        assert set(among) - {"torch"} <= set(measured[name]), name  # torch may not be installed


@functools.lru_cache(maxsize=1)
def verified(group: Group) -> Work:
    """The work of a group once all backends agree to the bit, and the rivals as far as they can."""
    work = group.make()
    made = None
    with pytest.MonkeyPatch.context() as monkeypatch:
        for backend in BACKENDS:
            use(backend, monkeypatch)
            work.reset()
            result = work.ours()
            made = result.copy() if made is None else made
            assert np.array_equal(result.view(np.uint8), made.view(np.uint8)), backend
    for row in group.rivals:
        call, error = work.rivals[row]
        if error < math.inf:
            work.reset()
            assert np.abs(np.asarray(call()) - made).max() <= error, row
    return work


def use(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let posenc run on this backend until the test ends."""
    module = importlib.import_module(f"posenc.{_backend._MODULES[backend]}")
    monkeypatch.setattr(_backend, "kernels", module)


def flush() -> None:
    """Walk over more memory than the caches hold, so that the call finds its arrays in none."""
    elsewhere = _elsewhere()
    np.add(elsewhere, 1.0, out=elsewhere)


@functools.cache
def _elsewhere() -> Any:
    return np.ones(1 << 26)
