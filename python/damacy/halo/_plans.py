"""Compiled plans, kept by all that they depend on. Knows keys; not arrays."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from damacy import _native

MOST_PLANS = 1024

_lock = threading.Lock()


class _Cache(OrderedDict[Any, Any]):
    """Keys to plans, least recently used first. Users may clear it at any time."""

    def clear(self) -> None:
        with _lock:
            super().clear()


INDICES_CACHE: OrderedDict[Any, Any] = _Cache()


def halo_plan(
    fields: tuple[Any, ...],
    messages: tuple[Any, ...],
    directs: tuple[Any, ...] = (),
    *,
    unpack: bool,
    adjoint: bool = False,
) -> Any:
    """The plan of these messages.

    `fields`: (dtype, shape, strides, i axis, j axis, and the strides that rank a native wire's axes if others do);
    messages: (entries, whether native), an entry being (x box, y box or None, quarter turns), a box (field, start,
    stop); directs: (entry, x box, y box or None). The key is all of it.
    """
    key = (fields, messages, directs, unpack, adjoint)
    with _lock:
        plan = INDICES_CACHE.get(key)
        if plan is not None:
            INDICES_CACHE.move_to_end(key)
            return plan
    plan = _native.compile_halo(fields, messages, directs, unpack, adjoint)
    with _lock:
        INDICES_CACHE[key] = plan
        while len(INDICES_CACHE) > MOST_PLANS:
            INDICES_CACHE.popitem(last=False)
    return plan
