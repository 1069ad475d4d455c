"""Runs several transformers in one launch, by joining their plans and arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from damacy import _native
from damacy.halo._errors import InvalidArgument


def _many(items: Sequence[tuple[Any, Any, Any]], unpack: bool, stream: Any, after: Any) -> None:
    gathered = [(t, t._gather(x, y)) for t, x, y in items]
    if not gathered:
        return
    for t, arrays in gathered:
        t._check_place(arrays)
    joined = _native.joined_arrays([arrays for _, arrays in gathered])
    first = gathered[0][0]
    if any(type(t) is not type(first) for t, _ in gathered):
        raise InvalidArgument("expected transformers of one place: host and device arrays cannot share a launch")
    copies = _native.bind_transformers([(t._native, a, t._buffer(unpack).address) for t, a in gathered], unpack)
    if not first._on_device and joined.device is not None:  # messages cross between host and device
        for t, arrays in gathered:
            t._bound(unpack, arrays, t._copies(unpack, arrays))(stream, after)
        return
    others = [t for t, _ in gathered if t is not first] if first._on_device else []
    for t in others:
        t._queue.precedes(first._queue)
    first._bound(unpack, joined, copies)(stream, after)
    for t in others:
        t._queue.joins(first._queue, t._buffer(unpack))


def pack_many(items: Sequence[tuple[Any, Any, Any]], *, stream: Any = None) -> None:
    """Packs for several (transformer, quantities_x, quantities_y) in one launch."""
    _many(items, False, stream, None)


def unpack_many(items: Sequence[tuple[Any, Any, Any]], *, stream: Any = None, after: Any = None) -> None:
    """Unpacks for several (transformer, quantities_x, quantities_y) in one launch."""
    _many(items, True, stream, after)


__all__ = ["pack_many", "unpack_many"]
