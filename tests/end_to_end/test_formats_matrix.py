"""Every format that docs/formats.md says is read, by every writer that can write it: equal bits.

The rows of a batch are compared with what was written; slots are poisoned between two runs over the same samples.
"""

import itertools
import math

import numpy as np
import pytest
from support import naive_reader, values, writers
from support.element_types import ALL, FLOATS, as_bits, from_bits
from support.layout import Compressor, Layout
from support.streaming import Stored, assert_rows, stream_rows

PLAIN = [Compressor(name) for name in ("zstd", "gzip", "zlib", "lz4", "bz2", "lzma")]
BLOSC = [
    Compressor("blosc", cname=cname, shuffle=shuffle, level=5)
    for cname, shuffle in itertools.product(("zstd", "lz4", "lz4hc", "zlib"), (0, 1, 2))
]


def crops(shape, extents, count, seed=0):
    rng = np.random.default_rng(seed)
    starts = [[int(rng.integers(0, s - e + 1)) for s, e in zip(shape, extents)] for _ in range(count)]
    return [tuple((b, b + e) for b, e in zip(start, extents)) for start in starts]


def check(layout, tmp_path, *, kind="mixed", seed=0, writer_list=writers.ALL, outputs=(), **options):
    """Writes with every writer that supports it; reads the whole array and some crops, as stored and as `outputs`."""
    rng = np.random.default_rng(seed)
    bits = values.punch_holes(rng, values.draw_bits(rng, layout.dtype, layout.shape, kind), layout)
    able = [w for w in writer_list if w.can(layout)]
    assert able, "no writer can write this"
    whole = tuple((0, n) for n in layout.shape)
    some = crops(layout.shape, [max(1, (2 * n) // 3) for n in layout.shape], 5, seed)
    for writer in able:
        path = tmp_path / writer.name
        writer.write(layout, from_bits(bits, layout.dtype), path)
        stored = Stored(path, layout, bits)
        for output, boxes in itertools.product((layout.dtype, *outputs), ([whole], some)):
            rows = stream_rows([stored.sample(*box) for box in boxes], output, **options)
            expected = [stored.row(box, output) for box in boxes]
            assert_rows(rows, expected, f"{writer.name}: {layout} -> {output}")


@pytest.mark.parametrize("sharded", [False, True], ids=["plain", "sharded"])
@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize("dtype", ALL)
def test_every_type_in_v3(dtype, endian, sharded, tmp_path):
    shards = (8, 8) if sharded else None
    layout = Layout(
        shape=(13, 21), chunks=(4, 4), shards=shards, dtype=dtype, endian=endian, compressor=Compressor("zstd")
    )
    check(layout, tmp_path, outputs=("float32",))


@pytest.mark.parametrize("order", [None, (1, 0)], ids=["C", "F"])
@pytest.mark.parametrize("endian", ["little", "big"])
@pytest.mark.parametrize("dtype", [d for d in ALL if d != "bfloat16"])
def test_every_type_in_v2(dtype, endian, order, tmp_path):
    layout = Layout(
        shape=(13, 21), chunks=(4, 5), dtype=dtype, endian=endian, order=order, zarr_format=2, separator="."
    )
    check(layout, tmp_path, outputs=("float32",))


@pytest.mark.parametrize("dtype", ["uint16", "float32"])
@pytest.mark.parametrize("compressor", [None, *PLAIN, *BLOSC], ids=str)
def test_every_codec_in_v2(compressor, dtype, tmp_path):
    layout = Layout(shape=(50, 70), chunks=(32, 48), dtype=dtype, compressor=compressor, zarr_format=2)
    check(layout, tmp_path, kind="smooth")


@pytest.mark.parametrize("sharded", [False, True], ids=["plain", "sharded"])
@pytest.mark.parametrize("crc", [False, True], ids=["", "crc32c"])
@pytest.mark.parametrize("compressor", [None, *PLAIN, *BLOSC], ids=str)
def test_every_codec_in_v3(compressor, crc, sharded, tmp_path):
    shards = (64, 96) if sharded else None
    layout = Layout(shape=(80, 101), chunks=(32, 48), shards=shards, dtype="uint16", compressor=compressor, crc32c=crc)
    check(layout, tmp_path, kind="smooth")


@pytest.mark.parametrize("compressor", [Compressor("zstd"), Compressor("gzip"), Compressor("blosc")], ids=str)
def test_codecs_under_their_numcodecs_names(compressor, tmp_path):
    layout = Layout(
        shape=(40, 40), chunks=(32, 16), dtype="int32", compressor=compressor, crc32c=True, numcodecs_names=True
    )
    check(layout, tmp_path)


@pytest.mark.parametrize("level", [0, 1, 9])
@pytest.mark.parametrize("id_", ["zstd", "gzip", "zlib"])
def test_compression_levels(id_, level, tmp_path):
    check(Layout(shape=(99, 99), chunks=(64, 64), dtype="uint16", compressor=Compressor(id_, level)), tmp_path)


@pytest.mark.parametrize("encoding,separator", list(itertools.product(["default", "v2"], ["/", "."])))
@pytest.mark.parametrize("shape,chunks", [((), ()), ((25,), (2,)), ((3, 25, 4), (1, 2, 4))], ids=["0d", "1d", "3d"])
def test_every_chunk_key_encoding(encoding, separator, shape, chunks, tmp_path):
    layout = Layout(shape=shape, chunks=chunks, dtype="uint16", key_encoding=encoding, separator=separator)
    check(layout, tmp_path)


@pytest.mark.parametrize("separator", ["/", "."])
@pytest.mark.parametrize("shape,chunks", [((), ()), ((25,), (2,)), ((3, 25, 4), (1, 2, 4))], ids=["0d", "1d", "3d"])
def test_both_v2_separators(separator, shape, chunks, tmp_path):
    check(Layout(shape=shape, chunks=chunks, dtype="uint16", zarr_format=2, separator=separator), tmp_path)


@pytest.mark.parametrize("sharded", [False, True], ids=["plain", "sharded"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_every_transpose_of_three_axes(order, sharded, tmp_path):
    shards = (6, 8, 10) if sharded else None
    layout = Layout(shape=(7, 9, 13), chunks=(3, 4, 5), shards=shards, dtype="int32", order=order, endian="big")
    check(layout, tmp_path, outputs=("int16",))


@pytest.mark.parametrize("order", [None, (2, 1, 0)], ids=["C", "F"])
def test_both_v2_orders_in_three_dimensions(order, tmp_path):
    layout = Layout(shape=(7, 9, 13), chunks=(3, 4, 5), dtype="float64", order=order, zarr_format=2, endian="big")
    check(layout, tmp_path, outputs=("float32",))


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 0, 1)])
def test_a_transpose_before_sharding_acts_on_the_whole_shard(order, tmp_path):
    # The outer grid has shards of (4, 6, 10); the codec behind the transpose sees them, and its inner grid, permuted.
    permuted = tuple((4, 6, 10)[k] for k in order)
    inner = Layout(shape=permuted, chunks=tuple(n // 2 for n in permuted), shards=permuted, dtype="uint16")
    layout = Layout(shape=(8, 11, 10), chunks=(4, 6, 10), dtype="uint16")
    numbers = (np.arange(math.prod(layout.shape)) + 1).astype(np.uint16).reshape(layout.shape)
    writers.write_by_hand(layout, numbers, tmp_path / "a")
    document = writers.document_v3(layout)
    transpose = {"name": "transpose", "configuration": {"order": list(order)}}
    document["codecs"] = [transpose, *writers.document_v3(inner)["codecs"]]
    (tmp_path / "a" / "zarr.json").write_text(writers.json.dumps(document))
    for index in layout.object_indices():
        shard = writers._cut(numbers, index, layout.chunks, 0).transpose(order)
        (tmp_path / "a" / layout.key(index)).write_bytes(writers._encode_shard(inner, shard, 0, b""))
    stored = Stored(tmp_path / "a", layout, numbers)
    boxes = [((0, 8), (0, 11), (0, 10))]
    np.testing.assert_array_equal(naive_reader.read(stored.path), numbers)
    np.testing.assert_array_equal(writers.read_with_tensorstore(stored.path, layout), numbers)
    assert_rows(stream_rows([stored.sample(*b) for b in boxes], "uint16"), [stored.row(b) for b in boxes])


@pytest.mark.parametrize("location,crc", list(itertools.product(["end", "start"], [True, False])))
@pytest.mark.parametrize("compressor", [None, Compressor("zstd")], ids=str)
def test_shard_indices_at_either_end_with_and_without_checksum(location, crc, compressor, tmp_path):
    layout = Layout(
        shape=(19, 30),
        chunks=(4, 5),
        shards=(8, 15),
        dtype="uint16",
        compressor=compressor,
        index_location=location,
        index_crc32c=crc,
    )
    check(layout, tmp_path)


FILTERS = [
    [{"id": "delta", "dtype": "<i2"}],
    [{"id": "delta", "dtype": "<i2", "astype": "<i2"}, {"id": "shuffle", "elementsize": 2}],
    [{"id": "delta", "dtype": ">i2", "astype": "<i4"}],
    [{"id": "fixedscaleoffset", "dtype": "<i2", "astype": "|i1", "scale": 0.125, "offset": 3.5}],
    [{"id": "fixedscaleoffset", "dtype": "<i2", "astype": "<f4", "scale": 0.3, "offset": -1.5}],
    [{"id": "astype", "encode_dtype": "<f4", "decode_dtype": "<i2"}],
    [{"id": "astype", "encode_dtype": "<f8", "decode_dtype": "<i2"}, {"id": "quantize", "digits": 1, "dtype": "<f8"}],
    [{"id": "quantize", "digits": 2, "dtype": "<f4", "astype": "<f8"}, {"id": "crc32", "location": "end"}],
    [{"id": "shuffle"}, {"id": "adler32"}],
    [{"id": "crc32"}, {"id": "adler32", "location": "end"}, {"id": "crc32c"}],
    [{"id": "zlib", "level": 1}, {"id": "lz4"}],
    [{"id": "bz2"}, {"id": "fletcher32"}],
    [{"id": "fletcher32"}, {"id": "lzma", "format": 2, "preset": 0}],
    [{"id": "jenkins_lookup3", "initval": 0, "prefix": None}, {"id": "jenkins_lookup3", "initval": 4294967295}],
    [{"id": "lzma", "format": 1, "check": 0, "preset": 1}],
    [{"id": "lzma", "format": 3, "filters": [{"id": 3, "dist": 2}, {"id": 33, "preset": 2147483657}]}],
    [{"id": "lzma", "format": 3, "filters": [{"id": 4, "start_offset": 16}, {"id": 0x4000000000000001, "lc": 1}]}],
]


@pytest.mark.parametrize("order", [None, (1, 0)], ids=["C", "F"])
@pytest.mark.parametrize("compressor", [None, Compressor("zstd"), Compressor("blosc")], ids=str)
@pytest.mark.parametrize("filters", FILTERS, ids=lambda filters: "-".join(f["id"] for f in filters))
def test_v2_filters_equal_those_of_numcodecs(filters, compressor, order, tmp_path):
    dtype = "float32" if filters[0].get("dtype") == "<f4" else "int16"
    layout = Layout(
        shape=(13, 22),
        chunks=(4, 6),
        dtype=dtype,
        zarr_format=2,
        filters=tuple(filters),
        compressor=compressor,
        order=order,
    )
    rng = np.random.default_rng(len(filters))
    numbers = (rng.integers(-900, 900, layout.shape) * (0.37 if dtype == "float32" else 1)).astype(dtype)
    able = [w for w in writers.ALL if w.can(layout)]
    for writer in able:
        writer.write(layout, numbers, tmp_path / writer.name)
        kept = naive_reader.read(tmp_path / writer.name)  # quantised or scaled values differ from those written
        stored = Stored(tmp_path / writer.name, layout, as_bits(kept, dtype))
        if writer is writers.ZARR:
            np.testing.assert_array_equal(writers.read_with_zarr(stored.path, layout), kept)
        boxes = [((0, 13), (0, 22)), ((3, 9), (5, 21))]
        for box in boxes:
            assert_rows(stream_rows([stored.sample(*box)], dtype), [stored.row(box)], f"{writer.name}: {layout}")


@pytest.mark.parametrize("locations", list(itertools.product(["end", "start"], repeat=2)), ids="-".join)
@pytest.mark.parametrize("inner", [((8, 6),), ((8, 12), (8, 6))], ids=["one", "two"])
@pytest.mark.parametrize("order", [None, (1, 0)], ids=["C", "F"])
def test_shards_in_shards(locations, inner, order, tmp_path):
    layout = Layout(
        shape=(19, 31),
        chunks=(4, 3),
        shards=(16, 12),
        inner_shards=inner,
        dtype="uint16",
        compressor=Compressor("zstd"),
        index_location=locations[0],
        inner_index_location=locations[1],
        order=order,
        endian="big",
    )
    check(layout, tmp_path)


@pytest.mark.parametrize("crc", [False, True], ids=["", "crc32c"])
@pytest.mark.parametrize("compressor", [None, Compressor("zstd"), Compressor("gzip"), Compressor("blosc")], ids=str)
@pytest.mark.parametrize("inner", [(), ((8, 6),)], ids=["", "nested"])
def test_codecs_after_sharding(inner, compressor, crc, tmp_path):
    layout = Layout(
        shape=(19, 31),
        chunks=(4, 3),
        shards=(16, 12),
        inner_shards=inner,
        dtype="uint16",
        compressor=Compressor("zstd"),
        shard_compressor=compressor,
        shard_crc32c=crc,
    )
    check(layout, tmp_path)


@pytest.mark.parametrize("seed,gap", [(0, b"dead space"), (7, b""), (8, b"\xff" * 5000)])
def test_payload_in_any_order_with_dead_space(seed, gap, tmp_path):
    layout = Layout(shape=(16, 64), chunks=(4, 8), shards=(16, 32), dtype="uint16", compressor=Compressor("zstd"))
    numbers = (np.arange(1024) + 1).astype(np.uint16).reshape(16, 64)
    writers.write_by_hand(layout, numbers, tmp_path / "a", seed=seed, gap=gap)
    stored = Stored(tmp_path / "a", layout, numbers)
    boxes = [((0, 16), (0, 64))]
    assert_rows(stream_rows([stored.sample(*b) for b in boxes], "uint16"), [stored.row(b) for b in boxes])


@pytest.mark.parametrize("zarr_format,dtype", list(itertools.product([3, 2], ["bool", "int8", "uint64", *FLOATS])))
def test_missing_chunks_have_every_kind_of_fill_value(zarr_format, dtype, tmp_path):
    if zarr_format == 2 and dtype == "bfloat16":
        zarr_format = 3  # v2 cannot name it; the row is then simply read twice
    for number, fill in enumerate(values.fills(dtype)):
        shards = (4, 6) if zarr_format == 3 and number % 2 else None
        layout = Layout(
            shape=(7, 9), chunks=(2, 3), shards=shards, dtype=dtype, fill_bits=fill, zarr_format=zarr_format
        )
        check(layout, tmp_path / str(number), seed=number, outputs=("float64",), rounds=1)


def test_an_array_without_any_object_is_all_fill(tmp_path):
    layout = Layout(shape=(50, 60), chunks=(7, 8), dtype="float32", fill_bits=0xFFC12345)
    writers.write_by_hand(layout, layout.fill_array(layout.shape), tmp_path / "a")
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["zarr.json"]
    stored = Stored(tmp_path / "a", layout, writers.empty_bits(layout))
    boxes = [((0, 50), (0, 60))]
    for output in ("float32", "float64", "int8"):
        rows = stream_rows([stored.sample(*b) for b in boxes], output)
        assert_rows(rows, [stored.row(b, output) for b in boxes])


SHAPES = [
    ((), (), None),
    ((1,), (1,), None),
    ((1,), (5,), (10,)),
    ((17,), (16,), None),
    ((16,), (4,), (8,)),
    ((3, 1, 5), (7, 1, 9), None),
    ((3, 1, 5), (2, 1, 2), (4, 1, 6)),
    ((2, 3, 4, 5, 6), (1, 2, 3, 4, 5), None),
    ((2, 3, 4, 5, 6), (1, 1, 2, 3, 2), (2, 2, 4, 3, 4)),
    ((1, 2, 1, 2, 1, 2, 1, 2, 1, 3), (1, 1, 1, 1, 1, 1, 1, 1, 1, 2), None),
]


@pytest.mark.parametrize("shape,chunks,shards", SHAPES, ids=str)
def test_shapes_that_chunks_divide_or_do_not_divide(shape, chunks, shards, tmp_path):
    layout = Layout(shape=shape, chunks=chunks, shards=shards, dtype="uint32", compressor=Compressor("zstd"))
    check(layout, tmp_path, outputs=("bfloat16",))


def test_thirty_two_axes(tmp_path):
    shape = (1,) * 28 + (2, 2, 2, 3)
    layout = Layout(shape=shape, chunks=(1,) * 30 + (2, 2), dtype="uint8", separator=".")
    check(layout, tmp_path, writer_list=[writers.BY_HAND])
