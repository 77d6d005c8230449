"""Every example of the documentation does what it says."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
MODULES = [
    "_config",
    "_presets",
    "bias",
    "grid",
    "learned",
    "positions",
    "relative",
    "rotary",
    "sinusoidal",
]


@pytest.mark.parametrize("name", [f"posenc.{module}" for module in MODULES])
def test_examples_of_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


def test_examples_of_the_readme() -> None:
    result = doctest.testfile(str(README), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0


def test_public_calls_are_documented_in_full() -> None:
    posenc = importlib.import_module("posenc")
    calls = {name: getattr(posenc, name) for name in posenc.__all__}
    positions = calls["positions"]
    calls |= {name: getattr(positions, name) for name in positions.__all__}
    for name, call in calls.items():
        if name != "__version__":
            text = call.__doc__
            assert "Examples\n" in text
            if name not in ("positions", "presets", "show_config"):
                assert "Parameters\n" in text
                assert "Raises\n" in text


def test_the_page_of_formulas_has_every_preset() -> None:
    page = (ROOT / "examples" / "conventions.md").read_text(encoding="utf-8")
    presets = importlib.import_module("posenc").presets()
    assert set(re.findall(r'of\("([^"]+)"', page)) == set(presets)


def test_every_test_file_that_is_named_to_contributors_is_there() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"\btests/\w+\.py\b", page)
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []
