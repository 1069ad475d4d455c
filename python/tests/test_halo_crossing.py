"""Device arrays with messages in host buffers, on a fake device: where messages are packed, and how they are copied."""

import types

import numpy as np
import pytest

from damacy import halo
from damacy.halo import _crossing, _modules

LOG = []


class DeviceArray:
    """NumPy memory that pretends to be device memory."""

    def __init__(self, array):
        self.array = array

    @property
    def __cuda_array_interface__(self):
        return dict(self.array.__array_interface__, stream=None)


class HaloQueue:
    """Replaces the native queue; runs work at once."""

    def bound(self, arrays, copies, buffer):
        def run(stream=None, after=None):
            LOG.append("run" if stream is None and after is None else ("run", stream, after))
            copies.run()

        return run

    def synchronize(self):
        LOG.append("synchronize")

    def make_wait(self, stream):
        LOG.append(("wait", stream))


def memory_at(address, size):
    return _crossing.geometry(address, np.uint8, (size,), None, False, None)


class DeviceQueue:
    """One stream, number 77."""

    stream = 77

    def upload(self, address, host):
        LOG.append(("upload", host.nbytes))
        memory_at(address, host.nbytes)[:] = host

    def download(self, host, address):
        LOG.append(("download", host.nbytes))
        host[:] = memory_at(address, host.nbytes)


def block(queue, size):
    memory = np.full(size, 0xEE, np.uint8)
    return types.SimpleNamespace(address=memory.__array_interface__["data"][0], memory=memory)


@pytest.fixture(autouse=True)
def host_as_device(monkeypatch):
    monkeypatch.setattr(_crossing._native, "new_device_queue", lambda device: DeviceQueue())
    monkeypatch.setattr(_crossing._native, "device_block", block)
    monkeypatch.setattr(_modules, "device_queue", HaloQueue)
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
        transformer.async_pack(arrays)  # allocates the device memory, gaps included
        LOG.clear()
        transformer.async_pack(arrays)
        wanted = [3, 2, 1, *gap, 13, 12, 11]
        assert LOG == ["run", ("wait", 77), ("download", len(wanted)), "synchronize"]
        assert transformer.get_pack_buffer().array.tolist() == wanted
        transformer.get_unpack_buffer().array[:] = wanted
        transformer.async_unpack(arrays, after=5)
        LOG.clear()
        transformer.async_unpack(arrays, after=5)
        assert LOG == [("upload", len(wanted)), ("run", None, 5), "synchronize"]
        assert [a.array.tolist() for a in arrays] == [[3, 2, 1], [13, 12, 11]]
        assert len(halo.STREAM_POOL) == 1


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


def test_idle_streams_of_a_device_are_kept_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(_crossing, "MOST_STREAMS", 1)
    with _crossing.borrowed_stream(0) as first, _crossing.borrowed_stream(0) as second, _crossing.borrowed_stream(1):
        assert first is not second
    assert sorted(s.device for s in halo.STREAM_POOL) == [0, 1]
    with pytest.raises(KeyError), _crossing.borrowed_stream(0):
        raise KeyError
    assert [s.device for s in halo.STREAM_POOL] == [1]


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
