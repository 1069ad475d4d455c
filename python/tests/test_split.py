"""`split` and `within`: sides have no voxel in common, and have their shares; `SlidingGrid(overlap=)`."""

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damacy.samplers import RandomCrops, SlidingGrid, Windows, split

SHARES = st.sampled_from(
    [{"train": 0.8, "val": 0.2}, {"a": 0.5, "b": 0.5}, {"a": 0.6, "b": 0.3, "c": 0.1}, {"all": 1}, {"a": 0.3, "b": 0.7}]
)
CASES = st.integers(1, 3).flatmap(
    lambda axes: st.tuples(
        st.lists(st.tuples(*[st.integers(6, 30)] * axes), min_size=1, max_size=3),
        st.tuples(*[st.integers(1, 9)] * axes),  # block
        st.tuples(*[st.integers(1, 6)] * axes),  # crop
    )
)


def voxels(shape, box):
    marked = np.zeros(shape, bool)
    marked[tuple(slice(*axis) for axis in box)] = True
    return marked


@settings(deadline=None, max_examples=40)
@given(CASES, SHARES, st.integers(0, 1 << 70))
def test_no_voxel_is_on_two_sides_and_shares_are_exact_to_one_block(case, shares, seed):
    shapes, block, crop = case
    arrays = {f"{k}.zarr": shape for k, shape in enumerate(shapes)}
    block = tuple(-(-least // step) * step for least, step in zip(crop, block))
    try:
        sides = split(arrays, shares, by="chunk", block=block, extents=crop, seed=seed)
    except ValueError as error:
        assert "gets none of" in str(error)
        return
    total = sum(map(len, sides.values()))
    assert all(abs(len(sides[side]) - share * total) <= 1 + 1e-9 for side, share in shares.items())
    owned = {}  # blocks divide each array
    for uri, shape in arrays.items():
        marks = {
            side: sum((voxels(shape, box) * 1 for box in within.blocks(uri)), np.zeros(shape, int))
            for side, within in sides.items()
        }
        assert (sum(marks.values()) == 1).all()
        owned[uri] = marks
    for side, within in sides.items():
        covered = {uri: np.zeros(shape, bool) for uri, shape in arrays.items()}
        crops = RandomCrops(arrays, crop, length=40, seed=seed, within=within)
        for sample in crops.samples(0, 0, 40):
            box = np.array(sample.aabb)
            blocks = within.blocks(sample.uri)
            inside = (blocks[:, :, 0] <= box[:, 0]) & (box[:, 1] <= blocks[:, :, 1])
            assert inside.all(axis=1).sum() == 1
        grid = SlidingGrid(arrays, crop, within=within)
        for sample in grid.samples(0, 0, len(grid)):
            covered[sample.uri] |= voxels(arrays[sample.uri], sample.aabb)
        for uri in arrays:  # blocks have room for a crop, so the grid reaches all of their voxels and no other
            assert (covered[uri] == (owned[uri][side] == 1)).all()


@given(st.integers(1, 60), SHARES, st.integers())
def test_arrays_are_divided_whole(count, shares, seed):
    arrays = {f"{k}.zarr": (9, 9) for k in range(count)}
    try:
        sides = split(arrays, shares, seed=seed)
    except ValueError as error:
        assert "gets none of" in str(error)
        return
    assert sorted(itertools.chain(*(within.uris for within in sides.values()))) == sorted(arrays)
    assert all(abs(len(within) - shares[side] * count) <= 1 + 1e-9 for side, within in sides.items())
    for within in sides.values():
        crops = RandomCrops(arrays, (3, 3), length=50, within=within)
        assert {sample.uri for sample in crops.samples(0, 0, 50)} <= set(within.uris)
        assert len(SlidingGrid(arrays, (3, 3), within=within)) == 9 * len(within)
        assert within.axes == ()


def test_a_split_depends_on_the_seed_alone():
    arrays = {f"{k}.zarr": (64, 64) for k in range(5)}
    shares = {"train": 0.8, "val": 0.2}

    def val(seed):
        within = split(arrays, shares, by="chunk", block=(8, 8), seed=seed)["val"]
        return {uri: within.blocks(uri).tolist() for uri in arrays}

    assert val(1) == val(1) and val(1) != val(2)
    within = split(arrays, shares, by="chunk", block=(8, 8), seed=1)["val"]
    again = pickle.loads(pickle.dumps(within))
    assert {uri: again.blocks(uri).tolist() for uri in arrays} == val(1) and repr(again) == repr(within)
    assert repr(within) == "<damacy.samplers.Within of 5 arrays: 64 blocks>"


def test_crops_are_distributed_evenly_over_the_places_of_a_side():
    arrays = {"a": (40,), "b": (25,)}
    within = split(arrays, {"x": 0.5, "y": 0.5}, by="chunk", block=(10,), extents=(6,), seed=2)["x"]
    blocks = [(uri, *block) for uri in arrays for block in within.blocks(uri)[:, 0].tolist()]
    places = {(uri, start) for uri, low, high in blocks for start in range(low, high - 5)}
    crops = RandomCrops(arrays, (6,), length=20_000, seed=4, within=within)
    drawn = [(sample.uri, sample.aabb[0][0]) for sample in crops.samples(0, 0, 20_000)]
    found = {place: drawn.count(place) for place in places}
    mean = 20_000 / len(places)
    assert set(drawn) == places and all(abs(count - mean) < 5 * math.sqrt(mean) for count in found.values())


def test_weights_and_alignment_hold_on_a_side():
    arrays = {"a": (64,), "b": (64,), "c": (64,)}
    within = split(arrays, {"x": 0.5, "y": 0.5}, by="chunk", block=(16,), seed=1)["x"]
    crops = RandomCrops(arrays, (4,), length=9000, align=3, weights=[3, 1, 0], within=within)
    samples = crops.samples(0, 0, 9000)
    assert samples == [crops.sample(0, k) for k in range(9000)]
    assert {sample.aabb[0][0] % 3 for sample in samples} == {0}
    share = sum(sample.uri == "a" for sample in samples) / 9000
    assert share == pytest.approx(0.75, abs=0.03) and "c" not in {sample.uri for sample in samples}
    for sample in samples:
        ((start, stop),) = sample.aabb
        assert any(low <= start and stop <= high for low, high in within.blocks(sample.uri)[:, 0])
    only_a = split(arrays, {"x": 0.34, "y": 0.66})["x"]
    with pytest.raises(ValueError, match="^weights: all arrays on this side of the split have the weight 0$"):
        RandomCrops(arrays, (4,), length=1, weights=[uri not in only_a.uris for uri in arrays], within=only_a)


@pytest.fixture
def stored(tmp_path):
    zarr = pytest.importorskip("zarr")
    four, three = {"dimension_names": ("c", "z", "y", "x")}, {"dimension_names": ("z", "y", "x")}
    sizes = {"shape": (8, 60, 50), "chunks": (4, 8, 10), "shards": (8, 16, 20)}
    zarr.create_array(tmp_path / "image", shape=(2, 8, 60, 50), chunks=(1, 4, 8, 10), dtype="u2", **four)
    zarr.create_array(tmp_path / "label", dtype="u1", **sizes, **three)
    return {"image": [tmp_path / "image"], "label": [tmp_path / "label"]}


def cuts_of(sides, uri, axis):
    ends = np.concatenate([within.blocks(str(uri))[:, axis] for within in sides.values()])
    return sorted({tuple(pair) for pair in ends.tolist()})


def test_blocks_are_chunks_or_shards_doubled_until_a_crop_fits(stored):
    shares = {"train": 0.5, "val": 0.5}
    sides = split(stored, shares, by="chunk")
    assert sides["train"].axes == (-3, -2, -1)  # those that image and label have
    assert cuts_of(sides, stored["image"][0], 1)[:2] == [(0, 8), (8, 16)]
    sides = split(stored["label"], shares, by="chunk")
    assert cuts_of(sides, stored["label"][0], 2) == [(0, 20), (20, 40), (40, 50)]
    sides = split(stored, shares, by="chunk", extents={"y": 12, "x": 12})
    assert sides["train"].axes == (-2, -1)
    assert cuts_of(sides, stored["image"][0], 0) == [(0, 16), (16, 32), (32, 48), (48, 60)]
    assert cuts_of(sides, stored["image"][0], 1) == [(0, 20), (20, 50)]  # 10 that are left have no room for a crop
    for side in sides.values():
        crops = RandomCrops(stored, {"y": 12, "x": 12}, length=30, within=side)
        for sample in crops.samples(0, 0, 30):
            (_, (_, z, y, x)), (_, label) = sample.arrays["image"][0], sample.arrays["label"][0]
            assert z == (0, 8) and label == (z, y, x)
            blocks = side.blocks(str(stored["image"][0])).tolist()
            assert any(a <= y[0] and y[1] <= b and c <= x[0] and x[1] <= d for (a, b), (c, d) in blocks)


def test_a_side_that_does_not_fit_the_sampler_is_refused(stored):
    shares = {"train": 0.5, "val": 0.5}
    arrays = {"a": (64, 64), "b": (64, 64)}
    within = split(arrays, shares, by="chunk", block=(8, 8))["val"]
    one = split(arrays, shares)["val"]
    other = next(uri for uri in arrays if uri not in one.uris)
    room = "no block has room for a crop of (9, 8): say split(..., extents=(9, 8))"
    refused = [
        (arrays, (9, 8), within, f"within: {room}"),
        ({"c": (64, 64)}, (8, 8), within, "within: c is not among the 2 arrays that were split"),
        ({"a": (64, 60)}, (8, 8), within, "within: axis -1 of a has 60 elements, the split had 64"),
        (arrays, (8, 8), "val", "within must be a value of the mapping that split returns (got str)"),
        ({other: (64, 64)}, (8, 8), one, "within: none of the arrays lies on this side of the split"),
    ]
    for given_arrays, extents, side, text in refused:
        for sampler in (SlidingGrid, lambda *args, **more: RandomCrops(*args, length=1, **more)):
            with pytest.raises((ValueError, TypeError)) as caught:
                sampler(given_arrays, extents, within=side)
            assert str(caught.value) == text
    cut_on_z = split(stored, shares, by="chunk", block=(4, 8, 10))["val"]
    with pytest.raises(ValueError, match="the split cuts axis -3 of .*image, which crops have whole"):
        RandomCrops(stored, {"y": 8, "x": 8}, length=1, within=cut_on_z)


def test_the_first_sampler_decides_the_blocks_of_all_sides(stored):
    shares, crop = {"train": 0.5, "val": 0.5}, {"y": 12, "x": 30}
    for first in shares:
        sides = split(stored, shares, by="chunk", seed=4)
        assert sides["train"].axes == (-3, -2, -1)
        copied = pickle.loads(pickle.dumps(split(stored, shares, by="chunk", seed=4)))
        RandomCrops(stored, crop, length=1, within=sides[first])
        given_extents = split(stored, shares, by="chunk", seed=4, extents=crop)
        for side, within in sides.items():
            assert within.axes == given_extents[side].axes == (-2, -1)
            uri = str(stored["image"][0])
            assert within.blocks(uri).tolist() == given_extents[side].blocks(uri).tolist()
            grid, same = (SlidingGrid(stored, crop, within=each) for each in (within, given_extents[side]))
            assert grid.samples(0, 0, len(grid)) == same.samples(0, 0, len(same))
            SlidingGrid(stored, {"y": 6, "x": 10}, within=within)  # smaller crops have room
            with pytest.raises(ValueError, match=r"no block has room for a crop of \(61, 30\)|a crop needs 61"):
                SlidingGrid(stored, {"y": 61, "x": 30}, within=within)
        assert all(within.axes == (-3, -2, -1) for within in copied.values())
        with pytest.raises(ValueError, match="the split cuts axis -3"):
            RandomCrops(stored, {"y": 8, "x": 8}, length=1, within=copied["val"])


def test_blocks_with_room_for_the_first_sampler_stay(stored):
    shares = {"train": 0.5, "val": 0.5}
    sides = split(stored["label"], shares, by="chunk")
    before = {side: within.blocks(str(stored["label"][0])).tolist() for side, within in sides.items()}
    RandomCrops(stored["label"], (8, 12, 20), length=1, within=sides["train"])
    assert before == {side: within.blocks(str(stored["label"][0])).tolist() for side, within in sides.items()}
    with pytest.raises(ValueError, match=r"no block has room for a crop of \(8, 17, 20\): say split"):
        RandomCrops(stored["label"], (8, 17, 20), length=1, within=sides["val"])
    sides = split(stored["label"], {"train": 0.5, "val": 0.5}, by="chunk")
    with pytest.raises(ValueError, match="^the side 'train' gets none of 1 blocks: give it a larger share$"):
        RandomCrops(stored["label"], (8, 60, 50), length=1, within=sides["train"])


def box_of(sample):
    ((_, box),) = next(iter(sample.arrays.values()))
    return box


def windows(path, within):
    return Windows({"x": (path, (0, 4))}, dim="time", extents={"x": 8}, within=within, length=500, seed=0)


@pytest.mark.parametrize("crop", [{"time": 16, "x": 32}, {"time": 3, "x": 8}])
@pytest.mark.parametrize("first", ["windows", "crops", "blocks", "pickle"])
def test_a_side_that_was_used_is_settled(tmp_path, first, crop):
    zarr = pytest.importorskip("zarr")
    path = str(tmp_path / "a")
    zarr.create_array(path, shape=(256, 64), chunks=(8, 16), dtype="f4", dimension_names=("time", "x"))
    sides = split([path], {"train": 0.8, "val": 0.2}, by="chunk", seed=1)
    val = sides["val"]
    if first == "windows":
        used = windows(path, val).samples(0, 0, 500)
    elif first == "crops":
        used = RandomCrops([path], {"time": 2, "x": 4}, length=500, within=val).samples(0, 0, 500)
    elif first == "blocks":
        val.blocks(path)
    else:
        val = pickle.loads(pickle.dumps(val))
    try:
        trained = RandomCrops([path], crop, length=500, within=sides["train"]).samples(0, 0, 500)
    except ValueError as refused:
        assert "no block has room for a crop of" in str(refused) and crop["time"] > 8
        return
    if first in ("blocks", "pickle"):
        boxes = val.blocks(path).tolist()
    else:
        boxes = [box_of(sample) for sample in used]
    reached = sum(voxels((256, 64), box) for box in boxes)
    assert not any((reached[tuple(slice(*axis) for axis in box_of(sample))]).any() for sample in trained)


def test_windows_have_room_in_blocks_of_their_steps(tmp_path):
    zarr = pytest.importorskip("zarr")
    path = str(tmp_path / "a")
    zarr.create_array(path, shape=(256,), chunks=(8,), dtype="f4", dimension_names=("time",))
    sides = split([path], {"train": 0.5, "val": 0.5}, by="chunk", seed=1)
    for within in sides.values():
        found = Windows({"x": (path, (-9, 1)), "y": (path, (5, 6))}, within=within)
        assert len(found) and all(np.diff(ends) >= 15 for ends in within.blocks(path)[:, 0])


@pytest.mark.parametrize("first", ["train", "val"])
def test_a_remainder_smaller_than_a_crop_belongs_to_the_block_before_it(tmp_path, first):
    zarr = pytest.importorskip("zarr")
    path = str(tmp_path / "a")
    zarr.create_array(path, shape=(110,), chunks=(20,), dtype="f4")
    sides = split([path], {"train": 0.5, "val": 0.5}, by="chunk", seed=1)
    reached = {}
    for side in (first, *sides):
        grid = SlidingGrid([path], (16,), stride=1, within=sides[side])
        reached[side] = sum(voxels((110,), sample.aabb) * 1 for sample in grid.samples(0, 0, len(grid))) > 0
    assert (reached["train"] ^ reached["val"]).all()
    assert cuts_of(sides, path, 0)[-1] == (80, 110)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"shares": {"a": 0.5}}, "shares must add up to 1 (got 0.5)"),
        ({"shares": {"a": 1.5, "b": -0.5}}, "shares must be finite and > 0"),
        ({"shares": {}}, "shares must add up to 1 (got 0)"),
        ({"shares": {"a": 0.9, "b": 0.1}}, "the side 'b' gets none of 2 arrays: give it a larger share"),
        ({"by": "voxel"}, "by must be 'array' or 'chunk' (got 'voxel')"),
        ({"block": (3,)}, "block and extents are for by='chunk'"),
        ({"by": "chunk", "block": (0,)}, "block[0] must be >= 1 (got 0)"),
        ({"arrays": {}}, "arrays must name at least one array"),
    ],
)
def test_invalid_splits_are_refused(arguments, text):
    with pytest.raises(ValueError) as refused:
        split(**{"arrays": {"a": (9,), "b": (9,)}, "shares": {"a": 0.5, "b": 0.5}} | arguments)
    assert str(refused.value) == text


# -- overlap -----------------------------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 11))
def test_neighbours_have_the_overlap_in_common(size, extent, overlap):
    if extent > size or overlap >= extent:
        return
    grid = SlidingGrid({"a": (size,)}, (extent,), overlap=overlap)
    by_stride = SlidingGrid({"a": (size,)}, (extent,), stride=extent - overlap)
    assert grid.samples(0, 0, len(grid)) == by_stride.samples(0, 0, len(by_stride))
    boxes = grid.boxes(0, 0, len(grid))[:, 0]
    common = boxes[:-1, 1] - boxes[1:, 0]
    assert (common[:-1] == overlap).all() and (common >= overlap).all()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"overlap": 1, "stride": 2}, "give stride or overlap, not both: stride is extents - overlap"),
        ({"overlap": (1, 4)}, "overlap[1] must be below the extent 4 (got 4)"),
        ({"overlap": -1}, "overlap[0] must be >= 0 (got -1)"),
        ({"overlap": (1, 1, 1)}, "overlap has 3 axes, extents has 2"),
    ],
)
def test_invalid_overlaps_are_refused(arguments, text):
    with pytest.raises(ValueError) as refused:
        SlidingGrid({"a": (9, 9)}, (4, 4), **arguments)
    assert str(refused.value) == text
