"""Objects of opened arrays: `ArrayInfo` and `Array`, zarr-python's `Array`, xarray's `DataArray`.

Finds uri and shape of the stored array if the object is a whole array in a store; refuses views and copies in memory.
Mounts the store if it is not on a local disk. Knows attributes of those libraries by name; imports none of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from damacy._core.errors import DamacyError


class Opened(NamedTuple):
    """The uri of the array, and its shape."""

    uri: str
    shape: tuple[int, ...]


def opened(value: Any) -> Opened | None:
    """None for anything that is not an array. `TypeError` for an array whose elements are not a whole stored array."""
    for kind in type(value).__mro__:
        match kind.__module__.partition(".")[0], kind.__name__:
            case "damacy", "ArrayInfo":
                return Opened(value.uri, value.shape)
            case "damacy", "Group":
                raise _is_group(value.uri)
            case "zarr", "Array":
                return _of_zarr(value)
            case "xarray", "DataArray":
                return _of_xarray(value)
    return None


def group_uri(value: Any) -> Any:
    """The uri of an opened group; other values as they are."""
    is_group = any(_is(kind, "damacy", "Group") for kind in type(value).__mro__)
    return value.uri if is_group else zarr_group_uri(value)


def zarr_group_uri(value: Any) -> Any:
    """The uri of a group that zarr-python has open; other values as they are."""
    return _uri_of_zarr(value) if any(_is(kind, "zarr", "Group") for kind in type(value).__mro__) else value


def _is(kind: type, package: str, name: str) -> bool:
    return kind.__name__ == name and kind.__module__.partition(".")[0] == package


def _is_group(uri: str) -> Exception:
    """The error of an array that is a group, which lists the arrays inside."""
    from damacy import _native

    try:
        _native.open_array(uri)
    except DamacyError as error:
        return error
    return TypeError(f"{uri} is a group that has become an array: open it again")


def note_packed(uri: str, attributes: Mapping[str, Any]) -> None:
    """Notes the packing of a v2 array. A batch of its stored elements warns of it, and does not read its attributes."""
    packing = [
        f"{name} {attributes[name]}" for name in ("scale_factor", "add_offset") if attributes.get(name) is not None
    ]
    if packing:
        from damacy import _native

        _native.note_packed(uri, " and ".join(packing))


def _of_zarr(array: Any) -> Opened:
    uri = _uri_of_zarr(array)
    if array.metadata.zarr_format == 2:
        note_packed(uri, array.metadata.attributes)
    return Opened(uri, tuple(map(int, array.shape)))


def _uri_of_zarr(node: Any) -> str:
    """Of an array or a group: its path for a store of files, else the uri in its store, which is mounted."""
    store = node.store
    if any(kind.__name__ == "LocalStore" for kind in type(store).__mro__):
        root: str = os.fspath(store.root)
        return os.path.join(root, node.path)
    from damacy._stores.mounts import mount

    return mount(store) + str(node.path)


# Classes in which opening a dataset wraps a stored array without changing or omitting elements.
_PLAIN_WRAPPERS = ("CopyOnWriteArray", "MemoryCachedArray", "LazilyIndexedArray")
_IN_MEMORY = ("ndarray", "NumpyIndexingAdapter", "PandasIndexingAdapter", "PandasMultiIndexingAdapter")


def _of_xarray(array: Any) -> Opened:
    data = array.variable._data
    while _module(data).startswith("xarray.core") and type(data).__name__ in _PLAIN_WRAPPERS:
        if not _is_whole(data):
            raise _not_whole("a selection of it")
        data = data.array
    if _module(data).startswith("xarray.") and type(data).__name__ == "ZarrArrayWrapper":
        return Opened(_of_zarr(data._array).uri, tuple(map(int, array.shape)))
    if type(data).__name__ in _IN_MEMORY:
        raise _not_whole("its elements are in memory")
    if _module(data).startswith("xarray.coding"):
        raise _not_whole("it decodes elements, and stored ones are delivered: open it with decode_cf=False")
    if _module(data).startswith("xarray.core"):
        raise _not_whole("a selection of it")
    if _module(data).startswith("dask."):
        raise _not_whole("it holds a dask Array: open it with chunks=None")
    raise _not_whole(f"it holds a {_module(data).partition('.')[0]} {type(data).__name__}")


def _is_whole(wrapper: Any) -> bool:
    """Whether the wrapper's key, if it has one, selects every element in stored order."""
    key = getattr(wrapper, "key", None)
    if key is None:
        return True
    sizes = wrapper.array.shape
    return len(key.tuple) == len(sizes) and all(
        isinstance(axis, slice) and axis.indices(size) == (0, size, 1) for axis, size in zip(key.tuple, sizes)
    )


def _module(value: object) -> str:
    return type(value).__module__


def _not_whole(why: str) -> TypeError:
    return TypeError(f"the DataArray is no whole stored array ({why}): give its uri and a box")
