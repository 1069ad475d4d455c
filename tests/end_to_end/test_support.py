"""The tests' own tools checked against each other: writers and the naive reader, the conversion model and NumPy.

Damacy is not used here, so a failure in this file is a fault of the tests.
"""

import itertools

import numpy as np
import pytest
from support import convert_model, naive_reader, values, writers
from support.element_types import ALL, FLOATS, INTEGERS, as_bits, bits_type, from_bits, numpy_type
from support.layout import Compressor, Layout

LAYOUTS = [
    Layout(shape=(7, 9), chunks=(3, 4), dtype="uint16", compressor=Compressor("zstd")),
    Layout(shape=(7, 9), chunks=(3, 4), dtype="int32", endian="big", order=(1, 0), compressor=Compressor("gzip")),
    Layout(shape=(7, 9), chunks=(3, 4), dtype="float64", compressor=Compressor("blosc", cname="zstd"), crc32c=True),
    Layout(shape=(9, 17), chunks=(2, 4), shards=(4, 8), dtype="uint8", compressor=Compressor("blosc", shuffle=2)),
    Layout(shape=(9, 17), chunks=(2, 4), shards=(4, 8), dtype="float32", index_location="start", fill_bits=0x7FC00000),
    Layout(shape=(9, 17), chunks=(2, 4), shards=(4, 8), dtype="bfloat16", order=(1, 0), fill_bits=0x3FC0),
    Layout(shape=(5, 6, 7), chunks=(2, 3, 4), dtype="float16", order=(2, 0, 1), fill_bits=0x8000, separator="."),
    Layout(shape=(5, 6, 7), chunks=(2, 3, 4), dtype="int8", key_encoding="v2", separator=".", fill_bits=0xFF),
    Layout(shape=(), chunks=(), dtype="int64", compressor=Compressor("zlib")),
    Layout(shape=(40,), chunks=(16,), dtype="uint64", compressor=Compressor("lz4"), numcodecs_names=True),
    Layout(shape=(40,), chunks=(16,), dtype="bool", fill_bits=1, zarr_format=2, separator="."),
    Layout(shape=(7, 9), chunks=(3, 4), dtype="int16", endian="big", order=(1, 0), zarr_format=2, separator="/"),
    Layout(shape=(7, 9), chunks=(3, 4), dtype="float32", zarr_format=2, separator=".", compressor=Compressor("zlib")),
    Layout(shape=(90, 90), chunks=(32, 64), dtype="uint32", zarr_format=2, separator=".", compressor=Compressor("lz4")),
    Layout(
        shape=(90, 90), chunks=(32, 64), dtype="uint32", zarr_format=2, compressor=Compressor("blosc", cname="zlib")
    ),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_naive_reader_and_each_writers_own_reader_agree(layout, tmp_path):
    rng = np.random.default_rng(1)
    bits = values.punch_holes(rng, values.draw_bits(rng, layout.dtype, layout.shape, "smooth"), layout)
    can = [w for w in writers.ALL if w.can(layout)]
    assert writers.BY_HAND in can
    for writer in can:
        path = tmp_path / writer.name
        writer.write(layout, from_bits(bits, layout.dtype), path)
        np.testing.assert_array_equal(as_bits(naive_reader.read(path), layout.dtype), bits)
        for reader in can:
            if reader.read:
                np.testing.assert_array_equal(as_bits(reader.read(path, layout), layout.dtype), bits)


def test_writers_leave_out_objects_of_only_fill(tmp_path):
    layout = Layout(shape=(8,), chunks=(2,), shards=(4,), dtype="uint16", fill_bits=5)
    for writer in writers.ALL:
        data = from_bits(np.array([5, 5, 5, 5, 1, 2, 5, 5], np.uint16), "uint16")
        writer.write(layout, data, tmp_path / writer.name)
        assert not (tmp_path / writer.name / "c/0").exists(), writer.name
        index = np.frombuffer((tmp_path / writer.name / "c/1").read_bytes()[-36:-4], "<u8")
        assert index.tolist() == [0, 4, 2**64 - 1, 2**64 - 1], writer.name


def test_the_naive_reader_reads_shards_in_shards(tmp_path):
    outer = Layout(shape=(16,), chunks=(8,), shards=(8,), dtype="uint16")
    inner = Layout(shape=(8,), chunks=(2,), shards=(8,), dtype="uint16", index_location="start")
    data = np.arange(1, 17, dtype=np.uint16)
    writers.write_by_hand(outer, data, tmp_path / "a")
    document = writers.document_v3(outer)
    document["codecs"][0]["configuration"]["codecs"] = writers.document_v3(inner)["codecs"]
    (tmp_path / "a" / "zarr.json").write_text(writers.json.dumps(document))
    for k in range(2):
        shard = writers._encode_shard(inner, data[8 * k : 8 * k + 8], 0, b"")
        entry = np.array([0, len(shard)], "<u8").tobytes()
        (tmp_path / "a" / f"c/{k}").write_bytes(
            shard + entry + writers.google_crc32c.value(entry).to_bytes(4, "little")
        )
    np.testing.assert_array_equal(naive_reader.read(tmp_path / "a"), data)


def _safe_for_numpy(bits, source, target):
    """Values for which NumPy and the rules of batches must agree: no NaN, no number beyond an integer type's range."""
    if source == "bool" or target == "bool":
        return np.ones(bits.shape, bool)
    with np.errstate(invalid="ignore"):
        as_float = from_bits(bits, source).astype(np.longdouble)
    keep = ~np.isnan(as_float)
    if target in INTEGERS:
        ends = np.iinfo(target)
        keep &= (np.trunc(as_float) >= ends.min) & (np.trunc(as_float) <= ends.max)
    return keep


def _numpy_rounds_once(source, target):
    return "bfloat16" not in (source, target) or {source, target} <= {
        "bfloat16",
        "float32",
        "bool",
    }  # else by way of f32


@pytest.mark.parametrize("source,target", [pair for pair in itertools.product(ALL, ALL) if _numpy_rounds_once(*pair)])
def test_the_conversion_model_agrees_with_numpy_where_numpy_rounds_once(source, target):
    rng = np.random.default_rng(2)
    bits = np.concatenate([values.draw_bits(rng, source, (300,), k) for k in ("noise", "special", "smooth")])
    bits = bits[_safe_for_numpy(bits, source, target)]
    if target == "float16" and source in ("int64", "uint64", "int32", "uint32"):
        bits = bits[np.abs(from_bits(bits, source).astype(np.float64)) < 2**24]  # beyond, NumPy may round twice
    with np.errstate(all="ignore"):
        expected = as_bits(from_bits(bits, source).astype(numpy_type(target)), target)
    if target == "bool":
        expected = np.array([float(v) != 0 for v in from_bits(bits, source)], np.uint8)
    assert bits.size > 50
    np.testing.assert_array_equal(convert_model.convert_bits(bits, source, target), expected)


@pytest.mark.parametrize(
    "number,source,target,expected",
    [
        (2**24 + 1, "uint32", "bfloat16", 0x4B80),  # exact halves go to even, once
        (0x0180_8001, "uint32", "bfloat16", 0x4BC0),
        (2**63 - 1, "int64", "float32", 0x5F000000),
        (0x3FF0_2000_0000_0001, "float64", "bfloat16", 0x3F81),  # just above a half: by way of f32 it would round down
        (0x7FA00001, "float32", "float64", 0x7FF8000000000000),  # NaN: quiet, no payload
        (0xFFA00001, "float32", "bfloat16", 0xFFC0),
        (0x7FA00001, "float32", "float32", 0x7FA00001),  # same type: bits copied
        (0x7FC00000, "float32", "int32", 0),
        (0xFF800000, "float32", "int16", 0x8000),
        (0xBF000000, "float32", "uint8", 0),
        (0x4F800000, "float32", "int32", 0x7FFFFFFF),
        (65520, "int32", "float16", 0x7C00),
        (65519, "int32", "float16", 0x7BFF),
        (0xFF, "int8", "uint64", 0),
        (0x80000000, "float32", "bool", 0),
        (0x7FC00000, "float32", "bool", 1),
        (2, "bool", "bool", 1),
        (200, "bool", "float16", 0x3C00),
    ],
)
def test_the_conversion_model_at_points_worked_out_by_hand(number, source, target, expected):
    assert convert_model.convert_one(number, source, target) == expected


def test_special_values_exist_for_every_type():
    for name in ALL:
        assert len(values.special_bits(name)) >= (2 if name == "bool" else 8)
        assert np.array(values.special_bits(name), bits_type(name)).size
    assert all(len(values.fills(name)) >= 5 for name in (*INTEGERS, *FLOATS))
