"""`MemoryPlan`: the parts of a pipeline's memory, with sums and a table. The native library computes the sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from damacy._core.sizes import size_text

MemoryKind = Literal["host", "pinned", "gpu"]
Taken = Literal["at start", "reserved", "first sample", "as used"]

KINDS: dict[MemoryKind, str] = {"host": "host", "pinned": "page-locked", "gpu": "GPU"}


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryPart:
    """One part of a pipeline's memory.

    `kind` is `"host"`, `"pinned"` (page-locked memory of the host) or `"gpu"`. `taken` says when: `"at start"` (of the
    pipeline), `"reserved"` (addresses at start, memory as it is used), `"first sample"` or `"as used"`. `bytes` is the
    most that it takes, None if only the first sample tells. `setting` is the field of `Config` that changes it, None
    if it is fixed. `use` is what it is for.
    """

    __module__ = "damacy"

    name: str
    kind: MemoryKind
    taken: Taken
    bytes: int | None
    setting: str | None
    use: str


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The result of `Config.memory()`: all parts, and their sums; `str()` of it is a table.

    `threads` is how many threads a pipeline starts. `chunk_bytes` is the largest decoded chunk that it accepts.
    """

    __module__ = "damacy"

    parts: tuple[MemoryPart, ...]
    threads: int
    chunk_bytes: int

    @property
    def host_bytes(self) -> int:
        """Bytes of ordinary memory, at most, of the parts that are known."""
        return self._sum("host")

    @property
    def pinned_bytes(self) -> int:
        """Bytes of page-locked memory."""
        return self._sum("pinned")

    @property
    def gpu_bytes(self) -> int:
        """Bytes of the GPU's memory, at most, of the parts that are known."""
        return self._sum("gpu")

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of parts whose size only the first sample tells."""
        return tuple(part.name for part in self.parts if part.bytes is None)

    def _sum(self, kind: MemoryKind) -> int:
        return sum(part.bytes or 0 for part in self.parts if part.kind == kind)

    def sums(self) -> str:
        """In one line: the sum of each kind of memory, and what is not in it."""
        known = [f"{size_text(self._sum(kind))} {name}" for kind, name in KINDS.items() if self._sum(kind)]
        return ", ".join(known) + (f"; without {' and '.join(self.unknown)}" if self.unknown else "")

    def __str__(self) -> str:
        rows = [
            (
                part.name,
                "by sample" if part.bytes is None else size_text(part.bytes),
                KINDS[part.kind],
                part.taken,
                part.setting or "fixed",
                part.use,
            )
            for part in self.parts
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, f"at most {self.sums()}"])


def memory_plan_from(native: Mapping[str, Any]) -> MemoryPlan:
    """`MemoryPlan` from the native dict, whose parts are dicts of `MemoryPart`'s fields."""
    return MemoryPlan(**{**native, "parts": tuple(MemoryPart(**part) for part in native["parts"])})
