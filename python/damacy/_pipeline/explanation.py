"""`Explanation`: the bottleneck of a pipeline. The native library finds it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class StageLoad:
    """The load of one stage (`plan`, `read`, `decode`, `place`; `bus` with a GPU, `network` with remote stores).

    `busy`: the fraction of time that its threads, or the device, were busy, 0 to 1; of `network`, the fraction of
    `max_requests` that was under way on average. `bytes_per_s`: its measured
    ceiling, in bytes of finished batches per second if the stage were always busy.
    """

    __module__ = "damacy"

    name: str
    busy: float
    bytes_per_s: float


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """The result of `Pipeline.explain()`; `str()` of it is a readable text.

    * `binds`: the bottleneck: a stage's name, `consumer` (batches wait for it), `latency` (no stage is busy; or
      requests of remote stores wait for their first byte), `server` (it refuses requests) or `nothing yet`.
    * `share`: the reached fraction of that stage's measured ceiling, 0 to 1.
    * `bytes_per_s`: the rate of finished batches.
    * `consumer_waited`: the fraction of time that `pop` waited.
    * `wanted_again`: of the encoded bytes that batches wanted, the fraction that earlier batches had wanted too.
    * `encoded_bytes`, `decoded_bytes`: the chunks that were wanted so far, each once: what a cache would hold. An
      estimate from 1,000 to 2,000 chunks, if there are more.
    * `advice`: the setting that would help.
    """

    __module__ = "damacy"

    binds: str
    share: float
    bytes_per_s: float
    consumer_waited: float
    stages: tuple[StageLoad, ...]
    advice: str
    text: str
    wanted_again: float = 0
    encoded_bytes: int = 0
    decoded_bytes: int = 0

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<damacy.Explanation: {self.text}>"


def explanation_from(native: Mapping[str, Any]) -> Explanation:
    """Converts the native dict, whose stages are tuples of `StageLoad`'s fields."""
    return Explanation(**{**native, "stages": tuple(StageLoad(*stage) for stage in native["stages"])})
