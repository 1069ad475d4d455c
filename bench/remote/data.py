"""Arrays for the remote benchmarks, and the boxes that are read. Values as of a microscope: smooth, with noise in the
low bits, so that compression keeps about half. Needs zarr. Knows no reader and no server."""

from __future__ import annotations

import pathlib

import numpy as np

SHAPE = (512, 512, 1024)
LAYOUTS = {
    "plain": {"chunks": (64, 64, 64)},
    "sharded": {"chunks": (32, 32, 32), "shards": (256, 256, 256)},
}
CODECS = ("zstd", "blosc", "none")


def values() -> np.ndarray:
    rng = np.random.default_rng(0)
    data = (np.add.outer(np.add.outer(np.arange(SHAPE[0]), np.arange(SHAPE[1])), np.arange(SHAPE[2])) * 8).astype("u2")
    data += rng.integers(0, 64, SHAPE, dtype="u2")
    return data


def write(folder: pathlib.Path, data: np.ndarray, layout: str, codec: str) -> str:
    """The array's name in the folder."""
    import zarr

    compressors = {"zstd": zarr.codecs.ZstdCodec(level=1), "blosc": zarr.codecs.BloscCodec(cname="lz4", clevel=5)}
    name = f"{layout}-{codec}.zarr"
    zarr.create_array(folder / name, data=data, compressors=compressors.get(codec), **LAYOUTS[layout])
    return name


def corners(count: int, crop: int, seed: int = 1) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    return [tuple(int(c) for c in rng.integers(0, np.array(SHAPE) - crop)) for _ in range(count)]


def box(corner: tuple[int, ...], crop: int) -> tuple[slice, ...]:
    return tuple(slice(c, c + crop) for c in corner)
