"""Push: sources, refills, the end of a source, and deferred errors."""

import gc
import itertools
import os
import pathlib
import pickle

import numpy as np
import pytest
from support.line import LENGTH, Source, drained, endless, numbers, popped
from support.streaming import pipeline

import damacy

HARMLESS = ([], (), iter(()), {}.keys())


# --- rules 1 and 2: sources and refill --------------------------------------------------------------------------------


def test_an_object_that_is_not_iterable_is_a_type_error_and_queues_nothing():
    with pipeline() as p:
        for wrong in (5, None, 3.5):
            with pytest.raises(TypeError):
                p.push(wrong)
        assert p.pending is False
        with pytest.raises(damacy.TryAgain):
            p.pop()


@pytest.mark.parametrize(
    "make", [list, tuple, iter, lambda s: (x for x in s), lambda s: dict.fromkeys(s), lambda s: Source(s)]
)
def test_any_iterable_of_samples_is_a_source(line, make):
    with pipeline() as p:
        p.push(make(line.all([7, 3, 9, 1])))
        assert drained(p) == [[7, 3], [9, 1]]


def test_sources_are_read_one_after_the_other_in_the_order_of_pushes(line):
    with pipeline() as p:
        for start in (0, 100, 200):
            p.push(Source(line.all(range(start, start + 21))))
        p.push(line.all([300]))
        expected = [*range(21), *range(100, 121), *range(200, 221), 300]
        assert list(itertools.chain(*drained(p))) == expected


def test_push_takes_no_more_than_queue_and_slots_have_room_for(line):
    source = Source(endless(line))
    with pipeline(batch_size=4, lookahead_batches=3, n_batches=2) as p:
        p.push(source)
        queue, production = 3 * 4, 2 * 4
        assert queue <= source.taken <= queue + production
        held = [p.pop(), p.pop()]
        assert queue <= source.taken <= queue + production
        with pytest.raises(damacy.TryAgain):
            p.pop()
        assert source.taken <= queue + production
        assert [numbers(b) for b in held] == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("lookahead", [2**62, 2**63 - 1])
def test_a_queue_may_be_deeper_than_any_source(line, lookahead):
    with pipeline(batch_size=4, lookahead_batches=lookahead) as p:
        p.push(line.all(range(8)))
        assert drained(p) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_sources_are_advanced_on_the_calling_thread_inside_calls_only(line):
    import threading

    source = Source(endless(line))
    with pipeline() as p:
        p.push(source)
        for _ in range(20):
            taken = source.taken
            p.stats()
            p.pending  # noqa: B018
            assert source.taken == taken
            popped(p)
        p.flush()
    assert source.threads == {threading.get_ident()}


def test_a_source_is_dropped_when_it_ends_and_when_the_pipeline_closes(line):
    class Watched(Source):
        pass

    import weakref

    short, long = Watched(line.all([1, 2])), Watched(endless(line))
    short_ref, long_ref = weakref.ref(short), weakref.ref(long)
    with pipeline() as p:
        p.push(short)
        del short
        gc.collect()
        assert short_ref() is None
        p.push(long)
        del long
    gc.collect()
    assert long_ref() is None


def test_pending_is_true_while_a_source_may_have_more_samples(line):
    p = pipeline(batch_size=2, lookahead_batches=2)
    assert p.pending is False
    p.push(line.all(range(100)))
    assert p.pending is True
    assert len(drained(p)) == 50
    assert p.pending is False
    p.push(Source(endless(line)))
    assert p.pending is True
    p.close()
    assert p.pending is False


@pytest.mark.parametrize("source", HARMLESS, ids=lambda source: type(source).__name__)
def test_an_empty_source_changes_nothing(line, source):
    with pipeline() as p:
        p.push(source)
        assert p.pending is False
        p.push(line.all([5, 6]))
        assert drained(p) == [[5, 6]]


# --- failing samples and failing sources ------------------------------------------------------------------------------


def test_a_failing_sample_ends_its_source_and_nothing_else(line):
    with pipeline() as p:
        source = Source([*line.all([1, 2, 3]), line.beyond(), *line.all([4, 5, 6])])
        with pytest.raises(damacy.InvalidArgument) as caught:
            p.push(source)
        assert caught.value.sample_index == 3
        p.push(line.all([7]))
        assert drained(p) == [[1, 2], [3, 7]]


def test_of_several_failures_in_a_portion_the_first_in_order_is_reported(line, tmp_path):
    missing = damacy.Sample(uri=tmp_path / "none", aabb=[(0, 1)])
    with pipeline(batch_size=8) as p:
        with pytest.raises(damacy.InvalidArgument) as caught:
            p.push([line.at(0), line.beyond(), missing, line.beyond()])
        assert caught.value.sample_index == 1
        with pytest.raises(damacy.NotFound) as caught:
            p.push([line.at(0), missing, line.beyond()])
        assert caught.value.sample_index == 1


def test_an_exception_of_the_source_propagates_as_the_same_object_and_keeps_what_was_yielded(line):
    mine = LookupError("mine")
    with pipeline() as p:
        with pytest.raises(LookupError) as caught:
            p.push(Source([*line.all([1, 2, 3]), mine, line.at(4)]))
        assert caught.value is mine
        p.push(line.all([9]))
        assert drained(p) == [[1, 2], [3, 9]]


def test_an_exception_from_iter_itself_propagates(line):
    mine = RuntimeError("no iterator")

    class Broken:
        def __iter__(self):
            raise mine

    with pipeline() as p:
        with pytest.raises(RuntimeError) as caught:
            p.push(Broken())
        assert caught.value is mine
        assert p.pending is False


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_length_hint_may_raise_any_exception_but_others_propagate(line, kind):
    class Hinting:
        def __iter__(self):
            return iter(line.all([1, 2]))

        def __length_hint__(self):
            raise kind

    with pipeline() as p:
        if issubclass(kind, Exception):
            p.push(Hinting())
            assert drained(p) == [[1, 2]]
        else:
            with pytest.raises(kind):
                p.push(Hinting())
            assert p.pending is False


MANY = 100  # more samples than queue and slots hold, so that what follows is found by a later refill


@pytest.mark.parametrize("kind", ["refused", "raised"])
def test_an_error_found_by_a_later_refill_keeps_its_place_in_the_stream(line, kind):
    mine = LookupError("mine")
    with pipeline() as p:
        p.push(line.all(range(MANY)))
        p.push(Source([line.beyond() if kind == "refused" else mine, line.at(999)]))
        p.push(line.all([500, 501]))
        assert [popped(p) for _ in range(MANY // 2)] == [[k, k + 1] for k in range(0, MANY, 2)]
        with pytest.raises(damacy.InvalidArgument if kind == "refused" else LookupError) as caught:
            p.pop()
        if kind == "refused":
            assert caught.value.what == "push" and caught.value.sample_index == 0
        else:
            assert caught.value is mine
        assert drained(p) == [[500, 501]]


def test_a_deferred_error_is_raised_in_place_of_try_again(line):
    with pipeline() as p:
        p.push(line.all(range(MANY)))
        p.push([line.beyond()])
        for _ in range(MANY // 2):
            popped(p)
        with pytest.raises(damacy.InvalidArgument):
            p.pop()
        with pytest.raises(damacy.TryAgain):
            p.pop()


def test_a_deferred_error_comes_after_the_short_batch_before_it(line):
    with pipeline(batch_size=4) as p:
        p.push(line.all(range(MANY)))
        p.push([line.at(200), line.beyond()])
        p.flush()
        assert [popped(p) for _ in range(MANY // 4)][-1] == [96, 97, 98, 99]
        assert popped(p) == [200]
        with pytest.raises(damacy.InvalidArgument) as caught:
            p.pop()
        assert caught.value.sample_index == 1 and caught.value.what == "push"
        assert drained(p) == []


def test_two_deferred_errors_come_in_order(line, tmp_path):
    with pipeline() as p:
        p.push(line.all(range(MANY)))
        p.push([line.beyond()])
        p.push([damacy.Sample(uri=tmp_path / "none", aabb=[(0, 1)])])
        p.push(line.all([1, 2]))
        for _ in range(MANY // 2):
            popped(p)
        with pytest.raises(damacy.InvalidArgument):
            p.pop()
        with pytest.raises(damacy.NotFound):
            p.pop()
        assert drained(p) == [[1, 2]]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_base_exception_leaves_the_current_call_at_once_and_loses_no_sample(line, kind):
    mine = kind("now")
    with pipeline() as p:
        p.push(Source([*line.all(range(MANY)), mine]))
        p.push(line.all([200, 201]))
        got, raised = [], 0
        while True:
            try:
                got.append(popped(p))
            except kind as error:
                assert error is mine
                raised += 1
                assert len(got) < MANY // 2  # the refill that found it runs ahead of the batches
            except damacy.TryAgain:
                break
        assert raised == 1
        assert got == [[k, k + 1] for k in [*range(0, MANY, 2), 200]]


# --- re-entrancy, other state -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("member", ["push", "pop", "flush"])
def test_inside_a_source_the_pipelines_push_pop_and_flush_are_refused(line, member):
    with pipeline() as p:

        def source():
            yield line.at(1)
            with pytest.raises(damacy.InvalidArgument) as caught:
                getattr(p, member)(*([[line.at(9)]] if member == "push" else []))
            assert caught.value.reason == "reentrant"
            yield line.at(2)

        p.push(source())
        assert drained(p) == [[1, 2]]


def test_inside_a_source_another_pipeline_works_and_so_do_the_other_members(line):
    with pipeline() as p, pipeline() as other:

        def source():
            other.push(line.all([7, 8]))
            assert p.pending in (True, False) and p.device == "cpu" and p.stats().batches_emitted == 0
            yield from line.all([numbers_of(other), 2])

        def numbers_of(pipe):
            return popped(pipe)[0]

        p.push(source())
        assert drained(p) == [[7, 2]]


def test_a_source_may_close_its_pipeline(line):
    p = pipeline()

    def source():
        yield line.at(1)
        p.close()
        yield line.at(2)

    try:
        p.push(source())
    except damacy.ShutdownError as error:
        assert error.what == "closed"
    with pytest.raises(damacy.ShutdownError):
        p.pop()


def test_samples_with_paths_of_any_kind(line, tmp_path):
    class Fancy(os.PathLike):
        def __fspath__(self):
            return str(line.path)

    os.symlink(line.path, tmp_path / "link.zarr")
    uris = [Fancy(), pathlib.Path(line.path), str(line.path), tmp_path / "link.zarr"]
    samples = [damacy.Sample(uri=u, aabb=[(k, k + 1)]) for k, u in enumerate(uris)]
    assert pickle.loads(pickle.dumps(samples)) == samples
    with pipeline() as p:
        p.push(samples)
        assert drained(p) == [[0, 1], [2, 3]]


def test_a_long_stream_keeps_its_order(line):
    with pipeline(batch_size=16, n_io_threads=3, n_compute_threads=1, n_batches=3) as p:
        order = np.random.default_rng(3).integers(0, LENGTH, 3200).tolist()
        p.push(line.at(k) for k in order)
        assert list(itertools.chain(*drained(p))) == order
