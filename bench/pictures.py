"""The three pictures: alternatives by size, the sweep over offsets, the sweep over sizes."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
from matplotlib.colors import LogNorm
from matplotlib.ticker import EngFormatter, NullFormatter

TIMES = "\N{MULTIPLICATION SIGN}"
Curves = dict[str, dict[str, dict[int, float]]]
Sweeps = list[tuple[str, dict[str, Any]]]  # what sweeps.py found, by what was measured

# The lines of speed.png, by the call that they are about.
CURVES = {
    "posenc.fill": {
        "NumPy float64": "NumPy formula, float64",
        "torch": "torch formula",
        "NumPy float32": "NumPy formula, float32",
        "memset": "memset",
    },
    "Sinusoidal(d).add": {
        "kept table": "np.add of a kept table",
        "torch.compile": "torch.compile",
        "np.copyto": "copying x",
    },
    "Sinusoidal(d).add packed": {
        "kept table": "np.add(x, table[positions])",
        "torch.compile": "torch.compile",
        "np.copyto": "copying x",
    },
}


def speed(curves: Curves, measured: str, path: Path) -> None:
    """How many times as long the alternatives take, over the size of the output."""
    figure, panels = plt.subplots(1, len(curves), figsize=(17, 5), layout="constrained")
    for axes, (call, lines) in zip(panels, curves.items(), strict=True):
        for rival, line in lines.items():
            if line:
                axes.loglog(line.keys(), line.values(), "o-", label=CURVES[call][rival])
        _mark_one(axes)
        axes.set_title(f"{call}, float32", fontsize=14)
        axes.legend(fontsize=11, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)
        _label_bytes(axes)
    panels[0].set_ylabel(
        "time of the alternative / posenc's\n(grey: posenc is slower)", fontsize=13
    )
    figure.suptitle(measured, fontsize=12)
    _save(figure, path)


def offsets(sweeps: Sweeps, path: Path) -> None:
    """A heat map for each call and instruction set: time over the floor's, by the two addresses."""
    names = [name for name in sweeps[0][1]["offsets"] if name != "at"]
    size = (3.3 * len(names), 3.6 * len(sweeps))
    figure, panels = plt.subplots(
        len(sweeps), len(names), figsize=size, layout="constrained", squeeze=False
    )
    for row, (measured, found) in zip(panels, sweeps, strict=True):
        at = found["offsets"]["at"]
        for axes, name in zip(row, names, strict=True):
            cells = found["offsets"][name]
            axes.imshow(cells, cmap="RdYlGn_r", norm=LogNorm(0.4, 4), aspect="auto")
            for y, line in enumerate(cells):
                for x, cell in enumerate(line):
                    axes.text(x, y, f"{cell:.2g}", ha="center", va="center", fontsize=7)
            axes.set_title(f"{name} / {FLOORS.get(name, 'np.copyto')}", fontsize=11)
            axes.set_xticks(range(len(at)), at, rotation=90, fontsize=8)
            axes.set_yticks(range(len(cells)), at[: len(cells)] if len(cells) > 1 else [""])
            axes.tick_params(labelsize=8)
            axes.set_xlabel("out modulo 4096", fontsize=9)
        row[1].set_ylabel("x modulo 4096 (embed: weight)", fontsize=9)
        row[0].set_ylabel(measured, fontsize=9)
    _save(figure, path)


FLOORS = {"fill": "memset", "embed": "np.take"}  # of the sweep over offsets


def sizes(sweeps: Sweeps, path: Path) -> None:
    """Time with stores past the caches over time with ordinary ones, by the size of the output."""
    names = [name for name in sweeps[0][1]["sizes"] if name != "bytes"]
    figure, panels = plt.subplots(2, 3, figsize=(15, 8), layout="constrained")
    for axes, name in zip(panels.flat, names, strict=True):
        for number, (measured, found) in enumerate(sweeps):
            for caches, style in (("warm", "o-"), ("cold", "s--")):
                ratios = found["sizes"][name][caches]
                label = f"{measured}, {caches}".replace("\n", ", ")
                at = found["sizes"]["bytes"][: len(ratios)]
                axes.loglog(at, ratios, style, color=f"C{number}", label=label, markersize=4)
        _mark_one(axes)
        axes.set_title(name, fontsize=13)
        _label_bytes(axes)
    for axes in panels[:, 0]:
        axes.set_ylabel("time streamed / stored\n(grey: streaming is faster)", fontsize=12)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=11)
    _save(figure, path)


def _mark_one(axes: Any) -> None:
    """Grey below 1, and ticks that are numbers."""
    low, high = axes.get_ylim()
    low, high = min(low, 0.7), max(high, 1.4)
    axes.axhspan(low, 1, color="black", alpha=0.06)
    few = (1, 1.4, 2, 3, 5, 7) if high / low < 30 else (1, 2, 5)
    ticks = [step * ten for ten in (0.1, 1, 10, 100) for step in few]
    axes.set_yticks(ticks, [f"{tick:.3g}{TIMES}" for tick in ticks])
    axes.set_yticks([], minor=True)
    axes.set_ylim(low, high)


def _label_bytes(axes: Any) -> None:
    axes.set_xlabel("size of the output", fontsize=12)
    axes.xaxis.set_major_formatter(EngFormatter("B", sep=" "))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=90, metadata={"Software": None})
    plt.close(figure)
