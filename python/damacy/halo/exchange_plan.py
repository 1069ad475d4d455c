"""Plans what a rank sends to and receives from each peer: one message per peer, packed by one launch. Knows links and
boxes; allocates nothing.

    plan = compile([Field.like(a, dims, origin, extent)], Cartesian((2, 2), True), rank, width=1)
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Sequence
from numbers import Integral
from typing import Any

from damacy.halo import _plans
from damacy.halo import topology as topologies
from damacy.halo._arrays import layout_of, library_of, whole
from damacy.halo._dtypes import NAMES, UNSIGNED
from damacy.halo._errors import DtypeMismatch, HaloError, InvalidArgument
from damacy.halo.constants import INTERFACE_DIMS
from damacy.halo.rotate import horizontal_axes
from damacy.halo.topology import Link, boundary_slice, check_inside


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
        if not len(dims) == len(origin) == len(extent) == len(layout.shape):
            raise InvalidArgument(f"an array of shape {layout.shape} with dims {tuple(dims)}, {origin}, {extent}")
        for dim, first, count, length in zip(dims, origin, extent, layout.shape):
            if first < 0 or count < 0 or first + count > length:
                raise InvalidArgument(f"dimension {dim}: origin {first}, extent {count} in {length} cells")
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
    def native(self) -> tuple[Any, ...]:
        return (self.dtype, self.shape, self.strides, *horizontal_axes(self.dims))

    def box(self, link: Link, dims: Sequence[str], width: Any, interior: bool) -> tuple[Any, Any]:
        """Starts and stops of the box that a link sends or receives, absolute in the allocation."""
        given = link.send if interior else link.receive
        if given is None:
            if not isinstance(width, Integral):
                raise InvalidArgument(f"width {width!r}: expected one number for these links")
            slices = boundary_slice(self.dims, self.origin, self.extent, self.shape, link.side, int(width), interior)
            return tuple(s.start for s in slices), tuple(s.stop for s in slices)
        starts, stops = [], []
        kinds = dims_kind(dims)
        for dim, first, count, length in zip(self.dims, self.origin, self.extent, self.shape):
            kind = dim.removesuffix("_interface")
            start, stop = 0, count
            if kind in kinds:
                axis = kinds.index(kind)
                start, stop = given[axis]
                staggered = dim in INTERFACE_DIMS
                # The receiver's end. Both ranks hold the boundary row itself, so it is not sent.
                end = _end(link.side, axis, kind) * (-1 if interior else 1)
                if staggered and end > 0:
                    start, stop = start + 1, stop + 1
                elif staggered and end == 0:
                    stop += 1
            check_inside(dim, first + start, first + stop, length)
            starts.append(first + start)
            stops.append(first + stop)
        return tuple(starts), tuple(stops)


def dims_kind(dims: Sequence[str]) -> tuple[str, ...]:
    """Dimension names with `_interface` removed."""
    return tuple(name.removesuffix("_interface") for name in dims)


def _end(side: Any, axis: int, kind: str) -> int:
    """Which end of a dimension a side touches: negative its start, positive its end."""
    if isinstance(side, tuple):
        return int(side[axis])
    return topologies.SIDE_ENDS[side]["ij".index(kind)] if kind in ("i", "j") else 0


def _order(side: Any) -> Any:
    """Sort key for the segments of a message, by the sender's side: in two dimensions its number, else its offsets."""
    if isinstance(side, tuple) and len(side) == 2:
        signs = tuple((o > 0) - (o < 0) for o in side)
        return topologies.SIDE_OF_ENDS.get((signs[1], signs[0]), -1), side
    return side if isinstance(side, tuple) else (side, ())


@dataclasses.dataclass
class Phase:
    """One round of messages. `sends` and `receives`: the entries for each peer, in the native library's form."""

    sends: dict[int, list[Any]] = dataclasses.field(default_factory=dict)
    receives: dict[int, list[Any]] = dataclasses.field(default_factory=dict)
    directs: list[Any] = dataclasses.field(default_factory=list)


class ExchangePlan:
    """The messages that a rank sends and receives. Allocates nothing; any number of exchangers may use it."""

    def __init__(self, fields: Sequence[Field], rank: int, wire: str, phases: list[Phase]) -> None:
        self.fields = tuple(fields)
        self.rank = rank
        self.wire = wire
        self.phases = phases
        self.peers = sorted({p for phase in phases for p in (*phase.sends, *phase.receives)})

    def pack(self, phase: Phase, adjoint: bool = False) -> Any:
        """The copy plan that packs for all peers, and copies cells that stay on this rank."""
        return self._compile(phase.sends, phase.directs, False, adjoint)

    def unpack(self, phase: Phase, adjoint: bool = False) -> Any:
        return self._compile(phase.receives, [], True, adjoint)

    def _compile(self, entries: dict[int, list[Any]], directs: list[Any], unpack: bool, adjoint: bool) -> Any:
        messages = tuple((tuple(entries[peer]), self.wire == "native") for peer in sorted(entries))
        fields = tuple(f.native for f in self.fields)
        return _plans.halo_plan(fields, messages, tuple(directs), unpack=unpack, adjoint=adjoint)

    def digests(self, peer: int) -> tuple[bytes, bytes]:
        """Digests of the message to the peer and of the message from it. The peer must have the same two."""
        return self._digest("sends", peer), self._digest("receives", peer)

    def _digest(self, name: str, peer: int) -> bytes:
        described = [
            [self._described(entry, name == "sends") for entry in getattr(phase, name).get(peer, [])]
            for phase in self.phases
        ]
        return hashlib.sha256(repr((self.wire, described)).encode()).digest()

    def _described(self, entry: Any, turned: bool) -> Any:
        """Field, type, dims, order of axes and extents of each slot of the message."""
        x, y, rotation = entry[:3]
        odd = turned and rotation % 2 == 1
        slots = [(x, x)] if y is None else [(x, y), (y, x)] if odd else [(x, x), (y, y)]  # (slot, component in it)
        return [self._slot(place[0], box, odd) for place, box in slots]

    def _slot(self, number: int, box: Any, odd: bool) -> Any:
        own = self.fields[number]
        extents = [b - a for a, b in zip(box[1], box[2])]
        i_axis, j_axis = horizontal_axes(self.fields[box[0]].dims)
        if odd and i_axis >= 0 and j_axis >= 0:
            extents[i_axis], extents[j_axis] = extents[j_axis], extents[i_axis]
        ranks = sorted(range(len(extents)), key=lambda axis: (-abs(own.strides[axis]), axis))
        return number, NAMES[own.dtype], dims_kind(own.dims), ranks if self.wire == "native" else None, extents


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
    pairs = _pairs(fields, vectors)
    topology = _sized(topology, fields, rank)
    links = topology.links(rank, width) if not isinstance(topology, topologies.Links) else topology.links(rank)
    if len({(f.library, f.device) for f in fields}) > 1:
        raise InvalidArgument("expected fields of one library and one device")
    phases = [Phase() for _ in range(1 + max((link.phase for link in links), default=0))]
    maker = _Maker(fields, topology, width, pairs, rank)
    for n, phase in enumerate(phases):
        maker.fill(phase, [link for link in links if link.phase == n])
    if isinstance(topology, topologies.CubedSphere) and topology.fill:
        phases.append(maker.corners(rank))
    return ExchangePlan(fields, rank, wire, phases)


def _pairs(fields: Sequence[Field], vectors: Sequence[tuple[int, int]]) -> list[tuple[int, int | None]]:
    named = [n for pair in vectors for n in pair]
    if len(set(named)) < len(named) or any(not 0 <= n < len(fields) for n in named):
        raise InvalidArgument(f"vectors {vectors}: expected pairs of different numbers of the {len(fields)} fields")
    second = {y for _, y in vectors}
    first = dict(vectors)
    for x, y in first.items():
        if dims_kind(fields[x].dims) != dims_kind(fields[y].dims) or fields[x].dtype != fields[y].dtype:
            raise HaloError("Vector halo exchange must have same exchange data for X and Y")
    return [(n, first.get(n)) for n in range(len(fields)) if n not in second]


def _cells(field: Field, dims: Sequence[str]) -> list[int]:
    kinds = [d.removesuffix("_interface") for d in field.dims]
    out = []
    for dim in dims:
        if dim not in kinds:
            raise InvalidArgument(f"dimension {dim} is decomposed, but a field has only {field.dims}")
        axis = kinds.index(dim)
        out.append(field.extent[axis] - (field.dims[axis] in INTERFACE_DIMS))
    return out


def _sized(topology: Any, fields: Sequence[Field], rank: int) -> Any:
    """The topology, with blocks of the fields' size if it has no sizes. ValueError for fields of other sizes, and for
    fields that lack a decomposed dimension."""
    grid = getattr(topology, "grid", topology.dims)
    if len(topology.dims) != len(grid):
        raise InvalidArgument(f"grid {grid} over dimensions {topology.dims}: pass a name for each dimension (dims=)")
    cells = [_cells(field, topology.dims) for field in fields]
    if not isinstance(topology, topologies.Cartesian):
        return topology
    topology = topology.with_sizes(cells[0])
    block = [sizes[at] for sizes, at in zip(topology.sizes, topology.coordinates(rank))]
    for n, own in enumerate(cells):
        if own != block:
            raise InvalidArgument(f"field {n} has {own} cells along {topology.dims}, expected {block} for rank {rank}")
    return topology


class _Maker:
    """Converts links to entries of messages."""

    def __init__(self, fields: Any, topology: Any, width: Any, pairs: Any, rank: int) -> None:
        self.fields, self.topology, self.width, self.pairs, self.rank = fields, topology, width, pairs, rank

    def _box(self, number: int, link: Link, interior: bool) -> Any:
        return (number, *self.fields[number].box(link, self.topology.dims, self.width, interior))

    def _entries(self, link: Link, interior: bool) -> list[Any]:
        rotation = link.rotation % 4 if interior else 0
        out = []
        for x, y in self.pairs:
            if y is not None and link.rotation % 4 and self.fields[x].dtype in UNSIGNED:
                raise DtypeMismatch(f"cannot negate {NAMES[self.fields[x].dtype]}, which rotating a vector needs")
            out.append((self._box(x, link, interior), None if y is None else self._box(y, link, interior), rotation))
        return out

    def fill(self, phase: Phase, links: list[Link]) -> None:
        sends = [link for link in links if link.send is not None or link.receive is None]
        receives = [link for link in links if link.receive is not None or link.send is None]
        here = [link for link in receives if link.peer == self.rank]
        for link in sorted((s for s in sends if s.peer != self.rank), key=lambda s: _order(s.side)):
            phase.sends.setdefault(link.peer, []).extend(self._entries(link, True))
        for link in sorted((r for r in receives if r.peer != self.rank), key=lambda r: _order(r.peer_side)):
            phase.receives.setdefault(link.peer, []).extend(self._entries(link, False))
        for to in here:
            own = [s for s in sends if s.peer == self.rank and (s.side, s.peer_side) == (to.peer_side, to.side)]
            if not own:
                raise HaloError(
                    f"rank {self.rank} receives from itself at side {to.side} but does not send at {to.peer_side}"
                )
            source = own[0]
            for entry, target in zip(self._entries(source, True), self._entries(to, False)):
                phase.directs.append((entry, target[0], target[1]))

    def corners(self, rank: int) -> Phase:
        """The phase that fills the cells beyond cube corners from the adjacent halo in x or in y."""
        phase = Phase()
        for side in topologies.CORNERS:
            if self.topology.neighbour(rank, side) is not None:
                continue
            for number, field in enumerate(self.fields):
                target = boundary_slice(field.dims, field.origin, field.extent, field.shape, side, self.width, False)
                phase.directs += self._filled(number, field, side, target)
        return phase

    def _filled(self, number: int, field: Field, side: int, target: Any) -> list[Any]:
        """Copies that transpose about the corner's diagonal, which keeps the distance from the edge."""
        i_axis, j_axis = horizontal_axes(field.dims)
        if i_axis < 0 or j_axis < 0:
            return []
        i_end, j_end = topologies.SIDE_ENDS[side]
        out = []
        n = self.width
        for a, b in itertools.product(range(n), repeat=2):  # distances from the domain along i and j
            cell, source = [list(target) for _ in range(2)]
            # fill x: the cell takes the value from the halo in x, at exchanged distances.
            along, across = (j_axis, i_axis) if self.topology.fill == "x" else (i_axis, j_axis)
            inward = a if along == i_axis else b
            for axis, end, step in ((i_axis, i_end, a), (j_axis, j_end, b)):
                first, count = field.origin[axis], field.extent[axis]
                at = first - 1 - step if end < 0 else first + count + step
                cell[axis] = slice(at, at + 1)
                if axis == along:
                    other = b if along == i_axis else a
                    at = first + other if end < 0 else first + count - 1 - other
                else:
                    at = first - 1 - inward if end < 0 else first + count + inward
                source[axis] = slice(at, at + 1)
            boxes = [(number, tuple(s.start for s in box), tuple(s.stop for s in box)) for box in (source, cell)]
            out.append(((boxes[0], None, 0), boxes[1], None))
        return out
