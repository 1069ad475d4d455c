"""`Explanation`: what holds a pipeline up. Knows the names; the native library does the judging."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class StageLoad:
    """One stage (`plan`, `read`, `decode`, `place`; `bus` on a GPU): how busy, and what it would reach alone.

    `busy` is the share of the time that its threads (or the device) had, 0 to 1; `bytes_per_s` counts bytes of
    finished batches, if the stage were busy all the time: its measured ceiling.
    """

    name: str
    busy: float
    bytes_per_s: float


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """The result of `Pipeline.explain()`; `str()` of it is a readable text.

    `binds` is a stage's name, or `consumer` (batches wait for it), `latency` (no stage is busy) or `nothing yet`;
    `share` the part of the binding stage's measured ceiling that was reached, 0 to 1; `bytes_per_s` of finished
    batches; `consumer_waited` the part of the time that `pop` waited; `advice` the setting that would help.
    """

    binds: str
    share: float
    bytes_per_s: float
    consumer_waited: float
    stages: tuple[StageLoad, ...]
    advice: str
    text: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<damacy.Explanation: {self.text}>"


def explanation_from(native: Mapping[str, Any]) -> Explanation:
    """`Explanation` from the native dict, whose stages are tuples of `StageLoad`'s fields."""
    return Explanation(**{**native, "stages": tuple(StageLoad(*stage) for stage in native["stages"])})
