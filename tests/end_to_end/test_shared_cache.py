"""`Config.host_cache`: processes that share a cache read each chunk once, and get the bytes that they get without."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import uuid

import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, ZstdCodec

import damacy

TESTS = pathlib.Path(__file__).parents[1]
SHAPE = (24, 96, 96)
CODECS = {"zstd": (ZstdCodec(level=1),), "blosc": (BloscCodec(cname="lz4"),), "raw": ()}

PROGRAM = textwrap.dedent(
    """
    import json, os, signal, sys
    import numpy as np
    import damacy

    task = json.loads(sys.argv[1])
    shared = damacy.SharedCache(task["name"], task["bytes"])
    config = damacy.Config(batch_size=4, device="cpu", dtype="u16", host_cache=shared)
    boxes = [[tuple(axis) for axis in box] for box in task["boxes"]]
    store = None
    if task["value"]:
        import zarr
        store = zarr.storage.MemoryStore()
        array = zarr.create_array(store, shape=(24, 96, 96), chunks=(8, 32, 32), dtype="uint16", compressors=())
        array[:] = task["value"]
    with damacy.Pipeline(config) as pipeline:
        for _ in range(task["passes"]):
            pipeline.push([damacy.Sample(task["uri"], box, store=store) for box in boxes])
            pipeline.flush()
            sums = []
            for n, batch in enumerate(pipeline):
                sums += [int(row.astype("u8").sum()) for row in np.from_dlpack(batch)]
                if n == task["dies_after"]:
                    os.kill(os.getpid(), signal.SIGKILL)
        stats = pipeline.stats()
        fields = ("host_cache_hits", "host_cache_misses", "host_cache_kept", "bytes_read", "host_bytes_committed")
        print(json.dumps({"sums": sums} | {field: getattr(stats, field) for field in fields}))
    """
)


@pytest.fixture
def name():
    return f"test-{uuid.uuid4().hex}"


def write(folder, codec):
    data = np.random.default_rng(0).integers(0, 1000, SHAPE, "uint16")
    array = zarr.create_array(folder, shape=SHAPE, chunks=(8, 32, 32), dtype="uint16", compressors=CODECS[codec])
    array[:] = data
    return data


def boxes(count, seed=1):
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, np.array(SHAPE) - (8, 40, 40) + 1, (count, 3))
    return [[[int(a), int(a + n)] for a, n in zip(start, (8, 40, 40), strict=True)] for start in starts]


def start(uri, name, boxes, *, size=8 << 20, passes=1, dies_after=-1, value=0):
    task = {"uri": uri, "name": name, "bytes": size, "boxes": boxes, "passes": passes, "dies_after": dies_after}
    task["value"] = value
    command = [sys.executable, "-c", PROGRAM, json.dumps(task)]
    return subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process, ends_with=0):
    out, err = process.communicate(timeout=120)
    assert process.returncode == ends_with, out + err
    return json.loads(out) if ends_with == 0 else None


def expected(data, boxes):
    return [int(data[tuple(slice(*axis) for axis in box)].astype("u8").sum()) for box in boxes]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("codec", CODECS)
def test_a_second_process_reads_nothing(tmp_path, name, codec):
    uri = str(tmp_path / "a.zarr")
    data = write(uri, codec)
    wanted = boxes(80)
    shared = damacy.SharedCache(name, "8 MiB")
    config = damacy.Config(batch_size=4, device="cpu", dtype="u16", host_cache=shared)
    with damacy.Pipeline(config) as pipeline:
        pipeline.push([damacy.Sample(uri, [tuple(axis) for axis in box]) for box in wanted])
        pipeline.flush()
        for n, batch in enumerate(pipeline):
            for row, box in zip(np.from_dlpack(batch), wanted[4 * n : 4 * n + 4], strict=True):
                np.testing.assert_array_equal(row, data[tuple(slice(*axis) for axis in box)])
        first = pipeline.stats()
        second = finish(start(uri, name, wanted))
    assert first.bytes_read > 0 and first.host_cache_kept > 0 and first.host_bytes_committed >= 8 << 20
    assert second["sums"] == expected(data, wanted)
    assert (second["bytes_read"], second["host_cache_misses"], second["host_cache_kept"]) == (0, 0, 0)
    assert second["host_cache_hits"] == first.host_cache_hits + first.host_cache_misses


@pytest.mark.timeout(180)
def test_equal_uris_of_other_stores_are_other_chunks(name):
    wanted = boxes(8)
    with damacy.Pipeline(damacy.Config(batch_size=1, device="cpu", host_cache=damacy.SharedCache(name, 8 << 20))):
        for value in (1, 2):  # the same sizes, and no version: only the process tells the stores apart
            found = finish(start("", name, wanted, passes=2, value=value))
            assert found["sums"] == [value * 8 * 40 * 40] * len(wanted)
            assert found["host_cache_kept"] > 0 and found["host_cache_misses"] > 0


@pytest.mark.timeout(180)
def test_processes_at_the_same_time_get_their_bytes(tmp_path, name):
    uri = str(tmp_path / "a.zarr")
    data = write(uri, "zstd")
    wanted = [boxes(120, seed) for seed in range(3)]
    running = [start(uri, name, some, size=1 << 20, passes=2) for some in wanted]
    for process, some in zip(running, wanted, strict=True):
        assert finish(process)["sums"] == expected(data, some)


@pytest.mark.timeout(180)
def test_processes_that_are_killed_leave_no_wrong_bytes(tmp_path, name):
    uri = str(tmp_path / "a.zarr")
    data = write(uri, "blosc")
    wanted = boxes(40)
    keeps = damacy.Pipeline(damacy.Config(batch_size=1, device="cpu", host_cache=damacy.SharedCache(name, 8 << 20)))
    try:
        for dies_after in range(4):
            finish(start(uri, name, wanted, dies_after=dies_after), ends_with=-signal.SIGKILL)
        last = finish(start(uri, name, wanted, passes=2))
    finally:
        keeps.close()
    assert last["sums"] == expected(data, wanted)
    assert last["host_cache_hits"] > last["host_cache_misses"]
    assert not [file for file in os.listdir("/dev/shm") if file.endswith(name)]


def test_a_changed_object_is_not_used(tmp_path, name):
    uri = str(tmp_path / "a.zarr")
    write(uri, "zstd")
    wanted = boxes(8)
    with damacy.Pipeline(damacy.Config(batch_size=1, device="cpu", host_cache=damacy.SharedCache(name, 8 << 20))):
        finish(start(uri, name, wanted))
        array = zarr.open_array(uri, mode="r+")
        array[:] = array[:] + 1
        data = array[:]
        again = finish(start(uri, name, wanted))
    assert again["sums"] == expected(data, wanted)
    assert again["host_cache_misses"] > 0


def test_another_size_is_refused_with_both(name):
    def made(size):
        return damacy.Pipeline(damacy.Config(batch_size=1, device="cpu", host_cache=damacy.SharedCache(name, size)))

    with made(2 << 20), pytest.raises(damacy.InvalidArgument, match="2097152 bytes, and 4194304 were asked for") as e:
        made(4 << 20)
    assert e.value.reason == "shared-cache"
    made(4 << 20).close()


def test_more_than_is_free_is_refused_with_both(name):
    with pytest.raises(damacy.OutOfMemory, match=r"host_cache is too large: \d+ bytes wanted, \d+ free"):
        damacy.Pipeline(damacy.Config(batch_size=1, device="cpu", host_cache=damacy.SharedCache(name, 1 << 60)))
