"""The layout of arrays by each array protocol, and layouts that are refused."""

import numpy as np
import pytest

from damacy import halo
from damacy.halo._arrays import layout_of, whole


class Exporter:
    """Memory that is exported only by DLPack, with any device type."""

    def __init__(self, array, device=(1, 0)):
        self._array, self._device, self.streams = array, device, []

    def __dlpack_device__(self):
        return self._device

    def __dlpack__(self, *, stream=None, **_):
        self.streams.append(stream)
        return self._array.__dlpack__()


def said(array):
    layout = layout_of(array)
    return [getattr(layout, name) for name in ("address", "shape", "strides", "dtype", "device", "writable", "stream")]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "complex128"])
def test_the_layout_of_an_array_that_only_exports_dlpack_is_complete(dtype):
    array = np.zeros((4, 6), dtype)[:, ::2]
    assert said(Exporter(array)) == said(array)


def test_device_memory_is_exported_for_the_legacy_stream():
    exporter = Exporter(np.zeros(3), (2, 1))
    layout = layout_of(exporter)
    assert (layout.device, layout.stream, exporter.streams) == (1, 1, [1])
    assert layout_of(Exporter(np.zeros(3), (3, 0))).device is None  # pinned memory of the host
    with pytest.raises(NotImplementedError, match="device type 10"):
        layout_of(Exporter(np.zeros(3), (10, 0)))


def test_an_object_without_array_protocols_is_refused():
    for nothing in ([1, 2], None, "ab", object()):
        with pytest.raises(TypeError, match="gives no array"):
            layout_of(whole(nothing))
    with pytest.raises(TypeError, match="gives no array"):
        halo.send_buffer(np.zeros, [1, 2]).__enter__()


def test_the_layout_of_a_quantity_is_that_of_its_data():
    array = np.arange(6.0).reshape(2, 3)
    assert np.shares_memory(np.asarray(halo.Quantity(array, ("j", "i"))), array)
    mine = type("Mine", (np.ndarray,), {})
    assert halo.Quantity(array.view(mine), ("j", "i")).np is np


def test_lazy_and_sparse_tensors_are_refused():
    torch = pytest.importorskip("torch")
    values = torch.ones(3, dtype=torch.complex64) * 1j
    for lazy in (values.conj(), values.conj().imag):
        with pytest.raises(ValueError, match="resolve_conj"):
            layout_of(lazy)
    for elsewhere in (torch.zeros(3, device="meta"), torch.zeros(3).to_sparse()):
        with pytest.raises(TypeError, match="has no memory"):
            layout_of(elsewhere)
    assert np.asarray(halo.Quantity(torch.ones(3), ("i",))).tolist() == [1, 1, 1]


def test_subclasses_of_tensors_are_tensors():
    torch = pytest.importorskip("torch")
    mine = type("Mine", (torch.Tensor,), {})
    tensor = torch.ones(3, dtype=torch.bfloat16)
    assert said(tensor.as_subclass(mine)) == said(tensor)
    assert halo.Field.like(tensor.as_subclass(mine), ("i",), (0,), (3,)).library == "torch"


def test_a_device_of_torch_may_be_a_number():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("needs a machine without device 0")
    spec = halo.HaloExchangeSpec(halo.Quantity(torch.zeros(3), ("i",)).halo_spec(0), (slice(None),), 0, (slice(None),))
    with pytest.raises(RuntimeError):
        halo.HaloDataTransformer.get(torch, [spec], device=0)


def test_immutable_arrays_can_be_packed_but_not_unpacked_to():
    jax, jnp = pytest.importorskip("jax"), pytest.importorskip("jax.numpy")
    for dtype in ("float32", "bfloat16"):  # by the buffer protocol, by DLPack
        with jax.default_device(jax.devices("cpu")[0]):
            array = jnp.arange(3, dtype=dtype)
            itemsize = array.dtype.itemsize
            q = halo.QuantityHaloSpec(0, (itemsize,), itemsize, (3,), (0,), (3,), ("i",), jnp, array.dtype)
            t = halo.HaloDataTransformer.get(jnp, [halo.HaloExchangeSpec(q, (slice(None),), 2, (slice(None),))])
        with t:
            assert isinstance(t.get_pack_buffer().array, np.ndarray)
            t.async_pack([array])
            assert t.get_pack_buffer().array.tolist() == [2, 1, 0]
            with pytest.raises(ValueError, match="read-only"):
                t.async_unpack([array])
