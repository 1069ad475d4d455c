"""Requests by way of a proxy: what it says of a tunnel is no answer of the server, and secrets of this machine stay
here."""

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer  # noqa: E402
from support.proxy import Proxy  # noqa: E402
from support.tls import Authority  # noqa: E402

DATA = np.arange(200_000, dtype="u1").reshape(2, 100_000)


@pytest.fixture
def folder(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=DATA, chunks=(1, 100_000), compressors=None, fill_value=9)
    return tmp_path


@pytest.fixture
def proxy():
    with Proxy() as proxy:
        yield proxy


@pytest.fixture
def tunnelled(folder, proxy, tmp_path_factory):
    """A server behind TLS, whose certificates the mounts of `options` trust."""
    authority = Authority(tmp_path_factory.mktemp("authority"))
    with FaultServer(folder, tls=authority.context()) as server:
        server.options = {"ca_file": str(authority.file), "proxy": proxy.url}
        yield server


@pytest.mark.parametrize(
    ("refusal", "absent_status"), [("404 Policy", (404,)), ("403 Policy", (403, 404)), ("410 Gone", (404, 410))]
)
def test_an_answer_to_connect_is_not_the_objects(tunnelled, proxy, refusal, absent_status):
    uri = damacy.mount(
        f"{tunnelled.url}/", damacy.StoreOptions(**tunnelled.options, absent_status=absent_status, attempts=1)
    )
    array = damacy.open_array(f"{uri}a.zarr")
    np.testing.assert_array_equal(array[:1], DATA[:1])
    proxy.refusal = refusal
    tunnelled.drop_connections()
    with pytest.raises(damacy.StorageError, match=f"the proxy refuses the connection: CONNECT {refusal[:3]}") as caught:
        array[1:]
    assert caught.value.reason == "connect"


def test_a_tunnel_that_is_cut_is_no_answer_that_ignores_ranges(tunnelled, proxy):
    proxy.cuts = True
    uri = damacy.mount(f"{tunnelled.url}/", damacy.StoreOptions(**tunnelled.options, attempts=1, deadline_s=2))
    with pytest.raises(damacy.StorageError) as caught:
        damacy.open_array(f"{uri}a.zarr")
    assert caught.value.reason in ("io", "tls", "deadline"), caught.value
    assert tunnelled.requests == []


def test_headers_for_this_machine_go_to_no_proxy_of_the_environment(folder, proxy, monkeypatch):
    monkeypatch.setenv("http_proxy", proxy.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with FaultServer(folder) as server:
        for secret in ({"headers": {"X-Api-Key": "hunter2"}}, {"bearer_token": "hunter2"}):
            uri = damacy.mount(f"{server.url}/", damacy.StoreOptions(**secret))
            np.testing.assert_array_equal(damacy.open_array(f"{uri}a.zarr")[:], DATA)
            damacy.unmount(uri)
        assert server.requests and proxy.heads == []


def test_a_signature_for_this_machine_goes_to_no_proxy_of_the_environment(folder, proxy, monkeypatch):
    monkeypatch.setenv("http_proxy", proxy.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    (folder / "part?signature=hunter2").write_bytes(DATA[1].tobytes())  # the server looks for the query, too
    with FaultServer(folder) as server:
        with damacy.RemoteFile.open_url(f"{server.url}/part?signature=hunter2") as file:
            read = np.empty(file.nbytes(), "u1")
            file.read(read)
        np.testing.assert_array_equal(read, DATA[1])
        assert server.requests and proxy.heads == []


def test_secrets_go_over_http_to_no_proxy_of_another_machine():
    options = damacy.StoreOptions(headers={"X-Api-Key": "hunter2"}, proxy="http://proxy.example.org:3128")
    with pytest.raises(damacy.InvalidArgument, match="headers: goes over http only to this machine"):
        damacy.mount("http://127.0.0.1:9/", options)
    options = damacy.StoreOptions(
        bearer_token="hunter2", endpoint="http://127.0.0.1:9", proxy="http://proxy.example.org:3128"
    )
    with pytest.raises(damacy.InvalidArgument, match="bearer_token: goes over http only to this machine"):
        damacy.mount("s3://bucket/", options)
