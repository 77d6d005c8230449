"""The two pictures of the encoding: its heat map, and its dot products by distance.

    pip install '.[bench]' && python examples/pictures.py

writes heatmap.png and distances.png beside itself.
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("agg")
import matplotlib.pyplot as plt

import posenc

FOLDER = Path(__file__).parent
LENGTH, D_MODEL = 128, 128


def heat_map(path: Path) -> None:
    """Wavelengths grow from 2 pi in the first columns to 2 pi * base in the last."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    for axis, layout in zip(axes, ("interleaved", "split"), strict=True):
        table = posenc.positional_encoding(LENGTH, D_MODEL, layout=layout)
        # A diverging map with 0 in its middle: sines and cosines are as often negative.
        image = axis.imshow(table, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
        axis.set(title=f'layout="{layout}"', xlabel="dimension")
    axes[0].set(ylabel="position")
    figure.colorbar(image, ax=axes, label="PE")
    figure.savefig(path, dpi=90, metadata={"Software": None})


def distances(path: Path) -> None:
    """PE(p) . PE(q) depends on p - q alone: each pair adds cos((p - q) * frequency)."""
    figure, axis = plt.subplots(figsize=(10, 3.6), layout="constrained")
    offsets = np.arange(-128, 129)
    for d_model in (32, 128, 512):
        for middle in (0, 100_000):
            products = posenc.encode(middle + offsets, d_model) @ posenc.encode(middle, d_model)
            if middle == 0:
                first = products
                axis.plot(offsets, products / products.max(), label=f"d_model = {d_model}")
        assert np.allclose(first, products, rtol=0, atol=1e-12 * d_model)
    axis.set(
        xlabel="distance p - q",
        ylabel="PE(p) · PE(q), largest = 1",
        title="dot products of two positions depend on their distance alone",
    )
    axis.legend()
    axis.grid(alpha=0.3)
    figure.savefig(path, dpi=90, metadata={"Software": None})


def main() -> None:
    heat_map(FOLDER / "heatmap.png")
    distances(FOLDER / "distances.png")
    print("heatmap.png, distances.png: dot products at positions 0 and 100 000 agree")


if __name__ == "__main__":
    main()
