"""Arrays in Google Cloud Storage by its S3 interface, from the test server that checks each signature: what is read
equals the local array, credentials are those of Google's variables, and no text has a secret."""

import os

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support.s3_server import S3Server, another_name  # noqa: E402

KEY, SECRET = "GOOG1EXAMPLE0123456789", "hunter2/SECRET+key"
DATA = np.random.default_rng(0).integers(0, 60000, (32, 80, 80), dtype="u2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("buckets")
    zarr.create_array(folder / "scans" / "plain.zarr", data=DATA, chunks=(16, 80, 80))
    zarr.create_array(folder / "scans" / "group" / "sharded.zarr", data=DATA, chunks=(8, 40, 40), shards=(16, 80, 80))
    zarr.open_group(folder / "scans" / "group", mode="a")
    return folder


@pytest.fixture(autouse=True)
def variables(monkeypatch):
    """Those of AWS are there, and do not count."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "GS_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE0123456789")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of AWS")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    monkeypatch.setenv("AWS_NO_SIGN_REQUEST", "true")


@pytest.fixture
def bucket(folder):
    return another_name(folder, "scans")


@pytest.fixture
def server(folder):
    with S3Server(folder, keys={KEY: SECRET}, region="auto") as server:
        yield server


def mount(server, bucket, **fields):
    damacy.mount(f"gs://{bucket}/", damacy.StoreOptions(endpoint=server.url, **fields))


def read(uri):
    np.testing.assert_array_equal(np.asarray(damacy.open_array(uri).read()), DATA)


def failure(uri):
    with pytest.raises(damacy.StorageError) as caught:
        read(uri)
    assert "hunter2" not in str(caught.value) and str(caught.value).count(uri) == 1
    return caught.value


def test_requests_are_signed_for_the_region_auto_and_nothing_asks_for_it(server, bucket):
    mount(server, bucket, access_key_id=KEY, secret_access_key=SECRET)
    read(f"gs://{bucket}/plain.zarr")
    assert [damacy.open(f"gs://{bucket}/group")["sharded.zarr"].shape] == [DATA.shape]
    assert {request.method for request in server.requests} == {"GET"}
    assert all("/auto/s3/aws4_request" in request.headers["authorization"] for request in server.requests)
    assert all(request.target.startswith(f"/{bucket}") for request in server.requests)


def test_a_stream_equals_the_local_array(server, bucket):
    mount(server, bucket, access_key_id=KEY, secret_access_key=SECRET)
    config = damacy.Config(
        batch_size=2, device="cpu", dtype="u16", host_buffer_bytes=64 << 20, device_buffer_bytes=64 << 20
    )
    with damacy.Pipeline(config) as pipeline:
        uri = f"gs://{bucket}/group/sharded.zarr"
        pipeline.push([damacy.Sample(uri, [(i, i + 16), (2 * i, 2 * i + 40), (3, 60)]) for i in range(4)])
        for batch in pipeline:
            with batch as b:
                for row, sample in zip(b.numpy(), b.samples, strict=True):
                    np.testing.assert_array_equal(row, DATA[tuple(slice(*axis) for axis in sample.aabb)])


def test_a_file_of_a_bucket_is_read(server, bucket, folder):
    mount(server, bucket, access_key_id=KEY, secret_access_key=SECRET)
    expected = (folder / "scans/plain.zarr/zarr.json").read_bytes()
    got = np.zeros(len(expected), "u1")
    with damacy.RemoteFile.open_url(f"gs://{bucket}/plain.zarr/zarr.json") as file:
        assert file.read(got) == len(expected)
    assert got.tobytes() == expected


def test_the_variables_of_google_have_the_key(server, bucket, monkeypatch):
    monkeypatch.setenv("GS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("GS_SECRET_ACCESS_KEY", SECRET)
    mount(server, bucket)
    read(f"gs://{bucket}/plain.zarr")


@pytest.mark.parametrize("how", ["nothing", "option", "variable"])
def test_a_public_bucket_is_read_without_signatures(server, bucket, monkeypatch, how):
    server.public.add(bucket)
    if how == "variable":
        monkeypatch.setenv("GS_NO_SIGN_REQUEST", "true")
    if how != "nothing":
        monkeypatch.setenv("GS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("GS_SECRET_ACCESS_KEY", SECRET)
    mount(server, bucket, anonymous=True if how == "option" else None)
    read(f"gs://{bucket}/plain.zarr")
    assert not any("authorization" in request.headers for request in server.requests)


def test_a_private_bucket_says_which_credentials_were_looked_for(server, bucket):
    mount(server, bucket)
    error = failure(f"gs://{bucket}/plain.zarr")
    assert error.reason == "denied"
    assert "the request was unsigned; no credentials in: options, environment" in str(error)
    assert "AWS" not in str(error)


def test_credentials_may_be_required(server, bucket):
    mount(server, bucket, anonymous=False)
    assert failure(f"gs://{bucket}/plain.zarr").reason == "credentials"
    assert not server.requests


def test_half_a_key_in_the_environment_is_an_error(server, bucket, monkeypatch):
    monkeypatch.setenv("GS_ACCESS_KEY_ID", KEY)
    mount(server, bucket)
    error = failure(f"gs://{bucket}/plain.zarr")
    assert error.reason == "credentials"
    assert "the environment has GS_ACCESS_KEY_ID without GS_SECRET_ACCESS_KEY" in str(error)


def test_a_wrong_secret_is_denied(server, bucket):
    mount(server, bucket, access_key_id=KEY, secret_access_key="hunter2/other")
    error = failure(f"gs://{bucket}/plain.zarr")
    assert error.reason == "denied"
    assert "zarr.json: GET 403 SignatureDoesNotMatch, request REQ" in str(error)


def test_an_absent_key_of_a_bucket_that_may_not_be_listed_names_the_permission(server, bucket):
    server.may_list = False
    mount(server, bucket, access_key_id=KEY, secret_access_key=SECRET)
    with pytest.raises(damacy.StorageError, match=r"Google Cloud Storage says so for keys it does not have"):
        damacy.open_array(f"gs://{bucket}/nothing.zarr")


def test_a_bucket_that_is_not_there_is_named(server):
    mount(server, "no-such-bucket", access_key_id=KEY, secret_access_key=SECRET)
    error = failure("gs://no-such-bucket/plain.zarr")
    assert error.reason == "http" and "there is no bucket no-such-bucket" in str(error)
