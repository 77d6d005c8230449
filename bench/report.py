"""The tables of README.md and bench/README.md and the picture, from pytest-benchmark's JSON.

A ratio is a rival's median time divided by posenc's in the same pass, and of that the median over
the passes: above 1 posenc is faster, below it loses. run.py measures and writes all of this;
`python bench/report.py` writes it again from the passes that run.py has left in build/bench.
"""

import importlib.metadata
import json
import math
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import matplotlib as mpl
from marks import replaced
from rivals import INSTALLED

mpl.use("agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import EngFormatter

import posenc

ROOT = Path(__file__).parents[1]
PASSES = ROOT / "build" / "bench"
NUMPY = "posenc numpy"
TIMES = "\N{MULTIPLICATION SIGN}"
FLOORS = ("memset", "np.copyto", "np.take")  # no rivals: they do less

Rows = dict[str, list[float]]  # the figures of all passes, by row
Groups = dict[str, Rows]


class Line(NamedTuple):
    """A line of README.md's table; bench/README.md has all groups."""

    work: str
    group: str
    instead: dict[str, str]  # rivals, and what the table calls them


SELECTION = [
    Line(
        "table (32768, 1024)",
        "posenc.fill (32768, 1024) float32",
        {"NumPy float64": "NumPy formula in float64", "NumPy float32": "in float32"},
    ),
    Line(
        "add to a batch (8, 2048, 1024), `out=`",
        "Sinusoidal(d).add (8, 2048, 1024) float32",
        {"kept table": "`np.add` of a kept table"},
    ),
    Line(
        "the same, packed positions",
        "Sinusoidal(d).add packed positions (8, 2048, 1024) float32",
        {"kept table": "`np.add(x, table[positions])`"},
    ),
    Line(
        "the same, in place",
        "Sinusoidal(d).add in place (8, 2048, 1024) float32",
        {"kept table": "`np.add` of a kept table", "torch": "torch's `add_`"},
    ),
    Line(
        "one token, `Sinusoidal(512).add`",
        "Sinusoidal(d).add (1, 1, 512) float32",
        {"kept table": "`np.add` of a kept row"},
    ),
]

# The lines of the picture, by the call that it is about.
CURVES = {
    "posenc.fill": {
        "NumPy float64": "NumPy formula, float64",
        "torch": "torch formula",
        "NumPy float32": "NumPy formula, float32",
        "memset": "writing a constant",
    },
    "Sinusoidal(d).add": {"kept table": "np.add of a kept table", "np.copyto": "copying x"},
}

# The best last.
BACKENDS = {"numpy": "NumPy", "baseline": "baseline (SSE2)", "avx2": "AVX2", "avx512": "AVX-512"}
# What each backend is held against.
MEASURES = {
    "posenc.fill (512, 512) float32": "memset",
    "posenc.fill (2048, 1024) float32": "memset",
    "posenc.fill (32768, 1024) float32": "memset",
    "posenc.fill (2048, 1024) float64": "memset",
    "Sinusoidal(d).add (1, 1, 512) float32": "kept table",
    "Sinusoidal(d).add (32, 64, 256) float32": "kept table",
    "Sinusoidal(d).add (8, 2048, 1024) float32": "np.copyto",
    "Sinusoidal(d).add (1, 32768, 1024) float32": "kept table",
    "Sinusoidal(d).add in place (8, 2048, 1024) float32": "kept table",
    "Sinusoidal(d).add scaled (8, 2048, 1024) float32": "np.copyto",
    "Sinusoidal(d).add packed positions (8, 2048, 1024) float32": "np.copyto",
    "Sinusoidal(d).add random positions (8, 2048, 1024) float32": "np.copyto",
    "Sinusoidal(d).embed (16, 1024, 512) float32": "np.take",
    "Sinusoidal(d).add (16, 1024, 512) float16": "np.copyto",
    "Sinusoidal(d).add (16, 1024, 512) bfloat16": "np.copyto",
    "Sinusoidal(d).encode fractional (8192, 512) float32": "NumPy float32",
    "posenc.positional_encoding (2048, 1024) float64": "NumPy float64",
}


def write(passes: list[Path], folder: Path) -> None:
    """Write the two pages and the picture into `folder`, laid out as the repository is."""
    reports = [json.loads(path.read_text(encoding="utf-8")) for path in passes]
    sections = collect(reports)
    groups = {name: rows for section in sections.values() for name, rows in section.items()}
    present = [b for b in BACKENDS if f"posenc {b}" in groups[SELECTION[0].group]]
    best = present[-1]
    ours = f"posenc {best}"
    where = f"Measured with posenc {posenc.__version__} ({best}), {versions(reports[0])}."
    (folder / "bench").mkdir(parents=True, exist_ok=True)
    put(folder, "README.md", [selection(groups, ours), floors(groups, ours), where])
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


def selection(groups: Groups, ours: str) -> str:
    lines = []
    for work, name, instead in SELECTION:
        rows = groups[name]
        present = [rival for rival in instead if rival in rows]
        names = " / ".join(instead[rival] for rival in present)
        faster = " / ".join(cell(rows, rival, ours) + TIMES for rival in present)
        lines.append([work, duration(median(rows[ours])), names, faster])
    return markdown(["float32, one thread", "posenc", "instead", "faster"], lines)


def floors(groups: Groups, ours: str) -> str:
    """How near posenc is to the speed of memory, which the table does not show."""
    large = [name for name, size in sizes(groups, "posenc.fill").items() if size >= 1e6]
    ratios = [ratio(groups[name], "memset", ours) for name in large]
    return (
        f"Filling a table of 1 MB or more with a constant takes {min(ratios):.1f} to "
        f"{max(ratios):.1f} times as long."
    )


def sizes(groups: Groups, call: str) -> dict[str, int]:
    """Bytes of output of the groups that time this call in float32, in warm memory."""
    names = {name: re.fullmatch(rf"{re.escape(call)} \((.*)\) float32", name) for name in groups}
    return {
        name: 4 * math.prod(map(int, match[1].split(","))) for name, match in names.items() if match
    }


def table(groups: Groups, ours: str) -> str:
    columns = rivals(groups)
    lines = []
    for name, rows in groups.items():
        cells = [cell(rows, rival, ours) if rival in rows else "" for rival in columns]
        lines.append([name, duration(median(rows[ours])), *cells])
    return markdown(["work", "posenc", *map(heading, columns)], lines)


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
    for name, rival in MEASURES.items():
        cells = [cell(groups[name], rival, f"posenc {backend}") for backend in present]
        lines.append([name, rival, *cells])
    return markdown(["work", "beside", *(BACKENDS[backend] for backend in present)], lines)


def rivals(groups: Groups) -> list[str]:
    """The rows but posenc's, in their order; the NumPy backend last."""
    names = dict.fromkeys(name for rows in groups.values() for name in rows)
    return [*(name for name in names if not name.startswith("posenc ")), NUMPY]


def heading(row: str) -> str:
    return "posenc, NumPy backend" if row == NUMPY else row


def markdown(head: list[str], lines: Iterable[list[str]]) -> str:
    words = ("", "work", "beside", "instead", "float32, one thread")
    bar = [":--" if name in words else "--:" for name in head]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, bar, *lines))


def cell(rows: Rows, rival: str, ours: str) -> str:
    """A ratio, bold where a rival wins."""
    found = ratio(rows, rival, ours)
    if found >= 1:
        return f"{found:.3g}"
    return f"{found:.2f}" if rival in FLOORS else f"**{found:.2f}**"


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
    commit = str(report["commit_info"]["id"])[:7]
    return (
        f"commit {commit}, {packages}, Python {machine['python_version']}, "
        f"{machine['cpu']['brand_raw']}"
    )


def put(folder: Path, page: str, blocks: list[str]) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    (folder / page).write_text(replaced(text, "benchmark", "\n\n".join(blocks)), encoding="utf-8")


def plot(groups: Groups, ours: str, path: Path) -> None:
    """How many times as long the alternatives take, over the size of the output."""
    figure, panels = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
    for axes, (call, curves) in zip(panels, CURVES.items(), strict=True):
        for row, label in curves.items():
            line = {
                size: ratio(groups[name], row, ours)
                for name, size in sizes(groups, call).items()
                if row in groups[name]
            }
            if line:
                drawn = axes.loglog(line.keys(), line.values(), "o-", linewidth=2)[0]
                at = (max(line), line[max(line)])
                offset = {"xytext": (8, 0), "textcoords": "offset points", "va": "center"}
                axes.annotate(label, at, color=drawn.get_color(), fontsize=13, **offset)
        low, high = axes.get_ylim()
        axes.axhspan(low, 1, color="black", alpha=0.06)
        axes.text(0.02, 0.95, "posenc is faster", transform=axes.transAxes, fontsize=13)
        axes.text(0.98, 0.03, "slower", transform=axes.transAxes, fontsize=13, ha="right")
        ticks = [step * ten for ten in (0.1, 1, 10, 100) for step in (1, 2, 5)]
        labels = ["posenc" if tick == 1 else f"{tick:g}{TIMES}" for tick in ticks]
        axes.set_yticks(ticks, labels)
        axes.set_yticks([], minor=True)
        axes.set_ylim(low, high)
        axes.set_title(f"{call}, float32", fontsize=14)
        axes.set_xlabel("size of the output", fontsize=13)
        axes.xaxis.set_major_formatter(EngFormatter("B", sep=" "))
        axes.tick_params(labelsize=11)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("time of the alternative / posenc's", fontsize=13)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    write(sorted(PASSES.glob("pass-*.json")) or sys.exit(f"no passes in {PASSES}"), ROOT)
