"""Libraries that take batches through DLPack: NumPy, torch, CuPy and JAX behind one small interface.

Knows how each imports, compares, and delays its own stream. A library that is not installed, or does not reach the
device, skips the test. Does not know damacy.
"""

import dataclasses
from typing import Any

import numpy as np
import pytest

from support.element_types import OUTPUT, numpy_type

_EVERY = tuple(OUTPUT)


@dataclasses.dataclass
class Library:
    """One library on one device, "cpu" or "cuda". Subclasses import theirs in `load`."""

    device: str
    name = ""
    element_types = _EVERY

    def __post_init__(self) -> None:
        self.load()

    def load(self) -> None:
        raise NotImplementedError

    def take(self, batch: Any) -> Any:
        """A tensor over the batch's memory."""
        raise NotImplementedError

    def address(self, tensor: Any) -> int:
        raise NotImplementedError

    def to_numpy(self, tensor: Any) -> np.ndarray:
        return np.asarray(tensor)


class NumPy(Library):
    name = "numpy"
    element_types = tuple(t for t in _EVERY if t != "bfloat16")

    def load(self) -> None:
        if self.device != "cpu":
            pytest.skip("NumPy reads host memory")

    def take(self, batch: Any) -> np.ndarray:
        return np.from_dlpack(batch)

    def address(self, tensor: np.ndarray) -> int:
        return tensor.ctypes.data


class Torch(Library):
    name = "torch"

    def load(self) -> None:
        self.torch = pytest.importorskip("torch")
        if self.device == "cuda":
            if not self.torch.cuda.is_available():
                pytest.skip("this torch reaches no GPU")
            self.torch.cuda.synchronize()

    def take(self, batch: Any) -> Any:
        return self.torch.from_dlpack(batch)

    def address(self, tensor: Any) -> int:
        return tensor.data_ptr()

    def to_numpy(self, tensor: Any) -> np.ndarray:
        tensor = tensor.cpu()
        if tensor.dtype == self.torch.bfloat16:
            return tensor.view(self.torch.uint16).numpy().view(numpy_type("bfloat16"))
        return tensor.numpy()


class CuPy(Library):
    name = "cupy"
    element_types = tuple(t for t in _EVERY if t != "bfloat16")

    def load(self) -> None:
        if self.device != "cuda":
            pytest.skip("CuPy reads device memory")
        self.cupy = pytest.importorskip("cupy")

    def take(self, batch: Any) -> Any:
        return self.cupy.from_dlpack(batch)

    def address(self, tensor: Any) -> int:
        return tensor.data.ptr

    def to_numpy(self, tensor: Any) -> np.ndarray:
        return self.cupy.asnumpy(tensor)


class Jax(Library):
    name = "jax"
    element_types = tuple(t for t in _EVERY if numpy_type(t).itemsize < 8)  # wider ones want a process-wide switch

    def load(self) -> None:
        self.jax = pytest.importorskip("jax")
        try:
            self.jax.devices("gpu" if self.device == "cuda" else "cpu")
        except RuntimeError as error:
            pytest.skip(f"this JAX does not reach the device: {error}")

    def take(self, batch: Any) -> Any:
        return self.jax.dlpack.from_dlpack(batch)

    def address(self, tensor: Any) -> int:
        return tensor.unsafe_buffer_pointer()


ALL = (NumPy, Torch, CuPy, Jax)
