"""`damacy.open` for arrays, images and groups."""

import dataclasses
import json
import os
import pathlib

import numpy as np
import pytest
from support.element_types import ALL
from support.layout import Compressor
from support.streaming import pipeline, row_bits, store
from support.writers import multiscales, write_group

import damacy


def first_elements(uri, rank=2) -> list:
    with pipeline(batch_size=1) as p:
        p.push([damacy.Sample(uri=uri, aabb=[(0, 2)] * rank)])
        with p.pop() as batch:
            return batch.numpy().reshape(-1).tolist()


# --- ArrayInfo --------------------------------------------------------------------------------------------------------


def test_a_plain_v3_array(tmp_path):
    stored = store(tmp_path / "a", (9, 10), (3, 4), "int16", compressor=Compressor("zstd"))
    info = damacy.open(stored.path)
    assert info == damacy.open(str(stored.path))
    assert (info.uri, info.shape, info.dtype) == (str(stored.path), (9, 10), "int16")
    assert (info.chunks, info.shards, info.zarr_format) == ((3, 4), None, 3)
    assert info.codecs == ("bytes", "zstd") and info.levels == ()
    assert info.supported is True and not info.why_not
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.shape = ()


def test_a_sharded_array_has_chunk_and_shard_shapes(tmp_path):
    stored = store(tmp_path / "a", (9, 10), (2, 2), shards=(4, 6), compressor=Compressor("blosc"), crc32c=True)
    info = damacy.open(stored.path)
    assert (info.chunks, info.shards) == ((2, 2), (4, 6))
    assert "blosc" in info.codecs and "crc32c" in info.codecs


def test_a_v2_array(tmp_path):
    stored = store(
        tmp_path / "a", (9, 10), (3, 4), "float64", zarr_format=2, endian="big", compressor=Compressor("lz4")
    )
    info = damacy.open(stored.path)
    assert (info.shape, info.dtype, info.chunks, info.shards, info.zarr_format) == ((9, 10), "float64", (3, 4), None, 2)
    assert "lz4" in info.codecs[-1]


@pytest.mark.parametrize("dtype", ALL)
def test_every_type_has_its_name(tmp_path, dtype):
    assert damacy.open(store(tmp_path / "a", (4,), (2,), dtype).path).dtype == dtype


@pytest.mark.parametrize("shape,chunks", [((), ()), ((0,), (3,)), ((4, 0, 5), (2, 2, 2)), ((2**40, 2**20), (2**10, 7))])
def test_shapes_of_no_extent_no_axis_and_great_size(tmp_path, shape, chunks):
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": "default",
        "codecs": ["bytes"],
        "fill_value": 0,
    }
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    info = damacy.open(tmp_path)
    assert info.shape == shape and info.chunks == chunks


@pytest.mark.parametrize(
    "name,fill",
    [("complex64", [0, 0]), ("complex128", ["NaN", -1.5]), ("numpy.datetime64", "NaT"), ("numpy.timedelta64", 5)],
)
def test_unsupported_batch_types_are_reported_with_the_reason(tmp_path, name, fill):
    stored = store(tmp_path / "a", (4,), (2,), "float64")
    document = json.loads((stored.path / "zarr.json").read_text())
    typed = {"name": name, "configuration": {"unit": "s", "scale_factor": 1}} if "time" in name else name
    (stored.path / "zarr.json").write_text(json.dumps({**document, "data_type": typed, "fill_value": fill}))
    info = damacy.open(stored.path)
    assert info.dtype == name
    assert info.supported is False
    assert name in info.why_not


# --- images -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def levels(tmp_path):
    """An image of two levels, without a group document yet."""
    root = tmp_path / "image.zarr"
    fine = store(root / "s" / "0", (8, 8), (4, 4))
    store(root / "s" / "1", (4, 4), (4, 4), bits=np.full((4, 4), 77, np.uint16))
    return root, fine


@pytest.mark.parametrize("version", ["0.5", "0.4"])
@pytest.mark.parametrize("zarr_format", [3, 2])
def test_opening_an_image_group_opens_its_level_0(levels, version, zarr_format):
    root, fine = levels
    if zarr_format == 2 and version == "0.5":
        version = "0.1"
    write_group(root, multiscales("s/0", "s/1", version=version), zarr_format=zarr_format)
    for uri in (root, f"{root}/", f"file://{root}"):
        info = damacy.open(uri)
        assert info.shape == (8, 8) and info.levels == ("s/0", "s/1")
        assert first_elements(uri) == [1, 2, 9, 10]
    assert damacy.open(root / "s" / "1").levels == ()
    assert first_elements(root / "s" / "1") == [77] * 4


def test_a_v2_image_of_v2_arrays(tmp_path):
    root = tmp_path / "image.zarr"
    store(root / "0", (8, 8), (4, 4), zarr_format=2)
    write_group(root, multiscales("0", version="0.4"), zarr_format=2)
    assert damacy.open(root).zarr_format == 2
    assert first_elements(root) == [1, 2, 9, 10]


def test_the_first_of_several_images_is_used(levels):
    root, _ = levels
    images = [{"datasets": [{"path": "s/0", "coordinateTransformations": "nonsense"}], "axes": 3}, {"datasets": []}]
    write_group(root, {"ome": {"multiscales": images, "version": 99}})
    assert damacy.open(root).shape == (8, 8)


def test_ome_comes_before_multiscales_and_the_bare_words_of_zarr_python_are_read(levels):
    root, _ = levels
    write_group(root, {**multiscales("s/1", version="0.4"), **multiscales("s/0"), "x": [float("nan"), float("inf")]})
    assert "NaN" in (root / "zarr.json").read_text()
    assert damacy.open(root).shape == (8, 8)


def test_v3_wins_over_v2(levels):
    root, _ = levels
    write_group(root, multiscales("s/0"))
    write_group(root, multiscales("s/1", version="0.4"), zarr_format=2)
    assert damacy.open(root).shape == (8, 8)


@pytest.mark.parametrize("path", ["", "/s/0", "s//0", "../image.zarr/s/0", "s/../s/0", "./s/0", ".", "s/0/"])
def test_paths_that_leave_the_group_or_are_not_plain_are_refused(levels, path):
    root, _ = levels
    write_group(root, multiscales(path))
    with pytest.raises((damacy.DecodeError, damacy.InvalidArgument)) as caught:
        damacy.open_array(root)
    assert caught.value.uri == str(root)


def test_a_path_to_a_group_is_an_error(levels):
    root, _ = levels
    write_group(root, multiscales("s"))
    write_group(root / "s", multiscales("0"))
    with pytest.raises((damacy.InvalidArgument, damacy.DecodeError)):
        damacy.open_array(root)


def test_a_path_to_nothing_is_an_error(levels):
    root, _ = levels
    write_group(root, multiscales("s/7"))
    with pytest.raises(damacy.DamacyError) as caught:
        damacy.open_array(root)
    assert not isinstance(caught.value, (damacy.TryAgain, damacy.ShutdownError))


# --- other groups -----------------------------------------------------------------------------------------------------


def group_error(root) -> damacy.InvalidArgument:
    with pytest.raises(damacy.InvalidArgument) as caught:
        damacy.open_array(root)
    assert type(caught.value) is damacy.InvalidArgument and caught.value.reason == "group"
    assert "is a group, not an array" in str(caught.value)
    return caught.value


def test_a_group_lists_the_arrays_inside_in_natural_order(tmp_path):
    write_group(tmp_path)
    write_group(tmp_path / "A")
    for name in ("A/10", "A/9", "A/1", "B"):
        store(tmp_path / name, (4,), (4,))
    assert "arrays inside: A/1, A/9, A/10, B" in str(group_error(tmp_path))


def test_a_long_list_shows_twenty_and_counts_the_rest(tmp_path):
    write_group(tmp_path)
    stored = store(tmp_path / "0", (4,), (4,))
    for k in range(1, 34):
        os.symlink(stored.path, tmp_path / str(k))
    text = str(group_error(tmp_path))
    assert "0, 1, 2, 3" in text and "18, 19 (+14 more)" in text


@pytest.mark.parametrize("zarr_format", [3, 2])
@pytest.mark.parametrize("attribute", ["plate", "well", "bioformats2raw.layout"])
def test_the_error_of_a_collection_says_to_name_one_image(tmp_path, attribute, zarr_format):
    attributes = {attribute: 3}
    write_group(tmp_path, {"ome": attributes} if zarr_format == 3 else attributes, zarr_format=zarr_format)
    store(tmp_path / "A" / "1", (4,), (4,))
    text = str(group_error(tmp_path))
    assert "image" in text and "A/1" in text


def test_consolidated_metadata_give_the_list(tmp_path):
    document = json.loads((store(tmp_path / "x", (4,), (4,)).path / "zarr.json").read_text())
    inline = {"kind": "inline", "must_understand": False, "metadata": {"named/only/here": document}}
    write_group(tmp_path, consolidated_metadata=inline)
    assert "named/only/here" in str(group_error(tmp_path))


def test_a_malformed_consolidated_map_is_ignored(levels):
    root, _ = levels
    write_group(root, multiscales("s/0"), consolidated_metadata={"kind": "inline", "metadata": 5})
    assert damacy.open(root).shape == (8, 8)


def test_an_array_opened_by_its_own_uri_reads_its_own_document(levels):
    root, fine = levels
    wrong = json.loads((fine.path / "zarr.json").read_text())
    wrong["shape"] = [80, 80]
    inline = {"kind": "inline", "must_understand": False, "metadata": {"s/0": wrong}}
    write_group(root, multiscales("s/0"), consolidated_metadata=inline)
    assert damacy.open(root / "s" / "0").shape == (8, 8)


def test_an_empty_group_and_a_directory_without_documents(tmp_path):
    write_group(tmp_path / "g")
    group_error(tmp_path / "g")
    (tmp_path / "d").mkdir()
    for path in (tmp_path / "d", tmp_path / "nothing"):
        with pytest.raises(damacy.NotFound) as caught:
            damacy.open_array(path)
        assert caught.value.reason == "no-metadata"
        for key in ("zarr.json", ".zarray", ".zgroup"):
            assert key in str(caught.value)


def test_open_refuses_anything_but_a_path():
    for wrong in (5, None, b"bytes", ["x"]):
        with pytest.raises(TypeError):
            damacy.open_array(wrong)
    with pytest.raises(damacy.InvalidArgument):
        damacy.open("az://bucket/a")


def test_an_array_info_is_enough_to_draw_samples(tmp_path):
    stored = store(tmp_path / "a", (20, 31), (4, 8), "float32")
    info = damacy.open(pathlib.Path(stored.path))
    rng = np.random.default_rng(1)
    starts = [[int(rng.integers(0, n - 3)) for n in info.shape] for _ in range(6)]
    with pipeline(batch_size=6) as p:
        p.push([damacy.Sample(uri=info.uri, aabb=[(b, b + 3) for b in start]) for start in starts])
        with p.pop() as batch:
            for row, start in zip(row_bits(batch, "float32"), starts):
                np.testing.assert_array_equal(row, stored.row([(b, b + 3) for b in start]))
