"""The tables of README.md and bench/README.md and the picture, from pytest-benchmark's JSON.

A ratio is a rival's median time divided by posenc's in the same pass, and of that the median over
the passes: above 1 posenc is faster, below it loses.
"""

import importlib.metadata
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
from rivals import INSTALLED

mpl.use("agg")
import matplotlib.pyplot as plt

import posenc

ROOT = Path(__file__).parents[1]
MARKS = ("<!-- benchmark -->", "<!-- /benchmark -->")
NUMPY = "posenc numpy"

Rows = dict[str, list[float]]  # the figures of all passes, by row
Groups = dict[str, Rows]

# What the first screen shows; bench/README.md has the rest.
SELECTION = [
    "fill (512, 512) float32",
    "fill (32768, 1024) float32",
    "fill (2048, 1024) float64",
    "add (1, 1, 512) float32",
    "add (32, 64, 256) float32",
    "add (8, 2048, 1024) float32",
    "add in place (8, 2048, 1024) float32",
    "add scaled (8, 2048, 1024) float32",
    "add packed (8, 2048, 1024) float32",
    "embed (16, 1024, 512) float32",
    "add (16, 1024, 512) bfloat16",
    "encode fractional (8192, 512) float32",
]
COLUMNS = {
    "floor": ("out.fill", "np.copyto", "np.take"),
    "cached table": ("cached table",),
    "NumPy float32": ("NumPy float32",),
    "NumPy float64": ("NumPy float64",),
    "torch": ("torch",),
    "posenc, NumPy backend": (NUMPY,),
}

# The best last.
BACKENDS = {"numpy": "NumPy", "baseline": "baseline (SSE2)", "avx2": "AVX2", "avx512": "AVX-512"}
# The rival that each backend is held against, and how many times its time the first trial of such
# kernels took, the compiled ones in the order above: none may be slower than that.
TRIALS: dict[str, tuple[str, tuple[float, ...]]] = {
    "fill (512, 512) float32": ("out.fill", (3.19, 1.97, 1.06)),
    "fill (2048, 1024) float32": ("out.fill", (3.25, 2.13, 1.37)),
    "fill (32768, 1024) float32": ("out.fill", (1.46, 1.09, 0.85)),
    "fill (2048, 1024) float64": ("out.fill", (1.66, 1.28, 1.11)),
    "add (1, 1, 512) float32": ("cached table", (0.65, 0.65, 0.65)),
    "add (32, 64, 256) float32": ("cached table", (0.97, 0.78, 0.76)),
    "add (8, 2048, 1024) float32": ("np.copyto", (0.99, 0.92, 0.88)),
    "add (1, 32768, 1024) float32": ("cached table", (0.88, 0.63, 0.74)),
    "add in place (8, 2048, 1024) float32": ("cached table", (1.2, 1.05, 1.05)),
    "add scaled (8, 2048, 1024) float32": ("np.copyto", ()),
    "add packed (8, 2048, 1024) float32": ("np.copyto", ()),
    "add random (8, 2048, 1024) float32": ("np.copyto", ()),
    "embed (16, 1024, 512) float32": ("np.take", ()),
    "add (16, 1024, 512) float16": ("np.copyto", ()),
    "add (16, 1024, 512) bfloat16": ("np.copyto", ()),
    "encode fractional (8192, 512) float32": ("NumPy float32", (1.9, 0.9, 0.5)),
    "positional_encoding (2048, 1024) float64": ("NumPy float64", ()),
}


def write(passes: list[Path], folder: Path) -> None:
    """Write the two pages and the picture into `folder`, laid out as the repository is."""
    reports = [json.loads(path.read_text(encoding="utf-8")) for path in passes]
    sections = collect(reports)
    groups = {name: rows for section in sections.values() for name, rows in section.items()}
    present = [backend for backend in BACKENDS if f"posenc {backend}" in groups[SELECTION[0]]]
    best = present[-1]
    ours = f"posenc {best}"
    where = f"posenc {posenc.__version__} ({best}), {versions(reports[0])}."
    chosen = {name: groups[name] for name in SELECTION}
    (folder / "bench").mkdir(parents=True, exist_ok=True)
    put(folder, "README.md", [where, table(chosen, ours, COLUMNS)])
    blocks = [where]
    for section, of_section in sections.items():
        timed = section != "In a fresh process"
        blocks += [f"### {section}", (table if timed else figures)(of_section, ours)]
    blocks += ["### Every backend", backends(groups, present)]
    put(folder, "bench/README.md", blocks)
    plot(groups, ours, folder / "bench" / "speed.png")


def collect(reports: list[dict[str, Any]]) -> dict[str, Groups]:
    sections: dict[str, Groups] = {}
    for report in reports:
        for benchmark in report["benchmarks"]:
            extra = benchmark["extra_info"]
            rows = sections.setdefault(extra["section"], {}).setdefault(benchmark["group"], {})
            figure = extra.get("figure", benchmark["stats"]["median"])
            rows.setdefault(benchmark["name"], []).append(figure)
    return sections


def ratio(rows: Rows, rival: str, ours: str) -> float:
    return median(t / o for t, o in zip(rows[rival], rows[ours], strict=True))


def table(groups: Groups, ours: str, columns: dict[str, tuple[str, ...]] | None = None) -> str:
    columns = columns or {heading(row): (row,) for row in rivals(groups)}
    lines = []
    for name, rows in groups.items():
        cells = []
        for among in columns.values():
            row = next((row for row in among if row in rows and row != ours), None)
            cells.append(number(ratio(rows, row, ours)) if row else "")
        lines.append([name, duration(median(rows[ours])), *cells])
    return markdown(["work", "posenc", *columns], lines)


def figures(groups: Groups, ours: str) -> str:
    """Not ratios, as some are 0."""
    columns = rivals(groups)
    lines = []
    for name, rows in groups.items():
        show = megabytes if name.startswith("memory") else duration
        cells = [show(median(rows[row])) if row in rows else "" for row in (ours, *columns)]
        lines.append([name, *cells])
    return markdown(["", "posenc", *map(heading, columns)], lines)


def backends(groups: Groups, present: list[str]) -> str:
    lines = []
    for name, (rival, trial) in TRIALS.items():
        tried = dict(zip(list(BACKENDS)[1:], trial, strict=False))
        cells = []
        for backend in present:
            cell = number(ratio(groups[name], rival, f"posenc {backend}"))
            cells.append(f"{cell} ({1 / tried[backend]:.2f})" if backend in tried else cell)
        lines.append([name, rival, *cells])
    return markdown(["work", "rival", *(BACKENDS[backend] for backend in present)], lines)


def rivals(groups: Groups) -> list[str]:
    """The rows but posenc's, in their order; the NumPy backend last."""
    names = dict.fromkeys(name for rows in groups.values() for name in rows)
    return [*(name for name in names if not name.startswith("posenc ")), NUMPY]


def heading(row: str) -> str:
    return "posenc, NumPy backend" if row == NUMPY else row


def markdown(head: list[str], lines: Iterable[list[str]]) -> str:
    bar = [":--" if name in ("", "work", "rival") else "--:" for name in head]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, bar, *lines))


def number(ratio: float) -> str:
    return f"**{ratio:.2f}**" if ratio < 1 else f"{ratio:.3g}"


def duration(seconds: float) -> str:
    for factor, unit in ((1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 0.1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def megabytes(size: float) -> str:
    return f"{size / 1e6:.1f} MB"


def versions(report: dict[str, Any]) -> str:
    """What the figures were measured with."""
    machine = report["machine_info"]
    packages = ", ".join(f"{n} {importlib.metadata.version(n)}" for n in ("numpy", *INSTALLED))
    return f"{packages}, Python {machine['python_version']}, {machine['cpu']['brand_raw']}"


def put(folder: Path, page: str, blocks: list[str]) -> None:
    """Put the blocks between the marks of a page."""
    before, _, rest = (ROOT / page).read_text(encoding="utf-8").partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    text = "\n\n".join([before + MARKS[0], *blocks, MARKS[1] + after])
    (folder / page).write_text(text, encoding="utf-8")


def plot(groups: Groups, ours: str, path: Path) -> None:
    """Above the rivals' times over posenc's, below the bytes moved; both over the output's size."""
    figure, axes = plt.subplots(2, 2, figsize=(10, 6.4), sharex="col", layout="constrained")
    for (above, below), call, floor, passes in (
        (axes[:, 0], "fill", "out.fill", 1),
        (axes[:, 1], "add", "np.copyto", 2),  # what is read counts too
    ):
        of_call = {
            name: 4 * math.prod(map(int, match[1].split(",")))
            for name in groups
            if (match := re.fullmatch(rf"{call} \((.*)\) float32", name))
        }
        for row in rivals({name: groups[name] for name in of_call}):
            line = {
                size: ratio(groups[name], row, ours)
                for name, size in of_call.items()
                if row in groups[name]
            }
            above.loglog(line.keys(), line.values(), "o-", markersize=4, label=heading(row))
        above.axhline(1, color="black", linewidth=0.8)
        above.set(ylabel="time / posenc's time", title=f"{call}, float32")
        for row, label in ((ours, "posenc"), (floor, floor)):
            line = {
                size: passes * size / median(groups[name][row]) / 1e9
                for name, size in of_call.items()
            }
            below.semilogx(line.keys(), line.values(), "o-", markersize=4, label=label)
        below.set(xlabel="bytes of output", ylabel="GB/s", ylim=0)
        for axis in (above, below):
            axis.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
            axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
