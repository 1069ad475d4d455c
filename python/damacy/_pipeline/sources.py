"""For the native module: exceptions of sources that wait for their place in the stream, and the end mark that damacy's
own sources may yield."""

from __future__ import annotations

import dataclasses
import traceback

from damacy._pipeline.sample import Sample


@dataclasses.dataclass(frozen=True, slots=True)
class EndsBatch:
    """A sample that completes its batch, even if the batch is short."""

    sample: Sample


def let_go_of_frames(raised: BaseException) -> None:
    """Replace the tracebacks of an exception by a note with their text.

    A traceback keeps all frames of the call stack alive, and the batches that they name. An exception that is kept for
    later would hold slots that no code can release.
    """
    chain: list[BaseException] = []
    todo = [raised]
    while todo:
        error = todo.pop()
        if any(error is known for known in chain):
            continue
        chain.append(error)
        todo += [e for e in (error.__cause__, error.__context__) if e is not None]
        if isinstance(error, BaseExceptionGroup):
            todo += error.exceptions
    if raised.__traceback__ is not None:
        lines = "".join(traceback.format_tb(raised.__traceback__))
        raised.add_note(f"Raised by a source of samples, before the call that shows it:\n{lines.rstrip()}")
    for error in chain:
        error.__traceback__ = None
