"""`ForegroundIndex` against brute force, and the statistics of `ForegroundCrops`, with fixed seeds."""

import collections
import os
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import damacy
from damacy.samplers import ForegroundCrops, ForegroundIndex, RandomCrops, split
from damacy.samplers._label_blocks import no_blocks, rows_of

zarr = pytest.importorskip("zarr")


def stored(path, voxels, chunks):
    zarr.create_array(path, shape=voxels.shape, chunks=chunks, dtype=voxels.dtype, overwrite=True)[:] = voxels
    return str(path)


def pair(folder, voxels, name="a", chunks=(5, 7)):
    """The arrays of one sample: an image with two channels, and the label."""
    shape = (2, *voxels.shape)
    zarr.create_array(folder / f"{name}.image", shape=shape, chunks=(1, *chunks), dtype="u1", overwrite=True)
    return {"image": str(folder / f"{name}.image"), "label": stored(folder / f"{name}.label", voxels, chunks)}


def joined(*pairs):
    return {name: [each[name] for each in pairs] for name in ("image", "label")}


def blobs(seed, shape=(40, 60)):
    """Class 1 in a large area, class 2 in a small one, class 7 in one voxel."""
    random = np.random.default_rng(seed)
    voxels = np.zeros(shape, "u1")
    voxels[5:25, 30:50] = random.integers(0, 2, (20, 20))
    voxels[30:33, 4:8] = 2
    voxels[36, 55] = 7
    return voxels


def label_of(sample, voxels):
    return voxels[tuple(slice(*axis) for axis in sample.arrays["label"][0][1])]


# -- the index ---------------------------------------------------------------------------------------------------------


def brute_force(voxels, block, classes):
    """The count of each class in each block that holds it."""
    found = collections.Counter()
    for place in np.argwhere(voxels != 0 if classes is None else np.isin(voxels, list(classes))):
        found[int(voxels[tuple(place)]), tuple((place // block).tolist())] += 1
    return found


def rows(label):
    grid = tuple(-(-size // extent) for size, extent in zip(label.shape, label.block))
    places = zip(*(axis.tolist() for axis in np.unravel_index(label.blocks, grid)))
    return dict(zip(zip(label.classes.tolist(), places), label.counts.tolist()))


@settings(deadline=None)
@given(st.data(), st.integers(1, 3), st.none() | st.sets(st.integers(0, 4)))
def test_chunks_add_up_to_the_counts_of_the_whole(data, axes, classes):
    shape = data.draw(st.tuples(*[st.integers(1, 12)] * axes))
    block = data.draw(st.tuples(*[st.integers(1, 5)] * axes))
    cut = data.draw(st.integers(0, shape[0]))  # two pieces, not at the ends of blocks
    voxels = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 4, shape)
    label = no_blocks(shape, block)
    for start, piece in ((0, voxels[:cut]), (cut, voxels[cut:])):
        label = label.with_rows(*rows_of(piece, (start, *(0,) * (axes - 1)), label, classes))
    assert rows(label) == brute_force(voxels, block, classes)
    doubled = label.doubled()
    assert rows(doubled) == brute_force(voxels, tuple(2 * extent for extent in block), classes)
    for low, high in label.bounds().reshape(-1, axes, 2).swapaxes(1, 2):
        assert (low < high).all() and (high <= shape).all() and (high - low <= block).all()


def test_an_index_is_built_from_what_is_stored(tmp_path):
    labels = {}
    for k, (shape, chunks) in enumerate([((23, 30), (8, 8)), ((23, 30), (5, 30)), ((7, 9), (7, 9))]):
        voxels = np.random.default_rng(k).integers(-3, 4, shape).astype("i2")
        labels[stored(tmp_path / f"{k}.zarr", voxels, chunks)] = voxels
    index = ForegroundIndex.build(list(labels))
    for uri, voxels in labels.items():
        assert rows(index._label(uri)) == brute_force(voxels, (8, 8), None)
        numbers, counts = np.unique(voxels[voxels != 0], return_counts=True)
        assert index.counts(uri) == dict(zip(numbers.tolist(), counts.tolist())) and index.block(uri) == (8, 8)
    assert index.classes == (-3, -2, -1, 1, 2, 3) and index.uris == tuple(labels)
    uri, voxels = next(iter(labels.items()))
    alone = ForegroundIndex.build(damacy.open(uri), classes=[0, 3], block=(4, 5))
    assert rows(alone._label(uri)) == brute_force(voxels, (4, 5), [0, 3])


def test_blocks_double_until_the_index_fits(tmp_path):
    voxels = np.random.default_rng(0).integers(1, 4, (64, 64)).astype("u1")
    uri = stored(tmp_path / "a.zarr", voxels, (16, 16))
    for block in (8, 16, 32, 64):
        size = 24 * 3 * (64 // block) ** 2
        for most, expected in ((size, block), (size - 1, 2 * block)):
            if expected <= 64:
                index = ForegroundIndex.build(uri, max_bytes=most)
                assert index.block(uri) == (expected, expected)
                assert rows(index._label(uri)) == brute_force(voxels, (expected, expected), None)
    with pytest.raises(ValueError, match="^the classes of the labels need more than max_bytes 71: name classes, or"):
        ForegroundIndex.build(uri, max_bytes=71)


def test_progress_is_called_after_each_chunk_of_all_labels(tmp_path):
    arrays = joined(pair(tmp_path, blobs(1), "a"), pair(tmp_path, blobs(2)[:17], "b"))
    chunks = 8 * 9 + 4 * 9
    calls = []
    index = ForegroundIndex.build(arrays["label"], progress=lambda *numbers: calls.append(numbers))
    assert calls == [(done, chunks) for done in range(1, chunks + 1)]
    calls.clear()
    wanted = {"length": 3, "progress": lambda *numbers: calls.append(numbers)}
    ForegroundCrops(arrays, (9, 9), index=tmp_path / "kept.npz", **wanted)
    assert len(calls) == chunks
    ForegroundCrops(arrays, (9, 9), index=tmp_path / "kept.npz", **wanted)
    ForegroundCrops(arrays, (9, 9), index=index, **wanted)
    assert len(calls) == chunks, "an index that is there was built again"


def test_an_error_of_progress_ends_the_build(tmp_path):
    uri = stored(tmp_path / "a.zarr", np.ones((23, 30), "u1"), (8, 7))
    with pytest.raises(ZeroDivisionError):
        ForegroundIndex.build(uri, progress=lambda done, _: 1 // (done - 2))


def test_each_chunk_is_read_once(tmp_path, monkeypatch):
    import damacy.samplers._label_files as files

    counted = []

    class Counting(damacy.Pipeline):
        def close(self):
            counted.append(self.stats().chunks_decoded)
            super().close()

    monkeypatch.setattr(files, "Pipeline", Counting)
    uri = stored(tmp_path / "a.zarr", np.ones((23, 30), "u1"), (8, 7))
    ForegroundIndex.build(uri, block=3)
    assert sum(counted) == 3 * 5


def test_a_saved_index_is_loaded_and_a_stale_one_refused(tmp_path):
    uri = stored(tmp_path / "a.zarr", blobs(0), (8, 8))
    index = ForegroundIndex.build(uri)
    path = tmp_path / "labels.npz"
    index.save(path)
    index.save(path)  # replaces it
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "labels.npz"]
    again = ForegroundIndex.load(path)
    assert rows(again._label(uri)) == rows(index._label(uri)) and repr(again) == repr(index)
    assert pickle.loads(pickle.dumps(again)).counts(uri) == index.counts(uri)

    text = f"{path} is of another version of the label (size, time): build it again"

    def refused():
        with pytest.raises(damacy.StorageError) as caught:
            ForegroundIndex.load(path)
        assert (caught.value.message, caught.value.reason, caught.value.uri) == (text, "changed", uri)

    chunk = next((tmp_path / "a.zarr").rglob("c/0/4"))
    before = os.stat(chunk)
    os.utime(chunk, ns=(before.st_atime_ns, before.st_mtime_ns + 10**10))  # one chunk written later
    refused()
    os.utime(chunk, ns=(before.st_atime_ns, before.st_mtime_ns))
    ForegroundIndex.load(path)
    stored(tmp_path / "a.zarr", blobs(0, (40, 64)), (8, 8))  # another shape
    refused()


def test_a_uri_with_a_scheme_and_an_image_have_stamps_of_their_files(tmp_path):
    from damacy.samplers._label_files import stamp_of
    from damacy.synthetic import write_image

    write_image(tmp_path / "a b.zarr", (8, 32, 32), chunks=(8, 16, 16))
    plain = str(tmp_path / "a b.zarr")
    uri = "file://" + plain.replace(" ", "%20")
    level = stamp_of(plain + "/0", "")
    assert level == stamp_of(plain, "0") == stamp_of(uri, "0")
    assert level[0] == 1 + 4 and level[1] > 0


def test_other_labels_are_refused(tmp_path):
    floats = stored(tmp_path / "f.zarr", np.zeros((4, 4), "f4"), (4, 4))
    with pytest.raises(ValueError, match="f.zarr: the elements of a label are integers .got float32.$"):
        ForegroundIndex.build(floats)
    with pytest.raises(ValueError, match="^label must name at least one array$"):
        ForegroundIndex.build([])
    with pytest.raises(ValueError, match="^block has 3 axes, a label has 2$"):
        ForegroundIndex.build(stored(tmp_path / "a.zarr", blobs(0), (8, 8)), block=(1, 1, 1))
    with pytest.raises(damacy.NotFound):
        ForegroundIndex.build(str(tmp_path / "none.zarr"))
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(ValueError, match="other.npz: no index of this version: build it again$"):
        ForegroundIndex.load(tmp_path / "other.npz")


# -- crops -------------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_each_foreground_crop_holds_a_class(tmp_path, data):
    shapes = data.draw(st.lists(st.tuples(st.integers(8, 30), st.integers(8, 30)), min_size=1, max_size=2))
    extents = data.draw(st.tuples(st.integers(2, 8), st.integers(2, 8)))
    align = data.draw(st.sampled_from([1, 1, 2, 3]))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    labels = [
        (random.random(shape) < 0.02).astype("u1") * random.integers(1, 4, shape).astype("u1") for shape in shapes
    ]
    arrays = joined(*(pair(tmp_path, voxels, f"{k}") for k, voxels in enumerate(labels)))
    by_uri = dict(zip(arrays["label"], labels))
    try:
        crops = ForegroundCrops(arrays, extents, length=60, foreground=1, align=align, seed=data.draw(st.integers()))
    except ValueError as error:
        assert "no crop can hold a class" in str(error)
        assert align > 1 or not any(voxels.any() for voxels in labels)
        return
    for sample in crops.samples(1, 0, 60):
        uri, box = sample.arrays["label"][0]
        assert label_of(sample, by_uri[uri]).any()
        assert sample.arrays["image"][0][1] == ((0, 2), *box)
        for (start, stop), extent, size in zip(box, extents, by_uri[uri].shape):
            assert 0 <= start and stop == start + extent <= size and start % align == 0


def test_a_share_of_crops_is_foreground_and_others_are_those_of_random_crops(tmp_path):
    voxels = np.zeros((60, 80), "u1")
    voxels[20:22, 30:33] = 1
    arrays = joined(pair(tmp_path, voxels))
    plain = RandomCrops(arrays, (10, 12), length=6000, seed=5)
    hits = [bool(label_of(sample, voxels).any()) for sample in plain.samples(0, 0, 6000)]
    by_chance = sum(hits) / 6000
    assert by_chance < 0.1
    for foreground in (0, 0.25, 1 / 3, 1):
        crops = ForegroundCrops(arrays, (10, 12), length=6000, seed=5, foreground=foreground)
        samples = crops.samples(0, 0, 6000)
        expected = foreground + (1 - foreground) * by_chance
        held = sum(bool(label_of(sample, voxels).any()) for sample in samples)
        assert abs(held - 6000 * expected) <= 5 * (6000 * expected * (1 - expected)) ** 0.5 + 1e-6
        same = sum(a == b for a, b in zip(samples, plain.samples(0, 0, 6000)))
        assert (
            abs(same - 6000 * (1 - foreground)) <= 5 * (6000 * foreground * (1 - foreground)) ** 0.5 + 60 * foreground
        )


def test_classes_are_drawn_evenly_or_by_weight(tmp_path):
    """Classes lie so far apart that a crop holds one of them; class 1 has 200 times the voxels of class 7."""
    voxels = blobs(1)
    arrays = joined(pair(tmp_path, voxels))
    for classes, shares in (
        (None, {1: 1 / 3, 2: 1 / 3, 7: 1 / 3}),
        ([2, 7], {2: 0.5, 7: 0.5}),
        ({1: 1, 2: 3, 7: 0}, {1: 0.25, 2: 0.75}),
    ):
        crops = ForegroundCrops(arrays, (8, 8), length=6000, seed=2, foreground=1, classes=classes)
        found = collections.Counter()
        for sample in crops.samples(0, 0, 6000):
            (number,) = set(np.unique(label_of(sample, voxels)).tolist()) - {0}
            found[number] += 1
        assert set(found) == set(shares) == set(crops.classes)
        for number, share in shares.items():
            assert abs(found[number] - 6000 * share) < 5 * (6000 * share * (1 - share)) ** 0.5


def test_no_place_in_a_crop_is_preferred(tmp_path):
    """With blocks of one voxel a single voxel is everywhere in the crop equally often."""
    voxels = np.zeros((40, 50), "u1")
    voxels[20, 30] = 1
    arrays = joined(pair(tmp_path, voxels))
    index = ForegroundIndex.build(arrays["label"], block=1)
    crops = ForegroundCrops(arrays, (6, 5), length=9000, seed=4, foreground=1, index=index)
    boxes = crops.boxes(0, 0, 9000)
    found = collections.Counter(map(tuple, (np.array([20, 30]) - boxes[:, :, 0]).tolist()))
    assert set(found) == {(y, x) for y in range(6) for x in range(5)}
    assert all(abs(count - 300) < 5 * 300**0.5 for count in found.values())


def test_a_crop_holds_the_whole_block_at_every_place_equally_often(tmp_path):
    """By default blocks have 8 voxels: this one is [16, 24) and [24, 32); at the border places are fewer."""
    voxels = np.zeros((40, 34), "u1")
    voxels[17, 31] = 1
    voxels[39, 33] = 2  # its block ends with the label
    arrays = joined(pair(tmp_path, voxels))
    crops = ForegroundCrops(arrays, (12, 10), length=9000, seed=4, foreground=1)
    starts = collections.Counter(map(tuple, crops.boxes(0, 0, 9000)[:, :, 0].tolist()))
    of_first = {(y, x) for y in range(12, 17) for x in range(22, 25)}
    of_second = {(28, 24)}
    assert set(starts) == of_first | of_second
    assert all(abs(starts[place] - 4500 / 15) < 5 * 300**0.5 for place in of_first - of_second)
    assert abs(starts[28, 24] - 4500) < 5 * 2250**0.5


def test_blocks_are_drawn_by_their_voxels_and_arrays_by_weights(tmp_path):
    """Of three times the voxels, three times the crops; with weights relative to how often crops are of an array."""
    labels = [np.zeros((40, 40), "u1") for _ in range(2)]
    labels[0][0:3, 0:2], labels[1][0, 0:2] = 1, 1
    arrays = joined(*(pair(tmp_path, voxels, f"{k}") for k, voxels in enumerate(labels)))
    for weights, share in ((None, 0.75), ([1, 1], 0.75), ([1, 3], 0.5), ([0, 1], 0)):
        crops = ForegroundCrops(arrays, (8, 8), length=4000, foreground=1, seed=1, weights=weights)
        first = sum(sample.uri == arrays["image"][0] for sample in crops.samples(0, 0, 4000))
        assert abs(first - 4000 * share) <= 5 * (4000 * share * (1 - share)) ** 0.5


def test_crops_of_a_side_lie_in_its_blocks_and_hold_classes(tmp_path):
    voxels = (np.random.default_rng(3).random((96, 96)) < 0.01).astype("u1")
    arrays = joined(pair(tmp_path, voxels))
    sides = split(arrays, {"train": 0.7, "val": 0.3}, by="chunk", block=(24, 24), seed=1)
    for within in sides.values():
        crops = ForegroundCrops(arrays, (10, 9), length=500, foreground=1, within=within, seed=2)
        blocks = within.blocks(arrays["image"][0])
        used = set()
        for sample in crops.samples(0, 0, 500):
            box = np.array(sample.arrays["label"][0][1])
            inside = ((blocks[:, :, 0] <= box[:, 0]) & (box[:, 1] <= blocks[:, :, 1])).all(axis=1)
            assert inside.sum() == 1 and label_of(sample, voxels).any()
            used.add(int(inside.argmax()))
        assert len(used) > len(blocks) // 2


def test_samples_are_those_of_one_at_a_time_and_frozen(tmp_path):
    """The boxes were computed by the release that introduced `ForegroundCrops`; they must not change."""
    arrays = joined(pair(tmp_path, blobs(0)))
    crops = ForegroundCrops(arrays, (9, 10), length=50, seed=-3, foreground=0.5)
    one_by_one = [crops.sample(2, k) for k in range(50)]
    assert crops.samples(2, 0, 50) == one_by_one and crops.stream == 2
    assert [sample.row_key for sample in one_by_one] == [(2, k) for k in range(50)]
    again = pickle.loads(pickle.dumps(crops))
    assert again.samples(2, 0, 50) == one_by_one and repr(again) == repr(crops)
    assert crops.boxes(2, 0, 8)[:, :, 0].tolist() == FROZEN


FROZEN = [[18, 15], [19, 5], [27, 13], [23, 0], [12, 25], [24, 0], [31, 0], [1, 4]]


def test_an_index_at_a_path_is_built_once(tmp_path):
    arrays = joined(pair(tmp_path, blobs(0)))
    path = tmp_path / "labels.npz"
    first = ForegroundCrops(arrays, (9, 10), length=50, index=path)
    written = path.stat().st_mtime_ns
    second = ForegroundCrops(arrays, (9, 10), length=50, index=str(path))
    assert path.stat().st_mtime_ns == written
    assert first.samples(0, 0, 50) == second.samples(0, 0, 50)


def test_a_label_may_lack_axes_and_have_whole_ones(tmp_path):
    """The label has no z, so every plane of the image has its foreground."""
    voxels = blobs(0)
    names = {"dimension_names": ("z", "y", "x")}
    zarr.create_array(tmp_path / "image", shape=(6, 40, 60), chunks=(2, 8, 8), dtype="u1", **names)
    label = zarr.create_array(tmp_path / "label", shape=(40, 60), chunks=(8, 8), dtype="u1", dimension_names=("y", "x"))
    label[:] = voxels
    arrays = {"image": tmp_path / "image", "label": tmp_path / "label"}
    crops = ForegroundCrops(arrays, {"z": 2, "y": 9, "x": 9}, length=400, foreground=1, seed=1)
    samples = crops.samples(0, 0, 400)
    assert all(label_of(sample, voxels).any() for sample in samples)
    assert {sample.aabb[0] for sample in samples} == {(z, z + 2) for z in range(5)}
    whole = ForegroundCrops(arrays, {"x": 9}, length=100, foreground=1, classes=[7])
    assert {sample.arrays["label"][0][1][0] for sample in whole.samples(0, 0, 100)} == {(0, 40)}
    assert all((label_of(sample, voxels) == 7).any() for sample in whole.samples(0, 0, 100))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"label": "mask"}, "label: no array 'mask'; there are 'image', 'label': say label='label'"),
        ({"foreground": 1.5}, "foreground must be from 0 to 1 (got 1.5)"),
        ({"stream": 1}, "stream must be 2 (got 1)"),
        ({"classes": [1, 5]}, "classes: the index has no voxel of class 5; it has 1, 2, 7"),
        ({"classes": {1: -1}}, "classes must have weights that are finite and >= 0, and not all 0"),
        ({"classes": []}, "classes must have weights that are finite and >= 0, and not all 0"),
        (
            {"align": 40, "classes": [2]},
            "no crop can hold a class: the labels have no foreground, or no block of it fits",
        ),
    ],
)
def test_invalid_arguments_are_refused(tmp_path, arguments, text):
    arrays = joined(pair(tmp_path, blobs(0)))
    index = ForegroundIndex.build(arrays["label"])
    with pytest.raises(ValueError) as refused:
        ForegroundCrops(arrays, (9, 10), length=5, **{"index": index} | arguments)
    assert str(refused.value) == text


def test_an_index_that_does_not_fit_is_refused(tmp_path):
    arrays = joined(pair(tmp_path, blobs(0)))
    index = ForegroundIndex.build(arrays["label"], block=16)
    with pytest.raises(ValueError, match="label: the index has blocks of 16 voxels on axis 0, a crop has 9: build it"):
        ForegroundCrops(arrays, (9, 30), length=5, index=index)
    other = joined(pair(tmp_path, blobs(0), "other"))
    with pytest.raises(ValueError, match="^the index has no label .*other.label$"):
        ForegroundCrops(other, (20, 30), length=5, index=index)
    with pytest.raises(ValueError, match="^label: give arrays by name, {'image': images, 'label': labels}$"):
        ForegroundCrops(arrays["label"], (9, 9), length=5)
    whole = np.zeros((40, 60), "u1")
    with pytest.raises(ValueError, match="^no crop can hold a class"):
        ForegroundCrops(joined(pair(tmp_path, whole, "empty")), (9, 9), length=5)


def test_an_index_file_of_some_classes_is_not_taken_for_others(tmp_path):
    arrays, path = joined(pair(tmp_path, blobs(0))), tmp_path / "labels.npz"
    ForegroundCrops(arrays, (9, 10), length=5, index=path, classes=[1, 2])
    assert ForegroundCrops(arrays, (9, 10), length=5, index=path, classes={2: 1}).classes == (2,)
    text = "labels.npz was built for classes 1, 2 only: say classes=, or delete it to build it again"
    for classes in (None, [7], {1: 1, 7: 1}):
        with pytest.raises(ValueError) as refused:
            ForegroundCrops(arrays, (9, 10), length=5, index=path, classes=classes)
        assert str(refused.value) == f"{tmp_path}/{text}"
    # An index that the caller made and passes has the classes that it has.
    assert ForegroundCrops(arrays, (9, 10), length=5, index=ForegroundIndex.load(path)).classes == (1, 2)
    path.unlink()
    ForegroundCrops(arrays, (9, 10), length=5, index=path)
    assert ForegroundCrops(arrays, (9, 10), length=5, index=path, classes=[7]).classes == (7,)
