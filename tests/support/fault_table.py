"""The table of faults of servers: what each does to an answer, and what a reader may make of it.

A fault is placed at the 1st, 2nd or n-th request of one kind, once or from there on. Positions inside a body come from
the seed. `once` and `forever` are what may come of it: RIGHT, or reasons of errors. Knows no test runner.
"""

from __future__ import annotations

import dataclasses
import gzip
import random
import threading
from collections.abc import Callable, Mapping

from support.fault_server import Answer, Fault, Request, cut, header, raw, silent, status

RIGHT = "right"  # the bytes, whatever it took; "fill": absent chunks are fill, and the others right
KINDS = ("document", "index", "whole object", "range", "list")
DECODE = frozenset({"frame", "checksum", "size", "decode", "index", "shard-index", "json", "short-read"})


def kind_of(request: Request) -> str:
    if "list-type=2" in request.target:
        return "list"
    if request.path.endswith(("zarr.json", ".zarray", ".zattrs", ".zgroup")):
        return "document"
    if "if-match" in request.headers or "if-unmodified-since" in request.headers:
        return "range"
    return "index" if request.headers.get("range", "").startswith("bytes=-") else "whole object"


Outcome = frozenset[str]


@dataclasses.dataclass(frozen=True)
class Row:
    make: Callable[[random.Random], Fault]
    once: Outcome
    forever: Outcome
    other: Mapping[str, tuple[Outcome, Outcome]] = dataclasses.field(default_factory=dict)  # by kind
    kinds: tuple[str, ...] = KINDS
    repeats: int | None = 1  # of one that comes once; None: depends on where it comes

    def outcome(self, kind: str, forever: bool) -> Outcome:
        once_and_forever = self.other.get(kind, (self.once, self.forever))
        return once_and_forever[forever]

    def repeats_of(self, kind: str) -> int | None:
        """Repeats that one fault costs. What an index does not answer from the end is asked for from the front."""
        return None if self.other.get(kind) == (ONCE, ONCE) else self.repeats


ONCE = frozenset({RIGHT})


class Placed:
    """A fault at the `number`-th request of a kind, or at all from there on. Counts the answers that it changed."""

    def __init__(self, kind: str, number: int, forever: bool, fault: Fault) -> None:
        self.kind, self.number, self.forever, self.fault = kind, number, forever, fault
        self.seen = self.applied = 0
        self._lock = threading.Lock()

    def __call__(self, request: Request, answer: Answer) -> None:
        if kind_of(request) != self.kind:
            return
        with self._lock:
            self.seen += 1
            applies = self.seen == self.number or (self.forever and self.seen > self.number)
            self.applied += applies
        if applies:
            self.fault(request, answer)


def _is(*outcomes: str) -> Outcome:
    return frozenset(outcomes)


def _cut_at(choose: Callable[[int, random.Random], int], reset: bool) -> Callable[[random.Random], Fault]:
    def make(rng: random.Random) -> Fault:
        def apply(request: Request, answer: Answer) -> None:
            cut(choose(len(answer.body), rng), reset)(request, answer)

        return apply

    return make


def _in_the_head(reset: bool) -> Callable[[random.Random], Fault]:
    def make(rng: random.Random) -> Fault:
        def apply(request: Request, answer: Answer) -> None:
            head = f"HTTP/1.1 {answer.status}\r\nContent-Length: {len(answer.body)}\r\n".encode()
            answer.raw, answer.reset = head[: rng.randrange(1, len(head))], reset

        return apply

    return make


def _chunked(rng: random.Random) -> Fault:
    def apply(request: Request, answer: Answer) -> None:
        answer.headers.pop("Content-Length", None)
        answer.headers["Transfer-Encoding"] = "chunked"
        part = answer.body[: rng.randrange(max(1, len(answer.body)))]
        answer.body = b"%x\r\n" % len(answer.body) + part
        answer.cut = len(answer.body)

    return apply


def _no_length(rng: random.Random) -> Fault:
    def apply(request: Request, answer: Answer) -> None:
        answer.headers.pop("Content-Length", None)
        answer.cut = rng.randrange(max(1, len(answer.body)))

    return apply


def _longer(rng: random.Random) -> Fault:
    more = rng.choice([1, 100, 200_000])

    def apply(request: Request, answer: Answer) -> None:
        answer.body += b"x" * more
        answer.headers.pop("Content-Length", None)
        answer.cut = len(answer.body)

    return apply


def _shorter(rng: random.Random) -> Fault:
    def apply(request: Request, answer: Answer) -> None:
        answer.body = answer.body[: rng.randrange(1, max(2, len(answer.body)))]
        answer.headers["Content-Length"] = str(len(answer.body))

    return apply


def _range(change: Callable[[int, int, int], str]) -> Callable[[random.Random], Fault]:
    """Another Content-Range, of the first and the last byte and the total."""

    def apply(request: Request, answer: Answer) -> None:
        given = answer.headers.get("Content-Range", "")
        if given.startswith("bytes ") and "*" not in given:
            ends, total = given[6:].split("/")
            first, last = ends.split("-")
            answer.headers["Content-Range"] = change(int(first), int(last), int(total))

    return lambda rng: apply


def _as_200(request: Request, answer: Answer) -> None:
    if answer.status.startswith("206"):
        answer.status = "200 OK"


def _without_both(rng: random.Random) -> Fault:
    """A body that ends early, without a length that would show it."""

    def apply(request: Request, answer: Answer) -> None:
        answer.status = "200 OK"
        for name in ("Content-Length", "Content-Range"):
            answer.headers.pop(name, None)
        answer.cut = rng.randrange(max(1, len(answer.body)))

    return apply


def _gzip(rng: random.Random) -> Fault:
    def apply(request: Request, answer: Answer) -> None:
        answer.body = gzip.compress(answer.body)
        answer.headers.pop("Content-Length", None)
        answer.headers["Transfer-Encoding"] = "gzip"
        answer.cut = len(answer.body)

    return apply


def _all_of_10_gib(request: Request, answer: Answer) -> None:
    head = f"HTTP/1.1 200 OK\r\nETag: {answer.headers.get('ETag', '')}\r\nContent-Length: 10737418240\r\n\r\n"
    answer.raw = head.encode() + bytes(1 << 20)


def _stalled(rng: random.Random) -> Fault:
    def apply(request: Request, answer: Answer) -> None:
        answer.pause_after = rng.randrange(max(1, len(answer.body)))

    return apply


def _dripping(request: Request, answer: Answer) -> None:
    answer.drip = 20  # bytes a second


def _many_1xx(request: Request, answer: Answer) -> None:
    answer.before = b"HTTP/1.1 102 Processing\r\n\r\n" * 5000


def _same(fault: Fault) -> Callable[[random.Random], Fault]:
    return lambda rng: fault


PAGE = b"<html><body>down for maintenance</body></html>"
IO = _is("io")
IO_OR_LATE = _is("io", "deadline")
RANGES = ("document", "index", "whole object", "range")

BROKEN = {
    "closed before the status": Row(_same(raw(b"")), ONCE, IO_OR_LATE, repeats=None),
    "reset before the status": Row(_same(raw(b"", reset=True)), ONCE, IO_OR_LATE, repeats=None),
    "cut in the head": Row(_in_the_head(False), ONCE, IO_OR_LATE, repeats=None),
    "reset in the head": Row(_in_the_head(True), ONCE, IO_OR_LATE, repeats=None),
    "closed after no byte": Row(_cut_at(lambda n, rng: 0, False), ONCE, IO_OR_LATE),
    "closed after a byte": Row(_cut_at(lambda n, rng: 1, False), ONCE, IO_OR_LATE),
    "closed after half": Row(_cut_at(lambda n, rng: n // 2, False), ONCE, IO_OR_LATE),
    "closed before the last byte": Row(_cut_at(lambda n, rng: max(0, n - 1), False), ONCE, IO_OR_LATE),
    "reset before the body": Row(_cut_at(lambda n, rng: 0, True), ONCE, IO_OR_LATE),
    "reset after a byte": Row(_cut_at(lambda n, rng: 1, True), ONCE, IO_OR_LATE),
    "reset after half": Row(_cut_at(lambda n, rng: n // 2, True), ONCE, IO_OR_LATE),
    "reset before the last byte": Row(_cut_at(lambda n, rng: max(0, n - 1), True), ONCE, IO_OR_LATE),
    "reset somewhere": Row(_cut_at(lambda n, rng: rng.randrange(max(1, n)), True), ONCE, IO_OR_LATE),
    "reset after all bytes": Row(_cut_at(lambda n, rng: n, True), ONCE, ONCE, repeats=0),
    "chunked and cut": Row(_chunked, ONCE, IO_OR_LATE),
    "no length and cut": Row(_no_length, ONCE, IO_OR_LATE, kinds=RANGES),
    "stalled": Row(_stalled, ONCE, _is("deadline")),
    "bytes that drip": Row(_same(_dripping), ONCE, _is("deadline")),
    "silent": Row(_same(silent), ONCE, _is("deadline")),
}

# An answer that does not fit is asked for once more, then the reason is `range`; where the last bytes of an object do
# not fit, the first ones are asked for, which is no repeat. A listing has no range: one that is not whole is `io`.
_NO_RANGE, _GONE = _is("range"), _is("changed")
_FROM_THE_FRONT = {"index": (ONCE, ONCE)}
_LIST = {"list": (ONCE, IO_OR_LATE)}
_KNOWN = {"range": (_GONE, _GONE)}
RANGE = {
    "longer": Row(_longer, ONCE, _NO_RANGE, _LIST),
    "shorter": Row(_shorter, ONCE, _NO_RANGE, _LIST | _FROM_THE_FRONT),
    # Of another total it is what the last bytes of another object would be.
    "shifted by a byte": Row(_range(lambda a, b, n: f"bytes {a + 1}-{b + 1}/{n + 1}"), ONCE, _NO_RANGE,
                             _KNOWN | {"index": (_GONE, _GONE)}, RANGES),
    "shifted, of the right total": Row(_range(lambda a, b, n: f"bytes {a - 1 if a else 1}-{b - 1}/{n}"), ONCE,
                                       _NO_RANGE, _FROM_THE_FRONT, RANGES),
    "another total": Row(_range(lambda a, b, n: f"bytes {a}-{b}/{n + 7}"), ONCE, _NO_RANGE, _KNOWN | _FROM_THE_FRONT,
                         RANGES),
    "an unknown total": Row(_range(lambda a, b, n: f"bytes {a}-{b}/*"), ONCE, _NO_RANGE, _FROM_THE_FRONT, RANGES),
    "no Content-Range": Row(_same(header("Content-Range", None)), ONCE, _NO_RANGE, _FROM_THE_FRONT, RANGES),
    "a malformed Content-Range": Row(_same(header("Content-Range", "bytes 1--/x")), ONCE, _NO_RANGE, _FROM_THE_FRONT,
                                     RANGES),
    "multipart": Row(_same(header("Content-Type", "multipart/byteranges; boundary=x")), ONCE, _NO_RANGE,
                     _FROM_THE_FRONT, RANGES),
    "204": Row(_same(status("204 No Content")), ONCE, _NO_RANGE, _FROM_THE_FRONT),
    "200 with the range": Row(_same(_as_200), ONCE, ONCE, kinds=RANGES, repeats=0),  # as rclone answers
    "200 without both lengths, cut": Row(_without_both, ONCE, _NO_RANGE, _FROM_THE_FRONT, RANGES, None),
    "200 with 10 GiB": Row(_same(_all_of_10_gib), ONCE, _NO_RANGE, _LIST | _FROM_THE_FRONT),
    # It has the form of a small object, so that only what is inside shows it; of a range it does not. What a first
    # answer brought and does not decode is asked for again.
    "200 with a page": Row(_same(status("200 OK", PAGE, ETag='"page"')), DECODE | _is(RIGHT, "changed"), DECODE,
                           _KNOWN | {"list": (ONCE, IO)}, repeats=None),
}  # fmt: skip

_ABSENT, _SHORT = _is("fill"), _is("short-read")
VERSION = {
    "404": Row(_same(status("404 Not Found")), _ABSENT, _ABSENT, _KNOWN | {"document": (_is("no-metadata"),) * 2},
               RANGES, None),
    "410": Row(_same(status("410 Gone")), _is("http", RIGHT), _is("http"), _KNOWN, RANGES, None),
    "412": Row(_same(status("412 Precondition Failed")), _GONE, _GONE, kinds=RANGES, repeats=0),
    "another ETag": Row(_same(header("ETag", '"other"')), ONCE, ONCE, _KNOWN | {"index": (_GONE, _GONE)}, RANGES, 0),
    # An announced read that gets this is made again by the batch, and is right if that was all.
    "416": Row(_same(status("416 No Range")), _SHORT | ONCE, _SHORT, _FROM_THE_FRONT, RANGES, None),
    "416 of another total": Row(_same(status("416 No Range", Content_Range="bytes */7")), _SHORT | ONCE, _SHORT,
                                _KNOWN | _FROM_THE_FRONT, RANGES, None),
    "a weak ETag": Row(_same(header("ETag", 'W/"weak"')), _is("no-validator"), _is("no-validator"), _KNOWN, RANGES, 0),
    "no validator": Row(_same(header("ETag", None)), _is("no-validator"), _is("no-validator"), _KNOWN, RANGES, 0),
}  # fmt: skip


def _refused(line: str, once: Outcome, forever: Outcome, repeats: int | None = 1, **headers: str) -> Row:
    return Row(_same(status(line, **headers)), once, forever, repeats=repeats)


_HTTP, _SLOWER, _DENIED = _is("http"), _is("throttled"), _is("denied")
STATUS = {
    "403": _refused("403 Forbidden", _DENIED, _DENIED, 0),
    "401": _refused("401 Unauthorized", _DENIED, _DENIED, 0),
    "418": _refused("418 I'm a teapot", _HTTP, _HTTP, 0),
    "500": _refused("500 Internal Server Error", ONCE, _HTTP),
    "502": _refused("502 Bad Gateway", ONCE, _HTTP, Retry_After="-1"),
    "504": _refused("504 Gateway Timeout", ONCE, _HTTP, Retry_After="junk"),
    "408": _refused("408 Request Timeout", ONCE, _HTTP),
    "429": _refused("429 Too Many Requests", ONCE, _SLOWER, Retry_After="0"),
    "503": _refused("503 Slow Down", ONCE, _SLOWER, Retry_After="0"),
    "503 for a long time": _refused("503 Slow Down", _SLOWER, _SLOWER, None, Retry_After="99999999"),
    "302": _refused("302 Found", _is("redirect"), _is("redirect"), 0, Location="http://127.0.0.1:1/"),
    "gzip": Row(_same(header("Content-Encoding", "gzip")), _is("encoded"), _is("encoded"), _FROM_THE_FRONT, repeats=0),
    "br": Row(_same(header("Content-Encoding", "br")), _is("encoded"), _is("encoded"), _FROM_THE_FRONT, repeats=0),
    "a gzipped transfer": Row(_gzip, ONCE, _is("io", "range"), repeats=None),
}

_HEAD = b"HTTP/1.1 206 Partial Content\r\n"
_BAD = _is("io", "range", "http", "deadline")
HOSTILE = {
    name: Row(
        _same(raw(answer)),
        ONCE,
        _BAD,
        {"index": (ONCE, _BAD | ONCE), "range": (_is(RIGHT, "changed"), _BAD | _GONE)},
        repeats=None,
    )
    for name, answer in {
        "2 MiB of headers": _HEAD + b"X: " + b"y" * (2 << 20) + b"\r\n\r\n",
        "endless chunk extensions": _HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;" + b"a=b;" * 500_000,
        "a NUL in the head": _HEAD + b'ETag: "a\0b"\r\nContent-Range: bytes 0-0/1\r\n\r\nx',
        "a lone CR in the head": _HEAD + b'ETag: "a\rb"\r\nContent-Range: bytes 0-0/1\r\n\r\nx',
        "HTTP/0.9": b"a page without a head",
        "a negative length": _HEAD + b"Content-Length: -5\r\n\r\n",
        "a huge length": _HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n",
        "two lengths": _HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        "a negative chunk": _HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nabc",
    }.items()
} | {"5,000 answers 1xx": Row(_same(_many_1xx), ONCE, ONCE, repeats=0)}

ROWS = BROKEN | RANGE | VERSION | STATUS | HOSTILE
