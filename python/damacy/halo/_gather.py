"""The arrays of a call, which the native library checks against their specs. Knows layouts; not plans."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from damacy import _native
from damacy.halo._arrays import Layout, current_stream_of, layout_of, whole
from damacy.halo._errors import InvalidArgument


@dataclasses.dataclass
class Arrays:
    """Arrays of one device. Keeps them alive. Addresses, strides and names are those of an exchange; those of a
    transformer are in `gathered`."""

    held: list[Any]
    addresses: list[int]
    strides: tuple[tuple[int, ...], ...]
    device: int | None
    read_only: list[str]  # names of read-only arrays
    named: list[Any]  # of the arrays that name a stream, one per type and stream
    unnamed: list[Any]  # of the arrays that name no stream, one per type
    gathered: Any = None  # native

    @staticmethod
    def joined(parts: Sequence[Arrays]) -> Arrays:
        if len({part.device for part in parts}) > 1:
            raise InvalidArgument("expected arrays of one device: the arrays of this exchange are on several")
        return Arrays(
            [a for part in parts for a in part.held],
            [],
            (),
            parts[0].device,
            [],
            list({(type(a), current_stream_of(a)()): a for part in parts for a in part.named}.values()),
            one_per_type(a for part in parts for a in part.unnamed),
        )


def one_per_type(arrays: Iterable[Any]) -> list[Any]:
    """The last array of each type, which is enough to find the streams that use the arrays."""
    return list({type(array): array for array in arrays}.values())


def _look(quantity: Any) -> tuple[tuple[str, ...] | None, Layout]:
    dims = getattr(quantity, "dims", None)
    return None if dims is None else tuple(dims), layout_of(whole(quantity))


def gather(plans: _native.TransformerPlans, x: Sequence[Any], y: Sequence[Any] | None) -> Arrays:
    """Checks the arrays against their specs. RuntimeError for other counts; ValueError or TypeError with index, found
    and expected."""
    gathered, owners, devices, named, unnamed = plans.gather(x, y, _look)
    if len(devices) > 1:
        raise InvalidArgument(f"expected arrays of one device (got devices {sorted(map(str, devices))})")
    return Arrays(owners, [], (), devices[0], [], named, unnamed, gathered)
