"""`Stats` and `Metric`: the counters of a pipeline. The native library counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Metric:
    """One stage: total wall time, the best single observation (1e30 before the first), bytes, number of observations.

    >>> Metric("io", ms=3.5, best_ms=0.25, input_bytes=2e6, output_bytes=1.5e6, count=12)
    <Metric io: 12 in 3.50 ms, best 0.250 ms, 2.00 MB in, 1.50 MB out>
    """

    __module__ = "damacy"

    name: str
    ms: float
    best_ms: float
    input_bytes: float
    output_bytes: float
    count: int

    def __str__(self) -> str:
        if self.count == 0:
            return f"{self.name}: none yet"
        sizes = [(self.input_bytes, "in"), (self.output_bytes, "out")]
        moved = "".join(f", {size / 1e6:.2f} MB {way}" for size, way in sizes if size)
        return f"{self.name}: {self.count} in {self.ms:.2f} ms, best {self.best_ms:.3f} ms{moved}"

    def __repr__(self) -> str:
        return f"<Metric {self}>"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Stats:
    """Counts of one pipeline since it was made, or since `stats_reset`; the `*_committed` are gauges.

    `gpu_bytes_committed` is the memory of slots and of decoding, on the device. With `device="cpu"` that is host
    memory, and what the pipeline takes is the sum of `gpu_bytes_committed` and `host_bytes_committed`.

    `slots_added` and `slots_dropped` count slots beyond `Config.n_batches`; `kept_bytes_committed` is what such slots
    take now, at most `Config.keep_bytes`, and is part of `gpu_bytes_committed`. `bytes_padded` counts bytes of batches
    that lie beyond the arrays (`ArraySpec.pad`).

    `cache_*` count chunks and `Config.cache_bytes`: each stored chunk of a batch is looked up once, which is a hit or a
    miss; chunks that are decoded are kept if there is room, and may be evicted. `cache_*_bytes` are decoded bytes.
    `device_cache_*` and `host_cache_*` count the same for `Config.device_cache_bytes` and `host_cache_bytes`; their
    bytes are encoded bytes. A chunk is looked up on the host if the device does not have it.

    `disk_*` count entries of `Config.disk_cache`: chunks, shard indices and documents of remote stores, in encoded
    bytes. An entry is looked up if memory does not have it. `disk_dropped` are entries that could not be written in
    time.

    `requests` counts what the pipeline's remote stores asked their servers for, and `requests_repeated` those that were
    sent again after a failure; `requests_throttled` were answered 429 or 503. `requests_hedged` were sent once more
    because their first byte was late (`StoreOptions.hedge`), and of `hedges_won` the second answer came first.
    `requests_in_flight` is a gauge, and so is `requests_in_flight_best`: how many were allowed under way to its server
    when the pipeline sent its last request. `bytes_received` are bytes of bodies, `connections_opened` new connections.
    `documents_revalidated` counts objects that were asked for again because what was known of them was older than
    `StoreOptions.revalidate_s`. `first_byte` is the time from a request to the first byte of its answer. Stores that
    Python reads are not counted.

    `print` shows the counters that are not 0; `dataclasses.asdict` returns all.
    """

    __module__ = "damacy"

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
    slots_added: int = 0
    slots_dropped: int = 0
    kept_bytes_committed: int = 0
    bytes_padded: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    cache_kept: int = 0
    cache_evicted: int = 0
    cache_hits_bytes: int = 0
    cache_misses_bytes: int = 0
    cache_kept_bytes: int = 0
    cache_evicted_bytes: int = 0
    host_cache_hits: int = 0
    host_cache_misses: int = 0
    host_cache_kept: int = 0
    host_cache_evicted: int = 0
    host_cache_hits_bytes: int = 0
    host_cache_misses_bytes: int = 0
    host_cache_kept_bytes: int = 0
    host_cache_evicted_bytes: int = 0
    device_cache_hits: int = 0
    device_cache_misses: int = 0
    device_cache_kept: int = 0
    device_cache_evicted: int = 0
    device_cache_hits_bytes: int = 0
    device_cache_misses_bytes: int = 0
    device_cache_kept_bytes: int = 0
    device_cache_evicted_bytes: int = 0
    disk_hits: int = 0
    disk_misses: int = 0
    disk_kept: int = 0
    disk_evicted: int = 0
    disk_dropped: int = 0
    disk_hits_bytes: int = 0
    disk_misses_bytes: int = 0
    disk_kept_bytes: int = 0
    disk_evicted_bytes: int = 0
    disk_dropped_bytes: int = 0
    requests: int = 0
    requests_repeated: int = 0
    requests_throttled: int = 0
    requests_hedged: int = 0
    hedges_won: int = 0
    requests_in_flight: int = 0
    requests_in_flight_best: int = 0
    connections_opened: int = 0
    bytes_received: int = 0
    documents_revalidated: int = 0
    first_byte: Metric = Metric("first_byte", 0, 1e30, 0, 0, 0)

    def __repr__(self) -> str:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        lines = [str(value) for value in values.values() if isinstance(value, Metric) and value.count]
        lines += [f"{name}: {value}" for name, value in values.items() if isinstance(value, int) and value]
        return "\n  ".join(["Stats:", *lines])


METRICS = tuple(field.name for field in dataclasses.fields(Stats) if field.type == "Metric")


def stats_from(native: Mapping[str, Any]) -> Stats:
    """`Stats` from the native dict: a metric is a dict of `Metric`'s fields, all other values are integers."""
    values: dict[str, Any] = {k: _metric(k, v) if k in METRICS else int(v) for k, v in native.items()}
    return Stats(**values)


def _metric(name: str, native: Mapping[str, Any]) -> Metric:
    return Metric(
        name=name,
        ms=float(native["ms"]),
        best_ms=float(native["best_ms"]),
        input_bytes=float(native["input_bytes"]),
        output_bytes=float(native["output_bytes"]),
        count=int(native["count"]),
    )
