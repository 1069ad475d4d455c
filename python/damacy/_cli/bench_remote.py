"""`damacy bench remote`: how fast a server answers, with 1, 4, 16 and more requests under way, and the settings that
follow. Reads ranges of one stored object through `RemoteFile`."""

from __future__ import annotations

import collections
import dataclasses
import math
import random
import statistics
import threading
import time
from typing import TYPE_CHECKING, Annotated, Any

import rich.markup
import rich.table
import typer

import damacy
from damacy._cli.console import AsJson, fail, out, print_json, progress_bar, refuse
from damacy._cli.plan import plan_reads
from damacy._core.sizes import size_text
from damacy._open.opening import array_or_image
from damacy._stores.mounts import options_of
from damacy._stores.options import StoreOptions

if TYPE_CHECKING:
    from damacy.remote_file import RemoteFile

_STEPS = (1, 4, 16, 64, 256, 1024, 4096)
_PROBES = 16  # requests of one byte, for the time to the first byte
_ENOUGH = 0.95  # of the best rate: more requests than that needs are of no use
_MEMORY = 1 << 30  # for what is under way


@dataclasses.dataclass(frozen=True)
class Row:
    """What `requests` requests under way together gave."""

    requests: int
    first_byte_ms: float  # median
    bytes_per_s: float
    requests_per_s: float


@dataclasses.dataclass(frozen=True)
class Report:
    url: str
    object_bytes: int
    request_bytes: int
    rows: tuple[Row, ...]

    @property
    def best(self) -> Row:
        """The fewest requests that give nearly the best rate."""
        most = max(row.bytes_per_s for row in self.rows)
        return next(row for row in self.rows if row.bytes_per_s >= _ENOUGH * most)

    def settings(self) -> dict[str, int]:
        """Of `StoreOptions` and `Config`. Three quarters of the host buffer may be under way."""
        under_way = self.best.requests * self.request_bytes
        return {
            "max_requests": self.best.requests,
            "host_buffer_bytes": max(64 << 20, math.ceil(under_way * 4 / 3 / (1 << 20)) << 20),
        }

    def as_dict(self) -> dict[str, Any]:
        found = dataclasses.asdict(self)
        return found | {"rows": [dataclasses.asdict(row) for row in self.rows], "settings": self.settings()}


def object_of(uri: str) -> str:
    """The url of a stored object: `uri` itself, or one in the middle of the array there."""
    try:
        array = array_or_image(uri)
    except damacy.NotFound:
        return uri
    for part in (0.5, 0.0, 1.0):
        corner = [min(int(extent * part), extent - 1) for extent in array.shape]
        if min(corner, default=-1) < 0:
            break
        reads = plan_reads(array.uri, tuple((at, at + 1) for at in corner)).reads
        if reads:
            return f"{array.uri.rstrip('/')}/{reads[0].key}"
    raise damacy.InvalidArgument("the array has no stored chunk in its middle and at its ends: name an object instead")


def measure(url: str, options: StoreOptions, request_bytes: int, seconds: float, most: int) -> Report:
    """Reads the object at `url` for `seconds` with each number of requests up to `most`."""
    from damacy.remote_file import RemoteFile  # loads the native library

    rows = []
    with RemoteFile.open_url(url, options) as file:
        total = file.nbytes()
    if total == 0:
        raise damacy.InvalidArgument(f"{file.name}: the object has no bytes: name another one")
    each = min(request_bytes, total)
    for count in [step for step in _STEPS if step <= most and step * each <= _MEMORY]:
        # One more, for the probes.
        with RemoteFile.open_url(url, dataclasses.replace(options, max_requests=count + 1), nbytes=total) as file:
            rows.append(_measured(file, count, each, seconds))
    return Report(file.name, total, each, tuple(rows))


def _measured(file: RemoteFile, count: int, each: int, seconds: float) -> Row:
    positions = random.Random(0)
    free = [bytearray(each) for _ in range(count)]
    under_way: collections.deque[tuple[Any, bytearray]] = collections.deque()
    stop = threading.Event()
    first_bytes: list[float] = []

    def probe() -> None:
        one = bytearray(1)
        while not stop.is_set() and len(first_bytes) < _PROBES:
            begin = time.perf_counter()
            file.read(one, file_offset=positions.randrange(file.nbytes()))
            first_bytes.append(time.perf_counter() - begin)

    def send() -> None:
        buffer = free.pop()
        start = positions.randrange(file.nbytes() - each + 1)
        under_way.append((file.pread(buffer, file_offset=start, task_size=each), buffer))

    def land() -> None:
        future, buffer = under_way.popleft()
        future.get()
        free.append(buffer)

    file.read(bytearray(1))  # opens a connection
    for _ in range(count):
        send()
    for _ in range(count):  # all connections are open
        land()
        send()
    prober = threading.Thread(target=probe, name="damacy-bench", daemon=True)
    begin, done = time.perf_counter(), 0
    prober.start()
    try:
        while time.perf_counter() - begin < seconds:
            land()
            send()
            done += 1
        took = time.perf_counter() - begin
    finally:
        stop.set()
        while under_way:
            land()
        prober.join()
    first_byte = statistics.median(first_bytes) if first_bytes else math.nan
    return Row(count, first_byte * 1e3, done * each / took, done / took)


def command(
    uri: Annotated[
        str, typer.Argument(help="Uri of an array, an image or a single object: http(s)://, s3:// or gs://.")
    ],
    request_bytes: Annotated[
        int, typer.Option(min=1, max=64 << 20, help="Bytes of a request; of a smaller object, all of it.")
    ] = 1 << 20,
    seconds: Annotated[float, typer.Option(min=0.01, max=600, help="How long each number of requests is tried.")] = 2.0,
    most: Annotated[int, typer.Option(min=1, max=4096, help="The largest number of requests to try.")] = 256,
    as_json: AsJson = False,
) -> None:
    """Read ranges of a remote object with 1, 4, 16 and more requests under way; show first byte, rate and settings.

    Some servers and proxies answer the same object from memory: compare with another object, too.
    """
    if not uri.lower().startswith(("http://", "https://", "s3://", "gs://")):
        refuse("bench remote takes uris that begin with http://, https://, s3:// or gs://", as_json)
    try:
        with progress_bar(as_json) as progress:
            progress.add_task("bench remote", total=None)
            report = measure(object_of(uri), options_of(uri) or StoreOptions(), request_bytes, seconds, most)
    except damacy.DamacyError as error:
        fail(error, as_json)
    if as_json:
        print_json(report.as_dict())
    else:
        _show(report)


def _show(report: Report) -> None:
    what = f"{report.url}: {size_text(report.object_bytes)}, requests of {size_text(report.request_bytes)}"
    out.print(rich.markup.escape(what), soft_wrap=True)
    table = rich.table.Table()
    for name in ("requests", "first byte ms", "bytes/s", "requests/s"):
        table.add_column(name, justify="right")
    for row in report.rows:
        rate = f"{size_text(row.bytes_per_s)}/s"
        table.add_row(str(row.requests), f"{row.first_byte_ms:.1f}", rate, f"{row.requests_per_s:,.0f}")
    out.print(table)
    chosen = report.settings()
    out.print(
        f"settings: StoreOptions(max_requests={chosen['max_requests']}), "
        f"Config(host_buffer_bytes={chosen['host_buffer_bytes']})",
        soft_wrap=True,
    )
