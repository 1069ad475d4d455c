"""A hundred batches with decoding as the bottleneck: each is compared, in push order."""

import numpy as np
import pytest
from support.layout import Compressor
from support.streaming import pipeline, store

pytestmark = pytest.mark.timeout(300)

BATCHES = 100
# (arrays, extent, chunk, crop, samples per batch): a sample is a small part of the chunks that it touches
LOADS = {"cpu": (2, 64, 16, 12, 8), "cuda": (4, 192, 32, 24, 64)}
CODECS = {
    "zstd": Compressor("zstd", level=1),
    "blosc-lz4": Compressor("blosc", level=5, cname="lz4", shuffle=1),
    "blosc-zstd": Compressor("blosc", level=3, cname="zstd", shuffle=2),
    "gzip": Compressor("gzip", level=1),
}


@pytest.mark.parametrize("codec", CODECS)
def test_a_hundred_batches_come_in_push_order_with_their_own_contents(codec, device, device_decodes, tmp_path):
    n_arrays, extent, chunk, crop, batch_size = LOADS[device]
    rng = np.random.default_rng(7)
    arrays = [noisy(tmp_path / str(k), extent, chunk, CODECS[codec], rng) for k in range(n_arrays)]
    draws = [
        (int(rng.integers(n_arrays)), tuple((s, s + crop) for s in map(int, rng.integers(0, extent - crop, 3))))
        for _ in range(BATCHES * batch_size)
    ]
    device_decodes()
    kept, waited = [], 0
    options = {"host_buffer_bytes": 128 << 20, "device_buffer_bytes": 256 << 20, "n_io_threads": 4}
    with pipeline(device=device, dtype="u16", batch_size=batch_size, lookahead_batches=4, **options) as running:
        running.push(arrays[k].sample(*box) for k, box in draws)
        for number, batch in enumerate(running.batches(BATCHES)):
            with batch as b:
                assert (b.info.batch_id, b.valid) == (number, (True,) * batch_size)
                assert b.sample_indices == tuple(range(number * batch_size, (number + 1) * batch_size))
                kept.append(b.numpy() if device == "cuda" else b.numpy().copy())
        stats = running.stats()
        waited = stats.pop_wait_io.count + stats.pop_wait_compute.count
    assert waited > 0, "the consumer never waited: this load binds nothing"
    for number, batch in enumerate(kept):
        for row, (k, box) in zip(batch, draws[number * batch_size : (number + 1) * batch_size], strict=True):
            wanted = arrays[k].bits[tuple(slice(*axis) for axis in box)]
            assert np.array_equal(row.view(np.uint16), wanted), f"batch {number}: array {k}, box {box}"


def noisy(path, extent: int, chunk: int, compressor, rng):
    """Bytes that compress to about two thirds, as images do; no two boxes are alike."""
    bits = rng.poisson(40, (extent,) * 3).astype(np.uint16)
    return store(path, (extent,) * 3, (chunk,) * 3, "uint16", bits=bits, compressor=compressor)
