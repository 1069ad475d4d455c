"""A proxy on this machine that tunnels what it is asked to, or refuses, or cuts.

    with Proxy() as proxy:
        options = damacy.StoreOptions(proxy=proxy.url)
        proxy.refusal = "403 Policy"       # in place of the tunnels that follow

`proxy.heads` are the heads of the requests that it was sent.
"""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    def __init__(self) -> None:
        self.refusal: str | None = None
        self.cuts = False  # tunnels that follow are closed at once
        self.heads: list[str] = []
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for connection in self._open:
            _shut(connection)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                received = client.recv(65536)
                if not received:
                    return
                head += received
            text = head.decode("latin-1")
            self.heads.append(text)
            if self.refusal is not None or not text.startswith("CONNECT "):
                client.sendall(f"HTTP/1.1 {self.refusal or '400 No Tunnel'}\r\nContent-Length: 0\r\n\r\n".encode())
                return
            host, _, port = text.split(" ")[1].rpartition(":")
            with socket.create_connection((host, int(port))) as there:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                if self.cuts:
                    return
                back = threading.Thread(target=_pump, args=(there, client), daemon=True)
                back.start()
                _pump(client, there)
                back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while received := source.recv(65536):
            sink.sendall(received)
    _shut(sink)
    _shut(source)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
