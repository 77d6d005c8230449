"""rotary-embedding-torch: rotations of pairs, stretched or of pixels."""

import numpy as np
import pytest
import torch
from peers import EXACT_ANGLES, POWERS_OF_TWO, Array, Peer, assert_near, single_angles
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

import posenc


def rows(positions: Array, width: int) -> torch.Tensor:
    """The sines and the cosines of its rotations, each pair once."""
    angles = RotaryEmbedding(width)(torch.from_numpy(positions)).detach()[:, ::2]
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


PEERS = {"RotaryEmbedding": Peer("gptj", rows)}


def queries(width: int) -> Array:
    """Of two sequences and three heads, small enough for two products to err as one."""
    return np.random.default_rng(7).uniform(-0.5, 0.5, (2, 3, 300, width)).astype(np.float32)


def test_rows() -> None:
    PEERS["RotaryEmbedding"].check()


def test_rotation() -> None:
    x = queries(64)
    theirs = RotaryEmbedding(64).rotate_queries_or_keys(torch.from_numpy(x)).detach()
    ours = posenc.Rotary(64, layout="interleaved").rotate(x)
    assert_near(theirs, ours, single_angles(299))


def test_rotation_of_a_part_from_a_later_position() -> None:
    x = queries(80)
    theirs = RotaryEmbedding(64).rotate_queries_or_keys(torch.from_numpy(x), offset=77).detach()
    ours = posenc.Rotary(64, layout="interleaved").rotate(x, start=77)
    assert_near(theirs, ours, single_angles(299 + 77))
    assert np.array_equal(theirs[..., 64:], x[..., 64:])


def test_interpolated_rotation() -> None:
    x = queries(64)
    theirs = RotaryEmbedding(64, interpolate_factor=4.0).rotate_queries_or_keys(torch.from_numpy(x))
    rotary = posenc.Rotary(64, layout="interleaved")
    ours = rotary.rotate(x, positions=np.arange(300) / 4.0)
    assert_near(theirs.detach(), ours, single_angles(299 / 4))


def test_ntk_scaled_rotation() -> None:
    x = queries(64)
    theirs = RotaryEmbedding(64, theta_rescale_factor=4.0)
    ours = posenc.Rotary(64, base=10000.0 * 4.0 ** (64 / 62), layout="interleaved").rotate(x)
    turned = theirs.rotate_queries_or_keys(torch.from_numpy(x)).detach()
    assert_near(turned, ours, single_angles(299))


def test_rotation_of_pixels() -> None:
    x = queries(64)
    theirs = RotaryEmbedding(64, freqs_for="pixel", max_freq=10)
    at = torch.linspace(-1.0, 1.0, 300)
    rotary = posenc.Rotary(
        64, layout="interleaved", frequencies=theirs.freqs.detach().double().numpy()
    )
    ours = rotary.rotate(x, positions=at.double().numpy())
    turned = apply_rotary_emb(theirs(at), torch.from_numpy(x)).detach()
    assert_near(turned, ours, single_angles(float(rotary.frequencies.max())))


def test_rotation_in_a_picture() -> None:
    """The height turns the first half of the columns, the width the second, alike."""
    theirs = RotaryEmbedding(32).get_axial_freqs(5, 9).detach().reshape(45, 64)
    rotary = posenc.Rotary(
        64,
        layout="interleaved",
        frequencies=np.tile(posenc.Rotary(32).frequencies, 2),
        axes=np.repeat([0, 1], 16),
    )
    ours = rotary.tables(45, positions=np.indices((5, 9)).reshape(2, -1))
    assert_near(theirs.cos(), ours[0], single_angles(9))
    assert_near(theirs.sin(), ours[1], single_angles(9))


def test_tables_of_their_frequencies() -> None:
    theirs = RotaryEmbedding(64)
    rotary = posenc.Rotary(
        64, layout="interleaved", frequencies=theirs.freqs.detach().double().numpy()
    )
    angles = theirs(torch.from_numpy(POWERS_OF_TWO)).detach()
    ours = rotary.tables(len(POWERS_OF_TWO), positions=POWERS_OF_TWO)
    assert_near(angles.cos(), ours[0], EXACT_ANGLES)
    assert_near(angles.sin(), ours[1], EXACT_ANGLES)


@pytest.mark.parametrize("start", [256, 4096])
def test_positions_in_bfloat16_collide_there(start: int) -> None:
    """So two of its rotations agree; ours are those of float32, rounded once."""
    x = np.tile(queries(64)[..., :1, :], (1, 1, 2, 1))
    half = torch.from_numpy(x).bfloat16()
    theirs = RotaryEmbedding(64).rotate_queries_or_keys(half, offset=start).detach()
    assert torch.equal(theirs[..., 0, :], theirs[..., 1, :])
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rotary = posenc.Rotary(64, layout="interleaved")
    x = half.float().numpy()
    ours = rotary.rotate(x.astype(ml_dtypes.bfloat16), start=start)
    assert np.array_equal(ours, rotary.rotate(x, start=start).astype(ml_dtypes.bfloat16))
