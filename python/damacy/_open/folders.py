"""Local folders of stores: the arrays below one, and files in an array's folder that are no chunks of it. Knows names
of documents and chunks; a thread that storage does not answer is abandoned."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import queue
import re
import threading
import urllib.parse
from collections.abc import Iterator

from damacy._core.errors import StorageError

_DEADLINE_S = 60  # for one call on a folder, the same as for any storage operation
_SEEN = 10_000  # files of an array's folder: a chunk is usually among the first
_DOCUMENTS = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")


def local_folder(uri: str) -> pathlib.Path | None:
    """The folder of a path or a file uri; None for other uris."""
    if uri.startswith("file://"):
        return pathlib.Path(urllib.parse.unquote(uri.removeprefix("file://")))
    return None if "://" in uri else pathlib.Path(uri)


def arrays_below(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """The folders of arrays at or below a folder, also below folders that are neither arrays nor groups."""
    return _watched(_arrays_below(root), root)


def stray_file(uri: str) -> str | None:
    """The name of a file in an array's folder that is no chunk of it, if no file there is one.

    None if there is a chunk or no file, and for uris that are no local folders.
    """
    folder = local_folder(uri)
    if folder is None:
        return None
    for found in _watched(_stray_files(folder), folder):
        return str(found)
    return None


def looks_like_chunk(name: str) -> bool:
    """Whether a chunk of some array could have that name.

    >>> [looks_like_chunk(name) for name in ("0/1", "c.0.1", "c", "readme.txt")]
    [True, True, True, False]
    """
    return re.fullmatch(r"c|(c[./])?\d+([./]\d+)*", name) is not None


def _watched(paths: Iterator[pathlib.Path | None], root: pathlib.Path) -> Iterator[pathlib.Path]:
    """Runs an iterator on a thread of its own, which is abandoned if storage does not respond. The iterator yields None
    before each call on the file system, which shows that storage responds."""
    found_paths: queue.SimpleQueue[pathlib.Path | Exception | None] = queue.SimpleQueue()

    def walk() -> None:
        try:
            for path in paths:
                found_paths.put(path)
            found_paths.put(StopIteration())
        except Exception as error:
            found_paths.put(error)

    threading.Thread(target=walk, name="damacy-walk", daemon=True).start()
    last: object = root
    while True:
        try:
            found = found_paths.get(timeout=_DEADLINE_S)
        except queue.Empty:
            message = f"cannot list folders: storage did not answer within {_DEADLINE_S} s, after {last}"
            raise StorageError(message, what="verify", uri=str(root), reason="deadline") from None
        if isinstance(found, StopIteration):
            return
        if isinstance(found, Exception):
            raise found
        if found is not None:
            yield found
            last = found


def _arrays_below(root: pathlib.Path) -> Iterator[pathlib.Path | None]:
    seen = set()
    folders = [root]
    while folders:
        folder = folders.pop()
        yield None
        with contextlib.suppress(OSError):
            identity = (folder.stat().st_dev, folder.stat().st_ino)
            if identity in seen:  # a link to a folder above
                continue
            seen.add(identity)
            if _is_array(folder):
                yield folder
                continue
            for entry in folder.iterdir():
                yield None
                if entry.is_dir():
                    folders.append(entry)


def _is_array(folder: pathlib.Path) -> bool:
    """A folder whose document cannot be read counts as an array: opening it then reports the error."""
    if (folder / ".zarray").exists():
        return True
    document = folder / "zarr.json"
    if not document.exists():
        return False
    try:
        return bool(json.loads(document.read_bytes())["node_type"] != "group")
    except (OSError, ValueError, KeyError, TypeError):
        return True


def _stray_files(folder: pathlib.Path) -> Iterator[pathlib.Path | None]:
    """Yields one name, relative to the folder, or nothing."""
    stray = None
    yield None
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        is_chunk = _chunk_names(folder)
        folders = [""]
        seen = 0
        while folders:
            below = folders.pop()
            yield None
            with os.scandir(folder / below) as entries:
                for entry in entries:
                    name = f"{below}/{entry.name}" if below else entry.name
                    if entry.is_dir():
                        folders.append(name)
                    elif is_chunk.fullmatch(name):
                        return
                    elif entry.name not in _DOCUMENTS and (stray is None or not looks_like_chunk(stray)):
                        stray = name
                    seen += 1
                    if seen == _SEEN:
                        folders.clear()
                        break
    if stray is not None:
        yield pathlib.Path(stray)


def _chunk_names(folder: pathlib.Path) -> re.Pattern[str]:
    """Names of an array's chunks, also of those outside of its grid."""
    version_3 = folder / "zarr.json"
    if version_3.exists():
        document = json.loads(version_3.read_bytes())
        encoding = document["chunk_key_encoding"]
        encoding = {"name": encoding} if isinstance(encoding, str) else encoding
        is_default = encoding["name"] == "default"
        separator = encoding.get("configuration", {}).get("separator", "/" if is_default else ".")
    else:
        document = json.loads((folder / ".zarray").read_bytes())
        is_default, separator = False, document.get("dimension_separator") or "."
    numbers = [r"\d+"] * len(document["shape"])
    return re.compile(re.escape(separator).join(["c", *numbers] if is_default else numbers or ["0"]))
