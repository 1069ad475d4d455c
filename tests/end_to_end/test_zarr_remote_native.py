"""`damacy.zarr.enable(remote="native")`: arrays in a zarr `ObjectStore` are read by damacy's own requests if their url
and options can be read, and else as before."""

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")
obstore_store = pytest.importorskip("obstore.store", reason="stores of obstore: pip install obstore")

from support.fault_server import FaultServer  # noqa: E402
from support.s3_server import S3Server  # noqa: E402
from zarr.storage import ObjectStore  # noqa: E402

import damacy.zarr  # noqa: E402
from damacy.zarr import _remote  # noqa: E402

DATA = np.random.default_rng(0).integers(0, 60000, (32, 80, 80), dtype="u2")
KEYS = {"AKIDEXAMPLE": "secret"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "bucket"
    zarr.create_array(folder / "a b/plain.zarr", data=DATA, chunks=(16, 80, 80))
    zarr.create_array(folder / "a b/sharded.zarr", data=DATA, chunks=(8, 40, 40), shards=(16, 80, 80))
    return folder


def s3_store(server, **more):
    config = {"region": "us-east-1", "access_key_id": "AKIDEXAMPLE", "secret_access_key": "secret"}
    return obstore_store.S3Store(
        "bucket", prefix="a b", endpoint=server.url, client_options={"allow_http": True}, **config, **more
    )


def user_agents(server):
    return {request.headers.get("user-agent", "").partition("/")[0] for request in server.requests}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["plain.zarr", "sharded.zarr"])
@pytest.mark.parametrize("remote", ["native", None])
def test_arrays_in_s3_are_read_by_our_requests(folder, name, remote):
    with S3Server(folder.parent, keys=KEYS) as server, damacy.zarr.enable(remote=remote, strict=True):
        array = zarr.open_array(ObjectStore(s3_store(server), read_only=True), path=name, mode="r")
        server.requests.clear()
        np.testing.assert_array_equal(array[...], DATA)
        np.testing.assert_array_equal(array[3:20, ::7, 5], DATA[3:20, ::7, 5])
        assert ("damacy" in user_agents(server)) == (remote == "native")
        assert (user_agents(server) == {"damacy"}) == (remote == "native")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["plain.zarr", "sharded.zarr"])
def test_chunks_are_kept_while_their_objects_have_the_same_version(folder, name):
    with S3Server(folder.parent, keys=KEYS) as server:
        with damacy.zarr.enable(remote="native", strict=True, cache_bytes="16MiB"):
            array = zarr.open_array(ObjectStore(s3_store(server), read_only=True), path=name, mode="r")
            for selection, decodes in [(np.s_[:], True), (np.s_[:], False), (np.s_[3:20, ::7, 5], False)]:
                damacy.zarr.reset_stats()
                np.testing.assert_array_equal(array[selection], DATA[selection])
                assert (damacy.zarr.stats()["chunks_decoded"] > 0) == decodes
    damacy.zarr.disable()


@pytest.mark.timeout(60)
def test_arrays_behind_http(folder):
    with FaultServer(folder) as server, damacy.zarr.enable(remote="native", strict=True):
        inner = obstore_store.HTTPStore.from_url(f"{server.url}/a%20b", client_options={"allow_http": True})
        array = zarr.open_array(ObjectStore(inner, read_only=True), path="plain.zarr", mode="r")
        server.requests.clear()
        np.testing.assert_array_equal(array[...], DATA)
        assert user_agents(server) == {"damacy"}


def test_what_cannot_be_read_is_left_to_obstore(folder):
    for store in (
        obstore_store.MemoryStore(),
        obstore_store.LocalStore(str(folder)),
        obstore_store.S3Store("bucket", client_options={"proxy_url": "http://127.0.0.1:1"}),
        obstore_store.S3Store("bucket", request_payer=True),
    ):
        assert _remote.location_of(store) is None
    with damacy.zarr.enable(remote="native", strict=True):
        store = ObjectStore(obstore_store.MemoryStore())
        zarr.create_array(store, name="a", data=DATA)
        np.testing.assert_array_equal(zarr.open_array(store, path="a", mode="r")[...], DATA)


def test_options_are_those_of_the_store():
    store = obstore_store.S3Store("bucket", prefix="x/y", skip_signature=True, region="eu-central-1")
    uri, options = _remote.location_of(store)
    assert uri == "s3://bucket/x/y"
    assert options == damacy.StoreOptions(anonymous=True, region="eu-central-1", addressing="path")
    keys = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "secret", "session_token": "t" * 16}
    store = obstore_store.S3Store("bucket", virtual_hosted_style_request=True, **keys)
    assert _remote.location_of(store)[1] == damacy.StoreOptions(addressing="virtual", **keys)
    store = obstore_store.S3Store("bucket", session_token="t" * 16)  # damacy wants the whole key
    assert _remote.location_of(store) is None


def test_other_values_are_refused():
    with pytest.raises(damacy.InvalidArgument, match='remote must be "native" or None'):
        damacy.zarr.enable(remote="obstore")
