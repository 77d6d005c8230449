"""What every message must have, held against wrong calls of everything public.

A message begins with the name of the argument, or of the call where a keyword is unknown, and says
what came; in at most 300 characters, whatever came; in our words, not in those of NumPy, Python or
decimal. It comes as TypeError, ValueError or IndexError, and survives being raised anew in another
process: from its type and its text alone.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from arrays import ALL, read_only

X = np.zeros((2, 5, 8), np.float32)
W = np.zeros((20, 8), np.float32)
HUGE = 10**5000
RAGGED = [[1.0, 2.0], [3.0]]
MASKED = np.ma.masked_array(np.ones((5, 8)), mask=np.eye(5, 8, dtype=bool))
READ_ONLY = read_only(np.zeros((5, 8), np.float32))

# Of every call, arguments that are right.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "positional_encoding": (ALL.positional_encoding, {"length": 5, "d_model": 8}),
    "fill": (ALL.fill, {"out": np.zeros((5, 8))}),
    "encode": (ALL.encode, {"positions": range(5), "d_model": 8}),
    "add": (ALL.add, {"x": X}),
    "embed": (ALL.embed, {"ids": [1, 2], "weight": W}),
    "relative_encoding": (ALL.relative_encoding, {"length": 5, "d_model": 8}),
    "grid_encoding": (ALL.grid_encoding, {"shape": (2, 3), "d_model": 8}),
    "alibi_slopes": (ALL.alibi_slopes, {"heads": 4}),
    "alibi_bias": (ALL.alibi_bias, {"heads": 4, "q_len": 3, "k_len": 3}),
    "t5_buckets": (ALL.t5_buckets, {"q_len": 3, "k_len": 3}),
    "Sinusoidal": (ALL.Sinusoidal, {"d_model": 8}),
    "preset": (ALL.Sinusoidal.preset, {"name": "whisper", "d_model": 8}),
    "Sinusoidal.table": (ALL.Sinusoidal(8).table, {"length": 5}),
    "Sinusoidal.fill": (ALL.Sinusoidal(8).fill, {"out": np.zeros((5, 8))}),
    "Sinusoidal.encode": (ALL.Sinusoidal(8).encode, {"positions": range(5)}),
    "Sinusoidal.add": (ALL.Sinusoidal(8).add, {"x": X}),
    "Sinusoidal.embed": (ALL.Sinusoidal(8).embed, {"ids": [1, 2], "weight": W}),
    "Learned": (ALL.Learned, {"weight": W}),
    "Learned.add": (ALL.Learned(W).add, {"x": X}),
    "Learned.embed": (ALL.Learned(W).embed, {"ids": [1, 2], "token_weight": W}),
    "Rotary": (ALL.Rotary, {"dim": 8}),
    "Rotary.tables": (ALL.Rotary(8).tables, {"length": 5}),
    "Rotary.rotate": (ALL.Rotary(8).rotate, {"x": X}),
    "from_lengths": (ALL.positions.from_lengths, {"lengths": [2, 3]}),
    "from_cu_seqlens": (ALL.positions.from_cu_seqlens, {"cu_seqlens": [0, 2, 5]}),
    "from_segments": (ALL.positions.from_segments, {"segments": [1, 1, 2]}),
    "from_mask": (ALL.positions.from_mask, {"mask": [1, 1, 0]}),
    "from_ids": (ALL.positions.from_ids, {"ids": [5, 6, 1], "padding_idx": 1}),
    "to_lengths": (ALL.positions.to_lengths, {"position_ids": [0, 1, 0]}),
    "to_cu_seqlens": (ALL.positions.to_cu_seqlens, {"position_ids": [0, 1, 0]}),
}
CONVENTION = (
    "base",
    "shift",
    "freq_scale",
    "amplitude",
    "layout",
    "odd",
    "cos_first",
    "frequencies",
)

NO_INTEGER = [1.5, "3", [3], True, np.True_, np.ones(3), 1j, b"3", {}, object(), -HUGE]
NO_NUMBER = [
    "1",
    [1.0],
    1j,
    True,
    np.ones(2),
    np.array(1j),
    np.array("1"),
    {},
    b"1",
    object(),
    HUGE,
]
NO_ARRAY = ["abc", RAGGED, MASKED, {}, object(), [object()], [1j], np.zeros(3, "M8[s]")]
NO_INTEGERS = [*NO_ARRAY, [1.5], [True], [HUGE], [-HUGE], ["1"]]
NOT_OUT = [[1.0], "abc", object(), X.astype(int), X.astype(">f4"), np.zeros(6), READ_ONLY]

WRONG: dict[str, list[Any]] = {
    **{name: [*NO_INTEGER, None] for name in ("d_model", "start", "heads", "dim", "padding_idx")},
    **{name: [*NO_INTEGER, 2**70] for name in ("length", "q_len", "k_len", "num_buckets")},
    **{name: NO_INTEGER for name in ("workers", "extra_rows", "max_distance")},
    **{
        name: NO_NUMBER
        for name in ("scale", "base", "shift", "amplitude", "freq_scale", "attention_factor")
    },
    **{
        name: ["x" * 10**6, 3, [], np.array(["split"])]
        for name in ("layout", "odd", "name", "preset")
    },
    **{
        name: [1, "true", None, np.ones(2), [True]]
        for name in ("cos_first", "causal", "bidirectional", "per_axis", "inverse")
    },
    **{
        name: [*NO_ARRAY, None, np.ones((3, 8), int), np.ones(8), [[True] * 8]]
        for name in ("x", "weight", "token_weight")
    },
    "positions": [*NO_ARRAY, [np.nan], [np.inf], [2**53 + 1], [2**53 + 1, 0.5], [HUGE]],
    "frequencies": [*NO_ARRAY, [np.nan], [[1.0]], [], [True] * 4, np.ones(10**6)],
    "mask": [*NO_ARRAY, [0.5], [2], [-1], ["1"], [HUGE]],
    **{
        name: NO_INTEGERS
        for name in ("ids", "lengths", "cu_seqlens", "position_ids", "q_positions", "k_positions")
    },
    "segments": [*NO_ARRAY, [1.5], [HUGE], [-HUGE], ["1"]],
    "axes": [*NO_ARRAY[3:], [1.5], 3, [-1, 0], [HUGE, 1]],
    "shape": [3, None, (), (1.5,), ("2",), (True, 2), (2, -1), (2, HUGE), (1,) * 100],
    "coordinates": [3, [[1, 2]], [RAGGED, [1]], [["a", "b"], [1, 2, 3]], [[0, np.nan], [1, 2, 3]]],
    "dtype": ["x" * 1000, int, object(), ">f4", (1, 2, 3), np.dtype([("a", "f4")] * 1), "M8[s]"],
    "out": NOT_OUT,
}
# What a table of learned positions asks of them is more.
OF_LEARNED = {"positions": [*NO_INTEGERS, [99] * 5]}


def cases() -> Iterator[tuple[str, str, Any]]:
    """A call, one of its arguments, and a value that is wrong for it."""
    for call, (function, right) in CALLS.items():
        parameters = inspect.signature(function).parameters
        names = [name for name in (*parameters, *right) if name != "convention"]
        if "convention" in parameters:
            names += CONVENTION
        for name in dict.fromkeys(names):
            wrong = WRONG.get(name, [])
            if call.startswith("Learned."):
                wrong = OF_LEARNED.get(name, wrong)
            for value in wrong:
                yield call, name, value


CASES = list(cases())
# Words of NumPy, Python and decimal.
FOREIGN = re.compile(
    r"inhomogeneous|setting an array element|could not convert|too large to convert|index-sized"
    r"|maximum (supported|allowed)|number of dimensions|limit \(4300|unhashable|InvalidOperation"
    r"|ambiguous|broadcast together|only supports|not iterable|has no attribute|__\w+__",
    re.IGNORECASE,
)


def check_message(error: BaseException, begins: str) -> None:
    message = str(error)
    assert type(error) in (TypeError, ValueError, IndexError), repr(error)[:300]
    assert re.match(rf"(all )?{begins}\b", message), message[:300]
    assert re.search("got|given|must", message), message
    assert len(message) <= 300, message[:400]
    assert not FOREIGN.search(message), message
    assert str(type(error)(*error.args)) == message


def test_the_generator_has_every_argument_of_every_call() -> None:
    assert len(CASES) > 361
    tried = {(call, name) for call, name, _ in CASES}
    for call, (function, _) in CALLS.items():
        for name in inspect.signature(function).parameters:
            if name not in ("convention", "overrides"):
                assert (call, name) in tried


@pytest.mark.parametrize(
    ("call", "name", "value"),
    CASES,
    ids=[f"{call}-{name}-{i}" for i, (call, name, _) in enumerate(CASES)],
)
def test_a_wrong_argument_is_named_with_what_came(call: str, name: str, value: Any) -> None:
    function, right = CALLS[call]
    arguments = {**right, name: value}
    if name in ("q_positions", "k_positions"):
        arguments |= {"q_len": None, "k_len": None, "q_positions": [0]} | {name: value}
    with pytest.raises((TypeError, ValueError, IndexError)) as caught:
        function(**arguments)
    check_message(caught.value, name)


@pytest.mark.parametrize("call", CALLS)
def test_an_unknown_keyword_is_that_of_the_call(call: str) -> None:
    """A typing mistake is answered with the call's own name, and where it takes many with these."""
    function, right = CALLS[call]
    with pytest.raises(TypeError) as caught:
        function(**right, posisions=[1])
    message = str(caught.value)
    name = call if inspect.isfunction(function) or call == "preset" else f"{call}.*"
    assert re.match(rf"(\w+\.)*{name}\(\) got an unexpected keyword argument 'posisions'", message)
    if "convention" in inspect.signature(function).parameters:
        assert "it takes" in message
        assert all(keyword in message for keyword in CONVENTION)
    assert len(message) <= 300
