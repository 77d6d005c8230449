"""Grids, held against the encodings of their coordinates and what frameworks compute.

No grid has equal sides: those would hide axes that are swapped (facebookresearch/mae#18).
"""

import functools
import itertools
import math
import signal
from collections.abc import Callable, Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import reference
from arrays import ALL, DTYPES, Array, Dtype, assert_fresh, assert_same_bits
from hypothesis import given
from internals import streaming
from measure import BOUND, memory_beside, seconds_to_see_ctrl_c

import posenc


def by_points(
    coordinates: Sequence[Array],
    width: int,
    axes: Sequence[int],
    per_axis: bool,
    dtype: Dtype,
    layout: str,
) -> Array:
    """Row by row, each from the encodings of a point's coordinates."""
    shape = tuple(map(len, coordinates))
    out = np.empty((*shape, width * len(shape)), dtype)
    for point in np.ndindex(shape):
        rows = [
            posenc.encode(coordinates[axis][point[axis]], width, dtype=dtype, layout=layout)
            for axis in axes
        ]
        if not per_axis:
            rows = [row[: width // 2] for row in rows] + [row[width // 2 :] for row in rows]
        out[point] = np.concatenate(rows)
    return out


@st.composite
def grids(draw: st.DrawFn) -> dict[str, Any]:
    sides = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True))
    per_axis = draw(st.booleans())
    one = st.floats(-1e6, 1e6) | st.integers(-(10**6), 10**6)
    return {
        "coordinates": [
            np.array(draw(st.lists(one, min_size=side, max_size=side)), np.float64)
            for side in sides
        ],
        "width": 2 * draw(st.integers(1, 9)),
        "axes": draw(st.permutations(range(len(sides)))),
        "per_axis": per_axis,
        "dtype": draw(st.sampled_from(DTYPES)),
        "layout": draw(st.sampled_from(["split", "interleaved"])) if per_axis else "split",
    }


@given(grid=grids(), extra_rows=st.integers(0, 3))
def test_points_have_the_encodings_of_their_coordinates(
    backend: str, grid: dict[str, Any], extra_rows: int
) -> None:
    coordinates, width = grid["coordinates"], grid["width"]
    shape = tuple(map(len, coordinates))
    expected = by_points(**grid)
    if extra_rows:
        flat = expected.reshape(math.prod(shape), expected.shape[-1])
        zeros = np.zeros((extra_rows, expected.shape[-1]), grid["dtype"])
        expected = np.concatenate([zeros, flat])
    keywords = {key: grid[key] for key in ("axes", "per_axis", "coordinates", "dtype", "layout")}
    got = posenc.grid_encoding(shape, width * len(shape), extra_rows=extra_rows, **keywords)
    assert_same_bits(got, expected)
    assert_fresh(got, grid["dtype"], expected.shape)

    room = np.zeros((*(2 * n for n in expected.shape[:-1]), expected.shape[-1] + 5), got.dtype)
    steps = (slice(None, None, 2),) * (expected.ndim - 1)
    out = room[(*steps, slice(3, -2))]
    del keywords["dtype"]
    width *= len(shape)
    assert posenc.grid_encoding(shape, width, extra_rows=extra_rows, out=out, **keywords) is out
    assert_same_bits(out, expected)
    out[...] = 0
    assert not room.astype(np.float64).any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("skipped", [0, 1, 5])
def test_a_streamed_grid_has_the_same_bits(backend: str, dtype: Dtype, skipped: int) -> None:
    # bytes lost or stored twice where a stretch is flushed, begins or ends within a cache line
    for shape, width, stop in (((9, 37), 60, None), ((40, 3, 2), 18, None), ((7, 31), 36, -1)):
        expected = posenc.grid_encoding(shape, width, dtype=dtype)
        room = np.zeros((*shape[:-1], shape[-1] + 1, width), dtype).ravel()
        room = np.zeros(room.size + skipped, dtype)[skipped:].reshape(*shape[:-1], -1, width)
        out = (
            room[..., :-1, :] if stop else room.reshape(-1)[: expected.size].reshape(*shape, width)
        )
        with streaming():
            assert posenc.grid_encoding(shape, width, out=out) is out
        assert_same_bits(out, expected)
        assert not (room.astype(np.float64)[..., -1, :].any() and stop)


def test_a_grid_of_one_axis_is_a_table(backend: str) -> None:
    assert_same_bits(posenc.grid_encoding((5,), 6), posenc.positional_encoding(5, 6))
    assert_same_bits(
        posenc.grid_encoding([np.int64(5)], np.int32(6), per_axis=False, base=500),
        posenc.positional_encoding(5, 6, base=500, layout="split"),
    )


def test_values_are_exact(backend: str) -> None:
    got = posenc.grid_encoding((2, 3), 12, coordinates=[[0.5, 7], [-1, 0, 1e6]], base=500.0)
    rows, columns = reference.table([0.5, 7], 6, 500.0), reference.table([-1, 0, 1e6], 6, 500.0)
    for i, j in np.ndindex(2, 3):
        expected = np.concatenate([rows[i], columns[j]])
        np.testing.assert_allclose(got[i, j], expected, rtol=0, atol=reference.BOUND)


def test_rows_are_in_raster_order(backend: str) -> None:
    # huggingface/transformers#41380: width 4 and height 3
    got = posenc.grid_encoding((3, 4), 8, preset="mae", extra_rows=1)
    assert not got[0].any()
    x, y = [0, 1, 2, 3] * 3, [0] * 4 + [1] * 4 + [2] * 4
    expected = np.hstack([posenc.encode(axis, 4, layout="split") for axis in (x, y)])
    assert_same_bits(got[1:], expected)


# What the frameworks compute, restated with their steps in float64.


def split_1d(width: int, where: Array) -> Array:
    """`get_1d_sincos_pos_embed_from_grid` of MAE and diffusers."""
    omega = np.arange(width // 2, dtype=np.float64)
    omega /= width / 2.0
    angles = np.einsum("m,d->md", where.reshape(-1), 1.0 / 10000**omega)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def split_2d(width: int, rows: Array, columns: Array) -> Array:
    grid = np.stack(np.meshgrid(columns, rows))
    return np.concatenate([split_1d(width // 2, grid[0]), split_1d(width // 2, grid[1])], axis=1)


def mae(shape: tuple[int, ...], width: int) -> Array:
    return split_2d(width, *map(np.arange, shape)).reshape(*shape, width)


def diffusers_2d(shape: tuple[int, ...], width: int) -> Array:
    sides = [np.arange(side) / (side / 16) / 1.0 for side in shape]
    return split_2d(width, *sides).reshape(*shape, width)


def diffusers_3d(shape: tuple[int, ...], width: int) -> Array:
    frames, rows, columns = shape
    spatial = split_2d(3 * width // 4, np.arange(rows), np.arange(columns))
    temporal = split_1d(width // 4, np.arange(frames))
    repeated = np.repeat(temporal[:, np.newaxis], rows * columns, axis=1)
    spread = np.repeat(spatial[np.newaxis], frames, axis=0)
    return np.concatenate([repeated, spread], axis=-1).reshape(*shape, width)


def timm(shape: tuple[int, ...], width: int) -> Array:
    bands = 1.0 / 10000.0 ** (np.arange(width // 4) / (width // 4))
    grid = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij")).reshape(2, -1).T
    angles = grid[:, :, np.newaxis] * bands
    parts = np.stack([np.sin(angles), np.cos(angles)], axis=1)
    return parts.reshape(*shape, width)


def rt_detr(shape: tuple[int, ...], width: int) -> Array:
    omega = 1.0 / 10000.0 ** (np.arange(width // 4) / (width // 4))
    rows, columns = np.meshgrid(*map(np.arange, shape), indexing="ij")
    h, w = np.outer(rows.ravel(), omega), np.outer(columns.ravel(), omega)
    return np.concatenate([np.sin(h), np.cos(h), np.sin(w), np.cos(w)], axis=1).reshape(
        *shape, width
    )


def detr(shape: tuple[int, ...], width: int) -> Array:
    features = width // 2
    dim_t = np.arange(features)
    divisors = 10000 ** (2 * (dim_t // 2) / features)
    blocks = []
    for axis in (0, 1):
        angles = np.ones(shape).cumsum(axis)[:, :, np.newaxis] / divisors
        pair = np.stack([np.sin(angles[:, :, 0::2]), np.cos(angles[:, :, 1::2])], axis=3)
        blocks.append(pair.reshape(*shape, features))
    return np.concatenate(blocks, axis=2)


def positional_encodings(shape: tuple[int, ...], width: int) -> Array:
    channels = int(np.ceil(width / (2 * len(shape))) * 2)
    frequencies = 1.0 / 10000 ** (np.arange(0, channels, 2) / channels)
    out = np.zeros((*shape, channels * len(shape)))
    for axis, side in enumerate(shape):
        angles = np.einsum("i,j->ij", np.arange(side), frequencies)
        rows = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(side, channels)
        along = rows.reshape([-1 if i == axis else 1 for i in range(len(shape))] + [channels])
        out[..., axis * channels : (axis + 1) * channels] = along
    return out[..., :width]


PEERS: list[tuple[str, Callable[[tuple[int, ...], int], Array], tuple[int, ...], int]] = [
    *[
        (name, peer, shape, width)
        for name, peer in [
            ("mae", mae),
            ("diffusers-2d", diffusers_2d),
            ("timm", timm),
            ("rt-detr", rt_detr),
            ("detr", detr),
        ]
        for shape, width in [((3, 4), 16), ((7, 2), 4), ((1, 9), 64), ((0, 3), 8)]
    ],
    *[
        ("diffusers-3d", diffusers_3d, shape, width)
        for shape, width in [((2, 3, 4), 16), ((5, 1, 3), 64), ((2, 7, 4), 192)]
    ],
    *[
        ("positional-encodings", positional_encodings, shape, width)
        for shape in [(5,), (3, 4), (2, 3, 4), (2, 1, 3, 4)]
        for width in [1, 2, 3, 5, 6, 7, 10, 16, 17, 30, 64]
    ],
]


@pytest.mark.parametrize(("name", "peer", "shape", "width"), PEERS)
def test_presets_are_what_their_frameworks_compute(
    backend: str,
    name: str,
    peer: Callable[[tuple[int, ...], int], Array],
    shape: tuple[int, ...],
    width: int,
) -> None:
    got = posenc.grid_encoding(shape, width, preset=name)
    assert got.dtype == np.float64
    expected = peer(shape, width)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-13)
    assert_same_bits(
        got.astype(np.float32), posenc.grid_encoding(shape, width, preset=name, dtype="f4")
    )


def test_presets_give_way_to_what_is_given(backend: str) -> None:
    def grid(**given: Any) -> Array:
        return posenc.grid_encoding((3, 4), 16, **given)

    assert_same_bits(grid(preset="mae", axes=(0, 1)), grid(preset="rt-detr"))
    assert_same_bits(grid(preset="rt-detr", per_axis=False), grid(preset="timm"))
    assert_same_bits(grid(preset="mae", layout="interleaved"), grid(axes=(1, 0)))
    assert_same_bits(grid(preset="detr", coordinates=[range(3), range(4)]), grid())
    assert_same_bits(grid(preset="timm", base=100.0), grid(per_axis=False, base=100.0))
    # DETR, normalized
    normalized = [np.arange(1, n + 1) / (n + 1e-6) * 2 * math.pi for n in (3, 4)]
    got = grid(preset="detr", coordinates=normalized)
    expected = np.hstack([posenc.encode(normalized[0][2], 8), posenc.encode(normalized[1][1], 8)])
    assert_same_bits(got[2, 1], expected)


@pytest.mark.parametrize(
    "convention",
    [
        {"odd": "trim"},
        {"odd": "zero", "layout": "split", "shift": 1.0},
        {"cos_first": True, "amplitude": 0.5, "freq_scale": 2 * math.pi},
        {"frequencies": np.array([1.0, 0.3, 0.01])},
    ],
)
def test_every_axis_has_the_convention(backend: str, convention: dict[str, Any]) -> None:
    width = 5 if "odd" in convention else 6
    got = posenc.grid_encoding((2, 3, 4), 3 * width, axes=(2, 0, 1), **convention)
    for point in np.ndindex(2, 3, 4):
        rows = [posenc.encode(point[axis], width, **convention) for axis in (2, 0, 1)]
        assert_same_bits(got[point], np.concatenate(rows))


def test_all_cosines_may_come_first(backend: str) -> None:
    got = posenc.grid_encoding((2, 3), 8, preset="timm", cos_first=True)
    sines_first = posenc.grid_encoding((2, 3), 8, preset="timm")
    assert_same_bits(got, np.roll(sines_first, 4, axis=-1))


def bound(backend: str) -> int:
    """The fallback's blocks take some more than those of grids."""
    return 3 * BOUND if backend == "numpy" else BOUND


MANY = np.arange(10**6)
ROOM = np.empty((200_000, 133), np.float32)


@pytest.mark.alone
@pytest.mark.parametrize(
    "call",
    [
        lambda: ALL.grid_encoding((200_000,), 64),
        lambda: ALL.grid_encoding((200_000,), 64, dtype="bfloat16", extra_rows=200_000),
        lambda: ALL.grid_encoding((10**6,), 2, dtype="f2", coordinates=[MANY]),
        lambda: ALL.grid_encoding((4, 100_000), 16, per_axis=False),
        lambda: ALL.grid_encoding((100_000, 4), 32, dtype="f2", preset="diffusers-2d"),
        lambda: ALL.grid_encoding((100_000, 2, 3), 17, preset="positional-encodings"),
        lambda: ALL.grid_encoding((2, 100_000), 66, odd="zero", axes=(1, 0), dtype="f4"),
        lambda: ALL.grid_encoding(
            (100_000, 2), 16, coordinates=[MANY[:100_000], [5, 7]], dtype="f2"
        ),
    ],
)
def test_grids_of_any_shape_are_made_in_bounded_memory(
    backend: str, call: Callable[[], Array]
) -> None:
    assert memory_beside(call) < bound(backend)


@pytest.mark.alone
def test_a_large_grid_is_written_where_out_lies(backend: str) -> None:
    out = ROOM[:, 3:131].reshape(200, 1000, 128)
    assert np.may_share_memory(out, ROOM)
    call = functools.partial(posenc.grid_encoding, (200, 1000), 128, out=out)
    assert memory_beside(call, 0) < bound(backend)


@pytest.mark.alone
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an interval timer")
@pytest.mark.parametrize(
    "call",
    [
        "posenc.grid_encoding((3000, 3000), 64, dtype='f4')",
        "posenc.grid_encoding((3000, 3000), 64, dtype='f4', preset='timm', extra_rows=1)",
        "posenc.grid_encoding((2, 10**7), 32, dtype='f4', coordinates=[[0, 1], np.arange(10**7)])",
        "posenc.grid_encoding((10**7,), 64, dtype='f4')",
        "posenc.grid_encoding((1,), 64, dtype='f4', extra_rows=10**7)",
    ],
)
def test_ctrl_c_is_seen_amid_a_large_grid(call: str) -> None:
    assert seconds_to_see_ctrl_c(call) < 0.5


@pytest.mark.parametrize(
    ("shape", "width", "keywords"),
    [
        ((40_000, 3), 64, {}),
        ((3, 40_000), 66, {"odd": "trim", "axes": (1, 0)}),
        ((7, 20_000, 2), 36, {"per_axis": False, "extra_rows": 5}),
        ((30_000, 3), 65, {"preset": "positional-encodings"}),
        ((90_000,), 64, {"preset": "positional-encodings"}),
        ((9, 7), 2**16, {"layout": "split"}),
    ],
)
def test_large_grids_have_the_bits_of_their_points(
    backend: str, shape: tuple[int, ...], width: int, keywords: dict[str, Any]
) -> None:
    whole = posenc.grid_encoding(shape, width, dtype=np.float32, **keywords)
    extra = keywords.pop("extra_rows", 0)
    assert not whole[:extra].any()
    whole = whole[extra:].reshape(*shape, width)
    at = [[i for i in (0, 1, n // 3, n // 2, n - 1) if i < n] for n in shape]
    few = posenc.grid_encoding(
        tuple(map(len, at)), width, coordinates=at, dtype=np.float32, **keywords
    )
    assert_same_bits(whole[np.ix_(*at)], few)


def test_coordinates_may_lie_in_out(backend: str) -> None:
    out = np.arange(2.0 * 60_000 * 2).reshape(60_000, 2, 2)
    where = [out[:, 0, 0], out[0, :, 1]]
    expected = posenc.grid_encoding((60_000, 2), 4, coordinates=[each.copy() for each in where])
    out = np.concatenate([out, out], axis=-1)
    where = [out[:, 0, 0], out[0, :, 1]]
    assert_same_bits(posenc.grid_encoding((60_000, 2), 4, coordinates=where, out=out), expected)


def test_coordinates_that_the_dtype_changes_are_refused_before_anything_is_written(
    backend: str,
) -> None:
    coordinates = np.arange(200_000.0)  # several tiles
    out = np.zeros((200_000, 4), np.float32)

    class Changing:
        @property
        def dtype(self) -> Dtype:
            coordinates[-1] = np.nan
            return out.dtype

    with pytest.raises(ValueError, match="coordinates"):
        ALL.grid_encoding((200_000,), 4, coordinates=[coordinates], dtype=Changing(), out=out)
    assert not out.any()


def test_coordinates_without_a_point_are_numbers_too() -> None:
    with pytest.raises(TypeError, match=r"^coordinates\[1\] must be bool, integer or float"):
        ALL.grid_encoding((3, 0), 4, coordinates=[range(3), np.array([], "U1")])


CASES: list[tuple[type[Exception], tuple[str, ...], Callable[[], object]]] = [
    (ValueError, ("d_model", "4", "2 axes", "6"), lambda: ALL.grid_encoding((3, 4), 6)),
    (ValueError, ("d_model", "6", "8"), lambda: ALL.grid_encoding((2, 3, 4), 8)),
    (ValueError, ("d_model", "0"), lambda: ALL.grid_encoding((3, 4), 0)),
    (TypeError, ("d_model", "8.0"), lambda: ALL.grid_encoding((3, 4), 8.0)),
    (TypeError, ("shape", "sequence", "int"), lambda: ALL.grid_encoding(12, 8)),
    (TypeError, ("shape", "4.0"), lambda: ALL.grid_encoding((3, 4.0), 8)),
    (ValueError, ("shape", "()"), lambda: ALL.grid_encoding((), 8)),
    (ValueError, ("shape", "-1"), lambda: ALL.grid_encoding((3, -1), 8)),
    (ValueError, ("axes", "0, 1", "2"), lambda: ALL.grid_encoding((3, 4), 8, axes=(0, 2))),
    (ValueError, ("axes", "got 0 among them"), lambda: ALL.grid_encoding((3, 4), 8, axes=(0, 0))),
    (ValueError, ("axes", "got 1"), lambda: ALL.grid_encoding((3, 4), 8, axes=[0])),
    (TypeError, ("axes", "1.0"), lambda: ALL.grid_encoding((3, 4), 8, axes=(0, 1.0))),
    (TypeError, ("axes", "int"), lambda: ALL.grid_encoding((3, 4), 8, axes=1)),
    (TypeError, ("per_axis", "0"), lambda: ALL.grid_encoding((3, 4), 8, per_axis=0)),
    (
        ValueError,
        ("d_model", "2", "7"),
        lambda: ALL.grid_encoding((3, 4), 7, odd="trim"),
    ),
    (
        ValueError,
        ("d_model", "4", "6"),
        lambda: ALL.grid_encoding((3, 4), 6, odd="trim", per_axis=False),
    ),
    (ValueError, ("extra_rows", "-1"), lambda: ALL.grid_encoding((3, 4), 8, extra_rows=-1)),
    (TypeError, ("extra_rows", "None"), lambda: ALL.grid_encoding((3, 4), 8, extra_rows=None)),
    (
        ValueError,
        ("coordinates", "2", "got 1"),
        lambda: ALL.grid_encoding((3, 4), 8, coordinates=[[0, 1, 2]]),
    ),
    (
        ValueError,
        ("coordinates[1]", "(4,)", "must", "(3,)"),
        lambda: ALL.grid_encoding((3, 4), 8, coordinates=[[0, 1, 2], [0, 1, 2]]),
    ),
    (
        ValueError,
        ("coordinates", "(3,)", "(3, 1)"),
        lambda: ALL.grid_encoding((3, 4), 8, coordinates=[np.zeros((3, 1)), range(4)]),
    ),
    (TypeError, ("coordinates", "int"), lambda: ALL.grid_encoding((3, 4), 8, coordinates=7)),
    (
        ValueError,
        ("coordinates[1]", "nan", "finite"),
        lambda: ALL.grid_encoding((1, 2), 8, coordinates=[[0], [1, math.nan]]),
    ),
    (ValueError, ("preset", "mae", "'vit'"), lambda: ALL.grid_encoding((3, 4), 8, preset="vit")),
    (ValueError, ("preset", "timm", "7"), lambda: ALL.grid_encoding((3, 4), 8, preset=7)),
    (
        ValueError,
        ("shape", "2 axes", "mae", "got 3"),
        lambda: ALL.grid_encoding((2, 3, 4), 24, preset="mae"),
    ),
    (
        ValueError,
        ("d_model", "16", "24"),
        lambda: ALL.grid_encoding((2, 3, 4), 24, preset="diffusers-3d"),
    ),
    (ValueError, ("d_model", "4", "10"), lambda: ALL.grid_encoding((3, 4), 10, preset="detr")),
    (
        ValueError,
        ("layout", "split", "'interleaved'"),
        lambda: ALL.grid_encoding((3, 4), 8, per_axis=False, layout="interleaved"),
    ),
    (ValueError, ("base", "-1"), lambda: ALL.grid_encoding((3, 4), 8, base=-1.0)),
    (TypeError, ("dtype",), lambda: ALL.grid_encoding((3, 4), 8, dtype=int)),
    (
        TypeError,
        ("out", "float64"),
        lambda: ALL.grid_encoding((3, 4), 8, out=np.empty((3, 4, 8)), dtype="f4"),
    ),
    (
        ValueError,
        ("out", "(3, 4, 8)", "(4, 3, 8)"),
        lambda: ALL.grid_encoding((3, 4), 8, out=np.empty((4, 3, 8))),
    ),
    (
        ValueError,
        ("out", "(13, 8)", "(12, 8)"),
        lambda: ALL.grid_encoding((3, 4), 8, out=np.empty((12, 8)), extra_rows=1),
    ),
    # the width that was given, not that of an axis
    (ValueError, ("d_model", "got 6"), lambda: ALL.grid_encoding((2, 2), 6, odd="error")),
    (ValueError, ("d_model", "got 2"), lambda: ALL.grid_encoding((2, 2), 2, odd="zero")),
    (
        ValueError,
        ("frequencies", "2", "d_model = 8", "got 3"),
        lambda: ALL.grid_encoding((3, 4), 8, frequencies=[1, 2, 3]),
    ),
    (
        ValueError,
        ("frequencies", "d_model = 16", "got 2"),
        lambda: ALL.grid_encoding((2, 3, 4), 16, preset="diffusers-3d", frequencies=[1, 2]),
    ),
    (
        ValueError,
        ("frequencies", "odd"),
        lambda: ALL.grid_encoding((3, 4), 6, frequencies=[1, 2], odd="trim"),
    ),
    (ValueError, ("odd", "'x'"), lambda: ALL.grid_encoding((3, 4), 6, odd="x")),
    (
        ValueError,
        ("layout",),
        lambda: ALL.grid_encoding((3, 4), 8, per_axis=False, layout=np.array(["split", "x"])),
    ),
    (ValueError, ("odd",), lambda: ALL.grid_encoding((3, 4), 8, odd=np.array(["trim", "x"]))),
    # more than NumPy can hold, before anything is made of it
    (ValueError, ("shape", "31", "more"), lambda: ALL.grid_encoding([1] * 70, 140)),
    (ValueError, ("shape", "31", "more"), lambda: ALL.grid_encoding([1] * 32, 64)),
    (ValueError, ("shape", "31", "more"), lambda: ALL.grid_encoding(itertools.repeat(1), 8)),
    (ValueError, ("shape", "2**63 bytes"), lambda: ALL.grid_encoding((2**70,), 8)),
    (ValueError, ("shape", "2**63 bytes"), lambda: ALL.grid_encoding((2**31, 2**31), 8)),
    (ValueError, ("shape", "2**63 bytes"), lambda: ALL.grid_encoding((0, 2**62), 8)),
    (ValueError, ("shape", "bits"), lambda: ALL.grid_encoding((3, 10**5000), 8)),
    (ValueError, ("shape", "bits"), lambda: ALL.grid_encoding((3, -(10**5000)), 8)),
    (ValueError, ("d_model", "65536"), lambda: ALL.grid_encoding((0, 4), 2**62)),
    (ValueError, ("d_model", "bits"), lambda: ALL.grid_encoding((2, 2), 10**5000 + 1)),
    (
        ValueError,
        ("extra_rows", "2**63 bytes"),
        lambda: ALL.grid_encoding((3, 4), 8, extra_rows=2**62),
    ),
    (ValueError, ("axes", "bits"), lambda: ALL.grid_encoding((3, 4), 8, axes=(0, 10**5000))),
    (ValueError, ("axes", "got 2"), lambda: ALL.grid_encoding((3, 4), 8, axes=itertools.count())),
    (TypeError, ("axes", "'a'"), lambda: ALL.grid_encoding((3, 4), 8, axes="ab")),
    # switches are no numbers
    (TypeError, ("shape",), lambda: ALL.grid_encoding((True, 4), 8)),
    (TypeError, ("d_model",), lambda: ALL.grid_encoding((3,), True)),
    (TypeError, ("axes",), lambda: ALL.grid_encoding((3, 4), 8, axes=(False, True))),
    (TypeError, ("extra_rows",), lambda: ALL.grid_encoding((3, 4), 8, extra_rows=True)),
    # coordinates that are none
    (
        TypeError,
        ("coordinates", "<U1"),
        lambda: ALL.grid_encoding((1, 2), 8, coordinates=[["a"], ["b", "c"]]),
    ),
    (
        ValueError,
        ("coordinates[1]", "finite", "finite"),
        lambda: ALL.grid_encoding((1, 1), 8, coordinates=[[0], [2**70]]),
    ),
    (
        TypeError,
        ("coordinates", "complex128"),
        lambda: ALL.grid_encoding((1, 1), 8, coordinates=[[0], [1j]]),
    ),
    (
        ValueError,
        ("coordinates[0]", str(2**53), str(2**53 + 1), "finite"),
        lambda: ALL.grid_encoding((1, 1), 8, coordinates=[[2**53 + 1], [0]]),
    ),
    (
        ValueError,
        ("coordinates[1]", "-inf", "finite"),
        lambda: ALL.grid_encoding((1, 2), 8, coordinates=[[0], [0, -math.inf]]),
    ),
    # a base that leaves no coordinate but 0
    (ValueError, ("shape", "got 1", "axis 0"), lambda: ALL.grid_encoding((2, 1), 8, base=1e-300)),
]


@pytest.mark.parametrize(("error", "words", "call"), CASES)
def test_bad_values_are_named(
    error: type[Exception], words: tuple[str, ...], call: Callable[[], object]
) -> None:
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert message.startswith(words[0])
    assert len(message) <= 300


@pytest.mark.skipif(np.__version__ < "1.24", reason="an older NumPy makes objects of them")
def test_ragged_coordinates_are_named() -> None:
    with pytest.raises(
        ValueError, match=r"^coordinates\[1\] must be an array, or sequences of one length"
    ):
        ALL.grid_encoding((1, 2), 8, coordinates=[[0], [[0, 1], [2]]])


def test_grids_of_as_many_axes_as_there_can_be(backend: str) -> None:
    got = posenc.grid_encoding([1] * 30 + [2], 62)
    assert got.shape == (*[1] * 30, 2, 62)
    assert_same_bits(got.reshape(2, 62)[:, -2:], posenc.positional_encoding(2, 2))
    assert_same_bits(posenc.grid_encoding([1] * 30 + [2], 62, extra_rows=1)[1:], got.reshape(2, 62))


def test_grids_without_a_point_need_no_memory_for_their_other_axes(backend: str) -> None:
    assert posenc.grid_encoding((0, 2**45), 8).shape == (0, 2**45, 8)
    got = posenc.grid_encoding((2**45, 0), 8, extra_rows=2)
    assert_same_bits(got, np.zeros((2, 8)))


def test_nothing_is_written_on_an_error(backend: str) -> None:
    out = np.full((3, 4, 8), 7.0)
    wrong: list[dict[str, Any]] = [
        {"coordinates": [[0, 1, 2], [0, 1, 2, math.inf]]},
        {"base": -1.0},
        {"dtype": "f4"},
        {"layout": "both"},
    ]
    for keywords in wrong:
        with pytest.raises((TypeError, ValueError)):
            ALL.grid_encoding((3, 4), 8, out=out, **keywords)
    assert (out == 7.0).all()
