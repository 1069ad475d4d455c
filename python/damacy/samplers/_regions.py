"""The regions that crops lie in: whole arrays. Computes where crops may start; draws nothing."""

from __future__ import annotations

import dataclasses

import numpy as np

from damacy._core.counter_rng_many import I64
from damacy._pipeline.cropped_arrays import Cropped, Origin


@dataclasses.dataclass(frozen=True, slots=True)
class Regions:
    """Boxes of arrays; a crop lies in one of them."""

    origins: tuple[Origin, ...]
    """The arrays of the samples."""
    which: I64
    """For each region the number of its origin, ascending."""
    low: I64
    """For each region and axis its first voxel."""
    high: I64
    """The end of it."""


def regions_of(crops: Cropped) -> Regions:
    """One region for each array."""
    high = np.array(list(crops.sizes.values()), np.int64).reshape(len(crops.sizes), len(crops.extents))
    return Regions(tuple(crops.sizes), np.arange(len(high)), np.zeros_like(high), high)
