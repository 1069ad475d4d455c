"""Arrays behind nginx: bytes equal those of local arrays, through connections that it closes and requests that it
refuses."""

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support import nginx  # noqa: E402

DATA = np.random.default_rng(0).integers(0, 60000, (64, 80, 80), dtype="u2")


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    zarr.create_array(folder / "plain.zarr", data=DATA, chunks=(1, 80, 80))
    zarr.create_array(folder / "sharded.zarr", data=DATA, chunks=(8, 40, 40), shards=(16, 80, 80))
    zarr.create_array(folder / "v2.zarr", data=DATA, chunks=(16, 80, 80), zarr_format=2)
    sparse = zarr.create_array(folder / "sparse.zarr", shape=DATA.shape, chunks=(16, 80, 80), dtype="u2", fill_value=7)
    sparse[:16] = DATA[:16]
    with nginx.serving(folder, tmp_path_factory.mktemp("nginx")) as url:
        yield url


def stats_of_reading(uri, expected):
    memory = {"host_buffer_bytes": 64 << 20, "device_buffer_bytes": 64 << 20}
    boxes = [[(i, i + 16), (2 * i, 2 * i + 30), (3, 60)] for i in range(0, 24, 2)]
    with damacy.Pipeline(damacy.Config(batch_size=4, device="cpu", dtype="u16", **memory)) as pipeline:
        pipeline.push([damacy.Sample(uri, box) for box in boxes])
        rows = [row.copy() for batch in pipeline for row in batch.numpy()]
        stats = pipeline.stats()
    for row, box in zip(rows, boxes, strict=True):
        np.testing.assert_array_equal(row, expected[tuple(slice(*axis) for axis in box)])
    return stats


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["plain", "sharded", "v2"])
def test_arrays_equal_the_local_ones(url, name):
    stats = stats_of_reading(f"{url}/{name}.zarr", DATA)
    assert stats.requests > 0 and stats.requests_throttled == 0


@pytest.mark.timeout(120)
def test_absent_chunks_are_fill_and_absent_arrays_are_not_found(url):
    expected = np.full_like(DATA, 7)
    expected[:16] = DATA[:16]
    stats_of_reading(f"{url}/sparse.zarr", expected)
    with pytest.raises(damacy.NotFound):
        damacy.open_array(f"{url}/nothing.zarr")


@pytest.mark.timeout(120)
def test_requests_that_are_refused_are_repeated(url):
    stats = stats_of_reading(f"{url}/limited/plain.zarr", DATA)
    assert stats.requests_throttled > 0 and stats.requests_repeated > 0


@pytest.mark.timeout(120)
def test_what_is_known_is_asked_for_with_its_version(url):
    uri = f"{url}/plain.zarr"
    damacy.mount(f"{uri}/", damacy.StoreOptions(revalidate_s=0))
    stats_of_reading(uri, DATA)
    assert stats_of_reading(uri, DATA).documents_revalidated > 0
