"""Grain: batches made by two spawned workers (`mp_prefetch`), in the order of one process."""

import grain
import numpy as np
import numpy.typing as npt
from absl import flags

import posenc

Array = npt.NDArray[np.float32]

LENGTH, D_MODEL = 64, 128


class Source:
    """Random access to the samples: the index alone says what they are."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Array:
        return np.random.default_rng(index).standard_normal((LENGTH, D_MODEL), dtype=np.float32)


def encode(batch: Array) -> Array:
    return posenc.add(batch)  # new: what Grain hands over stays as it is


def main() -> None:
    flags.FLAGS.mark_as_parsed()  # Grain's workers take flags from absl, app.run or this
    source = Source()
    expected = posenc.add(np.stack([source[k] for k in range(len(source))]))

    dataset = grain.MapDataset.source(source).batch(8).map(encode).to_iter_dataset()
    made = list(dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=2)))
    assert np.array_equal(np.concatenate(made), expected)
    print(f"{len(made)} batches of two workers, the bits of one process")


if __name__ == "__main__":
    main()
