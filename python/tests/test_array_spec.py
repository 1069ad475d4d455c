"""`ArraySpec`, `Take`, and what a `Sample` does besides naming boxes: forms, equality, and what is refused."""

import copy
import dataclasses
import math
import pickle

import numpy as np
import pytest

import damacy
from damacy import ArraySpec, Config, Dtype, Pipeline, Sample, Take

BOX = [(0, 2), (0, 3)]


def test_a_spec_keeps_plain_values_and_shows_what_is_not_the_default():
    spec = ArraySpec(
        dtype=np.dtype("u2"),
        scale=np.array([1, 2]),
        offset=np.float32(0.5),
        clip=(np.int16(0), 4095),
        pad={"y": "edge", -1: np.uint8(7)},
        channels=np.array([1, 0]),
        channel_axis=0,
        axes=["c", "y", "x"],
        order=("y", None, -1, 0),
        missing=np.int64(3),
        rounding="nearest",
        cf=False,
    )
    assert repr(spec) == (
        "ArraySpec(dtype=<Dtype.U16: 6>, cf=False, scale=(1.0, 2.0), offset=0.5, clip=(0, 4095), rounding='nearest', "
        "missing=3, pad=(('y', 'edge'), (-1, 7)), channels=(1, 0), channel_axis=0, axes=('c', 'y', 'x'), "
        "order=('y', None, -1, 0))"
    )
    for twin in (pickle.loads(pickle.dumps(spec)), copy.deepcopy(spec), dataclasses.replace(spec)):
        assert twin == spec and hash(twin) == hash(spec)
    assert ArraySpec() == ArraySpec(scale=1, offset=0) != ArraySpec(scale=[1])
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.scale = 2


@pytest.mark.parametrize(
    ("fields", "kind", "text"),
    [
        ({"scale": math.inf}, ValueError, "scale must be finite (got inf)"),
        ({"offset": [0, math.nan]}, ValueError, "offset must be finite (got nan)"),
        ({"scale": 10**400}, ValueError, "scale must be finite (got 1000"),
        ({"scale": "2"}, TypeError, "scale must be a number (got str)"),
        ({"scale": []}, ValueError, "scale must have 1 to 4096 numbers (got 0)"),
        ({"scale": [1] * 4097}, ValueError, "scale must have 1 to 4096 numbers (got 4097)"),
        ({"clip": (1, 0)}, ValueError, "clip must have low <= high (got 1 and 0)"),
        ({"clip": 3}, TypeError, "clip must be (low, high) (got 3)"),
        ({"clip": (math.nan, 1)}, ValueError, "clip must not be NaN"),
        ({"clip": (0, 0.5), "dtype": "u8"}, ValueError, "clip must be integers in the range of u8 (got 0.5)"),
        ({"clip": (0, 256), "dtype": "u8"}, ValueError, "clip must be integers in the range of u8 (got 256)"),
        ({"clip": (-129, 0), "dtype": "i8"}, ValueError, "clip must be integers in the range of i8 (got -129)"),
        ({"missing": 2**64, "dtype": "u64"}, ValueError, "missing must be integers in the range of u64 (got 18446"),
        ({"pad": math.inf, "dtype": "bool"}, ValueError, "pad must be integers in the range of bool (got inf)"),
        (
            {"pad": "mirror"},
            ValueError,
            "pad must be a number, 'edge', 'reflect', 'symmetric' or 'wrap' (got 'mirror')",
        ),
        ({"pad": {"": 1}}, ValueError, "pad: the name of an axis must not be empty"),
        ({"rounding": "up"}, ValueError, "rounding must be 'truncate' or 'nearest' (got 'up')"),
        ({"cf": 1}, TypeError, "cf must be True, False or None (got int)"),
        ({"channels": 1}, TypeError, "channels must be a sequence of indices (got 1)"),
        ({"channels": "c"}, TypeError, "channels must be a sequence of indices (got 'c')"),
        ({"channels": []}, ValueError, "channels must have 1 to 4096 indices (got 0)"),
        ({"channels": [-1]}, ValueError, "channels must be >= 0 (got -1)"),
        ({"order": ["y", "y"]}, ValueError, "order: 'y' occurs twice"),
        ({"order": "yx"}, TypeError, "order must be a sequence of axes (got 'yx')"),
        ({"axes": ["y", ""]}, TypeError, "axes must be names (got '')"),
        ({"channel_axis": 1.5}, TypeError, "channel_axis: an axis must be an integer (got float)"),
    ],
    ids=str,
)
def test_what_no_array_can_satisfy_is_refused_when_a_spec_is_made(fields, kind, text):
    with pytest.raises(kind) as refused:
        ArraySpec(**fields)
    assert str(refused.value).startswith(text)


def test_values_are_checked_against_the_type_of_the_config():
    spec = ArraySpec(clip=(0, 0.5))
    Config(batch_size=1, arrays=spec)
    for arrays in (spec, {"a": spec}):
        with pytest.raises(ValueError, match=r"clip must be integers in the range of u8 \(got 0.5\)"):
            Config(batch_size=1, arrays=arrays, dtype="u8")


def test_the_limits_of_a_type_are_in_its_range():
    for dtype, low, high in ((Dtype.U64, 0, 2**64 - 1), (Dtype.I64, -(2**63), 2**63 - 1), (Dtype.BOOL, 0, 1)):
        assert ArraySpec(dtype=dtype, clip=(low, high)).clip == (low, high)


def test_take_holds_indices():
    assert Take(np.array([2, 0, 2])) == Take([2, 0, 2]) != Take([0, 2, 2])
    assert list(Take([2, 0])) == [2, 0] and len(Take([2, 0])) == 2 and repr(Take((2, 0))) == "Take([2, 0])"
    for indices, kind in (([], ValueError), ([0] * 4097, ValueError), ([0.5], TypeError), ([True], TypeError)):
        with pytest.raises(kind, match="Take: "):
            Take(indices)


def test_steps_are_ranges_and_unit_steps_are_pairs():
    assert Sample("a", [range(0, 9, 2), range(3, 7)]).aabb == (range(0, 9, 2), (3, 7))
    assert Sample("a", [range(0, 9, 2)]) == Sample("a", [range(0, 10, 2)])
    assert Sample("a", [range(0, 2**70, 3)]).aabb == (range(0, 2**70, 3),)
    assert Sample({"x": ("a", [np.s_[0:9:2]])}).arrays["x"][0][1] == (range(0, 9, 2),)
    with pytest.raises(ValueError, match=r"aabb axis 0: slice step must be >= 1 \(got step=-2\): say flip=\(0,\)"):
        Sample("a", [range(9, 0, -2)])


def test_turns_belong_to_the_content_of_a_sample():
    plain = Sample("a", BOX)
    turned = Sample("a", BOX, flip="y", transpose=("x", "y"), scale=2, offset={"b": [1, 2], "a": 3}, row_key=(1, 2))
    assert (plain.flip, plain.transpose, plain.scale, plain.offset) == ((), None, None, None)
    assert (turned.flip, turned.transpose, turned.scale) == (("y",), ("x", "y"), 2.0)
    assert turned.offset == {"a": 3.0, "b": (1.0, 2.0)}
    assert repr(turned).endswith(
        "flip=('y',), transpose=('x', 'y'), scale=2.0, offset={'a': 3.0, 'b': (1.0, 2.0)}, row_key=(1, 2))"
    )
    assert turned != plain != Sample("a", BOX, flip=-1) and Sample("a", BOX, flip=["y"]) == Sample("a", BOX, flip="y")
    for twin in (pickle.loads(pickle.dumps(turned)), dataclasses.replace(turned, row_key=None), copy.copy(turned)):
        assert twin == turned and hash(twin) == hash(turned)


def test_replace_changes_the_turns_that_are_given_and_keeps_the_others():
    turned = Sample("a", BOX, flip="y", scale=2)
    assert dataclasses.replace(turned, flip="x") == Sample("a", BOX, flip="x", scale=2)
    assert dataclasses.replace(turned, flip=(), offset=1) == Sample("a", BOX, scale=2, offset=1)
    assert dataclasses.replace(turned, flip=(), scale={}) == Sample("a", BOX)


@pytest.mark.parametrize(
    ("turns", "kind", "text"),
    [
        ({"flip": ("y", "y")}, ValueError, "flip: 'y' occurs twice"),
        ({"flip": 1.5}, TypeError, "flip: an axis must be an integer (got float)"),
        ({"transpose": ("y", "")}, ValueError, "transpose: the name of an axis must not be empty"),
        ({"scale": math.nan}, ValueError, "scale must be finite (got nan)"),
        ({"offset": {"a": "b"}}, TypeError, "offset['a'] must be a number (got str)"),
        ({"scale": {3: 1}}, TypeError, "array names must be str (got int)"),
    ],
    ids=str,
)
def test_turns_that_mean_nothing_are_refused(turns, kind, text):
    with pytest.raises(kind) as refused:
        Sample("a", BOX, **turns)
    assert str(refused.value) == text


@pytest.fixture
def pair(tmp_path):
    zarr = pytest.importorskip("zarr")
    data = np.arange(48, dtype="u2").reshape(2, 4, 6)
    zarr.create_array(tmp_path / "a", data=data, chunks=(1, 2, 3), dimension_names=["c", "y", "x"])
    zarr.create_array(tmp_path / "t", data=data, chunks=(1, 2, 3), dimension_names=["t", "x", "y"])
    zarr.create_array(tmp_path / "n", data=data, chunks=(1, 2, 3))
    return str(tmp_path / "a"), str(tmp_path / "t"), str(tmp_path / "n")


def read(samples, arrays=None):
    with Pipeline(Config(batch_size=1, device="cpu", n_io_threads=1, arrays=arrays)) as pipeline:
        pipeline.push([samples])
        pipeline.flush()
        return {name: array.numpy()[0].copy() for name, array in pipeline.pop().items()}


def test_arrays_with_axes_in_another_order_turn_alike(pair):
    box = [(0, 2), (0, 3), (0, 3)]
    sample = Sample({"a": (pair[0], box), "t": (pair[1], box)}, transpose=("x", "y"), flip="y")
    rows = read(sample)
    data = np.arange(48).reshape(2, 4, 6)[:, :3, :3]
    assert np.array_equal(rows["a"], np.flip(data.transpose(0, 2, 1), 1))
    assert np.array_equal(rows["t"], np.flip(data.transpose(0, 2, 1), 2))


@pytest.mark.parametrize(
    ("turns", "specs", "text"),
    [
        ({"flip": "q"}, None, "flip: no array has an axis 'q'; a has 'c', 'y', 'x'; t has 't', 'x', 'y'"),
        ({"transpose": ("y", "c")}, None, "transpose: axes c and y have extents 2 and 3"),
        ({"transpose": ("c", "t")}, None, "transpose: no array has all of these axes"),
        ({"transpose": ("x", -2)}, None, "transpose: 'x' and -2 are the same axis of the array"),  # in t
        ({"flip": ("x", -1)}, None, "flip: 'x' and -1 are the same axis of the array"),  # in a
        ({"scale": {"b": 1}}, None, "scale: the sample has no array 'b'"),
        ({"scale": {"a": [1, 2, 3]}}, None, "scale has 3 numbers, the channel axis 2"),
        ({"scale": {"t": [1, 2]}}, None, "scale: the array has no channel axis: say ArraySpec(channel_axis=…)"),
        ({}, {"pad": {"q": 1}}, "pad: the array has no axis 'q'; it has 'c', 'y', 'x'"),
        ({}, {"channels": [2]}, "channels: 2 is not below the axis's 2"),
        ({}, {"order": ["y", "x"]}, "order: axis 'c' has extent 2 and is left out"),
        ({}, {"axes": ["y", "x"]}, "axes names 2 axes, the array has 3"),
    ],
    ids=str,
)
def test_what_does_not_fit_the_arrays_is_refused_at_push(pair, turns, specs, text):
    box = [(0, 2), (0, 3), (0, 3)]
    sample = Sample({"a": (pair[0], box), "t": (pair[1], box)}, **turns)
    arrays = None if specs is None else {"a": ArraySpec(**specs), "t": ArraySpec()}
    with pytest.raises(damacy.InvalidArgument) as refused:
        read(sample, arrays)
    assert refused.value.message == text and refused.value.sample_index == 0


def test_a_name_needs_names_in_every_array(pair):
    box = [(0, 2), (0, 3), (0, 3)]
    with pytest.raises(damacy.InvalidArgument) as refused:
        read(Sample({"a": (pair[0], box), "n": (pair[2], box)}, flip="x"))
    text = "the axes of the array have no names: count from the last (-1), or say ArraySpec(axes=…)"
    assert (refused.value.message, refused.value.array) == (text, "n")
    rows = read(Sample({"a": (pair[0], box), "n": (pair[2], box)}, flip=-1))
    assert np.array_equal(rows["a"], rows["n"])


def test_a_transpose_of_axes_that_an_array_has_in_part_is_refused_at_push(tmp_path):
    zarr = pytest.importorskip("zarr")
    arrays = {}
    for name, dims in (("image", ["z", "y", "x"]), ("label", ["y", "x"])):
        shape = (8,) * len(dims)
        zarr.create_array(tmp_path / name, shape=shape, chunks=shape, dtype="u1", dimension_names=dims)
        arrays[name] = (str(tmp_path / name), [(0, 4)] * len(dims))
    with damacy.Pipeline(damacy.Config(batch_size=1, device="cpu")) as pipeline:
        with pytest.raises(damacy.InvalidArgument) as refused:
            pipeline.push([damacy.Sample(arrays, transpose=("x", "y", "z"))])
        assert refused.value.array == "label"
        assert refused.value.message.startswith("transpose: the array has 2 of the 3 axes, and would turn otherwise")
