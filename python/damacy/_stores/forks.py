"""Chooses the object by which a process reads a store of zarr-python. Parent and forked children share file offsets and
connections, and a child has none of its parent's threads, so a child opens the store anew or is refused. Knows the
classes of stores; not what is read from them."""

from __future__ import annotations

import copy
import os
import pickle
import threading
import weakref
from typing import Any

_NOT_AFTER_A_FORK = ("icechunk", "obstore")  # their threads do not survive a fork

_made: dict[int, tuple[weakref.ref[Any], Any, Any]] = {}  # by id of a store: it, what it depends on, its copy


class NotAfterFork(Exception):
    """The store cannot be read in a forked child. The text says why, and what to do."""


def own_store(store: Any, process: int) -> Any:
    """The store through which this process reads `store`, which belongs to `process`. No other process shares its file
    offset or connections.

    Zip files are opened anew in every process: also the parent's offset moves when a child reads. Other stores are used
    as they are in their own process, and are copied in a forked child of it, as by pickling."""
    kind = _kind_of(store)
    is_forked = os.getpid() != (getattr(store.fs, "_pid", process) if kind == "FsspecStore" else process)
    if kind == "ZipStore":
        return _own_zip(store, is_forked)
    if kind == "WrapperStore":
        inner = own_store(store._store, process)
        return store if inner is store._store else _kept(store, inner, lambda: _with(store, _store=inner))
    if not is_forked or kind in ("MemoryStore", "LocalStore"):
        return store
    if kind == "ObjectStore" or _is_of(store, _NOT_AFTER_A_FORK):
        raise refusal(store, "its threads do not survive a fork")
    if kind == "FsspecStore":
        return _kept(store, os.getpid(), lambda: _with(store, fs=_pickled(store.fs, store)))
    return _kept(store, os.getpid(), lambda: _pickled(store, store))


def refusal(store: Any, why: str) -> NotAfterFork:
    return NotAfterFork(
        f"{name_of(store)} cannot be read in a forked child of the process that opened it: {why}. Open and mount the "
        'store in the child, or start the process by spawning, for example with multiprocessing_context="spawn"'
    )


def _kind_of(store: Any) -> str:
    """The class of zarr-python that decides how the store is opened anew; "" for others."""
    for base in type(store).__mro__:
        if base.__module__.startswith("zarr.storage") and base.__name__ in _KINDS:
            return base.__name__
    return ""


_KINDS = ("FsspecStore", "LocalStore", "MemoryStore", "ObjectStore", "WrapperStore", "ZipStore")


def _is_of(store: Any, packages: tuple[str, ...]) -> bool:
    return any(base.__module__.partition(".")[0] in packages for base in type(store).__mro__)


def _kept(store: Any, made_for: Any, make: Any) -> Any:
    """What `make` returned, as long as it was made for the same object."""
    known = _made.get(id(store))
    if known is None or known[0]() is not store or known[1] != made_for:
        number = id(store)
        known = _made[number] = weakref.ref(store, lambda _: _made.pop(number, None)), made_for, make()
    return known[2]


def _with(store: Any, **changed: Any) -> Any:
    """A copy of a store that has other attributes."""
    copied = object.__new__(type(store))
    copied.__dict__.update(store.__dict__ | changed)
    return copied


def _own_zip(store: Any, is_forked: bool) -> Any:
    if store._zmode != "r":
        if is_forked:
            raise refusal(store, "it is open for writing")
        return store
    if not store._is_open:
        store._sync_open()
    return _kept(
        store, (os.getpid(), store._zf), lambda: _with(store, _zf=_reopened(store._zf), _lock=threading.RLock())
    )


def _reopened(archive: Any) -> Any:
    """The same zip file with a file offset of its own. Its directory is not read again."""
    file = open(f"/proc/self/fd/{archive.fp.fileno()}", "rb")  # also if the file was renamed
    own = copy.copy(archive)
    own.fp, own._fileRefCnt, own._lock = file, 1, threading.RLock()
    return own


def _pickled(thing: Any, store: Any) -> Any:
    """A copy as a spawned process would get it, which opens files and connections anew."""
    try:
        return pickle.loads(pickle.dumps(thing))
    except Exception as error:
        raise refusal(store, f"it cannot be pickled ({type(error).__name__})") from None


def name_of(store: Any) -> str:
    """The class, as users import it. Never more of the store: its text may hold secrets."""
    kind = type(store)
    module = kind.__module__
    if module.startswith("zarr.storage."):
        module = "zarr.storage"
    return f"{module}.{kind.__qualname__}"
