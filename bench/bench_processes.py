"""What only a fresh process shows: the import, a first call, the memory beyond the output.

pytest-benchmark starts the processes; the figure is what they print, in `extra_info`.
"""

import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from common import COLUMNS, QUICK

SECONDS = """
import time
{before}
begin = time.perf_counter()
{call}
print(time.perf_counter() - begin)
"""
BYTES = """
import re, pathlib
def peak():
    status = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", status)[1])
{before}
begin = peak()
{call}
print(peak() - begin)
"""
IMPORTS = "import numpy as np, posenc; from rivals import numpy_float32, numpy_float64\n"


class Group(NamedTuple):
    name: str
    script: str
    before: str
    posenc: str
    rival: str = ""  # with {} for the name of the formula


GROUPS = [
    Group("import posenc, after NumPy", SECONDS, "import numpy", "import posenc"),
    Group(
        "first posenc.positional_encoding (512, 512) float32",
        SECONDS,
        IMPORTS,
        "posenc.positional_encoding(512, 512, dtype=np.float32)",
        "{}(np.empty((512, 512), np.float32), np.arange(512))()",
    ),
    Group(
        "memory beyond the output, posenc.fill (32768, 1024) float32",
        BYTES,
        IMPORTS + "out = np.ones((32768, 1024), np.float32)",
        "posenc.fill(out)",
        "{}(out, np.arange(32768))()",
    ),
    Group(
        "memory beyond the output, posenc.add packed positions (8, 2048, 1024) float32",
        BYTES,
        IMPORTS + "x = np.ones((8, 2048, 1024), np.float32); out = x.copy()\n"
        "positions = np.tile(np.arange(512), (8, 4))",
        "posenc.add(x, positions=positions, out=out)",
    ),
]
OURS = [f"posenc {backend}" for backend in dict.fromkeys((*COLUMNS[:1], "numpy"))]
FORMULAS = {"NumPy float32": "numpy_float32", "NumPy float64": "numpy_float64"}
ROWS = [
    pytest.param(group, row, id=f"{group.name}-{row}")
    for group in GROUPS
    for row in (*OURS, *(FORMULAS if group.rival else ()))
]


@pytest.mark.parametrize(("group", "row"), ROWS)
def bench_process(benchmark: Any, group: Group, row: str) -> None:
    if group.script is BYTES and sys.platform != "linux":
        pytest.skip("the peak is read from /proc")
    call = group.rival.format(FORMULAS[row]) if row in FORMULAS else group.posenc
    script = group.script.format(before=group.before, call=call)
    backend = row.removeprefix("posenc ") if row in OURS else ""
    figures = []

    def process() -> None:
        result = subprocess.run(
            [sys.executable, "-c", script],
            cwd=Path(__file__).parent,
            env={**os.environ, "POSENC_BACKEND": backend, "OPENBLAS_NUM_THREADS": "1"},
            check=True,
            capture_output=True,
        )
        figures.append(float(result.stdout))

    benchmark.group = group.name
    benchmark.name = row
    once = QUICK or group.script is BYTES
    benchmark.pedantic(process, rounds=1 if once else 9)
    benchmark.extra_info["section"] = "In a fresh process"
    benchmark.extra_info["figure"] = statistics.median(figures)
