"""Device arrays with messages in host buffers, on a device in host memory that works as late as possible: when messages
are packed and copied."""

import types

import numpy as np
import pytest

from damacy import _native, halo


class DeviceArray:
    """NumPy memory that pretends to be device memory."""

    device = 0

    def __init__(self, array):
        self.array, self.dtype = array, array.dtype

    @property
    def __cuda_array_interface__(self):
        said = self.array.__array_interface__
        return {key: said[key] for key in ("shape", "typestr", "data")} | {"version": 3}


@pytest.fixture(autouse=True)
def host_as_device(monkeypatch):
    monkeypatch.setattr(halo.HaloDataTransformer, "_lazy", _native.LazyStreams())
    halo.STREAM_POOL.clear()
    yield
    halo.STREAM_POOL.clear()


def case(wire):
    """Two arrays of three bytes, so that a native wire has a gap."""
    array = np.arange(1, 4, dtype=np.int8)
    spec = halo.HaloExchangeSpec(halo.Quantity(array, ("i",)).halo_spec(0), (slice(None),), 2, (slice(None),))
    transformer = halo.HaloDataTransformer.get(np, [spec, spec], wire=wire)
    return transformer, [DeviceArray(array), DeviceArray(array + 10)]


@pytest.mark.parametrize(("wire", "gap"), [("ndsl", []), ("native", [0] * 13)])
def test_arrays_are_packed_on_their_device_and_copied_once(wire, gap):
    transformer, arrays = case(wire)
    with transformer:
        assert isinstance(transformer, halo.HaloDataTransformerCPU)
        wanted = [3, 2, 1, *gap, 13, 12, 11]
        for more in (0, 1):
            arrays[0].array += more
            transformer.async_pack(arrays)
            assert transformer.get_pack_buffer().array.tolist() == [n + more * (i < 3) for i, n in enumerate(wanted)]
        transformer.get_unpack_buffer().array[:] = wanted
        transformer.async_unpack(arrays, after=5)
        assert [a.array.tolist() for a in arrays] == [[3, 2, 1], [13, 12, 11]]
        assert [stream.device for stream in halo.STREAM_POOL] == [0]


def test_bound_calls_and_several_transformers_copy_messages_too():
    (first, arrays), (second, others) = case("ndsl"), case("ndsl")
    bound = first.bind(arrays)
    bound.pack()
    halo.pack_many([(second, others, None), (first, arrays, None)])
    for transformer in (first, second):
        assert transformer.get_pack_buffer().array.tolist() == [3, 2, 1, 13, 12, 11]
        transformer.get_unpack_buffer().array[:] = range(6)
    halo.unpack_many([(first, arrays, None), (second, others, None)])
    assert [a.array.tolist() for a in arrays + others] == [[0, 1, 2], [3, 4, 5]] * 2
    first.get_unpack_buffer().array[:] = 9
    bound.unpack()
    assert all((a.array == 9).all() for a in arrays)
    halo.STREAM_POOL.clear()
    bound.pack()
    first.finalize(), second.finalize()


def test_idle_streams_of_a_device_are_kept_up_to_a_limit():
    transformer, arrays = case("ndsl")
    with transformer:
        transformer.async_pack(arrays)
        (idle,) = halo.STREAM_POOL
        for count in (1, 31, 32, 40):
            halo.STREAM_POOL[:] = [idle] * count
            transformer.async_pack(arrays)
            assert len(halo.STREAM_POOL) == (count if count <= 32 else count - 1)


def test_buffers_of_the_cpu_class_are_on_the_host_for_any_module():
    there = types.ModuleType("there")
    there.zeros = lambda shape, dtype=float: DeviceArray(np.zeros(shape, dtype))
    array = np.arange(3.0)
    spec = halo.HaloExchangeSpec(halo.Quantity(array, ("i",)).halo_spec(0), (slice(None),), 0, (slice(None),))
    with halo.HaloDataTransformerCPU(there, [spec]) as transformer:
        transformer.async_pack([DeviceArray(array)])
        assert transformer.get_pack_buffer().array.tolist() == [0, 1, 2]
        assert isinstance(transformer.get_pack_buffer().array, np.ndarray)
    with pytest.raises(TypeError, match="host memory"):
        halo.HaloDataTransformerGPU(np, [spec])
    with halo.HaloDataTransformer.get(there, [spec]) as transformer:
        assert isinstance(transformer, halo.HaloDataTransformerGPU)
        with pytest.raises(TypeError, match="host memory"):
            transformer.async_pack([array])
