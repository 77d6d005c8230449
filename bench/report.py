"""The tables of README.md and bench/README.md, and the pictures, from the results of run.py.

`python bench/report.py` reads every file in bench/results, one for each processor that run.py was
run on, and gives each of their instruction sets a column. A ratio is a rival's median time divided
by posenc's in the same pass, and of that the median over the passes: above 1 posenc is faster,
below it loses.
"""

import json
import math
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pictures
from marks import replaced

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"
TIMES = "\N{MULTIPLICATION SIGN}"
# No rivals: they do less. Where they take less time, that is no loss.
FLOORS = ("memset", "out.fill", "np.copyto", "x.copy()", "table.copy()", "np.take", "weight[ids]")
NAMES = {"numpy": "NumPy", "baseline": "baseline", "avx2": "AVX2", "avx512": "AVX-512"}
COLUMNS = ("avx512", "avx2")  # those that are there; elsewhere the baseline
PROCESSES = "In a fresh process"  # the section whose figures are no ratios

Rows = dict[str, list[float]]  # the figures of all passes, by row
Groups = dict[str, Rows]


class Column(NamedTuple):
    """The results of one instruction set of one processor."""

    result: dict[str, Any]
    backend: str

    @property
    def head(self) -> str:
        """Every table names its processors, and the commits that were measured."""
        return "<br>".join([NAMES[self.backend], self.result["processor"], self.result["commit"]])

    @property
    def ours(self) -> str:
        return f"posenc {self.backend}"

    def rows(self, section: str, group: str) -> Rows:
        found: Rows = self.result["calls"].get(section, {}).get(group, {})
        return found

    def rows_of(self, group: str) -> Rows:
        """Of the one section that has this group."""
        of_all: dict[str, Groups] = self.result["calls"]
        return next((groups[group] for groups in of_all.values() if group in groups), {})


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
        "add to a batch (8, 2048, 1024)",
        "Sinusoidal(d).add (8, 2048, 1024) float32",
        {"kept table": "`np.add` of a kept table", "torch.compile": "`torch.compile`"},
    ),
    Line(
        "the same, scaled",
        "Sinusoidal(d).add scaled (8, 2048, 1024) float32",
        {"kept table": "`np.add(x * scale, table)`", "torch.compile": "`torch.compile`"},
    ),
    Line(
        "the same, packed positions",
        "Sinusoidal(d).add packed (8, 2048, 1024) float32",
        {"kept table": "`np.add(x, table[positions])`", "torch.compile": "`torch.compile`"},
    ),
    Line(
        "the same, in place",
        "Sinusoidal(d).add in place (8, 2048, 1024) float32",
        {"kept table": "`np.add` of a kept table", "torch": "torch's `add`"},
    ),
    Line(
        "a small batch (8, 64, 512)",
        "Sinusoidal(d).add (8, 64, 512) float32",
        {"kept table": "`np.add` of a kept table", "torch": "torch's `add`"},
    ),
    Line(
        "embed token ids (16, 1024, 512)",
        "Sinusoidal(d).embed (16, 1024, 512) float32",
        {"kept table": "`np.add(weight[ids] * scale, table)`", "torch.compile": "`torch.compile`"},
    ),
    Line(
        "rotate (4, 16, 1024, 64)",
        "Rotary(d).rotate half (4, 16, 1024, 64) float32",
        {"NumPy, tables ready": "NumPy with kept tables", "torch.compile": "`torch.compile`"},
    ),
    Line(
        "one token, `Sinusoidal(512).add`",
        "Sinusoidal(d).add(x, start, out=out)",
        {"np.add(x, row, out=out)": "`np.add` of a kept row", "torch": "torch's `add`"},
    ),
    Line(
        "one token, `posenc.add`",
        "posenc.add(x, start, out=out)",
        {"np.add(x, row, out=out)": "`np.add` of a kept row", "torch": "torch's `add`"},
    ),
    Line(
        "one token, rotated",
        "Rotary(128, 'half').rotate(x, start, out=out)",
        {"a * cos - b * sin, b * cos + a * sin": "NumPy with kept rows", "torch": "torch"},
    ),
]

# What each backend is held against, the baseline and NumPy too.
EVERY_BACKEND = {
    "posenc.fill (64, 256) float32": "NumPy float32",
    "posenc.fill (512, 512) float32": "out.fill",
    "posenc.fill (2048, 1024) float32": "out.fill",
    "posenc.fill (32768, 1024) float32": "out.fill",
    "posenc.fill (2048, 1024) float64": "NumPy float64",
    "Sinusoidal(d).encode fractional (8192, 512) float32": "NumPy float32",
    "Sinusoidal(d).fill(out, start)": "np.copyto(out, row)",
    "Sinusoidal(d).add(x, start, out=out)": "np.add(x, row, out=out)",
    "Sinusoidal(d).add(x, positions=positions, out=out)": "np.add(x, table[positions], out=out)",
    "Rotary(128, 'half').rotate(x, start, out=out)": "a * cos - b * sin, b * cos + a * sin",
    "Sinusoidal(d).add (32, 64, 256) float32": "kept table",
    "Sinusoidal(d).add (8, 2048, 1024) float32": "np.copyto",
    "Sinusoidal(d).add (1, 16384, 1024) float32": "np.copyto",
    "Sinusoidal(d).add in place (8, 2048, 1024) float32": "kept table",
    "Sinusoidal(d).add scaled (8, 2048, 1024) float32": "np.copyto",
    "Sinusoidal(d).add packed (8, 2048, 1024) float32": "np.copyto",
    "Sinusoidal(d).add random (32, 64, 256) float32": "kept table",
    "Sinusoidal(d).embed (16, 1024, 512) float32": "np.take",
    "Sinusoidal(d).add (8, 1024, 512) float16": "np.copyto",
    "Sinusoidal(d).add (8, 1024, 512) bfloat16": "np.copyto",
    "Rotary(d).rotate half (4, 16, 1024, 64) float32": "np.copyto",
}


def write(files: Iterable[Path], folder: Path) -> None:
    """Write the two pages and the pictures into `folder`, laid out as the repository is."""
    results = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    every = [Column(result, backend) for result in results for backend in backends(result)]
    columns = [c for c in every if c.backend in COLUMNS]
    columns = columns or [c for c in every if c.backend == "baseline"]
    (folder / "bench").mkdir(parents=True, exist_ok=True)
    put(folder, "README.md", [selection(columns), floors(columns), measured(results)])
    blocks = [measured(results)]
    for section in dict.fromkeys(name for result in results for name in result["calls"]):
        build = figures if section == PROCESSES else table
        blocks += [f"### {section}", build(columns, section)]
    blocks += ["### Every backend", every_backend(every)]
    put(folder, "bench/README.md", blocks)
    best = columns[0].head.replace("<br>", ", ")
    pictures.speed(speeds(columns[0]), best, folder / "bench" / "speed.png")
    sweeps = [(c.head.replace("<br>", "\n"), c.result["sweeps"][c.backend]) for c in columns]
    pictures.offsets(sweeps, folder / "bench" / "offsets.png")
    pictures.sizes(sweeps, folder / "bench" / "sizes.png")


def backends(result: dict[str, Any]) -> list[str]:
    rows = {row for groups in result["calls"].values() for rows in groups.values() for row in rows}
    return [backend for backend in reversed(NAMES) if f"posenc {backend}" in rows]


def measured(results: list[dict[str, Any]]) -> str:
    """What the figures were measured with."""
    lines = [f"{r['processor']}: commit {r['commit']}, {r['versions']}." for r in results]
    return "Measured on\n\n" + "\n".join(f"- {line}" for line in lines)


def ratio(rows: Rows, rival: str, ours: str) -> float:
    return median(t / o for t, o in zip(rows[rival], rows[ours], strict=True))


def selection(columns: list[Column]) -> str:
    lines = []
    for work, group, instead in SELECTION:
        there = [name for name in instead if any(name in c.rows_of(group) for c in columns)]
        cells = []
        for column in columns:
            rows = column.rows_of(group)
            faster = " / ".join(cell(rows, name, column.ours) + TIMES for name in there)
            cells += [duration(median(rows[column.ours])), faster] if rows else ["", ""]
        lines.append([work, " / ".join(instead[name] for name in there), *cells])
    heads = [head for c in columns for head in (c.head, "faster")]
    return markdown(["float32, one thread", "instead", *heads], lines)


def floors(columns: list[Column]) -> str:
    """How near posenc is to the speed of memory, which the table does not show."""
    large = [name for name, size in sizes("posenc.fill", columns[0]).items() if size >= 1e6]
    ratios = [ratio(c.rows_of(name), "memset", c.ours) for c in columns for name in large]
    return (
        f"`memset` on a table of 1 MB or more takes {min(ratios):.2g} to {max(ratios):.2g} times "
        "as long as filling it."
    )


def sizes(call: str, column: Column) -> dict[str, int]:
    """Bytes of output of the tables and batches of usual widths that this call is timed on.

    They are in float32, warm, and where NumPy puts them.
    """
    found = {}
    for name in (name for groups in column.result["calls"].values() for name in groups):
        if match := re.fullmatch(rf"{re.escape(call)} \(([\d, ]+)\) float32", name):
            shape = [int(length) for length in match[1].split(",")]
            if shape[0] > 1 and shape[-1] in (256, 512, 1024):
                found[name] = 4 * math.prod(shape)
    return dict(sorted(found.items(), key=lambda item: item[1]))


def speeds(column: Column) -> pictures.Curves:
    """Ratios by call, rival and bytes."""
    return {
        call: {
            rival: {
                size: ratio(column.rows_of(name), rival, column.ours)
                for name, size in sizes(call, column).items()
                if rival in column.rows_of(name)
            }
            for rival in rivals
        }
        for call, rivals in pictures.CURVES.items()
    }


def table(columns: list[Column], section: str) -> str:
    """A line for the time of each call, and one below it for each rival."""
    lines = []
    for group in dict.fromkeys(g for c in columns for g in c.result["calls"].get(section, {})):
        of_group = [(column.rows(section, group), column.ours) for column in columns]
        times = [duration(median(rows[ours])) if rows else "" for rows, ours in of_group]
        lines.append([group, "", *times])
        rivals = dict.fromkeys(row for rows, _ in of_group for row in rows if "posenc" not in row)
        for rival in rivals:
            cells = [cell(rows, rival, ours) for rows, ours in of_group]
            lines.append(["", rival, *cells])
    return markdown(["work", "beside", *(column.head for column in columns)], lines)


def figures(columns: list[Column], section: str) -> str:
    """Not ratios, as some are 0. Of the best instruction set of each processor."""
    lines = []
    processors = dict.fromkeys(column.result["processor"] for column in columns)
    first = [next(c for c in columns if c.result["processor"] == each) for each in processors]
    for group in dict.fromkeys(g for c in first for g in c.result["calls"].get(section, {})):
        show = megabytes if group.startswith("memory") else duration
        of_group = [column.rows(section, group) for column in first]
        for row in dict.fromkeys(row for rows in of_group for row in rows):
            name = row if not row.startswith("posenc") else f"posenc, {NAMES[row.split()[1]]}"
            cells = [show(median(rows[row])) if row in rows else "" for rows in of_group]
            lines.append([group if row == next(iter(of_group[0])) else "", name, *cells])
    heads = [c.head.split("<br>", 1)[1] for c in first]
    return markdown(["work", "beside", *heads], lines)


def every_backend(columns: list[Column]) -> str:
    lines = []
    for group, rival in EVERY_BACKEND.items():
        cells = [cell(column.rows_of(group), rival, column.ours) for column in columns]
        lines.append([group, rival, *cells])
    return markdown(["work", "beside", *(column.head for column in columns)], lines)


def markdown(head: list[str], lines: Iterable[list[str]]) -> str:
    words = ("work", "beside", "instead", "float32, one thread")
    bar = [":--" if name in words else "--:" for name in head]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, bar, *lines))


def cell(rows: Rows, rival: str, ours: str) -> str:
    """A ratio, bold where a rival wins."""
    if rival not in rows or ours not in rows:
        return ""
    found = ratio(rows, rival, ours)
    if found > 0.995:
        return f"{max(found, 1.0):.3g}"
    return f"{found:.2g}" if rival in FLOORS else f"**{found:.2g}**"


def duration(seconds: float) -> str:
    for factor, unit in ((1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 0.1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def megabytes(size: float) -> str:
    return f"{size / 1e6:.1f} MB"


def put(folder: Path, page: str, blocks: list[str]) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    (folder / page).write_text(replaced(text, "benchmark", "\n\n".join(blocks)), encoding="utf-8")


if __name__ == "__main__":
    write(sorted(RESULTS.glob("*.json")) or sys.exit(f"no results in {RESULTS}"), ROOT)
