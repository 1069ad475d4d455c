"""Samples that fail after push accepted them, and their errors."""

import copy
import os
import pickle
import re

import numpy as np
import pytest
from support import writers
from support.element_types import OUTPUT
from support.layout import Compressor
from support.streaming import pipeline, row_bits, store

import damacy


@pytest.fixture
def shards(tmp_path):
    """64 x 64 u16, inner chunks 8 x 8 in shards of 32 x 32, zstd, fill 7."""
    return store(
        tmp_path / "shards.zarr", (64, 64), (8, 8), shards=(32, 32), fill_bits=7, compressor=Compressor("zstd")
    )


def box(z, y, extent=8):
    return (z, z + extent), (y, y + extent)


def entry_of(shard_path, inner, grid=(4, 4)) -> tuple[int, int]:
    """The byte range of an inner chunk in its shard, from the index at the end."""
    raw = shard_path.read_bytes()
    index = np.frombuffer(raw[len(raw) - 16 * grid[0] * grid[1] - 4 : -4], "<u8").reshape(*grid, 2)
    return tuple(int(v) for v in index[inner])


def overwrite(path, offset, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def spoil(stored, outer, inner) -> tuple[int, int]:
    """Makes one inner chunk's frame malformed; returns its byte range."""
    offset, size = entry_of(stored.object(*outer), inner)
    overwrite(stored.object(*outer), offset, b"\xff" * min(size, 8))
    return offset, offset + size


def fails(p, error=damacy.DecodeError):
    with pytest.raises(error) as caught:
        p.pop()
    assert type(caught.value) is error
    text = str(caught.value)
    assert "\n" not in text and len(text.encode()) <= 4096
    assert caught.value.what == "pop"
    return caught.value


def test_the_first_chunk_of_a_shard_is_in_a_shard(shards):
    spoil(shards, (0, 0), (0, 0))
    with pipeline(batch_size=1, dtype="u16") as p:
        p.push([shards.sample(*box(0, 0))])
        error = fails(p)
    assert error.chunk == (0, 0)
    for text in (str(error), str(pickle.loads(pickle.dumps(error))), str(copy.copy(error))):
        assert ": shard c" in text and ": object " not in text


def test_a_shard_that_is_too_short_for_its_index_names_the_bytes(shards):
    with open(shards.object(0, 0), "r+b") as file:
        file.truncate(100)
    with pipeline(batch_size=1, dtype="u16") as p:
        p.push([shards.sample(*box(8, 8))])
        error = fails(p, damacy.StorageError)
    assert error.reason == "short-read" and error.byte_range == (0, 16 * 16 + 4)
    assert ": shard c" in str(error) and "100 of 260 bytes" in str(error)


# --- raise ------------------------------------------------------------------------------------------------------------


def test_one_bad_chunk_among_good_ones(shards):
    byte_range = spoil(shards, (0, 1), (2, 3))
    samples = [shards.sample(*box(8 * (k // 8), 8 * (k % 8))) for k in range(64)]
    bad = 2 * 8 + 4 + 3  # chunk (2, 3) of shard (0, 1) is chunk (2, 7) of the array
    with pipeline(batch_size=4, dtype="u16") as p:
        p.push(samples)
        good = []
        for number in range(16):
            if number == bad // 4:
                error = fails(p)
                continue
            with p.pop() as batch:
                assert batch.info.batch_id == number
                good += list(zip(batch.sample_indices, row_bits(batch, "uint16")))
        with pytest.raises(damacy.TryAgain):
            p.pop()
    assert [k for k, _ in good] == [k for k in range(64) if k // 4 != bad // 4]
    for k, row in good:
        np.testing.assert_array_equal(row, shards.row(samples[k].aabb))
    assert error.status is damacy.Status.DECODE
    assert error.reason == "frame"
    assert error.uri == str(shards.path) and error.store == str(shards.path)
    assert error.key == "c/0/1"
    assert error.chunk == (2, 7)
    assert error.byte_range == byte_range
    assert error.batch_id == bad // 4
    assert error.stream_index == bad
    assert error.sample_index is None or error.sample_index == bad
    assert error.lost == tuple(range(bad // 4 * 4, bad // 4 * 4 + 4))
    parts = [
        f"batch {bad // 4}",
        f"sample {bad}",
        str(shards.path),
        "c/0/1",
        r"chunk \(2, 7\)",
        f"bytes {byte_range[0]}-{byte_range[1]}",
    ]
    assert re.search(".*".join(re.escape(p) if "\\" not in p else p for p in parts), str(error)), str(error)


def test_a_bad_chunk_fails_each_sample_that_needs_it_with_its_own_error(shards):
    spoil(shards, (0, 0), (0, 0))
    with pipeline(batch_size=2, dtype="u16") as p:
        p.push(
            shards.sample(*box(z, y)) for z, y in [(0, 0), (4, 4), (8, 8), (16, 16), (2, 0), (32, 32), (40, 40), (1, 1)]
        )
        first = fails(p)
        assert (first.batch_id, first.stream_index, first.lost) == (0, 0, (0, 1))
        assert "1" in str(first) and "more" in str(first)  # one further failing row
        with p.pop() as batch:
            assert batch.info.batch_id == 1
        second = fails(p)
        assert (second.batch_id, second.stream_index, second.lost) == (2, 4, (4, 5))
        third = fails(p)
        assert (third.batch_id, third.stream_index, third.lost) == (3, 7, (6, 7))
        with pytest.raises(damacy.TryAgain):
            p.pop()


def test_the_pipeline_can_be_used_after_every_batch_failed(shards):
    spoil(shards, (0, 0), (0, 0))
    with pipeline(batch_size=1, dtype="u16") as p:
        p.push([shards.sample(*box(0, 0))] * 20)
        p.flush()
        for number in range(20):
            assert fails(p).batch_id == number
        p.push([shards.sample(*box(32, 32))])
        with p.pop() as batch:
            assert batch.info.batch_id == 20 and batch.sample_indices == (20,)
            np.testing.assert_array_equal(row_bits(batch, "uint16")[0], shards.row(box(32, 32)))


def one_failure(stored, aabb, error=damacy.DecodeError):
    with pipeline(batch_size=1) as p:
        p.push([stored.sample(*aabb)])
        return fails(p, error)


# --- kinds of damage --------------------------------------------------------------------------------------------------


def test_a_truncated_shard_whose_index_is_gone(shards):
    path = shards.object(1, 0)
    path.write_bytes(path.read_bytes()[:-10])
    error = one_failure(shards, box(32, 0))  # the bytes in the place of the index have another checksum
    assert error.reason == "shard-index" and error.key == "c/1/0"


@pytest.mark.parametrize("size", [0, 1, 3, 16 * 16 + 3])
def test_a_shard_shorter_than_its_index_is_a_storage_error(shards, size):
    path = shards.object(1, 0)
    path.write_bytes(path.read_bytes()[:size])
    error = one_failure(shards, box(32, 0), damacy.StorageError)
    assert error.reason == "short-read" and error.key == "c/1/0"
    assert str(size) in str(error)
    assert isinstance(error, OSError)


def test_a_wrong_index_checksum_names_both_values(shards):
    path = shards.object(0, 0)
    raw = bytearray(path.read_bytes())
    stored = int.from_bytes(raw[-4:], "little")
    raw[-4] ^= 1
    path.write_bytes(raw)
    error = one_failure(shards, box(0, 0))
    assert error.reason == "shard-index" and error.chunk == (0, 0)
    text = str(error).lower()
    assert f"{stored:08x}" in text or str(stored) in text
    assert f"{stored ^ 1:08x}" in text or str(stored ^ 1) in text


def damaged_index(shards, change):
    path = shards.object(0, 0)
    raw = bytearray(path.read_bytes())
    size = 16 * 16
    start = len(raw) - size - 4
    index = np.frombuffer(bytes(raw[start : start + size]), "<u8").copy().reshape(16, 2)
    change(index, start)
    raw[start : start + size] = index.tobytes()
    raw[-4:] = writers.google_crc32c.value(index.tobytes()).to_bytes(4, "little")
    path.write_bytes(raw)


INDEX_FAULTS = {
    "half a sentinel, offset": lambda index, start: index.__setitem__((0, 0), 2**64 - 1),
    "half a sentinel, size": lambda index, start: index.__setitem__((0, 1), 2**64 - 1),
    "a sum that wraps": lambda index, start: index.__setitem__((0, slice(None)), [2**64 - 2, 100]),
    "behind the end": lambda index, start: index.__setitem__((0, 0), 2**40),
    "into the index": lambda index, start: index.__setitem__((0, slice(None)), [start - 4, 5]),
    "no bytes": lambda index, start: index.__setitem__((0, 1), 0),
}


@pytest.mark.parametrize("fault", INDEX_FAULTS)
def test_bad_index_entries(shards, fault):
    damaged_index(shards, INDEX_FAULTS[fault])
    error = one_failure(shards, box(0, 0))
    assert error.reason == "shard-index" and error.key == "c/0/0"
    assert error.chunk == (0, 0) and "chunk (0, 0)" in str(error)


def test_an_index_error_names_the_chunk_of_the_bad_entry(shards):
    damaged_index(shards, lambda index, start: index.__setitem__((6, 1), 0))
    error = one_failure(shards, box(0, 0))
    assert error.reason == "shard-index" and error.chunk == (1, 2)


def test_faults_of_a_shard_in_a_shard(tmp_path):
    """One inner shard of 2 x 2 chunks in each object: its index lies before the outer one."""
    stored = store(tmp_path / "a", (8, 8), (2, 2), shards=(4, 4), inner_shards=((4, 4),))
    path = stored.object(0, 1)
    raw = path.read_bytes()
    outer, inner = 16 + 4, 4 * 16 + 4
    for at, chunk in ((len(raw) - 1, (0, 2)), (len(raw) - outer - 1, (0, 2)), (len(raw) - outer - inner, (0, 2))):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        error = one_failure(stored, box(0, 4, 2))
        assert error.reason == "shard-index" and error.key == "c/0/1" and error.chunk == chunk
    entry = np.array([0, inner - 1], "<u8").tobytes()  # no room for the inner index
    path.write_bytes(raw[:-outer] + entry + writers.google_crc32c.value(entry).to_bytes(4, "little"))
    error = one_failure(stored, box(0, 4, 2))
    assert error.reason == "shard-index" and str(inner) in str(error)


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_the_encoded_size_of_a_shard_in_a_shard_is_limited(tmp_path, over):
    stored = store(tmp_path / "a", (8, 8), (2, 2), shards=(4, 4), inner_shards=((4, 4),))
    path = stored.object(0, 0)
    raw = path.read_bytes()
    inner = raw[: -(16 + 4)]
    limit = 2 * 4 * 4 * 2 + 65536 + 4 * 16 + 4  # of its elements, and its index
    padded = inner[: -(4 * 16 + 4)] + bytes(limit + over - len(inner)) + inner[-(4 * 16 + 4) :]
    entry = np.array([0, len(padded)], "<u8").tobytes()
    path.write_bytes(padded + entry + writers.google_crc32c.value(entry).to_bytes(4, "little"))
    if over <= 0:
        with pipeline(batch_size=1, dtype="u16") as p:
            p.push([stored.sample(*box(0, 0, 2))])
            with p.pop() as batch:
                np.testing.assert_array_equal(row_bits(batch, "uint16")[0], stored.row(box(0, 0, 2)))
    else:
        error = one_failure(stored, box(0, 0, 2), damacy.InvalidArgument)
        assert error.reason == "limit" and str(limit) in str(error) and error.chunk == (0, 0)


def test_a_damaged_shard_with_codecs_after_sharding_is_an_error(tmp_path):
    stored = store(
        tmp_path / "a", (8, 8), (2, 2), shards=(4, 4), shard_compressor=Compressor("zstd"), shard_crc32c=True
    )
    path = stored.object(1, 0)
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    error = one_failure(stored, box(4, 0, 2))
    assert error.reason == "checksum" and error.key == "c/1/0" and error.chunk == (2, 0)
    assert error.byte_range == (0, len(raw))


@pytest.mark.parametrize("kind", ["crc32", "adler32", "crc32c"])
@pytest.mark.parametrize("location", ["start", "end"])
def test_a_wrong_checksum_of_every_kind(tmp_path, kind, location):
    filters = ({"id": kind, "location": location},)
    stored = store(tmp_path / "a", (8,), (4,), zarr_format=2, separator=".", filters=filters)
    path = stored.object(1)
    raw = bytearray(path.read_bytes())
    raw[5] ^= 1
    path.write_bytes(raw)
    error = one_failure(stored, ((4, 6),))
    assert error.reason == "checksum" and error.chunk == (1,) and kind in str(error)


def test_an_index_entry_over_the_encoded_limit_is_a_limit(tmp_path):
    big = store(tmp_path / "a", (64,), (8,), "uint16", shards=(64,), compressor=Compressor("zstd"))
    path = big.object(0)
    raw = path.read_bytes()
    limit = 2 * 16 + 65536
    index = np.frombuffer(raw[-132:-4], "<u8").copy()
    for size, error in ((limit, damacy.DecodeError), (limit + 1, damacy.InvalidArgument)):
        index[:2] = 0, size
        crc = writers.google_crc32c.value(index.tobytes()).to_bytes(4, "little")
        path.write_bytes(raw[:-132] + bytes(70_000) + index.tobytes() + crc)
        found = one_failure(big, ((0, 4),), error)
        assert found.reason in (("limit",) if size > limit else ("frame", "size"))


def test_a_wrong_length_of_a_raw_inner_chunk(tmp_path):
    raw = store(tmp_path / "a", (64, 64), (8, 8), shards=(32, 32))
    damaged_index(raw, lambda index, start: index.__setitem__((0, 1), 127))
    assert one_failure(raw, box(0, 0)).reason == "shard-index"


@pytest.mark.parametrize(
    "delta,error,reason", [(-1, damacy.StorageError, "short-read"), (1, damacy.DecodeError, "size")]
)
def test_a_raw_chunk_object_of_another_size(volume, delta, error, reason):
    path = volume.object(1, 2)
    raw = path.read_bytes()
    path.write_bytes(raw[:delta] if delta < 0 else raw + b"\0")
    found = one_failure(volume, box(16, 32), error)
    assert found.reason == reason and found.key == "c/1/2" and found.chunk == (1, 2)


@pytest.mark.parametrize("options", [{"id": "fletcher32"}, {"id": "jenkins_lookup3", "initval": 5}])
def test_a_wrong_checksum_of_hdf5(tmp_path, options):
    stored = store(tmp_path / "a", (8,), (4,), zarr_format=2, separator=".", filters=(options,))
    raw = bytearray(stored.object(1).read_bytes())
    raw[5] ^= 1
    stored.object(1).write_bytes(raw)
    error = one_failure(stored, ((4, 6),))
    assert error.reason == "checksum" and error.chunk == (1,) and f"{options['id']}: stored checksum" in str(error)


@pytest.mark.parametrize("name", ["bz2", "lzma"])
def test_slow_codecs_name_file_place_and_numbers(tmp_path, name):
    stored = store(tmp_path / "a", (4000,), (2000,), compressor=Compressor(name))
    raw = stored.object(1).read_bytes()
    stored.object(1).write_bytes(raw[: len(raw) // 2])
    error = one_failure(stored, ((2000, 2006),))
    assert error.reason == "frame" and error.key == "c/1" and error.chunk == (1,)
    assert re.search(rf"{name}: data end early, after decoded bytes: \d+", str(error)) and str(stored.path) in str(
        error
    )
    stored.object(1).write_bytes(writers.compress(Compressor(name), bytes(3998), 1))
    assert f"{name}: decoded size: got 3998, expected 4000" in str(one_failure(stored, ((2000, 2006),)))
    stored.object(1).write_bytes(writers.compress(Compressor(name), bytes(1 << 24), 1))
    error = one_failure(stored, ((2000, 2006),))
    assert error.reason == "size" and f"{name}: more bytes than expected: got 4001, expected 4000" in str(error)


def test_lzma_that_needs_too_much_memory_exceeds_a_limit(tmp_path):
    stored = store(tmp_path / "a", (4000,), (2000,), filters=({"id": "lzma", "format": 2, "preset": 0},))
    raw = bytearray(stored.object(1).read_bytes())
    raw[1:5] = (1 << 30).to_bytes(4, "little")  # the size of the dictionary
    stored.object(1).write_bytes(raw)
    error = one_failure(stored, ((2000, 2006),), damacy.InvalidArgument)
    assert error.reason == "limit" and f"the limit is {(72 << 20) + 2 * 4000}" in str(error)


COMPRESSORS = [
    Compressor("zstd"),
    Compressor("gzip"),
    Compressor("zlib"),
    Compressor("lz4"),
    Compressor("bz2"),
    Compressor("lzma"),
    Compressor("blosc", cname="zstd"),
    Compressor("blosc", cname="lz4"),
    Compressor("blosc", cname="zlib", shuffle=2),
]


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)
def test_truncated_and_lengthened_frames_are_errors_and_never_fill(tmp_path, compressor):
    stored = store(tmp_path / "a", (3000,), (1000,), compressor=compressor, fill_bits=3)
    path = stored.object(1)
    raw = path.read_bytes()
    for size in {0, 1, 3, len(raw) // 2, len(raw) - 1}:
        path.write_bytes(raw[:size])
        with pipeline(batch_size=1) as p:
            p.push([stored.sample((1000, 1010)), stored.sample((0, 10))])
            with pytest.raises((damacy.DecodeError, damacy.StorageError)) as caught:
                p.pop()
            assert caught.value.reason in ("frame", "size", "checksum", "short-read")
            assert caught.value.key == "c/1"
            p.pop().release()
    path.write_bytes(raw + b"\x01garbage")
    assert one_failure(stored, ((1000, 1010),)).reason in ("frame", "size")


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)
def test_a_frame_of_another_decoded_size_is_an_error(tmp_path, compressor):
    stored = store(tmp_path / "a", (3000,), (1000,), compressor=compressor)
    for elements in (999, 1001, 0):
        frame = writers.compress(compressor, bytes(range(1, 201)) * 20, 2)
        frame = writers.compress(compressor, (bytes(range(1, 201)) * 20)[: 2 * elements], 2) if elements else frame
        stored.object(1).write_bytes(frame)
        assert one_failure(stored, ((1000, 1010),)).reason in ("size", "frame")


def test_a_wrong_data_checksum(tmp_path):
    stored = store(tmp_path / "a", (3000,), (1000,), crc32c=True)
    overwrite(stored.object(1), 17, b"\xee")
    error = one_failure(stored, ((1900, 1910),))
    assert error.reason == "checksum" and error.chunk == (1,)


def test_every_flipped_bit_of_a_checksummed_frame_is_found(tmp_path):
    stored = store(tmp_path / "a", (300,), (100,), crc32c=True, compressor=Compressor("zstd"))
    path = stored.object(1)
    raw = path.read_bytes()
    with pipeline(batch_size=1) as p:
        for position in range(len(raw)):
            changed = bytearray(raw)
            changed[position] ^= 1 << position % 8
            path.write_bytes(changed)
            p.push([stored.sample((100, 110))])
            fails(p)


# --- fill -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["uint16", "float32", "int8"])
def test_fill_makes_the_whole_row_the_arrays_fill_value(shards, output):
    spoil(shards, (0, 0), (1, 1))
    with pipeline(batch_size=4, dtype=OUTPUT[output], on_error="fill") as p:
        boxes = [box(16, 16), box(4, 4), box(32, 0), box(8, 8)]
        p.push([shards.sample(*b) for b in boxes])
        with p.pop() as batch:
            assert batch.valid == (True, False, True, False)
            assert batch.sample_indices == (0, 1, 2, 3)
            rows = row_bits(batch, output)
            for k, good in enumerate(batch.valid):
                filled = np.full(shards.layout.shape, 7, np.uint16)[:8, :8]
                expected = shards.row(boxes[k], output) if good else filled
                if not good:
                    expected = _converted(expected, output)
                np.testing.assert_array_equal(rows[k], expected)
            batch.release()
            assert batch.valid == (True, False, True, False)
        stats = p.stats()
        assert stats.samples_filled == 2 and stats.samples_skipped == 0 and stats.batches_emitted == 1


def _converted(bits, output):
    from support.convert_model import convert_bits

    return convert_bits(bits, "uint16", output)


def test_fill_keeps_the_batches_order_size_and_ids(shards):
    spoil(shards, (0, 0), (0, 0))
    with pipeline(batch_size=2, on_error="fill") as p:
        p.push([shards.sample(*box(0, 0))] * 7)
        p.flush()
        ids = []
        for batch in p.batches(4):
            with batch:
                ids.append(batch.info.batch_id)
                assert not any(batch.valid)
                assert (batch.numpy() == 7).all()
        assert ids == [0, 1, 2, 3]
        assert p.stats().samples_filled == 7


def test_errors_of_push_are_raised_with_fill_too(shards):
    with pipeline(on_error="fill") as p, pytest.raises(damacy.InvalidArgument):
        p.push([shards.sample((60, 68), (0, 8))])


# --- the objects themselves -------------------------------------------------------------------------------------------


def test_errors_pickle_and_copy_with_all_attributes(shards):
    spoil(shards, (0, 1), (2, 3))
    error = one_failure(shards, box(16, 56))
    names = "status what uri store key pointer chunk byte_range reason sample_index stream_index batch_id lost".split()
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is type(error) and str(again) == str(error)
        for name in names:
            assert getattr(again, name) == getattr(error, name), name


def test_errno_is_kept(tmp_path):
    stored = store(tmp_path / "a", (40,), (10,))
    stored.object(2).unlink()
    os.symlink("loop", stored.object(2).parent / "loop")
    os.symlink("loop", stored.object(2))
    error = one_failure(stored, ((20, 24),), damacy.StorageError)
    import errno

    assert error.errno == errno.ELOOP and error.reason == "io"


def test_hostile_names_are_escaped(tmp_path):
    stored = store(tmp_path / "a\n\x1b[31m\udcff.zarr", (40,), (10,))
    stored.object(2).write_bytes(b"")
    error = one_failure(stored, ((20, 24),), damacy.StorageError)
    assert "\n" not in str(error) and "\x1b" not in str(error)
    str(error).encode()


def test_queries_and_user_info_never_appear():
    with pipeline() as p:
        for uri in ("https://user:hunter2@host/a?token=hunter2", "s3://hunter2:hunter2@bucket/a"):
            with pytest.raises(damacy.InvalidArgument) as caught:
                p.push([damacy.Sample(uri=uri, aabb=[(0, 1)])])
            assert "hunter2" not in str(caught.value)
