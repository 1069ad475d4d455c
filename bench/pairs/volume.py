"""An image of two channels and its label, which the benchmarks of pairs read, and what they want of it."""

from __future__ import annotations

import functools
import pathlib
from typing import Any

import numpy as np

import damacy

SHAPE, CHUNKS, CROP = (64, 512, 512), (16, 64, 64), (16, 96, 96)
BATCH, BATCHES, CHANNELS = 8, 24, 2
DTYPES = {"image": "f4", "label": "i8"}
BATCH_BYTES = BATCH * int(np.prod(CROP)) * (CHANNELS * 4 + 8)


def write(folder: pathlib.Path) -> dict[str, str]:
    import zarr

    rng = np.random.default_rng(0)
    image = rng.normal(500, 12, (CHANNELS, *SHAPE)).astype("u2")
    label = (rng.random(SHAPE) < 0.1).astype("u1")
    for name, data, chunks in (("image", image, (1, *CHUNKS)), ("label", label, CHUNKS)):
        zarr.create_array(folder / name, data=data, chunks=chunks)  # zstd by default
    return {name: str(folder / name) for name in ("image", "label")}


@functools.cache
def opened(uri: str) -> Any:
    """By zarr-python, once in a worker process."""
    import zarr

    return zarr.open_array(uri, mode="r")


def checked(image: np.ndarray, label: np.ndarray) -> float:
    """A few elements of every row, so that checking costs nothing."""
    return float(image[:, :, ::7, ::31, ::31].sum(dtype="f8") + label[:, ::7, ::31, ::31].sum())


def config(threads: int, **fields: object) -> damacy.Config:
    size = {"host_buffer_bytes": 64 << 20, "device_buffer_bytes": 64 << 20}
    return damacy.Config(batch_size=BATCH, device="cpu", n_io_threads=threads, **size, **fields)
