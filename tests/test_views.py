"""Views of any strides, and odd widths, against what contiguous arrays and even widths give."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from arrays import (
    DTYPES,
    ROWS,
    Array,
    Dtype,
    Form,
    accumulation_dtype,
    assert_same_bits,
    random,
    spaced,
    spoiled,
    sums,
)
from hypothesis import given, settings

import posenc

ODD: Any = {"odd": "ceil"}  # of which an even width takes no notice


class Arguments(NamedTuple):
    """Arrays of one batch: of floats (..., length, width), of all others (..., length)."""

    x: Array
    positions: Array
    ids: Array
    mask: Array
    weight: Array

    @property
    def width(self) -> int:
        return int(self.x.shape[-1])

    @property
    def encoding(self) -> posenc.Sinusoidal:
        return posenc.Sinusoidal(self.width, **ODD)

    @property
    def learned(self) -> posenc.Learned:
        return posenc.Learned(self.weight)

    @property
    def rotary(self) -> posenc.Rotary:
        return posenc.Rotary(self.width // 2 * 2)


FAMILIES: dict[str, Callable[[Arguments, Array], object]] = {
    "fill": lambda a, out: a.encoding.fill(out, start=-5),
    "add": lambda a, out: a.encoding.add(a.x, start=-5, scale=1.5, out=out),
    "add positions": lambda a, out: a.encoding.add(a.x, positions=a.positions, out=out),
    "add where": lambda a, out: a.encoding.add(a.x, mask=a.mask, out=out),
    "encode": lambda a, out: a.encoding.encode(a.positions, out=out),
    "embed": lambda a, out: a.encoding.embed(a.ids, a.weight, scale=1.5, out=out),
    "embed positions": lambda a, out: a.encoding.embed(
        a.ids, a.weight, positions=a.positions, mask=a.mask, out=out
    ),
    "learned add": lambda a, out: a.learned.add(a.x, positions=a.positions, mask=a.mask, out=out),
    "learned embed": lambda a, out: a.learned.embed(
        a.ids, a.weight, positions=a.positions, out=out
    ),
    "rotate": lambda a, out: a.rotary.rotate(a.x, start=-5, out=out),
    "rotate positions": lambda a, out: a.rotary.rotate(a.x, positions=a.positions, out=out),
}


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=20)
@given(
    lead=st.lists(st.integers(0, 3), max_size=3),
    length=st.integers(0, 70),
    width=st.integers(2, 23),
    dtype=st.sampled_from(DTYPES),
    forms=st.tuples(*[st.sampled_from(ROWS)] * 2),
    seed=st.integers(0, 2**32 - 1),
)
def test_views_have_the_bits_of_contiguous_arrays(
    backend: str,
    family: str,
    lead: list[int],
    length: int,
    width: int,
    dtype: Dtype,
    forms: tuple[Form, Form],
    seed: int,
) -> None:
    rows = (*lead, length)
    rng = np.random.default_rng(seed)
    given = Arguments(
        x=random((*rows, width), dtype),
        positions=rng.integers(0, 40, rows),
        ids=rng.integers(0, 40, rows),
        mask=rng.random(rows) < 0.7,
        weight=random((40, width), dtype),
    )
    expected = np.empty((*rows, width), dtype)
    assert FAMILIES[family](given, expected) is expected

    views = Arguments(
        forms[0](given.x),
        spaced(given.positions),
        spaced(given.ids),
        spaced(given.mask),
        forms[1](given.weight),
    )
    out = spaced(np.zeros_like(given.x))
    assert FAMILIES[family](views, out) is out
    assert_same_bits(out, expected)
    out[...] = spoiled((), dtype)
    room: Any = out.base
    assert_same_bits(room, spoiled(room.shape, dtype))  # nothing beside it is written


@pytest.mark.parametrize("odd", ["ceil", "zero"])
@settings(max_examples=30)
@given(
    pairs=st.integers(1, 20),
    batch=st.integers(1, 3),
    length=st.integers(0, 90),
    start=st.integers(-300, 300),
    dtype=st.sampled_from(DTYPES),
    layout=st.sampled_from(["interleaved", "split"]),
    cos_first=st.booleans(),
)
def test_odd_widths_have_the_bits_of_the_even_ones_beside_them(
    backend: str,
    odd: Literal["ceil", "zero"],
    pairs: int,
    batch: int,
    length: int,
    start: int,
    dtype: Dtype,
    layout: Any,
    cos_first: bool,
) -> None:
    """The last column of the next even width is left out, or one of zeros follows the even width."""
    width = 2 * pairs + 1
    order = {"layout": layout, "cos_first": cos_first}
    encoding = posenc.Sinusoidal(width, odd=odd, **order)
    even = posenc.Sinusoidal(width + 1 if odd == "ceil" else width - 1, **order)

    def rows(dtype: Dtype) -> Array:
        whole = even.table(length, start=start, dtype=dtype)
        return np.pad(whole, [(0, 0), (0, 1)])[:, :width]

    table = rows(dtype)
    assert_same_bits(encoding.table(length, start=start, dtype=dtype), table)
    positions = start + np.arange(length)[::-1]
    assert_same_bits(encoding.encode(positions, dtype=dtype), table[::-1])
    out = np.empty((batch, length, width), dtype)
    assert_same_bits(encoding.fill(out, start=start)[-1], table)

    weight = random((30, width), dtype)
    ids = np.random.default_rng(length).integers(0, 30, (batch, length))
    x, wide = weight[ids], rows(accumulation_dtype(dtype))
    expected = sums(x, 1.5, wide)
    assert_same_bits(encoding.add(x, start=start, scale=1.5), expected)
    assert_same_bits(encoding.embed(ids, weight, start=start, scale=1.5), expected)
    packed = encoding.add(x, positions=positions, scale=1.5)
    assert_same_bits(packed, sums(x, 1.5, wide[::-1]))
    mask = ids % 3 > 0
    expected[~mask] = sums(x, 1.5, np.float32(-0.0))[~mask]
    assert_same_bits(encoding.add(x, start=start, scale=1.5, mask=mask, out=x), expected)
