"""A warning where all chunks of a read of zarr-python's are missing and one is stored under another name."""

import json
import warnings

import numpy as np
import pytest

zarr = pytest.importorskip("zarr", minversion="3.1")

import damacy.zarr  # noqa: E402


def moved(path, rename, **options):
    """An array whose chunks have other names than its metadata say."""
    array = zarr.create_array(path, shape=(8, 8), chunks=(4, 4), dtype="u2", compressors=None, **options)
    array[:] = np.arange(1, 65).reshape(8, 8)
    for chunk in [file for file in path.rglob("*") if file.is_file() and not file.name.startswith((".z", "zarr"))]:
        new = path / rename(chunk.relative_to(path).as_posix())
        new.parent.mkdir(parents=True, exist_ok=True)
        chunk.rename(new)
    return path


def read(path):
    with damacy.zarr.enable(strict=True):
        return zarr.open_array(path, mode="r")[0:4, 0:8]


FLAT = {"name": "default", "separator": "."}
CASES = {
    "nested, no separator": (lambda name: name.replace(".", "/"), {"zarr_format": 2}, "0.0", "0/0"),
    "nested, separator .": (lambda name: name.replace(".", "/"), {"zarr_format": 2}, "0.0", "0/0"),
    "flat, separator /": (
        lambda name: name.replace("/", "."),
        {"zarr_format": 2, "chunk_key_encoding": {"name": "v2", "separator": "/"}},
        "0/0",
        "0.0",
    ),
    "flat, version 3": (lambda name: name.replace("/", "."), {}, "c/0/0", "c.0.0"),
    "nested, version 3": (lambda name: name.replace(".", "/"), {"chunk_key_encoding": FLAT}, "c.0.0", "c/0/0"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("below", ["a", "group/a"])
def test_chunks_under_the_other_separators_name_are_warned_of(tmp_path, case, below):
    rename, options, key, other = CASES[case]
    path = moved(tmp_path / below, rename, **options)
    if case == "nested, no separator":
        document = json.loads((path / ".zarray").read_text())
        del document["dimension_separator"]
        (path / ".zarray").write_text(json.dumps(document))
    with pytest.warns(UserWarning, match=f"chunk {key} is missing and reads as the fill value, but there is {other}"):
        assert not read(path).any()


def test_an_array_without_chunks_or_with_one_is_not_warned_of(tmp_path):
    zarr.create_array(tmp_path / "empty", shape=(8, 8), chunks=(4, 4), dtype="u2", zarr_format=2)
    partly = zarr.create_array(tmp_path / "partly", shape=(8, 8), chunks=(4, 4), dtype="u2", zarr_format=2)
    partly[0:4, 4:8] = 1
    (tmp_path / "partly" / "0").mkdir()
    (tmp_path / "partly" / "0" / "0").write_bytes(bytes(32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not read(tmp_path / "empty").any()
        assert read(tmp_path / "partly").sum() == 16


def test_a_store_is_asked_a_few_times_only(tmp_path, monkeypatch):
    asked = []

    async def exists(self, key):
        asked.append(key)
        return False

    monkeypatch.setattr(zarr.storage.LocalStore, "exists", exists)
    zarr.create_array(tmp_path / "empty", shape=(8, 8), chunks=(4, 4), dtype="u2", zarr_format=2)
    with damacy.zarr.enable(strict=True):
        array = zarr.open_array(tmp_path / "empty", mode="r")
        asked.clear()
        for _ in range(20):
            array[4:8, 4:8]
    assert asked == ["1/1"] * 4
