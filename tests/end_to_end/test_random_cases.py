"""Random cases: for any layout, boxes, output type and configuration, batches have the bits that other readers read.

60 cases by default, more by `--cases N` or DAMACY_CASES; one alone by `--case-seed NUMBER`. The last lines of the run
say how many cases there were, how many differed and how many hung.
"""

import itertools
import os

import numpy as np
import pytest
from support import naive_reader, random_cases, writers
from support.element_types import as_bits, from_bits
from support.streaming import LAZY, Stored, assert_rows, pipeline, poison, row_bits, set_natively

import damacy


def pytest_generate_tests(metafunc):
    if "number" not in metafunc.fixturenames:
        return
    one = metafunc.config.getoption("--case-seed", default=None)
    count = metafunc.config.getoption("--cases", default=None) or int(os.environ.get("DAMACY_CASES", "60"))
    numbers = range(count) if one is None else [one]
    if metafunc.function in (test_case_with_a_cache, test_case_with_a_device_cache) and one is None:
        numbers = range(max(count // 3, 1))
    if metafunc.function is test_case_on_the_lazy_device and one is None:
        numbers = list(itertools.islice(filter(is_for_the_host, itertools.count()), max(count // 5, 1)))
    metafunc.parametrize("number", numbers)


def is_for_the_host(number) -> bool:
    """Whether an array has parts that no device decodes: filters, shards in shards, or codecs after sharding."""
    layouts = random_cases.draw(number).layouts
    return any(layout.filters or layout.inner_shards or layout.encodes_shards for layout in layouts)


def test_case(number, tmp_path):
    run_case(number, tmp_path)


@pytest.mark.parametrize("cache_bytes", [20_000, 64 << 20], ids=["evicts", "holds_all"])
def test_case_with_a_cache(number, cache_bytes, tmp_path, monkeypatch):
    """Runs the case with decoded chunks kept; the second time many are there."""
    set_natively(monkeypatch, cache_bytes=cache_bytes)
    stats = run_case(number, tmp_path)
    if cache_bytes == 64 << 20 and stats.cache_kept > 0 and stats.cache_misses < 2 * stats.cache_kept:
        assert stats.cache_hits > 0


@pytest.mark.parametrize("cache_bytes", [20_000, 64 << 20], ids=["evicts", "holds_all"])
def test_case_with_a_device_cache(number, cache_bytes, tmp_path, monkeypatch):
    """Runs the case with encoded chunks kept on the lazy device."""
    set_natively(monkeypatch, device_cache_bytes=cache_bytes, **LAZY)
    stats = run_case(number, tmp_path)
    if cache_bytes == 64 << 20 and stats.device_cache_kept > 0:
        assert stats.device_cache_evicted == 0
        if stats.device_cache_misses < 2 * stats.device_cache_kept:
            assert stats.device_cache_hits > 0


def test_case_on_the_lazy_device(number, tmp_path, monkeypatch):
    """Runs the case on the stream engine, as with a GPU; a missing wait would give wrong bytes."""
    set_natively(monkeypatch, **LAZY)
    assert run_case(number, tmp_path).h2d.count > 0


def run_case(number, tmp_path) -> damacy.Stats:
    case = random_cases.draw(number)
    arrays = [_write(case, k, tmp_path / str(k)) for k in range(len(case.layouts))]
    for stored, writer in zip(arrays, case.writers):
        np.testing.assert_array_equal(
            as_bits(naive_reader.read(stored.path), stored.layout.dtype), stored.bits, str(case)
        )
        if writer.read:
            read_back = as_bits(writer.read(stored.path, stored.layout), stored.layout.dtype)
            np.testing.assert_array_equal(read_back, stored.bits, str(case))
    rng = np.random.default_rng([7, number])
    with pipeline(**case.config) as running:
        for _ in range(2):  # the second time in poisoned slots
            for run in case.runs:
                _one_run(running, case, arrays, run, rng)
        return running.stats()


def _write(case, k, path) -> Stored:
    layout, writer = case.layouts[k], case.writers[k]
    data = from_bits(case.bits[k], layout.dtype)
    if writer is writers.BY_HAND:
        writers.write_by_hand(layout, data, path, **case.by_hand)
    else:
        writer.write(layout, data, path)
    return Stored(path, layout, case.bits[k])


def _one_run(running, case, arrays, run, rng) -> None:
    """Pushes a run in one or two sources, flushes, and compares every row."""
    samples = [arrays[k].sample(*box) for k, box in run]
    cut = int(rng.integers(0, len(samples) + 1))
    running.push(samples[:cut])
    running.push(iter(samples[cut:]))
    running.flush()
    rows, indices = [], []
    for size in _batch_sizes(len(run), case.config["batch_size"]):
        with running.pop() as batch:
            assert batch.info.shape[0] == size and batch.valid == (True,) * size, str(case)
            indices += batch.sample_indices
            rows += list(row_bits(batch, case.output))
            poison(batch, int(rng.integers(0, 256)))
    assert_rows([rows], [arrays[k].row(box, case.output) for k, box in run], str(case))
    assert indices == list(range(indices[0], indices[0] + len(run)))


def _batch_sizes(samples: int, batch_size: int) -> list[int]:
    return [min(batch_size, samples - at) for at in range(0, samples, batch_size)]
