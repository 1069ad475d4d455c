"""The end of a pipeline, and many threads around one."""

import contextlib
import gc
import itertools
import os
import threading
import time

import pytest
from support.line import Source, endless, numbers, popped
from support.slow import OPTIONS as SLOW
from support.slow import slow_sample
from support.streaming import pipeline, store

import damacy

CLOSE_LIMIT_S = 30.0


# --- close ------------------------------------------------------------------------------------------------------------


def closed_everywhere(p):
    batches = p.batches(3)
    for call in (
        lambda: p.push([]),
        p.pop,
        p.flush,
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


def test_stats_and_explain_return_the_last_figures_after_close(line):
    with pipeline() as p:
        p.push(line.all(range(6)))
        for batch in p:
            batch.release()
        while_open = p.stats()
    last = p.stats()
    assert last.batches_emitted == while_open.batches_emitted == 3
    assert last.io.count == while_open.io.count > 0 and last.bytes_read == while_open.bytes_read > 0
    assert last.host_bytes_committed == while_open.host_bytes_committed > 0
    assert last.gpu_bytes_committed == while_open.gpu_bytes_committed > 0
    assert p.stats() == last
    explained = p.explain()
    assert explained.binds != "nothing yet"
    assert p.explain() == explained  # figures of a closed pipeline do not change
    with pytest.raises(damacy.ShutdownError):
        p.stats_reset()
    assert p.stats() == last


def descriptors(below: str = "") -> set[str]:
    """Of this process; with `below`, of files below that folder."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # of the listing itself
            if os.readlink(f"/proc/self/fd/{name}").startswith(below):
                found.add(name)
    return found


def test_close_frees_descriptors_while_the_pipeline_and_a_batch_are_kept(tmp_path):
    files = 200
    stored = store(tmp_path / "a.zarr", (files,), (1,))
    p = pipeline(batch_size=files // 2, n_batches=2)
    p.push([stored.sample((k, k + 1)) for k in range(files)])
    batch = p.pop()
    assert len(descriptors(str(tmp_path))) > files // 2 - 10
    p.close()
    assert descriptors(str(tmp_path)) == set()
    assert numbers(batch)[:3] == [0, 1, 2]  # the second batch was never popped


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
    """Starts `call` on a thread; returns the thread and the list for its outcome."""
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
def test_close_wakes_waiting_calls(slow_array, member):
    p = pipeline(**SLOW, pop_timeout_s=None)
    p.push([slow_sample(slow_array)] * 2)
    thread, outcome = in_a_thread(getattr(p, member))
    time.sleep(0.05)  # gives it time to wait; if it does not wait yet, it is refused with the same error
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
    gc.collect()
    recwarn.clear()  # of what earlier tests left
    before = python_threads()
    tasks = native_threads()
    for _ in range(3):
        p = pipeline()
        p.push(endless(line))
        p.pop()
        del p
        gc.collect()
    wait_for(lambda: native_threads() <= tasks)
    assert python_threads() == before
    assert not [each for each in recwarn if "damacy" in f"{each.filename} {each.message}"]


def python_threads() -> list[str]:
    """Ours."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("damacy")]


def native_threads() -> int:
    """Ours, by their names."""
    count = 0
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/comm") as name:
            count += name.read().startswith("damacy")
    return count


def test_create_and_close_leave_no_thread_and_no_descriptor(line):
    def once():
        with pipeline(n_io_threads=3, n_compute_threads=2) as p:
            p.push(line.all(range(10)))
            popped(p)

    once()
    threads, files = native_threads(), len(descriptors())
    for _ in range(50):
        once()
    wait_for(lambda: native_threads() <= threads)
    assert len(descriptors()) < files + 50  # fewer than one a pipeline: other parts of the process may open some


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

    with pipeline(n_batches=1, lookahead_batches=4) as p:
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
