"""`damacy plan --rtt --rate` counts requests and round trips, and refuses what is no time and no rate."""

import json

import pytest
from typer.testing import CliRunner

from damacy._cli import network
from damacy._cli.commands import app

zarr = pytest.importorskip("zarr")


def run(*arguments):
    return CliRunner().invoke(app, ["plan", *map(str, arguments)])


def test_requests_and_round_trips_are_counted(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", shape=(64, 64), chunks=(16, 16), dtype="u2", compressors=None)[:] = 1
    done = run(tmp_path / "a.zarr", "0:32,0:32", "--rtt", "30ms", "--rate", "90MB/s", "--json")
    found = json.loads(done.output)["network"]
    assert found["requests"] == 1 + 4 and found["round_trips"] == 2 and found["bytes"] == 4 * 512
    assert found["rtt"] == 0.03 and found["rate"] == 90e6
    assert found["seconds"] == pytest.approx(0.06 + 2048 / 90e6)
    text = run(tmp_path / "a.zarr", "0:32,0:32", "--rtt", "30 ms", "--rate", "90MB").output
    assert "5 requests in 2 round trips, 2.0 KiB: at least 0.06 s" in " ".join(text.split())


def test_indices_of_shards_are_a_round_trip(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", shape=(64, 64), chunks=(16, 16), shards=(32, 32), dtype="u2")[:] = 1
    found = json.loads(run(tmp_path / "a.zarr", "0:64,0:20", "--rtt", "1s", "--rate", "1GB", "--json").output)
    assert found["network"]["round_trips"] == 3
    assert found["network"]["requests"] == 1 + 2 + len(found["reads"])


def test_large_reads_are_divided_and_many_requests_take_turns():
    assert network.trips_of([(8 << 20) + 1], 0) == network.Trips(1 + 2, 2, (8 << 20) + 1)
    assert network.trips_of([1] * 257, 0).round_trips == 3
    assert network.trips_of([], 0) == network.Trips(1, 1, 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rtt", "30ms"], "belong together"),
        (["--rate", "90MB/s"], "belong together"),
        (["--rtt", "30", "--rate", "1MB"], "such as 30ms"),
        (["--rtt", "-1s", "--rate", "1MB"], "such as 30ms"),
        (["--rtt", "1s", "--rate", "fast"], "--rate must be an int of bytes"),
        (["--rtt", "1s", "--rate", "0"], "above 0"),
    ],
)
def test_what_is_no_network_is_refused(tmp_path, options, said):
    zarr.create_array(tmp_path / "a.zarr", shape=(4,), chunks=(4,), dtype="u2")
    done = run(tmp_path / "a.zarr", "0:4", *options)
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
    assert "box" in run(tmp_path / "a.zarr", "--rtt", "1s", "--rate", "1MB").output
