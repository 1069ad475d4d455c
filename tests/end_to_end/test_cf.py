"""Packed arrays, as xarray writes them, unpacked and masked as xarray decodes them; and what is refused."""

import base64
import json
import logging
import math
import warnings

import numpy as np
import pytest
from support.streaming import config

import damacy

xarray = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")

STORED = ("i1", "i2", "i4", "u1", "u2", "f4", "f8")


def unpacked(uri, shape, dtype, **spec):
    """The whole array as a pipeline delivers it."""
    spec = damacy.ArraySpec(dtype=np.dtype(dtype), cf=True, **spec)
    with damacy.Pipeline(config(batch_size=1, arrays=spec)) as pipeline:
        pipeline.push([damacy.Sample(uri, [(0, n) for n in shape])])
        pipeline.flush()
        return pipeline.pop().numpy()[0].copy()


def write(path, rng, zarr_format):
    """A variable with random packing. Returns its uri, its stored type and what xarray decodes."""
    stored = str(rng.choice(STORED))
    encoding = {"dtype": stored, "chunks": (3, 5)}
    if rng.random() < 0.8:
        encoding["scale_factor"] = float(rng.choice([0.01, 0.5, 1 / 3, 1e-3, 2.0]))
    if rng.random() < 0.6:
        encoding["add_offset"] = float(rng.choice([273.15, -10.0, 1 / 3]))
    fill = -99 if stored[0] != "u" else 200
    if rng.random() < 0.7:
        encoding["_FillValue"] = fill
    if rng.random() < 0.3 and "_FillValue" not in encoding:
        encoding["missing_value"] = fill
    numbers = rng.integers(0, 100, (7, 11)).astype("f8")
    data = numbers * encoding.get("scale_factor", 1.0) + encoding.get("add_offset", 0.0)
    if "_FillValue" in encoding or "missing_value" in encoding:
        data[rng.random(data.shape) < 0.2] = np.nan
    dataset = xarray.Dataset({"t": (("y", "x"), data)})
    dataset.to_zarr(path, encoding={"t": encoding}, zarr_format=zarr_format, consolidated=False)
    decoded = xarray.open_zarr(path, consolidated=False)["t"]
    raw = xarray.open_zarr(path, consolidated=False, mask_and_scale=False)["t"]
    return f"{path}/t", encoding, raw.values, decoded.values


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("seed", range(40))
def test_unpacked_elements_are_those_of_xarray(seed, zarr_format, tmp_path):
    rng = np.random.default_rng([23, seed])
    uri, encoding, raw, decoded = write(tmp_path / "a.zarr", rng, zarr_format)
    got = unpacked(uri, raw.shape, "f8")
    assert np.array_equal(np.isnan(got), np.isnan(decoded))
    wanted = raw.astype("f8")
    if {"scale_factor", "add_offset"} & set(encoding):
        wanted = wanted * encoding.get("scale_factor", 1.0) + encoding.get("add_offset", 0.0)
    wanted = np.where(np.isnan(decoded), np.nan, wanted)
    np.testing.assert_array_equal(got, wanted)
    # xarray decodes some types to f32, and computes in it.
    if decoded.dtype == np.float64:
        np.testing.assert_array_equal(got, decoded)
    np.testing.assert_allclose(got, decoded, rtol=1e-6)
    np.testing.assert_array_equal(unpacked(uri, raw.shape, "f4"), wanted.astype("f4"))


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("stored", ["i2", "u1", "f4"])
@pytest.mark.filterwarnings("ignore:.*multiple fill values:xarray.SerializationWarning")
def test_elements_equal_to_either_fill_attribute_are_missing_as_for_xarray(stored, zarr_format, tmp_path):
    raw = np.array([[1, 7, 9, 100], [7, 2, 9, 3]], stored)
    dataset = xarray.Dataset({"t": (("y", "x"), raw, {"scale_factor": 0.5})})
    dataset.to_zarr(
        tmp_path / "a.zarr", encoding={"t": {"chunks": (1, 3)}}, zarr_format=zarr_format, consolidated=False
    )
    # xarray does not write both; other programs do.
    attributes = zarr.open_array(tmp_path / "a.zarr" / "t").attrs
    float_in_v3 = stored == "f4" and zarr_format == 3
    fill = base64.b64encode(np.array(7, "<f8").tobytes()).decode() if float_in_v3 else 7
    attributes.update(
        {"_FillValue": fill, "missing_value": [9, 100]} if zarr_format == 3 else {"missing_value": [9, 7]}
    )
    decoded = xarray.open_zarr(tmp_path / "a.zarr", consolidated=False, decode_times=False)["t"].values
    got = unpacked(tmp_path / "a.zarr" / "t", raw.shape, "f8")
    gone = [7, 9, 100] if zarr_format == 3 else [7, 9]
    np.testing.assert_array_equal(got, np.where(np.isin(raw, gone), np.nan, raw * 0.5))
    np.testing.assert_array_equal(got, decoded)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("stored", ["f4", "f8"])
@pytest.mark.parametrize("written", ["by xarray", "NaN", math.nan, [math.nan, 9]])
@pytest.mark.filterwarnings("ignore:.*multiple fill values:xarray.SerializationWarning")
def test_nan_as_a_missing_value_is_read_as_by_xarray(written, stored, zarr_format, tmp_path):
    raw = np.array([[1, np.nan, 9, np.inf], [-np.inf, 2, 9, np.nan]], stored)
    dataset = xarray.Dataset({"t": (("y", "x"), raw)})
    encoding = {"chunks": (1, 3), "missing_value": np.dtype(stored).type(np.nan)}
    dataset.to_zarr(tmp_path / "a.zarr", encoding={"t": encoding}, zarr_format=zarr_format, consolidated=False)
    attributes = zarr.open_array(tmp_path / "a.zarr" / "t").attrs
    assert "missing_value" in attributes
    attributes["scale_factor"] = 0.5
    if written != "by xarray":
        attributes["missing_value"] = written
    decoded = xarray.open_zarr(tmp_path / "a.zarr", consolidated=False)["t"].values
    assert np.isnan(decoded).sum() == (4 if isinstance(written, list) else 2)
    got = unpacked(tmp_path / "a.zarr" / "t", raw.shape, "f8")
    np.testing.assert_array_equal(got, decoded)
    masked = np.isnan(decoded)
    filled = unpacked(tmp_path / "a.zarr" / "t", raw.shape, "f8", missing=-1)
    np.testing.assert_array_equal(filled, np.where(masked, -1.0, decoded))


@pytest.mark.parametrize("value", ["nan", "inf", "7", " 7 ", "1e0", "0x7", "", None, True, ["NaN", "7"]])
def test_other_texts_as_a_missing_value_are_refused(value, tmp_path):
    """xarray reads these as values that no element equals, or true as 1."""
    data = np.ones((2, 3), "f4")
    zarr.create_array(tmp_path / "a.zarr", data=data, chunks=(1, 3), attributes={"missing_value": value})
    with pytest.raises(damacy.DecodeError, match="/attributes/missing_value.*: expected a number") as bad:
        unpacked(tmp_path / "a.zarr", data.shape, "f4")
    assert bad.value.reason == "cf"
    np.testing.assert_array_equal(damacy.open(tmp_path / "a.zarr").read(), data)


@pytest.mark.parametrize(("stored", "sign"), [("i2", "true"), ("u2", "false")])
def test_unsigned_reinterprets_elements_and_their_fill_value(stored, sign, tmp_path):
    bits = np.array([[0, 1, 65535, 40000], [32767, 32768, 7, 9]], "u2")
    attributes = {"_Unsigned": sign, "scale_factor": 0.5, "_FillValue": -1 if stored == "i2" else 65535}
    zarr.create_array(tmp_path / "a.zarr", data=bits.view(stored), chunks=(1, 3), attributes=attributes)
    values = (bits if sign == "true" else bits.view("i2")).astype("f8") * 0.5
    values[bits == 65535] = np.nan
    np.testing.assert_array_equal(unpacked(tmp_path / "a.zarr", bits.shape, "f8"), values)


def test_scale_and_offset_follow_unpacking(tmp_path):
    raw = np.arange(12, dtype="i2").reshape(3, 4)
    packing = {"scale_factor": 0.1, "add_offset": 250.0, "_FillValue": 5}
    zarr.create_array(tmp_path / "a.zarr", data=raw, chunks=(2, 3), attributes=packing)
    got = unpacked(tmp_path / "a.zarr", raw.shape, "f4", scale=0.05, offset=-14, missing=-1)
    wanted = ((raw.astype("f8") * 0.1 + 250.0) * 0.05 + -14.0).astype("f4")
    np.testing.assert_array_equal(got, np.where(raw == 5, np.float32(-1), wanted))


def test_an_absent_chunk_holds_unpacked_fill_values(tmp_path):
    array = zarr.create_array(
        tmp_path / "a.zarr", shape=(4, 4), chunks=(2, 2), dtype="i2", fill_value=7, attributes={"scale_factor": 0.5}
    )
    array[:2] = 3
    got = unpacked(tmp_path / "a.zarr", (4, 4), "f4")
    np.testing.assert_array_equal(got, np.repeat([1.5, 3.5], 2)[:, None] * np.ones((1, 4)))


def test_missing_values_need_a_place_in_an_integer_type(tmp_path):
    raw = np.arange(12, dtype="i2").reshape(3, 4)
    zarr.create_array(tmp_path / "a.zarr", data=raw, chunks=(2, 3), attributes={"_FillValue": 5})
    with pytest.raises(damacy.InvalidArgument) as refused:
        unpacked(tmp_path / "a.zarr", raw.shape, "u1")
    assert refused.value.message == "missing values of the array have no place in u8: say ArraySpec(missing=…)"
    assert refused.value.reason == "cf"
    got = unpacked(tmp_path / "a.zarr", raw.shape, "u1", missing=255)
    np.testing.assert_array_equal(got, np.where(raw == 5, 255, raw))


def test_an_attribute_that_cannot_be_used_is_refused_at_push(tmp_path):
    raw = np.zeros((3, 4), "i2")
    zarr.create_array(tmp_path / "a.zarr", data=raw, chunks=(2, 3), attributes={"scale_factor": "a"})
    with pytest.raises(
        damacy.DecodeError, match="/attributes/scale_factor: expected a finite number other than 0"
    ) as bad:
        unpacked(tmp_path / "a.zarr", raw.shape, "f4")
    assert bad.value.reason == "cf"


@pytest.mark.parametrize(("cf", "count"), [(None, 1), (False, 0), (True, 0)])
def test_stored_values_of_a_packed_array_warn_unless_they_are_wanted(cf, count, tmp_path, caplog):
    caplog.set_level(logging.WARNING, "damacy")
    path = tmp_path / "a.zarr"
    zarr.create_array(path, data=np.ones((3, 4), "i2"), chunks=(2, 3), attributes={"scale_factor": 0.5})
    with damacy.Pipeline(config(batch_size=1, arrays=damacy.ArraySpec(cf=cf))) as pipeline:
        pipeline.push([damacy.Sample(path, [(0, 3), (0, 4)])])
        pipeline.flush()
        assert np.all(pipeline.pop().numpy() == (0.5 if cf else 1))
    said = [record.message for record in caplog.records if "packed by" in record.message]
    assert len(said) == count
    if said:
        assert said[0].endswith("packed by scale_factor 0.5: ArraySpec(cf=True) unpacks, cf=False is silent")


@pytest.mark.parametrize("before", [{"scale_factor": 0.5}, {}])
def test_attributes_of_v2_that_change_are_read_again(before, tmp_path):
    """They are in a document of their own, which changes while that of the array does not."""
    path = tmp_path / "a.zarr"
    zarr.create_array(path, data=np.full((4, 4), 6, "i2"), chunks=(4, 4), zarr_format=2, fill_value=0)
    spec = damacy.ArraySpec(dtype=np.dtype("f8"), cf=True)
    with damacy.Pipeline(config(batch_size=1, arrays=spec)) as pipeline:
        for attributes in (before, {"scale_factor": 2.0, "add_offset": 1.0}):
            (path / ".zattrs").write_text(json.dumps(attributes))  # zarr-python would write .zarray again, too
            wanted = 6 * attributes.get("scale_factor", 1.0) + attributes.get("add_offset", 0.0)
            pipeline.push([damacy.Sample(str(path), [(0, 4), (0, 4)])])
            pipeline.flush()
            with pipeline.pop() as batch:
                assert batch.numpy()[0, 0, 0] == wanted


def stored_rows(source, shape):
    """A pipeline's first batch without `cf`, and the own warnings that came with it."""
    with warnings.catch_warnings(record=True) as seen, damacy.Pipeline(config(batch_size=1)) as pipeline:
        warnings.simplefilter("always")
        pipeline.push([damacy.Sample(source, [(0, n) for n in shape])])
        pipeline.flush()
        assert np.all(pipeline.pop().numpy() == 1)
    return [each for each in seen if "packed by" in str(each.message)]


def packed_in(path, zarr_format, **options):
    encoding = {"t": {"dtype": "int16", "scale_factor": 0.5, "add_offset": 3.0, "chunks": (2, 3)}}
    dataset = xarray.Dataset({"t": (("y", "x"), np.full((3, 4), 3.5))})
    dataset.to_zarr(path, encoding=encoding, zarr_format=zarr_format, **options)
    return path


OPENED = {
    "damacy.open": lambda path: damacy.open_array(f"{path}/t"),
    "a group of damacy.open": lambda path: damacy.open_group(path)["t"],
    "its uri, after damacy.open": lambda path: damacy.open_array(f"{path}/t").uri,
    "zarr-python": lambda path: zarr.open_array(f"{path}/t", mode="r"),
    "zarr-python, consolidated": lambda path: zarr.open_consolidated(path, mode="r")["t"],
    "xarray": lambda path: xarray.open_zarr(path, decode_cf=False, chunks=None)["t"],
}


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", OPENED)
def test_opened_arrays_that_are_packed_give_one_user_warning(kind, zarr_format, tmp_path):
    path = packed_in(tmp_path / "a.zarr", zarr_format, consolidated=True)
    (said,) = stored_rows(OPENED[kind](path), (3, 4))
    assert said.category is UserWarning and said.filename == __file__
    assert "a.zarr/t" in str(said.message)
    assert ": stored values are delivered, packed by scale_factor 0.5 and add_offset 3.0" in str(said.message)
    assert stored_rows(OPENED[kind](path), (3, 4)) == []


def test_the_own_fill_value_of_a_bool_array_is_no_missing_value(tmp_path):
    zarr.create_array(tmp_path / "a", data=np.eye(4, dtype=bool), chunks=(2, 2), zarr_format=2, fill_value=False)
    assert np.array_equal(unpacked(tmp_path / "a", (4, 4), "u1"), np.eye(4, dtype="u1"))
