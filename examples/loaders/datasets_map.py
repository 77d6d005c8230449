"""Hugging Face datasets: `map` over two processes, and the encoding on the fly in `with_transform`."""

import functools
import math
from typing import Any

import numpy as np
from datasets import Dataset, Features, List, Value

import posenc

VOCABULARY, D_MODEL = 1000, 64
SCALE = math.sqrt(D_MODEL)
rng = np.random.default_rng(0)
WEIGHT = rng.standard_normal((VOCABULARY, D_MODEL), dtype=np.float32)
DOCUMENTS = [rng.integers(VOCABULARY, size=n) for n in rng.integers(1, 200, size=100)]


def embed(batch: dict[str, Any], scale: float) -> dict[str, Any]:
    """A batch of documents of unequal length, in one call: their positions are packed."""
    ids = [np.asarray(i) for i in batch["ids"]]
    lengths = [len(i) for i in ids]
    positions = posenc.positions.from_lengths(lengths)
    x = posenc.embed(np.concatenate(ids), WEIGHT, positions=positions, scale=scale)
    return {"x": np.split(x, np.cumsum(lengths)[:-1])}


def main() -> None:
    expected = [posenc.add(WEIGHT[ids], scale=SCALE) for ids in DOCUMENTS]
    dataset = Dataset.from_dict({"ids": DOCUMENTS})
    # A function of a module pickles, and has the same fingerprint in every run.
    embed_scaled = functools.partial(embed, scale=SCALE)
    features = Features({"ids": List(Value("int64")), "x": List(List(Value("float32"), D_MODEL))})
    stored = dataset.map(embed_scaled, batched=True, batch_size=16, num_proc=2, features=features)
    on_the_fly = dataset.with_transform(embed_scaled)
    for made in (stored.with_format("numpy"), on_the_fly):
        for row, alone in zip(made, expected, strict=True):
            assert np.array_equal(row["x"], alone)
    print(f"{len(DOCUMENTS)} documents by map(num_proc=2) and with_transform, as encoded alone")


if __name__ == "__main__":
    main()
