"""Compiled plans, kept by all that they depend on. Knows keys; not arrays."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from damacy import _native

MOST_PLANS = 1024

INDICES_CACHE: OrderedDict[Any, Any] = OrderedDict()
_lock = threading.Lock()


def halo_plan(messages: tuple[Any, ...], unpack: bool, adjoint: bool = False) -> Any:
    """The plan of these messages: each (x specs, y specs or None, whether native)."""
    key = (messages, unpack, adjoint)
    with _lock:
        plan = INDICES_CACHE.get(key)
        if plan is not None:
            INDICES_CACHE.move_to_end(key)
            return plan
    plan = _native.compile_halo(messages, unpack, adjoint)
    with _lock:
        INDICES_CACHE[key] = plan
        while len(INDICES_CACHE) > MOST_PLANS:
            INDICES_CACHE.popitem(last=False)
    return plan
