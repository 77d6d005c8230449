"""The tables of README.md and bench/README.md and the picture, from pytest-benchmark's JSON.

    pytest bench --benchmark-json=bench.json && python bench/report.py bench.json

Each cell is a rival's median time divided by posenc's: above 1 posenc is faster, below it loses.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("agg")
import matplotlib.pyplot as plt

import posenc

ROOT = Path(__file__).parents[1]
COLUMNS = {
    "floor": ("out.fill", "np.copyto"),
    "cached table": ("cached table",),
    "NumPy float32": ("NumPy float32",),
    "NumPy float64": ("NumPy float64",),
    "torch": ("torch tutorial",),
    "posenc, NumPy backend": ("posenc numpy",),
}
MARKS = ("<!-- benchmark -->", "<!-- /benchmark -->")

# What the first screen shows; bench/README.md has the rest.
SELECTION = [
    "fill (512, 512) float32",
    "fill (2048, 1024) float32",
    "fill (32768, 1024) float32",
    "positional_encoding (2048, 1024) float64",
    "add (1, 1, 512) float32",
    "add (32, 64, 256) float32",
    "add (8, 2048, 1024) float32",
    "add in place (8, 2048, 1024) float32",
    "add scaled (8, 2048, 1024) float32",
    "add packed (8, 2048, 1024) float32",
]


def medians(report: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Seconds by group and by name."""
    groups: dict[str, dict[str, float]] = defaultdict(dict)
    for benchmark in report["benchmarks"]:
        groups[benchmark["group"]][benchmark["name"]] = benchmark["stats"]["median"]
    return dict(groups)


def table(groups: dict[str, dict[str, float]], best: str) -> str:
    columns = [
        c for c, names in COLUMNS.items() if any(n in g for g in groups.values() for n in names)
    ]
    lines = [
        "| work | posenc | " + " | ".join(columns) + " |",
        "|---|---:|" + "---:|" * len(columns),
    ]
    for group, times in sorted(groups.items(), key=lambda item: order(item[0])):
        ours = times[f"posenc {best}"]
        cells = [cell(times, COLUMNS[column], ours) for column in columns]
        lines.append(f"| {group} | {duration(ours)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def order(group: str) -> tuple[int, bool, int]:
    calls = ["fill", "positional_encoding", "add", "add in place", "add scaled", "add packed"]
    call, shape, dtype = re.fullmatch(r"(.*) \((.*)\) (.*)", group).groups()  # type: ignore[union-attr]
    return calls.index(call), dtype == "float64", int(np.prod([int(n) for n in shape.split(",")]))


def cell(times: dict[str, float], names: tuple[str, ...], ours: float) -> str:
    for name in names:
        if name in times:
            ratio = times[name] / ours
            return f"**{ratio:.2f}**" if ratio < 1 else f"{ratio:.3g}"
    return ""


def duration(seconds: float) -> str:
    for factor, unit in ((1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 0.1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def plot(groups: dict[str, dict[str, float]], best: str, path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for axis, call, names in (
        (axes[0], "fill", ["out.fill", "NumPy float32", "torch tutorial", "NumPy float64"]),
        (axes[1], "add", ["np.copyto", "cached table"]),
    ):
        of_call = {}
        for group, times in groups.items():
            match = re.fullmatch(rf"{call} \((.*)\) float32", group)
            if match:
                of_call[4 * int(np.prod([int(n) for n in match[1].split(",")]))] = times
        sizes = sorted(of_call)
        for name in [*names, "posenc numpy"]:
            known = [s for s in sizes if name in of_call[s]]
            if known:
                ratios = [of_call[s][name] / of_call[s][f"posenc {best}"] for s in known]
                axis.loglog(known, ratios, "o-", label=name)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set(xlabel="bytes of output", ylabel="time / posenc's time", title=f"{call}, float32")
        axis.legend(fontsize=8)
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", type=Path, help="what pytest --benchmark-json wrote")
    report = json.loads(parser.parse_args().json.read_text())
    groups = medians(report)
    backends = {name for times in groups.values() for name in times if name.startswith("posenc ")}
    best = next(b for b in ("avx512", "avx2", "baseline", "numpy") if f"posenc {b}" in backends)
    where = f"posenc {posenc.__version__} ({best}), {versions(report)}."
    chosen = {group: groups[group] for group in SELECTION}
    write(ROOT / "README.md", f"{where}\n\n{table(chosen, best)}")
    write(ROOT / "bench" / "README.md", f"{where}\n\n{table(groups, best)}")
    plot(groups, best, ROOT / "bench" / "speed.png")


def versions(report: dict[str, Any]) -> str:
    """What the figures were measured with."""
    machine = report["machine_info"]
    names = ["numpy", *(n for n in ("torch", "numba", "jax") if importlib.util.find_spec(n))]
    packages = ", ".join(f"{n} {importlib.metadata.version(n)}" for n in names)
    return f"{packages}, Python {machine['python_version']}, {machine['cpu']['brand_raw']}"


def write(path: Path, text: str) -> None:
    """Put the text between the marks of a page."""
    page = path.read_text(encoding="utf-8")
    before, _, rest = page.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    path.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
