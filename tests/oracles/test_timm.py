"""timm: the sinusoidal grid, from its module's file alone, as its packages want torchvision."""

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from peers import Array, Peer, assert_near, single_angles

import posenc


def alone(name: str) -> Any:
    """A module, imported into packages that are empty."""
    package = ""
    for part in name.split(".")[:-1]:
        package = f"{package}.{part}".lstrip(".")
        spec = importlib.util.find_spec(package)
        assert spec is not None
        empty = ModuleType(package)
        empty.__path__ = spec.submodule_search_locations or []
        sys.modules[package] = empty
    return importlib.import_module(name)


build = alone("timm.layers.pos_embed_sincos").build_sincos2d_pos_embed


def rows(positions: Array, width: int) -> torch.Tensor:
    """The height's half of a grid that is one point wide."""
    grid = build([int(positions.max()) + 1, 1], dim=2 * width, interleave_sin_cos=True)
    return grid[positions, :width]


PEERS = {"build_sincos2d_pos_embed": Peer("gptj", rows)}


def test_rows() -> None:
    PEERS["build_sincos2d_pos_embed"].check()


@pytest.mark.parametrize("temperature", [10000.0, 20.0])
@pytest.mark.parametrize(("preset", "interleave"), [("timm", False), ("rt-detr", True)])
def test_grid(preset: str, interleave: bool, temperature: float) -> None:
    theirs = build([5, 9], 64, temperature, interleave_sin_cos=interleave)
    ours = posenc.grid_encoding((5, 9), 64, preset=preset, base=temperature)
    assert_near(theirs, ours.reshape(-1, 64), single_angles(9))


def test_reversed_grid() -> None:
    """There the points are reversed too: a grid of width, height."""
    theirs = build([5, 9], 64, reverse_coord=True)
    ours = posenc.grid_encoding((9, 5), 64, preset="timm")
    assert_near(theirs, ours.reshape(-1, 64), single_angles(9))
