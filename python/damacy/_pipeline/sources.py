"""What a source of samples raised, while it waits for its place in the stream; and what our own sources may yield
instead of a sample. Used by the native module."""

from __future__ import annotations

import dataclasses
import traceback

from damacy._pipeline.sample import Sample


@dataclasses.dataclass(frozen=True, slots=True)
class EndsBatch:
    """A sample with which its batch is complete, however few samples it has."""

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
