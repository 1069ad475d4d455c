"""`Batch`: one finished batch and its slot. `NamedBatch`: one of several arrays. `BatchArray`: one of these arrays.
`BatchInfo`: their addresses and shapes.

Wraps the native batch, which decides when the slot may be reused; adds NumPy views, samples and argument checks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from damacy._core import log
from damacy._core.dtype import Dtype
from damacy._core.errors import InvalidArgument, ShutdownError
from damacy._core.streams import stream_handle
from damacy._pipeline.sample import Sample

if TYPE_CHECKING:
    from types import TracebackType

    import numpy
    import torch

_HOST = (1, 0)  # DLPack's device of host memory


@dataclasses.dataclass(frozen=True, slots=True)
class BatchInfo:
    """Address, shape and type of a batch. On the host `device_ptr` is a host address and `ready_stream` is 0.

    The stream is destroyed with the pipeline. After `Pipeline.close`, use the batch by DLPack, which does not need it.
    """

    device_ptr: int
    shape: tuple[int, ...]
    dtype: Dtype
    ready_stream: int
    batch_id: int


def batch_info_from(native: Mapping[str, Any]) -> BatchInfo:
    """`BatchInfo` from the native dict."""
    return BatchInfo(
        device_ptr=native["device_ptr"],
        shape=native["shape"],
        dtype=Dtype(native["dtype"]),
        ready_stream=native["ready_stream"],
        batch_id=native["batch_id"],
    )


class BatchArray:
    """An array of a batch: pass it to `torch.from_dlpack` or the like, or call `numpy()`. Exports hold the slot."""

    __slots__ = ("_name", "_native")

    def __init__(self, native: Any, name: str | None) -> None:
        self._native = native
        self._name = name  # None: the only array of a batch without names

    @property
    def info(self) -> BatchInfo:
        """Address, shape and type; `InvalidArgument` after release."""
        return batch_info_from(self._native.info(self._name))

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows, then the extents of a row; `InvalidArgument` after release."""
        return self.info.shape

    @property
    def dtype(self) -> Dtype:
        """The element type; `InvalidArgument` after release."""
        return self.info.dtype

    @property
    def device(self) -> int | str:
        """As `Pipeline.device`; `InvalidArgument` after release."""
        kind, index = self.__dlpack_device__()
        return "cpu" if (kind, index) == _HOST else index

    def numpy(self) -> numpy.ndarray[Any, Any]:
        """The array as a NumPy array. For a host batch a view, which holds the slot; copy what you keep. For a CUDA
        batch a copy, made after the work queued so far on the streams to which views of the batch were exported."""
        info = self.info
        return _array_over(self.__dlpack__(dl_device=_HOST), info)

    def torch(self, *, copy: bool = False) -> torch.Tensor:
        """The array as a tensor on its device: a view, which holds the slot, or, with `copy`, a copy.

        The copy is made on torch's current stream. `ModuleNotFoundError` without torch.
        """
        import torch

        tensor = torch.from_dlpack(self)
        return tensor.clone() if copy else tensor

    def jax(self) -> Any:
        """The array as a JAX array on its device: a view, which holds the slot. `ModuleNotFoundError` without jax."""
        import jax

        return jax.dlpack.from_dlpack(self)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return self._native.dlpack(stream, max_version, dl_device, copy, self._name)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._native.dlpack_device()
        return device

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a BatchArray does not become a NumPy array by itself: call .numpy()")

    def __repr__(self) -> str:
        return f"<damacy.BatchArray {_shown(self)}>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a BatchArray cannot be pickled or copied: it is part of a slot of a running pipeline")


class Batch:
    """Samples in one array, returned by `Pipeline.pop`. Pass it to `torch.from_dlpack` or the like, or call `numpy()`.

    Its slot is reused after the batch is released (by `release`, at the end of `with batch`, or by garbage collection)
    and every tensor made from it is gone.
    """

    __slots__ = ("__weakref__", "_native", "_padded_from")
    _native: Any  # a native batch
    _padded_from: int | None  # the stream's number of the first row that fills up the last batch of an epoch

    def __init__(self, native: Any) -> None:
        from damacy import _native

        if not isinstance(native, _native.Batch):
            raise TypeError("batches come from Pipeline.pop")
        self._native = native
        self._padded_from = None

    @classmethod
    def _empty(cls) -> Batch:
        """A batch whose `_native` the caller sets."""
        batch = cls.__new__(cls)
        batch._padded_from = None
        return batch

    @property
    def info(self) -> BatchInfo:
        """Address, shape and type of the batch; `InvalidArgument` after release."""
        return batch_info_from(self._native.info())

    @property
    def valid(self) -> tuple[bool, ...]:
        """For each row False if `on_error="fill"` filled it or a loader with `tail="pad"` added it, else True."""
        valid = self._native.valid
        end = self._padded_from  # the first sample that was added, as `sample_indices` counts
        return valid if end is None else tuple(ok and k < end for ok, k in zip(valid, self.sample_indices))

    @property
    def samples(self) -> tuple[Sample, ...]:
        """For each row the `Sample` object that was pushed; also after release."""
        samples: tuple[Sample, ...] = self._native.samples
        return samples

    @property
    def sample_indices(self) -> tuple[int, ...]:
        """For each row the number of its sample among all samples that the pipeline accepted; ascending."""
        indices: tuple[int, ...] = self._native.sample_indices
        return indices

    def release(self, stream_or_event: object = None) -> None:
        """Release the slot after the work queued so far on that stream, or after that event. Idempotent."""
        with log.drained_at_end:
            self._native.release(None if self._native.on_host else stream_handle(stream_or_event))

    @property
    def rows(self) -> int:
        """The number of rows; also after release."""
        return len(self.sample_indices)

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of the arrays; `()` if it has one array without a name."""
        names: tuple[str, ...] = self._native.names
        return names

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows, then the extents of a row; `InvalidArgument` after release."""
        return self.info.shape

    @property
    def dtype(self) -> Dtype:
        """The element type; `InvalidArgument` after release."""
        return self.info.dtype

    def numpy(self) -> numpy.ndarray[Any, Any]:
        """The batch as a NumPy array. For a host batch a view, which holds the slot; copy what you keep. For a CUDA
        batch a copy, made after the work queued so far on the streams to which views of the batch were exported."""
        return self._only().numpy()

    def torch(self, *, copy: bool = False) -> torch.Tensor:
        """The batch as a tensor on its device: a view, which holds the slot, or, with `copy`, a copy.

        The copy is made on torch's current stream. `ModuleNotFoundError` without torch.
        """
        return self._only().torch(copy=copy)

    def jax(self) -> Any:
        """The batch as a JAX array on its device: a view, which holds the slot. `ModuleNotFoundError` without jax."""
        return self._only().jax()

    def __getitem__(self, name: str) -> BatchArray:
        """The array of that name. `TypeError` if the batch has one array without a name."""
        raise TypeError("a batch of one array has no names: use the batch itself")

    def _only(self) -> BatchArray:
        return BatchArray(self._native, None)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return self._native.dlpack(stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._native.dlpack_device()
        return device

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a Batch does not become a NumPy array by itself: call .numpy()")

    def __enter__(self) -> Batch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        try:
            return f"<damacy.Batch {self._native.batch_id}: {self._shown()}>"
        except InvalidArgument:
            return "<damacy.Batch released>"
        except ShutdownError:
            return "<damacy.Batch of another process>"

    def _shown(self) -> str:
        return _shown(self._only())

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a Batch cannot be pickled or copied: it is a slot of a running pipeline")


class NamedBatch(Batch, Mapping[str, BatchArray]):
    """Samples of several arrays: a mapping from name to `BatchArray`, in the order of `Config.arrays`, else of the
    first sample. It is one slot, which is released as a whole.

    `torch()`, `jax()` and `numpy()` return a dict of what `BatchArray` returns.
    """

    __slots__ = ()
    # A mapping would be compared by content.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __getitem__(self, name: str) -> BatchArray:
        """The array of that name."""
        if name not in self.arrays:
            raise KeyError(f"no array {name!r}; there are {', '.join(map(repr, self.arrays))}")
        return BatchArray(self._native, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def __contains__(self, name: object) -> bool:
        return name in self.arrays

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.arrays)

    @property
    def info(self) -> NoReturn:
        raise TypeError(self._of_several("info"))

    @property
    def shape(self) -> NoReturn:
        raise TypeError(self._of_several("shape"))

    @property
    def dtype(self) -> NoReturn:
        raise TypeError(self._of_several("dtype"))

    def numpy(self) -> dict[str, numpy.ndarray[Any, Any]]:  # type: ignore[override]  # one object for each array
        return {name: array.numpy() for name, array in self.items()}

    def torch(self, *, copy: bool = False) -> Any:
        return {name: array.torch(copy=copy) for name, array in self.items()}

    def jax(self) -> dict[str, Any]:
        return {name: array.jax() for name, array in self.items()}

    def __dlpack__(self, **_: Any) -> NoReturn:
        raise TypeError(self._of_several("__dlpack__()"))

    def __dlpack_device__(self) -> NoReturn:
        raise TypeError(self._of_several("__dlpack_device__()"))

    def _of_several(self, member: str) -> str:
        return f"a batch of several arrays: say batch[{self.arrays[0]!r}].{member}"

    def _shown(self) -> str:
        return ", ".join(f"{name} {_shown(array)}" for name, array in self.items())


def _shown(array: BatchArray) -> str:
    info = array.info
    return f"{info.shape} {info.dtype.name.lower()}"


# NumPy's array-interface code of each element type; bfloat16 is passed as 16-bit integers.
_TYPESTR = {
    Dtype.F32: "<f4",
    Dtype.BF16: "<u2",
    Dtype.F16: "<f2",
    Dtype.F64: "<f8",
    Dtype.U8: "|u1",
    Dtype.I8: "|i1",
    Dtype.U16: "<u2",
    Dtype.I16: "<i2",
    Dtype.U32: "<u4",
    Dtype.I32: "<i4",
    Dtype.U64: "<u8",
    Dtype.I64: "<i8",
    Dtype.BOOL: "|b1",
}


class _CapsuleMemory:
    """A DLPack capsule as memory of NumPy arrays. The capsule, whose native deleter frees the memory, is destroyed with
    the last array. NumPy's own import is not used: it does not support bfloat16, and old versions import read-only."""

    def __init__(self, capsule: object, info: BatchInfo) -> None:
        self._capsule = capsule
        self.__array_interface__ = {
            "version": 3,
            "shape": info.shape,
            "typestr": _TYPESTR[info.dtype],
            "data": (_data_pointer(capsule), False),
        }


def _array_over(capsule: object, info: BatchInfo) -> numpy.ndarray[Any, Any]:
    import numpy as np

    if info.dtype is not Dtype.BF16:
        return np.asarray(_CapsuleMemory(capsule, info))
    try:
        import ml_dtypes
    except ModuleNotFoundError:
        raise BufferError(
            "NumPy has no bfloat16 of its own: pip install ml_dtypes, or take the batch by DLPack"
        ) from None
    return np.asarray(_CapsuleMemory(capsule, info)).view(ml_dtypes.bfloat16)


def _data_pointer(capsule: object) -> int:
    """The first field of a `DLManagedTensor`: the address of its data."""
    import ctypes

    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return ctypes.c_void_p.from_address(pointer_of(capsule, b"dltensor")).value or 0
