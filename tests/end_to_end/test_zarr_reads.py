"""damacy.zarr's codec pipeline reads what zarr-python's own reads: formats, codecs, selections, stores, statuses. Stock
zarr writes everything and is the model. Knows nothing of how chunks are decoded."""

import asyncio
import itertools
import pickle
import threading
import warnings
from typing import ClassVar

import hypothesis.strategies as st
import numcodecs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import damacy.zarr

zarr = pytest.importorskip("zarr", minversion="3.1")
pytestmark = pytest.mark.timeout(120)

from zarr.abc.store import Store  # noqa: E402
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec  # noqa: E402
from zarr.core.array_spec import ArrayConfig, ArraySpec  # noqa: E402
from zarr.core.buffer import BufferPrototype  # noqa: E402
from zarr.storage import LocalStore, MemoryStore, StorePath, WrapperStore, ZipStore  # noqa: E402

from damacy.zarr.buffer import gpu  # noqa: E402

SHAPE = (13, 20, 11)
CHUNKS = (4, 8, 6)
SHARDS = (8, 16, 12)
DTYPES = ["?", "u1", "i1", "<u2", ">i2", "<i4", ">u4", "<i8", ">u8", "<f2", ">f4", "<f8", "<c8", ">c16"]


def content(dtype, shape=SHAPE, seed=1):
    """Values similar to their neighbours, in the array's own type."""
    rng = np.random.default_rng(seed)
    return (rng.integers(0, 9, shape) * rng.integers(0, 7, shape)).astype(dtype)


def write(store, dtype="<u2", zarr_format=3, shape=SHAPE, chunks=CHUNKS, **options):
    """A stock array of which the last rows were never written."""
    z = zarr.create_array(store, shape=shape, dtype=dtype, chunks=chunks, zarr_format=zarr_format, **options)
    z[: shape[0] * 3 // 4] = content(dtype, shape)[: shape[0] * 3 // 4]
    return zarr.open_array(store)


def opened(store, strict=True):
    with damacy.zarr.enable(strict=strict):
        return zarr.open_array(store, mode="r+")


def chunk_spec(z, shape, fill_value):
    prototype = zarr.core.buffer.default_buffer_prototype()
    return ArraySpec(shape, z.metadata.data_type, fill_value, z.async_array.config, prototype)


def same(ours, stock):
    ours, stock = np.asarray(ours), np.asarray(stock)
    assert ours.dtype == stock.dtype and ours.shape == stock.shape
    assert ours.tobytes() == stock.tobytes()


SELECTIONS = [
    np.s_[:],
    np.s_[3:12, ::3, 5],
    np.s_[::7, 1:60:11, ::2],
    np.s_[5, 6, 7],
    np.s_[..., 3],
    np.s_[4:4],
    np.s_[12:, 19:, 10:],
    (),
]


def check_all_selections(ours, stock):
    for selection in SELECTIONS:
        same(ours[selection], stock[selection])
    rows, columns = [3, 1, 12, 3], [0, 19, 8]
    for selection in [
        (rows, slice(None), [2, 2, 10]),
        (rows, slice(5, 9), 3),
        (slice(None), columns, slice(0, 11, 4)),
        (2, columns, slice(None)),
        (np.arange(13) % 3 == 0, slice(None), np.arange(11) > 7),
        (rows, columns, [1]),
    ]:
        same(ours.oindex[selection], stock.oindex[selection])
    same(ours.blocks[1:3, 0], stock.blocks[1:3, 0])
    same(ours.vindex[rows, [0, 1, 2, 3], [4, 4, 5, 6]], stock.vindex[rows, [0, 1, 2, 3], [4, 4, 5, 6]])
    mask = content("u2") > 20
    same(ours[mask], stock[mask])


COMPRESSORS_V3 = {
    "none": None,
    "zstd": ZstdCodec(level=1),
    "zstd checked": ZstdCodec(level=3, checksum=True),
    "blosc lz4": BloscCodec(cname="lz4", clevel=5, shuffle="shuffle"),
    "blosc zstd bits": BloscCodec(cname="zstd", clevel=3, shuffle="bitshuffle"),
    "gzip": GzipCodec(level=1),
    "zstd and crc32c": [ZstdCodec(level=1), Crc32cCodec()],
}


@pytest.mark.parametrize("shards", [None, SHARDS], ids=["plain", "sharded"])
@pytest.mark.parametrize("compressors", COMPRESSORS_V3, ids=str)
def test_v3_arrays_read_as_stock_reads_them(tmp_path, compressors, shards):
    stock = write(tmp_path / "a", shards=shards, compressors=COMPRESSORS_V3[compressors], fill_value=7)
    check_all_selections(opened(tmp_path / "a", strict=False), stock)
    same(opened(tmp_path / "a")[:], stock[:])


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("separator", "./")
def test_v2_arrays_read_as_stock_reads_them(tmp_path, order, separator):
    from zarr.core.chunk_key_encodings import V2ChunkKeyEncoding

    stock = write(
        tmp_path / "a", ">f4", 2, order=order, fill_value=0.5, chunk_key_encoding=V2ChunkKeyEncoding(separator)
    )
    check_all_selections(opened(tmp_path / "a", strict=False), stock)
    same(opened(tmp_path / "a")[:], stock[:])


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_element_type_keeps_its_bits(tmp_path, dtype, zarr_format):
    stock = write(tmp_path / "a", dtype, zarr_format)
    same(opened(tmp_path / "a")[:], stock[:])


@pytest.mark.parametrize("dtype", ["<M8[ns]", "<m8[10us]"])
def test_dates_are_elements(tmp_path, dtype):
    z = zarr.create_array(tmp_path / "a", shape=(5,), chunks=(2,), dtype=dtype, zarr_format=2)
    z[:3] = np.arange(3).astype(dtype)
    same(opened(tmp_path / "a")[:], z[:])


def test_transposes_and_big_endian_shards(tmp_path):
    from zarr.codecs import BytesCodec

    stock = write(
        tmp_path / "a", filters=[TransposeCodec(order=(2, 0, 1))], serializer=BytesCodec(endian="big"), fill_value=3
    )
    check_all_selections(opened(tmp_path / "a", strict=False), stock)


def test_a_nan_fill_keeps_its_payload(tmp_path):
    z = zarr.create_array(tmp_path / "a", shape=(4,), chunks=(2,), dtype="f4", fill_value=0.0)
    odd = np.uint32(0x7FC12345).view("f4")
    from damacy.zarr._native_array import fill_bytes

    assert fill_bytes(chunk_spec(z, (2,), odd)) == odd.tobytes()


def test_zero_dimensions_and_no_elements(tmp_path):
    scalar = zarr.create_array(tmp_path / "a", shape=(), dtype="f8")
    scalar[...] = 2.5
    assert opened(tmp_path / "a")[()] == 2.5
    zarr.create_array(tmp_path / "b", shape=(0, 3), chunks=(1, 1), dtype="f8")
    assert opened(tmp_path / "b")[:].shape == (0, 3)


class Getting(WrapperStore):
    """A store that gets all bytes by `get`, also where zarr's wrapper would forward many ranges."""

    if hasattr(Store, "get_ranges"):
        get_ranges = Store.get_ranges


class Counting(Getting):
    """Counts requests, and lets other tasks run in each."""

    def __init__(self, store):
        super().__init__(store)
        self.requests = []

    async def get(self, key, prototype, byte_range=None):
        self.requests.append((key, byte_range))
        await asyncio.sleep(0)
        return await self._store.get(key, prototype, byte_range)


@pytest.mark.parametrize("shards", [None, SHARDS], ids=["plain", "sharded"])
def test_each_object_is_requested_once_from_other_stores(shards):
    store = Counting(MemoryStore())
    stock = write(store, shards=shards, fill_value=9)
    ours, expected = opened(store), stock[2:7, 3:9]
    store.requests.clear()
    same(ours[2:7, 3:9], expected)
    assert len(store.requests) == len({str(request) for request in store.requests})
    check_all_selections(opened(store, strict=False), stock)


@pytest.fixture
def lazy_device(monkeypatch):
    """Reads as into a GPU, but to a lazy host device."""

    async def way(target):
        return damacy._native.lazy_device_reads(1 << 16), None

    monkeypatch.setattr("damacy.zarr._target.Target.way_to_device", way)


@pytest.mark.parametrize("shards", [None, SHARDS], ids=["plain", "sharded"])
@pytest.mark.parametrize("compressors", COMPRESSORS_V3, ids=str)
def test_reads_through_a_device_give_the_same(tmp_path, lazy_device, compressors, shards):
    options = {"shards": shards, "compressors": COMPRESSORS_V3[compressors], "fill_value": 7}
    for dtype in ("<u2", ">f8", "?"):
        stock = write(tmp_path / dtype, dtype, **(options | ({"fill_value": 1} if dtype == "?" else {})))
        ours = opened(tmp_path / dtype, strict=False)
        damacy.zarr.reset_stats()
        check_all_selections(ours, stock)
        stats = damacy.zarr.stats()
        assert stats["h2d_copies"] >= 6 and stats["d2h_bytes"] == 0


def test_v2_through_a_device(tmp_path, lazy_device):
    stock = write(tmp_path / "a", ">f4", 2, order="F")
    check_all_selections(opened(tmp_path / "a", strict=False), stock)


def test_a_corrupt_chunk_is_an_error_through_a_device_too(tmp_path, lazy_device):
    write(tmp_path / "a", shards=SHARDS)
    path = tmp_path / "a" / "c" / "0" / "0" / "0"
    data = bytearray(path.read_bytes())
    data[4:40] = bytes(36)
    path.write_bytes(data)
    with pytest.raises(damacy.DecodeError) as caught:
        opened(tmp_path / "a")[:]
    assert caught.value.key == "c/0/0/0"


def test_zip_stores(tmp_path):
    with ZipStore(tmp_path / "a.zip", mode="w") as store:
        stock = write(store, shards=SHARDS)
        check_all_selections(opened(store, strict=False), stock)


def test_one_chunk_named_by_several_items_is_decoded_once(tmp_path):
    write(tmp_path / "a", chunks=(4, 8, 6))
    ours = opened(tmp_path / "a")
    damacy.zarr.reset_stats()
    ours.oindex[[0, 1, 2, 3, 2, 1], 0:2, 0:2]
    assert damacy.zarr.stats()["chunks_decoded"] == 1


def test_only_needed_inner_chunks_are_decoded(tmp_path):
    write(tmp_path / "a", shards=SHARDS)
    ours = opened(tmp_path / "a")
    damacy.zarr.reset_stats()
    ours[0:4, 0:8, 0:6]
    stats = damacy.zarr.stats()
    assert (stats["reads"], stats["items"], stats["chunks_decoded"]) == (1, 1, 1)


def test_out_of_any_layout_is_written_in_place(tmp_path):
    from zarr.core.buffer.cpu import NDBuffer

    stock = write(tmp_path / "a", "<i4")
    ours = opened(tmp_path / "a")
    for out in [
        np.zeros(SHAPE, "<i4", order="F"),
        np.zeros((26, 20, 22), "<i4")[::2, ::-1, ::2],
        np.zeros(SHAPE, ">i4"),
        np.zeros(SHAPE, "f8"),
    ]:
        ours.get_basic_selection(np.s_[:], out=NDBuffer(out))
        assert np.array_equal(out, stock[:])


class Noting(gpu.NDBuffer):
    """Records the threads that copy its elements."""

    threads: ClassVar[list[str]] = []

    def __setitem__(self, key, value):
        self.threads.append(threading.current_thread().name)
        super().__setitem__(key, value)

    def as_numpy_array(self):
        self.threads.append(threading.current_thread().name)
        return super().as_numpy_array()


def test_copies_outside_of_native_reads_run_off_the_loop(tmp_path):
    stock = write(tmp_path / "a")[:]
    cast = Noting.create(shape=SHAPE, dtype="f8")
    opened(tmp_path / "a").get_basic_selection(Ellipsis, out=cast)
    same(cast.as_numpy_array(), stock.astype("f8"))
    write(tmp_path / "b", zarr_format=2, compressors=numcodecs.Base64())
    with damacy.zarr.enable(gpu=True, device="cpu"):
        fallback = zarr.open_array(tmp_path / "b", mode="r+")
        prototype = BufferPrototype(buffer=gpu.Buffer, nd_buffer=Noting)
        same(fallback.get_basic_selection(Ellipsis, prototype=prototype).numpy(), stock)
        fallback.set_basic_selection(Ellipsis, stock + 1, prototype=prototype)
    same(zarr.open_array(tmp_path / "b")[:], stock + 1)
    loop = zarr.core.sync._get_loop()
    name = asyncio.run_coroutine_threadsafe(name_of_thread(), loop).result()
    assert len(Noting.threads) >= 4 and name not in Noting.threads


async def name_of_thread():
    return threading.current_thread().name


def test_formats_that_are_not_native_fall_back_and_strict_refuses_them(tmp_path):
    z = zarr.create_array(tmp_path / "s", shape=(3,), dtype="U5")
    z[:] = np.array(["a", "bc", "def"])
    ours = opened(tmp_path / "s", strict=False)
    damacy.zarr.reset_stats()
    same(ours[:], z[:])
    assert damacy.zarr.stats()["fallback_reads"] == 1
    assert not damacy.zarr.support(ours).native and damacy.zarr.support(ours).reason
    with pytest.raises(damacy.UnsupportedFormat):
        opened(tmp_path / "s")


@pytest.mark.parametrize(
    "layout",
    [
        {"zarr_format": 2, "compressors": numcodecs.Blosc("blosclz", shuffle=numcodecs.Blosc.SHUFFLE)},
        {"compressors": BloscCodec(cname="blosclz", typesize=2)},
        {"compressors": BloscCodec(cname="blosclz", typesize=2), "shards": SHARDS},
    ],
    ids=["v2", "v3", "sharded"],
)
def test_blosc_of_blosclz_is_read_natively(tmp_path, layout):
    stock = write(tmp_path, **layout)
    same(opened(tmp_path)[:], stock[:])


def test_a_write_is_seen_by_the_next_read(tmp_path):
    write(tmp_path / "a", shards=SHARDS)
    ours = opened(tmp_path / "a")
    for value in range(200):
        ours[3:5, 2:9] = value
        assert (ours[3:5, 2:9] == value).all()


def test_resize_and_append_between_reads(tmp_path):
    z = write(tmp_path / "a")
    ours = opened(tmp_path / "a")
    ours.resize((20, 20, 11))
    same(ours[:], zarr.open_array(tmp_path / "a")[:])
    ours.append(content("<u2"))
    same(ours[:], zarr.open_array(tmp_path / "a")[:])
    ours.resize((7, 9, 5))
    same(ours[:], zarr.open_array(tmp_path / "a")[:])
    assert z.shape == SHAPE


def test_statuses_say_which_store_objects_are_missing(tmp_path):
    z = write(tmp_path / "a", shards=SHARDS, shape=(16, 16, 12))
    ours = opened(tmp_path / "a").async_array
    (tmp_path / "a" / "c" / "1" / "0" / "0").unlink()
    prototype = zarr.core.buffer.default_buffer_prototype()
    out = prototype.nd_buffer.create(shape=(16, 16, 12), dtype="u2")
    items = [
        (
            StorePath(LocalStore(tmp_path / "a"), z.metadata.encode_chunk_key((i, 0, 0))),  # equal stores are one
            chunk_spec(z, (8, 16, 12), 0),
            (slice(0, 8), slice(0, 16), slice(0, 12)),
            (slice(8 * i, 8 * i + 8), slice(0, 16), slice(0, 12)),
            True,
        )
        for i in range(2)
    ]
    read = zarr.core.sync.sync(ours.codec_pipeline.read(items, out))
    assert read == ({"status": "present"}, {"status": "missing"})
    assert zarr.core.sync.sync(ours.codec_pipeline.read([], out)) == ()


def test_a_corrupt_chunk_is_an_error_that_names_it(tmp_path):
    write(tmp_path / "a")
    path = tmp_path / "a" / "c" / "1" / "1" / "0"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(damacy.DecodeError) as caught:
        opened(tmp_path / "a")[:]
    assert caught.value.key == "c/1/1/0" and caught.value.chunk == (1, 1, 0)
    assert str(tmp_path / "a") in caught.value.store


def test_a_directory_in_the_place_of_a_chunk_is_a_storage_error(tmp_path):
    write(tmp_path / "a")
    path = tmp_path / "a" / "c" / "0" / "0" / "0"
    path.unlink()
    path.mkdir()
    with pytest.raises(damacy.StorageError):
        opened(tmp_path / "a")[:]


def test_a_shard_cut_short_is_an_error_from_every_store(tmp_path):
    store = MemoryStore()
    write(store, shards=SHARDS)
    key = "c/0/0/0"
    store._store_dict[key] = type(store._store_dict[key]).from_bytes(store._store_dict[key].to_bytes()[:-9])
    with pytest.raises(damacy.DecodeError):
        opened(store)[:]


class Ranged(WrapperStore):
    """A store with get_ranges, which returns the last ranges first, or raises `failure`."""

    def __init__(self, store):
        super().__init__(store)
        self.asked, self.failure = [], None

    async def get(self, key, prototype, byte_range=None):
        assert byte_range is None or hasattr(byte_range, "suffix"), "only indices are requested by themselves"
        return await self._store.get(key, prototype, byte_range)

    async def get_ranges(self, key, byte_ranges, *, prototype, **limits):
        self.asked.append((key, limits))
        if self.failure is not None:
            raise ExceptionGroup("ranges", [self.failure])
        for index, byte_range in reversed(list(enumerate(byte_ranges))):
            yield [(index, await self._store.get(key, prototype, byte_range))]


def test_all_chunks_of_a_shard_are_requested_at_once_from_a_store_with_get_ranges():
    store = Ranged(MemoryStore())
    stock = write(store._store, shards=SHARDS, compressors=None)
    gap = "array.sharding_coalesce_max_gap_bytes"
    with zarr.config.set({gap: 0, "async.concurrency": 4}):
        ours = opened(store)
        same(ours[0:13:12, :, ::10], stock[0:13:12, :, ::10])
    limits = {"max_concurrency": 1, "max_gap_bytes": 0, "max_coalesced_bytes": 16 << 20}
    assert sorted(store.asked, key=str) == [(f"c/{i}/{j}/0", limits) for i in range(2) for j in range(2)]
    store.failure = PermissionError("no")
    with pytest.raises(ExceptionGroup) as caught:
        ours[:]
    assert caught.value.exceptions == (store.failure,)
    store.failure = FileNotFoundError("deleted behind the index")
    with pytest.raises(damacy.StorageError):
        ours[:]


@pytest.mark.skipif(not hasattr(ArrayConfig, "sharding_coalesce_max_gap_bytes"), reason="zarr 3.3 and later")
def test_the_arrays_own_settings_decide_how_ranges_are_merged():
    store = Ranged(MemoryStore())
    stock = write(store._store, shards=SHARDS, compressors=None)
    own = {"sharding_coalesce_max_gap_bytes": 7, "sharding_coalesce_max_bytes": 4096}
    with damacy.zarr.enable(strict=True):
        ours = zarr.open_array(store, mode="r", config=own)
    same(ours[0:13:12, :, ::10], stock[0:13:12, :, ::10])
    asked = [limits for _, limits in store.asked]
    assert {(limits["max_gap_bytes"], limits["max_coalesced_bytes"]) for limits in asked} == {(7, 4096)}
    store.asked.clear()
    with damacy.zarr.enable(strict=True):
        zarr.open_array(store, mode="r")[:]
    assert {limits["max_gap_bytes"] for _, limits in store.asked} == {1 << 20}


def test_zarrs_warnings_about_codecs_come_when_the_array_is_opened(tmp_path):
    codecs = [zarr.codecs.ShardingCodec(chunk_shape=(4, 4)), zarr.codecs.GzipCodec()]
    with pytest.warns(UserWarning, match="Combining a `sharding_indexed` codec"):
        zarr.create(store=tmp_path / "a", shape=(8, 8), chunks=(8, 8), dtype="u2", zarr_format=3, codecs=codecs)
    with pytest.warns(UserWarning, match="Combining a `sharding_indexed` codec") as warned:
        ours = opened(tmp_path / "a", strict=False)
    assert len([each for each in warned if "Combining a `sharding_indexed` codec" in str(each.message)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours[:] = 3
        assert (ours[2:5] == 3).all()
        pickle.loads(pickle.dumps(ours))


class Careless(Getting):
    """A store that returns `answer` of each range, or, with `of_index`, of the index (a suffix request)."""

    def __init__(self, store):
        super().__init__(store)
        self.answer, self.of_index = lambda found, whole: found, False

    async def get(self, key, prototype, byte_range=None):
        found = await self._store.get(key, prototype, byte_range)
        if found is None or byte_range is None or hasattr(byte_range, "suffix") != self.of_index:
            return found
        whole = await self._store.get(key, prototype)
        return prototype.buffer.from_bytes(self.answer(found.to_bytes(), whole.to_bytes()))


ANSWERS = {
    "the whole object": lambda found, whole: whole,
    "a byte more": lambda found, whole: found + b"x",
    "a byte less": lambda found, whole: found[:-1],
    "nothing": lambda found, whole: b"",
}


@pytest.mark.parametrize("of_index", [False, True], ids=["chunks", "index"])
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_store_that_returns_another_range_is_an_error_that_names_it(answer, of_index):
    store = Careless(MemoryStore())
    write(store, shards=SHARDS, compressors=None)
    ours = opened(store)
    store.answer, store.of_index = answer, of_index
    with pytest.raises(damacy.StorageError) as caught:
        ours[5:7, 9:12, 7:9]  # no chunk of it is a shard's first
    assert caught.value.key == "c/0/0/0" and caught.value.store
    assert caught.value.reason in ("short-read", "io")


def test_an_invalid_index_from_another_store_is_an_error_that_names_it():
    store = Careless(MemoryStore())
    write(store, shards=SHARDS, compressors=None)
    ours = opened(store)
    store.answer, store.of_index = (lambda found, whole: bytes(len(found))), True
    with pytest.raises(damacy.DecodeError) as caught:
        ours[:]
    assert caught.value.key == "c/0/0/0" and caught.value.store and caught.value.reason == "shard-index"


def test_pipelines_compare_and_pickle(tmp_path):
    write(tmp_path / "a")
    write(tmp_path / "b", "f4")
    a, again, b = (opened(tmp_path / name).async_array.codec_pipeline for name in "aab")
    assert a == again and hash(a) == hash(again) and a != b
    copied = pickle.loads(pickle.dumps(a))
    assert copied == a and copied.reason is None


def test_sixteen_threads_read_one_array(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    stock = write(tmp_path / "a", shards=SHARDS)
    ours, expected = opened(tmp_path / "a"), stock[:]
    with ThreadPoolExecutor(16) as pool:
        for got in pool.map(lambda _: ours[:], range(64)):
            assert np.array_equal(got, expected)


def test_a_cancelled_read_ends(tmp_path):
    write(tmp_path / "a")
    ours = opened(tmp_path / "a").async_array

    async def main():
        for _ in range(20):
            task = asyncio.ensure_future(ours.getitem(np.s_[:]))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return await ours.getitem(np.s_[:])

    assert asyncio.run(main()).shape == SHAPE


def an_axis(extent):
    return st.one_of(
        st.integers(-extent, extent - 1),
        st.builds(slice, *[st.none() | st.integers(-extent - 2, extent + 2)] * 2, st.none() | st.integers(1, 5)),
    )


def an_orthogonal_axis(extent):
    return st.one_of(
        st.integers(0, extent - 1),
        st.builds(slice, *[st.none() | st.integers(0, extent)] * 2, st.none() | st.integers(1, 5)),
        st.lists(st.integers(0, extent - 1), min_size=1, max_size=9).map(np.array),
        st.lists(st.booleans(), min_size=extent, max_size=extent).map(lambda m: np.array(m, bool)),
    )


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    root = tmp_path_factory.mktemp("arrays")
    made = []
    for number, (zarr_format, shards, dtype) in enumerate(
        itertools.chain(
            itertools.product([3], [None, SHARDS], ["<u2", ">f4", "?"]), itertools.product([2], [None], ["<u2", ">f8"])
        )
    ):
        stock = write(root / str(number), dtype, zarr_format, shards=shards)
        made.append((opened(root / str(number)), stock))
    return made


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_selections_read_as_stock_reads_them(arrays, data):
    ours, stock = data.draw(st.sampled_from(arrays))
    basic = data.draw(st.tuples(*map(an_axis, SHAPE)))
    same(ours[basic], stock[basic])
    orthogonal = data.draw(st.tuples(*map(an_orthogonal_axis, SHAPE)))
    same(ours.oindex[orthogonal], stock.oindex[orthogonal])
    count = data.draw(st.integers(1, 40))
    points = tuple(
        np.array(data.draw(st.lists(st.integers(0, extent - 1), min_size=count, max_size=count))) for extent in SHAPE
    )
    same(ours.vindex[points], stock.vindex[points])
    mask = np.zeros(SHAPE, bool)
    mask[points] = True
    mask[data.draw(st.tuples(*map(an_axis, SHAPE)))] = True
    same(ours[mask], stock[mask])


@pytest.mark.parametrize("shards", [None, SHARDS], ids=["plain", "sharded"])
def test_points_of_missing_chunks_are_fill_and_each_item_has_its_status(tmp_path, shards):
    z = write(tmp_path / "a", shards=shards, fill_value=8)
    for path in (tmp_path / "a" / "c" / "1").rglob("0"):
        path.unlink() if path.is_file() else None
    points = (np.arange(13), np.arange(13), np.arange(13) % 11)
    with zarr.config.set({"array.read_missing_chunks": True}):
        ours = opened(tmp_path / "a")
        damacy.zarr.reset_stats()
        same(ours.vindex[points], z.vindex[points])
        assert damacy.zarr.stats()["fallback_reads"] == 0
    store = Counting(MemoryStore())
    copied = write(store, shards=shards)
    same(opened(store).vindex[points], copied.vindex[points])


def test_local_stores_of_other_classes_are_read_through_their_interface(tmp_path):
    class Mine(LocalStore):
        async def get(self, key, *args, **kwargs):
            got.append(key)
            return await super().get(key, *args, **kwargs)

    got = []
    stock = write(tmp_path / "a")
    ours = opened(Mine(tmp_path / "a"))
    got.clear()
    same(ours[:4, :8, :6], stock[:4, :8, :6])
    assert got == ["c/0/0/0"]


def nested(folder, codecs, **options):
    """Shards of (8, 12) chunks in shards of (16, 24), with `codecs` behind the inner one and behind the outer one."""
    from zarr.codecs import BytesCodec, ShardingCodec

    chunk_codecs, inner_codecs, outer_codecs = codecs
    inner = ShardingCodec(chunk_shape=(4, 6), codecs=[BytesCodec(), *chunk_codecs], index_location="start")
    outer = ShardingCodec(chunk_shape=(8, 12), codecs=[inner, *inner_codecs])
    return zarr.create(
        store=folder, shape=(40, 60), chunks=(16, 24), dtype="<i4", zarr_format=3, fill_value=-3,
        codecs=[outer, *outer_codecs], **options,
    )  # fmt: skip


NESTED = {
    "shards in shards": ([ZstdCodec(level=1)], [], []),
    "uncompressed": ([], [], []),
    "a codec behind the inner shard": ([], [ZstdCodec(level=1)], []),
    "a codec behind the outer shard": ([ZstdCodec(level=1)], [], [GzipCodec(level=1)]),
    "codecs behind both": ([], [Crc32cCodec()], [ZstdCodec(level=1), Crc32cCodec()]),
}


@pytest.mark.filterwarnings("ignore")  # zarr advises against codecs behind sharding
@pytest.mark.parametrize("where", ["files", "memory", "device"])
@pytest.mark.parametrize("codecs", NESTED, ids=str)
def test_shards_in_shards_and_codecs_after_them_are_native(tmp_path, request, codecs, where):
    if where == "device":
        request.getfixturevalue("lazy_device")
    store = MemoryStore() if where == "memory" else tmp_path / "a"
    stock = nested(store, NESTED[codecs])
    model = np.arange(2400, dtype="<i4").reshape(40, 60)
    stock[:30] = model[:30]  # the rest is missing, and inner chunks of the shards above it are
    ours = opened(store)
    damacy.zarr.reset_stats()
    for selection in (np.s_[:], np.s_[5:33:3, 7:50], np.s_[39, 59], np.s_[:, 11]):
        same(ours[selection], stock[selection])
    same(ours.oindex[[3, 1, 38], [2, 2, 25]], stock.oindex[[3, 1, 38], [2, 2, 25]])
    assert damacy.zarr.stats()["fallback_reads"] == 0
