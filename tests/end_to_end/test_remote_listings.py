"""Stores that do not list: what would need a listing is asked for by name, or the text says why it is missing."""

import json

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer  # noqa: E402
from support.s3_server import S3Server, another_name  # noqa: E402

DATA = np.arange(64, dtype="u2").reshape(8, 8)


@pytest.fixture
def folder(tmp_path):
    """Version 2 with nested chunks, or some that are absent, in documents without dimension_separator."""
    for name, absent in (("nested", False), ("sparse", True)):
        path = tmp_path / "bucket" / f"{name}.zarr"
        array = zarr.create_array(path, shape=(8, 8), chunks=(4, 4), dtype="u2", zarr_format=2, fill_value=9,
                                  chunk_key_encoding={"name": "v2", "separator": "." if absent else "/"})  # fmt: skip
        if absent:
            array[:4] = DATA[:4]
        else:
            array[:] = DATA
        document = json.loads((path / ".zarray").read_text())
        document.pop("dimension_separator", None)
        (path / ".zarray").write_text(json.dumps(document))
    return tmp_path


@pytest.fixture(params=["http", "s3", "s3 that may not be listed"])
def root(request, folder):
    if request.param == "http":
        with FaultServer(folder) as server:
            yield f"{server.url}/bucket", server
        return
    with S3Server(folder, {"AKIDEXAMPLE": "secret"}) as server:
        server.has_listings = request.param == "s3"
        options = damacy.StoreOptions(
            endpoint=server.url,
            region="us-east-1",
            access_key_id="AKIDEXAMPLE",
            secret_access_key="secret",
        )
        bucket = another_name(folder)
        damacy.mount(f"s3://{bucket}/", options)
        yield f"s3://{bucket}", server


def test_nested_chunks_that_the_document_does_not_name_are_an_error(root):
    uri, _ = root
    with pytest.raises(damacy.DecodeError, match="there are nested chunks") as caught:
        damacy.open_array(f"{uri}/nested.zarr")[:]
    assert caught.value.reason == "dimension-separator"


def test_chunks_that_are_absent_are_fill_and_the_nested_key_is_asked_for_once(root):
    uri, server = root
    expected = np.full((8, 8), 9, "u2")
    expected[:4] = DATA[:4]
    array = damacy.open_array(f"{uri}/sparse.zarr")
    np.testing.assert_array_equal(array[:], expected)
    np.testing.assert_array_equal(damacy.open_array(f"{uri}/sparse.zarr")[:], expected)
    nested = [request for request in server.requests if "sparse.zarr/1/" in request.path]
    lists = isinstance(server, S3Server) and server.has_listings
    assert len({request.path for request in nested}) == (0 if lists else 1)


def test_where_nothing_is_found_the_text_says_why_no_arrays_are_named(root):
    uri, server = root
    with pytest.raises(damacy.NotFound) as caught:
        damacy.open_array(uri)
    text = str(caught.value)
    if not isinstance(server, S3Server):
        assert "arrays inside are not named: plain HTTP has no listings" in text
    elif server.has_listings:
        assert "nested.zarr" in text
    else:
        assert "arrays inside are not named: GET 403" in text


def test_groups_behind_http_say_that_they_cannot_be_listed(tmp_path):
    (tmp_path / "group").mkdir()
    (tmp_path / "group" / ".zgroup").write_text('{"zarr_format": 2}')
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / ".zgroup").write_text('{"zarr_format": 2}')
    (tmp_path / "cut" / ".zmetadata").write_text(json.dumps({"metadata": {"t/.zarray": 5}}))
    zarr.create_array(tmp_path / "group" / "a", data=DATA, chunks=(4, 4), zarr_format=2)
    with FaultServer(tmp_path) as plain:
        group = damacy.open_group(f"{plain.url}/group")
        with pytest.raises(damacy.StorageError, match="members cannot be listed") as caught:
            list(group)
        assert caught.value.reason == "listing"
        assert "members cannot be listed" in repr(group) and "members cannot be listed" in group.tree()
        assert "a" in group and "b" not in group
        assert group  # says that it is there, and lists nothing
        np.testing.assert_array_equal(group["a"][:], DATA)
        with pytest.raises(KeyError, match="no node 'b' in .*; members cannot be listed"):
            group["b"]
        with pytest.raises(damacy.StorageError, match=r"members cannot be listed .*; \.zmetadata is malformed: /"):
            list(damacy.open_group(f"{plain.url}/cut"))
        with pytest.raises(damacy.InvalidArgument, match=r"arrays inside: unknown \(members cannot be listed"):
            damacy.open_array(f"{plain.url}/group")
