"""No secret is shown, over the whole table of faults: in errors, records of the log at all levels, statistics, pickles,
standard output, standard error and the files of the disk cache."""

import concurrent.futures
import itertools
import pickle
import random
import traceback
import urllib.parse

import numpy as np
import pytest

import damacy
from damacy.remote_file import RemoteFile

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer, status  # noqa: E402
from support.fault_table import ROWS, Placed  # noqa: E402
from support.s3_server import S3Server, another_name  # noqa: E402

DATA = np.random.default_rng(0).integers(0, 60000, (8, 40, 40), dtype="u2")
HEADER, BEARER, PROXY = "hunter2-header", "hunter2-bearer", "hunter2-proxy"
KEY, SECRET, TOKEN, QUERY = "AKIDHUNTER2EXAMPLE", "hunter2-secret-key", "hunter2-token", "hunter2-query"
ALL = (HEADER, BEARER, PROXY, KEY, SECRET, TOKEN, QUERY)
SHORT = {"attempts": 2, "deadline_s": 0.4, "first_byte_timeout_s": 0.2, "stall_timeout_s": 1}
_roots = itertools.count()


def echo(request, answer):
    """What some servers do: the answer holds the request."""
    status("400 Bad Request", f"{request.target} {request.headers}".encode())(request, answer)


def led_away(request, answer):
    status("302 Found", Location=f"http://169.254.169.254/?token={BEARER}")(request, answer)


FAULTS = {name: row.make for name, row in ROWS.items()} | {
    "echo": lambda rng: echo,
    "led away": lambda rng: led_away,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    zarr.create_array(folder / "bucket" / "a.zarr", data=DATA, chunks=(4, 20, 20), shards=(4, 40, 40))
    (folder / "object").write_bytes(bytes(100_000))
    return folder


class ProxyServer(FaultServer):
    """The server, asked as a proxy is: by whole urls."""

    def _usual(self, request):
        request.path = urllib.parse.urlsplit(request.path).path
        return super()._usual(request)


def shown_by(call):
    try:
        return repr(call())
    except damacy.DamacyError as error:
        text = "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
        return text + repr(pickle.dumps(error))


def read(uri, cache):
    disk = {"disk_cache": cache, "disk_cache_bytes": "256MiB"} if cache else {}
    memory = {"host_buffer_bytes": 64 << 20, "device_buffer_bytes": 64 << 20}
    with damacy.Pipeline(damacy.Config(batch_size=1, device="cpu", dtype="u16", **memory, **disk)) as pipeline:

        def batch():
            pipeline.push([damacy.Sample(uri, [(0, 8), (0, 40), (0, 40)])])
            return pipeline.pop()

        text = shown_by(batch)
        return text + repr(pipeline.stats()) + str(pipeline.explain()) + repr(pipeline)


def over_http(name, kind, folder, cache):
    """By a proxy that wants a password, with a token and a header."""
    with ProxyServer(folder) as server:
        root = f"http://127.0.0.1:{20_000 + next(_roots)}/"
        proxy = server.url.replace("http://", f"http://user:{PROXY}@")
        secrets = {"headers": {"X-Token": HEADER}, "bearer_token": damacy.Secret(BEARER), "proxy": proxy}
        options = damacy.StoreOptions(redirects=2, **SHORT, **secrets)
        damacy.mount(root, options)
        server.faults = Placed(kind, 1, True, FAULTS[name](random.Random(name)))
        text = read(f"{root}bucket/a.zarr", cache) + repr(options) + repr(damacy.mounts()) + str(options)
        damacy.unmount(root)
        assert server.requests
        for request in server.requests:  # where a redirect leads elsewhere, they stay behind
            here = request.target.startswith(root)
            assert request.headers.get("x-token") == (HEADER if here else None)
            assert request.headers.get("authorization") == (f"Bearer {BEARER}" if here else None)
        assert all("proxy-authorization" in request.headers for request in server.requests)
        return text


def over_s3(name, kind, folder, cache):
    bucket = another_name(folder)
    with S3Server(folder, keys={KEY: SECRET}) as server:
        server.token = TOKEN
        keys = {"access_key_id": KEY, "secret_access_key": SECRET, "session_token": TOKEN}
        options = damacy.StoreOptions(endpoint=server.url, region="us-east-1", **SHORT, **keys)
        damacy.mount(f"s3://{bucket}/", options)
        server.faults = Placed(kind, 1, True, FAULTS[name](random.Random(name)))
        text = read(f"s3://{bucket}/a.zarr", cache) + repr(options) + repr(damacy.mounts())
        text += shown_by(lambda: damacy.open(f"s3://{bucket}/"))
        damacy.unmount(f"s3://{bucket}/")
        assert server.requests
        return text


def over_presigned(name, kind, folder, cache):
    """A url whose query is the secret. Its requests count as those of whole objects."""
    with FaultServer(folder) as server:

        def fault(request, answer):
            request.path = request.path.partition("?")[0]
            answer.__dict__.update(vars(server._usual(request)))
            apply(request, answer)

        apply = FAULTS[name](random.Random(name))
        server.faults = fault
        options = damacy.StoreOptions(**SHORT)

        def whole():
            with RemoteFile.open_url(f"{server.url}/object?X-Amz-Signature={QUERY}", options) as file:
                text = repr(file) + file.name
                return text + repr(file.read(bytearray(file.nbytes())))

        text = shown_by(whole)
        assert server.requests and all(QUERY in request.target for request in server.requests)
        return text


WAYS = {"http by a proxy": over_http, "s3": over_s3, "presigned": over_presigned}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", WAYS)
def test_no_secret_is_shown(folder, way, caplog, capfd, tmp_path, monkeypatch):
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    kinds = ("range",) if way == "presigned" else ("document", "range")
    cases = [(name, kind) for name in FAULTS for kind in kinds]
    damacy.set_log_level(damacy.LOG_TRACE)
    try:
        with caplog.at_level("DEBUG", logger="damacy"), concurrent.futures.ThreadPoolExecutor(8) as pool:

            def run(number):
                cache = tmp_path / f"cache-{number}" if number % 8 == 0 else None
                return WAYS[way](*cases[number], folder, cache)

            shown = list(pool.map(run, range(len(cases))))
    finally:
        damacy.set_log_level(damacy.LOG_FATAL)
    captured = capfd.readouterr()
    assert ": attempt 1: GET" in captured.err  # the log was there
    shown += [captured.out, captured.err, caplog.text]
    for secret in ALL:
        assert not [text for text in shown if secret in text]
    for path in tmp_path.rglob("*"):
        kept = path.read_bytes() if path.is_file() else b""
        assert not [secret for secret in ALL if secret.encode() in kept]


def test_options_that_hold_a_secret_are_not_pickled_by_accident():
    for field in ({"bearer_token": BEARER}, {"access_key_id": KEY, "secret_access_key": SECRET}):
        with pytest.raises(TypeError) as caught:
            pickle.dumps(damacy.StoreOptions(**field))
        assert not [secret for secret in ALL if secret in str(caught.value)]
