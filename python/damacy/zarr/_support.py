"""Whether an array is read natively, and why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Support:
    """Whether reads of an array are native; `reason` says why not."""

    native: bool
    reason: str | None
    backend: Literal["host", "cuda"] | None


Support.__module__ = "damacy.zarr"


def support(array: Any) -> Support:
    """Looks at an opened `zarr.Array` or `AsyncArray`; one that was opened without our pipeline is not native.

    Raises `TypeError` for anything else, a group for example."""
    from damacy.zarr._pipeline import CodecPipeline
    from damacy.zarr._switch import backend

    pipeline = getattr(array, "async_array", None) or getattr(array, "_async_array", None) or array
    pipeline = getattr(pipeline, "codec_pipeline", None)
    if pipeline is None:
        raise TypeError(
            f"support: expected an opened zarr.Array, of a group one of its arrays (got {type(array).__name__})"
        )
    if not isinstance(pipeline, CodecPipeline):
        return Support(False, "the array was opened with another codec pipeline: enable() comes before opening", None)
    if pipeline.reason is not None:
        return Support(False, pipeline.reason, None)
    return Support(True, None, backend())
