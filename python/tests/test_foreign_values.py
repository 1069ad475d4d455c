"""Element types and devices of other libraries in `Config`."""

import re

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import damacy
from damacy import Config, Dtype
from damacy._pipeline.foreign_values import device_of

NUMPY_NAMES = {
    "f4": Dtype.F32,
    "f2": Dtype.F16,
    "f8": Dtype.F64,
    "u1": Dtype.U8,
    "i1": Dtype.I8,
    "u2": Dtype.U16,
    "i2": Dtype.I16,
    "u4": Dtype.U32,
    "i4": Dtype.I32,
    "u8": Dtype.U64,
    "i8": Dtype.I64,
    "?": Dtype.BOOL,
}


def dtype_in_config(value):
    return Config(batch_size=1, dtype=value).dtype


def made(module, name, **members):
    """An object whose class is called `name` of `module`, for libraries that may not be installed."""
    return type(name, (), {"__module__": module} | members)()


# -- element types -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "dtype"), NUMPY_NAMES.items())
def test_a_numpy_dtype_and_its_scalar_type_are_taken(code, dtype):
    assert dtype_in_config(np.dtype(code)) is dtype
    assert dtype_in_config(np.dtype(code).type) is dtype


@pytest.mark.parametrize("kind", sorted({*np.sctypeDict.values()}, key=lambda kind: kind.__name__))
def test_a_scalar_type_of_numpy_and_its_dtype_give_the_same_result(kind):
    def outcome(value):
        try:
            return dtype_in_config(value)
        except ValueError:
            return None

    assert outcome(kind) is outcome(np.dtype(kind))


def test_the_types_of_ml_dtypes_are_taken():
    assert dtype_in_config(ml_dtypes.bfloat16) is Dtype.BF16
    assert dtype_in_config(np.dtype(ml_dtypes.bfloat16)) is Dtype.BF16


def test_the_types_of_torch_are_taken():
    for name, dtype in {"float32": Dtype.F32, "bfloat16": Dtype.BF16, "bool": Dtype.BOOL, "int64": Dtype.I64}.items():
        member = made("torch", "dtype", __str__=lambda self, name=name: f"torch.{name}")
        assert dtype_in_config(member) is dtype
    torch = pytest.importorskip("torch")
    assert [dtype_in_config(t) for t in (torch.half, torch.float, torch.uint8)] == [Dtype.F16, Dtype.F32, Dtype.U8]


def test_the_scalar_types_of_jax_are_taken():
    assert dtype_in_config(type("bfloat16", (), {"__module__": "jax.numpy"})) is Dtype.BF16
    jnp = pytest.importorskip("jax.numpy")
    assert [dtype_in_config(t) for t in (jnp.float32, jnp.bfloat16, jnp.bool_)] == [Dtype.F32, Dtype.BF16, Dtype.BOOL]


REFUSED = [
    float, int, bool, complex, object, np.dtype(">f4"), np.dtype(">u2"), np.dtype("f4, u2"), np.dtype("(2,)f4"),
    np.dtype("c8"), np.dtype("M8[s]"), np.complex64, np.generic, np.ndarray, ml_dtypes.float8_e4m3fn, np.float32(1),
    None, 1.0, "<u2", "float", b"f32", ["f32"], made("torch", "dtype", __str__=lambda self: "torch.complex64"),
    type("float32", (), {}),
]  # fmt: skip


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: type(value).__name__)
def test_any_other_type_is_refused_and_the_cause_lists_the_valid_ones(value):
    with pytest.raises(ValueError, match=f"^{re.escape(f'unknown dtype: {value!r}')}$") as caught:
        dtype_in_config(value)
    cause = str(caught.value.__cause__)
    for word in ("f32 (float32)", "bf16 (bfloat16)", "numpy.dtype", "torch.dtype", "ml_dtypes", "JAX", "byte order"):
        assert word in cause


@given(st.sampled_from(sorted(Dtype)), st.data())
def test_any_spelling_of_a_name_gives_its_type(dtype, data):
    name = data.draw(st.sampled_from([n for n, d in damacy._core.dtype._BY_NAME.items() if d is dtype]))
    upper = data.draw(st.lists(st.booleans(), min_size=len(name), max_size=len(name)))
    spelled = "".join(c.upper() if up else c for c, up in zip(name, upper))
    assert dtype_in_config(spelled) is Dtype.coerce(spelled) is dtype


@given(st.text(max_size=12) | st.from_regex(r"[<>=|]?[fiubUFB](loat|int)?[0-9]{1,3}", fullmatch=True))
def test_any_other_text_is_a_value_error_that_shows_it(name):
    if name.lower() in damacy._core.dtype._BY_NAME:
        return
    for call in (Dtype.coerce, dtype_in_config):
        with pytest.raises(ValueError) as caught:
            call(name)
        assert str(caught.value) == f"unknown dtype: {name!r}"
        assert isinstance(caught.value.__cause__, LookupError)


def test_dtype_coerce_accepts_all_its_spellings():
    for value in (np.float32, np.dtype("f4"), ml_dtypes.bfloat16):
        with pytest.raises(ValueError, match="unknown dtype"):
            Dtype.coerce(value)


# -- devices -----------------------------------------------------------------------------------------------------------


def torch_device(kind, index=None):
    text = kind if index is None else f"{kind}:{index}"
    return made("torch", "device", type=kind, index=index, __str__=lambda self: text)


@pytest.mark.parametrize(
    ("device", "stored"),
    [
        (torch_device("cpu"), "cpu"),
        (torch_device("cpu", 0), "cpu"),
        (torch_device("cuda"), "cuda"),
        (torch_device("cuda", 1), 1),
        (made("cupy.cuda.device", "Device", id=2), 2),
        (made("jaxlib._jax", "Device", platform="gpu", id=5, local_hardware_id=1), 1),
        (made("jaxlib.xla_extension", "Device", platform="cuda", id=3), 3),
        (made("jaxlib._jax", "Device", platform="cpu", id=0), "cpu"),
    ],
)
def test_a_device_of_another_library_is_taken(device, stored):
    assert Config(batch_size=1, device=device).device == stored


@pytest.mark.parametrize(
    "device", [torch_device("mps"), torch_device("meta", 0), made("jaxlib._jax", "Device", platform="tpu", id=0)]
)
def test_a_device_that_no_batch_can_live_on_is_refused(device):
    with pytest.raises(ValueError, match="device must be None, an int >= 0, 'cpu', 'cuda' or 'cuda:N'"):
        Config(batch_size=1, device=device)


def test_devices_of_torch_itself():
    torch = pytest.importorskip("torch")
    assert [device_of(torch.device(name)) for name in ("cpu", "cuda", "cuda:1")] == ["cpu", "cuda", "cuda:1"]
