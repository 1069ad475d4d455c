"""Arrays in stores of other libraries, named by uris of mounts, against zarr-python's own reads."""

import asyncio
import contextlib
import copy
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
import zarr
from support.fault_server import FaultServer
from support.odd_stores import OddStore, SizedStore, never, on_chunks, raising
from support.s3_server import S3Server
from zarr.storage import LocalStore, LoggingStore, MemoryStore, ZipStore

import damacy
from damacy.samplers import RandomCrops

SHAPE = (96, 80)


def values(offset=0):
    return (np.arange(SHAPE[0] * SHAPE[1], dtype="u2") + offset).reshape(SHAPE)


def fill(store, offset=0):
    """Three arrays: shards of zstd chunks, plain chunks, and v2; a corner of each is fill."""
    zarr.create_group(store, overwrite=True)
    for name, more in {
        "sharded": {"shards": (64, 32)},
        "plain": {"compressors": None},
        "v2": {"zarr_format": 2},
    }.items():
        array = zarr.create_array(store, name=name, shape=SHAPE, chunks=(16, 16), dtype="u2", fill_value=7, **more)
        array[:80] = values(offset)[:80]
    return store


def boxes(count=6):
    rng = np.random.default_rng(5)
    starts = [[int(rng.integers(0, size - 24 + 1)) for size in SHAPE] for _ in range(count)]
    return [tuple((start, start + 24) for start in corner) for corner in starts]


def rows(uris, boxes, **config):
    samples = [damacy.Sample(uri, box) for uri, box in zip(uris, boxes)]
    with damacy.Pipeline(damacy.Config(batch_size=len(samples), dtype="u16", **config)) as pipeline:
        pipeline.push(samples)
        pipeline.flush()
        with pipeline.pop() as batch:
            return np.from_dlpack(batch).copy()


def row(uri, box=((0, 24), (0, 24)), **config):
    return rows([uri], [box], **config)[0]


def sliced(array, box):
    return array[tuple(slice(*axis) for axis in box)]


def zip_store(folder):
    writer = ZipStore(folder / "a.zip", mode="w")
    fill(writer)
    writer.close()
    return ZipStore(folder / "a.zip", mode="r")


def obstore_memory(folder):
    obstore = pytest.importorskip("obstore", reason="obstore is not installed: its stores are not tested")
    store = obstore.store.MemoryStore()
    fill(zarr.storage.ObjectStore(store))
    return store


def obstore_local(folder):
    obstore = pytest.importorskip("obstore", reason="obstore is not installed: its stores are not tested")
    fill(LocalStore(folder / "local"))
    return obstore.store.LocalStore(folder / "local")


def zarr_over_obstore(folder):
    return zarr.storage.ObjectStore(obstore_memory(folder))


def fsspec_memory(folder):
    pytest.importorskip("fsspec", reason="fsspec is not installed: its stores are not tested")
    store = zarr.storage.FsspecStore.from_url(f"memory://{folder.name}")
    return fill(store)


STORES = {
    "MemoryStore": lambda folder: fill(MemoryStore()),
    "LocalStore": lambda folder: fill(LocalStore(folder / "local")),
    "ZipStore": zip_store,
    "LoggingStore": lambda folder: fill(LoggingStore(MemoryStore(), log_level="ERROR")),
    "a store that reads objects to find their sizes": lambda folder: fill(OddStore()),
    "a store that knows sizes": lambda folder: fill(SizedStore()),
    "obstore's MemoryStore": obstore_memory,
    "obstore's LocalStore": obstore_local,
    "zarr's ObjectStore": zarr_over_obstore,
    "zarr's FsspecStore": fsspec_memory,
}


def as_zarrs(store):
    return store if isinstance(store, zarr.abc.store.Store) else zarr.storage.ObjectStore(store)


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    return STORES[request.param](tmp_path)


@pytest.mark.parametrize("name", ["sharded", "plain", "v2"])
def test_batches_are_zarrs_own_reads(store, name):
    assert damacy.mount("store://x", store) == "store://x/"
    array = zarr.open_array(as_zarrs(store), path=name, mode="r")
    wanted = boxes()
    got = rows([f"store://x/{name}"] * len(wanted), wanted)
    for each, box in zip(got, wanted):
        assert np.array_equal(each, sliced(array, box))


def test_open_reads_plans_and_verifies(store):
    prefix = damacy.mount(store)
    root = damacy.open(prefix)
    assert set(root) == {"plain", "sharded", "v2"}
    opened = damacy.open(prefix + "sharded")
    array = zarr.open_array(as_zarrs(store), path="sharded", mode="r")
    assert (opened.shape, opened.chunks, opened.shards) == (SHAPE, (16, 16), (64, 32))
    assert np.array_equal(opened[3:90, 5:], array[3:90, 5:])
    plan = damacy._native.plan_reads(prefix + "sharded", [[0, 24], [0, 24]])
    assert plan["objects"] == 1 and plan["chunks"] == 4
    verifier = damacy._native.Verifier(prefix + "sharded")
    report = verifier.verify(0, verifier.places)
    assert report["bad"] == [] and report["chunks"] == 25


def test_samplers_take_uris_of_mounts(store):
    uri = damacy.mount(store) + "plain"
    array = zarr.open_array(as_zarrs(store), path="plain", mode="r")
    crops = RandomCrops([uri], (8, 8), length=4)
    with damacy.Pipeline(damacy.Config(batch_size=4, dtype="u16")) as pipeline:
        pipeline.push(crops.sample(0, index) for index in range(4))
        pipeline.flush()
        with pipeline.pop() as batch:
            for each, sample in zip(np.from_dlpack(batch), batch.samples):
                assert np.array_equal(each, sliced(array, sample.aabb))


def test_what_is_absent_is_not_found(store):
    prefix = damacy.mount(store)
    with pytest.raises(damacy.NotFound) as caught:
        damacy.open(prefix + "nothing/here")
    assert caught.value.uri == prefix + "nothing/here"
    with pytest.raises(damacy.InvalidArgument, match="is a group, not an array; arrays inside: plain, sharded, v2"):
        row(prefix)


# -- prefixes ----------------------------------------------------------------------------------------------------------


def test_without_a_prefix_the_same_object_gets_the_same_one():
    first, second = fill(MemoryStore()), fill(MemoryStore())
    prefix = damacy.mount(first)
    assert prefix.startswith("store://") and prefix.endswith("/") and prefix[8:-1].isdigit()
    assert damacy.mount(first) == prefix
    assert damacy.mount(second) != prefix
    assert (prefix, "zarr.storage.MemoryStore") in damacy.mounts()
    damacy.unmount(prefix)
    assert prefix not in dict(damacy.mounts())
    assert damacy.mount(first) != prefix  # a sample that names the old one never gets other data


def test_store_arguments_are_mounts():
    store = fill(MemoryStore())
    prefix = damacy.mount(store)
    assert damacy.Sample("plain", [(0, 4), (0, 4)], store=store) == damacy.Sample(prefix + "plain", [(0, 4), (0, 4)])
    several = damacy.Sample({"a": ("plain", [(0, 4)] * 2), "b": [("v2", [(0, 4)] * 2)] * 2}, store=store)
    assert {name: [uri for uri, _ in parts] for name, parts in several.arrays.items()} == {
        "a": [prefix + "plain"],
        "b": [prefix + "v2"] * 2,
    }
    assert damacy.open("plain", store=store).uri == prefix + "plain"
    assert damacy.open_array("plain", store=store).shape == SHAPE
    assert set(damacy.open_group("", store=store)) == {"plain", "sharded", "v2"}
    with pytest.raises(TypeError, match="with store=, the uri must be a path in the store"):
        damacy.Sample(3, [(0, 4)], store=store)


def test_objects_of_zarr_are_taken_with_their_stores():
    store = fill(MemoryStore())
    group = zarr.open_group(store, mode="r")
    prefix = damacy.mount(store)
    assert damacy.Sample(group["plain"], [..., slice(2, 5)]).uri == prefix + "plain"
    assert damacy.open(group["plain"]).uri == prefix + "plain"
    assert set(damacy.open(group)) == {"plain", "sharded", "v2"}


def test_a_local_store_is_its_path(tmp_path):
    array = zarr.open_array(fill(LocalStore(tmp_path)), path="plain", mode="r")
    before = damacy.mounts()
    assert damacy.Sample(array, [(0, 4), (0, 4)]).uri == str(tmp_path / "plain")
    assert damacy.mounts() == before


def test_samples_of_mounts_pickle_as_texts():
    sample = damacy.Sample("plain", [(0, 4), (0, 4)], store=fill(MemoryStore()))
    assert pickle.loads(pickle.dumps(sample)) == sample
    assert type(sample.uri) is str


def test_what_is_no_store_is_refused():
    for target in (None, 3, "store://x/", object(), MemoryStore, {}):
        with pytest.raises(TypeError, match=r"store"):
            damacy.mount("store://x/", target)
    with pytest.raises(TypeError, match="the prefix must be a str"):
        damacy.mount(3, MemoryStore())
    with pytest.raises(damacy.InvalidArgument, match="not under a path"):
        damacy.mount("/data", MemoryStore())
    with pytest.raises(damacy.InvalidArgument, match="no store is mounted as store://x/"):
        damacy.unmount("store://x/")


def test_an_opened_array_keeps_its_store_and_a_later_one_has_the_new_store():
    damacy.mount("store://again/", fill(MemoryStore()))
    read, unread = damacy.open_array("store://again/sharded"), damacy.open_array("store://again/plain")
    np.testing.assert_array_equal(read[:80], values()[:80])
    damacy.mount("store://again/", fill(MemoryStore(), offset=1000))
    later = damacy.open_array("store://again/sharded")
    for array, offset in ((read, 0), (unread, 0), (later, 1000), (read, 0), (*damacy.open_many([later.uri]), 1000)):
        np.testing.assert_array_equal(array[:80], values(offset)[:80])
    assert read == later and copy.deepcopy(read)[0, 0] == read[0, 0]
    assert pickle.loads(pickle.dumps(read))[0, 0] == later[0, 0]  # its uri, which leads to the new store
    with pytest.raises(damacy.StorageError, match="another store was mounted at the uri") as caught:
        read.read(spec=damacy.ArraySpec())
    assert caught.value.reason == "changed"
    np.testing.assert_array_equal(later.read(spec=damacy.ArraySpec())[:80], values(1000)[:80])


def test_one_uri_with_two_options_has_two_names(tmp_path):
    servers = []
    with contextlib.ExitStack() as stack:
        for number in range(2):
            zarr.create_array(tmp_path / str(number) / "twins" / "a.zarr", data=values(number), chunks=(16, 16))
            servers.append(stack.enter_context(S3Server(tmp_path / str(number))))
            servers[-1].public.add("twins")
        options = [damacy.StoreOptions(endpoint=server.url, region="us-east-1", anonymous=True) for server in servers]
        arrays = [damacy.open_array("s3://twins/a.zarr", store=each) for each in options]
        samples = [damacy.Sample("s3://twins/a.zarr", [(0, 24), (0, 24)], store=each) for each in options * 2]
        assert [sample.uri for sample in samples] == [array.uri for array in arrays] * 2
        assert samples[0].uri == "s3://twins/a.zarr" != samples[1].uri
        for number, array in enumerate(arrays):
            np.testing.assert_array_equal(array[:], values(number))
        with damacy.Pipeline(damacy.Config(batch_size=4, dtype="u16", device="cpu", cache_bytes="16MiB")) as pipeline:
            for _ in range(2):
                pipeline.push(samples)
                with pipeline.pop() as batch:
                    for row, number in zip(np.from_dlpack(batch), (0, 1, 0, 1), strict=True):
                        np.testing.assert_array_equal(row, values(number)[:24, :24])


def test_equal_options_that_are_mounted_again_stay_as_they_are(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=values(), chunks=(16, 16))
    with FaultServer(tmp_path) as server:
        prefix = damacy.mount(server.url, damacy.StoreOptions(attempts=3))
        array = damacy.open_array(f"{server.url}/a.zarr")
        for again in (server.url, prefix, prefix.replace("http", "HTTP")):
            assert damacy.mount(again, damacy.StoreOptions(attempts=3)) == prefix
            np.testing.assert_array_equal(array.read(spec=damacy.ArraySpec()), values())
        damacy.unmount(prefix)
        assert prefix not in dict(damacy.mounts())
        assert damacy.mount(prefix, damacy.StoreOptions(attempts=3)) == prefix in dict(damacy.mounts())
        damacy.mount(prefix, damacy.StoreOptions(attempts=4))
        with pytest.raises(damacy.StorageError, match="another store was mounted at the uri"):
            array.read(spec=damacy.ArraySpec())


def test_a_scheme_in_capitals_names_no_second_store(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=values(), chunks=(16, 16))
    one, other = (damacy.StoreOptions(headers={"X-Who": name}) for name in ("one", "other"))
    with FaultServer(tmp_path) as server:
        small = f"{server.url}/a.zarr"
        capital = small.replace("http", "HTTP")
        assert damacy.Sample(small, [(0, 1), (0, 1)], store=one).uri == small
        assert damacy.Sample(capital, [(0, 1), (0, 1)], store=one).uri == capital
        second = damacy.Sample(capital, [(0, 1), (0, 1)], store=other).uri
        assert second.startswith("store://")
        assert damacy.Sample(small, [(0, 1), (0, 1)], store=other).uri == second
        damacy.open_array(small)
        assert {request.headers.get("x-who") for request in server.requests} == {"one"}


def test_many_different_options_keep_a_bounded_number_of_names(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=values(), chunks=(16, 16))
    with FaultServer(tmp_path) as server:
        uri = f"{server.url}/a.zarr"

        def options(number):
            return damacy.StoreOptions(headers={"X-Number": str(number)})

        before = len(damacy.mounts())
        first = damacy.open_array(uri, store=options(-1))
        old = damacy.open_array(uri, store=options(0))
        used = [damacy.open_array(uri, store=options(1)).uri]
        for number in range(2, 600):
            damacy.Sample(uri, [(0, 1), (0, 1)], store=options(number))
            used.append(damacy.Sample(uri, [(0, 1), (0, 1)], store=options(1)).uri)
        assert len(damacy.mounts()) <= before + 1 + 256
        assert set(used) == {used[0]}  # one that is used stays
        assert first.uri == uri != old.uri
        for array in (first, old):
            np.testing.assert_array_equal(array[:], values())
        with pytest.raises(damacy.InvalidArgument, match="no store is mounted as store://"):
            damacy.open(old.uri)
        assert damacy.Sample(uri, [(0, 1), (0, 1)], store=options(0)).uri != old.uri


def test_a_pipeline_keeps_the_mount_of_when_it_opened_a_uri():
    damacy.mount("store://x/", fill(MemoryStore()))
    with damacy.Pipeline(damacy.Config(batch_size=1, dtype="u16", n_zarrs_meta_cache=1)) as pipeline:

        def first(uri):
            pipeline.push([damacy.Sample(uri, [(0, 1), (0, 1)])])
            pipeline.flush()
            with pipeline.pop() as batch:
                return int(np.from_dlpack(batch)[0, 0, 0])

        assert first("store://x/plain") == 0
        damacy.mount("store://x/", fill(MemoryStore(), offset=100))
        assert first("store://x/v2") == 100
        assert first("store://x/plain") == 0
        damacy.unmount("store://x/")
        assert first("store://x/plain") == 0
        with pytest.raises(damacy.InvalidArgument, match="no store is mounted as store://x/ in this process"):
            first("store://x/sharded")


# -- failures ----------------------------------------------------------------------------------------------------------


def failure(uri, **config):
    with pytest.raises(damacy.StorageError) as caught:
        row(uri, **config)
    return caught.value


@pytest.mark.parametrize("kind", [OddStore, SizedStore])
@pytest.mark.parametrize("name", ["sharded", "plain"])
def test_what_a_store_raises_is_a_storage_error_with_its_cause(kind, name):
    store = fill(kind())
    raised = ConnectionResetError(104, "GET https://me:hidden1@host/k?sig=hidden2: reset")
    store.fault = raising(raised)
    error = failure(damacy.mount(store) + name)
    assert (error.reason, error.errno) == ("io", 104)
    assert error.uri == damacy.mount(store) + name
    assert error.key == ("c/0/0")
    assert error.__cause__ is raised
    assert "ConnectionResetError: " in str(error) and "https://***@host/k?***" in str(error)
    assert "hidden" not in str(error) + str(error.__cause__)
    store.fault = None
    assert row(damacy.mount(store) + name)[0, 1] == 1  # the next read is good


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-1], r"the store returned \d+ bytes for a range of \d+"),
        (lambda data: data + b"x", r"the store returned \d+ bytes for a range of \d+"),
        (lambda data: b"", r"the store returned 0 bytes for a range of \d+"),
    ],
)
@pytest.mark.parametrize("name", ["sharded", "plain"])
def test_too_many_or_too_few_bytes_are_refused(change, message, name):
    store = fill(SizedStore(), offset=1)
    store.fault = on_chunks(change)
    error = failure(damacy.mount(store) + name)
    assert error.reason == "range"
    assert error.byte_range is not None
    assert re.search(message, str(error))


def test_an_object_that_vanishes_between_its_size_and_its_bytes_has_changed():
    store = fill(SizedStore())

    async def gone(key, found):
        return None if key.startswith("plain/c/") else found

    store.fault = gone
    assert failure(damacy.mount(store) + "plain").reason == "changed"


def test_an_answer_that_is_no_buffer_is_an_error():
    store = fill(OddStore())

    async def text(key, found):
        return "text" if "/c/" in key else found

    store.fault = text
    assert failure(damacy.mount(store) + "plain").reason == "io"


def test_a_replaced_shard_is_never_mixed_with_the_old_one():
    pytest.importorskip("obstore", reason="obstore is not installed: versions are not tested")
    import obstore

    from damacy._stores.adapters import ObstoreAdapter

    inner = obstore.store.MemoryStore()
    fill(zarr.storage.ObjectStore(inner))
    adapter = ObstoreAdapter(inner, inner, "obstore")
    damacy._native.mount_store("store://x/", adapter, adapter.name, 60.0)  # as for a remote store
    with damacy.Pipeline(damacy.Config(batch_size=1, dtype="u16")) as pipeline:
        pipeline.push([damacy.Sample("store://x/sharded", [(0, 1), (0, 1)])])
        pipeline.flush()
        pipeline.pop().release()
        fill(zarr.storage.ObjectStore(inner), offset=9)  # same sizes
        pipeline.push([damacy.Sample("store://x/sharded", [(0, 1), (0, 1)])])
        pipeline.flush()
        with pytest.raises(damacy.StorageError) as caught:
            pipeline.pop()
        assert caught.value.reason == "changed"


def test_a_replaced_object_of_a_memory_store_has_changed():
    store = fill(MemoryStore())
    prefix = damacy.mount(store)
    with damacy.Pipeline(damacy.Config(batch_size=1, dtype="u16")) as pipeline:
        pipeline.push([damacy.Sample(prefix + "sharded", [(0, 1), (0, 1)])])
        pipeline.flush()
        pipeline.pop().release()
        buffer = store._store_dict["sharded/c/0/0"]
        store._store_dict["sharded/c/0/0"] = type(buffer).from_bytes(buffer.to_bytes())
        pipeline.push([damacy.Sample(prefix + "sharded", [(0, 1), (0, 1)])])
        pipeline.flush()
        with pytest.raises(damacy.StorageError) as caught:
            pipeline.pop()
        assert caught.value.reason == "changed"


def test_documents_and_indices_are_read_once():
    store = fill(SizedStore())
    uri = damacy.mount(store) + "sharded"
    store.gets.clear()
    with damacy.Pipeline(damacy.Config(batch_size=1, dtype="u16")) as pipeline:
        for corner in range(8):
            pipeline.push([damacy.Sample(uri, [(corner, corner + 8), (0, 8)])])
        pipeline.flush()
        for _ in range(8):
            pipeline.pop().release()
    keys = [key for key, _ in store.gets]
    assert keys.count("sharded/zarr.json") == 1
    assert len([1 for key, wanted in store.gets if key == "sharded/c/0/0"]) <= 1 + 8


# -- threads, interrupts, ends -----------------------------------------------------------------------------------------


def test_obstore_is_refused_in_a_forked_child_that_it_would_hang():
    uri = damacy.mount(obstore_memory(None)) + "plain"
    damacy.open(uri)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            damacy.open(uri)
        except damacy.StorageError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    try:
        text = os.read(reader, 4096).decode()
        assert "does not answer in a forked child" in text and "spawning" in text
    finally:
        os.close(reader)
        os.waitpid(child, 0)


def test_one_store_from_several_threads_and_pipelines():
    store = fill(SizedStore())
    uri = damacy.mount(store) + "sharded"
    array = zarr.open_array(store, path="sharded", mode="r")
    failures = []

    def read():
        try:
            for _ in range(5):
                wanted = boxes()
                for each, box in zip(rows([uri] * len(wanted), wanted), wanted):
                    assert np.array_equal(each, sliced(array, box))
                assert np.array_equal(damacy.open(uri)[:32, :32], array[:32, :32])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(thread.is_alive() for thread in threads)


def seconds_after_ctrl_c(call):
    """Ctrl-C ends the call; returns how long that took."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
    sent = []

    def interrupt():
        time.sleep(0.3)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            call()
        return time.monotonic() - sent[0]
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_the_wait_for_a_store_that_hangs():
    store = fill(SizedStore())
    store.fault = never
    uri = damacy.mount(store) + "plain"
    pipeline = damacy.Pipeline(damacy.Config(batch_size=1, dtype="u16"))
    pipeline.push([damacy.Sample(uri, [(0, 4), (0, 4)])])
    assert seconds_after_ctrl_c(pipeline.pop) < 10  # 0.1 s, on a machine that does nothing else
    start = time.monotonic()
    pipeline.close()
    assert time.monotonic() - start < 10


def test_ctrl_c_ends_opening_in_a_store_that_hangs():
    store = fill(SizedStore())
    uri = damacy.mount(store) + "plain"

    async def hang(key, found):
        await asyncio.Event().wait()

    store.fault = hang
    assert seconds_after_ctrl_c(lambda: damacy.open(uri)) < 10


ENDS = {
    "in the middle of reads": """
        pipeline.push(damacy.Sample(uri, [(at % 80, at % 80 + 8), (0, 80)]) for at in range(500))
    """,
    "while a store hangs": """
        store.fault = never
        pipeline.push([damacy.Sample(uri, [(0, 4), (0, 4)])])
        time.sleep(0.2)
    """,
    "with a reading thread": """
        def read():
            try:
                while True:
                    damacy.open(uri)[:8, :8]
            except damacy.StorageError:  # the interpreter ends
                pass
        threading.Thread(target=read, daemon=True).start()
        time.sleep(0.2)
    """,
    "with a batch that is kept": """
        pipeline.push([damacy.Sample(uri, [(0, 4), (0, 4)])])
        pipeline.flush()
        batch = pipeline.pop()
    """,
    "in a child after a fork": """
        assert damacy.open(uri)[1, 1] == 81
        child = os.fork()
        if child == 0:
            assert damacy.open(uri)[1, 1] == 81
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """,
}


@pytest.mark.parametrize("kind", ["MemoryStore", "SizedStore", "obstore"])
@pytest.mark.parametrize("state", ENDS)
def test_a_process_ends_in_every_state(state, kind, tmp_path):
    if kind == "obstore":
        pytest.importorskip("obstore", reason="obstore is not installed: its stores are not tested")
        if state == "in a child after a fork":
            pytest.skip("obstore's own threads do not survive a fork")
        if "fault" in ENDS[state]:
            pytest.skip("obstore's store in memory cannot hang")
    make = {
        "MemoryStore": "store = inner = MemoryStore()",
        "SizedStore": "store = inner = SizedStore()",
        "obstore": "import obstore; inner = obstore.store.MemoryStore(); store = zarr.storage.ObjectStore(inner)",
    }[kind]
    if kind == "MemoryStore" and "fault" in ENDS[state]:
        pytest.skip("a dict cannot hang")
    program = "\n".join(
        [
            "import os, sys, threading, time, zarr, numpy as np, damacy",
            "from support.odd_stores import SizedStore, never",
            "from zarr.storage import MemoryStore",
            make,
            "array = zarr.create_array(store, name='a', shape=(96, 80), chunks=(16, 16), dtype='u2')",
            "array[:] = np.arange(96 * 80).reshape(96, 80)",
            "uri = damacy.mount('store://x/', inner) + 'a'",
            "pipeline = damacy.Pipeline(damacy.Config(batch_size=1, dtype='u16'))",
            textwrap.dedent(ENDS[state]),
            "print('last line')",
        ]
    )
    environment = os.environ | {"PYTHONPATH": str(pathlib.Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-2000:]
    assert "last line" in done.stdout
