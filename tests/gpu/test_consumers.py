"""Batches as consumers see them: by NumPy, torch, CuPy and JAX, on the host and on a GPU."""

import numpy as np
import pytest
from support import consumers, dlpack_struct
from support.element_types import OUTPUT, as_bits, size_of
from support.streaming import pipeline, store

SHAPE, CHUNKS = (24, 32, 32), (8, 16, 16)


@pytest.fixture(params=consumers.ALL, ids=lambda kind: kind.name)
def library(request, device):
    return request.param(device)


@pytest.fixture
def stored(tmp_path):
    return store(tmp_path / "a.zarr", SHAPE, CHUNKS)


def boxes(count: int):
    return [((z % 17, z % 17 + 8), (z % 5, z % 5 + 24), (z % 7, z % 7 + 20)) for z in range(count)]


def test_every_library_reads_every_type_it_has(library, device, stored):
    for name in library.element_types:
        with pipeline(device=device, dtype=OUTPUT[name], batch_size=3) as running:
            running.push([stored.sample(*box) for box in boxes(6)])
            for first in (0, 3):
                with running.pop() as batch:
                    tensor = library.take(batch)
                    assert tuple(tensor.shape) == batch.info.shape, name
                    got = as_bits(library.to_numpy(tensor), name)
                    assert got.dtype.itemsize == size_of(name)
                    for row, box in zip(got, boxes(6)[first : first + 3], strict=True):
                        np.testing.assert_array_equal(row, stored.row(box, name), name)
                    del tensor


def test_a_tensor_is_a_view_and_keeps_its_values_while_later_batches_are_made(library, device, stored):
    wanted = boxes(12)
    with pipeline(device=device, dtype="u16", batch_size=1, n_batches=2) as running:
        running.push([stored.sample(*box) for box in wanted])
        with running.pop() as batch:
            kept, address = library.take(batch), batch.info.device_ptr
        assert library.address(kept) == address
        for box in wanted[1:]:
            with running.pop() as batch:
                assert batch.info.device_ptr != address
                np.testing.assert_array_equal(as_bits(batch.numpy()[0], "uint16"), stored.row(box))
        np.testing.assert_array_equal(as_bits(library.to_numpy(kept)[0], "uint16"), stored.row(wanted[0]))
    np.testing.assert_array_equal(as_bits(library.to_numpy(kept)[0], "uint16"), stored.row(wanted[0]))


def test_a_loop_that_keeps_its_last_tensor_continues_with_two_slots(library, device, stored):
    wanted = boxes(20)
    with pipeline(device=device, dtype="u16", batch_size=1) as running:
        running.push([stored.sample(*box) for box in wanted])
        for box, batch in zip(wanted, running.batches(len(wanted)), strict=True):
            with batch as b:
                tensor = library.take(b)
            np.testing.assert_array_equal(as_bits(library.to_numpy(tensor)[0], "uint16"), stored.row(box))


@pytest.fixture
def popped(device, stored):
    """A batch of two rows and its bytes."""
    with pipeline(device=device, dtype="u16") as running:
        running.push([stored.sample(*box) for box in boxes(2)])
        with running.pop() as batch:
            yield batch, np.stack([stored.row(box) for box in boxes(2)]).tobytes()


def test_the_device_is_known_before_anything_is_exported(device, stored):
    with pipeline(device=device, dtype="u16") as running:
        running.push([stored.sample(*box) for box in boxes(2)])
        with running.pop() as batch:  # on the GPU whose context is current, which other libraries may have changed
            assert batch.__dlpack_device__() == ((2, running.device) if device == "cuda" else (1, 0))


def test_a_capsule_has_all_fields_that_consumers_need(popped, device):
    batch, _ = popped
    for version, name in ((None, "dltensor"), ((0, 8), "dltensor"), ((1, 0), "dltensor_versioned")):
        capsule = batch.__dlpack__(max_version=version)
        seen = dlpack_struct.view(capsule)
        assert (seen.name, seen.device, seen.dtype) == (name, batch.__dlpack_device__(), (1, 16, 1))
        assert (seen.shape, seen.strides) == (batch.info.shape, (8 * 24 * 20, 24 * 20, 20, 1))
        assert (seen.address, seen.byte_offset, seen.flags) == (batch.info.device_ptr, 0, 0)
        assert seen.address % 256 == 0


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"])
def test_streams_are_numbered_as_in_dlpack(popped):
    from support import cuda_driver

    batch, _ = popped
    cuda_driver.set_current(cuda_driver.primary_context(batch.__dlpack_device__()[1]))
    for stream in (None, 0, 1, 2, -1, cuda_driver.new_stream()):
        assert dlpack_struct.view(batch.__dlpack__(stream=stream)).address == batch.info.device_ptr
    for wrong in (-2, "1", 1.0, True, object(), 1 << 70):
        with pytest.raises(BufferError):
            batch.__dlpack__(stream=wrong)


@pytest.mark.parametrize("device", ["cpu"])
def test_host_batches_refuse_streams(popped):
    batch, _ = popped
    for wrong in (0, 1, 2, -1, "1"):
        with pytest.raises(BufferError):
            batch.__dlpack__(stream=wrong)


def test_a_copy_to_the_host_is_complete_and_outlives_the_batch(popped, device):
    batch, wanted = popped
    capsule = batch.__dlpack__(dl_device=(1, 0), max_version=(1, 0), copy=True)
    seen = dlpack_struct.view(capsule)
    assert (seen.device, seen.flags) == ((1, 0), dlpack_struct.IS_COPIED)
    assert seen.address != batch.info.device_ptr
    batch.release()
    assert seen.bytes(len(wanted)) == wanted


def test_exports_other_than_views_and_host_copies_are_refused(popped, device):
    batch, _ = popped
    for other in ((2, 9), (3, 0), (1, 1)) + (((2, 0),) if device == "cpu" else ()):
        with pytest.raises(BufferError):
            batch.__dlpack__(dl_device=other)
    if device == "cuda":
        with pytest.raises(BufferError):
            batch.__dlpack__(dl_device=(1, 0), copy=False)
    own = dlpack_struct.view(batch.__dlpack__(dl_device=batch.__dlpack_device__(), copy=False))
    assert own.address == batch.info.device_ptr


def test_a_copy_on_the_same_device_has_its_own_memory(popped, device):
    batch, wanted = popped
    capsule = batch.__dlpack__(copy=True, max_version=(1, 1))
    seen = dlpack_struct.view(capsule)
    assert (seen.device, seen.flags) == (batch.__dlpack_device__(), dlpack_struct.IS_COPIED)
    assert seen.address != batch.info.device_ptr
    batch.release()
    if device == "cpu":
        assert seen.bytes(len(wanted)) == wanted
    else:
        from support import cuda_driver

        cuda_driver.set_current(cuda_driver.primary_context(seen.device[1]))
        assert cuda_driver.to_host(seen.address, len(wanted)) == wanted


def test_numpy_is_a_view_on_the_host_and_a_copy_of_a_cuda_batch(popped, device):
    batch, wanted = popped
    array = batch.numpy()
    assert (array.ctypes.data == batch.info.device_ptr) == (device == "cpu")
    batch.release()
    assert array.tobytes() == wanted
