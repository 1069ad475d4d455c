"""Cache of compiled plans. The key holds everything that a plan depends on. Knows keys; not arrays."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from damacy import _native

MOST_PLANS = 1024

_lock = threading.Lock()


class _Cache(OrderedDict[Any, Any]):
    """Maps keys to plans, least recently used first. Users may clear it at any time."""

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

    * `fields`: (dtype, shape, strides, i axis, j axis, strides that order the axes of a native wire, or None).
    * messages: (entries, whether native). An entry is (x box, y box or None, quarter turns).
    * directs: (entry, x box, y box or None). A box is (field, start, stop).

    All of it is the key.
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
