"""`damacy.mount`: stores of zarr-python and obstore under a prefix of uris, for the whole process.

The table of mounts is the native library's; this module chooses the adapter of a store and numbers prefixes."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import threading
from typing import TYPE_CHECKING, Any, overload

from damacy._core.errors import InvalidArgument
from damacy._stores.forks import name_of
from damacy._stores.options import StoreOptions
from damacy._stores.references import ReferenceStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from damacy._stores.adapters import Adapter

_lock = threading.RLock()
_numbers = itertools.count(1)
_options: dict[str, StoreOptions] = {}  # that were mounted under a prefix
_MOST_SECOND_NAMES = 256  # of the process
_second_names: dict[str, str] = {}  # of such prefixes: what they stand for; the last used one is the last
_references: dict[str, tuple[ReferenceStore, str]] = {}  # the same, with the name of the native store
_ends_with_python = False


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


@overload
def mount(prefix: Any, /) -> str: ...
@overload
def mount(prefix: str, target: Any, /) -> str: ...
def mount(prefix: Any, target: Any = None, /) -> str:
    """Make a store the place of all uris below a prefix, in this process. Returns the prefix, which ends in "/".

    Args:
        prefix: for example `"store://era5/"` or `"s3://bucket/"`. A uri uses the longest prefix that matches it. A
            store that was mounted under the same prefix is replaced; what was opened before keeps the old one. Without
            a prefix the store gets `store://1/`, `store://2/`, ...; the same object always gets the same prefix.
            Options that are mounted there already stay as they are: unmount them to have them made anew, for example
            from another environment.
        target: a store of zarr-python 3 or of obstore; a `ReferenceStore`; or `StoreOptions`, which say how the uris
            below an `s3://`, `gs://` or `http(s)://` prefix are reached.
    """
    from damacy import _native

    if target is None:
        prefix, target = None, prefix
    elif not isinstance(prefix, str):
        raise TypeError(f"mount: the prefix must be a str (got {type(prefix).__name__})")
    if isinstance(target, str):
        raise TypeError("mount needs a store: damacy.mount(prefix, store)")
    if isinstance(target, StoreOptions):
        if prefix is None:
            raise TypeError('options need a prefix: damacy.mount("s3://BUCKET/", options)')
        with _lock:
            _end_with_python()
            closed = _normal(prefix)
            if _options.get(closed) == target and any(closed == known for known, _, _ in _native.mounts()):
                return closed
            mounted = _native.mount_options(prefix, target._for_native())
            _options[mounted] = target
            return str(mounted)
    with _lock:
        _end_with_python()
        found = _native.mounts()
        if prefix is None:
            for known, name, adapter in found:
                if isinstance(target, ReferenceStore) and _references.get(known) == (target, name):
                    return str(known)
                if adapter is not None and _is_same(adapter.target, target) and known.startswith("store://"):
                    return str(known)
            prefix = _free_prefix(found)
        closed = _normal(prefix)
        _options.pop(closed, None)
        _second_names.pop(closed, None)
        if isinstance(target, ReferenceStore):
            mounted, name = _native.mount_references(prefix, target.uri, target.allow)
            _references[mounted] = (target, name)
            return str(mounted)
        if _is_of_files(target):
            return _native.mount_directory(prefix, _Directory(target), os.path.abspath(target.root))
        adapter = _adapter_of(target)
        return _native.mount_store(prefix, adapter, adapter.name, adapter.revalidate_s)


def _free_prefix(found: Iterable[tuple[str, str, Any]]) -> str:
    taken = {known for known, _, _ in found}
    return next(each for number in _numbers if (each := f"store://{number}/") not in taken)


def unmount(prefix: str) -> None:
    """Forget the store of a prefix. What was opened before keeps it."""
    from damacy import _native

    with _lock:
        for known in (_options, _second_names, _references):
            known.pop(_normal(prefix), None)
    _native.unmount(prefix)  # without the lock: it may wait for Python code of the store


def mounts() -> tuple[tuple[str, str], ...]:
    """The prefix of each mount, and the kind of its store or its options without secrets."""
    from damacy import _native

    return tuple((prefix, name) for prefix, name, _ in _native.mounts())


def below(store: Any, path: str) -> str:
    """The uri of a path in a store, which is mounted unless it is."""
    if isinstance(store, StoreOptions):
        return _with_options(store, path)
    if not isinstance(path, str):
        raise TypeError(f"with store=, the uri must be a path in the store, a str (got {type(path).__name__})")
    return mount(store) + path.lstrip("/")


def _with_options(options: StoreOptions, uri: str) -> str:
    """`uri`, below which the options are mounted unless a mount above it has them.

    If it has other options, another uri that means the same: one uri never names two stores. The process keeps the 256
    of these names that were used last. What was opened by an older one keeps its store; its text names nothing more.
    """
    if not isinstance(uri, str):
        raise TypeError(f"with store=StoreOptions, the uri must be a str (got {type(uri).__name__})")
    with _lock:
        above = _prefix_above(uri)
        if above is None:
            mount(uri, options)
        if above is None or _options.get(above) == options:
            return uri
        name = _second_name(options, uri)
    _forget_second_names()
    return name


def _second_name(options: StoreOptions, uri: str) -> str:
    """The uri below a prefix that stands for the root of its server or bucket, with these options."""
    from damacy import _native

    scheme, _, rest = uri.partition("://")
    name, _, path = rest.partition("/")
    root = f"{scheme.lower()}://{name}/"
    for prefix, known in _second_names.items():
        if known == root and _options[prefix] == options:
            _second_names[prefix] = _second_names.pop(prefix)
            return prefix + path
    prefix = str(_native.mount_options(_free_prefix(_native.mounts()), options._for_native(), root))
    _options[prefix], _second_names[prefix] = options, root
    return prefix + path


def _forget_second_names() -> None:
    """Those that have not been used for longest, if there are too many."""
    while True:
        with _lock:
            if len(_second_names) <= _MOST_SECOND_NAMES:
                return
            oldest = next(iter(_second_names))
        with contextlib.suppress(InvalidArgument):  # another thread unmounted it
            unmount(oldest)


def options_of(uri: str) -> StoreOptions | None:
    """The options of the mount that the uri is below; None: it has none, or is that of a store."""
    above = _prefix_above(uri)
    return None if above is None else _options.get(above)


def _prefix_above(uri: str) -> str | None:
    from damacy import _native

    closed = _normal(uri)
    return max((prefix for prefix, _, _ in _native.mounts() if closed.startswith(prefix)), key=len, default=None)


def _normal(uri: str) -> str:
    """As the table of mounts has it: the scheme in lower case, "/" at the end."""
    scheme, mark, rest = uri.partition("://")
    closed = scheme.lower() + mark + rest
    return closed if closed.endswith("/") else closed + "/"


class _Directory:
    """Stands for a `LocalStore`, which is read by files."""

    def __init__(self, target: Any) -> None:
        self.target = target


def _is_of_files(store: Any) -> bool:
    """Whether the keys of a store are paths: only for this exact class that is known."""
    return name_of(store) == "zarr.storage.LocalStore" and not getattr(store, "normalize_keys", False)


def _is_same(store: Any, other: Any) -> bool:
    """Whether two objects are one store: zarr-python makes a new object to open a store for reading."""
    if store is other:
        return True
    if type(store) is not type(other):
        return False
    match name_of(store):
        case "zarr.storage.MemoryStore":
            return store._store_dict is other._store_dict
        case "zarr.storage.ObjectStore":
            return store.store is other.store
        case "zarr.storage.FsspecStore":
            return store.fs is other.fs and bool(store.path == other.path)
    return False


def _adapter_of(target: Any) -> Adapter:
    from damacy._stores.adapters import MemoryAdapter, ObstoreAdapter, ZarrAdapter  # import asyncio

    name = name_of(target)
    if name == "zarr.storage.MemoryStore":
        return MemoryAdapter(target, name)
    if name == "zarr.storage.ObjectStore":
        return ObstoreAdapter(target, target.store, name_of(target.store))
    if any(kind.__module__.partition(".")[0] == "obstore" for kind in type(target).__mro__):
        if hasattr(target, "get_async"):
            return ObstoreAdapter(target, target, name)
    if any(kind.__module__.startswith("zarr.abc") and kind.__name__ == "Store" for kind in type(target).__mro__):
        return ZarrAdapter(target, name)
    got = f"the class {target.__name__}, not an instance" if isinstance(target, type) else name
    raise TypeError(f"mount takes a store of zarr-python 3 or of obstore, or a ReferenceStore (got {got})")


def _end_with_python() -> None:
    """When Python exits, requests that wait for a store fail, and later ones are refused."""
    global _ends_with_python
    if _ends_with_python:
        return
    _ends_with_python = True
    from damacy import _native
    from damacy._stores.loops import stop_ours

    atexit.register(stop_ours)
    atexit.register(_native.end_python_stores)
