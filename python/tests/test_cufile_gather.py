"""Gather requests, page cache, engines and explain() of damacy.cufile; all on host memory."""

import os
import random

import numpy as np
import pytest

from damacy import cufile, defaults
from damacy.cufile import CuFile

DATA = np.random.default_rng(2).integers(0, 256, 400_000, dtype=np.uint8)


@pytest.fixture
def path(tmp_path):
    DATA.tofile(tmp_path / "data")
    return str(tmp_path / "data")


def piece(offset, size):
    return DATA[offset : offset + size].tobytes()


@pytest.mark.parametrize("engine", ["pread", "io_uring", "auto"])
@pytest.mark.parametrize("seed", range(5))
def test_packed_ranges_are_read_to_their_offsets(path, engine, seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 9000, 300)
    offsets = rng.integers(0, 402_000, 300)
    places = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    buffer = np.full(int(sizes.sum()), 0xEE, np.uint8)
    with CuFile(path, engine=engine) as f:
        future = f.preadv_packed(buffer, sizes, offsets)
        expected = [len(piece(o, s)) for o, s in zip(offsets, sizes)]
        assert future.get() == sum(expected)
        assert future.counts() == expected
        for place, offset, size, count in zip(places, offsets, sizes, expected):
            assert buffer[place : place + count].tobytes() == piece(offset, size)
            assert (buffer[place + count : place + size] == 0xEE).all()
        other = np.zeros_like(buffer)
        assert f.preadv_packed(other, sizes, offsets, buf_offsets=places[::-1].copy() * 0).get() == sum(expected)


def test_requests_name_buffer_size_and_offset(path):
    with CuFile(path, "r+") as f:
        buffers = [bytearray(100) for _ in range(50)]
        assert f.preadv([(b, None, 150 * k) for k, b in enumerate(buffers)]).get() == 5000
        assert all(b == piece(150 * k, 100) for k, b in enumerate(buffers))
        assert f.preadv([]).get() == 0
        assert f.preadv([(bytearray(9), 4, 0), (bytearray(9), 0, 1 << 40)]).counts() == [4, 0]
        assert f.pwritev([(b"abc", None, 10), (b"defgh", 2, 20)]).get() == 5
        sizes, offsets = np.array([1, 2]), np.array([30, 40])
        assert f.pwritev_packed(b"xyz", sizes, offsets).get() == 3
    with open(path, "rb") as written:
        now = written.read()
    assert (now[10:13], now[20:22], now[30:31], now[40:42]) == (b"abc", b"de", b"x", b"yz")


def test_gathers_check_their_arguments(path):
    with CuFile(path, "r+") as f:
        with pytest.raises(ValueError, match="overlap"):
            f.pwritev([(b"abc", None, 0), (b"abc", None, 2)])
        with pytest.raises(ValueError, match="Size is greater than the size of the buffer"):
            f.preadv([(bytearray(3), 4, 0)])
        with pytest.raises(ValueError, match="read-only"):
            f.preadv([(b"abc", None, 0)])
        with pytest.raises(TypeError):
            f.preadv([(bytearray(3), 0)])
        for sizes, offsets, error in [
            (np.array([4, 5]), np.array([0, 0]), ValueError),
            (np.array([1]), np.array([0, 1]), ValueError),
            (np.array([-1]), np.array([0]), OverflowError),
            (np.array([1]), np.array([-1]), OverflowError),
            (np.array([1.0]), np.array([0]), TypeError),
            ([1], [0], TypeError),
        ]:
            with pytest.raises(error):
                f.preadv_packed(bytearray(8), sizes, offsets)
        with open(path, "rb") as unchanged:
            assert unchanged.read() == DATA.tobytes()


def test_a_range_that_is_short_is_named(path):
    with CuFile(path) as f:
        requests = [(bytearray(8), None, 0), (bytearray(8), None, DATA.size - 3), (bytearray(8), None, DATA.size)]
        assert f.preadv(requests).counts() == [8, 3, 0]
        with pytest.raises(cufile.ShortReadError) as caught:
            f.preadv(requests, exact=True).get()
        assert (caught.value.range_index, caught.value.transferred) == (1, 3)


def test_many_files_are_one_submission(tmp_path):
    rng = random.Random(4)
    files, contents = [], []
    for k in range(10):
        contents.append(rng.randbytes(5000))
        (tmp_path / str(k)).write_bytes(contents[-1])
        files.append(CuFile(tmp_path / str(k)))
    requests, expected = [], []
    for _ in range(200):
        k, offset, size = rng.randrange(10), rng.randrange(4000), rng.randrange(1000)
        requests.append((files[k], bytearray(size), None, offset))
        expected.append(contents[k][offset : offset + size])
    assert cufile.preadv_many(requests).get() == sum(map(len, expected))
    assert [bytes(request[1]) for request in requests] == expected
    for f in files:
        f.close()
    with pytest.raises(cufile.ClosedFileError):
        cufile.preadv_many(requests)
    for no_file in (None, str(tmp_path / "0")):
        with pytest.raises(TypeError, match="CuFile"):
            cufile.preadv_many([(no_file, bytearray(8), None, 0)])


def test_the_page_cache_is_seen_and_dropped(path):
    pages = -(-DATA.size // os.sysconf("SC_PAGE_SIZE"))
    with CuFile(path) as f, open(path, "rb") as plain:
        f.read(np.zeros_like(DATA))
        for named in (path, os.fsencode(path), plain, plain.fileno(), f):
            assert cufile.get_page_cache_info(named)[1] == pages
        assert cufile.get_page_cache_info(path, 4096, 8192)[1] == 2
        cufile.drop_file_page_cache(path)
        assert cufile.get_page_cache_info(path)[0] <= pages
    with pytest.raises(ValueError):
        cufile.get_page_cache_info(1.5)
    with pytest.raises(cufile.FileOpenError):
        cufile.get_page_cache_info(path + ".missing")
    with pytest.raises(cufile.FileOpenError):
        cufile.drop_file_page_cache(path + ".missing")


def test_pages_are_counted_from_0(path):
    for call in (cufile.get_page_cache_info, cufile.drop_file_page_cache):
        with pytest.raises(OverflowError, match="negative value: offset"):
            call(path, -1)
        with pytest.raises(OverflowError, match="negative value: length"):
            call(path, 0, -1)
        with pytest.raises(TypeError, match="integer"):
            call(path, 1.5)


@pytest.mark.parametrize("task_size", [None, 100_000, 1 << 30])
def test_bulk_reads_go_through_a_ring_where_there_is_one(tmp_path, task_size):
    data = np.random.default_rng(3).integers(0, 256, 9_000_001, dtype=np.uint8)
    data.tofile(tmp_path / "bulk")
    usable = cufile.explain()["io_uring"]["usable"]
    for engine, size, by_ring in [
        ("io_uring", 200_000, usable),
        ("io_uring", 60_000, False),
        ("auto", 200_000, False),
        ("auto", 9_000_001, usable),
        ("pread", 9_000_001, False),
    ]:
        with CuFile(tmp_path / "bulk", engine=engine) as f:
            target = np.full(size + 10, 7, np.uint8)
            assert f.read(target[:size], task_size=task_size) == size
            assert np.array_equal(target[:size], data[:size]) and (target[size:] == 7).all()
            assert (f.counters()["io_uring_read_bytes"] == size) == by_ring
            assert f.read(target, file_offset=9_000_001 - 5, task_size=task_size) == 5
            big = np.full(9_100_000, 7, np.uint8)  # past the end
            assert f.pread(big, file_offset=1, task_size=task_size).get() == 9_000_000
            assert np.array_equal(big[:9_000_000], data[1:]) and (big[9_000_000:] == 7).all()


def test_files_and_the_process_explain_themselves(path):
    with CuFile(path, engine="pread", compat_mode="on") as f:
        found = f.explain()
        assert set(found) == {
            *("path", "flags", "filesystem", "dio_alignment", "engine_host", "engine_device", "reasons"),
            *("settings", "counters"),
        }
        assert found["engine_host"] == "pread" and found["path"] == path
        assert found["reasons"]["cufile"] == "compatibility mode is ON"
        f.read(bytearray(100))
        assert f.counters()["inline_read_bytes"] == 100
        assert f.counters()["inline_read_calls"] == f.counters()["parts"] == 1
        f.pread(bytearray(100)).get()  # may complete in the call
        assert f.counters()["parts"] == sum(f.counters()["part_us_log2"]) == 2
        assert (found["settings"]["compat_mode"], found["settings"]["auto_direct_io_read"]) == ("ON", "auto")
    with CuFile(path, direct_io=False) as f:
        assert f.explain()["settings"]["auto_direct_io_write"] is False
    if cufile.explain()["io_uring"]["usable"]:
        with CuFile(path, engine="io_uring") as f:
            assert f.explain()["engine_host"] == "io_uring" and "gathers" in f.explain()["reasons"]["pread"]
        with CuFile(path, engine="io_uring", direct_io=True) as f:
            assert f.explain()["engine_host"] == "pread" and "direct" in f.explain()["reasons"]["io_uring"]
    everywhere = cufile.explain()
    assert {"libcufile", "io_uring", "pool"} <= set(everywhere)
    assert cufile.counters()["parts"] >= 1


@pytest.mark.parametrize("threads, most", [(1, 64 << 10), (4, 16 << 10)])
def test_a_pread_is_tried_on_the_callers_thread_up_to_a_size_that_depends_on_the_threads(path, threads, most):
    with defaults.set("num_threads", threads), CuFile(path) as f:
        for size, tried in ((most + 1, 0), (most, most)):
            target = bytearray(size)
            assert f.pread(target).get() == size and target == piece(0, size)
            counters = f.counters()
            assert counters["resident_bytes"] + counters["cold_bytes"] == tried


def test_raw_calls_refuse_host_memory(path):
    with CuFile(path, "r+") as f:
        for call in (f.raw_read, f.raw_write, lambda b: f.raw_read_async(b, 0), lambda b: f.raw_write_async(b, 0)):
            for buffer in (bytearray(8), bytearray(0)):
                with pytest.raises(ValueError, match="Non-CUDA buffers not supported"):
                    call(buffer)
    cufile.memory_register(bytearray(8))
    cufile.memory_deregister(bytearray(8))
    assert cufile.bounce_buffer_free() == 0


def test_direct_io_is_supported_where_the_settings_allow_it(path):
    with CuFile(path, direct_io=False) as buffered, CuFile(path, direct_io=True) as direct:
        assert not buffered.is_direct_io_supported()
        assert direct.is_direct_io_supported() == bool(_descriptor_or_none(direct))


def _descriptor_or_none(file):
    try:
        return file.fileno(direct=True)
    except ValueError:
        return None


def test_direct_io_gives_the_same_bytes(path):
    with CuFile(path, "r+", direct_io=True) as f:
        supported = f.is_direct_io_supported()
        if supported:
            assert f.open_flags(direct=True) & os.O_DIRECT
            assert f.fileno(direct=True) != f.fileno()
        else:
            with pytest.raises(ValueError):
                f.fileno(direct=True)
        space = np.zeros(300_000 + 4096, np.uint8)
        aligned = space[(-space.ctypes.data) % 4096 :][:300_000]
        for offset, size in [(0, 300_000), (4096, 8192), (1, 20_000), (4000, 200_000), (399_000, 5000)]:
            count = f.read(aligned, size, offset)
            assert aligned[:count].tobytes() == piece(offset, size)
        assert f.write(aligned, 200_000, 4096) == 200_000
        if supported:
            assert f.counters()["direct_read_bytes"] > 0
            assert f.counters()["direct_write_bytes"] > 0


def test_dlpack_memory_of_the_host_is_read_into(path):
    class Exported:
        """A NumPy array that only exports DLPack."""

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **keywords):
            return self.array.__dlpack__(**keywords)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    target = np.zeros(1000, np.int32)
    with CuFile(path) as f:
        assert f.read(Exported(target)) == 4000
        assert target.tobytes() == piece(0, 4000)
        with pytest.raises(ValueError, match="contiguous"):
            f.read(Exported(target[::2]))


class Interface:
    def __init__(self, **changes):
        self.__cuda_array_interface__ = {
            "shape": (4,),
            "typestr": "|u1",
            "data": (1 << 30, False),
            "version": 3,
        } | changes


def test_interfaces_of_devices_are_checked(path):
    with CuFile(path) as f:
        for changes, error in [
            ({"mask": 1}, NotImplementedError),
            ({"version": 4}, NotImplementedError),
            ({"strides": (2,)}, ValueError),
            ({"stream": 0}, ValueError),
        ]:
            with pytest.raises(error):
                f.read(Interface(**changes))

    class Broken(bytearray):
        @property
        def __cuda_array_interface__(self):
            raise RuntimeError("not now")

    with CuFile(path) as f:
        got = Broken(10)
        assert f.read(got) == 10 and got == piece(0, 10)


def test_a_slow_file_system_does_not_start_many_threads(path):
    with defaults.set("num_threads", 2), CuFile(path) as f:
        futures = [f.pread(np.zeros_like(DATA), task_size=1000) for _ in range(20)]
        assert sum(future.get() for future in futures) == 20 * DATA.size
        assert cufile.counters()["workers"] <= 2
