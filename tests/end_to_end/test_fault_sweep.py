"""Each request of a program fails once, one after the other, and then every n-th request: the elements are right.

The program opens arrays, reads them by batches, by `Array` and through references, checks them, and reads a file."""

import json
import random

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer  # noqa: E402
from support.fault_table import ROWS  # noqa: E402

SHAPE = (8, 40, 40)
DATA = np.random.default_rng(0).integers(0, 60000, SHAPE, dtype="u2")
ARRAYS = {"plain": {"chunks": (4, 40, 20)}, "sharded": {"chunks": (4, 20, 20), "shards": (4, 40, 40)}}
WHOLE = [(0, extent) for extent in SHAPE]
FAULTS = (
    "closed after no byte", "closed after a byte", "closed after half", "closed before the last byte",
    "reset before the body", "reset somewhere", "chunked and cut", "500", "502", "504", "408",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    for name, layout in ARRAYS.items():
        zarr.create_array(folder / name, data=DATA, **layout)
    (folder / "raw").write_bytes(DATA.astype("<u2").tobytes())
    array = {"zarr_format": 2, "shape": SHAPE, "chunks": (2, *SHAPE[1:]), "dtype": "<u2", "order": "C"}
    array |= {"fill_value": 0, "compressor": None, "filters": None}
    chunk = DATA.nbytes // 4
    refs = {f"{number}.0.0": ["raw", number * chunk, chunk] for number in range(4)}
    (folder / "refs.json").write_text(json.dumps({"version": 1, "refs": {".zarray": array} | refs}))
    return folder


def verify(uri):
    verifier = damacy._native.Verifier(uri)
    report = verifier.verify(0, verifier.places)
    assert report["bad"] == [] and report["decoded_bytes"] == DATA.nbytes


def read_all(url):
    uris = [f"{url}/{name}" for name in ARRAYS]
    damacy.mount(f"{url}/", damacy.StoreOptions(gap_bytes=4096))
    references = damacy.mount(damacy.ReferenceStore(f"{url}/refs.json"))
    try:
        for array in [*damacy.open_many(uris), damacy.open_array(references)]:
            np.testing.assert_array_equal(array[...], DATA)
            verify(array.uri)
        memory = {"host_buffer_bytes": 64 << 20, "device_buffer_bytes": 64 << 20}
        with damacy.Pipeline(damacy.Config(batch_size=3, device="cpu", dtype="u16", **memory)) as pipeline:
            pipeline.push([damacy.Sample(uri, WHOLE) for uri in [*uris, references]])
            with pipeline.pop() as batch:
                np.testing.assert_array_equal(batch.numpy(), [DATA] * 3)
        with damacy.RemoteFile.open_http(f"{url}/raw") as file:
            raw = np.empty(SHAPE, "<u2")
            assert file.read(raw) == raw.nbytes
            np.testing.assert_array_equal(raw, DATA)
    finally:
        damacy.unmount(references)
        damacy.unmount(f"{url}/")


def requests_with(folder, fails):
    """How many requests a run makes of which those fail whose number `fails`, and how many did."""
    rng, failed = random.Random(0), []

    def apply(request, answer):
        if fails(request.number):
            failed.append(request.number)
            ROWS[FAULTS[request.number % len(FAULTS)]].make(rng)(request, answer)

    with FaultServer(folder) as server:
        server.faults = apply
        read_all(server.url)
        return len(server.requests), len(failed)


@pytest.mark.timeout(300)
def test_each_request_may_fail_once(folder):
    usual, _ = requests_with(folder, lambda number: False)
    for failing in range(1, usual + 1):
        requests, failed = requests_with(folder, lambda number: number == failing)  # noqa: B023
        assert failed == 1 and requests <= usual + 1, failing


@pytest.mark.timeout(300)
@pytest.mark.parametrize("n", [2, 3, 5, 7])
def test_every_nth_request_may_fail(folder, n):
    requests, failed = requests_with(folder, lambda number: number % n == 0)
    assert failed == requests // n
