"""The comparison of two checkouts and the times of zipped loaders, at a small size."""

import pathlib

import pytest

from bench.checkouts import calls, plain_crops
from bench.pairs import volume, zipped

HERE = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", list(plain_crops.CASES))
def test_checkouts_take_turns(name, tmp_path, monkeypatch):
    pytest.importorskip("zarr")
    shape, chunks, crop, batch_size, few_many, _ = plain_crops.CASES[name]
    monkeypatch.setitem(plain_crops.CASES, name, (shape, chunks, crop, batch_size, few_many, 2))
    path = plain_crops.written(str(tmp_path), name)
    seconds = plain_crops.by_turns({"before": HERE, "now": HERE}, path, name, turns=1)
    assert {tree: len(times) for tree, times in seconds.items()} == {"before": 1, "now": 1}
    assert all(times[0] > 0 for times in seconds.values())


@pytest.mark.parametrize("name", list(calls.CASES))
def test_calls_of_checkouts_take_turns(name, tmp_path, monkeypatch):
    pytest.importorskip("zarr")
    program, counts, _ = calls.CASES[name]
    monkeypatch.setitem(calls.CASES, name, (program.replace("192", "48"), counts, 1))
    counted = iter(range(100, 104))
    monkeypatch.setattr(calls, "instructions", lambda tree, path, name, count: next(counted) + count)
    path = plain_crops.written(str(tmp_path), "chunks")
    found = calls.measured({"before": HERE, "now": HERE}, path, name, reps=1, turns=1)
    assert found["instructions_now_to_before"] > 0 and found["cpu_now_to_before_by_pair"] > 0


def test_the_checkout_that_is_named_is_measured(tmp_path, monkeypatch):
    pytest.importorskip("zarr")
    monkeypatch.setattr(plain_crops, "CHILD", "import damacy; print(damacy.__file__)")
    (tmp_path / "python" / "damacy").mkdir(parents=True)
    (tmp_path / "python" / "damacy" / "__init__.py").touch()
    for tree in (tmp_path, HERE):
        shown = plain_crops.child(tree, str(tmp_path), "crops", (1, 1, 1))
        assert shown.split() == [str(tree / "python" / "damacy" / "__init__.py")]


def test_zipped_loaders_are_timed(tmp_path, monkeypatch):
    pytest.importorskip("zarr")
    for name, value in {"SHAPE": (8, 64, 64), "CHUNKS": (4, 32, 32), "CROP": (4, 40, 40)}.items():
        monkeypatch.setattr(volume, name, value)
    monkeypatch.setattr(zipped, "SKIPPED", 1)
    monkeypatch.setattr(zipped, "STEPS", 3)
    arrays = volume.write(tmp_path)
    for consumer in (zipped.zipped, zipped.dropped):
        found = zipped.run(arrays, consumer)
        assert 0 < found["median_ms"] <= found["p99_ms"]
