"""Files that commands write. Knows how to leave what was there until the new content is whole; not what is written."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import BinaryIO


@contextlib.contextmanager
def written_whole(path: pathlib.Path) -> Iterator[BinaryIO]:
    """A file to write that gets the name `path` when all went well, and is removed else.

    A device or pipe that has the name is written to as it is.
    """
    target = path.resolve()  # a link stays a link
    if target.exists() and not target.is_file():
        with open(target, "wb") as file:
            yield file
        return
    unfinished = target.with_name(f".{target.name[:200]}.{os.getpid()}.part")
    try:
        with open(unfinished, "wb") as file:
            yield file
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
