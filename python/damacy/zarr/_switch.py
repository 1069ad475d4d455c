"""Switches zarr-python to damacy's pipeline and buffers, and back. Knows only zarr's configuration."""

from __future__ import annotations

import warnings
from typing import Any, Literal

from damacy._core.log import logger
from damacy._core.sizes import as_bytes

_PIPELINE = "damacy.zarr.CodecPipeline"
_BUFFER = "damacy.zarr.buffer.gpu.Buffer"
_NDBUFFER = "damacy.zarr.buffer.gpu.NDBuffer"
_warned_newer = False


def _warn_if_newer() -> None:
    global _warned_newer
    from damacy.zarr._versions import NEWEST, require_zarr

    if require_zarr("enable") > NEWEST and not _warned_newer:
        _warned_newer = True
        warnings.warn("this zarr is newer than 3.4, the newest version that damacy was tested with", stacklevel=3)


def backend() -> Literal["host", "cuda"]:
    """Where native reads place elements: on a GPU if damacy's buffers are configured and there is a GPU."""
    import zarr

    if zarr.config.get("ndbuffer") != _NDBUFFER:
        return "host"
    from damacy._device.memory import default_device

    return "host" if default_device() == "cpu" else "cuda"


def enable(
    *,
    gpu: bool = False,
    pipeline: bool = True,
    strict: bool = False,
    device: str | int | None = None,
    remote: Literal["native"] | None = None,
    cache_bytes: int | str | None = None,
) -> Any:
    """Makes zarr-python read through this library; as a context manager, until the end of the block.

    zarr chooses the pipeline when an array is *opened* and the buffers when it is *read*, so call this before opening.
    An array that was opened earlier keeps zarr's own pipeline; its first read after this call warns and names it.

    >>> import damacy.zarr
    >>> with damacy.zarr.enable():
    ...     pass  # zarr.open_array(...)[...]

    `gpu`: results are device arrays. `strict`: opening an array that cannot be read natively raises
    `UnsupportedFormat`. `device`: "cuda:<n>", n, "cpu", or None for the current device. `remote="native"`: arrays in a
    zarr `ObjectStore` over obstore's `S3Store` or `HTTPStore` are read by damacy's own requests, if their url and
    options can be read from it; else, and by default, obstore makes the requests. Raises `InvalidArgument` for any
    other value.

    `cache_bytes`: the size of the cache of decoded chunks, which all reads of this process into host memory share; an
    int, or text such as "4GiB". A later read of a kept chunk copies its elements from there. None, the default, means
    the size of `damacy.set_read_cache`, 0 unless it was called. The next read frees a cache of another size. Chunks of
    a `LocalStore` or `GDSStore` are kept, and of objects that `remote="native"` reads. `damacy.set_read_cache` says
    when, and which changes are noticed. Raises `ValueError` for another text or a negative number, `OutOfMemory` if the
    cache cannot be allocated; the chunks that were kept are then gone.
    """
    if remote not in (None, "native"):
        from damacy import InvalidArgument

        raise InvalidArgument(f'enable: remote must be "native" or None (got {remote!r})', reason="arguments")
    size = None if cache_bytes is None else as_bytes(cache_bytes, "cache_bytes")
    _warn_if_newer()
    import zarr
    from zarr.registry import register_buffer, register_ndbuffer, register_pipeline

    import damacy.zarr
    from damacy._device.memory import device_named
    from damacy.zarr import _opened_before
    from damacy.zarr.buffer import gpu as buffers

    if device is not None:
        device_named(device)
    if size is not None:
        from damacy import _native

        _native.make_read_cache(size)
    register_pipeline(damacy.zarr.CodecPipeline)
    register_buffer(buffers.Buffer)
    register_ndbuffer(buffers.NDBuffer)
    keys: dict[str, Any] = {
        "damacy.strict": bool(strict),
        "damacy.device": device,
        "damacy.remote": remote,
        "damacy.cache_bytes": size,
    }
    if pipeline:
        _opened_before.watch()
        keys["codec_pipeline.path"] = _PIPELINE
    if gpu:
        keys |= {"buffer": _BUFFER, "ndbuffer": _NDBUFFER}
    switched = zarr.config.set(keys)
    if gpu and backend() == "host" and str(device) != "cpu":
        logger().info("zarr: there is no usable GPU; device arrays are in host memory")
    return switched


def disable() -> None:
    """Restores zarr's defaults for everything that `enable` sets. Frees the cache of decoded chunks, unless
    `damacy.set_read_cache` has set a size: then the cache has that size."""
    import zarr

    from damacy.zarr import _cache

    defaults = zarr.config.defaults[0]
    zarr.config.set(
        {
            "codec_pipeline.path": defaults["codec_pipeline"]["path"],
            "buffer": defaults["buffer"],
            "ndbuffer": defaults["ndbuffer"],
            "damacy.strict": False,
            "damacy.device": None,
            "damacy.remote": None,
            "damacy.cache_bytes": None,
        }
    )
    _cache.drop()


for _function in (enable, disable):
    _function.__module__ = "damacy.zarr"
