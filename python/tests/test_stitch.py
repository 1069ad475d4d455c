"""`stitch.Writer`: what is stitched equals a reference in NumPy that holds the whole image."""

import json
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import damacy
from damacy.samplers import SlidingGrid, split
from damacy.synthetic import write_image
from damacy.training import Loader

zarr = pytest.importorskip("zarr")
from damacy.stitch import Writer  # noqa: E402

ROWS = 3  # of a batch


class Rows(damacy.BatchRows):
    """Rows of a grid without a pipeline."""

    def __init__(self, grid, first, stop, *, valid=None):
        samples = tuple(grid.samples(0, first, stop))
        super().__init__(
            samples=samples, epoch=0, indices=tuple(range(first, stop)), valid=valid or (True,) * len(samples)
        )


def windows_of(grid):
    """The windows as slices, in grid order."""
    return [tuple(slice(*pair) for pair in box) for box in grid.boxes(0, 0, len(grid)).tolist()]


def add_all(writer, grid, predictions, *, valid=None):
    for first in range(0, len(grid), ROWS):
        stop = min(first + ROWS, len(grid))
        ok = None if valid is None else tuple(valid[first:stop])
        writer.add(np.stack(predictions[first:stop]), Rows(grid, first, stop, valid=ok))


# -- the reference


def monai_importance_map(extents, sigma_scale=0.125):
    """`compute_importance_map(mode="gaussian")` of MONAI 1.3, in f64: a product of exponentials, limited from below."""
    found = np.ones(())
    for extent in extents:
        x = np.arange(-(extent - 1) / 2, (extent - 1) / 2 + 1)
        found = found[..., None] * np.exp(x**2 / (-2 * (extent * sigma_scale) ** 2))
    return np.maximum(found, max(found.min(), 1e-3))


def weight_of(blend, extents, shape, sigma_scale=0.125):
    """Axes on which a window is as long as the array have no weights."""
    blended = [extent if extent < size else 1 for extent, size in zip(extents, shape)]
    if blend == "gaussian":
        found = np.ones([1] * len(extents))
        factors = [monai_importance_map([n], sigma_scale) if n > 1 else np.ones(1) for n in blended]
        if all(n > 1 for n in blended):
            found = monai_importance_map(extents, sigma_scale)
        else:
            for axis, extent in enumerate(blended):
                x = np.arange(extent) - (extent - 1) / 2
                line = np.exp(x**2 / (-2 * (extent * sigma_scale) ** 2))
                found = found * line.reshape([-1 if k == axis else 1 for k in range(len(extents))])
            found = np.maximum(found, max(found.min(), 1e-3))
        del factors
    else:
        found = np.ones([1] * len(extents))
        for axis, extent in enumerate(blended):
            line = np.sin(np.pi * (np.arange(extent) + 0.5) / extent) ** 2 if blend == "hann" else np.ones(extent)
            found = found * line.reshape([-1 if k == axis else 1 for k in range(len(extents))])
    return np.broadcast_to(found, extents).astype("f4")


def stitched(shape, boxes, predictions, blend, valid=None):
    """f32 sums over the whole image; predictions have channels in front."""
    channels = len(predictions[0])
    valid = valid or [True] * len(boxes)
    extents = predictions[0].shape[1:]
    if blend == "crop":
        out = np.full((channels, *shape), np.nan, predictions[0].dtype)
        nearest = np.full(shape, np.inf)
        for box, prediction, ok in zip(boxes, predictions, valid):
            if ok:
                far = sum(
                    np.square(at - (axis.start + axis.stop - 1) / 2.0) if n < size else 0.0 * at
                    for at, axis, n, size in zip(np.ogrid[box], box, extents, shape)
                )
                nearer = far < nearest[box]
                out[(slice(None), *box)][:, nearer] = prediction[:, nearer]
                nearest[box][nearer] = far[nearer]
        return out
    weight = weight_of(blend, extents, shape)
    sums, weights = np.zeros((channels, *shape), "f4"), np.zeros(shape, "f4")
    for box, prediction, ok in zip(boxes, predictions, valid):
        if ok:
            sums[(slice(None), *box)] += prediction.astype("f4") * weight
            weights[box] += weight
    with np.errstate(invalid="ignore"):
        return sums / weights


def test_the_reference_is_the_formula_of_monai():
    """Of a window of (2, 3): worked out by hand, f64."""
    lines = np.exp(-np.array([0.25]) / (2 * 0.25**2)), np.exp(-np.array([1, 0, 1]) / (2 * 0.375**2))
    by_hand = np.maximum(np.outer([lines[0][0]] * 2, lines[1]), 1e-3)
    np.testing.assert_allclose(monai_importance_map((2, 3)), by_hand, rtol=1e-15)


BLENDS = st.sampled_from(["constant", "gaussian", "hann", "crop"])


@st.composite
def grids(draw):
    """Shape, extents, strides."""
    axes = draw(st.integers(1, 3))
    shape = [draw(st.integers(1, 9)) for _ in range(axes)]
    extents = [draw(st.integers(1, size)) for size in shape]
    strides = [draw(st.integers(1, extent + draw(st.integers(0, 1)))) for extent in extents]
    return tuple(shape), tuple(extents), tuple(strides)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(grids(), BLENDS, st.sampled_from([None, 1, 2]), st.data())
def test_any_grid_is_stitched_as_the_reference(tmp_path_factory, of, blend, channels, data):
    shape, extents, strides = of
    grid = SlidingGrid({"a.zarr": shape}, extents, stride=strides)
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    predictions = [random.standard_normal((channels or 1, *extents), "f4") for _ in range(len(grid))]
    valid = [data.draw(st.sampled_from([True, True, True, False])) for _ in range(len(grid))]
    chunks = [data.draw(st.integers(1, 4)) for _ in range(len(shape) + (channels is not None))]
    path = tmp_path_factory.mktemp("any") / "out.zarr"
    options = {"channels": channels, "blend": blend, "chunks": chunks}
    for _ in range(data.draw(st.integers(0, 2))):  # less memory, by writing chunks several times
        try:
            options["max_bytes"] = Writer(path, grid, **options).needed_bytes - 1
            Writer(path, grid, **options)
        except ValueError:
            del options["max_bytes"]
    with Writer(path, grid, **options) as writer:
        given = predictions if channels else [prediction[0] for prediction in predictions]
        add_all(writer, grid, given, valid=valid)
    expected = stitched(shape, windows_of(grid), predictions, blend, valid)
    found = zarr.open_array(path)[:]
    np.testing.assert_array_equal(found, expected if channels else expected[0])
    if writer._sums is not None:
        assert writer._sums.peak_bytes <= writer.needed_bytes
        assert not writer._sums._planes


def test_progress_is_called_at_the_end_of_each_add(tmp_path):
    grid = SlidingGrid({"a.zarr": (20, 11)}, (4, 5), overlap=2)
    calls = []
    with Writer(tmp_path / "out.zarr", grid, progress=lambda *numbers: calls.append(numbers)) as writer:
        add_all(writer, grid, [np.ones((4, 5), "f4")] * len(grid))
    assert calls == [(min(first + ROWS, len(grid)), len(grid)) for first in range(0, len(grid), ROWS)]


def test_an_error_of_progress_discards_the_output(tmp_path):
    grid = SlidingGrid({"a.zarr": (20, 11)}, (4, 5), overlap=2)
    with pytest.raises(ZeroDivisionError):
        with Writer(tmp_path / "out.zarr", grid, progress=lambda done, _: 1 // (done - ROWS)) as writer:
            add_all(writer, grid, [np.ones((4, 5), "f4")] * len(grid))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("blend", ["constant", "crop"])
@pytest.mark.parametrize("dtype", ["u1", "i2", "u4", "f2", "f4", "f8"])
def test_the_identity_of_exact_numbers_gives_the_image_back(tmp_path, blend, dtype):
    image = np.random.default_rng(1).integers(0, 100, (7, 20, 11)).astype(dtype)
    grid = SlidingGrid({"a.zarr": image.shape}, (3, 8, 5), overlap=(1, 5, 2))
    with Writer(tmp_path / "out.zarr", grid, blend=blend, dtype=image.dtype) as writer:
        add_all(writer, grid, [image[box] for box in windows_of(grid)])
    found = zarr.open_array(tmp_path / "out.zarr")
    assert found.dtype == image.dtype
    assert (found[:] == image).all()


@pytest.mark.parametrize("dtype", ["u1", "i8", "u8", "f8", "?"])
def test_crop_gives_every_label_back_in_the_type_of_the_prediction(tmp_path, dtype):
    """Also those that f32 cannot hold."""
    kind = np.dtype(dtype)
    raw = np.random.default_rng(2).integers(0, 256, (9, 14, kind.itemsize), dtype="u1")
    image = raw.view(kind)[..., 0] if dtype != "?" else raw[..., 0] > 128
    grid = SlidingGrid({"a.zarr": image.shape}, (4, 5), overlap=2)
    with Writer(tmp_path / "out.zarr", grid, blend="crop") as writer:
        add_all(writer, grid, [image[box] for box in windows_of(grid)])
    found = zarr.open_array(tmp_path / "out.zarr")
    assert found.dtype == kind
    assert found[:].tobytes() == image.tobytes()


@pytest.mark.parametrize(
    "given, dtype, expected",
    [([300.0, -2.0, 1.5], "u1", [255, 0, 2]), ([3e9, -3e9, 2.5], "i4", [2**31 - 1, -(2**31), 2])],
)
def test_means_are_rounded_and_limited_to_integers(tmp_path, given, dtype, expected):
    grid = SlidingGrid({"a.zarr": (3,)}, (3,))
    with Writer(tmp_path / "out", grid, dtype=np.dtype(dtype), blend="constant") as writer:
        writer.add(np.array([given]), Rows(grid, 0, 1))
    assert zarr.open_array(tmp_path / "out")[:].tolist() == expected


def test_voxels_that_no_window_reaches_are_nan_or_zero(tmp_path):
    for dtype, nothing in (("f4", np.nan), ("u1", 0)):
        grid = SlidingGrid({"a.zarr": (10,)}, (2,), stride=4)
        with Writer(tmp_path / dtype, grid, dtype=np.dtype(dtype)) as writer:
            add_all(writer, grid, [np.full(2, 7.0)] * len(grid))
        np.testing.assert_array_equal(zarr.open_array(tmp_path / dtype)[:], [7, 7] + ([nothing] * 2 + [7, 7]) * 2)


def test_sigma_scale_of_each_axis(tmp_path):
    grid = SlidingGrid({"a.zarr": (6, 6)}, (4, 4), stride=2)
    random = np.random.default_rng(0)
    predictions = [random.random((4, 4), "f4") for _ in range(len(grid))]
    with Writer(tmp_path / "out", grid, sigma_scale=(0.2, 0.4)) as writer:
        add_all(writer, grid, predictions)
    lines = [np.exp(-(np.array([1.5, 0.5, 0.5, 1.5]) ** 2) / (2 * (4 * s) ** 2)) for s in (0.2, 0.4)]
    weight = np.outer(*lines)
    sums, weights = np.zeros((6, 6)), np.zeros((6, 6))
    for box, prediction in zip(windows_of(grid), predictions):
        sums[box] += prediction * weight
        weights[box] += weight
    np.testing.assert_allclose(zarr.open_array(tmp_path / "out")[:], sums / weights, rtol=1e-6)


# -- images and loaders


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """OME-Zarr: u16, two levels, (16, 48, 40) and (16, 24, 20)."""
    path = tmp_path_factory.mktemp("image") / "blobs.zarr"
    write_image(path, (16, 48, 40), chunks=(8, 16, 16), blobs=30, labels=True)
    return path


def run(grid, out, model=lambda x: x, *, config=None, tail="short", **options):
    """Stitches a model of NumPy arrays."""
    config = config or damacy.Config(batch_size=3, device="cpu")
    with Loader(grid, config, tail=tail) as loader, Writer(out, grid, **options) as writer:
        for batch in loader:
            with batch as b:
                writer.add(model(b.numpy()), b)
    return writer


@pytest.mark.parametrize("tail", ["short", "pad"])
@pytest.mark.parametrize("blend", ["constant", "crop"])
@pytest.mark.parametrize("level", [0, 1])
def test_an_image_through_a_loader_comes_back_as_an_image(image, tmp_path, tail, blend, level):
    source = damacy.open_image(image).level(level)
    grid = SlidingGrid([source], {"z": 8, "y": 12, "x": 20}, overlap=(4, 4, 9))
    run(grid, tmp_path / "out.zarr", tail=tail, blend=blend)
    found = damacy.open_image(tmp_path / "out.zarr")
    assert (found.read() == source.read()).all()
    assert found.problems == ()
    assert (found.version, found.name, found.levels) == ("0.5", "out", ("0",))
    assert (found.dims, found.scale, found.chunks) == (("z", "y", "x"), source.scale, source.chunks)
    assert [axis.type for axis in found.axes] == ["space"] * 3


def test_the_uri_of_an_image_stands_for_its_level_0(image, tmp_path):
    run(SlidingGrid([str(image)], (8, 24, 20)), tmp_path / "out.zarr")
    assert damacy.open_image(tmp_path / "out.zarr").scale == (1.0, 1.0, 1.0)


@pytest.fixture
def movie(tmp_path):
    """OME-Zarr of axes t, c, z, y, x, with units, scale and translation."""
    values = np.random.default_rng(3).integers(0, 500, (3, 2, 4, 16, 12)).astype("u2")
    group = zarr.create_group(tmp_path / "movie.zarr", zarr_format=3)
    group.create_array("s0", shape=values.shape, chunks=(1, 1, 2, 8, 8), dtype="u2")[:] = values
    axes = [{"name": "t", "type": "time", "unit": "second"}, {"name": "c", "type": "channel"}]
    axes += [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
    placed = [
        {"type": "scale", "scale": [30.0, 1.0, 0.5, 0.1, 0.2]},
        {"type": "translation", "translation": [0.0, 0.0, 7.0, 1.0, 2.0]},
    ]
    levels = [{"path": "s0", "coordinateTransformations": placed}]
    group.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": levels}]}
    return tmp_path / "movie.zarr", values


def test_channels_of_predictions_take_the_place_of_the_images(movie, tmp_path):
    path, values = movie
    grid = SlidingGrid([path], {"t": 1, "z": 2, "y": 8, "x": 6}, overlap=(0, 0, 4, 0))
    assert grid.sample(0, 0).aabb[1] == (0, 2)

    def sums_and_more(x):  # rows, t, c, z, y, x; channels in front
        return np.stack([x.sum(axis=2), x[:, :, 0], x[:, :, 1]], axis=1)

    run(grid, tmp_path / "out.zarr", sums_and_more, channels=3, blend="constant", dtype="u16")
    found = damacy.open_image(tmp_path / "out.zarr")
    assert found.problems == ()
    expected = np.stack([values.sum(axis=1), values[:, 0], values[:, 1]], axis=1)
    assert (found.read() == expected).all()
    source = damacy.open_image(path)
    for name in ("dims", "units", "scale", "translation"):
        assert getattr(found, name) == getattr(source, name)
    assert [(axis.type, axis.unit) for axis in found.axes][:3] == [
        ("time", "second"), ("channel", None), ("space", "micrometer"),
    ]  # fmt: skip
    assert found.chunks == (1, 1, 2, 8, 8)


def test_without_channels_predictions_have_the_axes_of_a_window(movie, tmp_path):
    path, values = movie
    run(SlidingGrid([path], {"z": 2, "y": 8}, overlap=(1, 3)), tmp_path / "out.zarr", blend="constant")
    assert (damacy.open_image(tmp_path / "out.zarr").read() == values).all()


def test_axes_of_one_element_may_be_missing_or_added(movie, tmp_path):
    path, values = movie
    grid = SlidingGrid([path], {"t": 1, "y": 8, "x": 6})
    run(grid, tmp_path / "a.zarr", lambda x: x[:, 0, :1], channels=1, blend="constant")  # (rows, c, z, y, x)
    run(grid, tmp_path / "b.zarr", lambda x: x[:, 0, 0], channels=1, blend="constant")
    for name in "ab":
        assert (damacy.open_image(tmp_path / f"{name}.zarr").read()[:, 0] == values[:, 0]).all()


def test_channels_of_an_image_without_axis_names_are_those_that_the_grid_leaves_whole(tmp_path):
    values = np.random.default_rng(3).random((2, 9, 9), "f4")
    zarr.create_array(tmp_path / "in", shape=values.shape, chunks=(1, 4, 4), dtype="f4")[:] = values
    grid = SlidingGrid({"image": [tmp_path / "in"]}, (5, 5), overlap=1)
    with Loader(grid, damacy.Config(batch_size=2, device="cpu"), tail="short") as loader:
        with Writer(tmp_path / "out", grid, channels=1, blend="crop") as writer:
            for batch in loader:
                with batch as b:
                    writer.add(b["image"].numpy()[:, :1], b)
    found = damacy.open_array(tmp_path / "out")
    assert found.dims == (None,) * 3
    assert (found.read() == values[:1]).all()


def test_an_array_with_axis_names_gives_one_with_these_names(tmp_path):
    values = np.arange(60, dtype="f4").reshape(6, 10)
    names = ("latitude", "longitude")
    zarr.create_array(tmp_path / "in", shape=(6, 10), chunks=(3, 5), dtype="f4", dimension_names=names)[:] = values
    grid = SlidingGrid([tmp_path / "in"], {"longitude": 4}, overlap=1)
    run(grid, tmp_path / "out", lambda x: np.stack([x, -x], axis=1), channels=2, blend="crop")
    found = damacy.open_array(tmp_path / "out")
    assert found.dims == ("c", *names)
    assert (found.read() == [values, -values]).all()


def test_predictions_lie_on_the_array_that_name_says(image, tmp_path):
    """The label has as many voxels as level 0, the image is level 1."""
    opened = damacy.open_image(image)
    label = zarr.open_array(image / "labels/blobs")
    arrays = {"image": opened.level(1), "label": opened.level(0)}
    grid = SlidingGrid(arrays, {"z": 8, "y": 12, "x": 10}, overlap=(0, 4, 0))
    config = damacy.Config(batch_size=4, device="cpu")
    for name, level in ((None, 1), ("image", 1), ("label", 0)):
        out = tmp_path / f"{name}.zarr"
        with Loader(grid, config, tail="short") as loader, Writer(out, grid, name=name, blend="constant") as writer:
            for batch in loader:
                with batch as b:
                    writer.add(b[name or "image"], b)
        assert (damacy.open_image(out).read() == opened.level(level).read()).all()
        assert damacy.open_image(out).scale == opened.level(level).scale
    assert label.shape == opened.shape
    with pytest.raises(ValueError) as error:
        Writer(tmp_path / "x", grid, name="lable")
    assert str(error.value) == "name: no array 'lable'; the grid has 'image', 'label'"


def test_the_blocks_of_one_side_of_a_split_are_stitched(image, tmp_path):
    sides = split([image], {"a": 0.5, "b": 0.5}, by="chunk", extents=(8, 16, 16), seed=1)
    values = damacy.open_image(image).read()
    covered = np.zeros(values.shape, int)
    for side in "ab":
        grid = SlidingGrid([image], (8, 12, 16), within=sides[side], overlap=(0, 8, 0))
        run(grid, tmp_path / side, blend="crop")
        found = damacy.open_image(tmp_path / side).read()
        reached = ~np.isnan(found)
        assert (found[reached] == values[reached]).all()
        covered += reached
    assert covered.max() == 1 and covered.mean() > 0.5


def test_rows_that_are_not_valid_are_left_out(image, tmp_path):
    path = tmp_path / "damaged.zarr"
    shutil.copytree(image, path)
    (path / "0/c/0/0/0").write_bytes(b"damaged")
    config = damacy.Config(batch_size=3, device="cpu", on_error="fill")
    grid = SlidingGrid([path], (8, 16, 16), overlap=(0, 8, 0))
    run(grid, tmp_path / "out.zarr", config=config, tail="pad", blend="constant")
    found, values = damacy.open_image(tmp_path / "out.zarr").read(), damacy.open_image(image).read()
    # Windows of rows 0:16 and 8:24 are of the damaged chunk; rows from 16 are also of the window 16:32.
    assert np.isnan(found[:8, :16, :16]).all()
    found[:8, :16, :16] = values[:8, :16, :16]
    assert (found == values).all()


def test_output_in_shards_and_chunks_of_its_own(image, tmp_path):
    grid = SlidingGrid([image], (6, 20, 20), overlap=(3, 10, 4))
    writer = run(grid, tmp_path / "out.zarr", chunks=(2, 8, 8), shards=(4, 16, 16), dtype="f16", blend="crop")
    array = zarr.open_group(tmp_path / "out.zarr")["0"]
    assert (array.chunks, array.shards, array.dtype) == ((2, 8, 8), (4, 16, 16), np.float16)
    assert (array[:] == damacy.open_image(image).read()).all()
    assert repr(writer).endswith("out.zarr': 60 of 60 windows, closed>")


# -- predictions of other libraries


class OnlyDlpack:
    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def of_library(name, **members):
    return type("Tensor", (), members | {"__module__": name})


class Torch(of_library("torch")):
    """A tensor of torch, with a gradient."""

    def __init__(self, array, dtype="torch.float32"):
        self.array, self.dtype = array, dtype

    def __array__(self, *_, **__):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    def detach(self):
        return self

    def cpu(self):
        return self

    def float(self):
        return Torch(self.array)

    def numpy(self):
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.array


class Jax(of_library("jaxlib.xla")):
    def __init__(self, array):
        self.array = array

    def __array__(self, *_, **__):
        return self.array


class Cupy(of_library("cupy")):
    def __init__(self, array):
        self.array = array

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def get(self):
        return self.array


def bfloat16(array):
    return array.astype(pytest.importorskip("ml_dtypes").bfloat16)


@pytest.mark.parametrize(
    "convert",
    [
        lambda a: a[:, ::-1].copy()[:, ::-1],
        OnlyDlpack,
        Torch,
        lambda a: Torch(a, "torch.bfloat16"),
        Jax,
        Cupy,
        bfloat16,
        lambda a: a.astype("i8"),
        lambda a: damacy.asarray(a, device="cpu"),
    ],
    ids=["strided", "dlpack", "torch", "torch-bf16", "jax", "cupy", "bf16", "i64", "DeviceArray"],
)
def test_predictions_of_any_library(tmp_path, convert):
    grid = SlidingGrid({"a.zarr": (8, 9)}, (4, 5), overlap=2)
    image = np.arange(72, dtype="f4").reshape(8, 9)
    with Writer(tmp_path / "out", grid, blend="constant") as writer:
        for k, box in enumerate(windows_of(grid)):
            writer.add(convert(image[None][(slice(None), *box)].copy()), Rows(grid, k, k + 1))
    assert (zarr.open_array(tmp_path / "out")[:] == image).all()


def test_a_batch_itself_may_be_the_prediction_and_rows_be_of_a_released_batch(image, tmp_path):
    grid = SlidingGrid([image], (8, 24, 20))
    with Loader(grid, damacy.Config(batch_size=3, device="cpu"), tail="short") as loader:
        with Writer(tmp_path / "a", grid, blend="crop") as one, Writer(tmp_path / "b", grid, blend="crop") as two:
            for batch in loader:
                one.add(batch, batch)
                copy = batch.numpy().copy()
                batch.release()
                two.add(copy, batch)
    for name in "ab":
        assert (damacy.open_image(tmp_path / name).read() == damacy.open_image(image).read()).all()


# -- labels of an image ------------------------------------------------------------------------------------------------


def ngff_image(path, version, labels=None):
    """An OME-Zarr image of 8 x 8 voxels, with a list of labels if there are any."""
    axes = [{"name": axis, "type": "space"} for axis in "yx"]
    dataset = {"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1.0, 1.0]}]}
    image = {"multiscales": [{"version": version, "axes": axes, "datasets": [dataset]}]}
    listed = {} if labels is None else {"labels": labels}
    is_3 = version == "0.5"
    zarr_format = 3 if is_3 else 2
    group = zarr.create_group(
        path, zarr_format=zarr_format, attributes={"ome": {"version": "0.5", **image}} if is_3 else image
    )
    group.create_array("0", shape=(8, 8), chunks=(4, 4), dtype="u2")[:] = 7
    if labels is not None:
        attributes = {"ome": {"version": "0.5", **listed}} if is_3 else listed
        zarr.create_group(path / "labels", zarr_format=zarr_format, attributes=attributes)
    return path


def listed(path, version):
    document = json.loads((path / "labels" / ("zarr.json" if version == "0.5" else ".zattrs")).read_text())
    return (document["attributes"]["ome"] if version == "0.5" else document)["labels"]


def write_label(image, name, dtype="u8", **more):
    grid = SlidingGrid([image], (4, 8))
    with Writer(image / "labels" / name, grid, blend="crop", dtype=dtype, **more) as writer:
        for batch in Loader(grid, damacy.Config(batch_size=1, device="cpu", dtype="u8")):
            with batch as lent:
                writer.add(lent.numpy(), lent)


@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize("labels", [None, [], ["cells"]])
def test_a_label_is_listed_in_its_image(tmp_path, version, labels):
    image = ngff_image(tmp_path / "image.zarr", version, labels)
    for name, more in (("nuclei", {}), ("nuclei", {"overwrite": True}), ("other", {})):
        write_label(image, name, **more)
    assert listed(image, version) == [*(labels or []), "nuclei", "other"]
    ome = json.loads((image / "labels" / "nuclei" / "zarr.json").read_text())["attributes"]["ome"]
    assert ome["image-label"]["source"] == {"image": "../../"}
    assert (damacy.open_image(image / "labels" / "nuclei").read() == 7).all()
    assert zarr.open_group(image / "labels", mode="r", zarr_format=3 if version == "0.5" else 2).attrs
    assert not list((image / "labels").glob(".*.partial"))


def test_only_labels_of_images_are_listed(tmp_path):
    image = ngff_image(tmp_path / "image.zarr", "0.5", ["cells"])
    write_label(image, "scores", dtype="f32")  # no label: NGFF wants integers
    assert listed(image, "0.5") == ["cells"]
    (image / "labels" / "zarr.json").write_text("[1")
    with pytest.raises(ValueError, match=r"zarr.json is no JSON: the label is written, and not listed"):
        write_label(image, "nuclei")
    assert (damacy.open_image(image / "labels" / "nuclei").read() == 7).all()
