"""`Image`: levels, transformations, world boxes, labels and plates, against the formulas of the NGFF specification."""

import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import damacy
from damacy._open.world import Place, around, edges, first_voxel

zarr = pytest.importorskip("zarr")

AXES = [{"name": "z", "type": "space", "unit": "micrometer"}] + [
    {"name": name, "type": "space", "unit": "micrometer"} for name in "yx"
]


def write_group(path, attributes, zarr_format):
    path.mkdir(parents=True, exist_ok=True)
    if zarr_format == 3:
        (path / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes}))
    else:
        (path / ".zgroup").write_text('{"zarr_format": 2}')
        (path / ".zattrs").write_text(json.dumps(attributes))


def write_image(path, multiscale, shapes, version="0.4", more=None, dtype="u2"):
    """An image whose levels hold their index; `multiscale` is made of version, axes and transformations."""
    zarr_format = 3 if version == "0.5" else 2
    if version == "0.5":
        attributes = {"ome": {"version": "0.5", "multiscales": [multiscale], **(more or {})}}
    else:
        attributes = {"multiscales": [{"version": version, **multiscale}], **(more or {})}
    write_group(path, attributes, zarr_format)
    for dataset, shape in zip(multiscale["datasets"], shapes):
        data = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
        zarr.create_array(path / dataset["path"], data=data, zarr_format=zarr_format)
    return path


def scaled(scale, translation=None):
    return [{"type": "scale", "scale": scale}] + (
        [] if translation is None else [{"type": "translation", "translation": translation}]
    )


def two_levels(**more):
    datasets = [
        {"path": "s0", "coordinateTransformations": scaled([2.0, 0.5, 0.25], [0.0, 1.0, 2.0])},
        {"path": "s1", "coordinateTransformations": scaled([2.0, 1.0, 0.5], [0.0, 1.25, 2.125])},
    ]
    return {"name": "cells", "axes": AXES, "datasets": datasets} | more


SHAPES = [(4, 16, 32), (4, 8, 16)]


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_levels_have_the_transformations_of_the_metadata(tmp_path, version):
    image = damacy.open(write_image(tmp_path / "i", two_levels(), SHAPES, version))
    assert type(image) is damacy.Image
    assert (image.shape, image.levels, image.version, image.name) == (SHAPES[0], ("s0", "s1"), version, "cells")
    assert image.dims == ("z", "y", "x")
    assert image.units == ("micrometer",) * 3
    assert [axis.type for axis in image.axes] == ["space"] * 3
    assert (image.scale, image.translation) == ((2.0, 0.5, 0.25), (0.0, 1.0, 2.0))
    coarse = image.level(1)
    assert type(coarse) is damacy.Array
    assert coarse == image.level("s1") == image.level(-1)
    assert (coarse.scale, coarse.translation, coarse.dims) == ((2.0, 1.0, 0.5), (0.0, 1.25, 2.125), ("z", "y", "x"))
    np.testing.assert_array_equal(coarse.read(), np.arange(4 * 8 * 16).reshape(SHAPES[1]))
    np.testing.assert_array_equal(image[0], np.arange(32 * 16).reshape(16, 32))
    assert image.problems == ()
    assert damacy.Sample(coarse, [...]).uri == str(tmp_path / "i" / "s1")
    with pytest.raises(IndexError, match="no level 2: the image has 2"):
        image.level(2)
    with pytest.raises(KeyError, match="no level 's2'; there are 's0', 's1'"):
        image.level("s2")
    twin = pickle.loads(pickle.dumps(image))
    assert twin == image
    assert twin.level(1) == coarse


numbers = st.floats(0.01, 100, allow_nan=False)
places = st.floats(-100, 100, allow_nan=False)


@given(dataset=st.tuples(numbers, places), whole=st.none() | st.tuples(numbers, places), index=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_world_coordinates_follow_the_formula_of_the_specification(tmp_path_factory, dataset, whole, index):
    more = {} if whole is None else {"coordinateTransformations": scaled([1, 1, whole[0]], [0, 0, whole[1]])}
    multiscale = {
        "axes": AXES,
        "datasets": [{"path": "0", "coordinateTransformations": scaled([1, 1, dataset[0]], [0, 0, dataset[1]])}],
    }
    image = damacy.open_image(write_image(tmp_path_factory.mktemp("i"), multiscale | more, [(1, 1, 4)]))
    scale, translation = whole or (1.0, 0.0)
    expected = scale * (dataset[0] * index + dataset[1]) + translation
    assert image.scale[2] * index + image.translation[2] == pytest.approx(expected, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3"])
def test_before_0_4_the_shapes_give_the_scale(tmp_path, version):
    datasets = [{"path": "0"}, {"path": "1"}]
    axes = {"axes": ["t", "c", "z", "y", "x"]} if version == "0.3" else {}
    shapes = [(1, 2, 4, 8, 9), (1, 2, 4, 4, 4)]
    image = damacy.open_image(write_image(tmp_path / "i", {"datasets": datasets} | axes, shapes, version))
    assert image.dims == ("t", "c", "z", "y", "x")
    assert image.scale == (1.0,) * 5
    assert image.level(1).scale == (1.0, 1.0, 1.0, 2.0, 2.25)
    assert image.level(1).translation == (None,) * 5
    assert image.problems == ()


def test_wrong_transformations_are_problems_and_elements_are_read(tmp_path):
    datasets = [{"path": "0", "coordinateTransformations": scaled([1.0, 2.0])}]
    image = damacy.open_image(write_image(tmp_path / "i", {"axes": AXES, "datasets": datasets}, [(2, 2, 2)]))
    pointer = "/multiscales/0/datasets/0/coordinateTransformations/0/scale"
    assert image.problems == (f"{pointer}: expected 3 numbers, found 2",)
    assert image[0, 0].tolist() == [0, 1]
    for needs_it in (lambda: image.scale, lambda: image.box(start={"x": 1}), lambda: image.world([(0, 1)] * 3)):
        with pytest.raises(damacy.DecodeError) as caught:
            needs_it()
        assert (caught.value.reason, caught.value.pointer) == ("ngff", pointer)
        assert caught.value.message == "expected 3 numbers, found 2"
    assert "unusable" in str(image)


def test_other_transformations_leave_the_scale_unknown(tmp_path):
    datasets = [{"path": "0", "coordinateTransformations": [{"type": "scale", "path": "p"}]}]
    image = damacy.open_image(write_image(tmp_path / "i", {"axes": AXES, "datasets": datasets}, [(2, 2, 2)]))
    assert (image.scale, image.translation, image.problems) == ((None,) * 3, (None,) * 3, ())
    with pytest.raises(ValueError, match="axis x has no scale"):
        image.box(start={"x": 1})
    assert image.world([(0, 1)] * 3) == {}


def test_axes_that_do_not_fit_the_array_are_a_problem(tmp_path):
    image = damacy.open_image(write_image(tmp_path / "i", two_levels(), [(2, 2), (1, 1)]))
    assert image.dims == (None, None)
    assert image.problems == ("/multiscales/0/axes: 3 axes, the array has 2",)


def test_channels_have_label_colour_and_window(tmp_path):
    window = {"start": 10, "end": 2000, "min": 0, "max": 65535}
    omero = {"channels": [{"label": "DAPI", "color": "0000FF", "window": window}, {}]}
    image = damacy.open_image(write_image(tmp_path / "i", two_levels(), SHAPES, more={"omero": omero}))
    first, second = image.channels
    assert (first.label, first.color, first.window) == ("DAPI", "0000FF", (10.0, 2000.0))
    assert (second.label, second.color, second.window) == (None, None, None)


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_labels_are_images_in_the_order_of_the_metadata(tmp_path, version):
    root = write_image(tmp_path / "i", two_levels(), SHAPES, version)
    names = ["nuclei", "cells", "others"]
    listed = {"labels": names}
    write_group(root / "labels", {"ome": listed} if version == "0.5" else listed, 3 if version == "0.5" else 2)
    for name in names:
        source = {"image": "../../" if name != "others" else "../../../other"}
        write_image(root / "labels" / name, two_levels(), SHAPES, version, more={"image-label": {"source": source}})
    labels = damacy.open_image(root).labels
    assert list(labels) == ["nuclei", "cells"]
    assert type(labels["cells"]) is damacy.Image
    assert labels["cells"].uri == str(root / "labels" / "cells")
    assert labels["cells"].scale == (2.0, 0.5, 0.25)
    with pytest.raises(KeyError, match="no label 'x'; there are 'nuclei', 'cells'"):
        labels["x"]
    assert dict(damacy.open_image(root / "labels" / "cells").labels) == {}


def test_a_damaged_group_of_labels_leaves_the_image_readable(tmp_path):
    root = write_image(tmp_path / "i", two_levels(), SHAPES)
    assert dict(damacy.open_image(root).labels) == {}
    (root / "labels").mkdir()
    (root / "labels" / "zarr.json").write_text("{")
    image = damacy.open_image(root)
    assert "cannot be opened: not JSON" in str(image)
    with pytest.raises(damacy.DecodeError):
        image.labels  # noqa: B018


def test_all_multiscales_of_a_group_are_images(tmp_path):
    root = write_image(tmp_path / "i", two_levels(), SHAPES)
    second = {
        "version": "0.4",
        "axes": AXES,
        "datasets": [{"path": "s1", "coordinateTransformations": scaled([1, 2, 3])}],
    }
    attributes = json.loads((root / ".zattrs").read_text())
    attributes["multiscales"].append(second)
    (root / ".zattrs").write_text(json.dumps(attributes))
    first, other = damacy.open_image(root).images
    assert first == damacy.open_image(root)
    assert (other.shape, other.scale, other.levels) == (SHAPES[1], (1.0, 2.0, 3.0), ("s1",))
    assert other.level(0).scale == (1.0, 2.0, 3.0)


def test_a_plate_lists_the_images_of_its_wells(tmp_path):
    plate = {
        "name": "p",
        "rows": [{"name": "A"}, {"name": "B"}],
        "columns": [{"name": "1"}],
        "wells": [{"path": "A/1"}, {"path": "B/1"}],
        "field_count": 2,
        "acquisitions": [{"id": 0, "name": "first"}],
    }
    write_group(tmp_path / "p", {"plate": plate}, 2)
    for row, fields in (("A", ["0", "1"]), ("B", ["0"])):
        write_group(tmp_path / "p" / row, {}, 2)
        write_group(tmp_path / "p" / row / "1", {"well": {"images": [{"path": field} for field in fields]}}, 2)
        for field in fields:
            write_image(tmp_path / "p" / row / "1" / field, two_levels(), SHAPES)
    found = damacy.open(tmp_path / "p")
    assert type(found) is damacy.Plate
    assert (found.rows, found.columns, found.wells, found.fields) == (("A", "B"), ("1",), ("A/1", "B/1"), 2)
    assert found.acquisitions == {0: "first"}
    images = found.images()
    assert list(images) == ["A/1/0", "A/1/1", "B/1/0"]
    assert images["B/1/0"].shape == SHAPES[0]
    assert damacy.open_group(tmp_path / "p").rows == ("A", "B")


def test_wells_that_do_not_exist_are_left_out(tmp_path):
    plate = {"rows": [{"name": "A"}], "columns": [{"name": "1"}], "wells": [{"path": "A/1"}, {"path": "A/2"}]}
    write_group(tmp_path, {"plate": plate}, 2)
    write_group(tmp_path / "A", {}, 2)
    write_group(tmp_path / "A" / "2", {"well": {"images": [{"path": "0"}, {"path": "gone"}, {"path": "group"}]}}, 2)
    write_group(tmp_path / "A" / "2" / "group", {}, 2)
    write_image(tmp_path / "A" / "2" / "0", two_levels(), SHAPES)
    found = damacy.open(tmp_path)
    images = found.images()
    assert found.wells == ("A/1", "A/2") and list(images) == ["A/2/0", "A/2/gone", "A/2/group"]
    assert images["A/2/0"].shape == SHAPES[0]
    with pytest.raises(KeyError, match="no node 'A/2/gone'"):
        images["A/2/gone"]
    with pytest.raises(damacy.InvalidArgument, match="A/2/group: is a group, not an image"):
        images["A/2/group"]
    plate["wells"].append({"path": "A/2/0"})
    write_group(tmp_path, {"plate": plate}, 2)
    with pytest.raises(damacy.InvalidArgument, match="A/2/0: is an array or an image, not a well"):
        damacy.open(tmp_path).images()


def test_a_label_that_is_a_group_is_refused(tmp_path):
    root = write_image(tmp_path / "i", two_levels(), SHAPES)
    write_group(tmp_path / "i" / "labels", {"labels": ["cells"]}, 2)
    write_group(tmp_path / "i" / "labels" / "cells", {}, 2)
    labels = damacy.open_image(root).labels
    assert list(labels) == ["cells"]
    with pytest.raises(damacy.InvalidArgument, match="labels/cells: is a group, not an image"):
        labels["cells"]


# -- boxes in world coordinates ----------------------------------------------------------------------------------------

any_place = st.builds(Place, st.sampled_from([0.25, 1.0, 0.3, 1e-3, 40.0]), st.sampled_from([0.0, -7.5, 0.1, 1e4]))


@given(place=any_place, voxel=st.integers(-1000, 1000), part=st.floats(-0.49, 0.49))
def test_a_world_interval_holds_the_voxels_whose_centres_lie_in_it(place, voxel, part):
    world = place.scale * (voxel + part) + place.translation
    found = first_voxel(place, world)
    assert found == (voxel if part <= 1e-6 else voxel + 1) or abs(part) < 1e-5
    assert place.scale * found + place.translation >= world - 2e-6 * place.scale


@given(place=any_place, start=st.integers(-1000, 1000), count=st.integers(0, 50))
def test_world_is_the_inverse_of_box(place, start, count):
    low, high = edges(place, start, start + count)
    assert (first_voxel(place, low), first_voxel(place, high)) == (start, start + count)
    middle = (low + high) / 2
    assert around(place, middle, count) == (start, start + count) or count % 2 == 0
    assert around(place, place.scale * start + place.translation, count)[0] == math.ceil(start - count / 2)


def test_boxes_are_given_by_axis(tmp_path):
    image = damacy.open_image(write_image(tmp_path / "i", two_levels(), SHAPES))
    assert image.box() == ((0, 4), (0, 16), (0, 32))
    assert image.box(start={"y": 2.0}, stop={"y": 4.1, -1: 3.0}) == ((0, 4), (2, 7), (0, 4))
    assert image.box(center={"y": 3.0, "x": 3.0}, shape={"y": 3, "x": 4}) == ((0, 4), (3, 6), (2, 6))
    assert image.box(start={"x": 0.0}) == ((0, 4), (0, 16), (-8, 32))
    box = image.box(start={"y": 2.0, "x": 3.0}, stop={"y": 5.0, "x": 5.0})
    world = image.world(box)
    starts, stops = ({axis: bounds[k] for axis, bounds in world.items()} for k in (0, 1))
    assert image.box(start=starts, stop=stops) == box
    assert image.world(box)["y"] == (1.75, 4.75)
    np.testing.assert_array_equal(image.read(box), image[:, 2:8, 4:12])


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"start": {"q": 1}}, ValueError, "no axis 'q'; the array has 'z', 'y', 'x'"),
        ({"start": {3: 1}}, ValueError, "no axis 3: the array has 3 axes"),
        ({"start": {"x": 1, 2: 1}}, ValueError, "box: start names axis x twice"),
        ({"start": {"x": math.nan}}, ValueError, r"start\[x\] must be finite"),
        ({"start": {"x": "a"}}, TypeError, r"start\[x\] must be a number"),
        ({"start": 3}, TypeError, "box: start must be a mapping from axis to number"),
        ({"center": {"x": 1}}, TypeError, "box: center and shape belong together"),
        ({"center": {"x": 1}, "shape": {"y": 1}}, ValueError, "center and shape must have the same axes"),
        ({"center": {"x": 1}, "shape": {"x": -1}}, ValueError, r"shape\[x\] must be >= 0"),
        ({"start": {"x": 5}, "stop": {"x": 3}}, ValueError, "axis x stops at voxel 4, before its start at 12"),
    ],
)
def test_refused_world_boxes_say_why(tmp_path, arguments, kind, text):
    image = damacy.open_image(write_image(tmp_path / "i", two_levels(), SHAPES))
    with pytest.raises(kind, match=text):
        image.box(**arguments)


def test_a_scale_without_translation_starts_at_the_first_voxel(tmp_path):
    """NGFF up to 0.3: the levels' shapes give scales, nothing gives translations; an absent one is neutral."""
    group = zarr.open_group(tmp_path / "old", mode="w", zarr_format=2)
    for path, size in (("0", 8), ("1", 4)):
        group.create_array(path, data=np.zeros((1, 1, 1, size, size), "u1"))
    group.attrs["multiscales"] = [{"version": "0.2", "datasets": [{"path": "0"}, {"path": "1"}]}]
    coarse = damacy.open_image(tmp_path / "old").level(1)
    assert (coarse.scale[3:], coarse.translation[3:]) == ((2.0, 2.0), (None, None))
    whole = [(0, 1)] * 3
    assert coarse.box(start={"y": 2.0}, stop={"y": 5.0}) == (*whole, (1, 3), (0, 4))
    assert coarse.box(center={"x": 4.0}, shape={"x": 2}) == (*whole, (0, 4), (1, 3))
    assert coarse.world(((0, 1),) * 3 + ((1, 3), (0, 4)))["y"] == (1.0, 5.0)
