"""`Sample`: the spellings of a box, and the errors of invalid ones."""

import copy
import pathlib
import pickle
import re

import numpy as np
import pytest

import damacy
from damacy import Sample

BOX = ((0, 64), (3, 256))


class Index:
    """An integer whose class is not `int`."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


@pytest.mark.parametrize(
    "spelled",
    [
        BOX,
        [(0, 64), (3, 256)],
        np.s_[:64, 3:256],
        np.s_[0:64:1, 3:256:None],
        [slice(None, 64), (np.int64(3), np.uint8(255) + np.uint16(1))],
        iter([(Index(0), Index(64)), slice(Index(3), Index(256), Index(1))]),
        [[0, 64], [3, 256]],
        np.array(BOX),
        np.array(BOX, dtype="u2"),
        [np.array([0, 64]), [np.int8(3), np.uint8(255) + np.uint16(1)]],
    ],
)
def test_boxes_are_equal_in_all_spellings(spelled):
    sample = Sample("a.zarr", spelled)
    assert sample == Sample(pathlib.Path("a.zarr"), BOX)
    assert hash(sample) == hash(Sample("a.zarr", BOX))
    assert sample.aabb == BOX
    assert all(type(bound) is int for axis in sample.aabb for bound in axis)


def test_a_path_is_stored_as_plain_text():
    assert Sample(pathlib.PurePosixPath("/a/b.zarr"), BOX).uri == "/a/b.zarr"
    assert type(Sample(np.str_("a"), BOX).uri) is str


@pytest.mark.parametrize("uri", [None, 3, b"a.zarr", ["a.zarr"]], ids=repr)
def test_a_uri_of_another_type_is_refused(uri):
    with pytest.raises(TypeError, match="uri"):
        Sample(uri, BOX)


def test_sign_and_order_are_left_to_push():
    assert Sample("a", [(-5, -9), (2**80, 0)]).aabb == ((-5, -9), (2**80, 0))


def test_a_range_is_its_elements():
    for stop in (17, 18, 19):
        for sample in (Sample({"a": ("u", [range(1, stop, 3)])}), Sample({"a": ("u", [slice(1, stop, 3)])})):
            ((_, (axis,)),) = sample.arrays["a"]
            assert repr(axis) == "range(1, 17, 3)"
    assert Sample("u", [range(4, 9, 6)]).aabb == ((4, 5),)


def test_a_stop_beyond_the_array_is_taken_where_no_element_is(tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.create_array(tmp_path / "a", data=np.arange(17, dtype="u2"), chunks=(4,))
    config = damacy.Config(batch_size=2, device="cpu", host_buffer_bytes=1 << 20, device_buffer_bytes=1 << 20)
    with damacy.Pipeline(config) as pipeline:
        pipeline.push([Sample(tmp_path / "a", [range(1, stop, 3)]) for stop in (17, 19)])
        with pipeline.pop() as batch:
            assert batch.numpy().tolist() == [[1, 4, 7, 10, 13, 16]] * 2
        with pytest.raises(damacy.InvalidArgument, match="aabb axis 0: stop 20 is beyond the array's size 17"):
            pipeline.push([Sample(tmp_path / "a", [range(1, 20, 3)])])


def test_a_zero_dimensional_box_is_a_box():
    assert Sample("a", []).aabb == ()


@pytest.mark.parametrize(
    ("axis", "kind", "text"),
    [
        (slice(0, 4, 2), ValueError, "aabb axis 1: slice step must be 1 or omitted (got step=2)"),
        (slice(0, None, -1), ValueError, "aabb axis 1: slice step must be 1 or omitted (got step=-1)"),
        (slice(0, None), ValueError, "aabb axis 1: slice stop is required (got slice(0, None, None))"),
        (5, TypeError, "aabb axis 1: expected slice or (start, stop) tuple; got int"),
        ([0, 5, 1], TypeError, "aabb axis 1: expected slice or (start, stop) tuple; got list"),
        (np.arange(3), TypeError, "aabb axis 1: expected slice or (start, stop) tuple; got ndarray"),
        ((0, 5, 1), TypeError, "aabb axis 1: expected slice or (start, stop) tuple; got tuple"),
        (None, TypeError, "aabb axis 1: expected slice or (start, stop) tuple; got NoneType"),
    ],
    ids=repr,
)
def test_an_invalid_axis_is_named(axis, kind, text):
    with pytest.raises(kind, match=f"^{re.escape(text)}$") as caught:
        Sample("a", [(0, 1), axis])
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    "axis",
    [(0, 1.5), ("0", 1), (False, 1), slice(0, True), slice(0.0, 3), (None, 3), [0, 1.5], np.array([0.0, 1.0])],
    ids=repr,
)
def test_a_bound_that_is_not_an_integer_names_its_axis(axis):
    with pytest.raises(TypeError, match=r"aabb axis 1: (start|stop)"):
        Sample("a", [(0, 1), axis])


def test_a_box_that_is_not_iterable_is_a_type_error():
    with pytest.raises(TypeError, match="aabb"):
        Sample("a", 5)


def test_it_is_immutable_and_can_be_pickled():
    sample = Sample("a", BOX)
    with pytest.raises(AttributeError):
        sample.uri = "b"
    assert not hasattr(sample, "__dict__")
    for twin in (pickle.loads(pickle.dumps(sample)), copy.copy(sample), copy.deepcopy(sample)):
        assert twin == sample


def test_its_repr_creates_it_except_for_secrets():
    sample = Sample("dir/a.zarr", BOX)
    assert eval(repr(sample)) == sample
    secret = Sample("https://user:hunter2@host/a.zarr?token=hunter2#hunter2", [(0, 1)])
    assert repr(secret) == "Sample(uri='https://host/a.zarr', aabb=((0, 1),))"
    assert repr(Sample("s3://\udcff", [])) == "Sample(uri='s3://\\udcff', aabb=())"
