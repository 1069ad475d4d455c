"""Typical first mistakes of users: each error has the file, the place and the numbers, and says what to do."""

import pathlib
import re

import pytest
from support.streaming import config, pipeline, store

import damacy


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Folder `data` with an array of version 3, one of version 2, a group and a file, seen from its parent."""
    store(tmp_path / "data" / "a.zarr", (64, 48), (16, 16))
    store(tmp_path / "data" / "v2.zarr", (64, 48), (16, 16), zarr_format=2)
    store(tmp_path / "data" / "g.zarr" / "x", (8, 8), (4, 4))
    (tmp_path / "data" / "g.zarr" / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    (tmp_path / "data" / "image.tif").write_bytes(b"II*")
    monkeypatch.chdir(tmp_path)
    return tmp_path


BOX = ((0, 8), (0, 8))


def refusal(uri, *aabb, **settings):
    with pipeline(**settings) as p, pytest.raises(damacy.DamacyError) as caught:
        p.push([damacy.Sample(uri, aabb or BOX)])
    return caught.value


@pytest.mark.parametrize(
    ("uri", "cls", "words"),
    [
        ("data/b.zarr", damacy.NotFound, "there is no 'b.zarr' in {here}/data"),
        ("dato/a.zarr", damacy.NotFound, "there is no 'dato' in {here}"),
        ("~/a.zarr", damacy.NotFound, "there is no '~' in {here}"),
        ("data/image.tif", damacy.NotFound, "{here}/data/image.tif is not a directory"),
        ("data/a.zarr/zarr.json", damacy.NotFound, "{here}/data/a.zarr/zarr.json is not a directory"),
        ("data", damacy.NotFound, "arrays inside: a.zarr, g.zarr/x, v2.zarr"),
        ("data/g.zarr", damacy.InvalidArgument, "is a group, not an array; arrays inside: x"),
        ("data/v2.zarr/x", damacy.NotFound, "there is no 'x' in {here}/data/v2.zarr"),
        ("az://bucket/a.zarr", damacy.InvalidArgument, "damacy does not read az uris itself: mount a store of obstore"),
    ],
)
def test_a_path_without_an_array_is_refused(here, uri, cls, words):
    error = refusal(uri)
    assert type(error) is cls
    assert error.uri == uri
    assert words.format(here=here) in str(error)


@pytest.mark.parametrize(
    ("aabb", "cls", "words"),
    [
        (((0, 8),), damacy.RankMismatch, "aabb has 1 axes, the array has 2: its shape is (64, 48)"),
        (((0, 8), (44, 52)), damacy.InvalidArgument, "aabb axis 1: stop 52 is beyond the array's size 48"),
        (((-8, -1), (0, 8)), damacy.InvalidArgument, "got -8 and -1; negative numbers do not count from the end"),
        (((8, 0), (0, 8)), damacy.InvalidArgument, "aabb axis 0: expected 0 <= start < stop, got 8 and 0"),
    ],
)
def test_a_box_outside_the_array_is_refused(here, aabb, cls, words):
    error = refusal("data/a.zarr", *aabb)
    assert type(error) is cls
    assert "data/a.zarr" in str(error)
    assert words in str(error)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"host_buffer_bytes": 1000}, r"chunk of 512 bytes .* must both be at least 132096 "),
        ({"max_chunk_uncompressed_bytes": 100}, r"512 bytes exceeds max_chunk_uncompressed_bytes 100 "),
        ({"max_gpu_memory_bytes": 1 << 24}, r"2 batches of 512 bytes exceed .* 16777216; 16778240 would fit "),
    ],
)
def test_errors_of_too_small_settings_name_sizes_that_fit(here, settings, words):
    assert re.search(words, str(refusal("data/a.zarr", **settings)))


@pytest.mark.parametrize("batch_size", [1 << 34, 1 << 40, 1 << 50])
def test_a_batch_beyond_the_memory_names_a_size_that_fits(here, batch_size):
    memory = 1024 * int(re.search(r"MemTotal: *([0-9]+)", pathlib.Path("/proc/meminfo").read_text())[1])
    error = refusal("data/a.zarr", batch_size=batch_size)
    assert isinstance(error, damacy.OutOfMemory)
    fitting = int(re.search(r"a batch_size of at most ([0-9]+) would fit", str(error))[1])
    assert fitting == pytest.approx(memory / 2 / (8 * 8 * 4), rel=0.1)


def test_an_unknown_setting_is_refused(here):
    with pytest.raises(ValueError, match=r"^n_io_threads must be >= 1 \(got 0\)$"):
        config(n_io_threads=0)
    with pytest.raises(ValueError, match="unknown dtype: 'f4'") as caught:
        config(dtype="f4")
    assert "did you mean 'f32'?" in str(caught.value.__cause__)
    with pytest.raises(damacy.InvalidArgument, match="n_io_threads must be <= 1024 .got 5000."):
        pipeline(n_io_threads=5000)


@pytest.mark.parametrize(
    ("pushed", "words"),
    [
        (damacy.Sample("a", BOX), r"write push\(\[sample\]\)"),
        (["data/a.zarr"], r"sample 0: expected Sample, got str: write damacy\.Sample\(uri, aabb\)"),
        (None, r"an iterable of samples \(got None\)"),
    ],
    ids=["sample", "path", "None"],
)
def test_push_refuses_anything_but_an_iterable_of_samples(pushed, words):
    with pipeline() as p, pytest.raises(TypeError, match=words):
        p.push(pushed)


def test_a_pipeline_that_is_closed_and_one_that_waits_for_more(here):
    with pipeline() as p:
        p.push([damacy.Sample("data/a.zarr", BOX)])
        with pytest.raises(damacy.TryAgain, match=r"1 samples are too few for a batch: push more, or call flush\(\)"):
            p.pop()
    with pytest.raises(damacy.ShutdownError, match="the pipeline is closed"):
        p.pop()
