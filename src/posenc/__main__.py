"""``python -m posenc``: the library at work on this machine."""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import posenc
from posenc import _backend


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m posenc", description="Show posenc at work on this machine."
    )
    parser.add_argument("--json", action="store_true", help="print the configuration alone")
    config = posenc.show_config()
    if parser.parse_args().json:
        print(json.dumps(config, indent=2))
        return
    print("posenc {version}, {backend} kernels, NumPy {numpy}, Python {python}".format(**config))
    _show_why()
    _show_encoding()
    _show_speed()


def _show_why() -> None:
    """Why better kernels are not used, if there are any."""
    unavailable = _backend.unavailable()
    backends_by_reason: dict[str, list[str]] = {}
    for backend in itertools.takewhile(lambda b: b != _backend.name, _backend._MODULES):
        reason = unavailable.get(backend, "POSENC_BACKEND forces others")
        backends_by_reason.setdefault(reason, []).append(backend)
    for reason, backends in backends_by_reason.items():
        print(f"   not {', '.join(backends)}: {reason}")


def _show_encoding() -> None:
    print("\nThe encoding of positions 0 to 3, d_model = 6:")
    for row in posenc.positional_encoding(4, 6):
        print("   " + " ".join(f"{entry:7.4f}" for entry in row))
    token = np.array([0.2, -0.1, 0.4, 0.3, -0.2, 0.5])
    print(f"\nThe embedding {token.tolist()} at two positions:")
    encoded = posenc.add(np.tile(token, (4, 1)))
    for position in (0, 3):
        entries = " ".join(f"{entry:g}" for entry in encoded[position].round(4))
        print(f"   {position}: {entries}")


def _show_speed() -> None:
    table = np.ones((2048, 1024), np.float32)
    x = np.ones((8, 2048, 1024), np.float32)
    out = np.ones_like(x)
    lines = [
        ("table (2048, 1024)", lambda: posenc.fill(table), lambda: _formula(2048, 1024)),
        (
            "add to a batch (8, 2048, 1024)",
            lambda: posenc.add(x, out=out),
            lambda: np.add(x, _formula(2048, 1024), out=out),
        ),
    ]
    print("\nTime in float32 on one thread, beside the NumPy formula:")
    for what, ours, theirs in lines:
        fast, slow = _milliseconds(ours), _milliseconds(theirs)
        print(f"   {what:32}{fast:8.2f} ms{slow:10.2f} ms{slow / fast:8.1f} times")


def _formula(length: int, d_model: int) -> npt.NDArray[np.float32]:
    """The encoding as one writes it in NumPy, its angles in float64."""
    angles = np.arange(length)[:, np.newaxis] / 10000.0 ** (np.arange(0, d_model, 2) / d_model)
    table = np.empty((length, d_model), np.float32)
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles)
    return table


def _milliseconds(work: Callable[[], Any]) -> float:
    work()
    times = []
    for _ in range(7):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times)


if __name__ == "__main__":
    main()
