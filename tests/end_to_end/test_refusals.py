"""Refusals by Python class, reason and pointer: one damaged array per row.

Every fault must come from `damacy.open` and from `push` alike, before any chunk is read; what is well-formed and not
supported is reported by `open` as `why_not`.
"""

import json
import shutil

import pytest
from support.streaming import pipeline, store

import damacy


def named(name, **configuration):
    return {"name": name, "configuration": configuration}


BYTES = named("bytes", endian="little")
CRC = {"name": "crc32c"}


def sharding(**changes):
    options = {"chunk_shape": [2, 2], "codecs": [BYTES], "index_codecs": [BYTES, CRC], "index_location": "end"}
    return [{"name": "sharding_indexed", "configuration": {**options, **changes}}]


def grid(*chunks):
    return named("regular", chunk_shape=list(chunks))


BAD, NO, LIMIT = damacy.DecodeError, damacy.UnsupportedFormat, damacy.InvalidArgument
DELETE = object()

# name: (changes to the top level of zarr.json, class, reason, beginning of the pointer)
V3 = {
    "shape is missing": ({"shape": DELETE}, BAD, "metadata", None),
    "shape is no list": ({"shape": 5}, BAD, "metadata", "/shape"),
    "an extent is negative": ({"shape": [4, -4]}, BAD, "metadata", "/shape/1"),
    "an extent is a fraction": ({"shape": [4.0, 4]}, BAD, "metadata", "/shape/0"),
    "an extent is a string": ({"shape": ["4", 4]}, BAD, "metadata", "/shape/0"),
    "an extent is true": ({"shape": [True, 4]}, BAD, "metadata", "/shape/0"),
    "an extent is null": ({"shape": [4, None]}, BAD, "metadata", "/shape/1"),
    "zarr_format is 4": ({"zarr_format": 4}, BAD, "metadata", "/zarr_format"),
    "node_type is unknown": ({"node_type": "arr"}, BAD, "metadata", "/node_type"),
    "codecs are missing": ({"codecs": DELETE}, BAD, "metadata", None),
    "fill_value is missing": ({"fill_value": DELETE}, BAD, "metadata", None),
    "dimension_names of another length": ({"dimension_names": ["z"]}, BAD, "metadata", "/dimension_names"),
    "dimension_names of numbers": ({"dimension_names": [1, 2]}, BAD, "metadata", "/dimension_names"),
    "a chunk extent of 0": ({"chunk_grid": grid(0, 4)}, BAD, "metadata", "/chunk_grid/configuration/chunk_shape/0"),
    "a chunk of another rank": ({"chunk_grid": grid(4)}, BAD, "metadata", "/chunk_grid"),
    "extents too great": ({"shape": [2**63, 4]}, LIMIT, "limit", "/shape"),
    "a product too great": ({"shape": [2**40, 2**40]}, LIMIT, "limit", "/shape"),
    "an extent of 30 digits": ({"shape": [10**30, 4]}, LIMIT, "limit", "/shape"),
    "an unknown member": ({"colour": {"hue": 3}}, NO, "unknown-member", "/colour"),
    "a member that must be understood": ({"x": {"must_understand": True}}, NO, "unknown-member", "/x"),
    "a scalar member": ({"x": False}, NO, "unknown-member", "/x"),
    "a storage transformer": ({"storage_transformers": [{"name": "t"}]}, NO, "storage-transformers", "/storage_tr"),
    "one that need not be understood": (
        {"storage_transformers": [{"name": "t", "must_understand": False}]},
        NO,
        "storage-transformers",
        "/storage_transformers",
    ),
    "an unknown grid": ({"chunk_grid": named("hexagonal")}, NO, "chunk-grid", "/chunk_grid"),
    "a rectilinear grid": (
        {"chunk_grid": named("rectilinear", kind="inline", chunk_shapes=[[1, 3], 4])},
        NO,
        "chunk-grid",
        "/chunk_grid",
    ),
    "an unknown key encoding": ({"chunk_key_encoding": named("fanout")}, NO, "chunk-key-encoding", "/chunk_key_enc"),
    "an unknown separator": (
        {"chunk_key_encoding": named("default", separator="-")},
        NO,
        "chunk-key-encoding",
        "/chunk_key_encoding",
    ),
    "an unknown option of a grid": (
        {"chunk_grid": named("regular", chunk_shape=[4, 4], origin=[0, 0])},
        NO,
        "chunk-grid",
        "/chunk_grid",
    ),
    "an unknown codec": ({"codecs": [BYTES, named("zfp")]}, NO, "codec", "/codecs/1"),
    "an unknown codec not to be understood": (
        {"codecs": [BYTES, {"name": "zfp", "must_understand": False}]},
        NO,
        "codec",
        "/codecs/1",
    ),
    "pickle": ({"codecs": [BYTES, named("numcodecs.pickle")]}, NO, "codec", "/codecs/1"),
    "an unknown option of zstd": ({"codecs": [BYTES, named("zstd", window=3)]}, NO, "codec-option", "/codecs/1"),
    "an unknown option of bytes": ({"codecs": [named("bytes", endian="little", x=1)]}, NO, "codec-option", "/codecs/0"),
    "an endian that is none": ({"codecs": [named("bytes", endian="middle")]}, (BAD, NO), None, "/codecs/0"),
    "no endian": ({"codecs": [{"name": "bytes"}]}, BAD, "codec-chain", "/codecs/0"),
    "no bytes codec": ({"codecs": [named("zstd", level=1)]}, BAD, "codec-chain", "/codecs"),
    "two bytes codecs": ({"codecs": [BYTES, BYTES]}, BAD, "codec-chain", "/codecs"),
    "a compressor before bytes": ({"codecs": [named("zstd", level=1), BYTES]}, BAD, "codec-chain", "/codecs"),
    "a transpose behind bytes": ({"codecs": [BYTES, named("transpose", order=[1, 0])]}, BAD, "codec-chain", "/codecs"),
    "no codecs": ({"codecs": []}, BAD, "codec-chain", "/codecs"),
    "an order that is no permutation": (
        {"codecs": [named("transpose", order=[0, 0]), BYTES]},
        BAD,
        "codec-chain",
        "/codecs/0",
    ),
    "an order of another rank": (
        {"codecs": [named("transpose", order=[0, 1, 2]), BYTES]},
        BAD,
        "codec-chain",
        "/codecs/0",
    ),
    "a shard that does not divide": ({"codecs": sharding(chunk_shape=[3, 2])}, BAD, "codec-chain", "/codecs/0"),
    "an inner chunk of another rank": ({"codecs": sharding(chunk_shape=[2])}, BAD, "codec-chain", "/codecs/0"),
    "an inner chunk of 0": ({"codecs": sharding(chunk_shape=[2, 0])}, BAD, None, "/codecs/0"),
    "a compressed index": (
        {"codecs": sharding(index_codecs=[BYTES, named("zstd", level=1)])},
        NO,
        "index-codecs",
        "/codecs/0/configuration/index_codecs",
    ),
    "an index in the middle": ({"codecs": sharding(index_location="middle")}, (BAD, NO), None, "/codecs/0"),
    "an unknown codec inside a shard": (
        {"codecs": sharding(codecs=[BYTES, named("zfp")])},
        NO,
        "codec",
        "/codecs/0/configuration/codecs/1",
    ),
    "too many entries in an index": (
        {"shape": [2048, 2048], "chunk_grid": grid(2048, 2048), "codecs": sharding(chunk_shape=[1, 2])},
        LIMIT,
        "limit",
        "/codecs/0",
    ),
}
TYPES = "r16 raw_bytes string bytes float8_e4m3 int4 uint2 struct fixed_length_utf32 complex_bfloat16 wonder".split()
FILLS = {
    "uint16": [1.5, -1, 65536, "0.5", "NaN", True, None, [], "0x0001"],
    "int8": [128, -129, 0.1],
    "float32": ["nan", "inf", "0x7fc", "0x7fc000000", "0xgggggggg", True, None, 1e39, [1.0]],
    "bool": [1, 0, "true", None, 2],
    "float64": ["Infinity ", "+Infinity", "0x7ff8"],
}


@pytest.fixture
def array(tmp_path):
    return store(tmp_path / "vol.zarr", (8, 8), (4, 4))


def rewrite(array, changes) -> None:
    document = {**json.loads((array.path / "zarr.json").read_text()), **changes}
    kept = {k: v for k, v in document.items() if v is not DELETE}
    (array.path / "zarr.json").write_text(json.dumps(kept))


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


def check(array, error, classes, reason, pointer, key="zarr.json"):
    assert type(error) in (classes if isinstance(classes, tuple) else (classes,)), repr(error)
    assert error.key == key
    assert error.store == error.uri == str(array.path)
    assert reason is None or error.reason == reason, error
    assert pointer is None or (error.pointer or "").startswith(pointer), f"{error.pointer!r}: {error}"
    text = str(error)
    assert "vol.zarr" in text and key in text and "\n" not in text
    assert not error.pointer or error.pointer in text


@pytest.mark.parametrize("row", V3)
def test_v3_rows(array, row):
    changes, *expected = V3[row]
    rewrite(array, changes)
    check(array, refusals(array), *expected)


def test_the_error_in_the_documentation_has_its_documented_text(array):
    rewrite(array, {"codecs": [BYTES, named("zfp")]})
    assert "zarr.json: /codecs/1: codec 'zfp' is not supported" in str(refusals(array))


@pytest.mark.parametrize("name", TYPES)
def test_types_are_refused_by_name(array, name):
    rewrite(array, {"data_type": name})
    error = refusals(array)
    check(array, error, NO, "data-type", "/data_type")
    assert name in str(error)


@pytest.mark.parametrize("dtype,fill", [(d, f) for d, fills in FILLS.items() for f in fills], ids=repr)
def test_fill_values_of_another_form(array, dtype, fill):
    rewrite(array, {"data_type": dtype, "fill_value": fill})
    check(array, refusals(array), BAD, "fill-value", "/fill_value")


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


TEXTS = {
    "an empty file": (b"", "json", None),
    "no JSON": (b"hello", "json", None),
    "text behind": (b"{} {}", "json", None),
    "a byte order mark": (b"\xef\xbb\xbf{}", "json", None),
    "UTF-16": ("{}".encode("utf-16"), "json", None),
    "invalid UTF-8": (b'{"attributes": "\xff"}', "json", None),
    "a word that no writer has": (b'{"node_type": "array", "fill_value": nan}', "json", "/fill_value"),
    "a bare NaN for an integer": (b'{"zarr_format": 3, "node_type": "array", "shape": [NaN]}', "metadata", "/shape/0"),
    "a list": (b"[]", "metadata", None),
    "a member twice": (b'{"zarr_format": 3, "zarr_format": 3}', "duplicate-key", None),
    "a member twice after unescaping": (
        b'{"zarr_format": 3, "node_type": "array", "sh\\u0061pe": [], "shape": []}',
        "duplicate-key",
        None,
    ),
    "a number with an exponent": (b'{"zarr_format": 3e0, "node_type": "array"}', "metadata", "/zarr_format"),
    "minus zero": (b'{"zarr_format": 3, "node_type": "array", "shape": [-0]}', "metadata", "/shape/0"),
}


@pytest.mark.parametrize("text", TEXTS)
def test_malformed_documents_are_refused(array, text):
    content, reason, pointer = TEXTS[text]
    (array.path / "zarr.json").write_bytes(content)
    check(array, refusals(array), BAD, reason, pointer)


def padded(array, size: int) -> bytes:
    text = (array.path / "zarr.json").read_bytes()
    return text + b" " * (size - len(text))


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_the_size_of_a_document_is_limited(array, over):
    (array.path / "zarr.json").write_bytes(padded(array, (1 << 20) + over))
    if over <= 0:
        assert damacy.open(array.path).shape == (8, 8)
    else:
        error = refusals(array)
        check(array, error, LIMIT, "limit", None)
        assert str(1 << 20) in str(error) and str((1 << 20) + 1) in str(error)


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_nesting_is_limited(array, over):
    depth = 64 + over - 1  # the document itself is the first level
    value = json.loads("[" * depth + "]" * depth)
    rewrite(array, {"x": {"must_understand": False, "deep": value[0] if depth > 1 else 0}})
    if over <= 0:
        assert damacy.open(array.path).shape == (8, 8)
    else:
        check(array, refusals(array), LIMIT, "limit", None)


@pytest.mark.parametrize("rank", [31, 32, 33])
def test_rank_is_limited(array, rank):
    rewrite(array, {"shape": [1] * rank, "chunk_grid": grid(*[1] * rank)})
    if rank <= 32:
        assert damacy.open(array.path).shape == (1,) * rank
    else:
        check(array, refusals(array), LIMIT, "limit", "/shape")


def test_extensions_that_need_not_be_understood_and_short_forms_are_accepted(array):
    rewrite(array, {"x": {"must_understand": False, "y": [1]}, "storage_transformers": [], "attributes": None})
    rewrite(array, {"chunk_key_encoding": "default", "dimension_names": ["z", None], "codecs": [BYTES, "crc32c"]})
    assert damacy.open(array.path).supported


# --- v2 ---------------------------------------------------------------------------------------------------------------

V2 = {
    "no shape": ({"shape": DELETE}, BAD, "metadata", None),
    "no order": ({"order": DELETE}, BAD, "metadata", None),
    "an order that is none": ({"order": "A"}, BAD, "metadata", "/order"),
    "no fill value": ({"fill_value": DELETE}, BAD, "metadata", None),
    "chunks of another rank": ({"chunks": [4]}, BAD, "metadata", "/chunks"),
    "a chunk of 0": ({"chunks": [4, 0]}, BAD, "metadata", "/chunks/1"),
    "chunks are true": ({"chunks": True}, BAD, "metadata", "/chunks"),
    "zarr_format is 3": ({"zarr_format": 3}, BAD, "metadata", "/zarr_format"),
    "a byte order is missing": ({"dtype": "|u2"}, (BAD, NO), None, "/dtype"),
    "a string type": ({"dtype": "|S4", "fill_value": ""}, NO, "data-type", "/dtype"),
    "a structure": ({"dtype": [["a", "<i4"]], "fill_value": None}, NO, "data-type", "/dtype"),
    "an object type": ({"dtype": "|O", "fill_value": 0}, NO, "data-type", "/dtype"),
    "a long double": ({"dtype": "<f16"}, NO, "data-type", "/dtype"),
    "an unknown compressor": ({"compressor": {"id": "zfpy"}}, NO, "codec", "/compressor"),
    "a compressor without id": ({"compressor": {"level": 1}}, BAD, "metadata", "/compressor"),
    "pickle": ({"filters": [{"id": "pickle"}]}, NO, "codec", "/filters/0"),
    "an unknown option of lz4's neighbour": (
        {"compressor": {"id": "crc32c", "x": 1}},
        NO,
        "codec-option",
        "/compressor",
    ),
    "an unknown separator": ({"dimension_separator": "-"}, (BAD, NO), None, "/dimension_separator"),
    "a fill out of range": ({"fill_value": -1}, BAD, "fill-value", "/fill_value"),
    "a filter of another type": ({"filters": [{"id": "delta", "dtype": "|S2"}]}, NO, "data-type", "/filters/0/dtype"),
    "a filter without a type": ({"filters": [{"id": "delta"}]}, BAD, "metadata", "/filters/0/dtype"),
    "an unknown option of a filter": (
        {"filters": [{"id": "delta", "dtype": "<u2", "x": 1}]},
        NO,
        "codec-option",
        "/filters/0/x",
    ),
    "a filter whose elements do not fit": (
        {"shape": [3, 3], "chunks": [1, 1], "filters": [{"id": "delta", "dtype": "<f8"}]},
        BAD,
        "codec-chain",
        "/filters",
    ),
    "base64": ({"filters": [{"id": "base64"}]}, NO, "codec", "/filters/0"),
}


@pytest.fixture
def old_array(tmp_path):
    return store(tmp_path / "vol.zarr", (8, 8), (4, 4), zarr_format=2, separator=".")


@pytest.mark.parametrize("row", V2)
def test_v2_rows(old_array, row):
    changes, *expected = V2[row]
    document = {**json.loads((old_array.path / ".zarray").read_text()), **changes}
    (old_array.path / ".zarray").write_text(json.dumps({k: v for k, v in document.items() if v is not DELETE}))
    check(old_array, refusals(old_array), *expected, key=".zarray")


def test_v2_accepts_unknown_keys_null_fills_and_unknown_options_of_known_compressors(old_array):
    document = json.loads((old_array.path / ".zarray").read_text())
    document.update(colour=3, fill_value=None, filters=[], compressor={"id": "zstd", "level": 1, "window": 9})
    (old_array.path / ".zarray").write_text(json.dumps(document))
    assert damacy.open(old_array.path).supported


def test_nested_chunks_without_the_key_are_an_error_never_fill(tmp_path):
    stored = store(tmp_path / "vol.zarr", (8, 8), (4, 4), zarr_format=2, separator="/")
    document = json.loads((stored.path / ".zarray").read_text())
    del document["dimension_separator"]
    (stored.path / ".zarray").write_text(json.dumps(document))
    with pipeline(batch_size=1) as p:
        with pytest.raises(damacy.DecodeError) as caught:
            p.push([stored.sample((0, 4), (0, 4))])
            p.pop()
        assert caught.value.reason == "dimension-separator"
