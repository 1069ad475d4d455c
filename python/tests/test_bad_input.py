"""What is refused, with which words: each row is an input and its error. Samplers, loaders, ranks and writers have
their refusals in their own tests."""

import math

import numpy as np
import pytest

import damacy
from damacy import ArraySpec, Config, Sample

zarr = pytest.importorskip("zarr")

BOX = [(0, 3), (0, 8), (0, 96), (0, 64)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    names = ["c", "z", "y", "x"]
    zarr.create_array(folder / "image", data=np.zeros((3, 16, 96, 64), "u2"), dimension_names=names)
    zarr.create_array(folder / "label", data=np.zeros((16, 96, 64), "u1"), dimension_names=names[1:])
    zarr.create_array(folder / "plain", data=np.zeros((16, 96, 64), "u1"))
    zarr.create_array(folder / "packed", data=np.zeros(4, "i2"), attributes={"scale_factor": 0.5, "_FillValue": -1})
    zarr.create_array(folder / "wrong", data=np.zeros(4, "i2"), attributes={"scale_factor": "a"})
    zarr.create_group(folder / "group").create_array("inside", data=np.zeros(4))
    return folder


def image(box=BOX, **turn):
    return lambda folder: Sample({"image": (folder / "image", box)}, **turn)


def one(name, box, **turn):
    return lambda folder: Sample(folder / name, box, **turn)


def pair(first, second):
    return lambda folder: Sample({first: (folder / "image", BOX), second: (folder / "label", BOX[1:])})


def stack(*boxes):
    return lambda folder: Sample({"x": [(folder / "plain", box) for box in boxes]})


NONE = damacy.InvalidArgument, None, None
PAIR = {"image": ArraySpec(), "label": ArraySpec()}

# The sample, Config.arrays, the class of the error with the name of the array and its folder, the reason, the message.
AT_PUSH = [
    (
        pair("image", "lable"), PAIR, NONE, "names",
        "names: the sample has 'image', 'lable'; this pipeline has 'image', 'label'",
    ),
    (
        one("image", BOX), PAIR, NONE, "names",
        "names: the sample has one array without a name; this pipeline has 'image', 'label'",
    ),
    (
        image(), ArraySpec(), NONE, "names",
        "names: the sample has 'image'; this pipeline has one array without a name",
    ),
    (
        stack([(0, 1), (0, 9), (0, 4)], [(0, 1), (0, 8), (0, 4)]), None,
        (damacy.InvalidArgument, "x", "plain"), "extents",
        "arrays['x']: part 1 has extents (1, 8, 4), part 0 (1, 9, 4)",
    ),
    (
        image(), {"image": ArraySpec(scale=[1, 2])}, (damacy.InvalidArgument, "image", "image"), "arguments",
        "scale has 2 numbers, the channel axis 3",
    ),
    (
        one("packed", [(0, 4)]), ArraySpec(cf=True, dtype="u8"), (damacy.InvalidArgument, None, "packed"), "cf",
        "missing values of the array have no place in u8: say ArraySpec(missing=…)",
    ),
    (
        one("wrong", [(0, 4)]), ArraySpec(cf=True), (damacy.DecodeError, None, "wrong"), "cf",
        'expected a finite number other than 0 (got "a")',
    ),
    (
        one("image", [BOX[0], (-1, 8), *BOX[2:]]), None, (damacy.InvalidArgument, None, "image"), "aabb",
        "aabb axis 1: expected 0 <= start < stop, got -1 and 8; negative numbers do not count from the end; "
        "ArraySpec(pad=…) lets boxes cross the border",
    ),
    (
        one("image", [BOX[0], (1, 17), *BOX[2:]]), None, (damacy.InvalidArgument, None, "image"), "aabb",
        "aabb axis 1: stop 17 is beyond the array's size 16",
    ),
    (
        pair("image", "label"), {"image": ArraySpec(pad={"q": 0}), "label": ArraySpec()},
        (damacy.InvalidArgument, "image", "image"), "arguments",
        "pad: the array has no axis 'q'; it has 'c', 'z', 'y', 'x'",
    ),
    (
        image(flip="q"), None, NONE, "arguments",
        "flip: no array has an axis 'q'; image has 'c', 'z', 'y', 'x'",
    ),
    (
        one("plain", [(0, 4)] * 3, flip="y"), None, (damacy.InvalidArgument, None, "plain"), "arguments",
        "the axes of the array have no names: count from the last (-1), or say ArraySpec(axes=…)",
    ),
    (
        image(transpose=("x", "y")), None, (damacy.InvalidArgument, "image", "image"), "extents",
        "transpose: axes y and x have extents 96 and 64",
    ),
    (
        image(), {"image": ArraySpec(order=["z", "y", "x"])}, (damacy.InvalidArgument, "image", "image"), "arguments",
        "order: axis 'c' has extent 3 and is left out",
    ),
    (
        image(), {"image": ArraySpec(channels=[5])}, (damacy.InvalidArgument, "image", "image"), "arguments",
        "channels: 5 is not below the axis's 3",
    ),
    (
        one("label", BOX[1:]), ArraySpec(channels=[0]), (damacy.InvalidArgument, None, "label"), "arguments",
        "channels: the array has no channel axis: say ArraySpec(channel_axis=…)",
    ),
    (
        one("group", [(0, 4)]), None, (damacy.InvalidArgument, None, "group"), "group",
        "is a group, not an array; arrays inside: inside",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("sample", "arrays", "place", "reason", "message"), AT_PUSH)
def test_what_a_pipeline_refuses(folder, sample, arrays, place, reason, message):
    kind, name, uri = place
    good = Sample(folder / "image", BOX) if not isinstance(arrays, dict) else None
    with damacy.Pipeline(Config(batch_size=1, device="cpu", arrays=arrays)) as pipeline:
        with pytest.raises(kind) as refused:
            pipeline.push([sample(folder)])
        error = refused.value
        assert (error.message, error.reason, error.array) == (message, reason, name)
        assert (error.uri, error.sample_index) == (uri and str(folder / uri), 0)
        if name:
            assert f": {name}: " in str(error)
        if good and arrays is None:  # a refused sample changes nothing
            pipeline.push([good])
            assert pipeline.pop().numpy().shape == (1, 3, 8, 96, 64)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: Sample({}), ValueError, "a sample needs at least one array"),
        (lambda: Sample({3: ("a", BOX)}), TypeError, "array names must be str (got int)"),
        (lambda: Sample({"image": "a"}), TypeError, "arrays['image']: expected (uri, box) or a list of them (got str)"),
        (lambda: Config(batch_size=1, arrays={"a": 3}), TypeError, "arrays['a'] must be an ArraySpec (got int)"),
        (lambda: Config(batch_size=1, arrays={}), ValueError, "arrays must name at least one array"),
        (lambda: ArraySpec(scale=math.inf), ValueError, "scale must be finite (got inf)"),
        (lambda: ArraySpec(clip=(1, 0)), ValueError, "clip must have low <= high (got 1 and 0)"),
        (
            lambda: ArraySpec(clip=(0, 0.5), dtype="u8"),
            ValueError,
            "clip must be integers in the range of u8 (got 0.5)",
        ),
        (
            lambda: ArraySpec(pad="mirror"),
            ValueError,
            "pad must be a number, 'edge', 'reflect', 'symmetric' or 'wrap' (got 'mirror')",
        ),
        (lambda: ArraySpec(order=["y", "y"]), ValueError, "order: 'y' occurs twice"),
        (
            lambda: Sample({"a": ("a", [slice(0, 4, -1)])}),
            ValueError,
            "arrays['a']: aabb axis 0: slice step must be >= 1 (got step=-1): say flip=(0,)",
        ),
        (
            lambda: Sample("a", [(0, 1), [0, 1, 2]]),
            TypeError,
            "aabb axis 1: expected slice or (start, stop) tuple; got list",
        ),
        (
            lambda: Sample("a", np.s_[0:1, 0:]),
            ValueError,
            "aabb axis 1: slice stop is required (got slice(0, None, None))",
        ),
        (lambda: ArraySpec(dtype="flaot"), ValueError, "unknown dtype: 'flaot'"),
    ],
)
def test_what_is_refused_when_an_object_is_made(make, kind, message):
    with pytest.raises(kind) as refused:
        make()
    assert str(refused.value) == message


def test_what_a_batch_refuses(folder):
    with damacy.Pipeline(Config(batch_size=1, device="cpu")) as pipeline:
        pipeline.push([pair("image", "label")(folder)])
        batch = pipeline.pop()
        with pytest.raises(KeyError) as refused:
            batch["lable"]
        assert refused.value.args == ("no array 'lable'; there are 'image', 'label'",)
        with pytest.raises(TypeError) as refused:
            _ = batch.info
        assert str(refused.value) == "a batch of several arrays: say batch['image'].info"


def test_a_view_of_a_data_array_is_no_uri(folder):
    xarray = pytest.importorskip("xarray")
    path = folder / "cube"
    xarray.Dataset({"t": (("y", "x"), np.zeros((4, 5), "f4"))}).to_zarr(path, consolidated=False)
    stored = xarray.open_zarr(path, chunks=None, consolidated=False, decode_cf=False).t
    assert Sample(stored, [(0, 4), ...]).uri == str(path / "t")
    with pytest.raises(TypeError) as refused:
        Sample(stored[1:], [(0, 3), ...])
    assert str(refused.value) == "the DataArray is no whole stored array (a selection of it): give its uri and a box"
