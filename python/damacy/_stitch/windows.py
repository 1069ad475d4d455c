"""Where the windows of a grid lie, when the voxels of the output are final, and how many of them are held until then.

Windows are in grid order: the last axis changes fastest. Knows numbers only."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

Box = tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Cells:
    """The windows along one axis."""

    starts: tuple[int, ...]
    """Ascending."""
    extent: int

    def are_apart(self, chunk: int) -> bool:
        """Whether no two windows lie in one chunk of this extent; of extent 1, whether they do not overlap."""
        pairs = zip(self.starts, self.starts[1:])
        return all((before + self.extent - 1) // chunk < after // chunk for before, after in pairs)

    @property
    def span(self) -> tuple[int, int]:
        """From the first window's start to the last one's end."""
        return self.starts[0], self.starts[-1] + self.extent


@dataclasses.dataclass(frozen=True)
class Region:
    """Windows at all combinations of places along the axes.

    It falls into volumes, which share no chunk and come one after the other: the combinations of places along the first
    axes, as far as windows share no chunk there. In a volume voxels become final plane by plane, along the first axis
    on which windows share chunks.
    """

    first: int
    """The number of its first window."""
    axes: tuple[Cells, ...]
    chunks: tuple[int, ...]
    """Of each axis. With 1, volumes do not overlap, and may share chunks."""

    @functools.cached_property
    def count(self) -> int:
        return math.prod(len(axis.starts) for axis in self.axes)

    @functools.cached_property
    def _inner(self) -> int:
        """The first axis on which windows share chunks; the number of axes if there is none."""
        shared = (k for k, (axis, chunk) in enumerate(zip(self.axes, self.chunks)) if not axis.are_apart(chunk))
        return next(shared, len(self.axes))

    @functools.cached_property
    def axis(self) -> int:
        """The axis along which voxels become final."""
        return self._inner if self._inner < len(self.axes) else 0

    @functools.cached_property
    def _windows_of_volume(self) -> int:
        return math.prod(len(axis.starts) for axis in self.axes[self._inner :])

    @functools.cached_property
    def _windows_of_row(self) -> int:
        """The windows of a volume with one place along `axis`."""
        return math.prod(len(axis.starts) for axis in self.axes[self._inner + 1 :])

    def box(self, index: int) -> Box:
        """A window, by its number in the grid."""
        left, box = index - self.first, []
        for axis in reversed(self.axes):
            left, cell = divmod(left, len(axis.starts))
            box.append((axis.starts[cell], axis.starts[cell] + axis.extent))
        return tuple(reversed(box))

    def volume(self, index: int) -> Box:
        """The volume of a window."""
        box = self.box(index)
        return (*box[: self._inner], *(axis.span for axis in self.axes[self._inner :]))

    def begins_volume(self, index: int) -> bool:
        return (index - self.first) % self._windows_of_volume == 0

    def ends_volume(self, index: int) -> bool:
        return (index - self.first + 1) % self._windows_of_volume == 0

    def final_before(self, index: int) -> int | None:
        """The place on `axis` before which all voxels of the volume are final after this window. None: as before it."""
        if self.ends_volume(index):
            return self.volume(index)[self.axis][1]
        rows, windows = divmod((index - self.first) % self._windows_of_volume + 1, self._windows_of_row)
        return self.axes[self.axis].starts[rows] if windows == 0 else None

    @property
    def plane_size(self) -> int:
        """The voxels of a volume with one place on `axis`."""
        lengths = [high - low for low, high in self.volume(self.first)]
        return math.prod(lengths[: self.axis] + lengths[self.axis + 1 :])

    @functools.cached_property
    def longest_step(self) -> int:
        """The most planes that become final at a time, except the last ones of a volume."""
        starts = self.axes[self.axis].starts
        return max((after - before for before, after in zip(starts, starts[1:])), default=self.axes[self.axis].extent)


def regions_from(axes_of_regions: Sequence[Sequence[Cells]], chunks: Sequence[int]) -> tuple[Region, ...]:
    """The regions, whose windows come one region after the other."""
    regions: list[Region] = []
    first = 0
    for axes in axes_of_regions:
        regions.append(Region(first, tuple(axes), tuple(chunks)))
        first += regions[-1].count
    return tuple(regions)
