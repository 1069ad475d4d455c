"""`damacy.zarr.enable` in existing programs: arrays that were opened before, and xarray."""

import pickle
import re
import warnings

import numpy as np
import pytest

zarr = pytest.importorskip("zarr", minversion="3.1")

import damacy  # noqa: E402
import damacy.zarr  # noqa: E402

BEFORE = r"was opened before damacy\.zarr\.enable\(\)"
X = np.arange(48, dtype="u2").reshape(6, 8)


@pytest.fixture(params=[{}, {"shards": (4, 4)}, {"zarr_format": 2}], ids=["plain", "sharded", "v2"])
def path(request, tmp_path):
    z = zarr.create_array(tmp_path / "cells.zarr", shape=X.shape, chunks=(2, 2), dtype="u2", **request.param)
    z[:] = X
    return tmp_path / "cells.zarr"


def read(z):
    """The warnings of two reads that the array was opened before. The results are checked."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        got = z[1:5, ::3]
        everything = z[:]
    assert np.array_equal(np.asarray(got), X[1:5, ::3]) and np.array_equal(np.asarray(everything), X)
    return [str(one.message) for one in seen if re.search(BEFORE, str(one.message))]


def test_an_array_that_was_opened_before_warns_once_and_names_itself(path):
    early = zarr.open_array(path, mode="r")
    assert read(early) == []
    with damacy.zarr.enable():
        (said,) = read(early)
        assert "cells.zarr" in said and "shape=(6, 8)" in said and "Open it again" in said and "zarr.open_array" in said
        assert read(early) == []
        other = damacy.zarr.support(early)
        assert not other.native and "call enable() before opening" in other.reason
    assert read(early) == []


def test_each_array_that_was_opened_before_is_named(path):
    early = [zarr.open_array(path, mode="r") for _ in range(2)]
    with damacy.zarr.enable():
        for z in early:
            assert len(read(z)) == 1


def test_correct_programs_do_not_warn(path):
    early = zarr.open_array(path, mode="r+")
    with damacy.zarr.enable():
        ours = zarr.open_array(path, mode="r+")
        assert damacy.zarr.support(ours).native
        assert read(ours) == [] and read(pickle.loads(pickle.dumps(ours))) == []
        early[:2] = X[:2]  # writes are zarr's own in any case
        early[:1] = X[:1]
    assert read(early) == []
    with damacy.zarr.enable(pipeline=False):
        assert read(early) == []
    damacy.zarr.disable()
    assert read(zarr.open_array(path, mode="r")) == []


def test_an_array_that_falls_back_to_zarr_does_not_warn(tmp_path):
    z = zarr.create_array(tmp_path / "a", shape=X.shape, chunks=(2, 8), dtype="u2", filters=None, compressors=None)
    z[:] = X
    with damacy.zarr.enable():
        ours = zarr.open_array(tmp_path / "a", mode="r")
        ours.async_array.codec_pipeline.reason = "the test says so"
        assert read(ours) == []


def test_a_warning_that_is_an_error_fails_the_read(path):
    early = zarr.open_array(path, mode="r")
    with damacy.zarr.enable(), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match=BEFORE):
            early[:]


@pytest.fixture(params=[2, 3])
def dataset(request, tmp_path):
    """A dataset like a weather archive: times, packed values, attributes."""
    xarray = pytest.importorskip("xarray")
    times = np.datetime64("2020-01-01T00", "h") + np.arange(4)
    made = xarray.Dataset(
        {
            "t2m": (("time", "lat"), np.arange(12, dtype="f4").reshape(4, 3), {"units": "K"}),
            "packed": (("time", "lat"), np.linspace(-1, 1, 12).reshape(4, 3)),
        },
        {"time": times, "lat": [10.0, 20.0, 30.0]},
    )
    packing = {"dtype": "i2", "scale_factor": 0.001, "_FillValue": -32768}
    made.to_zarr(tmp_path / "era.zarr", encoding={"packed": packing}, zarr_format=request.param, consolidated=False)
    return xarray, made, tmp_path / "era.zarr"


def test_xarray_reads_the_same_values_natively(dataset):
    xarray, made, path = dataset
    damacy.zarr.reset_stats()
    with damacy.zarr.enable(strict=True):
        ours = xarray.open_zarr(path, consolidated=False, chunks=None).load()
    assert damacy.zarr.stats()["reads"] >= 4 and damacy.zarr.stats()["fallback_reads"] == 0
    xarray.testing.assert_allclose(ours, made, atol=0.001)
    assert np.array_equal(ours.time.values, made.time.values) and ours.t2m.attrs == {"units": "K"}


USES = {
    "values": lambda ds: ds.t2m.values,
    "a part": lambda ds: ds.t2m.isel(time=[0, 2], lat=slice(1, 3)).values,
    "load": lambda ds: ds.load(),
    "packed": lambda ds: ds.packed.load(),
    "a mean": lambda ds: ds.t2m.mean("time").values,
}


def test_xarray_over_device_arrays_says_what_to_do_when_a_dataset_is_opened(dataset):
    xarray, _, path = dataset
    with damacy.zarr.enable(gpu=True), pytest.raises(TypeError) as raised:
        xarray.open_zarr(path, consolidated=False, chunks=None)
    said = str(raised.value)
    assert "xarray needs NumPy arrays" in said and "damacy.zarr.disable(), then damacy.zarr.enable()" in said
    assert "damacy.asarray(x.values, device='cuda:0')" in said


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_xarray_over_device_arrays_says_what_to_do_when_values_are_read(dataset, use):
    xarray, _, path = dataset
    with damacy.zarr.enable():
        opened = xarray.open_zarr(path, consolidated=False, chunks=None)
    with damacy.zarr.enable(gpu=True), pytest.raises(TypeError, match="xarray needs NumPy arrays"):
        use(opened)


def test_the_error_says_to_copy_a_device_array(path):
    with damacy.zarr.enable(gpu=True):
        got = zarr.open_array(path, mode="r")[:]
    with pytest.raises(TypeError, match=r"call \.numpy\(\)"):
        np.asarray(got)
    with pytest.raises(TypeError, match="no implementation found"):
        np.reshape(got, -1)
    assert np.array_equal(got.numpy(), X)


def test_support_refuses_anything_but_arrays(path):
    group = zarr.create_group(zarr.storage.MemoryStore())
    for wrong in (group, str(path), None):
        with pytest.raises(TypeError, match="expected an opened zarr.Array"):
            damacy.zarr.support(wrong)


def test_one_element_of_a_device_array_is_a_python_number(path):
    with damacy.zarr.enable(gpu=True):
        got = zarr.open_array(path, mode="r")[2, 3]
    assert (int(got), float(got), complex(got)) == (19, 19.0, 19 + 0j)
    with pytest.raises(ValueError, match="size 1"):
        float(damacy.asarray(X))


def test_computing_with_a_device_array_raises_an_error_with_advice(path):
    got = damacy.asarray(X)
    for name in ("mean", "cpu", "tolist"):
        with pytest.raises(AttributeError, match=rf"no attribute '{name}'.*torch\.from_dlpack.*\.numpy\(\)"):
            getattr(got, name)
    assert not hasattr(got, "__array_interface__")
    if got.device == "cpu":
        assert not hasattr(got, "__cuda_array_interface__")
    assert np.array_equal(pickle.loads(pickle.dumps(got.numpy())), X)


@pytest.mark.parametrize("wrong", [-3, "abc", 2.5])
def test_an_invalid_number_of_threads_is_refused_with_its_setting(path, wrong):
    with damacy.zarr.enable(strict=True):
        z = zarr.open_array(path, mode="r")
        with (
            zarr.config.set({"damacy.threads": wrong}),
            pytest.raises(damacy.InvalidArgument, match=r"damacy\.threads"),
        ):
            z[:]
        for right in (None, 0, 1, np.int64(2)):
            with zarr.config.set({"damacy.threads": right}):
                assert np.array_equal(z[:], X)
