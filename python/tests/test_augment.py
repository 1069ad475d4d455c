"""Turns and margins that samplers draw: every result is there, evenly, and image and label turn alike."""

import collections

import numpy as np
import pytest

import damacy
from damacy.samplers import Dihedral, Flips, ForegroundCrops, Indexed, RandomCrops, Weighted, split
from damacy.training import Loader

SHAPES = {"a.zarr": (40, 60), "b.zarr": (30, 30)}


def turn_of(sample):
    return sample.transpose, sample.flip


@pytest.mark.parametrize(("augment", "count"), [(Flips("y"), 2), (Flips(-1, -2, -3), 8), (Dihedral("y", "x"), 8)])
def test_all_turns_are_drawn_evenly(augment, count):
    crops = RandomCrops(SHAPES, (16, 16), length=8000, seed=3, augment=augment)
    drawn = collections.Counter(map(turn_of, crops.samples(0, 0, 8000)))
    assert len(drawn) == count == len(augment)
    assert max(abs(n - 8000 / count) for n in drawn.values()) < 5 * (8000 / count) ** 0.5


def test_the_48_turns_of_a_cube_differ():
    cube = np.arange(27).reshape(3, 3, 3)
    crops = RandomCrops({"a": (9, 9, 9)}, (3, 3, 3), length=4000, augment=Dihedral(-3, -2, -1))
    seen = set()
    for sample in crops.samples(0, 0, 4000):
        axes = [3 + axis for axis in sample.transpose or (-3, -2, -1)]
        seen.add(np.flip(cube.transpose(axes), sample.flip).tobytes())
    assert len(seen) == 48


@pytest.mark.parametrize("stream", [1, 2])
def test_samples_equal_sample_by_sample_and_places_stay(stream):
    crops = RandomCrops(SHAPES, (16, 16), length=300, seed=5, augment=Dihedral("y", "x"), stream=stream)
    many = crops.samples(2, 40, 140)
    assert many == [crops.sample(2, k) for k in range(40, 140)] == crops.samples(2, 40, 60) + crops.samples(2, 60, 140)
    plain = RandomCrops(SHAPES, (16, 16), length=300, seed=5, stream=stream).samples(2, 40, 140)
    assert [(s.uri, s.aabb) for s in many] == [(s.uri, s.aabb) for s in plain]


def test_a_margin_reaches_both_sides_of_every_array():
    crops = RandomCrops({"a.zarr": (20, 8)}, (4, 10), length=4000, margin=(3, 2))
    starts = crops.boxes(0, 0, 4000)[:, :, 0]
    assert starts.min(axis=0).tolist() == [-3, -2] and starts.max(axis=0).tolist() == [20 + 3 - 4, 8 + 2 - 10]
    with pytest.raises(ValueError, match=r"a.zarr: axis 1 has 8 elements, a crop needs 13"):
        RandomCrops({"a.zarr": (20, 8)}, (4, 13), length=1, margin=(3, 2))


def test_wrong_augments_and_margins_are_refused():
    for augment in ("y", ("y", "x"), 8):
        with pytest.raises(TypeError, match="augment must be Flips, Dihedral or None"):
            RandomCrops(SHAPES, (4, 4), length=1, augment=augment)
    with pytest.raises(ValueError, match=r"augment: expected 2 to 3 axes \(got 1\)"):
        Dihedral("y")
    with pytest.raises(ValueError, match=r"augment: 'y' occurs twice"):
        Flips("y", "y")
    with pytest.raises(ValueError, match=r"margin\[0\] must be >= 0"):
        RandomCrops(SHAPES, (4, 4), length=1, margin=-1)
    side = split(SHAPES, {"train": 0.5, "val": 0.5}, by="chunk", block=(10, 60))["train"]
    with pytest.raises(
        ValueError, match=r"^margin and within exclude each other on axis -2, where the split cuts arra"
    ):
        RandomCrops(SHAPES, (4, 4), length=1, margin=1, within=side)


def test_a_margin_overhangs_whole_arrays_of_a_side():
    shapes = {f"{k}": (20, 8) for k in range(4)}
    side = split(shapes, {"train": 0.75, "val": 0.25})["train"]
    crops = RandomCrops(shapes, (4, 10), length=4000, margin=(3, 2), within=side)
    assert {sample.uri for sample in crops.samples(0, 0, 4000)} == set(side.uris)
    starts = crops.boxes(0, 0, 4000)[:, :, 0]
    assert starts.min(axis=0).tolist() == [-3, -2] and starts.max(axis=0).tolist() == [20 + 3 - 4, 8 + 2 - 10]
    # An axis that the split leaves whole may be overhung, too; on the other one crops stay in their blocks.
    side = split(shapes, {"train": 0.5, "val": 0.5}, by="chunk", block=(5, 8))["train"]
    crops = RandomCrops(shapes, (4, 10), length=2000, margin=(0, 2), within=side)
    starts = crops.boxes(0, 0, 2000)[:, :, 0]
    assert set(starts[:, 1].tolist()) == {-2, -1, 0} and set((starts[:, 0] % 5).tolist()) == {0, 1}


def solid(folder, name, shape, dims):
    zarr = pytest.importorskip("zarr")
    zarr.create_array(folder / name, shape=shape, chunks=(4,) * len(shape), dtype="u1", dimension_names=dims)
    return [str(folder / name)]


@pytest.mark.parametrize("axes", [("z", "y", "x"), (-3, -2, -1)])
def test_turns_that_only_some_arrays_have_are_refused(tmp_path, axes):
    image = solid(tmp_path, "image", (8, 8, 8), ["z", "y", "x"])
    label = solid(tmp_path, "label", (8, 8), ["y", "x"])
    mean = solid(tmp_path, "mean", (8,), ["x"])
    extents = dict.fromkeys("zyx", 4)
    with pytest.raises(ValueError) as refused:
        RandomCrops({"image": image, "label": label}, extents, length=1, augment=Dihedral(*axes))
    there = " and ".join(map(repr, axes[1:]))
    assert str(refused.value) == (
        f"augment: label has only {there} of the axes of {Dihedral(*axes)!r}, and would turn otherwise than an array "
        "with all of them: turn only axes that both have"
    )
    for augment in (Dihedral("y", "x"), Dihedral(*axes[1:]), Flips(*axes)):
        RandomCrops({"image": image, "label": label}, extents, length=1, augment=augment)
    RandomCrops({"image": image, "mean": mean}, extents, length=1, augment=Dihedral(*axes))  # mean has one of them
    with pytest.raises(
        ValueError, match=r"^augment: no array has all axes of Dihedral\('y', 'q'\): the array has z, y, x$"
    ):
        RandomCrops(image, extents, length=1, augment=Dihedral("y", "q"))


@pytest.fixture
def scaled(tmp_path):
    def image(name, shape, scale):
        zarr = pytest.importorskip("zarr")
        steps = [
            {"type": "scale", "scale": [scale] * 2},
            {"type": "translation", "translation": [scale / 2] * 2},  # the first voxel begins at 0
        ]
        axes = [{"name": axis, "type": "space", "unit": "micrometer"} for axis in "yx"]
        described = {"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": steps}]}
        ome = {"ome": {"version": "0.5", "multiscales": [described]}}
        group = zarr.create_group(tmp_path / name, attributes=ome)
        group.create_array("0", shape=shape, chunks=(16, 16), dtype="u1")
        return str(tmp_path / name)

    return {
        "image": image("image", (64, 64), 1),
        "other": image("other", (64, 64), 1),
        "label": image("label", (16, 16), 4),
    }


@pytest.mark.parametrize("extents", [{"y": 32, "x": 32}, (32, 32)])
@pytest.mark.parametrize("kind", ["crops", "indexed", "weighted"])
def test_mirrors_of_voxels_of_other_sizes_are_refused(scaled, extents, kind):
    def loader(image, label, names=("image", "label"), **more):
        crops = RandomCrops({name: scaled[name] for name in names}, extents, length=8, **({"margin": 8} | more))
        sampler = {"crops": crops, "indexed": Indexed(crops, range(8)), "weighted": Weighted(crops, [1] * 8, length=8)}
        pads = {"image": image, "label": label, "other": image}
        specs = {name: damacy.ArraySpec(pad=pads[name]) for name in names}
        return Loader(sampler[kind], damacy.Config(batch_size=2, device="cpu", arrays=specs))

    for image, label in (("reflect", "reflect"), ("reflect", "symmetric"), ({-1: "reflect"}, {"x": "symmetric", 0: 3})):
        with pytest.raises(
            ValueError, match=r"^pad='reflect': on axis .* image and label have voxels of different sizes"
        ):
            loader(image, label)
    for image, label in (("symmetric", "symmetric"), ("reflect", 255), ("edge", "edge"), ("reflect", None)):
        loader(image, label)
    loader("reflect", "reflect", margin=0)
    loader("reflect", "reflect", ("image", "other"))
    loader("reflect", 255, ("image", "other", "label"))  # image and other are mirrored alike


@pytest.fixture
def pair(tmp_path):
    zarr = pytest.importorskip("zarr")
    image = np.random.default_rng(0).integers(1, 1000, (2, 24, 32), dtype="u2")
    names = ["y", "x"]
    zarr.create_array(tmp_path / "image", data=image, chunks=(1, 8, 8), dimension_names=["c", *names])
    zarr.create_array(tmp_path / "label", data=(image[0] > 500).astype("u1"), chunks=(5, 7), dimension_names=names)
    return {"image": [str(tmp_path / "image")], "label": [str(tmp_path / "label")]}


@pytest.mark.parametrize("sampler", [RandomCrops, ForegroundCrops])
def test_a_label_turns_with_its_image(pair, sampler):
    more = {"margin": 5} if sampler is RandomCrops else {"foreground": 0.5}
    crops = sampler(pair, {"y": 12, "x": 12}, length=200, augment=Dihedral("y", "x"), **more)
    specs = {name: damacy.ArraySpec(dtype="u16", pad="reflect") for name in pair}
    turns = set()
    for batch in Loader(crops, damacy.Config(batch_size=8, device="cpu", arrays=specs)):
        with batch as b:
            assert np.array_equal(b["image"].numpy()[:, 0] > 500, b["label"].numpy() == 1)
            turns |= set(map(turn_of, b.samples))
    assert len(turns) == 8
