"""Credentials that end, hang or fail while requests are under way: valid ones stay in use, requests are never unsigned
for want of new ones, and no wait is without an end."""

import datetime
import json
import subprocess
import sys
import textwrap
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support.s3_server import S3Server  # noqa: E402

KEY, SECRET = "AKIDEXAMPLE0123456789", "hunter2/SECRET+key"
KEYS = {"access_key_id": KEY, "secret_access_key": SECRET, "token": None}
DATA = np.arange(400_000, dtype="u1").reshape(4, 100_000)


@pytest.fixture(autouse=True)
def no_aws_but_metadata(monkeypatch, no_aws):
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")


@pytest.fixture
def server(tmp_path, request):
    """The bucket is called as the test, because what a process has opened keeps its store."""
    bucket = "".join(c for c in request.node.name.lower() if c.isalnum())[:60]
    zarr.create_array(tmp_path / bucket / "a.zarr", data=DATA, chunks=(1, 100_000), compressors=None, fill_value=9)
    with S3Server(tmp_path, keys={KEY: SECRET}) as server:
        server.uri = f"s3://{bucket}/"
        yield server


def mount(server, **fields):
    return damacy.mount(server.uri, damacy.StoreOptions(endpoint=server.url, region="us-east-1", **fields)) + "a.zarr"


def expires(seconds):
    return datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)


class Metadata(BaseHTTPRequestHandler):
    """The metadata service of an instance with a role."""

    def _send(self, body):
        self.server.asked += 1
        self.send_response(503 if self.server.is_ill else 200)
        self.send_header("Content-Length", "0" if self.server.is_ill else str(len(body)))
        self.end_headers()
        if not self.server.is_ill:
            self.wfile.write(body.encode())

    def do_PUT(self):
        self._send("token")

    def do_GET(self):
        if self.path.endswith("/security-credentials/"):
            return self._send("role")
        when = expires(self.server.seconds).strftime("%FT%TZ")
        self._send(json.dumps({"AccessKeyId": KEY, "SecretAccessKey": SECRET, "Expiration": when}))

    def log_message(self, *_):
        pass


@pytest.fixture
def metadata(monkeypatch):
    service = ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    service.is_ill, service.asked, service.seconds = False, 0, 40
    threading.Thread(target=service.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://127.0.0.1:{service.server_port}")
    yield service
    service.shutdown()
    service.server_close()


def test_valid_credentials_stay_in_use_while_the_metadata_service_is_ill(server, metadata):
    array = damacy.open_array(mount(server, absent_status=(403, 404)))
    metadata.is_ill = True  # and they are asked for in the last minute
    asked = metadata.asked
    np.testing.assert_array_equal(array[:], DATA)
    assert metadata.asked > asked
    assert all("authorization" in request.headers for request in server.requests)


@pytest.mark.timeout(60)
def test_credentials_that_ended_are_missed_until_the_service_is_well_again(server, metadata):
    metadata.seconds = 2
    array = damacy.open_array(mount(server, absent_status=(403, 404)))
    metadata.is_ill = True
    with pytest.raises(damacy.StorageError, match=r"no credentials in: .*instance metadata .status 503.") as caught:
        for _ in range(100):
            np.testing.assert_array_equal(array[:], DATA)
            time.sleep(0.1)
    assert caught.value.reason == "credentials"
    metadata.is_ill, metadata.seconds = False, 40
    np.testing.assert_array_equal(array[:], DATA)
    assert all("authorization" in request.headers for request in server.requests)


@pytest.mark.timeout(60)
def test_a_callable_that_does_not_answer_ends_at_the_deadline(server):
    calls, ends = [], threading.Event()

    def ask():
        calls.append(1)
        if len(calls) == 1:
            ends.wait()
        return KEYS

    uri = mount(server, credentials=ask, deadline_s=3)
    with pytest.raises(damacy.StorageError, match="no credentials came in time") as caught:
        damacy.open_array(uri)
    assert caught.value.reason == "deadline"
    np.testing.assert_array_equal(damacy.open_array(uri)[:], DATA)  # it is called again
    ends.set()


HANGS = """
    import os, sys, threading, time, damacy
    may_hang, hangs = threading.Event(), threading.Event()
    def ask():
        if may_hang.is_set():
            hangs.set()
            threading.Event().wait()
        return {{**{keys!r}, "expires_at": time.time() + 30}}  # so soon that each request asks
    options = damacy.StoreOptions(endpoint={url!r}, region="us-east-1", credentials=ask)
    damacy.mount({uri!r}, options)
"""

# `push` waits for documents, so the callable hangs when they are there and a second row completes the batch.
READS = """
    config = damacy.Config(batch_size=2, dtype="u8", device="cpu", n_io_threads=4)
    pipeline = damacy.Pipeline(config)
    rows = [damacy.Sample({uri!r} + "a.zarr", [(i, i + 1), (0, 100_000)]) for i in range(2)]
    pipeline.push(rows[:1])
    may_hang.set()
    pipeline.push(rows[1:])
    assert hangs.wait(20)
"""


def run(before, after, server, within=30):
    program = textwrap.dedent(HANGS + before).format(url=server.url, uri=server.uri, keys=KEYS) + textwrap.dedent(after)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=within)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.timeout(60)
def test_a_pipeline_waits_for_a_callable_that_does_not_answer_once(server):
    calls, ends = [], threading.Event()

    def ask():
        calls.append(1)
        ends.wait()

    uri = mount(server, credentials=ask, deadline_s=1)
    with damacy.Pipeline(damacy.Config(batch_size=1, dtype="u8", device="cpu")) as pipeline:
        with pytest.raises(damacy.StorageError, match="no credentials came in time"):
            pipeline.push([damacy.Sample(uri, [(0, 1), (0, 100_000)])])
    ends.set()
    assert len(calls) == 1


@pytest.mark.timeout(60)
def test_chunks_of_a_batch_do_not_wait_for_a_callable_one_after_the_other(server):
    """And what it gives later is used."""
    calls, hangs, ends = [], threading.Event(), threading.Event()

    def ask():
        calls.append(1)
        if hangs.is_set():
            ends.wait()
        return {**KEYS, "expires_at": expires(0 if not ends.is_set() else 3600)}

    uri = mount(server, credentials=ask, deadline_s=1)
    array = damacy.open_array(uri)
    np.testing.assert_array_equal(array[:1], DATA[:1])
    hangs.set()
    del calls[:]
    for _ in range(20):
        with pytest.raises(damacy.StorageError, match="no credentials came in time"):
            array[1:]
    assert len(calls) <= 4
    ends.set()
    while True:
        try:
            np.testing.assert_array_equal(array[:], DATA)
            break
        except damacy.StorageError:
            assert len(calls) <= 6


def test_close_does_not_wait_for_a_callable_that_does_not_answer(server):
    text = run(
        READS,
        """
        pipeline.close()
        print("closed", flush=True)
        os._exit(0)
        """,
        server,
    )
    assert text == "closed\n"


@pytest.mark.parametrize("ends", ["", "pipeline.close()", "sys.exit(0)"])
def test_a_process_ends_while_a_callable_does_not_answer(server, ends):
    text = run(READS, f'print("ends", flush=True)\n{ends}', server)
    assert text == "ends\n"


def test_a_process_ends_while_a_daemon_thread_waits_for_a_callable(server):
    text = run(
        "    may_hang.set()\n",
        f"""
        threading.Thread(target=lambda: damacy.open_array({server.uri!r} + "a.zarr"), daemon=True).start()
        assert hangs.wait(20)
        print("ends", flush=True)
        """,
        server,
    )
    assert text == "ends\n"


def test_a_child_that_was_forked_while_credentials_were_asked_for_asks_itself(server):
    program = f"""
        import os, threading, damacy
        asked, parent = threading.Event(), os.getpid()
        def ask():
            if os.getpid() == parent:
                asked.set()
                threading.Event().wait()
            return {KEYS!r}
        damacy.mount({server.uri!r}, damacy.StoreOptions(endpoint={server.url!r}, region="us-east-1", credentials=ask))
        threading.Thread(target=lambda: damacy.open_array({server.uri!r} + "a.zarr"), daemon=True).start()
        assert asked.wait(20)
        child = os.fork()
        if child == 0:
            print(int(damacy.open_array({server.uri!r} + "a.zarr")[:].astype("u8").sum()), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        os._exit(0)
        """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=30)
    assert ran.returncode == 0 and ran.stdout == f"{DATA.astype('u8').sum()}\n", ran.stdout + ran.stderr


def test_a_bearer_token_of_a_callable_goes_over_http_to_this_machine_only(server):
    given = {"token": "hunter2-bearer", "expires_at": expires(3600)}
    port = server.url.rpartition(":")[2]
    uri = damacy.mount(
        server.uri,
        damacy.StoreOptions(endpoint=f"http://0.0.0.0:{port}", region="us-east-1", credentials=lambda: given),
    )
    with pytest.raises(damacy.StorageError, match="goes over http only to this machine") as caught:
        damacy.open_array(uri + "a.zarr")
    assert caught.value.reason == "credentials" and "hunter2" not in str(caught.value) and server.requests == []
    mount(server, credentials=lambda: given)
    with pytest.raises(damacy.StorageError, match="GET 400 AuthorizationHeaderMalformed"):  # the server takes keys only
        damacy.open_array(uri + "a.zarr")
    assert server.requests[0].headers["authorization"] == "Bearer hunter2-bearer"


def test_a_web_identity_goes_over_http_to_this_machine_only(server, tmp_path, monkeypatch):
    (tmp_path / "token").write_text("hunter2-identity")
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url.replace("127.0.0.1", "0.0.0.0"))
    with pytest.raises(damacy.StorageError, match="AWS_ENDPOINT_URL_STS is neither https nor this machine"):
        damacy.open_array(mount(server))
    assert server.requests == []


class Renewing(S3Server):
    """Refuses a token from a moment on. The request for b waits until that for a was answered with the next token."""

    refused = ""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.both, self.renewed = threading.Barrier(2), threading.Event()

    def _usual(self, request):
        self.token = request.headers.get("x-amz-security-token")
        if self.refused and self.token == self.refused:
            self.both.wait(30)  # both were sent with it
            if "b.zarr" in request.target:
                self.renewed.wait(30)
            return self.error(400, "ExpiredToken", request)
        answer = super()._usual(request)
        if self.refused and "a.zarr" in request.target:
            self.renewed.set()
        return answer


def test_each_request_with_a_token_that_is_refused_is_repeated_with_the_next_one(tmp_path):
    for name in "ab":
        zarr.create_array(tmp_path / "renewed-token" / f"{name}.zarr", data=DATA[:1], chunks=(1, 100_000))
    tokens = ["old"]
    with Renewing(tmp_path, keys={KEY: SECRET}) as server:
        server.uri = "s3://renewed-token/"
        mount(server, credentials=lambda: {**KEYS, "token": tokens[0]})
        with pytest.raises(damacy.NotFound):
            damacy.open_array(server.uri + "none.zarr")  # asks for credentials
        server.refused, tokens[0] = "old", "new"
        found = {}
        threads = [
            threading.Thread(
                target=lambda name=name: found.update({name: damacy.open_array(f"{server.uri}{name}.zarr")})
            )
            for name in "ab"
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(found) == ["a", "b"]
