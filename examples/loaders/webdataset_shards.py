"""WebDataset: shards of tokenised documents, read, embedded and encoded by two workers."""

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import webdataset as wds

import posenc

VOCABULARY, D_MODEL = 1000, 128
SCALE = math.sqrt(D_MODEL)
rng = np.random.default_rng(0)
WEIGHT = rng.standard_normal((VOCABULARY, D_MODEL), dtype=np.float32)
DOCUMENTS = {f"{k:04d}": rng.integers(VOCABULARY, size=n) for k, n in enumerate(range(1, 101))}


def embed(sample: dict[str, Any]) -> dict[str, Any]:
    return {"key": sample["__key__"], "x": posenc.embed(sample["ids.npy"], WEIGHT, scale=SCALE)}


def main() -> None:
    expected = {key: posenc.add(WEIGHT[ids], scale=SCALE) for key, ids in DOCUMENTS.items()}
    with tempfile.TemporaryDirectory() as folder:
        with wds.ShardWriter(f"{folder}/shard-%d.tar", maxcount=25, verbose=0) as shards:
            for key, ids in DOCUMENTS.items():
                shards.write({"__key__": key, "ids.npy": ids})
        urls = sorted(map(str, Path(folder).glob("*.tar")))
        dataset = wds.WebDataset(urls, shardshuffle=False).decode().map(embed)
        loader = wds.WebLoader(dataset, batch_size=None, num_workers=2)
        made = {sample["key"]: sample["x"] for sample in loader}
    assert made.keys() == expected.keys()
    assert all(np.array_equal(made[key], expected[key]) for key in expected)
    print(f"{len(made)} documents from {len(urls)} shards, each as encoded alone")


if __name__ == "__main__":
    main()
