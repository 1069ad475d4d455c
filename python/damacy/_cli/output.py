"""Files that commands write. Knows how to leave what was there until the new content is whole; not what is written."""

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
    """A file to write that gets the name `path` when all went well, and is removed else.

    It gets the permissions, and if possible the owner, of the file whose name it takes. A device, a pipe, or what is
    open already, such as `/dev/stdout`, is written to as it is.
    """
    there = _stat_if_there(path)
    is_open = _descriptor(path)
    if is_open is not None or (there and not stat.S_ISREG(there.st_mode)):
        with open(path if is_open is None else os.dup(is_open), "wb") as file:
            yield file
        return
    if there:
        os.close(os.open(path, os.O_WRONLY))  # what is protected from writing stays
    target = path.resolve()  # a link stays a link
    unfinished = target.with_name(f".damacy-{secrets.token_hex(8)}.partial")
    mode = 0o600 if there else 0o666
    nameless = _open_nameless(target.parent, mode)
    try:
        with nameless or open(unfinished, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            if nameless:  # the descriptor of a folder makes os.link follow the link that /proc has
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
    """A file that goes with the process, however that ends, until it has a name; None where there are none."""
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
    """That of this process which the path names, so that the position in it is shared."""
    numbered = re.fullmatch(r"/(?:dev|proc/self)/fd/([0-9]+)", str(path))
    return int(numbered[1]) if numbered else _STANDARD.get(str(path))
