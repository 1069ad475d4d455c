"""Warns once for each array that was opened before `enable()` and read after it: zarr-python's own pipeline reads such
an array. Knows zarr's pipelines and their arrays; not how chunks are read."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import gc
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

_PIPELINE = "damacy.zarr.CodecPipeline"
_is_ours: contextvars.ContextVar[bool] = contextvars.ContextVar("damacy_zarr_fallback", default=False)
_warned: dict[int, Any] = {}  # weak references to pipelines, by id


@contextlib.contextmanager
def fallback() -> Iterator[None]:
    """Suppresses the warning while damacy itself reads by zarr's pipeline."""
    token = _is_ours.set(True)
    try:
        yield
    finally:
        _is_ours.reset(token)


def watch() -> None:
    """Patches zarr's pipelines so that their reads warn while damacy's pipeline is configured."""
    from zarr.core import codec_pipeline

    for name in ("BatchedCodecPipeline", "FusedCodecPipeline"):  # the second exists since zarr 3.3
        cls = getattr(codec_pipeline, name, None)
        if cls is not None and not hasattr(cls.read, "_warns_for"):
            cls.read = _warning(cls.read)


def _warning(read: Any) -> Any:
    @functools.wraps(read)
    async def warning_read(self: Any, batch_info: Any, *arguments: Any, **keywords: Any) -> Any:
        if not _is_ours.get():
            batch_info = list(batch_info)
            if batch_info:
                _warn_once(self, batch_info[0][0])
        return await read(self, batch_info, *arguments, **keywords)

    warning_read._warns_for = read  # type: ignore[attr-defined]  # marks the function as patched
    return warning_read


def _warn_once(pipeline: Any, getter: Any) -> None:
    import zarr
    from zarr.storage import StorePath

    # For the chunks inside a shard, zarr uses further pipelines, which read no stored objects.
    if not isinstance(getter, StorePath) or zarr.config.get("codec_pipeline.path") != _PIPELINE:
        return
    known = _warned.get(id(pipeline))
    if known is not None and known() is pipeline:
        return
    _warned[id(pipeline)] = weakref.ref(pipeline, functools.partial(_forget, id(pipeline)))
    warnings.warn(
        f"{_array_of(pipeline) or getter} was opened before damacy.zarr.enable(), so zarr-python's own codec pipeline "
        "reads it. Open it again to read it through damacy, for example by zarr.open_array",
        UserWarning,
        stacklevel=2,
    )


def _forget(number: int, reference: Any) -> None:
    if _warned.get(number) is reference:
        del _warned[number]


def _array_of(pipeline: Any) -> Any:
    """The array that reads by this pipeline, found by search: a pipeline does not refer to its array."""
    from zarr.core.array import AsyncArray

    arrays = (thing for thing in gc.get_objects() if isinstance(thing, AsyncArray))
    return next((array for array in arrays if getattr(array, "codec_pipeline", None) is pipeline), None)
