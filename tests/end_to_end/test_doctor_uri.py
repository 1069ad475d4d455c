"""`damacy doctor --uri`: what is there, and each request with its times; no secret."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer, status  # noqa: E402


def doctor(uri, *arguments, **environment):
    command = [sys.executable, "-m", "damacy", "doctor", "--uri", uri, "--json", *arguments]
    ran = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=60)
    assert "hunter2" not in ran.stdout + ran.stderr
    return ran.returncode, json.loads(ran.stdout)


@pytest.mark.timeout(120)
def test_what_is_there_and_the_requests_are_shown(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=np.zeros((4, 4), "u2"), chunks=(4, 4))
    with FaultServer(tmp_path) as server:
        code, shown = doctor(f"{server.url}/a.zarr", "--header-env", "X-Token=TOKEN", TOKEN="hunter2")
        assert code == 0 and shown["uri"] is True and server.url in shown["origin"][0]
        assert re.search(
            r"zarr.json: attempt 1: GET bytes 0-65535: 206, .*name [\d.]+, connected .* first byte", shown["request 1"]
        )
        assert server.requests[0].headers["x-token"] == "hunter2"
        server.reset(status("403 No"))
        code, shown = doctor(f"{server.url}/a.zarr")
        assert code == 1 and shown["uri"] is False and ": 403, " in shown["request 1"]
