"""`Rotary`: tables, and rotations to the bits of NumPy's expression."""

import dataclasses
import decimal
import pickle
from typing import Any

import cloudpickle
import hypothesis.strategies as st
import mpmath
import numpy as np
import pytest
import reference
from arrays import (
    FLOAT32,
    FLOAT64,
    FORMATS,
    ROWS,
    Array,
    Dtype,
    accumulation_dtype,
    assert_same_bits,
    every_dtype,
    random,
    read_only,
)
from hypothesis import given
from internals import max_position, streaming

import posenc

every_layout = pytest.mark.parametrize("layout", ["half", "interleaved"])


def pairs(array: Array, dim: int, layout: str) -> tuple[Array, Array]:
    """The first and the second columns of all pairs."""
    if layout == "half":
        return array[..., : dim // 2], array[..., dim // 2 : dim]
    return array[..., 0:dim:2], array[..., 1:dim:2]


def rotated(x: Array, cos: Array, sin: Array, layout: str) -> Array:
    """NumPy's expression; tables in the dtype that is worked in."""
    dim = cos.shape[-1]
    wide = x.astype(cos.dtype)
    result = wide.copy()
    (a, b), (c, _), (s, _) = (pairs(table, dim, layout) for table in (wide, cos, sin))
    first, second = pairs(result, dim, layout)
    first[...] = a * c - b * s
    second[...] = b * c + a * s
    return result.astype(x.dtype)


# Tables


@every_layout
@given(
    dim=st.integers(1, 20).map(lambda n: 2 * n),
    length=st.integers(0, 150),
    start=st.integers(-(2**40), 2**40) | st.integers(-200, 200),
)
def test_tables_are_the_rows_of_the_encoding(
    backend: str, layout: str, dim: int, length: int, start: int
) -> None:
    cos, sin = posenc.Rotary(dim, layout=layout).tables(length, start=start)  # type: ignore[arg-type]
    rows = posenc.Sinusoidal(dim, layout="split").table(length, start=start)
    for table, values in ((sin, rows[:, : dim // 2]), (cos, rows[:, dim // 2 :])):
        assert table.flags.c_contiguous
        for columns in pairs(table, dim, layout):
            assert_same_bits(columns, values)


@every_dtype
def test_attention_multiplies_before_the_rounding(backend: str, dtype: Dtype) -> None:
    plain = posenc.Rotary(10).tables(500, start=-100)
    attention = 1.2772588722239782
    rotary = posenc.Rotary(10, attention_factor=attention)
    wide = rotary.tables(500, start=-100)
    for got, table, exact in zip(
        rotary.tables(500, start=-100, dtype=dtype), wide, plain, strict=True
    ):
        np.testing.assert_allclose(table, exact * attention, rtol=0, atol=2.0**-50)
        assert got.dtype == dtype
        expected = [reference.rounded(value, *FORMATS[dtype]) for value in table.flat]
        np.testing.assert_array_equal(got.astype(np.float64).ravel(), expected)


@pytest.mark.parametrize("position", [-1, 355, 4096, 2**24 + 1, 2**31, -(2**53), 0.75, -1e6 - 0.5])
def test_tables_are_exact_at_any_position(backend: str, position: float) -> None:
    cos, sin = posenc.Rotary(16, base=5e5).tables(positions=[position])
    for pair in range(8):
        exact = reference.sine_cosine(position, 16, 5e5, pair)
        for got, value in zip((sin[0, pair], cos[0, 8 + pair]), exact, strict=True):
            assert reference.error(got, value) <= reference.BOUND


def test_given_frequencies_are_taken_as_exact(backend: str) -> None:
    given = [1.0, 0.1, -3.7, 0.0]
    rotary = posenc.Rotary(8, frequencies=given)
    np.testing.assert_array_equal(rotary.frequencies, given)
    positions = [0, 1, -7, 123456789, 2**50 + 1, 0.3]
    cos, sin = rotary.tables(positions=positions)
    for row, position in enumerate(positions):
        for pair, frequency in enumerate(given):
            cosine, sine = mpmath.cos_sin(mpmath.mpf(position) * mpmath.mpf(frequency))
            assert reference.error(cos[row, pair], cosine) <= reference.BOUND
            assert reference.error(sin[row, 4 + pair], sine) <= reference.BOUND


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 3, 4), (2, 0)])
def test_tables_of_positions_of_any_shape(backend: str, shape: tuple[int, ...]) -> None:
    positions = np.random.default_rng(0).integers(-3000, 3000, shape)
    rotary = posenc.Rotary(6)
    cos, sin = rotary.tables(positions=positions)
    encoded = posenc.encode(positions, 6, layout="split")
    assert_same_bits(sin[..., :3], encoded[..., :3])
    assert_same_bits(cos[..., 3:], encoded[..., 3:])
    out = np.zeros((*shape, 6), np.float32), np.zeros((*shape, 8), np.float32)[..., 1:7]
    got = rotary.tables(positions=positions, out=out)
    assert got[0] is out[0]
    assert got[1] is out[1]
    assert_same_bits(np.array(got), np.array([cos, sin]).astype(np.float32))
    # as one cache of cosines, then sines
    both = np.zeros((*shape, 12), np.float64)
    rotary.tables(positions=positions, out=(both[..., :6], both[..., 6:]))
    assert_same_bits(both, np.concatenate([cos, sin], axis=-1))
    if shape:
        assert_same_bits(rotary.tables(shape[-1], positions=positions)[0], cos)


# A table of 4096 rows, and the next two: vllm-project/vllm#55910, sgl-project/sglang#10788.
def test_no_position_is_beyond_a_table(backend: str) -> None:
    cos, sin = posenc.Rotary(4).tables(2, start=4096)
    row = [sin[0, 0], cos[0, 0], sin[0, 1], cos[0, 1]]
    np.testing.assert_allclose(row, [-0.594641988, 0.803990613, -0.119012747, -0.992892726], 1e-8)


# Rotations


@every_dtype
@every_layout
@given(
    lead=st.sampled_from([(), (1,), (3,), (2, 3)]),
    length=st.integers(0, 150),
    dim=st.integers(1, 40).map(lambda n: 2 * n),
    rest=st.integers(0, 5),
    start=st.integers(-200, 2**40),
    attention_factor=st.sampled_from([1.0, 1.3689]),
)
def test_rotations_have_the_bits_of_the_expression(
    backend: str,
    dtype: Dtype,
    layout: Any,
    lead: tuple[int, ...],
    length: int,
    dim: int,
    rest: int,
    start: int,
    attention_factor: float,
) -> None:
    rotary = posenc.Rotary(dim, layout=layout, attention_factor=attention_factor)
    x = random((*lead, length, dim + rest), dtype)
    cos, sin = rotary.tables(length, start=start, dtype=accumulation_dtype(dtype))
    expected = rotated(x, cos, sin, layout)
    assert_same_bits(rotary.rotate(x, start=start), expected)
    assert_same_bits(rotary.rotate(x, start=start, inverse=True), rotated(x, cos, -sin, layout))
    out = np.zeros((*lead, length, dim + rest + 3), dtype)[..., 1 : dim + rest + 1]
    assert rotary.rotate(x, start=start, out=out) is out
    assert_same_bits(out, expected)
    assert rotary.rotate(x, start=start, out=x) is x
    assert_same_bits(x, expected)


@every_dtype
@every_layout
def test_positions_of_every_allowed_shape(backend: str, dtype: Dtype, layout: Any) -> None:
    rng = np.random.default_rng(0)
    x = random((3, 4, 200, 18), dtype)
    rotary = posenc.Rotary(16, layout=layout)
    counted = np.broadcast_to(np.arange(200) + 7, (3, 1, 200))
    assert_same_bits(rotary.rotate(x, positions=counted), rotary.rotate(x, start=7))
    shapes = [(200,), (3, 1, 200), (1, 4, 200), (3, 4, 200), (1, 1, 200)]
    for positions in [rng.integers(-5000, 5000, shape) for shape in shapes] + [
        rng.random((3, 1, 200)) * 1e5
    ]:
        cos, sin = rotary.tables(positions=positions, dtype=accumulation_dtype(dtype))
        expected = rotated(x, cos, sin, layout)
        assert_same_bits(rotary.rotate(x, positions=positions), expected)
        y = x.copy()
        assert_same_bits(rotary.rotate(y, positions=positions, out=y, workers=2), expected)


@every_layout
def test_heads_share_the_positions_of_their_sequence(backend: str, layout: Any) -> None:
    rng = np.random.default_rng(0)
    rotary = posenc.Rotary(16, layout=layout)
    x = random((30, 2, 3, 5, 16), FLOAT32)
    swapped = np.ascontiguousarray(x.swapaxes(2, 3)).swapaxes(2, 3)
    big = np.tile(x, (1, 1, 30, 40, 1))  # more than a piece
    for shape in [(30, 1, 1, 5), (30, 2, 1, 5), (1, 2, 1, 5), (30, 1, 3, 5), (30, 2, 3, 5)]:
        positions = rng.integers(0, 5000, shape)
        cos, sin = rotary.tables(positions=positions, dtype=np.float32)
        expected = rotated(x, cos, sin, layout)
        assert_same_bits(rotary.rotate(x, positions=positions), expected)
        assert_same_bits(rotary.rotate(swapped, positions=positions, workers=2), expected)
    positions = rng.integers(0, 5000, (30, 1, 1, 200))
    one = rotary.rotate(big, positions=positions)
    assert_same_bits(rotary.rotate(big, positions=positions, workers=3), one)


def test_positions_are_never_fewer_by_guess(backend: str) -> None:
    rotary = posenc.Rotary(4)
    x = np.zeros((5, 5, 5, 4))
    for shape in [(5, 5), (1,), (5, 5, 1), (1, 5, 5, 5), (), (4,)]:
        with pytest.raises(ValueError, match="positions"):
            rotary.rotate(x, positions=np.zeros(shape))


@every_dtype
@every_layout
def test_x_may_have_any_form(backend: str, dtype: Dtype, layout: Any) -> None:
    rotary = posenc.Rotary(8, layout=layout)
    x = random((2, 3, 70, 12), dtype)
    expected = rotary.rotate(x, start=5)
    for form in ROWS:
        assert_same_bits(rotary.rotate(form(x), start=5), expected)
    heads_last = np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
    assert_same_bits(rotary.rotate(heads_last, start=5), expected)
    wide = np.zeros((2, 6, 70, 30), dtype)
    view = wide[:, ::2, :, 5:17]
    view[...] = x
    assert rotary.rotate(view, start=5, out=view) is view
    assert_same_bits(view, expected)
    view[...] = 0
    assert not wide.astype(np.float64).any()
    if dtype == np.float64:
        assert_same_bits(rotary.rotate(x.tolist(), start=5), expected)


@every_layout
def test_neither_workers_nor_the_first_row_change_bits(backend: str, layout: Any) -> None:
    rotary = posenc.Rotary(64, layout=layout)
    x = random((2, 4, 3000, 64), FLOAT32)
    positions = np.random.default_rng(0).integers(0, 9999, (2, 1, 3000))
    expected = rotary.rotate(x, start=-100), rotary.rotate(x, positions=positions)
    assert_same_bits(rotary.rotate(x, start=-100, workers=3), expected[0])
    assert_same_bits(rotary.rotate(x, positions=positions, workers=-1), expected[1])
    for first in (0, 1, 777, 2999):
        rest = rotary.rotate(x[:, :, first:], start=first - 100)
        assert_same_bits(rest, expected[0][:, :, first:])


@every_dtype
@every_layout
@pytest.mark.parametrize(("apart", "rest"), [(0, 0), (1, 0), (3, 7), (14, 2)])
def test_large_outputs_have_the_bits_of_small_ones(
    backend: str,
    dtype: Dtype,
    layout: Any,
    apart: int,
    rest: int,
) -> None:
    rotary = posenc.Rotary(64, layout=layout)
    x = random((2, 3, 200, 64 + rest), dtype)
    expected = rotary.rotate(x, start=-90)
    out = np.zeros((2, 3, 200, 64 + rest + apart), dtype)[..., apart:]
    with streaming():
        assert_same_bits(rotary.rotate(x, start=-90, out=out), expected)
        assert_same_bits(rotary.rotate(x, start=-90, out=x), expected)


# huggingface/transformers#25199, Dao-AILab/flash-attention#288 and many more: a layout for another.
def test_the_layouts_differ_by_a_permutation(backend: str) -> None:
    half, interleaved = posenc.Rotary(4), posenc.Rotary(4, layout="interleaved")
    x = np.array([[1.0, 2.0, 3.0, 4.0]])
    np.testing.assert_allclose(
        half.rotate(x, start=1), [[-1.98411065, 1.95990067, 2.4623779, 4.01979967]], 1e-8
    )
    np.testing.assert_allclose(
        interleaved.rotate(x, start=1), [[-1.14263966, 1.9220756, 2.95985067, 4.0297995]], 1e-8
    )
    order = [0, 2, 1, 3]
    assert_same_bits(interleaved.rotate(x, start=1), half.rotate(x[:, order], start=1)[:, order])
    np.testing.assert_allclose(half.tables(1, start=1)[0], [[0.540302306, 0.99995] * 2], 1e-8)
    np.testing.assert_allclose(
        interleaved.tables(1, start=1)[1], [[0.841470985] * 2 + [0.00999983333] * 2], 1e-8
    )


@every_layout
def test_dot_products_depend_on_distances_alone(backend: str, layout: Any) -> None:
    rotary = posenc.Rotary(32, layout=layout)
    queries, keys = random((50, 32), FLOAT64), random((1, 50, 32), FLOAT64)[0]
    near = rotary.rotate(queries) @ rotary.rotate(keys).T
    far = rotary.rotate(queries, start=2**40) @ rotary.rotate(keys, start=2**40).T
    np.testing.assert_allclose(near, far, rtol=0, atol=1e-12)


@every_layout
def test_inverse_undoes_the_rotation_but_not_attention(backend: str, layout: Any) -> None:
    x = random((2, 300, 40), FLOAT64)
    for attention in (1.0, 1.5):
        rotary = posenc.Rotary(32, layout=layout, attention_factor=attention)
        back = rotary.rotate(rotary.rotate(x, start=9), start=9, inverse=True)
        np.testing.assert_allclose(back[..., :32], x[..., :32] * attention**2, rtol=0, atol=3e-14)
        assert_same_bits(back[..., 32:], x[..., 32:])


def test_nothing_to_rotate(backend: str) -> None:
    rotary = posenc.Rotary(4)
    for shape in [(0, 4), (2, 0, 4), (0, 3, 6)]:
        assert rotary.rotate(np.zeros(shape)).shape == shape
        assert rotary.rotate(np.zeros(shape), positions=np.zeros(shape[-2])).shape == shape


# Several axes of positions


def sections_of_qwen2(freq: Array, sections: list[int]) -> Array:
    """As the model does it: the i-th section from the i-th of three tables."""
    parts = np.split(freq, np.cumsum(sections)[:-1], axis=-1)
    chosen: Array = np.concatenate([part[i % 3] for i, part in enumerate(parts)], axis=-1)
    return chosen


def sections_of_qwen3(freq: Array, sections: list[int]) -> Array:
    """As the model does it: heights and widths overwrite every third of the times."""
    result: Array = freq[0].copy()
    for axis, offset in enumerate((1, 2), start=1):
        index = slice(offset, sections[axis] * 3, 3)
        result[..., index] = freq[axis, ..., index]
    return result


@every_dtype
@pytest.mark.parametrize("interleaved", [False, True])
@every_layout
def test_multimodal_sections(backend: str, dtype: Dtype, interleaved: bool, layout: Any) -> None:
    sections = [24, 20, 20] if interleaved else [16, 24, 24]
    config = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": sections}
    config["mrope_interleaved"] = interleaved
    rotary = posenc.Rotary.from_config(config, head_dim=128, layout=layout)
    positions = np.random.default_rng(0).integers(0, 3000, (3, 2, 1, 90))
    rows = posenc.encode(positions, 128, base=1e6, layout="split", dtype=accumulation_dtype(dtype))
    recompose = sections_of_qwen3 if interleaved else sections_of_qwen2
    sines, cosines = (recompose(part, sections) for part in np.split(rows, 2, axis=-1))
    cos, sin = rotary.tables(positions=positions, dtype=accumulation_dtype(dtype))
    for columns, values in ((pairs(cos, 128, layout), cosines), (pairs(sin, 128, layout), sines)):
        assert_same_bits(columns[0], values)
        assert_same_bits(columns[1], values)
    x = random((2, 3, 90, 130), dtype)
    assert_same_bits(rotary.rotate(x, positions=positions), rotated(x, cos, sin, layout))
    # text: all three count alike
    plain = posenc.Rotary(128, base=1e6, layout=layout)
    assert_same_bits(rotary.rotate(x, start=5), plain.rotate(x, start=5))
    text = np.broadcast_to(np.arange(90) + 5, (3, 1, 1, 90))
    assert_same_bits(rotary.rotate(x, positions=text), plain.rotate(x, start=5))


@every_layout
def test_axial_pictures(backend: str, layout: Any) -> None:
    config = {"rope_type": "axial", "rope_theta": 1e4}
    rotary = posenc.Rotary.from_config(config, head_dim=32, layout=layout)
    rows, columns = np.divmod(np.arange(15), 5)
    cos, _ = rotary.tables(positions=[rows, columns])
    halves = [posenc.Rotary(16).tables(positions=at)[0][:, :8] for at in (rows, columns)]
    expected = np.concatenate(halves, axis=-1)
    for got in pairs(cos, 32, layout):
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-14)


def test_axes_may_have_gaps(backend: str) -> None:
    rotary = posenc.Rotary(6, axes=[2, 0, 2])
    cos, _ = rotary.tables(positions=[[1.0], [2.0], [3.0]])
    np.testing.assert_allclose(cos[0, :3], np.cos(rotary.frequencies * [3, 1, 3]), 1e-15)


# The object


def test_it_is_frozen_hashable_and_picklable() -> None:
    some = [
        posenc.Rotary(8),
        posenc.Rotary(8, layout="interleaved"),
        posenc.Rotary(8, base=500.0),
        posenc.Rotary(8, attention_factor=1.2),
        posenc.Rotary(8, frequencies=[1, 0.5, 0.25, 0.125]),
        posenc.Rotary(8, frequencies=[1, 0.5, 0.25, 0.0]),
        posenc.Rotary(8, axes=[0, 1, 2, 1]),
    ]
    assert len(set(some)) == len(some)
    for one in some:
        for module in (pickle, cloudpickle):
            again = module.loads(module.dumps(one))
            assert again == one
            assert hash(again) == hash(one)
            assert_same_bits(again.frequencies, one.frequencies)
        with pytest.raises(AttributeError):
            one.dim = 4  # type: ignore[misc]
        with pytest.raises(ValueError, match="read-only"):
            one.frequencies[0] = 7.0
        assert eval(repr(one), {"Rotary": posenc.Rotary}) == one
    assert repr(some[3]) == "Rotary(dim=8, attention_factor=1.2)"
    assert repr(some[4]) == "Rotary(dim=8, frequencies=(1.0, 0.5, 0.25, 0.125))"
    assert len(pickle.dumps(some[0])) < 300


def test_frequencies_that_are_given_are_exact_whatever_holds_them(backend: str) -> None:
    """Also where they are the doubles nearest to those of a base, and not those themselves."""
    plain = posenc.Rotary(4)
    listed = posenc.Rotary(4, frequencies=[1.0, 0.01])
    _, exact = mpmath.cos_sin(mpmath.mpf(2) ** 40 * mpmath.mpf(0.01))
    for held in (np.array([1.0, 0.01]), (1.0, 0.01), plain.frequencies, plain.frequencies.copy()):
        rotary = posenc.Rotary(4, frequencies=held)
        assert rotary == listed
        assert hash(rotary) == hash(listed)
        assert rotary != plain
        (sine,) = rotary.tables(1, start=2**40)[1][:, 1]
        assert reference.error(sine, exact) <= reference.BOUND


def test_replacing_a_field_is_as_if_newly_made() -> None:
    """The frequencies that an instance has of its base do not stay behind."""
    given = posenc.Rotary(4, frequencies=[1.0, 0.25])
    for changed, expected in (
        (dataclasses.replace(posenc.Rotary(8), base=500.0), posenc.Rotary(8, base=500.0)),
        (dataclasses.replace(posenc.Rotary(8, base=500.0), base=10000.0), posenc.Rotary(8)),
        (dataclasses.replace(posenc.Rotary(8, base=500.0), dim=4), posenc.Rotary(4, base=500.0)),
        (
            dataclasses.replace(
                posenc.Rotary(4, base=5, attention_factor=1.5), frequencies=[2.0, 1.0], base=None
            ),
            posenc.Rotary(4, frequencies=[2.0, 1.0], attention_factor=1.5),
        ),
        (
            dataclasses.replace(given, layout="interleaved"),
            posenc.Rotary(4, frequencies=[1.0, 0.25], layout="interleaved"),
        ),
        (dataclasses.replace(posenc.Rotary(4), frequencies=[1.0, 0.25]), given),
        (dataclasses.replace(given, frequencies=None, base=500.0), posenc.Rotary(4, base=500.0)),
        (
            dataclasses.replace(given, axes=[0, 1]),
            posenc.Rotary(4, frequencies=[1, 0.25], axes=[0, 1]),
        ),
    ):
        assert changed == expected
        assert_same_bits(changed.frequencies, expected.frequencies)
        assert max_position(changed) == max_position(expected)
        for ours, theirs in zip(changed.tables(3), expected.tables(3), strict=True):
            assert_same_bits(ours, theirs)
    with pytest.raises(ValueError, match="base"):
        dataclasses.replace(given, base=500.0)
    with pytest.raises(ValueError, match="frequencies"):
        dataclasses.replace(given, dim=8)


def test_frequencies_of_a_base_are_the_nearest_doubles() -> None:
    for dim, base in ((64, 1e4), (128, 5e5), (2, 7.0), (20, 0.9)):
        exact = [float(reference.frequency(dim, base, pair)) for pair in range(dim // 2)]
        np.testing.assert_array_equal(posenc.Rotary(dim, base=base).frequencies, exact)


def test_the_callers_decimal_context_is_left_alone(backend: str) -> None:
    with decimal.localcontext() as context:
        context.prec = 3
        context.traps[decimal.FloatOperation] = True
        assert posenc.Rotary(8, base=321.0).frequencies[1] == float(reference.frequency(8, 321, 1))
        posenc.Rotary(4, frequencies=[0.3, 1e-9])
        assert not any(context.flags.values())


# Errors


@pytest.mark.parametrize("dim", [9, 1, 65, 3])
def test_odd_widths_are_refused_by_name(dim: int) -> None:
    # lucidrains/rotary-embedding-torch#45, huggingface/transformers#48101: a later shape error
    with pytest.raises(ValueError, match=f"dim.*{dim}"):
        posenc.Rotary(dim)


@pytest.mark.parametrize(
    ("error", "name", "arguments"),
    [
        (TypeError, "dim", {"dim": 4.0}),
        (ValueError, "dim", {"dim": 0}),
        (ValueError, "base", {"base": -1.0}),
        *[
            (ValueError, "base", {"base": base, "frequencies": held})
            for base in (500.0, -1.0, 0.0, float("nan"))
            for held in ([1.0, 0.5], np.array([1.0, 0.01]))
        ],
        *[(TypeError, "base", {"base": base, "frequencies": np.ones(2)}) for base in ("x", [1])],
        (ValueError, "layout", {"layout": "split"}),
        (ValueError, "attention_factor", {"attention_factor": 0.0}),
        (TypeError, "attention_factor", {"attention_factor": "1"}),
        (ValueError, "frequencies", {"frequencies": [1.0]}),
        (ValueError, "frequencies", {"frequencies": [1.0, np.nan]}),
        (TypeError, "frequencies", {"frequencies": ["a", "b"]}),
        (TypeError, "frequencies", {"frequencies": [1j, 0]}),
        (ValueError, "axes", {"axes": [0]}),
        (ValueError, "axes", {"axes": [0, -1]}),
        (TypeError, "axes", {"axes": [0.0, 1.0]}),
    ],
)
def test_wrong_arguments_are_named(error: type, name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(error, match=f"^{name}"):
        posenc.Rotary(**{"dim": 4, **arguments})


@pytest.mark.parametrize(
    ("error", "name", "arguments"),
    [
        (TypeError, "x", {"x": np.zeros((3, 4), int)}),
        (ValueError, "x", {"x": np.zeros(4)}),
        (ValueError, "x", {"x": np.zeros((3, 3))}),
        (TypeError, "start", {"start": 1.5}),
        (ValueError, "start", {"start": 2**53}),
        (ValueError, "start", {"start": 1, "positions": [0, 1, 2]}),
        (ValueError, "positions", {"positions": [0, 1, np.nan]}),
        (ValueError, "positions", {"positions": [0, 1]}),
        (TypeError, "inverse", {"inverse": "yes"}),
        (ValueError, "workers", {"workers": 0}),
    ],
)
def test_wrong_calls_write_nothing(
    backend: str, error: type, name: str, arguments: dict[str, Any]
) -> None:
    out = np.full((3, 4), 7.0)
    with pytest.raises(error, match=name):
        posenc.Rotary(4).rotate(**{"x": np.zeros((3, 4)), "out": out, **arguments})
    assert (out == 7.0).all()


def test_wrong_outputs_are_refused(backend: str) -> None:
    rotary, x = posenc.Rotary(4), np.zeros((3, 4))
    frozen = read_only(x)
    buffer = np.zeros(16)
    calls: list[tuple[type, Any]] = [
        (TypeError, [[0.0]]),
        (TypeError, np.zeros((3, 4), np.float32)),
        (ValueError, np.zeros((4, 4))),
        (ValueError, frozen),
        (ValueError, buffer[1:13].reshape(3, 4)),
    ]
    for error, out in calls:
        with pytest.raises(error, match="out"):
            rotary.rotate(buffer[:12].reshape(3, 4), out=out)
    both = np.zeros((2, 3, 4))
    for error, pair in [
        (TypeError, x),
        (TypeError, (x,)),
        (TypeError, (x, [[0.0]])),
        (TypeError, (x, np.zeros((3, 4), np.float32))),
        (ValueError, (x, np.zeros((3, 5)))),
        (ValueError, (both[0], both[0])),
        (ValueError, (both[0], frozen)),
    ]:
        with pytest.raises(error, match="out"):
            rotary.tables(3, out=pair)  # type: ignore[arg-type]
    assert not both.any()
    with pytest.raises(ValueError, match="length"):
        rotary.tables(3, positions=[0, 1])
    with pytest.raises(TypeError, match="length"):
        rotary.tables()
    with pytest.raises(TypeError, match="dtype"):
        rotary.tables(3, dtype=int)


def test_frequencies_are_ones_own_and_cannot_be_changed(backend: str) -> None:
    frequencies = posenc.Rotary(4, base=777.0).frequencies
    with pytest.raises(ValueError, match="WRITEABLE"):
        frequencies.flags.writeable = True
    assert not np.shares_memory(frequencies, posenc.Rotary(4, base=777.0).frequencies)


def test_a_replaced_field_leaves_the_frequencies_what_they_are(backend: str) -> None:
    for base in (10000.0, 500.0):
        rotary = posenc.Rotary(64, base=base)
        changed = dataclasses.replace(rotary, layout="interleaved")
        assert changed == posenc.Rotary(64, base=base, layout="interleaved")


def test_positions_have_a_row_for_each_axis_and_no_other(backend: str) -> None:
    """The ids of transformers' multimodal models have a row of text before those of the axes."""
    rotary = posenc.Rotary(8, axes=[0, 1, 2, 2])
    x = np.ones((2, 5, 7, 8))
    ids = np.arange(4 * 2 * 7).reshape(4, 2, 1, 7)
    with pytest.raises(ValueError, match=r"positions.*\(3, \.\.\.\).*positions\[1:\]"):
        rotary.rotate(x, positions=ids)
    with pytest.raises(ValueError, match=r"positions.*\(3, \.\.\.\)"):
        rotary.rotate(x, positions=ids[:2])
    with pytest.raises(ValueError, match="positions"):
        rotary.tables(positions=ids)
    assert rotary.rotate(x, positions=ids[1:]).shape == x.shape


def test_positions_of_a_batch_are_not_taken_for_those_of_axes(backend: str) -> None:
    """A text batch of as many sequences as there are axes has ids of the same shape."""
    rotary = posenc.Rotary(8, axes=[0, 1, 2, 2])
    ids = np.zeros((3, 7))
    for shape in ((3, 7, 8), (3, 5, 7, 8)):
        with pytest.raises(ValueError, match=r"positions.*\(3, 7\)"):
            rotary.rotate(np.ones(shape), positions=ids)
    assert rotary.rotate(np.ones((7, 8)), positions=ids).shape == (7, 8)
    with pytest.raises(ValueError, match=r"positions.*\(7,\)"):
        rotary.rotate(np.ones((7, 8)), positions=ids[0])


def test_axes_are_few() -> None:
    with pytest.raises(ValueError, match="axes"):
        posenc.Rotary(4, axes=[0, 30000])


def test_the_former_name_of_the_attention_factor_warns() -> None:
    rotary = posenc.Rotary(4, attention_factor=1.5)
    with pytest.warns(DeprecationWarning, match="attention_factor"):
        assert getattr(rotary, "attention") == 1.5  # noqa: B009 - by a name that is retired


# A fault of the stretches that rows are streamed in: rows in a wrong order, or bytes at an end that
# are missing or too many.
@pytest.mark.parametrize("heads_last", [False, True])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_streamed_rows_are_those_that_are_stored_as_usual_wherever_out_begins(
    backend: str, dtype: Any, layout: Any, heads_last: bool
) -> None:
    rotary = posenc.Rotary(20, layout=layout)
    shape = (2, 3, 130, 24)
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    expected = rotary.rotate(x, start=7)
    for begin in (0, 1, 13, 32):
        memory = np.full(x.size + 64, 9, dtype)
        whole = memory[begin : begin + x.size]
        out = whole.reshape(2, 130, 3, 24).swapaxes(1, 2) if heads_last else whole.reshape(shape)
        with streaming():
            rotary.rotate(x, start=7, out=out)
        np.testing.assert_array_equal(out, expected)
        assert (memory[:begin] == 9).all()
        assert (memory[begin + x.size :] == 9).all()
