"""What the other tests lean on notices a bit, and changes none."""

import numpy as np
import pytest
from arrays import (
    FLOAT32,
    ROWS,
    VECTORS,
    Dtype,
    Form,
    assert_same_bits,
    bits,
    every_dtype,
    random,
    spaced,
    sums,
)


@every_dtype
def test_a_single_bit_is_noticed_and_where_it_is(dtype: Dtype) -> None:
    one = random((3, 4), dtype)
    other = one.copy()
    assert_same_bits(one, other)
    bits(other)[...] = 0  # of a copy
    other.view(f"u{dtype.itemsize}")[1, 2:3] ^= 1
    with pytest.raises(AssertionError, match=r"1 of 12 elements differ, first at \(1, 2\)"):
        assert_same_bits(one, other)
    zero = np.zeros((), dtype)
    with pytest.raises(AssertionError, match=r"1 of 1 elements differ, first at \(\)"):
        assert_same_bits(zero, -zero)


def test_another_dtype_or_shape_is_not_the_same() -> None:
    one = np.zeros((2, 3), FLOAT32)
    for other in (one.astype(np.float64), one.astype(">f4"), one[:1], one[0], one.T):
        with pytest.raises(AssertionError, match="instead of"):
            assert_same_bits(one, other)


@every_dtype
def test_a_nan_is_any_other_where_that_is_asked_for(dtype: Dtype) -> None:
    nan = np.full(2, np.nan, dtype)
    other = nan.copy()
    other.view(f"u{dtype.itemsize}")[:1] ^= 1
    assert_same_bits(nan, other, any_nan=True)
    with pytest.raises(AssertionError, match="1 of 2"):
        assert_same_bits(nan, other)
    for number in (0.0, 1.0, np.inf):
        other[1] = number
        with pytest.raises(AssertionError, match=r"1 of 2 .* \(1,\)"):
            assert_same_bits(nan, other, any_nan=True)


@every_dtype
@pytest.mark.parametrize("form", ROWS, ids=lambda form: form.__name__)
def test_every_form_has_the_same_values(form: Form, dtype: Dtype) -> None:
    for shape in ((5, 6), (2, 5, 6), (2, 3, 5, 6), (2, 0, 6)):
        x = random(shape, dtype)
        assert_same_bits(form(x).astype(dtype), x)


@pytest.mark.parametrize("form", VECTORS, ids=lambda form: form.__name__)
def test_forms_of_vectors_have_those_of_other_numbers(form: Form) -> None:
    for x in (np.arange(7), np.arange(4, dtype=np.uint8).reshape(2, 2), np.array([True, False])):
        assert_same_bits(form(x).astype(x.dtype), x)


def test_no_two_axes_of_a_spaced_array_merge() -> None:
    strides = spaced(np.zeros((2, 3, 5, 6))).strides
    assert strides[0] != 3 * strides[1]
    assert strides[1] != 5 * strides[2]
    assert strides[2] != 6 * strides[3]


def test_sums_of_16_bits_are_rounded_once() -> None:
    x, rows = np.full(1, 1, np.float16), np.full(1, 2**-11 + 2**-23, np.float32)
    assert sums(x, 1.0, rows)[0] == 1 + 2**-10  # of rows in float16, a tie
    assert sums(x, 1.0, rows.astype(np.float16))[0] == 1
