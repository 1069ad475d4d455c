"""Synchronizes shared edges of C-grid vectors. Two ranks hold each edge; knows which rank's values are sent to the
other."""

from __future__ import annotations

from typing import Any

from damacy.halo._errors import HaloError, InvalidArgument
from damacy.halo.constants import EAST, NORTH, SOUTH, WEST
from damacy.halo.exchange import Exchanger
from damacy.halo.exchange_plan import ExchangePlan, Field, Phase
from damacy.halo.rotate import horizontal_axes
from damacy.halo.topology import Link


class InterfacePlan(ExchangePlan):
    """Sends the first row of x south and the first column of y west. Values received from north and east replace the
    last row of x and the last column of y."""

    def _compile(self, entries: Any, directs: list[Any], unpack: bool, adjoint: bool) -> Any:
        from damacy.halo import _plans

        # Fields are rotated as lines: only the row along i of x, and the column along j of y, are exchanged.
        fields = []
        for n, field in enumerate(self.fields):
            i_axis, j_axis = horizontal_axes(field.dims)
            fields.append((field.dtype, field.shape, field.strides, *((i_axis, -1) if n == 0 else (-1, j_axis))))
        messages = tuple((tuple(entries[peer]), False) for peer in sorted(entries))
        return _plans.halo_plan(tuple(fields), messages, tuple(directs), unpack=unpack, adjoint=adjoint)

    def _described(self, entry: Any, turned: bool) -> Any:
        _, starts, stops = entry[0]
        return sorted(stop - start for start, stop in zip(starts, stops))


def _check(x: Field, y: Field) -> None:
    wanted = (("i", "j_interface"), ("i_interface", "j"))
    for field, names in zip((x, y), wanted):
        i_axis, j_axis = horizontal_axes(field.dims)
        if i_axis < 0 or j_axis < 0 or (field.dims[i_axis], field.dims[j_axis]) != names:
            raise InvalidArgument(f"vector must be defined on Arakawa C-grid: x {x.dims}, y {y.dims}")
    if x.dtype != y.dtype:
        raise HaloError("Vector halo exchange must have same exchange data for X and Y")


def _edge(field: Field, number: int, axis: int, last: bool) -> tuple[Any, ...]:
    starts, stops = list(field.origin), [o + e for o, e in zip(field.origin, field.extent)]
    starts[axis] = stops[axis] - 1 if last else starts[axis]
    stops[axis] = starts[axis] + 1
    return number, tuple(starts), tuple(stops)


def compile_interfaces(x: Field, y: Field, topology: Any, rank: int) -> InterfacePlan:
    """The plan for shared edges. ValueError unless `x` has dims i and j_interface, and `y` i_interface and j."""
    _check(x, y)
    row, column = horizontal_axes(x.dims)[1], horizontal_axes(y.dims)[0]
    links: dict[int, Link] = {link.side: link for link in topology.links(rank, 1) if link.side in range(4)}
    phase = Phase()
    sends = [
        (links[side], box, negated)
        for side, box, negated in ((WEST, _edge(y, 1, column, False), (1, 2)), (SOUTH, _edge(x, 0, row, False), (2, 3)))
        if side in links
    ]
    receives = [
        (links[side], box)
        for side, box in ((EAST, _edge(y, 1, column, True)), (NORTH, _edge(x, 0, row, True)))
        if side in links
    ]
    for link, box, negated in sends:
        entry = (box, None, link.rotation % 4, link.rotation % 4 in negated)
        phase.sends.setdefault(link.peer, []).append((link.side, entry))
    for link, box in receives:
        phase.receives.setdefault(link.peer, []).append((link.peer_side, (box, None, 0)))
    for segments in (phase.sends, phase.receives):  # by the sender's side
        for peer, found in segments.items():
            segments[peer] = [entry for _, entry in sorted(found, key=lambda pair: pair[0])]
    if rank in phase.sends:
        mine, theirs = phase.sends.pop(rank), phase.receives.pop(rank)
        phase.directs += [(entry, target[0], None) for entry, target in zip(mine, theirs)]
    return InterfacePlan((x, y), rank, "ndsl", [phase])


def synchronize_vector_interfaces(x: Any, y: Any, *, topology: Any, rank: int, transport: Any) -> None:
    """Makes the shared edges of a C-grid vector equal on both ranks. `x` and `y` are quantities with dims, origin and
    extent. For repeated use, keep an `Exchanger` of `compile_interfaces`."""
    field_x, field_y = (Field.like(q, q.dims, q.origin, q.extent) for q in (x, y))
    with Exchanger(compile_interfaces(field_x, field_y, topology, rank), transport, depth=1) as exchanger:
        exchanger.exchange([x, y])
