"""Encodings of distances."""

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import reference
from arrays import ALL, DTYPES, Dtype, assert_fresh, assert_same_bits, every_dtype
from hypothesis import given

import posenc


@given(
    length=st.integers(0, 80) | st.integers(1000, 1100),
    pairs=st.integers(1, 20),
    dtype=st.sampled_from(DTYPES),
    layout=st.sampled_from(["interleaved", "split"]),
    workers=st.sampled_from([1, 2]),
)
def test_rows_are_those_of_descending_positions(
    backend: str, length: int, pairs: int, dtype: Dtype, layout: str, workers: int
) -> None:
    got = posenc.relative_encoding(length, 2 * pairs, dtype=dtype, layout=layout, workers=workers)
    where = np.arange(length - 1, -length, -1)
    assert_same_bits(got, posenc.encode(where, 2 * pairs, dtype=dtype, layout=layout))
    assert_fresh(got, dtype, (*where.shape, 2 * pairs))


def test_rows_are_exact(backend: str) -> None:
    expected = reference.table([2, 1, 0, -1, -2], 6, 500.0)
    np.testing.assert_allclose(
        posenc.relative_encoding(3, 6, base=500.0), expected, rtol=0, atol=reference.BOUND
    )


def test_rows_are_those_of_fairseq(backend: str) -> None:
    # facebookresearch/fairseq, modules/positional_encoding.py: RelPositionalEncoding
    length, d_model = 7, 10
    position = np.arange(length)[:, np.newaxis]
    frequencies = np.exp(np.arange(0, d_model, 2) * -(np.log(10000.0) / d_model))
    ahead, behind = np.empty((2, length, d_model))
    ahead[:, 0::2], ahead[:, 1::2] = np.sin(position * frequencies), np.cos(position * frequencies)
    behind[:, 0::2], behind[:, 1::2] = np.sin(-position * frequencies), ahead[:, 1::2]
    expected = np.concatenate([ahead[::-1], behind[1:]])
    got = posenc.relative_encoding(length, d_model)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-14)


def test_rows_in_other_conventions(backend: str) -> None:
    conventions: list[dict[str, Any]] = [
        {"odd": "trim"},
        {"odd": "zero", "layout": "split", "shift": 1.0, "cos_first": True, "amplitude": -2.0},
    ]
    for convention in conventions:
        got = posenc.relative_encoding(70, 7, **convention)
        assert_same_bits(got, posenc.encode(np.arange(69, -70, -1), 7, **convention))


@every_dtype
def test_out_is_filled_where_it_lies(backend: str, dtype: Dtype) -> None:
    wide = np.zeros((18, 12), dtype)
    out = wide[::2, 2:10]
    assert posenc.relative_encoding(5, 8, out=out) is out
    assert_same_bits(out, posenc.relative_encoding(5, 8, dtype=dtype))
    rest = wide.astype(np.float32)
    rest[::2, 2:10] = 0
    assert not rest.any()
    for other in DTYPES:
        if other != dtype:
            with pytest.raises(TypeError, match="dtype"):
                posenc.relative_encoding(5, 8, out=out, dtype=other)


def test_bad_input_is_named(backend: str) -> None:
    with pytest.raises(ValueError, match=r"length .* -1"):
        posenc.relative_encoding(-1, 8)
    with pytest.raises(TypeError, match=r"length .* 3\.0"):
        ALL.relative_encoding(3.0, 8)
    with pytest.raises(TypeError, match=r"^length "):
        ALL.relative_encoding(True, 8)
    with pytest.raises(ValueError, match=rf"^length must be at most {2**53 + 1}, .* got {2**80}$"):
        posenc.relative_encoding(2**80, 8)
    with pytest.raises(ValueError, match=r"^length .* 2\*\*63 bytes"):
        posenc.relative_encoding(2**53, 2**10)
    with pytest.raises(ValueError, match=r"^length .* bits$"):
        posenc.relative_encoding(10**5000, 8)
    with pytest.raises(ValueError, match=r"^length must be at most 1, .* got 3$"):
        posenc.relative_encoding(3, 8, base=1e-300)
    with pytest.raises(ValueError, match=r"d_model .* even.* 7"):
        posenc.relative_encoding(3, 7)
    with pytest.raises(ValueError, match=r"out .* \(5, 8\), got \(6, 8\)"):
        posenc.relative_encoding(3, 8, out=np.empty((6, 8)))
    with pytest.raises(ValueError, match="workers"):
        posenc.relative_encoding(3, 8, workers=0)
    with pytest.raises(TypeError, match="layouts"):
        posenc.relative_encoding(3, 8, layouts="split")
    kept = np.full((5, 8), 7.0)
    for wrong in ({"workers": 0}, {"base": -1.0}, {"dtype": "f4"}):
        with pytest.raises((TypeError, ValueError)):
            ALL.relative_encoding(3, 8, out=kept, **wrong)
    assert (kept == 7.0).all()
