"""The benchmark of pairs at a small size: all readers give the same batches."""

import pytest

from bench.pairs import finished, named, volume, windows


def test_all_readers_give_the_same_batches(tmp_path, monkeypatch):
    pytest.importorskip("zarr")
    for name, value in {"SHAPE": (8, 64, 64), "CHUNKS": (4, 32, 32), "CROP": (4, 40, 40), "BATCHES": 3}.items():
        monkeypatch.setattr(volume, name, value)
    result = named.measure(tmp_path, reps=1, threads=2)
    assert len(result["gb_per_s"]) == 3 and all(len(rates) == 1 for rates in result["gb_per_s"].values())


@pytest.mark.timeout(300)  # its workers import torch
def test_finished_crops_are_those_of_numpy(tmp_path, monkeypatch):
    pytest.importorskip("zarr")
    for name, value in {"SHAPE": (16, 64, 64), "CHUNKS": (4, 32, 32), "CROP": (16, 40, 40), "BATCHES": 3}.items():
        monkeypatch.setattr(volume, name, value)
    result = finished.measure(tmp_path, reps=1, threads=2)
    assert len(result["gb_per_s"]) >= 3 and all(len(rates) == 1 for rates in result["gb_per_s"].values())


def test_readers_that_differ_are_an_error(tmp_path, monkeypatch):
    pytest.importorskip("zarr")
    for name, value in {"SHAPE": (8, 64, 64), "CHUNKS": (4, 32, 32), "CROP": (4, 40, 40), "BATCHES": 3}.items():
        monkeypatch.setattr(volume, name, value)
    monkeypatch.setattr(named, "in_step", lambda arrays, threads: iter([1.0, 2.0]))
    with pytest.raises(RuntimeError, match="differ"):
        named.measure(tmp_path, reps=1, threads=2)


def test_windows_are_those_of_xarray(tmp_path, monkeypatch):
    pytest.importorskip("xarray")
    for name, value in {"STEPS": 48, "GRID": (31, 62), "BATCHES": 3}.items():
        monkeypatch.setattr(windows, name, value)
    result = windows.measure(tmp_path, reps=1, threads=2)
    assert all(len(rates) == 1 for rates in result["gb_per_s"].values())
