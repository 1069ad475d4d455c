"""Buffer classes on device arrays. zarr-python finds them by name; `damacy.zarr.enable(gpu=True)` sets the names.

Importing this module imports neither zarr nor the native library. The first use of a name imports zarr."""

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
