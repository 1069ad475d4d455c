"""Every name in the tables of `docs/formats.md` is opened, and every name it calls refused is refused by that name."""

import json
import pathlib
import re

import pytest

import damacy

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "formats.md").read_text()
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
V2_FILTERS = {
    "delta": {"dtype": "<u2"},
    "quantize": {"digits": 1, "dtype": "<f2"},
    "astype": {"encode_dtype": "|u1", "decode_dtype": "<u2"},
    "fixedscaleoffset": {"scale": 1, "offset": 0, "dtype": "<u2"},
    "bitround": {"keepbits": 3},
    "shuffle": {"elementsize": 2},
}


def section(title: str) -> str:
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.S | re.M).group(1)


def names(title: str, column: int) -> list[str]:
    rows = [re.split(r"(?<!\\)\|", line) for line in section(title).splitlines() if line.startswith("|")][2:]
    return [name.replace("\\|", "|") for row in rows for name in re.findall(r"`([^`]+)`", row[column])]


def refused(title: str) -> list[str]:
    return re.findall(r"`([^`]+)`", re.search(r"^Refused: (.*?)\n\n", section(title), re.S | re.M).group(1))


def info_of(path, **changes):
    v2 = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<u2", "compressor": None, "filters": None}
    v3 = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4],
        "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": "default",
        "codecs": [BYTES],
        "fill_value": 0,
    }
    is_v2 = changes.pop("v2", False)
    document = {**v2, "fill_value": 0, "order": "C", **changes} if is_v2 else {**v3, **changes}
    path.mkdir()
    (path / (".zarray" if is_v2 else "zarr.json")).write_text(json.dumps(document))
    return damacy.open(path)


@pytest.mark.parametrize("name", names("Codecs", 1))
def test_v3_codecs_are_read(name, tmp_path):
    rounds = name.endswith("bitround")
    codec = {"name": name, "configuration": {"keepbits": 3}} if rounds else name
    info = info_of(tmp_path / "a", codecs=[codec, BYTES] if rounds else [BYTES, codec])
    assert info.supported, info.why_not


@pytest.mark.parametrize("name", names("Codecs", 2))
def test_v2_codecs_are_read(name, tmp_path):
    info = info_of(tmp_path / "a", v2=True, filters=[{"id": name, **V2_FILTERS.get(name, {})}])
    assert info.supported, info.why_not


@pytest.mark.parametrize("name", refused("Codecs"))
def test_other_codecs_are_refused_by_name(name, tmp_path):
    for version, info in enumerate(
        (info_of(tmp_path / "a", codecs=[BYTES, name]), info_of(tmp_path / "b", v2=True, compressor={"id": name}))
    ):
        assert not info.supported and f"codec '{name}' is not supported" in info.why_not, version


def test_the_tables_were_found():
    assert "zstd" in names("Codecs", 1) and "delta" in names("Codecs", 2) and "pickle" in refused("Codecs")
    assert "bool" in names("Element types", 1) and "|b1" in names("Element types", 2)


IN_BATCHES = {
    name: row.rstrip().endswith("yes |")
    for row in section("Element types").splitlines()
    if row.startswith("| `")
    for name in re.findall(r"`([^`]+)`", row.replace("\\|", "|"))
}


@pytest.mark.parametrize("name", [*names("Element types", 1), *names("Element types", 2)])
def test_element_types_are_read(name, tmp_path):
    fill = [0, 0] if "c" in name else 0
    v2 = name[0] in "|<>"
    if v2:
        info = info_of(tmp_path / "a", v2=True, dtype=name, fill_value=fill)
    else:
        configuration = {"unit": "ns", "scale_factor": 1}
        data_type = {"name": name, "configuration": configuration} if name.startswith("numpy.") else name
        info = info_of(tmp_path / "a", data_type=data_type, fill_value=False if name == "bool" else fill)
    assert info.supported == IN_BATCHES[name], info.why_not
    assert info.supported or "no batch conversion" in info.why_not


@pytest.mark.parametrize("name", refused("Element types"))
def test_other_element_types_are_refused_by_name(name, tmp_path):
    info = info_of(tmp_path / "a", data_type=name)
    assert not info.supported and f"data type '{name}' is not supported" in info.why_not
