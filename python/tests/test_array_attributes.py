"""What `open` and `damacy info` report of names, fill values, attributes and packing; the warning of packed values."""

import contextlib
import copy
import dataclasses
import json
import logging
import math
import os
import pickle
import warnings

import numpy as np
import pytest

import damacy
from damacy import Config, Pipeline, Sample
from damacy._pipeline.array_attributes import Attributes, Cf

zarr = pytest.importorskip("zarr")


def stored(path, attributes=None, zarr_format=3, **how):
    how = {"shape": (4, 6), "chunks": (2, 3), "dtype": "i2"} | how
    array = zarr.create_array(path, zarr_format=zarr_format, attributes=attributes or {}, **how)
    array[...] = 1
    return path


PACKING = {"scale_factor": 0.0017, "add_offset": 273.15, "_FillValue": -9999, "units": "K"}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_open_returns_the_contents_of_the_documents(tmp_path, zarr_format):
    names = {"dimension_names": ["lat", None]} if zarr_format == 3 else {}
    attributes = PACKING if zarr_format == 3 else PACKING | {"_ARRAY_DIMENSIONS": ["lat", "lon"]}
    info = damacy.open(stored(tmp_path / "a.zarr", attributes, zarr_format, fill_value=7, **names))
    assert info.dims == (("lat", None) if zarr_format == 3 else ("lat", "lon"))
    assert (info.ndim, info.size) == (2, 24)
    assert info.fill_value == np.int16(7)
    assert info.fill_value.dtype == np.int16
    assert info.attrs == attributes
    assert info.cf == Cf(0.0017, 273.15, (-9999,) if zarr_format == 3 else (7,), None)


def test_an_array_without_attributes_has_neither_names_nor_packing(tmp_path):
    info = damacy.open(stored(tmp_path / "a.zarr"))
    assert (info.dims, info.cf, info.attrs) == ((None, None), None, {})


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("bool", True), ("u1", 255), ("i8", -(2**63)), ("u8", 2**64 - 1), ("f2", 0.5), ("f4", math.nan), ("f8", math.inf)]
    + [("c8", 1 + 2j)],
)
def test_a_fill_value_is_a_scalar_of_numpy(tmp_path, dtype, fill):
    found = damacy.open(stored(tmp_path / "a.zarr", dtype=dtype, fill_value=fill)).fill_value
    assert found.dtype == np.dtype(dtype)
    assert np.array_equal(found, np.dtype(dtype).type(fill), equal_nan=dtype == "f4")


def test_an_array_info_can_be_compared_and_pickled(tmp_path):
    with_nan = stored(tmp_path / "n.zarr", PACKING | {"missing_value": math.nan}, dtype="f4", fill_value=math.nan)
    for path in (with_nan, stored(tmp_path / "a.zarr", PACKING)):
        one, other = damacy.open(path), damacy.open(path)
        assert one == other
        assert hash(one) == hash(other)
    for twin in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
        assert twin == one
        assert type(twin.attrs) is Attributes
    assert dataclasses.asdict(one)["attrs"]["units"] == "K"


def test_attributes_are_read_only(tmp_path):
    attrs = damacy.open(stored(tmp_path / "a.zarr", PACKING)).attrs
    for change in (
        lambda: attrs.__setitem__("units", "C"),
        lambda: attrs.__delitem__("units"),
        lambda: attrs.update(units="C"),
        lambda: attrs.__ior__({"units": "C"}),
        attrs.clear,
        attrs.popitem,
    ):
        with pytest.raises(TypeError, match="attributes of an array are read only"):
            change()
    assert attrs == PACKING


def test_attributes_may_hold_numbers_that_json_cannot(tmp_path):
    path = stored(tmp_path / "a.zarr", {"a": 0})
    document = path / "zarr.json"
    digits = "9" * 5000
    document.write_text(document.read_text().replace('"a": 0', f'"a": NaN, "b": -Infinity, "c": {digits}'))
    attrs = damacy.open(path).attrs
    assert math.isnan(attrs["a"])
    assert attrs["b"] == -math.inf
    assert attrs["c"] == math.inf


def test_invalid_packing_is_reported_and_the_array_stays_readable(tmp_path):
    path = stored(tmp_path / "a.zarr", {"scale_factor": "a"})
    info = damacy.open(path)
    text = '/attributes/scale_factor: expected a finite number other than 0 (got "a")'
    assert (info.supported, info.cf) == (True, Cf(problem=text))
    assert str(info.cf) == f"unusable: {text}"


@pytest.mark.parametrize(
    ("attributes", "factors", "said"),
    [
        ({"scale_factor": 0.5}, (0.5, 0.0), "scale_factor 0.5; add_offset 0.0"),
        ({"add_offset": 273.0}, (1.0, 273.0), "scale_factor 1.0; add_offset 273.0"),
        ({"_FillValue": -1}, (1.0, 0.0), "missing -1"),
        ({"scale_factor": 1.0}, (1.0, 0.0), "scale_factor 1.0; add_offset 0.0"),
        ({"_Unsigned": "true"}, (1.0, 0.0), "unsigned True"),
    ],
)
def test_missing_packing_attributes_are_neutral(tmp_path, attributes, factors, said):
    cf = damacy.open(stored(tmp_path / "a.zarr", attributes)).cf
    assert (cf.scale_factor, cf.add_offset) == factors
    assert (3 * cf.scale_factor + cf.add_offset, cf.is_packed) == (3 * factors[0] + factors[1], factors != (1.0, 0.0))
    assert str(cf) == said


def test_xarray_writes_what_open_reads(tmp_path):
    xarray = pytest.importorskip("xarray")
    data = xarray.Dataset({"t": (("time", "lat"), np.arange(8, dtype="f4").reshape(4, 2))})
    packed = {"t": {"dtype": "i2", "scale_factor": 0.5, "add_offset": 3.0, "_FillValue": -1}}
    unpacked = {"t": {"_FillValue": np.float32(-9999)}}
    for zarr_format in (2, 3):
        data.to_zarr(tmp_path / f"p{zarr_format}", encoding=packed, zarr_format=zarr_format, consolidated=False)
        info = damacy.open(tmp_path / f"p{zarr_format}" / "t")
        assert (info.dims, info.cf) == (("time", "lat"), Cf(0.5, 3.0, (-1,)))
        data.to_zarr(tmp_path / f"f{zarr_format}", encoding=unpacked, zarr_format=zarr_format, consolidated=False)
        assert damacy.open(tmp_path / f"f{zarr_format}" / "t").cf == Cf(missing=(-9999.0,))


# -- the command -------------------------------------------------------------------------------------------------------


def info_of(path, *arguments):
    testing = pytest.importorskip("typer.testing")
    from damacy._cli.commands import app

    return testing.CliRunner().invoke(app, ["info", str(path), *arguments], env={"COLUMNS": "160"})


def test_info_shows_names_fill_value_packing_and_attributes(tmp_path, monkeypatch):
    from damacy._cli import console

    monkeypatch.setattr(console.out, "_width", 160)
    path = stored(tmp_path / "a.zarr", PACKING | {"long": "x" * 1000}, dimension_names=["lat", None], fill_value=7)
    shown = info_of(path)
    assert shown.exit_code == 0
    for text in (
        "lat, –",
        "fill value",
        "scale_factor 0.0017; add_offset 273.15; missing -9999 (batches hold stored values unless ArraySpec(cf=True) ",
        'units = "K"',
        "… (--json has all of it)",
    ):
        assert text in " ".join(shown.stdout.split()), text


def test_info_as_json_is_complete_and_strict_json(tmp_path):
    path = stored(tmp_path / "a.zarr", {"missing_value": math.nan, "k": [math.inf]}, dtype="f4", fill_value=math.nan)
    shown = info_of(path, "--json")
    refuse = pytest.fail
    found = json.loads(shown.stdout, parse_constant=refuse)
    assert found["fill_value"] == "NaN"
    assert found["attrs"]["k"] == ["Infinity"]
    assert found["cf"]["missing"] == ["NaN"]
    assert found["dims"] == [None, None]


# -- packed values in batches ------------------------------------------------------------------------------------------


def warnings_of(caplog):
    """Those of packed values: other pipelines of this process may log too."""
    return [text for text in caplog.messages if "stored values are delivered" in text]


def read_once(path):
    with Pipeline(Config(batch_size=1, device="cpu", dtype="i16", n_io_threads=1)) as pipeline:
        pipeline.push([Sample(path, [(0, 2), (0, 3)])] * 2)
        for batch in pipeline:
            assert np.all(batch.numpy() == 1)
            batch.release()


def test_packed_values_warn_once_a_process_and_uri(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "damacy")
    path, other = (stored(tmp_path / name, PACKING) for name in ("a.zarr", "b.zarr"))
    read_once(path)
    read_once(path)
    (said,) = warnings_of(caplog)
    assert said == (
        f"{path}: stored values are delivered, packed by scale_factor 0.0017 and add_offset 273.15: "
        "ArraySpec(cf=True) unpacks, cf=False is silent"
    )
    read_once(other)
    assert len(warnings_of(caplog)) == 2


def test_a_place_has_one_warning_however_it_is_spelled(tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.WARNING, "damacy")
    path = stored(tmp_path / "a.zarr", PACKING)
    monkeypatch.chdir(tmp_path)
    for same in (f"{path}//", str(path), "a.zarr", "a.zarr/"):
        read_once(same)
    assert len(warnings_of(caplog)) == 1


def test_a_warning_is_one_line_of_limited_length(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "damacy")
    read_once(stored(tmp_path / "a\nb.zarr", {"scale_factor": "x\ny" + 9999 * "z"}))
    (said,) = warnings_of(caplog)
    assert "a\\x0ab.zarr: " in said
    assert "\n" not in said
    assert len(said) < 5000


@contextlib.contextmanager
def untold(path):
    """A pipeline with a queued warning of `path`, as one of its threads leaves it."""
    with Pipeline(Config(batch_size=1, device="cpu", dtype="i16", n_io_threads=1)) as pipeline:
        pipeline._native.push([Sample(path, [(0, 2), (0, 3)])])
        yield pipeline


def test_a_warning_is_told_also_if_its_record_was_taken_before(tmp_path):
    with untold(stored(tmp_path / "a.zarr", PACKING)) as pipeline:
        damacy._native.drain_log_records()
        with pytest.warns(UserWarning, match="packed by scale_factor"):
            pipeline.flush()


def test_a_warning_that_is_an_error_replaces_no_other_error(tmp_path):
    path = stored(tmp_path / "a.zarr", PACKING)
    with untold(path) as pipeline, warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(damacy.InvalidArgument, match="aabb"):
            pipeline.push([Sample(path, [(3, 2), (0, 3)])])
        with pytest.raises(UserWarning, match="packed by scale_factor"):
            pipeline.flush()


@pytest.mark.parametrize("last", ["release", "close"])
def test_a_warning_that_is_an_error_fails_no_function_that_ends_something(last, tmp_path, caplog):
    caplog.set_level(logging.WARNING, "damacy")
    paths = [stored(tmp_path / name, PACKING) for name in ("a.zarr", "b.zarr")]
    with untold(paths[0]) as pipeline, warnings.catch_warnings():
        warnings.simplefilter("error")
        if last == "release":
            with pytest.raises(UserWarning, match="packed by scale_factor"):
                pipeline.flush()
            batch = pipeline.pop()
            pipeline._native.push([Sample(paths[1], [(0, 2), (0, 3)])])
            batch.release()
        pipeline.close()
    assert len(warnings_of(caplog)) == (2 if last == "release" else 1)
    assert not [warning for warning in damacy._native.take_packed_warnings() if str(tmp_path) in str(warning)]


def test_a_forked_child_does_not_tell_the_warnings_of_its_parent(tmp_path):
    with untold(stored(tmp_path / "a.zarr", PACKING)) as pipeline:
        if (child := os.fork()) == 0:
            os._exit(len(damacy._native.take_packed_warnings()))
        assert os.waitpid(child, 0)[1] == 0
        with pytest.warns(UserWarning, match="packed by scale_factor"):
            pipeline.flush()


def test_other_arrays_and_other_readers_do_not_warn(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "damacy")
    read_once(stored(tmp_path / "a.zarr", {"_FillValue": 3, "units": "K"}))
    read_once(stored(tmp_path / "v2.zarr", PACKING, zarr_format=2))  # reads do not open its document of attributes
    damacy.open(stored(tmp_path / "c.zarr", PACKING))
    assert warnings_of(caplog) == []


def test_a_pipeline_logs_its_settings_at_its_start(caplog):
    caplog.set_level(logging.INFO, "damacy")
    Pipeline(Config(batch_size=1, device="cpu", n_io_threads=3, host_buffer_bytes=1 << 26)).close()
    (said,) = [text for text in caplog.messages if text.startswith("pipeline on ")]
    assert said == (
        "pipeline on cpu: n_io_threads 3, n_compute_threads 0, host_buffer_bytes 64.0 MiB, device_buffer_bytes "
        "4.0 GiB, n_batches 2, zstd and LZ4 by the cores; memory without slots: at most 223.8 MiB of the host"
    )
