"""``python -m posenc``"""

import json
import subprocess
import sys

import pytest
from internals import MODULES

import posenc
from posenc import _backend


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "posenc", *arguments], check=False, capture_output=True, text=True
    )


def test_it_shows_the_library_at_work() -> None:
    shown = command()
    assert shown.returncode == 0
    assert shown.stderr == ""
    for expected in (
        "0.8415  0.5403  0.0464  0.9989  0.0022  1.0000",
        "0: 0.2 0.9 0.4 1.3 -0.2 1.5",
        "3: 0.3411 -1.09 0.5388 1.2903 -0.1935 1.5",
        str(posenc.show_config()["backend"]),
        "table (2048, 1024)",
        "add to a batch",
    ):
        assert expected in shown.stdout


def test_it_says_why_better_kernels_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    # biopython/biopython#657: a slow fallback in silence
    monkeypatch.setenv("POSENC_BACKEND", "numpy")
    lines = command().stdout.splitlines()
    for backend in [b for b in MODULES if b != "numpy"]:
        reason = _backend.unavailable().get(backend, "POSENC_BACKEND forces others")
        assert any(
            line.startswith("   not ") and backend in line and line.endswith(f": {reason}")
            for line in lines
        )


def test_json_is_the_configuration_alone() -> None:
    assert json.loads(command("--json").stdout) == posenc.show_config()


def test_an_unknown_argument_is_a_usage_error() -> None:
    assert command("--jason").returncode == 2
