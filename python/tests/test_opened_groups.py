"""`Group`: members, trees, coordinates and intervals, against xarray."""

import json
import pickle
import shutil

import numpy as np
import pytest

import damacy
import damacy.samplers
from damacy._open.coordinates import times
from damacy._open.tree import entries

zarr = pytest.importorskip("zarr")


@pytest.fixture
def store(tmp_path):
    root = zarr.open_group(tmp_path / "g", mode="w", attributes={"title": "t"})
    for name in ("a10", "a2"):
        root.create_array(name, shape=(4, 3), dtype="f4", dimension_names=["y", "x"])
    root.create_group("inner").create_array("b", shape=(2,), dtype="i2")
    return tmp_path / "g"


def test_a_group_is_a_lazy_mapping_in_natural_order(store):
    group = damacy.open(store)
    empty = zarr.open_group(store.parent / "empty", mode="w").store.root
    assert type(group) is damacy.Group
    assert list(group) == ["a2", "a10", "inner"]
    assert len(group) == 3 and group and damacy.open_group(empty)
    assert "a2" in group and "x" not in group and 3 not in group and "inner/b" in group and "inner/x" not in group
    assert type(group["a2"]) is damacy.Array
    assert type(group["inner"]) is damacy.Group
    assert group["inner/b"].shape == group["inner"]["b"].shape == (2,)
    assert group.attrs == {"title": "t"}
    assert list(group.arrays()) == ["a2", "a10", "inner/b"]
    assert list(group.variables) == ["a2", "a10"]
    with pytest.raises(KeyError, match="no node 'x' in .*; there are 'a2', 'a10', 'inner'"):
        group["x"]
    for outside in ("../g", "", "/a2", "a2/."):
        with pytest.raises(KeyError, match="is not a path below the group"):
            group[outside]
    assert repr(group) == f"<damacy.Group {store}: a2, a10, inner>"


@pytest.mark.parametrize("attributes", ["5", "true", "[]", '["ab"]', "[1, 2]", '"a"', "null"])
def test_v2_attributes_that_are_no_object_are_ignored(tmp_path, attributes):
    zarr.open_group(tmp_path / "g", mode="w", zarr_format=2).create_array("a", shape=(3,), dtype="i2")
    for node in ("g", "g/a"):
        (tmp_path / node / ".zattrs").write_text(attributes)
    group = damacy.open(tmp_path / "g")
    assert group.attrs == group["a"].attrs == {}
    assert list(group.variables) == ["a"] and "a" in str(group)
    assert group["a"].read().tolist() == [0, 0, 0]


def test_the_tree_names_every_node(store):
    (store / "broken").mkdir()
    (store / "broken" / "zarr.json").write_text("{")
    lines = damacy.open(store).tree().splitlines()
    assert lines[0] == f"{store} (group)"
    assert "  a2  float32 (y=4, x=3) chunks (4, 3)" in lines
    assert lines[-2:] == ["  inner  group", "    b  int16 (2) chunks (2,)"]
    assert any(line.startswith("  broken  cannot be opened: not JSON") for line in lines)


def test_the_tree_ends_after_a_number_of_nodes(store):
    found, rest = entries(damacy.open(store), limit=1)
    assert ([entry.path for entry in found], rest) == (["a2"], 2)


def test_kinds_that_are_asked_for_are_refused_otherwise(store):
    with pytest.raises(
        damacy.InvalidArgument, match="is a group, not an array; arrays inside: a2, a10, inner/b"
    ) as caught:
        damacy.open_array(store)
    assert caught.value.reason == "group"
    with pytest.raises(damacy.InvalidArgument, match="is an array, not an image"):
        damacy.open_image(store / "a2")
    with pytest.raises(damacy.InvalidArgument, match="is a group, not an image"):
        damacy.open_image(store)
    with pytest.raises(damacy.InvalidArgument, match="is an array, not a group"):
        damacy.open_group(store / "a2")
    with pytest.raises(damacy.NotFound, match="no zarr metadata"):
        damacy.open(store / "none")


def test_a_group_where_an_array_is_wanted_names_the_arrays_inside(store):
    group = damacy.open_group(store)
    text = "is a group, not an array; arrays inside: a2, a10, inner/b"
    with pytest.raises(damacy.InvalidArgument, match=text):
        damacy.open(group)
    with pytest.raises(ValueError, match=text):
        damacy.Sample({"image": (group, [(0, 1)])})
    with pytest.raises(damacy.InvalidArgument, match=text):
        damacy.Sample(group, [(0, 1)])
    for arrays in (group, [group]):
        with pytest.raises(damacy.InvalidArgument, match=text):
            damacy.samplers.RandomCrops(arrays, (1,), length=1)


def test_a_group_can_be_pickled(store):
    twin = pickle.loads(pickle.dumps(damacy.open_group(store)))
    assert list(twin) == ["a2", "a10", "inner"]
    assert twin["inner/b"] == damacy.open_array(store / "inner" / "b")


def pyramid(group, paths=("0", "1")):
    axes = [{"name": name, "type": "space"} for name in "yx"]
    datasets = []
    for k, path in enumerate(paths):
        group.create_array(path, data=np.zeros((4 >> k, 8 >> k), "u2"))
        datasets.append({"path": path, "coordinateTransformations": [{"type": "scale", "scale": [1 << k] * 2}]})
    group.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": datasets}]


@pytest.fixture
def images(tmp_path):
    root = zarr.open_group(tmp_path / "i", mode="w", zarr_format=2)
    cells = root.create_group("cells")
    pyramid(cells)
    labels = cells.create_group("labels")
    labels.attrs["labels"] = ["nuclei"]
    pyramid(labels.create_group("nuclei"), ["0"])
    root.create_array("plain", data=np.zeros(3, "f4"))
    return tmp_path / "i"


def test_levels_and_labels_are_nodes_of_the_tree(images):
    group = damacy.open_group(images)
    assert group.tree().splitlines()[1:] == [
        "  cells  uint16 (y=4, x=8) chunks (4, 8), 2 levels",
        "    0  uint16 (y=4, x=8) chunks (4, 8)",
        "    1  uint16 (y=2, x=4) chunks (2, 4)",
        "    labels/nuclei  uint16 (y=4, x=8) chunks (4, 8), 1 levels",
        "      0  uint16 (y=4, x=8) chunks (4, 8)",
        "  plain  float32 (3) chunks (3,)",
    ]
    paths = ["cells", "cells/0", "cells/1", "cells/labels/nuclei", "cells/labels/nuclei/0", "plain"]
    assert [entry.path for entry in entries(group)[0]] == paths
    assert all(f">{path}<" in group._repr_html_() for path in paths)
    testing = pytest.importorskip("typer.testing")
    from damacy._cli.commands import app

    shown = testing.CliRunner().invoke(app, ["info", str(images)])
    assert shown.stdout == group.tree() + "\n"
    found = json.loads(testing.CliRunner().invoke(app, ["info", str(images), "--json"]).stdout)["nodes"]
    assert list(found) == paths
    assert (found["cells/1"]["kind"], found["cells/1"]["scale"]) == ("array", [2.0, 2.0])
    assert found["cells/labels/nuclei"]["kind"] == "image"


def test_a_level_or_label_that_cannot_be_opened_has_a_line_in_the_tree(images):
    (images / "cells" / "1" / ".zarray").unlink()
    (images / "cells" / "labels" / "nuclei" / ".zattrs").write_text("{")
    lines = damacy.open_group(images).tree().splitlines()
    assert any(line.startswith("    1  cannot be opened: no zarr metadata") for line in lines)
    assert any(line.startswith("    labels/nuclei  cannot be opened: not JSON") for line in lines)


def test_an_image_is_no_array_and_no_group(images):
    with pytest.raises(damacy.InvalidArgument) as caught:
        damacy.open_array(images / "cells")
    assert caught.value.message == "is a group, not an array; arrays inside: 0, 1, labels/nuclei/0"
    assert (caught.value.reason, caught.value.uri) == ("group", str(images / "cells"))
    with pytest.raises(damacy.InvalidArgument, match="is an image, not a group"):
        damacy.open_group(images / "cells")
    assert type(damacy.open_array(images / "cells" / "0")) is damacy.Array


# -- consolidated metadata ---------------------------------------------------------------------------------------------


def map_of(root, zarr_format):
    """The file with consolidated metadata, its document, and the map in it."""
    file = root / (".zmetadata" if zarr_format == 2 else "zarr.json")
    document = json.loads(file.read_text())
    return file, document, (document if zarr_format == 2 else document["consolidated_metadata"])["metadata"]


@pytest.fixture(params=[2, 3])
def consolidated(tmp_path, request):
    root = zarr.open_group(tmp_path / "c", mode="w", zarr_format=request.param)
    for name in ("a10", "a2"):
        root.create_array(name, data=np.arange(3))
    root.create_group("inner").create_array("b", data=np.arange(2))
    zarr.consolidate_metadata(tmp_path / "c")
    return tmp_path / "c", request.param


def test_names_come_from_consolidated_metadata(consolidated):
    root, zarr_format = consolidated
    assert list(damacy.open_group(root)) == ["a2", "a10", "inner"]
    assert list(damacy.open_group(root).arrays()) == ["a2", "a10", "inner/b"]
    (root / "a5").mkdir()  # not in the map, as xarray and zarr-python see it
    document = ".zarray" if zarr_format == 2 else "zarr.json"
    (root / "a5" / document).write_text((root / "a2" / document).read_text())
    group = damacy.open_group(root)
    assert list(group) == ["a2", "a10", "inner"]
    assert "a5" in group and group["a5"].shape == (3,)


def test_stale_consolidated_metadata_name_nodes_that_are_gone(consolidated):
    root, _ = consolidated
    shutil.rmtree(root / "a2")
    group = damacy.open_group(root)
    assert list(group) == ["a2", "a10", "inner"] and "a10" in group
    assert list(group.arrays()) == ["a10", "inner/b"] and list(group.variables) == ["a10"]
    assert "  a2  cannot be opened: node 'a2' is listed in" in group.tree()
    with pytest.raises(KeyError, match="node 'a2' is listed in .* and cannot be opened: no zarr metadata"):
        group["a2"]


def test_names_outside_the_group_are_not_taken_from_consolidated_metadata(consolidated):
    root, zarr_format = consolidated
    file, document, metadata = map_of(root, zarr_format)
    key = "{}/.zarray" if zarr_format == 2 else "{}"
    one = metadata[key.format("a2")]
    for name in ("..", ".", "../c", "/a2", "a2/", "a2//b", ""):
        metadata[key.format(name)] = one
    file.write_text(json.dumps(document))
    group = damacy.open_group(root)
    assert not {"..", ".", "", "../c", "/a2"} & set(group)
    assert {"a2", "a10", "inner"} <= set(group)
    assert {"a2", "a10", "inner/b"} == set(group.arrays())
    assert group.tree()


@pytest.mark.parametrize("text", ["1", "[]", "{}", '{"a": 1}', '{"a/.zarray": {}, "a/.zarray": {}, "a": 3}'])
def test_malformed_consolidated_metadata_are_ignored(consolidated, text):
    root, zarr_format = consolidated
    file, document, metadata = map_of(root, zarr_format)
    document = json.dumps(document)
    file.write_text(document.replace(json.dumps(metadata), text))
    assert file.read_text() != document
    assert list(damacy.open_group(root)) == ["a2", "a10", "inner"]
    if zarr_format == 2:
        file.write_text("{")
        assert list(damacy.open_group(root)) == ["a2", "a10", "inner"]


# -- coordinates -------------------------------------------------------------------------------------------------------

xarray = pytest.importorskip("xarray")


@pytest.fixture(params=[2, 3])
def era5(tmp_path, request):
    time = np.datetime64("1999-12-30", "ns") + np.arange(0, 24 * 20, 6).astype("m8[h]")
    data = xarray.Dataset(
        {"t2m": (("time", "latitude", "longitude"), np.zeros((len(time), 5, 4), "f4"))},
        coords={
            "time": time,
            "latitude": np.linspace(90, -90, 5),
            "longitude": np.arange(4) * 90.0,
            "height": ((), 2.0),
            "area": (("latitude", "longitude"), np.ones((5, 4))),
        },
    )
    data["t2m"].encoding["coordinates"] = "height area"
    encoding = {"time": {"units": "hours since 1900-01-01", "dtype": "i4"}}
    data.to_zarr(tmp_path / "e", zarr_format=request.param, consolidated=False, encoding=encoding)
    return tmp_path / "e"


def test_coordinates_and_variables_are_those_of_xarray(era5):
    group, expected = damacy.open_group(era5), xarray.open_zarr(era5, consolidated=False)
    assert set(group.coords) == set(expected.coords)
    assert set(group.variables) == set(expected.variables)


@pytest.mark.parametrize(
    ("dim", "low", "high"),
    [
        ("time", "2000", "2001"),
        ("time", "2000-01-01", "2000-01-02T06"),
        ("time", None, "2000-01-01T03"),
        ("time", np.datetime64("2000-01-01"), None),
        ("time", "2030", "2040"),
        ("latitude", -45, 45),
        ("latitude", 45, 91),
        ("latitude", -90, -90),
        ("longitude", 90, 270),
        ("longitude", None, None),
    ],
)
def test_an_interval_holds_the_values_between_its_bounds(era5, dim, low, high):
    values = xarray.open_zarr(era5, consolidated=False)[dim].values
    if dim == "time":
        low, high = (None if bound is None else np.datetime64(bound) for bound in (low, high))
    inside = np.ones(values.shape, bool)
    inside &= True if low is None else values >= low
    inside &= True if high is None else values < high
    start, stop = damacy.open_group(era5).box(dim, low, high)
    assert np.flatnonzero(inside).tolist() == list(range(start, stop))


def test_bounds_of_the_wrong_kind_are_refused(era5):
    group = damacy.open_group(era5)
    with pytest.raises(TypeError, match="holds times: give a date"):
        group.box("time", 3, 5)
    with pytest.raises(TypeError, match="holds numbers"):
        group.box("latitude", "2000", None)
    with pytest.raises(ValueError, match="has 3 axes, expected 1"):
        group.box("t2m", 0, 1)
    with pytest.raises(KeyError, match="no node 'level'"):
        group.box("level", 0, 1)
    for dim, low, high in (("latitude", 60, 30), ("time", "2000-01-02", "2000")):
        with pytest.raises(ValueError) as refused:
            group.box(dim, low, high)
        assert str(refused.value) == f"coordinate '{dim}': low must not be above high (got {low!r} and {high!r})"


def test_a_coordinate_that_is_not_monotone_is_refused(tmp_path):
    for values in ([1.0, 3.0, 2.0], [1.0, np.nan, 2.0]):
        data = xarray.Dataset(coords={"x": values})
        data.to_zarr(tmp_path / "g", mode="w", consolidated=False)
        with pytest.raises(ValueError, match="coordinate 'x' is not monotone"):
            damacy.open_group(tmp_path / "g").box("x", 0, 1)


def test_packed_coordinates_are_unpacked(tmp_path):
    data = xarray.Dataset(coords={"x": np.arange(10) * 0.5 + 100})
    encoding = {"x": {"dtype": "i2", "scale_factor": 0.5, "add_offset": 90.0, "_FillValue": -1}}
    data.to_zarr(tmp_path / "g", consolidated=False, encoding=encoding)
    assert damacy.open_group(tmp_path / "g").box("x", 101.0, 103.0) == (2, 6)


UNITS = [
    "days since 1970-01-01",
    "hours since 1900-01-01 00:00:0.0",
    "seconds since 2000-01-01T12:30:15",
    "days since 1800-1-1 00:00:00",
    "milliseconds since 1970-01-01 00:00:00.250",
    "minutes since 1980-02-29 23:59 UTC",
]


@pytest.mark.parametrize("calendar", ["standard", "gregorian", "proleptic_gregorian"])
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("numbers", [np.arange(-3, 5000, 997), np.array([0.0, 0.25, 1.1, 40000.123])])
def test_times_are_those_of_xarray(units, calendar, numbers):
    expected = xarray.coding.times.decode_cf_datetime(numbers, units, calendar)
    found = times(numbers, units, calendar)
    assert np.abs(found - expected.astype("M8[us]")).max() <= np.timedelta64(1, "us")


def test_the_standard_calendar_is_julian_before_1582():
    zero = np.array([0])
    assert times(zero, "days since 1582-10-15", "standard") == times(zero + 1, "days since 1582-10-04", "standard")
    assert times(zero, "days since 1582-10-15", "proleptic_gregorian") == times(
        zero + 11, "days since 1582-10-04", "proleptic_gregorian"
    )
    assert times(zero + 719164, "days since 0001-01-01", "standard") == np.datetime64("1970-01-01")


def test_other_calendars_and_units_are_refused():
    for units, calendar, text in [
        ("days since 2000-01-01", "noleap", "times of the calendar 'noleap' have no datetime64"),
        ("months since 2000-01-01", "standard", "expected a unit from microseconds to weeks since a date"),
        ("days since yesterday", "standard", "expected a unit"),
    ]:
        with pytest.raises(ValueError, match=text):
            times(np.array([0]), units, calendar)


def test_info_of_a_root_is_its_tree(store):
    testing = pytest.importorskip("typer.testing")
    from damacy._cli.commands import app

    shown = testing.CliRunner().invoke(app, ["info", str(store)])
    assert shown.exit_code == 0
    assert "a10  float32 (y=4, x=3) chunks (4, 3)" in shown.stdout
    found = json.loads(testing.CliRunner().invoke(app, ["info", str(store), "--json"]).stdout)
    assert (found["kind"], found["more"], found["attrs"]) == ("group", 0, {"title": "t"})
    assert list(found["nodes"]) == ["a2", "a10", "inner", "inner/b"]
    assert found["nodes"]["a2"]["shape"] == [4, 3]
    missing = testing.CliRunner().invoke(app, ["info", str(store / "none")])
    assert missing.exit_code == 1
