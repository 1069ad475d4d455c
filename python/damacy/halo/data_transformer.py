"""Packs many boxes of many arrays into one buffer, and unpacks such a buffer. Does not communicate.

with HaloDataTransformer.get(numpy, specs) as transformer:
    transformer.async_pack(quantities)
    send(transformer.get_pack_buffer().array)
    receive(transformer.get_unpack_buffer().array)
    transformer.async_unpack(quantities)
    transformer.synchronize()
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

from damacy import _native
from damacy.halo import _modules
from damacy.halo._arrays import look
from damacy.halo._crossing import STREAM_POOL, Crossing
from damacy.halo._errors import DtypeMismatch, HaloError, InvalidArgument
from damacy.halo._many import pack_many, unpack_many
from damacy.halo._plans import INDICES_CACHE, num_threads, set_num_threads
from damacy.halo._specs import HaloExchangeSpec, checked
from damacy.halo.buffer import Buffer


class HaloDataTransformer(abc.ABC):
    """Base class of the transformers. `get` creates the right one for an array module.

    Order of use: `get`, then any number of times (`async_pack`, `get_pack_buffer`, communicate, `async_unpack`,
    `synchronize`), then `finalize`. Any other order raises `HaloError`. Only one thread at a time may use a
    transformer.
    """

    def __init__(
        self,
        np_module: Any,
        exchange_descriptors_x: Sequence[HaloExchangeSpec],
        exchange_descriptors_y: Sequence[HaloExchangeSpec] | None = None,
        *,
        wire: str = "ndsl",
        device: Any = None,
    ) -> None:
        self._pack_buffer: Buffer | None = None
        self._unpack_buffer: Buffer | None = None
        self._finalized = False
        self._prepare()
        self._x = list(exchange_descriptors_x)
        self._y = None if exchange_descriptors_y is None else list(exchange_descriptors_y)
        if not self._x:
            raise HaloError("Attempting to init an empty halo exchange")
        for spec in self._x + (self._y or []):
            spec._native = checked(spec)
        if wire not in ("ndsl", "native"):
            raise InvalidArgument(f"wire {wire!r}: expected 'ndsl' or 'native'")
        self._native_wire = wire == "native"
        x, y = ([spec._native for spec in specs] for specs in (self._x, self._y or []))
        self._native = _native.TransformerPlans(x, None if self._y is None else y, self._native_wire)
        self._plans = {unpack: self._native.own(unpack) for unpack in (False, True)}
        allocator, dtype = _modules.allocator(np_module, self._on_device, device, self._x[0].specification.dtype)
        self._pack_buffer = self._take(allocator, self._native.buffer_elements(False), dtype)
        self._unpack_buffer = self._take(allocator, self._native.buffer_elements(True), dtype)
        self._tokens = (self._pack_buffer._token, self._unpack_buffer._token)

    _on_device = False

    @abc.abstractmethod
    def _prepare(self) -> None:
        """Initialises the attributes of a subclass."""

    @staticmethod
    def get(
        np_module: Any,
        exchange_descriptors_x: Sequence[HaloExchangeSpec],
        exchange_descriptors_y: Sequence[HaloExchangeSpec] | None = None,
        *,
        wire: str = "ndsl",
        device: Any = None,
    ) -> HaloDataTransformer:
        """The transformer for arrays of `np_module`: for scalars if there are no y specs, else for vectors."""
        if len(exchange_descriptors_x) == 0:
            raise HaloError("Attempting to init an empty halo exchange")
        cls = HaloDataTransformerGPU if _modules.is_on_device(np_module, device) else HaloDataTransformerCPU
        return cls(np_module, exchange_descriptors_x, exchange_descriptors_y, wire=wire, device=device)

    def _take(self, allocator: Any, elements: int, dtype: Any) -> Buffer:
        buffer = Buffer.pop_from_cache(allocator, (elements,), dtype)
        if self._native_wire:
            if buffer._last_use is not None:
                buffer._last_use.synchronize()
            buffer.array[:] = 0  # for the gaps between fields
        if self._on_device:  # zeros are written on the array library's stream; packing may use another
            buffer.finalize_memory_transfer()
        return buffer

    def _gather(self, quantities_x: Sequence[Any], quantities_y: Sequence[Any] | None) -> _native.HaloArrays:
        if self._finalized:
            raise HaloError("this halo transformer is finalized")
        return _native.gather_quantities(self._native, quantities_x, quantities_y, look)

    def _buffer(self, unpack: bool) -> Any:
        return self._unpack_buffer if unpack else self._pack_buffer

    def _copies(self, unpack: bool, arrays: _native.HaloArrays) -> _native.BoundCopies:
        return self._native.bind(unpack, arrays, self._message_address(unpack, arrays))

    def _message_address(self, unpack: bool, arrays: _native.HaloArrays) -> int:
        return int(self._buffer(unpack).address)

    @abc.abstractmethod
    def _bound(self, unpack: bool, arrays: _native.HaloArrays, copies: Any) -> Callable[[Any, Any], None]:
        """A function of a stream, and of streams to wait for, that runs or enqueues the copies."""

    def _call(self, unpack: bool, quantities_x: Any, quantities_y: Any, stream: Any, after: Any = None) -> None:
        arrays = self._gather(quantities_x, quantities_y)
        self._check_place(arrays)
        self._bound(unpack, arrays, self._copies(unpack, arrays))(stream, after)

    @abc.abstractmethod
    def _check_place(self, arrays: _native.HaloArrays) -> None:
        """Raises for arrays in memory that this class does not support."""

    def async_pack(
        self, quantities_x: Sequence[Any], quantities_y: Sequence[Any] | None = None, *, stream: Any = None
    ) -> None:
        """Fills the pack buffer from the quantities."""
        self._call(False, quantities_x, quantities_y, stream)

    def async_unpack(
        self,
        quantities_x: Sequence[Any],
        quantities_y: Sequence[Any] | None = None,
        *,
        stream: Any = None,
        after: Any = None,
    ) -> None:
        """Copies the unpack buffer to the quantities, after the work of `stream` and of the streams in `after`."""
        self._call(True, quantities_x, quantities_y, stream, after)

    def bind(self, quantities_x: Sequence[Any], quantities_y: Sequence[Any] | None = None) -> Bound:
        """Checks the arrays once and keeps them, which makes each later call cheaper."""
        return Bound(self, self._gather(quantities_x, quantities_y))

    def synchronize(self) -> None:  # noqa: B027  on the host there is nothing to wait for
        """Waits on the host until this transformer's work is complete."""

    def _ordered(self, stream: Any) -> None:
        self.synchronize()

    def get_pack_buffer(self, *, stream: Any = None) -> Buffer:
        """The buffer of packed bytes. Waits until they are complete; with `stream`, only that stream waits."""
        if self._pack_buffer is None:
            raise HaloError("Send buffer can't be retrieved before allocate()")
        self._ordered(stream)
        return self._pack_buffer

    def get_unpack_buffer(self, *, stream: Any = None) -> Buffer:
        """The buffer for received bytes. It may be overwritten at once; with `stream`, by later work of that stream."""
        if self._unpack_buffer is None:
            raise HaloError("Recv buffer can't be retrieved before allocate()")
        self._ordered(stream)
        return self._unpack_buffer

    def ready(self) -> bool:
        """Whether both buffers are held."""
        return self._pack_buffer is not None and self._unpack_buffer is not None

    def finalize(self) -> None:
        """Waits and returns the buffers to the pool. Later calls do nothing."""
        if self._finalized:
            return
        self._finalized = True
        if self._pack_buffer is None or self._unpack_buffer is None:
            return
        self.synchronize()
        self._pack_buffer._release(self._tokens[0])
        self._unpack_buffer._release(self._tokens[1])
        self._pack_buffer = self._unpack_buffer = None

    def describe(self) -> str:
        """One line per copy (slots, bytes, path, tiles), then totals."""
        return self._native.describe(self._on_device).rstrip()

    def __enter__(self) -> HaloDataTransformer:
        return self

    def __exit__(self, *_: object) -> None:
        self.finalize()

    def __del__(self) -> None:
        try:
            if getattr(self, "_pack_buffer", None) is not None:
                self.finalize()
        except Exception:  # at exit, modules may already be destroyed
            return


class Bound:
    """A transformer with its arrays, which were checked once; `.pack()` and `.unpack()` run without more checks."""

    def __init__(self, transformer: HaloDataTransformer, arrays: _native.HaloArrays) -> None:
        self._transformer = transformer
        self._arrays = arrays
        transformer._check_place(arrays)
        self._ways = {}
        for unpack in (False, True) if arrays.is_writable else (False,):
            self._ways[unpack] = transformer._bound(unpack, arrays, transformer._copies(unpack, arrays))

    def pack(self, stream: Any = None) -> None:
        """As `async_pack`."""
        if self._transformer._finalized:
            raise HaloError("this halo transformer is finalized")
        self._ways[False](stream, None)

    def unpack(self, stream: Any = None, after: Any = None) -> None:
        """As `async_unpack`."""
        if self._transformer._finalized:
            raise HaloError("this halo transformer is finalized")
        if True not in self._ways:
            self._arrays.check_writable()
        self._ways[True](stream, after)


class HaloDataTransformerCPU(HaloDataTransformer):
    """For messages in host memory: work is complete when a call returns. Arrays in device memory are packed there and
    the message is copied once."""

    def _prepare(self) -> None:
        self._crossings: dict[tuple[bool, int], Crossing] = {}  # by direction and device

    def _check_place(self, arrays: _native.HaloArrays) -> None:
        """Supports arrays in any memory."""

    def _crossing(self, unpack: bool, device: int) -> Crossing:
        found = self._crossings.get((unpack, device))
        if found is None:
            found = self._crossings[unpack, device] = Crossing(device, self._buffer(unpack))
        return found

    def _message_address(self, unpack: bool, arrays: _native.HaloArrays) -> int:
        near = self._buffer(unpack) if arrays.device is None else self._crossing(unpack, arrays.device)
        return near.address

    def _bound(self, unpack: bool, arrays: _native.HaloArrays, copies: Any) -> Callable[[Any, Any], None]:
        if arrays.device is None:
            return lambda stream, after: copies.run(num_threads())
        crossing = self._crossing(unpack, arrays.device)
        return crossing.unpacking(arrays, copies) if unpack else crossing.packing(arrays, copies)

    def finalize(self) -> None:
        super().finalize()
        self._crossings.clear()


class HaloDataTransformerGPU(HaloDataTransformer):
    """For arrays in device memory: work is enqueued on the stream that uses the arrays."""

    _on_device = True

    def _prepare(self) -> None:
        self._queue = _modules.device_queue()

    def _check_place(self, arrays: _native.HaloArrays) -> None:
        if arrays.device is None:
            raise DtypeMismatch("the GPU transformer needs arrays in device memory; these are in host memory")

    def _bound(self, unpack: bool, arrays: _native.HaloArrays, copies: Any) -> Callable[[Any, Any], None]:
        return self._queue.bound(arrays, copies, self._buffer(unpack))

    def synchronize(self) -> None:
        self._queue.synchronize()

    def _ordered(self, stream: Any) -> None:
        if stream is None:
            self._queue.synchronize()
        else:
            self._queue.make_wait(stream)


__all__ = [
    "INDICES_CACHE",
    "STREAM_POOL",
    "HaloDataTransformer",
    "HaloDataTransformerCPU",
    "HaloDataTransformerGPU",
    "HaloExchangeSpec",
    "pack_many",
    "set_num_threads",
    "unpack_many",
]
