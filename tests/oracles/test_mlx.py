"""MLX: sinusoids between two frequencies, rotations, and ALiBi."""

import math

import mlx.core as mx
import mlx.nn
import numpy as np
import pytest
from peers import Array, Peer, assert_near, single_angles

import posenc


def rows(positions: Array, width: int) -> Array:
    return np.asarray(mlx.nn.SinusoidalPositionalEncoding(width)(mx.array(positions, mx.float32)))


PEERS = {"SinusoidalPositionalEncoding": Peer("mlx", rows, widths=(2, 6, 64, 512))}


def test_rows() -> None:
    PEERS["SinusoidalPositionalEncoding"].check()


@pytest.mark.parametrize("cos_first", [False, True])
@pytest.mark.parametrize("full_turns", [False, True])
def test_sinusoids(cos_first: bool, full_turns: bool) -> None:
    """Every parameter there is, at fractional and negative positions too."""
    at = np.arange(-40, 40, dtype=np.float32) / 8
    encoding = mlx.nn.SinusoidalPositionalEncoding(
        64, min_freq=0.01, max_freq=4.0, scale=0.5, cos_first=cos_first, full_turns=full_turns
    )
    fastest = 4.0 * (2 * math.pi if full_turns else 1.0)
    ours = posenc.Sinusoidal.preset(
        "mlx", 64, base=400.0, freq_scale=fastest, amplitude=0.5, cos_first=cos_first
    )
    assert_near(np.asarray(encoding(mx.array(at))), ours.encode(at), single_angles(5 * fastest))


@pytest.mark.parametrize("traditional", [False, True])
def test_rotation(traditional: bool) -> None:
    """Of the first 64 of 80 columns, from a later position."""
    x = np.random.default_rng(7).uniform(-0.5, 0.5, (2, 3, 300, 80)).astype(np.float32)
    theirs = np.asarray(mlx.nn.RoPE(64, traditional=traditional)(mx.array(x), offset=77))
    rotary = posenc.Rotary(64, layout="interleaved" if traditional else "half")
    assert_near(theirs, rotary.rotate(x, start=77), single_angles(299 + 77))


@pytest.mark.parametrize("heads", [1, 6, 8, 12])
def test_alibi_bias(heads: int) -> None:
    theirs = np.asarray(mlx.nn.ALiBi.create_alibi_matrix(20, 20, heads))[0]
    assert_near(theirs, posenc.alibi_bias(heads, 20, 20, causal=False), single_angles(19))
