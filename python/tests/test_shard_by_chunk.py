"""Loaders that divide samples among ranks by chunks: each sample once, equal steps, few shared chunks, exact states."""

import collections
import itertools
import pickle
import random

import numpy as np
import pytest

import damacy
from damacy._training import chunk_order
from damacy._training.chunk_order import ChunkOrder, Shards
from damacy._training.schedule import Schedule
from damacy.samplers import Indexed, RandomCrops, SlidingGrid, Weighted, Windows
from damacy.training import Loader

zarr = pytest.importorskip("zarr")

SHAPE, CHUNKS = (96, 80), (8, 16)


@pytest.fixture(scope="module")
def uris(tmp_path_factory):
    """Arrays of distinct elements, so that a row identifies its crop."""
    folder = tmp_path_factory.mktemp("shards")
    for k in range(3):
        array = zarr.create_array(folder / f"{k}.zarr", shape=SHAPE, chunks=CHUNKS, dtype="i4")
        array[:] = k * 10_000 + np.arange(np.prod(SHAPE)).reshape(SHAPE)
    return [str(folder / f"{k}.zarr") for k in range(3)]


class Mixed:
    """A user's sampler without portions: pairs, ranges and single indices, one box, and named arrays."""

    seed = 0

    def __init__(self, uris, length):
        self.uris, self.length = uris, length

    def __len__(self):
        return self.length

    def sample(self, epoch, index):
        draw = random.Random(f"{epoch} {index}")
        uri, row, column = draw.choice(self.uris), draw.randrange(-2, 90), draw.randrange(70)
        axis = draw.choice([(row, row + 4), range(row, row + 7, 2), damacy.Take([row + 3, row, row + 1, row])])
        box = [axis, (column, column + 6)]
        return damacy.Sample({"x": (uri, box), "y": (self.uris[0], [(0, 4), (0, 6)])})


def samplers(uris):
    yield RandomCrops(uris, (5, 9), length=331, seed=3)
    yield SlidingGrid(uris[:1], (8, 16), seed=1)
    yield Windows({"x": (uris[0], (-2, 2))}, dim=0, seed=4, extents=(7,))
    yield Weighted(SlidingGrid(uris, (8, 16)), [1, 2, 3] * 60, length=97)
    yield Indexed(RandomCrops(uris, (5, 9), length=50), list(range(49, -1, -1)))
    yield Mixed(uris, 140)


def schedules(sampler, batch_size, ranks, tail, shard_by="chunk"):
    return [Schedule(sampler, batch_size, rank, ranks, tail, shard_by) for rank in range(ranks)]


def epoch_of(schedule, epoch, done=0, shards=None):
    """The samples of a rank's steps of an epoch, step by step."""
    stream = schedule.stream(epoch, done, shards or schedule.shards, repeat=False)
    return [list(itertools.islice(stream, schedule.batch_size)) for _ in range(schedule.steps_left(done))]


def keys(steps):
    return [sample.row_key for step in steps for sample in step]


def chunks(samples):
    """The chunks of one array's boxes of pairs."""
    found = set()
    for sample in samples:
        axes = [range(start // size, (stop - 1) // size + 1) for (start, stop), size in zip(sample.aabb, CHUNKS)]
        found |= {(sample.uri, *cell) for cell in itertools.product(*axes)}
    return found


@pytest.mark.parametrize("which", range(6))
@pytest.mark.parametrize("tail", ["drop", "wrap", "pad"])
def test_all_ranks_together_get_every_sample_once_in_equal_steps(uris, which, tail):
    sampler = list(samplers(uris))[which]
    for ranks, batch_size, epoch in itertools.product((2, 3, 7), (1, 4), (0, 5)):
        all_of_them = schedules(sampler, batch_size, ranks, tail)
        found = [epoch_of(schedule, epoch) for schedule in all_of_them]
        assert len({len(steps) for steps in found}) == 1
        assert all(len(step) == batch_size for steps in found for step in steps)
        counts = collections.Counter(key for steps in found for key in keys(steps))
        by_order = [epoch_of(each, epoch) for each in schedules(sampler, batch_size, ranks, tail, "order")]
        usual = collections.Counter(key for steps in by_order for key in keys(steps))
        if tail == "wrap":  # other samples are repeated, but as many
            assert (set(counts), counts.total()) == (set(usual), usual.total())
        elif tail == "drop":
            assert counts == usual
        else:
            whole = len(all_of_them[0].sampler) // (ranks * batch_size) * batch_size
            valid = collections.Counter()
            for schedule, steps in zip(all_of_them, found):
                valid.update(keys(steps)[:whole])
                valid.update(keys(steps)[whole:][: schedule.own_rows(whole * ranks)])
            assert valid == collections.Counter((epoch, index) for index in range(len(sampler)))


@pytest.mark.parametrize("which", range(6))
def test_samples_are_those_of_the_sampler_and_the_same_in_another_process(uris, which):
    sampler = list(samplers(uris))[which]
    schedule = Schedule(sampler, 3, 1, 2, "drop", "chunk")
    found = [sample for step in epoch_of(schedule, 2) for sample in step]
    assert all(sample == sampler.sample(*sample.row_key) for sample in found)
    again = epoch_of(Schedule(pickle.loads(pickle.dumps(sampler)), 3, 1, 2, "drop", "chunk"), 2)
    assert keys(again) == [sample.row_key for sample in found]
    assert keys(epoch_of(schedule, 3)) != [(3, sample.row_key[1]) for sample in found]


def test_within_a_shard_samples_keep_the_order_of_the_sampler(uris):
    sampler = RandomCrops(uris, (5, 9), length=400, seed=3)
    for schedule in schedules(sampler, 5, 4, "drop"):
        indices = [index for _, index in keys(epoch_of(schedule, 0))]
        assert indices == sorted(indices)


def test_crops_of_whole_chunks_share_at_most_one_chunk_for_each_pair_of_neighbours(uris):
    sampler = RandomCrops(uris, CHUNKS, length=4_000, align=CHUNKS, seed=1)
    for ranks in (2, 3, 4, 8):
        found = [
            chunks(sample for step in epoch_of(each, 0) for sample in step)
            for each in schedules(sampler, 5, ranks, "drop")
        ]
        assert sum(map(len, found)) <= len(set().union(*found)) + ranks - 1


def test_ranks_read_far_fewer_chunks_than_in_order_and_nearly_the_same_in_every_epoch(uris):
    sampler = RandomCrops(uris, (5, 9), length=4_000, seed=1)
    epochs, ranks = 4, 4

    def chunks_by_rank(shard_by):
        return [
            chunks(sample for epoch in range(epochs) for step in epoch_of(each, epoch) for sample in step)
            for each in schedules(sampler, 5, ranks, "drop", shard_by)
        ]

    total = len(set().union(*chunks_by_rank("order")))
    assert total == 3 * 12 * 5
    assert [len(each) for each in chunks_by_rank("order")] == [total] * ranks
    assert max(len(each) for each in chunks_by_rank("chunk")) <= 0.42 * total  # a quarter, and neighbours of it


def test_a_million_samples_are_drawn_once_to_divide_them_and_few_arrays_are_opened(monkeypatch):
    # Shapes are given, and the arrays do not exist: what is opened is counted.
    names = {f"none-{k}.zarr": (512, 512) for k in range(1_000)}
    crops, opened, drawn = RandomCrops(names, (40, 40), length=1_000_000), [], collections.Counter()

    class Counted:
        seed = 0

        def __len__(self):
            return len(crops)

        def sample(self, epoch, index):
            drawn["one"] += 1
            return crops.sample(epoch, index)

        def samples(self, epoch, start, stop):
            drawn["many"] += stop - start
            return crops.samples(epoch, start, stop)

    def look(uri):
        opened.append(uri)
        return type("Look", (), {"chunks": (32, 32)})

    monkeypatch.setattr(chunk_order, "look", look)
    order, ranks, batch_size = ChunkOrder(Counted(), Shards(8, 4)), 8, 4
    step = ranks * batch_size
    seen = np.concatenate([order.indices(0, first, first + step) for first in range(0, 1_000_000, step)])
    assert np.array_equal(np.sort(seen), np.arange(1_000_000))
    assert drawn == {"many": 1_000_000}
    assert len(opened) <= (ranks - 1) * 4  # portions of 262,144
    list(order.samples(0, 999_000, 999_004))
    assert drawn == {"many": 1_000_000, "one": 4}


def config(batch_size, **fields):
    small = {"host_buffer_bytes": 1 << 20, "device_buffer_bytes": 1 << 20, "n_io_threads": 1, "device": "cpu"}
    return damacy.Config(batch_size=batch_size, dtype="i32", **(small | fields))


def loaders(sampler, ranks, batch, **arguments):
    return [
        Loader(sampler, config(batch // ranks), rank=rank, ranks=ranks, shard_by="chunk", **arguments)
        for rank in range(ranks)
    ]


def rows(batch):
    with batch as lent:
        return [tuple(row.ravel().tolist()) for row in lent.numpy()]


def steps(loaders, count):
    """The sorted rows of each step of all ranks, and the states after each step."""
    streams = [itertools.chain.from_iterable(itertools.repeat(each)) for each in loaders]
    found, states = [], []
    for _ in range(count):
        found.append(sorted(row for stream in streams for row in rows(next(stream))))
        states.append([each.state_dict() for each in loaders])
        assert all(state == states[-1][0] for state in states[-1])
    for each in loaders:
        each.close()
    return found, [state[0] for state in states]


@pytest.mark.parametrize("tail", ["drop", "wrap", "pad"])
def test_a_run_resumed_at_any_step_on_any_ranks_delivers_the_rest_of_the_epoch(uris, tail):
    sampler = RandomCrops(uris, (3, 4), length=29, seed=5)
    per_epoch = len(loaders(sampler, 4, 4, tail=tail)[0])
    total = per_epoch + 2  # over the border
    whole, states = steps(loaders(sampler, 4, 4, tail=tail), total)
    assert states[0] == {
        "epoch": 0, "samples": 4, "seed": 5, "length": 29, "stream": 2, "shard_ranks": 4, "shard_batch_size": 1,
    }  # fmt: skip
    assert states[per_epoch - 1] == {"epoch": 1, "samples": 0, "seed": 5, "length": 29, "stream": 2}
    for ranks, done in itertools.product((1, 2, 4), range(1, total)):
        resumed = loaders(sampler, ranks, 4, tail=tail)
        for each in resumed:
            each.load_state_dict(states[done - 1])
        rest = steps(resumed, total - done)[0]
        ends = max(0, per_epoch - done)
        if done > per_epoch:
            assert rest == whole[done:], (ranks, done)  # the second epoch was begun by 4 ranks
        else:
            assert rest[:ends] == whole[done : done + ends], (ranks, done)
        if ranks == 4:
            assert rest == whole[done:]


def test_a_loader_in_order_continues_an_epoch_that_was_divided_by_chunks_and_the_other_way_round(uris):
    sampler = RandomCrops(uris, (3, 4), length=24, seed=5)

    def expected(keys):
        stored = {uri: zarr.open_array(uri)[:] for uri in uris}
        found = [sampler.sample(*key) for key in keys]
        return sorted(tuple(stored[s.uri][tuple(slice(*axis) for axis in s.aabb)].ravel().tolist()) for s in found)

    divided = loaders(sampler, 2, 4)
    begun, states = steps(divided, 2)
    with Loader(sampler, config(4)) as each:
        each.load_state_dict(states[-1])
        rest = [row for batch in each for row in rows(batch)]
    assert sorted([row for step in begun for row in step] + rest) == expected((0, k) for k in range(24))
    in_order = Loader(sampler, config(4))
    begun, states = steps([in_order], 2)
    resumed = loaders(sampler, 2, 4)
    for each in resumed:
        each.load_state_dict(states[-1])
    assert states[-1].keys() == {"epoch", "samples", "seed", "length", "stream"}
    rest = steps(resumed, 4)[0]
    assert rest == [expected((0, k) for k in range(first, first + 4)) for first in range(8, 24, 4)]


def test_a_pickled_loader_and_one_that_takes_other_ranks_stay_in_the_epoch_that_was_begun(uris, monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    sampler = RandomCrops(uris, (3, 4), length=24, seed=5)
    auto = Loader(sampler, config(2), rank="auto", ranks="auto", shard_by="chunk")
    auto._take_ranks(1, 3)
    next(iter(auto)).release()
    copied = pickle.loads(pickle.dumps(auto))
    copied._take_ranks(1, 3)
    assert (copied.state_dict(), auto.state_dict()["shard_ranks"]) == (auto.state_dict(), 3)
    whole = [row for batch in auto for row in rows(batch)]
    assert [row for batch in copied for row in rows(batch)] == whole
    with Loader(sampler, config(2), rank=1, ranks=3, shard_by="chunk") as each:
        assert [row for batch in each for row in rows(batch)] == whole
    other = Loader(sampler, config(2), rank="auto", ranks="auto", shard_by="chunk")
    other._take_ranks(1, 3)
    next(iter(other)).release()
    other._take_ranks(0, 1)
    assert {"shard_ranks": 3, "shard_batch_size": 2}.items() <= other.state_dict().items()
    other.close()


def test_an_array_that_cannot_be_opened_raises_and_the_loader_can_be_used_again(tmp_path):
    crops = RandomCrops({tmp_path / "none.zarr": (64, 64)}, (3, 4), length=8)
    with Loader(crops, config(2), rank=1, ranks=2, shard_by="chunk") as each:
        for _ in range(2):
            with pytest.raises(damacy.NotFound, match=r"none\.zarr"):
                next(iter(each))
        zarr.create_array(tmp_path / "none.zarr", shape=(64, 64), chunks=(8, 8), dtype="i4")
        assert len(list(map(rows, each))) == 2


def test_an_array_that_is_gone_in_a_later_epoch_raises_in_its_turn(uris, tmp_path):
    class Leaving:
        seed = 0

        def __len__(self):
            return 4

        def sample(self, epoch, index):
            uri = uris[0] if epoch == 0 else str(tmp_path / "none.zarr")
            return damacy.Sample(uri, [(0, 4), (index, index + 4)])

    with Loader(Leaving(), config(1), rank=0, ranks=2, shard_by="chunk") as each:
        assert len(list(map(rows, each))) == 2
        with pytest.raises(damacy.NotFound, match=r"none\.zarr"):
            next(iter(each))


def test_wrong_values_are_refused(uris):
    sampler = RandomCrops(uris, (3, 4), length=24)
    with pytest.raises(ValueError, match=r"^shard_by must be 'order' or 'chunk' \(got 'chunks'\)$"):
        Loader(sampler, config(2), shard_by="chunks")
    with Loader(sampler, config(2), shard_by="chunk") as each:
        state = each.state_dict()
        with pytest.raises(ValueError, match="must be >= 1"):
            each.load_state_dict(state | {"samples": 4, "shard_ranks": 0})
        assert "shard_by='chunk'" in repr(each)
