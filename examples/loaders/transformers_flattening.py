"""transformers' DataCollatorWithFlattening: documents packed into one row, without padding.

Its `position_ids` begin again at every document, and are the `positions` of posenc as they come.
"""

import math

import numpy as np
from transformers import DataCollatorWithFlattening

import posenc

VOCABULARY, D_MODEL = 1000, 128
SCALE = math.sqrt(D_MODEL)
rng = np.random.default_rng(0)
WEIGHT = rng.standard_normal((VOCABULARY, D_MODEL), dtype=np.float32)
DOCUMENTS = [rng.integers(VOCABULARY, size=n).tolist() for n in rng.integers(1, 200, size=32)]


def main() -> None:
    expected = np.concatenate([posenc.add(WEIGHT[ids], scale=SCALE) for ids in DOCUMENTS])
    for tensors in ("np", "pt"):
        collate = DataCollatorWithFlattening(return_tensors=tensors)
        batch = collate([{"input_ids": ids} for ids in DOCUMENTS])
        ids, positions = np.asarray(batch["input_ids"]), np.asarray(batch["position_ids"])
        x = posenc.embed(ids, WEIGHT, positions=positions, scale=SCALE)
        assert np.array_equal(x[0], expected)
        print(f"{tensors}: {len(DOCUMENTS)} documents in a row {x.shape}, each as encoded alone")


if __name__ == "__main__":
    main()
