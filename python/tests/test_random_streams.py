"""Random streams are frozen: a seed draws the same samples in all versions, and samplers of one seed draw one place.

The golden files were written by the release that introduced each stream; they are never written again."""

import hashlib
import json
import pathlib

import numpy as np
import pytest

import damacy
from damacy.samplers import Indexed, RandomCrops, SlidingGrid, Weighted, split
from damacy.training import Loader

GOLDEN = {
    stream: json.loads((pathlib.Path(__file__).parent / "golden" / f"crops_stream_{stream}.json").read_text())
    for stream in (1, 2)
}
SMALL = {"host_buffer_bytes": 1 << 20, "device_buffer_bytes": 1 << 20, "n_io_threads": 1, "device": "cpu"}


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    """The arrays that the golden loaders read; all elements are distinct."""
    zarr = pytest.importorskip("zarr")
    folder = tmp_path_factory.mktemp("streams")
    for name, shape, first in (("a", (12, 10), 0), ("b", (9, 16), 1000)):
        array = zarr.create_array(folder / f"{name}.zarr", shape=shape, chunks=(4, 5), dtype="i4")
        array[:] = first + np.arange(np.prod(shape)).reshape(shape)
    return {folder / "a.zarr": (12, 10), folder / "b.zarr": (9, 16)}


def crops(arguments, **more):
    named = dict(arguments)
    return RandomCrops(named.pop("arrays"), named.pop("extents"), **named, **more)


def shown(sampler, epoch, index):
    sample = sampler.sample(epoch, index)
    return [epoch, index, sample.uri, [list(axis) for axis in sample.aabb]]


@pytest.mark.parametrize("stream", [1, 2])
def test_draws_are_those_of_the_golden_file(stream):
    for case in GOLDEN[stream]["crops"]:
        sampler = crops(case["arguments"], stream=stream)
        assert [shown(sampler, epoch, index) for epoch, index, _, _ in case["samples"]] == case["samples"]


def test_stream_2_is_one_number_per_purpose():
    """Purpose 0 is the array, 1 + k the k-th axis from the last. Computed again here, without the library."""
    mask, golden = (1 << 64) - 1, 0x9E3779B97F4A7C15

    def mix(bits):
        bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & mask
        bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & mask
        return bits ^ bits >> 31

    def draw(key, purpose, bound):
        state = len(key)
        for number in key:
            state = mix((state ^ number) + golden & mask)
        return mix(state + golden * (purpose + 1) & mask) * bound >> 64

    sampler = RandomCrops({"a": (3, 40, 50), "b": (3, 40, 50)}, (3, 8, 9), length=50, seed=5)
    for index in range(50):
        key = (5, 2, index)
        starts = [0, draw(key, 2, 33), draw(key, 1, 42)]
        expected = [[start, start + extent] for start, extent in zip(starts, (3, 8, 9))]
        assert shown(sampler, 2, index) == [2, index, "ab"[draw(key, 0, 2)], expected]


def test_the_order_of_a_shuffled_grid_is_that_of_the_golden_file():
    grid = SlidingGrid({"a": (40, 30), "b": (9, 16)}, (8, 8), stride=5, seed=11, stream=1)
    expected = GOLDEN[1]["shuffled_grid"]
    assert [shown(grid, epoch, index) for epoch, index, _, _ in expected] == expected


def mixed(bits):
    mask = (1 << 64) - 1
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & mask
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & mask
    return bits ^ bits >> 31


def even_order(size, *key):
    """The order of `size` numbers of splitmix64. Computed again here, without the library."""
    mask, golden = (1 << 64) - 1, 0x9E3779B97F4A7C15
    state = len(key)
    for number in key:
        state = mixed((state ^ number) + golden & mask)
    return sorted(range(size), key=lambda k: mixed(state + golden * (k + 1) & mask))


@pytest.mark.parametrize("size", [1, 5, 40])
def test_even_orders_are_those_of_random_numbers(size):
    grid = SlidingGrid({"a": (size,)}, (1,), seed=11)
    assert grid.stream == 2
    assert grid.boxes(3, 0, size)[:, 0, 0].tolist() == even_order(size, 11, 3)
    arrays = {f"{k}": (9,) for k in range(size)}
    sides = split(arrays, {"train": 0.6, "val": 0.4} if size > 1 else {"all": 1}, seed=5)
    order, first = even_order(size, 5), round(0.6 * size)
    chosen = [k for k in range(size) if order[k] < first or size == 1]
    assert list(next(iter(sides.values())).uris) == [f"{k}" for k in chosen]


def test_few_elements_are_shuffled_evenly():
    """For 5 arrays one is held out by each of five in a fifth of seeds, and pairs of first crops are equally likely."""
    held_out = np.zeros(5)
    arrays = {f"{k}": (9,) for k in range(5)}
    for seed in range(2000):
        (uri,) = split(arrays, {"train": 0.8, "val": 0.2}, seed=seed)["val"].uris
        held_out[int(uri)] += 1
    assert (abs(held_out / 2000 - 0.2) < 0.04).all()  # more than 4 standard deviations; the last was in 0.265 of seeds
    grid, pairs = SlidingGrid({"a": (4,)}, (1,), seed=0), np.zeros((4, 4))
    for epoch in range(3000):
        first, second = grid.boxes(epoch, 0, 2)[:, 0, 0].tolist()
        pairs[first, second] += 1
    assert (abs(pairs[~np.eye(4, dtype=bool)] / 250 - 1) < 0.3).all()  # 4 to 5 standard deviations


@pytest.mark.parametrize("size", [4095, 4096, 4097])
def test_orders_are_permutations_on_both_sides_of_the_bound(size):
    orders = []
    for stream in (1, 2):
        grid = SlidingGrid({"a": (size,)}, (1,), seed=11, stream=stream)
        order = grid.boxes(1, 0, size)[:, 0, 0].tolist()
        assert sorted(order) == list(range(size))
        assert [grid.sample(1, k).aabb[0][0] for k in (0, 7, size - 1)] == [order[0], order[7], order[-1]]
        orders.append(order)
    assert (orders[0] == orders[1]) == (size >= 4096)


def test_a_grid_in_order_has_the_states_that_it_had():
    assert SlidingGrid({"a": (9,)}, (1,)).stream == 1
    with pytest.raises(ValueError, match=r"^stream must be 1 or 2 \(got 3\)$"):
        SlidingGrid({"a": (9,)}, (1,), stream=3)


def test_a_state_of_another_stream_of_the_split_is_refused():
    arrays = {f"{k}": (9, 9) for k in range(5)}

    def loaders(stream):
        within = split(arrays, {"train": 0.6, "val": 0.4}, seed=3, stream=stream)["train"]
        assert within.uris != split(arrays, {"train": 0.6, "val": 0.4}, seed=3, stream=3 - stream)["train"].uris
        grid = SlidingGrid(arrays, (3, 3), within=within)
        crops = RandomCrops(arrays, (3, 3), length=8, seed=1, within=within)
        chosen = Indexed(crops, range(8)), Weighted(crops, [1] * 8, length=8)
        return [Loader(sampler, damacy.Config(batch_size=2, **SMALL)) for sampler in (grid, crops, *chosen)]

    for made in (1, 2):
        for own, other in zip(loaders(made), loaders(3 - made)):
            state = own.state_dict()
            assert state.get("split_stream", 1) == made
            own.load_state_dict(state)
            with pytest.raises(ValueError) as refused:
                other.load_state_dict(state)
            assert str(refused.value) == (
                f"the state is of a split of random stream {made}, this sampler's is of {3 - made}: "
                f"say split(..., stream={made})"
            )
    without = Loader(RandomCrops(arrays, (3, 3), length=8), damacy.Config(batch_size=2, **SMALL)).state_dict()
    assert "split_stream" not in without


def test_the_former_split_is_drawn_by_its_stream():
    """The sides were drawn by the release before stream 2; they must not change."""
    arrays = {f"{k}": (9,) for k in range(12)}
    found = [split(arrays, {"train": 0.75, "val": 0.25}, seed=seed, stream=1)["val"].uris for seed in range(4)]
    assert found == FORMER


FORMER = [("1", "2", "6"), ("4", "5", "6"), ("3", "5", "9"), ("3", "6", "9")]


@pytest.mark.parametrize("stream", [1, 2])
@pytest.mark.parametrize("case", range(4))
def test_batches_and_states_are_those_of_the_golden_file(arrays, stream, case):
    golden = GOLDEN[stream]["loaders"][case]
    sampler = RandomCrops(arrays, (3, 4), length=14, seed=5, stream=stream)
    config = damacy.Config(batch_size=4 // golden["ranks"], dtype="i32", **SMALL)
    place = {name: golden[name] for name in ("rank", "ranks", "tail")}
    found = []
    with Loader(sampler, config, **place) as loader:
        while len(found) < len(golden["steps"]):
            for batch in loader:
                with batch as lent:
                    found.append([hashlib.sha256(lent.numpy().tobytes()).hexdigest(), loader.state_dict()])
    assert found[: len(golden["steps"])] == golden["steps"]


@pytest.mark.parametrize(
    "sampler",
    [
        RandomCrops({"a": (9, 40, 30), "b": (9, 16, 41)}, (3, 8, 8), length=50, seed=3),
        RandomCrops({"a": (9, 40, 30)}, (3, 8, 8), length=50, seed=-(1 << 70), stream=1, align=(1, 4, 2)),
        SlidingGrid({"a": (40, 30), "b": (9, 16)}, (8, 8), stride=5, seed=11),
        SlidingGrid({"a": (40, 30), "b": (9, 16)}, (8, 8), stride=5, seed=11, stream=1),
        SlidingGrid({"a": (40, 30), "b": (9, 16)}, (8, 8)),
    ],
)
def test_many_samples_are_those_of_one_at_a_time(sampler):
    for epoch in (0, 3, 1 << 66):
        one_by_one = [sampler.sample(epoch, index) for index in range(len(sampler))]
        for start, stop in ((0, len(sampler)), (0, 0), (7, 19), (len(sampler), len(sampler))):
            portion = sampler.samples(epoch, start, stop)
            assert portion == one_by_one[start:stop]
            assert [sample.row_key for sample in portion] == [(epoch, index) for index in range(start, stop)]
            assert [sample.row_key for sample in one_by_one[start:stop]] == [sample.row_key for sample in portion]
    for start, stop in ((-1, 2), (3, 2), (0, len(sampler) + 1)):
        with pytest.raises(IndexError, match=rf"^samples \[{start}, {stop}\) of an epoch of {len(sampler)}$"):
            sampler.samples(0, start, stop)


def test_the_default_is_stream_2():
    assert crops(GOLDEN[2]["crops"][0]["arguments"]).stream == 2
    with pytest.raises(ValueError, match=r"^stream must be 1 or 2 \(got 3\)$"):
        RandomCrops({"a": (5,)}, (1,), length=1, stream=3)


@pytest.mark.parametrize(
    ("image", "image_crop", "label", "label_crop"),
    [
        ((2, 16, 192, 192), (2, 8, 48, 48), (16, 192, 192), (8, 48, 48)),
        ((3, 64, 64), (1, 16, 16), (64, 64), (16, 16)),  # one of three channels
        ((1, 4, 16, 64, 64), (1, 1, 8, 16, 16), (16, 64, 64), (8, 16, 16)),
        ((16, 64, 64), (8, 16, 16), (16, 64, 64), (8, 16, 16)),
    ],
)
def test_one_seed_draws_one_place_from_the_last_axis(image, image_crop, label, label_crop):
    images = RandomCrops({"i0": image, "i1": image}, image_crop, length=40, seed=1)
    labels = RandomCrops({"l0": label, "l1": label}, label_crop, length=40, seed=1)
    pairs = [(images.sample(0, k), labels.sample(0, k)) for k in range(40)]
    assert sum(a.aabb[-len(label) :] == b.aabb and a.uri[1] == b.uri[1] for a, b in pairs) == 40
    assert len({b.aabb for _, b in pairs}) > 30


def test_the_documented_pair_reads_one_place(tmp_path):
    """The recipe of the documentation, end to end: an image of two channels, a label without a channel axis."""
    zarr = pytest.importorskip("zarr")
    places = np.arange(6 * 40 * 40, dtype="i4").reshape(6, 40, 40)
    image = zarr.create_array(tmp_path / "image.zarr", shape=(2, 6, 40, 40), chunks=(1, 3, 16, 16), dtype="i4")
    image[:] = np.stack([places, places + 1_000_000])
    label = zarr.create_array(tmp_path / "label.zarr", shape=(6, 40, 40), chunks=(6, 20, 20), dtype="i4")
    label[:] = places
    config = damacy.Config(batch_size=4, dtype="i32", **SMALL)
    images = Loader(RandomCrops([tmp_path / "image.zarr"], (2, 2, 8, 8), length=40, seed=1), config)
    labels = Loader(RandomCrops([tmp_path / "label.zarr"], (2, 8, 8), length=40, seed=1), config)
    paired = 0
    with images, labels:
        for x, y in zip(images, labels):
            with x, y:
                for row, truth in zip(x.numpy(), y.numpy()):
                    paired += bool((row[0] == truth).all() and (row[1] == truth + 1_000_000).all())
    assert paired == 40


@pytest.mark.parametrize("made", [1, 2])
def test_a_state_of_another_stream_is_refused(made):
    def loader(stream):
        sampler = RandomCrops({"a": (9, 9)}, (3, 3), length=8, seed=1, stream=stream)
        return Loader(sampler, damacy.Config(batch_size=2, **SMALL))

    state = loader(made).state_dict()
    assert state.get("stream", 1) == made
    loader(made).load_state_dict(state)
    other = 3 - made
    with pytest.raises(ValueError) as refused:
        loader(other).load_state_dict(state)
    assert str(refused.value) == (
        f"the state is of random stream {made}, this sampler has {other}: make it with stream={made}"
    )
