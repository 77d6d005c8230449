"""A good citizen of its process: threads, forks, signals, memory, floating-point state."""

import _thread
import contextlib
import gc
import itertools
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from arrays import Dtype, every_dtype
from internals import forget, plan_of

import posenc
from posenc import _backend, _pieces

linux = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads /proc")


def python(code: str, backend: str | None = None, timeout: float = 60) -> str:
    """What the code prints in a fresh process, where warnings are errors."""
    env = {k: v for k, v in os.environ.items() if k != "POSENC_BACKEND" or backend is None}
    if backend is not None:
        env["POSENC_BACKEND"] = backend
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(
        command, check=False, env=env, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_importing_prints_nothing_starts_no_thread_and_needs_numpy_alone() -> None:
    code = (
        "import os, sys, numpy; before = set(sys.modules);"
        "tasks = lambda: len(os.listdir('/proc/self/task')) if os.path.exists('/proc') else 1;"
        "threads = tasks(); import posenc; assert tasks() == threads;"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before};"
        "new = {name for name in new if 'cython' not in name} - {'posenc', 'numpy'};"
        "assert new <= set(sys.stdlib_module_names), new"
    )
    assert python(code) == ""


def test_subnormal_numbers_survive_the_import() -> None:
    # gevent/gevent#1820: a library linked with -ffast-math flushed them for everybody
    code = (
        "import sys, numpy as np; half = sys.float_info.min / 2; assert half != 0.0;"
        "import posenc; posenc.positional_encoding(100, 8);"
        "assert sys.float_info.min / 2 == half;"
        "assert np.finfo(np.float32).smallest_subnormal > 0"
    )
    for name in posenc.show_config()["available"]:
        python(code, name)


def test_threads_of_the_caller_may_share_everything(backend: str) -> None:
    expected = {d: posenc.encode(np.arange(120), d) for d in range(64, 90, 2)}
    forget()
    barrier = threading.Barrier(8)

    def work(seed: int) -> bool:
        barrier.wait()
        good = True
        for k in range(30):
            d = 64 + 2 * ((seed * 7 + k) % 13)
            table = posenc.positional_encoding(100, d, start=seed)
            good &= np.array_equal(table, expected[d][seed : seed + 100])
        return good

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


@pytest.mark.alone
def test_other_threads_run_while_a_kernel_does(backend: str) -> None:
    # scipy/scipy#13091: the GIL was held although everything was marked nogil
    encoding = posenc.Sinusoidal(512)
    out = np.empty((1, 100_000, 512), np.float32)
    began, ended = [], []

    def work() -> None:
        began.append(time.monotonic())
        _backend.kernels.fill(out, 0.0, None, plan_of(encoding), False, 0, 100_000)
        ended.append(time.monotonic())

    thread = threading.Thread(target=work)
    thread.start()
    ticks = []
    while thread.is_alive():
        time.sleep(0.0005)
        ticks.append(time.monotonic())
    assert sum(began[0] < tick < ended[0] for tick in ticks) > 5


@linux
def test_no_thread_outlives_a_call(backend: str) -> None:
    before = len(os.listdir("/proc/self/task"))
    posenc.positional_encoding(6000, 512, workers=4)
    give_up = time.monotonic() + 10
    while len(os.listdir("/proc/self/task")) > before:  # one that has ended may take a moment to go
        assert time.monotonic() < give_up


def test_an_error_in_a_thread_reaches_the_caller(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no scratch")

    encoding = posenc.Sinusoidal(512)
    encoding.table(1)
    monkeypatch.setattr(_backend.kernels, "fill", fail)
    with pytest.raises(MemoryError, match="no scratch"):
        encoding.table(20_000, workers=2)


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_as_many_threads_run_as_there_are_workers(
    backend: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set()
    fill = _backend.kernels.fill
    meet = threading.Barrier(workers)

    def spy(*arguments: object) -> None:
        if threading.get_ident() not in seen:
            seen.add(threading.get_ident())
            meet.wait(30)
        fill(*arguments)  # type: ignore[arg-type]

    encoding = posenc.Sinusoidal(512)
    kernels = SimpleNamespace(**{**vars(_backend.kernels), "fill": spy})
    monkeypatch.setattr(_backend, "kernels", kernels)
    encoding.table(10_000, workers=workers)
    assert len(seen) == workers


def test_negative_workers_count_from_the_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(6), raising=False)
    assert [_pieces.thread_count(n) for n in (-1, -2, -6, 1, 99)] == [6, 5, 1, 1, 99]
    with pytest.raises(ValueError, match="-1 to -6"):
        _pieces.thread_count(-7)


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_threads_that_cannot_start_are_done_without(
    backend: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: object) -> None:
        raise error

    expected = posenc.positional_encoding(9000, 256)
    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    np.testing.assert_array_equal(posenc.positional_encoding(9000, 256, workers=4), expected)


def test_a_thread_that_never_begins_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where memory ends, and the new thread dies before its first line."""
    started = []
    monkeypatch.setattr(_thread, "start_new_thread", lambda *call: started.append(call))
    got = posenc.positional_encoding(9000, 256, workers=3)
    np.testing.assert_array_equal(got, posenc.positional_encoding(9000, 256))
    assert len(started) == 2
    kept = got.copy()
    got[...] = 7.0
    for other, arguments in started:  # and one that begins late finds nothing to do
        other(*arguments)
    assert (got == 7.0).all()
    assert not (kept == 7.0).any()


def test_an_error_of_the_recursion_limit_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a RuntimeError too, but not the one of a system without more threads."""

    def refuse(*_: object) -> None:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    with pytest.raises(RecursionError):
        posenc.positional_encoding(9000, 256, workers=2)
    monkeypatch.undo()
    x = np.ones((8, 4096, 128), np.float32)

    def deep(left: int) -> object:
        return deep(left - 1) if left else posenc.add(x, workers=2)

    outcomes = set()
    for depth in range(sys.getrecursionlimit() - 200, sys.getrecursionlimit(), 5):
        try:
            deep(depth)
            outcomes.add("result")
        except RecursionError:
            outcomes.add("limit")
    assert "limit" in outcomes


def test_an_interrupt_of_the_start_stops_the_threads_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = _thread.start_new_thread

    def interrupted(*arguments: Any) -> None:
        start(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(_thread, "start_new_thread", interrupted)
    out = np.zeros((60_000, 256), np.float32)
    with pytest.raises(KeyboardInterrupt):
        posenc.fill(out, workers=3)
    assert_nothing_is_written(out)


@pytest.mark.alone
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer on this system")
def test_nothing_is_written_once_a_signal_has_ended_a_call(backend: str) -> None:
    """Signals that come while a thread is waited for: python/cpython#89437."""

    left = 0

    def interrupt(*_: object) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise KeyboardInterrupt

    def ends_by_a_signal(delay: float) -> bool:
        nonlocal left
        left = 2  # the second amid the waiting for the threads
        try:
            signal.setitimer(signal.ITIMER_REAL, delay, 0.002)
            posenc.add(x, out=out, workers=3)
        except KeyboardInterrupt:
            left = 0
            return True
        left = 0
        return False

    x = np.ones((24, 1024, 512), np.float32)
    out = np.empty_like(x)
    before = signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    gc.disable()  # hypothesis times it by a callback, in which an exception is a warning
    try:
        for delay in np.linspace(0.001, 0.03, 20).tolist():
            out[...] = 0.0
            if ends_by_a_signal(delay):
                interrupted += 1
                assert_nothing_is_written(out)
    finally:
        left = 0
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    assert interrupted


def assert_nothing_is_written(out: np.ndarray) -> None:
    written = np.count_nonzero(out)
    time.sleep(0.05)
    assert np.count_nonzero(out) == written


def test_positions_that_change_meanwhile_give_rows_or_an_error(backend: str) -> None:
    positions = np.zeros(4000)
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            positions[:] = np.nan
            positions[:] = 0.0

    ends: Counter[str] = Counter()
    thread = threading.Thread(target=flip)
    thread.start()
    give_up = time.monotonic() + 30
    try:
        while (ends.total() < 300 or not ends["rows"]) and time.monotonic() < give_up:
            try:
                rows = posenc.encode(positions, 2)
            except ValueError as error:
                ends[str(error).partition(" must")[0]] += 1
            else:
                assert (rows == [0.0, 1.0]).all()
                ends["rows"] += 1
    finally:
        stop.set()
        thread.join()
    assert ends["rows"]
    assert {*ends} <= {"rows", "positions"}


def rows_of_a_rank(start: int) -> bytes:
    return posenc.positional_encoding(3000, 256, start=start, workers=2).tobytes()


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_workers_of_a_pool_work_after_threads_in_the_parent(method: str) -> None:
    # pytorch/pytorch#17199, dmlc/xgboost#7044: an OpenMP pool that did not survive the fork
    expected = [rows_of_a_rank(start) for start in range(3)]
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map_async(rows_of_a_rank, range(3)).get(60) == expected


@linux
@pytest.mark.alone
def test_forked_workers_copy_nothing_of_what_is_prepared(backend: str) -> None:
    # pytorch/pytorch#5902: tables that every worker of a loader copied
    code = """
import mmap, os, numpy as np, posenc
encoding = posenc.Sinusoidal(1 << 16)  # prepares 32 MB
shared = np.frombuffer(mmap.mmap(-1, 1 << 20), np.float32).reshape(4, 1 << 16)
encoding.add(shared, out=shared)
def private():
    with open('/proc/self/smaps_rollup') as f:
        return sum(int(line.split()[1]) for line in f if line.startswith('Private_Dirty'))
if (child := os.fork()) == 0:
    before = private()
    for _ in range(20):
        encoding.add(shared, out=shared)
    os._exit(private() - before > 8192)
assert os.waitpid(child, 0)[1] == 0
"""
    python(code, backend)


@pytest.mark.alone
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs an interval timer")
@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_ends_a_call_between_two_pieces(backend: str, workers: int) -> None:
    # scikit-learn/scikit-learn#9136, rapidfuzz/RapidFuzz#133
    code = f"""
import signal, threading, numpy as np, posenc
out = np.zeros((1 << 18, 512), np.float32)
posenc.fill(out[:64])
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.02)
try:
    posenc.fill(out, workers={workers})
except KeyboardInterrupt:
    print(bool(out[0].any()), bool(out[-1].any()), threading.active_count())
assert np.array_equal(posenc.fill(out[:9]), posenc.encode(range(9), 512, dtype='f4'))
"""
    assert python(code, backend).split() == ["True", "False", "1"]


@linux
@pytest.mark.alone
def test_memory_stays_where_it_was_after_many_calls() -> None:
    # cython/cython#1638, jfowkes/pycutest#108: 8 KB lost with every call
    code = """
import sys, numpy as np, posenc
x = np.zeros((1, 16, 64), np.float32); o = x.copy(); p = np.arange(16)
w = np.zeros((50, 64), np.float16); m = p % 2; learned = posenc.Learned(w)
def resident():
    with open('/proc/self/statm') as f:
        return int(f.read().split()[1]) * 4
def calls(n):
    for i in range(n):
        posenc.add(x, out=o); posenc.add(x); posenc.encode(p, 64)
        posenc.embed(p, w, mask=m)
        if i % 8 == 0:
            learned.embed(p, w, positions=posenc.positions.from_mask(m)); posenc.add(x, mask=m)
            for wrong in ([50], [-1], [0.5]):
                try: posenc.embed(wrong, w)
                except (TypeError, IndexError): pass
            for wrong in (dict(out=o[:, :3]), dict(positions=[3]), dict(scale='1')):
                try: posenc.add(x, **wrong)
                except (TypeError, ValueError): pass
        if i % 64 == 0:
            posenc.positional_encoding(4, 64, base=10000.0 + i)
calls(3000)
held = lambda: [sys.getrefcount(a) for a in (x, o, p, w, m)]
before = resident(), held()
calls(40000)
assert resident() - before[0] < 2048, (resident(), before)
assert before[1] == held()
"""
    python(code, timeout=170)


@linux
@pytest.mark.alone
@pytest.mark.parametrize(
    "call",
    [
        "posenc.fill(out)",
        "posenc.add(out, out=out)",
        "posenc.add(out, out=out, positions=scattered)",
        "posenc.encode(scattered, 1024, out=out)",
        "posenc.encode(scattered + 0.5, 1024, out=out)",
    ],
)
def test_a_call_needs_its_output_and_a_bounded_block(backend: str, call: str) -> None:
    code = f"""
import resource, numpy as np, posenc
out = np.ones((1 << 15, 1024), np.float32)
scattered = np.random.default_rng(0).permutation(1 << 15)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
{call}
print(peak() - before)
"""
    assert int(python(code, backend)) <= (64 if backend == "numpy" else 8) * 1024


WRITERS: dict[str, Callable[[np.ndarray], object]] = {
    "fill": lambda out: posenc.fill(out, start=31),
    "add": lambda out: posenc.add(out, out=out, start=31),
    "encode": lambda out: posenc.encode(np.arange(len(out))[::-1] * 7, out.shape[1], out=out),
    "embed": lambda out: posenc.embed(np.arange(len(out))[::-1], out.copy(), out=out),
    "mask": lambda out: posenc.add(out, mask=np.arange(len(out)) % 3 > 0, out=out),
    "learned": lambda out: posenc.Learned(out.copy()).add(out, out=out),
    "rotate": lambda out: posenc.Rotary(out.shape[1]).rotate(out, out=out, start=31),
    "tables": lambda out: posenc.Rotary(out.shape[1]).tables(len(out), out=(out, out.copy())),
}


@every_dtype
@pytest.mark.parametrize("kind", WRITERS)
def test_kernels_stay_inside_their_arrays(backend: str, kind: str, dtype: Dtype) -> None:
    """Guard bytes around every output; the sanitizers look closer where they are built in."""
    for shape in itertools.product((1, 2, 3, 33, 64, 65, 130), (2, 6, 8, 18, 34)):
        size = math.prod(shape)
        guarded = np.full(size + 128, 5.0, dtype)
        WRITERS[kind](guarded[64 : 64 + size].reshape(shape))
        assert (guarded[:64] == 5.0).all(), shape
        assert (guarded[64 + size :] == 5.0).all(), shape


@pytest.mark.filterwarnings("ignore:Setting the shape")  # deprecated, and still there
def test_a_new_shape_amid_a_call_reaches_no_kernel(backend: str) -> None:
    class Reshapes:
        """An argument whose checks change an array that has been checked before."""

        def __init__(self, array: np.ndarray, shape: tuple[int, ...]) -> None:
            self.array, self.shape = array, shape

        def __index__(self) -> int:
            self.array.shape = self.shape
            return 0

    calls: list[Callable[[np.ndarray, Reshapes], object]] = [
        lambda out, start: posenc.fill(out, start=start),
        lambda out, start: posenc.add(out, start=start, out=out),
        lambda out, start: posenc.Sinusoidal(64).fill(out, start=start),
        lambda out, start: posenc.Rotary(64).rotate(out, start=start, out=out),
        lambda out, start: posenc.Learned(np.ones((64, 64))).add(out, start=start, out=out),
    ]
    for call in calls:
        whole = np.full(8192, 7.0)
        out = whole[:4096].reshape(64, 64)
        with contextlib.suppress(ValueError):  # where it is seen in time
            call(out, Reshapes(out, (4096, 1)))
        assert (whole[4096:] == 7.0).all()
    weight = np.arange(40.0).reshape(10, 4)
    with pytest.raises(ValueError, match="weight must have last axis 4"):
        posenc.embed([9], weight, start=Reshapes(weight, (1, 40)))


@linux
@pytest.mark.alone
def test_forked_workers_share_the_tables_of_their_parent(backend: str) -> None:
    # pytorch/pytorch#5902, pytorch/pytorch#63301: what is only read must stay shared
    code = """
import os, re, sys
import numpy as np, posenc
weight = np.ones((1 << 15, 512), np.float32)
learned, ids = posenc.Learned(weight), np.arange(1 << 15).reshape(64, -1)
out = np.empty((8, 512, 512), np.float32)
def work():
    for part in range(0, 64, 8):
        posenc.embed(ids[part : part + 8], weight, out=out)
        learned.embed(ids[part : part + 8], weight, positions=ids[part : part + 8], out=out)
def private():
    with open("/proc/self/smaps_rollup") as f:
        return sum(map(int, re.findall(r"Private_Dirty: *([0-9]+)", f.read()))) >> 10
work()
for _ in range(4):
    if os.fork() == 0:
        work()
        before = private()
        work()
        os._exit(private() - before > 8 or private() > 32)
sys.exit(any(os.wait()[1] for _ in range(4)))
"""
    python(code, backend)


def test_families_are_imported_when_they_are_asked_for() -> None:
    code = """
import sys, posenc
later = {"posenc.rotary", "posenc.learned", "posenc.grid", "posenc.bias", "posenc.relative"}
assert not later & set(sys.modules)
assert set(posenc.__all__) <= set(dir(posenc))
for name in posenc.__all__:
    assert getattr(posenc, name) is getattr(posenc, name)
assert later <= set(sys.modules)
try:
    posenc.rotery
except AttributeError as error:
    assert "rotery" in str(error)
else:
    raise SystemExit("a name that is not there")
"""
    python(code)
