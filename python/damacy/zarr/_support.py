"""What users ask about native reading: whether an array is, why not, and what was done so far."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

# Counters of what Python sees; the native ones are beside the threads that count.
counted: Counter[str] = Counter()
_BUS_COUNTERS = ("h2d_bytes", "h2d_copies", "d2h_bytes")


@dataclass(frozen=True)
class Support:
    """Whether reads of an array are native; `reason` says why not."""

    native: bool
    reason: str | None
    backend: Literal["host", "cuda"] | None


Support.__module__ = "damacy.zarr"


def support(array: Any) -> Support:
    """Looks at an opened `zarr.Array` or `AsyncArray`; one that was opened without our pipeline is not native.

    Raises `TypeError` for anything else, a group for example."""
    from damacy.zarr._pipeline import CodecPipeline
    from damacy.zarr._switch import backend

    pipeline = getattr(array, "async_array", None) or getattr(array, "_async_array", None) or array
    pipeline = getattr(pipeline, "codec_pipeline", None)
    if pipeline is None:
        raise TypeError(
            f"support: expected an opened zarr.Array, of a group one of its arrays (got {type(array).__name__})"
        )
    if not isinstance(pipeline, CodecPipeline):
        return Support(False, "the array was opened with another codec pipeline: enable() comes before opening", None)
    if pipeline.reason is not None:
        return Support(False, pipeline.reason, None)
    return Support(True, None, backend())


def stats() -> dict[str, int]:
    """Counters since `reset_stats()`: reads, items, chunks and bytes of native reads, and reads that fell back."""
    from damacy import _native
    from damacy._device.memory import transfers

    reads = _native.device_read_counters()
    bus = {name: transfers[name] + reads.get(name, 0) for name in _BUS_COUNTERS}
    return {**_native.read_counters(), "fallback_reads": counted["fallback_reads"], **bus}


def reset_stats() -> None:
    from damacy import _native
    from damacy._device.memory import transfers

    _native.reset_read_counters()
    _native.device_read_counters(reset=True)
    counted.clear()
    transfers.clear()
