"""The commands that look into stored arrays: verify, plan, cat, preview, bench. Run in this process."""

import colorsys
import io
import json
import os
import shutil
import subprocess
import sys
import zlib

import numpy as np
import pytest

pytest.importorskip("typer")
zarr = pytest.importorskip("zarr")

from typer.testing import CliRunner  # noqa: E402

import damacy as damacy_package  # noqa: E402
from damacy._cli import bench, output  # noqa: E402
from damacy._cli.commands import app  # noqa: E402


def damacy(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200", "NO_COLOR": "1"})


def document(*arguments, status=0):
    shown = damacy(*arguments, "--json")
    assert shown.exit_code == status, shown.output
    return json.loads(shown.stdout)


@pytest.fixture
def values():
    return np.random.default_rng(0).integers(0, 1000, (16, 20, 24)).astype("u2")


@pytest.fixture
def sharded(tmp_path, values):
    path = tmp_path / "image" / "s.zarr"
    array = zarr.create_array(path, shape=values.shape, chunks=(4, 5, 8), shards=(8, 10, 24), dtype="u2")
    array[:] = values
    return path


@pytest.fixture
def plain(tmp_path, values):
    path = tmp_path / "image" / "deeper" / "p.zarr"
    array = zarr.create_array(path, shape=values.shape, chunks=(8, 20, 24), dtype="u2", compressors=None)
    array[:8] = values[:8]
    return path


def test_an_output_that_cannot_be_written_is_refused_in_one_line(sharded, tmp_path):
    nowhere = tmp_path / "none" / "x"
    for command in ("cat", "preview"):
        shown = damacy(command, sharded, "--out", nowhere)
        assert shown.exit_code == 1
        assert shown.stderr.rstrip() == f"{nowhere}: No such file or directory"
        assert document(command, sharded, "--out", nowhere, status=1)["reason"] == "output"


@pytest.mark.parametrize("nameless", [True, False])
def test_an_output_is_replaced_only_when_the_new_content_is_complete(sharded, tmp_path, values, nameless, monkeypatch):
    if not nameless:  # as on a file system without nameless files
        monkeypatch.setattr(output, "_open_nameless", lambda folder, mode: None)
    wanted = tmp_path / "x.raw"
    wanted.write_bytes(b"precious")
    shard = sharded / "c" / "0" / "0" / "0"
    whole = shard.read_bytes()
    shard.write_bytes(bytes(len(whole)))
    for box, status in (("0:40", 1), ("0:1", 1), ("0:a", 2)):
        assert damacy("cat", sharded, box, "--out", wanted).exit_code == status
        assert wanted.read_bytes() == b"precious"
    shard.write_bytes(whole)
    (tmp_path / "link").symlink_to(wanted)
    assert damacy("cat", sharded, "0:1", "--out", tmp_path / "link").exit_code == 0
    assert wanted.read_bytes() == values[0:1].tobytes()
    assert damacy("cat", sharded, "0:1", "--out", "/dev/null").exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["image", "link", "x.raw"]


def test_a_command_that_is_killed_leaves_nothing_behind(tmp_path):
    if not output._open_nameless(tmp_path, 0o600):
        pytest.skip("files without a name are unknown to this file system")
    program = """
import os, pathlib, sys
from damacy._cli.output import written_whole
with written_whole(pathlib.Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), 9)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run([sys.executable, "-c", program, tmp_path / "x.raw"], env=environment, timeout=60)
    assert killed.returncode == -9
    assert list(tmp_path.iterdir()) == []


def test_an_output_keeps_the_permissions_of_the_file_whose_name_it_takes(sharded, tmp_path):
    private = tmp_path / "private.raw"
    private.touch(mode=0o600)
    assert damacy("cat", sharded, "0:1", "--out", private).exit_code == 0
    assert private.stat().st_size and private.stat().st_mode & 0o777 == 0o600


def test_an_output_may_have_the_longest_name_that_a_file_can_have(sharded, tmp_path):
    longest = tmp_path / ("\u5b57" * 85)  # 255 bytes
    assert damacy("cat", sharded, "0:1", "--out", longest).exit_code == 0
    assert longest.stat().st_size


def test_an_output_that_is_a_link_to_itself_is_refused_in_one_line(sharded, tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    shown = damacy("cat", sharded, "0:1", "--out", tmp_path / "loop")
    assert shown.exit_code == 1
    assert shown.stderr.rstrip() == f"{tmp_path / 'loop'}: Too many levels of symbolic links"


@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}"])
def test_an_output_that_is_an_open_descriptor_is_written_at_its_position(sharded, tmp_path, values, name):
    with open(tmp_path / "open.raw", "w+b", buffering=0) as file:
        file.write(b"before")
        assert damacy("cat", sharded, "0:1", "--out", name.format(file.fileno())).exit_code == 0
        file.write(b"after")
    assert (tmp_path / "open.raw").read_bytes() == b"before" + values[0:1].tobytes() + b"after"


def test_an_output_may_be_a_pipe_that_is_open(sharded, values):
    reading, writing = os.pipe()
    with open(reading, "rb") as pipe:
        assert damacy("cat", sharded, "0:1", "--out", f"/dev/fd/{writing}").exit_code == 0
        os.close(writing)
        assert pipe.read() == values[0:1].tobytes()


@pytest.mark.parametrize("command", [("bench", "io"), ("bench", "--synthetic"), ("demo",)], ids=" ".join)
def test_a_folder_that_is_a_file_is_refused_in_one_line(tmp_path, command):
    if command == ("demo",):
        pytest.importorskip("nibabel")
    (tmp_path / "file").touch()
    shown = damacy(*command, "--folder", tmp_path / "file" / "below")
    assert shown.exit_code == 1
    assert f"{tmp_path / 'file'}" in shown.stderr and "Not a directory" in shown.stderr
    assert "Traceback" not in shown.output


# -- verify ------------------------------------------------------------------------------------------------------------


def test_verify_continues_after_an_array_whose_name_is_not_text(sharded, tmp_path):
    sharded.rename(tmp_path / os.fsdecode(b"\xff.zarr"))
    shutil.copytree(tmp_path / os.fsdecode(b"\xff.zarr"), tmp_path / "s3:x")
    found = document("verify", tmp_path, status=1)["arrays"]
    assert [array["refused"] and array["refused"]["reason"] for array in found] == [None, "uri"]
    assert f"{tmp_path / 's3:x'}: " in damacy("verify", tmp_path).output  # rich would replace :x: by an emoji


def test_verify_decodes_every_chunk_of_every_array_below(sharded, plain):
    found = document("verify", sharded.parent)
    assert found["good"] is True
    counts = {array["uri"]: (array["chunks"], array["missing"]) for array in found["arrays"]}
    assert counts == {str(sharded): (4 * 4 * 3, 0), str(plain): (1, 1)}
    assert [array["decoded_bytes"] for array in found["arrays"]] == [8 * 20 * 24 * 2, 16 * 20 * 24 * 2]


def test_verify_names_chunk_object_and_bytes_of_bad_chunks(sharded):
    shard = sharded / "c" / "1" / "0" / "0"
    index = np.frombuffer(shard.read_bytes()[-(12 * 16 + 4) : -4], "<u8").reshape(2, 2, 3, 2)
    offset, length = map(int, index[1, 0, 2])
    damaged = bytearray(shard.read_bytes())
    damaged[offset : offset + 4] = b"\0\0\0\0"
    shard.write_bytes(damaged)
    found = document("verify", sharded, status=1)
    (array,) = found["arrays"]
    assert (found["good"], array["chunks"]) == (False, 47)
    (bad,) = array["bad"]
    assert (bad["key"], bad["chunk"], bad["byte_range"]) == ("c/1/0/0", [3, 0, 2], [offset, offset + length])
    assert (bad["error"], bad["reason"]) == ("DecodeError", "frame")
    shown = damacy("verify", sharded)
    assert shown.exit_code == 1
    assert "c/1/0/0" in shown.output
    assert "1 bad" in shown.output


def test_verify_compares_checksums(tmp_path):
    path = tmp_path / "c.zarr"
    array = zarr.create_array(path, shape=(8,), chunks=(4,), dtype="u1", compressors=zarr.codecs.Crc32cCodec())
    array[:] = 1
    assert document("verify", path)["good"]
    stored = bytearray((path / "c" / "1").read_bytes())
    stored[2] ^= 1
    (path / "c" / "1").write_bytes(stored)
    (bad,) = document("verify", path, status=1)["arrays"][0]["bad"]
    assert (bad["chunk"], bad["reason"]) == ([1], "checksum")


def test_verify_counts_chunks_that_no_checksum_covers(tmp_path, sharded):
    path = tmp_path / "checked.zarr"
    checked = [zarr.codecs.ZstdCodec(checksum=True)]
    zarr.create_array(path, shape=(8,), chunks=(4,), dtype="u1", compressors=checked)[:] = np.arange(8, dtype="u1")
    (array,) = document("verify", path)["arrays"]
    assert (array["chunks"], array["unguarded"]) == (2, 0)
    assert "checksum" not in damacy("verify", path).output
    (array,) = document("verify", sharded)["arrays"]
    assert (array["chunks"], array["unguarded"]) == (48, 48)
    shown = damacy("verify", sharded).output
    assert "48 chunks good, 0 not stored, 48 without a checksum" in shown
    assert "no checksum covers 48 of 48 good chunks: damage that still decodes is not found" in shown


def test_verify_reports_a_broken_shard_index_once_and_continues(sharded):
    shard = sharded / "c" / "0" / "1" / "0"
    damaged = bytearray(shard.read_bytes())
    damaged[-1] ^= 1
    shard.write_bytes(damaged)
    (array,) = document("verify", sharded, status=1)["arrays"]
    assert array["chunks"] == 36
    assert [(bad["key"], bad["chunk"], bad["reason"]) for bad in array["bad"]] == [("c/0/1/0", None, "shard-index")]


def test_verify_and_plan_look_into_shards_in_shards(tmp_path, values):
    checked = [zarr.codecs.BytesCodec(), zarr.codecs.Crc32cCodec()]
    inner = zarr.codecs.ShardingCodec(chunk_shape=(4, 5, 8), codecs=checked)
    outer = zarr.codecs.ShardingCodec(chunk_shape=(8, 10, 24), codecs=[inner])
    path = tmp_path / "n.zarr"
    array = zarr.create_array(
        path, shape=values.shape, chunks=(16, 20, 24), dtype="u2", serializer=outer, compressors=None
    )
    array[:] = values
    assert document("verify", path)["arrays"][0]["chunks"] == 48
    (read,) = document("plan", path, "8:12,10:15,8:16")["reads"]
    assert (read["key"], read["chunks"]) == ("c/0/0/0", [[2, 2, 1]])
    damaged = bytearray((path / "c" / "0" / "0" / "0").read_bytes())
    damaged[read["offset"] : read["offset"] + 4] = bytes(4)
    (path / "c" / "0" / "0" / "0").write_bytes(damaged)
    (found,) = document("verify", path, status=1)["arrays"]
    (bad,) = found["bad"]
    assert (found["chunks"], bad["chunk"]) == (47, [2, 2, 1])
    assert bad["byte_range"] == [read["offset"], read["offset"] + read["bytes"]]


def test_verify_reads_elements_that_batches_cannot_hold(tmp_path):
    path = tmp_path / "c.zarr"
    zarr.create_array(path, shape=(4,), chunks=(2,), dtype="complex64")[:] = 1j
    assert document("verify", path)["arrays"][0]["chunks"] == 2


def test_verify_of_an_array_that_cannot_be_read_fails_and_says_why(tmp_path, sharded):
    (tmp_path / "image" / "a.zarr").mkdir()
    (tmp_path / "image" / "a.zarr" / "zarr.json").write_text("{")
    found = document("verify", sharded.parent, status=1)
    assert [array["refused"] and array["refused"]["reason"] for array in found["arrays"]] == ["json", None]
    assert found["arrays"][1]["chunks"] == 48


def test_verify_of_a_folder_without_arrays_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    assert damacy("verify", tmp_path / "empty").exit_code == 2
    assert document("verify", tmp_path / "nothing", status=1)["error"] == "NotFound"


# -- plan --------------------------------------------------------------------------------------------------------------


def test_plan_shows_the_requests_of_a_box_and_their_bytes(sharded):
    found = document("plan", sharded, "0:4,0:5,:")
    assert (found["chunks"], found["objects"], found["missing_chunks"]) == (3, 1, 0)
    (read,) = found["reads"]  # three neighbours in one request
    assert (read["key"], read["offset"], read["chunks"]) == ("c/0/0/0", 0, [[0, 0, 0], [0, 0, 1], [0, 0, 2]])
    assert read["wanted_bytes"] <= read["bytes"] < (sharded / "c" / "0" / "0" / "0").stat().st_size
    assert found["decoded_bytes"] == found["box_bytes"] == 4 * 5 * 24 * 2
    assert found["buffer_bytes"] == 2 * found["decoded_bytes"] // 3 + (128 << 10)
    assert found["decode_amplification"] == 1
    assert found["read_amplification"] == read["bytes"] / found["box_bytes"]


def test_plan_counts_missing_chunks(plain):
    found = document("plan", plain, "7:9,0,0")
    assert (found["chunks"], found["missing_chunks"], len(found["reads"])) == (2, 1, 1)
    assert found["decode_amplification"] == 8 * 20 * 24 / 2


def test_plan_without_a_box_adds_up_the_sizes_of_arrays(tmp_path):
    group = zarr.create_group(tmp_path / "g.zarr")
    raw = group.create_array("raw", shape=(20, 30), chunks=(8, 10), dtype="u2", compressors=None, fill_value=0)
    raw[:8] = 1  # the first of three rows of chunks
    packed = group.create_array("deep/packed", shape=(20, 30), shards=(20, 30), chunks=(10, 10), dtype="u2")
    packed[:] = np.arange(600).reshape(20, 30)
    empty = group.create_array("empty", shape=(0, 3), chunks=(1, 3), dtype="u2")
    found = document("plan", tmp_path / "g.zarr")
    by_name = {each["uri"].rpartition("/")[2]: each for each in found["arrays"]}
    assert sorted(by_name) == ["empty", "packed", "raw"]
    assert (by_name["raw"]["chunks"], by_name["raw"]["missing_chunks"]) == (9, 6)
    assert by_name["raw"]["stored_bytes"] == by_name["raw"]["decoded_bytes"] == 3 * 8 * 10 * 2
    assert (by_name["packed"]["objects"], by_name["packed"]["decoded_bytes"]) == (1, 6 * 10 * 10 * 2)
    assert 0 < by_name["packed"]["stored_bytes"] < (tmp_path / "g.zarr/deep/packed/c/0/0").stat().st_size
    assert by_name["empty"]["decoded_bytes"] == empty.size == 0
    assert found["decoded_bytes"] == sum(each["decoded_bytes"] for each in found["arrays"])
    one = document("plan", tmp_path / "g.zarr/raw", "--also", tmp_path / "g.zarr/deep")
    assert one["decoded_bytes"] == found["decoded_bytes"]
    assert "3 arrays" in damacy("plan", tmp_path / "g.zarr").stdout


def test_a_plan_equals_the_reads_of_a_pipeline(sharded):
    box = ((2, 14), (3, 19), (1, 9))
    config = damacy_package.Config(batch_size=1, device="cpu", host_buffer_bytes=1 << 24, device_buffer_bytes=1 << 24)
    with damacy_package.Pipeline(config) as pipeline:
        pipeline.push([damacy_package.Sample(sharded, box)])
        pipeline.pop().release()
        stats = pipeline.stats()
    found = document("plan", sharded, "2:14,3:19,1:9")
    assert (len(found["reads"]), found["chunks"]) == (stats.reads_issued, stats.chunks_decoded)
    assert found["read_bytes"] == stats.bytes_read == sum(read["bytes"] for read in found["reads"])


@pytest.mark.parametrize("codec", ["raw", "blosc"])
def test_a_plan_has_partial_reads_of_chunks(tmp_path, codec):
    path = tmp_path / "large.zarr"
    compressors = None if codec == "raw" else zarr.codecs.BloscCodec(cname="lz4", blocksize=1 << 16)
    array = zarr.create_array(path, shape=(64, 128, 128), chunks=(64, 128, 128), dtype="u2", compressors=compressors)
    array[:] = np.random.default_rng(1).integers(0, 60000, (64, 128, 128))
    box = ((10, 14), (0, 128), (0, 128))
    config = damacy_package.Config(batch_size=1, device="cpu", host_buffer_bytes=1 << 24, device_buffer_bytes=1 << 24)
    with damacy_package.Pipeline(config) as pipeline:
        pipeline.push([damacy_package.Sample(path, box)])
        pipeline.pop().release()
        stats = pipeline.stats()
    (read,) = document("plan", path, "10:14")["reads"]
    if codec == "raw":
        offset = 10 * 128 * 128 * 2
        assert (read["offset"], read["bytes"], read["at_most"]) == (offset, 4 * 128 * 128 * 2, False)
        assert stats.bytes_read == read["bytes"]
    else:
        assert read["at_most"]
        assert stats.bytes_read < read["bytes"] == (path / "c" / "0" / "0" / "0").stat().st_size


@pytest.mark.parametrize(
    ("box", "status", "words"),
    [
        ("0:4", 0, ""),
        ("0:40", 1, "beyond the array's size 16"),
        ("4:2", 1, "expected 0 <= start < stop"),
        ("0:4:2", 2, "without a step"),
        ("...,-4:2", 2, "which is empty: negative numbers count from the end"),
        ("3:-14", 2, "'3:-14' is 3:2 of 16 elements"),
        ("a:b", 2, "integers"),
        ("0,0,0,0", 2, "4 axes"),
        ("...,...", 2, "more than one"),
    ],
)
def test_a_wrong_box_is_refused_with_its_axis(sharded, box, status, words):
    shown = damacy("plan", sharded, box)
    assert shown.exit_code == status
    assert words in shown.output


def test_a_path_that_is_not_text_is_refused_with_its_name():
    with pytest.raises(damacy_package.InvalidArgument, match="udcff.*UTF-8") as caught:
        damacy_package.open("/nowhere/\udcff")
    assert caught.value.reason == "uri"


# -- cat ---------------------------------------------------------------------------------------------------------------


def test_cat_writes_the_elements_of_a_box(sharded, values):
    shown = damacy("cat", sharded, "3:9,-4:,::".replace("::", ":"))
    assert shown.exit_code == 0
    assert shown.stdout_bytes == values[3:9, -4:].tobytes()


@pytest.mark.parametrize("box", ["4:2", "99999999999999999999:", "0:0,:,0:25", "-99:0", "17:17"])
def test_cat_refuses_a_box_outside_the_array_also_without_elements(sharded, box):
    shown = damacy("cat", sharded, "--", box)
    assert shown.exit_code == 1 and "aabb axis" in shown.output
    assert damacy("cat", sharded, "4:4").exit_code == 0


def test_cat_writes_npy_files(tmp_path, sharded, values):
    found = document("cat", sharded, "...", "--out", tmp_path / "x.npy", "--dtype", "float32")
    assert found["bytes"] == values.size * 4
    written = np.load(tmp_path / "x.npy")
    assert written.dtype == np.float32
    assert (written == values).all()


def test_cat_cuts_a_large_box_into_slabs(monkeypatch, sharded, values):
    from damacy._cli import cat

    for slab in (1, 2000, 20 * 24 * 2 * 5, 20 * 24 * 2 * 6):
        monkeypatch.setattr(cat, "_SLAB_BYTES", slab)
        assert damacy("cat", sharded, "1:15").stdout_bytes == values[1:15].tobytes()
        assert damacy("cat", sharded, "3,2:19").stdout_bytes == values[3, 2:19].tobytes()


def test_cat_as_json_holds_the_values(tmp_path, sharded, values):
    found = document("cat", sharded, "0,0,:3")
    assert (found["shape"], found["values"]) == ([1, 1, 3], values[0, 0, :3].tolist())
    zarr.create_array(tmp_path / "f.zarr", shape=(3,), dtype="f8")[:] = [1.5, np.nan, -np.inf]
    assert document("cat", tmp_path / "f.zarr")["values"] == [1.5, "NaN", "-Infinity"]
    assert document("cat", sharded, "--dtype", "bf16", status=2)["reason"] == "arguments"


def test_cat_of_one_element(tmp_path):
    zarr.create_array(tmp_path / "0.zarr", shape=(), dtype="i4")[...] = -7
    assert np.frombuffer(damacy("cat", tmp_path / "0.zarr").stdout_bytes, "<i4").tolist() == [-7]


def test_cat_of_a_type_that_batches_cannot_hold_is_refused(tmp_path):
    zarr.create_array(tmp_path / "c.zarr", shape=(3,), dtype="complex64")
    shown = damacy("cat", tmp_path / "c.zarr")
    assert shown.exit_code == 2
    assert "complex64" in shown.output
    shown = damacy("cat", tmp_path / "c.zarr", "--dtype", "f4")
    assert shown.exit_code == 2
    assert "did you mean 'f32'?" in shown.output


# -- preview -----------------------------------------------------------------------------------------------------------


def pixels(path):
    """Of a grey PNG as damacy writes it."""
    data = path.read_bytes()
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    start = data.index(b"IDAT") + 4
    rows = np.frombuffer(
        zlib.decompress(data[start : start + int.from_bytes(data[start - 8 : start - 4], "big")]), "u1"
    )
    return rows.reshape(height, width + 1)[:, 1:]


def test_preview_draws_the_middle_plane(tmp_path, sharded, values):
    found = document("preview", sharded, "--out", tmp_path / "x.png")
    assert (found["width"], found["height"]) == (24, 20)
    drawn, plane = pixels(tmp_path / "x.png"), values[8]
    assert (drawn[plane <= found["black"]] == 0).all()
    assert (drawn[plane >= found["white"]] == 255).all()
    order = np.argsort(plane, axis=None)
    assert (np.diff(drawn.ravel()[order].astype(int)) >= 0).all()


def test_preview_of_an_image_takes_the_coarsest_level_that_is_large_enough(tmp_path):
    from damacy import synthetic

    synthetic.write_image(tmp_path / "i.zarr", (4, 64, 96), chunks=(2, 32, 32), blobs=5)
    assert document("preview", tmp_path / "i.zarr", "--out", tmp_path / "x.png", "--size", 48)["uri"].endswith(
        "i.zarr/1"
    )
    assert document("preview", tmp_path / "i.zarr", "--out", tmp_path / "x.png", "--size", 96)["width"] == 96


def test_preview_refuses_names_of_other_picture_formats(tmp_path, sharded):
    for name in ("x.jpg", "x.TIFF"):
        shown = damacy("preview", sharded, "--out", tmp_path / name)
        assert shown.exit_code == 2
        assert "only PNG can be written: give a name that ends in .png" in " ".join(shown.output.split())
        assert not (tmp_path / name).exists()


def test_preview_of_constant_and_of_non_finite_values(tmp_path):
    for value in (3, np.nan):
        array = zarr.create_array(tmp_path / "v.zarr", shape=(5, 7), dtype="f4", overwrite=True)
        array[:] = value
        document("preview", tmp_path / "v.zarr", "--out", tmp_path / "x.png")
        assert pixels(tmp_path / "x.png").shape == (5, 7)


# -- preview of crops --------------------------------------------------------------------------------------------------


def picture(path):
    """Rows, columns and channels of a PNG, decoded by Pillow."""
    image = pytest.importorskip("PIL.Image").open(path)
    assert (image.format, image.mode) == ("PNG", "RGB")
    return np.asarray(image).astype(int)


def write_pyramid(group, data, names, scale, omero=None):
    """Two levels, of which the second has every other pixel."""
    levels = [data, data[..., ::2, ::2]]
    kinds = {"c": "channel", "t": "time"}
    axes = [{"name": name, "type": kinds.get(name, "space")} for name in names]
    datasets = []
    for k, level in enumerate(levels):
        group.create_array(str(k), data=level)
        scales = [1.0 if name in kinds else scale * (1 + k if name in "yx" else 1) for name in names]
        datasets.append({"path": str(k), "coordinateTransformations": [{"type": "scale", "scale": scales}]})
    group.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": datasets}]
    if omero:
        group.attrs["omero"] = {"channels": omero}


CHANNELS = [
    {"color": "FF0000", "label": "red", "window": {"start": 0, "end": 100, "min": 0, "max": 255}},
    {"color": "0000FF", "label": "blue", "window": {"start": 100, "end": 200, "min": 0, "max": 255}},
]


@pytest.fixture
def cells(tmp_path):
    """An image (c, y, x), its label at half the resolution, and their elements."""
    rng = np.random.default_rng(0)
    data = rng.integers(0, 250, (2, 24, 40)).astype("u1")
    ids = np.zeros((12, 20), "i4")
    ids[2:6, 3:9], ids[7:11, 10:18] = 7, 300
    group = zarr.open_group(tmp_path / "cells.zarr", mode="w", zarr_format=2)
    write_pyramid(group, data, "cyx", 0.5, CHANNELS)
    labels = group.create_group("labels")
    labels.attrs["labels"] = ["nuclei"]
    write_pyramid(labels.create_group("nuclei"), ids, "yx", 1.0)
    return tmp_path / "cells.zarr", data, ids.repeat(2, axis=0).repeat(2, axis=1)


def expected_colors(data, ids, color_of):
    """What a crop looks like, worked out pixel by pixel."""
    wanted = np.zeros((*ids.shape, 3))
    for place in np.ndindex(ids.shape):
        red, blue = data[(0, *place)] / 100, data[(1, *place)] / 100 - 1
        color = np.array([min(red, 1), 0, min(max(blue, 0), 1)])
        if ids[place]:
            color = 0.6 * color + 0.4 * np.array(color_of(int(ids[place])))
        wanted[place] = color * 255
    return wanted


def color_of_id(number):
    """The colour of a label id by the standard library: the hue is a multiple of the golden ratio."""
    hue = number * 0x9E3779B97F4A7C15 % 2**64 / 2**64
    return colorsys.hsv_to_rgb(hue, 0.75, 1.0)


@pytest.mark.parametrize("crops", [["--grid"], ["--seed", "3"]])
def test_a_montage_shows_channels_in_their_colours_and_labels_on_top(cells, tmp_path, crops):
    uri, data, ids = cells
    found = document("preview", uri, "--out", tmp_path / "x.png", "--crops", "5", "--side", "8", *crops)
    drawn = picture(tmp_path / "x.png")
    assert drawn.shape == (found["height"], found["width"], 3) == (2 * 10 - 2, 3 * 10 - 2, 3)
    assert (found["label"], found["columns"], len(found["boxes"])) == (f"{uri}/labels/nuclei", 3, 5)
    assert found["channels"][1] == {"label": "blue", "color": "0000FF", "black": 100.0, "white": 200.0}
    labelled = 0
    for k, box in enumerate(found["boxes"]):
        assert box[0] == [0, 2]
        (top, bottom), (left, right) = box[1:]
        wanted = expected_colors(data[:, top:bottom, left:right], ids[top:bottom, left:right], color_of_id)
        labelled += np.count_nonzero(ids[top:bottom, left:right])
        shown = drawn[k // 3 * 10 :, k % 3 * 10 :][:8, :8]
        assert np.abs(shown - wanted).max() <= 1
    assert labelled
    assert (drawn[8:10] == 0).all() and (drawn[:, 8:10] == 0).all() and (drawn[10:, 20:] == 0).all()
    again = document("preview", uri, "--out", tmp_path / "y.png", "--crops", "5", "--side", "8", *crops)
    assert again["boxes"] == found["boxes"]
    assert (tmp_path / "y.png").read_bytes() == (tmp_path / "x.png").read_bytes()


def test_a_montage_of_a_level_with_a_label_by_path_or_without_one(cells, tmp_path):
    uri, data, ids = cells
    common = ("preview", uri, "--out", tmp_path / "x.png", "--crops", "1", "--grid", "--side", "40", "--level", "1")
    for label in ("nuclei", f"{uri}/labels/nuclei"):
        found = document(*common, "--label", label)
        assert (found["uri"], found["label"]) == (f"{uri}/1", f"{uri}/labels/nuclei")
        wanted = expected_colors(data[:, ::2, ::2], ids[::2, ::2], color_of_id)
        assert np.abs(picture(tmp_path / "x.png") - wanted).max() <= 1
    assert document(*common, "--no-label")["label"] is None
    wanted = expected_colors(data[:, ::2, ::2], 0 * ids[::2, ::2], color_of_id)
    assert np.abs(picture(tmp_path / "x.png") - wanted).max() <= 1


def test_a_montage_of_plain_arrays_is_grey_with_a_label_of_equal_shape(tmp_path):
    values = np.arange(4 * 30 * 20, dtype="f4").reshape(4, 30, 20)
    values[:, 3, 3] = np.nan
    ids = np.zeros((4, 30, 20), "u8")
    ids[:, :5] = 2**64 - 1
    zarr.create_array(tmp_path / "a", data=values)
    zarr.create_array(tmp_path / "b", data=ids)
    found = document(
        *("preview", tmp_path / "a", "--label", tmp_path / "b", "--out", tmp_path / "x.png", "--crops", "4"),
        *("--grid", "--side", "30"),
    )
    assert [box[0] for box in found["boxes"]] == [[0, 1], [1, 2], [2, 3], [3, 4]]
    drawn = picture(tmp_path / "x.png")
    assert (drawn[5:30, :20] == drawn[5:30, :20, :1]).all()  # grey
    (channel,) = found["channels"]
    wanted = ((values[3, 5:] - channel["black"]) / (channel["white"] - channel["black"])).clip(0, 1) * 255
    assert np.abs(drawn[32 + 5 : 62, 22:, 0] - wanted).max() <= 1
    color = 0.4 * 255 * np.array(color_of_id(2**64 - 1))
    assert np.abs(drawn[3, 3] - color).max() <= 1  # NaN is black


def test_a_montage_refuses_what_cannot_be_shown(cells, tmp_path):
    uri, _, _ = cells
    zarr.create_array(tmp_path / "small", data=np.zeros((5, 5), "i4"))
    zarr.create_array(tmp_path / "line", data=np.zeros(5, "i4"))
    zarr.create_array(tmp_path / "float", data=np.zeros((2, 24, 40), "f4"))
    zarr.create_array(tmp_path / "plain", data=np.zeros((2, 24, 40), "u1"))
    zarr.create_array(tmp_path / "empty", shape=(0, 4), dtype="u1")
    out = ("--out", tmp_path / "x.png", "--crops", "2")
    for arguments, status, text in [
        ((uri, "--label", "cytoplasm"), 2, "there are 'nuclei'"),
        ((uri, "--level", "2"), 2, "has 2 levels"),
        ((uri, "--label", "nuclei", "--no-label"), 2, "give --label or --no-label"),
        ((uri, "--box", "0,:,:"), 2, "--box shows one plane"),
        ((uri, "--crops", "100000000"), 2, "too many for a picture"),
        ((tmp_path / "plain", "--label", tmp_path / "small"), 1, "has 24 elements, label 5, and no scale"),
        ((tmp_path / "plain", "--label", tmp_path / "line"), 1, "the label has no axis"),
        ((tmp_path / "plain", "--label", tmp_path / "float"), 1, "labels must be integers (got float32)"),
        ((tmp_path / "line",), 1, "a picture needs two axes"),
        ((tmp_path / "empty",), 1, "has no elements"),
        ((tmp_path / "none",), 1, "no zarr metadata"),
        ((tmp_path,), 1, "no zarr metadata"),
        ((uri / "labels",), 1, "is a group, not an array; arrays inside: nuclei/0, nuclei/1"),
    ]:
        shown = damacy("preview", *out, *arguments)
        assert shown.exit_code == status, (arguments, shown.output)
        assert text in " ".join(shown.output.split()), (arguments, shown.output)
        assert not (tmp_path / "x.png").exists()


# -- bench -------------------------------------------------------------------------------------------------------------


def test_bench_measures_stages_ceilings_and_peers(sharded):
    found = document("bench", sharded, "--seconds", "0.05", "--batch", 2, "--crop", "4,8,8", "--threads", 1)
    assert found["batches"] > 0
    assert found["crops_per_s"] == pytest.approx(found["bytes_per_s"] / (4 * 4 * 8 * 8))
    assert set(found["ceilings"]) == {"read", "decode"}
    assert all(rate > 0 for rate in found["ceilings"].values())
    assert found["peers"]["zarr"] > 0
    assert found["stages"]["decompress"]["count"] > 0
    assert found["advice"]


def test_bench_writes_its_own_image(tmp_path, monkeypatch):
    from damacy import synthetic

    write = synthetic.write_image
    monkeypatch.setattr(synthetic, "write_image", lambda path, shape: write(path, (8, 64, 64), blobs=3))
    shown = damacy("bench", "--synthetic", "--folder", tmp_path, "--seconds", "0.02", "--no-peers")
    assert shown.exit_code == 0, shown.output
    assert "ceiling: decode" in shown.output


def test_bench_of_an_array_without_stored_chunks_has_no_ceilings(tmp_path):
    zarr.create_array(tmp_path / "e.zarr", shape=(32, 32), chunks=(8, 8), dtype="u2")
    found = document("bench", tmp_path / "e.zarr", "--seconds", "0.01", "--no-peers")
    assert (found["ceilings"], found["batches"] > 0) == ({}, True)
    assert "all crops lie in chunks that are not stored" in found["advice"][0]


def test_bench_without_zarr_says_which_package_writes_an_image(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "damacy.synthetic", raising=False)
    monkeypatch.delattr(damacy_package, "synthetic", raising=False)
    monkeypatch.setitem(sys.modules, "zarr", None)
    shown = damacy("bench", "--synthetic", "--folder", tmp_path)
    assert shown.exit_code == 2
    assert "pip install zarr" in shown.output


def test_bench_needs_either_a_uri_or_synthetic(sharded):
    assert damacy("bench", sharded, "--synthetic").exit_code == 2
    assert damacy("bench", "crops").exit_code == 2
    assert damacy("bench", sharded, "--crop", "1,2").exit_code == 2
    assert damacy("bench", sharded, "--crop", "x").exit_code == 2


def test_bench_is_a_group_to_which_commands_can_be_added(monkeypatch):
    import typer

    joined = typer.Typer(cls=bench._DefaultCommand)
    joined.callback()(bench.group)
    said = io.StringIO()
    joined.command("crops")(lambda uri: said.write(f"crops {uri}"))
    joined.command("io")(lambda: said.write("io "))
    for words in (["io"], ["a.zarr"], ["crops", "io"]):
        assert CliRunner().invoke(joined, words).exit_code == 0
    assert said.getvalue() == "io crops a.zarrcrops io"


def test_examples_in_docstrings_of_helpers_pass():
    import doctest

    from damacy import samplers
    from damacy._cli import box, cat, png
    from damacy._core import counter_rng, counter_rng_many, sizes

    for module in (box, cat, counter_rng, counter_rng_many, png, samplers, sizes):
        tried = doctest.testmod(module)
        assert (tried.failed, tried.attempted > 0) == (0, True), module.__name__
