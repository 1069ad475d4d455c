"""File I/O on GPU memory: every engine, reads and writes, ordered with streams of other libraries."""

import ctypes
import os
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import damacy  # noqa: E402
from damacy import cufile, defaults  # noqa: E402
from damacy.cufile import CuFile  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no usable GPU"),
]
DATA = np.random.default_rng(5).integers(0, 256, 40_000_000, dtype=np.uint8)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    made = tmp_path_factory.mktemp("cufile") / "data"
    DATA.tofile(made)
    return str(made)


@pytest.fixture(autouse=True)
def same_settings():
    before = {key: defaults.get(key) for key in ("task_size", "num_threads", "bounce_buffer_size", "pinned_limit")}
    set_before = damacy._native.io_settings()["num_threads_set"]
    yield
    defaults.set(before)
    damacy._native.io_change_settings({"num_threads_set": set_before})


def on_gpu(size):
    return torch.zeros(size, dtype=torch.uint8, device="cuda")


def host(tensor):
    return tensor.cpu().numpy()


@pytest.mark.parametrize("block", [1 << 12, 1 << 16, 1 << 20, 16 << 20])
@pytest.mark.parametrize("task_size", [50_000, 4 << 20, 1 << 40])
def test_reads_are_complete(path, block, task_size):
    size = 500_000 if task_size < 1 << 20 else 20_000_000
    with defaults.set("bounce_buffer_size", block), CuFile(path) as f:
        target = on_gpu(size)
        assert f.read(target, None, 333, task_size) == size
        assert (host(target) == DATA[333 : 333 + size]).all()
        assert f.counters()["staging_read_bytes"] == size


def test_a_read_at_the_end_of_the_file_leaves_the_rest_unchanged(path):
    with CuFile(path) as f:
        target = on_gpu(100_000) + 7
        assert f.pread(target, file_offset=DATA.size - 1000, task_size=300).get() == 1000
        assert (host(target[:1000]) == DATA[-1000:]).all() and (host(target[1000:]) == 7).all()
        with pytest.raises(cufile.ShortReadError):
            f.read_exact(target, file_offset=DATA.size - 1000)


def test_writes_come_from_the_gpu(tmp_path):
    source = torch.arange(10_000_000, dtype=torch.int32, device="cuda")
    with CuFile(tmp_path / "out", "w+") as f:
        assert f.write(source) == 40_000_000
        back = torch.empty_like(source)
        assert f.read(back) == 40_000_000
        assert torch.equal(source, back)
    assert (np.fromfile(tmp_path / "out", np.int32) == np.arange(10_000_000)).all()


def test_work_queued_before_is_waited_for_and_the_host_is_not(path, tmp_path):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        source = torch.full((1 << 20,), 3, dtype=torch.uint8, device="cuda")
        with CuFile(tmp_path / "out", "w") as f:
            f.write(source)
    assert (np.fromfile(tmp_path / "out", np.uint8) == 3).all()
    target = on_gpu(1 << 20)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        target.fill_(9)
    with CuFile(path) as f:
        assert f.read(target, stream=side) == 1 << 20
    assert (host(target) == DATA[: 1 << 20]).all()


def test_wait_stream_lets_a_stream_wait_instead_of_the_host(path):
    target, side = on_gpu(30_000_000), torch.cuda.Stream()
    torch.cuda.synchronize()
    with CuFile(path) as f:
        future = f.pread(target)
        assert future.wait_stream(side) == 30_000_000
        with torch.cuda.stream(side):
            total = target.to(torch.int64).sum()
        side.synchronize()
        assert int(total) == int(DATA[:30_000_000].astype(np.int64).sum())
        assert future.get() == 30_000_000


def test_gathers_copy_each_staging_slot_at_once(path):
    rng = np.random.default_rng(0)
    sizes = np.full(1000, 16 << 10, np.int64)
    offsets = rng.permutation(2000)[:1000].astype(np.int64) * 20_000
    target = on_gpu(int(sizes.sum()))
    torch.cuda.synchronize()
    with CuFile(path) as f:
        f.read(on_gpu(4 << 20))  # the first block is small
        before = f.counters()
        assert f.preadv_packed(target, sizes, offsets).get() == sizes.sum()
        after = f.counters()
    expected = np.concatenate([DATA[o : o + s] for o, s in zip(offsets, sizes)])
    assert (host(target) == expected).all()
    assert after["copy_batches"] - before["copy_batches"] <= 12
    assert after["host_waits"] - before["host_waits"] <= 12


def test_lists_mix_host_and_device(path):
    parts = [on_gpu(1000), bytearray(500), on_gpu(70_000), np.zeros(10, np.int64)]
    torch.cuda.synchronize()
    with CuFile(path) as f:
        assert f.read(parts, file_offset=11, task_size=777) == 71_580
    got = b"".join([host(parts[0]).tobytes(), bytes(parts[1]), host(parts[2]).tobytes(), parts[3].tobytes()])
    assert got == DATA[11 : 11 + 71_580].tobytes()


def test_raw_calls(path, tmp_path):
    with CuFile(path) as f, CuFile(tmp_path / "out", "w+") as out:
        target = on_gpu(100_000)
        torch.cuda.synchronize()
        assert f.raw_read(target, 1000, 50, 200) == 1000
        assert (host(target[200:1200]) == DATA[50:1050]).all() and not target[:200].any()
        assert out.raw_write(target, 1000, 0, 200) == 1000
        with pytest.raises(ValueError):
            f.raw_read(target, 100_000, 0, 1)
        with pytest.raises(ValueError, match="Non-CUDA buffers not supported"):
            f.raw_read(bytearray(8))
        side = torch.cuda.Stream()
        first = f.raw_read_async(target, side.cuda_stream, None, 4096)
        second = out.raw_write_async(target, side.cuda_stream, None, 8192)
        assert (first.check_bytes_done(), second.check_bytes_done()) == (100_000, 100_000)
        f.raw_read_async(target, side.cuda_stream)  # the result is dropped
        side.synchronize()
        assert (host(target) == DATA[:100_000]).all()
    assert np.fromfile(tmp_path / "out", np.uint8)[8192 : 8192 + 100_000].tobytes() == DATA[4096:104_096].tobytes()


def test_no_context_need_be_current(path):
    target, seen = on_gpu(5_000_000), []
    torch.cuda.synchronize()

    def elsewhere():
        with CuFile(path) as f:
            seen.append(f.read(target))
        cuda = ctypes.CDLL("libcuda.so.1")
        current = ctypes.c_void_p()
        cuda.cuCtxGetCurrent(ctypes.byref(current))
        seen.append(current.value)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [5_000_000, None]
    assert (host(target) == DATA[:5_000_000]).all()


def test_a_captured_graph_is_not_broken(path):
    target, graph = on_gpu(1000), torch.cuda.CUDAGraph()
    other = on_gpu(1000)
    torch.cuda.synchronize()
    with CuFile(path) as f:
        side = torch.cuda.Stream()
        with torch.cuda.graph(graph, stream=side):
            target += 1
            with pytest.raises(cufile.CudaError):
                f.read(other, stream=side)
        graph.replay()
        torch.cuda.synchronize()
        assert (host(target) == 1).all()
        assert f.read(other) == 1000


def test_other_libraries_arrays(path):
    cupy = pytest.importorskip("cupy")
    with CuFile(path) as f:
        array = cupy.zeros((100, 50), cupy.float64)
        assert f.read(array) == 40_000
        assert array.get().tobytes() == DATA[:40_000].tobytes()
        stream = cupy.cuda.Stream(non_blocking=True)
        assert f.read(array, file_offset=3, stream=stream) == 40_000
        assert array.get().tobytes() == DATA[3:40_003].tobytes()
        with pytest.raises(ValueError, match="contiguous"):
            f.read(array[:, ::2])
        pinned = torch.zeros(1000, dtype=torch.uint8).pin_memory()
        assert f.read(pinned) == 1000 and pinned.numpy().tobytes() == DATA[:1000].tobytes()
        managed = cupy.ndarray(1000, cupy.uint8, cupy.cuda.malloc_managed(1000))
        assert f.read(managed) == 1000 and managed.get().tobytes() == DATA[:1000].tobytes()
        ordered = cupy.ndarray(1000, cupy.uint8, cupy.cuda.MemoryPointer(cupy.cuda.MemoryAsync(1000, stream), 0))
        assert f.read(ordered) == 1000 and ordered.get().tobytes() == DATA[:1000].tobytes()


def test_pinned_memory_is_freed(path):
    with CuFile(path) as f:
        f.read(on_gpu(20_000_000))
    assert cufile.counters()["pinned_bytes"] > 0
    assert cufile.bounce_buffer_free() > 0
    assert cufile.counters()["pinned_bytes"] == 0
    with defaults.set({"pinned_limit": 1 << 20, "bounce_buffer_size": 1 << 20, "num_threads": 4}), CuFile(path) as f:
        target = on_gpu(30_000_000)
        assert f.read(target, task_size=1 << 20) == 30_000_000
        assert (host(target) == DATA[:30_000_000]).all()
        assert cufile.counters()["pinned_bytes"] <= 1 << 20


def test_many_threads_and_cancels(path):
    with CuFile(path) as f:
        targets = [on_gpu(3_000_000) for _ in range(12)]
        torch.cuda.synchronize()
        futures = [f.pread(t, file_offset=k * 1000, task_size=100_000) for k, t in enumerate(targets)]
        for future in futures[::3]:
            future.cancel()
        for k, (future, target) in enumerate(zip(futures, targets)):
            if future.cancelled() or k % 3 == 0:
                continue
            assert future.get() == 3_000_000
            assert (host(target) == DATA[k * 1000 : k * 1000 + 3_000_000]).all()


def test_a_child_refuses_device_requests(path):
    target = on_gpu(1000)
    with CuFile(path) as f:
        assert f.read(target) == 1000
        child = os.fork()
        if child == 0:
            try:
                assert f.read(bytearray(1000)) == 1000
                f.read(target)
            except damacy.ShutdownError:
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0


def test_a_region_is_read_into_gpu_memory(path):
    with damacy.Mmap(path, initial_map_size=1_000_000, initial_map_offset=777) as region:
        target = on_gpu(1_000_000)
        assert region.read(target[:100_000], 100_000, 777) == 100_000
        assert region.pread(target[100_000:], offset=100_777, task_size=50_000).get() == 900_000
        assert (host(target) == DATA[777:1_000_777]).all()
        with pytest.raises(IndexError, match="the region is 777 to 1000777"):
            region.read(target, 1_000_000, 778)
