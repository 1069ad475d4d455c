"""Faults of servers, networks and proxies: right bytes, or the reason that the fault has; then the same process reads
well. Rows that other files have: faults of single answers, at each request of each kind, `test_fault_table.py`; servers
that hang, names and addresses `test_fault_ends.py`; redirects `test_http_redirects.py`; certificates `test_tls.py`;
credentials, regions and clocks `test_s3.py`, `test_credentials_life.py`; dates as versions `test_http.py`; secrets over
all of them `test_secrets.py`; the disk tier `disk_damage_test.cpp` and `test_disk_kills.py`; stores of Python
`test_mounted_stores.py`; forks and exits `test_fork_and_exit_states.py`."""

import base64
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer, cut, raw, refusing_port, status  # noqa: E402

DATA = np.random.default_rng(0).integers(0, 60000, (32, 80, 80), dtype="u2")
FAST = {"stall_timeout_s": 1, "first_byte_timeout_s": 2, "connect_timeout_s": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    zarr.create_array(folder / "plain.zarr", data=DATA, chunks=(16, 80, 80))
    zarr.create_array(folder / "sharded.zarr", data=DATA, chunks=(8, 40, 40), shards=(16, 80, 80))
    return folder


@pytest.fixture
def server(folder):
    with FaultServer(folder) as server:
        yield server


def mounted(server, **options):
    damacy.mount(f"{server.url}/", damacy.StoreOptions(**options))
    return f"{server.url}/plain.zarr"


def of_chunks(fault, most=10**9):
    """Of the requests for chunks, the first `most`."""
    left = [most]

    def apply(request, answer):
        if "/c/" in request.path and left[0] > 0:
            left[0] -= 1
            fault(request, answer)

    return apply


def check(uri):
    np.testing.assert_array_equal(damacy.open_array(uri)[:], DATA)


def whole_then_reset(request, answer):
    cut(len(answer.body), reset=True)(request, answer)


def test_a_connection_that_ends_after_all_bytes_has_given_them(server):
    server.reset(of_chunks(whole_then_reset))
    check(f"{server.url}/plain.zarr")
    chunks = [request for request in server.requests if "/c/" in request.path]
    assert len({(request.path, request.range) for request in chunks}) == len(chunks)


def longer(request, answer):
    answer.body += b"x" * 200_000
    answer.headers.pop("Content-Length")
    answer.cut = len(answer.body)


def shorter(request, answer):
    answer.body = answer.body[:-1]
    answer.headers["Content-Length"] = str(len(answer.body))


def other_total(request, answer):
    first, _, total = answer.headers["Content-Range"].partition("/")
    answer.headers["Content-Range"] = f"{first}/{int(total) + 1}"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("fault", [longer, shorter], ids=["longer", "shorter"])
@pytest.mark.parametrize("objects", [1, 2])
def test_a_body_of_another_length_is_asked_for_again(server, fault, objects):
    """Once for each request: a second such answer to it is an error."""
    left = {f"/plain.zarr/c/{number}/0/0" for number in range(objects)}

    def first_of_each(request, answer):
        if request.path in left:
            left.discard(request.path)
            fault(request, answer)

    server.reset(first_of_each)
    check(f"{server.url}/plain.zarr")
    assert not left


@pytest.mark.timeout(60)
@pytest.mark.parametrize("fault, reasons", [(longer, {"range"}), (other_total, {"changed", "range"})],
                         ids=["longer", "another total"])  # fmt: skip
def test_a_body_that_is_always_of_another_length_is_refused(server, fault, reasons):
    uri = mounted(server, attempts=3)
    array = damacy.open_array(uri)

    def of_the_rest(request, answer):
        if "if-match" in request.headers:
            fault(request, answer)

    server.reset(of_the_rest)
    with pytest.raises(damacy.StorageError) as caught:
        array[:]
    assert caught.value.reason in reasons
    server.reset()
    check(uri)


@pytest.mark.timeout(60)
def test_a_whole_object_of_10_gib_is_cut_off_after_its_head(server):
    sent = []

    def endless(request, answer):
        answer.raw = b'HTTP/1.1 200 OK\r\nETag: "a"\r\nContent-Length: 10737418240\r\n\r\n' + bytes(32 << 20)
        sent.append(request.path)

    server.reset(endless)
    begin = time.monotonic()
    with pytest.raises(damacy.StorageError, match="the server ignores Range, 2 attempts") as caught:
        damacy.open_array(f"{server.url}/plain.zarr")
    assert caught.value.reason == "range" and len(sent) == 2 and time.monotonic() - begin < 20
    server.reset()
    check(f"{server.url}/plain.zarr")


PAGE = b"<html><body>maintenance</body></html>"


def page(request, answer):
    status("200 OK", PAGE, ETag='"page"')(request, answer)


def test_a_page_in_place_of_a_document_is_no_array(server):
    server.reset(page)
    with pytest.raises(damacy.DamacyError) as caught:
        damacy.open_array(f"{server.url}/plain.zarr")
    assert not isinstance(caught.value, damacy.NotFound) and "zarr.json" in str(caught.value)


def test_a_page_in_place_of_a_chunk_is_a_decode_error_and_never_fill(server):
    uri = mounted(server, revalidate_s=0)
    server.reset(of_chunks(page))
    with pytest.raises(damacy.DecodeError):
        damacy.open_array(uri)[:]
    server.reset()
    check(uri)


@pytest.mark.parametrize("line, options, reason", [("410 Gone", {}, "http"), ("403 Forbidden", {}, "denied")])
def test_what_is_not_said_to_be_absent_is_an_error(server, line, options, reason):
    uri = mounted(server, **options)
    server.reset(of_chunks(status(line)))
    with pytest.raises(damacy.StorageError) as caught:
        damacy.open_array(uri)[:]
    assert caught.value.reason == reason


@pytest.mark.parametrize("code", [403, 410])
def test_what_the_mount_says_means_absent_is_fill(server, code):
    uri = mounted(server, absent_status=(404, code))
    server.reset(of_chunks(status(f"{code} No")))
    assert (damacy.open_array(uri)[:] == 0).all()


def test_an_empty_shard_is_a_short_read(server, folder):
    def empty(request, answer):
        status("416 Range Not Satisfiable", Content_Range="bytes */0")(request, answer)

    server.reset(of_chunks(empty))
    with pytest.raises(damacy.StorageError) as caught:
        damacy.open_array(f"{server.url}/sharded.zarr")[:]
    assert caught.value.reason == "short-read"


REPEATED = {
    "408": status("408 Request Timeout"),
    "429": status("429 Too Many Requests", Retry_After="0"),
    "500": status("500 Internal Server Error"),
    "502": status("502 Bad Gateway", Retry_After="junk"),
    "503": status("503 Service Unavailable", Retry_After="0"),
    "504": status("504 Gateway Timeout", Retry_After="-1"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("fault", REPEATED.values(), ids=REPEATED.keys())
def test_a_request_that_fails_twice_is_sent_three_times(server, fault):
    first = []

    def twice(request, answer):
        if request.path == "/plain.zarr/c/1/0/0" and len(first) < 2:
            first.append(request.range)
            fault(request, answer)

    server.reset(twice)
    check(f"{server.url}/plain.zarr")
    asked = [request.range for request in server.requests if request.path == "/plain.zarr/c/1/0/0"]
    assert asked[:3] == [first[0]] * 3


def stalled(after):
    """So many bytes of the body, then silence."""

    def apply(request, answer):
        answer.pause_after = min(after, len(answer.body))

    return apply


@pytest.mark.timeout(60)
@pytest.mark.parametrize("after", [0, 1, 1000])
def test_a_body_that_stalls_is_continued(server, after):
    uri = mounted(server, **FAST)
    server.reset(of_chunks(stalled(after), 1))
    begin = time.monotonic()
    check(uri)
    assert time.monotonic() - begin < 15


@pytest.mark.timeout(60)
def test_a_body_that_always_stalls_ends_at_the_deadline(server):
    uri = mounted(server, attempts=2, **FAST)
    server.reset(of_chunks(stalled(1)))
    begin = time.monotonic()
    with pytest.raises(damacy.StorageError) as caught:
        damacy.open_array(uri)[:]
    assert caught.value.reason in ("deadline", "io") and time.monotonic() - begin < 30


MANY_1XX = b"HTTP/1.1 102 Processing\r\n\r\n" * 5000


@pytest.mark.timeout(60)
def test_many_answers_before_the_answer_are_passed_over(server):
    def apply(request, answer):
        answer.before = MANY_1XX

    server.reset(of_chunks(apply))
    check(f"{server.url}/plain.zarr")


HOSTILE = {
    "endless chunk extensions": b"HTTP/1.1 206 X\r\nTransfer-Encoding: chunked\r\n\r\n5;" + b"a=b;" * 500_000,
    "a NUL in the head": b'HTTP/1.1 206 X\r\nETag: "a\0b"\r\nContent-Range: bytes 0-0/1\r\n\r\nx',
    "a lone CR in the head": b'HTTP/1.1 206 X\r\nETag: "a\rb"\r\nContent-Range: bytes 0-0/1\r\n\r\nx',
    "a transfer encoding": b'HTTP/1.1 206 X\r\nTransfer-Encoding: gzip\r\nETag: "a"\r\n\r\nx',
    "a negative chunk": b"HTTP/1.1 206 X\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc",
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_answer_is_an_error_and_never_bytes(server, answer):
    uri = mounted(server, attempts=2, deadline_s=3)
    server.reset(of_chunks(raw(answer)))
    with pytest.raises(damacy.DamacyError):
        damacy.open_array(uri)[:]
    server.reset()
    check(uri)


ENDLESS = {  # what is sent first, and again and again
    "a head": (b"HTTP/1.1 206 Partial Content\r\n", b"X: " + b"y" * 1000 + b"\r\n"),
    "a line of the head": (b"HTTP/1.1 206 Partial Content\r\nX: ", b"y" * 65536),
    "answers 1xx": (b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 1000),
    "chunk extensions": (b'HTTP/1.1 206 P\r\nETag: "a"\r\nTransfer-Encoding: chunked\r\n\r\n5;', b"a=b;" * 16384),
    "trailers": (b'HTTP/1.1 206 P\r\nETag: "a"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n', b"X: y\r\n" * 10000),
    "a body without a length": (
        b'HTTP/1.1 206 P\r\nETag: "a"\r\nContent-Range: bytes 0-99/100\r\n\r\n',
        b"x" * 65536,
    ),
    "a page": (b"HTTP/1.1 200 OK\r\n\r\n", b"<html>" * 10000),
    "a page of an error": (b"HTTP/1.1 500 No\r\n\r\n", b"<html>" * 10000),
}
READS_ENDLESS = """
import resource, sys, damacy
url = sys.argv[1]
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
damacy.mount(url + "/", damacy.StoreOptions(attempts=2, deadline_s=3, stall_timeout_s=1))
damacy.open_array(url + "/sharded.zarr")[:]
before = peak()
try:
    damacy.open_array(url + "/plain.zarr")
except damacy.StorageError as error:
    print(error.reason, peak() - before)
damacy.open_array(url + "/sharded.zarr")[:]
"""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("begin, again", ENDLESS.values(), ids=ENDLESS.keys())
def test_what_has_no_end_takes_no_memory(server, begin, again):
    def endless(request, answer):
        if "plain" in request.path:
            answer.raw, answer.endless = begin, again

    server.reset(endless)
    run = [sys.executable, "-c", READS_ENDLESS, server.url]
    done = subprocess.run(run, capture_output=True, text=True, timeout=50)
    reason, grown_kib = done.stdout.split()
    assert reason in ("io", "range", "http", "deadline") and int(grown_kib) < 8 << 10
    assert done.returncode == 0, done.stderr


@pytest.mark.timeout(60)
def test_connections_that_are_all_cut_at_once_keep_order_and_bytes(server):
    """In mid-epoch, while requests for chunks are under way on them."""
    held, cut_off = threading.Semaphore(0), threading.Event()

    def hold(request, answer):
        if "/c/" in request.path and not cut_off.is_set():
            held.release()
            cut_off.wait(30)

    server.reset(hold)
    memory = {"host_buffer_bytes": 64 << 20, "device_buffer_bytes": 64 << 20}
    with damacy.Pipeline(damacy.Config(batch_size=1, device="cpu", dtype="u16", **memory)) as pipeline:
        boxes = [[(i % 16, i % 16 + 16), (i, i + 40), (3, 60)] for i in range(30)]
        pipeline.push([damacy.Sample(f"{server.url}/sharded.zarr", box) for box in boxes])
        for _ in range(2):  # of both shards
            assert held.acquire(timeout=30)
        server.drop_connections()
        cut_off.set()
        for box in boxes:
            with pipeline.pop() as batch:
                np.testing.assert_array_equal(batch.numpy()[0], DATA[tuple(slice(*axis) for axis in box)])
    indices = [request for request in server.requests if request.headers.get("range", "").startswith("bytes=-")]
    assert len(indices) >= 4  # both were asked for again


def test_connections_that_were_cut_while_idle_are_not_seen(server):
    uri = mounted(server, attempts=1)
    array = damacy.open_array(uri)
    check(uri)
    for _ in range(3):
        server.drop_connections()
        np.testing.assert_array_equal(array[:], DATA)


@pytest.mark.timeout(60)
def test_a_server_that_is_gone_for_seconds_keeps_order_and_bytes(folder):
    with refusing_port() as port:
        first = FaultServer(folder, port=port)
        later = []
        uri = f"{first.url}/sharded.zarr"
        memory = {"host_buffer_bytes": 64 << 20, "device_buffer_bytes": 64 << 20}
        with damacy.Pipeline(damacy.Config(batch_size=1, device="cpu", dtype="u16", **memory)) as pipeline:
            boxes = [[(i % 16, i % 16 + 16), (i, i + 40), (3, 60)] for i in range(30)]
            pipeline.push([damacy.Sample(uri, box) for box in boxes])
            for number, box in enumerate(boxes):
                if number == 5:
                    first.drop_connections()
                    first.close()
                    timer = threading.Timer(3, lambda: later.append(FaultServer(folder, port=port)))
                    timer.start()
                with pipeline.pop() as batch:
                    np.testing.assert_array_equal(batch.numpy()[0], DATA[tuple(slice(*axis) for axis in box)])
        timer.join()
    later[0].close()


class Proxy:
    """Answers every request with the same bytes; none: it closes the connection."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.heads: list[bytes] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                self.heads.append(connection.recv(65536))
                connection.sendall(self.answer)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    "line", ["407 Proxy Authentication Required", "502 Bad Gateway", "403 Forbidden", "404 Not Found"]
)
def test_a_proxy_that_refuses_is_named(scheme, line):
    """What it says of a tunnel is never taken for an answer of the server: 404 would be fill."""
    proxy = Proxy(f"HTTP/1.1 {line}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
    uri = f"{scheme}://data.invalid/a.zarr"
    options = damacy.StoreOptions(proxy=f"http://user:hunter2@{proxy.address}", attempts=2, deadline_s=5)
    begin = time.monotonic()
    with pytest.raises(damacy.DamacyError) as caught:
        damacy.open(uri, store=options)
    proxy.listener.close()
    assert time.monotonic() - begin < 40
    assert base64.b64encode(b"user:hunter2") in proxy.heads[0]
    assert "hunter2" not in str(caught.value)
    if scheme == "https" or line.startswith("407"):
        assert "proxy" in str(caught.value).lower(), str(caught.value)
        assert caught.value.reason == "connect"


@pytest.mark.timeout(60)
def test_a_proxy_that_is_dead_is_named():
    with refusing_port() as port, pytest.raises(damacy.StorageError) as caught:
        options = damacy.StoreOptions(proxy=f"http://127.0.0.1:{port}", attempts=1, deadline_s=3)
        damacy.open("http://data.invalid/a.zarr", store=options)
    assert caught.value.reason == "connect"


def test_a_dead_address_of_two_is_not_seen(server):
    """localhost has ::1 and 127.0.0.1, and the server listens at one of them."""
    port = server.url.rpartition(":")[2]
    check(f"http://localhost:{port}/plain.zarr")
