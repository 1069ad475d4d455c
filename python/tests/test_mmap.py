"""`damacy.Mmap`: a region of a file, read into buffers, with KvikIO's rules on ranges."""

import os

import numpy as np
import pytest

import damacy
from damacy import cufile

DATA = np.random.default_rng(4).integers(0, 256, 200_003, dtype=np.uint8)


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "data"
    DATA.tofile(made)
    return made


def test_without_a_size_the_region_reaches_to_the_end_and_a_read_to_its_end(path):
    with damacy.Mmap(path) as region:
        assert (region.initial_map_offset(), region.initial_map_size()) == (0, DATA.size)
        assert region.file_size() == DATA.size and not region.closed()
        target = np.zeros(DATA.size + 5, np.uint8)
        assert region.read(target, offset=7) == DATA.size - 7
        assert (target[: DATA.size - 7] == DATA[7:]).all() and not target[DATA.size - 7 :].any()
        assert region.read(target, offset=DATA.size) == 0


@pytest.mark.parametrize("task_size", [None, 1000, 1 << 30])
def test_offsets_are_those_of_the_file_and_reads_stay_within_the_region(path, task_size):
    with damacy.Mmap(str(path), initial_map_size=50_000, initial_map_offset=1001) as region:
        target = np.zeros(50_000, np.uint8)
        assert region.pread(target, task_size=task_size, offset=1001).get() == 50_000
        assert (target == DATA[1001:51_001]).all()
        assert region.read(target[:10], 10, 50_991) == 10 and (target[:10] == DATA[50_991:51_001]).all()
        assert region.read(target, 0, 51_001) == 0
        for size, offset in [(1, 1000), (None, 0), (50_001, 1001), (11, 50_991), (1, 51_001), (None, 60_000)]:
            for call in (region.read, region.pread):
                with pytest.raises(IndexError, match=f"at offset {offset}: the region is 1001 to 51001"):
                    call(target, size, offset)


def test_a_read_that_the_buffer_cannot_hold_is_refused(path):
    target = bytearray(100)
    with damacy.Mmap(path) as region:
        for size in (None, 101):
            with pytest.raises(ValueError, match="Size is greater than the size of the buffer: .* of 100"):
                region.read(target, size)
        for arguments in ({"size": -1}, {"offset": -1}, {"size": 1, "offset": -2}):
            with pytest.raises(OverflowError, match="negative value"):
                region.read(target, **arguments)
        with pytest.raises(TypeError):
            region.read(target, 1.5)
    assert target == bytearray(100)


@pytest.mark.parametrize(
    ("error", "text", "arguments"),
    [
        (IndexError, "the rest from offset 200003 of a file of 200003", {"initial_map_offset": DATA.size}),
        (IndexError, "4 bytes from offset 200000 of a file", {"initial_map_offset": 200_000, "initial_map_size": 4}),
        (ValueError, "positive integer", {"initial_map_size": 0}),
        (OverflowError, "initial_map_offset: negative value -1", {"initial_map_offset": -1}),
        (OverflowError, "initial_map_size: negative value -3", {"initial_map_size": -3}),
        (damacy.InvalidArgument, "for reading only", {"flags": "r+"}),
        (damacy.InvalidArgument, "for reading only", {"flags": "w"}),
        (ValueError, "Unknown file open flag", {"flags": "q"}),
    ],
)
def test_what_cannot_be_mapped(path, error, text, arguments):
    with pytest.raises(error, match=text):
        damacy.Mmap(path, **arguments)
    links = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    assert os.path.realpath(path) not in links and path.stat().st_size == DATA.size


def test_files_that_cannot_be_opened(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(IndexError, match="of a file of 0 bytes"):
        damacy.Mmap(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match="Unable to open file"):
        damacy.Mmap(tmp_path / "missing")


def test_after_close_the_size_is_0_and_reads_are_refused(path):
    region = damacy.Mmap(path, "rb", mode=0o600, map_flags=1)
    target = np.zeros(DATA.size, np.uint8)
    future = region.pread(target)
    region.close()
    region.close()
    assert region.closed() and region.file_size() == 0 and "closed" in repr(region)
    assert region.initial_map_size() == DATA.size
    assert future.get() == DATA.size and (target == DATA).all()
    with pytest.raises(cufile.ClosedFileError):
        region.read(target)


def test_a_file_that_becomes_shorter_is_an_error_not_a_signal(path):
    with damacy.Mmap(path) as region:
        os.truncate(path, 1000)
        assert region.file_size() == 1000
        with pytest.raises(cufile.ShortReadError):
            region.read(bytearray(2000), 2000)
        assert region.read(bytearray(2000), 1000) == 1000


def test_device_buffers_are_taken_by_their_interface(path):
    class Array:
        __cuda_array_interface__ = {"shape": (0,), "typestr": "|u1", "data": (0, False), "version": 3}

    with damacy.Mmap(path) as region:
        assert region.read(Array(), 0) == region.pread(Array(), 0).get() == 0
