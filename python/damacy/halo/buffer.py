"""A pool of buffers with a limit on idle bytes. Knows arrays and keys; not packing."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from damacy import _native
from damacy.halo._arrays import layout_of, library_of
from damacy.halo._errors import HaloError, InvalidArgument, number_from_environment

POOL_BYTES = 512 << 20

_tokens = itertools.count(1)


class _Cache(dict[Any, "list[Buffer]"]):
    """Maps keys to lists of idle buffers. Users may clear it at any time."""

    def clear(self) -> None:
        super().clear()
        _pool.clear()


BUFFER_CACHE: dict[Any, list[Buffer]] = _Cache()
_pool = _native.HaloBufferPool(BUFFER_CACHE)


def _allocate(allocator: Callable[..., Any], shape: Any, dtype: Any) -> Any:
    name = getattr(allocator, "__module__", "") or ""
    if name.partition(".")[0] == "cupy":
        import cupy

        with cupy.cuda.using_allocator(cupy.get_default_memory_pool().malloc):
            array = allocator(shape, dtype=dtype)
    else:
        array = allocator(shape, dtype=dtype)
    if library_of(array) == "cupy":
        import cupy

        if allocator not in (cupy.empty, cupy.zeros):
            raise HaloError("allocator: expected cupy.empty or cupy.zeros for CuPy buffers")
    layout = layout_of(array)
    if not layout.is_c_contiguous:
        raise InvalidArgument(
            f"the allocator returned strides {layout.strides} for shape {layout.shape}: expected C-contiguous memory"
        )
    return array


def _to_library_of(destination: Any, source: Any) -> Any:
    """`source`, copied to the host or the device if `destination` is there and `source` is not."""
    ours, theirs = library_of(destination), library_of(source)
    if ours == theirs:
        return source
    if ours == "cupy":
        import cupy

        return cupy.asarray(source)
    if ours == "torch":
        import torch

        return torch.as_tensor(source)
    if theirs == "cupy":
        return source.get()
    if theirs == "torch":
        return source.detach().cpu().numpy()
    return source


class Buffer:
    """An array of the pool, and its key: (allocator, shape, dtype).

    >>> with array_buffer(np.zeros, (4,), np.float64) as buffer:
    ...     buffer.assign_from(np.arange(4.0))
    ...     buffer.array.tolist()
    [0.0, 1.0, 2.0, 3.0]
    """

    def __init__(self, key: Any, array: Any) -> None:
        self._key = key
        self.array = array
        self._token = 0  # identifies its holder; 0: idle, or created without the pool
        self._last_use: Any = None  # on a device, the queue that last used it
        layout = layout_of(array)
        self.address = layout.address
        self._device = layout.device
        self._bytes = layout.nbytes

    @classmethod
    def pop_from_cache(cls, allocator: Callable[..., Any], shape: Any, dtype: Any) -> Buffer:
        """The most recently used idle buffer of this key, with its old contents, or a new one."""
        key = (allocator, tuple(shape) if isinstance(shape, list) else shape, dtype)
        buffer: Buffer | None = _pool.take(key)
        if buffer is None:
            try:
                buffer = cls(key, _allocate(allocator, shape, dtype))
            except BaseException:
                _pool.end_loan(key)
                raise
        buffer._token = next(_tokens)
        return buffer

    @staticmethod
    def push_to_cache(buffer: Buffer) -> None:
        """Returns a buffer to the pool. If it is there already, nothing changes."""
        limit = number_from_environment("DAMACY_HALO_POOL_BYTES", POOL_BYTES, 0)
        was_lent, buffer._token = buffer._token, 0
        _pool.give(buffer, buffer._key, buffer._device, buffer._bytes, limit)
        if was_lent:
            _pool.end_loan(buffer._key)

    def _release(self, token: int) -> None:
        """Returns the buffer to the pool for the holder of this token. No effect if it has another holder now."""
        if self._token == token:
            Buffer.push_to_cache(self)

    def __del__(self) -> None:
        if getattr(self, "_token", 0):
            _pool.end_loan(self._key)

    def assign_from(self, source_array: Any, buffer_slice: Any = np.index_exp[:]) -> None:
        """Copies `source_array` into the buffer, also between host and device."""
        self.array[buffer_slice] = _to_library_of(self.array, source_array)

    def assign_to(
        self, destination_array: Any, buffer_slice: Any = np.index_exp[:], buffer_reshape: Any = None
    ) -> None:
        """Copies the buffer into `destination_array`, reshaped in C order."""
        source = self.array[buffer_slice]
        if buffer_reshape is not None:
            source = source.reshape(buffer_reshape)
        destination_array[...] = _to_library_of(destination_array, source)

    def finalize_memory_transfer(self) -> None:
        """Waits until all work on this buffer is complete."""
        if self._last_use is not None:
            self._last_use.synchronize()
        library = library_of(self.array)
        if library == "cupy":
            import cupy

            cupy.cuda.get_current_stream().synchronize()
        elif library == "torch" and self._device is not None:
            import torch

            torch.cuda.current_stream(self.array.device).synchronize()


@contextlib.contextmanager
def array_buffer(allocator: Callable[..., Any], shape: Any, dtype: Any) -> Iterator[Buffer]:
    """Lends a buffer of the pool until the end of the block."""
    buffer = Buffer.pop_from_cache(allocator, shape, dtype)
    token = buffer._token
    try:
        yield buffer
    finally:
        buffer._release(token)


@contextlib.contextmanager
def _timed(timer: Any, name: str) -> Iterator[None]:
    if timer is None:
        yield
    else:
        with timer.clock(name):
            yield


@contextlib.contextmanager
def send_buffer(allocator: Callable[..., Any], array: Any, timer: Any = None) -> Iterator[Any]:
    """`array` itself if it is None or C-contiguous, else a copy of it in a buffer of the pool."""
    if array is None or layout_of(array).is_c_contiguous:
        yield array
        return
    with array_buffer(allocator, tuple(array.shape), array.dtype) as buffer:
        with _timed(timer, "pack"):
            buffer.assign_from(array)
            buffer.finalize_memory_transfer()
        yield buffer.array


@contextlib.contextmanager
def recv_buffer(allocator: Callable[..., Any], array: Any, timer: Any = None) -> Iterator[Any]:
    """`array` itself if it is None or C-contiguous, else a buffer of the pool, copied to `array` at the block's end."""
    if array is None or layout_of(array).is_c_contiguous:
        yield array
        return
    with array_buffer(allocator, tuple(array.shape), array.dtype) as buffer:
        yield buffer.array
        with _timed(timer, "unpack"):
            buffer.assign_to(array)
            buffer.finalize_memory_transfer()
