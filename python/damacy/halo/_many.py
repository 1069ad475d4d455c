"""Runs several transformers in one launch, by joining their plans and arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from damacy.halo._errors import InvalidArgument
from damacy.halo._gather import Arrays
from damacy.halo._plans import halo_plan


def _many(items: Sequence[tuple[Any, Any, Any]], unpack: bool, stream: Any, after: Any) -> None:
    gathered = [(t, t._gather(x, y)) for t, x, y in items]
    if not gathered:
        return
    if not unpack and len({id(t) for t, _ in gathered}) < len(gathered):
        raise InvalidArgument("pack_many: each transformer may be listed once, because it has one pack buffer")
    fields: tuple[Any, ...] = ()
    messages = []
    for t, arrays in gathered:
        t._check_place(arrays)
        messages.append(t._message(unpack, len(fields)))
        fields += t._fields(arrays.strides)
    plan = halo_plan(fields, tuple(messages), unpack=unpack)
    joined = Arrays.joined([arrays for _, arrays in gathered])
    bases = [*joined.addresses, *(t._buffer(unpack).address for t, _ in gathered)]
    if unpack:
        joined.check_writable()
        plan.check_overlaps(bases)
    first = gathered[0][0]
    if any(type(t) is not type(first) for t, _ in gathered):
        raise InvalidArgument("expected transformers of one place: host and device arrays cannot share a launch")
    if not first._on_device and joined.device is not None:
        return _one_by_one(gathered, unpack, stream, after)
    if not first._on_device:
        first._run(unpack, joined, plan, bases, stream, after)
        return
    others = [t for t, _ in gathered if t is not first]
    for t in others:
        t._queue.precedes(first._queue)
    first._run(unpack, joined, plan, bases, stream, after)
    for t in others:
        t._queue.joins(first._queue, t._buffer(unpack))


def _one_by_one(gathered: Sequence[tuple[Any, Arrays]], unpack: bool, stream: Any, after: Any) -> None:
    """Runs transformers one after the other; used if messages cross between host and device."""
    for t, arrays in gathered:
        plan = t._plan_of(unpack, arrays)
        t._run(unpack, arrays, plan, t._bases(unpack, arrays, plan), stream, after)


def pack_many(items: Sequence[tuple[Any, Any, Any]], *, stream: Any = None) -> None:
    """Packs for several (transformer, quantities_x, quantities_y) in one launch."""
    _many(items, False, stream, None)


def unpack_many(items: Sequence[tuple[Any, Any, Any]], *, stream: Any = None, after: Any = None) -> None:
    """Unpacks for several (transformer, quantities_x, quantities_y) in one launch."""
    _many(items, True, stream, after)


__all__ = ["pack_many", "unpack_many"]
