"""Reads an ERA5-like v2 store into torch through GPU buffers: one upload of compressed bytes per read, without CuPy.

    python examples/zarr_v2_into_torch.py

Without a GPU the same program runs in host memory; without torch it ends with a NumPy array."""

import importlib.util
import tempfile
from typing import Any

import numcodecs
import numpy as np
import zarr

import damacy.zarr


def write_sample(path: str) -> np.ndarray:
    """Hours by height by latitude by longitude, f4, blosc lz4 with shuffle, one file per chunk."""
    values = 250 + 30 * np.random.default_rng(1).random((8, 13, 90, 180), dtype="f4").round(2)
    z = zarr.create_array(
        path,
        shape=values.shape,
        chunks=(1, 13, 90, 180),
        dtype="f4",
        zarr_format=2,
        compressors=numcodecs.Blosc(cname="lz4", clevel=5, shuffle=numcodecs.Blosc.SHUFFLE),
    )
    z[:] = values
    return values


def main() -> None:
    path = tempfile.mkdtemp(suffix=".zarr")
    values = write_sample(path)
    with damacy.zarr.enable(gpu=True):
        z = zarr.open_array(path, mode="r")
        print(damacy.zarr.support(z))
        batch: Any = z[2:6]  # a damacy.DeviceArray
    print(repr(batch))
    if importlib.util.find_spec("torch"):
        import torch

        tensor = torch.from_dlpack(batch)  # the same memory
        print(f"torch: {tuple(tensor.shape)} on {tensor.device}, mean {tensor.mean().item():.3f}")
    assert np.array_equal(batch.numpy(), values[2:6])
    stats = damacy.zarr.stats()
    print(f"{stats['stored_bytes']} stored bytes; {stats['h2d_copies']} copies to the GPU, {stats['h2d_bytes']} bytes")


if __name__ == "__main__":
    main()
