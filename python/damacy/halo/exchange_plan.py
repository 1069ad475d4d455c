"""Plans what a rank sends to and receives from each peer: one message per peer, packed by one launch. Knows links and
boxes; allocates nothing.

    plan = compile([Field.like(a, dims, origin, extent)], Cartesian((2, 2), True), rank, width=1)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from numbers import Integral
from typing import Any

from damacy import _native
from damacy.halo import _plans
from damacy.halo import topology as topologies
from damacy.halo._arrays import layout_of, library_of, whole
from damacy.halo._errors import HaloError, InvalidArgument
from damacy.halo.topology import Link


@dataclasses.dataclass(frozen=True)
class Field:
    """Layout of an exchanged array: dimension names, first compute cell, compute cells, allocation, memory."""

    dims: tuple[str, ...]
    origin: tuple[int, ...]
    extent: tuple[int, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # bytes
    dtype: int
    library: str = "numpy"
    device: int | None = None

    @staticmethod
    def like(array: Any, dims: Sequence[str], origin: Sequence[int], extent: Sequence[int]) -> Field:
        """The field of an array, with the array's shape, strides, type and device."""
        held = whole(array)
        layout = layout_of(held)
        _native.check_halo_field((layout.dtype, dims, layout.shape, layout.strides, origin, extent))
        library = library_of(held)
        return Field(
            tuple(dims),
            tuple(origin),
            tuple(extent),
            layout.shape,
            layout.strides,
            layout.dtype,
            library if library in ("cupy", "torch") else "numpy",
            layout.device,
        )

    @property
    def described(self) -> tuple[Any, ...]:
        """The field in the native library's form."""
        return self.dtype, self.dims, self.shape, self.strides, self.origin, self.extent


@dataclasses.dataclass
class Phase:
    """One round of messages. `sends` and `receives`: the entries for each peer, in the native library's form."""

    sends: dict[int, tuple[Any, ...]]
    receives: dict[int, tuple[Any, ...]]
    directs: list[Any]


class ExchangePlan:
    """The messages that a rank sends and receives. Allocates nothing; any number of exchangers may use it."""

    def __init__(
        self, fields: Sequence[Field], rank: int, wire: str, native: Any, phases: list[Phase] | None = None
    ) -> None:
        self.fields = tuple(fields)
        self.rank = rank
        self.wire = wire
        self._native = native
        self._native_fields = native.fields
        self.phases = [Phase(*phase) for phase in native.phases] if phases is None else phases
        self.peers = sorted({p for phase in self.phases for p in (*phase.sends, *phase.receives)})

    def pack(self, phase: Phase, adjoint: bool = False) -> Any:
        """The copy plan that packs for all peers, and copies cells that stay on this rank."""
        return self._compile(phase.sends, phase.directs, False, adjoint)

    def unpack(self, phase: Phase, adjoint: bool = False) -> Any:
        return self._compile(phase.receives, [], True, adjoint)

    def _compile(self, entries: dict[int, Any], directs: list[Any], unpack: bool, adjoint: bool) -> Any:
        messages = tuple((tuple(entries[peer]), self.wire == "native") for peer in sorted(entries))
        return _plans.halo_plan(self._native_fields, messages, tuple(directs), unpack=unpack, adjoint=adjoint)

    def digests(self, peer: int) -> tuple[bytes, bytes]:
        """Digests of the message to the peer and of the message from it. The peer must have the same two."""
        sent, expected = self._native.digests(peer)
        return sent, expected


def native_links(links: Sequence[Link]) -> list[tuple[Any, ...]]:
    """Links in the native library's form."""
    return [(k.peer, k.side, k.peer_side, k.rotation, k.send, k.receive, k.phase) for k in links]


def compile(  # noqa: A001  called as halo.compile
    fields: Sequence[Field],
    topology: Any,
    rank: int,
    width: Any,
    *,
    vectors: Sequence[tuple[int, int]] = (),
    wire: str = "native",
) -> ExchangePlan:
    """The plan of one rank. `width`: cells of halo, or a number or a pair for each decomposed dimension.

    `vectors`: pairs of indices of the fields that are the x and the y component of a vector. Raises RuntimeError,
    ValueError and IndexError like the transformers.
    """
    if not fields:
        raise HaloError("Attempting to init an empty halo exchange")
    if wire not in ("ndsl", "native"):
        raise InvalidArgument(f"wire {wire!r}: expected 'ndsl' or 'native'")
    topology = _sized(topology, fields, rank)
    links = topology.links(rank, width) if not isinstance(topology, topologies.Links) else topology.links(rank)
    if len({(f.library, f.device) for f in fields}) > 1:
        raise InvalidArgument("expected fields of one library and one device")
    fill = topology.fill if isinstance(topology, topologies.CubedSphere) else None
    native = _native.plan_exchange(
        [f.described for f in fields],
        native_links(links),
        topology.dims,
        rank,
        int(width) if isinstance(width, Integral) else None,
        vectors,
        wire == "native",
        [side for side in topologies.CORNERS if topology.neighbour(rank, side) is None] if fill else [],
        fill or "",
    )
    return ExchangePlan(fields, rank, wire, native)


def _sized(topology: Any, fields: Sequence[Field], rank: int) -> Any:
    """The topology, with blocks of the fields' size if it has no sizes. ValueError for fields of other sizes, and for
    fields that lack a decomposed dimension."""
    grid = getattr(topology, "grid", topology.dims)
    if len(topology.dims) != len(grid):
        raise InvalidArgument(f"grid {grid} over dimensions {topology.dims}: pass a name for each dimension (dims=)")
    cells = [_native.halo_cells(field.described, topology.dims) for field in fields]
    if not isinstance(topology, topologies.Cartesian):
        return topology
    topology = topology.with_sizes(cells[0])
    block = [sizes[at] for sizes, at in zip(topology.sizes, topology.coordinates(rank))]
    _native.check_halo_blocks([field.described for field in fields], topology.dims, block, rank)
    return topology
