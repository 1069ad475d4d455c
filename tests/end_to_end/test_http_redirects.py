"""Redirects that a mount allows: followed by the rules, or the reason `redirect`; no secret leaves its origin."""

from collections import Counter

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer, status  # noqa: E402

DATA = np.random.default_rng(0).integers(0, 60000, (32, 80, 80), dtype="u2")
SECRET = {"X-Token": "hunter2"}


@pytest.fixture
def servers(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=DATA, chunks=(16, 80, 80))
    with FaultServer(tmp_path) as first, FaultServer(tmp_path) as other:
        yield first, other


def to(server, prefix=""):
    def apply(request, answer):
        status("302 Found", Location=f"{prefix or server.url}{request.target}")(request, answer)

    return apply


def opened(server, redirects, **options):
    damacy.mount(f"{server.url}/", damacy.StoreOptions(redirects=redirects, **options))
    return damacy.open_array(f"{server.url}/a.zarr")


@pytest.mark.parametrize("line", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
def test_a_redirect_is_followed_with_range_and_condition(servers, line):
    first, other = servers

    def moved(request, answer):
        status(line, Location=f"{other.url}{request.target}")(request, answer)

    first.reset(moved)
    np.testing.assert_array_equal(opened(first, 1)[:], DATA)
    assert len(other.requests) == len(first.requests)
    ranges = [Counter(request.headers.get("range") for request in server.requests) for server in servers]
    assert ranges[0] == ranges[1]  # their order is that of parallel connections
    assert any("if-match" in request.headers for request in other.requests)


def test_headers_and_tokens_stay_with_their_origin(servers):
    first, other = servers
    first.reset(to(other))
    np.testing.assert_array_equal(opened(first, 1, headers=SECRET, bearer_token="hunter3")[:], DATA)
    assert all(request.headers["x-token"] == "hunter2" for request in first.requests)
    assert not any({"x-token", "authorization"} & set(request.headers) for request in other.requests)


def test_within_an_origin_headers_are_kept(servers):
    first, _ = servers

    def moved(request, answer):
        if not request.target.startswith("/moved/"):
            status("302 Found", Location=f"/moved{request.target}")(request, answer)

    (first.folder / "moved").mkdir()
    zarr.create_array(first.folder / "moved" / "a.zarr", data=DATA, chunks=(16, 80, 80))
    first.reset(moved)
    np.testing.assert_array_equal(opened(first, 1, headers=SECRET)[:], DATA)
    assert all(request.headers["x-token"] == "hunter2" for request in first.requests)


REFUSED = {
    "a loop": ("", r"more than 3 redirects", 4),
    "a file": ("file:///etc/passwd?", r"leads to no http\(s\) address", 1),
    "user info": ("http://user:hunter2@127.0.0.1:1", r"leads to no http\(s\) address", 1),
    "link-local": ("http://169.254.169.254/latest?", r"leads to an address of a local network", 1),
    "link-local of IPv6": ("http://[fe80::1]/latest?", r"leads to an address of a local network", 1),
    "another scheme": ("ftp://host", r"leads to no http\(s\) address", 1),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("target, text, asked", REFUSED.values(), ids=REFUSED.keys())
def test_what_leads_elsewhere_is_refused(servers, target, text, asked):
    first, other = servers
    first.reset(to(first, target))
    with pytest.raises(damacy.StorageError, match=text) as caught:
        opened(first, 3)
    assert caught.value.reason == "redirect" and len(first.requests) == asked and other.connections == 0
    assert "hunter2" not in str(caught.value) and caught.value.attempts == 1


@pytest.mark.parametrize("count", [5, 6])
def test_at_most_five_redirects_are_followed(servers, count):
    """Each leads to the next folder, and the last one to the array."""
    first, _ = servers
    (first.folder / str(count)).symlink_to(".")

    def moved(request, answer):
        folder = request.target.split("/")[1]
        done = int(folder) if folder.isdigit() else 0
        if done < count:
            rest = request.target.removeprefix(f"/{done}")
            status("302 Found", Location=f"/{done + 1}{rest}")(request, answer)

    first.reset(moved)
    if count == 5:
        np.testing.assert_array_equal(opened(first, 5)[:], DATA)
    else:
        with pytest.raises(damacy.StorageError, match="more than 5 redirects") as caught:
            opened(first, 5)
        assert caught.value.reason == "redirect" and len(first.requests) == 6


def test_without_a_location_there_is_nothing_to_follow(servers):
    first, _ = servers
    first.reset(status("302 Found"))
    with pytest.raises(damacy.StorageError, match="leads to no http") as caught:
        opened(first, 5)
    assert caught.value.reason == "redirect"


def test_from_https_to_http_is_refused(tmp_path):
    from support.tls import Authority

    zarr.create_array(tmp_path / "a.zarr", data=DATA, chunks=(16, 80, 80))
    authority = Authority(tmp_path)
    with FaultServer(tmp_path, tls=authority.context()) as first, FaultServer(tmp_path) as other:
        first.reset(to(other))
        with pytest.raises(damacy.StorageError, match="the redirect leads to http") as caught:
            opened(first, 3, ca_file=str(authority.file))
        assert caught.value.reason == "redirect" and other.connections == 0


def test_another_version_behind_a_redirect_is_noticed(servers):
    first, other = servers
    first.reset(to(other))
    array = opened(first, 1)

    def changed(request, answer):
        if "if-match" in request.headers:
            answer.headers["ETag"] = '"other"'

    other.reset(changed)
    with pytest.raises(damacy.StorageError) as caught:
        array[:]
    assert caught.value.reason == "changed"


def test_a_fault_behind_a_redirect_passes(servers):
    first, other = servers
    first.reset(to(other))
    other.reset({1: status("503 Slow Down", Retry_After="0"), 3: status("500 Oops")})
    np.testing.assert_array_equal(opened(first, 1)[:], DATA)


@pytest.mark.parametrize("number", [-1, 6])
def test_the_number_is_checked(number):
    with pytest.raises(ValueError, match=r"StoreOptions.redirects: must be in \[0, 5\]"):
        damacy.StoreOptions(redirects=number)


def test_s3_follows_regions_only():
    with pytest.raises(damacy.InvalidArgument, match="redirects: only for http"):
        damacy.mount("s3://bucket/", damacy.StoreOptions(redirects=1))


def test_large_reads_are_divided(servers):
    first, _ = servers
    first.reset()
    data = np.random.default_rng(1).integers(0, 256, 1_000_003, dtype="u1")
    zarr.create_array(first.folder / "raw.zarr", data=data, chunks=data.shape, compressors=None)
    damacy.mount(f"{first.url}/", damacy.StoreOptions(request_bytes=65536))
    np.testing.assert_array_equal(damacy.open_array(f"{first.url}/raw.zarr")[:], data)
    of_data = [request for request in first.requests if "/c/" in request.path]
    assert all(last - begin < 65536 for begin, last in (request.range for request in of_data))
    assert 1 + -(-(data.size - 65536) // 65536) == len(of_data)
    first.reset({3: status("503 Slow Down", Retry_After="0"), 4: status("500 Oops")})
    np.testing.assert_array_equal(damacy.open_array(f"{first.url}/raw.zarr")[:], data)
