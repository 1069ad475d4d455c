"""`stitch.Writer`: refused input, bounded memory, and that a failure leaves no output."""

import gc
import math
import os
import signal
import subprocess
import sys
import textwrap
import tracemalloc

import numpy as np
import pytest

import damacy
from damacy.samplers import SlidingGrid
from damacy.synthetic import write_image
from damacy.training import Loader

zarr = pytest.importorskip("zarr")
from damacy._stitch.output import Output  # noqa: E402
from damacy.stitch import Writer  # noqa: E402


def rows(grid, *windows, valid=None):
    samples = tuple(grid.sample(0, k) for k in windows)
    return damacy.BatchRows(samples=samples, epoch=0, indices=windows, valid=valid or (True,) * len(windows))


@pytest.fixture
def grid():
    """15 windows, in 3 rows."""
    return SlidingGrid({"a.zarr": (8, 16)}, (4, 6), overlap=(2, 3))


def fill(writer, grid, stop=None):
    for k in range(writer._next, len(grid) if stop is None else stop):
        writer.add(np.full((1, 4, 6), k, "f4"), rows(grid, k))


def message(call, *arguments, **options):
    with pytest.raises((ValueError, TypeError, OSError)) as error:
        call(*arguments, **options)
    return str(error.value)


# -- refused input


def test_arguments(tmp_path, grid):
    out = tmp_path / "out"
    shuffled = SlidingGrid({"a.zarr": (8, 16)}, (4, 6), seed=0)
    two = SlidingGrid({"a.zarr": (8, 16), "b.zarr": (8, 16)}, (4, 6))
    for expected, of, options in (
        ("a shuffled grid cannot be stitched: leave seed out", shuffled, {}),
        (
            "stitching needs a grid over one image, this one has 2: make a grid and a writer for each",
            two,
            {},
        ),
        ("grid must be a damacy.samplers.SlidingGrid (got list)", [], {}),
        ("blend must be 'constant', 'gaussian', 'hann' or 'crop' (got 'mean')", grid, {"blend": "mean"}),
        ("channels must be >= 1 (got 0)", grid, {"channels": 0}),
        ("chunks has 1 axes, the output has 3", grid, {"chunks": (4,), "channels": 2}),
        ("shards[1] must be >= 1 (got 0)", grid, {"shards": (4, 0)}),
        ("sigma_scale must be > 0 (got 0.0)", grid, {"sigma_scale": 0}),
        ("sigma_scale has 3 numbers, a window has 2 axes", grid, {"sigma_scale": (1, 1, 1)}),
        ("dtype: zarr-python writes no bfloat16: choose f32", grid, {"dtype": "bf16"}),
        ("dtype bool needs blend='crop': a mean of windows is a number", grid, {"dtype": "bool"}),
        ("unknown dtype: 'f23'", grid, {"dtype": "f23"}),
        ("name: no array 'image'; the grid has one array without a name", grid, {"name": "image"}),
        ("max_bytes must be >= 0 (got -1)", grid, {"max_bytes": -1}),
    ):
        assert message(Writer, out, of, **options) == expected
    assert message(Writer, "s3://bucket/out.zarr", grid).startswith("out must be a path of a local file system")
    assert message(Writer, 3, grid)
    assert os.listdir(tmp_path) == []


def test_rows_out_of_order(tmp_path, grid):
    writer = Writer(tmp_path / "out", grid)
    fill(writer, grid, 5)
    one = np.zeros((1, 4, 6), "f4")
    assert message(writer.add, one, rows(grid, 7)) == "row of window 7, expected 5: batches come in grid order"
    assert message(writer.add, np.zeros((2, 4, 6)), rows(grid, 5, 7)).startswith("row of window 7, expected 6")
    fill(writer, grid)  # nothing was added, and the writer can still be used
    assert message(writer.add, one, rows(grid, 0)) == "row of window 0, but all 15 windows were added"
    writer.add(one, rows(grid, 0, valid=(False,)))  # it fills up the last batch
    writer.close()
    assert zarr.open_array(tmp_path / "out").shape == (8, 16)
    assert message(writer.add, one, rows(grid, 0)) == "the writer is closed: make another one"


def test_rows_of_another_grid_or_of_none(tmp_path, grid):
    writer = Writer(tmp_path / "out", grid)
    other = SlidingGrid({"a.zarr": (8, 17)}, (4, 7))
    one = np.zeros((1, 4, 6), "f4")
    assert message(writer.add, one, rows(other, 0)) == (
        "row of window 0 is of another grid: its box is not [0:4, 0:6] of a.zarr"
    )
    sample = damacy.Sample("a.zarr", [(0, 4), (0, 6)])
    unknown = damacy.BatchRows(samples=(sample,), epoch=0, indices=(0,), valid=(True,))
    assert message(writer.add, one, unknown) == "row 0 is of no sampler: read the grid with a Loader"
    assert message(writer.add, one, [0]) == "batch must be a damacy.Batch or a damacy.BatchRows (got list)"


def test_predictions_of_other_shapes_and_types(tmp_path, grid):
    writer = Writer(tmp_path / "out", grid)
    for shape, expected in (
        ((1, 4, 7), "prediction has shape (1, 4, 7), expected (1, 4, 6)"),
        ((2, 4, 6), "prediction has shape (2, 4, 6), expected (1, 4, 6)"),
        ((1, 3, 4, 6), "prediction has shape (1, 3, 4, 6), expected (1, 4, 6): say channels=3"),
        ((), "prediction has shape (), expected (1, 4, 6)"),
    ):
        assert message(writer.add, np.zeros(shape), rows(grid, 0)) == expected
    two = Writer(tmp_path / "two", grid, channels=2)
    assert message(two.add, np.zeros((1, 4, 6)), rows(grid, 0)) == (
        "prediction has shape (1, 4, 6), expected (1, 2, 4, 6)"
    )
    assert message(two.add, np.zeros((1, 3, 4, 6)), rows(grid, 0)) == (
        "prediction has shape (1, 3, 4, 6), expected (1, 2, 4, 6): say channels=3"
    )
    assert message(writer.add, np.zeros((1, 4, 6), "c8"), rows(grid, 0)) == (
        "prediction must have real numbers of at most 64 bits (got complex64)"
    )
    assert message(writer.add, "prediction", rows(grid, 0)) == "prediction must be an array or a tensor (got str)"


def test_labels_that_the_output_cannot_hold(tmp_path, grid):
    writer = Writer(tmp_path / "out", grid, blend="crop", dtype="u8")
    for label in (256, -1):
        assert message(writer.add, np.full((1, 4, 6), label), rows(grid, 0)) == (
            f"the prediction has a label {label}, which uint8 cannot hold: choose another dtype"
        )


def test_a_missing_window_at_the_end_is_named(tmp_path, grid):
    writer = Writer(tmp_path / "out", grid)
    fill(writer, grid, 14)
    assert message(writer.close) == (
        "window 14 of 15 is missing, [4:8, 10:16] of a.zarr: add all batches of the grid; "
        "Loader(tail='short') also reads the last ones"
    )
    assert os.listdir(tmp_path) == []
    assert message(writer.close).startswith("the writer is discarded")


def test_the_last_rows_that_a_loader_drops_are_missed(tmp_path):
    write_image(tmp_path / "in.zarr", (8, 16, 16), chunks=(8, 8, 8))
    grid = SlidingGrid([tmp_path / "in.zarr"], (8, 8, 5))  # 8 windows
    config = damacy.Config(batch_size=3, device="cpu")
    with pytest.raises(ValueError, match="^window 6 of 8 is missing"), Writer(tmp_path / "out", grid) as writer:
        with Loader(grid, config) as loader:
            for batch in loader:
                writer.add(batch, batch)
    assert os.listdir(tmp_path) == ["in.zarr"]


def test_channels_in_place_of_an_axis_that_the_grid_cuts(tmp_path):
    zarr.create_array(tmp_path / "in", shape=(4, 8), chunks=(2, 4), dtype="f4", dimension_names=("c", "x"))
    grid = SlidingGrid([tmp_path / "in"], (2, 4))
    assert message(Writer, tmp_path / "out", grid, channels=2) == (
        "channels take the place of axis c, which the grid cuts into windows"
    )


# -- memory


def test_more_than_max_bytes(tmp_path):
    zarr.create_array(
        tmp_path / "in", shape=(64, 512, 512), chunks=(16, 64, 64), dtype="u2", dimension_names=("z", "y", "x")
    )
    grid = SlidingGrid([tmp_path / "in"], (16, 96, 96), overlap=(8, 32, 32))
    needed = Writer(tmp_path / "a", grid, channels=2).needed_bytes
    # Sums of two channels and weights of 16 planes; a slab of chunks, which have 16 planes, or of the 8 that are final.
    assert needed == 512 * 512 * (16 * 12 + 16 * 2 * 4) + 16 * 96 * 96 * 4
    least = 512 * 512 * (16 * 12 + 8 * 2 * 4) + 16 * 96 * 96 * 4
    assert Writer(tmp_path / "b", grid, channels=2, max_bytes=needed).needed_bytes == needed
    assert (
        Writer(tmp_path / "b", grid, channels=2, max_bytes=needed - 1).needed_bytes == least
    )  # chunks are written twice
    assert Writer(tmp_path / "b", grid, channels=2, max_bytes=least).needed_bytes == least
    assert message(Writer, tmp_path / "b", grid, channels=2, max_bytes=least - 1) == (
        f"stitching needs {least} bytes, max_bytes is {least - 1}: shorten the windows on axis z, or raise max_bytes"
    )
    gc.collect()
    assert os.listdir(tmp_path) == ["in"]  # writers that are not closed leave nothing


@pytest.mark.untraced
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("overlap", [(0, 0, 0), (4, 0, 0), (0, 8, 0), (0, 0, 12), (4, 8, 8)])
def test_memory_stays_below_the_bound(tmp_path, overlap, aligned):
    """By what NumPy allocates. zarr gets no real output, because the memory of its codecs is not counted."""
    shape, extents = (40, 64, 48), (8, 16, 24)
    grid = SlidingGrid({"a.zarr": shape}, extents, overlap=overlap)
    options = {"channels": 3, "chunks": (1, 16, 16, 16)}
    most = Writer(tmp_path / "out", grid, **options).needed_bytes
    tracemalloc.start()
    writer = Writer(tmp_path / "out", grid, max_bytes=most if aligned else most - 1, **options)
    assert (writer.needed_bytes == most) == aligned
    written = np.zeros(shape, bool)

    def write(box, elements):
        assert not written[box[1:]].any()
        written[box[1:]] = True

    writer._output.write = write
    prediction = np.ones((1, 3, *extents), "f4")
    batches = [rows(grid, k) for k in range(len(grid))]
    gc.collect()
    before = tracemalloc.get_traced_memory()[0] - writer._window.nbytes
    tracemalloc.reset_peak()
    for batch in batches:
        writer.add(prediction, batch)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert written.all() and not writer._sums._planes
    temporary = 3 * math.prod(extents[1:]) * 4 + 200_000  # a weighted plane of a window, and Python's objects
    assert writer._sums.peak_bytes <= writer.needed_bytes
    assert peak <= writer.needed_bytes + temporary
    assert writer._sums.peak_bytes >= 0.6 * writer.needed_bytes


def test_a_time_series_holds_one_time_at_most(tmp_path):
    small = SlidingGrid({"a.zarr": (2, 32, 32)}, (1, 8, 8), overlap=(0, 4, 4))
    large = SlidingGrid({"a.zarr": (500, 4096, 32)}, (1, 8, 8), overlap=(0, 4, 4))
    one, two = (Writer(tmp_path / "out", of, chunks=(1, 8, 8)).needed_bytes for of in (small, large))
    assert one == two


# -- failures


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_error_in_the_loop_leaves_nothing(tmp_path, grid, error):
    with pytest.raises(error), Writer(tmp_path / "folder" / "out.zarr", grid) as writer:
        fill(writer, grid, 7)
        assert [name.endswith(".partial") for name in os.listdir(tmp_path / "folder")] == [True]
        raise error
    assert os.listdir(tmp_path / "folder") == []


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("nth", range(5))
def test_an_interrupted_write_leaves_nothing_also_if_the_loop_goes_on(tmp_path, grid, monkeypatch, nth, error):
    calls, write = [], Output.write

    def failing(self, box, elements):
        calls.append(box)
        if len(calls) == nth + 1:
            raise error
        write(self, box, elements)

    monkeypatch.setattr(Output, "write", failing)
    if nth >= 4:  # so many rows of chunks
        with Writer(tmp_path / "out", grid, chunks=(2, 8)) as writer:
            fill(writer, grid)
        assert len(calls) == 4
        return
    with (
        pytest.raises(ValueError, match="^the writer is interrupted"),
        Writer(tmp_path / "out", grid, chunks=(2, 8)) as writer,
    ):
        with pytest.raises(error):
            fill(writer, grid)
        assert message(writer.add, np.zeros((1, 4, 6)), rows(grid, 0)) == "the writer is interrupted: make another one"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("step", ["create_group", "rename", "second rename"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_an_interrupted_end_leaves_what_was_there(tmp_path, grid, monkeypatch, step, overwrite):
    out = tmp_path / "out"
    if overwrite:
        zarr.create_array(out, shape=(1,), chunks=(1,), dtype="u1")[:] = 77
    elif step == "second rename":
        pytest.skip("there is one only")
    writer = Writer(out, grid, overwrite=overwrite)
    fill(writer, grid)
    calls, rename = [], type(out).rename

    def interrupted(path, target):
        calls.append(path)
        if len(calls) == (2 if step == "second rename" else 1):
            raise KeyboardInterrupt
        return rename(path, target)

    def no_group(*_, **__):
        raise KeyboardInterrupt

    if step == "create_group":
        monkeypatch.setattr(zarr, "create_group", no_group)
        writer._output._ome = {}
    else:
        monkeypatch.setattr(type(out), "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer.close()
    monkeypatch.undo()
    assert os.listdir(tmp_path) == (["out"] if overwrite else [])
    if overwrite:
        assert zarr.open_array(out)[:].tolist() == [77]


def test_what_is_there_is_kept_or_replaced(tmp_path, grid):
    out = tmp_path / "out"
    zarr.create_array(out, shape=(1,), chunks=(1,), dtype="u1")[:] = 77
    assert message(Writer, out, grid) == f"{out} exists: choose another path, or say overwrite=True"
    with Writer(out, grid, overwrite=True) as writer:
        fill(writer, grid)
        assert zarr.open_array(out)[:].tolist() == [77]
    assert zarr.open_array(out).shape == (8, 16)
    assert os.listdir(tmp_path) == ["out"]


def test_folders_that_are_not_zarr_and_the_image_itself_are_never_replaced(tmp_path, grid):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("meow")
    (tmp_path / "file").write_text("text")
    for name in ("photos", "file"):
        assert message(Writer, tmp_path / name, grid, overwrite=True) == (
            f"{tmp_path / name} is not a zarr array or group, and is not replaced: choose another path"
        )
    write_image(tmp_path / "in.zarr", (8, 16, 16), chunks=(8, 8, 8), labels=True)
    of_image = SlidingGrid([tmp_path / "in.zarr" / "0"], (8, 8, 8))
    for path in (tmp_path / "in.zarr", tmp_path / "in.zarr" / "0"):
        assert message(Writer, path, of_image, overwrite=True) == (
            f"{path} holds the image that the windows are cut from: choose another path"
        )
    with Writer(tmp_path / "in.zarr" / "labels" / "mine", of_image, blend="crop") as writer:
        for k in range(len(of_image)):
            writer.add(np.ones((1, 8, 8, 8), "u1"), rows(of_image, k))
    assert damacy.open_image(tmp_path / "in.zarr").labels["mine"].scale == (1.0, 1.0, 1.0)


def test_an_output_that_another_program_made_meanwhile_is_kept(tmp_path, grid):
    writer = Writer(tmp_path / "out", grid)
    fill(writer, grid)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "theirs").write_text("")
    assert message(writer.close).startswith(f"{tmp_path / 'out'} was made by another program meanwhile")
    assert os.listdir(tmp_path) == ["out"]


def test_discarding(tmp_path, grid):
    with Writer(tmp_path / "out", grid) as writer:
        fill(writer, grid, 3)
        writer.discard()
    assert os.listdir(tmp_path) == []
    with Writer(tmp_path / "out", grid) as writer:
        fill(writer, grid)
        writer.close()
        writer.discard()  # no effect
    writer.close()
    assert os.listdir(tmp_path) == ["out"]


PROGRAM = """
    import os, sys
    import numpy as np
    import damacy
    from damacy.samplers import SlidingGrid
    from damacy.stitch import Writer
    grid = SlidingGrid({"a.zarr": (8, 16)}, (4, 6))
    writer = Writer(sys.argv[1], grid)
    for k in range(4):
        samples = (grid.sample(0, k),)
        writer.add(np.zeros((1, 4, 6)), damacy.BatchRows(samples=samples, epoch=0, indices=(k,), valid=(True,)))
    if sys.argv[2] == "fork":
        child = os.fork()
        if not child:
            sys.exit()  # runs the finalizers
        os.waitpid(child, 0)
        for k in range(4, len(grid)):
            samples = (grid.sample(0, k),)
            writer.add(np.zeros((1, 4, 6)), damacy.BatchRows(samples=samples, epoch=0, indices=(k,), valid=(True,)))
        writer.close()
    print("ready", flush=True)
    if sys.argv[2] == "wait":
        sys.stdin.read()
"""


def left_after(tmp_path, end):
    program = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path / "out"), end],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout.readline() == "ready\n"
    if end == "wait":
        program.send_signal(signal.SIGKILL)
    program.communicate()
    return os.listdir(tmp_path)


@pytest.mark.untraced
def test_a_program_that_ends_without_close_leaves_nothing(tmp_path):
    assert left_after(tmp_path, "exit") == []


@pytest.mark.untraced
def test_a_program_that_is_killed_leaves_a_hidden_folder_only(tmp_path):
    (name,) = left_after(tmp_path, "wait")
    assert name.startswith(".out.") and name.endswith(".partial")


@pytest.mark.untraced
def test_a_forked_process_that_exits_removes_nothing(tmp_path):
    assert left_after(tmp_path, "fork") == ["out"]
    assert zarr.open_array(tmp_path / "out").shape == (8, 16)
