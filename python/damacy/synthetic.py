"""A synthetic OME-Zarr image of two levels: bright blobs on a noisy background, the same for the same seed.

zarr-python writes it. Needs the extra `zarr`."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

try:
    import zarr
except ModuleNotFoundError as missing:
    message = f"damacy.synthetic needs the package {missing.name}: pip install {missing.name}"
    raise ModuleNotFoundError(message, name=missing.name) from None

_AXES = ("z", "y", "x")


def write_image(
    path: str | os.PathLike[str],
    shape: tuple[int, int, int],
    *,
    chunks: tuple[int, int, int] = (16, 128, 128),
    blobs: int = 200,
    labels: bool = False,
    seed: int = 0,
) -> None:
    """Write a uint16 image, NGFF 0.5, zarr v3, zstd. With `labels`, also writes `labels/blobs` next to its levels,
    uint8: 1 where a blob is."""
    image, inside = draw(shape, blobs, seed)
    group = zarr.create_group(path, zarr_format=3, overwrite=True)
    for name, factor in (("0", 1), ("1", 2)):
        _write(group, name, image[:, ::factor, ::factor], chunks)
    if labels:
        _write(group, "labels/blobs", inside, chunks)
    group.attrs["ome"] = {"version": "0.5", "multiscales": [_multiscale()]}


def draw(shape: tuple[int, int, int], blobs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The image, and an array of the same shape that is 1 where a blob is."""
    random = np.random.default_rng(seed)
    inside = np.zeros(shape, "u1")
    radii = random.integers(2, max(3, min(shape) // 4), (blobs, 1)) * np.array([0.6, 1.0, 1.0])
    for centre, radius in zip(random.uniform(0, 1, (blobs, 3)) * shape, radii):
        low = np.maximum(centre - radius, 0).astype(int)
        high = np.minimum(centre + radius + 1, shape).astype(int)
        grid = np.ogrid[tuple(slice(*bounds) for bounds in zip(low, high))]
        distance = sum(((at - c) / r) ** 2 for at, c, r in zip(grid, centre, radius))
        inside[tuple(slice(*bounds) for bounds in zip(low, high))] |= distance <= 1
    brightness = 400 + 120 * random.standard_normal(shape, "f4")
    brightness[inside == 1] += 500
    return brightness.clip(0, 65535).astype("u2"), inside


def _write(group: zarr.Group, name: str, data: np.ndarray, chunks: tuple[int, ...]) -> None:
    chunks = tuple(min(chunk, extent) for chunk, extent in zip(chunks, data.shape))
    array = group.create_array(name, shape=data.shape, chunks=chunks, dtype=data.dtype, dimension_names=_AXES)
    array[:] = data


def _multiscale() -> dict[str, Any]:
    def level(path: str, factor: float) -> dict[str, Any]:
        return {"path": path, "coordinateTransformations": [{"type": "scale", "scale": [1.0, factor, factor]}]}

    axes = [{"name": name, "type": "space"} for name in _AXES]
    return {"axes": axes, "datasets": [level("0", 1.0), level("1", 2.0)]}
