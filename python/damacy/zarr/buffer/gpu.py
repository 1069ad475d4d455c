"""Buffers of device arrays for zarr-python, which finds them by name; `damacy.zarr.enable(gpu=True)` sets the names.

Loading this module loads neither zarr nor the native library; its names load zarr when they are first used."""

from __future__ import annotations

from typing import Any

__all__ = ["Buffer", "NDBuffer", "buffer_prototype"]  # noqa: F822


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from damacy.zarr._versions import require_zarr

    require_zarr(f"buffer.gpu.{name}")
    from damacy.zarr.buffer import _gpu

    globals().update({known: getattr(_gpu, known) for known in __all__})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
