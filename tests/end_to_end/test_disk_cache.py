"""Remote arrays through a disk tier: bytes equal those of the local array, epochs after the first ask little or nothing
of the server, and whatever is done to the files of the tier is a miss."""

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer  # noqa: E402

SHAPE = (32, 80, 80)
DATA = np.random.default_rng(0).integers(0, 60000, SHAPE, dtype="u2")  # a chunk has more bytes than a head
LEAST = 256 << 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    zarr.create_array(folder / "plain.zarr", data=DATA, chunks=(16, 80, 80))
    zarr.create_array(folder / "sharded.zarr", data=DATA, chunks=(8, 40, 40), shards=(16, 80, 80))
    zarr.create_array(folder / "v2.zarr", data=DATA, chunks=(16, 80, 80), zarr_format=2)
    zarr.create_array(folder / "raw.zarr", data=DATA, chunks=(16, 80, 80), compressors=None)
    return folder


@pytest.fixture
def server(folder):
    with FaultServer(folder) as server:
        yield server


@pytest.fixture
def immutable(server):
    damacy.mount(server.url, damacy.StoreOptions(immutable=True))
    yield server
    damacy.unmount(server.url)


def config(directory, **fields):
    memory = {"host_buffer_bytes": 64 << 20, "device_buffer_bytes": 64 << 20}
    disk = {"disk_cache": directory, "disk_cache_bytes": LEAST}
    return damacy.Config(**{"batch_size": 2, "device": "cpu", "dtype": "u16", **memory, **disk, **fields})


def crops(uri, count=4):
    return [damacy.Sample(uri, [(i, i + 16), (2 * i, 2 * i + 40), (3, 60)]) for i in range(count)]


def read_epoch(uri, directory, **fields):
    """An epoch in a pipeline of its own: all rows equal the array. The statistics at its end."""
    seen = 0
    with damacy.Pipeline(config(directory, **fields)) as pipeline:
        pipeline.push(crops(uri))
        for batch in pipeline:
            with batch as b:
                for row, sample in zip(b.numpy(), b.samples, strict=True):
                    np.testing.assert_array_equal(row, DATA[tuple(slice(*axis) for axis in sample.aabb)])
                    seen += 1
        stats = pipeline.stats()
    assert seen == 4
    return stats


@pytest.mark.parametrize("name", ["plain", "sharded", "v2", "raw"])
def test_the_second_epoch_of_an_immutable_store_asks_nothing(immutable, tmp_path, name):
    uri = f"{immutable.url}/{name}.zarr"
    first = read_epoch(uri, tmp_path)
    assert first.disk_misses > 0
    before = len(immutable.requests)
    second = read_epoch(uri, tmp_path)
    new = [request.path for request in immutable.requests[before:]]
    if name == "v2":  # nothing is kept of documents that are not there
        new = [path for path in new if not path.endswith("zarr.json")]
    assert new == []
    assert second.disk_hits > 0 and second.disk_misses == 0
