"""Arrays for the tests in this folder, and summary lines of the random cases."""

import os

import pytest

import damacy


def pytest_terminal_summary(terminalreporter):
    """Prints the random cases in a line each at the end of `make test`."""
    reports = [r for name in ("passed", "failed") for r in terminalreporter.stats.get(name, [])]
    random_pipelines(terminalreporter, reports)
    reports = [r for r in reports if "test_random_cases.py::test_case[" in r.nodeid]
    failed = [r for r in reports if r.failed]
    hung = [r for r in failed if "Timeout" in r.longreprtext]
    if reports:
        passed_or_failed = len({r.nodeid for r in reports})
        terminalreporter.write_line(
            f"{passed_or_failed} cases, {len(failed) - len(hung)} mismatches, {len(hung)} hangs"
        )


def random_pipelines(terminalreporter, reports):
    """Prints how many random pipelines ran, and how many rows they had."""
    counts = {"pipelines": 0, "rows": 0}
    for report in reports:
        for name, value in report.user_properties if report.when == "call" else ():
            if name in counts:
                counts[name] += value
    if counts["pipelines"]:
        terminalreporter.write_line(f"{counts['pipelines']} random pipelines, {counts['rows']} rows, as stored")


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


@pytest.fixture(autouse=True, scope="module")
def fixtures_end_their_mounts(request):
    """A mount that stays is met by later tests of the process, for example when a server gets the same port."""
    before = damacy.mounts()
    yield
    assert damacy.mounts() == before, f"fixtures of {request.node.nodeid} changed the mounts"


@pytest.fixture(autouse=True)
def unmounted(fixtures_end_their_mounts):
    """Ends the mounts of the test."""
    before = dict(damacy.mounts())
    yield
    for prefix, _ in damacy.mounts():
        if prefix not in before:
            damacy.unmount(prefix)


@pytest.fixture
def no_aws(monkeypatch, tmp_path):
    """No variable and no file of the machine's own account; no metadata server."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
