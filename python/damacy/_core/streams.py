"""Arguments of `Batch.release`: streams and events of any library. Knows how each library provides its handle; does not
call CUDA."""

from __future__ import annotations

import operator
from typing import Any

ALL_WORK = (1 << 64) - 1  # the handle that stands for every stream of the context: DLPack's stream=-1


def stream_handle(stream_or_event: Any) -> int | None:
    """The handle of a stream, in DLPack's numbering; None for None.

    For an event it is the handle of all work of the context, which includes the event. The host back end ignores both.
    """
    if stream_or_event is None:
        return None
    for handle in (_number, _protocol_handle, _stream_attribute, _event_attribute, _cupy_handle):
        if (found := handle(stream_or_event)) is not None:
            return found
    raise TypeError(f"expected None, a stream or an event (got {type(stream_or_event).__name__})")


def _number(x: Any) -> int | None:
    if isinstance(x, bool):
        return None
    try:
        number = operator.index(x)
    except TypeError:
        return None
    if number < -1 or number > ALL_WORK:
        raise TypeError(f"a stream is -1, 0, 1, 2 or a handle (got {number})")
    return ALL_WORK if number == -1 else number


def _protocol_handle(x: Any) -> int | None:
    if not hasattr(x, "__cuda_stream__"):
        return None
    protocol = x.__cuda_stream__
    _version, handle = protocol() if callable(protocol) else protocol
    return int(handle)


def _stream_attribute(x: Any) -> int | None:
    return _own_int(x, "cuda_stream")


def _event_attribute(x: Any) -> int | None:
    return None if _own_int(x, "cuda_event") is None else ALL_WORK


def _cupy_handle(x: Any) -> int | None:
    if not type(x).__module__.startswith("cupy") or (pointer := _own_int(x, "ptr")) is None:
        return None
    return pointer if "Stream" in type(x).__name__ else ALL_WORK


def _own_int(x: Any, name: str) -> int | None:
    value = getattr(x, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
