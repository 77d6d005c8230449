"""Learned absolute positions."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arrays import FLOAT32, FLOAT64, ROWS, Dtype, assert_same_bits, every_dtype, random, sums
from internals import streaming

import posenc


@every_dtype
def test_rows_of_the_table_are_added(backend: str, dtype: Dtype) -> None:
    weight, x = random((120, 33), dtype), random((3, 40, 33), dtype)
    learned = posenc.Learned(weight)
    assert_same_bits(learned.add(x), sums(x, 1.0, weight[:40]))
    assert_same_bits(learned.add(x, start=80, scale=1.3), sums(x, 1.3, weight[80:]))
    positions = np.random.default_rng(5).integers(0, 120, (3, 40))
    expected = sums(x, 2.0, weight[positions])
    assert_same_bits(learned.add(x, positions=positions, scale=2.0), expected)
    assert_same_bits(learned.add(x, positions=positions[1]), sums(x, 1.0, weight[positions[1]]))
    assert_same_bits(learned.add(x, positions=positions, scale=2.0, workers=2), expected)
    out = np.zeros((3, 40, 50), dtype)[..., 7:40]
    assert learned.add(x, positions=positions, scale=2.0, out=out) is out
    assert_same_bits(out, expected)
    assert learned.add(x, positions=positions, scale=2.0, out=x) is x
    assert_same_bits(x, expected)


@every_dtype
def test_embed_adds_two_tables(backend: str, dtype: Dtype) -> None:
    weight, tokens = random((60, 24), dtype), random((500, 24), dtype)
    learned = posenc.Learned(weight)
    ids = np.random.default_rng(6).integers(0, 500, (4, 30))
    positions = posenc.positions.from_ids(ids, padding_idx=7)
    mask = ids % 3 > 0
    expected = sums(tokens[ids], 4.0, weight[positions])
    assert_same_bits(learned.embed(ids, tokens, positions=positions, scale=4.0), expected)
    kept = learned.embed(ids, tokens, positions=positions, scale=4.0, mask=mask)
    assert_same_bits(kept[mask], expected[mask])
    np.testing.assert_array_equal(
        kept[~mask].astype(np.float64), sums(tokens[ids], 4.0, 0 * weight[:1])[~mask].astype(float)
    )
    assert_same_bits(
        learned.embed(ids[0], tokens, start=30), sums(tokens[ids[0]], 1.0, weight[30:])
    )


@every_dtype
def test_large_outputs_have_the_bits_of_small_ones(backend: str, dtype: Dtype) -> None:
    weight, tokens = random((200, 66), dtype), random((90, 66), dtype)
    ids = np.random.default_rng(6).integers(0, 90, (3, 200))
    expected = sums(tokens[ids], 1.0, weight)
    with streaming():
        assert_same_bits(posenc.Learned(weight).embed(ids, tokens), expected)
        assert_same_bits(posenc.Learned(weight).add(tokens[ids]), expected)


def test_the_table_is_kept_as_it_is(backend: str, tmp_path: Path) -> None:
    np.save(tmp_path / "weight.npy", random((50, 8), FLOAT32))
    weight = np.load(tmp_path / "weight.npy", mmap_mode="r")
    learned = posenc.Learned(weight)
    assert np.shares_memory(learned.weight, weight)
    assert_same_bits(learned.add(np.zeros((1, 50, 8), np.float32))[0], np.array(weight))


@every_dtype
def test_the_table_may_have_any_form(backend: str, dtype: Dtype) -> None:
    weight = random((50, 8), dtype)
    for form in ROWS:
        learned = posenc.Learned(form(weight))
        assert_same_bits(learned.add(np.zeros((1, 50, 8), dtype))[0], weight)


def test_it_is_frozen_and_picklable() -> None:
    learned: Any = posenc.Learned(random((50, 8), FLOAT32))
    with pytest.raises(AttributeError):
        learned.weight = None
    again = pickle.loads(pickle.dumps(learned))
    assert again.d_model == 8
    assert_same_bits(again.weight, learned.weight)
    assert repr(learned) == "Learned(d_model=8)"


@pytest.mark.filterwarnings("ignore:Setting the shape")  # deprecated, and still there
def test_a_new_shape_of_the_table_elsewhere_changes_nothing(backend: str) -> None:
    weight = random((100, 64), FLOAT32)
    learned = posenc.Learned(weight)
    expected = learned.add(np.zeros((1, 100, 64), np.float32))
    for array in (weight, learned.weight):
        array.shape = (6400, 1)
        assert_same_bits(learned.add(np.zeros((1, 100, 64), np.float32)), expected)
        with pytest.raises(IndexError, match="positions"):
            learned.add(np.zeros((1, 1, 64), np.float32), positions=[6399])


def test_memory_from_a_pickles_buffers_is_checked(backend: str) -> None:
    learned = posenc.Learned(random((10, 8), FLOAT32))
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(learned, protocol=5, buffer_callback=buffers.append)
    shifted = [memoryview(b"x" + bytes(buffer.raw()))[1:] for buffer in buffers]
    again = pickle.loads(data, buffers=shifted)
    x = np.zeros((1, 10, 8), np.float32)
    assert_same_bits(again.add(x), learned.add(x))


def test_out_may_not_be_the_table(backend: str) -> None:
    weight = random((6, 8), FLOAT32)
    learned, before = posenc.Learned(weight), weight.copy()
    with pytest.raises(ValueError, match="learned positions"):
        learned.add(np.zeros((1, 6, 8), np.float32), positions=range(6)[::-1], out=weight[None])
    with pytest.raises(ValueError, match="learned positions"):
        learned.embed([0, 1], np.zeros((3, 8), np.float32), out=weight[2:4])
    assert_same_bits(weight, before)
    wide = np.zeros((6, 20), np.float32)
    wide[:, :8] = weight
    beside = posenc.Learned(wide[:, :8]).embed([0, 1], weight, out=wide[:2, 12:])
    assert_same_bits(beside, weight[:2] + weight[:2])


def test_empty_sequences(backend: str) -> None:
    learned = posenc.Learned(random((5, 8), FLOAT64))
    assert learned.add(np.zeros((2, 0, 8))).shape == (2, 0, 8)
    assert learned.add(np.zeros((0, 3, 8))).shape == (0, 3, 8)
    assert learned.embed(np.zeros((2, 0), int), np.zeros((3, 8))).shape == (2, 0, 8)
