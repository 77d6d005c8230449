"""torch's DataLoader: workers that embed and encode documents straight into shared memory.

Three ways to make a batch of documents of unequal length, and one encoding: the rows of a document
are those it has alone.
"""

import math
import os

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader

import posenc

VOCABULARY, D_MODEL = 1000, 128
SCALE = math.sqrt(D_MODEL)
rng = np.random.default_rng(0)
WEIGHT = rng.standard_normal((VOCABULARY, D_MODEL), dtype=np.float32)
DOCUMENTS = [rng.integers(VOCABULARY, size=n) for n in rng.integers(1, 200, size=32)]

Ids = list[npt.NDArray[np.int64]]
Batch = tuple[torch.Tensor, torch.Tensor, int]  # embeddings, mask, the worker


def embedded(
    ids: npt.NDArray[np.int64], mask: npt.NDArray[np.bool_], positions: npt.ArrayLike | None = None
) -> Batch:
    # New for every batch: the parent still reads the last one while this one is filled.
    batch = torch.empty((*ids.shape, D_MODEL)).share_memory_()
    out = batch.numpy()  # the same memory
    posenc.embed(ids, WEIGHT, positions=positions, mask=mask, scale=SCALE, out=out)
    return batch, torch.from_numpy(mask), os.getpid()


def padded(documents: Ids) -> Batch:
    lengths = np.array([len(d) for d in documents])
    mask = np.arange(lengths.max()) < lengths[:, np.newaxis]
    ids = np.zeros(mask.shape, dtype=np.int64)
    ids[mask] = np.concatenate(documents)
    return embedded(ids, mask)


def left_padded(documents: Ids) -> Batch:
    lengths = np.array([len(d) for d in documents])
    mask = np.arange(lengths.max())[::-1] < lengths[:, np.newaxis]
    ids = np.zeros(mask.shape, dtype=np.int64)
    ids[mask] = np.concatenate(documents)
    return embedded(ids, mask, posenc.positions.from_mask(mask))


def packed(documents: Ids) -> Batch:
    ids = np.concatenate(documents)[np.newaxis]
    positions = posenc.positions.from_lengths([len(d) for d in documents])
    return embedded(ids, np.ones(ids.shape, dtype=np.bool_), positions)


def main() -> None:
    # posenc is used in the parent before any worker is forked.
    expected = [posenc.add(WEIGHT[d], scale=SCALE) for d in DOCUMENTS]
    whole = torch.from_numpy(np.concatenate(expected))
    for method in ("fork", "spawn", "forkserver"):
        for collate in (padded, left_padded, packed):
            loader = DataLoader(
                DOCUMENTS,
                batch_size=4,
                collate_fn=collate,
                num_workers=2,
                multiprocessing_context=method,
                persistent_workers=True,
            )
            for _epoch in range(2):
                batches = list(loader)
                assert torch.equal(torch.cat([batch[mask] for batch, mask, _ in batches]), whole)
                assert all(batch.is_shared() for batch, _, _ in batches)
                assert len({worker for _, _, worker in batches} - {os.getpid()}) == 2
        print(f"{method}: padded, left-padded and packed batches of two workers, the same bits")


if __name__ == "__main__":
    main()
