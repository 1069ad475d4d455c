"""DeviceArray and zarr's buffer classes over it, on the host: NumPy is the model for arrays, the texts of errors and
warnings are compared literally. Fresh interpreters show what importing costs and loads."""

import pickle
import warnings

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from support.child import run

import damacy

zarr = pytest.importorskip("zarr", minversion="3.1")
numcodecs = pytest.importorskip("numcodecs")
pytestmark = pytest.mark.filterwarnings("error")

from zarr.core.buffer import cpu  # noqa: E402

from damacy.zarr.buffer import gpu  # noqa: E402

SETTINGS = settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
SLOW = "does not support the __cuda_array_interface__ for zero-copy transfers, falling back to slow copy based path"


def device(x, **options):
    return damacy.asarray(x, device="cpu", **options)


def same(ours, model):
    model = np.asarray(model)
    assert isinstance(ours, damacy.DeviceArray)
    if model.ndim == 0:  # a NumPy scalar forgets the byte order
        model = model.astype(ours.dtype) if ours.dtype.newbyteorder("=") == model.dtype.newbyteorder("=") else model
    assert (ours.dtype, ours.shape) == (model.dtype, model.shape)
    assert ours.numpy().tobytes() == model.tobytes()


some_arrays = hnp.arrays(
    hnp.integer_dtypes(endianness="?") | hnp.floating_dtypes(sizes=(32, 64)) | hnp.boolean_dtypes(),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
)


@SETTINGS
@given(data=st.data(), model=some_arrays)
def test_indexing_equals_numpys(data, model):
    ours = device(model)
    basic = data.draw(hnp.basic_indices(model.shape, allow_newaxis=True))
    same(ours[basic], model[basic])
    if model.ndim and model.size:
        same(ours[[0, 0]], model[[0, 0]])
        mask = data.draw(hnp.arrays(bool, model.shape))
        same(ours[mask], model[mask])
        same(ours[device(mask)], model[mask])


@SETTINGS
@given(model=some_arrays, value=st.integers(0, 100))
def test_assignment_casts_and_broadcasts_as_numpy_does(model, value):
    ours, model = device(model), model.copy()
    ours[...] = value
    model[...] = value
    same(ours, model)
    if model.ndim:
        ours[::2] = np.float32(value)
        model[::2] = np.float32(value)
        same(ours, model)
        ours[1:] = ours[:1].astype("f8")
        model[1:] = model[:1].astype("f8")
        same(ours, model)


@SETTINGS
@given(data=st.data(), model=some_arrays)
def test_shapes_and_orders_equal_numpys(data, model):
    ours = device(model)
    assert ours.strides == model.strides
    same(ours.T, model.T)
    axes = data.draw(st.permutations(range(model.ndim)))
    backwards = (..., *[slice(None, None, -1)] * min(model.ndim, 1))
    crooked, model_crooked = ours[backwards].transpose(axes), model[backwards].transpose(axes)  # often in no order
    for order in "CFAK":
        same(ours.T.copy(order), model.T.copy(order))
        assert ours.T.copy(order).strides == model.T.copy(order).strides or 0 in model.shape or 1 in model.shape
        for a, b in ((ours.T, model.T), (crooked, model_crooked)):
            same(a.ravel(order), b.ravel(order))
            assert (a.astype(a.dtype, order, copy=False) is a) == (b.astype(b.dtype, order, copy=False) is b)
            if order != "K":
                same(a.reshape(-1, order=order), b.reshape(-1, order=order))
    assert ours.tobytes("F") == model.tobytes("F")
    assert (ours.flags.c_contiguous, ours.flags.f_contiguous) == (
        model.flags.c_contiguous,
        model.flags.f_contiguous,
    )
    same(ours == model, model == model)
    assert ours.all() == model.all() and type(ours.all()) is np.bool_


@pytest.mark.parametrize("dtype", ["<f4", ">f4", ">i2", "?", "<c8", "<M8[s]", "S3", "U2", "V5"])
def test_element_types_without_arithmetic_too(dtype):
    model = np.zeros((2, 3), dtype) if dtype == "V5" else np.arange(6).reshape(2, 3).astype(dtype)
    ours = device(model)
    same(ours, model)
    same(ours[:, ::2], model[:, ::2])
    same(ours == model, model == model)
    ours.fill(model[1, 2])
    assert ours[0, 0].item() == model[1, 2].item()


def test_views_share_memory_and_copies_do_not():
    ours = device(np.zeros((4, 4), "u2"))
    ours[1:3, ::2].reshape(2, 2, copy=None).fill(3)
    ours[0][1] = 7
    ours.T[3, 3] = 9
    ours.view("u1")[0, 0] = 1
    assert ours.numpy().tolist() == [[1, 7, 0, 0], [3, 0, 3, 0], [3, 0, 3, 0], [0, 0, 0, 9]]
    with pytest.raises(ValueError, match="copy"):
        ours.T.reshape(-1, copy=False)


def test_it_is_not_converted_to_a_numpy_array_implicitly():
    ours = device([1, 2])
    with pytest.raises(TypeError, match=r"\.numpy\(\)"):
        np.asarray(ours)
    for name in ("__array_interface__", "__cuda_array_interface__"):
        assert not hasattr(ours, name)
    with pytest.raises(TypeError):
        memoryview(ours)
    with pytest.raises(TypeError):
        hash(ours)
    with pytest.raises(TypeError):
        len(ours[0])
    assert repr(ours) == "DeviceArray(shape=(2,), dtype=int64, device='cpu')"


def test_numpy_makes_arrays_like_it():
    ours = device([1, 2])
    for make in (np.asanyarray, np.asarray, np.array):
        same(make(5.0, like=ours), np.array(5.0))
        same(make([1, 2], "f4", like=ours), np.array([1, 2], "f4"))
    same(np.array([[1, 2]], order="F", ndmin=3, like=ours), np.array([[1, 2]], ndmin=3))
    assert np.asarray(ours, like=ours) is ours
    np.array(ours, like=ours).fill(7)  # a copy
    assert ours.numpy().tolist() == [1, 2]


def test_invalid_orders_and_devices_are_refused():
    with pytest.raises(ValueError, match="order"):
        device([1, 2]).reshape(2, 1, order="Z")
    with pytest.raises(ValueError, match="order"):
        damacy.empty(3, "f4", order="K")
    for name in ("gpu", "cuda", "cuda:x", "cuda:²", "cpu:0", -1, True, 1.5):
        with pytest.raises(damacy.InvalidArgument, match="device"):
            damacy.empty(3, "f4", device=name)


def test_numpy_gets_host_memory_by_dlpack_without_a_copy():
    ours = device(np.arange(6, dtype="u2").reshape(2, 3))
    theirs = np.from_dlpack(ours.T)
    ours[0, 1] = 99
    assert theirs[1, 0] == 99 and ours.__dlpack_device__() == (1, 0)
    del ours
    assert theirs.sum() == 0 + 99 + 2 + 3 + 4 + 5
    for refused in (device(np.arange(3, dtype=">u2")), device(np.zeros(2, "M8[s]"))):
        with pytest.raises(BufferError):
            refused.__dlpack__()
    with pytest.raises(BufferError):
        device([1]).__dlpack__(stream=1)
    with pytest.raises(BufferError):
        device([1]).__dlpack__(dl_device=(2, 0))


def test_asarray_with_copy_false_wraps():
    model = np.arange(5)
    wrapped = device(model, copy=False)
    model[2] = 77
    assert wrapped[2].item() == 77
    with pytest.raises(ValueError):
        device([1, 2], copy=False)
    with pytest.raises(ValueError):
        device(model, dtype="f4", copy=False)
    model.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        device(model, copy=False)[0] = 1
    assert device(np.zeros(3))._block.address % 256 == 0


class Fake:
    """An object that pretends to be on a GPU."""

    def __init__(self, **interface):
        self.__cuda_array_interface__ = {"shape": (0,), "typestr": "|u1", "data": (0, False), "version": 3} | interface


def test_the_cuda_array_interface_is_checked():
    assert gpu.Buffer(Fake()).as_array_like().device.startswith("cuda:")
    with pytest.raises(TypeError):
        gpu.Buffer(Fake(mask=Fake()))
    with pytest.raises(ValueError):
        gpu.Buffer(Fake(stream=0))
    with pytest.raises(ValueError, match="only byte dtype allowed"):
        gpu.Buffer(Fake(typestr="|i1"))
    assert gpu.NDBuffer(Fake(shape=(3, 0), typestr=">f4")).shape == (3, 0)


def test_buffers_check_their_arguments():
    for bad, text in [(np.zeros((2, 2), "u1"), "only 1-dim"), (np.zeros(2, "i1"), "only byte dtype")]:
        with pytest.raises(ValueError, match=f"array_like: {text} allowed"):
            gpu.Buffer(bad)
    b = gpu.Buffer.from_bytes(b"abcdef")
    with pytest.raises(TypeError, match=r"^Item key has incorrect type \(expected slice, got int\)$"):
        b[1]
    with pytest.raises(ValueError, match="^slice must be contiguous$"):
        b[::2]
    assert b[1:3].to_bytes() == b"bc" and b[4:2].to_bytes() == b"" and len(b) == 6
    b[0:2] = b[4:6].as_array_like()
    assert b.to_bytes() == b"efcdef" and bytes(b.as_buffer_like()) == b"efcdef"
    assert b == cpu.Buffer.from_bytes(b"efcdef") and b != b"efcdef"
    with pytest.raises(TypeError):
        b.as_array_like()[0:2] = b[0:2]
    with pytest.raises(AttributeError):
        b.combine([b"x"])
    assert len(gpu.Buffer.create_zero_length()) == 0 and gpu.Buffer.from_bytes(b"") == b[3:3]


def test_host_arrays_warn_and_name_the_caller():
    category = getattr(zarr.errors, "ZarrUserWarning", UserWarning)
    for make, name, kind in [
        (lambda: gpu.Buffer(np.zeros(3, "u1")), "Buffer", category),
        (lambda: gpu.Buffer.from_array_like(np.zeros(3, "u1")), "Buffer", category),
        (lambda: gpu.Buffer.from_buffer(cpu.Buffer.from_bytes(b"x")), "Buffer", category),
        (lambda: gpu.Buffer.from_bytes(b"y") + cpu.Buffer.from_bytes(b"x"), "Buffer", category),
        (lambda: gpu.NDBuffer(np.zeros((2, 2))), "NDBuffer", UserWarning),
    ]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            make()
        assert [(str(w.message), w.category, w.filename) for w in caught] == [
            (f"Creating a zarr.buffer.gpu.{name} with an array that {SLOW}", kind, __file__)
        ]
    gpu.Buffer(device(np.zeros(3, "u1")))
    gpu.NDBuffer.from_numpy_array([[1, 2]])


def test_ndbuffers_behave_as_those_of_zarr():
    nd = gpu.NDBuffer.create(shape=(2, 3), dtype=">i2", fill_value=5)
    assert nd.shape == (2, 3) and nd.dtype == np.dtype(">i2") and nd.as_numpy_array().tolist() == [[5] * 3] * 2
    assert type(nd[0]) is gpu.NDBuffer and nd[0, 0].as_scalar() == 5
    with pytest.raises(ValueError, match="^Buffer does not contain a single scalar value$"):
        nd.as_scalar()
    assert nd[:1, :1].as_scalar().shape == (1, 1)
    assert nd[None].squeeze((0, -1)).shape == (2, 3) and nd.reshape(-1).shape == (6,)
    assert nd.transpose(None).shape == (3, 2) and nd.astype("f4").dtype == np.dtype("f4")
    nd[0] = gpu.NDBuffer.from_numpy_array([1, 2, 3])
    with pytest.warns(UserWarning, match="NDBuffer"):
        nd[1] = cpu.NDBuffer.from_numpy_array(np.array([7, 8, 9]))
    assert nd.as_numpy_array().tolist() == [[1, 2, 3], [7, 8, 9]]
    assert repr(nd).startswith("<NDBuffer shape=(2, 3) dtype=>i2 DeviceArray(")
    for kind in (TypeError, AssertionError):
        with pytest.raises(kind, match="^zarr.buffer.gpu.NDBuffer does not support arrays with object dtype.$"):
            gpu.NDBuffer(np.array([None]))
    with pytest.raises(TypeError):
        len(nd[0, 0])


@pytest.mark.parametrize(
    ("data", "other", "expected"),
    [
        ([0.0, -0.0], 0.0, False),
        ([0.0, 0.0], -0.0, False),
        ([0, 0], 0.0, True),
        ([0j], -0.0, False),
        ([-0.0, -0.0], 0, True),
        ([np.nan], np.nan, True),
        ([1, 2], None, False),
        ([], 3, True),
        ([3, 3], 3, True),
        ([3, 4], 3, False),
        (["a", "a"], "a", True),
    ],
)
def test_all_equal(data, other, expected):
    answer = gpu.NDBuffer.from_numpy_array(np.array(data)).all_equal(other)
    assert answer is expected
    if data == [np.nan]:
        assert gpu.NDBuffer.from_numpy_array(np.array(data)).all_equal(other, equal_nan=False) is False


def test_names_and_pickles():
    for cls in (gpu.Buffer, gpu.NDBuffer):
        assert pickle.loads(pickle.dumps(cls)) is cls
        assert f"{cls.__module__}.{cls.__qualname__}" == f"damacy.zarr.buffer.gpu.{cls.__name__}"
    assert pickle.loads(pickle.dumps(gpu.buffer_prototype)) == gpu.buffer_prototype
    assert gpu.__all__ == ["Buffer", "NDBuffer", "buffer_prototype"]
    assert damacy.zarr.CodecPipeline.__module__ == "damacy.zarr"
    from zarr.core.buffer.core import ArrayLike, NDArrayLike

    assert isinstance(device([1]), ArrayLike) and isinstance(device([1]), NDArrayLike)


OPTIONS = {
    "plain": {"compressors": None},
    "zstd": {},
    "sharded": {"shards": (4, 6)},
    "v2": {"zarr_format": 2},
    "v2 filters": {"zarr_format": 2, "filters": [numcodecs.Delta(dtype="<i4")]},
}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_arrays_are_written_and_read_in_gpu_mode(tmp_path, options):
    model = np.arange(35, dtype="<i4").reshape(5, 7)
    if options == "sharded":  # zarr itself makes a buffer of NumPy's memory when it writes the index of a shard
        warnings.filterwarnings("ignore", "Creating a zarr.buffer.gpu")
    with damacy.zarr.enable(gpu=True, device="cpu"):
        z = zarr.create_array(tmp_path / "a", shape=(5, 7), chunks=(2, 3), dtype="<i4", **OPTIONS[options])
        z[:] = damacy.asarray(model)
        z[0:2] = 5
        model[0:2] = 5
        again = zarr.open_array(tmp_path / "a", mode="r+")
        found = again[:]
        same(found, model)
        same(again.oindex[[1, 4], ::2], model[[1, 4]][:, ::2])
        assert again[3, 3] == model[3, 3]
    assert np.array_equal(zarr.open_array(tmp_path / "a")[:], model)


def test_enable_and_disable_restore_the_configuration(tmp_path):
    def keys():
        return [zarr.config.get(k) for k in ("codec_pipeline.path", "buffer", "ndbuffer")]

    before = keys()
    with damacy.zarr.enable(gpu=True, device="cpu"):
        assert keys() == [
            "damacy.zarr.CodecPipeline",
            "damacy.zarr.buffer.gpu.Buffer",
            "damacy.zarr.buffer.gpu.NDBuffer",
        ]
    assert keys() == before
    damacy.zarr.enable(strict=True)
    assert zarr.config.get("damacy.strict") is True
    damacy.zarr.disable()
    assert keys() == before and not zarr.config.get("damacy.strict")
    with pytest.raises(damacy.InvalidArgument):
        damacy.zarr.enable(device="tpu")


def test_importing_loads_neither_zarr_nor_cuda(tmp_path):
    child = run("""
        import sys, threading
        import damacy, damacy.zarr, damacy.zarr.buffer.gpu
        assert not [m for m in sys.modules if m.split(".")[0] in ("zarr", "numcodecs", "cupy", "torch")]
        damacy.zarr.CodecPipeline
        damacy.zarr.buffer.gpu.Buffer
        assert "damacy._native" not in sys.modules, "loading the classes loads no extension"
        assert "cupy" not in sys.modules
        print("ok")
    """)
    assert child.stdout == "ok\n", child.stderr


def test_host_reads_map_no_cuda_library(tmp_path):
    child = run(
        """
        import sys
        import numpy as np, zarr, damacy.zarr
        damacy.zarr.enable(strict=True)
        z = zarr.create_array(sys.argv[1], shape=(20, 20), chunks=(5, 5), dtype="u2")
        z[:] = 3
        assert (z[:] == 3).all() and damacy.zarr.stats()["reads"] == 1
        maps = open("/proc/self/maps").read()
        assert "libcuda" not in maps and "libcufile" not in maps
        print("ok")
        """,
        tmp_path / "a",
    )
    assert child.stdout == "ok\n", child.stderr


def test_without_the_extension_the_classes_load_and_using_them_says_why(tmp_path):
    child = run("""
        import sys
        sys.modules["damacy._native"] = None
        import damacy.zarr, damacy.zarr.buffer.gpu as gpu
        damacy.zarr.CodecPipeline, gpu.Buffer
        try:
            gpu.Buffer.from_bytes(b"x")
        except ImportError:
            print("ok")
    """)
    assert child.stdout == "ok\n", child.stderr
