"""Biases and buckets of given positions, and the way back to documents, beside transformers."""

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from peers import Array, assert_near, single_angles
from transformers.modeling_flash_attention_utils import prepare_fa_kwargs_from_position_ids

import posenc


def model(name: str) -> Any:
    return importlib.import_module(f"transformers.models.{name}.modeling_{name}")


def layoutlm(where: Array, buckets: int, farthest: int) -> Array:
    """The buckets of `LayoutLMv3Encoder`."""
    encoder = model("layoutlmv3").LayoutLMv3Encoder
    distances = torch.from_numpy(where[:, np.newaxis] - where[:, :, np.newaxis])
    found = encoder.relative_position_bucket(
        SimpleNamespace(), distances, num_buckets=buckets, max_distance=farthest
    )
    return np.asarray(found)


def at_an_edge(where: Array, buckets: int, farthest: int) -> Array:
    """Whether a distance is a whole edge, where a logarithm may fall on either side."""
    left = buckets // 2 - buckets // 4
    whole = [
        n
        for n in range(buckets // 4 + 1, farthest + 1)
        for i in range(1, left)
        if n**left == farthest**i * (buckets // 4) ** (left - i)
    ]
    return np.isin(np.abs(where[:, np.newaxis] - where[:, :, np.newaxis]), whole)


@pytest.mark.parametrize(("buckets", "farthest"), [(64, 256), (32, 128), (24, 100)])
def test_buckets_of_boxes_as_in_layoutlm(buckets: int, farthest: int) -> None:
    """The left and the lower sides of boxes on a page of 1000 by 1000, as its config has them."""
    boxes = np.random.default_rng(5).integers(0, 1001, (3, 200, 4))
    for where in (boxes[..., 0], boxes[..., 3]):
        ours = posenc.t5_buckets(q_positions=where, num_buckets=buckets, max_distance=farthest)
        theirs = layoutlm(where, buckets, farthest)
        sure = ~at_an_edge(where, buckets, farthest)
        assert sure.mean() > 0.9
        np.testing.assert_array_equal(ours[sure], theirs[sure])


def test_biases_of_padded_rows_as_in_bloom() -> None:
    """BLOOM counts by the mask, and biases all queries alike, which softmax does not see."""
    mask = np.array([[0, 0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1, 1, 1]])
    where = posenc.positions.from_mask(mask)
    ours = posenc.alibi_bias(12, q_positions=where[:, -1:], k_positions=where)
    theirs = model("bloom").build_alibi_tensor(torch.from_numpy(mask), 12, torch.float32)
    theirs = np.asarray(theirs).reshape(3, 12, 1, 8)
    hidden = np.broadcast_to(mask[:, np.newaxis, np.newaxis] == 0, ours.shape)
    ours, theirs = ours - ours[..., -1:], theirs - theirs[..., -1:]
    assert_near(np.where(hidden, 0, theirs), np.where(hidden, 0, ours), single_angles(8))


@pytest.mark.parametrize("lengths", [[3, 2], [1, 1, 5], [9], [4, 1, 1, 7]])
def test_offsets_of_packed_rows_as_for_flash_attention(lengths: list[int]) -> None:
    where = posenc.positions.from_lengths(lengths)
    ours = posenc.positions.to_cu_seqlens(where)
    (theirs, _), (longest, _) = prepare_fa_kwargs_from_position_ids(torch.from_numpy(where))
    assert np.asarray(theirs).dtype == ours.dtype
    np.testing.assert_array_equal(theirs, ours)
    assert int(longest) == posenc.positions.to_lengths(where).max()
