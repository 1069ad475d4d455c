"""nginx that answers late: a file server on loopback that takes less of the processor than one in Python.

Needs Debian's nginx-light and libnginx-mod-http-lua. A path begins with its delay in milliseconds:
/10/plain.zarr/zarr.json. With an l behind it, as in /10l/, 1 % of the answers are 2 s later. Knows no benchmark.

It takes part of the benchmark's cores. DAMACY_BENCH_SERVER_CORES=8-15 gives it those, and a process for each.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterable, Iterator

MODULES = pathlib.Path("/usr/lib/nginx/modules")
CONFIGURATION = """
load_module {modules}/ndk_http_module.so;
load_module {modules}/ngx_http_lua_module.so;
worker_processes {workers}; daemon off; pid {folder}/pid; error_log {folder}/errors;
events {{ worker_connections 4096; }}
http {{
  access_log off; sendfile on; keepalive_requests 100000000; keepalive_timeout 300s;
  open_file_cache max=10000 inactive=1000s;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location = /counts {{ stub_status; }}
    location ~ ^/(?<ms>\\d+)(?<late>l?)/(?<rest>.*)$ {{
      access_by_lua_block {{
        ngx.sleep(tonumber(ngx.var.ms) / 1000)
        if ngx.var.late == "l" and math.random(100) == 1 then ngx.sleep(2) end
      }}
      alias {root}/$rest;
    }}
  }}
}}
"""


def described() -> str:
    cores = os.environ.get("DAMACY_BENCH_SERVER_CORES")
    return f"nginx on cores {cores}" if cores else "nginx"


def requests_answered(port: int) -> int:
    """Since its start, with this one."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/counts") as counts:
        return int(counts.read().splitlines()[2].split()[2])


@contextlib.contextmanager
def serving_each(root: pathlib.Path, folder: pathlib.Path, delays: Iterable[int]) -> Iterator[dict[int, str]]:
    """Serves `root` by a server of its own for each delay (ms); gives their urls. A client that learns how many
    requests suit an origin would begin at one delay with what it learned at another."""
    with contextlib.ExitStack() as stack:
        ports = {delay: stack.enter_context(serving(root, folder / str(delay))) for delay in delays}
        yield {delay: f"http://127.0.0.1:{port}/{delay}" for delay, port in ports.items()}


@contextlib.contextmanager
def serving(root: pathlib.Path, folder: pathlib.Path) -> Iterator[int]:
    """Serves `root`, with its own files in `folder`; gives the port."""
    root.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    folder.mkdir(parents=True)
    program, workers = ["nginx"], 1
    if cores := os.environ.get("DAMACY_BENCH_SERVER_CORES"):
        first, last = map(int, cores.split("-"))
        program, workers = ["taskset", "-c", cores, *program], last - first + 1
    text = CONFIGURATION.format(modules=MODULES, folder=folder, port=port, root=root, workers=workers)
    (folder / "nginx.conf").write_text(text)
    process = subprocess.Popen([*program, "-p", str(folder), "-c", str(folder / "nginx.conf")])
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait()
