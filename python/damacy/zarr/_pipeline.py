"""The codec pipeline that zarr-python calls. Native threads read what they support; zarr's own pipeline reads the rest
and does all writes. Knows the arguments that zarr passes; not how chunks are decoded."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from zarr.abc.codec import CodecPipeline as _ZarrPipeline

from damacy._core.log import logger
from damacy.zarr import _cache, _chunk_names, _jobs, _native_array, _remote, _stock, _stores
from damacy.zarr._stats import counted
from damacy.zarr._target import Target

_ITEMS_A_TURN = 256  # items to process before yielding to other tasks of the loop


class CodecPipeline(_ZarrPipeline):
    """Reads chunks by native code: each `read` is one job over all its chunks.

    `reason` says why the array cannot be read natively, or is None. zarr's `BatchedCodecPipeline` reads such arrays and
    does all writes. With `damacy.strict`, opening such an array raises `UnsupportedFormat`."""

    def __init__(self, metadata: Any, store: Any, strict: bool) -> None:
        self._metadata = metadata
        self._store = store
        self._strict = strict
        self._process = os.getpid()
        self._array, self.reason = _native_array.native_array(metadata, str(store))
        self._names = _chunk_names.ChunkNames(metadata)
        self._stock_pipeline: Any = None
        self._has_told = False
        if strict and self.reason is not None:
            raise self._refusal(self.reason)

    # Constructors that zarr calls.
    @classmethod
    def from_array_metadata_and_store(cls, array_metadata: Any, store: Any) -> CodecPipeline:
        import zarr

        pipeline = cls(array_metadata, store, bool(zarr.config.get("damacy.strict", False)))
        if _stock.warns_when_made(array_metadata):
            _ = pipeline._stock
        return pipeline

    @classmethod
    def from_codecs(cls, codecs: Iterable[Any], **options: Any) -> Any:
        """Returns zarr's own pipeline: a pipeline without a store cannot read natively."""
        from zarr.core.codec_pipeline import BatchedCodecPipeline

        return BatchedCodecPipeline.from_codecs(codecs, **options)

    def evolve_from_array_spec(self, array_spec: Any) -> CodecPipeline:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._metadata, self._store, self._strict)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CodecPipeline):
            return NotImplemented
        return bool(self._metadata == other._metadata and self._store == other._store)

    def __hash__(self) -> int:
        m = self._metadata
        return hash((m.zarr_format, tuple(m.shape), type(self._store)))

    def __repr__(self) -> str:
        return f"<damacy.zarr.CodecPipeline {'native' if self.reason is None else f'not native: {self.reason}'}>"

    # Forwarded to zarr's own pipeline of the same metadata.
    @property
    def _stock(self) -> Any:
        if self._stock_pipeline is None:
            self._stock_pipeline = _stock.stock_pipeline(self._metadata)
        return self._stock_pipeline

    @property
    def supports_partial_decode(self) -> bool:
        return bool(self._stock.supports_partial_decode)

    @property
    def supports_partial_encode(self) -> bool:
        return bool(self._stock.supports_partial_encode)

    def validate(self, **about: Any) -> None:
        self._stock.validate(**about)

    def compute_encoded_size(self, byte_length: int, array_spec: Any) -> int:
        return int(self._stock.compute_encoded_size(byte_length, array_spec))

    async def decode(self, chunk_bytes_and_specs: Iterable[Any]) -> Any:
        return await self._stock.decode(chunk_bytes_and_specs)

    async def encode(self, chunk_arrays_and_specs: Iterable[Any]) -> Any:
        return await self._stock.encode(chunk_arrays_and_specs)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._stock)

    async def write(self, batch_info: Iterable[Any], value: Any, drop_axes: tuple[int, ...] = ()) -> None:
        items = list(batch_info)
        try:
            await _stock.write(self._stock, self._metadata, items, value, drop_axes)
        finally:
            _stores.forget(self._store, [getattr(item[0], "path", "") for item in items])

    # Reading.
    async def read(self, batch_info: Iterable[Any], out: Any, drop_axes: tuple[int, ...] = ()) -> Any:
        items = list(batch_info)
        if not items:
            return ()
        why_not = self.reason or self._refuses(items)
        if why_not is None:
            target = Target(out, np.dtype(items[0][1].dtype.to_native_dtype()).newbyteorder("="))
            plan = await self._plan(items, target, drop_axes)
            if plan is not None:
                missing = await self._run(plan, items, target)
                await target.finish(items)
                if all(missing):
                    await self._names.warn_if_others(items[0][0])
                return tuple({"status": "missing" if m else "present"} for m in missing)
            why_not = "this form of selection is not read natively"
        return await self._read_stock(why_not, items, out, drop_axes)

    def _refuses(self, items: Sequence[Any]) -> str | None:
        from zarr.storage import StorePath

        store = items[0][0].store if isinstance(items[0][0], StorePath) else None
        for getter, spec, *_ in items:
            if not isinstance(getter, StorePath) or (getter.store is not store and getter.store != store):
                return "the chunks are not paths of one store"
            if spec.shape != self._array.shape:
                return f"a chunk has the shape {spec.shape}, the grid has {self._array.shape}"
        return None

    async def _plan(self, items: Sequence[Any], target: Target, drop_axes: tuple[int, ...]) -> Any:
        from damacy import _native

        memory = target.memory
        plan = _native.SelectionPlan(
            self._array,
            memory.__array_interface__["data"][0],
            memory.shape,
            memory.strides,
            target.is_swapped,
            _native_array.fill_bytes(items[0][1]),
            list(drop_axes),
        )
        for number, (getter, _, chunk_selection, out_selection, *_) in enumerate(items, 1):
            if not plan.add(getter.path, chunk_selection, out_selection):
                return None
            if number % _ITEMS_A_TURN == 0:
                await asyncio.sleep(0)
        return plan

    async def _run(self, plan: Any, items: Sequence[Any], target: Target) -> bytes:
        store = items[0][0].store
        if _stores.is_of_files(store):
            objects, keeps = _stores.file_store(_stores.root_of(store)), True
            keep: Any = target.memory
        elif (remote := _remote.native_store(store)) is not None:
            objects, keeps = remote, True
            keep = target.memory
        else:
            fetched = await _stores.fetch(items, plan, self._array, self._process)
            objects, keeps = fetched.given, False
            keep = target.memory, fetched
        way = await target.way_to_device()
        size = await _cache.size() if keeps and way[0] is None else 0
        missing = await _jobs.run(lambda threads, fd, n: plan.start(objects, keeps, threads, fd, n, *way, size), keep)
        return bytes(plan.of_items(missing))

    async def _read_stock(self, why_not: str, items: Sequence[Any], out: Any, drop_axes: tuple[int, ...]) -> Any:
        if self._strict:
            raise self._refusal(why_not)
        if not self._has_told:
            self._has_told = True
            logger().info("zarr: %s is read by zarr-python's own pipeline: %s", self._store, why_not)
        counted["fallback_reads"] += 1
        items = _stores.items_for_reads(items, self._process)
        return await _stock.read(self._stock, self._metadata, items, out, drop_axes)

    def _refusal(self, reason: str) -> Exception:
        from damacy import UnsupportedFormat

        return UnsupportedFormat(f"not read natively: {reason}", store=str(self._store), reason="zarr")


CodecPipeline.__module__ = "damacy.zarr"
