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
from damacy.halo import topology as topologies
from damacy.halo._arrays import layout_of, library_of, whole
from damacy.halo._errors import HaloError, InvalidArgument


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


class ExchangePlan:
    """The messages that a rank sends and receives. Allocates nothing; any number of exchangers may use it."""

    def __init__(self, fields: Sequence[Field], rank: int, wire: str, native: _native.ExchangePlan) -> None:
        self.fields = tuple(fields)
        self.rank = rank
        self.wire = wire
        self.phases = native.phases  # rounds of messages
        self.peers = native.peers
        self._native = native

    def adjoint(self) -> ExchangePlan:
        """The plan that sends the cells of halos back to their owners, which add them."""
        return ExchangePlan(self.fields, self.rank, self.wire, self._native.adjoint())

    def digests(self, peer: int) -> tuple[bytes, bytes]:
        """Digests of the message to the peer and of the message from it. The peer must have the same two."""
        sent, expected = self._native.digests(peer)
        return sent, expected


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
    links = topologies.native_links(_sized(topology, fields), rank, width)
    if len({(f.library, f.device) for f in fields}) > 1:
        raise InvalidArgument("expected fields of one library and one device")
    native = _native.plan_exchange(
        [f.described for f in fields],
        links,
        rank,
        int(width) if isinstance(width, Integral) else None,
        vectors,
        wire == "native",
    )
    return ExchangePlan(fields, rank, wire, native)


def _sized(topology: Any, fields: Sequence[Field]) -> Any:
    """The topology, with blocks of the fields' size if it has no sizes."""
    grid = getattr(topology, "grid", topology.dims)
    if len(topology.dims) != len(grid):
        raise InvalidArgument(f"grid {grid} over dimensions {topology.dims}: pass a name for each dimension (dims=)")
    if not isinstance(topology, topologies.Cartesian):
        return topology
    return topology.with_sizes(_native.halo_cells(fields[0].described, topology.dims))
