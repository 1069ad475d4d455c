"""Crops of arrays with different voxels show the same place: samplers against brute force over world coordinates."""

import itertools
import json
import logging
import math
import pickle

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import damacy
from damacy._open.arrays import Transformation
from damacy.samplers import RandomCrops, SlidingGrid, split

NEAR = 1e-6


def opened(uri, shape, scale=None, translation=None, dims=None):
    """An opened array that is not stored."""
    axes = len(shape)
    names = (None,) * axes if dims is None else tuple(dims)
    found = damacy.Array(
        uri=uri, shape=tuple(shape), dtype="uint8", chunks=(4,) * axes, shards=None, zarr_format=3, codecs=(),
        levels=(), supported=True, why_not=None, dims=names,
        _transformation=Transformation(tuple(scale or ()), tuple(translation or ())),
    )  # fmt: skip
    return found


def edge(scale, translation, voxel):
    return scale * (voxel - 0.5) + translation


@st.composite
def fitting(draw, most=24):
    """One axis of an image and of a label, in units of which all edges are multiples, such that some edges coincide."""
    unit = draw(st.sampled_from([1.0, 0.25, 0.1, 1 / 3, 7.3]))
    image, label = draw(st.integers(1, 6)), draw(st.integers(1, 6))  # units a voxel
    begin = draw(st.integers(-40, 40))
    apart = draw(st.integers(-6, 6)) * math.gcd(image, label)
    sizes = draw(st.integers(1, most)), draw(st.integers(1, most))
    common = math.lcm(image, label)
    extent = draw(st.integers(1, 3)) * common // image
    scales = image * unit, label * unit
    edges = begin * unit, (begin + apart) * unit
    translations = tuple(at + scale / 2 for at, scale in zip(edges, scales))
    return scales, translations, sizes, extent


def admissible(scales, translations, sizes, extent):
    """The pairs of starts at which both crops have their edges at the same place and lie in their arrays."""
    count = round(extent * scales[0] / scales[1])
    found = set()
    for image, label in itertools.product(range(sizes[0] - extent + 1), range(sizes[1] - count + 1)):
        edges = (edge(s, t, voxel) for s, t, voxel in zip(scales, translations, (image, label)))
        if abs(next(edges) - next(edges)) <= NEAR * min(scales):
            found.add((image, label))
    return found


@settings(deadline=None, max_examples=300)
@given(st.lists(fitting(), min_size=1, max_size=2), st.integers())
def test_crops_lie_at_the_same_place_and_every_admissible_start_is_reached(axes, seed):
    scales, translations, sizes, extents = (
        tuple(zip(*column)) for column in zip(*((*a[:3], (a[3], a[3])) for a in axes))
    )
    image, label = (opened(name, sizes[k], scales[k], translations[k]) for k, name in enumerate(("image", "label")))
    places = [sorted(admissible(*axis)) for axis in axes]
    arrays = {"image": image, "label": label}
    if not all(places):
        with pytest.raises(ValueError, match="a crop needs|has no place"):
            RandomCrops(arrays, extents[0], length=1)
        with pytest.raises(ValueError, match="a crop needs|has no place"):
            SlidingGrid(arrays, extents[0])
        return
    every = set(itertools.product(*places))
    crops = RandomCrops(arrays, extents[0], length=40 * len(every) + 200, seed=seed)
    assert crops.misfit == {}
    samples = crops.samples(0, 0, len(crops))
    found = set()
    for sample in samples:
        boxes = [sample.arrays[name][0][1] for name in ("image", "label")]
        for corner, k in itertools.product((0, 1), range(len(axes))):
            ends = [edge(scales[n][k], translations[n][k], boxes[n][k][corner]) for n in (0, 1)]
            assert abs(ends[0] - ends[1]) <= NEAR * min(scales[0][k], scales[1][k])
        found.add(tuple((boxes[0][k][0], boxes[1][k][0]) for k in range(len(axes))))
    assert found == every
    assert samples[:30] == [crops.sample(0, k) for k in range(30)] == crops.samples(0, 0, 20) + crops.samples(0, 20, 30)
    # A grid with the smallest stride visits each place once.
    stride = [(axis[1][0] - axis[0][0]) if len(axis) > 1 else extent for axis, extent in zip(places, extents[0])]
    grid = SlidingGrid(arrays, extents[0], stride=stride)
    visited = [
        tuple((a[0], b[0]) for a, b in zip(sample.arrays["image"][0][1], sample.arrays["label"][0][1]))
        for sample in grid.samples(0, 0, len(grid))
    ]
    assert sorted(visited) == sorted(every)


@settings(deadline=None)
@given(st.lists(fitting(), min_size=2, max_size=4), st.data())
def test_many_names_have_one_place(cases, data):
    scale, translation = cases[0][0][0], cases[0][1][0]
    others = [(case[0][1] / case[0][0] * scale, case) for case in cases]
    names = {"image": opened("image", (60,), (scale,), (translation,))}
    extent = 1
    for k, (other, case) in enumerate(others):
        lead = (edge(case[0][1], case[1][1], 0) - edge(case[0][0], case[1][0], 0)) / case[0][0] * scale
        begin = edge(scale, translation, 0) + lead
        names[f"label{k}"] = opened(f"label{k}", (90,), (other,), (begin + other / 2,))
        extent = math.lcm(extent, case[3])
    assume(extent <= 40)
    try:
        crops = RandomCrops(names, (extent,), length=100, seed=data.draw(st.integers()))
    except ValueError as error:
        assert "a crop needs" in str(error) or "has no place" in str(error)
        return
    worst = {name: abs(axes[-1]) for name, axes in crops.misfit.items()}
    for sample in crops.samples(0, 0, 100):
        ends = [edge(scale, translation, voxel) for voxel in sample.arrays["image"][0][1][0]]
        for name, array in names.items():
            box = sample.arrays[name][0][1][0]
            assert 0 <= box[0] < box[1] <= array.shape[0]
            for end, voxel in zip(ends, box):
                beside = abs(edge(array.scale[0], array.translation[0], voxel) - end) / array.scale[0]
                assert beside <= max(worst.get(name, 0), 0) + NEAR
                assert beside <= max(0.5, 0.5 * scale / array.scale[0]) + NEAR


@pytest.mark.parametrize("factor", [2, 4, 6, 8])
@pytest.mark.parametrize("is_finer", [True, False])
def test_without_translations_voxels_of_one_corner_belong_together(factor, is_finer, caplog):
    fine, coarse = opened("fine", (96,), (0.5,), (0.0,)), opened("coarse", (96 // factor,), (0.5 * factor,), (0.0,))
    arrays = {"image": fine, "label": coarse} if is_finer else {"image": coarse, "label": fine}
    with caplog.at_level(logging.INFO, "damacy"):
        crops = RandomCrops(arrays, (24 if is_finer else 24 // factor,), length=500)
    starts = set()
    for sample in crops.samples(0, 0, 500):
        boxes = {uri: box[0] for ((uri, box),) in sample.arrays.values()}
        assert tuple(factor * voxel for voxel in boxes["coarse"]) == boxes["fine"]
        starts.add(boxes["coarse"][0])
    assert starts == set(range(96 // factor - 24 // factor + 1))
    misfit = 0.5 - 0.5 / factor  # of a coarse voxel: the centres of the first voxels coincide
    assert crops.misfit == {"label": {-1: pytest.approx(misfit if is_finer else -misfit * factor)}}
    (record,) = [record for record in caplog.records if "of its voxels beside" in record.message]
    assert record.levelno == logging.INFO
    assert record.message == (
        f"axis -1: label lies {misfit if is_finer else misfit * factor:g} of its voxels beside image: "
        "translations 0 and 0: crops take the nearest voxel"
    )
    assert pickle.loads(pickle.dumps(crops)).misfit == crops.misfit


@settings(deadline=None, max_examples=200)
@given(fitting(), st.floats(-3, 3))
def test_a_misfit_is_at_most_half_a_coarser_voxel_and_never_refused(case, beside):
    scales, translations, _, extent = case
    moved = translations[0], translations[1] + beside * max(scales)
    arrays = {
        "image": opened("image", (100,), scales[:1], moved[:1]),
        "label": opened("label", (100,), scales[1:], moved[1:]),
    }
    try:
        crops = RandomCrops(arrays, (extent,), length=50)
    except ValueError as error:
        assert "in common with the other arrays" in str(error) or "has no place" in str(error)
        return
    misfit = crops.misfit.get("label", {-1: 0.0})[-1]
    assert abs(misfit) * scales[1] <= (0.5 + NEAR) * max(scales)
    for sample in crops.samples(0, 0, 50):
        image, label = (sample.arrays[name][0][1][0] for name in ("image", "label"))
        for one, other in zip(image, label):
            apart = edge(scales[0], moved[0], one) - edge(scales[1], moved[1], other)
            assert abs(apart / scales[1] - misfit) <= 2 * NEAR


def test_the_lower_of_two_voxels_is_taken():
    image, label = opened("image", (20,), (1.0,), (0.5,)), opened("label", (20,), (1.0,), (0.0,))
    crops = RandomCrops({"image": image, "label": label}, (4,), length=200)
    assert crops.misfit == {"label": {-1: 0.5}}
    for sample in crops.samples(0, 0, 200):
        assert sample.arrays["image"][0][1] == sample.arrays["label"][0][1]


def test_whole_voxels_apart_crops_lie_where_both_arrays_are():
    image, label = opened("image", (20, 9), (1.0, 1.0), (0.0, 0.0)), opened("label", (8, 9), (1.0, 1.0), (5.0, 0.0))
    crops = RandomCrops({"image": image, "label": label}, (4, 9), length=300)
    pairs = {tuple(box[0][0] for ((_, box),) in sample.arrays.values()) for sample in crops.samples(0, 0, 300)}
    assert pairs == {(start + 5, start) for start in range(5)}
    over = RandomCrops({"image": image, "label": label}, (4, 9), length=300, margin=(2, 0))
    pairs = {tuple(box[0][0] for ((_, box),) in sample.arrays.values()) for sample in over.samples(0, 0, 300)}
    assert pairs == {(start + 5, start) for start in range(-2, 7)}


def test_arrays_of_one_scale_are_drawn_as_without_scale():
    place = {"scale": (0.5, 0.5), "translation": (3.0, 4.0)}
    scaled = {name: opened(name, (40, 64), **place) for name in ("image", "label")}
    plain = {name: opened(name, (40, 64)) for name in ("image", "label")}
    for options in ({}, {"stream": 1}, {"align": 4}, {"margin": 3}):
        drawn = [
            RandomCrops(arrays, (8, 16), length=100, seed=5, **options).samples(2, 0, 100) for arrays in (scaled, plain)
        ]
        assert drawn[0] == drawn[1]
    alone = RandomCrops({"image": (40, 64)}, (8, 16), length=100, seed=5)
    assert [s.arrays["image"][0][1] for s in RandomCrops(scaled, (8, 16), length=100, seed=5).samples(0, 0, 100)] == [
        s.aabb for s in alone.samples(0, 0, 100)
    ]


def test_axes_are_paired_by_name():
    image = opened("image", (2, 10, 40, 60), (1.0, 2.0, 0.5, 0.5), (0.0, 0.0, 0.25, 0.25), "czyx")
    label = opened("label", (30, 20, 10), (1.0, 1.0, 2.0), (0.5, 0.5, 0.0), "xyz")
    crops = RandomCrops({"image": image, "label": label}, {"z": 3, "y": 8, "x": 12}, length=200)
    assert crops.misfit == {}
    for sample in crops.samples(0, 0, 200):
        c, z, y, x = sample.arrays["image"][0][1]
        assert c == (0, 2) and sample.arrays["label"][0][1] == (
            tuple(v // 2 for v in x), tuple(v // 2 for v in y), z
        )  # fmt: skip
        assert all(v % 2 == 0 for v in (*x, *y))
    mask = opened("mask", (40, 60), dims="yx")  # without a scale, of the image's size
    both = RandomCrops({"image": image, "label": label, "mask": mask}, {"y": 8, "x": 12}, length=50)
    for sample in both.samples(0, 0, 50):
        assert sample.arrays["mask"][0][1] == sample.arrays["image"][0][1][2:]
        assert sample.arrays["label"][0][1][2] == (0, 10)


def test_pairs_that_do_not_fit_are_refused():
    image = opened("im0", (512, 512), (0.5, 0.5), (0.0, 0.0), "yx")
    label = opened("l0", (256, 256), (1.0, 1.0), (0.25, 0.25), "yx")
    plain = opened("p0", (256, 512), dims="yx")

    def refused(arrays, extents, text, kind=RandomCrops, **options):
        options |= {"length": 1} if kind is RandomCrops else {}
        with pytest.raises(ValueError) as caught:
            kind(arrays, extents, **options)
        assert str(caught.value) == text

    named = {"y": 16, "x": 15}
    text = "axis x: 15 voxels of image (scale 0.5) are 7.5 of label (scale 1.0): choose a multiple of 2"
    refused({"image": image, "label": label}, named, text)
    refused({"image": image, "label": label}, named, text, SlidingGrid)
    text = "im0, label 0: axis y has 512 elements, label 256, and no scale: give arrays with scale, or equal shapes"
    refused({"image": image, "label": plain}, {"y": 16, "x": 16}, text)
    text = "p0, label 1: axis y has 256 elements, label 512, and no scale: give arrays with scale, or equal shapes"
    refused({"image": [image, plain], "label": [image, image]}, {"y": 16}, text)
    pi = opened("l1", (256, 256), (math.pi, 1.0), (0.0, 0.0), "yx")
    refused(
        {"image": image, "label": pi}, {"y": 16},
        "axis y: 16 voxels of image (scale 0.5) are 2.54648 of label (scale 3.141592653589793): no number of voxels "
        "fits: correct the scales",
    )  # fmt: skip
    turned = opened("l2", (512, 512), (-0.5, 0.5), (0.0, 0.0), "yx")
    text = "axis y: the scales of image (scale 0.5) and label (scale -0.5) must have one sign, and not be 0"
    refused({"image": image, "label": turned}, {"y": 16}, text)
    text = "stride[0] must be a multiple of 2, so that crops start at a voxel edge of all arrays (got 15)"
    refused({"image": image, "label": label}, (16, 16), text, SlidingGrid, stride=15)
    odd = opened("l3", (256, 256), (1.0, 1.0), (0.75, 0.25), "yx")
    text = "align: axis 0 of im0: no multiple of 4 is a voxel edge of all arrays; these are 1, 3, ..."
    refused({"image": image, "label": odd}, (16, 16), text, align=4)
    small = opened("im2", (8, 8), (0.5, 0.5), (0.0, 0.0), "yx")
    beside = opened("l5", (4, 4), (1.0, 1.0), (0.75, 0.75), "yx")
    text = "im2: axis y: a crop of 6 voxels has no place where it starts at a voxel edge of all arrays, every 6 voxels"
    refused({"image": small, "label": beside}, {"y": 6, "x": 2}, text, align=3)
    far = opened("l4", (256, 256), (1.0, 1.0), (250.25, 0.25), "yx")
    text = "im0: axis 0 has 12 elements in common with the other arrays, a crop needs 16"
    refused({"image": image, "label": far}, (16, 16), text)
    single = opened("im3", (1, 256), (1.0, 1.0), (0.25, 0.25), "yx")
    text = "im3: axis 0 has 1 element, a crop needs 16: margin=8 and ArraySpec(pad=...) let crops overhang"
    refused({"image": single, "label": single}, (16, 16), text)
    outside = opened("l6", (256, 256), (1.0, 1.0), (999.25, 0.25), "yx")
    text = "im0: axis 0 has 0 elements in common with the other arrays, a crop needs 16"
    refused({"image": image, "label": outside}, (16, 16), text)
    text = "l0: a crop has 16 voxels of label on axis -2, that of p1 has 8: all samples need the same ratio of scales"
    coarse = opened("p1", (512, 512), (1.0, 1.0), (0.25, 0.25), "yx")
    images = [image, opened("im1", (256, 256), (1.0, 1.0), (0.25, 0.25), "yx")]
    refused({"image": images, "label": [coarse, label]}, (16, 16), text)


def test_a_split_by_chunk_of_the_image_holds_for_its_label():
    image = opened("image", (100, 60), (0.5, 0.5), (0.25, 0.25))
    label = opened("label", (50, 30), (1.0, 1.0), (0.5, 0.5))
    arrays = {"image": image, "label": label}
    sides = split(
        {"image": image, "label": label}, {"train": 0.7, "val": 0.3}, by="chunk", block=(15, 20), extents=(6, 6)
    )
    seen = []
    for within in sides.values():
        blocks = within.blocks("image")
        covered = np.zeros((50, 30), bool)
        for crops in (
            RandomCrops(arrays, (6, 6), length=400, within=within),
            SlidingGrid(arrays, (6, 6), within=within),
        ):
            for sample in crops.samples(0, 0, len(crops)):
                box = np.array(sample.arrays["image"][0][1])
                inside = (blocks[:, :, 0] <= box[:, 0]) & (box[:, 1] <= blocks[:, :, 1])
                assert inside.all(axis=1).sum() == 1
                covered[tuple(slice(*axis) for axis in sample.arrays["label"][0][1])] = True
        seen.append(covered)
    assert not (seen[0] & seen[1]).any() and sum(map(np.count_nonzero, seen)) > 50 * 30 / 2


# -- stored images -----------------------------------------------------------------------------------------------------


def write_image(path, voxels, scale, translation):
    zarr = pytest.importorskip("zarr")
    transformations = [{"type": "scale", "scale": scale}, {"type": "translation", "translation": translation}]
    multiscale = {
        "axes": [{"name": name, "type": "space"} for name in "zyx"],
        "datasets": [{"path": "0", "coordinateTransformations": transformations}],
    }
    path.mkdir(parents=True)
    attributes = {"ome": {"version": "0.5", "multiscales": [multiscale]}}
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    (path / "zarr.json").write_text(json.dumps(document))
    zarr.create_array(path / "0", shape=voxels.shape, chunks=(4, 8, 8), dtype=voxels.dtype)[:] = voxels
    return str(path)


def world_function(shape, scale, translation):
    """A number for each cube of size 1 of the world, at the centres of voxels."""
    centres = np.meshgrid(*(s * np.arange(n) + t for n, s, t in zip(shape, scale, translation)), indexing="ij")
    z, y, x = (np.floor(axis).astype("i8") for axis in centres)
    return ((z * 31 + y * 17 + x * 7) % 251).astype("u1")


@pytest.mark.parametrize("form", ["uris", "opened"])
def test_batches_of_image_and_label_hold_the_same_world(tmp_path, form):
    arrays = {"image": [], "label": []}
    for k in range(2):
        places = {"image": ((16, 40, 48), (1.0, 0.5, 0.5), (0.5, 10.25, 20.25 + k))}
        places["label"] = ((14, 22, 23), (1.0, 1.0, 1.0), (2.5, 9.5, 21.5))
        for name, (shape, scale, translation) in places.items():
            path = tmp_path / f"{name}{k}"
            arrays[name].append(write_image(path, world_function(shape, scale, translation), scale, translation))
    if form == "opened":
        arrays = {name: list(map(damacy.open, uris)) for name, uris in arrays.items()}
    config = damacy.Config(batch_size=4, device="cpu", dtype="u8", arrays=None)
    grid = SlidingGrid(arrays, {"z": 4, "y": 8, "x": 12}, stride=[3, 4, 6])
    crops = RandomCrops(arrays, {"z": 4, "y": 8, "x": 12}, length=64, seed=3)
    for sampler in (crops, grid):
        rows = 0
        with damacy.Pipeline(config) as pipeline:
            pipeline.push(sampler.samples(0, 0, len(sampler)))
            pipeline.flush()
            for batch in pipeline:
                with batch as lent:
                    image, label = (np.array(lent[name].numpy()) for name in ("image", "label"))
                assert image.shape[1:] == (4, 8, 12) and label.shape[1:] == (4, 4, 6)
                np.testing.assert_array_equal(image, label.repeat(2, axis=2).repeat(2, axis=3))
                rows += len(image)
        assert rows == len(sampler)
        assert {sample.arrays["image"][0][0] for sample in sampler.samples(0, 0, len(sampler))} == {
            str(tmp_path / "image0"), str(tmp_path / "image1")
        }  # fmt: skip
