"""`ForegroundCrops` of labels with other voxels than the image, and indices of a coarser level, against brute force."""

import json
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import damacy
from damacy.samplers import ForegroundCrops, ForegroundIndex, split

zarr = pytest.importorskip("zarr")


def write_image(path, levels):
    """An image; a level is its voxels, its scale and its translation (or None) on every axis."""
    datasets = []
    for k, (voxels, scale, translation) in enumerate(levels):
        steps = [{"type": "scale", "scale": [scale] * voxels.ndim}]
        steps += [] if translation is None else [{"type": "translation", "translation": [translation] * voxels.ndim}]
        datasets.append({"path": f"{k}", "coordinateTransformations": steps})
        chunks = tuple(min(7, size) for size in voxels.shape)
        stored = zarr.create_array(path / f"{k}", shape=voxels.shape, chunks=chunks, dtype=voxels.dtype, overwrite=True)
        stored[:] = voxels
    axes = [{"name": name, "type": "space"} for name in "zyx"[3 - levels[0][0].ndim :]]
    attributes = {"ome": {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}}
    (path / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes}))
    return str(path)


def pooled(voxels, factor):
    """The largest of each cube of voxels."""
    padded = np.pad(voxels, [(0, -size % factor) for size in voxels.shape])
    for axis in range(voxels.ndim):
        shape = [*padded.shape[:axis], -1, factor, *padded.shape[axis + 1 :]]
        padded = padded.reshape(shape).max(axis=axis + 1)
    return padded


def label_of(sample, voxels):
    return voxels[tuple(slice(*axis) for axis in sample.arrays["label"][0][1])]


def centred(scale, corner=0.0):
    """The translation with which the first voxel begins at `corner`."""
    return corner + scale / 2


CASES = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


@CASES
@given(st.data())
def test_foreground_crops_of_a_label_with_other_voxels_hold_a_class(tmp_path, data):
    image, label = data.draw(st.sampled_from([(1, 2), (2, 1), (2, 3), (1, 4), (3, 1), (1, 1)]))
    apart = data.draw(st.integers(-3, 3)) * label
    voxels = (np.random.default_rng(data.draw(st.integers(0, 99))).random((24, 30)) < 0.03).astype("u1")
    scales = image * 0.3, label * 0.3
    size = 30 * label // image
    arrays = {
        "image": write_image(tmp_path / "image", [(np.zeros((size, size), "u1"), scales[0], centred(scales[0]))]),
        "label": write_image(tmp_path / "label", [(voxels, scales[1], centred(scales[1], apart * 0.3))]),
    }
    extents = tuple(data.draw(st.integers(1, 3)) * 2 * label for _ in "yx")
    margin = data.draw(st.sampled_from([0, 0, label]))
    try:
        crops = ForegroundCrops(
            arrays, extents, length=80, foreground=1, margin=margin, seed=data.draw(st.integers()), level=0
        )
    except ValueError as error:
        assert "no crop can hold a class" in str(error)
        return
    assert crops.misfit == {}
    for sample in crops.samples(1, 0, 80):
        image_box, label_box = (sample.arrays[name][0][1] for name in ("image", "label"))
        for one, other, extent in zip(image_box, label_box, extents):
            assert one[1] - one[0] == extent and -margin <= one[0] and one[1] <= size + margin
            for a, b in zip(one, other):
                assert a * image == b * label + apart
        inside = [slice(max(0, start), stop) for start, stop in label_box]
        assert voxels[tuple(inside)].any()
    assert crops.samples(1, 0, 80) == [crops.sample(1, k) for k in range(80)]


@CASES
@given(st.data())
def test_an_index_of_a_coarser_level_finds_the_same_world(tmp_path, data):
    factor = data.draw(st.sampled_from([2, 3, 4]))
    shape = data.draw(st.tuples(st.integers(20, 40), st.integers(20, 40)))
    voxels = (np.random.default_rng(data.draw(st.integers(0, 99))).random(shape) < 0.01).astype("u1")
    has_translations = data.draw(st.booleans()) or factor == 3
    place = centred if has_translations else lambda scale: None
    levels = [(voxels, 0.5, place(0.5)), (pooled(voxels, factor), 0.5 * factor, place(0.5 * factor))]
    uri = write_image(tmp_path / "label", levels)
    index = ForegroundIndex.build(uri, level=1, block=data.draw(st.integers(1, 3)))
    assert index.level(uri) == 1
    bounds = index._bounds(uri)
    coarse = index._label(uri).bounds()
    np.testing.assert_array_equal(bounds, np.minimum(coarse * factor, np.array(shape)[None, :, None]))
    if not voxels.any():
        return
    image = write_image(tmp_path / "image", [(np.zeros(shape, "u1"), 0.5, place(0.5))])
    crops = ForegroundCrops({"image": image, "label": uri}, (16, 16), length=60, foreground=1, index=index, level=1)
    for sample in crops.samples(0, 0, 60):
        assert label_of(sample, voxels).any()


def test_a_saved_index_of_a_level_is_loaded_and_a_stale_one_refused(tmp_path):
    voxels = np.zeros((40, 48), "u1")
    voxels[12:20, 30:33] = 3
    levels = [(voxels, 1.0, 0.5), (pooled(voxels, 2), 2.0, 1.0)]
    uri = write_image(tmp_path / "label", levels)
    image = write_image(tmp_path / "image", [(np.zeros((80, 96), "u1"), 0.5, 0.25)])
    arrays = {"image": image, "label": uri}
    path = tmp_path / "index.npz"
    built = ForegroundCrops(arrays, (32, 32), length=50, foreground=1, index=path, level=1)
    loaded = ForegroundCrops(arrays, (32, 32), length=50, foreground=1, index=path, level=1)
    assert built.samples(0, 0, 50) == loaded.samples(0, 0, 50)
    index = ForegroundIndex.load(path)
    assert index.level(uri) == 1 and index.block(uri) == (8, 8)
    assert index.counts(uri) == {3: int((pooled(voxels, 2) == 3).sum())}
    assert all(label_of(sample, voxels).any() for sample in loaded.samples(0, 0, 50))
    with pytest.raises(ValueError, match=r"index.npz is of level 1 of .*label, not of level 0: build it again$"):
        ForegroundCrops(arrays, (32, 32), length=1, index=path, level=0)
    ForegroundCrops(arrays, (32, 32), length=1, index=path)  # the level of the index

    chunk = tmp_path / "label" / "0" / "c" / "2" / "4"
    before = os.stat(chunk)
    os.utime(chunk, ns=(before.st_atime_ns, before.st_mtime_ns + 10**10))
    ForegroundIndex.load(path)  # of another level
    chunk = next((tmp_path / "label" / "1" / "c").rglob("2"))
    os.utime(chunk, ns=(before.st_atime_ns, before.st_mtime_ns + 10**10))
    with pytest.raises(damacy.StorageError, match="is of another version of the label"):
        ForegroundIndex.load(path)


def test_levels_that_do_not_exist_are_refused(tmp_path):
    voxels = np.ones((8, 8), "u1")
    uri = write_image(tmp_path / "label", [(voxels, 1.0, None), (voxels[:4, :4], 2.0, None)])
    with pytest.raises(ValueError, match="label: no level 2: the label has 2$"):
        ForegroundIndex.build(uri, level=2)
    with pytest.raises(ValueError, match="0: no level 1: the label has 1$"):
        ForegroundIndex.build(uri + "/0", level=1)
    with pytest.raises(ValueError, match="^level must be >= 0"):
        ForegroundIndex.build(uri, level=-1)
    arrays = {"image": uri, "label": uri}
    with pytest.raises(ValueError, match="the index has blocks of 4 voxels on axis 0, a crop has 2: build it with"):
        ForegroundCrops(arrays, (2, 2), length=1, index=ForegroundIndex.build(uri, level=1, block=2))


def test_crops_of_a_split_by_the_image_hold_a_class_of_the_label(tmp_path):
    voxels = (np.random.default_rng(3).random((48, 48)) < 0.03).astype("u1")
    label = write_image(tmp_path / "label", [(voxels, 1.0, 0.5), (pooled(voxels, 2), 2.0, 1.0)])
    image = write_image(tmp_path / "image", [(np.zeros((96, 96), "u1"), 0.5, 0.25)])
    arrays = {"image": image, "label": label}
    sides = split(arrays, {"train": 0.7, "val": 0.3}, by="chunk", block=(24, 24), seed=1)
    owners = np.full((48, 48), "", object)
    for side, within in sides.items():
        blocks = within.blocks(image)
        crops = ForegroundCrops(arrays, (12, 10), length=300, foreground=1, within=within, seed=2, level=1)
        for sample in crops.samples(0, 0, 300):
            box = np.array(sample.arrays["image"][0][1])
            assert ((blocks[:, :, 0] <= box[:, 0]) & (box[:, 1] <= blocks[:, :, 1])).all(axis=1).any()
            assert label_of(sample, voxels).any()
            seen = owners[tuple(slice(*axis) for axis in sample.arrays["label"][0][1])]
            assert set(seen.flat) <= {"", side}
            seen[:] = side
