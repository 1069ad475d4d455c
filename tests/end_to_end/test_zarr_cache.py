"""The cache of decoded chunks of `damacy.zarr.enable(cache_bytes=)`: later reads decode nothing, and see every change.
Stock zarr writes everything and is the model; counters show what was decoded. Knows nothing of how chunks are kept."""

import itertools
import os
import re
import shutil
import threading
import time

import numcodecs
import numpy as np
import pytest

import damacy
import damacy.zarr

zarr = pytest.importorskip("zarr", minversion="3.1")
pytestmark = [pytest.mark.timeout(120), pytest.mark.filterwarnings("ignore:.*was opened before")]

from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, ShardingCodec, ZstdCodec  # noqa: E402
from zarr.storage import MemoryStore  # noqa: E402

SHAPE, CHUNKS, SHARDS = (13, 20, 11), (4, 8, 6), (8, 16, 12)
MIB = 1 << 20
LAYOUTS = {
    "zstd": {"compressors": ZstdCodec(level=1, checksum=True)},
    "raw": {"compressors": None},
    "blosc": {"compressors": BloscCodec(cname="lz4", shuffle="shuffle", typesize=2)},
    "sharded": {"shards": SHARDS},
    "big-endian": {"dtype": ">f4"},
    "v2 blosc": {"zarr_format": 2, "order": "F", "compressors": numcodecs.Blosc("zstd")},
    "v2 big-endian": {"zarr_format": 2, "dtype": ">i4"},
}


STOCK = {"codec_pipeline.path": zarr.config.defaults[0]["codec_pipeline"]["path"]}


def values(shape=SHAPE, seed=1):
    return np.random.default_rng(seed).integers(0, 60, shape)


def write(path, data=None, **options):
    """A stock array whose last rows were never written."""
    data = values() if data is None else data
    options = {"dtype": "<u2", "chunks": CHUNKS, **options}
    with zarr.config.set(STOCK):
        z = zarr.create_array(path, shape=data.shape, fill_value=7, **options)
        z[: data.shape[0] * 3 // 4] = data[: data.shape[0] * 3 // 4].astype(options["dtype"])
        return zarr.open_array(path)


def age(folder, then=None):
    """Sets the time of all files to some time ago: what was just written is not kept."""
    then = time.time() - 100 if then is None else then
    for path in folder.rglob("*"):
        os.utime(path, (then, then))


@pytest.fixture
def cached():
    """Opens arrays for reads by a cache."""
    damacy.zarr.enable(strict=True, cache_bytes="16MiB")
    yield lambda store, **more: zarr.open_array(store, mode="r+", **more)
    damacy.zarr.disable()


def decoded(read):
    """How many chunks a read decodes."""
    damacy.zarr.reset_stats()
    read()
    return damacy.zarr.stats()["chunks_decoded"]


def same(ours, stock):
    ours, stock = np.asarray(ours), np.asarray(stock)
    assert ours.dtype == stock.dtype and ours.shape == stock.shape
    assert ours.tobytes() == stock.tobytes()


def a_selection(rng, shape=SHAPE):
    def along(size):
        a, b = sorted(int(i) for i in rng.integers(0, size + 1, 2))
        return int(rng.integers(size)) if rng.random() < 0.2 else slice(a, b, int(rng.integers(1, 4)))

    return tuple(along(size) for size in shape)


def check_later_reads(ours, stock):
    """Reads all of `ours` twice, and then 200 selections of it."""
    assert decoded(lambda: same(ours[:], stock[:])) > 0
    assert decoded(lambda: same(ours[:], stock[:])) == 0
    stats = damacy.zarr.stats()
    assert stats["cache_hits"] > 0 and stats["cache_misses"] == 0
    rng = np.random.default_rng(5)
    damacy.zarr.reset_stats()
    for number in range(200):
        if number % 4 == 0:
            rows = rng.integers(0, SHAPE[0], 3)
            same(ours.oindex[rows, 3:, [2, 9, 2]], stock.oindex[rows, 3:, [2, 9, 2]])
        else:
            selection = a_selection(rng)
            same(ours[selection], stock[selection])
    stats = damacy.zarr.stats()
    assert stats["chunks_decoded"] == 0 and stats["cache_hits"] > 200


@pytest.mark.parametrize("layout", LAYOUTS)
def test_later_reads_decode_nothing_and_are_those_of_stock_zarr(tmp_path, cached, layout):
    stock = write(tmp_path / "a", **LAYOUTS[layout])
    age(tmp_path)
    check_later_reads(cached(tmp_path / "a"), stock)


@pytest.mark.filterwarnings("ignore:.*[Cc]odec")
@pytest.mark.parametrize("is_nested", [False, True], ids=["encoded shards", "shards in shards"])
def test_chunks_of_shards_that_are_decoded_as_a_whole_are_kept(tmp_path, cached, is_nested):
    inner = ShardingCodec(chunk_shape=CHUNKS, codecs=[BytesCodec(), ZstdCodec(level=1)])
    outer = ShardingCodec(chunk_shape=SHARDS, codecs=[inner, GzipCodec()])
    codecs = [outer] if is_nested else [inner, GzipCodec()]
    with zarr.config.set(STOCK):
        z = zarr.create(SHAPE, store=tmp_path / "a", chunks=(16, 32, 24), dtype="<u2", zarr_format=3, codecs=codecs)
    z[:] = values()
    age(tmp_path)
    ours = cached(tmp_path / "a")
    assert decoded(lambda: same(ours[:], z[:])) > 0
    damacy.zarr.reset_stats()
    same(ours[2:9, 5], z[2:9, 5])
    assert damacy.zarr.stats()["cache_misses"] == 0 and damacy.zarr.stats()["chunks_decoded"] == 0


def test_every_write_is_seen_and_new_chunks_are_kept(tmp_path, cached):
    zarr.create_array(tmp_path / "a", shape=SHAPE, chunks=CHUNKS, dtype="<u2", compressors=None)
    ours = cached(tmp_path / "a")
    for value in range(1, 40):
        ours[:] = value
        if value % 2:  # else its files were just written
            age(tmp_path)
        assert (ours[:] == value).all()
        if value % 2:
            assert decoded(lambda value=value: same(ours[:], np.full(SHAPE, value, "<u2"))) == 0
    ours[0, 0, 0] = 0
    assert ours[0, 0, 0] == 0 and ours[0, 0, 1] == 39


def test_files_that_were_just_written_are_not_kept(tmp_path, cached):
    stock = write(tmp_path / "a")
    age(tmp_path, time.time() + 1000)  # later than any read
    ours = cached(tmp_path / "a")
    first = decoded(lambda: same(ours[:], stock[:]))
    assert decoded(lambda: same(ours[:], stock[:])) == first > 0


def test_arrays_of_the_same_path_in_other_stores_are_others(tmp_path, cached):
    all_values = [values(seed=seed) for seed in range(3)]
    for number, data in enumerate(all_values[:2]):
        write(tmp_path / str(number) / "x", data, compressors=None)
    age(tmp_path, 1_700_000_000)
    rows = SHAPE[0] * 3 // 4
    for _, number in itertools.product(range(2), range(2)):
        store = zarr.storage.LocalStore(tmp_path / str(number))
        same(cached(store, path="x")[:rows], all_values[number][:rows].astype("<u2"))
    shutil.rmtree(tmp_path / "0")
    write(tmp_path / "0" / "x", all_values[2], compressors=None)
    same(cached(tmp_path / "0" / "x")[:rows], all_values[2][:rows].astype("<u2"))


def test_the_same_bytes_of_another_document_are_decoded_anew(tmp_path, cached):
    stock = write(tmp_path / "a", compressors=None)
    age(tmp_path)
    little = stock[:9]
    same(cached(tmp_path / "a")[:9], little)
    document = tmp_path / "a" / "zarr.json"
    document.write_text(re.sub('"data_type": "uint16"', '"data_type": "int16"', document.read_text()))
    same(cached(tmp_path / "a")[:9], little.astype("<i2"))
    document.write_text(document.read_text().replace('"endian": "little"', '"endian": "big"'))
    assert np.array_equal(cached(tmp_path / "a")[:9], little.byteswap().view("<i2"))


def test_of_a_large_chunk_a_part_is_read_with_all_that_is_kept(tmp_path, cached):
    data = np.arange(MIB, dtype="<u2").reshape(1024, 1024)
    zarr.create_array(tmp_path / "a", data=data, chunks=data.shape, compressors=None)  # 2 MiB
    age(tmp_path)
    ours = cached(tmp_path / "a")
    with damacy.zarr.enable(strict=True, cache_bytes="4MiB"):  # a chunk is larger than an eighth of it
        assert [decoded(lambda r=r: same(ours[r, :9], data[r, :9])) for r in (3, 900)] == [1, 1]
    with damacy.zarr.enable(strict=True, cache_bytes="32MiB"):
        assert [decoded(lambda r=r: same(ours[r, :9], data[r, :9])) for r in (3, 900, 4)] == [1, 0, 0]


def test_missing_chunks_are_looked_for_each_time(tmp_path, cached):
    stock = write(tmp_path / "a")
    age(tmp_path)
    ours = cached(tmp_path / "a")
    same(ours[:], stock[:])
    stock[12] = 3
    same(ours[:], stock[:])
    assert (ours[12] == 3).all()


def test_a_smaller_cache_than_the_array_gives_the_same_elements(tmp_path, cached):
    data = values((64, 64, 64)).astype("<u2")
    zarr.create_array(tmp_path / "a", data=data, chunks=(8, 16, 16))
    age(tmp_path)
    ours = cached(tmp_path / "a")
    rng = np.random.default_rng(3)
    with damacy.zarr.enable(cache_bytes=100_000):
        damacy.zarr.reset_stats()
        for _ in range(60):
            selection = a_selection(rng, data.shape)
            same(ours[selection], data[selection])
        stats = damacy.zarr.stats()
    assert stats["cache_hits"] > 0 and stats["chunks_decoded"] > 128


def test_other_stores_are_read_as_without(cached):
    store = MemoryStore()
    zarr.create_array(store, data=values(), chunks=CHUNKS)
    ours = cached(store)
    first = decoded(lambda: same(ours[:], values()))
    assert decoded(lambda: same(ours[:], values())) == first > 0
    assert damacy.zarr.stats()["cache_misses"] == 0


def test_sizes_may_change_while_threads_read(tmp_path, cached):
    stock = write(tmp_path / "a", shards=SHARDS)
    age(tmp_path)
    ours, everything = cached(tmp_path / "a"), stock[:]
    wrong, stop = [], threading.Event()

    def read(seed):
        rng = np.random.default_rng(seed)
        while not stop.is_set():
            selection = a_selection(rng)
            if not np.array_equal(ours[selection], everything[selection]):
                wrong.append(selection)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for size in ["1MiB", None, "2MiB", 3 * MIB, 0] * 20:
        damacy.zarr.enable(strict=True, cache_bytes=size)
        same(ours[:], everything)
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def address_space():
    with open("/proc/self/status") as status:
        return int(re.search(r"VmSize:\s*(\d+)", status.read())[1]) << 10


@pytest.mark.parametrize("end", [damacy.zarr.disable, damacy.zarr.enable], ids=["disable", "enable"])
def test_disable_or_a_read_without_a_cache_frees_it(tmp_path, cached, end):
    stock = write(tmp_path / "a")
    age(tmp_path)
    ours = cached(tmp_path / "a")
    same(ours[:], stock[:])
    damacy.zarr.enable(strict=True, cache_bytes="1GiB")
    same(ours[:], stock[:])
    before = address_space()
    end()
    if end is damacy.zarr.enable:
        same(ours[:], stock[:])
    assert before - address_space() > 900 * MIB


def test_zarrs_configuration_has_the_size(tmp_path, cached):
    stock = write(tmp_path / "a")
    age(tmp_path)
    ours = cached(tmp_path / "a")
    with zarr.config.set({"damacy.cache_bytes": "8 MiB"}):
        assert decoded(lambda: same(ours[:], stock[:])) > 0
        assert decoded(lambda: same(ours[:], stock[:])) == 0
    with zarr.config.set({"damacy.cache_bytes": None}):
        assert decoded(lambda: same(ours[:], stock[:])) > 0
        assert damacy.zarr.stats()["cache_misses"] == 0
    with (
        zarr.config.set({"damacy.cache_bytes": "forty"}),
        pytest.raises(ValueError, match=r"damacy\.cache_bytes.*forty"),
    ):
        ours[:]


def test_bad_sizes_change_nothing(cached):
    was = zarr.config.get("damacy.cache_bytes")
    for bad, error, text in [
        ("forty", ValueError, "cache_bytes must be an int of bytes"),
        (-1, ValueError, "cache_bytes must be >= 0"),
        (1.5, TypeError, "cache_bytes must be an int of bytes"),
        (1 << 62, damacy.OutOfMemory, "no memory"),
    ]:
        with pytest.raises(error, match=text):
            damacy.zarr.enable(cache_bytes=bad)
        assert zarr.config.get("damacy.cache_bytes") == was


def test_after_a_size_without_memory_the_next_read_makes_the_cache_anew(tmp_path, cached):
    stock = write(tmp_path / "a")
    age(tmp_path)
    z = cached(tmp_path / "a")
    assert decoded(lambda: same(z[:], stock[:])) > 0
    with pytest.raises(damacy.OutOfMemory):
        damacy.zarr.enable(cache_bytes=1 << 62)
    assert decoded(lambda: same(z[:], stock[:])) > 0
    assert decoded(lambda: same(z[:], stock[:])) == 0


def test_a_forked_child_has_a_cache_of_its_own(tmp_path, cached):
    stock = write(tmp_path / "a")
    age(tmp_path)
    everything = stock[:]
    same(cached(tmp_path / "a")[:], everything)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            ours = zarr.open_array(tmp_path / "a")
            first = decoded(lambda: same(ours[:], everything))
            status = 0 if first > 0 and decoded(lambda: same(ours[:], everything)) == 0 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
