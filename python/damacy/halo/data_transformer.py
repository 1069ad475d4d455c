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
from collections.abc import Sequence
from typing import Any

from damacy import _native
from damacy.halo import _modules
from damacy.halo._arrays import look
from damacy.halo._errors import HaloError, InvalidArgument
from damacy.halo._plans import INDICES_CACHE, num_threads, set_num_threads
from damacy.halo._specs import HaloExchangeSpec, checked
from damacy.halo.buffer import Buffer

Bound = _native.BoundTransformer

# Idle streams for copies between host and device, the most recently used one last. May be cleared at any time.
STREAM_POOL: list[_native.CopyStream] = []


class HaloDataTransformer(abc.ABC):
    """Base class of the transformers. `get` creates the right one for an array module.

    Order of use: `get`, then any number of times (`async_pack`, `get_pack_buffer`, communicate, `async_unpack`,
    `synchronize`), then `finalize`. Any other order raises `HaloError`. Only one thread at a time may use a
    transformer.
    """

    _lazy: _native.LazyStreams | None = None  # tests set it: replaces devices

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
        if self._on_device and self._lazy is None:
            _modules.check_backend()
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
        self._native = _native.HaloTransformer(
            x, None if self._y is None else y, self._native_wire, self._on_device, self._lazy
        )
        self._plans = {unpack: self._native.own(unpack) for unpack in (False, True)}
        allocator, dtype = _modules.allocator(np_module, self._on_device, device, self._x[0].specification.dtype)
        self._pack_buffer = self._take(allocator, self._native.buffer_elements(False), dtype)
        self._unpack_buffer = self._take(allocator, self._native.buffer_elements(True), dtype)
        self._tokens = (self._pack_buffer._token, self._unpack_buffer._token)
        self._native.hold(self._pack_buffer, self._unpack_buffer)

    @property
    @abc.abstractmethod
    def _on_device(self) -> bool:
        """Whether messages are in device memory."""

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

    def async_pack(
        self, quantities_x: Sequence[Any], quantities_y: Sequence[Any] | None = None, *, stream: Any = None
    ) -> None:
        """Fills the pack buffer from the quantities."""
        self._native.run(False, quantities_x, quantities_y, stream, None)

    def async_unpack(
        self,
        quantities_x: Sequence[Any],
        quantities_y: Sequence[Any] | None = None,
        *,
        stream: Any = None,
        after: Any = None,
    ) -> None:
        """Copies the unpack buffer to the quantities, after the work of `stream` and of the streams in `after`."""
        self._native.run(True, quantities_x, quantities_y, stream, after)

    def bind(self, quantities_x: Sequence[Any], quantities_y: Sequence[Any] | None = None) -> Bound:
        """Checks the arrays once and keeps them, which makes each later call cheaper: `.pack(stream)` and
        `.unpack(stream, after)` of the result are as `async_pack` and `async_unpack`."""
        return self._native.bind(self._native.gather(quantities_x, quantities_y, look))

    def synchronize(self) -> None:
        """Waits on the host until this transformer's work is complete."""
        self._native.synchronize()

    def get_pack_buffer(self, *, stream: Any = None) -> Buffer:
        """The buffer of packed bytes. Waits until they are complete; with `stream`, only that stream waits."""
        if self._pack_buffer is None:
            raise HaloError("Send buffer can't be retrieved before allocate()")
        self._native.order(stream)
        return self._pack_buffer

    def get_unpack_buffer(self, *, stream: Any = None) -> Buffer:
        """The buffer for received bytes. It may be overwritten at once; with `stream`, by later work of that stream."""
        if self._unpack_buffer is None:
            raise HaloError("Recv buffer can't be retrieved before allocate()")
        self._native.order(stream)
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
        self._native.close()
        self._pack_buffer._release(self._tokens[0])
        self._unpack_buffer._release(self._tokens[1])
        self._pack_buffer = self._unpack_buffer = None

    def describe(self) -> str:
        """One line per copy (slots, bytes, path, tiles), then totals."""
        return self._native.describe().rstrip()

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


class HaloDataTransformerCPU(HaloDataTransformer):
    """For messages in host memory: work is complete when a call returns. Arrays in device memory are packed there and
    the message is copied once."""

    _on_device = False


class HaloDataTransformerGPU(HaloDataTransformer):
    """For arrays in device memory: work is enqueued on the stream that uses the arrays."""

    _on_device = True


def pack_many(items: Sequence[tuple[Any, Any, Any]], *, stream: Any = None) -> None:
    """Packs for several (transformer, quantities_x, quantities_y) in one launch."""
    _native.run_transformers([(t._native, x, y) for t, x, y in items], False, stream, None)


def unpack_many(items: Sequence[tuple[Any, Any, Any]], *, stream: Any = None, after: Any = None) -> None:
    """Unpacks for several (transformer, quantities_x, quantities_y) in one launch."""
    _native.run_transformers([(t._native, x, y) for t, x, y in items], True, stream, after)


__all__ = [
    "INDICES_CACHE",
    "STREAM_POOL",
    "HaloDataTransformer",
    "HaloDataTransformerCPU",
    "HaloDataTransformerGPU",
    "HaloExchangeSpec",
    "num_threads",
    "pack_many",
    "set_num_threads",
    "unpack_many",
]
