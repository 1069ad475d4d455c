"""Links between the ranks of a grid: which rank exchanges which boxes with which peer. Integers only; knows no arrays.

Coordinates are cells of the global domain; a rank's own cells are a block of it. A link's boxes are relative to the
first compute cell of the block, so coordinates of ghost cells are negative or past the block.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from damacy import _native
from damacy.halo._errors import InvalidArgument, Unsupported
from damacy.halo.constants import BOUNDARIES, CORNERS, EDGES

Box = tuple[tuple[int, int], ...]  # start and stop of each dimension

# The ends of the I and the J dimension that a side touches: -1 start, 1 end, 0 neither.
SIDE_ENDS: dict[int, tuple[int, int]] = dict(enumerate(_native.halo_side_ends()))


def boundary_slice(
    dims: Sequence[str],
    origin: Sequence[int],
    extent: Sequence[int],
    shape: Sequence[int],
    side: int,
    n_halo: int,
    interior: bool,
) -> tuple[slice, ...]:
    """The cells to send (`interior`) or to receive at a side, absolute in the allocation.

    >>> from damacy.halo import WEST
    >>> boundary_slice(("j", "i"), (3, 3), (4, 4), (10, 10), WEST, 2, True)
    (slice(3, 7, None), slice(3, 5, None))
    """
    if side not in BOUNDARIES:
        raise InvalidArgument(f"side {side!r}: expected one of 0 to 7")
    return _native.halo_boundary_slice(dims, origin, extent, shape, side, n_halo, bool(interior))


@dataclasses.dataclass(frozen=True)
class Link:
    """One box that a rank sends to `peer`, and one that it receives from it.

    `side`: the side of this rank's block that has the boxes; `peer_side`: the side of the peer's block. The sender's
    side orders the segments of a message. `rotation`: clockwise quarter turns of the data on the way to the peer.
    `send`, `receive`: (start, stop) of each decomposed dimension. If both are None, they follow from the side, as in
    `boundary_slice`.
    """

    peer: int
    side: Any
    peer_side: Any
    rotation: int = 0
    send: Box | None = None
    receive: Box | None = None
    phase: int = 0


class Links:
    """Links given explicitly: a list for each rank, or one list for the rank that compiles."""

    dims: tuple[str, ...] = ()

    def __init__(self, links: Sequence[Any], dims: Sequence[str] = ()) -> None:
        self._links = list(links)
        self.dims = tuple(dims)

    def links(self, rank: int, width: Any = None) -> list[Link]:
        if self._links and not isinstance(self._links[0], Link):
            return list(self._links[rank])
        return list(self._links)


def native_links(topology: Any, rank: int, width: Any) -> _native.RankLinks:
    """The links of a rank in the native library's form. `topology` may be of any class that has `links` and `dims`."""
    if isinstance(topology, (Cartesian, CubedSphere)):
        return topology._native_links(rank, width)
    links = [(k.peer, k.side, k.peer_side, k.rotation, k.send, k.receive, k.phase) for k in topology.links(rank, width)]
    return _native.RankLinks.given(links, topology.dims)


class Cartesian:
    """Blocks of a box-shaped grid, one per rank. Ranks run fastest along the last decomposed dimension.

    * `grid`: number of ranks along each dimension.
    * `periodic`: a bool for each dimension, or one for all.
    * `sizes`: cells of each block along each dimension, e.g. `[(5, 4), (3, 3, 2)]`. By default all blocks have the size
      of the fields.
    * `corners`: "direct", "none" or "sequential" (one dimension after the other; later phases also send the halos that
      earlier phases filled).
    * `dims`: names of the decomposed dimensions; by default, of one to three, the last of k, j, i.
    """

    def __init__(
        self,
        grid: Sequence[int],
        periodic: Sequence[bool] | bool,
        *,
        sizes: Sequence[Sequence[int] | int] | None = None,
        corners: str = "direct",
        dims: Sequence[str] | None = None,
    ) -> None:
        self.grid = tuple(grid)
        self.periodic = (periodic,) * len(self.grid) if isinstance(periodic, bool) else tuple(periodic)
        self.size = _native.cartesian_size(self.grid)
        if len(self.periodic) != len(self.grid):
            raise InvalidArgument(f"grid {self.grid} with {len(self.periodic)} entries for periodic")
        if corners not in ("direct", "none", "sequential"):
            raise InvalidArgument(f"corners {corners!r}: expected 'direct', 'none' or 'sequential'")
        self.corners = corners
        self.dims = tuple(dims) if dims is not None else ("k", "j", "i")[-len(self.grid) :]
        self.sizes: tuple[tuple[int, ...], ...] | None = (
            None if sizes is None else _native.cartesian_sizes(sizes, self.grid)
        )

    def coordinates(self, rank: int) -> tuple[int, ...]:
        return tuple(_native.cartesian_coordinates(self.grid, rank))

    def rank_of(self, coordinates: Sequence[int]) -> int:
        return _native.cartesian_rank(self.grid, coordinates)

    def with_sizes(self, extents: Sequence[int]) -> Cartesian:
        """Itself if it has sizes, else a copy whose blocks all have these extents."""
        if self.sizes is not None:
            return self
        return Cartesian(self.grid, self.periodic, sizes=list(extents), corners=self.corners, dims=self.dims)

    @property
    def _known_sizes(self) -> tuple[tuple[int, ...], ...]:
        """`sizes`; `InvalidArgument` if there are none."""
        if self.sizes is None:
            raise InvalidArgument(f"the blocks of grid {self.grid} have no sizes: call with_sizes(extents) first")
        return self.sizes

    def links(self, rank: int, width: Any) -> list[Link]:
        """The links of `rank`: boxes that it receives into its ghost cells, and boxes that it sends to others.

        `width`: halo cells, one number or a number or pair for each dimension."""
        return [Link(*link) for link in self._native_links(rank, width).links]

    def _native_links(self, rank: int, width: Any) -> _native.RankLinks:
        names = self.dims if len(self.dims) == len(self.grid) else [""] * len(self.grid)  # `compile` refuses others
        widths = _native.halo_widths(width, len(self.grid))
        return _native.RankLinks.of_grid(self._known_sizes, self._is_periodic, self.corners, rank, names, widths)

    @property
    def _is_periodic(self) -> list[bool]:
        return [bool(p) for p in self.periodic]

    def unowned(self, rank: int, width: Any) -> list[tuple[int, int]]:
        """How many halo cells before and after the block are beyond the ends of the domain, for each dimension."""
        return _native.cartesian_unowned(
            self._known_sizes, self._is_periodic, rank, _native.halo_widths(width, len(self.grid))
        )


class CubedSphere:
    """Six tiles of L x L ranks each; rank = tile L^2 + row L + col, row along j.

    `fill`: "x" or "y" fills the cells beyond a cube corner, which no rank owns, from the halo in x or y. By default
    these cells stay unchanged.
    """

    dims = ("j", "i")

    def __init__(self, layout: Sequence[int] | int, *, fill: str | None = None) -> None:
        sides = (layout, layout) if isinstance(layout, int) else tuple(layout)
        if len(sides) != 2 or sides[0] != sides[1]:
            raise Unsupported(f"layout {layout}: a cubed sphere needs as many ranks along j as along i")
        if fill not in (None, "x", "y"):
            raise InvalidArgument(f"fill {fill!r}: expected None, 'x' or 'y'")
        self.layout = sides[0]
        self.fill = fill
        self.size = _native.cubed_sphere_size(self.layout)

    def place(self, rank: int) -> tuple[int, int, int]:
        """(tile, row, col)."""
        return _native.cubed_sphere_place(self.layout, rank)

    def step(self, rank: int, side: int) -> tuple[int, int]:
        """The neighbour across an edge, and the quarter turns of data on the way to it."""
        found = self.neighbour(rank, side) if side in EDGES else None
        if found is None:
            raise InvalidArgument(f"side {side!r}: expected one of the edges 0 to 3")
        return found[:2]

    def neighbour(self, rank: int, side: int) -> tuple[int, int, int] | None:
        """(peer, quarter turns, the peer's side that touches this rank); None across a cube corner."""
        return _native.cubed_sphere_neighbour(self.layout, rank, side)

    def links(self, rank: int, width: Any = None) -> list[Link]:
        """The links across edges and corners; boxes follow from the sides."""
        return [Link(*link) for link in self._native_links(rank, width).links]

    def _native_links(self, rank: int, width: Any) -> _native.RankLinks:
        return _native.RankLinks.of_sphere(self.layout, rank, self.fill or "")


def check_symmetric(topology: Any, width: Any = 1) -> None:
    """RuntimeError unless every link has its counterpart at the peer, with the opposite rotation."""
    _native.check_symmetric_links([native_links(topology, rank, width) for rank in range(topology.size)])


__all__ = ["CORNERS", "SIDE_ENDS", "Cartesian", "CubedSphere", "Link", "Links", "boundary_slice"]
