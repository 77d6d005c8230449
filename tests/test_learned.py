"""Learned absolute positions."""

import pickle
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import posenc
from posenc import _arrays

Array = npt.NDArray[Any]

DTYPES = [np.dtype(t) for t in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)]
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def random(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


def sums(x: Array, scale: float, rows: Array) -> Array:
    wide = np.dtype(np.float32) if x.itemsize == 2 else x.dtype
    return (x.astype(wide) * wide.type(scale) + rows.astype(wide)).astype(x.dtype)


def assert_same(got: Array, expected: Array) -> None:
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got.view(np.uint8), expected.view(np.uint8))


@every_dtype
def test_rows_of_the_table_are_added(backend: str, dtype: np.dtype[Any]) -> None:
    weight, x = random((120, 33), dtype), random((3, 40, 33), dtype)
    learned = posenc.Learned(weight)
    assert_same(learned.add(x), sums(x, 1.0, weight[:40]))
    assert_same(learned.add(x, start=80, scale=1.3), sums(x, 1.3, weight[80:]))
    positions = np.random.default_rng(5).integers(0, 120, (3, 40))
    expected = sums(x, 2.0, weight[positions])
    assert_same(learned.add(x, positions=positions, scale=2.0), expected)
    assert_same(learned.add(x, positions=positions[1]), sums(x, 1.0, weight[positions[1]]))
    assert_same(learned.add(x, positions=positions, scale=2.0, workers=2), expected)
    out = np.zeros((3, 40, 50), dtype)[..., 7:40]
    assert learned.add(x, positions=positions, scale=2.0, out=out) is out
    assert_same(out.copy(), expected)
    assert learned.add(x, positions=positions, scale=2.0, out=x) is x
    assert_same(x, expected)


@every_dtype
def test_embed_adds_two_tables(backend: str, dtype: np.dtype[Any]) -> None:
    weight, tokens = random((60, 24), dtype), random((500, 24), dtype)
    learned = posenc.Learned(weight)
    ids = np.random.default_rng(6).integers(0, 500, (4, 30))
    positions = posenc.positions.from_ids(ids, padding_idx=7)
    mask = ids % 3 > 0
    expected = sums(tokens[ids], 4.0, weight[positions])
    assert_same(learned.embed(ids, tokens, positions=positions, scale=4.0), expected)
    kept = learned.embed(ids, tokens, positions=positions, scale=4.0, mask=mask)
    assert_same(kept[mask], expected[mask])
    np.testing.assert_array_equal(
        kept[~mask].astype(np.float64), sums(tokens[ids], 4.0, 0 * weight[:1])[~mask].astype(float)
    )
    assert_same(learned.embed(ids[0], tokens, start=30), sums(tokens[ids[0]], 1.0, weight[30:]))


def test_large_outputs_have_the_bits_of_small_ones(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for dtype in DTYPES[:2]:
        weight, tokens = random((200, 66), dtype), random((90, 66), dtype)
        ids = np.random.default_rng(6).integers(0, 90, (3, 200))
        expected = tokens[ids] + weight
        monkeypatch.setattr(_arrays, "_STREAM", 0)
        assert_same(posenc.Learned(weight).embed(ids, tokens), expected)
        assert_same(posenc.Learned(weight).add(tokens[ids]), expected)
        monkeypatch.undo()


def test_the_table_is_kept_as_it_is(backend: str, tmp_path: Path) -> None:
    np.save(tmp_path / "weight.npy", random((50, 8), DTYPES[0]))
    weight = np.load(tmp_path / "weight.npy", mmap_mode="r")
    learned = posenc.Learned(weight)
    assert np.shares_memory(learned.weight, weight)
    assert_same(learned.add(np.zeros((1, 50, 8), np.float32))[0], np.array(weight))


def test_byte_swapped_and_fortran_tables_are_converted_once(backend: str) -> None:
    weight = random((50, 8), DTYPES[0])
    for other in (weight.astype(">f4"), np.asfortranarray(weight)):
        learned = posenc.Learned(other)
        assert_same(learned.add(np.zeros((1, 50, 8), np.float32))[0], weight)


def test_it_is_frozen_and_picklable() -> None:
    learned: Any = posenc.Learned(random((50, 8), DTYPES[0]))
    with pytest.raises(AttributeError):
        learned.weight = None
    again = pickle.loads(pickle.dumps(learned))
    assert again.d_model == 8
    assert_same(again.weight, learned.weight)
    assert repr(learned) == "Learned(d_model=8)"


@pytest.mark.filterwarnings("ignore:Setting the shape")  # deprecated, and still there
def test_a_new_shape_of_the_table_elsewhere_changes_nothing(backend: str) -> None:
    weight = random((100, 64), DTYPES[0])
    learned = posenc.Learned(weight)
    expected = learned.add(np.zeros((1, 100, 64), np.float32))
    for array in (weight, learned.weight):
        array.shape = (6400, 1)
        assert_same(learned.add(np.zeros((1, 100, 64), np.float32)), expected)
        with pytest.raises(IndexError, match="positions"):
            learned.add(np.zeros((1, 1, 64), np.float32), positions=[6399])


def test_memory_from_a_pickles_buffers_is_checked(backend: str) -> None:
    learned = posenc.Learned(random((10, 8), DTYPES[0]))
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(learned, protocol=5, buffer_callback=buffers.append)
    shifted = [memoryview(b"x" + bytes(buffer.raw()))[1:] for buffer in buffers]
    again = pickle.loads(data, buffers=shifted)
    x = np.zeros((1, 10, 8), np.float32)
    assert_same(again.add(x), learned.add(x))


def test_out_may_not_be_the_table(backend: str) -> None:
    weight = random((6, 8), DTYPES[0])
    learned, before = posenc.Learned(weight), weight.copy()
    with pytest.raises(ValueError, match="learned positions"):
        learned.add(np.zeros((1, 6, 8), np.float32), positions=range(6)[::-1], out=weight[None])
    with pytest.raises(ValueError, match="learned positions"):
        learned.embed([0, 1], np.zeros((3, 8), np.float32), out=weight[2:4])
    assert_same(weight, before)
    wide = np.zeros((6, 20), np.float32)
    wide[:, :8] = weight
    beside = posenc.Learned(wide[:, :8]).embed([0, 1], weight, out=wide[:2, 12:])
    assert_same(beside.copy(), weight[:2] + weight[:2])


def test_empty_sequences(backend: str) -> None:
    learned = posenc.Learned(random((5, 8), DTYPES[1]))
    assert learned.add(np.zeros((2, 0, 8))).shape == (2, 0, 8)
    assert learned.add(np.zeros((0, 3, 8))).shape == (0, 3, 8)
    assert learned.embed(np.zeros((2, 0), int), np.zeros((3, 8))).shape == (2, 0, 8)
