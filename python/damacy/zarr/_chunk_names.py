"""Finds chunks under names that an array's metadata do not lead to, which zarr-python reads as fill values. Knows how
metadata name chunks; asks a store whether an object exists."""

from __future__ import annotations

import warnings
from typing import Any

_LOOKUPS = 4  # for one array: most arrays without a chunk are empty


class ChunkNames:
    """The names of an array's chunks, with the separator of its metadata and with the other one."""

    def __init__(self, metadata: Any) -> None:
        encoding = metadata if metadata.zarr_format == 2 else metadata.chunk_key_encoding
        self._separator = getattr(encoding, "dimension_separator", None) or getattr(encoding, "separator", None)
        is_default = metadata.zarr_format == 3 and getattr(encoding, "name", None) == "default"
        self._parts = len(metadata.shape) + is_default
        self._lookups = _LOOKUPS if self._separator in (".", "/") and self._parts > 1 else 0

    def other(self, path: str) -> str:
        """The path of a chunk with the other separator in its name."""
        if self._separator == ".":
            folder, slash, name = path.rpartition("/")
            return folder + slash + name.replace(".", "/")
        parts = path.split("/")
        return "/".join([*parts[: -self._parts], ".".join(parts[-self._parts :])])

    async def warn_if_others(self, missing: Any) -> None:
        """Warns if a chunk that is missing, a `StorePath`, is there under its name with the other separator."""
        if self._lookups == 0:
            return
        self._lookups -= 1
        other = self.other(missing.path)
        try:
            exists = await missing.store.exists(other)
        except Exception:  # the read itself has succeeded
            exists = False
        if not exists:
            return
        self._lookups = 0
        warnings.warn(
            f"{missing.store}: chunk {missing.path} is missing and reads as the fill value, but there is {other}: the "
            f"metadata name the separator {self._separator!r}, by a member or by default",
            UserWarning,
            stacklevel=2,
        )
