"""nginx on a free port of this machine, as Debian has it. Knows no test."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from support.fault_server import refusing_port

CONFIGURATION = """
{user} worker_processes 1; daemon off; pid {own}/pid; error_log {own}/errors;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 20;
  gzip on; gzip_types *; gzip_min_length 0;
  client_body_temp_path {own}/a; proxy_temp_path {own}/b; fastcgi_temp_path {own}/c;
  uwsgi_temp_path {own}/d; scgi_temp_path {own}/e;
  limit_req_zone $binary_remote_addr zone=few:1m rate=400r/s;
  server {{
    listen 127.0.0.1:{port};
    root {root};
    location /limited/ {{ alias {root}/; limit_req zone=few burst=24 nodelay; limit_req_status 429; }}
  }}
}}
"""


def binary() -> str:
    """Of the environment variable DAMACY_NGINX, or of the path."""
    path = os.environ.get("PATH", "") + os.pathsep + "/usr/sbin"
    found = os.environ.get("DAMACY_NGINX") or shutil.which("nginx", path=path)
    if not found:
        pytest.skip("NGINX IS NOT TESTED: there is no nginx (apt-get install nginx-light)")
    return found


@contextlib.contextmanager
def serving(root: pathlib.Path, own: pathlib.Path) -> Iterator[str]:
    """Serves `root`, with its own files in `own`; gives the url. Below /limited/ it answers 429 to many requests. A
    connection has at most 20 requests."""
    program = binary()
    user = "user root;" if os.geteuid() == 0 else ""  # else its worker may not read temporary folders
    with refusing_port() as port:  # until nginx listens at it
        (own / "nginx.conf").write_text(CONFIGURATION.format(user=user, own=own, port=port, root=root))
        process = subprocess.Popen([program, "-p", str(own), "-c", str(own / "nginx.conf")])
        try:
            deadline = time.monotonic() + 20
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert process.poll() is None and time.monotonic() < deadline, (own / "errors").read_text()
                    time.sleep(0.02)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(10)
