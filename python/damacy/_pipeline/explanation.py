"""`Explanation`: the bottleneck of a pipeline, as text and as HTML. The native library finds it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

_BAR_CHARACTERS = 30
_BLOCKS, _ASCII = ("█", "░"), ("#", ".")


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
    """The result of `Pipeline.explain()`. Printed, it has a line with a bar for each stage; notebooks show a table.

    * `binds`: the bottleneck: a stage's name, `consumer` (batches wait for it), `latency` (no stage is busy; or
      requests of remote stores wait for their first byte), `server` (it refuses requests) or `nothing yet`.
    * `share`: the reached fraction of that stage's measured ceiling, 0 to 1.
    * `bytes_per_s`: the rate of finished batches.
    * `consumer_waited`: the fraction of time that `pop` waited.
    * `wanted_again`: of the encoded bytes that batches wanted, the fraction that earlier batches had wanted too.
    * `encoded_bytes`, `decoded_bytes`: the chunks that were wanted so far, each once: what a cache would hold. An
      estimate from 1,000 to 2,000 chunks, if there are more.
    * `advice`: the setting that would help.
    * `text`: all of it in one line, for logs.
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
        if not self.stages:
            return self.text
        head, notes = self._head_and_notes()
        lines = [
            f"{name:<9} {bar} {busy:>5}  {ceiling}".rstrip() for name, bar, busy, ceiling in self._rows(_fitting())
        ]
        return "\n".join([head, *lines, self._waited(), f"What would help: {self.advice}.", *notes])

    def _repr_html_(self) -> str:
        from damacy._open.html import Page

        head, notes = self._head_and_notes()
        page = Page(head)
        page.table(self._rows(_BLOCKS))
        page.table([(self._waited(),), (f"What would help: {self.advice}.",), *((note,) for note in notes)])
        return page.text()

    def _rows(self, characters: tuple[str, str]) -> list[tuple[str, ...]]:
        """Name, bar, busy fraction and ceiling of each stage; the bottleneck is marked."""
        return [
            (
                f"{'>' if stage.name == self.binds else ' '} {stage.name}",
                _bar(stage.busy, characters),
                _percent(stage.busy),
                f"at most {_rate(stage.bytes_per_s)}" if stage.bytes_per_s > 0 else "",
            )
            for stage in self.stages
        ]

    def _waited(self) -> str:
        return f"pop waited {_percent(self.consumer_waited)} of the time."

    def _head_and_notes(self) -> tuple[str, list[str]]:
        """The first sentence of `text`; and those after its figures: of the network, and of kept batches."""
        head, _, rest = self.text.partition(f" What would help: {self.advice}.")
        notes = rest.partition("% of the time.")[2].strip()
        return head, [notes] if notes else []

    def __repr__(self) -> str:
        return f"<damacy.Explanation: {self.text}>"


def explanation_from(native: Mapping[str, Any]) -> Explanation:
    """Converts the native dict, whose stages are tuples of `StageLoad`'s fields."""
    return Explanation(**{**native, "stages": tuple(StageLoad(*stage) for stage in native["stages"])})


def _fitting() -> tuple[str, str]:
    """The characters of bars that standard output can encode."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        "".join(_BLOCKS).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return _ASCII
    return _BLOCKS


def _bar(part: float, characters: tuple[str, str]) -> str:
    filled = round(min(max(part, 0.0), 1.0) * _BAR_CHARACTERS)
    return characters[0] * filled + characters[1] * (_BAR_CHARACTERS - filled)


def _percent(part: float) -> str:
    return f"{round(100 * part)} %"


def _rate(bytes_per_s: float) -> str:
    if bytes_per_s >= 1e9:
        return f"{bytes_per_s / 1e9:.1f} GB/s"
    return f"{bytes_per_s / 1e6:.3g} MB/s"
