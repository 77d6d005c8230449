"""`Sinusoidal`: a value that loaders can keep, compare, send and share."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any
from unittest import mock

import cloudpickle
import numpy as np
import pytest
from arrays import byte_swapped, read_only
from internals import plan_of

import posenc
from posenc import _cache, _frequencies


@pytest.mark.parametrize("layout", ["interleaved", "split"])
def test_the_module_level_calls_are_those_of_an_instance(backend: str, layout: Any) -> None:
    encoding = posenc.Sinusoidal(10, base=500, layout=layout)
    convention = {"base": 500, "layout": layout}
    x = np.ones((2, 7, 10), np.float32)
    table = posenc.positional_encoding(7, 10, start=3, dtype=np.float32, **convention)
    np.testing.assert_array_equal(encoding.table(7, start=3, dtype=np.float32), table)
    np.testing.assert_array_equal(
        encoding.fill(np.empty_like(x), start=3),
        posenc.fill(np.empty_like(x), start=3, **convention),
    )
    np.testing.assert_array_equal(
        encoding.encode([0.5, 2]), posenc.encode([0.5, 2], 10, **convention)
    )
    np.testing.assert_array_equal(
        encoding.add(x, start=3, scale=2), posenc.add(x, start=3, scale=2, **convention)
    )


def test_equal_conventions_are_equal_hash_alike_and_share_what_they_prepare() -> None:
    # PaddlePaddle/PaddleFleet#2067: fifty encoders, fifty tables
    encoders = [posenc.Sinusoidal(64, base=base) for base in (10000, 10000.0) for _ in range(25)]
    assert len(set(encoders)) == 1
    assert len({id(plan_of(encoder)) for encoder in encoders}) == 1
    assert posenc.Sinusoidal(64) != posenc.Sinusoidal(64, layout="split")
    assert posenc.Sinusoidal(64) != posenc.Sinusoidal(66)
    assert posenc.Sinusoidal(64) != posenc.Sinusoidal(64, base=9999.0)


def test_an_instance_cannot_be_changed() -> None:
    encoding: Any = posenc.Sinusoidal(8)
    with pytest.raises(dataclasses.FrozenInstanceError):
        encoding.base = 3.0
    assert repr(encoding) == "Sinusoidal(d_model=8)"


@pytest.mark.parametrize(
    "send",
    [
        lambda value: pickle.loads(pickle.dumps(value)),
        lambda value: cloudpickle.loads(cloudpickle.dumps(value)),
        copy.copy,
        copy.deepcopy,
    ],
    ids=["pickle", "cloudpickle", "copy", "deepcopy"],
)
def test_an_instance_can_be_sent(backend: str, send: Callable[[Any], Any]) -> None:
    encoding = posenc.Sinusoidal(512, base=77.0, layout="split")
    expected = encoding.table(70)
    received = send(encoding)
    assert received == encoding
    assert hash(received) == hash(encoding)
    np.testing.assert_array_equal(received.table(70), expected)


def test_a_pickle_holds_the_convention_alone() -> None:
    encoding = posenc.Sinusoidal(1024)
    encoding.table(3)
    assert len(pickle.dumps(encoding)) < 300


@pytest.mark.parametrize(
    "call", [posenc.add, posenc.encode, posenc.fill, posenc.positional_encoding]
)
def test_the_calls_can_be_sent(call: Callable[..., Any]) -> None:
    assert pickle.loads(pickle.dumps(call)) is call
    assert cloudpickle.loads(cloudpickle.dumps(call)) is call


def test_what_is_prepared_cannot_be_reached_through_results(backend: str) -> None:
    encoding = posenc.Sinusoidal(8)
    rows = encoding.table(64)
    for prepared in plan_of(encoding)[:2]:
        assert not np.shares_memory(rows, prepared)


def test_as_many_conventions_as_take_turns_stay_prepared_within_bounds(backend: str) -> None:
    with mock.patch.object(_frequencies, "geometric", wraps=_frequencies.geometric) as geometric:
        for _ in range(3):
            for base in range(2, 66):
                posenc.positional_encoding(1, 512, base=base)
                posenc.Sinusoidal(512, base=float(base))
        assert geometric.call_count == 64
        assert _cache.nbytes() < 1 << 25
        for base in range(2, 66):
            posenc.Rotary(2048, base=base)
            posenc.positional_encoding(1, 4096, base=base)
        assert _cache.nbytes() < 1 << 25


def test_small_calls_are_checked_like_any_other(backend: str) -> None:
    # One token's add takes a short way through the checks, where there is nothing to find.
    encoding = posenc.Sinusoidal(8)
    x = np.ones((1, 2, 8), np.float32)
    good = encoding.add(x, start=5, out=np.empty_like(x))
    np.testing.assert_array_equal(good, posenc.add(x, start=5))
    buffer = np.ones((1, 3, 8), np.float32)
    calls: list[tuple[type[Exception], Callable[[], object]]] = [
        (TypeError, lambda: encoding.add(x, out=np.empty((1, 2, 8)))),
        (ValueError, lambda: encoding.add(x, out=np.empty((1, 3, 8), np.float32))),
        (ValueError, lambda: encoding.add(x, out=read_only(x))),
        (ValueError, lambda: encoding.add(buffer[:, :2], out=buffer[:, 1:])),
        (ValueError, lambda: encoding.add(x, start=2**53, out=np.empty_like(x))),
        (ValueError, lambda: encoding.add(x, workers=0, out=np.empty_like(x))),
        (ValueError, lambda: posenc.Sinusoidal(6).add(x, out=np.empty_like(x))),
        (TypeError, lambda: encoding.add(x.astype(">i4"), out=np.empty_like(x))),
    ]
    for error, call in calls:
        with pytest.raises(error):
            call()
    swapped = byte_swapped(x)
    np.testing.assert_array_equal(encoding.add(swapped, start=5, out=np.empty_like(x)), good)
