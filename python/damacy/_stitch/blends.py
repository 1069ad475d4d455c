"""The weight of each voxel of a window, and for `"crop"` its distance from the window's centre. Knows one window."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Elements = np.ndarray[Any, Any]

_LEAST_WEIGHT = 1e-3  # of a gaussian, as in MONAI: far from the centre the quotient of two tiny sums is noise


def weights(blend: str, extents: Sequence[int], is_blended: Sequence[bool], sigma_scale: Sequence[float]) -> Elements:
    """The weight of each voxel of a window, f32: a product over the axes, computed in f64 and rounded once.

    Axes that are not blended have the factor 1. `"gaussian"` is MONAI's importance map: `sigma_scale` times the extent
    is the standard deviation, and no weight is below the larger of 0.001 and the least weight.

    >>> weights("hann", (2, 3), (False, True), (0.125, 0.125)).tolist()
    [[0.25, 1.0, 0.25], [0.25, 1.0, 0.25]]
    """
    factors = [
        _factor(blend, extent, scale) if blended else np.ones(extent)
        for extent, blended, scale in zip(extents, is_blended, sigma_scale)
    ]
    product = functools.reduce(np.multiply.outer, factors, np.ones(()))
    if blend == "gaussian":
        product = np.maximum(product, max(product.min(), _LEAST_WEIGHT))
    return product.astype(np.float32)


def distances(extents: Sequence[int], is_blended: Sequence[bool]) -> Elements:
    """The squared distance of each voxel from the window's centre, in half voxels: integers.

    >>> distances((4,), (True,)).tolist()
    [9, 1, 1, 9]
    """
    dtype = distance_dtype(extents)
    factors = [
        np.arange(1 - extent, extent, 2, dtype=dtype) ** 2 if blended else np.zeros(extent, dtype)
        for extent, blended in zip(extents, is_blended)
    ]
    total: Elements = functools.reduce(np.add.outer, factors, np.zeros((), dtype))
    return total


def distance_dtype(extents: Sequence[int]) -> np.dtype[Any]:
    """The smaller type that holds all distances, and a greater number."""
    return np.dtype(np.int32 if sum(extent**2 for extent in extents) < 2**31 - 1 else np.int64)


def _factor(blend: str, extent: int, sigma_scale: float) -> Elements:
    factor: Elements = np.ones(extent)
    if blend == "gaussian":
        from_centre = np.arange(extent) - (extent - 1) / 2
        factor = np.exp(from_centre**2 / (-2 * (sigma_scale * extent) ** 2))
    if blend == "hann":
        factor = np.sin(math.pi * (np.arange(extent) + 0.5) / extent) ** 2
    return factor
