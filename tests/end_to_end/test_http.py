"""Arrays behind HTTP: what is read equals the local array, or the error is the one that the fault has. After each fault
the same process reads well."""

import email.utils
import errno
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer, cut, header, raw, refusing_port, silent, status  # noqa: E402

SHAPE = (32, 80, 80)
DATA = np.random.default_rng(0).integers(0, 60000, SHAPE, dtype="u2")  # a chunk has more bytes than a head


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    zarr.create_array(folder / "plain.zarr", data=DATA, chunks=(16, 80, 80))
    zarr.create_array(folder / "sharded.zarr", data=DATA, chunks=(8, 40, 40), shards=(16, 80, 80))
    sparse = zarr.create_array(folder / "sparse.zarr", shape=SHAPE, chunks=(16, 80, 80), dtype="u2", fill_value=7)
    sparse[:16] = DATA[:16]
    zarr.create_array(folder / "v2.zarr", data=DATA, chunks=(16, 80, 80), zarr_format=2)
    return folder


@pytest.fixture
def server(folder):
    with FaultServer(folder) as server:
        yield server


def config(**fields):
    memory = {"host_buffer_bytes": 64 << 20, "device_buffer_bytes": 64 << 20}
    return damacy.Config(**{"batch_size": 2, "device": "cpu", "dtype": "u16", **memory, **fields})


def crops(uri, count=4):
    return [damacy.Sample(uri, [(i, i + 16), (2 * i, 2 * i + 40), (3, 60)]) for i in range(count)]


def check_stream(uri, expected=DATA, **fields):
    seen = 0
    with damacy.Pipeline(config(**fields)) as pipeline:
        pipeline.push(crops(uri))
        for batch in pipeline:
            with batch as b:
                for row, sample in zip(b.numpy(), b.samples, strict=True):
                    np.testing.assert_array_equal(row, expected[tuple(slice(*axis) for axis in sample.aabb)])
                    seen += 1
    assert seen == 4


def unversioned(request, answer):
    answer.headers.pop("ETag", None)
    answer.headers.pop("Last-Modified", None)


@pytest.mark.parametrize("immutable", [False, True])
@pytest.mark.parametrize("name", ["plain", "sharded"])
def test_chunks_without_a_version_are_kept_only_in_memory_and_where_they_never_change(
    server, tmp_path, name, immutable
):
    server.faults = unversioned
    prefix = f"{server.url}/"
    caches = {"cache_bytes": 8 << 20, "disk_cache": tmp_path, "disk_cache_bytes": 256 << 20}
    shared = damacy.SharedCache(f"damacy-unversioned-{os.getpid()}", 8 << 20)
    damacy.mount(prefix, damacy.StoreOptions(allow_unversioned=True, immutable=immutable))
    with damacy.Pipeline(config(**caches, host_cache=shared)) as pipeline:
        pipeline.push(crops(f"{prefix}{name}.zarr"))
        for batch in pipeline:
            with batch as b:
                for row, sample in zip(b.numpy(), b.samples, strict=True):
                    np.testing.assert_array_equal(row, DATA[tuple(slice(*axis) for axis in sample.aabb)])
        stats = pipeline.stats()
    assert (stats.cache_kept > 0, stats.host_cache_kept > 0) == (immutable, immutable)
    assert stats.disk_kept == stats.disk_hits == 0


@pytest.mark.parametrize("name", ["plain", "sharded", "v2"])
def test_a_stream_equals_the_local_array(server, name):
    check_stream(f"{server.url}/{name}.zarr")
    assert {request.headers["accept-encoding"] for request in server.requests} == {"identity"}


def test_an_opened_array_reads_and_describes_itself(server):
    array = damacy.open_array(f"{server.url}/sharded.zarr")
    np.testing.assert_array_equal(array[:], DATA)
    np.testing.assert_array_equal(array[3:20, 1:70:3], DATA[3:20, 1:70:3])
    assert array.shape == SHAPE and array.uri == f"{server.url}/sharded.zarr"


def test_an_absent_chunk_is_fill(server):
    expected = np.full(SHAPE, 7, "u2")
    expected[:16] = DATA[:16]
    check_stream(f"{server.url}/sparse.zarr", expected)


def test_an_array_that_is_absent_is_not_found(server):
    with pytest.raises(damacy.NotFound, match=r"nothing\.zarr: no zarr metadata") as caught:
        damacy.open_array(f"{server.url}/nothing.zarr")
    assert caught.value.reason == "no-metadata"


def test_each_object_is_asked_for_once_and_connections_are_kept(server):
    check_stream(f"{server.url}/plain.zarr")
    paths = [request.path for request in server.requests]
    assert paths.count("/plain.zarr/zarr.json") == 1
    assert all(paths.count(path) <= 2 for path in paths)  # the beginning of a chunk, and the rest
    assert server.connections <= 6


def of_shards(server):
    return [request for request in server.requests if "/c/" in request.path]


def test_an_index_is_one_request_from_the_end(server):
    check_stream(f"{server.url}/sharded.zarr")
    from_end = [request for request in of_shards(server) if request.headers["range"].startswith("bytes=-")]
    assert sorted(request.path for request in from_end) == sorted({request.path for request in of_shards(server)})
    assert {request.headers["range"] for request in from_end} == {"bytes=-132"}  # 8 entries and a checksum
    assert not any(request.headers["range"].startswith("bytes=0-65535") for request in of_shards(server))


@pytest.mark.parametrize("line", ["416 Range Not Satisfiable", "400 Bad Request", "501 Not Implemented"])
def test_a_server_without_ranges_from_the_end_is_asked_for_the_beginning(server, line):
    refuse = status(line)
    server.faults = lambda request, answer: (
        refuse(request, answer) if request.headers.get("range", "").startswith("bytes=-") else None
    )
    check_stream(f"{server.url}/sharded.zarr")


def test_objects_of_the_next_batch_are_asked_for_before_it_has_a_slot(server):
    """Also in the second epoch, in which they are known."""
    samples = [damacy.Sample(f"{server.url}/plain.zarr", [(16 * i, 16 * i + 16), (0, 80), (0, 80)]) for i in range(2)]
    with damacy.Pipeline(config(batch_size=1, n_batches=1, keep_bytes=0)) as pipeline:
        for epoch in range(2):
            pipeline.push(samples)
            with pipeline.pop() as batch:
                np.testing.assert_array_equal(batch.numpy()[0], DATA[:16])
                deadline = time.monotonic() + 30
                while len(of_shards(server)) < 2 * epoch + 2 and time.monotonic() < deadline:
                    time.sleep(0.01)
                asked = of_shards(server)[2 * epoch :]
                assert {request.path[-5:] for request in asked} == {"0/0/0", "1/0/0"}
            with pipeline.pop() as batch:
                np.testing.assert_array_equal(batch.numpy()[0], DATA[16:])
    assert len(of_shards(server)) == 4  # each chunk once an epoch


def test_objects_that_are_known_are_not_asked_for_where_a_cache_has_their_chunks(server):
    samples = [damacy.Sample(f"{server.url}/plain.zarr", [(16 * i, 16 * i + 16), (0, 80), (0, 80)]) for i in range(2)]
    with damacy.Pipeline(config(batch_size=1, cache_bytes="8MiB")) as pipeline:
        for _ in range(3):
            pipeline.push(samples)
            for expected in (DATA[:16], DATA[16:]):
                with pipeline.pop() as batch:
                    np.testing.assert_array_equal(batch.numpy()[0], expected)
    assert len(of_shards(server)) == 2


def boxes_of_two_batches(*, share):
    """Of `sharded.zarr`, batches of one sample: two shards, of which the first box has one, or both boxes the first."""
    return [[(8 * i, 8 * i + 16) if share else (16 * i, 16 * i + 16), (0, 40), (0, 80)] for i in range(2)]


def ranges_of_shards(server):
    return [(request.path, request.headers["range"]) for request in of_shards(server)]


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("fault", [None, "503 Slow Down"])
def test_chunks_of_the_next_batch_are_read_before_it_has_a_slot(server, fault, share):
    """Those of shards, once their index is there. What fails is repeated. What both batches want is asked for once."""
    refused = []

    def refuse_once(request, answer):
        if fault and "/c/1/" in request.path and not request.headers["range"].startswith("bytes=-") and not refused:
            refused.append(request)
            status(fault, Retry_After="0")(request, answer)

    server.faults = refuse_once
    boxes = boxes_of_two_batches(share=share)
    with damacy.Pipeline(config(batch_size=1, n_batches=1, keep_bytes=0)) as pipeline:
        pipeline.push([damacy.Sample(f"{server.url}/sharded.zarr", box) for box in boxes])
        with pipeline.pop() as first:
            np.testing.assert_array_equal(first.numpy()[0], DATA[tuple(slice(*axis) for axis in boxes[0])])
            deadline = time.monotonic() + 30
            while not any("/c/1/" in path and "=-" not in asked for path, asked in ranges_of_shards(server)):
                assert time.monotonic() < deadline
                time.sleep(0.01)
        with pipeline.pop() as second:
            np.testing.assert_array_equal(second.numpy()[0], DATA[tuple(slice(*axis) for axis in boxes[1])])
    asked = ranges_of_shards(server)
    assert len(asked) == len(set(asked)) + len(refused)
    assert len(refused) == (fault is not None)


def test_a_chunk_that_cannot_be_read_ahead_fails_each_batch_that_wants_it(server):
    server.faults = lambda request, answer: (
        status("403 Forbidden")(request, answer)
        if "/c/0/" in request.path and not request.headers["range"].startswith("bytes=-")
        else None
    )
    boxes = boxes_of_two_batches(share=True)
    with damacy.Pipeline(config(batch_size=1, n_batches=1, keep_bytes=0)) as pipeline:
        pipeline.push([damacy.Sample(f"{server.url}/sharded.zarr", box) for box in boxes])
        for _ in boxes:
            with pytest.raises(damacy.StorageError, match="403") as caught:
                pipeline.pop()
            assert caught.value.reason == "denied"
            assert caught.value.key.startswith("c/0/")
            assert caught.value.chunk is not None


@pytest.mark.parametrize("field", ["cache_bytes", "disk_cache"])
def test_no_chunk_is_read_before_its_slot_if_some_cache_may_have_it(server, tmp_path, field):
    caches = {
        "cache_bytes": {"cache_bytes": 8 << 20},
        "disk_cache": {"disk_cache": tmp_path, "disk_cache_bytes": 256 << 20},
    }[field]
    boxes = boxes_of_two_batches(share=False)
    with damacy.Pipeline(config(batch_size=1, n_batches=1, keep_bytes=0, **caches)) as pipeline:
        for _ in range(2):  # the second time from the cache
            pipeline.push([damacy.Sample(f"{server.url}/sharded.zarr", box) for box in boxes])
            for box in boxes:
                with pipeline.pop() as batch:
                    np.testing.assert_array_equal(batch.numpy()[0], DATA[tuple(slice(*axis) for axis in box)])
    asked = ranges_of_shards(server)
    assert len(asked) == len(set(asked))


def test_a_pipeline_that_is_closed_leaves_no_read_ahead(server):
    """Its answers are held back until it is closed. No thread waits for them then."""
    go_on = threading.Event()

    def hold(request, answer):
        if not request.headers["range"].startswith("bytes=-"):
            go_on.wait(30)

    uri = f"{server.url}/sharded.zarr"
    with damacy.Pipeline(config(batch_size=1, n_batches=1, keep_bytes=0)) as pipeline:
        pipeline.push([damacy.Sample(uri, [(0, 16), (0, 40), (0, 80)])])
        pipeline.pop().release()
    server.faults = lambda request, answer: hold(request, answer) if request.path in paths_of_shards else None
    paths_of_shards = {request.path for request in of_shards(server)}
    pipeline = damacy.Pipeline(config(batch_size=1, n_batches=1, keep_bytes=0))
    pipeline.push([damacy.Sample(uri, box) for box in boxes_of_two_batches(share=True)])
    pipeline.close()
    go_on.set()
    check_stream(uri)


@pytest.mark.parametrize(("is_remote", "given", "queued"), [(True, None, 8), (True, 3, 3), (False, None, 2)])
def test_more_samples_of_a_remote_store_wait_unless_it_is_set_how_many(server, folder, is_remote, given, queued):
    taken = []

    def source():
        for _ in range(40):
            taken.append(
                damacy.Sample(f"{server.url if is_remote else folder}/plain.zarr", [(0, 16), (0, 80), (0, 80)])
            )
            yield taken[-1]

    with damacy.Pipeline(config(batch_size=1, n_batches=1, lookahead_batches=given)) as pipeline:
        pipeline.push(source())
        assert queued <= len(taken) <= queued + 1  # one may have its slot


def test_a_chunk_that_came_before_its_batch_is_dropped_after_it(server):
    """A batch announces its chunks twice: ahead, and when it is planned."""
    sample = damacy.Sample(f"{server.url}/plain.zarr", [(0, 16), (0, 80), (0, 80)])
    other = damacy.Sample(f"{server.url}/plain.zarr", [(16, 32), (0, 80), (0, 80)])
    with damacy.Pipeline(config(batch_size=1, lookahead_batches=4)) as pipeline:
        for _ in range(2):
            pipeline.push([other, sample])
            for batch in (pipeline.pop(), pipeline.pop()):
                batch.release()
    assert len(of_shards(server)) == 4


def test_objects_are_asked_for_in_the_order_of_batches(tmp_path):
    """One request at a time: the first batch must not wait for those that are announced behind it."""
    data = np.arange(12 * 64, dtype="u2").reshape(12, 64)
    zarr.create_array(tmp_path / "rows.zarr", data=data, chunks=(1, 64))
    with FaultServer(tmp_path) as server:
        damacy.mount(f"{server.url}/", damacy.StoreOptions(max_requests=1))
        with damacy.Pipeline(config(batch_size=1, lookahead_batches=12)) as pipeline:
            uri = f"{server.url}/rows.zarr"
            pipeline.push([damacy.Sample(uri, [(i, i + 1), (0, 64)]) for i in range(12)])
            for batch in pipeline:
                batch.release()
        assert [int(request.path.split("/")[-2]) for request in of_shards(server)] == list(range(12))


@pytest.mark.parametrize("layout", [{"chunks": (8, 8192)}, {"chunks": (4, 8192), "shards": (8, 8192)}])
def test_a_chunk_stays_decoded_until_the_last_announced_batch_took_it(tmp_path, layout):
    """One slot, so that no batch joins a decode that is under way."""
    data = np.random.default_rng(1).integers(0, 60000, (40, 8192), dtype="u2")
    zarr.create_array(tmp_path / "rows.zarr", data=data, **layout)
    all_announced = threading.Event()

    def wait_for_the_last(request, answer):
        if "/c/4/" in request.path:
            all_announced.set()
        if "/c/0/" in request.path:
            all_announced.wait(60)

    wanted = [0, 1, 2, 3, 0, 1, 2, 3, 0, 4]
    with FaultServer(tmp_path) as server:
        server.faults = wait_for_the_last
        with damacy.Pipeline(config(batch_size=1, n_batches=1, lookahead_batches=12)) as pipeline:
            uri = f"{server.url}/rows.zarr"
            pipeline.push([damacy.Sample(uri, [(8 * i, 8 * i + 8), (0, 8192)]) for i in wanted])
            for i, batch in zip(wanted, pipeline, strict=True):
                with batch:
                    np.testing.assert_array_equal(batch.numpy()[0], data[8 * i : 8 * i + 8])
            stats = pipeline.stats()
            each = 8 // layout["chunks"][0]
            assert (stats.chunks_decoded, stats.chunks_deduplicated) == (5 * each, 5 * each)
        asked = [(request.path, request.headers["range"]) for request in of_shards(server)]
        assert len(asked) == len(set(asked))


def test_a_chunk_of_which_parts_are_needed_does_not_stay_decoded(tmp_path):
    """All of it would be decoded for the few rows that the next batch needs."""
    data = np.random.default_rng(1).integers(0, 60000, (256, 4096), dtype="u2")
    blosc = zarr.codecs.BloscCodec(cname="lz4", clevel=1)
    zarr.create_array(tmp_path / "rows.zarr", data=data, chunks=(256, 4096), compressors=blosc)
    with FaultServer(tmp_path) as server:
        with damacy.Pipeline(config(batch_size=1, n_batches=1, lookahead_batches=4)) as pipeline:
            uri = f"{server.url}/rows.zarr"
            pipeline.push([damacy.Sample(uri, [(8 * i, 8 * i + 8), (0, 4096)]) for i in range(4)])
            for i, batch in enumerate(pipeline):
                with batch:
                    np.testing.assert_array_equal(batch.numpy()[0], data[8 * i : 8 * i + 8])
            assert pipeline.stats().chunks_decoded == 4


def test_an_object_of_which_an_answer_was_wrong_is_opened_anew(server):
    """The index comes with the total of another object, so that reads of its chunks find a change."""
    wrong = []

    def shifted(request, answer):
        if request.headers.get("range", "").startswith("bytes=-") and not wrong:
            begin, end, total = map(
                int, re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", answer.headers["Content-Range"]).groups()
            )
            answer.headers["Content-Range"] = f"bytes {begin + 1}-{end + 1}/{total + 1}"
            wrong.append(request)

    server.faults = shifted
    sample = damacy.Sample(f"{server.url}/sharded.zarr", [(0, 16), (0, 40), (0, 40)])
    with damacy.Pipeline(config(batch_size=1)) as pipeline:
        pipeline.push([sample])
        with pytest.raises(damacy.StorageError) as caught:
            pipeline.pop()
        assert caught.value.reason == "changed" and len(wrong) == 1
        pipeline.push([sample])
        with pipeline.pop() as batch:
            np.testing.assert_array_equal(batch.numpy()[0], DATA[:16, :40, :40])


GOOD_IN_THE_END = {
    "cut in the head": raw(b"HTTP/1.1 206 Partial Con"),
    "no answer": raw(b""),
    "cut before the body": cut(0),
    "cut after a byte": cut(1),
    "cut in the middle": cut(30000),
    "reset in the middle": cut(30000, reset=True),
    "503": status("503 Slow Down", Retry_After="0"),
    "503 without a time": status("503 Slow Down"),
    "429": status("429 Too Many Requests", Retry_After="junk"),
    "500": status("500 Internal Server Error"),
    "408": status("408 Request Timeout"),
    "shifted range": header("Content-Range", "bytes 1-9/100"),
    "no range": header("Content-Range", None),
    "malformed range": header("Content-Range", "bytes ?/?"),
    "unknown total": header("Content-Range", "bytes 0-9/*"),
    "multipart": header("Content-Type", "multipart/byteranges; boundary=x"),
    "a page": status("200 OK", b"<html>" + b"x" * 100_000),
    "502": status("502 Bad Gateway"),
    "504": status("504 Gateway Timeout", Retry_After="-1"),
    "chunked and cut": raw(b"HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"),
    "no length and an early end": raw(b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-99/100\r\n\r\nab"),
    "two lengths": raw(b"HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef"),
    "204": status("204 No Content"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("fault", GOOD_IN_THE_END.values(), ids=GOOD_IN_THE_END.keys())
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_fault_that_passes_is_not_seen(server, number, fault):
    server.reset({number: fault})
    np.testing.assert_array_equal(damacy.open_array(f"{server.url}/plain.zarr")[:], DATA)
    assert len(server.requests) >= 6


FATAL = {
    "denied": (status("403 Forbidden"), "denied", r"GET 403: the server denies access"),
    "unauthorised": (status("401 Unauthorized"), "denied", r"GET 401"),
    "gone": (status("410 Gone"), "changed", r"GET 410: the object is gone"),
    "not there any more": (status("404 Not Found"), "changed", r"GET 404: the object is gone"),
    "precondition": (status("412 Precondition Failed"), "changed", r"GET 412"),
    "another tag": (header("ETag", '"other"'), "changed", r"not the version that was opened"),
    "no tag": (header("ETag", None), "changed", r"not the version that was opened"),
    "a weak tag": (header("ETag", 'W/"weak"'), "changed", r"not the version that was opened"),
    "compressed": (header("Content-Encoding", "gzip"), "encoded", r"Content-Encoding gzip: upload it without"),
    "redirect": (status("302 Found", Location="http://127.0.0.1:1/"), "redirect", r"GET 302"),
    "teapot": (status("418 I'm a teapot"), "http", r"GET 418"),
    "always another range": (header("Content-Range", "bytes 1-9/100"), "changed", r"not the version"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("fault, reason, text", FATAL.values(), ids=FATAL.keys())
def test_a_fault_of_a_known_object_is_named(server, fault, reason, text):
    uri = f"{server.url}/plain.zarr"
    array = damacy.open_array(uri)

    def of_the_rest(request, answer):  # not of the beginning of an object, by which it is opened
        if "if-match" in request.headers:
            fault(request, answer)

    server.reset(of_the_rest)
    with pytest.raises(damacy.StorageError, match=text) as caught:
        array[:]
    assert caught.value.reason == reason
    assert re.search(r"c/\d/0/0", str(caught.value))
    server.reset()
    np.testing.assert_array_equal(damacy.open_array(uri)[:], DATA)


def test_an_object_without_a_validator_is_refused(server):
    server.reset(header("ETag", None))
    with pytest.raises(damacy.StorageError, match="neither a strong ETag nor Last-Modified") as caught:
        damacy.open_array(f"{server.url}/plain.zarr")
    assert caught.value.reason == "no-validator"


def test_last_modified_is_a_validator(server):
    def dated(request, answer):
        answer.headers.pop("ETag", None)
        answer.headers["Last-Modified"] = "Mon, 23 Nov 2026 10:00:00 GMT"

    server.reset(dated)
    np.testing.assert_array_equal(damacy.open_array(f"{server.url}/plain.zarr")[:], DATA)
    assert any("if-unmodified-since" in request.headers for request in server.requests)


def test_another_date_is_another_version(server):
    dates = {"Last-Modified": "Mon, 23 Nov 2026 10:00:00 GMT"}

    def dated(request, answer):
        answer.headers.pop("ETag", None)
        answer.headers |= dates

    server.reset(dated)
    array = damacy.open_array(f"{server.url}/plain.zarr")
    array[:16]
    dates["Last-Modified"] = "Mon, 23 Nov 2026 10:00:01 GMT"
    with pytest.raises(damacy.StorageError, match="not the version that was opened") as caught:
        array[:16]
    assert caught.value.reason == "changed"


def test_attempts_are_bounded_and_counted(server):
    server.reset(status("503 Slow Down", Retry_After="0"))
    with pytest.raises(damacy.StorageError, match=r"GET 503, 6 attempts in \d+\.?\d* s") as caught:
        damacy.open_array(f"{server.url}/plain.zarr")
    assert caught.value.reason == "throttled" and len(server.requests) == 6
    assert (caught.value.http_status, caught.value.request_id, caught.value.attempts) == (503, None, 6)


def test_an_error_names_the_request_by_what_the_server_calls_it(server):
    server.reset(status("403 Forbidden", x_amz_request_id="4442587FB7D0A2F9"))
    with pytest.raises(damacy.StorageError, match="GET 403, request 4442587FB7D0A2F9") as caught:
        damacy.open_array(f"{server.url}/plain.zarr")
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.http_status, error.request_id, error.attempts) == (403, "4442587FB7D0A2F9", 1)
    assert error.errno == errno.EACCES


@pytest.mark.timeout(60)
def test_a_refused_connection_has_its_errno():
    with refusing_port() as port, pytest.raises(damacy.StorageError) as caught:
        damacy.open_array(f"http://127.0.0.1:{port}/a.zarr")
    assert caught.value.reason == "connect" and caught.value.errno == errno.ECONNREFUSED
    assert caught.value.http_status is None and caught.value.attempts > 1


def echoed(request, answer):
    """What some servers do: the answer holds the request."""
    status("400 Bad Request", repr(request.headers).encode())(request, answer)


def moved(request, answer):
    status("307 Temporary Redirect", Location="http://127.0.0.1:1/?token=hunter2")(request, answer)


@pytest.mark.parametrize("fault", [echoed, moved, status("401 No"), header("Content-Encoding", "br"), silent],
                         ids=["echoed", "redirect", "401", "encoded", "silent"])  # fmt: skip
def test_no_text_of_a_failure_holds_a_header(server, caplog, fault):
    options = damacy.StoreOptions(headers={"X-Token": "hunter2"}, attempts=1, first_byte_timeout_s=0.2)
    server.reset(fault)
    with caplog.at_level("DEBUG", logger="damacy"), pytest.raises(damacy.StorageError) as caught:
        damacy.open(f"{server.url}/plain.zarr", store=options)
    assert server.requests[0].headers["x-token"] == "hunter2"
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(vars(caught.value))
    shown += repr(pickle.dumps(caught.value)) + repr(options) + repr(damacy.mounts()) + caplog.text
    assert "hunter2" not in shown


def test_redirects_are_not_followed_and_get_no_request(server, folder):
    with FaultServer(folder) as other:
        server.reset(status("302 Found", Location=f"{other.url}/plain.zarr/zarr.json"))
        with pytest.raises(damacy.StorageError, match="redirects are not followed") as caught:
            damacy.open_array(f"{server.url}/plain.zarr")
        assert caught.value.reason == "redirect" and other.connections == 0


def test_of_the_body_of_an_error_nothing_is_kept(server):
    server.reset(status("418 Teapot", b"SECRET" * 100_000))
    with pytest.raises(damacy.StorageError) as caught:
        damacy.open_array(f"{server.url}/plain.zarr")
    assert caught.value.http_status == 418 and "SECRET" not in str(caught.value) + repr(caught.value)


def test_a_server_that_comes_back_within_seconds_is_waited_for(folder):
    late = []
    with refusing_port() as port:
        timer = threading.Timer(4, lambda: late.append(FaultServer(folder, port=port)))
        timer.start()
        try:
            assert damacy.open_array(f"http://127.0.0.1:{port}/plain.zarr").shape == SHAPE
        finally:
            timer.join()
            late[0].close()


@pytest.mark.timeout(60)
def test_a_server_that_always_cuts_is_tried_for_ten_seconds(server):
    server.reset(cut(0))
    begin = time.monotonic()
    with pytest.raises(damacy.StorageError, match=r"\d+ attempts in \d+\.?\d* s") as caught:
        damacy.open_array(f"{server.url}/plain.zarr")
    assert caught.value.reason == "io"
    assert 10 <= time.monotonic() - begin < 35 and len(server.requests) >= 6


def in_a_second(request, answer):
    status("503 Slow Down", Retry_After=email.utils.formatdate(time.time() + 2, usegmt=True))(request, answer)


@pytest.mark.parametrize("fault", [status("503 Slow Down", Retry_After="1"), in_a_second], ids=["seconds", "a date"])
def test_a_server_is_left_alone_for_as_long_as_it_says(server, fault):
    server.reset({1: fault})
    begin = time.monotonic()
    assert damacy.open_array(f"{server.url}/plain.zarr").shape == SHAPE
    assert time.monotonic() - begin >= 0.9


def test_a_range_that_the_server_does_not_have_is_a_short_read(server):
    array = damacy.open_array(f"{server.url}/plain.zarr")

    def of_the_rest(request, answer, total="*"):
        if "if-match" in request.headers:
            status("416 Range Not Satisfiable", Content_Range=f"bytes */{total}")(request, answer)

    server.reset(of_the_rest)
    with pytest.raises(damacy.StorageError, match="GET 416: the object ends before the range") as caught:
        array[:16]
    assert caught.value.reason == "short-read"
    refused = [request for request in server.requests if "if-match" in request.headers]
    assert len(refused) == len({(request.path, request.range) for request in refused})  # none is repeated
    server.reset(lambda request, answer: of_the_rest(request, answer, "17"))
    with pytest.raises(damacy.StorageError) as caught:
        damacy.open_array(f"{server.url}/plain.zarr")[:16]
    assert caught.value.reason == "changed"


def test_the_first_use_of_an_origin_is_logged(server, caplog):
    with caplog.at_level("INFO", logger="damacy"):
        damacy.open_array(f"{server.url}/plain.zarr")
        damacy.open_array(f"{server.url}/sharded.zarr")
        deadline = time.monotonic() + 10
        lines = []
        while not lines and time.monotonic() < deadline:
            time.sleep(0.01)
            lines = [line for line in caplog.messages if line.startswith(f"{server.url}: ")]
    assert len(lines) == 1 and re.match(rf"{server.url}: libcurl/\d.* from .*libcurl", lines[0])


def test_a_server_that_is_silent_is_given_up_after_the_time_for_its_first_byte(server):
    server.reset(silent)
    options = damacy.StoreOptions(first_byte_timeout_s=0.3, attempts=1)
    begin = time.monotonic()
    with pytest.raises(damacy.StorageError) as caught:
        damacy.open(f"{server.url}/plain.zarr", store=options)
    assert caught.value.reason == "deadline" and time.monotonic() - begin < 20


def test_at_most_so_many_requests_are_under_way(server, folder):
    now, most, lock = 0, 0, threading.Lock()

    def count(request, answer):
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.05)
        with lock:
            now -= 1

    server.reset(count)
    damacy.mount(f"{server.url}/", damacy.StoreOptions(max_requests=2))
    check_stream(f"{server.url}/sharded.zarr", n_io_threads=8)
    assert most == 2


def test_a_server_that_ignores_ranges_is_named(server):
    server.reset(
        lambda request, answer: answer.__dict__.update(
            status="200 OK", body=b"x" * 200_000, headers={"Content-Length": "200000", "ETag": '"a"'}
        )
    )
    with pytest.raises(damacy.StorageError, match="the server ignores Range, 2 attempts") as caught:
        damacy.open_array(f"{server.url}/plain.zarr")
    assert caught.value.reason == "range"


def test_a_damaged_object_is_a_decode_error_not_fill(server):
    array = damacy.open_array(f"{server.url}/plain.zarr")

    def flip(request, answer):
        answer.body = bytes(byte ^ 0x55 for byte in answer.body)

    server.reset(flip)
    with pytest.raises(damacy.DecodeError):
        array[:]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 206 Partial Content\r\nX: " + b"y" * (2 << 20) + b"\r\n\r\n",
        b"HTTP/1.1 206 Partial Content\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-18446744073709551615/99999999999999999999\r\n\r\n",
        b"\x00\x01\x02 nonsense",
        b"HTTP/0.9 page",
    ],
    ids=["2 MiB of headers", "negative length", "huge numbers", "no HTTP", "HTTP/0.9"],
)
def test_a_hostile_head_is_an_error(server, answer):
    server.reset(raw(answer))
    with pytest.raises(damacy.StorageError) as caught:
        damacy.open_array(f"{server.url}/plain.zarr")
    assert caught.value.reason in ("io", "range", "http")
    server.reset()
    assert damacy.open_array(f"{server.url}/plain.zarr").shape == SHAPE


@pytest.mark.parametrize(
    "uri, text",
    [
        ("http://user:secret@host/a.zarr", "user info in a uri is not supported"),
        ("https://host/a.zarr?token=secret", "queries and fragments in a uri are not supported"),
        ("http:///a.zarr", "the uri has no host"),
        ("http://host/a b.zarr", "not percent-encoded"),
    ],
)
def test_uris_that_are_not_supported_are_refused(uri, text):
    with pytest.raises(damacy.InvalidArgument, match=text) as caught:
        damacy.open_array(uri)
    assert "secret" not in str(caught.value)


def test_a_host_that_does_not_exist_is_named():
    with pytest.raises(damacy.StorageError) as caught:
        damacy.open_array("http://no-such-host.invalid/a.zarr")
    assert caught.value.reason in ("dns", "connect")  # `connect`: by a proxy


@pytest.mark.timeout(60)
def test_a_server_that_never_answers_does_not_hold_the_program(server):
    server.reset(silent)
    program = textwrap.dedent(
        f"""
        import _thread, signal, threading, damacy
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it by default
        try:
            threading.Timer(0.5, _thread.interrupt_main).start()
            damacy.open_array("{server.url}/plain.zarr")
        except KeyboardInterrupt:
            print("interrupted")
        """
    )
    begin = time.monotonic()
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert ran.stdout == "interrupted\n", ran.stdout + ran.stderr
    assert time.monotonic() - begin < 15


@pytest.mark.parametrize("layout", [{"chunks": (8, 80, 80)}, {"chunks": (4, 80, 80), "shards": (8, 80, 80)}])
def test_a_read_of_an_array_asks_for_its_objects_together(tmp_path, layout):
    """Each first request of an object is answered when all have arrived."""
    data = np.random.default_rng(1).integers(0, 60000, (96, 80, 80), dtype="u2")
    zarr.create_array(tmp_path / "many.zarr", data=data, **layout)
    barrier = threading.Barrier(12)
    seen, alone = set(), []

    def meet(request, answer):
        if "/c/" not in request.path or request.path in seen:
            return
        seen.add(request.path)
        try:
            barrier.wait(10)
        except threading.BrokenBarrierError:
            alone.append(request.path)

    with FaultServer(tmp_path) as server:
        array = damacy.open_array(f"{server.url}/many.zarr")
        server.reset(meet)
        np.testing.assert_array_equal(array[...], data)
        assert not alone, alone
        assert len(server.requests) == 1 + 12 * 2  # the document; then a head or an index, and the rest


def test_reads_under_way_do_not_depend_on_reader_threads(tmp_path):
    """Two readers have the second requests of twelve objects under way together: each waits for all others."""
    data = np.random.default_rng(1).integers(0, 60000, (96, 80, 80), dtype="u2")
    zarr.create_array(tmp_path / "many.zarr", data=data, chunks=(8, 80, 80))
    barrier = threading.Barrier(12)
    alone = []

    def meet(request, answer):
        if request.range and request.range[0] > 0:
            try:
                barrier.wait(10)
            except threading.BrokenBarrierError:
                alone.append(request.path)

    with FaultServer(tmp_path) as server:
        server.faults = meet
        uri = f"{server.url}/many.zarr"
        with damacy.Pipeline(config(batch_size=1, n_io_threads=1, n_compute_threads=1)) as pipeline:
            pipeline.push([damacy.Sample(uri, [(0, 96), (0, 80), (0, 80)])])
            pipeline.flush()
            with pipeline.pop() as batch:
                np.testing.assert_array_equal(batch.numpy()[0], data)
    assert alone == []


def test_the_first_batch_has_three_requests_in_sequence(tmp_path):
    """The document, then all indices together, then all chunks together."""
    data = np.random.default_rng(1).integers(0, 60000, (64, 64, 64), dtype="u2")
    zarr.create_array(tmp_path / "a.zarr", data=data, chunks=(16, 32, 32), shards=(16, 64, 64))
    rounds = {"index": threading.Barrier(4), "chunk": threading.Barrier(4)}
    seen, alone = [], []

    def meet(request, answer):
        kind = "document" if "zarr.json" in request.path else "chunk" if request.range else "index"
        seen.append(kind)
        try:
            if kind in rounds:
                rounds[kind].wait(10)
        except threading.BrokenBarrierError:
            alone.append(request.path)

    with FaultServer(tmp_path) as server:
        server.faults = meet
        with damacy.Pipeline(config(batch_size=4, n_io_threads=1, n_compute_threads=1)) as pipeline:
            uri = f"{server.url}/a.zarr"
            pipeline.push([damacy.Sample(uri, [(16 * i, 16 * i + 16), (0, 32), (32, 64)]) for i in range(4)])
            with pipeline.pop() as batch:
                np.testing.assert_array_equal(batch.numpy().reshape(64, 32, 32), data[:, :32, 32:])
    assert alone == [] and seen == ["document"] + 4 * ["index"] + 4 * ["chunk"]


def test_a_forked_child_has_network_threads_of_its_own(server):
    """The child's first request is made by its own thread, on its own connection, and its parent's go on."""
    program = textwrap.dedent(
        f"""
        import os, damacy
        array = damacy.open_array("{server.url}/plain.zarr")
        total = int(array[:16].astype("u8").sum())
        child = os.fork()
        if child == 0:
            again = damacy.open_array("{server.url}/plain.zarr")
            assert int(again[:16].astype("u8").sum()) == total
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert int(array[:16].astype("u8").sum()) == total
        names = [open(f"/proc/self/task/{{t}}/comm").read().strip() for t in os.listdir("/proc/self/task")]
        print(names.count("damacy-net"), total)
        """
    )
    environment = os.environ | {"DAMACY_NET_THREADS": "2"}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=30)
    assert ran.stdout == f"2 {DATA[:16].astype('u8').sum()}\n", ran.stdout + ran.stderr
    assert server.connections >= 2


def test_a_local_program_loads_no_network_library(folder):
    program = textwrap.dedent(
        f"""
        import os, damacy
        damacy.open_array({str(folder / "plain.zarr")!r})[:2]
        assert "libcurl" not in open("/proc/self/maps").read()
        names = [open(f"/proc/self/task/{{t}}/comm").read() for t in os.listdir("/proc/self/task")]
        assert not any("damacy-net" in name for name in names), names
        """
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


def test_without_libcurl_the_error_says_what_was_tried():
    program = textwrap.dedent(
        """
        import damacy
        try:
            damacy.open_array("http://127.0.0.1:1/a.zarr")
        except damacy.InvalidArgument as error:
            print(error.reason, error)
        """
    )
    environment = os.environ | {"DAMACY_LIBCURL": "/no/such/libcurl.so"}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=30)
    assert ran.stdout.startswith("no-http "), ran.stdout + ran.stderr
    assert "/no/such/libcurl.so" in ran.stdout and "apt-get install libcurl4" in ran.stdout


def verify(array):
    verifier = damacy._native.Verifier(array.uri)
    verifier.verify(0, verifier.places)


@pytest.mark.parametrize("read", [lambda array: array[:16], verify], ids=["array", "verify"])
def test_reads_that_are_interrupted_leave_their_threads_to_others(folder, server, read):
    """Also those whose chunks are on their way, which the server does not send."""

    class Interrupt(BaseException):
        pass

    def interrupt(*_):
        raise Interrupt

    asked = threading.Semaphore(0)

    def send_no_chunk(request, answer):
        if "if-match" in request.headers:
            silent(request, answer)
            if asked.acquire(blocking=False):
                time.sleep(0.2)  # the other requests of the read come meanwhile
                signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    patient = damacy.StoreOptions(first_byte_timeout_s=60, attempts=1)
    damacy.mount(f"{server.url}/", patient)
    array = damacy.open_array(f"{server.url}/sharded.zarr")
    server.faults = send_no_chunk
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        for _ in range(2 * (os.cpu_count() or 1)):
            with pytest.raises(Interrupt):
                asked.release()
                read(array)
    finally:
        signal.signal(signal.SIGUSR1, before)
    begin = time.monotonic()
    np.testing.assert_array_equal(damacy.open_array(folder / "sharded.zarr")[:], DATA)
    assert time.monotonic() - begin < 30


def test_a_closed_connection_that_a_forked_child_has_is_not_watched(server):
    """Otherwise epoll reports its end again and again, and the network thread never sleeps."""

    def answer_late_and_close(request, answer):
        answer.delay, answer.cut = 0.2, len(answer.body)
        answer.headers["Connection"] = "close"

    server.faults = answer_late_and_close
    program = textwrap.dedent(
        f"""
        import os, sys, threading, time, damacy
        def is_epoll(name):
            link = f"/proc/self/fd/{{name}}"
            return os.path.lexists(link) and os.readlink(link) == "anon_inode:[eventpoll]"
        def watched():
            return open(f"/proc/self/fdinfo/{{epoll}}").read().count("tfd:")
        def wait_until(holds):
            end = time.monotonic() + 20
            while not holds():
                if time.monotonic() > end: sys.exit(f"{{watched()}} files are watched")
                time.sleep(0.005)
        array = damacy.open_array("{server.url}/plain.zarr")
        (epoll,) = filter(is_epoll, os.listdir("/proc/self/fd"))
        wait_until(lambda: watched() == 1)  # what wakes the network thread
        reading = threading.Thread(target=lambda: array[:])
        reading.start()
        wait_until(lambda: watched() > 1)
        child = os.fork()
        if child == 0:
            time.sleep(25)
            os._exit(0)
        reading.join()
        wait_until(lambda: watched() == 1)
        os.kill(child, 9)
        os.waitpid(child, 0)
        """
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr
