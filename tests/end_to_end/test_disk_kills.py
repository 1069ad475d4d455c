"""Processes that are killed while they fill the disk cache leave no wrong bytes, and the bound holds."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("zarr")

TESTS = pathlib.Path(__file__).parents[1]


@pytest.mark.timeout(180)
def test_killed_pipelines_leave_no_wrong_bytes(tmp_path):
    command = [sys.executable, "-m", "support.disk_kills", str(tmp_path), "--kills", "25"]
    ran = subprocess.run(command, cwd=TESTS, env=os.environ, capture_output=True, text=True, timeout=170)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    counts = json.loads(ran.stdout)
    assert counts["kills"] == 25 and counts["readers"] == 3
    assert (counts["wrong_rows"], counts["failed_readers"]) == (0, 0)
    assert counts["disk_hits"] > 0 and counts["cache_bytes"] <= (256 << 20) + (8 << 20)
