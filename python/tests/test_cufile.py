"""damacy.cufile on host memory: every member, argument and rule that needs no device."""

import array
import asyncio
import concurrent.futures
import contextlib
import errno
import gc
import io
import mmap
import os
import pathlib
import pickle
import random
import threading
import weakref

import numpy as np
import pytest

import damacy
from damacy import _native, cufile, defaults
from damacy.cufile import CuFile

DATA = np.random.default_rng(1).integers(0, 256, 300_000, dtype=np.uint8)


@pytest.fixture
def path(tmp_path):
    DATA.tofile(tmp_path / "data")
    return str(tmp_path / "data")


@pytest.fixture(autouse=True)
def same_settings():
    before = {key: defaults.get(key) for key in ("task_size", "num_threads", "compat_mode", "coalesce_gap")}
    set_before = damacy._native.io_settings()["num_threads_set"]
    yield
    defaults.pause_threads(False)
    defaults.set(before)
    damacy._native.io_change_settings({"num_threads_set": set_before})


# -- opening -----------------------------------------------------------------------------------------------------------

ACCESS = {
    "r": os.O_RDONLY,
    "rb": os.O_RDONLY,
    "r+": os.O_RDWR,
    "rb+": os.O_RDWR,
    "r+b": os.O_RDWR,
    "+br": os.O_RDWR,
    "w": os.O_WRONLY,
    "wb": os.O_WRONLY,
    "w+": os.O_RDWR,
    "a": os.O_WRONLY,
    "a+": os.O_RDWR,
}


@pytest.mark.parametrize("flags", ACCESS)
def test_each_flag_opens_the_file_in_its_mode(path, flags):
    with CuFile(path, flags) as f:
        status = f.open_flags()
        assert status & os.O_ACCMODE == ACCESS[flags]
        assert not status & (os.O_APPEND | os.O_NONBLOCK)
        assert not os.get_inheritable(f.fileno())
        assert os.path.getsize(path) == (0 if "w" in flags else DATA.size)


@pytest.mark.parametrize("flags", ["", "b", "+", "rr", "rw", "rbb", "r++", "q", "rt", "R", " r", "r\0"])
def test_other_flags_are_refused(path, flags):
    with pytest.raises(ValueError, match="Unknown file open flag"):
        CuFile(path, flags)


def test_x_creates_only_new_files(tmp_path):
    with CuFile(tmp_path / "new", "x", mode=0o600) as f:
        assert f.write(b"abc") == 3
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError) as caught:
        CuFile(tmp_path / "new", "x")
    assert isinstance(caught.value, cufile.FileOpenError)
    assert (tmp_path / "new").read_bytes() == b"abc"


def test_files_are_named_in_many_ways(path):
    descriptor = os.open(path, os.O_RDONLY)
    with open(path, "rb") as stream:
        for name in (path, os.fsencode(path), pathlib.Path(path), descriptor, stream, np.int64(descriptor)):
            with CuFile(name) as f:
                assert f.read(bytearray(3)) == 3
    os.close(descriptor)
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    with CuFile("data", dir_fd=folder) as f:
        assert f.read(bytearray(3)) == 3
    os.close(folder)
    with pytest.raises(ValueError, match="NUL"):
        CuFile("a\0b")
    for wrong in (1.5, None, object()):
        with pytest.raises(TypeError):
            CuFile(wrong)


def test_a_descriptor_stays_open_for_the_caller(path):
    descriptor = os.open(path, os.O_RDWR)
    with CuFile(descriptor, "w") as f:
        assert f.fileno() != descriptor
        assert os.path.getsize(path) == DATA.size  # w does not truncate the file of a descriptor
    assert os.fstat(descriptor).st_size == DATA.size
    os.close(descriptor)
    reading = os.open(path, os.O_RDONLY)
    for flags in ("w", "r+", "a", "x"):
        with pytest.raises(ValueError):
            CuFile(reading, flags)
    os.close(reading)
    with pytest.raises(OSError) as caught:
        CuFile(reading)
    assert caught.value.errno == errno.EBADF


def test_a_descriptor_that_appends_is_written_where_asked(path):
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
    with CuFile(descriptor, "r+") as f:
        f.write(b"HERE", file_offset=10)
    os.close(descriptor)
    assert os.path.getsize(path) == DATA.size
    assert pathlib.Path(path).read_bytes()[10:14] == b"HERE"


def test_only_files_and_block_devices_open(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name, number in ((tmp_path, errno.EISDIR), ("/dev/null", errno.ESPIPE), (tmp_path / "fifo", errno.ESPIPE)):
        with pytest.raises(OSError) as caught:
            CuFile(name)
        assert caught.value.errno == number
    with pytest.raises(OSError) as caught:
        CuFile(tmp_path / "fifo", "w")  # there is no reader: still no wait
    assert caught.value.errno == errno.ESPIPE


def test_append_files_write_after_the_old_end(path):
    with CuFile(path, "a+") as f:
        assert f.append_base == DATA.size
        assert f.write(b"xyz", file_offset=2) == 3
        got = bytearray(5)
        assert f.read(got, file_offset=DATA.size) == 5
    assert got == b"\0\0xyz"


def test_close_is_final_and_may_be_repeated(path):
    f = CuFile(path)
    assert not f.closed
    f.close()
    f.close(wait=False)
    assert f.closed
    for call in (f.fileno, f.open_flags, lambda: f.read(bytearray(1)), lambda: f.pread(bytearray(1))):
        with pytest.raises(ValueError, match="I/O operation on closed file") as caught:
            call()
        assert isinstance(caught.value, (cufile.ClosedFileError, damacy.ShutdownError))
        assert caught.value.what == "closed"


def descriptors_of(path):
    """How many descriptors of this process are open on a file."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # of the listing itself
            count += os.path.samefile(f"/proc/self/fd/{name}", path)
    return count


def test_descriptors_are_closed(path):
    before = descriptors_of(path)
    f = CuFile(path)
    future = f.pread(bytearray(100_000), task_size=100)
    del f
    assert future.get() == 100_000
    f = CuFile(path)
    f.pread(bytearray(100_000), task_size=100)
    f.close()
    f = CuFile(path)
    future = f.pread(bytearray(100_000), task_size=100)
    f.close(wait=False)
    assert future.get() == 100_000
    del f, future
    gc.collect()
    assert descriptors_of(path) == before


# -- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["read", "pread"])
def test_arguments_are_checked_before_anything_happens(path, method):
    with CuFile(path) as f:
        call = getattr(f, method)
        buffer = bytearray(8)
        for wrong, error, match in [
            ({"size": 9}, ValueError, "Size is greater than the size of the buffer"),
            ({"size": -1}, OverflowError, "negative value"),
            ({"file_offset": -1}, OverflowError, "negative value"),
            ({"task_size": -(1 << 70)}, OverflowError, "negative value"),
            ({"file_offset": 1 << 63}, OverflowError, "file_offset"),
            ({"file_offset": (1 << 63) - 8}, OverflowError, "file_offset"),
            ({"size": 1.0}, TypeError, "integer"),
            ({"file_offset": "1"}, TypeError, "integer"),
        ]:
            with pytest.raises(error, match=match):
                call(buffer, **wrong)
        assert buffer == bytes(8)
        with pytest.raises(ValueError, match="read-only"):
            call(b"12345678")
        with pytest.raises(TypeError):
            call(17)
    with CuFile(path, "r+") as f:
        with pytest.raises(OverflowError):
            f.write(b"x", file_offset=-1)
    with CuFile(path, "a") as f:
        with pytest.raises(OSError, match="unsupported file open flags") as caught:
            getattr(f, method)(buffer)
        assert isinstance(caught.value, (io.UnsupportedOperation, cufile.OpenModeError))
        assert "Operation not permitted" in str(caught.value)
        assert caught.value.errno == errno.EBADF


def test_sizes_of_zero_touch_nothing(path):
    with CuFile(path, "r+") as f:
        assert f.read(bytearray(4), size=0) == f.write(b"abc", size=0) == f.pread(bytearray(0)).get() == 0
        assert f.read([]) == 0
        assert f.counters()["parts"] == 0


def test_the_end_of_the_file_stops_a_read(path):
    with CuFile(path) as f:
        for task_size in (None, 7, 4096):
            buffer = bytearray(b"\xee" * 20_000)
            offset = DATA.size - 12_345
            assert f.pread(buffer, None, offset, task_size).get() == 12_345
            assert buffer[:12_345] == DATA[offset:].tobytes()
            assert buffer[12_345:] == b"\xee" * (20_000 - 12_345)
            assert f.read(buffer, file_offset=DATA.size + 5, task_size=task_size) == 0
            with pytest.raises(cufile.ShortReadError, match="EOF") as caught:
                f.read_exact(buffer, file_offset=offset, task_size=task_size)
            assert isinstance(caught.value, (EOFError, OSError))
            assert (caught.value.transferred, caught.value.length) == (12_345, 20_000)


# -- buffers -----------------------------------------------------------------------------------------------------------


def buffers():
    fortran = np.zeros((6, 5), order="F", dtype=np.float32)
    dates = np.zeros(15, "M8[s]")
    structured = np.zeros(10, [("a", "i4"), ("b", "f8")])
    odd = np.lib.stride_tricks.as_strided(np.zeros(120, np.uint8), (1, 120), (999, 1))
    return [
        bytearray(120),
        memoryview(bytearray(120)),
        array.array("d", [0] * 15),
        mmap.mmap(-1, 120),
        np.zeros((5, 6), np.float32),
        fortran,
        dates,
        structured,
        odd,
        np.zeros((), "V120"),
    ]


@pytest.mark.parametrize("buffer", buffers(), ids=lambda b: f"{type(b).__name__}")
def test_any_contiguous_host_memory_is_a_buffer(path, buffer):
    with CuFile(path, "r+") as f:
        assert f.read(buffer, file_offset=77) == 120
        assert f.write(buffer, file_offset=1000) == 120
    written = pathlib.Path(path).read_bytes()
    assert written[1000:1120] == DATA[77:197].tobytes()


def test_other_memory_is_refused(path):
    with CuFile(path) as f:
        for wrong in (np.zeros((4, 6))[:, ::2], np.zeros(10)[::-1], np.zeros((4, 4))[:, :2]):
            with pytest.raises(ValueError, match="Array must be contiguous"):
                f.read(wrong)
        locked = np.zeros(4)
        locked.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            f.read(locked)


def test_a_list_of_buffers_is_filled_in_turn(path):
    with CuFile(path, "r+") as f:
        for task_size in (None, 10, 4096):
            parts = [bytearray(5000), np.zeros(300), bytearray(0), memoryview(bytearray(33))]
            assert f.read(parts, file_offset=11, task_size=task_size) == 7433
            assert b"".join(bytes(p) for p in parts) == DATA[11 : 11 + 7433].tobytes()
        assert f.read((bytearray(5), bytearray(5)), size=7) == 7
        assert f.write([b"abc", b"", b"defg"], size=6, file_offset=3) == 6
    assert pathlib.Path(path).read_bytes()[3:9] == b"abcdef"


def test_a_buffer_is_held_until_the_end_and_no_longer(path):
    with CuFile(path) as f:
        buffer = bytearray(100_000)
        defaults.pause_threads()
        future = f.pread(buffer, task_size=1000)
        with pytest.raises(BufferError):
            buffer.extend(b"x")
        defaults.pause_threads(False)
        assert future.get() == 100_000
        buffer.extend(b"x")


# -- futures -----------------------------------------------------------------------------------------------------------


def test_a_refused_call_holds_no_buffer(path):
    with CuFile(path) as file, open(path, "rb") as plain:
        calls = {
            "size": lambda held: file.pread(held, "a"),
            "offset": lambda held: file.pread(held, None, 1.5),
            "a later buffer": lambda held: file.pread([held, None]),
            "range": lambda held: file.preadv([(held, None, "a")]),
            "packed sizes": lambda held: file.preadv_packed(bytearray(8), held, held),
            "bound pread": lambda held: _native.plain_pread(plain.fileno(), held, "a"),
            "bound pread, offset": lambda held: _native.plain_pread(plain.fileno(), held, None, 1.5),
        }
        for name, call in calls.items():
            held = bytearray(64)
            with pytest.raises(TypeError):
                call(held)
            held.extend(b"free")  # BufferError while held
            assert len(held) == 68, name
        with pytest.raises(ValueError, match="Size is greater"):
            _native.plain_pread(plain.fileno(), bytearray(64), 65)


def test_a_future_returns_the_same_result_each_time(path):
    with CuFile(path) as f:
        future = f.pread(np.zeros_like(DATA), task_size=1000)
        assert future.get() == future.result() == future.get(timeout=5) == DATA.size
        assert future.exception() is None
        assert future.done() and not future.cancelled() and not future.cancel()
        assert future.counts() == [DATA.size]
        short = f.pread(bytearray(10), file_offset=DATA.size - 1, exact=True)
        for _ in range(2):
            with pytest.raises(cufile.ShortReadError):
                short.get()
        assert isinstance(short.exception(), cufile.ShortReadError)


def test_futures_are_made_by_requests_only(path):
    with CuFile(path) as f:
        memory = np.zeros(8, np.uint8)
        futures = [
            f.pread(memory),
            f.pread([memory, bytearray(4)]),
            f.preadv([(memory, None, 0)]),
            f.preadv_packed(memory, np.array([4]), np.array([0])),
            cufile.preadv_many([(f, memory, None, 0)]),
        ]
        for future in futures:
            assert type(future) is cufile.IOFuture and weakref.ref(future)() is future
            assert not hasattr(future, "__dict__")
        assert [future.get(1) for future in futures] == [8, 12, 8, 4, 8]
    with pytest.raises(TypeError, match="returned by requests"):
        cufile.IOFuture(futures[0])


def test_the_waiting_thread_runs_parts_while_workers_are_paused(path):
    with CuFile(path) as f:
        defaults.pause_threads()
        assert defaults.threads_paused()
        future = f.pread(np.zeros_like(DATA), task_size=5000)
        with pytest.raises(TimeoutError):
            future.get(timeout=0.01)
        assert not future.done()
        assert future.get() == DATA.size


def test_a_cancelled_future_ends_as_cancelled(path):
    with CuFile(path) as f:
        defaults.pause_threads()
        future = f.pread(np.zeros_like(DATA), task_size=5000)
        assert future.cancel()
        assert not future.cancel()
        assert future.done() and future.cancelled()
        for call in (future.get, future.exception):
            with pytest.raises(concurrent.futures.CancelledError):
                call()


def test_callbacks_are_called_once(path):
    with CuFile(path) as f:
        defaults.pause_threads()
        future = f.pread(np.zeros_like(DATA), task_size=5000)
        seen, called = [], threading.Event()
        future.add_done_callback(lambda fut: 1 / 0)
        future.add_done_callback(lambda fut: (seen.append((fut, threading.current_thread())), called.set()))
        assert not seen
        defaults.pause_threads(False)
        assert called.wait(10)
        assert len(seen) == 1
        assert seen[0][0] is future and seen[0][1] is not threading.main_thread()
        future.add_done_callback(lambda fut: seen.append((fut, threading.current_thread())))
        assert seen[1][1] is threading.main_thread()


def test_futures_are_awaited(path):
    async def main():
        with CuFile(path) as f:
            target = np.zeros_like(DATA)
            parts = [f.pread(target[k : k + 1000], file_offset=k, task_size=100) for k in range(0, DATA.size, 1000)]
            assert sum(await asyncio.gather(*parts)) == DATA.size
            assert (target == DATA).all()
            defaults.pause_threads()
            stuck = f.pread(target, task_size=100)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(stuck, 0.01)
            assert stuck.cancelled()

    asyncio.run(main())


def test_wait_and_as_completed_follow_the_standard_library(path):
    with CuFile(path) as f:
        futures = [f.pread(bytearray(90_000), task_size=100) for _ in range(5)]
        done, rest = cufile.wait(futures)
        assert (done, rest) == (set(futures), set())
        assert set(cufile.as_completed(futures)) == set(futures)
        defaults.pause_threads()
        stuck = f.pread(bytearray(90_000), task_size=100)
        done, rest = cufile.wait([stuck, futures[0]], return_when="FIRST_COMPLETED")
        assert (done, rest) == ({futures[0]}, {stuck})
        assert cufile.wait([stuck], timeout=0.01) == (set(), {stuck})
        with pytest.raises(TimeoutError):
            list(cufile.as_completed([stuck], timeout=0.01))
        with pytest.raises(ValueError):
            cufile.wait([], return_when="SOMETIME")
        stuck.cancel()


# -- errors ------------------------------------------------------------------------------------------------------------


def test_errors_have_their_place_and_can_be_pickled(tmp_path):
    missing = str(tmp_path / "missing")
    with pytest.raises(FileNotFoundError, match="Unable to open file: No such file") as caught:
        CuFile(missing)
    error = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(error, (cufile.FileOpenError, damacy.StorageError)) and isinstance(error, RuntimeError)
    assert isinstance(error, FileNotFoundError)
    assert (error.errno, error.path, error.filename, error.strerror) == (2, missing, missing, os.strerror(2))
    assert missing in str(error) and "\n" not in str(error)
    assert (error.offset, error.length, error.transferred, error.backend) == (None,) * 4


# -- the grid ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 4095, 4097, 9424])
def test_a_direct_read_does_not_write_beyond_the_end_of_the_file(tmp_path, size):
    path = tmp_path / "file"
    path.write_bytes(b"\x11" * size)
    with mmap.mmap(-1, 16_384) as aligned, CuFile(path, direct_io=True) as f:
        aligned.write(b"\xaa" * 16_384)
        assert f.read(aligned) == size
        assert aligned[:] == b"\x11" * size + b"\xaa" * (16_384 - size)


@pytest.mark.parametrize("seed", range(40))
def test_reads_and_writes_equal_those_of_the_system(tmp_path, seed):
    rng = random.Random(seed)
    size = rng.choice([0, 1, 4095, 4096, 4097, 70_000])
    model = bytearray(rng.randbytes(size))
    path = tmp_path / "file"
    path.write_bytes(model)
    settings = {"task_size": rng.choice([1, 100, 4096, 1 << 20]), "num_threads": rng.choice([1, 2, 5])}
    with defaults.set(settings), CuFile(path, "r+", direct_io=rng.choice([None, True, False])) as f:
        for _ in range(20):
            offset, count = rng.randrange(0, 75_000), rng.randrange(0, 20_000)
            task_size = rng.choice([None, 3, 4096, 1 << 20])
            shift = rng.choice([0, 1, 512])
            if rng.random() < 0.5:
                space = bytearray(b"\xaa" * (count + shift))
                got = f.pread(memoryview(space)[shift:], None, offset, task_size).get()
                expected = model[offset : offset + count]
                assert got == len(expected)
                assert space[shift:] == expected + b"\xaa" * (count - len(expected))
            else:
                data = rng.randbytes(count)
                assert f.write(data, None, offset, task_size) == count
                if count > 0:
                    model.extend(bytes(max(0, offset + count - len(model))))
                    model[offset : offset + count] = data
    assert path.read_bytes() == model


@pytest.mark.parametrize("name", ["s3://bucket/a", "HTTPS://host/a", b"gs://bucket/a", "az://box/a"])
def test_a_scheme_is_refused_with_its_name_and_advice(name):
    with pytest.raises(
        damacy.InvalidArgument, match="of the scheme (s3|https|gs|az): read it with damacy.RemoteFile"
    ) as caught:
        damacy.cufile.CuFile(name)
    assert caught.value.uri.lower().startswith(("s3", "https", "gs", "az"))
    assert ("damacy.mount()" in str(caught.value)) == (name == "az://box/a")


def test_a_file_url_is_refused_and_a_path_with_colons_is_a_path(tmp_path):
    with pytest.raises(damacy.InvalidArgument, match="without file://"):
        damacy.cufile.CuFile("file:///tmp/a")
    (tmp_path / "s3:").mkdir()
    (tmp_path / "s3:" / "a").write_bytes(b"x")
    with damacy.cufile.CuFile(f"{tmp_path}/s3://a") as file:
        assert file.read(bytearray(1)) == 1
