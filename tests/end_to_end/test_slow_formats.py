"""Formats of numcodecs that only the cores decode: read as zarr-python reads them, by a pipeline and by `damacy.zarr`,
logged once, and refused by name where an option is not supported."""

import json
import logging
import time
import warnings

import numpy as np
import pytest
from support.streaming import pipeline, row_bits

import damacy
import damacy.zarr

zarr = pytest.importorskip("zarr", minversion="3.1")
numcodecs = pytest.importorskip("numcodecs")
codecs = pytest.importorskip("zarr.codecs.numcodecs")
pytestmark = [pytest.mark.timeout(120), pytest.mark.filterwarnings("ignore:Numcodecs codecs")]

RAW = {"format": 3, "filters": [{"id": 3, "dist": 2}, {"id": 33, "preset": 6}]}
with warnings.catch_warnings(action="ignore"):  # zarr warns of each that v3 does not define it
    V3 = {
        "bz2": [codecs.BZ2(level=9)],
        "xz": [codecs.LZMA(preset=0)],
        "alone": [codecs.LZMA(format=2)],
        "raw": [codecs.LZMA(**RAW)],
        "fletcher32": [codecs.Fletcher32(), codecs.BZ2(), codecs.Fletcher32()],
        "jenkins": [codecs.JenkinsLookup3(initval=3)],
    }
V2 = {
    "bz2": {"compressors": numcodecs.BZ2(9)},
    "xz": {"compressors": numcodecs.LZMA(check=4, preset=9)},
    "raw": {"compressors": numcodecs.LZMA(**RAW)},
    "blosclz": {"compressors": numcodecs.Blosc("blosclz", shuffle=2)},
    "fletcher32": {"filters": [numcodecs.Delta("<i2"), numcodecs.Fletcher32()], "compressors": None},
    "jenkins": {"filters": [numcodecs.JenkinsLookup3(initval=9)], "compressors": numcodecs.BZ2()},
}


def numbers(shape, dtype):
    rng = np.random.default_rng(7)
    return (rng.integers(0, 40, shape) * rng.integers(0, 3, shape)).astype(dtype)


def check(path, dtype, shape):
    """Reads the whole array by a pipeline, and crops by zarr-python, natively and not."""
    stock = zarr.open_array(path, mode="r")
    expected = np.asarray(stock[...])
    np.testing.assert_array_equal(expected, numbers(shape, dtype))
    with pipeline(batch_size=1, dtype=damacy.Dtype.F32) as p:
        p.push([damacy.Sample(path, [(0, n) for n in shape])])
        with p.pop() as batch:
            np.testing.assert_array_equal(batch.numpy()[0], expected.astype("f4"))
    before = damacy.zarr.stats()["items"]
    with damacy.zarr.enable(strict=True):
        np.testing.assert_array_equal(zarr.open_array(path, mode="r")[3:17, 5:], expected[3:17, 5:])
    assert damacy.zarr.stats()["items"] > before


@pytest.mark.parametrize("shards", [None, (24, 24)], ids=["plain", "sharded"])
@pytest.mark.parametrize("name", V3)
def test_v3_of_zarr_python(name, shards, tmp_path):
    shape = (40, 31)
    array = zarr.create_array(tmp_path, shape=shape, dtype="i2", chunks=(12, 8), shards=shards, compressors=V3[name])
    array[...] = numbers(shape, "i2")
    check(tmp_path, "i2", shape)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", V2)
def test_v2_of_zarr_python(name, order, tmp_path):
    shape = (40, 31)
    array = zarr.create_array(
        tmp_path, shape=shape, dtype="<i2", chunks=(12, 8), zarr_format=2, order=order, **V2[name]
    )
    array[...] = numbers(shape, "i2")
    check(tmp_path, "i2", shape)


@pytest.mark.parametrize("chunk", [1, 7, 8, 30])
@pytest.mark.parametrize("compressor", [None, numcodecs.BZ2()], ids=["raw", "bz2"])
def test_packed_bits_of_zarr_python(chunk, compressor, tmp_path):
    array = zarr.create_array(
        tmp_path,
        shape=(20, 31),
        dtype="?",
        chunks=(3, chunk),
        zarr_format=2,
        filters=[numcodecs.PackBits()],
        compressors=compressor,
    )
    array[...] = numbers((20, 31), "?")
    check(tmp_path, "?", (20, 31))


@pytest.mark.parametrize("preset", [0, 6, 9, 9 | 1 << 31])
def test_every_dictionary_size_of_a_preset_is_read(preset, tmp_path):
    array = zarr.create_array(
        tmp_path, shape=(64,), dtype="u1", zarr_format=2, compressors=numcodecs.LZMA(preset=preset)
    )
    array[...] = np.arange(64)
    with pipeline(batch_size=1, dtype=damacy.Dtype.U8) as p:
        p.push([damacy.Sample(tmp_path, [(0, 64)])])
        with p.pop() as batch:
            np.testing.assert_array_equal(row_bits(batch, "uint8")[0], np.arange(64))


def test_one_log_line_names_the_slow_codec(tmp_path, caplog):
    time.sleep(1.1)  # records of a kind are limited by the second, and other tests make some of this kind
    caplog.set_level(logging.INFO, "damacy")
    zarr.create_array(tmp_path / "a", shape=(8,), dtype="u2", compressors=[codecs.BZ2()])[...] = 5
    zarr.create_array(tmp_path / "b", shape=(8,), dtype="u2")[...] = 5
    with pipeline(batch_size=1, dtype=damacy.Dtype.U16) as p:
        for name in ("a", "b", "a"):
            p.push([damacy.Sample(tmp_path / name, [(0, 8)])])
            p.pop().release()
    messages = [r.getMessage() for r in caplog.records if "slowly" in r.getMessage()]
    assert messages == [f"decoded on the cores, slowly: {tmp_path / 'a'}: numcodecs.bz2"]


def test_xz_with_filters_which_numcodecs_writes_and_does_not_read(tmp_path):
    array = zarr.create_array(
        tmp_path,
        shape=(64,),
        dtype="u1",
        zarr_format=2,
        compressors=numcodecs.LZMA(filters=[{"id": 3, "dist": 1}, {"id": 33, "preset": 1}]),
    )
    array[...] = np.arange(64)
    with pipeline(batch_size=1, dtype=damacy.Dtype.U8) as p:
        p.push([damacy.Sample(tmp_path, [(0, 64)])])
        with p.pop() as batch:
            np.testing.assert_array_equal(row_bits(batch, "uint8")[0], np.arange(64))


LZMA = {"id": "lzma", "format": 3}
REFUSED = [
    ({"id": "lzma", "format": 0}, "codec 'lzma': format 0 is not supported"),
    (LZMA, "codec 'lzma': format 3 (raw) without filters is not supported"),
    ({**LZMA, "filters": []}, "codec 'lzma': this chain of filters is not supported"),
    ({**LZMA, "filters": [{"id": 3}]}, "codec 'lzma': this chain of filters is not supported"),
    ({**LZMA, "filters": [{"id": 99}]}, "codec 'lzma': filter 99 is not supported"),
    ({**LZMA, "filters": [{"id": 33, "preset": 10}]}, "codec 'lzma': this preset is not supported"),
    ({"id": "jenkins_lookup3", "initval": 0, "prefix": "ab"}, "a prefix of codec 'jenkins_lookup3' is not supported"),
    ({"id": "fletcher32", "seed": 1}, "option 'seed' of codec 'fletcher32' is not supported"),
]


@pytest.mark.parametrize("codec,why", REFUSED, ids=[why for _, why in REFUSED])
def test_options_that_are_not_supported_are_named(codec, why, tmp_path):
    document = {
        "zarr_format": 2,
        "shape": [8],
        "chunks": [8],
        "dtype": "<u2",
        "compressor": None,
        "filters": [codec],
        "fill_value": 0,
        "order": "C",
    }
    (tmp_path / ".zarray").write_text(json.dumps(document))
    info = damacy.open(tmp_path)
    assert not info.supported and why in info.why_not
