"""The memory that a native read writes to: that of `out` itself, on the host or on a GPU, or temporary memory that is
copied to `out` afterwards. Knows kinds of memory; not what is read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from damacy.zarr import _stock

_opened: set[str] = set()  # devices that were read into; in a forked child their calls raise


class Target:
    """Native code writes to `memory`; `is_swapped` if its byte order is not this machine's."""

    def __init__(self, out: Any, dtype: np.dtype[Any]) -> None:
        self._out = out
        self._device = "cpu"
        self._wrapped: Any = None  # keeps memory of another library alive
        array = out.as_ndarray_like()
        if not isinstance(array, np.ndarray):
            array = self._wrap(array)
        is_plain = type(array) in (np.ndarray, np.memmap)
        self._is_direct = is_plain and array.dtype.newbyteorder("=") == dtype and array.flags.writeable
        if not self._is_direct:
            self._device = "cpu"
        self.memory: np.ndarray[Any, Any] = array if self._is_direct else np.empty(out.shape, dtype)
        self.is_swapped = not self.memory.dtype.isnative

    def _wrap(self, array: Any) -> Any:
        from damacy._device.array import wrap

        self._wrapped = wrap(array)
        if self._wrapped is None:
            return None
        self._device = self._wrapped.device
        return self._wrapped._array

    async def way_to_device(self) -> tuple[Any, Any]:
        """The native reads and the queue of a GPU, None for the host."""
        if self._device == "cpu":
            return None, None
        from damacy import _native
        from damacy._device.memory import queue_of

        index = int(self._device.removeprefix("cuda:"))
        if self._device in _opened:
            return _native.device_reads(index), queue_of(self._device)
        # The first call allocates pinned memory, which is slow, so it runs on another thread.
        queue = await asyncio.to_thread(queue_of, self._device)
        reads = await asyncio.to_thread(_native.device_reads, index)
        _opened.add(self._device)
        return reads, queue

    async def finish(self, items: Sequence[Any]) -> None:
        if not self._is_direct:
            await _stock.assign(self._out, self.memory, items)
