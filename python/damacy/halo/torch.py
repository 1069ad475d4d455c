"""Padding of torch tensors with what their neighbours have: a convolution on a part of an image equals the part of the
convolution. Knows autograd; not how bytes travel.

    plan = padding(Cartesian((2,), False, dims=("h",)), rank, 1, transport, dims="nchw")
    x = empty_padded((1, 64, 32, 64), plan)
    y = conv(pad(x, plan))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from damacy.halo import _plans
from damacy.halo._errors import HaloError, InvalidArgument
from damacy.halo.exchange import BoundExchange, Exchanger
from damacy.halo.exchange_plan import ExchangePlan, Field, Phase
from damacy.halo.exchange_plan import compile as compile_exchange
from damacy.halo.topology import Cartesian, halves


@dataclasses.dataclass
class PadPlan:
    """How much a tensor of `shape` gets at each side of each dimension, and from whom.

    `widths`: (before, after) for each dimension of the tensor. Tensors of one plan share type and memory order with the
    first one of their kind; the exchanges of each kind are kept."""

    dims: tuple[str, ...]
    widths: tuple[tuple[int, int], ...]
    topology: Cartesian
    rank: int
    transport: Any
    _kinds: dict[Any, _Kind] = dataclasses.field(default_factory=dict, repr=False)

    def kind(self, padded: torch.Tensor, shape: tuple[int, ...]) -> _Kind:
        key = (tuple(padded.shape), padded.stride(), padded.dtype, padded.device, shape)
        found = self._kinds.get(key)
        if found is None:
            found = self._kinds[key] = _Kind(self, padded, shape)
        return found

    def padded_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        if len(shape) != len(self.dims):
            raise InvalidArgument(f"a tensor of shape {tuple(shape)} for dims {self.dims}")
        return tuple(n + a + b for n, (a, b) in zip(shape, self.widths))

    def interior(self, padded: torch.Tensor) -> torch.Tensor:
        index = tuple(slice(a, n - b) for n, (a, b) in zip(padded.shape, self.widths))
        return padded[index]


def padding(
    topology: Cartesian,
    rank: int,
    width: int | Mapping[str, int | tuple[int, int]],
    transport: Any,
    *,
    dims: Sequence[str],
) -> PadPlan:
    """The plan of one rank. `dims`: a name for each dimension of the tensors, e.g. "ncdhw"; `topology` names those that
    are decomposed. `width`: cells a decomposed dimension, or one number (or pair) for each by name."""
    dims = tuple(dims)
    unknown = [name for name in (*topology.dims, *(width if isinstance(width, Mapping) else ())) if name not in dims]
    if unknown:
        raise InvalidArgument(f"dimensions {unknown} are none of the tensors' {dims}")
    widths = []
    for name in dims:
        given = width.get(name, 0) if isinstance(width, Mapping) else width if name in topology.dims else 0
        if given and name not in topology.dims:
            raise InvalidArgument(f"dimension {name} is padded and not decomposed over {topology.dims}")
        widths += halves([given], 1)
    return PadPlan(dims, tuple(widths), topology, rank, transport)


class _Adjoint(ExchangePlan):
    """Halo gradients go home: what unpacked is read and sent back, what packed receives and adds."""

    def __init__(self, plan: ExchangePlan) -> None:
        phases = [Phase(p.receives, p.sends, p.directs) for p in reversed(plan.phases)]
        super().__init__(plan.fields, plan.rank, plan.wire, phases)

    def pack(self, phase: Phase, adjoint: bool = False) -> Any:
        # From the halos into the buffers: the forward's unpacking, read the other way.
        return self._back(phase.sends, [], False)

    def unpack(self, phase: Phase, adjoint: bool = False) -> Any:
        return self._back(phase.receives, phase.directs, True)

    def _back(self, entries: dict[int, list[Any]], directs: list[Any], adds: bool) -> Any:
        messages = tuple((tuple(entries[peer]), self.wire == "native") for peer in sorted(entries))
        fields = tuple(f.native for f in self.fields)
        # unpack=False reads fields; the adjoint of packing adds to fields.
        return _plans.halo_plan(fields, messages, tuple(directs), unpack=False, adjoint=adds)

    def digests(self, peer: int) -> tuple[bytes, bytes]:
        return b"adjoint", b"adjoint"  # the forward exchange has compared them


class _Kind:
    """The exchanges of tensors of one shape, type, device and memory order."""

    def __init__(self, plan: PadPlan, padded: torch.Tensor, shape: tuple[int, ...]) -> None:
        names = plan.dims
        decomposed = [names.index(d) for d in plan.topology.dims]
        topology = plan.topology.with_sizes([shape[a] for a in decomposed])
        field = Field.like(padded, names, tuple(a for a, _ in plan.widths), shape)
        widths = [plan.widths[a] for a in decomposed]
        forward = compile_exchange([field], topology, plan.rank, widths)
        self.forward = Exchanger(forward, plan.transport)
        self.backward = Exchanger(_Adjoint(forward), plan.transport)
        self.physical = self._physical(plan, topology, decomposed)

    @staticmethod
    def _physical(plan: PadPlan, topology: Cartesian, decomposed: list[int]) -> list[tuple[int, int, int]]:
        """(dimension, first cell of the padded tensor, cells) beyond the domain's ends, which no rank owns."""
        out = []
        places = zip(decomposed, topology.coordinates(plan.rank), topology._known_sizes, topology.periodic)
        for axis, at, sizes, periodic in places:
            before, after = plan.widths[axis]
            outside_before, outside_after = before - sum(sizes[:at]), after - sum(sizes[at + 1 :])
            if not periodic and outside_before > 0:
                out.append((axis, 0, outside_before))
            if not periodic and outside_after > 0:
                out.append((axis, before + sizes[at] + after - outside_after, outside_after))
        return out


def empty_padded(
    shape: Sequence[int],
    plan: PadPlan,
    *,
    dtype: torch.dtype | None = None,
    device: Any = None,
    memory_format: torch.memory_format = torch.contiguous_format,
) -> torch.Tensor:
    """An interior tensor of `shape` whose storage has room for the halo around it; contents are undefined."""
    padded = torch.empty(plan.padded_shape(shape), dtype=dtype, device=device, memory_format=memory_format)
    interior = plan.interior(padded)
    interior._damacy_room = _Room(padded, interior, plan)
    return interior


class _Room:
    """The padded tensor around an interior of empty_padded, and the exchange that fills its halo."""

    def __init__(self, padded: torch.Tensor, interior: torch.Tensor, plan: PadPlan) -> None:
        self.padded, self.plan = padded, plan
        self._place = interior.data_ptr(), interior.shape, interior.stride()
        self._filled: BoundExchange | None = None
        self._kind: _Kind | None = None

    def is_around(self, x: torch.Tensor) -> bool:
        """Whether `x` is still where it was made: tensors can be given other storage."""
        return (x.data_ptr(), x.shape, x.stride()) == self._place

    def fill(self, boundary: str) -> torch.Tensor:
        padded = self.padded.detach()
        if self._filled is None or self._kind is None:
            self._kind = self.plan.kind(padded, tuple(self._place[1]))
            self._filled = self._kind.forward.bind([padded])
        if boundary == "zeros":
            _clear_edges(padded, self._kind)
        self._filled.exchange()
        return padded


def _room(x: torch.Tensor, plan: PadPlan) -> _Room | None:
    """What empty_padded left around `x`; None if `x` is not of it, or was made for other widths."""
    room: _Room | None = getattr(x, "_damacy_room", None)
    if room is None or not room.is_around(x):
        return None
    if room.plan is plan:
        return room
    return _Room(room.padded, x, plan) if room.plan.widths == plan.widths else None


def _padded(x: torch.Tensor, plan: PadPlan, boundary: str) -> torch.Tensor:
    """Not differentiated."""
    room = _room(x, plan)
    if room is not None:
        return room.fill(boundary)
    padded = _new_storage(x.detach(), plan)
    kind = plan.kind(padded, tuple(x.shape))
    _clear_edges(padded, kind)  # whatever the boundary: there is nothing to keep
    kind.forward.exchange([padded])
    return padded


def _order_of(x: torch.Tensor) -> list[int]:
    return sorted(range(x.dim()), key=lambda a: (-x.stride(a), a))


def _new_storage(x: torch.Tensor, plan: PadPlan) -> torch.Tensor:
    """Padded, in the memory order of `x`, with `x` copied in."""
    shape, order = plan.padded_shape(x.shape), _order_of(x)
    padded = torch.empty([shape[a] for a in order], dtype=x.dtype, device=x.device)
    padded = padded.permute([order.index(a) for a in range(x.dim())])
    plan.interior(padded).copy_(x)
    return padded


def _clear_edges(padded: torch.Tensor, kind: _Kind) -> None:
    for axis, first, cells in kind.physical:
        padded.narrow(axis, first, cells).zero_()


class _Pad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, plan: PadPlan, boundary: str) -> torch.Tensor:
        ctx.plan, ctx.shape, ctx.boundary = plan, tuple(x.shape), boundary
        with torch.no_grad():
            return _padded(x, plan, boundary)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        return _PadBackward.apply(gradient, ctx.plan, ctx.shape, ctx.boundary), None, None


class _PadBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradient: torch.Tensor, plan: PadPlan, shape: Any, boundary: str) -> torch.Tensor:
        ctx.plan, ctx.boundary = plan, boundary
        with torch.no_grad():
            own = gradient.detach().clone(memory_format=torch.preserve_format)
            kind = plan.kind(own, shape)
            kind.backward.exchange([own])
            return plan.interior(own).clone(memory_format=torch.preserve_format)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        return _Pad.apply(gradient, ctx.plan, "zeros"), None, None, None


def pad(x: torch.Tensor, plan: PadPlan, *, boundary: str = "zeros") -> torch.Tensor:
    """The padded tensor. If `x` is what `empty_padded` gave, its halo is filled in place and `x` is not copied; else it
    is copied once. Memory order is kept. At physical edges: zeros, or what an interior has there (`boundary="keep"`).

    The gradient is the exact adjoint, and can be differentiated in turn."""
    if boundary not in ("zeros", "keep"):
        raise InvalidArgument(f"boundary {boundary!r}: expected 'zeros' or 'keep'")
    if not isinstance(plan, PadPlan):
        raise HaloError(f"plan: expected a PadPlan (got {type(plan).__name__})")
    if x.requires_grad or forward_ad._current_level >= 0:
        return _Pad.apply(x, plan, boundary)
    return _padded(x, plan, boundary)


__all__ = ["PadPlan", "empty_padded", "pad", "padding"]
