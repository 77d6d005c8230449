"""Biases and buckets of given positions, and the way back to documents, beside transformers."""

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from peers import assert_buckets, assert_near, single_angles
from transformers.modeling_flash_attention_utils import prepare_fa_kwargs_from_position_ids

import posenc


def model(name: str) -> Any:
    return importlib.import_module(f"transformers.models.{name}.modeling_{name}")


@pytest.mark.parametrize(("buckets", "farthest"), [(64, 256), (32, 128), (24, 100)])
def test_buckets_of_boxes_as_in_layoutlm(buckets: int, farthest: int) -> None:
    """The left and the lower sides of boxes on a page of 1000 by 1000, as its config has them."""
    boxes = np.random.default_rng(5).integers(0, 1001, (3, 200, 4))
    for where in (boxes[..., 0], boxes[..., 3]):
        ours = posenc.t5_buckets(q_positions=where, num_buckets=buckets, max_distance=farthest)
        distances = where[:, np.newaxis] - where[:, :, np.newaxis]
        theirs = model("layoutlmv3").LayoutLMv3Encoder.relative_position_bucket(
            SimpleNamespace(),
            torch.from_numpy(distances),
            num_buckets=buckets,
            max_distance=farthest,
        )
        assert_buckets(theirs, ours, distances, True, buckets, farthest)


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
