"""diffusers: timesteps, grids in two and three dimensions, rotary tables."""

from typing import Any

import numpy as np
import pytest
import torch
from diffusers.models import embeddings
from peers import (
    DOUBLE_ANGLES,
    Array,
    Peer,
    assert_near,
    from_table,
    single_angles,
)

import posenc


def timesteps(positions: Array, width: int) -> torch.Tensor:
    return embeddings.get_timestep_embedding(torch.from_numpy(positions), width)


def timesteps_of_dit(positions: Array, width: int) -> torch.Tensor:
    return embeddings.get_timestep_embedding(
        torch.from_numpy(positions), width, flip_sin_to_cos=True, downscale_freq_shift=0
    )


def sinusoidal(length: int, width: int) -> torch.Tensor:
    return embeddings.SinusoidalPositionalEmbedding(width, length).pe[0]


def sincos(positions: Array, width: int) -> torch.Tensor:
    return embeddings.get_1d_sincos_pos_embed_from_grid(width, torch.from_numpy(positions))


PEERS = {
    "get_timestep_embedding": Peer("diffusers", timesteps, widths=(5, 6, 33, 64, 512)),
    "get_timestep_embedding, flipped, no shift": Peer(
        "dit", timesteps_of_dit, widths=(2, 5, 6, 33, 64, 512)
    ),
    "SinusoidalPositionalEmbedding": Peer("vaswani", from_table(sinusoidal)),
    "get_1d_sincos_pos_embed_from_grid": Peer("gptj", sincos, double=True),
}


@pytest.mark.parametrize("name", PEERS)
def test_sinusoids(name: str) -> None:
    PEERS[name].check()


def test_two_columns_are_nan_there() -> None:
    """There is one frequency, and with posenc it is 1."""
    assert timesteps(np.arange(3), 2).isnan().any()
    exact = [[np.sin(1.0), np.cos(1.0)]]
    assert_near(np.array(exact), PEERS["get_timestep_embedding"].ours(np.array([1]), 2), 1e-15)


@pytest.mark.parametrize("shift", [0.0, 0.5, 1.0, -1.5])
@pytest.mark.parametrize("cos_first", [False, True])
@pytest.mark.parametrize(("scale", "period"), [(1.0, 10000), (2.5, 777)])
def test_timesteps(shift: float, cos_first: bool, scale: float, period: int) -> None:
    """Every parameter there is, at fractional and negative timesteps too."""
    at = torch.arange(-40, 40) / 8
    theirs = embeddings.get_timestep_embedding(at, 33, cos_first, shift, scale, period)
    ours = posenc.Sinusoidal.preset(
        "diffusers", 33, shift=shift, cos_first=cos_first, freq_scale=scale, base=period
    )
    assert_near(theirs, ours.encode(at.numpy()), single_angles(5 * scale))


@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (16, 16)])
def test_grid_in_two_dimensions(shape: tuple[int, int]) -> None:
    theirs = embeddings.get_2d_sincos_pos_embed(64, shape, cls_token=True, extra_tokens=2)
    ours = posenc.grid_encoding(shape, 64, preset="diffusers-2d", extra_rows=2)
    # its coordinates are rounded to float32
    assert_near(theirs, ours, single_angles(16))


def test_interpolated_grid() -> None:
    theirs = embeddings.get_2d_sincos_pos_embed(64, (5, 9), interpolation_scale=2.0, base_size=8)
    at = [np.arange(side) / (side / 8) / 2.0 for side in (5, 9)]
    ours = posenc.grid_encoding((5, 9), 64, preset="diffusers-2d", coordinates=at)
    assert_near(theirs, ours.reshape(-1, 64), single_angles(4))


def test_grid_of_mae() -> None:
    """The same formula at whole coordinates, whose own file runs with no NumPy of today."""
    grid = torch.stack(torch.meshgrid(torch.arange(9.0), torch.arange(5.0), indexing="xy"))
    theirs = embeddings.get_2d_sincos_pos_embed_from_grid(64, grid)
    ours = posenc.grid_encoding((5, 9), 64, preset="mae")
    assert_near(theirs, ours.reshape(-1, 64), DOUBLE_ANGLES)


def test_grid_in_three_dimensions() -> None:
    """Its spatial size is width, height."""
    theirs = embeddings.get_3d_sincos_pos_embed(64, (9, 5), 3)
    ours = posenc.grid_encoding((3, 5, 9), 64, preset="diffusers-3d")
    assert_near(theirs, ours.reshape(3, 45, 64), DOUBLE_ANGLES)


def test_interpolated_grid_in_three_dimensions() -> None:
    theirs = embeddings.get_3d_sincos_pos_embed(
        64, (9, 5), 3, spatial_interpolation_scale=1.875, temporal_interpolation_scale=2.0
    )
    at = [np.arange(3) / 2.0, np.arange(5) / 1.875, np.arange(9) / 1.875]
    ours = posenc.grid_encoding((3, 5, 9), 64, preset="diffusers-3d", coordinates=at)
    assert_near(theirs, ours.reshape(3, 45, 64), single_angles(5))


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize(
    ("dtype", "within"), [(torch.float64, DOUBLE_ANGLES), (torch.float32, single_angles(299))]
)
def test_rotary(layout: Any, dtype: torch.dtype, within: float) -> None:
    """Tables in either layout, and the bits of a rotation by ours."""
    theirs = embeddings.get_1d_rotary_pos_embed(
        64,
        np.arange(300),
        use_real=True,
        repeat_interleave_real=layout == "interleaved",
        freqs_dtype=dtype,
    )
    rotary = posenc.Rotary(64, layout=layout)
    for their, our in zip(theirs, rotary.tables(300), strict=True):
        assert_near(their, our, within)
    x = np.random.default_rng(7).standard_normal((2, 3, 300, 64), np.float32)
    tables = [torch.from_numpy(table) for table in rotary.tables(300, dtype=np.float32)]
    turned = embeddings.apply_rotary_emb(
        torch.from_numpy(x), tables, use_real_unbind_dim=-1 if layout == "interleaved" else -2
    )
    assert np.array_equal(turned, rotary.rotate(x))


def test_stretched_rotary() -> None:
    theirs = embeddings.get_1d_rotary_pos_embed(
        64, np.arange(300), use_real=True, linear_factor=4.0, ntk_factor=2.0
    )
    rotary = posenc.Rotary(64, base=20000.0, layout="interleaved")
    ours = rotary.tables(300, positions=np.arange(300) / 4.0)
    for their, our in zip(theirs, ours, strict=True):
        assert_near(their, our, single_angles(299 / 4))


def test_rotary_of_pictures() -> None:
    """Half of the columns for the width, then half for the height."""
    theirs = embeddings.get_2d_rotary_pos_embed(64, ((0, 0), (5, 9)), (5, 9))
    height, width = np.indices((5, 9)).reshape(2, -1)
    ours = axial(32, 32).tables(45, positions=[width, height])
    for their, our in zip(theirs, ours, strict=True):
        assert_near(their, our, single_angles(9))


def test_rotary_of_videos() -> None:
    theirs = embeddings.get_3d_rotary_pos_embed(64, ((0, 0), (5, 9)), (5, 9), 3)
    positions = np.indices((3, 5, 9)).reshape(3, -1)
    ours = axial(16, 24, 24).tables(135, positions=positions)
    for their, our in zip(theirs, ours, strict=True):
        assert_near(their, our, single_angles(9))


def axial(*widths: int) -> Any:
    """A rotation by several positions, each with columns of its own."""
    return posenc.Rotary(
        sum(widths),
        layout="interleaved",
        frequencies=np.concatenate([posenc.Rotary(width).frequencies for width in widths]),
        axes=np.repeat(np.arange(len(widths)), np.array(widths) // 2),
    )
