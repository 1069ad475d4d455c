"""`damacy verify`: reads and decodes every stored chunk of every array below a path, and compares its checksums.

Native code reads and decodes."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import rich.markup
from rich.progress import TaskID

import damacy
from damacy._cli.console import AsJson, Threads, Uri, errors, fail, out, plain, print_json, progress_bar, refuse
from damacy._core import log
from damacy._core.sizes import size_text
from damacy._open import folders
from damacy._open.groups import Group
from damacy._open.opening import array_or_image
from damacy._open.plain_folder import open_node_or_folder

_SHOWN = 50  # bad chunks in the table; JSON has all


@dataclasses.dataclass
class Outcome:
    """The result for one array. `refused` is the error if it could not be checked at all.

    `unguarded` of the good `chunks` have no checksum: damage that still decodes is not found there. `stray`: no chunk
    is stored, but a file of that name, which is no chunk of the array.
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
    stray: str | None = None

    @property
    def good(self) -> bool:
        """Whether all was checked and nothing is wrong."""
        return not self.bad and self.refused is None and not self.has_other_names

    @property
    def has_other_names(self) -> bool:
        """Whether chunks are stored under names that the metadata do not lead to."""
        return self.stray is not None and folders.looks_like_chunk(self.stray)

    @property
    def passed_over(self) -> bool:
        """Whether the elements are of a type that is not read, such as strings: that is no damage."""
        return self.refused is not None and self.refused.reason == "data-type"

    def as_dict(self) -> dict[str, Any]:
        names = ("uri", "chunks", "missing", "unguarded", "encoded_bytes", "decoded_bytes")
        counts = {name: getattr(self, name) for name in names}
        refused = None if self.refused is None else _error_dict(self.refused)
        bad = [_error_dict(error) for error in self.bad]
        return counts | {"bad": bad, "refused": refused, "passed_over": self.passed_over, "stray": self.stray}


def command(uri: Uri, threads: Threads = 0, as_json: AsJson = False) -> None:
    """Decode every chunk of every array below a path and compare every checksum.

    Exit status 1 if any chunk is bad, any array cannot be read, or an array has no chunk but files that look like
    chunks under other names. Arrays of types that are not read, such as strings, are passed over unless there are no
    others.
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
    checked = [outcome for outcome in outcomes if not outcome.passed_over] or outcomes
    good = all(outcome.good for outcome in checked)
    if as_json:
        print_json({"good": good, "seconds": seconds, "arrays": [outcome.as_dict() for outcome in outcomes]})
    else:
        _show(outcomes, seconds)
    if not good:
        raise SystemExit(1)


def find_arrays(uri: str) -> list[str]:
    """The arrays at or below `uri`, in natural order. Empty if the folder holds no array.

    Searches also folders that are neither arrays nor groups. Raises `NotFound` if `uri` does not exist.
    """
    root = folders.local_folder(uri)
    if root is None:
        return sorted(_remote_arrays(uri.rstrip("/")), key=_natural)
    if not root.is_dir():
        array_or_image(uri)  # raises the error
    return sorted(map(str, folders.arrays_below(root)), key=_natural)


def _remote_arrays(uri: str) -> Iterator[str]:
    """By what groups name: a store may have no listing of folders."""
    node = open_node_or_folder(uri)
    if isinstance(node, damacy.Image):
        for path in dict.fromkeys(level for image in node.images for level in image.levels):
            yield f"{uri}/{path}"
        for name in node.labels:
            yield from _remote_arrays(f"{uri}/labels/{name}")
    elif isinstance(node, Group):
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
    outcome = dataclasses.replace(outcome, **report)
    if outcome.missing and not outcome.chunks and not outcome.bad:
        outcome.stray = folders.stray_file(uri)
    return outcome


def _natural(path: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in path.split(os.sep)]


def _error_dict(error: damacy.DamacyError) -> dict[str, Any]:
    names = ("key", "chunk", "byte_range", "pointer", "reason")
    return {"error": type(error).__name__} | {n: getattr(error, n) for n in names} | {"message": str(error)}


def stray_text(name: str) -> str:
    """What a stray file means."""
    return f"there are files that are no chunks of it, such as {plain(name)}"


def _show(outcomes: list[Outcome], seconds: float) -> None:
    for outcome in outcomes:
        mark = "[yellow]•[/]" if outcome.passed_over else "[green]✓[/]" if outcome.good else "[red]✗[/]"
        counts = f"{outcome.chunks:,} chunks good, {outcome.missing:,} not stored"
        if outcome.missing and not outcome.chunks and not outcome.bad:
            counts = f"no chunk is stored, of {outcome.missing:,}"
        if outcome.stray is not None:
            counts += f"; {stray_text(outcome.stray)}"
        if outcome.unguarded:
            counts += f", {outcome.unguarded:,} without a checksum"
        if outcome.bad:
            counts += f", [red]{len(outcome.bad):,} bad[/]"
        if outcome.refused is not None:
            why = rich.markup.escape(outcome.refused.message)
            counts = f"passed over: {why}" if outcome.passed_over else "[red]not checked[/]"
        out.print(f"{mark} {plain(outcome.uri)}: {counts}", soft_wrap=True)
    bad = [error for outcome in outcomes for error in outcome.bad]
    refused = [outcome.refused for outcome in outcomes if outcome.refused is not None and not outcome.passed_over]
    for error in (refused + bad)[:_SHOWN]:
        errors.print(f"[red]{type(error).__name__}[/]: {rich.markup.escape(str(error))}", soft_wrap=True)
    if len(bad) + len(refused) > _SHOWN:
        errors.print(f"… and {len(bad) + len(refused) - _SHOWN:,} more; --json lists all")
    read = sum(outcome.encoded_bytes for outcome in outcomes)
    decoded = sum(outcome.decoded_bytes for outcome in outcomes)
    rate = f"{size_text(decoded / seconds)}/s" if seconds else ""
    out.print(f"{size_text(read)} read, {size_text(decoded)} decoded in {seconds:.2f} s: {rate}")
    if unguarded := sum(outcome.unguarded for outcome in outcomes):
        chunks = sum(outcome.chunks for outcome in outcomes)
        out.print(f"no checksum covers {unguarded:,} of {chunks:,} good chunks: damage that still decodes is not found")
