"""All benchmarks, and from them the tables of README.md and bench/README.md and the pictures.

    python bench/run.py            # into bench/results, then rewrites the pages and pictures
    python bench/run.py --quick    # whether it works: short arrays, everything into build/bench

Each pass is a process of its own, so that neither the machine's drift nor where a process happens
to lie in memory decides a ratio. Results are verified in the first.
"""

import argparse
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from typing import Any

import report
from rivals import INSTALLED

import posenc

BUILD = report.ROOT / "build" / "bench"
ONCE = "--ignore=bench/bench_processes.py"  # of the passes but the first


def measure(number: int, quick: bool) -> dict[str, Any]:
    """What pytest-benchmark reports of one pass."""
    path = BUILD / f"pass-{number}.json"
    seconds, rounds = (0.0, 1) if quick else (0.06, 3)
    first = number == 1
    run(
        *("-m", "pytest", "-q", "bench", "--benchmark-disable-gc", "--benchmark-quiet"),
        *(f"--benchmark-max-time={seconds}", f"--benchmark-min-rounds={rounds}"),
        *(f"--benchmark-json={path}", *([] if first else [ONCE])),
        asked="quick" if quick else "" if first else "again",
    )
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def sweep(quick: bool) -> dict[str, Any]:
    path = BUILD / "sweeps.json"
    run("bench/sweeps.py", str(path), asked="quick" if quick else "")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def run(*arguments: str, asked: str) -> None:
    """Python in a fresh process, whose libraries keep to one thread."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    env |= {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
    env["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    env["TORCHINDUCTOR_CACHE_DIR"] = str(BUILD / "torch")  # of one pass for the next
    env["POSENC_BENCH"] = asked
    subprocess.run([sys.executable, *arguments], cwd=report.ROOT, env=env, check=True)


def condensed(passes: list[dict[str, Any]], sweeps: dict[str, Any]) -> dict[str, Any]:
    """What the report needs: medians by section, group and row, each of all passes."""
    calls: dict[str, dict[str, dict[str, list[float]]]] = {}
    for found in passes:
        for benchmark in found["benchmarks"]:
            extra = benchmark["extra_info"]
            rows = calls.setdefault(extra["section"], {}).setdefault(benchmark["group"], {})
            figure = extra.get("figure", benchmark["stats"]["median"])
            rows.setdefault(benchmark["name"], []).append(float(f"{figure:.4g}"))
    machine, commit = passes[0]["machine_info"], passes[0]["commit_info"]
    packages = ", ".join(f"{n} {importlib.metadata.version(n)}" for n in ("numpy", *INSTALLED))
    return {
        "processor": processor(machine["cpu"]["brand_raw"]),
        "commit": str(commit["id"])[:7] + (" and changes" if commit["dirty"] else ""),
        "versions": f"posenc {posenc.__version__}, {packages}, Python {machine['python_version']}",
        "calls": calls,
        "sweeps": sweeps,
    }


def processor(brand: str) -> str:
    """Its name without what every name has."""
    return " ".join(re.sub(r"\((R|TM)\)|\bCPU\b|\bProcessor\b|@", " ", brand).split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a trial, into build/bench")
    parser.add_argument("--passes", type=int, default=3, help="how often to time everything")
    arguments = parser.parse_args()
    quick: bool = arguments.quick
    BUILD.mkdir(parents=True, exist_ok=True)
    numbers = range(1, 2 if quick else 1 + arguments.passes)
    passes = [measure(number, quick) for number in numbers]
    result = condensed(passes, sweep(quick))
    name = re.sub(r"[^a-z0-9.]+", "-", result["processor"].lower()).strip("-")
    folder = BUILD if quick else report.RESULTS
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(result) + "\n", encoding="utf-8")
    if quick:
        report.write([path], BUILD)
    else:
        report.write(sorted(report.RESULTS.glob("*.json")), report.ROOT)


if __name__ == "__main__":
    main()
