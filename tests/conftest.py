"""Every test that takes `backend` runs on every backend of this machine.

`reference.py` says what is right, in mpmath; `arrays.py` has the dtypes, the forms of arrays and how
they are compared, `internals.py` private names that several files need. A test that
measures its process's memory or waits for a signal is marked `alone`, one of minutes `slow`. What
frameworks compute is in `oracles`, which this run leaves out.
"""

import os
from collections.abc import Iterator

import hypothesis
import mpmath
import pytest
from internals import forget, kernels_of

from posenc import _backend

mpmath.mp.dps = 80  # the judge of every number
pytest.register_assert_rewrite("arrays")

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
    monkeypatch.setattr(_backend, "kernels", kernels_of(name))
    monkeypatch.setattr(_backend, "name", name)
    forget()
    yield name
    forget()
