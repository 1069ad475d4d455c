"""Counters in scenarios in which every read and decode is known."""

import dataclasses

import numpy as np
import pytest
from support import writers
from support.layout import Compressor, Layout
from support.line import drained, popped
from support.streaming import Stored, pipeline, store

import damacy

METRICS = ("plan", "io", "h2d", "decompress", "assemble", "pop_wait_io", "pop_wait_compute", "flush_wait")
COUNTERS = (
    "zarr_meta_hits zarr_meta_misses shard_idx_hits shard_idx_misses batches_emitted batches_truncated waves_emitted "
    "gpu_bytes_committed chunks_decoded chunks_deduplicated bytes_read reads_issued samples_skipped samples_filled "
    "host_bytes_committed chunks_decoded_on_host slots_added slots_dropped kept_bytes_committed"
).split()
GAUGES = {"gpu_bytes_committed", "host_bytes_committed", "kept_bytes_committed"}


def run(p, samples):
    """Pushes and flushes one run and pops all batches; returns the counters of only this run."""
    p.stats_reset()
    p.push(samples)
    p.flush()
    drained_batches = 0
    while True:
        try:
            p.pop().release()
            drained_batches += 1
        except damacy.PopTimeout:
            raise
        except damacy.TryAgain:
            break
    stats = p.stats()
    assert stats.batches_emitted == drained_batches
    return stats


def test_fields_names_and_types():
    with pipeline() as p:
        stats = p.stats()
    names = [f.name for f in dataclasses.fields(damacy.Stats)] if dataclasses.is_dataclass(stats) else list(METRICS)
    assert tuple(names[:8]) == METRICS
    for name in METRICS:
        metric = getattr(stats, name)
        assert isinstance(metric, damacy.Metric) and metric.name == name
        assert (metric.ms, metric.best_ms, metric.input_bytes, metric.output_bytes, metric.count) == (0, 1e30, 0, 0, 0)
    for name in COUNTERS:
        assert isinstance(getattr(stats, name), int)
        if name not in GAUGES:
            assert getattr(stats, name) == 0
    with pytest.raises(AttributeError):
        stats.bytes_read = 3


def test_printed_statistics_equal_the_counters(volume):
    with pipeline(batch_size=4) as p:
        assert "1e+30" not in str(p.stats()) and str(p.stats().io) == "io: none yet"
        stats = run(p, [volume.sample((0, 8), (0, 8))] * 4)
    lines = [line.strip() for line in str(stats).splitlines()]
    assert f"bytes_read: {stats.bytes_read}" in lines and "batches_emitted: 1" in lines
    assert any(line.startswith(f"io: {stats.io.count} in ") for line in lines)
    assert not any(line.startswith(("h2d", "batches_truncated")) for line in lines)


def test_each_distinct_chunk_of_a_batch_is_read_and_decoded_once(volume):
    with pipeline(batch_size=4) as p:
        # All four boxes lie in the same four chunks; two more chunks are touched by one each.
        inside = [volume.sample((8 + k, 24 + k), (8 + k, 24 + k)) for k in range(4)]
        stats = run(p, inside)
        assert stats.chunks_decoded == 4
        assert stats.chunks_deduplicated == 12
        assert stats.bytes_read == 4 * 512
        assert stats.reads_issued == 4
        assert stats.chunks_decoded_on_host in (0, 4)
        assert stats.io.count == 4 and stats.io.input_bytes == stats.io.output_bytes == 4 * 512
        assert stats.batches_emitted == 1 and stats.batches_truncated == 0
        assert stats.plan.count == 1 and stats.plan.output_bytes == 4 * 16 * 16 * 4
        assert stats.assemble.count == stats.waves_emitted >= 1
        assert stats.assemble.output_bytes == 4 * 16 * 16 * 4
        assert stats.h2d.count == 0


def test_decoding_counts_bytes_in_and_out(tmp_path):
    stored = store(tmp_path / "a", (4000,), (1000,), "uint16", compressor=Compressor("zstd"))
    with pipeline(batch_size=2) as p:
        stats = run(p, [stored.sample((0, 3000)), stored.sample((500, 3500))])
        assert stats.decompress.count == stats.waves_emitted >= 1
        assert (
            stats.decompress.input_bytes == stats.bytes_read == sum(stored.object(k).stat().st_size for k in range(4))
        )
        assert stats.decompress.output_bytes == 4 * 2000
        assert stats.chunks_decoded == stats.chunks_decoded_on_host == 4


def test_deduplication_holds_however_small_the_buffers(tmp_path):
    size = 1 << 16
    stored = store(tmp_path / "a", (16 * size,), (size,), "uint8", compressor=Compressor("zstd"))
    least = 2 * size + (128 << 10)
    with pipeline(batch_size=32, host_buffer_bytes=least, device_buffer_bytes=least, n_io_threads=2) as p:
        stats = run(p, [stored.sample((k % 16 * size, k % 16 * size + size)) for k in range(32)])
        assert stats.chunks_decoded == 16 and stats.chunks_deduplicated == 16
        assert stats.reads_issued == 16


def test_missing_chunks_cost_no_read(tmp_path):
    layout = Layout(shape=(64,), chunks=(8,), dtype="uint16", fill_bits=9)
    bits = np.full(64, 9, np.uint16)
    bits[16:24] = 5
    writers.write_by_hand(layout, bits, tmp_path / "a")
    with pipeline(batch_size=1) as p:
        stats = run(p, [Stored(tmp_path / "a", layout, bits).sample((0, 64))])
        assert (stats.reads_issued, stats.bytes_read, stats.chunks_decoded) == (1, 16, 1)


def test_metadata_is_counted_by_hits_and_misses(volume, line):
    with pipeline(batch_size=2) as p:
        stats = run(p, line.all([1]))
        assert (stats.zarr_meta_misses, stats.zarr_meta_hits) == (1, 0)
        stats = run(p, line.all([2]))
        assert (stats.zarr_meta_misses, stats.zarr_meta_hits) == (0, 1)


def index_stats(stored, boxes, **options):
    """The counters of a second run, so that metadata and index are cached; and of the first, cold one."""
    with pipeline(batch_size=len(boxes), **options) as p:
        samples = [stored.sample(*box) for box in boxes]
        return run(p, samples), run(p, samples)


@pytest.fixture
def sharded(tmp_path):
    """One shard of 8 raw chunks of 1,000 bytes, payload in C order without gaps."""
    bits = (np.arange(8000) % 250 + 1).astype(np.uint8)
    layout = Layout(shape=(8000,), chunks=(1000,), shards=(8000,), dtype="uint8")
    writers.write_by_hand(layout, bits, tmp_path / "a")
    return Stored(tmp_path / "a", layout, bits)


def test_a_shard_index_is_read_once_and_then_cached(sharded):
    cold, warm = index_stats(sharded, [((0, 10),)])
    assert (cold.shard_idx_misses, warm.shard_idx_misses) == (1, 0)
    assert warm.shard_idx_hits >= 1
    assert (warm.reads_issued, warm.bytes_read, warm.chunks_decoded) == (1, 1000, 1)


def test_neighbours_in_a_shard_are_read_in_one_request(sharded):
    _, warm = index_stats(sharded, [((0, 8000),)])
    assert (warm.reads_issued, warm.bytes_read, warm.chunks_decoded) == (1, 8000, 8)
    assert warm.io.count == 1 and warm.io.input_bytes == warm.io.output_bytes == 8000


def test_gaps_up_to_4_kib_are_read_along_and_counted(sharded):
    # Chunks 0 and 5 lie 4,000 bytes apart; chunks 0 and 6 lie 5,000 bytes apart.
    _, near = index_stats(sharded, [((0, 10),), ((5000, 5010),)])
    assert (near.reads_issued, near.bytes_read, near.chunks_decoded) == (1, 6000, 2)
    assert (near.io.input_bytes, near.io.output_bytes) == (6000, 2000)
    _, far = index_stats(sharded, [((0, 10),), ((6000, 6010),)])
    assert (far.reads_issued, far.bytes_read, far.chunks_decoded) == (2, 2000, 2)


@pytest.mark.parametrize("gap,requests", [(4096, 1), (4097, 2)])
def test_the_gap_limit_to_the_byte(tmp_path, gap, requests):
    bits = np.arange(1, 3, dtype=np.uint8)
    layout = Layout(shape=(2,), chunks=(1,), shards=(2,), dtype="uint8")
    writers.write_by_hand(layout, bits, tmp_path / "a", gap=bytes(gap))
    _, warm = index_stats(Stored(tmp_path / "a", layout, bits), [((0, 2),)])
    assert warm.reads_issued == requests
    assert warm.bytes_read == (2 + gap if requests == 1 else 2)


def test_merged_requests_end_at_1_mib(tmp_path):
    chunk = 256 << 10
    bits = (np.arange(12 * chunk) % 250 + 1).astype(np.uint8)
    layout = Layout(shape=(12 * chunk,), chunks=(chunk,), shards=(12 * chunk,), dtype="uint8")
    writers.write_by_hand(layout, bits, tmp_path / "a")
    _, warm = index_stats(Stored(tmp_path / "a", layout, bits), [((0, 12 * chunk),)])
    assert (warm.reads_issued, warm.bytes_read) == (3, 12 * chunk)


def test_counters_do_not_depend_on_threads_or_time(volume):
    def counters(**options):
        with pipeline(batch_size=4, **options) as p:
            stats = run(p, [volume.sample((k % 30, k % 30 + 16), (k % 40, k % 40 + 16)) for k in range(4 * 25)])
            return {n: getattr(stats, n) for n in COUNTERS if n not in GAUGES and n != "waves_emitted"}

    one = counters(n_io_threads=1)
    assert one["chunks_decoded"] > 0 and one["batches_emitted"] == 25
    for options in ({"n_io_threads": 4}, {"n_io_threads": 2, "n_compute_threads": 3}, {"n_io_threads": 1}):
        many = counters(**options)
        assert many["batches_emitted"] == 25
        assert (
            many["chunks_decoded"] + many["chunks_deduplicated"] == one["chunks_decoded"] + one["chunks_deduplicated"]
        )


def test_batches_emitted_and_truncated(line):
    with pipeline(batch_size=4) as p:
        stats = run(p, line.all(range(10)))
        assert (stats.batches_emitted, stats.batches_truncated, stats.plan.count) == (3, 1, 3)
        assert stats.flush_wait.count == 1
        assert stats.plan.input_bytes == 0 and stats.plan.output_bytes == 10 * 4
        stats = run(p, line.all(range(8)))
        assert (stats.batches_emitted, stats.batches_truncated) == (2, 0)


def test_reset_zeroes_all_but_the_gauges(line):
    with pipeline() as p:
        p.push(line.all(range(10)))
        drained(p)
        gauges = [getattr(p.stats(), g) for g in GAUGES]
        p.stats_reset()
        stats = p.stats()
        assert [getattr(stats, g) for g in GAUGES] == gauges
        for name in COUNTERS:
            assert name in GAUGES or getattr(stats, name) == 0
        assert all(getattr(stats, m).count == 0 and getattr(stats, m).best_ms == 1e30 for m in METRICS)


def test_best_is_at_most_the_mean(line):
    with pipeline() as p:
        p.push(line.all(range(200)))
        drained(p)
        for name in METRICS:
            metric = getattr(p.stats(), name)
            assert metric.count == 0 or 0 <= metric.best_ms <= metric.ms / metric.count * 1.0001


def test_the_steady_state_commits_nothing_more(volume):
    with pipeline(batch_size=4, n_batches=3) as p:
        p.push(volume.sample((k % 30, k % 30 + 16), (k % 40, k % 40 + 16)) for k in range(4 * 200))
        for _ in range(10):
            popped(p)
        first = [getattr(p.stats(), g) for g in sorted(GAUGES)]
        for _ in range(190):
            popped(p)
            assert [getattr(p.stats(), g) for g in sorted(GAUGES)] == first
    host, device = p.config.host_buffer_bytes, p.config.device_buffer_bytes
    slots = 3 * 4 * 16 * 16 * 4
    gpu, staging = first[0], first[1]
    assert 0 < gpu <= device + slots + 3 * 4096
    assert staging <= host + max(host // 4, 1 << 20)


def test_explain_names_the_bottleneck_and_gives_advice(volume):
    with pipeline(batch_size=4) as p:
        nothing = p.explain()
        assert (nothing.binds, nothing.stages) == ("nothing yet", ())
        run(p, [volume.sample((8, 24), (8, 24))] * 8)
        explanation = p.explain()
    assert explanation.binds in {"plan", "read", "decode", "place", "consumer", "latency"}
    assert [stage.name for stage in explanation.stages] == ["plan", "read", "decode", "place"]
    assert explanation.bytes_per_s > 0 and 0 <= explanation.share <= 1 and 0 <= explanation.consumer_waited <= 1
    assert all(0 <= stage.busy <= 1 for stage in explanation.stages)
    assert explanation.advice in str(explanation) and explanation.advice in explanation.text
    assert p.explain().binds == explanation.binds  # after close: the last figures
