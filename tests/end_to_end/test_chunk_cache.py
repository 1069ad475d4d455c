"""A cache of decoded chunks changes no byte, no order and no error of any batch."""

import os

import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, ZstdCodec

import damacy
from damacy.synthetic import write_image

SHAPE = (24, 96, 96)
CODECS = {"zstd": ZstdCodec(level=1), "blosc": BloscCodec(cname="lz4"), "raw": None}
# Everything, half of it, and hardly anything.
SIZES = [8 << 20, 500_000, 60_000]


def write(folder, codec, seed=0):
    data = np.random.default_rng(seed).integers(0, 1000, SHAPE, "uint16")
    compressors = () if CODECS[codec] is None else (CODECS[codec],)
    array = zarr.create_array(folder, shape=SHAPE, chunks=(8, 32, 32), dtype="uint16", compressors=compressors)
    array[:16] = data[:16]  # the rest is missing
    data[16:] = 0
    return data


def boxes(count, seed=1):
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, np.array(SHAPE) - (8, 40, 40) + 1, (count, 3))
    return [tuple((int(a), int(a + n)) for a, n in zip(start, (8, 40, 40), strict=True)) for start in starts]


def batches(uri, samples, **fields):
    """The batches of `samples`, 4 each, as arrays, and the pipeline's statistics."""
    config = damacy.Config(batch_size=4, device="cpu", dtype="u16", **fields)
    with damacy.Pipeline(config) as running:
        running.push([damacy.Sample(uri, box) for box in samples])
        running.flush()
        out = [np.from_dlpack(batch).copy() for batch in running]
        return out, running.stats()


@pytest.mark.parametrize("verify", ["needed", "whole"])
@pytest.mark.parametrize("cache_bytes", SIZES)
@pytest.mark.parametrize("codec", CODECS)
def test_30_batches_are_equal_with_and_without(tmp_path, codec, cache_bytes, verify):
    uri = str(tmp_path / "a.zarr")
    data = write(uri, codec)
    samples = boxes(120)
    cached, stats = batches(uri, samples, cache_bytes=cache_bytes, verify=verify)
    plain, off = batches(uri, samples, verify=verify)
    assert len(cached) == len(plain) == 30
    for n, (one, other) in enumerate(zip(cached, plain, strict=True)):
        np.testing.assert_array_equal(one, other)
        for row, box in zip(one, samples[4 * n : 4 * n + 4], strict=True):
            np.testing.assert_array_equal(row, data[tuple(slice(*axis) for axis in box)])
    assert off.cache_hits == off.cache_misses == off.cache_kept == 0
    assert stats.cache_hits_bytes == stats.cache_hits * 8 * 32 * 32 * 2
    if cache_bytes == max(SIZES):
        assert stats.cache_hits > stats.cache_misses
        assert stats.cache_evicted == 0
        assert stats.chunks_decoded < off.chunks_decoded
    if cache_bytes == min(SIZES):
        assert stats.cache_kept_bytes <= cache_bytes


def test_a_set_that_fits_is_read_once(tmp_path):
    uri = str(tmp_path / "a.zarr")
    write(uri, "zstd")
    whole = [((0, 16), (0, 96), (0, 96))] * 8
    _, stats = batches(uri, whole[:4], cache_bytes="4MiB")
    assert (stats.cache_hits, stats.cache_misses, stats.cache_kept) == (0, 18, 18)
    config = damacy.Config(batch_size=1, device="cpu", dtype="u16", cache_bytes="4MiB")
    with damacy.Pipeline(config) as running:
        for _ in range(5):
            running.push([damacy.Sample(uri, whole[0])])
            running.pop().release()
        stats = running.stats()
        assert (stats.cache_hits, stats.cache_misses, stats.chunks_decoded) == (72, 18, 18)
        running.stats_reset()
        assert running.stats().cache_hits == 0


def test_an_object_that_changed_is_never_served_from_the_cache(tmp_path):
    uri = str(tmp_path / "a.zarr")
    write(uri, "zstd")
    config = damacy.Config(batch_size=1, device="cpu", dtype="u16", cache_bytes="4MiB")
    box = ((0, 8), (0, 32), (0, 32))
    chunk = tmp_path / "a.zarr" / "c" / "0" / "0" / "0"
    with damacy.Pipeline(config) as running:
        running.push([damacy.Sample(uri, box)])
        running.pop().release()
        new = np.full((8, 32, 32), 7, "uint16")
        os.unlink(chunk)
        zarr.open_array(uri)[0:8, 0:32, 0:32] = new
        seen = []
        for _ in range(3):
            try:
                running.push([damacy.Sample(uri, box)])
                with running.pop() as batch:
                    seen.append(np.from_dlpack(batch).copy())
            except damacy.DamacyError as error:
                assert "changed" in str(error)
        assert seen, "the new version is read in the end"
        for rows in seen:
            np.testing.assert_array_equal(rows[0], new)


def test_damage_outside_of_what_is_needed_is_no_error(tmp_path):
    uri = str(tmp_path / "a.zarr")
    data = write(uri, "blosc")
    chunk = tmp_path / "a.zarr" / "c" / "0" / "0" / "0"
    packed = bytearray(chunk.read_bytes())
    packed[-40:] = bytes(40)
    chunk.write_bytes(packed)
    samples = [((0, 1), (0, 2), (0, 32))] * 4
    assert_same_outcome(uri, samples, data)
    assert_same_outcome(uri, [((0, 8), (0, 32), (0, 32))] * 4, data)


def assert_same_outcome(uri, samples, data):
    outcomes = []
    for cache_bytes in (0, 4 << 20):
        try:
            outcomes.append(batches(uri, samples, cache_bytes=cache_bytes)[0][0].tobytes())
        except damacy.DamacyError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_a_cache_larger_than_free_memory_is_refused():
    with pytest.raises(damacy.OutOfMemory, match=r"cache_bytes is too large: \d+ bytes wanted, \d+ free"):
        damacy.Pipeline(damacy.Config(batch_size=1, device="cpu", cache_bytes="1000000GiB"))


@pytest.mark.parametrize(
    ("given", "message"),
    [(-1, r"cache_bytes must be >= 0 \(got -1\)"), ("forty", "cache_bytes must be an int of bytes, or text such as")],
)
def test_bad_sizes_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        damacy.Config(batch_size=1, cache_bytes=given)


def test_sizes_may_have_units():
    assert damacy.Config(batch_size=1, cache_bytes="40 gib").cache_bytes == 40 << 30


def test_the_plan_of_memory_counts_the_cache(tmp_path):
    uri = str(tmp_path / "a.zarr")
    write_image(uri, (16, 96, 96), chunks=(8, 32, 32))
    config = damacy.Config(batch_size=1, device="cpu", cache_bytes="4MiB")
    without = damacy.Config(batch_size=1, device="cpu")
    parts = [{part.name: part.bytes for part in each.memory().parts} for each in (config, without)]
    assert parts[0].pop("cache") == 4 << 20
    assert parts[1].pop("decoded ahead") == 256 << 20  # the cache takes its place
    assert parts[0] == parts[1]
    with damacy.Pipeline(config) as running, damacy.Pipeline(without) as other:
        assert running.stats().host_bytes_committed - other.stats().host_bytes_committed == 4 << 20


@pytest.mark.parametrize("dtype", ["f32", "u16"])
def test_rows_that_several_kept_chunks_share_are_right_in_large_batches(tmp_path, dtype):
    data = np.random.default_rng(3).integers(0, 60_000, (64, 150, 300), "uint16")
    array = zarr.create_array(tmp_path / "a.zarr", shape=data.shape, chunks=(16, 50, 50), dtype="uint16")
    array[:] = data
    array[16:32, 50:100, 100:150] = 0  # a chunk that is missing
    data[16:32, 50:100, 100:150] = 0
    count, crop = (9, (64, 128, 256)) if dtype == "u16" else (5, (60, 120, 256))
    rng = np.random.default_rng(4)
    starts = [rng.integers(0, np.array(data.shape) - crop + 1) for _ in range(count)]
    boxes = [tuple((int(a), int(a + n)) for a, n in zip(start, crop, strict=True)) for start in starts]
    config = damacy.Config(batch_size=count, device="cpu", dtype=dtype, cache_bytes=32 << 20, n_io_threads=2)
    with damacy.Pipeline(config) as running:
        for _ in range(3):
            running.push([damacy.Sample(str(tmp_path / "a.zarr"), box) for box in boxes])
            with running.pop() as batch:
                got = np.from_dlpack(batch)
                assert got.nbytes > 32 << 20
                for row, box in zip(got, boxes, strict=True):
                    np.testing.assert_array_equal(row, data[tuple(slice(*axis) for axis in box)])
        stats = running.stats()
    assert stats.cache_hits >= 2 * stats.cache_kept > 0
    assert stats.assemble.output_bytes <= 3 * got.nbytes
