"""Synchronizes shared edges of C-grid vectors. Two ranks hold each edge; knows which rank's values are sent to the
other."""

from __future__ import annotations

from typing import Any

from damacy import _native
from damacy.halo.exchange import Exchanger
from damacy.halo.exchange_plan import ExchangePlan, Field
from damacy.halo.topology import native_links


class InterfacePlan(ExchangePlan):
    """Sends the first row of x south and the first column of y west. Values received from north and east replace the
    last row of x and the last column of y."""


def compile_interfaces(x: Field, y: Field, topology: Any, rank: int) -> InterfacePlan:
    """The plan for shared edges. ValueError unless `x` has dims i and j_interface, and `y` i_interface and j."""
    native = _native.plan_interfaces(x.described, y.described, native_links(topology, rank, 1), rank)
    return InterfacePlan((x, y), rank, "ndsl", native)


def synchronize_vector_interfaces(x: Any, y: Any, *, topology: Any, rank: int, transport: Any) -> None:
    """Makes the shared edges of a C-grid vector equal on both ranks. `x` and `y` are quantities with dims, origin and
    extent. For repeated use, keep an `Exchanger` of `compile_interfaces`."""
    field_x, field_y = (Field.like(q, q.dims, q.origin, q.extent) for q in (x, y))
    with Exchanger(compile_interfaces(field_x, field_y, topology, rank), transport, depth=1) as exchanger:
        exchanger.exchange([x, y])
