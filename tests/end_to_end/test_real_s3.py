"""Arrays in servers of S3 that others wrote: bytes equal those of local arrays, and errors are those of our server."""

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support.real_s3 import Rclone, SeaweedFS  # noqa: E402

DATA = np.random.default_rng(0).integers(0, 60000, (32, 80, 80), dtype="u2")
ODD = "odd (name)/a b+c=d&é%2F.zarr"
LONG = "/".join(["k" * 200] * 5) + "/" + "k" * 19  # 1,024 bytes


@pytest.fixture(scope="module", params=[Rclone, SeaweedFS], ids=["rclone", "SeaweedFS"])
def server(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    arrays = tmp_path_factory.mktemp("arrays")
    zarr.create_array(arrays / "plain.zarr", data=DATA, chunks=(16, 80, 80))
    zarr.create_array(arrays / "sharded.zarr", data=DATA, chunks=(8, 40, 40), shards=(16, 80, 80))
    zarr.create_array(arrays / "v2.zarr", data=DATA, chunks=(16, 80, 80), zarr_format=2)
    sparse = zarr.create_array(arrays / "sparse.zarr", shape=DATA.shape, chunks=(16, 80, 80), dtype="u2", fill_value=7)
    sparse[:16] = DATA[:16]
    (arrays / ODD).parent.mkdir()
    zarr.create_array(arrays / ODD, data=DATA, chunks=(16, 80, 80))
    made = request.param(folder)
    try:
        made.put_folder(arrays)
        damacy.mount("s3://data/", made.options(revalidate_s=0))
        yield made
        damacy.unmount("s3://data/")
    finally:
        made.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["plain.zarr", "sharded.zarr", "v2.zarr", ODD])
def test_arrays_equal_the_local_ones(server, name):
    memory = {"host_buffer_bytes": 64 << 20, "device_buffer_bytes": 64 << 20}
    with damacy.Pipeline(damacy.Config(batch_size=4, device="cpu", dtype="u16", **memory)) as pipeline:
        boxes = [[(i, i + 16), (2 * i, 2 * i + 40), (3, 60)] for i in range(4)]
        pipeline.push([damacy.Sample(f"s3://data/{name}", box) for box in boxes])
        with pipeline.pop() as batch:
            for row, box in zip(batch.numpy(), boxes, strict=True):
                np.testing.assert_array_equal(row, DATA[tuple(slice(*axis) for axis in box)])
        stats = pipeline.stats()
    assert stats.requests > 0 and stats.requests_throttled == 0


@pytest.mark.timeout(120)
def test_absent_chunks_are_fill_and_absent_arrays_are_not_found(server):
    expected = DATA.copy()
    expected[16:] = 7
    memory = {"host_buffer_bytes": 64 << 20, "device_buffer_bytes": 64 << 20}
    with damacy.Pipeline(damacy.Config(batch_size=1, device="cpu", dtype="u16", **memory)) as pipeline:
        pipeline.push([damacy.Sample("s3://data/sparse.zarr", [(0, 32), (0, 80), (0, 80)])])
        with pipeline.pop() as batch:
            np.testing.assert_array_equal(batch.numpy()[0], expected)
    with pytest.raises(damacy.NotFound):
        damacy.open_array("s3://data/nothing.zarr")


@pytest.mark.timeout(120)
def test_a_wrong_secret_is_denied(server):
    options = server.options(secret_access_key="wrong-secret-of-this-test")
    with pytest.raises(damacy.StorageError) as caught:
        damacy.RemoteFile.open_url("s3://data/plain.zarr/zarr.json", options)
    assert caught.value.reason == "denied" and caught.value.http_status == 403
    assert "wrong-secret" not in str(caught.value)


@pytest.mark.timeout(120)
def test_a_public_bucket_is_read_unsigned(server):
    if not server.public:
        pytest.skip("rclone has no public buckets")
    options = server.options(anonymous=True, access_key_id=None, secret_access_key=None)
    with damacy.RemoteFile.open_url(f"s3://{server.public}/plain.zarr/zarr.json", options) as f:
        assert f.nbytes() > 0
    with pytest.raises(damacy.StorageError) as caught:
        damacy.RemoteFile.open_url("s3://data/plain.zarr/zarr.json", options)
    assert caught.value.reason == "denied" and "the key may be absent" in str(caught.value)


@pytest.mark.timeout(120)
def test_an_object_that_is_replaced_while_it_is_read_is_noticed(server):
    """rclone ignores If-Match, so only the tag of its answers says it."""
    first = np.random.default_rng(1).integers(0, 256, 300_000, dtype="u1").tobytes()
    server.put("object.bin", first)
    with damacy.RemoteFile.open_url("s3://data/object.bin", server.options()) as f:
        out = bytearray(300_000)
        assert f.read(out) == 300_000 and bytes(out) == first
        server.put("object.bin", first[::-1])
        with pytest.raises(damacy.StorageError) as caught:
            f.read(out)
    assert caught.value.reason == "changed"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("key", [LONG, "a%2Fb", "a b+c=(d)", "ä/日本"], ids=["1,024 bytes", "%2F", "signs", "UTF-8"])
def test_keys_are_taken_literally(server, key):
    assert len(LONG) == 1024
    server.put(key, b"0123456789")
    with damacy.RemoteFile.open_url(f"s3://data/{key}", server.options()) as f:
        out = bytearray(10)
        assert f.read(out) == 10 and out == b"0123456789"


@pytest.mark.timeout(120)
def test_ranges_of_a_file_are_right(server):
    content = np.random.default_rng(2).integers(0, 256, 3_000_001, dtype="u1")
    server.put("large.bin", content.tobytes())
    with damacy.RemoteFile.open_url("s3://data/large.bin", server.options()) as f:
        assert f.nbytes() == content.size
        for begin, size in ((0, content.size), (1, 10), (2_999_990, 100), (100_000, 1_500_000)):
            out = np.zeros(size, "u1")
            assert f.read(out, file_offset=begin, task_size=1 << 18) == min(size, content.size - begin)
            np.testing.assert_array_equal(out[: content.size - begin], content[begin : begin + size])
