"""The samples of a batch's rows: they are the pushed objects, and how long they are kept."""

import gc
import pickle
import weakref

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

SMALL = {"host_buffer_bytes": 1 << 20, "device_buffer_bytes": 1 << 20, "n_io_threads": 1, "device": "cpu"}


class Tracked(damacy.Sample):
    """A sample that supports weak references and further attributes."""

    __slots__ = ("__weakref__", "other")


@pytest.fixture(scope="module")
def array(tmp_path_factory):
    path = tmp_path_factory.mktemp("provenance") / "a.zarr"
    zarr.create_array(path, shape=(64, 4), chunks=(1, 4), dtype="i4")[:] = np.arange(256).reshape(64, 4)
    return path


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """Rows 1, 2 and 6 of eight cannot be decoded."""
    path = tmp_path_factory.mktemp("provenance") / "damaged.zarr"
    zarr.create_array(path, shape=(8, 4), chunks=(1, 4), dtype="i4")[:] = np.arange(1, 33).reshape(8, 4)
    for row in (1, 2, 6):
        (path / "c" / str(row) / "0").write_bytes(b"broken")
    return path


def row(path, index, kind=damacy.Sample):
    return kind(path, [(index, index + 1), (0, 4)])


def config(batch_size, **fields):
    return damacy.Config(batch_size=batch_size, dtype="i32", **(SMALL | fields))


def same(found, expected):
    return len(found) == len(expected) and all(a is b for a, b in zip(found, expected))


def test_samples_are_the_objects_that_were_pushed_also_after_release(array):
    pushed = [row(array, k) for k in range(7)]
    with damacy.Pipeline(config(3)) as pipeline:
        pipeline.push(iter(pushed[:4]))
        pipeline.push(pushed[4:])
        kept = []
        for batch, expected in zip(pipeline, (pushed[:3], pushed[3:6], pushed[6:])):
            assert same(batch.samples, expected)
            with batch:
                assert [int(x[0, 0]) for x in batch.numpy()] == [4 * s.aabb[0][0] for s in expected]
            kept.append(batch)
    assert same([sample for batch in kept for sample in batch.samples], pushed)


@pytest.mark.parametrize("policy", ["skip", "fill", "raise"])
def test_samples_of_rows_that_fail_follow_the_policy(damaged, policy):
    pushed = [row(damaged, k) for k in range(8)]
    found = []
    with damacy.Pipeline(config(2, on_error=policy)) as pipeline:
        pipeline.push(pushed)
        batches = iter(pipeline)
        while True:
            try:
                with next(batches) as batch:
                    found.append(batch.samples)
                    assert len(batch.samples) == len(batch.valid) == batch.info.shape[0]
            except StopIteration:
                break
            except damacy.DecodeError:
                continue
    rows = {
        "skip": [[0], [3], [4, 5], [7]],
        "fill": [[0, 1], [2, 3], [4, 5], [6, 7]],
        "raise": [[4, 5]],
    }
    assert len(found) == len(rows[policy])
    assert all(same(samples, [pushed[k] for k in ks]) for samples, ks in zip(found, rows[policy]))


def test_samples_after_a_refused_one_keep_their_rows(array):
    good = [row(array, k) for k in range(4)]
    bad = damacy.Sample(array, [(0, 99), (0, 4)])
    with damacy.Pipeline(config(2)) as pipeline:
        with pytest.raises(damacy.InvalidArgument):
            pipeline.push([good[0], bad, row(array, 9)])
        pipeline.push(good[1:])
        assert same([sample for batch in pipeline for sample in batch.samples], good)


def test_samples_are_released_with_their_batch(array):
    with damacy.Pipeline(config(2, lookahead_batches=2)) as pipeline:
        pipeline.push(row(array, k % 64, Tracked) for k in range(400))
        seen, most = [], 0
        for batch in pipeline:
            with batch:
                seen += [weakref.ref(sample) for sample in batch.samples]
            del batch
            most = max(most, sum(ref() is not None for ref in seen))
        assert len(seen) == 400
        assert most <= 4  # the samples of a batch that is being released
        with pytest.raises(damacy.TryAgain):
            pipeline.pop()
        assert not any(ref() for ref in seen)


@pytest.mark.parametrize("policy", ["raise", "skip"])
def test_samples_of_failed_batches_are_released_too(damaged, policy):
    alive = weakref.WeakSet()
    most = 0

    def broken():
        nonlocal most
        for _ in range(300):
            sample = row(damaged, 1, Tracked)
            alive.add(sample)
            most = max(most, len(alive))
            yield sample

    with damacy.Pipeline(config(1, lookahead_batches=2, on_error=policy)) as pipeline:
        pipeline.push(broken())
        failed = 0
        batches = iter(pipeline)
        while True:
            try:
                next(batches)
            except StopIteration:
                break
            except damacy.DecodeError:
                failed += 1
        assert failed == (300 if policy == "raise" else 0)
        assert most < 30


def test_samples_of_refused_sources_are_released_too(array):
    with damacy.Pipeline(config(2)) as pipeline:
        pipeline.push([row(array, 0)])  # the batch stays incomplete
        refs = []
        for _ in range(20):
            samples = [damacy.Sample(array, [(0, 99), (0, 4)])] + [row(array, k, Tracked) for k in range(3)]
            refs += [weakref.ref(sample) for sample in samples[1:]]
            with pytest.raises(damacy.InvalidArgument):
                pipeline.push(samples)
        del samples
        with pytest.raises(damacy.TryAgain):
            pipeline.pop()
        gc.collect()
        assert sum(ref() is not None for ref in refs) == 0


def test_close_releases_samples_and_a_batch_keeps_its_own(array):
    pushed = [row(array, k, Tracked) for k in range(6)]
    refs = [weakref.ref(sample) for sample in pushed]
    pipeline = damacy.Pipeline(config(2))
    pipeline.push(pushed)
    batch = pipeline.pop()
    pipeline.close()
    del pushed
    assert [ref() is not None for ref in refs] == [True, True, False, False, False, False]
    assert batch.samples[1].aabb == ((1, 2), (0, 4))


def test_a_sample_that_refers_to_its_pipeline_is_collected_with_it(array):
    pipeline = damacy.Pipeline(config(2))
    sample = row(array, 0, Tracked)
    object.__setattr__(sample, "other", pipeline)
    pipeline.push([sample])
    ends = [weakref.ref(sample), weakref.ref(pipeline)]
    del sample, pipeline
    gc.collect()
    assert [end() for end in ends] == [None, None]


def test_a_sample_that_refers_to_its_batch_is_collected_with_it(array):
    with damacy.Pipeline(config(1)) as pipeline:
        pipeline.push([row(array, 0, Tracked)])
        batch = pipeline.pop()
        (sample,) = batch.samples
        object.__setattr__(sample, "other", batch)
        ends = [weakref.ref(sample), weakref.ref(batch)]
        del sample, batch
        gc.collect()
        assert [end() for end in ends] == [None, None]


def test_a_row_key_is_outside_equality_and_hash():
    plain, keyed = damacy.Sample("a", [(0, 1)]), damacy.Sample("a", [(0, 1)], row_key=(2, 3))
    assert (plain.row_key, keyed.row_key) == (None, (2, 3))
    assert plain == keyed
    assert hash(plain) == hash(keyed)
    assert pickle.loads(pickle.dumps(keyed)).row_key == (2, 3)
    assert repr(plain) == "Sample(uri='a', aabb=((0, 1),))"
    assert repr(keyed) == "Sample(uri='a', aabb=((0, 1),), row_key=(2, 3))"
    with pytest.raises(TypeError, match=r"^row_key must be \(epoch, index\) or None \(got 3\)$"):
        damacy.Sample("a", [(0, 1)], row_key=3)
