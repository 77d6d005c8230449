"""`embed`, and masks: token ids in, encoded embeddings out, padding left alone."""

import tracemalloc
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from arrays import (
    FLOAT32,
    ROWS,
    VECTORS,
    Dtype,
    assert_same_bits,
    every_dtype,
    random,
    sums,
)
from hypothesis import given
from internals import streaming

import posenc


@every_dtype
@given(
    data=st.data(),
    lead=st.sampled_from([(), (1,), (3,), (2, 2)]),
    length=st.integers(0, 90),
    width=st.integers(1, 40).map(lambda n: 2 * n),
    start=st.integers(-200, 200),
    scale=st.sampled_from([1.0, 22.6]),
)
def test_embed_is_add_on_the_rows_of_the_table(
    backend: str,
    dtype: Dtype,
    data: Any,
    lead: tuple[int, ...],
    length: int,
    width: int,
    start: int,
    scale: float,
) -> None:
    weight = random((50, width), dtype)
    ids = np.random.default_rng(length).integers(0, 50, (*lead, length))
    got = posenc.embed(ids, weight, start=start, scale=scale)
    assert_same_bits(got, posenc.add(weight[ids], start=start, scale=scale))
    out = np.zeros((*lead, length, width + 3), dtype)[..., 1 : width + 1]
    assert posenc.Sinusoidal(width).embed(ids, weight, start=start, scale=scale, out=out) is out
    assert_same_bits(out, got)


@every_dtype
def test_embed_takes_positions_masks_and_workers(backend: str, dtype: Dtype) -> None:
    weight = random((100, 66), dtype)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 100, (4, 300))
    packed = np.array(
        [posenc.positions.from_lengths(n) for n in ([300], [1, 299], [150, 150], [99] * 3 + [3])]
    )
    mask = rng.random((4, 300)) < 0.7
    for positions in (packed, packed[2], rng.integers(-5000, 5000, (4, 300)), packed + 0.5):
        for kept in (None, mask, mask[1]):
            got = posenc.embed(ids, weight, positions=positions, mask=kept, scale=3.0)
            assert_same_bits(
                got, posenc.add(weight[ids], positions=positions, mask=kept, scale=3.0)
            )
    big = rng.integers(0, 100, (16, 2000))
    one = posenc.embed(big, weight, mask=big > 7)
    assert_same_bits(posenc.embed(big, weight, mask=big > 7, workers=3), one)


@every_dtype
def test_weights_may_have_any_form(backend: str, dtype: Dtype) -> None:
    weight = random((30, 12), dtype)
    ids = np.array([[3, 29, 0, 3]])
    expected = posenc.embed(ids, weight)
    for form in ROWS:
        assert_same_bits(posenc.embed(ids, form(weight)), expected)
    if dtype == np.float64:
        assert_same_bits(posenc.embed(ids, weight.tolist()), expected)


def test_ids_of_every_integer_dtype_and_layout(backend: str) -> None:
    weight = random((40, 8), FLOAT32)
    ids = np.arange(24).reshape(4, 6)
    expected = posenc.embed(ids, weight)
    for code in "bBhHiIlLqQ":
        assert_same_bits(posenc.embed(ids.astype(code), weight), expected)
    for form in VECTORS:
        assert_same_bits(posenc.embed(form(ids), weight), expected)
    assert_same_bits(posenc.embed(ids.tolist(), weight), expected)
    assert_same_bits(posenc.embed(ids[:, ::-2], weight), posenc.embed(ids[:, ::-2].copy(), weight))
    assert posenc.embed([], weight).shape == (0, 8)
    assert posenc.embed(np.zeros((0, 3), int), weight[:0]).shape == (0, 3, 8)


def test_out_may_lie_beside_the_table(backend: str) -> None:
    wide = np.ones((8, 12), np.float32)
    expected = posenc.embed([1, 2], wide[:, :4].copy())
    assert_same_bits(posenc.embed([1, 2], wide[:, :4], out=wide[:2, 4:8]).copy(), expected)


def test_a_table_that_is_converted_is_not_copied_whole(backend: str) -> None:
    weight = np.zeros((64, 200_000), np.float32).T
    tracemalloc.start()
    posenc.embed([[1, 2, 3]], weight)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 22


def test_an_id_out_of_range_leaves_out_alone(backend: str) -> None:
    weight, out = random((40, 8), FLOAT32), np.full((1, 3, 8), 7, np.float32)
    for wrong in ([[0, 40, 1]], [[0, 1, -1]]):
        with pytest.raises(IndexError, match="ids"):
            posenc.embed(wrong, weight, out=out)
    assert (out == 7).all()


@every_dtype
@pytest.mark.parametrize("apart", [0, 1, 3])
def test_large_outputs_have_the_bits_of_small_ones(backend: str, apart: int, dtype: Dtype) -> None:
    weight = random((40, 66), dtype)
    ids = np.random.default_rng(1).integers(0, 40, (3, 400))
    mask = ids % 5 > 0
    expected = posenc.embed(ids, weight, start=-90), posenc.embed(ids, weight, mask=mask)
    out = np.zeros((3, 400, 66 + 14 + apart), dtype)[..., apart : apart + 66]
    with streaming():
        assert_same_bits(posenc.embed(ids, weight, start=-90, out=out), expected[0])
        assert_same_bits(posenc.embed(ids, weight, mask=mask, out=out), expected[1])


@every_dtype
def test_where_the_mask_is_false_there_is_x_times_scale(backend: str, dtype: Dtype) -> None:
    x = np.random.default_rng(3).standard_normal((2, 3, 40, 18)).astype(dtype)
    x[0, 0, :, 0] = -0.0
    mask = np.random.default_rng(4).random((2, 3, 40)) < 0.5
    plain = sums(x, 1.7, np.float32(-0.0))  # which changes no sign of a 0
    encoded = posenc.add(x, scale=1.7, start=30)
    for kept in (mask, mask[1], mask[0, 2]):
        everywhere = np.broadcast_to(kept, mask.shape)[..., np.newaxis]
        expected = np.where(everywhere, encoded.astype(np.float64), plain.astype(np.float64))
        for form in (kept, kept.astype(np.int64), kept.astype(np.uint8).tolist()):
            got = posenc.add(x, scale=1.7, start=30, mask=form)
            np.testing.assert_array_equal(got.astype(np.float64), expected)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))
        y = x.copy()
        assert posenc.add(y, scale=1.7, start=30, mask=kept, out=y) is y
        assert_same_bits(y, posenc.add(x, scale=1.7, start=30, mask=kept))


def test_a_mask_moves_no_position(backend: str) -> None:
    # facebookresearch/fairseq and huggingface M2M100 zero the rows of padding: positions that
    # count past it are for posenc.positions.from_ids.
    x = np.zeros((1, 4, 6))
    mask = np.array([[0, 0, 1, 1]])
    got = posenc.add(x, mask=mask, positions=posenc.positions.from_mask(mask))
    np.testing.assert_array_equal(got[0, 2:], posenc.positional_encoding(2, 6))
    assert not got[0, :2].any()
    np.testing.assert_array_equal(posenc.add(x, mask=mask)[0, 2:], posenc.encode([2, 3], 6))


def test_a_mask_of_nothing_and_of_everything(backend: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 70, 10))
    assert_same_bits(posenc.add(x, mask=np.zeros(70, bool)), x)
    assert_same_bits(posenc.add(x, mask=np.ones((2, 70), bool)), posenc.add(x))
    assert posenc.add(np.zeros((2, 0, 10)), mask=np.zeros((2, 0), bool)).shape == (2, 0, 10)
