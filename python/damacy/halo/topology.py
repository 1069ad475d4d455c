"""Links between the ranks of a grid: which rank exchanges which boxes with which peer. Integers only; knows no arrays.

Coordinates are cells of the global domain; a rank's own cells are a block of it. A link's boxes are relative to the
first compute cell of the block, so coordinates of ghost cells are negative or past the block.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from damacy import _native
from damacy.halo._errors import InvalidArgument
from damacy.halo.constants import BOUNDARIES, CORNERS

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
        return _native.rank_links(topology, rank, width)
    links = [(k.peer, k.side, k.peer_side, k.rotation, k.send, k.receive, k.phase) for k in topology.links(rank, width)]
    return _native.RankLinks.given(links, topology.dims)


class Cartesian(_native.Cartesian):
    """Blocks of a box-shaped grid, one per rank. Ranks run fastest along the last decomposed dimension.

    * `grid`: number of ranks along each dimension.
    * `periodic`: a bool for each dimension, or one for all.
    * `sizes`: cells of each block along each dimension, e.g. `[(5, 4), (3, 3, 2)]`. By default all blocks have the size
      of the fields.
    * `corners`: "direct", "none" or "sequential" (one dimension after the other; later phases also send the halos that
      earlier phases filled).
    * `dims`: names of the decomposed dimensions; by default, of one to three, the last of k, j, i.
    """

    def links(self, rank: int, width: Any) -> list[Link]:
        """The links of `rank`: boxes that it receives into its ghost cells, and boxes that it sends to others.

        `width`: halo cells, one number or a number or pair for each dimension."""
        return [Link(*link) for link in _native.rank_links(self, rank, width).links]


class CubedSphere(_native.CubedSphere):
    """Six tiles of L x L ranks each; rank = tile L^2 + row L + col, row along j.

    `fill`: "x" or "y" fills the cells beyond a cube corner, which no rank owns, from the halo in x or y. By default
    these cells stay unchanged.
    """

    dims = ("j", "i")

    def links(self, rank: int, width: Any = None) -> list[Link]:
        """The links across edges and corners; boxes follow from the sides."""
        return [Link(*link) for link in _native.rank_links(self, rank, width).links]


def check_symmetric(topology: Any, width: Any = 1) -> None:
    """RuntimeError unless every link has its counterpart at the peer, with the opposite rotation."""
    _native.check_symmetric_links([native_links(topology, rank, width) for rank in range(topology.size)])


__all__ = ["CORNERS", "SIDE_ENDS", "Cartesian", "CubedSphere", "Link", "Links", "boundary_slice"]
