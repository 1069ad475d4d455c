"""Sections 7.3 and 7.4 of the pipeline document: runs, short batches, endless sources; the end of a pipeline."""

import gc
import itertools
import logging
import threading
import time
import warnings

import pytest
from support.line import Source, drained, endless, numbers, popped
from support.slow import OPTIONS as SLOW
from support.slow import slow_sample
from support.streaming import pipeline

import damacy

CLOSE_LIMIT_S = 5.0


def sizes(p) -> list[int]:
    return [len(b) for b in drained(p)]


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


def test_flush_without_anything_new_has_no_effect(line):
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


def test_flush_ends_the_run_behind_sources_that_did_not_fit_the_queue(line):
    with pipeline(batch_size=2, lookahead_batches=2) as p:
        p.push(iter(line.all(range(31))))
        p.flush()
        p.push(line.all([100, 101]))
        got = drained(p)
        assert got[:16] == [[k, k + 1] for k in range(0, 30, 2)] + [[30]]
        assert got[16:] == [[100, 101]]


def test_several_end_marks_wait_behind_a_full_queue(line):
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


def test_flush_makes_ready_what_needs_no_consumer(line):
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
def test_after_flush_a_source_that_tells_no_length_gives_2_to_the_20_samples_more_and_is_dropped(line, caplog):
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
    for _ in range(100):  # native records take a moment
        if caught or caplog.records:
            break
        time.sleep(0.01)
    assert caught or any(r.levelno >= logging.WARNING for r in caplog.records)


@pytest.mark.timeout(120)
def test_after_flush_a_source_that_tells_a_length_is_read_to_its_end(line):
    class Sized(Source):
        def __length_hint__(self):
            return 1

    count = LIMIT + 40_000
    with pipeline(batch_size=1 << 14) as p:
        p.push(Sized(itertools.repeat(line.at(7), count)))
        p.flush()
        assert count_samples(p) == count


# --- close ------------------------------------------------------------------------------------------------------------


def closed_everywhere(p):
    batches = p.batches(3)
    for call in (
        lambda: p.push([]),
        p.pop,
        p.flush,
        p.stats,
        p.stats_reset,
        lambda: p.device,
        lambda: next(batches),
    ):
        with pytest.raises(damacy.ShutdownError) as caught:
            call()
        assert caught.value.what == "closed"
        assert caught.value.reason == "closed"
        assert caught.value.status is damacy.Status.SHUTDOWN
    assert p.pending is False


def test_after_close_members_raise_shutdown_error_and_close_is_idempotent(line):
    p = pipeline()
    p.push(line.all(range(30)))
    batches = p.batches(10)
    next(batches)
    for _ in range(3):
        p.close()
    closed_everywhere(p)
    with pytest.raises(damacy.ShutdownError):
        next(batches)


def test_with_closes_without_flush_and_never_masks_the_bodys_exception(line):
    source = Source(endless(line))
    mine = LookupError("body")
    with pytest.raises(LookupError) as caught:
        with pipeline() as p:
            assert isinstance(p, damacy.Pipeline)
            p.push(source)
            taken = source.taken
            raise mine
    assert caught.value is mine
    assert source.taken == taken
    closed_everywhere(p)


def test_batches_and_views_stay_valid_after_close(line):
    p = pipeline(n_batches=3)
    p.push(line.all(range(6)))
    batches = list(p.batches(3))
    view = batches[2].numpy()
    p.close()
    del p
    gc.collect()
    assert [numbers(b) for b in batches] == [[0, 1], [2, 3], [4, 5]]
    assert batches[0].info.batch_id == 0
    for batch in batches:
        batch.release()
    del batches, batch
    gc.collect()
    assert view[:, 0].tolist() == [5, 6]


def in_a_thread(call):
    """Starts call; gives the thread and the list its outcome will be in."""
    outcome = []

    def body():
        try:
            outcome.append(call())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    return thread, outcome


def close_in_time(p) -> None:
    start = time.monotonic()
    p.close()
    assert time.monotonic() - start < CLOSE_LIMIT_S


def wait_for(condition) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize("member", ["pop", "flush"])
def test_close_wakes_who_waits(slow_array, member):
    p = pipeline(**SLOW, pop_timeout_s=None)
    p.push([slow_sample(slow_array)] * 2)
    thread, outcome = in_a_thread(getattr(p, member))
    time.sleep(0.05)  # so that it waits; if not yet, it is refused all the same
    close_in_time(p)
    thread.join(CLOSE_LIMIT_S)
    assert not thread.is_alive()
    assert isinstance(outcome[0], damacy.ShutdownError) and outcome[0].what == "closed"


def test_close_returns_while_a_source_blocks_another_threads_push(line):
    entered, go_on = threading.Event(), threading.Event()

    def blocking():
        yield line.at(1)
        entered.set()
        go_on.wait(30)
        yield line.at(2)

    p = pipeline()
    thread, outcome = in_a_thread(lambda: p.push(blocking()))
    assert entered.wait(20)
    close_in_time(p)
    closed_everywhere(p)
    go_on.set()
    thread.join(CLOSE_LIMIT_S)
    assert not thread.is_alive()
    assert isinstance(outcome[0], damacy.ShutdownError)


def test_close_is_prompt_with_endless_sources_and_much_in_production(line, slow_array):
    p = pipeline(**SLOW)
    p.push(slow_sample(slow_array, k) for k in itertools.count())
    close_in_time(p)
    p = pipeline()
    p.push(endless(line))
    close_in_time(p)


def test_collecting_an_open_pipeline_closes_it_silently(line, recwarn):
    before = threading.active_count()
    tasks = native_threads()
    for _ in range(3):
        p = pipeline()
        p.push(endless(line))
        p.pop()
        del p
        gc.collect()
    wait_for(lambda: native_threads() <= tasks)
    assert threading.active_count() == before
    assert not recwarn.list


def native_threads() -> int:
    import os

    return len(os.listdir("/proc/self/task"))


def open_files() -> int:
    import os

    return len(os.listdir("/proc/self/fd"))


def test_create_and_close_leave_no_thread_and_no_descriptor(line):
    def once():
        with pipeline(n_io_threads=3, n_compute_threads=2) as p:
            p.push(line.all(range(10)))
            popped(p)

    once()
    threads, files = native_threads(), open_files()
    for _ in range(50):
        once()
    wait_for(lambda: native_threads() <= threads)
    assert open_files() <= files


def test_sixty_four_pipelines_at_once(line):
    pipes = [pipeline(n_io_threads=1, host_buffer_bytes=1 << 20, device_buffer_bytes=1 << 20) for _ in range(64)]
    for k, p in enumerate(pipes):
        p.push(line.all([k, k + 1]))
    assert [popped(p) for p in pipes] == [[k, k + 1] for k in range(64)]
    for p in pipes:
        p.close()


def test_pipelines_close_from_many_threads_at_once(line):
    p = pipeline()
    p.push(endless(line))
    started = [in_a_thread(p.close) for _ in range(8)]
    for thread, outcome in started:
        thread.join(CLOSE_LIMIT_S)
        assert not thread.is_alive() and outcome == [None]


# --- threads ----------------------------------------------------------------------------------------------------------


def test_many_threads_push_and_pop_and_no_sample_is_lost_or_doubled(line):
    got, lock = [], threading.Lock()
    with pipeline(batch_size=4, n_batches=4, pop_timeout_s=None) as p:

        def pusher(start):
            for k in range(start, start + 200, 10):
                p.push(line.all(range(k, k + 10)))

        def popper():
            while len(got) < 200:
                try:
                    with p.pop() as batch:
                        rows = numbers(batch)
                        with lock:
                            got.append(rows)
                    p.stats()
                except damacy.TryAgain:
                    time.sleep(0.0005)

        threads = [in_a_thread(lambda s=s: pusher(s)) for s in range(0, 800, 200)]
        threads += [in_a_thread(popper) for _ in range(3)]
        for thread, _ in threads:
            thread.join(40)
            assert not thread.is_alive()
        assert all(outcome == [None] for _, outcome in threads), [o for _, o in threads]
    assert sorted(itertools.chain(*got)) == list(range(800))


def test_a_blocking_source_blocks_only_the_call_that_reads_it(line):
    entered, go_on = threading.Event(), threading.Event()

    def blocking():
        entered.set()
        go_on.wait(30)
        yield from line.all([100, 101])

    with pipeline(n_batches=1) as p:
        p.push(line.all(range(4)))
        thread, outcome = in_a_thread(lambda: p.push(blocking()))
        assert entered.wait(20)
        try:
            assert [popped(p), popped(p)] == [[0, 1], [2, 3]]
            with pytest.raises(damacy.TryAgain):
                p.pop()
            assert p.stats().batches_emitted == 2 and p.pending is True
        finally:
            go_on.set()
            thread.join(20)
        assert outcome == [None]
        assert popped(p) == [100, 101]


def test_other_threads_run_while_one_waits_in_pop(slow_array):
    with pipeline(**SLOW, pop_timeout_s=None) as p:
        p.push([slow_sample(slow_array)])
        thread, outcome = in_a_thread(p.pop)
        turns = 0
        while thread.is_alive():
            turns += 1
            time.sleep(0.001)
        assert turns > 20 and isinstance(outcome[0], damacy.Batch)


def test_release_on_another_thread(line):
    with pipeline(n_batches=1) as p:
        p.push(line.all(range(40)))
        for k in range(0, 40, 2):
            batch = p.pop()
            assert numbers(batch) == [k, k + 1]
            thread, outcome = in_a_thread(batch.release)
            thread.join(10)
            assert outcome == [None]
