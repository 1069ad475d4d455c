"""Waves with more frames than a decoder takes at once, and boxes with more axes than a placement has."""

import numpy as np
import pytest
from support.layout import Compressor
from support.streaming import store

import damacy

pytestmark = pytest.mark.timeout(120)


def read_whole(path, device, shape, **options) -> tuple[np.ndarray, damacy.Stats]:
    config = damacy.Config(batch_size=1, device=device, dtype="u16", **options)
    with damacy.Pipeline(config) as pipeline:
        pipeline.push([damacy.Sample(path, [(0, extent) for extent in shape])])
        pipeline.flush()
        with pipeline.pop() as batch:
            return batch.numpy()[0].copy(), pipeline.stats()


def test_a_batch_with_more_chunks_than_frames_of_a_wave_is_right(device, device_decodes, tmp_path):
    device_decodes()
    bits = (np.arange(80_000 * 8) // 3 % 65536).astype(np.uint16)
    store(tmp_path / "a", bits.shape, (8,), shards=(8 * 8000,), bits=bits, compressor=Compressor("zstd", level=1))
    found, stats = read_whole(
        tmp_path / "a", device, bits.shape, host_buffer_bytes=1 << 28, device_buffer_bytes=1 << 30
    )
    assert np.array_equal(found, bits)
    assert stats.chunks_decoded == 80_000
    if device == "cuda":
        assert stats.chunks_decoded_on_host == 0 and stats.waves_emitted >= 2


@pytest.mark.parametrize("compressor", [None, Compressor("zstd", level=1), Compressor("blosc", blocksize=4096)])
def test_boxes_with_axes_that_do_not_merge_are_right(device, device_decodes, tmp_path, compressor):
    device_decodes()
    shape = (2,) * 14
    order = tuple(reversed(range(14)))
    stored = store(tmp_path / "a", shape, shape, order=order, compressor=compressor)
    found, _ = read_whole(tmp_path / "a", device, shape, host_buffer_bytes=1 << 24, device_buffer_bytes=1 << 26)
    assert np.array_equal(found, stored.bits)
