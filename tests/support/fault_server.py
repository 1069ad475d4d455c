"""An HTTP/1.1 server of a folder, with ranges, tags and conditions. A test can set a fault for each request.

    with FaultServer(folder) as server:
        server.faults = {3: cut(100)}        # of the third request that follows; or a function of the request
        damacy.open_array(f"{server.url}/a.zarr")

Raw sockets, so that every byte of an answer can be wrong. `server.requests` are the requests that it was sent.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import pathlib
import re
import socket
import ssl
import struct
import termios
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping


@dataclasses.dataclass
class Request:
    """What the server was sent."""

    number: int  # from 1 on
    path: str
    headers: dict[str, str]
    method: str = "GET"
    target: str = ""  # as it was sent: encoded, with the query

    @property
    def range(self) -> tuple[int, int] | None:
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        return (int(found[1]), int(found[2])) if found else None

    def range_in(self, size: int) -> tuple[int, int] | None:
        """The same, also of a range from the end."""
        found = re.fullmatch(r"bytes=-(\d+)", self.headers.get("range", ""))
        return (max(size - int(found[1]), 0), size - 1) if found else self.range


@dataclasses.dataclass
class Answer:
    """What the server sends; a fault changes it."""

    status: str
    headers: dict[str, str]
    body: bytes
    cut: int | None = None  # send so many bytes of the body, then close
    reset: bool = False
    delay: float = 0.0  # before the status
    raw: bytes | None = None  # in place of all; then the connection ends
    endless: bytes = b""  # sent after `raw`, again and again until the client ends the connection
    silent: bool = False
    before: bytes = b""  # what is sent before the status line
    pause_after: int | None = None  # send so many bytes of the body, then nothing more until the server is closed
    drip: int | None = None  # send the body byte by byte, so many a second


Fault = Callable[[Request, Answer], None]


def cut(count: int, reset: bool = False) -> Fault:
    """The connection ends after `count` bytes of the body."""

    def apply(request: Request, answer: Answer) -> None:
        answer.cut, answer.reset = min(count, len(answer.body)), reset

    return apply


def status(line: str, body: bytes = b"", **headers: str) -> Fault:
    """Another status: `status("503 Slow Down", Retry_After="0")`."""

    def apply(request: Request, answer: Answer) -> None:
        answer.status, answer.body = line, body
        answer.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        answer.headers["Content-Length"] = str(len(body))

    return apply


def header(name: str, value: str | None) -> Fault:
    """Another value of a header; None leaves it out."""

    def apply(request: Request, answer: Answer) -> None:
        answer.headers.pop(name, None)
        if value is not None:
            answer.headers[name] = value

    return apply


def raw(answer_bytes: bytes, reset: bool = False) -> Fault:
    """These bytes in place of an answer, and the end of the connection."""

    def apply(request: Request, answer: Answer) -> None:
        answer.raw, answer.reset = answer_bytes, reset

    return apply


def silent(request: Request, answer: Answer) -> None:
    """No answer, until the server is closed."""
    answer.silent = True


_ports: set[int] = set()


def bound_socket() -> socket.socket:
    """At a port that it had in no earlier call: the process remembers of a server what it opened and how often it
    repeated requests. Servers that set SO_REUSEADDR may listen at the port too, if it is given to them."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", 0))
    port = bound.getsockname()[1]
    if port in _ports:
        with bound:  # held until another is found
            return bound_socket()
    _ports.add(port)
    return bound


@contextlib.contextmanager
def refusing_port() -> Iterator[int]:
    """A port that refuses connections. Only a server that it is given to takes it meanwhile."""
    with bound_socket() as held:
        yield held.getsockname()[1]


class FaultServer:
    def __init__(
        self, folder: pathlib.Path, delay: float = 0.0, port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.tls = tls
        self.refused_handshakes = 0
        self.folder = folder
        self.delay = delay
        self.requests: list[Request] = []
        self.faults: Mapping[int, Fault] | Fault = {}
        self.connections = 0
        self._base = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", port)) if port else bound_socket()
        self._listener.listen(512)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> FaultServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._closing.set()
        with contextlib.suppress(OSError):  # it is closed
            self._listener.shutdown(socket.SHUT_RDWR)  # else it listens until `accept` returns
        self._listener.close()
        self.drop_connections()

    def reset(self, faults: Mapping[int, Fault] | Fault | None = None) -> None:
        """Counts requests from 1 again, with these faults."""
        with self._lock:
            self.requests, self._base = [], 0
            self.faults = {} if faults is None else faults

    def drop_connections(self) -> None:
        """Closes all connections; new ones are accepted."""
        with self._lock:
            dropped, self._open = self._open, set()
        for connection in dropped:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        if self.tls:
            if self.refused_handshakes > 0:
                self.refused_handshakes -= 1
                connection.close()
                return
            try:
                connection = self.tls.wrap_socket(connection, server_side=True)
            except OSError:  # the client does not trust the server
                connection.close()
                return
        with self._lock:
            self._open.add(connection)
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pending = b""
            while not self._closing.is_set():
                while b"\r\n\r\n" not in pending:
                    try:
                        received = connection.recv(65536)
                    except OSError:
                        return
                    if not received:
                        return
                    pending += received
                head, pending = pending.split(b"\r\n\r\n", 1)
                try:
                    if not self._answer(connection, head.decode("latin-1")):
                        return
                except OSError:
                    return

    def _answer(self, connection: socket.socket, head: str) -> bool:
        first, *lines = head.split("\r\n")
        method, target = first.split(" ")[:2]
        headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
        with self._lock:
            request = Request(len(self.requests) + 1, urllib.parse.unquote(target), headers, method, target)
            self.requests.append(request)
            fault = self.faults.get(request.number) if isinstance(self.faults, Mapping) else self.faults
        answer = self._usual(request)
        if fault:
            fault(request, answer)
        time.sleep(self.delay + answer.delay)
        if answer.silent:
            self._closing.wait()
            return False
        if answer.raw is not None:
            connection.sendall(answer.raw)
            while answer.endless and not self._closing.is_set():
                connection.sendall(answer.endless)
            if answer.reset:
                self._reset(connection)
            return False
        lines = [f"HTTP/1.1 {answer.status}", *(f"{name}: {value}" for name, value in answer.headers.items())]
        body = answer.body if answer.cut is None else answer.body[: answer.cut]
        if answer.pause_after is not None:
            body = body[: answer.pause_after]
        rest, body = (body, b"") if answer.drip else (b"", body)
        connection.sendall(answer.before + "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
        for byte in rest:
            if self._closing.wait(1 / (answer.drip or 1)):
                return False
            connection.sendall(bytes([byte]))
        if answer.pause_after is not None:
            self._closing.wait()
            return False
        if answer.cut is not None:
            if answer.reset:
                self._reset(connection)
            return False
        return True

    def _reset(self, connection: socket.socket) -> None:
        """Its end will be a reset. That would take bytes back that have not arrived."""
        while struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))[0]:
            if self._closing.wait(0.001):
                return
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")

    def _usual(self, request: Request) -> Answer:
        path = self.folder / request.path.lstrip("/")
        if not path.is_file():
            return Answer("404 Not Found", {"Content-Length": "9"}, b"not found")
        data = path.read_bytes()
        tag = '"' + hashlib.sha256(data).hexdigest()[:32] + '"'
        if request.headers.get("if-none-match") == tag:
            return Answer("304 Not Modified", {"ETag": tag}, b"")
        if request.headers.get("if-match", tag) != tag:
            return Answer("412 Precondition Failed", {"Content-Length": "0"}, b"")
        window = request.range_in(len(data))
        if window is None:
            return Answer("200 OK", {"Content-Length": str(len(data)), "ETag": tag}, data)
        start, stop = window[0], min(window[1] + 1, len(data))
        if start >= len(data):
            return Answer(
                "416 Range Not Satisfiable", {"Content-Range": f"bytes */{len(data)}", "Content-Length": "0"}, b""
            )
        body = data[start:stop]
        headers = {
            "Content-Range": f"bytes {start}-{stop - 1}/{len(data)}",
            "Content-Length": str(len(body)),
            "ETag": tag,
        }
        return Answer("206 Partial Content", headers, body)
