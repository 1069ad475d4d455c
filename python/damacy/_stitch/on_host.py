"""Predictions of other libraries as NumPy arrays in host memory. Imports none of these libraries."""

from __future__ import annotations

from typing import Any

import numpy as np


def on_host(prediction: Any) -> np.ndarray[Any, Any]:
    """The elements of an array or a tensor on any device. bfloat16 becomes f32; other host memory is not copied.

    `TypeError` for other objects, and for elements that are not real numbers or booleans.
    """
    array = _array(prediction)
    if array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise TypeError(f"prediction must have real numbers of at most 64 bits (got {array.dtype})")
    return array


def _array(value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, np.ndarray):
        return value
    match {kind.__module__.partition(".")[0] for kind in type(value).__mro__} - {"builtins", "collections", "typing"}:
        case libraries if "torch" in libraries:
            return _of_torch(value)
        case libraries if "cupy" in libraries:
            of_cupy: np.ndarray[Any, Any] = value.get()
            return of_cupy
        case libraries if "damacy" in libraries and hasattr(value, "numpy"):
            of_damacy = value.numpy()
            if isinstance(of_damacy, np.ndarray):
                return of_damacy
            raise TypeError("prediction is a batch of several arrays: give one of them, batch[name]")
        case libraries if libraries & {"jax", "jaxlib"}:
            return np.asarray(value)  # of one device or several; jax copies
    from damacy._device.array import wrap

    if (on_device := wrap(value)) is not None:
        return on_device.numpy()
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    if hasattr(value, "__array__"):
        return np.asarray(value)
    raise TypeError(f"prediction must be an array or a tensor (got {type(value).__name__})")


def _of_torch(tensor: Any) -> np.ndarray[Any, Any]:
    tensor = tensor.detach()
    if str(tensor.dtype) == "torch.bfloat16":  # NumPy has none
        tensor = tensor.float()
    array: np.ndarray[Any, Any] = tensor.cpu().numpy()
    return array
