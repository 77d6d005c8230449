"""Positions of packed and padded sequences, held against what one would write in plain Python."""

from collections.abc import Callable, Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from arrays import ALL, VECTORS, Array, Form, assert_fresh, every_other_column
from hypothesis import given

import posenc
from posenc import positions

INTEGERS = ["i1", "u1", "<i2", ">i2", "<u4", ">i4", "<i8", ">i8", "<u8", ">u8"]


def in_documents(lengths: Sequence[int]) -> list[int]:
    return [position for length in lengths for position in range(length)]


def in_segments(ids: Sequence[int]) -> list[int]:
    found: list[int] = []
    for i, segment in enumerate(ids):
        found.append(found[-1] + 1 if i and segment == ids[i - 1] else 0)
    return found


def before(mask: Sequence[int]) -> list[int]:
    return [sum(mask[:i]) if keep else 0 for i, keep in enumerate(mask)]


def made_positions(ids: Sequence[int], padding_idx: int) -> list[int]:
    found, last = [], padding_idx
    for token in ids:
        last += token != padding_idx
        found.append(padding_idx if token == padding_idx else last)
    return found


def check(got: Array, expected: object, shape: tuple[int, ...] | None = None) -> None:
    wanted = np.array(expected, np.int64)
    wanted = wanted if shape is None else wanted.reshape(shape)
    assert_fresh(got, np.dtype(np.int64), wanted.shape)
    np.testing.assert_array_equal(got, wanted)


rows = st.tuples(st.lists(st.integers(0, 3), max_size=2), st.integers(0, 40)).map(
    lambda shape: (*shape[0], shape[1])
)


@st.composite
def sequences(draw: st.DrawFn, most: int) -> Array:
    """Small integers in runs, of any shape and dtype."""
    shape = draw(rows)
    dtype = np.dtype(draw(st.sampled_from(INTEGERS)))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    value = rng.integers(0, most + 1, shape)
    keep = rng.random(shape) < draw(st.sampled_from([0.0, 0.3, 0.9]))
    value = np.where(keep, value[..., :1] if shape[-1] else value, value)
    return draw(st.sampled_from(VECTORS))(value.astype(dtype))


def by_rows(function: Callable[[Sequence[int]], list[int]], array: Array) -> list[list[int]]:
    return [function(row) for row in array.reshape(array.size and -1, array.shape[-1]).tolist()]


@given(
    lengths=st.lists(st.integers(0, 5) | st.integers(0, 100), max_size=30),
    dtype=st.sampled_from(INTEGERS),
    form=st.sampled_from(VECTORS),
)
def test_documents_count_from_0(backend: str, lengths: list[int], dtype: str, form: Form) -> None:
    expected = in_documents(lengths)
    check(positions.from_lengths(lengths), expected)
    check(positions.from_lengths(form(np.array(lengths, dtype))), expected)
    offsets = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    check(positions.from_cu_seqlens(offsets), expected)
    if offsets[-1] <= np.iinfo(dtype).max:
        check(positions.from_cu_seqlens(form(np.array(offsets, dtype))), expected)


@given(ids=sequences(most=3))
def test_segments_count_from_0(backend: str, ids: Array) -> None:
    kept = ids.tobytes()
    got = positions.from_segments(ids)
    check(got, by_rows(in_segments, ids), ids.shape)
    check(positions.from_segments(ids.tolist()), got, np.shape(ids.tolist()))
    assert ids.tobytes() == kept
    assert not np.shares_memory(got, ids)


@given(mask=sequences(most=1))
def test_masks_count_what_they_keep(backend: str, mask: Array) -> None:
    kept = mask.tobytes()
    got = positions.from_mask(mask)
    check(got, by_rows(before, mask), mask.shape)
    for same in (mask.astype(bool), every_other_column(mask.astype(bool)), mask.tolist()):
        check(positions.from_mask(same), got, np.shape(same))
    assert mask.tobytes() == kept


@given(ids=sequences(most=3), padding_idx=st.sampled_from([0, 1, 3, -1, 300, -(2**63), 2**62 + 1]))
def test_ids_count_past_the_padding(backend: str, ids: Array, padding_idx: int) -> None:
    kept = ids.tobytes()
    got = positions.from_ids(ids, padding_idx)
    check(got, by_rows(lambda row: made_positions(row, padding_idx), ids), ids.shape)
    listed = positions.from_ids(ids.tolist(), np.int64(padding_idx))
    check(listed, got, np.shape(ids.tolist()))
    assert ids.tobytes() == kept


def test_the_threads_that_asked_for_them(backend: str) -> None:
    # pytorch/torchtitan#2559, hiyouga/LlamaFactory#7754
    check(positions.from_lengths([3, 2]), [0, 1, 2, 0, 1])
    check(positions.from_cu_seqlens(np.array([0, 3, 5], np.int32)), [0, 1, 2, 0, 1])
    check(positions.from_segments([[1, 1, 2, 2, 2, 0]]), [[0, 1, 0, 1, 2, 0]])
    # huggingface/transformers#33095: padding on the left, and holes
    check(positions.from_mask([[0, 0, 1, 1, 1]]), [[0, 0, 0, 1, 2]])
    check(positions.from_mask([True, False, True, True, False]), [0, 0, 1, 2, 0])
    # facebookresearch/fairseq#1177
    check(positions.from_ids([5, 3, 6, 7, 1, 1, 1], 1), [2, 3, 4, 5, 1, 1, 1])
    check(positions.from_ids([1, 1, 5, 3, 6, 7], 1), [1, 1, 2, 3, 4, 5])


def test_they_are_what_add_takes(backend: str) -> None:
    x = np.zeros((2, 5, 8))
    where = positions.from_mask([[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]])
    got = posenc.add(x, positions=where)
    np.testing.assert_array_equal(got[0, 2:], posenc.positional_encoding(3, 8))
    np.testing.assert_array_equal(got[1, :4], posenc.positional_encoding(4, 8))


def test_long_documents_and_rows(backend: str) -> None:
    lengths = np.random.default_rng(1).integers(0, 2000, 500)
    expected = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    check(positions.from_lengths(lengths), expected)
    ids = np.repeat(np.arange(500), lengths)
    check(positions.from_segments(ids), expected)
    mask = np.random.default_rng(2).random((3, 70000)) < 0.7
    check(positions.from_mask(mask), (np.cumsum(mask, -1) - 1) * mask)


def test_empty_input_gives_empty_positions(backend: str) -> None:
    # what `[]` becomes in NumPy is float64
    nothing: list[Any] = [[], (), np.empty(0, int), np.empty(0, ">u2"), np.array([])]
    for empty in nothing:
        check(positions.from_lengths(empty), [], (0,))
        check(positions.to_lengths(empty), [], (0,))
        check_offsets(positions.to_cu_seqlens([empty]), [0])
    check(positions.from_lengths([0, 0]), [], (0,))
    check(positions.from_cu_seqlens([0]), [], (0,))
    check(positions.from_cu_seqlens([0, 0]), [], (0,))
    calls: list[Callable[[Any], Array]] = [
        positions.from_segments,
        positions.from_mask,
        lambda ids: positions.from_ids(ids, 1),
    ]
    nothing += [[[], []], np.empty((0, 7), np.int8), np.empty((3, 0), np.float32)]
    for call in calls:
        for empty in nothing:
            check(call(empty), [], np.shape(empty))
    check(positions.from_mask(np.empty((0, 7), bool)), [], (0, 7))


def test_integers_of_every_kind(backend: str) -> None:
    boxed = np.array([2, 0, 1], object)
    check(positions.from_lengths(boxed), [0, 1, 0])
    check(ALL.positions.from_lengths([np.int8(1), np.uint8(2)]), [0, 0, 1])
    check(positions.from_segments([True, True, False, True]), [0, 1, 0, 0])
    large = np.array([2**64 - 1, 2**64 - 1, 2**63], np.uint64)
    check(positions.from_segments(large), [0, 1, 0])
    check(positions.from_ids(large, -1), [0, 1, 2])
    check(positions.from_ids([-(2**63), 2**63 - 1], 2**63 - 3), [2**63 - 2, 2**63 - 1])
    mapped = np.broadcast_to(np.array([1, 1, 2]), (2, 3))
    check(positions.from_segments(mapped), [[0, 1, 0], [0, 1, 0]])


def check_offsets(got: Array, expected: Sequence[int]) -> None:
    assert_fresh(got, np.dtype(np.int32), (len(expected),))
    assert got.tolist() == expected


@given(
    lengths=st.lists(st.integers(0, 5) | st.integers(0, 100), max_size=30),
    dtype=st.sampled_from(INTEGERS),
    form=st.sampled_from(VECTORS),
)
def test_positions_say_how_long_documents_are_but_for_empty_ones(
    backend: str, lengths: list[int], dtype: str, form: Form
) -> None:
    found = [length for length in lengths if length]
    ends = [sum(found[:i]) for i in range(len(found) + 1)]
    where = positions.from_lengths(lengths)
    for row in (where, where.tolist(), form(where.astype(dtype)), form(where[np.newaxis])):
        check(positions.to_lengths(row), found, (len(found),))
        check_offsets(positions.to_cu_seqlens(row), ends)
    check(positions.from_lengths(positions.to_lengths(where)), where)
    check(positions.from_cu_seqlens(positions.to_cu_seqlens(where)), where)


@given(row=st.lists(st.integers(-1, 3), min_size=1, max_size=8))
def test_positions_that_do_not_count_documents_are_refused_where_they_stop(
    backend: str, row: list[int]
) -> None:
    good = [p == 0 or (i > 0 and p == row[i - 1] + 1) for i, p in enumerate(row)]
    if all(good):
        begins = [i for i, p in enumerate(row) if p == 0]
        check_offsets(positions.to_cu_seqlens(row), [*begins, len(row)])
        return
    i = good.index(False)
    for call in (positions.to_lengths, positions.to_cu_seqlens):
        with pytest.raises(ValueError, match=f"^position_ids .* got {row[i]} at index {i}$"):
            call(row)


def test_the_threads_that_got_offsets_wrong(backend: str) -> None:
    # huggingface/transformers#39814: no position is 0
    with pytest.raises(ValueError, match="got 1 at index 0"):
        positions.to_cu_seqlens([[1, 2, 3]])
    # hiyouga/LlamaFactory#10452: each token of padding at 0 is taken for a document
    check_offsets(positions.to_cu_seqlens([0, 1, 2, 0, 0]), [0, 3, 4, 5])
    # Dao-AILab/flash-attention#2381: three axes of positions, and three times the tokens
    for several in (np.zeros((3, 1, 4), int), np.zeros((3, 4), int)):
        with pytest.raises(ValueError, match=r"^position_ids .*\(1, length\), got shape \(3, "):
            positions.to_cu_seqlens(several)


def test_positions_of_documents_do_not_wrap_around(backend: str) -> None:
    wrapping = np.array([*range(128), -128], np.int8)
    with pytest.raises(ValueError, match="got -128 at index 128"):
        positions.to_lengths(wrapping)
    check(positions.to_lengths(np.array([*range(256), 0], np.uint8)), [256, 1])
    with pytest.raises(ValueError, match=f"got {2**64 - 1} at index 1"):
        positions.to_lengths(np.array([0, 2**64 - 1], np.uint64))


PADDED = [
    ("segments", "from_segments", ()),
    ("mask", "from_mask", ()),
    ("ids", "from_ids", (1,)),
]
PACKED: list[tuple[str, str, tuple[int, ...]]] = [
    ("lengths", "from_lengths", ()),
    ("cu_seqlens", "from_cu_seqlens", ()),
]
BACK: list[tuple[str, str, tuple[int, ...]]] = [
    ("position_ids", "to_lengths", ()),
    ("position_ids", "to_cu_seqlens", ()),
]


@pytest.mark.parametrize(("name", "call", "more"), [*PADDED, *PACKED, *BACK])
@pytest.mark.parametrize(
    ("value", "word"),
    [
        ([0.0, 1.0], "float64"),
        (np.zeros(3, np.float16), "float16"),
        (None, "object"),
        ([0, None], "object"),
        ("01", "<U2"),
        (["0"], "<U1"),
        ([1j], "complex128"),
        (np.array(["2017"], "M8[Y]"), "datetime64"),
    ],
)
def test_what_is_no_integer_is_a_type_error(
    backend: str, name: str, call: str, more: tuple[int, ...], value: object, word: str
) -> None:
    with pytest.raises(TypeError) as caught:
        getattr(ALL.positions, call)(value, *more)
    assert name in str(caught.value)
    assert word in str(caught.value)


@pytest.mark.skipif(np.__version__ < "1.24", reason="an older NumPy makes objects of them")
@pytest.mark.parametrize(("name", "call", "more"), [*PADDED, *PACKED, *BACK])
def test_lists_of_several_lengths_are_named(
    backend: str, name: str, call: str, more: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match=f"{name} must be an array, or sequences of one length"):
        getattr(ALL.positions, call)([[1], [1, 2]], *more)


@pytest.mark.parametrize(("name", "call", "more"), [PADDED[-1], *PACKED, *BACK])
def test_bools_are_no_counts(backend: str, name: str, call: str, more: tuple[int, ...]) -> None:
    for value in ([True, False], np.zeros(3, bool), np.empty(0, bool)):
        with pytest.raises(TypeError, match=f"^{name} .* bool"):
            getattr(ALL.positions, call)(value, *more)


CASES: list[tuple[type[Exception], tuple[str, ...], Callable[[], object]]] = [
    *[
        (
            ValueError,
            (name, "(..., length)", "()"),
            lambda c=c, m=m: getattr(ALL.positions, c)(1, *m),
        )
        for name, c, m in PADDED
    ],
    *[
        (
            ValueError,
            (name, str(shape)),
            lambda c=c, s=shape: getattr(ALL.positions, c)(np.zeros(s, int)),
        )
        for name, c, _ in PACKED
        for shape in [(), (1, 2), (0, 3)]
    ],
    *[
        (
            ValueError,
            (name, str(shape)),
            lambda c=c, s=shape: getattr(ALL.positions, c)(np.zeros(s, int)),
        )
        for name, c, _ in BACK
        for shape in [(), (2, 3), (0, 3), (1, 1, 3)]
    ],
    (
        ValueError,
        ("position_ids", str(2**31 - 1), str(2**31)),
        lambda: ALL.positions.to_cu_seqlens(np.broadcast_to(np.int8(0), (2**31,))),
    ),
    *[
        (
            ValueError,
            (name, "int64", str(2**64)),
            lambda c=c, m=m: getattr(ALL.positions, c)([0, 2**64], *m),
        )
        for name, c, m in [*PADDED, *PACKED, *BACK]
    ],
    (ValueError, ("lengths", "int64"), lambda: ALL.positions.from_lengths([2**63, 1])),
    (ValueError, ("lengths", "1329 bits"), lambda: ALL.positions.from_lengths([10**400])),
    (ValueError, ("lengths", "-1", "index 2"), lambda: ALL.positions.from_lengths([3, 0, -1, 5])),
    # a sum that leaves int64, or comes back into it
    (ValueError, ("lengths", "2**53"), lambda: ALL.positions.from_lengths([2**63 - 1])),
    (ValueError, ("lengths", "2**53"), lambda: ALL.positions.from_lengths([2**62] * 4)),
    (
        ValueError,
        ("lengths", "2**53"),
        lambda: ALL.positions.from_lengths([2**63 - 1, 2**63 - 1, 7]),
    ),
    (
        ValueError,
        ("lengths", "2**53"),
        lambda: ALL.positions.from_lengths(np.array([2**64 - 1], "u8")),
    ),
    (ValueError, ("cu_seqlens", "(0,)"), lambda: ALL.positions.from_cu_seqlens([])),
    (ValueError, ("cu_seqlens", "begin at 0", "1"), lambda: ALL.positions.from_cu_seqlens([1, 3])),
    (ValueError, ("cu_seqlens", "-2"), lambda: ALL.positions.from_cu_seqlens([-2])),
    (
        ValueError,
        ("cu_seqlens", "5", "3", "index 2"),
        lambda: ALL.positions.from_cu_seqlens(np.array([0, 5, 3, 7], np.uint8)),
    ),
    (
        ValueError,
        ("cu_seqlens", "decrease"),
        lambda: ALL.positions.from_cu_seqlens([0, 2**63 - 1, -(2**63), 4]),
    ),
    (ValueError, ("cu_seqlens", "2**53"), lambda: ALL.positions.from_cu_seqlens([0, 2**63 - 1])),
    (ValueError, ("cu_seqlens", "2**53"), lambda: ALL.positions.from_cu_seqlens([0, 2**53])),
    (ValueError, ("mask", "0 and 1", "2"), lambda: ALL.positions.from_mask([0, 1, 2])),
    (
        ValueError,
        ("mask", "0 and 1", "-1"),
        lambda: ALL.positions.from_mask(np.array([[-1, 0]], np.int8)),
    ),
    (ValueError, ("mask", "255"), lambda: ALL.positions.from_mask(np.array([255], np.uint8))),
    (TypeError, ("padding_idx", "1.0"), lambda: ALL.positions.from_ids([1, 2], 1.0)),
    (TypeError, ("padding_idx",), lambda: ALL.positions.from_ids([1, 2], True)),
    (TypeError, ("padding_idx", "None"), lambda: ALL.positions.from_ids([1, 2], None)),
    (
        ValueError,
        ("padding_idx", str(2**63 - 2)),
        lambda: ALL.positions.from_ids([1, 2], 2**63 - 2),
    ),
    (ValueError, ("padding_idx",), lambda: ALL.positions.from_ids([1, 2], -(2**63) - 1)),
    (ValueError, ("padding_idx", "bits"), lambda: ALL.positions.from_ids([1, 2], 10**400)),
]


@pytest.mark.parametrize(("error", "words", "call"), CASES)
def test_bad_values_are_named(
    backend: str, error: type[Exception], words: tuple[str, ...], call: Callable[[], object]
) -> None:
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert all(word in message for word in words), message


@pytest.mark.alone  # sanitizers end the process instead
def test_more_tokens_than_memory_holds_are_a_memory_error(backend: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: positions.from_lengths([2**51, 2**51]),
        lambda: positions.from_lengths(np.full(2**10, 2**42)),
        lambda: positions.from_cu_seqlens([0, 2**52]),
    ]
    for call in calls:
        with pytest.raises(MemoryError):
            call()
