"""`RemoteFile`: bytes equal the object's, requests are those that are needed, errors are those of remote stores."""

import asyncio
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from support.fault_server import FaultServer, cut, header, silent, status
from support.s3_server import S3Server

import damacy
from damacy import remote_file
from damacy.cufile import ClosedFileError, ShortReadError
from damacy.remote_file import RemoteEndpointType, RemoteFile, infer_remote_endpoint_type

DATA = np.random.default_rng(0).integers(0, 256, 10_000_019, dtype="u1")


@pytest.fixture
def server(tmp_path):
    DATA.tofile(tmp_path / "object.bin")
    (tmp_path / "empty.bin").write_bytes(b"")
    (tmp_path / "a b%2F.bin").write_bytes(DATA[:100].tobytes())
    with FaultServer(tmp_path) as server:
        yield server


def test_the_whole_object_is_read(server):
    with RemoteFile.open_http(f"{server.url}/object.bin") as f:
        assert f.nbytes() == DATA.size and f.remote_endpoint_type() == RemoteEndpointType.HTTP
        out = np.zeros_like(DATA)
        assert f.read(out) == DATA.size
        np.testing.assert_array_equal(out, DATA)
    assert server.requests[0].range == (0, 0)
    assert all("if-match" in request.headers for request in server.requests[1:])


def test_many_small_ranges_are_under_way_together(server):
    """No answer begins before 30 requests have come: as many as a new origin may be asked for, but two."""
    all_came, came = threading.Event(), []

    def hold(request, answer):
        came.append(request)
        if len(came) == 30:
            all_came.set()
        all_came.wait(20)

    with RemoteFile.open_http(f"{server.url}/object.bin") as f:
        server.reset(hold)
        offsets = np.arange(64, dtype=np.int64) * 100_000 + 70_000
        packed = np.zeros(64 * 4096, "u1")
        f.preadv_packed(packed, np.full(64, 4096, np.int64), offsets).get()
    assert all_came.is_set() and len(server.requests) == 64
    np.testing.assert_array_equal(packed.reshape(64, 4096), [DATA[at : at + 4096] for at in offsets])


@pytest.mark.parametrize("offset", [0, 1, 4095, 10_000_018])
@pytest.mark.parametrize("size", [0, 1, 4096, 9_000_000])
def test_a_range_ends_at_the_end_of_the_object(server, offset, size):
    with RemoteFile.open_http(f"{server.url}/object.bin") as f:
        out = np.full(size, 7, "u1")
        expected = DATA[offset : offset + size]
        assert f.read(out, file_offset=offset) == expected.size
        np.testing.assert_array_equal(out[: expected.size], expected)
        assert (out[expected.size :] == 7).all()


def test_beyond_the_end_there_is_nothing_and_exact_says_so(server):
    with RemoteFile.open_http(f"{server.url}/object.bin") as f:
        out = bytearray(10)
        assert f.read(out, file_offset=DATA.size) == 0
        assert f.read(out, file_offset=DATA.size + 5) == 0
        with pytest.raises(ShortReadError, match=r"object\.bin"):
            f.read(out, file_offset=DATA.size - 5, exact=True)
        assert f.read(out, 5, DATA.size - 5, exact=True) == 5
        assert bytes(out[:5]) == DATA[-5:].tobytes()


def test_with_nbytes_opening_makes_no_request(server):
    with RemoteFile.open_http(f"{server.url}/object.bin", nbytes=DATA.size) as f:
        assert f.nbytes() == DATA.size and server.requests == []
        out = np.zeros(1000, "u1")
        assert f.read(out, file_offset=500) == 1000
        np.testing.assert_array_equal(out, DATA[500:1500])
    with (
        RemoteFile.open_http(f"{server.url}/object.bin", nbytes=DATA.size - 1) as f,
        pytest.raises(damacy.StorageError, match="nbytes is 10000018, but the object has 10000019 bytes") as caught,
    ):
        f.read(bytearray(10))
    assert caught.value.reason == "changed"


def test_an_empty_object_has_no_bytes(server):
    with RemoteFile.open_http(f"{server.url}/empty.bin") as f:
        assert f.nbytes() == 0 and f.read(bytearray(10)) == 0


def test_requests_have_the_task_size_and_several_are_under_way(server):
    """Three requests are answered when all of them have arrived."""
    met, alone = threading.Barrier(3), []

    def meet(request, answer):
        if request.number <= 3:
            try:
                met.wait(10)
            except threading.BrokenBarrierError:
                alone.append(request.range)

    with RemoteFile.open_http(f"{server.url}/object.bin") as f:
        server.reset(meet)
        out = np.zeros_like(DATA)
        assert f.read(out, task_size=1 << 20) == DATA.size
        np.testing.assert_array_equal(out, DATA)
    ranges = sorted(request.range for request in server.requests)
    assert [first for first, _ in ranges] == [max(begin, 1) for begin in range(0, DATA.size, 1 << 20)]
    assert len(server.requests) == 10 and not alone


def test_futures_lists_of_buffers_and_packed_ranges(server):
    with RemoteFile.open_http(f"{server.url}/object.bin") as f:
        futures = [(begin, out, f.pread(out, file_offset=begin)) for begin in range(0, 10_000_000, 999_983)
                   for out in [np.zeros(5000, "u1")]]  # fmt: skip
        for begin, out, future in futures:
            assert future.get() == min(5000, DATA.size - begin)
            np.testing.assert_array_equal(out[: DATA.size - begin], DATA[begin : begin + 5000])
        one, two = bytearray(10), bytearray(20)
        assert f.read([one, two], file_offset=100) == 30
        assert bytes(one + two) == DATA[100:130].tobytes()
        sizes, offsets = np.array([10, 0, 100, 7], "i8"), np.array([0, 5, DATA.size - 50, 9999], "i8")
        packed = bytearray(117)
        future = f.preadv_packed(packed, sizes, offsets)
        assert future.get() == 67 and future.counts() == [10, 0, 50, 7]
        assert bytes(packed[:60]) == DATA[:10].tobytes() + DATA[-50:].tobytes()
        assert bytes(packed[110:]) == DATA[9999:10006].tobytes()
        with pytest.raises(ShortReadError) as caught:
            f.preadv_packed(packed, sizes, offsets, exact=True).get()
        assert caught.value.range_index == 2

        async def read() -> int:
            return await f.pread(packed)

        assert asyncio.run(read()) == 117


def test_arguments_are_checked_before_any_request(server):
    with RemoteFile.open_http(f"{server.url}/object.bin", nbytes=5) as f:
        with pytest.raises(ValueError, match="Size is greater than the size of the buffer"):
            f.read(bytearray(4), 5)
        with pytest.raises(OverflowError, match="negative value"):
            f.read(bytearray(4), file_offset=-1)
        with pytest.raises(ValueError, match="read-only"):
            f.read(b"abcd")
        with pytest.raises(TypeError):
            f.read(3)
    for wrong in (-1, 1 << 63):
        with pytest.raises(ValueError, match="nbytes"):
            RemoteFile.open_http(f"{server.url}/object.bin", nbytes=wrong)
    assert server.requests == []


def test_a_closed_file_refuses_reads(server):
    f = RemoteFile.open_http(f"{server.url}/object.bin")
    assert not f.closed
    f.close()
    f.close()
    assert f.closed and "closed" in repr(f)
    with pytest.raises(ClosedFileError):
        f.read(bytearray(1))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("fault", [cut(1000), cut(0, reset=True), status("503 Slow Down", Retry_After="0")],
                         ids=["cut", "reset", "503"])  # fmt: skip
def test_a_fault_that_passes_is_not_seen(server, fault):
    with RemoteFile.open_http(f"{server.url}/object.bin") as f:
        server.reset({1: fault, 3: fault})
        out = np.zeros_like(DATA)
        assert f.read(out) == DATA.size
        np.testing.assert_array_equal(out, DATA)


def test_errors_are_those_of_remote_stores(server):
    with pytest.raises(damacy.NotFound, match=r"nothing\.bin: there is no such object") as absent:
        RemoteFile.open_http(f"{server.url}/nothing.bin")
    assert absent.value.reason == "no-object"
    with RemoteFile.open_http(f"{server.url}/object.bin") as f:
        server.reset(header("ETag", '"other"'))
        with pytest.raises(damacy.StorageError, match="not the version that was opened") as caught:
            f.read(bytearray(10))
        assert caught.value.reason == "changed"
        server.reset(status("403 Forbidden"))
        with pytest.raises(damacy.StorageError) as caught:
            f.pread(np.zeros(9_000_000, "u1")).get()
        assert (caught.value.reason, caught.value.http_status) == ("denied", 403)
        server.reset()
        out = bytearray(10)
        assert f.read(out) == 10 and bytes(out) == DATA[:10].tobytes()


def test_the_settings_of_http_take_effect(server):
    server.reset(status("503 Slow Down", Retry_After="0"))
    with damacy.defaults.set({"http_max_attempts": 2}), pytest.raises(damacy.StorageError, match="2 attempts"):
        RemoteFile.open_http(f"{server.url}/object.bin")
    server.reset(status("503 Slow Down", Retry_After="0"))
    with damacy.defaults.set({"http_status_codes": [418]}), pytest.raises(damacy.StorageError) as caught:
        RemoteFile.open_http(f"{server.url}/object.bin")
    assert caught.value.attempts == 1
    server.reset({1: status("418 Teapot")})
    with damacy.defaults.set({"http_status_codes": [418]}), RemoteFile.open_http(f"{server.url}/object.bin") as f:
        assert f.nbytes() == DATA.size
    server.reset(status("503 Slow Down", Retry_After="0"))
    with damacy.defaults.set({"http_max_attempts": 2}), pytest.raises(damacy.StorageError, match="3 attempts"):
        RemoteFile.open_url(f"{server.url}/object.bin", damacy.StoreOptions(attempts=3))


def test_a_query_is_sent_and_not_shown(server):
    url = f"{server.url}/object.bin?X-Amz-Signature=hunter2"
    (server.folder / "object.bin?X-Amz-Signature=hunter2").write_bytes(b"0123456789")
    assert infer_remote_endpoint_type(url) == RemoteEndpointType.S3_PRESIGNED_URL
    with RemoteFile.open(url) as f:
        assert f.remote_endpoint_type() == RemoteEndpointType.S3_PRESIGNED_URL
        out = bytearray(10)
        assert f.read(out) == 10 and bytes(out) == b"0123456789"
        assert "hunter2" not in repr(f) + f.name
        server.reset(status("403 Forbidden"))
        with pytest.raises(damacy.StorageError) as caught:
            f.read(out)
        assert "hunter2" not in str(caught.value) + repr(vars(caught.value))
    assert {request.method for request in server.requests} == {"GET"}


def test_percent_encoding_is_kept(server):
    with RemoteFile.open_http(f"{server.url}/a%20b%252F.bin") as f:
        assert f.nbytes() == 100


@pytest.mark.parametrize(
    "url, kind",
    [
        ("s3://bucket/key", "S3"),
        ("https://bucket.s3.eu-west-1.amazonaws.com/key", "S3"),
        ("https://s3.amazonaws.com/bucket/key", "S3"),
        ("https://host/key?X-Amz-Signature=1", "S3_PRESIGNED_URL"),
        ("http://host:50070/webhdfs/v1/file", "WEBHDFS"),
        ("https://host/file", "HTTP"),
    ],
)
def test_kinds_are_inferred(url, kind):
    assert infer_remote_endpoint_type(url) == RemoteEndpointType[kind]


def test_what_is_not_supported_is_refused(server):
    with pytest.raises(RuntimeError, match="WebHDFS is not supported"):
        RemoteFile.open("http://host/webhdfs/v1/file")
    with pytest.raises(damacy.InvalidArgument, match="allowed are S3, S3_PUBLIC"):
        RemoteFile.open(f"{server.url}/object.bin", allow_list=[RemoteEndpointType.S3, RemoteEndpointType.S3_PUBLIC])
    with pytest.raises(damacy.InvalidArgument, match="open a path as a CuFile"):
        RemoteFile.open_url("/tmp/file")
    with pytest.raises(damacy.InvalidArgument, match="names no object"):
        RemoteFile.open_url("s3://bucket")
    with pytest.raises(damacy.InvalidArgument, match="ftp"):
        RemoteFile.open("ftp://host/file")
    with pytest.raises(damacy.InvalidArgument, match="user info"):
        RemoteFile.open_http("http://user:hunter2@host/file")
    assert remote_file.is_remote_file_available()


def test_objects_of_s3(tmp_path):
    (tmp_path / "bucket/a").mkdir(parents=True)
    DATA[:1000].tofile(tmp_path / "bucket/a/key")
    with S3Server(tmp_path, {"AKIDEXAMPLE": "secret"}) as server:
        arguments = {
            "aws_region_name": "us-east-1",
            "aws_access_key_id": "AKIDEXAMPLE",
            "aws_secret_access_key": "secret",
            "aws_endpoint_url": server.url,
        }
        for f in (
            RemoteFile.open_s3("bucket", "a/key", **arguments),
            RemoteFile.open_s3_url("s3://bucket/a/key", **arguments),
            RemoteFile.open_s3_url(f"{server.url}/bucket/a/key", **arguments | {"aws_endpoint_url": None}),
        ):
            out = bytearray(1000)
            assert f.read(out) == 1000 and bytes(out) == DATA[:1000].tobytes()
            assert f.remote_endpoint_type() == RemoteEndpointType.S3
        with pytest.raises(damacy.StorageError) as caught:
            RemoteFile.open_s3("bucket", "a/key", **arguments | {"aws_secret_access_key": "wrong"})
        assert caught.value.reason == "denied"


def test_a_mounted_store_has_files(tmp_path):
    memory = pytest.importorskip("obstore.store").MemoryStore()
    memory.put("a/key", DATA[:5000].tobytes())
    damacy.mount("store://files/", memory)
    with RemoteFile.open_url("store://files/a/key") as f:
        out = bytearray(6000)
        assert f.nbytes() == 5000 and f.read(out) == 5000 and bytes(out[:5000]) == DATA[:5000].tobytes()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("call", ["f.read(out)", "f.pread(out).get()", "RemoteFile.open_http(url)"])
def test_ctrl_c_ends_a_read_at_once(server, call):
    server.reset({number: silent for number in range(2, 100)})
    program = textwrap.dedent(
        f"""
        import _thread, signal, threading, time
        from damacy.remote_file import RemoteFile
        signal.signal(signal.SIGINT, signal.default_int_handler)
        url = "{server.url}/object.bin"
        f, out = RemoteFile.open_http(url), bytearray(9_000_000)
        begin = time.monotonic()
        try:
            threading.Timer(0.5, _thread.interrupt_main).start()
            {call}
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - begin < 10)  # no first byte ends it after 20 s
        """
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert ran.stdout == "interrupted True\n", ran.stdout + ran.stderr


@pytest.mark.timeout(60)
def test_a_cancelled_future_lands_no_byte(server):
    with RemoteFile.open_http(f"{server.url}/object.bin") as f:
        server.reset(silent)
        out = np.zeros(9_000_000, "u1")
        future = f.pread(out, task_size=1 << 20)
        assert future.cancel()
        with pytest.raises(Exception, match="cancelled"):
            future.get(timeout=10)
        assert future.cancelled() and not out[1:].any()  # the first byte came with the size


def test_in_a_forked_child_a_new_file_reads(server):
    program = textwrap.dedent(
        f"""
        import os
        from damacy.remote_file import RemoteFile
        url = "{server.url}/object.bin"
        f, out = RemoteFile.open_http(url), bytearray(100)
        assert f.read(out) == 100
        child = os.fork()
        if child == 0:
            assert RemoteFile.open_http(url).read(out) == 100
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert f.read(out) == 100
        """
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30, env=os.environ)
