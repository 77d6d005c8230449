"""positional-encodings: an odd width is rounded up, on each axis of a grid."""

import numpy as np
import pytest
import torch
from peers import EXACT_ANGLES, POWERS_OF_TWO, Peer, assert_near, from_table, single_angles
from positional_encodings.torch_encodings import (
    PositionalEncoding1D,
    PositionalEncoding2D,
    PositionalEncoding3D,
    Summer,
)

import posenc


def table(length: int, width: int) -> torch.Tensor:
    return PositionalEncoding1D(width)(torch.empty(1, length, width))[0]


PEERS = {
    "PositionalEncoding1D": Peer(
        "positional-encodings", from_table(table), widths=(1, 2, 5, 6, 33, 64, 512)
    )
}


def test_rows() -> None:
    PEERS["PositionalEncoding1D"].check()


def test_rows_of_their_frequencies() -> None:
    ours = posenc.Sinusoidal(64, frequencies=PositionalEncoding1D(64).inv_freq.double().numpy())
    theirs = table(int(POWERS_OF_TWO[-1]) + 1, 64)[POWERS_OF_TWO]
    assert_near(theirs, ours.encode(POWERS_OF_TWO), EXACT_ANGLES)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 6, 7, 10, 64, 66])
@pytest.mark.parametrize(
    ("encoding", "shape"), [(PositionalEncoding2D, (5, 9)), (PositionalEncoding3D, (3, 5, 4))]
)
def test_grid(encoding: type[torch.nn.Module], shape: tuple[int, ...], width: int) -> None:
    theirs = encoding(width)(torch.empty(1, *shape, width))[0]
    ours = posenc.grid_encoding(shape, width, preset="positional-encodings")
    assert_near(theirs, ours, single_angles(9))


def test_sum() -> None:
    x = np.random.default_rng(7).standard_normal((2, 300, 64), np.float32)
    theirs = Summer(PositionalEncoding1D(64))(torch.from_numpy(x))
    ours = posenc.Sinusoidal.preset("positional-encodings", 64).add(x)
    assert_near(theirs, ours, single_angles(299))
