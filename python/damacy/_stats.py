"""`Stats` and `Metric`: what a pipeline counted. Knows the names; the native library does the counting."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Metric:
    """One stage: wall time added up, the best single observation (1e30 before the first), bytes, observations."""

    name: str
    ms: float
    best_ms: float
    input_bytes: float
    output_bytes: float
    count: int


@dataclasses.dataclass(frozen=True, slots=True)
class Stats:
    """Counts of one pipeline since it was made, or since `stats_reset`; the two `*_committed` are gauges."""

    plan: Metric
    io: Metric
    h2d: Metric
    decompress: Metric
    assemble: Metric
    pop_wait_io: Metric
    pop_wait_compute: Metric
    flush_wait: Metric
    zarr_meta_hits: int
    zarr_meta_misses: int
    shard_idx_hits: int
    shard_idx_misses: int
    batches_emitted: int
    batches_truncated: int
    waves_emitted: int
    gpu_bytes_committed: int
    chunks_decoded: int = 0
    chunks_deduplicated: int = 0
    bytes_read: int = 0
    reads_issued: int = 0
    samples_skipped: int = 0
    samples_filled: int = 0
    host_bytes_committed: int = 0
    chunks_decoded_on_host: int = 0


METRICS = tuple(field.name for field in dataclasses.fields(Stats))[:8]


def stats_from(native: Mapping[str, Any]) -> Stats:
    """`Stats` from the native dict: a metric is a dict of `Metric`'s fields, all else an int."""
    return Stats(**{k: _metric(k, v) if k in METRICS else int(v) for k, v in native.items()})


def _metric(name: str, native: Mapping[str, Any]) -> Metric:
    return Metric(
        name=name,
        ms=float(native["ms"]),
        best_ms=float(native["best_ms"]),
        input_bytes=float(native["input_bytes"]),
        output_bytes=float(native["output_bytes"]),
        count=int(native["count"]),
    )
