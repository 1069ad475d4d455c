"""`Take`: single indices of an axis of a box."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from damacy._core.integers import as_int

MAX_INDICES = 4096


@dataclasses.dataclass(frozen=True, slots=True, init=False)
class Take:
    """Single indices of an axis of a box, in this order; an index may occur more than once.

    >>> Take([2, 0, 2])
    Take([2, 0, 2])
    """

    indices: tuple[int, ...]

    def __init__(self, indices: Iterable[int]) -> None:
        taken = tuple(as_int(index, "Take: an index") for index in indices)
        if not 0 < len(taken) <= MAX_INDICES:
            raise ValueError(f"Take: expected 1 to {MAX_INDICES} indices (got {len(taken)})")
        object.__setattr__(self, "indices", taken)

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices)

    def __repr__(self) -> str:
        return f"Take({list(self.indices)})"
