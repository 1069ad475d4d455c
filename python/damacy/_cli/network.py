"""How long reads take over a network of a given delay and rate, for `damacy plan`. Counts requests and round trips as
the library makes them when it knows nothing of the array yet; asks no server."""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, Any

import typer

from damacy._cli.console import refuse
from damacy._core.sizes import as_bytes, size_text
from damacy._stores.options import StoreOptions

RoundTrip = Annotated[
    str | None, typer.Option("--rtt", metavar="TIME", help="A request's delay until its first byte, such as 30ms.")
]
Rate = Annotated[str | None, typer.Option("--rate", metavar="RATE", help="What the network carries, such as 90MB/s.")]

_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|ms|us)")
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


@dataclasses.dataclass(frozen=True)
class Link:
    """`rtt` in seconds, `rate` in bytes per second."""

    rtt: float
    rate: float


@dataclasses.dataclass(frozen=True)
class Trips:
    """What reads of a new array cost: `requests` in `round_trips` that follow each other, and `bytes` of data.

    The document is one, the indices of all shards are the next, and the data follow, as many at a time as one mount
    allows by default.
    """

    requests: int
    round_trips: int
    bytes: int

    def seconds(self, link: Link) -> float:
        """The least: waiting for round trips, then data at the full rate."""
        return self.round_trips * link.rtt + self.bytes / link.rate


def link_of(rtt: str | None, rate: str | None, as_json: bool) -> Link | None:
    """The options as numbers; None without either. Exits if one is missing or wrong."""
    if rtt is None and rate is None:
        return None
    if rtt is None or rate is None:
        refuse("--rtt and --rate belong together, for example --rtt 30ms --rate 90MB/s", as_json)
    found = _TIME.fullmatch(rtt.strip())
    if found is None:
        refuse(f"--rtt must be a time such as 30ms, 0.03s or 300us (got {rtt!a})", as_json)
    try:
        per_second = as_bytes(rate.strip().removesuffix("/s"), "--rate")
    except ValueError as error:
        refuse(f"{error}, with or without /s", as_json)
    if per_second == 0:
        refuse("--rate must be above 0", as_json)
    return Link(float(found[1]) * _SECONDS[found[2]], per_second)


def trips_of(reads: list[int], shards: int) -> Trips:
    """Of reads of so many bytes. `shards`: whose indices are read before; 0 without shards.

    >>> trips_of([4096, 20 << 20], shards=2)
    Trips(requests=7, round_trips=3, bytes=20975616)
    """
    options = StoreOptions()
    data = sum(max(1, -(-each // options.request_bytes)) for each in reads)
    waits = -(-data // options.max_requests) + -(-shards // options.max_requests)
    return Trips(1 + shards + data, 1 + waits, sum(reads))


def as_json(trips: Trips, link: Link) -> dict[str, Any]:
    return dataclasses.asdict(trips) | dataclasses.asdict(link) | {"seconds": trips.seconds(link)}


def text(trips: Trips, link: Link) -> str:
    waiting, moving = trips.round_trips * link.rtt, trips.bytes / link.rate
    return (
        f"{trips.requests:,} requests in {trips.round_trips:,} round trips, {size_text(trips.bytes)}: "
        f"at least {trips.seconds(link):.3g} s ({waiting:.3g} s of delays, {moving:.3g} s of data)"
    )
