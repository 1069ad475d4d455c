"""Halos on a GPU: the same bytes as on the host, in the order of streams, in graphs. Needs torch."""

from __future__ import annotations

import numpy as np
import pytest

from damacy import _native, halo

torch = pytest.importorskip("torch", reason="the arrays are torch's")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not _native.backend_info()["cuda"], reason="no usable GPU: " + _native.backend_info()["cuda_reason"]
    ),
]

DTYPES = "bool int8 int16 int32 int64 uint8 float16 bfloat16 float32 float64 complex64 complex128".split()
DIMS = ("i", "j", "k")


def layouts(shape, dtype, order, seed):
    """The same values on the host and on the device; `order` lists dimensions from slowest to fastest."""
    torch.manual_seed(seed)
    raw = torch.randint(0, 2 if dtype == "bool" else 120, shape)
    host = raw.to(getattr(torch, dtype)).permute(order).contiguous().permute([order.index(a) for a in range(3)])
    return host, host.cuda()


def specs_for(array, turns, width=3):
    n_i, n_j, n_k = array.shape
    strides = [s * array.element_size() for s in array.stride()]
    q = halo.QuantityHaloSpec(
        width, strides, array.element_size(), array.shape, (width, width, 0), (n_i - 6, n_j - 6, n_k), DIMS, torch,
        array.dtype,
    )  # fmt: skip
    w, far = slice(width, 2 * width), slice(n_i - 2 * width, n_i - width)
    return [
        halo.HaloExchangeSpec(
            q, (w, slice(3, n_j - 3), slice(0, n_k)), turns, (slice(0, 3), slice(3, n_j - 3), slice(0, n_k))
        ),
        halo.HaloExchangeSpec(
            q, (slice(3, n_i - 3), far, slice(0, n_k)), 0, (slice(3, n_i - 3), slice(0, 3), slice(0, n_k))
        ),
    ]


def expect_the_same_bytes(shape, dtype, wire, order):
    vector = dtype not in ("bool", "uint8")
    for turns in range(4):
        sides = {}
        for device in ("cpu", "cuda"):
            fields = [layouts(shape, dtype, order, seed)[device == "cuda"] for seed in (1, 2)]
            xs, ys = (specs_for(f, turns) for f in fields)
            get = halo.HaloDataTransformer.get
            with get(torch, xs, ys if vector else None, wire=wire, device=device) as t:
                arguments = [[fields[0]] * 2, [fields[1]] * 2] if vector else [[fields[0]] * 2]
                t.async_pack(*arguments)
                packed = t.get_pack_buffer().array.clone()
                # The x slot of an odd rotation is unpacked without rotating: the boxes have equal numbers of cells.
                t.get_unpack_buffer().array.copy_(packed[: t.get_unpack_buffer().array.numel()])
                torch.cuda.synchronize()
                t.async_unpack(*arguments)
                t.synchronize()
                sides[device] = [packed.cpu()] + [f.cpu() for f in fields]
        for host, device in zip(sides["cpu"], sides["cuda"]):
            assert torch.equal(host.contiguous().view(torch.uint8), device.contiguous().view(torch.uint8))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wire", ["ndsl", "native"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_both_devices_pack_and_unpack_the_same_bytes(dtype, wire, order):
    expect_the_same_bytes((23, 23, 13), dtype, wire, order)


# Rows long enough to be copied by windows, at all alignments that rows of 79 elements have.
@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32"])
@pytest.mark.parametrize("levels", [79, 80, 127])
def test_long_rows_of_small_elements_are_the_same_bytes_at_any_alignment(dtype, levels):
    expect_the_same_bytes((23, 23, levels), dtype, "ndsl", (0, 1, 2))


def simple(n=1 << 22):
    array = torch.zeros(n, dtype=torch.float64, device="cuda")
    q = halo.QuantityHaloSpec(0, (8,), 8, (n,), (0,), (n,), ("k",), torch, torch.float64)
    everything = (slice(None),)
    return array, [halo.HaloExchangeSpec(q, everything, 0, everything)]


def test_packing_is_ordered_on_the_current_stream():
    array, specs = simple()
    with halo.HaloDataTransformer.get(torch, specs, device="cuda") as t, torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(20_000_000)
        array.fill_(5)
        t.async_pack([array])
        array.fill_(6)
        assert (t.get_pack_buffer().array == 5).all()


def test_all_transformers_of_one_launch_wait_for_it():
    array, specs = simple()
    other = torch.zeros_like(array)
    get = halo.HaloDataTransformer.get
    with get(torch, specs, device="cuda") as first, get(torch, specs, device="cuda") as second:
        for value in (5, 6):
            with torch.cuda.stream(torch.cuda.Stream()):
                torch.cuda._sleep(20_000_000)
                array.fill_(value), other.fill_(value + 10)
                halo.pack_many([(first, [array], None), (second, [other], None)])
            for t, wanted in ((second, value + 10), (first, value)):
                assert (t.get_pack_buffer().array.cpu() == wanted).all()


def test_unpacking_is_ordered_after_the_streams_in_after():
    array, specs = simple()
    side = torch.cuda.Stream()
    with halo.HaloDataTransformer.get(torch, specs, device="cuda") as t:
        buffer = t.get_unpack_buffer().array
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            buffer.fill_(3)
        t.async_unpack([array], after=side)
        t.synchronize()
        assert (array == 3).all()


def test_a_buffer_returned_in_flight_is_not_overwritten_early():
    array, specs = simple()
    for value in range(4):
        with torch.cuda.stream(torch.cuda.Stream()):
            t = halo.HaloDataTransformer.get(torch, specs, device="cuda")
            array.fill_(value)
            t.async_pack([array])
            assert (t.get_pack_buffer().array == value).all()
            t.finalize()


def test_a_graph_captures_packing_and_unpacking():
    array, specs = simple(1 << 16)
    t = halo.HaloDataTransformer.get(torch, specs, device="cuda")
    bound = t.bind([array])
    bound.pack(), bound.unpack()
    t.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        bound.pack()
        t._unpack_buffer.array.copy_(t._pack_buffer.array * 2)
        bound.unpack()
    array.fill_(3)
    graph.replay()
    torch.cuda.synchronize()
    assert (array == 6).all()
    t.finalize()


def test_the_gpu_class_refuses_host_arrays():
    _, specs = simple(16)
    with halo.HaloDataTransformer.get(torch, specs, device="cuda") as t:
        with pytest.raises(TypeError, match="host memory"):
            t.async_pack([torch.zeros(16, dtype=torch.float64)])


def test_messages_on_the_host_are_packed_on_the_device_and_copied_once():
    fields = [layouts((23, 23, 13), "float32", (0, 1, 2), seed)[1] for seed in (1, 2)]
    xs, ys = (specs_for(f, 1) for f in fields)
    x, y = ([f] * 2 for f in fields)
    with halo.HaloDataTransformer.get(torch, xs, ys, device="cuda") as near:
        with halo.HaloDataTransformerCPU(np, xs, ys) as far, torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda._sleep(20_000_000)
            fields[0].mul_(2)
            far.async_pack(x, y)
            packed = far.get_pack_buffer().array
            assert isinstance(packed, np.ndarray)
            near.async_pack(x, y)
            assert near.get_pack_buffer().array.cpu().numpy().tobytes() == packed.tobytes()
            received = np.arange(far.get_unpack_buffer().array.size, dtype="f4")
            far.get_unpack_buffer().array[:] = received
            far.async_unpack(x, y)
            got = [f.clone() for f in fields]
            near.get_unpack_buffer().array.copy_(torch.from_numpy(received))
            near.async_unpack(x, y)
            near.synchronize()
            assert all(torch.equal(a, b) for a, b in zip(got, fields))
        assert 1 <= len(halo.STREAM_POOL) <= 32


class OnlyDlpack:
    def __init__(self, tensor):
        self._tensor = tensor

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()

    def __dlpack__(self, **keywords):
        return self._tensor.__dlpack__(**keywords)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_arrays_with_only_dlpack_are_packed_after_pending_work_on_them(dtype):
    array = torch.zeros(1 << 20, dtype=dtype, device="cuda")
    q = halo.QuantityHaloSpec(
        0, (array.element_size(),), array.element_size(), array.shape, (0,), array.shape, ("k",), torch, dtype
    )
    spec = halo.HaloExchangeSpec(q, (slice(None),), 0, (slice(None),))
    with halo.HaloDataTransformer.get(torch, [spec], device="cuda") as t, torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(20_000_000)
        array.fill_(5)
        t.async_pack([OnlyDlpack(array)])
        assert (t.get_pack_buffer().array == 5).all()


def test_one_launch_for_all_fields_and_edges():
    fields = [layouts((40, 40, 20), "float64", (0, 1, 2), seed)[1] for seed in range(5)]
    specs = [s for f in fields for s in specs_for(f, 1)]
    with halo.HaloDataTransformer.get(torch, specs, device="cuda") as t:
        assert t._plans[False].launches == t._plans[True].launches == 1
        bound = t.bind([f for f in fields for _ in range(2)])
        bound.pack()
        t.synchronize()
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
            bound.pack()
            torch.cuda.synchronize()
        names = [e.name for e in seen.events()]
        assert sum("cudaLaunchKernel" in n or "cuLaunchKernel" in n for n in names) <= 1
        assert not any("Memcpy" in n for n in names)


def test_padding_on_a_gpu_equals_the_hosts():
    from damacy.halo.torch import empty_padded, pad, padding

    plan = padding(halo.Cartesian((1, 1), True, dims=("h", "w")), 0, 1, halo.Local(1), dims="nchw")
    x = torch.randn(1, 8, 32, 32, device="cuda").bfloat16()
    inside = empty_padded(x.shape, plan, dtype=x.dtype, device="cuda")
    inside.copy_(x)
    want = torch.nn.functional.pad(x.cpu().float(), (1, 1, 1, 1), mode="circular")
    assert torch.equal(pad(inside, plan).cpu().float(), want)
    assert torch.equal(pad(x, plan).cpu().float(), want)


def test_offsets_beyond_four_gigabytes_work():
    if torch.cuda.mem_get_info()[0] < 12 << 30:
        pytest.skip("needs 12 GiB")
    array = torch.zeros((2, (1 << 31) + 16), dtype=torch.uint8, device="cuda")
    array[1, -5:] = torch.arange(1, 6, dtype=torch.uint8, device="cuda")
    q = halo.QuantityHaloSpec(0, array.stride(), 1, array.shape, (0, 0), array.shape, ("k", "l"), torch, torch.uint8)
    box = (slice(1, 2), slice(array.shape[1] - 5, None))
    with halo.HaloDataTransformer.get(torch, [halo.HaloExchangeSpec(q, box, 0, box)], device="cuda") as t:
        t.async_pack([array])
        assert np.array_equal(t.get_pack_buffer().array.cpu().numpy(), [1, 2, 3, 4, 5])
