"""Device memory of other libraries: the streams after which damacy's work is ordered. Native calls are faked."""

import types

import pytest

from damacy import _native
from damacy._device import exchange


class Tensor:
    """Like a torch tensor: version 2 of the CUDA array interface, which names no stream, and DLPack, which can."""

    def __init__(self, version=2, shape=(4,), refuses=None, **more):
        self.__cuda_array_interface__ = {
            "data": (4096, False), "shape": shape, "typestr": "<f4", "version": version, **more
        }  # fmt: skip
        self.ordered_before = []
        self.refuses = refuses

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, *, stream=None, max_version=None):
        if self.refuses:
            raise self.refuses
        self.ordered_before.append(stream)


@pytest.fixture
def waits(monkeypatch):
    """Streams that damacy's queue waits for; its own stream is 77."""
    waited = []
    queue = types.SimpleNamespace(stream=77, wait_for=waited.append)
    monkeypatch.setattr(exchange.memory, "queue_of", lambda device: queue)
    monkeypatch.setattr(exchange.memory, "geometry", lambda *arguments: "geometry")
    monkeypatch.setattr(_native, "foreign_block", lambda *arguments: "block")
    return waited


def test_an_interface_that_cannot_name_a_stream_is_ordered_by_dlpack(waits):
    tensor = Tensor()
    assert exchange.find_foreign(tensor) == ("geometry", "block", "cuda:0")
    assert (tensor.ordered_before, waits) == ([77], [])


def test_an_interface_that_names_a_stream_is_ordered_by_that_stream(waits):
    for tensor, waited in ((Tensor(version=3, stream=5), [5]), (Tensor(version=3, stream=None), [])):
        exchange.find_foreign(tensor)
        assert (tensor.ordered_before, waits) == ([], waited)
        waits.clear()


@pytest.mark.parametrize("refuses", [BufferError("no type"), TypeError("no keyword")])
def test_memory_that_dlpack_refuses_is_wrapped_by_its_interface(waits, refuses):
    assert exchange.find_foreign(Tensor(refuses=refuses)) == ("geometry", "block", "cuda:0")


def test_memory_of_no_elements_has_no_work_to_wait_for(waits):
    tensor = Tensor(shape=(0,), refuses=AssertionError("asked"))
    assert exchange.find_foreign(tensor) == ("geometry", "block", "cuda:0")
