"""Bad input is refused by name, with what came and what is wanted, before anything is written."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from arrays import ALL, misaligned, read_only
from internals import forget

import posenc

X = np.zeros((2, 5, 8), np.float32)
W = np.zeros((20, 8), np.float32)

# Each case: the error, words that its message must hold, and the call.
CASES: list[tuple[type[Exception], tuple[str, ...], Callable[[], object]]] = [
    # what is to be encoded
    (TypeError, ("x", "object"), lambda: ALL.add(None)),
    (TypeError, ("x", "int64"), lambda: ALL.add(X.astype(np.int64))),
    (TypeError, ("x", "bool"), lambda: ALL.add(X.astype(bool))),
    (TypeError, ("x", "complex64"), lambda: ALL.add(X.astype(np.complex64))),
    (TypeError, ("x", "int8"), lambda: ALL.add(X.astype(np.int8))),
    (ValueError, ("x", "()"), lambda: ALL.add(np.float32(3))),
    (ValueError, ("x", "(8,)"), lambda: ALL.add(X[0, 0])),
    (ValueError, ("d_model", "even", "5"), lambda: ALL.add(np.zeros((3, 5)))),
    (ValueError, ("d_model", "0"), lambda: ALL.add(np.zeros((3, 0)))),
    (ValueError, ("x", "6", "(2, 5, 8)"), lambda: ALL.Sinusoidal(6).add(X)),
    # sizes
    (TypeError, ("length", "3.0"), lambda: ALL.positional_encoding(3.0, 8)),
    (TypeError, ("length", "None"), lambda: ALL.positional_encoding(None, 8)),
    (TypeError, ("d_model", "8.0"), lambda: ALL.positional_encoding(3, 8.0)),
    (TypeError, ("d_model", "'8'"), lambda: ALL.Sinusoidal("8")),
    (TypeError, ("d_model",), lambda: ALL.positional_encoding(3, [8])),
    (ValueError, ("length", "-1"), lambda: ALL.positional_encoding(-1, 8)),
    (ValueError, ("d_model", "0"), lambda: ALL.positional_encoding(4, 0)),
    (ValueError, ("d_model", "-2"), lambda: ALL.positional_encoding(4, -2)),
    # codertimo/BERT-pytorch#78, gc-os-ai/pyaptamer#526: odd widths
    *[
        (ValueError, ("d_model", "even", str(d)), lambda d=d: ALL.positional_encoding(4, d))
        for d in (1, 3, 5, 29, 127)
    ],
    # where it begins
    (TypeError, ("start", "1.0"), lambda: ALL.positional_encoding(3, 8, start=1.0)),
    (ValueError, ("start", str(2**53)), lambda: ALL.positional_encoding(2, 8, start=2**53)),
    (ValueError, ("start", str(-(2**53) - 1)), lambda: ALL.fill(X, start=-(2**53) - 1)),
    (ValueError, ("start", str(10**30)), lambda: ALL.add(X, start=10**30)),
    (ValueError, ("start", "positions", "3"), lambda: ALL.add(X, start=3, positions=range(5))),
    # positions
    (TypeError, ("positions", "object"), lambda: ALL.encode(None, 8)),
    (TypeError, ("positions", "<U1"), lambda: ALL.encode(["a"], 8)),
    (TypeError, ("positions", "complex128"), lambda: ALL.encode([1j], 8)),
    (TypeError, ("positions", "datetime64"), lambda: ALL.encode(np.array(["2017"], "M8[Y]"), 8)),
    (ValueError, ("positions", "nan"), lambda: ALL.encode([0, np.nan], 8)),
    (ValueError, ("positions", "inf"), lambda: ALL.encode([np.inf], 8)),
    (ValueError, ("positions", "-inf"), lambda: ALL.encode(np.array([-np.inf], np.float16), 8)),
    (ValueError, ("positions", str(2**53 + 1)), lambda: ALL.encode([2**53 + 1], 8)),
    (ValueError, ("positions", str(-(2**53) - 1)), lambda: ALL.encode([3, -(2**53) - 1], 8)),
    (ValueError, ("positions", str(2**64)), lambda: ALL.encode([2**64], 8)),
    (ValueError, ("positions", "1329 bits"), lambda: ALL.encode([10**400], 8)),
    (ValueError, ("positions",), lambda: ALL.encode(np.array([2**53 + 1], np.uint64), 8)),
    (ValueError, ("positions", "(2, 5)", "()"), lambda: ALL.add(X, positions=3)),
    (ValueError, ("positions", "(2, 5)", "(1,)"), lambda: ALL.add(X, positions=[3])),
    (ValueError, ("positions", "(2, 5)", "(2, 1)"), lambda: ALL.add(X, positions=[[3], [4]])),
    (ValueError, ("positions", "(2, 5)", "(2, 4)"), lambda: ALL.add(X, positions=np.zeros((2, 4)))),
    (ValueError, ("positions", "(2, 5)", "(3, 5)"), lambda: ALL.add(X, positions=np.zeros((3, 5)))),
    (
        ValueError,
        ("positions", "(2, 5)", "(1, 2, 5)"),
        lambda: ALL.add(X, positions=np.zeros((1, 2, 5))),
    ),
    # where the result goes
    (TypeError, ("out", "NoneType"), lambda: ALL.fill(None)),
    (TypeError, ("out", "list"), lambda: ALL.fill([[0.0] * 4])),
    (TypeError, ("out", "list"), lambda: ALL.add(X, out=[1])),
    (TypeError, ("out", "int64"), lambda: ALL.fill(np.zeros((3, 4), np.int64))),
    (TypeError, ("out", ">f4"), lambda: ALL.fill(np.zeros((3, 4), ">f4"))),
    (TypeError, ("out", "float32", "float64"), lambda: ALL.add(X, out=np.zeros((2, 5, 8)))),
    (
        TypeError,
        ("out", "float32", "float64"),
        lambda: ALL.encode([1], 8, dtype=np.float32, out=np.zeros((1, 8))),
    ),
    (ValueError, ("out", "(2, 4, 8)"), lambda: ALL.add(X, out=np.zeros((2, 4, 8), "f4"))),
    (ValueError, ("out", "(2, 8)"), lambda: ALL.encode([1, 2], 8, out=np.zeros((2, 6)))),
    (ValueError, ("out", "(4,)"), lambda: ALL.fill(np.zeros(4))),
    (ValueError, ("d_model", "5"), lambda: ALL.fill(np.zeros((3, 5)))),
    (ValueError, ("out", "6", "(3, 4)"), lambda: ALL.Sinusoidal(6).fill(np.zeros((3, 4)))),
    (ValueError, ("out", "stride"), lambda: ALL.fill(np.zeros((4, 8)).T)),
    (ValueError, ("out", "stride"), lambda: ALL.fill(np.zeros((4, 16))[:, ::2])),
    (ValueError, ("out", "stride"), lambda: ALL.fill(np.zeros((4, 8))[:, ::-1])),
    # token ids and their embeddings
    (TypeError, ("ids", "float64"), lambda: ALL.embed([[1.0]], W)),
    (TypeError, ("ids", "bool"), lambda: ALL.embed([[True]], W)),
    (TypeError, ("ids", "object"), lambda: ALL.embed(None, W)),
    (ValueError, ("ids", "()"), lambda: ALL.embed(3, W)),
    (IndexError, ("ids", "-1", "(1, 0)", "20"), lambda: ALL.embed([[3, 19], [-1, 20]], W)),
    (IndexError, ("ids", "20", "(2,)"), lambda: ALL.embed(np.array([0, 19, 20], np.uint8), W)),
    (IndexError, ("ids", str(2**64 - 1)), lambda: ALL.embed(np.array([2**64 - 1], "u8"), W)),
    (IndexError, ("ids", "0"), lambda: ALL.embed([0], W[:0])),
    (IndexError, ("ids", str(2**64), "(0,)"), lambda: ALL.embed([2**64, 1], W)),
    (IndexError, ("ids", str(-(2**70)), "(1,)"), lambda: ALL.embed([1, -(2**70)], W)),
    (TypeError, ("token_weight", "int64"), lambda: ALL.Learned(W).embed([1], W.astype(int))),
    (ValueError, ("token_weight", "7"), lambda: ALL.Learned(W).embed([1], W[:, :7])),
    (ValueError, ("start", "bits"), lambda: ALL.Learned(W).add(X, start=10**500, positions=[1])),
    (TypeError, ("weight", "int64"), lambda: ALL.embed([1], W.astype(np.int64))),
    (TypeError, ("weight", "object"), lambda: ALL.embed([1], None)),
    (ValueError, ("weight", "(8,)"), lambda: ALL.embed([1], W[0])),
    (ValueError, ("weight", "(1, 20, 8)"), lambda: ALL.embed([1], W[np.newaxis])),
    (ValueError, ("d_model", "even", "7"), lambda: ALL.embed([1], W[:, :7])),
    (ValueError, ("weight", "6", "(20, 8)"), lambda: ALL.Sinusoidal(6).embed([1], W)),
    (TypeError, ("out", "float64"), lambda: ALL.embed([1], W, out=np.zeros((1, 8)))),
    (ValueError, ("out", "(2, 8)"), lambda: ALL.embed([1], W, out=np.zeros((2, 8), "f4"))),
    (ValueError, ("out", "weight"), lambda: ALL.embed([1], W, out=W[3:4])),
    (ValueError, ("positions", "(2,)", "(3,)"), lambda: ALL.embed([1, 2], W, positions=range(3))),
    (ValueError, ("start",), lambda: ALL.embed([1, 2], W, start=2**53)),
    # masks
    (TypeError, ("mask", "float64"), lambda: ALL.add(X, mask=np.ones((2, 5)))),
    (TypeError, ("mask", "<U5"), lambda: ALL.add(X, mask="11111")),
    (ValueError, ("mask", "2"), lambda: ALL.add(X, mask=[0, 1, 2, 1, 0])),
    (ValueError, ("mask", "-1"), lambda: ALL.add(X, mask=[0, 1, -1, 1, 0])),
    (ValueError, ("mask", "(2, 5)", "()"), lambda: ALL.add(X, mask=True)),
    (ValueError, ("mask", "(2, 5)", "(1,)"), lambda: ALL.add(X, mask=[True])),
    (ValueError, ("mask", "(2, 5)", "(3, 5)"), lambda: ALL.add(X, mask=np.ones((3, 5), bool))),
    (ValueError, ("mask", "(2,)", "(3,)"), lambda: ALL.embed([1, 2], W, mask=[1, 1, 0])),
    # learned positions
    (TypeError, ("weight", "int64"), lambda: ALL.Learned(np.ones((3, 8), np.int64))),
    (ValueError, ("weight", "(8,)"), lambda: ALL.Learned(np.ones(8))),
    (IndexError, ("start", "20", "16"), lambda: ALL.Learned(W).add(X, start=16)),
    (IndexError, ("start", "20", "-1"), lambda: ALL.Learned(W).add(X, start=-1)),
    (IndexError, ("start", "20", "bits"), lambda: ALL.Learned(W).add(X, start=10**5000)),
    (
        IndexError,
        ("positions", "20", "(4,)"),
        lambda: ALL.Learned(W).add(X, positions=[0, 1, 2, 3, 20]),
    ),
    (
        IndexError,
        ("positions", "-1", "(0,)"),
        lambda: ALL.Learned(W).add(X, positions=[-1, 0, 1, 2, 3]),
    ),
    (TypeError, ("positions", "float64"), lambda: ALL.Learned(W).add(X, positions=np.ones(5))),
    (ValueError, ("start", "3"), lambda: ALL.Learned(W).add(X, start=3, positions=range(5))),
    (ValueError, ("x", "8", "(2, 5, 6)"), lambda: ALL.Learned(W).add(X[..., :6])),
    (TypeError, ("float32", "float64"), lambda: ALL.Learned(W).add(X.astype(np.float64))),
    (TypeError, ("float32", "float64"), lambda: ALL.Learned(W).embed([1], np.ones((3, 8)))),
    (IndexError, ("ids", "token"), lambda: ALL.Learned(W).embed([3], np.ones((3, 8), np.float32))),
    # numbers
    (TypeError, ("scale", "ndarray"), lambda: ALL.add(X, scale=np.ones(8))),
    (TypeError, ("scale", "str"), lambda: ALL.add(X, scale="2")),
    (TypeError, ("scale", "complex"), lambda: ALL.add(X, scale=2j)),
    (TypeError, ("scale", "NoneType"), lambda: ALL.add(X, scale=None)),
    (ValueError, ("scale",), lambda: ALL.add(X, scale=10**400)),
    (TypeError, ("base", "str"), lambda: ALL.Sinusoidal(8, base="x")),
    (TypeError, ("base", "list"), lambda: ALL.positional_encoding(3, 8, base=[1])),
    *[
        (ValueError, ("base", str(base)), lambda base=base: ALL.Sinusoidal(8, base=base))
        for base in (0.0, -5.0, float("nan"), float("inf"), -float("inf"))
    ],
    (ValueError, ("base", "5e-324"), lambda: ALL.positional_encoding(3, 64, base=5e-324)),
    (ValueError, ("layout", "interleaved", "split", "'x'"), lambda: ALL.Sinusoidal(8, layout="x")),
    (ValueError, ("odd", "error", "'x'"), lambda: ALL.Sinusoidal(8, odd="x")),
    (ValueError, ("odd", "1"), lambda: ALL.Sinusoidal(8, odd=1)),
    (ValueError, ("d_model", "2", "1"), lambda: ALL.Sinusoidal(1, odd="zero")),
    (ValueError, ("shift", "nan"), lambda: ALL.Sinusoidal(8, shift=float("nan"))),
    (TypeError, ("shift", "str"), lambda: ALL.Sinusoidal(8, shift="1")),
    (ValueError, ("freq_scale", "0.0"), lambda: ALL.Sinusoidal(8, freq_scale=0)),
    (ValueError, ("freq_scale", "inf"), lambda: ALL.Sinusoidal(8, freq_scale=float("inf"))),
    (ValueError, ("freq_scale", "1e+305"), lambda: ALL.Sinusoidal(8, freq_scale=1e305)),
    (TypeError, ("cos_first", "1"), lambda: ALL.Sinusoidal(8, cos_first=1)),
    (ValueError, ("amplitude", "nan"), lambda: ALL.Sinusoidal(8, amplitude=float("nan"))),
    (TypeError, ("frequencies", "<U1"), lambda: ALL.Sinusoidal(2, frequencies=["a"])),
    (TypeError, ("frequencies", "complex"), lambda: ALL.Sinusoidal(2, frequencies=[1j])),
    (ValueError, ("frequencies", "(1, 2)"), lambda: ALL.Sinusoidal(4, frequencies=[[1, 2]])),
    (ValueError, ("frequencies", "8", "3"), lambda: ALL.Sinusoidal(8, frequencies=[1, 2, 3])),
    (ValueError, ("frequencies", "inf"), lambda: ALL.Sinusoidal(2, frequencies=[np.inf])),
    (ValueError, ("frequencies", "1e+305"), lambda: ALL.Sinusoidal(2, frequencies=[1e305])),
    *[
        (
            ValueError,
            ("frequencies", name),
            lambda name=name, value=value: ALL.Sinusoidal(4, frequencies=[1, 2], **{name: value}),
        )
        for name, value in {"base": 2.0, "shift": 1.0, "odd": "trim", "freq_scale": 3.0}.items()
    ],
    (ValueError, ("name", "vaswani", "'bert'"), lambda: ALL.Sinusoidal.preset("bert", 8)),
    (ValueError, ("d_model", "even", "7"), lambda: ALL.Sinusoidal.preset("whisper", 7)),
    (ValueError, ("layout", "None"), lambda: ALL.positional_encoding(3, 8, layout=None)),
    (ValueError, ("layout", "[]"), lambda: ALL.positional_encoding(3, 8, layout=[])),
    (TypeError, ("bass",), lambda: ALL.positional_encoding(3, 8, bass=2.0)),
    (TypeError, ("dtype", "garbage"), lambda: ALL.positional_encoding(3, 8, dtype="garbage")),
    (ValueError, ("layout",), lambda: ALL.Sinusoidal(8, layout=np.array(["split", "x"]))),
    (ValueError, ("start", "bits"), lambda: ALL.positional_encoding(3, 8, start=10**5000)),
    (ValueError, ("length", "bits"), lambda: ALL.positional_encoding(-(10**5000), 8)),
    (TypeError, ("dtype", "int64"), lambda: ALL.positional_encoding(3, 8, dtype=np.int64)),
    (TypeError, ("dtype", "float99"), lambda: ALL.positional_encoding(3, 8, dtype="float99")),
    (TypeError, ("dtype", ">f2"), lambda: ALL.positional_encoding(3, 8, dtype=">f2")),
    (TypeError, ("dtype", ">f8"), lambda: ALL.encode([3], 8, dtype=">f8")),
    (TypeError, ("workers", "1.5"), lambda: ALL.positional_encoding(3, 8, workers=1.5)),
    (ValueError, ("workers", "0"), lambda: ALL.positional_encoding(3, 8, workers=0)),
    (ValueError, ("workers", "-999"), lambda: ALL.add(X, workers=-999)),
]


@pytest.mark.parametrize(("error", "words", "call"), CASES)
def test_bad_arguments_are_named(
    backend: str, error: type[Exception], words: tuple[str, ...], call: Callable[[], object]
) -> None:
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert all(word in message for word in words), message
    # Loaders raise the error anew in another process: from its type and its message alone.
    assert str(error(*caught.value.args)) == message
    assert not X.any()


def outputs() -> dict[str, np.ndarray[Any, Any]]:
    """Arrays of 4 rows of 8 float32 that cannot be filled, for one reason each."""
    zeros = np.zeros((4, 8), np.float32)
    as_strided = np.lib.stride_tricks.as_strided
    buffer = np.zeros(64, np.float32)
    return {
        "read-only": read_only(zeros),
        "aligned": misaligned(zeros),
        "unit stride": np.zeros((8, 4), np.float32).T,
        "overlap": as_strided(buffer, (4, 8), (0, 4)),
        "not overlap": as_strided(buffer, (4, 8), (4 * 4, 4)),
        "must not overlap itself": as_strided(buffer, (2, 4, 8), (3 * 32, 32, 4))[0:2],
    }


@pytest.mark.parametrize("reason", outputs())
def test_outputs_that_cannot_be_written_are_refused_untouched(backend: str, reason: str) -> None:
    out = outputs()[reason]
    calls: list[Callable[[], object]] = [lambda: posenc.fill(out)]
    calls.append(lambda: posenc.add(np.ones(out.shape, np.float32), out=out))
    calls.append(lambda: posenc.encode(np.ones(out.shape[:-1]), 8, out=out))
    for call in calls:
        with pytest.raises(ValueError, match=reason) as caught:
            call()
        assert "out" in str(caught.value)
        assert not out.any()


def test_a_partial_overlap_of_x_and_out_is_refused_untouched(backend: str) -> None:
    buffer = np.ones((9, 8), np.float32)
    flipped = buffer[:8][::-1]
    swapped = buffer[:8].view(">f4")
    columns = np.ones((8, 12), np.float32)
    for x, out in (
        (buffer[:8], buffer[1:]),
        (flipped, buffer[:8]),
        (swapped, buffer[:8]),
        (columns[:, :8], columns[:, 2:10]),
        (np.broadcast_to(buffer[3], (8, 8)), buffer[:8]),
    ):
        before = x.tobytes()
        with pytest.raises(ValueError, match="out must be x itself"):
            posenc.add(x, out=out)
        assert x.tobytes() == before


def test_a_bad_argument_beside_good_ones_leaves_out_untouched(backend: str) -> None:
    out = np.full((2, 5, 8), 7.0, np.float32)
    wrong: list[Callable[[], object]] = [
        lambda: ALL.add(X, out=out, scale="1"),
        lambda: ALL.add(X, out=out, workers=0),
        lambda: ALL.add(X, out=out, positions=[0, 1, 2, 3, np.nan]),
        lambda: ALL.add(X, out=out, start=2**53),
        lambda: ALL.add(X, out=out, base=-1),
        lambda: ALL.fill(out, workers=0),
        lambda: ALL.fill(out, start=1.5),
        lambda: ALL.fill(out, layout="x"),
        lambda: ALL.encode(np.full((2, 5), np.inf), 8, out=out),
        lambda: ALL.encode(np.zeros((2, 5)), 8, out=out, workers=0.5),
    ]
    for call in wrong:
        with pytest.raises((TypeError, ValueError)):
            call()
        assert (out == 7.0).all()


def test_an_overlap_that_is_too_hard_to_tell_is_refused(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_up(*_: object, **__: object) -> bool:
        raise RuntimeError("Exceeded max_work")

    columns = np.ones((8, 16), np.float32)
    monkeypatch.setattr(np, "shares_memory", give_up)
    with pytest.raises(ValueError, match="out must be x itself"):
        posenc.add(columns[:, :8], out=columns[:, 8:])


def test_a_refused_argument_is_refused_again_beside_an_equal_one(backend: str) -> None:
    assert posenc.positional_encoding(1, 4, base=777).shape == (1, 4)
    for base in (777 + 0j, np.complex64(777), np.full(1, 777)):
        with pytest.raises(TypeError, match="base"):
            ALL.positional_encoding(1, 4, base=base)
    assert posenc.positional_encoding(1, 4, base=1).shape == (1, 4)
    with pytest.raises(TypeError, match="base"):
        ALL.positional_encoding(1, 4, base=True)


def test_the_callers_errstate_changes_nothing(backend: str) -> None:
    # NumPy's own loops would raise, in the middle of writing
    huge = np.full((3, 64), 3e38, np.float32)
    with np.errstate(all="raise"):
        forget()
        posenc.positional_encoding(4, 64, base=1e100, dtype=np.float32)
        posenc.positional_encoding(4, 64, base=1e308)
        posenc.encode([1e-310, 5e-324], 64)
        for scale in (10, 1e300, float("inf")):
            got = posenc.add(huge, scale=scale, out=huge.copy())
            assert np.isposinf(got).all()
