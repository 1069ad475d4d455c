"""Tests an installed damacy on this system: writes arrays with several codecs by zarr-python, reads crops by a pipeline
and whole arrays through `damacy.zarr`, and compares all bytes. Runs on the host, in seconds.

usage: python try_wheel.py      in an environment with damacy[zarr]
"""

from __future__ import annotations

import pathlib
import platform
import sys
import tempfile

import numpy as np
import zarr
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

import damacy
import damacy.zarr

CODECS = {
    "none": None,
    "zstd": ZstdCodec(level=3, checksum=True),
    "gzip": GzipCodec(level=5),
    **{f"blosc {name}": BloscCodec(cname=name, shuffle="shuffle") for name in ("zstd", "lz4", "zlib", "blosclz")},
}
SHAPE, CHUNK, CROP = (48, 64, 64), (16, 32, 32), (20, 30, 40)


def main() -> None:
    generator = np.random.default_rng(7)
    values = (np.arange(np.prod(SHAPE)).reshape(SHAPE) // 5 + generator.integers(0, 9, SHAPE)).astype("uint16")
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / f"{number}.zarr" for number in range(len(CODECS))]
        for path, codec in zip(paths, CODECS.values(), strict=True):
            zarr.create_array(path, data=values, chunks=CHUNK, compressors=codec)
        rows = crops(paths, values, generator)
        damacy.zarr.enable()
        for path in paths:
            assert np.array_equal(zarr.open_array(path, mode="r")[:], values), path
    libc = " ".join(platform.libc_ver())
    where = f"damacy {damacy.__version__} on {libc}, Python {platform.python_version()}"
    print(f"{where}: {rows} crops and {len(paths)} whole arrays are equal ({', '.join(CODECS)})")


def crops(paths: list[pathlib.Path], values: np.ndarray, generator: np.random.Generator) -> int:
    """Reads a few crops of each array, in batches of one crop per array; returns how many were compared."""
    samples = []
    for _ in range(4):
        for path in paths:
            start = [int(generator.integers(0, size - crop + 1)) for size, crop in zip(SHAPE, CROP, strict=True)]
            samples.append(damacy.Sample(path, [(at, at + crop) for at, crop in zip(start, CROP, strict=True)]))
    config = damacy.Config(
        batch_size=len(paths), dtype="u16", device="cpu", host_buffer_bytes=1 << 26, device_buffer_bytes=1 << 26
    )
    with damacy.Pipeline(config) as pipeline:
        pipeline.push(samples)
        pipeline.flush()
        for batch in pipeline.batches(4):
            with batch:
                for row, sample in zip(batch.numpy(), batch.samples, strict=True):
                    assert np.array_equal(row, values[tuple(slice(*box) for box in sample.aabb)]), sample
    return len(samples)


if __name__ == "__main__":
    sys.exit(main())
