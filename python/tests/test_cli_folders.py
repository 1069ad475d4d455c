"""The commands that look into folders: chunks under other names, arrays of strings, plain folders of stores."""

import json
import re

import numpy as np
import pytest

pytest.importorskip("typer")
zarr = pytest.importorskip("zarr")

from typer.testing import CliRunner  # noqa: E402

from damacy._cli.commands import app  # noqa: E402


def damacy(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "300", "NO_COLOR": "1"})


def document(*arguments, status=0):
    shown = damacy(*arguments, "--json")
    assert shown.exit_code == status, shown.output
    return json.loads(shown.stdout)


@pytest.fixture
def stored(tmp_path):
    """An array in a plain folder."""
    path = tmp_path / "image" / "s.zarr"
    zarr.create_array(path, shape=(16, 20), chunks=(8, 20), dtype="u2")[:] = np.arange(320).reshape(16, 20)
    return path


NO_SEPARATOR = {"zarr_format": 2, "shape": [8, 8], "chunks": [4, 4], "dtype": "<u2", "compressor": None}
NO_SEPARATOR |= {"filters": None, "order": "C", "fill_value": 0}
VERSION_3 = {"zarr_format": 3, "node_type": "array", "shape": [8, 8], "data_type": "uint16", "fill_value": 0}
VERSION_3 |= {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4]}}}
VERSION_3 |= {"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}


def written(path, metadata, *names):
    """An array of 8 × 8 elements in the chunks of those names."""
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(bytes(32))
    path.mkdir(exist_ok=True)
    (path / (".zarray" if metadata["zarr_format"] == 2 else "zarr.json")).write_text(json.dumps(metadata))
    return path


def shown(path):
    """What `damacy info` prints, without the breaks of its columns."""
    return " ".join(damacy("info", path).stdout.split())


@pytest.mark.parametrize(
    "written_as,metadata",
    [
        ("0/1", NO_SEPARATOR | {"dimension_separator": "."}),
        ("0.1", NO_SEPARATOR | {"dimension_separator": "/"}),
        ("c.0.1", VERSION_3 | {"chunk_key_encoding": {"name": "default"}}),
        ("0/1", VERSION_3 | {"chunk_key_encoding": "default"}),
        ("c/0/1", VERSION_3 | {"chunk_key_encoding": {"name": "v2"}}),
    ],
)
def test_chunks_under_other_names_are_found(tmp_path, written_as, metadata):
    path = written(tmp_path / "a.zarr", metadata, written_as)
    found = document("verify", path, status=1)["arrays"][0]
    assert (found["chunks"], found["missing"], found["stray"]) == (0, 4, written_as)
    said = f"no chunk is stored, of 4; there are files that are no chunks of it, such as {written_as}"
    assert said in damacy("verify", path).stdout
    assert f"no chunk is stored; there are files that are no chunks of it, such as {written_as}" in shown(path)
    assert document("info", path)["stray"] == written_as


def test_an_array_without_a_chunk_is_good_whatever_else_is_in_its_folder(tmp_path):
    path = written(tmp_path / "a.zarr", NO_SEPARATOR)
    assert document("verify", path)["arrays"][0]["stray"] is None
    assert "no chunk is stored, of 4\n" in damacy("verify", path).stdout
    assert "no chunk" not in damacy("info", path).stdout
    written(path, NO_SEPARATOR, "notes/read.me")
    assert document("verify", path)["arrays"][0]["stray"] == "notes/read.me"


def test_an_array_with_a_chunk_has_no_stray_files(tmp_path):
    path = written(tmp_path / "a.zarr", NO_SEPARATOR | {"dimension_separator": "/"}, "1/1", "0.0", "x")
    assert document("verify", path)["arrays"][0]["stray"] is None
    assert "no chunk" not in damacy("info", path).stdout


def test_nested_chunks_without_a_separator_are_bad_and_shown(tmp_path):
    path = written(tmp_path / "a.zarr", NO_SEPARATOR, "0/0")
    assert len(document("verify", path, status=1)["arrays"][0]["bad"]) == 1
    assert "no chunks of it, such as 0/0" in shown(path)


def test_verify_passes_over_arrays_of_strings_and_says_so(stored):
    names = VERSION_3 | {"data_type": "string", "fill_value": "", "chunk_key_encoding": "default"}
    path = written(stored.parent / "names", names | {"codecs": [{"name": "vlen-utf8"}]})
    found = document("verify", stored.parent)["arrays"]
    assert [(array["passed_over"], array["chunks"]) for array in found] == [(True, 0), (False, 2)]
    assert "passed over: data type 'string' is not supported" in damacy("verify", stored.parent).stdout
    assert document("verify", path, status=1)["good"] is False  # nothing was checked


def test_ls_and_info_show_what_a_plain_folder_holds(tmp_path, stored):
    (tmp_path / "image" / "notes").mkdir()
    (tmp_path / "image" / "broken.zarr").mkdir()
    (tmp_path / "image" / "broken.zarr" / "zarr.json").write_text("{")
    members = document("ls", stored.parent)["members"]
    assert members["s.zarr"] == {"kind": "array", "dtype": "uint16", "shape": [16, 20]}
    assert sorted(members) == ["broken.zarr", "s.zarr"] and "not JSON" in members["broken.zarr"]["error"]
    shown = damacy("ls", stored.parent)
    assert shown.exit_code == 0 and "broken.zarr" in shown.stdout and "array uint16 (16, 20)" in shown.stdout
    assert document("info", stored.parent)["nodes"]["s.zarr"]["shape"] == [16, 20]
    assert f"{stored.parent} (folder)" in damacy("info", stored.parent).stdout
    for command in ("ls", "info"):
        assert document(command, tmp_path / "image" / "notes", status=1)["reason"] == "no-metadata"
        assert document(command, tmp_path / "nowhere", status=1)["reason"] == "no-metadata"


def test_info_does_not_call_an_array_packed_whose_fill_value_counts_as_missing(tmp_path):
    shown = damacy("info", written(tmp_path / "a.zarr", NO_SEPARATOR | {"fill_value": 7})).stdout
    assert "missing values  7" in shown and "packed" not in shown
    (tmp_path / "a.zarr" / ".zattrs").write_text(json.dumps({"scale_factor": 0.5}))
    assert re.search(r"packed +scale_factor 0.5", damacy("info", tmp_path / "a.zarr").stdout)
