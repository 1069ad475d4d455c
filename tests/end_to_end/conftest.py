"""What every test here shares: time limits, the number of random cases, arrays to read, and where the package is.

A test that hangs is killed with all stacks printed; waits inside damacy are interruptible, so the alarm reaches them.
"""

import faulthandler
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


def pytest_terminal_summary(terminalreporter):
    """The random cases in one line: what `make test` shows last."""
    reports = [r for name in ("passed", "failed") for r in terminalreporter.stats.get(name, [])]
    reports = [r for r in reports if "test_random_cases.py::test_case[" in r.nodeid]
    failed = [r for r in reports if r.failed]
    hung = [r for r in failed if "Timeout" in r.longreprtext]
    if reports:
        passed_or_failed = len({r.nodeid for r in reports})
        terminalreporter.write_line(
            f"{passed_or_failed} cases, {len(failed) - len(hung)} mismatches, {len(hung)} hangs"
        )


@pytest.fixture
def line(tmp_path):
    from support.line import make_line

    return make_line(tmp_path / "line.zarr")


@pytest.fixture
def volume(tmp_path):
    """48 x 64 u16 in chunks of 16 x 16: twelve objects, none of them all fill."""
    from support.streaming import store

    return store(tmp_path / "volume.zarr", (48, 64), (16, 16))


@pytest.fixture(scope="session")
def slow_array(tmp_path_factory):
    from support.slow import make_slow_array

    return make_slow_array(tmp_path_factory.mktemp("slow") / "slow.zarr")
