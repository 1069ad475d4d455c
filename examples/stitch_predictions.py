"""Whole-image inference: a filter runs on overlapping windows, and its results are stitched into an OME-Zarr image.

    python examples/stitch_predictions.py

Writes a synthetic image, predicts it window by window, and compares the result with the filter of the whole image. The
filter is a mean over 3 x 3 x 3 voxels: with torch a convolution, otherwise NumPy. Takes seconds on two cores."""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import damacy
from damacy.samplers import SlidingGrid
from damacy.stitch import Writer
from damacy.synthetic import write_image
from damacy.training import Loader

SHAPE = (48, 256, 256)
WINDOW = {"z": 16, "y": 96, "x": 96}
OVERLAP = (4, 16, 16)

Array = np.ndarray[Any, Any]


def with_numpy(x: Array) -> Array:
    """The mean over 3 voxels on each of the last three axes; border voxels are repeated."""
    for axis in (-3, -2, -1):
        widths = [(0, 0)] * x.ndim
        widths[axis] = (1, 1)
        padded = np.moveaxis(np.pad(x, widths, mode="edge"), axis, 0)
        x = np.moveaxis((padded[:-2] + padded[1:-1] + padded[2:]) / np.float32(3), 0, axis)
    return x


def with_torch(x: Array) -> Any:
    import torch
    from torch.nn import functional

    padded = functional.pad(torch.from_numpy(x.copy())[:, None], (1,) * 6, mode="replicate")
    return functional.avg_pool3d(padded, kernel_size=3, stride=1)[:, 0]


def model() -> Callable[[Array], Any]:
    return with_torch if importlib.util.find_spec("torch") else with_numpy


def predict(image: pathlib.Path, out: pathlib.Path, blend: str) -> int:
    """Stitches the filtered windows of an image; the number of windows."""
    grid = SlidingGrid([image], WINDOW, overlap=OVERLAP)
    config = damacy.Config(batch_size=2, device="cpu", arrays=damacy.ArraySpec(scale=1 / 4095))
    run = model()
    with Loader(grid, config, tail="short") as loader:
        with Writer(out, grid, blend="crop" if blend == "crop" else "gaussian", overwrite=True) as writer:
            for batch in loader:
                with batch as b:
                    writer.add(run(b.numpy()), b)
    return len(grid)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, help="where to write; default: a temporary folder")
    folder = parser.parse_args().folder or pathlib.Path(tempfile.mkdtemp())
    write_image(folder / "cell.zarr", SHAPE, chunks=(16, 64, 64))
    voxels = damacy.open_image(folder / "cell.zarr").read().astype("f4")
    whole = with_numpy(voxels * np.float32(1 / 4095))
    for blend in ("crop", "gaussian"):
        start = time.perf_counter()
        windows = predict(folder / "cell.zarr", folder / f"{blend}.zarr", blend)
        seconds = time.perf_counter() - start
        found = damacy.open_image(folder / f"{blend}.zarr")
        difference = float(np.abs(found.read() - whole).max())
        print(f"{blend}: {windows} windows, {seconds:.1f} s, scale {found.scale}, largest difference {difference:.1e}")
        # Near the edge of a window the filter lacks neighbours. "crop" takes no such voxel, "gaussian" some, with
        # small weights.
        assert difference < (1e-6 if blend == "crop" else 0.05)


if __name__ == "__main__":
    main()
