"""`damacy verify`: reads and decodes every stored chunk of every array below a path, and compares its checksums.

Finds the arrays; native code reads and decodes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import queue
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import rich.markup
from rich.progress import TaskID

import damacy
from damacy._cli.console import AsJson, Threads, Uri, errors, fail, out, plain, print_json, progress_bar, refuse, size
from damacy._core import log
from damacy._open.opening import array_or_image

_SHOWN = 50  # bad chunks in the table; JSON has all
_DEADLINE_S = 60  # for one call on a folder, the same as for any storage operation


@dataclasses.dataclass
class Outcome:
    """The result for one array. `refused` is the error if it could not be checked at all.

    `unguarded` of the good `chunks` have no checksum: damage that still decodes is not found there.
    """

    uri: str
    chunks: int = 0
    missing: int = 0
    unguarded: int = 0
    encoded_bytes: int = 0
    decoded_bytes: int = 0
    read_ns: int = 0
    decode_ns: int = 0
    bad: list[damacy.DamacyError] = dataclasses.field(default_factory=list)
    refused: damacy.DamacyError | None = None

    @property
    def good(self) -> bool:
        return not self.bad and self.refused is None

    def as_dict(self) -> dict[str, Any]:
        names = ("uri", "chunks", "missing", "unguarded", "encoded_bytes", "decoded_bytes")
        counts = {name: getattr(self, name) for name in names}
        refused = None if self.refused is None else _error_dict(self.refused)
        return counts | {"bad": [_error_dict(error) for error in self.bad], "refused": refused}


def command(uri: Uri, threads: Threads = 0, as_json: AsJson = False) -> None:
    """Decode every chunk of every array below a path and compare every checksum.

    Exit status 1 if any chunk is bad or any array cannot be read.
    """
    try:
        uris = find_arrays(uri)
    except damacy.DamacyError as error:
        fail(error, as_json)
    if not uris:
        refuse(f"there are no arrays below {uri}", as_json)
    start = time.perf_counter()
    outcomes = []
    with progress_bar(as_json) as progress:
        for found in uris:
            task = progress.add_task(plain(found[-40:]), total=None)

            def show(done: int, places: int, task: TaskID = task) -> None:
                progress.update(task, completed=done, total=places)

            outcomes.append(verify(found, threads, show))
            progress.remove_task(task)
    seconds = time.perf_counter() - start
    if as_json:
        good = all(outcome.good for outcome in outcomes)
        print_json({"good": good, "seconds": seconds, "arrays": [outcome.as_dict() for outcome in outcomes]})
    else:
        _show(outcomes, seconds)
    if not all(outcome.good for outcome in outcomes):
        raise SystemExit(1)


def find_arrays(uri: str) -> list[str]:
    """The arrays at or below `uri`, in natural order. Empty if the folder holds no array.

    Searches also folders that are neither arrays nor groups. Raises `NotFound` if `uri` does not exist.
    """
    if "://" in uri and not uri.startswith("file://"):
        return sorted(_remote_arrays(uri.rstrip("/")), key=_natural)
    root = pathlib.Path(urllib.parse.unquote(uri.removeprefix("file://")) if uri.startswith("file://") else uri)
    if not root.is_dir():
        array_or_image(uri)  # raises the error
    return sorted(map(str, _walk(root)), key=_natural)


def _remote_arrays(uri: str) -> Iterator[str]:
    """By what groups name: a store may have no listing of folders."""
    node = damacy.open(uri)
    if isinstance(node, damacy.Image):
        for path in dict.fromkeys(level for image in node.images for level in image.levels):
            yield f"{uri}/{path}"
        for name in node.labels:
            yield from _remote_arrays(f"{uri}/labels/{name}")
    elif isinstance(node, damacy.Group):
        for name in node:
            yield from _remote_arrays(f"{uri}/{name}")
    else:
        yield uri


def verify(uri: str, threads: int = 0, progress: Callable[[int, int], None] = lambda done, places: None) -> Outcome:
    """Checks one array on `threads` threads (0: one per core). Calls `progress` with chunks done and their number."""
    from damacy import _native

    outcome = Outcome(uri)
    try:
        array_or_image(uri)  # its errors are those of `damacy.open`
        with log.drained:
            verifier = _native.Verifier(uri, threads)
    except damacy.DamacyError as error:
        outcome.refused = error
        return outcome
    places = verifier.places
    report = verifier.verify(0, places, lambda done: progress(done, places))
    return dataclasses.replace(outcome, **report)


def _walk(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """Runs `_arrays_below` on a thread of its own, which is abandoned if storage does not respond."""
    found_paths: queue.SimpleQueue[pathlib.Path | Exception | None] = queue.SimpleQueue()

    def walk() -> None:
        try:
            for path in _arrays_below(root):
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
            raise damacy.StorageError(message, what="verify", uri=str(root), reason="deadline") from None
        if isinstance(found, StopIteration):
            return
        if isinstance(found, Exception):
            raise found
        if found is not None:
            yield found
            last = found


def _arrays_below(root: pathlib.Path) -> Iterator[pathlib.Path | None]:
    """Yields each array, and None before each call on the file system, which shows that storage responds."""
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


def _natural(path: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in path.split(os.sep)]


def _error_dict(error: damacy.DamacyError) -> dict[str, Any]:
    names = ("key", "chunk", "byte_range", "pointer", "reason")
    return {"error": type(error).__name__} | {n: getattr(error, n) for n in names} | {"message": str(error)}


def _show(outcomes: list[Outcome], seconds: float) -> None:
    for outcome in outcomes:
        mark = "[green]✓[/]" if outcome.good else "[red]✗[/]"
        counts = f"{outcome.chunks:,} chunks good, {outcome.missing:,} not stored"
        if outcome.unguarded:
            counts += f", {outcome.unguarded:,} without a checksum"
        if outcome.bad:
            counts += f", [red]{len(outcome.bad):,} bad[/]"
        if outcome.refused is not None:
            counts = "[red]not checked[/]"
        out.print(f"{mark} {plain(outcome.uri)}: {counts}", soft_wrap=True)
    bad = [error for outcome in outcomes for error in outcome.bad]
    refused = [outcome.refused for outcome in outcomes if outcome.refused is not None]
    for error in (refused + bad)[:_SHOWN]:
        errors.print(f"[red]{type(error).__name__}[/]: {rich.markup.escape(str(error))}", soft_wrap=True)
    if len(bad) + len(refused) > _SHOWN:
        errors.print(f"… and {len(bad) + len(refused) - _SHOWN:,} more; --json lists all")
    read = sum(outcome.encoded_bytes for outcome in outcomes)
    decoded = sum(outcome.decoded_bytes for outcome in outcomes)
    rate = f"{size(decoded / seconds)}/s" if seconds else ""
    out.print(f"{size(read)} read, {size(decoded)} decoded in {seconds:.2f} s: {rate}")
    if unguarded := sum(outcome.unguarded for outcome in outcomes):
        chunks = sum(outcome.chunks for outcome in outcomes)
        out.print(f"no checksum covers {unguarded:,} of {chunks:,} good chunks: damage that still decodes is not found")
