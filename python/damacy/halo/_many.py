"""Several transformers in one launch. Knows how their parts are put together; not what a transformer is."""

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
        raise InvalidArgument("one transformer is to pack twice into its buffer at once")
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
        raise InvalidArgument("transformers of host and of device arrays cannot be run together")
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
    """Messages that cross to the host or from there do so by themselves."""
    for t, arrays in gathered:
        plan = t._plan_of(unpack, arrays)
        t._run(unpack, arrays, plan, t._bases(unpack, arrays, plan), stream, after)


def pack_many(items: Sequence[tuple[Any, Any, Any]], *, stream: Any = None) -> None:
    """Packs for several (transformer, quantities_x, quantities_y) at once: one launch for all of them."""
    _many(items, False, stream, None)


def unpack_many(items: Sequence[tuple[Any, Any, Any]], *, stream: Any = None, after: Any = None) -> None:
    """Unpacks for several (transformer, quantities_x, quantities_y) at once: one launch for all of them."""
    _many(items, True, stream, after)


__all__ = ["pack_many", "unpack_many"]
