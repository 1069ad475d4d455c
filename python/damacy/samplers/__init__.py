"""Samplers choose the boxes that a training run reads: random crops and sliding grids over many arrays.

A sampler is a pure function from (epoch, index) to a `Sample`. It keeps no state, so any process can compute any sample
of a run, and two integers are enough to resume. Knows shapes and boxes; reads only the shapes of arrays.

>>> crops = RandomCrops({"a.zarr": (100, 200), "b.zarr": (50, 60)}, (32, 32), length=1000, seed=7)
>>> crops.sample(epoch=0, index=3) == crops.sample(epoch=0, index=3), len(crops)
(True, 1000)
>>> grid = SlidingGrid({"a.zarr": (100, 200)}, (50, 100))
>>> [grid.sample(0, k).aabb for k in range(len(grid))]
[((0, 50), (0, 100)), ((0, 50), (100, 200)), ((50, 100), (0, 100)), ((50, 100), (100, 200))]
"""

from __future__ import annotations

from damacy.samplers._augment import Augment, Dihedral, Flips
from damacy.samplers._foreground_crops import ForegroundCrops
from damacy.samplers._foreground_index import ForegroundIndex
from damacy.samplers._indexed import Indexed
from damacy.samplers._random_crops import RandomCrops
from damacy.samplers._sampler import Sampler
from damacy.samplers._sliding_grid import SlidingGrid
from damacy.samplers._split import split
from damacy.samplers._weighted import Weighted
from damacy.samplers._windows import Windows
from damacy.samplers._within import Within

__all__ = [
    "Augment",
    "Dihedral",
    "Flips",
    "ForegroundCrops",
    "ForegroundIndex",
    "Indexed",
    "RandomCrops",
    "Sampler",
    "SlidingGrid",
    "Weighted",
    "Windows",
    "Within",
    "split",
]

# Pickles and tracebacks show the module to import from.
for _name in __all__:
    globals()[_name].__module__ = __name__
del _name
