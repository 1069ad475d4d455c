"""`Array.read` and the other properties of an opened array, against NumPy and zarr-python."""

import pickle
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import damacy
from damacy._open.selection import selection

zarr = pytest.importorskip("zarr")

SHAPE = (7, 5, 6)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("reads") / "a.zarr"
    data = np.random.default_rng(1).integers(0, 1 << 15, SHAPE).astype("u2")
    array = zarr.create_array(path, shape=SHAPE, dtype="u2", chunks=(2, 1, 3), shards=(4, 5, 3), fill_value=7)
    array[:4] = data[:4]
    data[4:] = 7
    return damacy.open_array(path), data


def indices(size):
    bound = st.none() | st.integers(-size - 2, size + 2)
    return (
        st.integers(-size, size - 1)
        | st.builds(slice, bound, bound, st.none() | st.integers(1, 3))
        | st.just(np.int64(0))
    )


@given(index=st.lists(st.tuples(*map(indices, SHAPE)).map(list), min_size=1, max_size=1), dots=st.booleans())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_index_gives_what_numpy_gives(stored, index, dots):
    array, data = stored
    (index,) = index
    if dots:
        index[1] = ...
    np.testing.assert_array_equal(array[tuple(index)], data[tuple(index)])


def test_new_axes_have_one_element(stored):
    array, data = stored
    for index in ((None, 2), (slice(2), None, ..., None), (..., None)):
        np.testing.assert_array_equal(array[index], data[index])


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_box_gives_its_elements(stored, data):
    array, elements = stored
    box, picked = [], []
    for size in SHAPE:
        start, stop = sorted(data.draw(st.tuples(st.integers(0, size), st.integers(0, size))))
        step = data.draw(st.integers(1, 3))
        box.append(data.draw(st.sampled_from([(start, stop), [start, stop], range(start, stop, step)])))
        picked.append(np.arange(start, stop, step if isinstance(box[-1], range) else 1))
    np.testing.assert_array_equal(array.read(box), elements[np.ix_(*picked)])


def test_indices_of_an_axis_may_repeat_in_any_order(stored):
    array, data = stored
    found = array.read([damacy.Take([3, 0, 3, 6]), damacy.Take([4, 1]), (1, 5)])
    np.testing.assert_array_equal(found, data[[3, 0, 3, 6]][:, [4, 1], 1:5])
    with pytest.raises(damacy.InvalidArgument, match="aabb axis 0: stop 8 is beyond the array's size 7"):
        array.read([damacy.Take([7])])


def test_without_a_box_the_whole_array_is_read(stored):
    array, data = stored
    for whole in (array.read(), array[...], array[:]):
        np.testing.assert_array_equal(whole, data)
        assert whole.flags.writeable


@pytest.mark.parametrize(
    ("box", "kind", "text"),
    [
        (7, IndexError, "index 7 is out of bounds for axis 0 with size 7"),
        (
            slice(None, None, -1),
            damacy.InvalidArgument,
            "aabb axis 0: slice step must be >= 1 (got step=-1): say flip=(0,)",
        ),
        ([(0, 8)], damacy.InvalidArgument, "aabb axis 0: stop 8 is beyond the array's size 7"),
        ([(-1, 2)], damacy.InvalidArgument, "aabb axis 0: index -1 is before the array"),
        ([(3, 2)], damacy.InvalidArgument, "aabb axis 0: stop 2 is below start 3"),
        ((0, 0, 0, 0), damacy.RankMismatch, "the index has 4 axes, the array has 3: its shape is (7, 5, 6)"),
        ((..., ...), IndexError, "the index has more than one '...'"),
        (
            "x",
            TypeError,
            "aabb axis 0: expected an integer, a slice, a (start, stop) pair or a range; got str",
        ),
        (True, TypeError, "aabb axis 0: expected an integer, a slice, a (start, stop) pair or a range; got bool"),
    ],
)
def test_refused_boxes_say_why(stored, box, kind, text):
    with pytest.raises(kind) as caught:
        stored[0].read(box)
    assert getattr(caught.value, "message", str(caught.value)) == text


def test_an_array_is_not_converted_or_iterated_by_accident(stored):
    array = stored[0]
    with pytest.raises(TypeError, match=r"a damacy.Array holds no elements: say .read\(\)"):
        np.asarray(array)
    with pytest.raises(TypeError):
        list(array)


DTYPES = ["bool", "i1", "u8", "f2", ">f4", "c8", "c16", "M8[s]", "m8[25us]"]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_type_is_read_in_the_stored_type(tmp_path, dtype, zarr_format):
    data = np.arange(12).reshape(3, 4).astype(dtype)
    array = zarr.create_array(tmp_path / "a", data=data, chunks=(2, 2), zarr_format=zarr_format)
    found = damacy.open_array(tmp_path / "a").read((slice(1, None), 2))
    np.testing.assert_array_equal(found, array[1:, 2])
    assert found.dtype == data.dtype.newbyteorder("=")


def test_bfloat16_is_read_with_ml_dtypes(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = zarr.create_array(tmp_path / "a", shape=(3,), dtype="f4", chunks=(3,), compressors=None)
    document = tmp_path / "a" / "zarr.json"
    array[...] = 0
    document.write_text(document.read_text().replace('"float32"', '"bfloat16"'))
    values = np.array([1.5, -2, 3], ml_dtypes.bfloat16)
    (tmp_path / "a" / "c").mkdir(exist_ok=True)
    (tmp_path / "a" / "c" / "0").write_bytes(values.tobytes())
    assert damacy.open_array(tmp_path / "a").read().tolist() == values.tolist()


def test_sizes_and_units_and_bytes(tmp_path):
    array = zarr.create_array(
        tmp_path / "a", shape=(4, 6), chunks=(2, 6), dtype="i2", compressors=None, attributes={"units": "K"}
    )
    array[:2] = 1
    found = damacy.open_array(tmp_path / "a")
    assert (found.ndim, found.size, found.nbytes, found.units) == (2, 24, 48, "K")
    assert found.stored_bytes() == 24
    assert (found.scale, found.translation) == ((None, None), (None, None))


def test_an_opened_array_can_be_pickled_and_sampled(stored):
    array, data = stored
    twin = pickle.loads(pickle.dumps(array))
    assert twin == array
    assert hash(twin) == hash(array)
    np.testing.assert_array_equal(twin[0], data[0])
    assert damacy.Sample(array, [(0, 2), ...]).aabb == ((0, 2), (0, 5), (0, 6))


def test_an_array_that_changed_is_refused(tmp_path):
    zarr.create_array(tmp_path / "a", data=np.zeros((4,), "u1"))
    array = damacy.open_array(tmp_path / "a")
    assert array.read().tolist() == [0] * 4
    zarr.create_array(tmp_path / "a", data=np.ones((5,), "u1"), overwrite=True)
    with pytest.raises(damacy.StorageError, match="another shape or type than when it was opened: open it again"):
        array.read()
    assert damacy.open_array(tmp_path / "a").read().tolist() == [1] * 5


@pytest.mark.parametrize(
    ("shape", "dtype"), [((5, 6), "u1"), ((3, 6), "u1"), ((4, 6, 1), "u1"), ((4,), "u1"), ((4, 6), "u2")]
)
def test_an_array_that_changed_is_refused_also_with_a_spec(tmp_path, shape, dtype):
    path = tmp_path / "a"
    zarr.create_array(path, data=np.zeros((4, 6), "u1"))
    array = damacy.open_array(path)
    assert not array.read(spec=damacy.ArraySpec()).any()
    zarr.create_array(path, data=np.ones(shape, dtype), overwrite=True)
    for box in (None, [(0, 4), (0, 6)], [(-1, 3), (0, 2)], np.s_[3]):
        with pytest.raises(damacy.StorageError) as caught:
            array.read(box, spec=damacy.ArraySpec(pad="edge"))
        error = caught.value
        assert error.message == "the array has another shape or type than when it was opened: open it again"
        assert (error.reason, error.uri, error.sample_index) == ("changed", str(path), None)
        assert str(error).startswith(f"{path}: the array")
    assert damacy.open_array(path).read(spec=damacy.ArraySpec()).min() == 1


def test_the_error_of_a_row_names_no_push_and_no_sample(stored):
    array, _ = stored
    with pytest.raises(damacy.InvalidArgument) as caught:
        array.read([(0, 2), (-5, 2), (0, 1)], spec=damacy.ArraySpec())
    assert str(caught.value).startswith(f"{array.uri}: aabb axis 1: expected 0 <= start < stop, got -5 and 2")


def test_an_array_that_is_gone_is_not_found_also_with_a_spec(tmp_path):
    zarr.create_array(tmp_path / "a", data=np.zeros((4,), "u1"))
    array = damacy.open_array(tmp_path / "a")
    shutil.rmtree(tmp_path / "a")
    for spec in (None, damacy.ArraySpec()):
        with pytest.raises(damacy.NotFound):
            array.read(spec=spec)


def test_a_damaged_chunk_is_the_error_of_a_pipeline(tmp_path):
    zarr.create_array(tmp_path / "a", data=np.arange(1000), chunks=(10,))
    (tmp_path / "a" / "c" / "3").write_bytes(b"damaged")
    with pytest.raises(damacy.DecodeError) as caught:
        damacy.open_array(tmp_path / "a").read()
    assert (caught.value.uri, caught.value.key, caught.value.chunk) == (str(tmp_path / "a"), "c/3", (3,))


def test_indices_of_several_axes_are_limited():
    wanted = selection([range(0, 9, 2), (1, 1)], (9, 9))
    assert (wanted.stretches, wanted.shape) == ([[(0, 2, 5)], [(1, 1, 0)]], (5, 0))


# -- rows of a spec ----------------------------------------------------------------------------------------------------


def test_a_row_drops_the_axes_of_integers_also_under_an_order(stored):
    array, data = stored
    spec = damacy.ArraySpec(dtype="u16", axes=["z", "y", "x"], order=["x", None, "z", "y"], pad="edge")
    found = array.read((slice(None, None, 2), -1, slice(-2, None)), spec=spec)
    np.testing.assert_array_equal(found, data[::2, -1, -2:].T[:, None])
    plain = damacy.ArraySpec(scale=2, offset=1)
    assert array.read((1, 2, 3), spec=plain) == 2 * np.float32(data[1, 2, 3]) + 1
    left_out = damacy.ArraySpec(dtype="u16", order=[2, 1])
    np.testing.assert_array_equal(array.read((3, ...), spec=left_out), data[3].T)


def test_pairs_of_a_row_may_lie_beyond_the_array(stored):
    array, data = stored
    found = array.read([(-2, 9), (0, 5), damacy.Take([-1, 7])], spec=damacy.ArraySpec(pad="reflect"))
    np.testing.assert_array_equal(found, np.pad(data, [(2, 2), (0, 0), (1, 2)], "reflect")[..., [0, 8]])
    assert found.dtype == "f4" and found.flags.writeable


def test_rows_have_the_errors_of_a_pipeline_without_the_place_of_a_sample(stored):
    array, _ = stored
    with pytest.raises(damacy.InvalidArgument, match=r"ArraySpec\(pad=…\) lets boxes cross the border") as caught:
        array.read([(-1, 3), (0, 5), (0, 6)], spec=damacy.ArraySpec())
    assert (caught.value.sample_index, caught.value.uri) == (None, array.uri)
    assert "sample" not in str(caught.value)
    with pytest.raises(damacy.InvalidArgument, match="no array has an axis 'q'|'q'"):
        array.read(spec=damacy.ArraySpec(axes=["z", "y", "x"], pad={"q": "edge"}))
    with pytest.raises(TypeError, match=r"spec must be a damacy.ArraySpec \(got dict\)"):
        array.read(spec={})
    with pytest.raises(TypeError, match=r"a box of a row has no new axes: say ArraySpec\(order=...\)"):
        array.read((None, 0), spec=damacy.ArraySpec())
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 7"):
        array.read(7, spec=damacy.ArraySpec())
    with pytest.raises(damacy.RankMismatch, match="the index has 4 axes, the array has 3"):
        array.read((0, 0, 0, 0), spec=damacy.ArraySpec())
    with pytest.raises(damacy.InvalidArgument, match="slice step must be >= 1"):
        array.read(slice(None, None, -1), spec=damacy.ArraySpec())
    with pytest.raises(damacy.InvalidArgument, match="channels"):
        array.read((0,), spec=damacy.ArraySpec(channels=[0, 1], channel_axis=0))


def test_a_damaged_chunk_fails_a_row_as_it_fails_a_batch(tmp_path):
    array = zarr.create_array(tmp_path / "a", shape=(4,), dtype="u2", chunks=(2,))
    array[:] = 1
    (tmp_path / "a" / "c" / "1").write_bytes(b"no zstd")
    opened = damacy.open_array(tmp_path / "a")
    with pytest.raises(damacy.DecodeError) as caught:
        opened.read(spec=damacy.ArraySpec())
    assert (caught.value.chunk, caught.value.sample_index, caught.value.lost) == ((1,), None, ())
    np.testing.assert_array_equal(opened.read([(0, 2)], spec=damacy.ArraySpec()), [1, 1])


def test_a_level_takes_names_and_channel_axis_of_its_image(tmp_path):
    group = zarr.open_group(tmp_path / "i", mode="w", zarr_format=2)
    data = np.arange(24, dtype="u2").reshape(2, 3, 4)
    for path in "01":
        group.create_array(path, data=data)
    axes = [{"name": "k", "type": "channel"}, {"name": "y", "type": "space"}, {"name": "x", "type": "space"}]
    datasets = [{"path": p, "coordinateTransformations": [{"type": "scale", "scale": [1, 1, 1]}]} for p in "01"]
    group.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": datasets}]
    image = damacy.open_image(tmp_path / "i")
    spec = damacy.ArraySpec(scale=[1, 10], pad={"x": 7}, order=["x", "k", "y"], channels=[1, 0])
    wanted = np.pad(data[::-1] * np.float32([1, 10])[:, None, None], [(0, 0), (0, 0), (1, 0)], constant_values=7)
    for array in (image, image.level(0), image.level("1")):
        np.testing.assert_array_equal(array.read([(0, 2), (0, 3), (-1, 4)], spec=spec), wanted.transpose(2, 0, 1))
    with pytest.raises(damacy.InvalidArgument):  # the uri of the level says no names
        damacy.open_array(image.level(1).uri).read(spec=spec)
