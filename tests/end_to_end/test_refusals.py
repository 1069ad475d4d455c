"""What a refused document looks like from Python: a row for each class of error, and texts. Every row of formats is in
C++, in src/damacy/zarr/refusals_test.cpp, json_test.cpp and limits_test.cpp.

Every fault must come from `damacy.open` and from `push` alike, before any chunk is read; what is well-formed and not
supported is reported by `open` as `why_not`.
"""

import json
import shutil

import pytest
from support.streaming import pipeline, store

import damacy

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
BAD, NO, LIMIT = damacy.DecodeError, damacy.UnsupportedFormat, damacy.InvalidArgument
DELETE = object()

# name: (changes to the document, class, reason, pointer)
V3 = {
    "a missing member": ({"shape": DELETE}, BAD, "metadata", "/shape"),
    "a value of another kind": ({"shape": ["8", 8]}, BAD, "metadata", "/shape/0"),
    "a bare NaN for an integer": ({"shape": [float("nan"), 8]}, BAD, "metadata", "/shape/0"),
    "a fill value out of range": ({"fill_value": "65536"}, BAD, "fill-value", "/fill_value"),
    "a wrong chain": ({"codecs": [{"name": "zstd"}, BYTES]}, BAD, "codec-chain", "/codecs/0"),
    "an unknown member": ({"colour": {"hue": 3}}, NO, "unknown-member", "/colour"),
    "an unknown codec": ({"codecs": [BYTES, {"name": "zfp"}]}, NO, "codec", "/codecs/1"),
    "an unknown type": ({"data_type": "wonder"}, NO, "data-type", "/data_type"),
    "an extent too great": ({"shape": [2**63, 8]}, LIMIT, "limit", "/shape/0"),
}
V2 = {
    "a missing member": ({"order": DELETE}, BAD, "metadata", "/order"),
    "a fill value out of range": ({"fill_value": -1}, BAD, "fill-value", "/fill_value"),
    "an unknown compressor": ({"compressor": {"id": "zfpy"}}, NO, "codec", "/compressor"),
    "an unknown type": ({"dtype": "|S4", "fill_value": ""}, NO, "data-type", "/dtype"),
    "an extent too great": ({"shape": [2**63, 8]}, LIMIT, "limit", "/shape/0"),
}


@pytest.fixture
def array(tmp_path):
    return store(tmp_path / "vol.zarr", (8, 8), (4, 4))


@pytest.fixture
def old_array(tmp_path):
    return store(tmp_path / "vol.zarr", (8, 8), (4, 4), zarr_format=2, separator=".")


def rewrite(array, changes, name="zarr.json") -> None:
    document = {**json.loads((array.path / name).read_text()), **changes}
    kept = {k: v for k, v in document.items() if v is not DELETE}
    (array.path / name).write_text(json.dumps(kept))


def refusals(array):
    """The error of push; also checks that open agrees with it."""
    shutil.rmtree(array.path / "c", ignore_errors=True)
    with pipeline() as p:
        with pytest.raises(damacy.DamacyError) as caught:
            p.push([array.sample((0, 2), (0, 2))])
    pushed = caught.value
    try:
        info = damacy.open(array.path)
    except damacy.DamacyError as opened:
        assert type(opened) is type(pushed)
        for name in ("reason", "pointer", "key", "store", "uri"):
            assert getattr(opened, name) == getattr(pushed, name), name
    else:
        assert type(pushed) is damacy.UnsupportedFormat and info.supported is False
        assert pushed.pointer in info.why_not
    return pushed


def check(array, kind, reason, pointer, key="zarr.json"):
    error = refusals(array)
    assert (type(error), error.reason, error.pointer or None, error.key) == (kind, reason, pointer, key), error
    assert error.store == error.uri == str(array.path)
    text = str(error)
    assert "vol.zarr" in text and key in text and "\n" not in text and (pointer or "") in text
    return text


@pytest.mark.parametrize("row", V3)
def test_v3_rows(array, row):
    changes, *expected = V3[row]
    rewrite(array, changes)
    check(array, *expected)


@pytest.mark.parametrize("row", V2)
def test_v2_rows(old_array, row):
    changes, *expected = V2[row]
    rewrite(old_array, changes, ".zarray")
    check(old_array, *expected, key=".zarray")


def test_the_error_in_the_documentation_has_its_documented_text(array):
    rewrite(array, {"codecs": [BYTES, {"name": "zfp"}]})
    assert "zarr.json: /codecs/1: codec 'zfp' is not supported" in str(refusals(array))


@pytest.mark.parametrize(
    "content,reason,pointer,shown",
    [
        (b'{"node_type": "array", "fill_value": nan}', "json", "/fill_value", "byte 37: nan}"),
        (b"<!DOCTYPE html>\n<html>", "json", None, r"byte 0: <!DOCTYPE html>\x0a<html>"),
        (b'{"zarr_format": 3, "zarr_format": 3}', "duplicate-key", "/zarr_format", "'zarr_format' occurs twice"),
    ],
)
def test_malformed_documents_are_refused_and_quoted(array, content, reason, pointer, shown):
    (array.path / "zarr.json").write_bytes(content)
    assert shown in check(array, BAD, reason, pointer)


def test_a_document_beyond_the_limit_is_refused_with_both_sizes(array):
    document = (array.path / "zarr.json").read_bytes()
    (array.path / "zarr.json").write_bytes(document.ljust((1 << 20) + 1))
    assert f"document of {(1 << 20) + 1} bytes, limit {1 << 20}" in check(array, LIMIT, "limit", None)


@pytest.mark.parametrize(
    "dtype,fill",
    [
        ("uint16", 7.0),
        ("uint16", 1e2),
        ("uint16", "0"),
        ("float32", 3),
        ("float32", "0"),
        ("float32", "0x7fc00001"),
        ("float32", float("nan")),
    ],
)
def test_fill_values_that_real_stores_hold(array, dtype, fill):
    rewrite(array, {"data_type": dtype, "fill_value": fill})
    assert damacy.open(array.path).supported


def test_v2_accepts_unknown_keys_null_fills_and_unknown_options_of_known_compressors(old_array):
    changes = {"colour": 3, "fill_value": None, "filters": [], "compressor": {"id": "zstd", "level": 1, "window": 9}}
    rewrite(old_array, changes, ".zarray")
    assert damacy.open(old_array.path).supported


def test_extensions_that_need_not_be_understood_and_short_forms_are_accepted(array):
    rewrite(array, {"x": {"must_understand": False, "y": [1]}, "storage_transformers": [], "attributes": None})
    rewrite(array, {"chunk_key_encoding": "default", "dimension_names": ["z", None], "codecs": [BYTES, "crc32c"]})
    assert damacy.open(array.path).supported
