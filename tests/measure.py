"""What calls take beside their result, and how soon they see a signal. For tests marked `alone`."""

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy.typing as npt

# Bytes beside a result, whatever its shape.
BOUND = 5_000_000


def memory_beside(call: Callable[[], npt.NDArray[Any]], result_bytes: int | None = None) -> int:
    """The most bytes that a call has at a time, without those of its result: 0 where it is given."""
    call()  # prepares what later calls share
    tracemalloc.start()
    try:
        result = call()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return peak - (result.nbytes if result_bytes is None else result_bytes)


def seconds_to_see_ctrl_c(call: str) -> float:
    """From a signal amid a call, in a fresh process, to the end of the call."""
    code = f"""
import signal, time, numpy as np, posenc
posenc.alibi_bias, posenc.t5_buckets, posenc.grid_encoding  # imported before the clock starts
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.1)
began = time.monotonic()
try:
    {call}
except KeyboardInterrupt:
    print(time.monotonic() - began - 0.1)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout, f"{call} ended before the signal"
    return float(done.stdout)
