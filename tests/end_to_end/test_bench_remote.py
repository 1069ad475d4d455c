"""`damacy bench remote`: ranges of one object, with more and more requests under way; the settings that follow."""

import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from damacy._cli.bench_remote import Report, Row

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer, status  # noqa: E402

SHORT = ("--seconds", "0.05", "--request-bytes", "4096")


@pytest.fixture
def server(tmp_path):
    data = np.random.default_rng(0).integers(0, 60000, (16, 64, 64), dtype="u2")
    zarr.create_array(tmp_path / "a.zarr", data=data, chunks=(8, 64, 64))
    zarr.create_array(tmp_path / "nothing.zarr", shape=(8, 8), chunks=(4, 4), dtype="u2")
    (tmp_path / "empty").write_bytes(b"")
    with FaultServer(tmp_path) as server:
        yield server


def bench(*arguments, **environment):
    run = [sys.executable, "-m", "damacy", "bench", "remote", *map(str, arguments)]
    return subprocess.run(run, capture_output=True, text=True, timeout=60, env=os.environ | environment)


@pytest.mark.parametrize("name", ["a.zarr", "a.zarr/c/1/0/0"])
def test_each_number_of_requests_has_a_row_and_settings_follow(server, name):
    done = bench(f"{server.url}/{name}", "--most", 16, "--json", *SHORT)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["url"] == f"{server.url}/a.zarr/c/1/0/0"
    stored = (server.folder / "a.zarr/c/1/0/0").stat().st_size
    assert (found["object_bytes"], found["request_bytes"]) == (stored, 4096)
    assert [row["requests"] for row in found["rows"]] == [1, 4, 16]
    assert all(row["first_byte_ms"] > 0 and row["bytes_per_s"] > 0 for row in found["rows"])
    assert found["settings"]["max_requests"] in (1, 4, 16)
    assert found["settings"]["host_buffer_bytes"] == 64 << 20


def test_that_many_requests_are_under_way(server):
    now, most, changed = 0, 0, threading.Condition()

    def count(request, answer):  # answers when 16 requests are under way, or after 2 s
        nonlocal now, most
        with changed:
            now += 1
            most = max(most, now)
            changed.notify_all()
            changed.wait_for(lambda: most >= 16, timeout=2)
            now -= 1

    server.faults = count
    done = bench(f"{server.url}/a.zarr/c/1/0/0", "--most", 16, "--seconds", "0.5", "--request-bytes", 4096)
    assert done.returncode == 0 and "settings: StoreOptions(max_requests=" in done.stdout
    assert 16 <= most <= 17  # and a probe


def test_options_of_commands_apply(server):
    def denied(request, answer):
        if request.headers.get("x-token") != "hunter2":
            status("403 Forbidden")(request, answer)

    server.faults = denied
    uri = f"{server.url}/a.zarr"
    refused = bench(uri, "--most", 1, *SHORT)
    assert refused.returncode == 1 and "403" in refused.stderr
    done = bench(uri, "--most", 1, "--header-env", "X-Token=SECRET", "--json", *SHORT, SECRET="hunter2")
    assert done.returncode == 0 and "hunter2" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "name, code, text",
    [
        ("none.zarr", 1, "NotFound"),
        ("empty", 1, "the object has no bytes"),
        ("nothing.zarr", 1, "the array has no stored chunk"),
        ("file:///tmp/a.zarr", 2, "takes uris that begin with"),
    ],
)
def test_what_cannot_be_measured_is_refused(server, name, code, text):
    done = bench(name if "://" in name else f"{server.url}/{name}", *SHORT)
    assert (done.returncode, text in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr


def test_the_fewest_requests_that_are_nearly_as_fast_are_chosen():
    rates = {1: 10e6, 4: 40e6, 16: 97e6, 64: 100e6, 256: 99e6}
    rows = tuple(Row(count, 5.0, rate, rate / (8 << 20)) for count, rate in rates.items())
    report = Report("https://host/object", 1 << 30, 8 << 20, rows)
    assert report.settings() == {"max_requests": 16, "host_buffer_bytes": 171 << 20}
