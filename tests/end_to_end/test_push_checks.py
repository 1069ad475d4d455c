"""Checks of push and of the constructor."""

import numpy as np
import pytest
from support.line import drained, make_line
from support.streaming import pipeline, store

import damacy

# --- the checks -------------------------------------------------------------------------------------------------------


def refused(p, sample, error):
    """Pushes one sample that must be refused at once; returns the error."""
    with pytest.raises(error) as caught:
        p.push([sample])
    assert type(caught.value) is error
    if isinstance(caught.value, damacy.DamacyError):
        assert caught.value.what == "push"
        assert caught.value.sample_index == 0
        assert caught.value.stream_index is None
        assert "\n" not in str(caught.value)
    return caught.value


def test_a_wrong_item_is_a_type_error_with_position_and_type(line):
    with pipeline() as p:
        with pytest.raises(TypeError, match=r"2.*\btuple\b"):
            p.push([*line.all([1, 2]), ("uri", ())])
        assert drained(p) == [[1, 2]]


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "a\0b",
        "x" * 4097,
        "az://bucket/a.zarr",
        "s3://b/a",
        "ftp://host/a",
        "http://host/a?b",
        "\ud800",
        "file://\ud800",
    ],
    ids=ascii,
)
def test_uris_that_cannot_name_a_path_are_invalid_arguments(uri):
    with pipeline() as p:
        error = refused(p, damacy.Sample(uri=uri, aabb=[(0, 1)]), damacy.InvalidArgument)
        assert error.reason == "uri"
        assert error.status is damacy.Status.INVAL
        str(error).encode()


def test_a_relative_path_is_taken_from_the_working_directory_at_push(line, monkeypatch):
    monkeypatch.chdir(line.path.parent)
    with pipeline() as p:
        p.push([damacy.Sample(uri="line.zarr", aabb=[(3, 4)]), damacy.Sample(uri="./line.zarr/", aabb=[(4, 5)])])
        monkeypatch.chdir("/")
        assert drained(p) == [[3, 4]]


def test_the_working_directory_at_push_holds_for_samples_that_are_pulled_later(line, tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    decoy = store(tmp_path / "other" / "line.zarr", (60,), (60,), "uint16", bits=np.zeros(60, "u2"))
    monkeypatch.chdir(tmp_path)
    with pipeline(batch_size=2, lookahead_batches=2) as p:
        p.push(damacy.Sample(uri="line.zarr", aabb=[(k, k + 1)]) for k in range(40))
        monkeypatch.chdir(decoy.path.parent)
        assert drained(p) == [[k, k + 1] for k in range(0, 40, 2)]


def test_a_path_is_literal_and_a_file_uri_is_percent_decoded_once(tmp_path):
    make_line(tmp_path / "a%20b.zarr")
    spaced = make_line(tmp_path / "a b.zarr")
    uris = [tmp_path / "a%20b.zarr", f"file://{tmp_path}/a%2520b.zarr", f"file://{tmp_path}/a%20b.zarr", spaced.path]
    with pipeline() as p:
        p.push(damacy.Sample(uri=u, aabb=[(k, k + 1)]) for k, u in enumerate(uris))
        assert drained(p) == [[0, 1], [2, 3]]
    with pipeline() as p:
        refused(p, damacy.Sample(uri=f"file://{tmp_path}/a%25%32%30c.zarr", aabb=[(0, 1)]), damacy.NotFound)


def test_a_path_that_does_not_exist_is_not_found_naming_it(tmp_path):
    with pipeline() as p:
        error = refused(p, damacy.Sample(uri=tmp_path / "none.zarr", aabb=[(0, 1)]), damacy.NotFound)
    assert isinstance(error, FileNotFoundError)
    assert error.reason == "no-metadata"
    assert error.uri == str(tmp_path / "none.zarr")
    assert "none.zarr" in str(error)
    assert "zarr.json" in str(error) and ".zarray" in str(error)


@pytest.mark.parametrize("bound", [2**63, -(2**63) - 1, 10**5000], ids=["above", "below", "long"])
def test_a_bound_beyond_64_bits_is_refused_with_its_axis_and_value(line, bound):
    with pipeline() as p:
        error = refused(p, damacy.Sample(uri=line.path, aabb=[(0, 1), (0, bound)]), damacy.InvalidArgument)
    assert error.reason == "aabb"
    assert error.uri == str(line.path)
    assert "axis 1" in str(error)
    assert (str(bound) if bound < 2**64 else "2**16609") in str(error)


def test_more_than_32_axes_or_another_number_than_the_first_sample_has_is_a_rank_mismatch(line, volume):
    with pipeline() as p:
        error = refused(p, damacy.Sample(uri=line.path, aabb=[(0, 1)] * 33), damacy.RankMismatch)
        assert error.reason == "rank"
        p.push(line.all([1]))
        error = refused(p, volume.sample((0, 1), (0, 1)), damacy.RankMismatch)
        assert error.reason == "rank"
        assert isinstance(error, ValueError)


def test_a_rank_that_is_not_the_arrays_is_a_rank_mismatch(line):
    with pipeline() as p:
        error = refused(p, line.stored.sample((0, 1), (0, 1)), damacy.RankMismatch)
        assert error.reason == "rank"
        assert error.uri == str(line.path)


@pytest.mark.parametrize("axis", [(5, 5), (6, 5), (-1, 3), (0, 0)])
def test_empty_reversed_and_negative_boxes_are_refused(line, axis):
    with pipeline() as p:
        error = refused(p, line.stored.sample(axis), damacy.InvalidArgument)
        assert error.reason == "aabb"
        assert "axis 0" in str(error)


def test_huge_bounds_are_refused_not_wrapped(line):
    with pipeline() as p:
        for axis in [(0, 2**63), (2**63, 2**63 + 1), (2**64, 2**64 + 1), (-(2**70), 1), (2**63 - 2, 2**63 - 1)]:
            refused(p, line.stored.sample(axis), damacy.InvalidArgument)


def test_extents_must_be_those_of_the_first_accepted_sample(volume):
    with pipeline() as p:
        p.push([volume.sample((0, 4), (0, 6))])
        error = refused(p, volume.sample((0, 4), (0, 7)), damacy.InvalidArgument)
        assert error.reason == "extents"
        for part in ("axis 1", "6", "7"):
            assert part in str(error)


def test_the_error_of_a_stop_beyond_the_array_names_axis_stop_and_size(volume):
    with pipeline() as p:
        error = refused(p, volume.sample((0, 4), (60, 65)), damacy.InvalidArgument)
        assert error.reason == "aabb"
        for part in ("axis 1", "65", "64"):
            assert part in str(error)


def test_a_refused_sample_fixes_no_extents(volume):
    with pipeline() as p:
        refused(p, volume.sample((0, 9), (60, 69)), damacy.InvalidArgument)
        p.push([volume.sample((0, 4), (0, 6)), volume.sample((4, 8), (0, 6))])
        with p.pop() as batch:
            assert batch.info.shape == (2, 4, 6)


def test_a_group_that_is_not_an_image_is_an_invalid_argument(tmp_path):
    from support.writers import write_group

    write_group(tmp_path / "g")
    with pipeline() as p:
        error = refused(p, damacy.Sample(uri=tmp_path / "g", aabb=[(0, 1)]), damacy.InvalidArgument)
        assert error.reason == "group"


def test_types_without_a_conversion_and_too_wide_ones_are_dtype_mismatches(tmp_path):
    from support.writers import json

    wide = store(tmp_path / "f64", (4,), (4,), "float64")
    document = json.loads((wide.path / "zarr.json").read_text())
    for name, fill in (("complex64", [0.0, 0.0]), ("complex128", [0.0, 0.0])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "zarr.json").write_text(json.dumps({**document, "data_type": name, "fill_value": fill}))
        with pipeline() as p:
            error = refused(p, damacy.Sample(uri=tmp_path / name, aabb=[(0, 1)]), damacy.DtypeMismatch)
            assert error.reason == "dtype"
            assert name in str(error)
            assert isinstance(error, TypeError)
    with pipeline(max_bytes_per_element=4) as p:
        assert refused(p, wide.sample((0, 1)), damacy.DtypeMismatch).reason == "dtype"
    with pipeline(max_bytes_per_element=8) as p:
        p.push([wide.sample((0, 1)), wide.sample((1, 2))])
        assert drained(p) == [[0, 1]]


def test_the_hard_limit_on_a_decoded_chunk(tmp_path):
    array = store(tmp_path / "a", (4096,), (1024,), "uint16")
    with pipeline(max_chunk_uncompressed_bytes=2048) as p:
        p.push([array.sample((0, 1)), array.sample((1, 2))])
        assert drained(p) == [[0, 1]]
    with pipeline(max_chunk_uncompressed_bytes=2047) as p:
        error = refused(p, array.sample((0, 1)), damacy.InvalidArgument)
        assert error.reason == "limit"
        assert "2047" in str(error) and "2048" in str(error)


def test_a_chunk_the_buffers_cannot_hold_is_out_of_memory_and_the_promised_size_is_accepted(tmp_path):
    chunk = 1 << 20
    array = store(tmp_path / "a", (chunk,), (chunk,), "uint8")
    enough = 2 * chunk + (128 << 10)
    for sizes in ((enough, enough), (enough, 1 << 26), (1 << 26, enough)):
        with pipeline(host_buffer_bytes=sizes[0], device_buffer_bytes=sizes[1]) as p:
            p.push([array.sample((0, 1)), array.sample((1, 2))])
            assert drained(p) == [[0, 1]]
    for sizes in ((chunk // 4, enough), (enough, chunk // 4)):
        with pipeline(host_buffer_bytes=sizes[0], device_buffer_bytes=sizes[1]) as p:
            error = refused(p, array.sample((0, 1)), damacy.OutOfMemory)
            assert error.reason == "buffers"
            assert isinstance(error, MemoryError)
            assert str(chunk) in str(error)


def test_the_number_of_chunks_one_sample_touches_is_limited(tmp_path):
    limit = 1 << 18
    array = store(tmp_path / "a", (2 * limit,), (1,), "uint8", shards=(limit,), bits=np.zeros(2 * limit, np.uint8))
    with pipeline(batch_size=1) as p:
        error = refused(p, array.sample((0, limit + 1)), damacy.InvalidArgument)
        assert error.reason == "limit"
        assert str(limit) in str(error) and str(limit + 1) in str(error)
        p.push([array.sample((0, limit))])
        with p.pop() as batch:
            assert not batch.numpy().any()


def test_slots_must_fit_the_cap_on_gpu_memory_which_on_the_host_is_the_memory_in_its_place(line):
    with pytest.raises(damacy.OutOfMemory) as caught:
        pipeline(device_buffer_bytes=1 << 24, max_gpu_memory_bytes=1 << 20)
    assert caught.value.what == "create"
    cap = (1 << 24) + (1 << 20)
    with pipeline(batch_size=256, device_buffer_bytes=1 << 24, max_gpu_memory_bytes=cap) as p:
        error = refused(p, line.stored.sample((0, 3000)), damacy.OutOfMemory)
        assert error.reason == "gpu-memory"
        p.push(line.all([3, 4]))  # it fixed no extents, and small slots fit
        p.flush()
        assert drained(p) == [[3, 4]]


def test_the_first_failing_check_counts(volume, line):
    with pipeline() as p:
        assert refused(p, damacy.Sample(uri="", aabb=[(0, 1)] * 40), damacy.InvalidArgument).reason == "uri"
        assert refused(p, damacy.Sample(uri="/nowhere", aabb=[(3, 1)] * 40), damacy.RankMismatch).reason == "rank"
        assert refused(p, damacy.Sample(uri="/nowhere", aabb=[(3, 1)]), damacy.InvalidArgument).reason == "aabb"
        refused(p, damacy.Sample(uri="/nowhere", aabb=[(0, 1)]), damacy.NotFound)
        assert refused(p, line.stored.sample((0, 1), (0, 2**40)), damacy.RankMismatch).reason == "rank"


def test_a_sample_outside_a_list_is_refused_with_advice(line):
    with pipeline() as p, pytest.raises(TypeError, match=r"one Sample: write push\(\[sample\]\)"):
        p.push(line.stored.sample((0, 1)))


# --- the constructor -------------------------------------------------------------------------------------------------


def test_the_pipeline_refuses_anything_but_a_config(line):
    for wrong in (None, 5, {"batch_size": 2}):
        with pytest.raises(TypeError):
            damacy.Pipeline(wrong)


@pytest.mark.parametrize(
    "options",
    [
        {"n_io_threads": 1025},
        {"n_compute_threads": 1025},
        {"max_chunk_uncompressed_bytes": (1 << 30) + 1},
        {"max_bytes_per_element": 9},
    ],
    ids=str,
)
def test_the_constructor_refuses_impossible_settings(options):
    with pytest.raises(damacy.InvalidArgument) as caught:
        pipeline(**options)
    assert caught.value.what == "create"
    assert caught.value.status is damacy.Status.INVAL
    assert next(iter(options)) in str(caught.value)


@pytest.mark.parametrize("device", ["cuda:99", 99])
def test_a_missing_device_is_an_invalid_argument(device):
    with pytest.raises(damacy.InvalidArgument) as caught:
        pipeline(device=device)
    assert caught.value.what == "create" and caught.value.reason == "no-device"


@pytest.mark.parametrize("device", ["cpu", "CPU"])
def test_the_host_is_called_cpu(device, line):
    with pipeline(device=device) as p:
        assert p.device == "cpu"
        p.push(line.all([1, 2]))
        assert drained(p) == [[1, 2]]


def test_device_memory_is_only_a_cap_on_the_host(line):
    with pipeline(device_buffer_bytes=2**62) as p:
        p.push(line.all([1, 2]))
        assert drained(p) == [[1, 2]]


def test_config_and_device_are_readable(line):
    p = pipeline(batch_size=3)
    assert p.config.batch_size == 3 and p.device == "cpu"
    p.close()
    assert p.config.batch_size == 3
    with pytest.raises(damacy.ShutdownError):
        p.device  # noqa: B018
