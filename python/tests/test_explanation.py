"""`Pipeline.explain()` counts what a cache would hold, with the cache and without."""

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_what_a_cache_would_hold_is_measured_also_without_one(tmp_path, cache_bytes):
    path = tmp_path / "a.zarr"
    array = zarr.create_array(path, shape=(8, 8), chunks=(4, 4), dtype="i4", compressors=None, fill_value=0)
    array[:4] = np.arange(1, 33).reshape(4, 8)  # two chunks; the other two are missing
    config = damacy.Config(
        batch_size=1, device="cpu", n_io_threads=1, host_buffer_bytes=1 << 20, device_buffer_bytes=1 << 20,
        cache_bytes=cache_bytes,
    )  # fmt: skip
    with damacy.Pipeline(config) as pipeline:
        assert pipeline.explain().wanted_again == 0
        pipeline.push([damacy.Sample(path, [(0, 8), (0, 8)])] * 4)
        for batch in pipeline.batches(4):
            batch.release()
        found = pipeline.explain()
        assert (found.encoded_bytes, found.decoded_bytes) == (2 * 64, 2 * 64)
        assert found.wanted_again == 0.75
        pipeline.stats_reset()
        pipeline.push([damacy.Sample(path, [(0, 8), (0, 8)])])
        pipeline.pop().release()
        assert (pipeline.explain().wanted_again, pipeline.explain().encoded_bytes) == (0, 2 * 64)
    assert pipeline.explain().encoded_bytes == 2 * 64  # also after close
