"""Samplers that draw many samples or boxes at once: they are those of one at a time, whatever the sizes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damacy._core import counter_rng, counter_rng_many
from damacy.samplers import RandomCrops, SlidingGrid

U64 = st.integers(0, (1 << 64) - 1)


@given(st.lists(st.tuples(U64, st.integers(1, 1 << 63)), min_size=1, max_size=30), st.integers(0, 200))
def test_numbers_of_arrays_are_those_of_integers(drawn, purpose):
    states = np.array([state for state, _ in drawn], np.uint64)
    bounds = np.array([bound for _, bound in drawn], np.uint64)
    expected = [counter_rng.draw_below(bound, state, purpose) for state, bound in drawn]
    assert counter_rng_many.draw_below(bounds, states, purpose).view(np.uint64).tolist() == expected
    one_bound = drawn[0][1]
    expected = [counter_rng.draw_below(one_bound, state, purpose) for state, _ in drawn]
    assert counter_rng_many.draw_below(one_bound, states, purpose).view(np.uint64).tolist() == expected


@pytest.mark.parametrize("bound", [1, 2, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, (1 << 53), (1 << 63) - 1, 1 << 63])
def test_bounds_around_32_bits_are_exact(bound):
    states = np.array([0, 1, (1 << 32) - 1, 1 << 32, (1 << 64) - 1, *range(5, 50)], np.uint64)
    expected = [counter_rng.draw_below(bound, state, 0) for state in states.tolist()]
    assert counter_rng_many.draw_below(bound, states, 0).view(np.uint64).tolist() == expected


@given(U64, st.lists(st.integers(0, (1 << 63) - 1), min_size=1, max_size=20))
def test_hashes_of_arrays_are_those_of_integers(state, numbers):
    expected = [counter_rng.extended(state, number) for number in numbers]
    assert counter_rng_many.extended(state, np.array(numbers, np.int64)).tolist() == expected


@settings(deadline=None)
@given(st.integers(1, 300), st.lists(st.integers(-(1 << 70), 1 << 70), max_size=3))
def test_permutations_of_arrays_are_those_of_integers(size, key):
    expected = [counter_rng.shuffled(k, size, *key) for k in range(size)]
    assert counter_rng_many.shuffled(np.arange(size), size, *key).tolist() == expected


SHAPES = st.integers(1, 3).flatmap(
    lambda axes: st.tuples(
        st.lists(st.tuples(*[st.integers(4, 40)] * axes), min_size=1, max_size=4),
        st.tuples(*[st.integers(1, 4)] * axes),
        st.tuples(*[st.integers(1, 5)] * axes),
    )
)


@settings(deadline=None)
@given(SHAPES, st.integers(-(1 << 70), 1 << 70), st.sampled_from([0, 1, 1 << 66]), st.sampled_from(["crops", "grid"]))
def test_many_samples_and_boxes_are_those_of_one_at_a_time(shapes, seed, epoch, kind):
    sizes, extents, steps = shapes
    arrays = {f"{k}.zarr": shape for k, shape in enumerate(sizes)}
    if kind == "crops":
        sampler = RandomCrops(arrays, extents, length=60, seed=seed, align=steps)
    else:
        sampler = SlidingGrid(arrays, extents, stride=steps, seed=seed)
    count = min(len(sampler), 60)
    one_by_one = [sampler.sample(epoch, index) for index in range(count)]
    for start in (0, count // 3):  # more, and fewer, than are worth NumPy
        portion = sampler.samples(epoch, start, count)
        assert portion == one_by_one[start:]
        assert [sample.row_key for sample in portion] == [(epoch, index) for index in range(start, count)]
    boxes = sampler.boxes(epoch, 0, count)
    assert boxes.dtype == np.int64 and boxes.shape == (count, len(extents), 2)
    assert [tuple(map(tuple, box)) for box in boxes.tolist()] == [sample.aabb for sample in one_by_one]


def test_more_places_than_64_bits_can_count_are_drawn():
    huge = {"a": (1 << 40, 1 << 40), "b": (1 << 40, 1 << 40)}
    crops = RandomCrops(huge, (7, 9), length=200, seed=3)
    assert math.prod(huge["a"]) > 1 << 64
    assert crops.samples(0, 0, 200) == [crops.sample(0, k) for k in range(200)]
    assert {sample.uri for sample in crops.samples(0, 0, 200)} == {"a", "b"}


def test_boxes_beyond_the_epoch_are_refused_and_none_are_an_empty_array():
    crops = RandomCrops({"a": (9, 9)}, (3, 3), length=50)
    assert crops.boxes(0, 50, 50).shape == (0, 2, 2)
    for start, stop in ((-1, 2), (3, 2), (0, 51)):
        with pytest.raises(IndexError, match=rf"^samples \[{start}, {stop}\) of an epoch of 50$"):
            crops.boxes(0, start, stop)


def test_boxes_of_several_arrays_are_those_of_the_cropped_axes(tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.create_array(tmp_path / "image.zarr", shape=(2, 40, 64), chunks=(1, 8, 16), dtype="u2")
    zarr.create_array(tmp_path / "label.zarr", shape=(40, 64), chunks=(16, 16), dtype="u1")
    crops = RandomCrops({"image": tmp_path / "image.zarr", "label": tmp_path / "label.zarr"}, (8, 16), length=90)
    expected = [sample.arrays["label"][0][1] for sample in crops.samples(2, 0, 90)]
    assert [tuple(map(tuple, box)) for box in crops.boxes(2, 0, 90).tolist()] == expected
    assert [sample.aabb[1:] for sample in crops.samples(2, 0, 90)] == expected
