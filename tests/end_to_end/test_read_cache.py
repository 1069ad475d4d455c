"""The cache of decoded chunks of `damacy.set_read_cache`: later calls of `Array.read` decode nothing, and see every
change. zarr-python writes everything and is the model; counters show what was decoded. Knows nothing of how chunks are
kept. `test_zarr_cache.py` has the same for reads of zarr-python."""

import os
import re
import sys
import threading
import time

import numpy as np
import pytest

import damacy
import damacy.zarr
from damacy import _native

zarr = pytest.importorskip("zarr", minversion="3.1")
pytestmark = [pytest.mark.timeout(120), pytest.mark.filterwarnings("ignore:.*was opened before")]

from support.fault_server import FaultServer  # noqa: E402
from zarr.codecs import BloscCodec, ZstdCodec  # noqa: E402

SHAPE, CHUNKS, SHARDS = (13, 20, 11), (4, 8, 6), (8, 16, 12)
MIB = 1 << 20
DATA = np.random.default_rng(1).integers(0, 60, SHAPE).astype("u2")
DATA[9:] = 7  # the last rows were never written
LAYOUTS = {
    "zstd": {"compressors": ZstdCodec(level=1, checksum=True)},
    "raw": {"compressors": None},
    "blosc": {"compressors": BloscCodec(cname="lz4", shuffle="shuffle", typesize=2)},
    "sharded": {"shards": SHARDS},
    "v2": {"zarr_format": 2, "order": "F", "dtype": ">u2"},
}


def write(path, **options):
    z = zarr.create_array(path, shape=SHAPE, fill_value=7, **{"dtype": "u2", "chunks": CHUNKS, **options})
    z[:9] = DATA[:9]
    age(path)
    return damacy.open_array(path)


def age(folder, then=None):
    """Sets the time of all files to some time ago: what was just written is not kept."""
    then = time.time() - 100 if then is None else then
    for path in folder.rglob("*"):
        os.utime(path, (then, then))


@pytest.fixture(autouse=True)
def off_at_the_end():
    yield
    damacy.set_read_cache(0)
    damacy.zarr.disable()


@pytest.fixture
def cached():
    damacy.set_read_cache("16MiB")


def decoded(read, expected):
    """How many chunks a read decodes that gives these elements."""
    _native.reset_read_counters()
    found = np.asarray(read())
    assert found.dtype == expected.dtype and np.array_equal(found, expected)
    return _native.read_counters()["chunks_decoded"]


def looked_up():
    counters = _native.read_counters()
    return counters["cache_hits"], counters["cache_misses"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_later_reads_decode_nothing(tmp_path, cached, layout):
    array = write(tmp_path / "a", **LAYOUTS[layout])
    assert decoded(array.read, DATA) > 0
    assert decoded(array.read, DATA) == 0
    rng = np.random.default_rng(5)
    for _ in range(100):
        a, b = sorted(int(i) for i in rng.integers(0, 14, 2))
        index = slice(a, b, int(rng.integers(1, 4))), int(rng.integers(20)), slice(-4, None)
        assert decoded(lambda index=index: array[index], DATA[index]) == 0
    rows = [8, 3, 8]
    assert decoded(lambda: array.read([damacy.Take(rows), (2, 9), range(0, 11, 5)]), DATA[rows, 2:9, ::5]) == 0
    hits, misses = looked_up()
    assert hits > 0 and misses == 0


def test_it_is_off_at_first(tmp_path):
    array = write(tmp_path / "a")
    first = decoded(array.read, DATA)
    assert decoded(array.read, DATA) == first > 0
    assert looked_up() == (0, 0)


def test_a_row_of_a_spec_is_read_without_it(tmp_path, cached):
    array = write(tmp_path / "a")
    _native.reset_read_counters()
    found = array.read([(0, 9), (0, 20), (0, 11)], spec=damacy.ArraySpec(dtype="u16"))
    assert np.array_equal(found, DATA[:9])
    assert looked_up() == (0, 0)


def test_changed_files_are_read_anew(tmp_path, cached):
    array = write(tmp_path / "a", compressors=None)
    model, expected = zarr.open_array(tmp_path / "a"), DATA.copy()
    assert decoded(array.read, expected) > 0
    for value in range(20):
        model[0, 0, 0] = expected[0, 0, 0] = value
        if value % 2:  # else the file was just written
            os.utime(tmp_path / "a/c/0/0/0", (time.time() - 100,) * 2)
        assert decoded(array.read, expected) == 1
        assert decoded(array.read, expected) == 1 - value % 2


def test_files_that_were_just_written_are_not_kept(tmp_path, cached):
    array = write(tmp_path / "a")
    age(tmp_path, time.time() + 1000)  # later than any read
    first = decoded(array.read, DATA)
    assert decoded(array.read, DATA) == first > 0


def test_missing_chunks_are_looked_for_each_time(tmp_path, cached):
    array = write(tmp_path / "a")
    assert decoded(array.read, DATA) > 0
    zarr.open_array(tmp_path / "a")[12] = 3
    changed = DATA.copy()
    changed[12] = 3
    assert decoded(array.read, changed) > 0


def test_the_same_bytes_of_another_document_are_decoded_anew(tmp_path, cached):
    array = write(tmp_path / "a", zarr_format=2, compressors=None)
    assert decoded(lambda: array[:9], DATA[:9]) > 0
    document = tmp_path / "a" / ".zarray"
    document.write_text(document.read_text().replace("<u2", ">i2"))  # of the same size
    swapped = damacy.open_array(tmp_path / "a")
    assert decoded(lambda: swapped[:9], DATA[:9].byteswap().view("i2")) > 0
    with pytest.raises(damacy.StorageError) as changed:
        array.read()
    assert changed.value.reason == "changed"


def test_of_a_large_chunk_a_part_is_read_with_all_that_is_kept(tmp_path, cached):
    data = np.arange(MIB, dtype="u2").reshape(1024, 1024)
    zarr.create_array(tmp_path / "a", data=data, chunks=data.shape, compressors=None)  # 2 MiB
    age(tmp_path)
    array = damacy.open_array(tmp_path / "a")
    for size, expected in [
        ("4MiB", [1, 1, 1]),
        ("32MiB", [1, 0, 0]),
    ]:  # the chunk is larger than an eighth of the first
        damacy.set_read_cache(size)
        assert [decoded(lambda r=r: array[r, :9], data[r, :9]) for r in (3, 900, 4)] == expected


def unversioned(request, answer):
    answer.headers.pop("ETag", None)


@pytest.mark.parametrize("options", [{}, {"allow_unversioned": True}, {"allow_unversioned": True, "immutable": True}])
def test_remote_objects_are_kept_if_they_have_a_version_or_never_change(tmp_path, cached, options):
    write(tmp_path / "a", shards=SHARDS)
    is_kept = not options or "immutable" in options
    with FaultServer(tmp_path) as server:
        if options:
            server.faults = unversioned
        prefix = f"{server.url}/"
        damacy.mount(prefix, damacy.StoreOptions(**options))
        try:
            array = damacy.open_array(f"{prefix}a")
            first = decoded(array.read, DATA)
            assert decoded(array.read, DATA) == (0 if is_kept else first)
            assert (_native.read_counters()["index_hits"] > 0) == is_kept
        finally:
            damacy.unmount(prefix)


@pytest.mark.parametrize("layout", ["raw", "sharded"])
@pytest.mark.parametrize("kind", ["MemoryStore", "FsspecStore"])
def test_chunks_of_mounted_stores_are_read_anew(cached, kind, layout):
    """Such a store may have no versions: a chunk that is written again may look like the one before."""
    if kind == "FsspecStore":
        pytest.importorskip("fsspec")
        store = zarr.storage.FsspecStore.from_url(f"memory://read-cache-{layout}", read_only=False)
    else:
        store = zarr.storage.MemoryStore()
    z = zarr.create_array(store, name="a", shape=SHAPE, dtype="u2", chunks=CHUNKS, overwrite=True, **LAYOUTS[layout])
    z[:] = DATA
    damacy.mount("mem://kept/", store)
    try:
        array = damacy.open_array("mem://kept/a")
        for values in (DATA, DATA + 1, DATA + 2):
            z[:] = values
            for _ in range(2):
                np.testing.assert_array_equal(array[:], values)
    finally:
        damacy.unmount("mem://kept/")


def test_a_replaced_remote_object_is_read_anew(tmp_path, cached):
    write(tmp_path / "a", compressors=None)
    with FaultServer(tmp_path) as server:
        prefix = f"{server.url}/"
        damacy.mount(prefix, damacy.StoreOptions(revalidate_s=0))
        try:
            array = damacy.open_array(f"{prefix}a")
            assert decoded(array.read, DATA) > 0
            changed = DATA.copy()
            zarr.open_array(tmp_path / "a")[0, 0, 0] = changed[0, 0, 0] = 99
            assert decoded(array.read, changed) == 1
            assert decoded(array.read, changed) == 0
        finally:
            damacy.unmount(prefix)


# Both doors.


def test_reads_of_zarr_python_use_the_same_cache(tmp_path, cached):
    write(tmp_path / "a")
    write(tmp_path / "b")
    damacy.zarr.enable(strict=True)
    stored = zarr.open_array(tmp_path / "a")
    assert decoded(lambda: stored[:], DATA) > 0
    assert decoded(lambda: stored[:], DATA) == 0
    damacy.zarr.disable()
    assert _native.read_cache_bytes() == 16 * MIB
    damacy.set_read_cache(0)
    assert _native.read_cache_bytes() == 0


def test_while_zarr_python_names_a_size_the_cache_has_that_size(tmp_path, cached):
    array = write(tmp_path / "a")
    assert decoded(array.read, DATA) > 0
    damacy.zarr.enable(strict=True, cache_bytes="8MiB")
    stored = zarr.open_array(tmp_path / "a")
    for _ in range(2):  # neither makes a cache of its own size
        decoded(array.read, DATA)
        decoded(lambda: stored[:], DATA)
        assert _native.read_cache_bytes() == 8 * MIB
    assert decoded(array.read, DATA) == 0
    damacy.zarr.enable(strict=True)
    decoded(lambda: stored[:], DATA)
    assert _native.read_cache_bytes() == 16 * MIB


# Sizes.


def test_bad_sizes_change_nothing(cached):
    for bad, error, text in [
        ("forty", ValueError, "cache_bytes must be an int of bytes"),
        (-1, ValueError, "cache_bytes must be >= 0"),
        (1.5, TypeError, "cache_bytes must be an int of bytes"),
        (None, TypeError, "cache_bytes must be an int of bytes"),
    ]:
        with pytest.raises(error, match=text):
            damacy.set_read_cache(bad)
        assert _native.read_cache_setting() == _native.read_cache_bytes() == 16 * MIB


def test_after_a_size_without_memory_the_next_read_makes_the_cache_anew(tmp_path, cached):
    array = write(tmp_path / "a")
    assert decoded(array.read, DATA) > 0
    with pytest.raises(damacy.OutOfMemory, match="no memory"):
        damacy.set_read_cache(1 << 62)
    assert (_native.read_cache_setting(), _native.read_cache_bytes()) == (16 * MIB, 0)
    assert decoded(array.read, DATA) > 0
    assert decoded(array.read, DATA) == 0


def address_space():
    with open("/proc/self/status") as status:
        return int(re.search(r"VmSize:\s*(\d+)", status.read())[1]) << 10


def test_zero_frees_it(tmp_path, cached):
    array = write(tmp_path / "a")
    damacy.set_read_cache("1GiB")
    decoded(array.read, DATA)
    before = address_space()
    damacy.set_read_cache(0)
    assert before - address_space() > 900 * MIB


def test_sizes_may_change_while_threads_read(tmp_path, cached):
    array = write(tmp_path / "a", shards=SHARDS)
    wrong, stop = [], threading.Event()

    def read(seed):
        rng = np.random.default_rng(seed)
        while not stop.is_set():
            a, b = sorted(int(i) for i in rng.integers(0, 21, 2))
            if not np.array_equal(array[:, a:b], DATA[:, a:b]):
                wrong.append((a, b))

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for size in ["1MiB", 0, "2MiB", 3 * MIB] * 20:
        damacy.set_read_cache(size)
        np.testing.assert_array_equal(array.read(), DATA)
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_forked_child_has_the_setting_and_a_cache_of_its_own(tmp_path, cached):
    array = write(tmp_path / "a")
    assert decoded(array.read, DATA) > 0
    child = os.fork()
    if child == 0:
        status = 1
        try:
            first = decoded(array.read, DATA)
            status = 0 if first > 0 and decoded(array.read, DATA) == 0 else 2
        finally:
            sys.stderr.flush()
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert decoded(array.read, DATA) == 0
