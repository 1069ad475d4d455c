"""Arrays in S3, from a server that checks each signature by itself: what is read equals the local array, errors name
what the service said, and no text has a secret."""

import datetime
import json
import os
import pathlib
import subprocess
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer, header, status  # noqa: E402
from support.s3_server import S3Server, another_name  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_aws")
KEY, SECRET, TOKEN = "AKIDEXAMPLE0123456789", "hunter2/SECRET+key", "hunter2-session-token=="
SHAPE = (32, 80, 80)
DATA = np.random.default_rng(0).integers(0, 60000, SHAPE, dtype="u2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("buckets")
    bucket = folder / "bucket"
    zarr.create_array(bucket / "plain.zarr", data=DATA, chunks=(16, 80, 80))
    zarr.create_array(bucket / "sharded.zarr", data=DATA, chunks=(8, 40, 40), shards=(16, 80, 80))
    zarr.create_array(bucket / "odd (name)" / "a b+c=d&é%2F.zarr", data=DATA, chunks=(16, 80, 80))
    sparse = zarr.create_array(bucket / "sparse.zarr", shape=SHAPE, chunks=(16, 80, 80), dtype="u2", fill_value=7)
    sparse[:16] = DATA[:16]
    group = zarr.create_group(bucket / "group")
    for name in ("one", "two", "three"):
        group.create_array(name, data=DATA[:16], chunks=(16, 80, 80))
    return folder


@pytest.fixture
def bucket(folder):
    return another_name(folder)


@pytest.fixture
def server(folder):
    with S3Server(folder, keys={KEY: SECRET}) as server:
        yield server


def options(server, **fields):
    keys = {"access_key_id": KEY, "secret_access_key": SECRET}
    return damacy.StoreOptions(**{"endpoint": server.url, **keys, **fields})


def read(uri, expected=DATA):
    got = np.asarray(damacy.open_array(uri).read())
    np.testing.assert_array_equal(got, expected)


def check_stream(uri):
    config = damacy.Config(
        batch_size=2, device="cpu", dtype="u16", host_buffer_bytes=64 << 20, device_buffer_bytes=64 << 20
    )
    with damacy.Pipeline(config) as pipeline:
        pipeline.push([damacy.Sample(uri, [(i, i + 16), (2 * i, 2 * i + 40), (3, 60)]) for i in range(4)])
        for batch in pipeline:
            with batch as b:
                for row, sample in zip(b.numpy(), b.samples, strict=True):
                    np.testing.assert_array_equal(row, DATA[tuple(slice(*axis) for axis in sample.aabb)])


def failure(uri):
    with pytest.raises(damacy.DamacyError) as caught:
        read(uri)
    assert SECRET not in str(caught.value) and TOKEN not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("name", ["plain.zarr", "sharded.zarr", "odd (name)/a b+c=d&é%2F.zarr"])
def test_signed_requests_read_what_is_stored(server, bucket, name):
    damacy.mount(f"s3://{bucket}/", options(server))
    read(f"s3://{bucket}/{name}")
    check_stream(f"s3://{bucket}/{name}")
    assert all("authorization" in request.headers for request in server.requests if request.method == "GET")


def test_absent_chunks_are_fill(server, bucket):
    damacy.mount(f"s3://{bucket}/", options(server))
    expected = DATA.copy()
    expected[16:] = 7
    read(f"s3://{bucket}/sparse.zarr", expected)


def test_the_environment_needs_no_mount(server, bucket, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    server.token = TOKEN
    read(f"s3://{bucket}/sharded.zarr")


def test_a_public_bucket_is_read_without_signatures(server, bucket):
    server.public.add(bucket)
    damacy.mount(f"s3://{bucket}/", damacy.StoreOptions(endpoint=server.url))
    read(f"s3://{bucket}/plain.zarr")
    assert not any("authorization" in request.headers for request in server.requests)


def test_the_bucket_is_in_the_name_of_the_host_with_virtual_addressing(server, bucket):
    url = server.url.replace("127.0.0.1", "localhost")
    damacy.mount(f"s3://{bucket}/", options(server, endpoint=url, addressing="virtual"))
    try:
        read(f"s3://{bucket}/plain.zarr")
    except damacy.StorageError as error:
        if error.reason == "dns":
            pytest.skip("this libcurl does not know that *.localhost is this machine")
        raise
    assert server.requests[-1].headers["host"].startswith(f"{bucket}.localhost:")


def test_a_group_lists_its_arrays_page_by_page(server, bucket):
    server.page = 2
    damacy.mount(f"s3://{bucket}/", options(server))
    group = damacy.open(f"s3://{bucket}/group")
    assert sorted(group.keys()) == ["one", "three", "two"]
    assert sum("continuation-token" in request.target for request in server.requests) > 0
    np.testing.assert_array_equal(np.asarray(group["two"].read()), DATA[:16])


def test_the_region_is_what_the_bucket_says(folder, bucket):
    with S3Server(folder, keys={KEY: SECRET}, region="eu-west-3") as server:
        damacy.mount(f"s3://{bucket}/", options(server))
        read(f"s3://{bucket}/plain.zarr")
        assert sum(request.method == "HEAD" for request in server.requests) == 1
        assert all("/eu-west-3/" in each.headers["authorization"] for each in server.requests if each.method == "GET")


def test_a_wrong_region_is_corrected_once(folder, bucket):
    with S3Server(folder, keys={KEY: SECRET}, region="eu-west-3") as server:
        damacy.mount(f"s3://{bucket}/", options(server, region="us-west-2"))
        read(f"s3://{bucket}/plain.zarr")
        assert sum("/us-west-2/" in each.headers["authorization"] for each in server.requests) == 1


@pytest.mark.parametrize("line", ["301 Moved Permanently", "307 Temporary Redirect"])
@pytest.mark.parametrize("region", ["eu-west-3", None])
def test_a_redirect_of_a_bucket_is_followed_by_its_region_only(folder, bucket, line, region):
    """The request is signed anew for the region that the answer names. Where its Location leads gets no request."""
    with S3Server(folder, keys={KEY: SECRET}, region="eu-west-3") as server, S3Server(folder) as other:
        more = {"x_amz_bucket_region": region} if region else {}

        def moved(request, answer):
            if "/us-west-2/" in request.headers.get("authorization", ""):
                status(line, Location=f"{other.url}{request.target}", **more)(request, answer)

        server.reset(moved)
        damacy.mount(f"s3://{bucket}/", options(server, region="us-west-2"))
        if region:
            read(f"s3://{bucket}/plain.zarr")
        else:
            assert failure(f"s3://{bucket}/plain.zarr").reason == "redirect"
        assert sum("/us-west-2/" in request.headers["authorization"] for request in server.requests) == 1
        assert other.connections == 0


@pytest.mark.parametrize("offset_s", [-86_400.0, -3_600.0, 3_600.0, 86_400.0])
def test_a_clock_that_differs_is_corrected_once(server, bucket, offset_s):
    server.clock_offset = offset_s
    damacy.mount(f"s3://{bucket}/", options(server))
    read(f"s3://{bucket}/plain.zarr")
    server.reset()
    check_stream(f"s3://{bucket}/plain.zarr")


def test_a_wrong_secret_is_denied(server, bucket):
    damacy.mount(f"s3://{bucket}/", options(server, secret_access_key="hunter2/other"))
    error = failure(f"s3://{bucket}/plain.zarr")
    assert isinstance(error, damacy.StorageError) and error.reason == "denied"
    assert "zarr.json: GET 403 SignatureDoesNotMatch, request REQ" in str(error)
    assert "hunter2" not in str(error) and f"s3://{bucket}/plain.zarr" in str(error)


def test_an_unknown_key_is_denied(server, bucket):
    damacy.mount(f"s3://{bucket}/", options(server, access_key_id="AKIDOTHER"))
    assert "InvalidAccessKeyId" in str(failure(f"s3://{bucket}/plain.zarr"))


def test_unsigned_requests_that_are_denied_say_what_was_tried(server, bucket):
    damacy.mount(f"s3://{bucket}/", damacy.StoreOptions(endpoint=server.url))
    text = str(failure(f"s3://{bucket}/plain.zarr"))
    assert "GET 403 AccessDenied, request REQ" in text and "denied)" in text
    assert (
        "the request was unsigned; no credentials in: options, environment, web identity, profile 'default', "
        "container, instance metadata (disabled)"
    ) in text


def test_an_absent_key_without_permission_to_list_is_an_error_that_says_why(server, bucket, folder):
    server.may_list = False
    damacy.mount(f"s3://{bucket}/", options(server))
    with pytest.raises(damacy.StorageError, match="the key may be absent: S3 says so .* absent_status=.403, 404."):
        read(f"s3://{bucket}/sparse.zarr")
    (folder / "forgiving").symlink_to("bucket")
    damacy.mount("s3://forgiving/", options(server, absent_status=(403, 404)))
    expected = DATA.copy()
    expected[16:] = 7
    read("s3://forgiving/sparse.zarr", expected)
    with pytest.raises(damacy.StorageError, match="AccessDenied"):
        read("s3://forgiving/absent.zarr")  # documents are never absent by 403


def test_absent_arrays_and_buckets(server, bucket):
    damacy.mount(f"s3://{bucket}/", options(server))
    damacy.mount("s3://nowhere/", options(server))
    with pytest.raises(damacy.NotFound):
        read(f"s3://{bucket}/absent.zarr")
    with pytest.raises(damacy.StorageError, match="404 NoSuchBucket, request .*: there is no bucket nowhere"):
        read("s3://nowhere/absent.zarr")


def test_an_object_that_changes_is_an_error(server, bucket):
    damacy.mount(f"s3://{bucket}/", options(server))
    array = damacy.open_array(f"s3://{bucket}/plain.zarr")

    def change(request, answer):
        if "/c/" in request.target and request.range and request.range[0] > 0:
            answer.headers["ETag"] = '"other"'

    server.reset(change)
    with pytest.raises(damacy.StorageError) as caught:
        array.read()
    assert caught.value.reason == "changed"


def test_throttled_and_broken_answers_are_repeated(server, bucket):
    damacy.mount(f"s3://{bucket}/", options(server))
    slow = status("503 Slow Down", b"<Error><Code>SlowDown</Code></Error>", Retry_After="0")
    server.reset({1: slow, 3: status("500 Internal Error"), 4: header("Content-Range", "bytes 1-2/3")})
    read(f"s3://{bucket}/plain.zarr")


def test_repeats_end_with_the_code_of_the_service(server, bucket):
    damacy.mount(f"s3://{bucket}/", options(server, attempts=2))
    server.reset(status("503 Slow Down", b"<Error><Code>SlowDown</Code></Error>", Retry_After="0"))
    error = failure(f"s3://{bucket}/plain.zarr")
    assert error.reason == "throttled" and "GET 503 SlowDown, 2 attempts" in str(error)


# -- credentials --


def expiring(token, seconds, **more):
    when = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
    return {"access_key_id": KEY, "secret_access_key": SECRET, "token": token, "expires_at": when, **more}


def test_a_callable_runs_on_a_thread_of_its_own(server, bucket):
    names = []

    def ask():
        with open(f"/proc/self/task/{threading.get_native_id()}/comm") as name:
            names.append(name.read().strip())
        return {"access_key_id": KEY, "secret_access_key": SECRET}

    damacy.mount(f"s3://{bucket}/", damacy.StoreOptions(endpoint=server.url, region="us-east-1", credentials=ask))
    read(f"s3://{bucket}/plain.zarr")
    assert names == ["damacy-ask"]


def test_a_callable_is_asked_once_while_its_credentials_are_valid(server, bucket):
    calls = []

    def provider():
        calls.append(threading.current_thread().name)
        return expiring(TOKEN, 3600)

    server.token = TOKEN
    keyless = damacy.StoreOptions(endpoint=server.url, credentials=provider)
    damacy.mount(f"s3://{bucket}/", keyless)
    read(f"s3://{bucket}/sharded.zarr")
    check_stream(f"s3://{bucket}/plain.zarr")
    assert len(calls) == 1


def test_an_async_provider_is_awaited(server, bucket):
    async def provider():
        return {"access_key_id": KEY, "secret_access_key": SECRET, "token": None, "expires_at": None}

    damacy.mount(f"s3://{bucket}/", damacy.StoreOptions(endpoint=server.url, credentials=provider))
    read(f"s3://{bucket}/plain.zarr")


def test_a_token_that_is_refused_is_refreshed_once(server, bucket):
    tokens = iter(["old", TOKEN])
    server.token = "old"
    damacy.mount(
        f"s3://{bucket}/", damacy.StoreOptions(endpoint=server.url, credentials=lambda: expiring(next(tokens), 3600))
    )
    array = damacy.open_array(f"s3://{bucket}/plain.zarr")
    server.token = TOKEN  # the service no longer takes the old one
    np.testing.assert_array_equal(np.asarray(array.read()), DATA)


def test_a_token_that_stays_refused_is_an_error(server, bucket):
    server.token = TOKEN
    given = damacy.StoreOptions(endpoint=server.url, credentials=lambda: expiring("hunter2-wrong", 3600))
    damacy.mount(f"s3://{bucket}/", given)
    error = failure(f"s3://{bucket}/plain.zarr")
    assert error.reason == "denied" and "ExpiredToken" in str(error) and "hunter2" not in str(error)
    assert len(server.requests) <= 3


def test_credentials_that_expire_are_asked_for_again(server, bucket):
    calls = []

    def provider():
        calls.append(1)
        return expiring(None, 30)

    damacy.mount(f"s3://{bucket}/", damacy.StoreOptions(endpoint=server.url, credentials=provider))
    read(f"s3://{bucket}/plain.zarr")
    assert len(calls) >= 2


@pytest.mark.parametrize(
    ("provider", "text"),
    [
        (lambda: 1 / 0, "the credentials callable failed: ZeroDivisionError"),
        (lambda: None, "the credentials callable must return a dict .got NoneType."),
        (lambda: {"access_key_id": KEY}, "neither a key with its secret nor a token"),
        (lambda: {"token": "a\nb"}, "must return printable str values"),
    ],
)
def test_a_callable_that_fails_is_named(server, bucket, provider, text):
    damacy.mount(f"s3://{bucket}/", damacy.StoreOptions(endpoint=server.url, credentials=provider))
    with pytest.raises(damacy.StorageError, match=text) as caught:
        read(f"s3://{bucket}/plain.zarr")
    assert caught.value.reason == "credentials"


def test_profiles(server, bucket, tmp_path, monkeypatch):
    (tmp_path / "credentials").write_text(
        f"# keys\n[work]\naws_access_key_id = {KEY}\naws_secret_access_key={SECRET}\n[other]\naws_access_key_id=x\n"
    )
    (tmp_path / "config").write_text(
        f"[profile work]\nregion = us-east-1\nendpoint_url = {server.url}\ns3 =\n  addressing_style = path\n"
        "[profile login]\nsso_session = corp\n[profile tool]\ncredential_process = /bin/hunter2\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "work")
    read(f"s3://{bucket}/plain.zarr")
    monkeypatch.delenv("AWS_PROFILE")
    damacy.mount(f"s3://{bucket}/", damacy.StoreOptions(profile="work"))
    read(f"s3://{bucket}/plain.zarr")
    assert not any(request.method == "HEAD" for request in server.requests)
    for name, text in {
        "login": "profile 'login' uses sso_session: pass credentials=\"botocore\" .pip install botocore.",
        "tool": "profile 'tool' uses credential_process",
        "other": "profile 'other' has no aws_access_key_id and aws_secret_access_key",
        "none": "profile 'none' is in neither of the files of AWS",
    }.items():
        damacy.mount(f"s3://{bucket}/", damacy.StoreOptions(profile=name, endpoint=server.url))
        with pytest.raises(damacy.StorageError, match=text):
            read(f"s3://{bucket}/plain.zarr")


class Service(BaseHTTPRequestHandler):
    """Plays STS, a container's agent and the metadata of an instance."""

    def _send(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def _credentials(self):
        self._send(json.dumps({"Code": "Success", "AccessKeyId": KEY, "SecretAccessKey": SECRET, "Token": TOKEN,
                               "Expiration": self.server.expires}))  # fmt: skip

    def do_PUT(self):
        self.server.seen.append(self.path)
        assert self.headers["X-aws-ec2-metadata-token-ttl-seconds"] == "21600"
        self._send("metadata-token", self.server.status)

    def do_GET(self):
        self.server.seen.append(self.path)
        if self.path == "/container":
            assert self.headers["Authorization"] == "agent-token"
            self._credentials()
            return
        if self.headers["X-aws-ec2-metadata-token"] != "metadata-token":
            self._send("", 401)
        elif self.path == "/latest/meta-data/iam/security-credentials/":
            self._send("my role")
        elif self.path == "/latest/meta-data/iam/security-credentials/my%20role":
            self._credentials()
        else:
            self._send("", 404)

    def do_POST(self):
        self.server.seen.append(self.path)
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = dict(urllib.parse.parse_qsl(body))
        assert form["Action"] == "AssumeRoleWithWebIdentity" and form["WebIdentityToken"] == "web/token=="
        self._send(
            "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
            f"<AccessKeyId>{KEY}</AccessKeyId><SecretAccessKey>{SECRET}</SecretAccessKey>"
            f"<SessionToken>{TOKEN}</SessionToken><Expiration>{self.server.expires}</Expiration>"
            "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>",
            self.server.status,
        )

    def log_message(self, *_):
        pass


@pytest.fixture
def service():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    server.seen, server.status = [], 200
    server.expires = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)).strftime("%FT%TZ")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    server.server_close()


def chain(server, source, service, monkeypatch, tmp_path):
    """Sets what one link of the chain needs."""
    server.token = TOKEN
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1" if source == "web identity" else server.url[7:])
    if source == "web identity":
        (tmp_path / "token").write_text("web/token==\n")
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", service.url)
    elif source == "container":
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{service.url}/container")
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "agent-token")
    else:
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.url)


@pytest.mark.parametrize("source", ["web identity", "container", "instance metadata"])
def test_services_that_give_credentials(server, bucket, service, source, monkeypatch, tmp_path):
    chain(server, source, service, monkeypatch, tmp_path)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    read(f"s3://{bucket}/plain.zarr")
    assert len(service.seen) == (3 if source == "instance metadata" else 1)


@pytest.mark.parametrize("source", ["web identity", "instance metadata"])
def test_services_that_give_none(server, bucket, service, source, monkeypatch, tmp_path):
    chain(server, source, service, monkeypatch, tmp_path)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    service.status = 500
    text = str(failure(f"s3://{bucket}/plain.zarr"))
    if source == "web identity":
        assert "STS gave no credentials for the web identity: status 500" in text
    else:
        assert "instance metadata (status 500)" in text
        failure(f"s3://{bucket}/plain.zarr")
        assert len(service.seen) == 1  # once a process


def test_a_container_token_goes_to_no_other_host(server, bucket, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.org/steal")
    assert "is neither https nor an address of this machine" in str(failure(f"s3://{bucket}/plain.zarr"))


def test_credentials_are_required_where_the_options_say_so(server, bucket):
    damacy.mount(f"s3://{bucket}/", damacy.StoreOptions(endpoint=server.url, anonymous=False))
    error = failure(f"s3://{bucket}/plain.zarr")
    assert error.reason == "credentials" and "no credentials in: options, environment" in str(error)


# -- options for http(s) --


def test_headers_and_statuses_apply_to_http(server, bucket):
    server.public.add(bucket)
    root = f"{server.url}/{bucket}/"
    damacy.mount(root, damacy.StoreOptions(headers={"X-Key": "hunter2"}, absent_status=(403, 404)))
    read(f"{root}plain.zarr")
    read(f"{root}odd%20(name)/a%20b+c=d&%C3%A9%252F.zarr")
    assert all(request.headers["x-key"] == "hunter2" for request in server.requests)
    assert "hunter2" not in repr(damacy.mounts())
    server.reset(status("403 Forbidden"))
    with pytest.raises(damacy.NotFound):
        damacy.open_array(f"{root}absent.zarr")


def test_objects_without_a_version_are_read_where_the_options_allow_it(server, bucket):
    server.public.add(bucket)
    server.faults = header("ETag", None)
    root = f"{server.url}/{bucket}/"
    with pytest.raises(damacy.StorageError, match="could not be noticed"):
        read(f"{root}plain.zarr")
    damacy.mount(root, damacy.StoreOptions(allow_unversioned=True))
    read(f"{root}plain.zarr")


def test_secrets_go_over_http_to_this_machine_only():
    for given in (damacy.StoreOptions(headers=(("X-Key", "hunter2"),)), damacy.StoreOptions(bearer_token="hunter2")):
        with pytest.raises(damacy.InvalidArgument, match="goes over http only to this machine: use https") as caught:
            damacy.mount("http://127.example.org/", given)
        assert "hunter2" not in str(caught.value)
    with pytest.raises(damacy.InvalidArgument, match="StoreOptions.region: only for s3"):
        damacy.mount("https://example.org/", damacy.StoreOptions(region="eu-west-1"))
    with pytest.raises(damacy.InvalidArgument, match="options are mounted under a prefix of http"):
        damacy.mount("store://a/", damacy.StoreOptions())


def test_options_are_taken_by_open_and_sample(server, bucket):
    given, before = options(server), dict(damacy.mounts())
    np.testing.assert_array_equal(np.asarray(damacy.open_array(f"s3://{bucket}/plain.zarr", store=given).read()), DATA)
    sample = damacy.Sample(f"s3://{bucket}/plain.zarr", [(0, 1), (0, 1), (0, 1)], store=given)
    assert sample.uri == f"s3://{bucket}/plain.zarr"
    assert dict(damacy.mounts()).keys() - before == {f"s3://{bucket}/plain.zarr/"}


def test_commands_read_s3(server, bucket):
    environment = {
        **os.environ, "AWS_ENDPOINT_URL": server.url, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET
    }  # fmt: skip
    for arguments in (["info", f"s3://{bucket}/plain.zarr"], ["plan", f"s3://{bucket}/plain.zarr", "0:9,0:9,0:9"],
                      ["verify", f"s3://{bucket}/plain.zarr"]):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "damacy", *arguments], env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, (arguments, done.stderr, done.stdout)
        assert SECRET not in done.stdout + done.stderr


@pytest.mark.timeout(120)
def test_the_example_trains_two_epochs(server, bucket, folder):
    smooth = np.add.outer(np.add.outer(np.arange(32) * 20, np.arange(80) * 10), np.arange(80) * 5).astype("u2")
    zarr.create_array(folder / "bucket" / "smooth.zarr", data=smooth, chunks=(16, 40, 40), overwrite=True)
    example = pathlib.Path(__file__).parents[2] / "examples" / "train_from_s3.py"
    keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    done = subprocess.run(
        [sys.executable, str(example), f"s3://{bucket}/smooth.zarr", "--endpoint", server.url, "--length", "64"],
        env=os.environ | keys, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    losses = [float(line.split()[-1]) for line in done.stdout.splitlines() if line.startswith("epoch")]
    assert len(losses) == 2 and losses[1] < losses[0]


def run_command(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "damacy", *arguments],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_options_of_commands_say_how_a_bucket_is_reached(server, bucket):
    server.public.add(bucket)
    try:
        asked = ["--anonymous", "--endpoint", server.url, "--region", "us-east-1", "--option", "attempts=2"]
        for arguments in (["ls", f"s3://{bucket}/plain.zarr"], ["info", f"s3://{bucket}/plain.zarr"],
                          ["cat", f"s3://{bucket}/plain.zarr", "0:1,0:1,0:1"]):  # fmt: skip
            done = run_command(*arguments, *asked)
            assert done.returncode == 0 and done.stdout, (arguments, done.stderr)
        assert all("authorization" not in request.headers for request in server.requests)
    finally:
        server.public.discard(bucket)


def test_a_header_of_a_command_comes_from_the_environment(folder):
    with FaultServer(folder) as plain:
        uri = f"{plain.url}/bucket/plain.zarr"
        done = run_command("ls", uri, "--header-env", "X-Token=MY_TOKEN", MY_TOKEN=SECRET)
        assert done.returncode == 0 and "array" in done.stdout, done.stderr
        assert {request.headers["x-token"] for request in plain.requests} == {SECRET}
        assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--option", "secret_access_key=hunter2"], "secrets are no arguments"),
        (["--option", "attempts=many"], "'many' is not a value of this field"),
        (["--option", "nothing=1"], "StoreOptions has no field 'nothing'"),
        (["--option", "attempts=99"], "must be in [1, 20]"),
        (["--header-env", "X=NO_SUCH_VARIABLE"], "no variable 'NO_SUCH_VARIABLE'"),
    ],
)
def test_wrong_options_of_commands_are_refused(arguments, text):
    done = run_command("ls", "s3://bucket/a.zarr", *arguments)
    assert done.returncode == 2 and text in " ".join(done.stderr.split()), done.stderr
    assert "hunter2" not in done.stderr


def test_the_doctor_names_libcurl_and_its_certificates():
    done = run_command("doctor", "--json", https_proxy="http://me:hunter2@127.0.0.1:1")
    report = json.loads(done.stdout)
    assert report["libcurl"]["version"].startswith("libcurl/") and os.path.exists(report["libcurl"]["path"])
    assert report["proxies"]["https_proxy"] == "127.0.0.1:1" and "hunter2" not in done.stdout
    assert report["certificates"].startswith(("CA ", "none"))


# -- secrets --


def test_no_text_holds_a_secret(server, bucket):
    """Errors, logs, reprs and mounts of a program whose requests fail in many ways."""
    program = f"""
import damacy, traceback
damacy.set_log_level(damacy.LOG_TRACE); damacy.set_log_quiet(False)
uses = []
for more in ({{}}, {{"session_token": {TOKEN!r}}}, {{"access_key_id": "AKIDUNKNOWN012345"}}):
    fields = {{"access_key_id": {KEY!r}, "secret_access_key": {SECRET!r}, **more}}
    uses.append(damacy.StoreOptions(endpoint={server.url!r}, attempts=1, **fields))
proxied = damacy.StoreOptions(endpoint={server.url!r}, proxy="http://me:hunter2@127.0.0.1:1", attempts=1, **fields)
for options in (*uses, proxied):
    print(options, repr(options), [options], damacy.mount("s3://{bucket}/", options), damacy.mounts())
    for name in ("plain.zarr", "absent.zarr"):
        try:
            print(damacy.open_array("s3://{bucket}/" + name))
        except damacy.DamacyError as error:
            traceback.print_exc(); print(repr(error), vars(error) if hasattr(error, "__dict__") else "")
            if error.reason == "connect":
                break
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    text = done.stdout + done.stderr
    assert "SignatureDoesNotMatch" in text or "ExpiredToken" in text
    assert "InvalidAccessKeyId" in text and "NotFound" in text
    assert "hunter2" not in text and KEY not in text and "Signature=" not in text
