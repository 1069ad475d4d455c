"""Objects of opened arrays as arguments of `Sample`, `open` and samplers."""

import pickle
import re

import numpy as np
import pytest

import damacy
from damacy import Config, Sample


def made(module, name, **members):
    """An object whose class is called `name` of `module`, for libraries that may not be installed."""
    return type(name, (), {"__module__": module} | members)()


zarr = pytest.importorskip("zarr")


@pytest.fixture
def stored(tmp_path):
    root = zarr.open_group(tmp_path / "g.zarr", mode="w")
    array = root.create_array("a/b", shape=(4, 6, 8), chunks=(2, 3, 4), dtype="u2")
    array[...] = np.arange(4 * 6 * 8).reshape(4, 6, 8)
    return array


def crop(sample):
    with damacy.Pipeline(Config(batch_size=1, dtype="u16", device="cpu", n_io_threads=1)) as pipeline:
        pipeline.push([sample])
        pipeline.flush()
        with pipeline.pop() as batch:
            return batch.numpy()[0].copy()


def test_an_opened_zarr_array_can_replace_its_path(stored, tmp_path):
    sample = Sample(stored, [(1, 3), (0, 6), (2, 5)])
    assert sample.uri == str(tmp_path / "g.zarr" / "a" / "b")
    assert np.array_equal(crop(sample), stored[1:3, 0:6, 2:5])
    assert pickle.loads(pickle.dumps(sample)) == sample


def test_an_array_info_can_replace_its_uri(stored, tmp_path):
    info = damacy.open(stored)
    assert info == damacy.open(info) == damacy.open(tmp_path / "g.zarr" / "a" / "b")
    assert Sample(info, ()).aabb == ((0, 4), (0, 6), (0, 8))


@pytest.mark.parametrize(
    ("box", "closed"),
    [
        (np.s_[1:, ...], ((1, 4), (0, 6), (0, 8))),
        (np.s_[..., 2:], ((0, 4), (0, 6), (2, 8))),
        (np.s_[:, 1:2], ((0, 4), (1, 2), (0, 8))),
        (np.s_[:3, ..., :], ((0, 3), (0, 6), (0, 8))),
        (np.s_[:3, :, ..., 1:], ((0, 3), (0, 6), (1, 8))),
        ([...], ((0, 4), (0, 6), (0, 8))),
        ([(0, 1), [2, 3], slice(4, None)], ((0, 1), (2, 3), (4, 8))),
        (np.array([[0, 1]]), ((0, 1), (0, 6), (0, 8))),
    ],
    ids=repr,
)
def test_a_box_of_an_opened_array_may_leave_its_ends_open(stored, box, closed):
    assert Sample(stored, box).aabb == closed


def test_a_box_of_an_opened_array_has_one_ellipsis_and_positive_steps(stored):
    with pytest.raises(ValueError, match=r"^aabb has more than one '...'$"):
        Sample(stored, [..., (0, 1), ...])
    assert Sample(stored, np.s_[::2]).aabb[0] == range(0, stored.shape[0], 2)
    with pytest.raises(ValueError, match=r"^aabb axis 0: slice step must be >= 1 \(got step=-1\): say flip=\(0,\)$"):
        Sample(stored, np.s_[::-1])
    assert len(Sample(stored, [(0, 1)] * 4).aabb) == 4  # push will refuse it


def test_open_ends_of_a_uri_stay_refused(stored):
    with pytest.raises(ValueError, match="slice stop is required"):
        Sample("a.zarr", np.s_[1:, :])
    with pytest.raises(TypeError, match="aabb axis 0: expected slice"):
        Sample("a.zarr", [...])


def test_the_store_of_a_zarr_array_elsewhere_is_mounted():
    store = zarr.storage.MemoryStore()
    array = zarr.create_array(store, name="a/b", shape=(4,), dtype="u1")
    assert Sample(array, [(0, 1)]).uri == damacy.mount(store) + "a/b"
    assert damacy.open(array).shape == (4,)


def test_samplers_take_opened_arrays(stored):
    from damacy.samplers import RandomCrops

    for arrays in (stored, [stored], {stored: stored.shape} if stored.__hash__ else [damacy.open(stored)]):
        assert RandomCrops(arrays, (1, 2, 3), length=5).sample(0, 0).uri.endswith("g.zarr/a/b")


# -- xarray ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def dataset(tmp_path):
    xarray = pytest.importorskip("xarray")
    written = xarray.Dataset(
        {
            "raw": (("time", "lat"), np.arange(40, dtype="i2").reshape(10, 4)),
            "packed": (("time", "lat"), np.arange(40, dtype="f4").reshape(10, 4)),
        },
        coords={"time": np.arange(10)},
    )
    packing = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}
    written.to_zarr(tmp_path / "x.zarr", encoding={"packed": packing}, consolidated=False)
    return lambda **how: xarray.open_zarr(tmp_path / "x.zarr", chunks=None, consolidated=False, **how)


def test_a_whole_stored_data_array_can_replace_its_path(dataset):
    for opened in (dataset()["raw"], dataset(decode_cf=False)["packed"], dataset()["raw"][0:10, :]):
        sample = Sample(opened, np.s_[2:5])
        assert sample.aabb == ((2, 5), (0, 4))
        assert crop(sample).shape == (3, 4)
        assert np.array_equal(crop(Sample(opened, [...])).astype("i2"), opened.values)


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (lambda d: d()["raw"][2:4], "a selection of it"),
        (lambda d: d()["raw"][::2], "a selection of it"),
        (lambda d: d()["raw"][0], "a selection of it"),
        (lambda d: d()["raw"].T, "a selection of it"),
        (lambda d: d()["raw"].load(), "its elements are in memory"),
        (lambda d: d()["raw"] + 1, "its elements are in memory"),
        (lambda d: d()["time"], "its elements are in memory"),
        (lambda d: d()["packed"], "it decodes elements, and stored ones are delivered: open it with decode_cf=False"),
    ],
    ids=range(8),
)
def test_any_other_data_array_is_refused(dataset, view, why):
    text = f"the DataArray is no whole stored array ({why}): give its uri and a box"
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        Sample(view(dataset), [(0, 1), (0, 1)])


def test_a_dask_array_is_refused():
    data = made("dask.array.core", "Array", shape=(3,))
    array = made("xarray.core.dataarray", "DataArray", shape=(3,), variable=made("xarray", "Variable", _data=data))
    with pytest.raises(TypeError, match=r"it holds a dask Array: open it with chunks=None\)"):
        Sample(array, [(0, 1)])
