"""x-transformers: scaled sinusoids, and ALiBi."""

import numpy as np
import pytest
import torch
from peers import (
    EXACT_ANGLES,
    POWERS_OF_TWO,
    Array,
    Peer,
    assert_buckets,
    assert_near,
    single_angles,
)
from x_transformers.x_transformers import (
    AlibiPositionalBias,
    RelativePositionBias,
    ScaledSinusoidalEmbedding,
)

import posenc


def rows(positions: Array, width: int) -> torch.Tensor:
    embedding = ScaledSinusoidalEmbedding(width)
    x = torch.empty(1, len(positions), width)
    return embedding(x, pos=torch.from_numpy(positions).float()).detach()


PEERS = {"ScaledSinusoidalEmbedding": Peer("x-transformers", rows)}


def test_rows() -> None:
    PEERS["ScaledSinusoidalEmbedding"].check()


def test_rows_of_their_frequencies() -> None:
    frequencies = ScaledSinusoidalEmbedding(64).inv_freq.double().numpy()
    ours = posenc.Sinusoidal(64, frequencies=frequencies, layout="split", amplitude=64**-0.5)
    assert_near(rows(POWERS_OF_TWO, 64), ours.encode(POWERS_OF_TWO), EXACT_ANGLES)


def test_left_padding() -> None:
    """Positions before a sequence's start are negative."""
    embedding = ScaledSinusoidalEmbedding(64)
    starts = torch.tensor([7])
    theirs = embedding(torch.empty(1, 20, 64), seq_start_pos=starts[0]).detach()
    ours = posenc.Sinusoidal.preset("x-transformers", 64).table(20, start=-7)
    assert_near(theirs, ours, single_angles(12))


@pytest.mark.parametrize("heads", [1, 2, 6, 8, 12, 20])
def test_alibi_bias(heads: int) -> None:
    """Of fewer queries than keys: the last ones."""
    theirs = AlibiPositionalBias(heads)(11, 20)
    ours = posenc.alibi_bias(heads, 11, 20, causal=False)
    assert_near(theirs, ours, single_angles(19))


@pytest.mark.parametrize("causal", [False, True])
def test_t5_buckets(causal: bool) -> None:
    """Its distances are key minus query too."""
    distances = np.arange(300) - np.arange(300)[:, np.newaxis]
    theirs = RelativePositionBias._relative_position_bucket(
        torch.from_numpy(distances), causal=causal, num_buckets=32, max_distance=128
    )
    ours = posenc.t5_buckets(300, 300, bidirectional=not causal, num_buckets=32, max_distance=128)
    assert_buckets(theirs, ours, distances, not causal, 32, 128)
