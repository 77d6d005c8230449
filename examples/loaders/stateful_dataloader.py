"""torchdata's StatefulDataLoader: stopped in the middle of an epoch, and resumed from its state.

posenc has none, so there is nothing of it to save: the rest comes out as if it had never stopped.
"""

import numpy as np
import numpy.typing as npt
import torch
from torchdata.stateful_dataloader import StatefulDataLoader

import posenc

LENGTH, D_MODEL = 64, 128
SAMPLES = list(np.random.default_rng(0).standard_normal((48, LENGTH, D_MODEL), dtype=np.float32))


def collate(samples: list[npt.NDArray[np.float32]]) -> torch.Tensor:
    return torch.from_numpy(posenc.add(np.stack(samples)))


def make_loader() -> StatefulDataLoader:
    return StatefulDataLoader(SAMPLES, batch_size=4, collate_fn=collate, num_workers=2)


def main() -> None:
    expected = torch.from_numpy(posenc.add(np.stack(SAMPLES)))

    loader = make_loader()
    batches = iter(loader)
    before = [next(batches) for _ in range(5)]
    state = loader.state_dict()
    del batches

    resumed = make_loader()
    resumed.load_state_dict(state)
    after = list(resumed)
    assert len(after) == 7
    assert torch.equal(torch.cat([*before, *after]), expected)
    print("stopped after 5 of 12 batches and resumed: the bits of one run")


if __name__ == "__main__":
    main()
