"""Validates the fields of `__cuda_array_interface__`. Knows versions 0 to 3 of the protocol; does not call CUDA."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from damacy._core.errors import InvalidArgument

_NAME = "__cuda_array_interface__"
_TYPE = re.compile(r"[<>|=]?[A-Za-su-z?](\d{1,9})(\[.*\])?")  # any letter except `t`, whose number counts bits
_MOST = 2**63 - 1


class Interface(NamedTuple):
    """The entries of the protocol. The address of an empty array is not checked."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # bytes
    typestr: str
    itemsize: int
    read_only: bool
    stream: int | None


def parse_interface(interface: Any) -> Interface:
    """Validates the dictionary. Errors name the entry.

    Raises `TypeError` for missing entries and wrong types, `InvalidArgument` for impossible sizes and addresses, and
    `NotImplementedError` for masks and later versions.

    >>> parse_interface({"shape": (2, 3), "typestr": "<f4", "data": (4096, False), "version": 3}).itemsize
    4
    >>> parse_interface({"shape": (-2,), "typestr": "<f4", "data": (4096, False), "version": 3})
    Traceback (most recent call last):
    damacy.InvalidArgument: __cuda_array_interface__: shape (-2,) has an invalid extent (invalid argument)
    """
    if not isinstance(interface, Mapping):
        raise TypeError(f"{_NAME}: expected a dict (got {type(interface).__name__})")
    version = _integer(interface.get("version", 0), "version")
    if version > 3:
        raise NotImplementedError(f"{_NAME}: version {version} is not supported, only 0 to 3")
    if interface.get("mask") is not None:
        raise NotImplementedError(f"{_NAME}: masks are not supported")
    shape = _integers(_entry(interface, "shape"), "shape")
    if any(not 0 <= extent <= _MOST for extent in shape):
        raise InvalidArgument(f"{_NAME}: shape {_shown(shape)} has an invalid extent")
    typestr = _entry(interface, "typestr")
    element = _TYPE.fullmatch(typestr) if isinstance(typestr, str) else None
    if element is None:
        raise TypeError(f"{_NAME}: typestr {_shown(typestr)} is not a type of whole bytes")
    itemsize = int(element[1]) * (4 if "U" in typestr[:2] else 1)
    nbytes = math.prod(shape) * itemsize
    pointer, read_only = _data(_entry(interface, "data"), nbytes)
    strides = _strides(interface.get("strides"), shape)
    return Interface(pointer, shape, strides, typestr, itemsize, read_only, _stream(interface.get("stream")))


def _entry(interface: Mapping[str, Any], name: str) -> Any:
    try:
        return interface[name]
    except KeyError:
        raise TypeError(f"{_NAME}: the entry {name!r} is missing") from None


def _integer(value: Any, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{_NAME}: {name}: expected an integer (got {_shown(value)})") from None


def _integers(values: Any, name: str) -> tuple[int, ...]:
    if not isinstance(values, Iterable):
        raise TypeError(f"{_NAME}: {name}: expected a tuple of integers (got {_shown(values)})")
    return tuple(_integer(value, name) for value in values)


def _data(data: Any, nbytes: int) -> tuple[int, bool]:
    try:
        pointer, read_only = data
    except (TypeError, ValueError):
        raise TypeError(f"{_NAME}: data: expected a pointer and a flag (got {_shown(data)})") from None
    address = 0 if pointer is None else _integer(pointer, "data")
    if nbytes and (address <= 0 or nbytes > _MOST or address + nbytes > 2**64):
        raise InvalidArgument(
            f"{_NAME}: data and shape describe {_shown(nbytes)} bytes at {_shown(address)}: no memory can be there"
        )
    return address if nbytes else 0, bool(read_only)


def _strides(strides: Any, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    if strides is None:
        return None
    found = _integers(strides, "strides")
    if len(found) != len(shape):
        raise InvalidArgument(f"{_NAME}: {len(found)} strides for {len(shape)} axes")
    reach = sum((extent - 1) * abs(stride) for extent, stride in zip(shape, found)) if 0 not in shape else 0
    if reach > _MOST or any(abs(stride) > _MOST for stride in found):
        raise InvalidArgument(f"{_NAME}: strides {_shown(found)} reach beyond the address space")
    return found


def _stream(stream: Any) -> int | None:
    if stream is None:
        return None
    number = -1 if isinstance(stream, bool) else _integer(stream, "stream")
    if number == 0:
        raise InvalidArgument(f"{_NAME}: stream 0 is ambiguous; 1 and 2 are the default streams")
    if not 0 < number < 2**64:
        raise InvalidArgument(f"{_NAME}: stream {_shown(stream)} is not a handle")
    return number


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # more digits than Python prints
        return "of a huge number"
    return text if len(text) <= 80 else f"{text[:77]}..."
