"""`stitch.Writer`: what is stitched equals a reference in NumPy that holds the whole image."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import damacy
from damacy.samplers import SlidingGrid

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
    with Writer(path, grid, channels=channels, blend=blend, chunks=chunks) as writer:
        given = predictions if channels else [prediction[0] for prediction in predictions]
        add_all(writer, grid, given, valid=valid)
    expected = stitched(shape, windows_of(grid), predictions, blend, valid)
    found = zarr.open_array(path)[:]
    np.testing.assert_array_equal(found, expected if channels else expected[0])
    if writer._sums is not None:
        assert writer._sums.peak_bytes <= writer.needed_bytes
        assert not writer._sums._planes
