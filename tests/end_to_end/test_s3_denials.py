"""What an answer 403 of S3 means: an absent key where the mount says so, and a refusal in all other cases."""

import datetime

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support.fault_server import status  # noqa: E402
from support.s3_server import S3Server, another_name  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_aws")
KEY, SECRET = "AKIDEXAMPLE0123456789", "hunter2/SECRET+key"
KEYS = {"access_key_id": KEY, "secret_access_key": SECRET}
DATA = np.arange(200_000, dtype="u1").reshape(2, 100_000)


@pytest.fixture
def server(tmp_path):
    bucket = tmp_path / "bucket"
    sparse = zarr.create_array(bucket / "sparse.zarr", shape=(2, 100_000), chunks=(1, 100_000), dtype="u1",
                               compressors=None, fill_value=9)  # fmt: skip
    sparse[:1] = DATA[:1]
    old = zarr.create_array(bucket / "old" / "a", data=DATA, chunks=(1, 100_000), zarr_format=2, fill_value=9)
    assert old.metadata.zarr_format == 2
    (bucket / "old" / ".zgroup").write_text('{"zarr_format": 2}')
    with S3Server(tmp_path, keys={KEY: SECRET}) as server:
        server.may_list = False
        yield server


@pytest.fixture
def mounted(server):
    """Mounts another name of the bucket."""

    def mount(**fields):
        name = another_name(server.folder)
        server.public |= {name} if server.public else set()
        return damacy.mount(f"s3://{name}/", damacy.StoreOptions(endpoint=server.url, region="us-east-1", **fields))

    return mount


FILLED = np.concatenate([DATA[:1], np.full((1, 100_000), 9, "u1")])


def test_a_denied_chunk_is_fill_where_the_mount_says_so(mounted):
    uri = mounted(**KEYS, absent_status=(403, 404))
    np.testing.assert_array_equal(damacy.open_array(f"{uri}sparse.zarr")[:], FILLED)


@pytest.mark.parametrize(
    "code", ["InvalidAccessKeyId", "SignatureDoesNotMatch", "AccountProblem", "RequestTimeTooSkewed", "NotSignedUp", ""]
)
def test_another_refusal_is_never_fill(mounted, server, code):
    array = damacy.open_array(f"{mounted(**KEYS, absent_status=(403, 404))}sparse.zarr")
    body = f"<Error><Code>{code}</Code></Error>" if code else "<html>Forbidden</html>"
    server.reset(status("403 Forbidden", body.encode()))
    with pytest.raises(damacy.StorageError, match=f"GET 403 {code}".strip()) as caught:
        array[:]
    assert caught.value.reason == "denied"


def test_a_denial_without_a_body_is_fill_where_the_mount_says_so(mounted, server):
    array = damacy.open_array(f"{mounted(**KEYS, absent_status=(403, 404))}sparse.zarr")
    np.testing.assert_array_equal(array[:1], DATA[:1])
    server.reset(status("403 Forbidden"))
    assert (array[1:] == 9).all()


@pytest.mark.parametrize(("line", "code"), [("403 Forbidden", "InvalidAccessKeyId"), ("404 Not Found", "NoSuchBucket")])
def test_a_refusal_whose_body_was_cut_is_asked_for_again(mounted, server, line, code):
    """The body would say that it is not an absent key."""
    array = damacy.open_array(f"{mounted(**KEYS, absent_status=(403, 404))}sparse.zarr")
    np.testing.assert_array_equal(array[:1], DATA[:1])
    refuse = status(line, f"<Error><Code>{code}</Code></Error>".encode())

    def refuse_and_cut(request, answer):
        refuse(request, answer)
        answer.cut = 0

    server.reset({1: refuse_and_cut, 2: refuse})
    with pytest.raises(damacy.StorageError, match=f"GET {line[:3]} {code}"):
        array[1:]
    assert len(server.requests) == 2


def test_a_refusal_whose_body_is_always_cut_is_never_fill(mounted, server):
    array = damacy.open_array(f"{mounted(**KEYS, absent_status=(403, 404), deadline_s=2)}sparse.zarr")
    np.testing.assert_array_equal(array[:1], DATA[:1])

    def refuse_and_cut(request, answer):
        status("403 Forbidden", b"<Error><Code>AccessDenied</Code></Error>")(request, answer)
        answer.cut = 5

    server.reset(refuse_and_cut)
    with pytest.raises(damacy.StorageError, match="GET 403, whose body ended early") as caught:
        array[1:]
    assert caught.value.reason == "io"


def test_a_denial_without_a_body_of_a_token_past_its_time_is_never_fill(mounted, server):
    late = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=10)
    uri = mounted(credentials=lambda: {**KEYS, "token": None, "expires_at": late}, absent_status=(403, 404))
    array = damacy.open_array(f"{uri}sparse.zarr")
    np.testing.assert_array_equal(array[:1], DATA[:1])
    server.reset(status("403 Forbidden"))
    with pytest.raises(damacy.StorageError) as caught:
        array[1:]
    assert caught.value.reason == "denied"


def test_a_denial_of_a_token_past_its_time_is_never_fill(mounted, server):
    late = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=10)
    uri = mounted(credentials=lambda: {**KEYS, "token": None, "expires_at": late}, absent_status=(403, 404))
    with pytest.raises(damacy.StorageError) as caught:
        damacy.open_array(f"{uri}sparse.zarr")[:]
    assert caught.value.reason == "denied"


def test_unsigned_requests_are_denied_what_is_absent(mounted, server):
    """By choice that is as good as signed; for want of credentials it is not."""
    server.public.add("any")
    array = damacy.open_array(f"{mounted(anonymous=True)}sparse.zarr")
    with pytest.raises(damacy.StorageError, match=r"the key may be absent: .* absent_status=\(403, 404\)"):
        array[:]
    np.testing.assert_array_equal(
        damacy.open_array(f"{mounted(anonymous=True, absent_status=(403, 404))}sparse.zarr")[:], FILLED
    )
    array = damacy.open_array(f"{mounted(absent_status=(403, 404))}sparse.zarr")
    with pytest.raises(damacy.StorageError, match="the request was unsigned; no credentials in: .* anonymous=True"):
        array[:]


def test_documents_of_version_2_are_found_where_absent_keys_are_denied(mounted, server):
    uri = mounted(**KEYS, absent_status=(403, 404))
    array = damacy.open_array(f"{uri}old/a")
    asked = [request.path.rpartition("/")[2] for request in server.requests]
    assert asked.count("zarr.json") == asked.count(".zarray") == 1
    np.testing.assert_array_equal(array[:], DATA)
    np.testing.assert_array_equal(damacy.open_group(f"{uri}old")["a"][:], DATA)


def test_a_node_without_any_document_is_denied(mounted):
    uri = mounted(**KEYS, absent_status=(403, 404))
    with pytest.raises(damacy.StorageError, match="absent_status counts for a document only where another one is"):
        damacy.open_array(f"{uri}nothing.zarr")
    with pytest.raises(damacy.StorageError, match=r"or mount with absent_status=\(403, 404\)"):
        damacy.open_array(f"{mounted(**KEYS)}old/a")


def test_a_bucket_that_is_elsewhere_is_named(mounted, server):
    body = b"<Error><Code>PermanentRedirect</Code><Endpoint>elsewhere.example</Endpoint></Error>"
    server.reset(status("301 Moved Permanently", body))
    with pytest.raises(damacy.StorageError, match="GET 301 PermanentRedirect: .* at elsewhere.example") as caught:
        damacy.open_array(f"{mounted(**KEYS)}old/a")
    assert caught.value.reason == "redirect"


def test_region_and_clock_are_both_put_right(mounted, server):
    """One after the other, of the same read."""
    server.may_list, server.region, server.clock_offset = True, "eu-west-3", -86_400.0
    np.testing.assert_array_equal(damacy.open_array(f"{mounted(**KEYS)}old/a")[:], DATA)
