"""Reports whether an array is read natively, and if not, why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Support:
    """Whether an array is read natively; if not, `reason` says why."""

    native: bool
    reason: str | None
    backend: Literal["host", "cuda"] | None


Support.__module__ = "damacy.zarr"


def support(array: Any) -> Support:
    """Whether an opened `zarr.Array` or `AsyncArray` is read natively; never if it was opened before `enable()`.

    Raises `TypeError` for any other object, for example a group."""
    from damacy.zarr._pipeline import CodecPipeline
    from damacy.zarr._switch import backend

    pipeline = getattr(array, "async_array", None) or getattr(array, "_async_array", None) or array
    pipeline = getattr(pipeline, "codec_pipeline", None)
    if pipeline is None:
        raise TypeError(
            f"support: expected an opened zarr.Array; for a group, pass one of its arrays (got {type(array).__name__})"
        )
    if not isinstance(pipeline, CodecPipeline):
        return Support(False, "the array was opened with another codec pipeline: call enable() before opening", None)
    if pipeline.reason is not None:
        return Support(False, pipeline.reason, None)
    return Support(True, None, backend())
