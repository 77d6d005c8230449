"""Every call beside its rivals: a group of pytest-benchmark for each call and shape.

The rows of a group follow one another, so that the machine's drift hits them alike.
"""

import functools
import math
from typing import Any

import numpy as np
import pytest
import report
from common import BACKENDS, COLUMNS, QUICK, VERIFY, flush, running_on
from groups import GROUPS, Group, Shape, Work


def rows(group: Group) -> list[str]:
    shown = BACKENDS if group.name in report.EVERY_BACKEND else COLUMNS
    return [*(f"posenc {backend}" for backend in shown), *group.rivals]


ROWS = [
    pytest.param(group, row, id=f"{group.name}-{row}") for group in GROUPS for row in rows(group)
]


@pytest.mark.parametrize(("group", "row"), ROWS)
def bench_call(benchmark: Any, group: Group, row: str) -> None:
    work = made(group)
    benchmark.group = group.name
    benchmark.name = row
    benchmark.extra_info["section"] = group.section
    call = work.rivals[row].call if row in work.rivals else work.ours
    with running_on(row.removeprefix("posenc ") if call is work.ours else BACKENDS[0]):
        call()  # compiles what there is to compile
        if group.cold:
            benchmark.pedantic(call, setup=flush, rounds=1 if QUICK else 9)
        else:
            benchmark(call)


def shortened(shape: Shape) -> Shape:
    """The shape with every axis but the last at most 32 long."""
    return (*(min(length, 32) for length in shape[:-1]), *shape[-1:])


@functools.lru_cache(maxsize=1)
def made(group: Group) -> Work:
    """The work of a group, kept for its rows, which follow one another."""
    work = group.make(shortened(group.shape) if QUICK else group.shape)
    if VERIFY:
        check(work, group.rivals)
    return work


def check(work: Work, rivals: tuple[str, ...]) -> None:
    """All backends must agree to the bit, and the rivals as far as they can."""
    made = None
    for backend in BACKENDS:
        with running_on(backend):
            work.reset()
            result = work.ours()
        made = result.copy() if made is None else made
        assert np.array_equal(result.view(np.uint8), made.view(np.uint8)), backend
    for row in rivals:
        call, error = work.rivals[row]
        if error < math.inf:
            work.reset()
            assert np.abs(as_array(call()) - as_array(made)).max() <= error, row
    work.reset()


def as_array(result: Any) -> Any:
    """The result of a call of whatever library, of 16 bits as float32."""
    if hasattr(result, "float"):
        result = result.float() if result.element_size() == 2 else result
    array = np.asarray(result)
    return array.astype(np.float32) if array.itemsize == 2 else array


def bench_every_group_that_the_report_shows_is_measured() -> None:
    measured = {group.name: group.rivals for group in GROUPS}
    shown = {line.group: tuple(line.instead) for line in report.SELECTION}
    shown |= {name: (rival,) for name, rival in report.EVERY_BACKEND.items()}
    for name, among in shown.items():
        assert {each for each in among if "torch" not in each} <= set(measured[name]), name
