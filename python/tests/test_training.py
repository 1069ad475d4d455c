"""Loaders: steps, ranks, epochs, and states that resume exactly. Samplers: pure, evenly distributed, weighted."""

import collections
import itertools
import pickle

import numpy as np
import pytest

import damacy
from damacy.samplers import RandomCrops, SlidingGrid
from damacy.training import Loader

zarr = pytest.importorskip("zarr")

GLOBAL_BATCH = 4


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    """Two arrays of distinct elements, so that a row identifies its crop."""
    folder = tmp_path_factory.mktemp("training")
    for name, shape, first in (("a", (12, 10), 0), ("b", (9, 16), 1000)):
        array = zarr.create_array(folder / f"{name}.zarr", shape=shape, chunks=(4, 5), dtype="i4")
        array[:] = first + np.arange(np.prod(shape)).reshape(shape)
    return [folder / "a.zarr", folder / "b.zarr"]


def config(batch_size, **fields):
    small = {"host_buffer_bytes": 1 << 20, "device_buffer_bytes": 1 << 20, "n_io_threads": 1, "device": "cpu"}
    return damacy.Config(batch_size=batch_size, dtype="i32", **(small | fields))


def loader(sampler, rank=0, ranks=1, **arguments):
    return Loader(sampler, config(GLOBAL_BATCH // ranks), rank=rank, ranks=ranks, **arguments)


def rows(batch):
    with batch as lent:
        return [tuple(row.ravel().tolist()) for row in lent.numpy()]


def steps(loaders, count):
    """The rows of `count` steps of all ranks together, and the states after each step."""
    found, states = [], []
    streams = [itertools.chain.from_iterable(itertools.repeat(each)) for each in loaders]  # epoch after epoch
    for _ in range(count):
        found.append([row for stream in streams for row in rows(next(stream))])
        states.append([each.state_dict() for each in loaders])
        assert all(state == states[-1][0] for state in states[-1])
    for each in loaders:
        each.close()
    return found, [state[0] for state in states]


def test_arguments_in_the_wrong_place_are_refused_with_their_names(arrays):
    sampler = RandomCrops(arrays, (3, 4), length=14)
    with pytest.raises(TypeError, match=r"^sampler must have sample.* \(got Config\)"):
        Loader(config(2), sampler)
    with pytest.raises(TypeError, match=r"^sampler must have sample.* \(got list\): say Indexed\(samples, "):
        Loader([sampler.sample(0, 0)], config(2))
    with pytest.raises(TypeError, match=r"^config must be a Config \(got int\)"):
        Loader(sampler, 2)


@pytest.mark.parametrize("tail", ["drop", "wrap"])
@pytest.mark.parametrize("make", ["random", "grid"])
def test_a_run_resumed_at_any_step_on_any_ranks_delivers_the_same_samples(arrays, make, tail):
    if make == "random":
        sampler = RandomCrops(arrays, (3, 4), length=14, seed=5)
    else:
        sampler = SlidingGrid(arrays, (4, 5), stride=3, seed=5)
    total = 9  # over epoch borders
    whole, states = steps([loader(sampler, tail=tail)], total)
    assert len({row for step in whole for row in step}) > 20
    for ranks, done in itertools.product((1, 2, 4), range(total)):
        resumed = [loader(sampler, rank, ranks, tail=tail) for rank in range(ranks)]
        for each in resumed:
            if done:
                each.load_state_dict(pickle.loads(pickle.dumps(states[done - 1])))
        assert steps(resumed, total - done)[0] == whole[done:], (ranks, done)


def test_ranks_make_equal_steps_and_cover_the_epoch(arrays):
    grid = SlidingGrid(arrays, (4, 5))
    assert len(grid) == 3 * 2 + 3 * 4
    for ranks, tail, expected in ((1, "drop", 4), (2, "wrap", 5), (4, "drop", 4)):
        loaders = [loader(grid, rank, ranks, tail=tail) for rank in range(ranks)]
        assert [len(each) for each in loaders] == [expected] * ranks
        found = [list(map(rows, each)) for each in loaders]
        assert [len(batches) for batches in found] == [expected] * ranks
        seen = collections.Counter(row for batches in found for batch in batches for row in batch)
        assert len(seen) == min(len(grid), expected * GLOBAL_BATCH)
        for each in loaders:
            each.close()


def test_rows_are_the_crops_of_the_sampler(arrays):
    crops = RandomCrops(arrays, (3, 4), length=8, seed=1)
    stored = {str(path): zarr.open_array(path)[:] for path in arrays}
    with loader(crops) as each:
        for epoch in range(2):
            found = [row for batch in each for row in rows(batch)]
            samples = [crops.sample(epoch, index) for index in range(8)]
            assert found == [
                tuple(stored[s.uri][tuple(slice(*axis) for axis in s.aabb)].ravel().tolist()) for s in samples
            ]
        assert each.epoch == 2


def test_after_a_break_the_epoch_begins_again(arrays):
    crops = RandomCrops(arrays, (3, 4), length=12, seed=1)
    with loader(crops) as each:
        whole = [rows(batch) for batch in each]
    with loader(crops) as each:
        for count in (1, 2, 1):
            assert [rows(batch) for batch in itertools.islice(each, count)] == whole[:count]
            assert each.state_dict()["samples"] == count * GLOBAL_BATCH
        assert [rows(batch) for batch in each] == whole
        assert each.epoch == 1


def test_a_look_at_the_first_batch_on_one_rank_takes_no_step(arrays):
    crops = RandomCrops(arrays, (3, 4), length=12, seed=1)
    loaders = [loader(crops, rank, 2) for rank in range(2)]
    next(iter(loaders[0])).release()
    counts = [[len([rows(batch) for batch in each]) for _ in range(2)] for each in loaders]
    assert counts == [[3, 3], [3, 3]]
    for each in loaders:
        each.close()


def test_after_a_look_a_loaded_state_is_continued(arrays):
    crops = RandomCrops(arrays, (3, 4), length=16, seed=1)
    with loader(crops) as each:
        whole = [rows(batch) for batch in each]
        state = each.state_dict() | {"epoch": 0, "samples": 4}
        each.load_state_dict(state)
        for _ in range(2):
            assert rows(next(iter(each))) == whole[1]
        assert [rows(batch) for batch in each] == whole[1:]
        assert each.epoch == 1
        assert len([rows(batch) for batch in each]) == 4  # the next epoch is whole


def test_an_older_iterator_raises_when_a_newer_one_has_begun(arrays):
    with loader(RandomCrops(arrays, (3, 4), length=12, seed=1)) as each:
        older = iter(each)
        first = rows(next(older))
        newer = iter(each)
        assert rows(next(newer)) == first
        with pytest.raises(RuntimeError, match="another iteration of the loader has begun"):
            next(older)
        assert len([rows(batch) for batch in newer]) == 2


def test_an_interrupted_iteration_is_continued(arrays):
    crops = RandomCrops(arrays, (3, 4), length=16, seed=1)
    calls = []

    def interrupted(batch):
        calls.append(rows(batch))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return calls[-1]

    with loader(crops) as each:
        whole = [rows(batch) for batch in each]
    with loader(crops, transform=interrupted) as each:
        with pytest.raises(KeyboardInterrupt):
            list(each)
        assert list(each) == whole[1:]  # the loop did not get the second batch
        assert each.epoch == 1


def test_a_failed_batch_raises_in_its_turn_and_the_run_continues(tmp_path):
    path = tmp_path / "c.zarr"
    zarr.create_array(path, shape=(12, 5), chunks=(4, 5), dtype="i4")[:] = 1
    (path / "c" / "1" / "0").write_bytes(b"broken")
    grid = SlidingGrid([path], (2, 5))
    with Loader(grid, config(2)) as each:
        batches = iter(each)
        assert len(rows(next(batches))) == 2
        with pytest.raises(damacy.DecodeError):
            next(batches)
        assert each.state_dict()["samples"] == 4
        assert [len(rows(batch)) for batch in each] == [2]
        assert each.epoch == 1
    with Loader(grid, config(2, on_error="skip")) as each:
        assert [len(rows(batch)) for batch in each] == [2, 2]
        assert each.state_dict() == {"epoch": 1, "samples": 0, "seed": 0, "length": 6}


def test_a_missing_array_raises_each_time_and_does_not_end_the_epoch(arrays, tmp_path):
    crops = RandomCrops({tmp_path / "none.zarr": (5, 5)}, (3, 4), length=8)
    with loader(crops) as each:
        for _ in range(2):
            with pytest.raises(damacy.NotFound):
                next(iter(each))
        assert each.state_dict()["samples"] == 0


def test_batches_before_a_missing_array_are_delivered(arrays, tmp_path):
    grid = SlidingGrid({arrays[0]: (12, 10), tmp_path / "none.zarr": (4, 5)}, (4, 5))
    with Loader(grid, config(2), tail="wrap") as each:
        batches = iter(each)
        for _ in range(3):
            next(batches).release()
        with pytest.raises(damacy.NotFound):
            next(batches)
        for _ in range(2):
            with pytest.raises(damacy.NotFound):
                next(iter(each))
        assert each.state_dict()["samples"] == 6


def test_a_state_of_another_run_is_refused(arrays):
    state = loader(RandomCrops(arrays, (3, 4), length=8, seed=1)).state_dict()
    with pytest.raises(ValueError, match="seed 1, this one has 2"):
        loader(RandomCrops(arrays, (3, 4), length=8, seed=2)).load_state_dict(state)
    with pytest.raises(ValueError, match="length 8, this one has 9"):
        loader(RandomCrops(arrays, (3, 4), length=9, seed=1)).load_state_dict(state)


def test_a_state_continues_with_another_batch_size(arrays):
    crops = RandomCrops(arrays, (3, 4), length=16, seed=1)
    with Loader(crops, config(2)) as each:
        whole = [row for batch in each for row in rows(batch)]
    with Loader(crops, config(2)) as each:
        next(iter(each))
        state = each.state_dict()
    with Loader(crops, config(7)) as each:
        each.load_state_dict(state)
        assert [row for batch in each for row in rows(batch)] == whole[2:]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rank": 1}, "below ranks"),
        ({"rank": -1, "ranks": 2}, "below ranks"),
        ({"tail": "keep"}, "'pad' or 'short'"),
        ({"ranks": 5}, "no whole step of 10: reduce batch_size, or say tail='pad'"),
    ],
)
def test_loaders_refuse_invalid_arguments(arrays, arguments, message):
    with pytest.raises(ValueError, match=message):
        Loader(RandomCrops(arrays, (3, 4), length=8), config(2), **arguments)


def test_a_state_that_is_not_of_a_loader_is_refused(arrays):
    each = loader(RandomCrops(arrays, (3, 4), length=12, seed=3))
    state = each.state_dict()
    for wrong, lacking in (
        ({"model": {}, "loader": state}, "'epoch', 'samples', 'seed', 'length'"),
        ({name: state[name] for name in state if name != "length"}, "'length'"),
    ):
        with pytest.raises(ValueError, match=f"^the state has no {lacking}: give what Loader.state_dict returned$"):
            each.load_state_dict(wrong)
        assert each.state_dict() == state


def test_ranks_that_could_differ_in_steps_are_refused(arrays):
    with pytest.raises(ValueError, match="unequal"):
        Loader(RandomCrops(arrays, (3, 4), length=8), config(2, on_error="skip"), ranks=2)


def test_explain_of_a_loader_names_the_bottleneck(arrays):
    with loader(RandomCrops(arrays, (3, 4), length=12, seed=3)) as each:
        for method in (each.explain, each.stats):
            with pytest.raises(RuntimeError, match="nothing was read yet: call this after the first batch"):
                method()
        batches = len([rows(batch) for batch in each])
        assert isinstance(each.explain(), damacy.Explanation)
        made = each.stats().batches_emitted
        assert made >= batches > 0
    assert each.stats().batches_emitted >= made  # the figures of the one that was closed
    assert each.explain().binds
    pickle.loads(pickle.dumps(each)).close()


def test_a_loader_is_pickled_without_its_pipeline(arrays):
    with loader(RandomCrops(arrays, (3, 4), length=12, seed=3)) as each:
        next(iter(each))
        copy = pickle.loads(pickle.dumps(each))
        assert [rows(batch) for batch in copy] == [rows(batch) for batch in each]
        copy.close()


# -- for batch in pipeline ---------------------------------------------------------------------------------------------


def test_a_pipeline_is_iterated_to_the_end_remainder_included(arrays):
    grid = SlidingGrid(arrays, (4, 5))
    samples = [grid.sample(0, k) for k in range(7)]
    with damacy.Pipeline(config(3)) as pipeline:
        for _ in range(2):
            pipeline.push(iter(samples))
            assert [len(rows(batch)) for batch in pipeline] == [3, 3, 1]
        assert list(pipeline) == []


def test_iteration_ends_only_at_the_end(arrays):
    grid = SlidingGrid(arrays, (4, 5))
    with damacy.Pipeline(config(1, n_batches=1)) as pipeline:
        pipeline.push([grid.sample(0, 0), grid.sample(0, 1)])
        batches = iter(pipeline)
        held = next(batches)
        with pytest.raises(damacy.TryAgain, match="held"):
            next(batches)
        held.release()
        next(batches).release()
        with pytest.raises(StopIteration):
            next(batches)


# -- samplers ----------------------------------------------------------------------------------------------------------


def test_a_crop_is_a_function_of_seed_epoch_and_index():
    def made(seed, epoch, index):
        return RandomCrops({"a": (1000, 1000)}, (2, 2), length=100, seed=seed).sample(epoch, index)

    assert made(1, 2, 3) == made(1, 2, 3)
    assert len({made(seed, epoch, index) for seed in range(4) for epoch in range(4) for index in range(4)}) == 64


def test_crops_are_distributed_evenly_over_places_and_arrays():
    crops = RandomCrops({"a": (4, 3), "b": (3, 3)}, (2, 2), length=20_000, seed=9)
    places = collections.Counter(crops.sample(0, index) for index in range(len(crops)))
    assert len(places) == 3 * 2 + 2 * 2
    assert all(abs(count - 2000) < 5 * 2000**0.5 for count in places.values())


def test_weights_choose_the_arrays():
    crops = RandomCrops({"a": (9,), "b": (9,), "c": (9,)}, (2,), length=20_000, weights=[3, 0, 1], seed=2)
    drawn = collections.Counter(crops.sample(1, index).uri for index in range(len(crops)))
    assert set(drawn) == {"a", "c"}
    assert drawn["a"] / len(crops) == pytest.approx(0.75, abs=0.02)


def test_aligned_crops_start_on_the_grid():
    crops = RandomCrops({"a": (100, 64)}, (10, 16), length=500, align=(5, 16))
    starts = {tuple(start for start, _ in crops.sample(0, index).aabb) for index in range(500)}
    assert {y % 5 for y, _ in starts} == {0}
    assert {x for _, x in starts} == {0, 16, 32, 48}
    assert {y for y, _ in starts} == set(range(0, 95, 5))


def test_a_sliding_grid_covers_every_voxel():
    grid = SlidingGrid({"a": (7, 10), "b": (3, 4)}, (3, 4), stride=(2, 3))
    covered = {"a": np.zeros((7, 10), int), "b": np.zeros((3, 4), int)}
    for index in range(len(grid)):
        sample = grid.sample(0, index)
        covered[sample.uri][tuple(slice(*axis) for axis in sample.aabb)] += 1
    assert all(each.min() >= 1 for each in covered.values())
    assert covered["b"].max() == 1


@pytest.mark.parametrize("size", [1, 2, 3, 16, 17, 100])
def test_a_shuffled_grid_is_another_permutation_in_each_epoch(size):
    grid = SlidingGrid({"a": (size,)}, (1,), seed=4)
    orders = [[grid.sample(epoch, k).aabb[0][0] for k in range(size)] for epoch in range(3)]
    assert all(sorted(order) == list(range(size)) for order in orders)
    assert size < 16 or len(set(map(tuple, orders))) == 3


def test_samplers_open_arrays_whose_shapes_are_not_given(arrays):
    with_shapes = {arrays[0]: (12, 10), arrays[1]: (9, 16)}
    for make in (lambda a: RandomCrops(a, (3, 4), length=50), lambda a: SlidingGrid(a, (3, 4))):
        assert [make(arrays).sample(0, k) for k in range(12)] == [make(with_shapes).sample(0, k) for k in range(12)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomCrops({}, (1,), length=1), "at least one"),
        (lambda: RandomCrops({"a": (5,)}, (6,), length=1), "axis 0 has 5 elements, a crop needs 6"),
        (lambda: RandomCrops({"a": (5,)}, (1, 1), length=1), "1 axes, extents has 2"),
        (lambda: RandomCrops({"a": (5,)}, (1,), length=0), "length must be >= 1"),
        (lambda: RandomCrops({"a": (5,)}, (1,), length=1, weights=[0]), "not all 0"),
        (lambda: RandomCrops({"a": (5,)}, (1,), length=1, weights=[1, 2]), "one number per array"),
        (lambda: RandomCrops({"a": (5,)}, (1,), length=1, align=0), "align"),
        (lambda: SlidingGrid({"a": (5,)}, (1,), stride=(1, 1)), "stride has 2 axes"),
    ],
)
def test_samplers_refuse_invalid_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_index_beyond_the_epoch_is_refused():
    for index in (-1, 5):
        with pytest.raises(IndexError):
            SlidingGrid({"a": (5,)}, (1,)).sample(0, index)
