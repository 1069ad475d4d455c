"""Shared by tests that cross layers: search paths of the package and of the tests' support, options, and time limits.

A test that hangs is killed with all stacks printed; waits inside damacy are interruptible, so the alarm reaches them.
Knows no fixture data: those are in the folders' own files.
"""

import faulthandler
import pathlib
import signal
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

try:
    import damacy  # noqa: F401
except ImportError:
    sys.path.insert(0, str(HERE.parent / "python"))

TIME_LIMIT_S = 60


def pytest_addoption(parser):
    parser.addoption("--cases", type=int, default=None, help="number of random cases (default: DAMACY_CASES, else few)")
    parser.addoption("--pipelines", type=int, default=None, help="number of random pipelines (default: 60)")
    parser.addoption("--first-case", type=int, default=0, help="number of the first of them, to share the work out")
    parser.addoption("--case-seed", type=int, default=None, help="run only the random case of this number")
    parser.addoption("--rounds", type=int, default=None, help="rounds of the tests that provoke races (default: few)")


def pytest_configure(config):
    faulthandler.enable()
    config.addinivalue_line("markers", "timeout(seconds): the test is ended after this long")


def pytest_collection_modifyitems(items):
    for item in items:
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TIME_LIMIT_S))


@pytest.fixture(autouse=True)
def last_resort(request):
    """If even the alarm cannot reach a hung call, the process ends with the stacks of all threads."""
    limit = request.node.get_closest_marker("timeout").args[0]
    faulthandler.dump_traceback_later(limit + TIME_LIMIT_S, exit=True)
    alarm = not request.config.pluginmanager.hasplugin("timeout")  # pytest-timeout may not be installed
    if alarm:
        signal.signal(signal.SIGALRM, _end)
        signal.setitimer(signal.ITIMER_REAL, limit)
    yield
    if alarm:
        signal.setitimer(signal.ITIMER_REAL, 0)
    faulthandler.cancel_dump_traceback_later()


def _end(number, frame):
    faulthandler.dump_traceback()
    pytest.fail("Timeout: the test's time is up", pytrace=True)
