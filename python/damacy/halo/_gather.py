"""Collects the arrays of a call and checks them against their specs. Knows layouts; not plans."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from damacy.halo._arrays import layout_of, whole
from damacy.halo._dtypes import NAMES
from damacy.halo._errors import DtypeMismatch, InvalidArgument
from damacy.halo._specs import HaloExchangeSpec


@dataclasses.dataclass
class Arrays:
    """Addresses and strides in the order of the specs. Keeps the arrays alive."""

    held: list[Any]
    addresses: list[int]
    strides: tuple[tuple[int, ...], ...]
    device: int | None
    read_only: list[str]  # names of read-only arrays
    streams: list[int]  # the streams that the arrays name, each once
    unnamed: list[Any]  # of the arrays that name no stream, one per type

    @property
    def writable(self) -> bool:
        return not self.read_only

    def check_writable(self) -> None:
        if self.read_only:
            raise InvalidArgument(f"{self.read_only[0]} is read-only, but unpacking writes to it")

    @staticmethod
    def joined(parts: Sequence[Arrays]) -> Arrays:
        if len({part.device for part in parts}) > 1:
            raise InvalidArgument("expected arrays of one device: the arrays of this exchange are on several")
        return Arrays(
            [a for part in parts for a in part.held],
            [a for part in parts for a in part.addresses],
            tuple(s for part in parts for s in part.strides),
            parts[0].device,
            [i for part in parts for i in part.read_only],
            list(dict.fromkeys(s for part in parts for s in part.streams)),
            one_per_type(a for part in parts for a in part.unnamed),
        )


def one_per_type(arrays: Iterable[Any]) -> list[Any]:
    """The last array of each type, which is enough to find the streams that use the arrays."""
    return list({type(array): array for array in arrays}.values())


def gather(specs: Sequence[HaloExchangeSpec], quantities: Sequence[Any], count_x: int) -> Arrays:
    """Checks the arrays of `quantities` against their specs. ValueError or TypeError with index, found and expected.

    The first `count_x` are the x components, the others the y components."""

    def name(index: int) -> str:
        return f"quantity {index}" if index < count_x else f"quantity {index - count_x} of y"

    held, addresses, strides, devices, read_only = [], [], [], [], []
    streams: dict[int, None] = {}
    known: dict[int, Any] = {}  # by id, within this call: exchanges use the same few arrays for each side
    for index, (spec, quantity) in enumerate(zip(specs, quantities)):
        found = known.get(id(quantity))
        if found is None:
            dims = getattr(quantity, "dims", None)
            found = known[id(quantity)] = None if dims is None else tuple(dims), layout_of(whole(quantity))
        dims, layout = found
        if dims is not None and dims != spec._dims:
            raise InvalidArgument(f"{name(index)} has dims {dims}, expected {spec._dims}")
        if layout.shape != spec._shape:
            raise InvalidArgument(f"{name(index)} has shape {layout.shape}, expected {spec._shape}")
        if layout.dtype != spec._code:
            raise DtypeMismatch(f"{name(index)} is of {NAMES[layout.dtype]}, expected {NAMES[spec._code]}")
        held.append(layout.owner)
        addresses.append(layout.address)
        strides.append(layout.strides)
        devices.append(layout.device)
        if not layout.writable:
            read_only.append(name(index))
        if layout.stream is not None:
            streams[layout.stream] = None
    if len(set(devices)) > 1:
        raise InvalidArgument(f"expected arrays of one device (got devices {sorted(map(str, set(devices)))})")
    unnamed = one_per_type(layout.owner for _, layout in known.values() if layout.stream is None)
    return Arrays(held, addresses, tuple(strides), devices[0], read_only, list(streams), unnamed)
