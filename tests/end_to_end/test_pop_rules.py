"""The result of pop in each state, slots, `batches`."""

import itertools
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.line import Source, drained, endless, numbers, popped
from support.slow import OPTIONS as SLOW
from support.slow import slow_sample
from support.streaming import pipeline

import damacy
from damacy._pipeline import pipeline as pipeline_module


def try_again(p, reason) -> damacy.TryAgain:
    with pytest.raises(damacy.TryAgain) as caught:
        p.pop()
    assert type(caught.value) is damacy.TryAgain
    assert caught.value.reason == reason
    assert caught.value.what == "pop"
    assert caught.value.status is damacy.Status.AGAIN
    assert isinstance(caught.value, BlockingIOError)
    return caught.value


def says(error, *parts) -> bool:
    return all(re.search(rf"\b{part}\b", str(error)) for part in parts)


# --- nothing can become a batch ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2])
def test_an_unflushed_run_with_too_few_samples_is_try_again_with_their_number(line, count):
    with pipeline(batch_size=3) as p:
        p.push(line.all(range(count)))
        assert says(try_again(p, "empty"), count)
        p.push(line.all(range(count, 3)))
        assert popped(p) == [0, 1, 2]
        assert says(try_again(p, "empty"), 0)


def test_try_again_is_repeatable_and_costs_no_sample(line):
    with pipeline() as p:
        p.push([line.at(1)])
        for _ in range(50):
            try_again(p, "empty")
        p.push([line.at(2)])
        assert popped(p) == [1, 2]


def test_the_reason_empty_takes_precedence_over_held(line):
    with pipeline(n_batches=1) as p:
        p.push(line.all([1, 2]))
        batch = p.pop()
        try_again(p, "empty")
        batch.release()


# --- all slots are held -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_batches", [1, 2, 3])
def test_when_every_slot_is_held_pop_names_the_batches(line, n_batches):
    with pipeline(n_batches=n_batches) as p:
        p.push(Source(endless(line)))
        held = [p.pop() for _ in range(n_batches)]
        assert says(try_again(p, "held"), *range(n_batches))
        held[-1].release()
        again = p.pop()
        assert numbers(again) == [2 * n_batches, 2 * n_batches + 1]
        for batch in held[:-1]:
            assert numbers(batch)[0] == 2 * batch.info.batch_id


def test_a_view_holds_its_slot_beyond_release(line):
    with pipeline(n_batches=1) as p:
        p.push(line.all(range(6)))
        batch = p.pop()
        view = batch.numpy()
        batch.release()
        refused = try_again(p, "held")
        assert says(refused, 0) and "drop their tensors, or raise n_batches" in str(refused)
        assert (view[:, 0] == [1, 2]).all()
        del view
        assert popped(p) == [2, 3]


def test_with_one_slot_the_last_tensor_is_dropped_before_the_next_pop(line):
    import numpy as np

    with pipeline(n_batches=1) as p:
        p.push(line.all(range(20)))
        for k in range(0, 20, 2):
            with p.pop() as batch:
                x = np.from_dlpack(batch)
                assert x[:, 0].tolist() == [k + 1, k + 2]
            del x


def test_with_two_slots_a_loop_that_keeps_the_last_tensor_works(line):
    import numpy as np

    with pipeline() as p:
        p.push(line.all(range(200)))
        for k, batch in zip(range(0, 200, 2), p.batches(100), strict=True):
            with batch as t:
                x = np.from_dlpack(t)
            assert x[:, 0].tolist() == [k + 1, k + 2]


def test_a_dropped_batch_releases_its_slot(line):
    with pipeline(n_batches=1) as p:
        p.push(line.all(range(100)))
        for k in range(0, 100, 2):
            assert numbers(p.pop()) == [k, k + 1]


def test_releasing_one_batch_never_affects_another(line):
    with pipeline(n_batches=3) as p:
        p.push(Source(endless(line)))
        held = {b.info.batch_id: b for b in (p.pop(), p.pop(), p.pop())}
        for turn in range(30):
            oldest = min(held) if turn % 2 else max(held)
            held.pop(oldest).release()
            new = p.pop()
            held[new.info.batch_id] = new
            for id_, batch in held.items():
                assert numbers(batch) == [2 * id_, 2 * id_ + 1]


# --- waiting ----------------------------------------------------------------------------------------------------------


def test_a_timeout_of_pop_names_its_reason_and_loses_no_batch(slow_array):
    with pipeline(**SLOW, pop_timeout_s=0) as p:
        p.push([slow_sample(slow_array, 3), slow_sample(slow_array, 3)])
        timeouts = 0
        got = []
        while len(got) < 2:
            try:
                got.append(p.pop())
            except damacy.PopTimeout as error:
                timeouts += 1
                time.sleep(0.005)
                assert isinstance(error, TimeoutError) and isinstance(error, damacy.TryAgain)
                assert error.reason == "timeout" and error.what == "pop" and error.status is damacy.Status.AGAIN
                assert "batch 0" in str(error) or "batch 1" in str(error)
        assert timeouts >= 1
        assert [b.info.batch_id for b in got] == [0, 1]
        assert (got[0].numpy() == got[1].numpy()).all() and got[0].numpy().all()


# --- batches ----------------------------------------------------------------------------------------------------------


def test_batches_pops_lazily_and_releases_nothing(line):
    source = Source(endless(line))
    with pipeline(n_batches=2) as p:
        batches = p.batches(5)
        assert iter(batches) is batches
        p.push(source)
        first = next(batches)
        second = next(batches)
        with pytest.raises(damacy.TryAgain):
            next(batches)
        first.release()
        assert numbers(next(batches)) == [4, 5]
        assert numbers(second) == [2, 3]


@pytest.mark.parametrize("n", [0, -1, -(2**70)])
def test_batches_of_nothing_are_none(n):
    with pipeline() as p:
        assert list(p.batches(n)) == []


@pytest.mark.parametrize("n", [2.0, "3", None])
def test_batches_refuses_other_values_than_integers_at_once(n):
    with pipeline() as p, pytest.raises(TypeError):
        p.batches(n)


def test_try_again_does_not_count_as_one_of_the_n(line):
    with pipeline() as p:
        batches = p.batches(2)
        for k in (0, 2):
            for _ in range(3):
                with pytest.raises(damacy.TryAgain):
                    next(batches)
            p.push(line.all([k, k + 1]))
            with next(batches) as batch:
                assert numbers(batch) == [k, k + 1]
        with pytest.raises(StopIteration):
            next(batches)


def test_a_failed_batch_counts_as_one_of_the_n(volume):
    volume.object(0, 0).write_bytes(b"short")
    with pipeline(batch_size=1) as p:
        p.push([volume.sample((0, 4), (c, c + 4)) for c in (16, 0, 32)])
        batches = p.batches(3)
        assert next(batches).info.batch_id == 0
        with pytest.raises(damacy.StorageError):
            next(batches)
        assert next(batches).info.batch_id == 2
        with pytest.raises(StopIteration):
            next(batches)


def test_sample_indices_and_batch_ids_count_the_whole_stream(line):
    with pipeline(batch_size=4) as p:
        for _ in range(3):
            p.push(line.all(range(6)))
            p.flush()
        seen = []
        for expected_id, batch in enumerate(p.batches(6)):
            assert batch.info.batch_id == expected_id
            seen.append(batch.sample_indices)
            batch.release()
        assert [len(s) for s in seen] == [4, 2] * 3
        assert list(itertools.chain(*seen)) == list(range(18))


def test_a_refused_sample_has_no_stream_index(line):
    with pipeline() as p:
        p.push([line.at(0)])
        with pytest.raises(damacy.InvalidArgument):
            p.push([line.beyond()])
        p.push([line.at(1)])
        with p.pop() as batch:
            assert batch.sample_indices == (0, 1)
        assert drained(p) == []


def test_an_iteration_continues_while_another_thread_reads_the_source(line, monkeypatch):
    begun, may_go_on = threading.Event(), threading.Event()

    def slow():
        begun.set()
        may_go_on.wait(30)
        yield from line.all(range(4))

    monkeypatch.setattr(pipeline_module.time, "sleep", lambda seconds: may_go_on.set())
    with pipeline() as p, ThreadPoolExecutor(1) as pool:
        reader = pool.submit(p.push, slow())
        assert begun.wait(30)
        rows = [numbers(batch) for batch in p]
        may_go_on.set()
        reader.result(30)
    assert rows == [[0, 1], [2, 3]]
