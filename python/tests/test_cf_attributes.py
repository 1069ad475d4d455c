"""CF attributes, parsed natively, against `xarray.decode_cf`: packing, missing values and unsigned integers."""

import base64
import struct
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import damacy

xarray = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")

INTEGERS = ("i1", "u1", "i2", "u2", "i4", "u4")


def numbers_of(dtype):
    """Numbers that f32 holds: xarray compares some in f32, and does not round others to the stored type."""
    if np.dtype(dtype).kind == "f":
        return st.sampled_from([-9999.0, 0.5, 2.0**66, 3.0, -0.0, 65504.0])
    limits = np.iinfo(dtype)
    return st.integers(max(limits.min, -(1 << 24)), min(limits.max, 1 << 24))


@st.composite
def stored_arrays(draw):
    """Element type, zarr format, attributes, the fill value of zarr and elements, some of which are missing."""
    zarr_format = draw(st.sampled_from([2, 3]))
    dtype = np.dtype(draw(st.sampled_from([*INTEGERS, "f4", "f8"])))
    attributes, missing = {}, []
    as_read, fill_type = dtype, dtype
    if dtype.kind in "iu" and draw(st.booleans()):
        word = draw(st.sampled_from(["true", "false"]))
        attributes["_Unsigned"] = word
        as_read = np.dtype(f"{'u' if word == 'true' else 'i'}{dtype.itemsize}")
        fill_type = dtype if as_read == dtype else np.dtype(f"i{dtype.itemsize}")
    fill = draw(st.none() | numbers_of(fill_type))
    zarr_fill = None
    if zarr_format == 2:  # xarray does not reinterpret it unless both types hold the value
        if fill is not None and dtype.kind == "u":
            fill = min(abs(fill), np.iinfo(fill_type).max)
        zarr_fill = fill
    elif fill is not None:
        encoded = base64.standard_b64encode(struct.pack("<d", fill)).decode() if dtype.kind == "f" else fill
        attributes["_FillValue"] = encoded
    if fill is not None:
        missing.append(np.array(fill, fill_type).view(as_read) if as_read != dtype else np.array(fill, dtype))
    if draw(st.booleans()):
        values = draw(st.lists(numbers_of(as_read).filter(lambda x: x != fill), min_size=1, max_size=4, unique=True))
        attributes["missing_value"] = values if len(values) > 1 or draw(st.booleans()) else values[0]
        missing += [np.array(value, as_read) for value in values]
    if draw(st.booleans()):
        attributes["scale_factor"] = draw(st.sampled_from([0.5, 0.0017, 3.0]))
    if draw(st.booleans()):
        attributes["add_offset"] = draw(st.sampled_from([-3.0, 273.15]))
    elements = draw(st.lists(numbers_of(as_read), min_size=8, max_size=8))
    data = np.array(elements, as_read)
    for place, value in enumerate(missing[:5]):
        data[place] = value
    return dtype, zarr_format, attributes, zarr_fill, data.view(dtype)


def decoded_by_xarray(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xarray.open_zarr(path, consolidated=False, decode_times=False)["a"].values


def decoded_by_attributes(cf, data, dtype):
    if cf is None:
        return data.astype(dtype)
    assert cf.problem is None
    if cf.unsigned is not None:
        data = data.view(f"{'u' if cf.unsigned else 'i'}{data.itemsize}")
    missing = np.zeros(data.shape, bool)
    for value in cf.missing:
        missing |= np.isnan(data) if value != value else data == np.array(value, data.dtype)
    found = data.astype(dtype)
    if cf.is_packed:
        found = found * dtype.type(cf.scale_factor) + dtype.type(cf.add_offset)
    if missing.any():
        found[missing] = np.nan
    return found


@given(array=stored_arrays())
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_attributes_mean_what_xarray_reads(tmp_path_factory, array):
    dtype, zarr_format, attributes, zarr_fill, data = array
    root = tmp_path_factory.mktemp("cf")
    dims = {"dimension_names": ["x"]} if zarr_format == 3 else {}
    names = {"_ARRAY_DIMENSIONS": ["x"]} if zarr_format == 2 else {}
    group = zarr.open_group(root, mode="w", zarr_format=zarr_format)
    fill = {"fill_value": zarr_fill} if zarr_format == 2 else {}
    made = group.create_array("a", shape=data.shape, dtype=dtype, attributes=attributes | names, **fill, **dims)
    made[...] = data
    info = damacy.open(root / "a")
    assert info.dims == ("x",)
    expected = decoded_by_xarray(root)
    found = decoded_by_attributes(info.cf, data, expected.dtype)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("fill", [np.nan, -9999.0, np.inf])
def test_fill_values_that_xarray_writes_are_missing(tmp_path, zarr_format, fill):
    data = xarray.Dataset({"a": ("x", np.array([1.5, fill, 2.5], "f4"))})
    encoding = {"a": {"_FillValue": np.float32(fill)}}
    data.to_zarr(tmp_path / "a", encoding=encoding, zarr_format=zarr_format, consolidated=False)
    (missing,) = damacy.open(tmp_path / "a" / "a").cf.missing
    assert np.array_equal(missing, fill, equal_nan=True)


def test_errors_of_attributes_have_pointer_and_value(tmp_path):
    for name, value, text in [
        ("scale_factor", "a", 'expected a finite number other than 0 (got "a")'),
        ("scale_factor", 0, "expected a finite number other than 0 (got 0)"),
        ("add_offset", None, "expected a finite number (got null)"),
        ("_Unsigned", 1, 'expected "true" or "false" (got 1)'),
    ]:
        zarr.create_array(tmp_path / "a", shape=(1,), dtype="i2", attributes={name: value}, overwrite=True)
        assert damacy.open(tmp_path / "a").cf.problem == f"/attributes/{name}: {text}"
