"""damacy.zarr on a GPU: reads into device arrays equal reads on the host, stored bytes go up once, nothing comes back,
and memory is shared with torch and CuPy. Needs zarr and numcodecs; skips loudly without."""

import numpy as np
import pytest

import damacy
import damacy.zarr
import damacy.zarr.buffer.gpu

zarr = pytest.importorskip("zarr", minversion="3.1", reason="zarr was not carried to the machine with the GPU")
numcodecs = pytest.importorskip("numcodecs")

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]

SHAPE = (64, 200, 300)


@pytest.fixture(autouse=True)
def needs_a_gpu():
    if not damacy._native.backend_info()["cuda"]:
        pytest.skip(damacy._native.backend_info()["cuda_reason"])


def content(dtype):
    rng = np.random.default_rng(0)
    return (np.arange(np.prod(SHAPE)).reshape(SHAPE) // 50 + rng.integers(0, 9, SHAPE)).astype(dtype)


def layouts():
    from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec

    lz4 = numcodecs.Blosc(cname="lz4", clevel=5, shuffle=numcodecs.Blosc.SHUFFLE)
    return {
        "zstd shards": {"chunks": (16, 50, 50), "shards": (32, 100, 150), "compressors": ZstdCodec(level=1)},
        "blosc zstd bits": {"chunks": (16, 50, 50), "compressors": BloscCodec(cname="zstd", shuffle="bitshuffle")},
        "zstd crc32c": {"chunks": (16, 50, 50), "compressors": [ZstdCodec(level=1), Crc32cCodec()]},
        "none": {"chunks": (16, 50, 50), "shards": (64, 200, 300), "compressors": None},
        "gzip": {"chunks": (16, 50, 50), "compressors": GzipCodec(level=1)},
        "v2 blosc lz4": {"chunks": (16, 50, 50), "zarr_format": 2, "compressors": lz4, "order": "F"},
    }


@pytest.mark.parametrize("dtype", ["<u2", ">f4", "?", "<c8"])
@pytest.mark.parametrize("name", ["zstd shards", "blosc zstd bits", "zstd crc32c", "none", "gzip", "v2 blosc lz4"])
def test_device_arrays_equal_reads_on_the_host(tmp_path, name, dtype):
    model = content(dtype)
    stock = zarr.create_array(tmp_path / "a", shape=SHAPE, dtype=dtype, fill_value=1, **layouts()[name])
    stock[:48] = model[:48]
    selections = (np.s_[:], np.s_[5:60:3, 7, ::2], np.s_[63, 199, 299], np.s_[40:50, 10:11])
    expectations = [stock[selection] for selection in selections]
    expected_rows = stock.oindex[[3, 1, 55], :, [2, 2, 250]]
    with damacy.zarr.enable(gpu=True, strict=True):
        ours = zarr.open_array(tmp_path / "a", mode="r")
        assert damacy.zarr.support(ours).backend == "cuda"
        for selection, expected in zip(selections, expectations, strict=True):
            found = ours[selection]
            if isinstance(found, damacy.DeviceArray):
                assert found.device.startswith("cuda:")
                found = found.numpy()
            assert np.asarray(found).tobytes() == np.asarray(expected).astype(found.dtype).tobytes(), selection
        rows = ours.oindex[[3, 1, 55], :, [2, 2, 250]]
        assert np.array_equal(rows.numpy(), expected_rows)


@pytest.mark.parametrize("name", ["zstd shards", "blosc zstd bits", "none", "v2 blosc lz4"])
def test_each_read_uploads_stored_bytes_once_and_downloads_nothing(tmp_path, name):
    z = zarr.create_array(tmp_path / "a", shape=SHAPE, dtype="<u2", **layouts()[name])
    z[:] = content("<u2")
    with damacy.zarr.enable(gpu=True, strict=True):
        ours = zarr.open_array(tmp_path / "a", mode="r")
        ours[:]
        damacy.zarr.reset_stats()
        ours[:]
    stats = damacy.zarr.stats()
    assert stats["reads"] == 1 and stats["d2h_bytes"] == 0
    print(name, "h2d over stored", stats["h2d_bytes"] / stats["stored_bytes"], "copies", stats["h2d_copies"])
    assert stats["h2d_bytes"] <= 1.05 * stats["stored_bytes"]
    assert stats["h2d_copies"] <= -(-stats["stored_bytes"] // (8 << 20)) + 2  # pieces of staging memory


def test_index_lists_larger_than_a_slab_are_read(tmp_path):
    rng = np.random.default_rng(2)
    model = rng.integers(0, 1000, (4000, 64)).astype("<u2")
    z = zarr.create_array(tmp_path / "a", shape=model.shape, dtype="<u2", chunks=model.shape)
    z[:] = model
    rows, columns = rng.integers(0, 4000, 3000), rng.permutation(64)
    with damacy.zarr.enable(gpu=True, strict=True):
        found = zarr.open_array(tmp_path / "a", mode="r").oindex[rows, columns]
    assert np.array_equal(found.numpy(), model[np.ix_(rows, columns)])


@pytest.mark.filterwarnings("ignore")  # zarr advises against codecs behind sharding
@pytest.mark.parametrize("behind", [[], ["zstd"]])
def test_shards_in_shards_are_read_to_the_device(tmp_path, behind):
    from zarr.codecs import BytesCodec, ShardingCodec, ZstdCodec

    inner = ShardingCodec(chunk_shape=(4, 6), codecs=[BytesCodec(), ZstdCodec(level=1)])
    outer = ShardingCodec(chunk_shape=(8, 12), codecs=[inner])
    model = np.arange(2400, dtype="<i4").reshape(40, 60)
    stock = zarr.create(
        store=tmp_path / "a", shape=(40, 60), chunks=(16, 24), dtype="<i4", zarr_format=3, fill_value=-3,
        codecs=[outer, *(ZstdCodec(level=1) for _ in behind)],
    )  # fmt: skip
    stock[:30] = model[:30]
    model[30:] = -3
    with damacy.zarr.enable(gpu=True, strict=True):
        ours = zarr.open_array(tmp_path / "a", mode="r")
        assert np.array_equal(ours[:].numpy(), model)
        assert np.array_equal(ours[5:33:3, 7:50].numpy(), model[5:33:3, 7:50])


def test_a_corrupt_chunk_is_an_error_here_too(tmp_path):
    z = zarr.create_array(tmp_path / "a", shape=SHAPE, dtype="<u2", chunks=(16, 50, 50))
    z[:] = content("<u2")
    path = tmp_path / "a" / "c" / "1" / "2" / "0"
    data = bytearray(path.read_bytes())
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    path.write_bytes(data)
    with damacy.zarr.enable(gpu=True):
        with pytest.raises(damacy.DecodeError) as caught:
            zarr.open_array(tmp_path / "a", mode="r")[:]
    assert caught.value.key == "c/1/2/0"


def test_device_arrays_follow_numpy():
    model = np.arange(60, dtype="<i4").reshape(3, 4, 5)
    ours = damacy.asarray(model)
    assert ours.device.startswith("cuda:") and ours._block.address % 256 == 0
    for key in (np.s_[1], np.s_[:, ::-2, 1:], np.s_[0, 0, 0], np.s_[..., None], np.s_[[2, 0]]):
        assert np.array_equal(ours[key].numpy(), model[key])
    ours[1, ::2] = ours[0, 1:3]
    ours[2] = 7
    model[1, ::2], model[2] = model[0, 1:3], 7
    assert np.array_equal(ours.numpy(), model)
    assert np.array_equal(ours.T.reshape(-1).numpy(), model.T.reshape(-1))
    assert np.array_equal(ours.astype(">f8").astype("<f8").numpy(), model)
    assert np.array_equal((ours == 7).numpy(), model == 7)
    ours[:] = ours[:, ::-1]
    assert np.array_equal(ours.numpy(), model[:, ::-1])


def test_torch_shares_memory_both_ways():
    torch = pytest.importorskip("torch")
    ours = damacy.asarray(np.arange(12, dtype="f4").reshape(3, 4))
    tensor = torch.from_dlpack(ours)
    assert tensor.data_ptr() == ours.__cuda_array_interface__["data"][0]
    tensor *= 2
    torch.cuda.synchronize()
    assert np.array_equal(ours.numpy(), 2 * np.arange(12, dtype="f4").reshape(3, 4))
    theirs = torch.arange(10, dtype=torch.uint8, device="cuda")
    buffer = damacy.zarr.buffer.gpu.Buffer(theirs)
    assert buffer.as_array_like().__cuda_array_interface__["data"][0] == theirs.data_ptr()
    assert buffer.to_bytes() == bytes(range(10))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        late = torch.zeros(1 << 20, device="cuda")
        torch.cuda._sleep(50_000_000)
        late += 1
        wrapped = damacy.asarray(late)
    assert wrapped.numpy().min() == 1


def test_cupy_shares_memory_both_ways():
    cupy = pytest.importorskip("cupy")
    ours = damacy.asarray(np.arange(6, dtype="i8"))
    assert cupy.asarray(ours).data.ptr == ours.__cuda_array_interface__["data"][0]
    theirs = cupy.arange(6).reshape(2, 3).T
    assert np.array_equal(damacy.asarray(theirs).numpy(), cupy.asnumpy(theirs))


def test_arrays_are_written_from_device_arrays(tmp_path):
    model = content("<u2")
    with damacy.zarr.enable(gpu=True):
        z = zarr.create_array(tmp_path / "a", shape=SHAPE, dtype="<u2", chunks=(16, 50, 50))
        z[:] = damacy.asarray(model)
        z[0:2] = 5
    model[0:2] = 5
    assert np.array_equal(zarr.open_array(tmp_path / "a")[:], model)
