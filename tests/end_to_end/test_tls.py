"""HTTPS: which certificates are trusted, and what is refused before a byte of a request is sent."""

import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer  # noqa: E402
from support.tls import Authority  # noqa: E402

DATA = np.arange(6 * 7, dtype="u2").reshape(6, 7)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    zarr.create_array(folder / "a.zarr", data=DATA, chunks=(3, 7))
    return folder


def read(server, **options):
    return damacy.open(f"{server.url}/a.zarr", store=damacy.StoreOptions(**options))[:]


def test_a_server_of_a_trusted_authority_is_read(folder, authority):
    with FaultServer(folder, tls=authority.context()) as server:
        np.testing.assert_array_equal(read(server, ca_file=str(authority.file)), DATA)


@pytest.mark.parametrize(
    "fields, text",
    [
        ({"self_signed": True}, "self.signed certificate"),
        ({"expired": True}, "certificate has expired"),
        ({"name": "localhost"}, "127.0.0.1"),
    ],
    ids=["self-signed", "expired", "wrong host"],
)
def test_a_server_that_is_not_trusted_gets_no_request(folder, authority, fields, text):
    with FaultServer(folder, tls=authority.context(**fields)) as server:
        with pytest.raises(damacy.StorageError, match=text) as caught:
            read(server, ca_file=str(authority.file))
        assert caught.value.reason == "tls" and caught.value.attempts == 1
        assert f"CA file {authority.file}" in str(caught.value)
        assert server.requests == [] and server.connections == 1


def test_an_authority_that_is_not_known_is_named(folder, authority):
    with FaultServer(folder, tls=authority.context()) as server:
        with pytest.raises(damacy.StorageError, match=r"unable to get local issuer certificate.*CA ") as caught:
            read(server)
        assert caught.value.reason == "tls" and server.requests == []


def test_plain_http_on_the_port_of_tls_is_refused(authority):
    received = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            while True:
                try:
                    connection = listener.accept()[0]
                except OSError:
                    return
                with connection:
                    received.append(connection.recv(65536))
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        uri = f"https://127.0.0.1:{listener.getsockname()[1]}/a.zarr"
        with pytest.raises(damacy.StorageError) as caught:
            damacy.open(uri, store=damacy.StoreOptions(ca_file=str(authority.file)))
    assert caught.value.reason == "tls" and caught.value.attempts == 1
    assert len(received) == 1 and received[0].startswith(b"\x16\x03") and b"GET" not in received[0]


def test_a_ca_file_that_is_absent_is_named(folder, authority):
    with FaultServer(folder, tls=authority.context()) as server:
        with pytest.raises(damacy.StorageError, match="/no/such/ca.pem") as caught:
            read(server, ca_file="/no/such/ca.pem")
        assert caught.value.reason == "tls" and server.requests == []


@pytest.mark.parametrize("name", ["CURL_CA_BUNDLE", "SSL_CERT_FILE"])
def test_the_environment_names_the_file(folder, authority, name):
    environment = {key: value for key, value in os.environ.items() if not key.endswith(("CA_BUNDLE", "CERT_FILE"))}
    environment |= {name: str(authority.file), "AWS_CA_BUNDLE": "/no/such/file"}
    with FaultServer(folder, tls=authority.context()) as server:
        program = f"import damacy; print(damacy.open_array('{server.url}/a.zarr')[:].sum())"
        run = [sys.executable, "-c", program]
        ran = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=60)
        assert ran.stdout == f"{DATA.sum()}\n", ran.stderr
        environment[name] = "/no/such/file"  # then the next place counts, which does not have the authority
        ran = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=60)
        assert "unable to get local issuer certificate" in ran.stderr


def test_an_old_version_of_tls_gets_no_request(folder, authority):
    context = authority.context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with FaultServer(folder, tls=context) as server:
        with pytest.raises(damacy.StorageError) as caught:
            read(server, ca_file=str(authority.file))
        assert caught.value.reason == "tls" and caught.value.attempts == 1 and server.requests == []


def test_a_ca_file_that_vanishes_in_mid_run_gives_right_bytes_or_is_named(folder, authority, tmp_path):
    """What libcurl has read of it may serve on."""
    kept = tmp_path / "ca.pem"
    shutil.copy(authority.file, kept)
    with FaultServer(folder, tls=authority.context()) as server:
        np.testing.assert_array_equal(read(server, ca_file=str(kept)), DATA)
        kept.unlink()
        server.drop_connections()
        try:
            np.testing.assert_array_equal(read(server, ca_file=str(kept)), DATA)
        except damacy.StorageError as error:
            assert error.reason == "tls" and str(kept) in str(error)
        shutil.copy(authority.file, kept)
        np.testing.assert_array_equal(read(server, ca_file=str(kept)), DATA)


def test_a_server_that_ends_the_handshake_is_asked_again(folder, authority):
    with FaultServer(folder, tls=authority.context()) as server:
        server.refused_handshakes = 2
        np.testing.assert_array_equal(read(server, ca_file=str(authority.file)), DATA)
        assert server.connections >= 3
