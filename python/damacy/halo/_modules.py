"""Chooses the transformer for an array module, and how to allocate its buffers. Imports no array library by itself."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from damacy import _native
from damacy.halo._arrays import exports, layout_of
from damacy.halo._dtypes import NAMES, code_of
from damacy.halo._errors import DtypeMismatch, Unsupported


def _name(np_module: Any) -> str:
    return getattr(np_module, "__name__", type(np_module).__name__)


def is_on_device(np_module: Any, device: Any) -> bool:
    """Whether arrays of this module are in device memory. NotImplementedError if that cannot be determined."""
    name = _name(np_module)
    if name == "numpy":
        return False
    if name == "cupy":
        return True
    if name == "torch":
        return bool(np_module.device(np_module.get_default_device() if device is None else device).type != "cpu")
    return _layout_of_zeros(np_module).device is not None


def _layout_of_zeros(np_module: Any) -> _native.ArrayLayout:
    try:
        sample = np_module.zeros(1)
    except Exception:
        sample = None
    if sample is None or not exports(sample):
        raise Unsupported(f"Quantity module {_name(np_module)} has no HaloDataTransformer implemented")
    return layout_of(sample)


@functools.lru_cache(maxsize=64)
def _torch_zeros(device: str) -> Any:
    import torch

    return functools.partial(torch.zeros, device=device)


def allocator(np_module: Any, on_device: bool, device: Any, dtype: Any) -> tuple[Any, Any]:
    """The function that allocates buffers on the host or on the device, and the dtype as that function spells it.

    It is a function of `np_module` if that module has writable memory there."""
    name = _name(np_module)
    spelled = NAMES[code_of(dtype)]
    if name == "torch":
        near = "cpu" if not on_device else "cuda" if device is None else device
        return _torch_zeros(str(np_module.device(near))), getattr(np_module, spelled)
    if not on_device and (is_on_device(np_module, device) or not _layout_of_zeros(np_module).writable):
        np_module = np
    elif on_device and not is_on_device(np_module, device):
        raise DtypeMismatch(f"the GPU transformer needs arrays in device memory; those of {name} are in host memory")
    if spelled == "bfloat16":
        import ml_dtypes  # NumPy's and CuPy's bfloat16

        return np_module.zeros, ml_dtypes.bfloat16
    return np_module.zeros, spelled


def check_backend() -> None:
    """NotImplementedError, with the reason, if no GPU can be used."""
    info = _native.backend_info()
    if not info["cuda"]:
        raise Unsupported(f"halo exchanges on a GPU are not available: {info['cuda_reason']}")
