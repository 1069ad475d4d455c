"""Files that commands write: a file that is replaced keeps its old content until the new content is complete."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import secrets
import stat
from collections.abc import Iterator
from typing import BinaryIO

_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}


@contextlib.contextmanager
def written_whole(path: pathlib.Path) -> Iterator[BinaryIO]:
    """A file to write. It gets the name `path` at the end of the block, or is removed if the block raises.

    It takes over the permissions, and if possible the owner, of the file that it replaces. A device, a pipe, and a
    descriptor that is open already, such as `/dev/stdout`, are written to directly.
    """
    there = _stat_if_there(path)
    is_open = _descriptor(path)
    if is_open is not None or (there and not stat.S_ISREG(there.st_mode)):
        with open(path if is_open is None else os.dup(is_open), "wb") as file:
            yield file
        return
    if there:
        os.close(os.open(path, os.O_WRONLY))  # raises for a write-protected file, which a rename would replace
    target = path.resolve()  # replace the file that a link points to, not the link
    unfinished = target.with_name(f".damacy-{secrets.token_hex(8)}.partial")
    mode = 0o600 if there else 0o666
    nameless = _open_nameless(target.parent, mode)
    try:
        with nameless or open(unfinished, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            if nameless:  # with the descriptor of a folder os.link follows the link in /proc
                os.link(f"/proc/self/fd/{file.fileno()}", unfinished, src_dir_fd=file.fileno())
        if there:
            with contextlib.suppress(PermissionError):
                os.chown(unfinished, there.st_uid, there.st_gid)
            unfinished.chmod(there.st_mode & 0o777)
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _open_nameless(folder: pathlib.Path, mode: int) -> BinaryIO | None:
    """A file without a name, which the kernel removes if the process ends; None if the file system has none."""
    try:
        return open(os.open(folder, os.O_TMPFILE | os.O_WRONLY, mode), "wb")
    except OSError:
        return None


def _stat_if_there(path: pathlib.Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _descriptor(path: pathlib.Path) -> int | None:
    """This process's own descriptor if the path names one (`/dev/fd/3`); sharing it shares the position."""
    numbered = re.fullmatch(r"/(?:dev|proc/self)/fd/([0-9]+)", str(path))
    return int(numbered[1]) if numbered else _STANDARD.get(str(path))
