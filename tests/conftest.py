"""Every test that takes `backend` runs on every backend of this machine."""

import importlib
import os
from collections.abc import Iterator

import hypothesis
import pytest

from posenc import _backend, _recent

_PURE = os.environ.get("POSENC_BACKEND") == "numpy"

hypothesis.settings.register_profile(
    "posenc",
    deadline=None,
    max_examples=60,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
# For runs that repeat another on something else, --hypothesis-profile=again.
hypothesis.settings.register_profile(
    "again", hypothesis.settings.get_profile("posenc"), max_examples=15
)
hypothesis.settings.load_profile("posenc")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--slow"):
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="runs with --slow"))


def pytest_sessionstart() -> None:
    # A green run on the fallback alone would say nothing of the kernels.
    if not _PURE and "baseline" not in _backend.available():
        pytest.exit("the compiled core is missing; POSENC_BACKEND=numpy tests without it", 1)


@pytest.fixture(params=["numpy"] if _PURE else _backend.available())
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of the backend that the test runs on, with nothing prepared by another."""
    name: str = request.param
    module = importlib.import_module(f"posenc.{_backend._MODULES[name]}")
    monkeypatch.setattr(_backend, "kernels", module)
    monkeypatch.setattr(_backend, "name", name)
    forget()
    yield name
    forget()


def forget() -> None:
    _recent.clear()
