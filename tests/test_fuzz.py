"""The fuzzer finds nothing in some hundred calls, and does find what is planted."""

import sys
from pathlib import Path

import fuzz
import fuzz_judge
import pytest
from fuzz_arguments import make, public

import posenc

HERE = Path(__file__).parent


def test_some_hundred_calls_are_made_half_of_them_right_and_none_is_a_finding() -> None:
    report = fuzz.Report()
    fuzz.hunt([sys.executable, fuzz.__file__], 10**9, 300, 300.0, 1, report)
    assert report.findings == {}
    assert report.calls == sum(report.ends.values()) == 300
    right = sum(count for (_, end), count in report.ends.items() if end == "result")
    assert 0.4 < right / 300 < 0.8


def test_every_public_call_is_made() -> None:
    assert {*posenc.__all__} <= {"positions", "__version__", *public()}
    assert {f"positions.{name}" for name in posenc.positions.__all__} <= {*public()}
    assert list(fuzz.without_valid_calls()) == []


def test_a_seed_is_a_call() -> None:
    assert [str(make(seed)) for seed in range(99)] == [str(make(seed)) for seed in range(99)]


# What a kernel does instead, and the kind of finding that it must be.
PLANTED = {
    "a byte behind out": (
        "memory changed",
        """
def fill(honest, out, *rest):
    honest(out, *rest)
    if out.flags.c_contiguous:
        ctypes.memset(out.ctypes.data + out.nbytes, 1, 1)
""",
    ),
    "a refused out that is written to": (
        "memory changed",
        """
def fill(honest, out, *rest):
    out[...] = 0
    raise ValueError("too late")
""",
    ),
    "wrong bits on one backend": (
        "backends differ",
        """
def fill(honest, out, *rest):
    honest(out, *rest)
    if honest == first:
        out[..., -1:] = 0.5
""",
    ),
    "wrong bits on every backend": (
        "wrong result",
        """
def add(honest, out, x, ids, start, *rest):
    honest(out, x, ids, start + 1, *rest)

def try_add(honest, *rest):
    return None
""",
    ),
    "an exception of its own": (
        "exception",
        """
def fill(honest, *rest):
    raise ZeroDivisionError("amid a kernel")
""",
    ),
    "a message without end": (
        "message",
        """
def fill(honest, *rest):
    raise ValueError("x" * 301)
""",
    ),
    "a crash": (
        "crash",
        """
def fill(honest, *rest):
    os.abort()
""",
    ),
    "a hang": (
        "hang",
        """
def fill(honest, *rest):
    time.sleep(1000)
""",
    ),
    "memory without bound": (
        "memory",
        """
kept = []
def fill(honest, *rest):
    kept.append(np.ones(fuzz_judge.GROWTH + (100 << 20), np.uint8))
    honest(*rest)
""",
    ),
    "time without bound": (
        "slow",
        """
fuzz_judge.SECONDS = 0.5
def fill(honest, *rest):
    begin = time.process_time()
    while time.process_time() < begin + 0.6:
        pass
    honest(*rest)
""",
    ),
}
_COMMAND = f"""
import ctypes, functools, os, sys, time
sys.path.insert(0, {str(HERE)!r})
import fuzz, fuzz_judge, numpy as np
first = next(iter(fuzz_judge.backends().values())).fill
%s
for backend in fuzz_judge.backends().values():
    for name in ("fill", "try_fill", "add", "try_add"):
        if name in globals():
            setattr(backend, name, functools.partial(globals()[name], getattr(backend, name)))
called = "Sinusoidal.add" if "add" in globals() else "Sinusoidal.fill"
fuzz_judge.check = functools.partial(fuzz_judge.check, name=called, spoil=False)
sys.exit(fuzz.main())
"""


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, code = PLANTED[fault]
    if kind == "backends differ" and len(fuzz_judge.backends()) < 2:
        pytest.skip("there is one backend")
    monkeypatch.setattr(fuzz, "HANG", 2.0 if kind == "hang" else fuzz.HANG)
    report = fuzz.Report()
    fuzz.hunt([sys.executable, "-c", _COMMAND % code], 0, 4, 300.0, 1, report)
    assert kind in {found.partition(" (")[0] for _, found, _ in report.findings}
    assert report.calls == 4
