"""Every limit of the library at its value - 1, its value and its value + 1, and every reason code of formats, through
the public interface. What the code has and this file lacks is an error, so none is forgotten.
"""

import json
import pathlib
import re
import struct

import numcodecs
import pytest
from support.layout import Compressor
from support.streaming import pipeline, store

import damacy

ROOT = pathlib.Path(__file__).resolve().parents[2]
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
ACCEPTED = None  # the result of a probe if nothing was refused; else the error


def constants() -> dict[str, int]:
    """Names and values of `Limits` in core/limits.h; for a function its value for 640 decoded bytes."""
    text = (ROOT / "src/damacy/core/limits.h").read_text()
    plain = {name: eval(value.replace("std::uint64_t{1}", "1")) for name, value in PLAIN.findall(text)}  # noqa: S307
    functions = {name: eval(value, plain | {"decoded": 640}) // 1 for name, value in FUNCTION.findall(text)}  # noqa: S307
    return plain | {name: int(value) for name, value in functions.items()}


PLAIN = re.compile(r"static constexpr (?:std::uint64_t|int) (\w+) = ([^;(]+|std::uint64_t\{1\} << \d+);")
FUNCTION = re.compile(r"static constexpr std::uint64_t (\w+)\(std::uint64_t decoded\) noexcept \{\s*return ([^;]+);")


def attempt(call):
    try:
        call()
    except damacy.DamacyError as error:
        return error
    return ACCEPTED


def document(**changes) -> dict:
    """An array of bytes in chunks of 4."""
    base = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [8],
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": 0,
        "codecs": [BYTES],
    }
    return {k: v for k, v in (base | changes).items() if v is not ...}


def grid(*chunk) -> dict:
    return {"name": "regular", "configuration": {"chunk_shape": list(chunk)}}


def write(path, text, name="zarr.json"):
    path.mkdir(exist_ok=True)
    (path / name).write_bytes(text if isinstance(text, bytes) else json.dumps(text).encode())


def opening(path, text):
    write(path, text)
    return attempt(lambda: damacy.open_array(path))


def image(path, level: str):
    """The error of opening an image whose first level is `level`, which does not exist."""
    multiscale = {"datasets": [{"path": level}]}
    group = {"zarr_format": 3, "node_type": "group", "attributes": {"multiscales": [multiscale]}}
    error = opening(path, group)
    return ACCEPTED if isinstance(error, damacy.NotFound | damacy.DecodeError) else error


def reading(path, compressor, chunk: bytes, decoded: int):
    """An array of one chunk whose object has these bytes."""
    codec = {"name": compressor, "configuration": {}} if compressor == "zstd" else BLOSC
    write(path, document(shape=[decoded], chunk_grid=grid(decoded), codecs=[BYTES, codec]))
    (path / "c.0").write_bytes(chunk)
    with pipeline(batch_size=1, dtype="u8") as p:
        p.push([damacy.Sample(uri=path, aabb=[(0, decoded)])])
        return attempt(p.pop)


BLOSC = {
    "name": "blosc",
    "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "noshuffle", "typesize": 1, "blocksize": 0},
}


def zstd_frame(content: bytes, blocks: int = 1, window: int = 0x50) -> bytes:
    """Raw blocks written by hand, all empty except the last."""
    empty = (0).to_bytes(3, "little") * (blocks - 1)
    return b"\x28\xb5\x2f\xfd\x00" + bytes([window]) + empty + (len(content) << 3 | 1).to_bytes(3, "little") + content


def skippable(size: int) -> bytes:
    return b"\x50\x2a\x4d\x18" + struct.pack("<I", size - 8) + bytes(size - 8)


def blosc_frame(content: bytes, blocksize: int, typesize: int = 1) -> bytes:
    """Blocks of one raw stream each, by hand."""
    blocks = [content[i : i + blocksize] for i in range(0, len(content), blocksize)]
    body, starts = b"", []
    for block in blocks:
        starts.append(16 + 4 * len(blocks) + len(body))
        body += struct.pack("<i", len(block)) + block
    sizes = struct.pack("<III", len(content), blocksize, 16 + 4 * len(blocks) + len(body))
    return bytes([2, 1, 0x30, typesize]) + sizes + struct.pack(f"<{len(blocks)}i", *starts) + body


# --- probes: the result at a value ------------------------------------------------------------------------------------


def uri(path, value):
    error = attempt(lambda: damacy.open("a" * value))
    return ACCEPTED if isinstance(error, damacy.NotFound | damacy.StorageError) else error


def key_bytes(path, value):
    level = value - len("/zarr.json")
    return image(path, ("a" * 127 + "/") * (level // 128) + "a" * (level % 128 or 1))


def pushing(path, doc, *box, **options):
    write(path, doc)
    with pipeline(batch_size=1, dtype="u8", **options) as p:
        return attempt(lambda: p.push([damacy.Sample(uri=path, aabb=box)]))


def chunks_per_sample(path, value):
    shards = {"chunk_shape": [1], "codecs": [BYTES], "index_codecs": [BYTES]}
    codecs = [{"name": "sharding_indexed", "configuration": shards}]
    return pushing(path, document(shape=[1 << 19], chunk_grid=grid(1 << 19), codecs=codecs), (0, value))


def pieces_per_sample(path, value):
    """Two elements that repeat: a piece each time."""
    doc = document(shape=[2], chunk_grid=grid(2))
    return pushing(path, doc, (0, 2 * value), arrays=damacy.ArraySpec(pad="wrap"))


def border_positions(path, value):
    doc = document(shape=[1], chunk_grid=grid(1))
    return pushing(path, doc, (0, value + 1), arrays=damacy.ArraySpec(pad="edge"))


def padded(path, doc, size):
    return opening(path, json.dumps(doc).encode().ljust(size))


def zstd_frames(path, value):
    return reading(path, "zstd", zstd_frame(b"1") * (value - 2) + skippable(9) + zstd_frame(b"23"), value)


def zstd_window(path, value):
    byte = {-1: 20 << 3 | 7, 0: 21 << 3, 1: 21 << 3 | 1}[value - (1 << 31)]  # the next ones that can be written
    return reading(path, "zstd", zstd_frame(b"1234", window=byte), 4)


def encoded_bytes(path, value):
    frame = zstd_frame(bytes(640))
    return reading(path, "zstd", frame + skippable(value - len(frame)), 640)


def making(**options):
    return attempt(lambda: pipeline(**options).close())


# By name: the probe, and the reason of the refusal; or, for limits that refuse nothing, the test that covers it.
LIMITS = {
    "uri_bytes": (uri, "uri"),
    "key_bytes": (key_bytes, "limit"),
    "key_components": (lambda path, value: image(path, "/".join("a" * (value - 1))), "limit"),
    "array_document_bytes": (lambda path, value: padded(path, document(), value), "limit"),
    "group_document_bytes": "src/damacy/zarr/limits_test.cpp:bytes_of_a_group_document",
    "references": "src/damacy/store/references_test.cpp:their_number_is_limited",
    "json_nesting": "src/damacy/zarr/json_test.cpp:TEST(JsonLimits, nesting)",
    "json_members": "src/damacy/zarr/json_test.cpp:TEST(JsonLimits, members_of_an_object)",
    "json_string_bytes": "src/damacy/zarr/json_test.cpp:TEST(JsonLimits, bytes_of_a_string)",
    "json_number_chars": "src/damacy/zarr/json_test.cpp:TEST(JsonLimits, characters_of_a_number)",
    "ngff_values": "src/damacy/zarr/ngff_test.cpp:the_number_of_values_is_limited",
    "rank": "src/damacy/zarr/limits_test.cpp:TEST(Limits, rank)",
    "codecs": "src/damacy/zarr/limits_test.cpp:codecs_of_an_array_whatever_list_they_are_in",
    "chunks_per_sample": (chunks_per_sample, "limit"),
    "pieces_per_sample": (pieces_per_sample, "limit"),
    "border_positions": (border_positions, "limit"),
    "indices_per_axis": "src/damacy/pipeline/finished_arrays_test.cpp:refuses_more_indices_of_an_axis",
    "arrays_per_sample": "src/damacy/pipeline/named_parts_test.cpp:refuses_more_arrays_parts_and_bytes_of_names",
    "parts_per_sample": "src/damacy/pipeline/named_parts_test.cpp:refuses_more_arrays_parts_and_bytes_of_names",
    "array_name_bytes": "src/damacy/pipeline/named_parts_test.cpp:refuses_more_arrays_parts_and_bytes_of_names",
    "chunk_records_planned": "src/damacy/plan/batch_plan_test.cpp:a_batch_beyond_the_record_limit",
    "shard_index_entries": "src/damacy/zarr/limits_test.cpp:entries_of_a_shard_index",
    "max_chunk_bytes": (lambda path, value: making(max_chunk_uncompressed_bytes=value), "limit"),
    "max_element_chunk_bytes": "src/damacy/zarr/limits_test.cpp:bytes_of_a_chunk",
    "zstd_frames": (zstd_frames, "limit"),
    "zstd_window": (zstd_window, "limit"),
    "blosc_typesize": 'tests/end_to_end/test_blosc_frames.py:"typesize", [*range(1, 18), 255]',  # a byte
    "storage_operation_s": "tests/sweeps/hung_storage_test.cpp:every_kind_of_call_has_the_deadline",
    "threads": (lambda path, value: making(n_io_threads=value), "limit"),
    "samples_after_flush": "tests/end_to_end/test_flush.py:LIMIT = 1 << 20",
    "error_text_bytes": "src/damacy/core/error_test.cpp:cuts_in_the_middle",
    "lzma_memory_bytes": "src/damacy/codec/lzma_test.cpp:refuses_to_take_more_memory_than_the_limit",
    "lzma_memory": "src/damacy/codec/lzma_test.cpp:refuses_to_take_more_memory_than_the_limit",
    "log_records_per_second": "src/damacy/core/log_limit_test.cpp:admits_ten_in_a_second",
    "merged_read_bytes": "src/damacy/core/coalesce_test.cpp:grows_to_its_cap_exactly",
    "read_gap_bytes": "tests/end_to_end/test_stats.py:test_the_gap_limit_to_the_byte",
    "group_list_depth": "src/damacy/zarr/open_test.cpp:goes_four_levels_deep",
    "group_list_entries": "src/damacy/zarr/open_test.cpp:looks_at_a_thousand_directories",
    "group_list_shown": "src/damacy/zarr/open_test.cpp:shows_twenty_and_counts_the_rest",
    "encoded_chunk_bytes": (encoded_bytes, "limit"),
    "zstd_blocks": (lambda path, value: reading(path, "zstd", zstd_frame(bytes(640), value), 640), "limit"),
    # As many bytes in blocks of one: 4369, for which the limit is the same number, and one less and more.
    "blosc_blocks": (
        lambda path, value: reading(path, "blosc", blosc_frame(bytes(value + 233), 1), value + 233),
        "limit",
    ),
}


def test_the_table_has_every_limit_of_the_code():
    assert set(LIMITS) == set(constants())
    for elsewhere in (test for test in LIMITS.values() if isinstance(test, str)):
        file, name = elsewhere.split(":")
        assert name in (ROOT / file).read_text(), elsewhere


@pytest.mark.parametrize("over", [-1, 0, 1])
@pytest.mark.parametrize("name", [name for name, test in LIMITS.items() if not isinstance(test, str)])
def test_a_limit_is_exact(tmp_path, name, over):
    probe, reason = LIMITS[name]
    error = probe(tmp_path / "a.zarr", constants()[name] + over)
    if over <= 0:
        assert error is ACCEPTED, error
        return
    assert type(error) is damacy.InvalidArgument, repr(error)
    assert error.reason == reason, error


# --- reason codes -----------------------------------------------------------------------------------------------------

BAD, NO, LIMIT = damacy.DecodeError, damacy.UnsupportedFormat, damacy.InvalidArgument


def metadata(text, name="zarr.json"):
    """The error of a push, before any chunk is read."""

    def act(path):
        write(path, text, name)
        with pipeline() as p:
            return attempt(lambda: p.push([damacy.Sample(uri=path, aabb=[(0, 4)])]))

    return act


def damaged(change, dtype="uint8", **options):
    """The error of a pop, for an array of 8 elements in chunks of 4 after `change`."""

    def act(path):
        stored = store(path, (8,), (4,), dtype, **options)
        with pipeline(batch_size=1) as p:
            if change is after_the_first_batch:
                p.push([stored.sample((0, 4))])
                p.pop().release()
            change(stored)
            p.push([stored.sample((0, 4))])
            return attempt(p.pop)

    return act


def with_bytes(function):
    def change(stored):
        path = stored.object(0)
        path.write_bytes(function(path.read_bytes()))

    return change


def a_directory(stored):
    stored.object(0).unlink()
    stored.object(0).mkdir()


def after_the_first_batch(stored):
    path = stored.object(0)
    raw = path.read_bytes()
    path.unlink()
    path.with_suffix(".new").write_bytes(raw)
    path.with_suffix(".new").rename(path)


def nested_chunks(path):
    stored = store(path, (8, 8), (4, 4), zarr_format=2, separator="/")
    stored.object(1, 1).unlink()
    text = json.loads((path / ".zarray").read_text())
    del text["dimension_separator"]
    write(path, text, ".zarray")
    with pipeline(batch_size=1) as p:
        return attempt(lambda: (p.push([stored.sample((4, 8), (4, 8))]), p.pop()))


def flip(at):
    return lambda raw: raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :] if at >= 0 else flip(len(raw) + at)(raw)


def sharded(**changes):
    options = {"chunk_shape": [2], "codecs": [BYTES], "index_codecs": [BYTES], **changes}
    return [{"name": "sharding_indexed", "configuration": options}]


ZSTD = {"compressor": Compressor("zstd")}

# By code: the action, the class, and the attributes that must be set.
ROWS = {
    "no-metadata": (
        lambda path: metadata(b"", "nothing")(path),
        damacy.NotFound,
        (),
    ),
    "group": (metadata({"zarr_format": 3, "node_type": "group"}), LIMIT, ()),
    "json": (metadata(b"{"), BAD, ("key",)),
    "duplicate-key": (metadata(b'{"zarr_format": 3, "zarr_format": 3}'), BAD, ("key", "pointer")),
    "metadata": (metadata(document(shape=...)), BAD, ("key", "pointer")),
    "limit": (metadata(document(shape=[2**63])), LIMIT, ("key", "pointer")),
    "unknown-member": (metadata(document(x=1)), NO, ("key", "pointer")),
    "storage-transformers": (metadata(document(storage_transformers=[{"name": "t"}])), NO, ("key", "pointer")),
    "chunk-grid": (metadata(document(chunk_grid={"name": "hexagonal"})), NO, ("key", "pointer")),
    "chunk-key-encoding": (metadata(document(chunk_key_encoding="suffix")), NO, ("key", "pointer")),
    "data-type": (metadata(document(data_type="string")), NO, ("key", "pointer")),
    "codec": (metadata(document(codecs=[BYTES, "zfp"])), NO, ("key", "pointer")),
    "codec-option": (
        metadata(document(codecs=[BYTES, {"name": "zstd", "configuration": {"window": 1}}])),
        NO,
        ("key", "pointer"),
    ),
    "index-codecs": (metadata(document(codecs=sharded(index_codecs=[BYTES, "zstd"]))), NO, ("key", "pointer")),
    "codec-chain": (metadata(document(codecs=["zstd", BYTES])), BAD, ("key", "pointer")),
    "fill-value": (metadata(document(fill_value=256)), BAD, ("key", "pointer")),
    "dimension-separator": (nested_chunks, BAD, ("key", "pointer")),
    "shard-index": (damaged(with_bytes(flip(-1)), shards=(8,)), BAD, ("key", "chunk", "byte_range")),
    "frame": (damaged(with_bytes(lambda raw: b"????" + raw[4:]), **ZSTD), BAD, ("key", "chunk", "byte_range")),
    "size": (damaged(with_bytes(lambda raw: zstd_frame(b"123")), **ZSTD), BAD, ("key", "chunk", "byte_range")),
    "checksum": (damaged(with_bytes(flip(0)), crc32c=True), BAD, ("key", "chunk", "byte_range")),
    "dictionary": (
        damaged(with_bytes(lambda raw: b"\x28\xb5\x2f\xfd\x01\x50\x07" + zstd_frame(b"1234")[6:]), **ZSTD),
        BAD,
        ("key", "chunk", "byte_range"),
    ),
    "short-read": (damaged(with_bytes(lambda raw: raw[:-1])), damacy.StorageError, ("key", "chunk", "byte_range")),
    "io": (damaged(a_directory), damacy.StorageError, ("key",)),
    "changed": (damaged(after_the_first_batch, shards=(8,)), damacy.StorageError, ("key",)),
}


def test_the_table_has_every_code_of_the_document():
    section = (ROOT / "docs/_ext/reasons.toml").read_text()
    groups = re.split(r"^\[.*\]$", section, flags=re.M)[3:5]  # arrays that cannot be opened, data that cannot be read
    codes = {code for group in groups for code in re.findall(r"^([\w-]+) = ", group, flags=re.M)}
    # Other tests cover deadlines (tests/sweeps) and unusable attributes of CF and NGFF, which `damacy info` shows.
    assert codes | {"limit"} == set(ROWS) | {"deadline", "cf", "ngff"}


@pytest.mark.parametrize("code", ROWS)
def test_a_reason_code(tmp_path, code):
    act, kind, attributes = ROWS[code]
    path = tmp_path / "vol.zarr"
    error = act(path)
    assert type(error) is kind, repr(error)
    assert error.reason == code, error
    assert error.uri == str(path) and error.store == str(path), error
    for name in attributes:
        assert getattr(error, name) is not None, f"{name}: {error}"
    text = str(error)
    assert "vol.zarr" in text and "\n" not in text and len(text.encode()) <= 4096


def test_handmade_frames_are_valid(tmp_path):
    """The reference libraries decode the frames that were made by hand."""
    assert numcodecs.Zstd().decode(zstd_frame(b"1234", blocks=3)) == b"1234"
    assert bytes(numcodecs.Blosc().decode(blosc_frame(bytes(range(200)) * 3, 128))) == bytes(range(200)) * 3
