"""More rows of one chunk than a wave has descriptors for: they are placed a few at a time."""

import numpy as np
import pytest
from support.layout import Compressor
from support.streaming import store

import damacy

pytestmark = pytest.mark.timeout(120)

ROWS, EDGE = 40_000, 4  # so many that nearly all of the chunk is needed


def test_batches_of_tens_of_thousands_of_rows_of_one_chunk_are_right(device, tmp_path):
    rng = np.random.default_rng(5)  # the chunk has to fit a slab of 1 MiB: elements of few bits
    bits = rng.integers(0, 4, (64, 128, 128)).astype(np.uint16)
    store(tmp_path / "a", bits.shape, bits.shape, "uint16", bits=bits, compressor=Compressor("zstd", level=1))
    starts = np.stack([rng.integers(0, extent - EDGE, ROWS) for extent in bits.shape], axis=1).tolist()
    config = damacy.Config(
        batch_size=ROWS, device=device, n_io_threads=1, host_buffer_bytes=8 << 20, device_buffer_bytes=64 << 20
    )
    boxes = [[(at, at + EDGE) for at in start] for start in starts]
    with damacy.Pipeline(config) as pipeline:
        pipeline.push([damacy.Sample(tmp_path / "a", box) for box in boxes])
        with pipeline.pop() as batch:
            found = batch.numpy().copy()
        if device == "cuda":
            stats = pipeline.stats()
            assert (stats.chunks_decoded, stats.chunks_decoded_on_host) == (1, 0)
    wanted = np.stack([bits[tuple(slice(*axis) for axis in box)] for box in boxes]).astype(np.float32)
    assert np.array_equal(found, wanted)
