"""Epochs of loaders: tails, samples of rows, restarting, jumping, and transforms."""

import collections
import itertools
import pickle

import numpy as np
import pytest

import damacy
from damacy.samplers import RandomCrops, SlidingGrid
from damacy.training import Loader

zarr = pytest.importorskip("zarr")


@pytest.fixture(scope="module")
def array(tmp_path_factory):
    """All elements of row k are k."""
    path = tmp_path_factory.mktemp("epochs") / "a.zarr"
    zarr.create_array(path, shape=(64, 4), chunks=(1, 4), dtype="i4")[:] = np.arange(64)[:, None]
    return path


@pytest.fixture
def damaged(tmp_path):
    """Sixteen rows; rows passed to `damage` cannot be decoded."""
    path = tmp_path / "damaged.zarr"
    zarr.create_array(path, shape=(16, 4), chunks=(1, 4), dtype="i4")[:] = np.arange(1, 17)[:, None]

    def damage(*rows):
        for row in rows:
            (path / "c" / str(row) / "0").write_bytes(b"broken")
        return path

    return damage


class Rows:
    """A user's sampler: sample k is row k, in reverse order in odd epochs. It has no row keys and no portions."""

    seed = 3

    def __init__(self, path, length):
        self.path, self.length = path, length

    def __len__(self):
        return self.length

    def sample(self, epoch, index):
        row = self.length - 1 - index if epoch % 2 else index
        return damacy.Sample(self.path, [(row, row + 1), (0, 4)])


def loader(sampler, batch_size=4, on_error="raise", **arguments):
    config = damacy.Config(
        batch_size=batch_size,
        dtype="i32",
        on_error=on_error,
        device="cpu",
        host_buffer_bytes=1 << 20,
        device_buffer_bytes=1 << 20,
        n_io_threads=1,
    )
    return Loader(sampler, config, **arguments)


Step = collections.namedtuple("Step", "values keys valid")


def step(batch):
    with batch as lent:
        values = lent.numpy()[:, 0, 0].tolist()
    return Step(values, [sample.row_key for sample in batch.samples], list(batch.valid))


def steps(each, count=None):
    return [step(batch) for batch in itertools.islice(iter(each), count)]


# -- tails -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 3, 4, 5, 8, 11])
def test_a_short_tail_gives_each_sample_once(array, length):
    with loader(Rows(array, length), tail="short") as each:
        assert len(each) == -(-length // 4)
        for epoch in range(3):
            found = steps(each)
            keys = [key for one in found for key in one.keys]
            assert keys == [(epoch, index) for index in range(length)]
            assert [len(one.values) for one in found] == [4] * (length // 4) + [length % 4] * (length % 4 > 0)
            assert [value for one in found for value in one.values] == sorted(range(length), reverse=epoch % 2)
            assert all(all(one.valid) for one in found)


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("length", [1, 4, 5, 11, 12])
def test_a_padded_tail_counts_each_sample_once_in_equal_steps(array, length, ranks):
    counted = collections.Counter()
    found = []
    for rank in range(ranks):
        with loader(Rows(array, length), batch_size=2, rank=rank, ranks=ranks, tail="pad") as each:
            found.append(steps(each) + steps(each))
            assert len(found[-1]) == 2 * len(each)
    assert len({len(of_rank) for of_rank in found}) == 1
    for one in itertools.chain.from_iterable(found):
        assert len(one.values) == len(one.valid) == 2
        for value, (epoch, index), valid in zip(one.values, one.keys, one.valid):
            assert value == (length - 1 - index if epoch else index)
            counted[epoch, index] += valid
    assert counted == {(epoch, index): 1 for epoch in range(2) for index in range(length)}


def test_a_padded_tail_has_the_rows_of_a_wrapped_one(array):
    crops = RandomCrops({array: (64, 4)}, (1, 4), length=11, seed=2)
    found = {}
    for tail in ("pad", "wrap"):
        with loader(crops, tail=tail) as each:
            found[tail] = steps(each) + steps(each)
    assert [one[:2] for one in found["pad"]] == [one[:2] for one in found["wrap"]]
    assert [one.valid for one in found["pad"]] == ([[True] * 4] * 2 + [[True] * 3 + [False]]) * 2
    assert all(all(one.valid) for one in found["wrap"])


def test_rows_that_were_filled_and_rows_that_were_added_are_both_not_valid(damaged):
    with loader(Rows(damaged(1, 4), 6), tail="pad", on_error="fill") as each:
        found = steps(each)
    assert [one.valid for one in found] == [[True, False, True, True], [False, True, False, False]]
    assert found[1].values == [0, 6, 1, 0]


@pytest.mark.parametrize("tail", ["pad", "short"])
def test_a_run_resumes_before_its_tail(array, tail):
    sampler = SlidingGrid({array: (11, 4)}, (1, 4), seed=5)

    def run(each, count):
        """The first `count` steps, epoch after epoch."""
        found = []
        while len(found) < count:
            found += steps(each, count - len(found))
        return found

    with loader(sampler, tail=tail) as each:
        whole = run(each, 6)
    for done in range(6):
        with loader(sampler, tail=tail) as each:
            run(each, done)
            state = pickle.loads(pickle.dumps(each.state_dict()))
        with loader(sampler, tail=tail) as each:
            each.load_state_dict(state)
            assert run(each, 6 - done) == whole[done:]


# -- which samples rows are --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ["of a user", "crops", "grid"])
def test_rows_have_their_keys_on_every_rank_and_after_resuming(array, sampler):
    made = {
        "of a user": Rows(array, 16),
        "crops": RandomCrops({array: (64, 4)}, (1, 4), length=16, seed=1),
        "grid": SlidingGrid({array: (16, 4)}, (1, 4), seed=1),
    }[sampler]
    state = None
    for rank in (0, 1):
        with loader(made, rank=rank, ranks=2) as each:
            found = steps(each) + steps(each)
        expected = [(e, k) for e in range(2) for first in (0, 8) for k in range(first + 4 * rank, first + 4 * rank + 4)]
        assert [key for one in found for key in one.keys] == expected
        for value, key in ((v, k) for one in found for v, k in zip(one.values, one.keys)):
            assert value == made.sample(*key).aabb[0][0]
    with loader(made, batch_size=2) as each:
        steps(each, 3)
        state = each.state_dict()
    with loader(made, batch_size=2, rank=1, ranks=2) as each:
        each.load_state_dict(state)
        assert steps(each, 1)[0].keys == [(0, 8), (0, 9)]


def test_rows_after_skipped_ones_have_their_own_keys(damaged):
    with loader(Rows(damaged(1, 4, 5, 6, 7, 15), 16), on_error="skip") as each:
        found = steps(each)
    assert [index for one in found for _, index in one.keys] == [0, 2, 3, 8, 9, 10, 11, 12, 13, 14]
    assert all(value == index + 1 for one in found for value, (_, index) in zip(one.values, one.keys))


def test_a_sample_that_a_sampler_returns_repeatedly_is_not_changed(array):
    same = damacy.Sample(array, [(7, 8), (0, 4)], row_key=(9, 9))

    class Constant(Rows):
        def sample(self, epoch, index):
            return same

    with loader(Constant(array, 8)) as each:
        assert [key for one in steps(each) for key in one.keys] == [(0, k) for k in range(8)]
    assert same.row_key == (9, 9)


def test_portions_of_a_sampler_are_used_and_must_be_complete(array):
    class Portions(Rows):
        requests = ()
        missing = 0

        def samples(self, epoch, start, stop):
            self.requests += ((epoch, start, stop),)
            return [self.sample(epoch, index) for index in range(start, stop - self.missing)]

    sampler = Portions(array, 10)
    with loader(sampler, tail="wrap") as each:
        assert [key for one in steps(each) for key in one.keys] == [(0, k % 10) for k in range(12)]
    assert sampler.requests[:4] == ((0, 0, 4), (0, 4, 8), (0, 8, 10), (0, 0, 2))
    assert all(stop - start <= 4096 for _, start, stop in sampler.requests)
    sampler.missing = 1
    with loader(sampler) as each, pytest.raises(ValueError, match="shorter"):
        next(iter(each))


def test_an_attribute_of_a_sampler_that_is_not_a_method_is_ignored(array):
    sampler = Rows(array, 8)
    sampler.samples = ["a list"]
    with loader(sampler) as each:
        assert len(steps(each)) == 2


# -- ends of epochs ----------------------------------------------------------------------------------------------------


def test_an_epoch_whose_last_batches_are_skipped_ends_without_one_of_the_next(damaged):
    with loader(Rows(damaged(8, 9, 10, 11, 12, 13, 14, 15), 16), on_error="skip") as each:
        for epoch in (0, 1, 2):
            found = steps(each)
            assert {key[0] for one in found for key in one.keys} == {epoch}
            assert len(found) == 2
            assert each.epoch == epoch + 1
        first = steps(each, 1)
        state = each.state_dict()
    assert state["epoch"] == 3
    with loader(Rows(damaged(), 16), on_error="skip") as each:
        each.load_state_dict(state | {"samples": 0})
        assert [one.keys for one in steps(each, 1)] == [one.keys for one in first]


def test_a_loader_that_restarts_gives_the_same_epoch_each_time(array):
    grid = SlidingGrid({array: (10, 4)}, (1, 4), seed=1)
    with loader(grid, restart=True, tail="short") as each:
        first = steps(each)
        assert sorted(value for one in first for value in one.values) == list(range(10))
        for count in (None, 1, 2, None, 3, 1, None):
            assert steps(each, count) == first[:count]
            assert each.epoch == 0
        each.set_epoch(4)
        other = steps(each)
        assert other != first
        assert {key[0] for one in other for key in one.keys} == {4}
        assert steps(each) == other


def test_a_loader_that_restarts_reads_ahead_between_epochs(array):
    with loader(Rows(array, 8), restart=True) as each:
        steps(each)
        before = each._pipeline
        steps(each)
        assert each._pipeline is before  # a whole pass needs no new one


def test_set_epoch_begins_that_epoch_or_continues_a_state_of_it(array):
    with loader(Rows(array, 12)) as each:
        for epoch in (0, 1, 2):
            each.set_epoch(epoch)
            before = each._pipeline
            assert {key[0] for one in steps(each) for key in one.keys} == {epoch}
            assert before is None or each._pipeline is before  # no restart is needed
        each.set_epoch(7)
        assert steps(each, 1)[0].keys[0] == (7, 0)
        each.set_epoch(7)
        assert steps(each, 1)[0].keys[0] == (7, 0)
        state = each.state_dict()
        each.set_epoch(0)
        assert steps(each, 1)[0].keys[0] == (0, 0)
    with loader(Rows(array, 12)) as each:
        each.load_state_dict(state)
        each.set_epoch(7)
        assert steps(each)[0].keys[0] == (7, 4)
    with pytest.raises(ValueError, match=r"^epoch must be >= 0 \(got -1\)$"):
        loader(Rows(array, 12)).set_epoch(-1)


# -- transform ---------------------------------------------------------------------------------------------------------


def test_a_transform_is_called_in_order_by_the_thread_that_iterates(array):
    import threading

    seen = []

    def transform(batch):
        seen.append(threading.get_ident())
        return step(batch).values

    with loader(Rows(array, 12), transform=transform) as each:
        assert list(each) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert seen == [threading.get_ident()] * 3
    with pytest.raises(TypeError, match=r"^transform must be callable \(got int\)$"):
        loader(Rows(array, 12), transform=3)


def test_an_error_of_a_transform_ends_the_loop_after_its_batch(array):
    def transform(batch):
        values = step(batch).values
        if values[0] == 4:
            raise RuntimeError("no fours")
        return values

    with loader(Rows(array, 12), transform=transform) as each:
        batches = iter(each)
        assert next(batches) == [0, 1, 2, 3]
        with pytest.raises(RuntimeError, match="no fours"):
            next(batches)
        assert list(batches) == []
        assert list(each) == [[8, 9, 10, 11]]


def test_an_iterator_keeps_no_reference_to_its_batches(array):
    import gc
    import weakref

    with loader(Rows(array, 12), transform=lambda batch: batch) as each:
        batches = iter(each)
        ref = weakref.ref(next(batches))
        gc.collect()
        assert ref() is None
