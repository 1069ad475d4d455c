"""Passes over kept chunks at the smallest size: equal batches, and hits where there should be some."""

import argparse

import pytest

pytest.importorskip("tensorstore")

from bench.cached.__main__ import SCENARIOS


@pytest.fixture(autouse=True)
def data_in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("DAMACY_BENCH_DATA", str(tmp_path))


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_runs_and_hits_only_where_it_should(name):
    arguments = argparse.Namespace(size="tiny", threads=1, passes=2, dtype="f32", peer="tensorstore")
    found = SCENARIOS[name](arguments)
    assert len(found["passes"]) == 2
    assert found.get("equal", True)
    if name == "default-cached":
        assert found["passes"][0].keys() == {"plain", "cached", "tensorstore"}
        assert found["counters"]["cache_hits"] > 0
    else:
        assert found["counters"]["cache_hits"] == 0
        assert found["counters"]["cache_misses"] > 0
