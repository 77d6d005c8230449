"""Options of a trial run, and of a run that repeats another."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="short arrays, few rounds: a trial")
    parser.addoption("--unverified", action="store_true", help="times alone, no results")
