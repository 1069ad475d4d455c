"""Counters of native reads: those of the native library, and those that Python counts."""

from __future__ import annotations

from collections import Counter

# Counted in Python: reads by zarr-python's own pipeline.
counted: Counter[str] = Counter()
_BUS_COUNTERS = ("h2d_bytes", "h2d_copies", "d2h_bytes")


def stats() -> dict[str, int]:
    """Counters since `reset_stats()`: reads, items, chunks and bytes of native reads, look-ups in caches, and
    reads that fell back."""
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
