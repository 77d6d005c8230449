"""Ray Data: windows of a long sequence, encoded by `map_batches` on two workers, into torch.

Blocks come in any order, so every window carries its `start` as a column: its place in the stream
says nothing. Batches may be read-only, views of Ray's shared memory: `add` returns new ones.
"""

import math
import os
from typing import Any

import numpy as np
import numpy.typing as npt
import ray

import posenc

WINDOWS, LENGTH, D_MODEL = 512, 128, 256
SCALE = math.sqrt(D_MODEL)

Batch = dict[str, npt.NDArray[Any]]


def window(start: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(start).standard_normal((LENGTH, D_MODEL), dtype=np.float32)


def windows(batch: Batch) -> Batch:
    starts = batch["id"] * LENGTH
    return {"start": starts, "x": np.stack([window(int(start)) for start in starts])}


class Encode:
    def __init__(self) -> None:
        self.encoding = posenc.Sinusoidal(D_MODEL)

    def __call__(self, batch: Batch) -> Batch:
        positions = batch["start"][:, np.newaxis] + np.arange(LENGTH)
        x = self.encoding.add(batch["x"], positions=positions, scale=SCALE)
        return {"start": batch["start"], "x": x, "worker": np.full(len(x), os.getpid())}


def main() -> None:
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=512 << 20)
    # Ready before the second stage, and in many blocks: or one of the two might do all the work.
    source = ray.data.range(WINDOWS, override_num_blocks=64).map_batches(windows).materialize()
    encoded = source.map_batches(Encode, compute=ray.data.ActorPoolStrategy(size=2))

    x = np.concatenate([window(LENGTH * k) for k in range(WINDOWS)])
    expected = posenc.add(x, scale=SCALE).reshape(WINDOWS, LENGTH, D_MODEL)
    starts, workers = set[int](), set[int]()
    for batch in encoded.iter_torch_batches(batch_size=64):
        made = batch["x"].numpy()
        assert np.array_equal(made, expected[batch["start"].numpy() // LENGTH])
        starts.update(batch["start"].tolist())
        workers.update(batch["worker"].tolist())
    assert starts == set(range(0, WINDOWS * LENGTH, LENGTH))
    assert len(workers) == 2
    ray.shutdown()
    print(f"{WINDOWS} windows by two workers, the bits of one sequence of {len(x)} rows")


if __name__ == "__main__":
    main()
