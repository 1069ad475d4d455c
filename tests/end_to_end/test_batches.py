"""Batches on the host: their attributes, exports, lifetime, and reuse of slots."""

import copy
import gc
import itertools
import pickle
import threading

import ml_dtypes
import numpy as np
import pytest
from support import dlpack_struct
from support.element_types import ALL, OUTPUT, numpy_type, size_of
from support.line import Source, endless, numbers
from support.streaming import pipeline, store

import damacy

CODES = {"b": 6, "i": 0, "u": 1, "f": 2}


@pytest.fixture
def batch(volume):
    """Two rows of 4 x 6 u16; the pipeline lives as long as the test."""
    with pipeline(dtype="u16") as p:
        p.push([volume.sample((0, 4), (0, 6)), volume.sample((14, 18), (13, 19))])
        yield p.pop()


def rows_of(volume) -> np.ndarray:
    return np.stack([volume.row(((0, 4), (0, 6))), volume.row(((14, 18), (13, 19)))])


def test_a_batch_does_not_become_an_array_of_one_object(batch):
    for make in (np.asarray, np.array, np.mean):
        with pytest.raises(TypeError, match=r"call \.numpy\(\)"):
            make(batch)


# --- info, repr, release ----------------------------------------------------------------------------------------------


def test_info(batch, volume):
    info = batch.info
    assert isinstance(info, damacy.BatchInfo)
    assert (info.shape, info.dtype, info.ready_stream, info.batch_id) == ((2, 4, 6), damacy.Dtype.U16, 0, 0)
    assert isinstance(info.device_ptr, int) and info.device_ptr % 256 == 0
    assert batch.numpy().ctypes.data == info.device_ptr
    with pytest.raises(AttributeError):
        info.batch_id = 3
    for part in ("0", "2", "4", "6"):
        assert part in repr(batch)
    assert "u16" in repr(batch).lower() or "uint16" in repr(batch).lower()
    np.testing.assert_array_equal(batch.numpy(), rows_of(volume))


def test_after_release_only_valid_sample_indices_and_repr_work(batch):
    for _ in range(3):
        batch.release()
    for call in (lambda: batch.info, batch.__dlpack__, batch.__dlpack_device__, batch.numpy):
        with pytest.raises(damacy.InvalidArgument) as caught:
            call()
        assert isinstance(caught.value, RuntimeError) and isinstance(caught.value, ValueError)
        assert caught.value.what == "release"
    assert batch.valid == (True, True) and batch.sample_indices == (0, 1)
    assert "released" in repr(batch)


def test_with_gives_the_batch_and_releases_it(batch):
    with batch as entered:
        assert entered is batch
    assert "released" in repr(batch)
    batch.release()


@pytest.mark.parametrize("argument", [None, 0, 1, 2, 12345, -1, "anything"], ids=repr)
def test_the_host_backend_ignores_what_is_passed_to_release(batch, argument):
    batch.release(argument)
    assert "released" in repr(batch)


def test_batches_and_pipelines_do_not_pickle_or_copy_and_configs_and_samples_do(batch, volume):
    with pipeline() as p:
        for thing in (batch, p):
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                with pytest.raises(TypeError):
                    pickle.dumps(thing, protocol)
            with pytest.raises(TypeError):
                copy.copy(thing)
        for thing in (p.config, volume.sample((0, 4), (0, 6))):
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                back = pickle.loads(pickle.dumps(thing, protocol))
                assert back == thing and hash(back) == hash(thing)


@pytest.mark.parametrize("extent", [1, 3, 7, 33])
def test_every_slot_is_aligned_row_major_and_contiguous(line, extent):
    with pipeline(batch_size=3, n_batches=3, dtype="u8") as p:
        p.push(line.stored.sample((k, k + extent)) for k in range(9))
        held = [p.pop() for _ in range(3)]
        addresses = {b.info.device_ptr for b in held}
        assert len(addresses) == 3
        assert all(a % 256 == 0 for a in addresses)
        for b in held:
            view = b.numpy()
            assert view.flags.c_contiguous and view.flags.writeable and view.shape == (3, extent)


# --- numpy ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ALL)
def test_numpy_and_dlpack_for_every_element_type(volume, output):
    with pipeline(dtype=OUTPUT[output]) as p:
        p.push([volume.sample((0, 4), (0, 6)), volume.sample((4, 8), (0, 6))])
        batch = p.pop()
        assert batch.numpy().dtype == numpy_type(output)
        assert batch.info.dtype is damacy.Dtype.coerce(OUTPUT[output])
        for version in (None, (0, 8), (1, 0), (1, 1), (7, 0)):
            capsule = batch.__dlpack__(max_version=version)
            view = dlpack_struct.view(capsule)
            code = 4 if output == "bfloat16" else CODES[np.dtype(output).kind]
            assert view.dtype == (code, 8 * size_of(output), 1)
            assert view.shape == (2, 4, 6) and view.strides == (24, 6, 1)
            assert view.byte_offset == 0 and view.address == batch.info.device_ptr and view.device == (1, 0)
            if version is None or version[0] == 0:
                assert view.name == "dltensor"
            else:
                assert view.name == "dltensor_versioned"
                assert view.version[0] == 1 and view.flags == 0
                if version[0] == 1:
                    assert view.version <= version


def test_numpy_is_a_view_and_needs_ml_dtypes_for_bfloat16(volume, monkeypatch):
    with pipeline(dtype="bf16") as p:
        p.push([volume.sample((0, 4), (0, 6))] * 2)
        batch = p.pop()
        batch.numpy()[0, 0, 0] = 3
        assert batch.numpy()[0, 0, 0] == ml_dtypes.bfloat16(3)
        monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
        with pytest.raises(BufferError):
            batch.numpy()


def test_np_from_dlpack(batch, volume):
    array = np.from_dlpack(batch)
    np.testing.assert_array_equal(array, rows_of(volume))
    assert array.ctypes.data == batch.info.device_ptr
    again = np.from_dlpack(batch)
    again[0, 0, 0] = 999
    assert array[0, 0, 0] == 999
    copied = np.from_dlpack(batch, copy=True)
    copied[0, 0, 0] = 5
    assert array[0, 0, 0] == 999


# --- DLPack arguments -------------------------------------------------------------------------------------------------


def test_device_is_the_cpu(batch):
    assert batch.__dlpack_device__() == (1, 0)
    for capsule in (batch.__dlpack__(dl_device=(1, 0)), batch.__dlpack__(dl_device=None, copy=False)):
        assert dlpack_struct.view(capsule).address == batch.info.device_ptr


NO_DEVICES = [("x", 0), (None, 0), (1.5, 0), (True, 0), (1, 2**70), (2**40, 0), (1,), [1, 0], "cpu"]


@pytest.mark.parametrize("device", [(2, 0), (1, 1), (3, 0), (10, 0), *NO_DEVICES], ids=repr)
def test_other_devices_are_buffer_errors(batch, device):
    with pytest.raises(BufferError) as caught:
        batch.__dlpack__(dl_device=device)
    assert type(caught.value) is BufferError


@pytest.mark.parametrize("stream", [0, 1, 2, -1, 7, "s"])
def test_the_host_refuses_streams(batch, stream):
    with pytest.raises(BufferError):
        batch.__dlpack__(stream=stream)
    assert dlpack_struct.view(batch.__dlpack__(stream=None)).name == "dltensor"


@pytest.mark.parametrize("version", [1, "1.0", (1,), (1, 0, 0), ("1", "0"), (1.0, 0), (-1, 0), (1, -1)], ids=repr)
def test_a_max_version_of_another_form_is_a_type_error(batch, version):
    with pytest.raises(TypeError):
        batch.__dlpack__(max_version=version)


def test_arguments_are_keywords(batch):
    with pytest.raises(TypeError):
        batch.__dlpack__(None)


def test_copy_true_is_new_memory_that_the_consumer_owns(batch, volume):
    capsule = batch.__dlpack__(max_version=(1, 0), copy=True)
    view = dlpack_struct.view(capsule)
    assert view.address != batch.info.device_ptr and view.flags & dlpack_struct.IS_COPIED
    assert not view.flags & dlpack_struct.READ_ONLY
    assert dlpack_struct.view(batch.__dlpack__(copy=True)).address != batch.info.device_ptr
    batch.numpy()[...] = 0
    assert view.bytes(96) == rows_of(volume).tobytes()


def test_a_copy_holds_no_slot(line):
    with pipeline(n_batches=1) as p:
        p.push(line.all(range(6)))
        copies = []
        for _ in range(3):
            with p.pop() as batch:
                copies.append(np.from_dlpack(batch, copy=True))
        assert [c[:, 0].tolist() for c in copies] == [[1, 2], [3, 4], [5, 6]]


# --- lifetime and reuse -----------------------------------------------------------------------------------------------


def keepers(batch):
    """All kinds of objects that keep a slot, by name."""
    return {
        "capsule": batch.__dlpack__(),
        "versioned": batch.__dlpack__(max_version=(1, 0)),
        "numpy": batch.numpy(),
        "from_dlpack": np.from_dlpack(batch),
        "slice": batch.numpy()[1:, 2:],
    }


@pytest.mark.parametrize("which", ["capsule", "versioned", "numpy", "from_dlpack", "slice"])
def test_a_slot_is_not_reused_while_an_object_made_from_it_exists(line, which):
    with pipeline(n_batches=2, dtype="u16") as p:
        p.push(Source(line.stored.sample((k, k + 3)) for k in range(0, 3000, 3)))
        batch = p.pop()
        address, size = batch.info.device_ptr, 12
        made = keepers(batch)
        keep = made.pop(which)
        del made
        batch.release()
        del batch
        gc.collect()
        content = np.arange(1, 7, dtype=np.uint16).tobytes()
        for _ in range(20):
            with p.pop() as other:
                assert other.info.device_ptr != address
            assert dlpack_struct.ctypes.string_at(address, size) == content
        assert keep is not None
        del keep
        seen = set()
        for _ in range(6):
            with p.pop() as other:
                seen.add(other.info.device_ptr)
        assert address in seen


@pytest.mark.parametrize("which", ["capsule", "versioned", "numpy", "from_dlpack"])
def test_storage_outlives_batch_pipeline_and_close(line, which):
    p = pipeline(dtype="u16")
    p.push(line.all([0, 1]))
    batch = p.pop()
    address = batch.info.device_ptr
    keep = keepers(batch)[which]
    batch.release()
    p.close()
    del batch, p
    gc.collect()
    assert dlpack_struct.ctypes.string_at(address, 4) == np.array([1, 2], np.uint16).tobytes()
    del keep
    gc.collect()


def test_the_deleter_works_without_the_gil_on_another_thread_and_frees_the_slot(line):
    with pipeline(n_batches=1) as p:
        p.push(line.all(range(40)))
        for k in range(0, 40, 4):
            batch = p.pop()
            delete = dlpack_struct.consume(batch.__dlpack__(max_version=(1, 0) if k % 8 else None))
            batch.release()
            with pytest.raises(damacy.TryAgain):
                p.pop()
            thread = threading.Thread(target=delete)  # ctypes releases the GIL during the call
            thread.start()
            thread.join(10)
            assert not thread.is_alive()
            with p.pop() as other:
                assert numbers(other) == [k + 2, k + 3]


def test_a_batch_may_be_exported_any_number_of_times_and_deleted_in_any_order(line):
    rng = np.random.default_rng(11)
    with pipeline(n_batches=2) as p:
        p.push(Source(endless(line)))
        for k in range(0, 40, 2):
            batch = p.pop()
            made = [
                batch.__dlpack__(),
                batch.numpy(),
                np.from_dlpack(batch),
                batch.__dlpack__(max_version=(1, 0)),
                batch,
            ]
            batch = None
            for index in rng.permutation(len(made)):
                thing, made[index] = made[index], None
                if isinstance(thing, np.ndarray):
                    assert thing[:, 0].tolist() == [k % 4000 + 1, k % 4000 + 2]
                del thing


def test_release_deletion_and_close_in_any_order_and_number_leave_an_array_whole(line):
    actions = ("release", "delete", "close", "capsule")
    for order in itertools.permutations(actions):
        p = pipeline()
        p.push(line.all(range(8)))
        held = {"batch": p.pop()}
        held["capsule"] = held["batch"].__dlpack__()
        array = held["batch"].numpy()
        for action in order:
            if action == "release" and "batch" in held:
                held["batch"].release()
                held["batch"].release()
            elif action == "delete":
                held.pop("batch")
            elif action == "close":
                p.close()
                p.close()
            else:
                held.pop("capsule", None)
            assert array[:, 0].tolist() == [1, 2], (order, action)
        p.close()


def test_rows_of_arrays_of_different_types_share_a_batch(tmp_path):
    first = store(tmp_path / "a", (40,), (7,), "int8")
    second = store(tmp_path / "b", (30,), (30,), "float64", endian="big")
    third = store(tmp_path / "c", (50,), (5,), "uint32", zarr_format=2, separator=".")
    with pipeline(batch_size=6, dtype="i16") as p:
        p.push(a.sample((k, k + 4)) for k in (3, 20) for a in (first, second, third))
        with p.pop() as batch:
            expected = [[v + 1 for v in range(k, k + 4)] for k in (3, 20) for _ in range(3)]
            assert batch.numpy().tolist() == expected


def test_a_zero_dimensional_array_gives_one_element_per_row(tmp_path):
    point = store(tmp_path / "a", (), (), "int32", bits=np.array(77, np.uint32))
    with pipeline() as p:
        p.push([point.sample()] * 2)
        with p.pop() as batch:
            assert batch.info.shape == (2,) and batch.numpy().tolist() == [77.0, 77.0]


def test_batches_that_read_a_chunk_in_part_place_no_others(tmp_path):
    """Two of three batches cover the whole chunk, so that one joins the other's read. The third reads a part of it, and
    with one reader often before them."""
    zarr = pytest.importorskip("zarr")
    size = 150_000
    values = np.arange(1, size + 1, dtype="<f4")[None]
    zarr.create_array(tmp_path / "a", data=values, chunks=values.shape, compressors=None)
    half = size // 2
    part, whole = [0, 10], [0, size - half]
    begins = [begin for k in range(12) for begin in (part, whole, whole)[k % 3]]
    memory = {"host_buffer_bytes": 16 << 20, "device_buffer_bytes": 16 << 20}
    for _ in range(25):
        config = damacy.Config(
            batch_size=2, device="cpu", dtype="f32", n_io_threads=1, n_batches=8, lookahead_batches=16, **memory
        )
        with damacy.Pipeline(config) as pipeline:
            pipeline.push([damacy.Sample(str(tmp_path / "a"), [(0, 1), (begin, begin + half)]) for begin in begins])
            for batch in pipeline:
                with batch as b:
                    for row, sample in zip(b.numpy(), b.samples, strict=True):
                        np.testing.assert_array_equal(row, values[:, slice(*sample.aabb[1])])
