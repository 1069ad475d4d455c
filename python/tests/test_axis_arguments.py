"""Arguments of samplers with one number an axis, also by the names of axes; how errors call axes."""

import numpy as np
import pytest

from damacy.samplers import ForegroundCrops, RandomCrops, SlidingGrid

zarr = pytest.importorskip("zarr")

CROP = {"z": 4, "y": 8, "x": 6}


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    """An image (c, z, y, x), and a label (z, y, x)."""
    folder = tmp_path_factory.mktemp("axes")
    label = np.random.default_rng(0).integers(0, 2, (9, 20, 31), dtype="u1")
    zarr.create_array(folder / "image", data=np.stack([label, label]), dimension_names=["c", "z", "y", "x"])
    zarr.create_array(folder / "label", data=label, dimension_names=["z", "y", "x"])
    return {"image": folder / "image", "label": folder / "label"}


@pytest.mark.parametrize(
    ("by_name", "by_axis"),
    [({"x": 2, "z": 1}, (1, 0, 2)), ({"y": 3}, (0, 3, 0)), ({}, (0, 0, 0)), ({"z": 1, "y": 2, "x": 3}, (1, 2, 3))],
)
def test_margins_and_overlaps_may_be_mappings_and_axes_that_are_left_out_have_none(arrays, by_name, by_axis):
    crops = RandomCrops(arrays, CROP, length=50, seed=1, margin=by_name)
    np.testing.assert_array_equal(
        crops.boxes(0, 0, 50), RandomCrops(arrays, CROP, length=50, seed=1, margin=by_axis).boxes(0, 0, 50)
    )
    grid, other = SlidingGrid(arrays, CROP, overlap=by_name), SlidingGrid(arrays, CROP, overlap=by_axis)
    np.testing.assert_array_equal(grid.boxes(0, 0, len(grid)), other.boxes(0, 0, len(other)))


def test_strides_and_alignments_may_be_mappings(arrays):
    grid, other = SlidingGrid(arrays, CROP, stride={"x": 2}), SlidingGrid(arrays, CROP, stride=(4, 8, 2))
    np.testing.assert_array_equal(grid.boxes(0, 0, len(grid)), other.boxes(0, 0, len(other)))
    starts = ForegroundCrops(arrays, CROP, length=80, seed=1, align={"y": 5}).boxes(0, 0, 80)[:, :, 0]
    assert set(starts[:, 1]) == {0, 5, 10}
    assert len(set(starts[:, 2] % 5)) == 5


@pytest.mark.parametrize(
    ("extents", "arguments", "text"),
    [
        (CROP, {"overlap": {"q": 1}}, "overlap: no axis 'q'; extents has 'z', 'y', 'x'"),
        (CROP, {"overlap": {"c": 1}}, "overlap: no axis 'c'; extents has 'z', 'y', 'x'"),
        ((4, 8, 6), {"overlap": {"x": 1}}, "overlap: no axis 'x'; extents has no names of axes"),
        ((4, 8, 6), {"overlap": {-1: 1}}, "overlap: no axis -1; extents has no names of axes"),
        (CROP, {"overlap": {"x": -1}}, "overlap['x'] must be >= 0 (got -1)"),
        (CROP, {"stride": {"x": 0}}, "stride['x'] must be >= 1 (got 0)"),
    ],
)
def test_invalid_mappings_are_refused(arrays, extents, arguments, text):
    with pytest.raises(ValueError) as refused:
        SlidingGrid(arrays, extents, **arguments)
    assert str(refused.value) == text


@pytest.mark.parametrize(("extents", "axis"), [(CROP | {"z": 12}, "z"), ((12, 8, 6), 1)])
def test_an_error_names_the_axis_of_the_array_that_is_too_small(arrays, extents, axis):
    text = f"{arrays['image']}: axis {axis} has 9 elements, a crop needs 12"
    with pytest.raises(ValueError) as refused:
        SlidingGrid(arrays, extents)
    assert str(refused.value) == text
    with pytest.raises(ValueError) as refused:
        RandomCrops(arrays, extents, length=1)
    assert str(refused.value) == text + ": margin=2 and ArraySpec(pad=...) let crops overhang"
    assert len(RandomCrops(arrays, extents, length=1, margin=2)) == 1
    with pytest.raises(ValueError, match="a crop needs 12"):
        RandomCrops(arrays, extents, length=1, margin=1)


def test_an_array_without_a_name_and_with_more_axes_than_the_crop_is_refused_with_help(arrays):
    text = "the array has 4 axes, extents has 3: crop by axis name, {'y': 96, 'x': 96}, to have other axes whole"
    with pytest.raises(ValueError) as refused:
        SlidingGrid(arrays["image"], (4, 8, 6))
    assert str(refused.value) == f"{arrays['image']}: {text}"
    assert SlidingGrid(arrays["image"], CROP).sample(0, 0).aabb == ((0, 2), (0, 4), (0, 8), (0, 6))
