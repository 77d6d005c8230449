"""Instructions of a few calls, counted by callgrind, against the recorded counts.

    python bench/instructions.py             # exits with 1 where a call takes too many
    python bench/instructions.py --update    # records the counts of this build

A count does not depend on what else the machine does, so it shows a slow-down where times cannot.
By a few hundredths it does depend on the compiler, on NumPy, and on which of their functions NumPy and
the C library choose for the processor: hence the bound. Much of a call of one token, of which
one_token.py has all, may be Python, so the counts are those of one version of that. valgrind runs no
AVX-512; the kernels are one source, so the other two builds speak for it.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from one_token import tokens

import posenc

RECORDED = Path(__file__).with_name("instructions.json")
BACKENDS = [b for b in ("baseline", "avx2") if b in posenc.show_config()["available"]]
BOUND = 1.25
PYTHON = "{}.{}".format(*sys.version_info)


class Work(NamedTuple):
    name: str
    call: Callable[[], object]
    times: int = 2


def works() -> list[Work]:
    encoding = posenc.Sinusoidal(512)
    single, double = np.ones((512, 512), np.float32), np.ones((512, 512))
    batch, to_batch = np.ones((2, 8, 128, 512), np.float32)
    packed = np.tile(np.concatenate([np.arange(n) for n in (16, 80, 32)]), (8, 1))
    fractional = np.linspace(0.1, 1e5, 128)
    add, rows = encoding.add, np.ones((128, 512), np.float32)
    return [
        Work("fill (512, 512) float32", lambda: encoding.fill(single)),
        Work("fill (512, 512) float64", lambda: encoding.fill(double)),
        Work("encode fractional (128, 512)", lambda: encoding.encode(fractional, out=rows)),
        Work("add (8, 128, 512)", lambda: add(batch, out=to_batch)),
        Work("add packed (8, 128, 512)", lambda: add(batch, positions=packed, out=to_batch)),
        *(Work(token.written, token.call, times=50) for token in tokens()),
    ]


def run() -> None:
    """The process that callgrind watches: every call, between two marks.

    The mark is a function of C that nothing else here calls. Where it begins callgrind writes its
    counts into the next file and starts from zero.
    """
    for work in works():
        work.call()
        os.getppid()
        for _ in range(work.times):
            work.call()
        os.getppid()


def count(backend: str) -> dict[str, int]:
    """Instructions of one call of each."""
    environment = {"POSENC_BACKEND": backend, "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *("valgrind", "--tool=callgrind", "--dump-before=getppid"),
            *(f"--callgrind-out-file={folder}/out", sys.executable, __file__, "--run"),
        ]
        subprocess.run(command, env=os.environ | environment, check=True, capture_output=True)
        counts = {}
        for number, work in enumerate(works(), start=1):
            part = Path(folder, f"out.{2 * number}").read_text(encoding="utf-8")
            (total,) = re.findall(r"^totals: (\d+)$", part, re.MULTILINE)
            counts[work.name] = int(total) // work.times
        return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="record the counts of this build")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        run()
        return
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    if recorded["python"] != PYTHON and not arguments.update:
        sys.exit(f"the recorded counts are those of Python {recorded['python']}, this is {PYTHON}")
    counts = {backend: count(backend) for backend in BACKENDS}
    if arguments.update:
        recorded = {"python": PYTHON, "counts": counts}
        RECORDED.write_text(json.dumps(recorded, indent=2) + "\n", encoding="utf-8")
    worse = 0
    print(f"{'instructions of a call':67}{'build':>10}{'now':>12}{'recorded':>12}{'ratio':>8}")
    for backend, of_backend in counts.items():
        for name, now in of_backend.items():
            before = recorded["counts"][backend][name]
            mark = " too many" if now > BOUND * before else ""
            worse += bool(mark)
            print(f"{name:67}{backend:>10}{now:12,}{before:12,}{now / before:8.3f}{mark}")
    if worse:
        sys.exit(f"{worse} of the calls take over {BOUND} times the instructions recorded")


if __name__ == "__main__":
    main()
