"""The same bits by every route, slice, start, number of workers, alignment, backend and machine."""

import hashlib
import os
import subprocess
import sys
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from arrays import (
    DTYPES,
    FLOAT32,
    FLOAT64,
    Array,
    Dtype,
    accumulation_dtype,
    assert_same_bits,
    bits,
    every_dtype,
    every_wide_dtype,
    sums,
)
from hypothesis import example, given
from internals import streaming

import posenc

WIDTHS = [2, 6, 8, 14, 30, 64, 66, 192, 512]

dtypes = st.sampled_from(DTYPES)
layouts = st.sampled_from(["interleaved", "split"])
widths = st.integers(1, 70).map(lambda n: 2 * n)
starts = st.integers(-300, 300) | st.integers(-(2**53), 2**53 - 500)


def digest(*arrays: Array) -> str:
    little = (a.astype(a.dtype.newbyteorder("<")).tobytes() for a in arrays)
    return hashlib.sha256(b"".join(little)).hexdigest()


# A change of one of these is a breaking change: it goes into the changelog.
GOLDEN = {
    "table": "97b02d8ce5b35e55c792bd9b7bef2589f3632f55c11f16505324822eef64995c",
    "float32": "ff884fe61d409ba3337e34fe11f1721e5d529fad93a42a2f8cd5eaa573d43164",
    "split": "c4a56874160130b003780e44324763a051838e77f199d3298b680a70bf6e81af",
    "far": "49c2365c141c0d954b5943013ba531d10c6918a35389d20635136a6dc49829b3",
    "fractional": "dcc944f5d837ad0eecb76f3d0ae690becf208fd410f36df847fbed3252dff3a5",
    "base": "313e23eb04c0199d818f5068200a963ac44e71ff9827879cc08dbbeacf4141fe",
    "add": "e8192b408b9ffd79834706d49178151b55bf5d7a1866eb9569d7d553df27b7c2",
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_digests(backend: str, name: str) -> None:
    # Whole numbers and literals alone: a generator or a power might differ elsewhere.
    scattered = np.arange(-250, 250) * 2654435761
    made = {
        "table": lambda: posenc.positional_encoding(1000, 64, start=-300),
        "float32": lambda: posenc.positional_encoding(5000, 512, dtype=np.float32),
        "split": lambda: posenc.positional_encoding(300, 66, layout="split", dtype=np.float32),
        "far": lambda: posenc.encode([2**31 - 1, 2**40 + 7, 2**53, -(2**53) + 1], 1024),
        "fractional": lambda: posenc.encode(scattered / 2**20, 96),
        "base": lambda: posenc.positional_encoding(200, 128, base=500000.0, start=10**6),
        "add": lambda: posenc.add(
            np.arange(6720, dtype=np.float32).reshape(3, 70, 32) / 64, scale=5.656854, start=5
        ),
    }
    assert digest(made[name]()) == GOLDEN[name]


@given(
    start=starts,
    length=st.integers(0, 300),
    cut=st.tuples(st.integers(0, 300), st.integers(0, 300)),
    d_model=widths,
    dtype=dtypes,
    layout=layouts,
)
@example(start=-17, length=333, cut=(63, 65), d_model=64, dtype=FLOAT32, layout="split")
@example(start=2**53 - 2, length=3, cut=(2, 3), d_model=6, dtype=FLOAT64, layout="interleaved")
def test_a_slice_of_a_table_is_the_table_of_a_slice(
    backend: str,
    start: int,
    length: int,
    cut: tuple[int, int],
    d_model: int,
    dtype: Dtype,
    layout: str,
) -> None:
    first, stop = min(*cut, length), min(max(cut), length)
    whole = posenc.positional_encoding(length, d_model, start=start, dtype=dtype, layout=layout)
    part = posenc.positional_encoding(
        stop - first, d_model, start=start + first, dtype=dtype, layout=layout
    )
    assert_same_bits(part, whole[first:stop])


@given(
    positions=st.lists(starts, max_size=80),
    d_model=widths,
    dtype=dtypes,
    layout=layouts,
)
@example(positions=[2**53, 2**53, 2**53 - 1, -(2**53)], d_model=4, dtype=FLOAT64, layout="split")
def test_any_row_is_the_row_of_its_position_alone(
    backend: str, positions: list[int], d_model: int, dtype: Dtype, layout: str
) -> None:
    rows = posenc.encode(positions, d_model, dtype=dtype, layout=layout)
    alone = [
        posenc.positional_encoding(1, d_model, start=p, dtype=dtype, layout=layout)
        for p in positions
    ]
    assert_same_bits(rows, np.array(alone, dtype).reshape(-1, d_model))
    floats = posenc.encode(np.array(positions, float), d_model, dtype=dtype, layout=layout)
    assert_same_bits(floats, rows)


@given(
    positions=st.lists(st.floats(-1e9, 1e9) | st.integers(-500, 500), min_size=1, max_size=60),
    d_model=widths,
)
def test_fractional_and_whole_positions_mix(
    backend: str, positions: list[float], d_model: int
) -> None:
    rows = posenc.encode(positions, d_model)
    alone = [posenc.encode(p, d_model) for p in positions]
    assert_same_bits(rows, np.array(alone))


@every_dtype
@pytest.mark.parametrize("d_model", WIDTHS)
def test_lengths_around_a_vector_share_their_rows(backend: str, d_model: int, dtype: Dtype) -> None:
    # pytorch/pytorch#48641, shibatch/sleef#364: a vector body and its scalar tail disagreed.
    tables = [posenc.positional_encoding(n, d_model, dtype=dtype) for n in (15, 16, 17, 200)]
    for table in tables:
        assert_same_bits(table, tables[-1][: len(table)])


@given(
    start=starts,
    batch=st.integers(1, 4),
    length=st.integers(1, 150),
    d_model=widths,
    dtype=dtypes,
    layout=layouts,
    scale=st.sampled_from([1.0, 2.0, 22.627416997969522, -0.1, 3]),
    seed=st.integers(0, 2**32),
)
def test_add_is_the_numpy_expression(
    backend: str,
    start: int,
    batch: int,
    length: int,
    d_model: int,
    dtype: Dtype,
    layout: Any,
    scale: float,
    seed: int,
) -> None:
    x = np.random.default_rng(seed).standard_normal((batch, length, d_model)).astype(dtype)
    wide = accumulation_dtype(dtype)
    table = posenc.positional_encoding(length, d_model, start=start, dtype=wide, layout=layout)
    expected = sums(x, scale, table)
    got = posenc.add(x, start=start, layout=layout, scale=scale)
    assert_same_bits(got, expected)
    encoding = posenc.Sinusoidal(d_model, layout=layout)
    for source, out in ((x, np.empty_like(x)), (x.copy(), None)):
        got = encoding.add(source, start=start, scale=scale, out=source if out is None else out)
        assert_same_bits(got, expected)
    positions = start + np.arange(length)
    got = posenc.add(x, positions=positions, layout=layout, scale=scale)
    assert_same_bits(got, expected)
    got = posenc.add(x, out=x, positions=positions[np.newaxis], layout=layout, scale=scale)
    assert_same_bits(got, expected)
    assert got is x


@given(shape=st.tuples(st.integers(1, 3), st.integers(1, 40)), d_model=widths, data=st.data())
def test_add_at_positions_of_every_item(
    backend: str, shape: tuple[int, int], d_model: int, data: st.DataObject
) -> None:
    count = shape[0] * shape[1]
    drawn = data.draw(st.lists(st.integers(-70, 400), min_size=count, max_size=count))
    positions = np.reshape(drawn, shape)
    x = np.linspace(-2, 2, count * d_model, dtype=np.float32).reshape(*shape, d_model)
    expected = x + posenc.encode(positions, d_model, dtype=np.float32)
    assert_same_bits(posenc.add(x, positions=positions), expected)


@every_wide_dtype
@pytest.mark.parametrize("workers", [2, 3, -1])
def test_workers_change_no_bit(backend: str, workers: int, dtype: Dtype) -> None:
    length, d_model = 2600, 512
    table = posenc.positional_encoding(length, d_model, start=-17, dtype=dtype)
    threaded = posenc.positional_encoding(length, d_model, start=-17, dtype=dtype, workers=workers)
    assert_same_bits(threaded, table)
    x = np.broadcast_to(dtype.type(0.5), (2, length, d_model))
    added = posenc.add(x, start=-17, workers=workers)
    assert_same_bits(added, x + table)
    positions = np.arange(length)[::-1] - 17
    reverse = posenc.encode(positions, d_model, dtype=dtype, workers=workers)
    assert_same_bits(reverse, table[::-1])
    many = np.zeros((700, 9, 256), dtype)
    assert_same_bits(
        posenc.fill(many, workers=workers), np.broadcast_to(posenc.fill(many[0].copy()), many.shape)
    )


@every_dtype
@pytest.mark.parametrize("offset", [0, 8, 16, 24, 40, 56])
def test_alignment_changes_no_bit(backend: str, offset: int, dtype: Dtype) -> None:
    table = posenc.positional_encoding(100, 66, dtype=dtype)
    buffer = np.zeros(table.nbytes + 128, np.uint8)
    first = -buffer.ctypes.data % 64 + offset
    out = buffer[first : first + table.nbytes].view(dtype).reshape(table.shape)
    assert_same_bits(posenc.fill(out), table)
    assert not buffer[:first].any()
    assert not buffer[first + table.nbytes :].any()


@every_dtype
@pytest.mark.parametrize("apart", [0, 4, 8, 20])
def test_large_outputs_have_the_bits_of_small_ones(backend: str, apart: int, dtype: Dtype) -> None:
    # Outputs beyond the caches may be written by other instructions.
    rows, d_model = 400, 66
    table = posenc.positional_encoding(rows, d_model, start=-90, dtype=dtype)
    split = posenc.positional_encoding(rows, d_model, start=-90, dtype=dtype, layout="split")
    wide = posenc.positional_encoding(rows, d_model, start=-90, dtype=accumulation_dtype(dtype))
    order = np.random.default_rng(2).permutation(rows)
    x = np.linspace(-1, 1, 2 * table.size).reshape(2, rows, d_model).astype(dtype)
    scaled, packed = sums(x, 3.0, wide), sums(x, 1.0, wide[order])
    for pad in (0, 14, 30):  # rows of every alignment, or of one
        room = np.zeros((2, rows, d_model + pad + apart), dtype)
        out = room[..., apart : apart + d_model]
        with streaming():
            assert_same_bits(posenc.fill(out, start=-90)[1], table)
            assert_same_bits(posenc.fill(out, start=-90, layout="split")[1], split)
            assert_same_bits(posenc.encode([order - 90] * 2, d_model, out=out)[1], table[order])
            assert_same_bits(posenc.add(x, start=-90, scale=3, out=out), scaled)
            assert_same_bits(posenc.add(x, positions=[order - 90, order - 90], out=out), packed)
            out[...] = x
            assert_same_bits(posenc.add(out, positions=order - 90, out=out), packed)
        out[...] = 0
        assert not bits(room).any()


def test_a_longer_table_begins_with_the_shorter_one(backend: str) -> None:
    # SamLynnEvans/Transformer#8 (230 rows where 200 were made), facebookresearch/xformers#728
    for length in (200, 230, 100, 4096, 200):
        table = posenc.positional_encoding(length, 64)
        assert table.shape == (length, 64)
        assert_same_bits(table, posenc.positional_encoding(4096, 64)[:length])


def test_every_backend_of_this_machine_gives_the_same_bits_in_a_fresh_process() -> None:
    # numpy/numpy#23523, pytorch/pytorch#155423: results that depend on AVX-512 being there.
    code = (
        "import hashlib, posenc, numpy as np;"
        "p = np.random.default_rng(1).uniform(-1e6, 1e6, 300);"
        "t = [posenc.positional_encoding(777, 130, start=-99), posenc.encode(p, 62),"
        "     posenc.add(p.reshape(3, 10, 10).astype('f4'), scale=0.1)];"
        "print(posenc.show_config()['backend'],"
        "      hashlib.sha256(b''.join(a.tobytes() for a in t)).hexdigest())"
    )
    digests = set()
    for name in posenc.show_config()["available"]:
        run = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "POSENC_BACKEND": name},
            capture_output=True,
            text=True,
            check=True,
        )
        used, bits = run.stdout.split()
        assert used == name
        digests.add(bits)
    assert len(digests) == 1


@pytest.mark.parametrize("width", [6, 300])
@pytest.mark.parametrize(
    "positions",
    [
        np.arange(1000, 1090),
        np.r_[0:50, 0:40],
        np.arange(90) % 7 - 3,
        np.linspace(0, 30, 90),
        np.r_[2**53 - 45 : 2**53, 2**53 - 45 : 2**53],
    ],
    ids=["consecutive", "packed", "few", "fractional", "far"],
)
def test_rows_that_are_made_once_have_the_bits_of_rows_made_each_by_itself(
    backend: str, positions: Array, width: int
) -> None:
    """Batch entries that share their positions, and positions that come several times, share rows."""
    encoding = posenc.Sinusoidal(width)
    x = np.random.default_rng(width).standard_normal((4, 90, width), np.float32)
    repeated = np.tile(positions, (4, 1))
    for rolled in (0, 11):  # the same in every entry; and not, but still several times
        repeated[1:] = np.roll(repeated[1:], rolled, axis=1)
        rows = zip(x.reshape(-1, 1, width), repeated.reshape(-1, 1), strict=True)
        each = [encoding.add(row, positions=position) for row, position in rows]
        got = encoding.add(x, positions=repeated)
        np.testing.assert_array_equal(got.reshape(-1, 1, width), each)
