"""All benchmarks, and from them the tables of README.md and bench/README.md and the picture.

    python bench/run.py            # rewrites them
    python bench/run.py --quick    # whether it works: a short pass, written into build/bench

Each pass is a process of its own, so that neither the machine's drift nor where a process happens
to lie in memory decides a ratio.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import report


def measure(path: Path, seconds: float) -> Path:
    command = [
        *(sys.executable, "-m", "pytest", "-q", str(Path(__file__).parent)),
        *("--benchmark-disable-gc", "--benchmark-quiet", "--benchmark-min-rounds=3"),
        *(f"--benchmark-max-time={seconds}", f"--benchmark-json={path}"),
    ]
    subprocess.run(command, cwd=report.ROOT, check=True)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=5, help="how often to measure everything")
    parser.add_argument("--quick", action="store_true", help="one short pass into build/bench")
    arguments = parser.parse_args()
    report.PASSES.mkdir(parents=True, exist_ok=True)
    if arguments.quick:
        report.write([measure(report.PASSES / "quick.json", seconds=0.01)], report.PASSES)
        return
    for path in report.PASSES.glob("pass-*.json"):
        path.unlink()
    paths = [report.PASSES / f"pass-{number}.json" for number in range(1, arguments.passes + 1)]
    report.write([measure(path, seconds=0.3) for path in paths], report.ROOT)


if __name__ == "__main__":
    main()
