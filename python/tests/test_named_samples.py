"""Samples of several arrays, and `Config.arrays`: their values, and what is refused before anything is read."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

from damacy import ArraySpec, Config, Dtype, Sample
from damacy.samplers import RandomCrops, SlidingGrid

BOX = ((0, 4), (3, 9))
PAIR = {"image": ("a.zarr", ((0, 2), *BOX)), "label": ("b.zarr", BOX)}


def test_a_sample_has_its_arrays_and_is_that_of_the_first_one():
    sample = Sample(PAIR)
    assert dict(sample.arrays) == {"image": (("a.zarr", ((0, 2), *BOX)),), "label": (("b.zarr", BOX),)}
    assert (sample.uri, sample.aabb) == ("a.zarr", ((0, 2), *BOX))
    assert dict(Sample("b.zarr", BOX).arrays) == {"": (("b.zarr", BOX),)}
    with pytest.raises(TypeError):
        sample.arrays["label"] = ()
    stack = Sample({"x": [("a.zarr", BOX), ("b.zarr", BOX)]})
    assert stack.arrays["x"] == (("a.zarr", BOX), ("b.zarr", BOX))


def test_equality_is_that_of_content():
    sample = Sample(PAIR)
    spelled = Sample({"label": ("b.zarr", np.s_[:4, 3:9]), "image": ("a.zarr", np.array([(0, 2), *BOX]))})
    assert sample == spelled and hash(sample) == hash(spelled)
    assert sample == dataclasses.replace(sample, row_key=(1, 2)) == copy.deepcopy(sample)
    others = [
        Sample({**PAIR, "label": ("c.zarr", BOX)}),
        Sample({**PAIR, "label": [("b.zarr", BOX)]}),  # a stack of one
        Sample({"image": PAIR["image"]}),
        Sample(*PAIR["image"]),
        Sample({"x": PAIR["image"]}),
    ]
    assert all(sample != other for other in others)
    assert len({sample, spelled, *others}) == 1 + len(others)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_sample_is_pickled_with_all_arrays(protocol):
    sample = dataclasses.replace(Sample({**PAIR, "x": [("a.zarr", BOX)] * 2}), row_key=(3, 4))
    again = pickle.loads(pickle.dumps(sample, protocol))
    assert again == sample and again.row_key == (3, 4) and again.arrays == sample.arrays
    assert repr(again) == repr(sample)


def test_a_replaced_sample_keeps_its_arrays_or_is_refused():
    assert dataclasses.replace(Sample(PAIR), row_key=(0, 1)).arrays == Sample(PAIR).arrays
    with pytest.raises(TypeError, match="several arrays"):
        dataclasses.replace(Sample(PAIR), uri="c.zarr")


@pytest.mark.parametrize(
    ("arrays", "kind", "text"),
    [
        ({}, ValueError, "a sample needs at least one array"),
        ({3: ("a", BOX)}, TypeError, "array names must be str (got int)"),
        ({"": ("a", BOX)}, ValueError, "array names must have 1 to 64 characters, no control characters (got '')"),
        ({"a" * 65: ("a", BOX)}, ValueError, "array names must have 1 to 64 characters"),
        ({"a\n": ("a", BOX)}, ValueError, "no control characters (got 'a\\n')"),
        ({"\ud800": ("a", BOX)}, ValueError, "no control characters"),
        ({"image": "a.zarr"}, TypeError, "arrays['image']: expected (uri, box) or a list of them (got str)"),
        ({"image": []}, TypeError, "arrays['image']: expected (uri, box) or a list of them (got an empty list)"),
        ({"image": ("a", BOX, 3)}, TypeError, "arrays['image']: expected (uri, box) or a list of them (got tuple)"),
        ({"image": [("a", BOX), "b"]}, TypeError, "arrays['image']: expected (uri, box) or a list of them (got str)"),
        ({"image": (3, BOX)}, TypeError, "arrays['image']: uri must be a str or an os.PathLike of str (got int)"),
        ({"image": ("a", [4])}, TypeError, "arrays['image']: aabb axis 0: expected slice or (start, stop) tuple"),
        ({"image": ("a", np.s_[0:4:2])}, TypeError, "arrays['image']: aabb must be an iterable of slices"),
        ({"image": ("a", [np.s_[0:4:-1]])}, ValueError, "arrays['image']: aabb axis 0: slice step must be >= 1 (got"),
        ({f"{k}": ("a", BOX) for k in range(65)}, ValueError, "a sample has at most 64 arrays (got 65)"),
        ({"x": [("a", BOX)] * 4097}, ValueError, "a sample has at most 4096 boxes (got 4097)"),
    ],
)
def test_other_mappings_are_refused(arrays, kind, text):
    with pytest.raises(kind) as caught:
        Sample(arrays)
    assert text in str(caught.value)


def test_a_mapping_takes_no_box_and_a_uri_needs_one():
    with pytest.raises(TypeError, match="no aabb"):
        Sample(PAIR, BOX)
    with pytest.raises(TypeError, match="needs a uri and an aabb"):
        Sample("a.zarr")


def test_config_keeps_specs_in_order():
    specs = {"label": ArraySpec(dtype=np.int64), "image": ArraySpec()}
    config = Config(batch_size=1, arrays=specs)
    assert list(config.arrays) == ["label", "image"] and config.arrays["label"].dtype is Dtype.I64
    specs["more"] = ArraySpec()
    assert len(config.arrays) == 2
    assert pickle.loads(pickle.dumps(config)) == config == dataclasses.replace(config)
    assert hash(config) == hash(copy.deepcopy(config))
    assert Config(batch_size=1, arrays=ArraySpec(dtype="u8")).arrays == {"": ArraySpec(dtype="u8")}
    with pytest.raises(TypeError):
        config.arrays["image"] = ArraySpec()


@pytest.mark.parametrize(
    ("arrays", "kind", "text"),
    [
        ({}, ValueError, "arrays must name at least one array"),
        ({"a": 3}, TypeError, "arrays['a'] must be an ArraySpec (got int)"),
        ({3: ArraySpec()}, TypeError, "array names must be str (got int)"),
        ([ArraySpec()], TypeError, "arrays must be an ArraySpec or a mapping from names to them (got list)"),
    ],
)
def test_other_specs_are_refused(arrays, kind, text):
    with pytest.raises(kind) as caught:
        Config(batch_size=1, arrays=arrays)
    assert str(caught.value) == text


def test_a_spec_checks_its_values():
    with pytest.raises(ValueError, match="unknown dtype"):
        ArraySpec(dtype="complex64")
    with pytest.raises(TypeError):
        ArraySpec("u8")


def test_memory_of_slots_is_the_sum_over_arrays():
    config = Config(batch_size=3, device="cpu", arrays={"a": ArraySpec(), "b": ArraySpec(dtype="u8")})
    slots = {part.name: part.bytes for part in config.memory({"a": (5, 7), "b": (3,)}).parts}["slots"]
    assert slots == 2 * (512 + 256)  # two slots; 420 and 9 bytes, rounded up
    with pytest.raises(ValueError, match="extents must have the names 'a', 'b'"):
        config.memory({"a": (5, 7)})


@pytest.fixture
def pair(tmp_path):
    """An image of two channels, and a label without that axis."""
    import zarr

    zarr.create_array(tmp_path / "image.zarr", shape=(2, 40, 64), chunks=(1, 8, 16), dtype="u2")
    zarr.create_array(tmp_path / "label.zarr", shape=(40, 64), chunks=(16, 16), dtype="u1")
    zarr.create_array(tmp_path / "small.zarr", shape=(40, 32), chunks=(16, 16), dtype="u1")
    return tmp_path


def test_samplers_crop_all_arrays_at_the_place_of_one(pair):
    arrays = {"image": pair / "image.zarr", "label": [pair / "label.zarr"]}
    crops = RandomCrops(arrays, (8, 16), length=50, seed=3)
    alone = RandomCrops([pair / "label.zarr"], (8, 16), length=50, seed=3)
    for k in range(50):
        sample = crops.sample(1, k)
        assert sample.row_key == (1, k)
        assert sample.arrays["label"] == ((str(pair / "label.zarr"), alone.sample(1, k).aabb),)
        assert sample.arrays["image"] == ((str(pair / "image.zarr"), ((0, 2), *alone.sample(1, k).aabb)),)
    assert crops.samples(1, 0, 50) == [crops.sample(1, k) for k in range(50)]
    listed = RandomCrops([{name: pair / f"{name}.zarr" for name in arrays}], (8, 16), length=50, seed=3)
    assert listed.samples(0, 0, 50) == crops.samples(0, 0, 50)
    grid = SlidingGrid(arrays, (8, 16))
    assert len(grid) == 5 * 4 and grid.sample(0, 19).arrays["label"][0][1] == ((32, 40), (48, 64))
    assert repr(grid).startswith("<damacy.samplers.SlidingGrid of (8, 16) in 1 sample of 'image' and 'label': 20 crops")
    assert pickle.loads(pickle.dumps(crops)).sample(0, 7) == crops.sample(0, 7)


@pytest.fixture
def with_axes(tmp_path):
    """Arrays whose axes have names; the label lacks the channels, the mask lacks them and z."""
    import zarr

    for name, shape, axes in (
        ("image", (2, 6, 40, 64), "czyx"),
        ("label", (6, 40, 64), "zyx"),
        ("mask", (40, 64), "yx"),
        ("turned", (64, 40), "xy"),
    ):
        array = {"shape": shape, "chunks": shape, "dtype": "u1", "dimension_names": list(axes)}
        zarr.create_array(tmp_path / "axes" / f"{name}.zarr", **array)
    return tmp_path / "axes"


def test_extents_by_axis_name_leave_other_axes_whole(with_axes):
    arrays = {name: with_axes / f"{name}.zarr" for name in ("image", "label", "mask", "turned")}
    crops = RandomCrops(arrays, {"x": 16, "y": 8}, length=30, seed=3)
    alone = RandomCrops([arrays["mask"]], (8, 16), length=30, seed=3)
    for k in range(30):
        boxes = {name: box for name, ((_, box),) in crops.sample(0, k).arrays.items()}
        y, x = alone.sample(0, k).aabb
        assert boxes == {
            "image": ((0, 2), (0, 6), y, x), "label": ((0, 6), y, x), "mask": (y, x), "turned": (x, y)
        }  # fmt: skip
    deep = RandomCrops(arrays, {"z": 3, "y": 8, "x": 16}, length=30, seed=3)
    same = RandomCrops([arrays["label"]], (3, 8, 16), length=30, seed=3)
    for k in range(30):
        drawn = deep.sample(0, k).arrays
        assert drawn["image"][0][1][1:] == drawn["label"][0][1] == same.sample(0, k).aabb
        assert drawn["mask"][0][1] == same.sample(0, k).aabb[1:]
    assert repr(deep).startswith("<damacy.samplers.RandomCrops of (3, 8, 16) in 1 sample of 'image' and 'label' and")
    # An axis between whole ones draws with the number that it has in any array.
    middle = RandomCrops([arrays["image"]], {"y": 8}, length=30, seed=3)
    assert all(middle.sample(0, k).aabb[2] == alone.sample(0, k).aabb[0] for k in range(30))
    one = middle.sample(0, 0)
    assert one.aabb[3] == (0, 64) and one == Sample(one.uri, one.aabb)
    grid = SlidingGrid(arrays, {"y": 8, "x": 16})
    assert len(grid) == 5 * 4 and grid.sample(0, 1).arrays["turned"][0][1] == ((16, 32), (0, 8))


def test_extents_by_axis_name_that_do_not_fit_are_refused(with_axes, pair):
    image, mask, turned = (with_axes / f"{name}.zarr" for name in ("image", "mask", "turned"))
    with pytest.raises(ValueError, match=r"extents: no axis 'q'; .*image.zarr has 'c', 'z', 'y', 'x'"):
        RandomCrops(image, {"q": 1}, length=1)
    with pytest.raises(ValueError, match="the axes of the array have no names"):
        RandomCrops(pair / "image.zarr", {"y": 1}, length=1)
    with pytest.raises(ValueError, match="no axis 'z'; .*mask.zarr has 'y', 'x'"):
        RandomCrops({"mask": mask, "image": image}, {"z": 1}, length=1)  # the first one lacks it
    with pytest.raises(ValueError, match="in different orders"):
        RandomCrops([mask, turned], {"y": 1, "x": 1}, length=1)
    with pytest.raises(ValueError, match="give uris, not a mapping to shapes"):
        RandomCrops({"a.zarr": (4, 4)}, {"y": 1}, length=1)
    with pytest.raises(ValueError, match=r"extents\['y'\] must be >= 1"):
        RandomCrops(image, {"y": 0}, length=1)
    with pytest.raises(ValueError, match="axis y has 40 elements, a crop needs 41"):
        RandomCrops(image, {"y": 41}, length=1)


def test_a_whole_axis_of_space_has_one_size(tmp_path):
    import zarr

    for planes in (6, 9):
        array = {"chunks": (3, 8, 8), "dtype": "u1", "dimension_names": ["z", "y", "x"]}
        zarr.create_array(tmp_path / f"{planes}.zarr", shape=(planes, 16, 16), **array)
        array["dimension_names"] = ["c", "y", "x"]
        zarr.create_array(tmp_path / f"channels-{planes}.zarr", shape=(planes, 16, 16), **array)
    both = [tmp_path / "6.zarr", tmp_path / "9.zarr"]
    match = r"9.zarr: axis z has 9 elements, that of .*6.zarr has 6, and crops have the whole axis: give z an extent"
    for sampler in (RandomCrops, SlidingGrid):
        length = {"length": 1} if sampler is RandomCrops else {}
        with pytest.raises(ValueError, match=match):
            sampler(both, {"y": 8, "x": 8}, **length)
        with pytest.raises(ValueError, match=match):
            sampler({"image": both}, (8, 8), **length)
        sampler(both, {"z": 2, "y": 8, "x": 8}, **length)
        # Of channels a spec may take some.
        sampler([tmp_path / "channels-6.zarr", tmp_path / "channels-9.zarr"], {"y": 8, "x": 8}, **length)


def test_samplers_refuse_arrays_that_do_not_fit_together(pair):
    image, label, small = (pair / f"{name}.zarr" for name in ("image", "label", "small"))
    with pytest.raises(ValueError, match=r"label 0: axis -1 has 64 elements, label 32, and no scale: give arrays "):
        RandomCrops({"image": image, "label": small}, (8, 16), length=1)
    with pytest.raises(ValueError, match=r"arrays\['label'\] has 2 arrays, another name has 3"):
        RandomCrops({"image": [image] * 3, "label": [label] * 2}, (8, 16), length=1)
    with pytest.raises(ValueError, match="the array has 2 axes, extents has 3"):
        RandomCrops({"image": image, "label": label}, (1, 8, 16), length=1)
    with pytest.raises(ValueError, match="axis 1 has 40 elements, a crop needs 41"):
        RandomCrops({"image": image, "label": label}, (41, 16), length=1)
