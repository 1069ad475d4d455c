"""Runs zarr-python's own pipeline for arrays that are not read natively, with the same results, statuses and errors.
Keeps device arrays out of codecs that take only NumPy arrays."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from damacy.zarr import _opened_before


def stock_pipeline(metadata: Any) -> Any:
    from zarr.core.codec_pipeline import BatchedCodecPipeline

    if metadata.zarr_format == 3:
        return BatchedCodecPipeline.from_codecs(metadata.codecs)
    from zarr.codecs._v2 import V2Codec

    return BatchedCodecPipeline.from_codecs([V2Codec(filters=metadata.filters, compressor=metadata.compressor)])


def warns_when_made(metadata: Any) -> bool:
    """Whether zarr warns about these codecs when it creates their pipeline, that is, when the array is opened."""
    return _is_sharded(metadata) and len(metadata.codecs) > 1


@contextlib.contextmanager
def _host_standing_in() -> Iterator[None]:
    from damacy.zarr.buffer._gpu import host_stands_in

    token = host_stands_in.set(True)
    try:
        yield
    finally:
        host_stands_in.reset(token)


def is_ours(prototype: Any) -> bool:
    return any(base.__module__ == "damacy.zarr.buffer.gpu" for base in prototype.nd_buffer.__mro__)


def _is_sharded(metadata: Any) -> bool:
    return metadata.zarr_format == 3 and any(hasattr(codec, "index_codecs") for codec in metadata.codecs)


def must_substitute(metadata: Any, items: Sequence[Any]) -> bool:
    """Whether to read with the CPU prototype instead of the GPU one. zarr refuses a mix of the two inside shards."""
    from zarr.core.buffer import cpu, default_buffer_prototype

    if not items or not is_ours(items[0][1].prototype):
        return False
    return not _is_sharded(metadata) or default_buffer_prototype() == cpu.buffer_prototype


def on_cpu(items: Sequence[Any]) -> list[Any]:
    """The same items with the CPU prototype."""
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import cpu

    def spec_on_cpu(s: Any) -> Any:
        return ArraySpec(s.shape, s.dtype, s.fill_value, s.config, cpu.buffer_prototype)

    return [(getter, spec_on_cpu(spec), *rest) for getter, spec, *rest in items]


async def read(pipeline: Any, metadata: Any, items: Sequence[Any], out: Any, drop_axes: tuple[int, ...]) -> Any:
    if not must_substitute(metadata, items):
        with _opened_before.fallback():
            return await pipeline.read(items, out, drop_axes=drop_axes)
    from zarr.core.buffer import cpu

    host = cpu.NDBuffer.from_numpy_array(np.empty(out.shape, out.dtype))
    with _host_standing_in(), _opened_before.fallback():
        statuses = await pipeline.read(on_cpu(items), host, drop_axes=drop_axes)
    await assign(out, host.as_numpy_array(), items)
    return statuses


async def assign(out: Any, host: np.ndarray[Any, Any], items: Sequence[Any]) -> None:
    """Copies the elements that the items have read from host memory to `out`, by one copy if they are all of it.

    Runs on another thread, to keep the event loop free."""

    def copy() -> None:
        if sum(host[item[3]].size for item in items) == host.size:
            out[...] = host
            return
        for item in items:
            out[item[3]] = host[item[3]]

    await asyncio.to_thread(copy)


async def write(pipeline: Any, metadata: Any, items: Sequence[Any], value: Any, drop_axes: tuple[int, ...]) -> None:
    if must_substitute(metadata, items):
        from zarr.core.buffer import cpu

        value = cpu.NDBuffer.from_numpy_array(await asyncio.to_thread(value.as_numpy_array))
        with _host_standing_in():
            await pipeline.write(on_cpu(items), value, drop_axes=drop_axes)
    else:
        await pipeline.write(items, value, drop_axes=drop_axes)
