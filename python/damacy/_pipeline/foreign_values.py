"""Converts element types and devices of other libraries for `Config`: NumPy, ml_dtypes, PyTorch, JAX, CuPy.

Recognises types of those libraries by name; imports none of them."""

from __future__ import annotations

import operator
from typing import Any

from damacy._core.dtype import Dtype, known_names

_KINDS = (
    "Config takes a damacy.Dtype, its name or number, a numpy.dtype or NumPy scalar type in the machine's byte order, "
    "an ml_dtypes type, a torch.dtype or a JAX scalar type"
)
# NumPy's C names of 64-bit integers, which its scalar types keep.
_C_NAMES = {"longlong": "int64", "ulonglong": "uint64"}


def dtype_of(value: object) -> Dtype:
    """The element type that `value` names. The cause of the `ValueError` lists the accepted types.

    >>> import numpy
    >>> dtype_of(numpy.dtype("u2")), dtype_of(numpy.float16), dtype_of("bf16")
    (<Dtype.U16: 6>, <Dtype.F16: 2>, <Dtype.BF16: 1>)
    >>> dtype_of(float)
    Traceback (most recent call last):
    ValueError: unknown dtype: <class 'float'>
    """
    name = _dtype_name(value)
    try:
        return Dtype.coerce(value if name is None else name)
    except ValueError:
        cause = LookupError(f"{known_names(repr(value))}; {_KINDS}")
        raise ValueError(f"unknown dtype: {value!r}") from cause


def _dtype_name(value: Any) -> str | None:
    """The name of another library's element type, or None."""
    if isinstance(value, type):
        library = value.__module__.partition(".")[0]
        if library in ("numpy", "ml_dtypes", "jax", "jaxlib"):
            return _C_NAMES.get(value.__name__, value.__name__)
        return None
    if _is(value, "numpy", "dtype"):
        native = value.isnative and value.fields is None and value.subdtype is None
        return str(value.name if native else value)
    if _is(value, "torch", "dtype"):
        return str(value).removeprefix("torch.")
    return None


def device_of(value: Any) -> Any:
    """A device of PyTorch, JAX or CuPy as `Config.device` names it; anything else unchanged.

    For a JAX device, its number on its host is used.
    """
    if _is(value, "torch", "device"):
        return str(value.type if value.index is None or value.type == "cpu" else value)
    if _is(value, "cupy", "Device"):
        return operator.index(value.id)
    if _is(value, "jaxlib", "Device") or _is(value, "jax", "Device"):
        platform = value.platform
        if platform not in ("gpu", "cuda"):
            return str(platform)
        local = getattr(value, "local_hardware_id", None)
        return operator.index(value.id if local is None else local)
    return value


def _is(value: object, library: str, name: str) -> bool:
    """Whether the class of the value, or one of its bases, has that name and library."""
    return any(kind.__name__ == name and kind.__module__.partition(".")[0] == library for kind in type(value).__mro__)
