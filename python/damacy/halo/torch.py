"""Pads torch tensors with cells of neighbouring ranks, so that each rank computes its part of a convolution of the
whole image. Knows autograd; not how bytes are sent.

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

from damacy import _native
from damacy.halo._errors import HaloError, InvalidArgument
from damacy.halo.exchange import BoundExchange, Exchanger
from damacy.halo.exchange_plan import Field
from damacy.halo.exchange_plan import compile as compile_exchange
from damacy.halo.topology import Cartesian

_MOST_KINDS = 64  # of a plan


@dataclasses.dataclass
class PadPlan:
    """How many cells a tensor is padded with at each side of each dimension, and the ranks that they come from.

    `widths`: (before, after) for each dimension of the tensor. The exchanges for each kind of tensor (shape, type,
    device, memory order) are cached, those of the 64 kinds that were used last. All ranks must pad the same sequence of
    kinds, because they make the exchanges of a new kind together."""

    dims: tuple[str, ...]
    widths: tuple[tuple[int, int], ...]
    topology: Cartesian
    rank: int
    transport: Any
    _kinds: dict[Any, _Kind] = dataclasses.field(default_factory=dict, repr=False)
    _ambiguous: dict[tuple[int, ...], bool] = dataclasses.field(default_factory=dict, repr=False)

    def kind(self, padded: torch.Tensor, shape: tuple[int, ...]) -> _Kind:
        strides = _native.c_strides(padded.shape, 1) if self._is_ambiguous(shape) else padded.stride()
        key = (tuple(padded.shape), strides, padded.dtype, padded.device, shape)
        found = self._kinds.get(key)
        if found is None:
            while len(self._kinds) >= _MOST_KINDS:
                self._kinds.pop(next(iter(self._kinds))).close()
            like = torch.empty_strided(padded.shape, strides, dtype=padded.dtype, device=padded.device)
            found = self._kinds[key] = _Kind(self, key, like, shape)
        self.keep(found)
        return found

    def keep(self, kind: _Kind) -> bool:
        """Makes an open kind the one that was used last; False if it was closed. The order of use is the same on all
        ranks, and so are the kinds that are closed."""
        if self._kinds.get(kind.key) is not kind:
            return False
        self._kinds[kind.key] = self._kinds.pop(kind.key)
        return True

    def sized(self, shape: tuple[int, ...]) -> Cartesian:
        """The topology, with blocks of the tensor's size if it has no sizes."""
        sized: Cartesian = self.topology.with_sizes([shape[self.dims.index(d)] for d in self.topology.dims])
        return sized

    def _is_ambiguous(self, shape: tuple[int, ...]) -> bool:
        """Whether a rank has one cell along a decomposed dimension. Strides then do not tell the memory order of its
        tensors, but all ranks must construct the same exchangers."""
        found = self._ambiguous.get(shape)
        if found is None:
            if len(self._ambiguous) >= _MOST_KINDS:
                self._ambiguous.clear()
            found = any(cells < 2 for along in self.sized(shape).sizes or () for cells in along)
            self._ambiguous[shape] = found
        return found

    def padded_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return _native.padded_shape(self.dims, shape, self.widths)

    def interior(self, padded: torch.Tensor) -> torch.Tensor:
        return padded[_native.padded_interior(padded.shape, self.widths)]


def padding(
    topology: Cartesian,
    rank: int,
    width: int | Mapping[str, int | tuple[int, int]],
    transport: Any,
    *,
    dims: Sequence[str],
) -> PadPlan:
    """The plan of one rank. `dims`: a name for each dimension of the tensors, e.g. "ncdhw". `topology` names the
    decomposed dimensions. `width`: cells of padding, or a number or a pair for each decomposed dimension by name."""
    dims = tuple(dims)
    unknown = [name for name in (*topology.dims, *(width if isinstance(width, Mapping) else ())) if name not in dims]
    if unknown:
        raise InvalidArgument(f"dimensions {unknown} are not dimensions of the tensors: {dims}")
    widths = []
    for name in dims:
        given = width.get(name, 0) if isinstance(width, Mapping) else width if name in topology.dims else 0
        if given and name not in topology.dims:
            raise InvalidArgument(f"dimension {name} has a width but is not decomposed: {topology.dims}")
        widths += _native.halo_widths([given], 1)
    return PadPlan(dims, tuple(widths), topology, rank, transport)


class _Kind:
    """The exchanges of tensors of one shape, type, device and memory order."""

    def __init__(self, plan: PadPlan, key: Any, padded: torch.Tensor, shape: tuple[int, ...]) -> None:
        self.key = key
        names = plan.dims
        topology = plan.sized(shape)
        field = Field.like(padded, names, tuple(a for a, _ in plan.widths), shape)
        widths = [plan.widths[names.index(d)] for d in topology.dims]
        forward = compile_exchange([field], topology, plan.rank, widths)
        self.forward = Exchanger(forward, plan.transport)
        self.backward = Exchanger(forward.adjoint(), plan.transport)
        self.strides = padded.stride()
        # the padding beyond the ends of the domain, which no rank owns
        self.edges = _native.padded_edges(names, padded.shape, topology.dims, topology.unowned(plan.rank, widths))

    def close(self) -> None:
        self.forward.close()
        self.backward.close()

    def exchange(self, exchanger: Exchanger, padded: torch.Tensor) -> None:
        """Exchanges a tensor of any memory order."""
        if padded.stride() == self.strides:
            exchanger.exchange([padded])
            return
        own = torch.empty_strided(padded.shape, self.strides, dtype=padded.dtype, device=padded.device)
        own.copy_(padded)
        exchanger.exchange([own])
        padded.copy_(own)


def empty_padded(
    shape: Sequence[int],
    plan: PadPlan,
    *,
    dtype: torch.dtype | None = None,
    device: Any = None,
    memory_format: torch.memory_format = torch.contiguous_format,
) -> torch.Tensor:
    """An uninitialised tensor of `shape` whose storage has room for the halo around it."""
    padded = torch.empty(plan.padded_shape(shape), dtype=dtype, device=device, memory_format=memory_format)
    interior = plan.interior(padded)
    interior._damacy_room = _Room(padded, interior, plan)
    return interior


class _Room:
    """The padded tensor around a tensor made by `empty_padded`, and the exchange that fills its halo."""

    def __init__(self, padded: torch.Tensor, interior: torch.Tensor, plan: PadPlan) -> None:
        self.padded, self.plan = padded, plan
        self._place = interior.data_ptr(), interior.shape, interior.stride()
        self._filled: BoundExchange | None = None
        self._kind: _Kind | None = None

    def is_around(self, x: torch.Tensor) -> bool:
        """Whether `x` still uses its original storage: a tensor's storage can be replaced."""
        return (x.data_ptr(), x.shape, x.stride()) == self._place

    def fill(self, boundary: str) -> torch.Tensor:
        padded = self.padded.detach()
        if self._kind is None or not self.plan.keep(self._kind):
            self._kind = self.plan.kind(padded, tuple(self._place[1]))
            is_usual = padded.stride() == self._kind.strides
            self._filled = self._kind.forward.bind([padded]) if is_usual else None
        if boundary == "zeros":
            _clear_edges(padded, self._kind)
        if self._filled is None:
            self._kind.exchange(self._kind.forward, padded)
        else:
            self._filled.exchange()
        return padded


def _room(x: torch.Tensor, plan: PadPlan) -> _Room | None:
    """The room around `x`; None if `x` was not made by `empty_padded`, or for other widths."""
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
    _clear_edges(padded, kind)  # also for boundary="keep": new storage has nothing to keep
    kind.exchange(kind.forward, padded)
    return padded


def _new_storage(x: torch.Tensor, plan: PadPlan) -> torch.Tensor:
    """A new padded tensor in the memory order of `x`, with a copy of `x` inside."""
    shape = plan.padded_shape(x.shape)
    strides = _native.padded_strides(shape, x.shape, x.stride())
    padded = torch.empty_strided(shape, strides, dtype=x.dtype, device=x.device)
    plan.interior(padded).copy_(x)
    return padded


def _clear_edges(padded: torch.Tensor, kind: _Kind) -> None:
    for edge in kind.edges:
        padded[edge].zero_()


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
            kind.exchange(kind.backward, own)
            return plan.interior(own).clone(memory_format=torch.preserve_format)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        return _Pad.apply(gradient, ctx.plan, "zeros"), None, None, None


def pad(x: torch.Tensor, plan: PadPlan, *, boundary: str = "zeros") -> torch.Tensor:
    """`x` padded with cells of neighbouring ranks. Memory order is kept.

    If `x` was made by `empty_padded`, its halo is filled in place and `x` is not copied; else `x` is copied once.
    Padding at the ends of the domain is zero; with `boundary="keep"`, padding of `empty_padded` is left unchanged.

    The gradient is the exact adjoint, and can itself be differentiated."""
    if boundary not in ("zeros", "keep"):
        raise InvalidArgument(f"boundary {boundary!r}: expected 'zeros' or 'keep'")
    if not isinstance(plan, PadPlan):
        raise HaloError(f"plan: expected a PadPlan (got {type(plan).__name__})")
    if x.requires_grad or forward_ad._current_level >= 0:
        return _Pad.apply(x, plan, boundary)
    return _padded(x, plan, boundary)


__all__ = ["PadPlan", "empty_padded", "pad", "padding"]
