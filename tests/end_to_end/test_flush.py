"""Flush: runs, short batches, end marks, endless sources."""

import itertools
import logging
import time
import warnings

import pytest
from support.line import Source, drained, numbers, popped
from support.streaming import pipeline

import damacy

# --- flush ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", range(1, 12))
def test_the_remainder_of_a_run_is_one_short_batch(line, count):
    with pipeline(batch_size=3) as p:
        p.push(line.all(range(count)))
        p.flush()
        got = drained(p)
        assert list(itertools.chain(*got)) == list(range(count))
        assert [len(b) for b in got] == [3] * (count // 3) + [count % 3] * (count % 3 > 0)


def test_shape_says_how_short_a_batch_is(volume):
    with pipeline(batch_size=5) as p:
        p.push([volume.sample((0, 4), (0, 6))] * 2)
        p.flush()
        with p.pop() as batch:
            assert batch.info.shape == batch.numpy().shape == (2, 4, 6)
            assert batch.valid == (True, True) and batch.sample_indices == (0, 1)


def test_a_batch_never_spans_two_runs(line):
    with pipeline(batch_size=3) as p:
        for start in (0, 10, 20, 30):
            p.push(line.all(range(start, start + 4)))
            p.flush()
        assert drained(p) == [[0, 1, 2], [3], [10, 11, 12], [13], [20, 21, 22], [23], [30, 31, 32], [33]]


def test_flush_without_new_samples_has_no_effect(line):
    with pipeline(batch_size=2) as p:
        p.flush()
        p.flush()
        with pytest.raises(damacy.TryAgain):
            p.pop()
        p.push(line.all([1]))
        p.flush()
        p.flush()
        p.push([])
        p.flush()
        assert drained(p) == [[1]]
        p.push(line.all([2, 3]))
        p.flush()
        p.flush()
        assert drained(p) == [[2, 3]]
        p.flush()
        p.push(line.all([4, 5]))
        assert drained(p) == [[4, 5]]


def test_flush_ends_the_run_after_sources_that_did_not_fit_the_queue(line):
    with pipeline(batch_size=2, lookahead_batches=2) as p:
        p.push(iter(line.all(range(31))))
        p.flush()
        p.push(line.all([100, 101]))
        got = drained(p)
        assert got[:16] == [[k, k + 1] for k in range(0, 30, 2)] + [[30]]
        assert got[16:] == [[100, 101]]


def test_several_end_marks_wait_for_a_full_queue(line):
    with pipeline(batch_size=2, lookahead_batches=2) as p:
        expected = []
        for start in range(0, 100, 10):
            p.push(Source(line.all(range(start, start + 5))))
            p.flush()
            expected += [[start, start + 1], [start + 2, start + 3], [start + 4]]
        assert drained(p) == expected


def test_a_short_batch_may_come_between_pops(line):
    with pipeline(batch_size=4) as p:
        p.push(line.all(range(6)))
        assert popped(p) == [0, 1, 2, 3]
        p.flush()
        assert popped(p) == [4, 5]
        p.push(line.all(range(6, 9)))
        with pytest.raises(damacy.TryAgain):
            p.pop()
        p.push(line.all([9]))
        assert popped(p) == [6, 7, 8, 9]


def test_after_flush_all_batches_with_a_slot_are_ready(line):
    with pipeline(batch_size=2, n_batches=3, pop_timeout_s=None) as p:
        p.push(line.all(range(6)))
        p.flush()
        assert p.stats().waves_emitted >= 1
    with pipeline(batch_size=2, n_batches=3, pop_timeout_s=0) as p:
        for _ in range(20):
            p.push(line.all(range(5)))
            p.flush()
            # pop_timeout_s = 0 lets flush return early as well, so pops may have to be repeated; none is lost.
            got = []
            while len(got) < 3:
                try:
                    got.append(popped(p))
                except damacy.PopTimeout:
                    continue
            assert got == [[0, 1], [2, 3], [4]]


def test_flush_returns_when_all_slots_are_held(line):
    with pipeline(batch_size=2, n_batches=1, pop_timeout_s=None) as p:
        p.push(line.all(range(9)))
        held = p.pop()
        p.flush()
        p.flush()
        assert numbers(held) == [0, 1]
        held.release()
        del held
        assert drained(p) == [[2, 3], [4, 5], [6, 7], [8]]


def test_a_failing_source_found_by_flush_is_raised_by_pop_in_its_place(line):
    mine = LookupError("mine")
    with pipeline(batch_size=2) as p:
        p.push(Source([*line.all(range(51)), mine]))
        p.flush()
        got = [popped(p) for _ in range(26)]
        assert got[-2:] == [[48, 49], [50]]
        with pytest.raises(LookupError) as caught:
            p.pop()
        assert caught.value is mine
        assert drained(p) == []


LIMIT = 1 << 20


def count_samples(p) -> int:
    total = 0
    for batch in drained_shapes(p):
        total += batch
    return total


def drained_shapes(p):
    while True:
        try:
            with p.pop() as batch:
                yield batch.info.shape[0]
        except damacy.PopTimeout:
            raise
        except damacy.TryAgain:
            return


@pytest.mark.timeout(120)
def test_after_flush_a_source_without_length_is_dropped_after_2_to_the_20_samples(line, caplog):
    caplog.set_level(logging.WARNING, "damacy")
    source = Source(itertools.repeat(line.at(7)))
    with pipeline(batch_size=1 << 14, lookahead_batches=2) as p:
        p.push(source)
        before = source.taken
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            p.flush()
            total = count_samples(p)
        assert total == source.taken == before + LIMIT
        assert p.pending is False
        p.push(line.all([1, 2]))
        p.flush()
        assert drained(p) == [[1, 2]]
    for _ in range(3000):  # native records take a moment
        if caught or caplog.records:
            break
        time.sleep(0.01)
    assert caught or any(r.levelno >= logging.WARNING for r in caplog.records)


@pytest.mark.timeout(120)
def test_after_flush_a_source_with_a_length_is_read_to_its_end(line):
    class Sized(Source):
        def __length_hint__(self):
            return 1

    count = LIMIT + 40_000
    with pipeline(batch_size=1 << 14) as p:
        p.push(Sized(itertools.repeat(line.at(7), count)))
        p.flush()
        assert count_samples(p) == count
