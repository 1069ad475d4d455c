"""What every test here shares: time limits, the number of random cases, arrays to read, and where the package is.

A test that hangs is killed with all stacks printed; waits inside damacy are interruptible, so the alarm reaches them.
"""

import faulthandler
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))

try:
    import damacy  # noqa: F401
except ImportError:
    sys.path.insert(0, str(ROOT / "python"))

TIME_LIMIT_S = 60


def pytest_addoption(parser):
    parser.addoption("--cases", type=int, default=None, help="number of random cases (default: DAMACY_CASES, else 60)")
    parser.addoption("--case-seed", type=int, default=None, help="run only the random case of this number")


def pytest_configure(config):
    faulthandler.enable()
    config.addinivalue_line("markers", "cases: the random cases, counted in the last line")


def pytest_collection_modifyitems(items):
    for item in items:
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TIME_LIMIT_S))


@pytest.fixture(autouse=True)
def last_resort(request):
    """If even the alarm cannot reach a hung call, the process ends with the stacks of all threads."""
    limit = request.node.get_closest_marker("timeout").args[0]
    faulthandler.dump_traceback_later(limit + TIME_LIMIT_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def number_of_cases(config) -> int:
    given = config.getoption("--cases", default=None)
    return given if given is not None else int(os.environ.get("DAMACY_CASES", "60"))
