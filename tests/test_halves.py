"""float16 and bfloat16: rounded once from float64, added in float32 and rounded once."""

import hashlib
import math
import subprocess
import sys
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import reference
from arrays import (
    BFLOAT16,
    FORMATS,
    SIXTEEN_BITS,
    Array,
    Dtype,
    assert_fresh,
    assert_same_bits,
    bits,
    byte_swapped,
    every_16_bit_dtype,
    sums,
)
from hypothesis import given
from internals import streaming

import posenc


def rounded(table: Array, dtype: Dtype) -> Array:
    values = [reference.rounded(float(value), *FORMATS[dtype]) for value in table.ravel()]
    exact: Array = np.array(values).astype(np.float32).astype(dtype)
    return exact.reshape(table.shape)


@every_16_bit_dtype
@pytest.mark.parametrize("base", [10000.0, 2.0, 1e12, 1e60])
def test_tables_are_the_float64_ones_rounded_once(backend: str, dtype: Dtype, base: float) -> None:
    for layout in ("interleaved", "split"):
        wide = posenc.positional_encoding(150, 66, start=-60, base=base, layout=layout)
        got = posenc.positional_encoding(150, 66, start=-60, base=base, layout=layout, dtype=dtype)
        assert_same_bits(got, rounded(wide, dtype))


@every_16_bit_dtype
def test_no_entry_is_rounded_to_float32_on_its_way(backend: str, dtype: Dtype) -> None:
    wide = posenc.positional_encoding(8192, 1024)
    got = posenc.positional_encoding(8192, 1024, dtype=dtype)
    twice = wide.astype(np.float32).astype(dtype)
    doubtful = bits(got) != bits(twice)
    assert doubtful.any()
    assert_same_bits(got[doubtful], rounded(wide[doubtful], dtype))


@every_16_bit_dtype
def test_fractional_positions_and_every_route_agree(backend: str, dtype: Dtype) -> None:
    positions = np.array([[0, 7, -7, 1.5], [2**40 + 1, 63, 64, 1e9 + 0.25]])
    got = posenc.encode(positions, 34, dtype=dtype)
    assert_same_bits(got, rounded(posenc.encode(positions, 34), dtype))
    out = np.zeros((2, 4, 34), dtype)
    assert posenc.encode(positions, 34, out=out) is out
    assert_same_bits(out, got)
    for start in (-7, 63):
        assert_same_bits(
            posenc.fill(out[:, :1], start=start)[1], posenc.encode([start], 34, dtype=dtype)
        )


@every_16_bit_dtype
@pytest.mark.parametrize("scale", [1.0, 22.6, -0.3, 0.0, math.inf, math.nan])
def test_every_number_is_added_in_float32_and_rounded_once(
    backend: str, dtype: Dtype, scale: float
) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype).reshape(2, 128, 256)
    expected = sums(x, scale, posenc.positional_encoding(128, 256, start=50, dtype=np.float32))
    assert_same_bits(posenc.add(x, scale=scale, start=50), expected, any_nan=True)
    one = posenc.Sinusoidal(256)
    for item in range(2):
        assert_same_bits(one.add(x[item], scale=scale, start=50), expected[item], any_nan=True)
    y = x.copy()
    assert posenc.add(y, scale=scale, start=50, out=y) is y
    assert_same_bits(y, expected, any_nan=True)


@every_16_bit_dtype
@given(
    data=st.data(),
    batch=st.integers(1, 3),
    length=st.integers(0, 70),
    width=st.integers(1, 40).map(lambda n: 2 * n),
    shift=st.integers(0, 3),
)
def test_strided_views_packed_and_masked(
    backend: str, dtype: Dtype, data: Any, batch: int, length: int, width: int, shift: int
) -> None:
    whole = np.zeros((batch, length, width + 5), dtype)
    x = whole[..., shift : shift + width]
    x[...] = np.random.default_rng(width).standard_normal(x.shape)
    positions = data.draw(st.lists(st.integers(-99, 199), min_size=length, max_size=length))
    mask = data.draw(st.lists(st.booleans(), min_size=length, max_size=length))
    where, kept = np.array(positions, np.int64), np.array(mask, bool)
    table = posenc.encode(where, width, dtype=np.float32)
    expected = sums(x, 2.0, table)
    out = np.zeros((batch, length, width + 9), dtype)[..., 2 : width + 2]
    assert_same_bits(posenc.add(x, positions=where, scale=2.0, out=out), expected)
    plain = sums(x, 2.0, np.float32(0))
    plain[plain == 0] = x[plain == 0]  # the sign of 0 is that of x
    expected[:, ~kept] = plain[:, ~kept]
    assert_same_bits(posenc.add(x, positions=where, mask=kept, scale=2.0), expected)
    assert_same_bits(posenc.add(x, positions=where, mask=kept, scale=2.0, out=x), expected)


@every_16_bit_dtype
def test_outputs_larger_than_the_caches_have_the_same_bits(backend: str, dtype: Dtype) -> None:
    table = posenc.positional_encoding(200, 66, dtype=dtype)
    x = np.linspace(-3, 3, 2 * table.size).reshape(2, 200, 66).astype(dtype)
    expected = posenc.add(x)
    with streaming():
        assert_same_bits(posenc.positional_encoding(200, 66, dtype=dtype), table)
        assert_same_bits(posenc.add(x), expected)
        assert_same_bits(posenc.add(x, workers=2), expected)


@every_16_bit_dtype
def test_the_bits_are_those_of_every_release(backend: str, dtype: Dtype) -> None:
    table = posenc.positional_encoding(300, 66, start=-70, dtype=dtype)
    x = np.arange(table.size).astype(np.float32).astype(dtype).reshape(table.shape)
    digest = hashlib.sha256(bits(table).astype("<u2").tobytes())
    digest.update(bits(posenc.add(x, start=-70, scale=0.5)).astype("<u2").tobytes())
    assert digest.hexdigest() == GOLDEN[str(dtype)]


GOLDEN = {
    "float16": "329d2865030a030c8fe7381bc53d63b28add50690d23bd70ccfef98df185aa9e",
    "bfloat16": "f1b07d46ed655dcf36035a681ab54f51948f8d5aee82d4b9fc849383ee52cc97",
}


def test_results_are_aligned_writeable_and_fresh(backend: str) -> None:
    for dtype in SIXTEEN_BITS:
        assert_fresh(posenc.positional_encoding(3, 6, dtype=dtype), dtype, (3, 6))


def test_bfloat16_goes_by_its_name_too(backend: str) -> None:
    assert posenc.positional_encoding(3, 6, dtype="bfloat16").dtype == BFLOAT16


def test_without_ml_dtypes_bfloat16_is_refused_with_a_hint() -> None:
    code = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np, posenc
assert posenc.positional_encoding(3, 4, dtype="float16").dtype == np.float16
try:
    posenc.positional_encoding(3, 4, dtype="bfloat16")
except TypeError as error:
    assert "pip install ml_dtypes" in str(error)
else:
    raise SystemExit("not refused")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@every_16_bit_dtype
def test_byte_swapped_halves_are_read_and_not_written(backend: str, dtype: Dtype) -> None:
    x = np.linspace(-2, 2, 24).astype(dtype).reshape(1, 4, 6)
    swapped = byte_swapped(x)
    assert_same_bits(posenc.add(swapped), posenc.add(x))
    with pytest.raises(TypeError, match="out"):
        posenc.fill(swapped)
    with pytest.raises(TypeError, match="out"):
        posenc.add(x, out=swapped)
    with pytest.raises(TypeError, match="dtype"):
        posenc.positional_encoding(2, 4, dtype=dtype.newbyteorder())


@every_16_bit_dtype
def test_what_is_rounded_to_zero_keeps_its_sign(backend: str, dtype: Dtype) -> None:
    positions = np.array([-1e-9, 1e-9, -1e-39, -1.0])
    for base in (1e4, 1e60):
        wide = posenc.encode(positions, 12, base=base)
        got = posenc.encode(positions, 12, base=base, dtype=dtype)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(wide))


@every_16_bit_dtype
def test_scales_of_the_arrays_own_type(backend: str, dtype: Dtype) -> None:
    x = np.linspace(-2, 2, 24).astype(dtype).reshape(1, 4, 6)
    assert_same_bits(posenc.add(x, scale=dtype.type(3)), posenc.add(x, scale=3.0))
