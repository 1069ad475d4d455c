"""`damacy.zarr.GDSStore` under zarr-python 3: the store contract, atomic writes, compared with zarr's own stores."""

import asyncio
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

zarr = pytest.importorskip("zarr", minversion="3.1")

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest  # noqa: E402
from zarr.core.buffer import cpu, default_buffer_prototype  # noqa: E402

import damacy.zarr  # noqa: E402
from damacy.zarr import GDSStore  # noqa: E402

BYTES = bytes(range(256)) * 40


def run(awaitable):
    return asyncio.run(awaitable)


async def everything(iterator):
    return [item async for item in iterator]


def buffer(data):
    return cpu.Buffer.from_bytes(data)


@pytest.fixture
def store(tmp_path):
    store = GDSStore(tmp_path / "store")
    store.set_sync("a/b", buffer(BYTES))
    return store


@pytest.mark.parametrize("version", [None, "2.12.0", "3.0.8"])
def test_without_a_supported_zarr_the_error_names_supported_versions(version):
    there = f"types.SimpleNamespace(__version__={version!r})" if version else None
    program = f"""
import sys, types
sys.modules["zarr"] = {there}
import damacy.zarr
try:
    damacy.zarr.GDSStore
except ImportError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60).stdout
    assert "damacy[zarr]" in said and "2.13 to 2.18, and 3.1 or later" in said and (version or "cannot") in said


def test_its_name_and_its_base_classes(tmp_path):
    store = GDSStore(str(tmp_path))
    assert GDSStore.__module__ == "damacy.zarr" and GDSStore is damacy.zarr.GDSStore
    assert isinstance(store, zarr.storage.LocalStore)
    assert repr(store) == f"GDSStore('file://{tmp_path}')"
    assert pickle.loads(pickle.dumps(store)) == store
    local = zarr.storage.LocalStore(tmp_path)
    assert store != local and local != store
    assert store.with_read_only(True).read_only
    for wrong in (None, 1, b"x"):
        with pytest.raises(TypeError):
            GDSStore(wrong)


def test_the_arguments_of_the_store_for_zarr_2_are_accepted(tmp_path):
    for store in (GDSStore(path=tmp_path), GDSStore(tmp_path, False, "/"), GDSStore(tmp_path, dimension_separator=".")):
        assert store == GDSStore(tmp_path) and store.root == tmp_path
    for arguments in ({}, {"root": tmp_path, "path": tmp_path}):
        with pytest.raises(TypeError, match="either `root` or `path`"):
            GDSStore(**arguments)
    with pytest.raises(ValueError, match="dimension_separator: expected '.', '/' or None"):
        GDSStore(tmp_path, dimension_separator="-")
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        GDSStore(tmp_path, normalise=True)


def test_keys_are_lower_case_where_a_store_normalizes_them(tmp_path):
    store = GDSStore(tmp_path, normalize_keys=True)
    assert store != GDSStore(tmp_path) and pickle.loads(pickle.dumps(store)) == store
    assert store.with_read_only(True).normalize_keys and store.with_read_only(True).read_only
    group = zarr.create_group(store)
    group.create_array("Cells", shape=(4,), chunks=(2,), dtype="u2")[:] = [1, 2, 3, 4]
    assert sorted(os.listdir(tmp_path)) == ["cells", "zarr.json"]
    with damacy.zarr.enable(strict=True):
        for name in ("Cells", "cells", "CELLS"):
            assert zarr.open_group(store)[name][:].tolist() == [1, 2, 3, 4]
    assert run(everything(store.list_prefix("CELLS/c"))) == ["cells/c/0", "cells/c/1"]
    run(store.delete("Cells/c/0"))
    assert not run(store.exists("cells/c/0"))


@pytest.mark.parametrize("sync", [False, True])
def test_ranges_are_clamped_to_the_object(store, sync):
    def get(byte_range):
        if sync:
            return store.get_sync("a/b", prototype=None, byte_range=byte_range).to_bytes()
        return run(store.get("a/b", None, byte_range)).to_bytes()

    n = len(BYTES)
    for edge in (0, 1, n - 1, n, n + 1, 3 * n):
        assert get(OffsetByteRequest(edge)) == BYTES[edge:]
        assert get(SuffixByteRequest(edge)) == (BYTES[-edge:] if edge else b"")
        for end in (0, edge, n - 1, n, n + 1):
            assert get(RangeByteRequest(edge, end)) == BYTES[edge:end]
    assert get(None) == BYTES
    for wrong in (RangeByteRequest(-1, 3), OffsetByteRequest(-1), SuffixByteRequest(-1)):
        with pytest.raises(ValueError):
            get(wrong)
    for wrong in (3, (0, 3), "x"):
        with pytest.raises(TypeError, match="Unexpected byte_range, got"):
            get(wrong)


def test_a_key_that_is_not_a_file_is_missing(store, tmp_path):
    os.mkfifo(tmp_path / "store" / "fifo")
    for key in ("missing", "a", "a/b/c", "fifo", ""):
        assert store.get_sync(key) is None
        assert run(store.get(key, default_buffer_prototype())) is None
    assert run(store.exists("a/b")) and not run(store.exists("a"))
    assert run(store.getsize("a/b")) == len(BYTES)
    for key in ("missing", "a/b/c"):
        with pytest.raises(FileNotFoundError):
            run(store.getsize(key))
    run(store.delete("missing"))
    store.delete_sync("a/b")
    assert store.get_sync("a/b") is None


@pytest.mark.parametrize("key", ["/etc/passwd", "../x", "a/../../x", "a\0b", ".."])
def test_keys_outside_the_root_are_refused(store, key):
    for call in (
        lambda: store.get_sync(key),
        lambda: run(store.get(key)),
        lambda: store.set_sync(key, buffer(b"")),
        lambda: run(store.set_if_not_exists(key, buffer(b""))),
        lambda: store.delete_sync(key),
        lambda: run(store.exists(key)),
        lambda: run(store.getsize(key)),
        lambda: run(store.get_partial_values(default_buffer_prototype(), [(key, None)])),
        lambda: store.get_ranges_sync(key, [], prototype=default_buffer_prototype()),
        lambda: run(everything(store.get_ranges(key, [None], prototype=default_buffer_prototype()))),
    ):
        with pytest.raises(ValueError):
            call()


def test_many_ranges_are_read_by_one_request(store):
    prototype = default_buffer_prototype()
    ranges = [RangeByteRequest(5, 50), SuffixByteRequest(3), OffsetByteRequest(10**6), RangeByteRequest(5, 50)]
    expected = {0: BYTES[5:50], 1: BYTES[-3:], 2: b"", 3: BYTES[5:50]}
    got = dict(store.get_ranges_sync("a/b", ranges, prototype=prototype))
    assert {k: v.to_bytes() for k, v in got.items()} == expected
    yielded = run(everything(store.get_ranges("a/b", ranges, prototype=prototype)))
    assert {k: v.to_bytes() for group in yielded for k, v in group} == expected
    assert run(everything(store.get_ranges("missing", [], prototype=prototype))) == []
    for call in (
        lambda: store.get_ranges_sync("missing", ranges, prototype=prototype),
        lambda: run(everything(store.get_ranges("missing", ranges, prototype=prototype))),
    ):
        with pytest.raises(ExceptionGroup) as caught:
            call()
        assert isinstance(caught.value.exceptions[0], FileNotFoundError)
    values = run(store.get_partial_values(prototype, [("a/b", ranges[0]), ("missing", None), ("a/b", None)]))
    assert [v and v.to_bytes() for v in values] == [BYTES[5:50], None, BYTES]


def test_writes_replace_whole_objects(store, tmp_path):
    store.set_sync("a/b", buffer(b"new"))
    assert store.get_sync("a/b").to_bytes() == b"new"
    run(store.set_if_not_exists("a/b", buffer(b"newer")))
    assert store.get_sync("a/b").to_bytes() == b"new"
    run(store.set_if_not_exists("c", buffer(b"first")))
    assert store.get_sync("c").to_bytes() == b"first"
    strided = cpu.Buffer.from_array_like(np.arange(20, dtype=np.uint8)[::2])
    run(store.set("strided", strided))
    assert store.get_sync("strided").to_bytes() == bytes(range(0, 20, 2))
    with pytest.raises(TypeError, match=r"GDSStore.set\(\): `value` must be a Buffer instance. Got an instance of"):
        run(store.set("x", b"bytes"))
    with pytest.raises(ValueError):
        run(GDSStore(tmp_path / "store", read_only=True).set("x", buffer(b"")))
    run(store.set_partial_values([("a/b", 1, b"OO")]))
    assert store.get_sync("a/b").to_bytes() == b"nOO"


def test_temporaries_are_never_listed(store, tmp_path):
    (tmp_path / "store" / "a" / ".damacy-00ff.partial").write_bytes(b"half")
    assert run(everything(store.list())) == ["a/b"]
    assert run(everything(store.list_prefix("a"))) == ["a/b"]
    assert run(everything(store.list_dir("a"))) == ["b"]


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="needs root and `mount`")
def test_a_full_disk_leaves_the_old_object(tmp_path):
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", tmp_path], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("mount is not allowed here")
    try:
        store = GDSStore(tmp_path)
        store.set_sync("k", buffer(b"old"))
        with pytest.raises(OSError, match="No space left"):
            store.set_sync("k", buffer(bytes(1 << 20)))
        assert store.get_sync("k").to_bytes() == b"old"
        assert os.listdir(tmp_path) == ["k"]
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


# Forks a writer for each line of its input, so that no further interpreter has to start.
WRITERS = """
import itertools, os, sys
from zarr.core.buffer import cpu
from damacy.zarr import GDSStore
store = GDSStore(sys.argv[1])
for _ in sys.stdin:
    writer = os.fork()
    if writer == 0:
        print(os.getpid(), flush=True)
        for n in itertools.count(os.getpid()):
            store.set_sync("object", cpu.Buffer.from_bytes(bytes([n % 251]) * 300_000))
    os.waitpid(writer, 0)
    print("gone", flush=True)
"""


def test_killed_writers_leave_the_old_object_or_the_new(tmp_path, record_property):
    """DAMACY_KILLS is the number of rounds."""
    kills = int(os.environ.get("DAMACY_KILLS", "100"))
    rng = random.Random(1)
    store = GDSStore(tmp_path)
    store.set_sync("object", buffer(bytes(300_000)))
    in_the_middle, seen = 0, set()
    with subprocess.Popen(
        [sys.executable, "-c", WRITERS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writers:
        for _ in range(kills):
            writers.stdin.write("one more\n")
            writers.stdin.flush()
            pid = int(writers.stdout.readline())
            time.sleep(rng.random() * 0.005)
            os.kill(pid, signal.SIGKILL)
            assert writers.stdout.readline() == "gone\n"
            found = store.get_sync("object").to_bytes()
            assert len(found) == 300_000 and len(set(found)) == 1
            assert run(everything(store.list())) == ["object"]
            seen.add(found[0])
            for partial in tmp_path.glob(".damacy-*.partial"):
                in_the_middle += 1
                partial.unlink()
        writers.stdin.close()
    record_property("kills", kills)
    record_property("in the middle of a write", in_the_middle)
    record_property("objects seen", len(seen))
    assert in_the_middle > 0 and len(seen) > 1


RACER = """
import asyncio, sys
from zarr.core.buffer import cpu
from damacy.zarr import GDSStore
store = GDSStore(sys.argv[1])
async def main():
    for n in range(200):
        await store.set_if_not_exists(f"k{n}", cpu.Buffer.from_bytes(sys.argv[2].encode() * 5000))
asyncio.run(main())
"""


def test_of_racing_writers_exactly_one_is_kept(tmp_path):
    racers = [subprocess.Popen([sys.executable, "-c", RACER, str(tmp_path), name]) for name in "ABC"]
    assert [racer.wait(60) for racer in racers] == [0, 0, 0]
    store = GDSStore(tmp_path)
    for n in range(200):
        found = store.get_sync(f"k{n}").to_bytes()
        assert len(found) == 5000 and len(set(found)) == 1


@pytest.mark.parametrize("shards", [None, (40, 40)])
@pytest.mark.parametrize("version", [2, 3])
def test_arrays_equal_those_of_zarrs_own_store(tmp_path, shards, version):
    if shards and version == 2:
        pytest.skip("no shards in format 2")
    x = np.random.default_rng(0).normal(size=(100, 90)).astype("f4")
    trees = {}
    for cls in (GDSStore, zarr.storage.LocalStore):
        root = tmp_path / cls.__name__
        z = zarr.create_array(
            cls(root), shape=x.shape, chunks=(20, 10), shards=shards, dtype="f4", zarr_format=version, compressors=None
        )
        z[:] = x
        z[3:7, 5:50] = 1
        trees[cls] = {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}
        back = zarr.open_array(GDSStore(root, read_only=True))
        assert (back[10:90:3, 7] == x[10:90:3, 7]).all() and (back[3:7, 5:50] == 1).all()
    assert trees[GDSStore] == trees[zarr.storage.LocalStore]


def test_an_overwritten_object_is_seen_at_once(store):
    for n in range(300):
        store.set_sync("a/b", buffer(bytes([n % 256]) * 100))
        assert store.get_sync("a/b").to_bytes() == bytes([n % 256]) * 100


def test_concurrent_gets_share_the_pool(store):
    async def main():
        got = await asyncio.gather(*(store.get("a/b", None, RangeByteRequest(k, k + 100)) for k in range(500)))
        assert [g.to_bytes() for g in got] == [BYTES[k : k + 100] for k in range(500)]

    run(main())


@pytest.mark.parametrize("prefix", ["..", "../", "../outside", "a/../../outside", "/", ".", "./a", "a\0"])
def test_nothing_outside_the_root_is_listed_or_removed_by_a_prefix(store, tmp_path, prefix):
    outside = tmp_path / "outside" / "kept"
    outside.parent.mkdir()
    outside.write_bytes(b"kept")
    if prefix == "/":  # means the root, as in zarr's own store
        assert run(everything(store.list_prefix(prefix))) == ["a/b"]
        assert run(everything(store.list_dir(prefix))) == ["a"]
        return
    calls = [
        everything(store.list_prefix(prefix)),
        everything(store.list_dir(prefix)),
        store.is_empty(prefix),
        store.getsize_prefix(prefix),
        store.delete_dir(prefix),
        store.delete_dir(str(tmp_path / "outside")),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="below the root"):
            run(call)
    assert outside.read_bytes() == b"kept" and run(everything(store.list())) == ["a/b"]


def test_only_clear_empties_the_root(store, tmp_path):
    for key in ("", ".", "a/.."):
        with pytest.raises(ValueError, match="root"):
            run(store.delete(key))
    assert run(everything(store.list())) == ["a/b"]
    run(store.delete_dir("a"))
    store.set_sync("c", buffer(BYTES))
    run(store.clear())
    assert run(everything(store.list())) == []
