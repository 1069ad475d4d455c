"""`Windows`: which times there are, what a sample has of each name, and that shared chunks are decoded once."""

import collections
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import damacy
from damacy.samplers import Indexed, Windows, split
from damacy.training import Loader

zarr = pytest.importorskip("zarr")
STEPS, LATITUDES, LONGITUDES = 48, 6, 10


@pytest.fixture(scope="module")
def era5(tmp_path_factory):
    """Variables t2m and u10, of (time, latitude, longitude), in chunks of four hours; and pressure, with levels."""
    path = tmp_path_factory.mktemp("windows") / "era5.zarr"
    group = zarr.create_group(path)
    dims = ("time", "latitude", "longitude")
    values = np.arange(STEPS * LATITUDES * LONGITUDES, dtype="f4").reshape(STEPS, LATITUDES, LONGITUDES)
    for number, name in enumerate(("t2m", "u10")):
        array = group.create_array(
            name, shape=values.shape, chunks=(4, LATITUDES, LONGITUDES), dtype="f4", dimension_names=dims
        )
        array[:] = values + 100_000 * number
    land = np.arange(LATITUDES * LONGITUDES, dtype="u1").reshape(LATITUDES, LONGITUDES)
    group.create_array("lsm", data=land, chunks=(4, 4), dimension_names=dims[1:])
    group.create_array("narrow", data=land[:, 1:], dimension_names=dims[1:])
    group.create_array("mask", shape=(STEPS,), chunks=(8,), dtype="u1", dimension_names=dims[:1])
    group.create_array(
        "z", shape=(3, STEPS, LATITUDES, LONGITUDES), chunks=(1, 4, 6, 10), dtype="f4", dimension_names=("level", *dims)
    )
    group.create_array("short", shape=(STEPS - 1, 6, 10), chunks=(4, 6, 10), dtype="f4", dimension_names=dims)
    group.create_array("plain", shape=(STEPS, 6, 10), chunks=(4, 6, 10), dtype="f4")
    for size in range(1, 13):
        group.create_array(f"of{size}", shape=(size,), chunks=(4,), dtype="f4", dimension_names=dims[:1])
    return str(path)


def times(sampler, name="x", first=0):
    """The t of each sample of the first epoch, from the box of a name whose first offset is given."""
    return [sample.arrays[name][0][1][0][0] - first for sample in sampler.samples(0, 0, len(sampler))]


def spans(low, high):
    return st.integers(low, high).flatmap(lambda first: st.tuples(st.just(first), st.integers(first + 1, high + 1)))


@settings(deadline=None)
@given(
    st.data(), st.integers(1, 12), st.lists(spans(-5, 7), min_size=1, max_size=3), st.integers(1, 4), st.integers(1, 3)
)
def test_each_time_with_all_offsets_is_one_sample(era5, data, size, offsets, stride, step):
    within = data.draw(st.none() | spans(0, size - 1))
    low, high = within or (0, size)
    arrays = {f"n{k}": (f"{era5}/of{size}", pair) for k, pair in enumerate(offsets)}
    steps = [[k * step for k in range(first, stop)] for first, stop in offsets]
    every = [t for t in range(size) if all(low <= t + k < high for of_name in steps for k in of_name)]
    seed = data.draw(st.none() | st.integers())
    if not every:
        with pytest.raises(ValueError, match="^no window of offsets "):
            Windows(arrays, stride=stride, step=step, within=within, seed=seed)
        return
    windows = Windows(arrays, stride=stride, step=step, within=within, seed=seed)
    found = times(windows, "n0", steps[0][0])
    assert (sorted(found) if seed is not None else found) == every[::stride]
    for sample, t in zip(windows.samples(0, 0, len(windows)), found):
        for k, of_name in enumerate(steps):
            ((uri, (axis,)),) = sample.arrays[f"n{k}"]
            indices = list(axis if isinstance(axis, range) else range(*axis))
            assert (uri, indices) == (f"{era5}/of{size}", [t + offset for offset in of_name])
            assert isinstance(axis, range) == (step > 1 and len(of_name) > 1)


def test_samples_are_those_of_one_at_a_time(era5):
    arrays = {"x": ((era5, ["t2m", "u10"]), (-3, 1)), "y": (f"{era5}/t2m", (6, 7))}
    for windows in (
        Windows(arrays),
        Windows(arrays, seed=-(1 << 70), extents={"longitude": 4}, length=100),
        Indexed(Windows(arrays, seed=3), [4, 4, 0]),
    ):
        one_by_one = [windows.sample(3, k) for k in range(len(windows))]
        assert windows.samples(3, 0, len(windows)) == one_by_one
        assert [sample.row_key for sample in windows.samples(3, 1, 3)] == [(3, 1), (3, 2)]
        again = pickle.loads(pickle.dumps(windows))
        assert again.samples(3, 0, len(windows)) == one_by_one and repr(again) == repr(windows)


def test_groups_and_lists_are_stacks(era5):
    whole = ((0, LATITUDES), (0, LONGITUDES))
    by_group = Windows({"x": ((era5, ["t2m", "u10"]), (-3, 1)), "y": ((era5, ["t2m"]), (6, 7))})
    by_list = Windows({"x": ([f"{era5}/t2m", f"{era5}/u10"], (-3, 1)), "y": ([f"{era5}/t2m"], (6, 7))})
    sample = by_group.sample(0, 2)
    assert (
        sample
        == by_list.sample(0, 2)
        == damacy.Sample(
            {
                "x": [(f"{era5}/t2m", [(2, 6), *whole]), (f"{era5}/u10", [(2, 6), *whole])],
                "y": [(f"{era5}/t2m", [(11, 12), *whole])],
            }
        )
    )
    alone = Windows({"y": (f"{era5}/t2m", (6, 7))}).sample(0, 0)
    assert alone == damacy.Sample({"y": (f"{era5}/t2m", [(6, 7), *whole])})
    opened = Windows({"y": (damacy.open(f"{era5}/t2m"), (6, 7))}, dim=0)
    assert opened.sample(0, 0) == alone


def test_epochs_have_orders_of_their_own_and_length_repeats(era5):
    arrays = {"x": (f"{era5}/t2m", (0, 1))}
    shuffled = Windows(arrays, seed=1)
    orders = [[sample.aabb[0][0] for sample in shuffled.samples(epoch, 0, 48)] for epoch in range(3)]
    assert all(sorted(order) == list(range(48)) for order in orders) and orders[0] != orders[1] != orders[2]
    assert times(Windows(arrays, length=5)) == [0, 1, 2, 3, 4]
    assert times(Windows(arrays, length=100)) == [k % 48 for k in range(100)]
    assert times(Windows(arrays, seed=1, length=10)) == orders[0][:10]
    with pytest.raises(IndexError):
        shuffled.samples(0, 40, 49)


def test_the_draws_of_windows_are_frozen(era5):
    """The boxes were computed by the release that introduced `Windows`; they must not change."""
    windows = Windows({"x": (f"{era5}/t2m", (0, 2))}, seed=7, extents=(3, 4), stream=2)
    assert windows.stream == 2
    assert windows.boxes(2, 0, 6).tolist() == FROZEN


def test_stream_3_differs_in_the_order_only(era5):
    arrays = {"x": (f"{era5}/t2m", (0, 2))}
    by_default, before = Windows(arrays, seed=7, extents=(3, 4)), Windows(arrays, seed=7, extents=(3, 4), stream=2)
    assert by_default.stream == 3
    boxes, former = by_default.boxes(2, 0, 47), before.boxes(2, 0, 47)
    assert (boxes[:, 1:] == former[:, 1:]).all() and (boxes[:, 0] != former[:, 0]).any()
    assert sorted(boxes[:, 0, 0]) == sorted(former[:, 0, 0]) == list(range(47))
    assert Windows(arrays).stream == Windows(arrays, stream=2).stream == 2  # in order: older states fit
    with pytest.raises(ValueError, match=r"^stream must be 2 or 3 \(got 1\)$"):
        Windows(arrays, stream=1)


FROZEN = [
    [[7, 9], [1, 4], [2, 6]],
    [[2, 4], [1, 4], [2, 6]],
    [[17, 19], [1, 4], [4, 8]],
    [[16, 18], [3, 6], [5, 9]],
    [[23, 25], [2, 5], [4, 8]],
    [[36, 38], [2, 5], [0, 4]],
]


def test_crops_are_even_and_common_to_all_names(era5):
    arrays = {"x": (f"{era5}/t2m", (0, 1)), "z": (f"{era5}/z", (1, 2)), "m": (f"{era5}/mask", (0, 1))}
    windows = Windows(arrays, extents={"longitude": 7, "latitude": 4}, length=6000, seed=1)
    places = collections.Counter()
    for sample in windows.samples(0, 0, 6000):
        (_, (time, y, x)), (_, of_z), (_, of_mask) = (sample.arrays[name][0] for name in "xzm")
        assert of_z == ((0, 3), (time[0] + 1, time[1] + 1), y, x) and of_mask == (time,)
        assert (y[1] - y[0], x[1] - x[0]) == (4, 7)
        places[y[0], x[0]] += 1
    assert len(places) == 3 * 4 and all(abs(count - 500) < 5 * 500**0.5 for count in places.values())
    boxes = windows.boxes(0, 0, 50)
    assert [tuple(map(tuple, box)) for box in boxes.tolist()] == [s.aabb for s in windows.samples(0, 0, 50)]


def test_times_are_the_coordinates_of_t(tmp_path):
    group = zarr.create_group(tmp_path / "a.zarr")
    names = {"dimension_names": ("x", "time")}
    group.create_array("v", shape=(3, 20), chunks=(3, 4), dtype="f4", **names)
    hours = group.create_array("time", shape=(20,), chunks=(7,), dtype="i8", dimension_names=("time",))
    hours[:] = np.arange(20) * 6
    uri = str(tmp_path / "a.zarr")
    windows = Windows({"y": (f"{uri}/v", (2, 3)), "x": (f"{uri}/v", (-3, 1))}, seed=4)
    found = [sample.arrays["x"][0][1][1][0] + 3 for sample in windows.samples(0, 0, 15)]
    assert windows.times(windows.samples(0, 0, 15)).tolist() == [6 * t for t in found] and len(set(found)) == 15
    assert windows.times([]).shape == (0,)
    hours.attrs.update({"units": "hours since 2000-01-01", "calendar": "standard"})
    dated = Windows({"x": (f"{uri}/v", (-3, 1))}, dim=-1)
    dates = dated.times(dated.samples(0, 0, 2))
    assert dates.dtype.kind == "M" and dates.astype("datetime64[h]").astype(str).tolist() == [
        "2000-01-01T18",
        "2000-01-02T00",
    ]
    dates_of = {"dimension_names": ("x",), "attributes": {"units": "days since 2000-01-01"}}
    group.create_array("dates", shape=(3,), chunks=(3,), dtype="i8", **dates_of)[:] = [1, 2, 3]
    by_another_name = Windows({"x": (f"{uri}/v", (0, 1))}, dim="x")
    assert by_another_name.times(by_another_name.samples(0, 1, 2)).astype("datetime64[D]").astype(str) == ["2000-01-03"]
    group.create_array("days", shape=(3,), chunks=(3,), dtype="i8", **dates_of)  # either could be meant
    group.create_array("plain", shape=(20,), chunks=(4,), dtype="f4")
    unnamed = Windows({"x": (f"{uri}/plain", (0, 1))}, dim=0)
    with pytest.raises(ValueError, match="^times: axis 0 has no name, so no array has its coordinates$"):
        unnamed.times([])
    alone = Windows({"x": (f"{uri}/v", (0, 1))}, dim="x")
    with pytest.raises(damacy.NotFound):
        alone.times(alone.samples(0, 0, 1))


def test_windows_in_steps_have_their_times_and_elements(era5):
    windows = Windows({"x": (f"{era5}/t2m", (-2, 1)), "y": (f"{era5}/t2m", (1, 2))}, step=6, seed=2)
    elements = zarr.open_array(f"{era5}/t2m")[:]
    seen = []
    for batch in Loader(windows, damacy.Config(batch_size=4, device="cpu"), tail="short"):
        with batch as b:
            for row, sample in enumerate(b.samples):
                t = sample.arrays["y"][0][1][0][0] - 6
                assert np.array_equal(b["x"].numpy()[row], elements[t - 12 : t + 1 : 6])
                assert np.array_equal(b["y"].numpy()[row], elements[t + 6 : t + 7])
                seen.append(t)
    assert sorted(seen) == list(range(12, STEPS - 6))


def test_sides_of_a_split_have_no_step_in_common(era5):
    sides = split([f"{era5}/t2m"], {"train": 0.75, "val": 0.25}, by="chunk", block={"time": 8}, seed=1)
    arrays = {"x": ((era5, ["t2m"]), (-2, 1)), "y": (f"{era5}/u10", (1, 3))}
    steps = {}
    for side, within in sides.items():
        windows = Windows(arrays, within=within)
        blocks = within.blocks(f"{era5}/t2m")[:, 0].tolist()
        assert len(windows) == sum(8 - 4 for _ in blocks)
        found = times(windows, "x", -2)
        assert found == [t for low, high in blocks for t in range(low + 2, high - 2)]
        steps[side] = {step for t in found for step in range(t - 2, t + 3)}
    assert not steps["train"] & steps["val"]
    by_stride = Windows(arrays, within=sides["val"], stride=3)
    blocks = sides["val"].blocks(f"{era5}/t2m")[:, 0].tolist()
    assert times(by_stride, "x", -2) == [t for low, _ in blocks for t in (low + 2, low + 5)]


def test_a_loader_delivers_windows_and_decodes_each_chunk_once(era5):
    """A chunk that x and y both want, and that several windows of a batch want, is decoded once."""
    arrays = {"x": ((era5, ["t2m", "u10"]), (-3, 1)), "y": (f"{era5}/t2m", (2, 3))}
    windows = Windows(arrays, length=42)
    fields = {"host_buffer_bytes": 1 << 20, "device_buffer_bytes": 1 << 20, "device": "cpu", "n_batches": 2}
    values = np.arange(STEPS * LATITUDES * LONGITUDES, dtype="f4").reshape(STEPS, LATITUDES, LONGITUDES)
    with Loader(windows, damacy.Config(batch_size=len(windows), **fields), restart=True) as loader:
        for batch in loader:
            with batch as lent:
                x, y = lent["x"].numpy(), lent["y"].numpy()
                assert x.shape == (42, 2, 4, LATITUDES, LONGITUDES) and y.shape == (42, 1, LATITUDES, LONGITUDES)
                for row, t in enumerate(times(windows, "x", -3)):
                    assert (x[row] == np.stack([values[t - 3 : t + 1], values[t - 3 : t + 1] + 100_000])).all()
                    assert (y[row] == values[t + 2 : t + 3]).all()
    with damacy.Pipeline(damacy.Config(batch_size=1, **fields)) as pipeline:
        pipeline.push([windows.sample(0, 1)])  # t = 4: x has steps 1 to 4, y has step 6
        with pipeline.pop():
            stats = pipeline.stats()
    assert stats.chunks_decoded == 2 * 2  # chunks 0 and 1 of both variables; y is in chunk 1 of t2m
    assert stats.chunks_deduplicated == 1


X, T2M = {"x": ("t2m", (0, 1))}, "t2m"


@pytest.mark.parametrize(
    ("arrays", "arguments", "kind", "text"),
    [
        ({}, {}, ValueError, "arrays must name at least one array"),
        ([T2M], {}, TypeError, "arrays must be a mapping from name to (source, (first, stop)) (got list)"),
        ({"x": T2M}, {}, TypeError, "arrays['x']: expected (source, (first, stop)) (got "),
        ({"x": (T2M, (1, 1))}, {}, ValueError, "arrays['x']: offsets must have first < stop (got 1 and 1)"),
        ({"x": (T2M, (0, 1.5))}, {}, TypeError, "arrays['x']: stop must be an integer (got float)"),
        ({3: (T2M, (0, 1))}, {}, TypeError, "array names must be str (got int)"),
        ({"x": ([], (0, 1))}, {}, ValueError, "arrays['x']: no arrays"),
        ({"x": (T2M, (0, 49))}, {}, ValueError, "no window of offsets (0, 49) has room on axis 'time' of 48 elements"),
        ({"x": ("plain", (0, 1))}, {}, ValueError, "dim: no axis 'time'; "),
        ({**X, "s": ("lsm", (0, 1))}, {}, ValueError, "lsm has 'latitude', 'longitude': say (source, None) for arrays"),
        ({**X, "s": ("u10", None)}, {}, ValueError, "u10 has the axis 'time': give (source, (first, stop))"),
        ({"s": ("lsm", None)}, {}, ValueError, "arrays: at least one name needs offsets (first, stop)"),
        ({**X, "s": (["lsm", "narrow"], None)}, {}, ValueError, "part 1 has extents (6, 9), part 0 (6, 10)"),
        ({**X, "s": ("narrow", None)}, {"extents": (3, 3)}, ValueError, "narrow: axis 1 has 9 elements, axis 2 of"),
        ({"x": ("plain", (0, 1))}, {"dim": 3}, ValueError, "dim: no axis 3; "),
        ({**X, "y": ("short", (0, 1))}, {}, ValueError, "axis 0 has 47 elements, axis 0 of"),
        ({"x": ([T2M, "mask"], (0, 1))}, {}, ValueError, "arrays['x']: part 1 has extents (1,), part 0 (1, 6, 10)"),
        (X, {"extents": {"time": 3}}, ValueError, "extents: the axis 'time' is dim"),
        (X, {"extents": {"q": 3}}, ValueError, "extents: no axis 'q'; "),
        (X, {"extents": (7, 3)}, ValueError, "axis 1 has 6 elements, a crop needs 7"),
        (X, {"stride": 0}, ValueError, "stride must be >= 1 (got 0)"),
        (X, {"stream": 1}, ValueError, "stream must be 2 or 3 (got 1)"),
        (X, {"stream": 2.0}, TypeError, "stream must be an integer (got float)"),
        (X, {"margin": 2}, TypeError, "unexpected keyword argument 'margin'"),
        (X, {"within": (4, 50)}, ValueError, "within: [4, 50) is not in the 48 elements"),
        (X, {"within": (4, 4)}, ValueError, "within: [4, 4) is empty; the axis has 48 elements"),
        (X, {"within": 4}, TypeError, "within must be (start, stop), or a side of a split (got int)"),
    ],
)
def test_invalid_windows_are_refused(era5, arrays, arguments, kind, text):
    def with_uris(value):
        if isinstance(value, dict):
            return {name: with_uris(each) for name, each in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(map(with_uris, value))
        return f"{era5}/{value}" if isinstance(value, str) else value

    with pytest.raises(kind) as refused:
        Windows(with_uris(arrays), **arguments)
    assert text in str(refused.value)


def test_one_variable_of_a_group_is_named_in_a_list_or_taken_from_it(era5):
    group = damacy.open_group(era5)
    with pytest.raises(TypeError) as refused:
        Windows({"x": ((group, "t2m"), (0, 1))})
    assert str(refused.value) == "arrays['x']: expected (group, ['t2m']), which stacks, or group['t2m']"
    stacked, plain = Windows({"x": ((group, ["t2m"]), (0, 1))}), Windows({"x": (group["t2m"], (0, 1))})
    (stack,) = stacked.sample(0, 0).arrays.values()
    (one,) = plain.sample(0, 0).arrays.values()
    assert tuple(stack) == tuple(one)


@pytest.mark.parametrize("extents", [None, {"latitude": 3, "longitude": 4}, (3, 4)])
@pytest.mark.parametrize("static_first", [True, False])
def test_a_source_without_the_time_axis_is_in_each_sample(era5, extents, static_first):
    group = damacy.open_group(era5)
    arrays = {"x": (group["t2m"], (-1, 1)), "land": (group["lsm"], None), "both": ((group, ["lsm", "lsm"]), None)}
    if static_first:
        arrays = dict(reversed(arrays.items()))
    windows = Windows(arrays, extents=extents, seed=1, length=30)
    plain = Windows({"x": arrays["x"]}, extents=extents, seed=1, length=30)
    np.testing.assert_array_equal(windows.boxes(0, 0, 30), plain.boxes(0, 0, 30))
    t2m, land = group["t2m"].read(), group["lsm"].read()
    specs = {name: damacy.ArraySpec() for name in ("x", "land", "both")}
    with damacy.Pipeline(damacy.Config(batch_size=30, device="cpu", arrays=specs)) as pipeline:
        pipeline.push(windows.samples(0, 0, 30))
        batch = pipeline.pop()
        for k, sample in enumerate(batch.samples):
            box = tuple(slice(*axis) for axis in sample.arrays["x"][0][1])
            np.testing.assert_array_equal(batch["x"].numpy()[k], t2m[box])
            np.testing.assert_array_equal(batch["land"].numpy()[k], land[box[1:]])
            np.testing.assert_array_equal(batch["both"].numpy()[k], np.stack([land[box[1:]]] * 2))
