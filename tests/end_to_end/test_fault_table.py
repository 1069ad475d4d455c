"""Each fault of `support/fault_table.py` at the 1st, the 2nd and the last request of each kind, once and from there on:
the bytes are right or the error is named, each request is counted, nothing stays open, and the process reads on.

`--case-seed N` places the faults inside bodies elsewhere; a case's name and the seed replay it."""

import collections
import concurrent.futures
import dataclasses
import os
import random

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer  # noqa: E402
from support.fault_table import BROKEN, HOSTILE, RIGHT, ROWS, Placed  # noqa: E402
from support.s3_server import S3Server, another_name  # noqa: E402

SHAPE = (8, 40, 40)
DATA = np.random.default_rng(0).integers(0, 60000, SHAPE, dtype="u2")
ARRAYS = ("sharded-0", "plain-0", "sharded-1", "plain-1")
KEY, SECRET = "AKIDEXAMPLE", "hunter2-secret"
ATTEMPTS = 3
UNSEEN = ("closed before the status", "reset before the status", "cut in the head", "reset in the head")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    group = folder / "bucket" / "group.zarr"
    zarr.create_group(group)
    for name in ARRAYS:
        layout = {"chunks": (4, 20, 20), "shards": (4, 40, 40)} if "sharded" in name else {"chunks": (4, 40, 20)}
        zarr.create_array(group / name, data=DATA, fill_value=0, **layout)
    return folder


@dataclasses.dataclass
class Case:
    row: str
    kind: str
    number: int
    forever: bool
    seed: int

    def __str__(self):
        times = "forever" if self.forever else "once"
        return f"{self.row}, {self.kind} {self.number}, {times}, --case-seed {self.seed}"

    def placed(self):
        return Placed(self.kind, self.number, self.forever, ROWS[self.row].make(random.Random(f"{self}")))

    def allowed(self):
        return ROWS[self.row].outcome(self.kind, self.forever)


def cases_of(row, kind, seed):
    last = {"document": len(ARRAYS), "index": 4, "whole object": 8, "range": 4, "list": 4}[kind]
    once = [Case(row, kind, number, False, seed) for number in (1, 2, last)]
    return [*once, *(Case(row, kind, number, True, seed) for number in (1, last))]


def options(case, **more):
    """Broken connections are tried for ten seconds at least, so that a deadline ends those that break forever."""
    is_slow = case.row in ("silent", "stalled", "bytes that drip")
    times = {"connect_timeout_s": 20, "first_byte_timeout_s": 0.5 if is_slow else 20, "stall_timeout_s": 1}
    is_endless = case.forever and case.row in BROKEN | HOSTILE and case.allowed() != {RIGHT}
    deadline = 0.5 if is_endless else 20
    return damacy.StoreOptions(attempts=ATTEMPTS, deadline_s=deadline, **times, **more)


@dataclasses.dataclass
class Seen:
    reasons: collections.Counter
    stats: damacy.Stats | None = None


def read_arrays(root):
    """Each array by a batch of its own: what came of them."""
    seen = Seen(collections.Counter())
    memory = {"host_buffer_bytes": 64 << 20, "device_buffer_bytes": 64 << 20}
    with damacy.Pipeline(damacy.Config(batch_size=1, device="cpu", dtype="u16", **memory)) as pipeline:
        pushed = 0
        for name in ARRAYS:
            try:
                pipeline.push([damacy.Sample(f"{root}/{name}", [(0, extent) for extent in SHAPE])])
                pushed += 1
            except damacy.DamacyError as error:
                seen.reasons[error.reason] += 1
        for _ in range(pushed):
            try:
                with pipeline.pop() as batch:
                    same = np.array_equal(batch.numpy()[0], DATA)
                    absent = not same and chunks_are_absent(batch.numpy()[0])
                    seen.reasons[RIGHT if same else "fill" if absent else "WRONG BYTES"] += 1
            except damacy.DamacyError as error:
                seen.reasons[error.reason] += 1
    seen.stats = pipeline.stats()
    return seen


def chunks_are_absent(got):
    """Whether each chunk of the plain arrays is right or fill."""
    blocks = [(slice(z, z + 4), slice(None), slice(x, x + 20)) for z in (0, 4) for x in (0, 20)]
    return all(np.array_equal(got[block], DATA[block]) or not got[block].any() for block in blocks)


def check_counts(case, server, stats, fault):
    asked = len(server.requests)
    # libcurl repeats a request by itself if a kept connection was closed before any line of the answer.
    # When a deadline ends a request, or the end of a batch that failed ends those of its other chunks, the server may
    # not have read it.
    ends_early = case.forever and case.row in BROKEN | HOSTILE
    late = len(ARRAYS) if ends_early or (case.kind == "whole object" and case.allowed() != {RIGHT}) else 0
    assert asked - (fault.applied if case.row in UNSEEN else 0) <= stats.requests <= asked + late
    assert stats.requests_in_flight == 0
    repeats = ROWS[case.row].repeats_of(case.kind)
    if not case.forever and repeats is not None and case.allowed() == {RIGHT}:
        assert stats.requests_repeated == repeats * fault.applied
    statuses = {"429", "503", "503 for a long time"}
    assert (stats.requests_throttled > 0) == (case.row in statuses and fault.applied > 0)


def run_http(case, folder):
    with FaultServer(folder) as server:
        root = f"{server.url}/bucket/group.zarr"
        damacy.mount(f"{server.url}/", options(case))
        try:
            fault = case.placed()
            server.reset(fault)
            seen = read_arrays(root)
            assert fault.applied > 0, "the fault was not placed"
            check_counts(case, server, seen.stats, fault)
            server.reset()
            damacy.mount(f"{server.url}/", damacy.StoreOptions())
            if "long time" not in case.row:  # the server is left alone for a minute
                assert read_arrays(root).reasons == {RIGHT: len(ARRAYS)}
        finally:
            damacy.unmount(f"{server.url}/")
    return set(seen.reasons)


def run_list(case, folder):
    bucket = another_name(folder)
    with S3Server(folder, keys={KEY: SECRET}) as server:
        server.page = 1
        fault = case.placed()
        server.reset(fault)
        keys = {"endpoint": server.url, "region": "us-east-1", "access_key_id": KEY, "secret_access_key": SECRET}
        damacy.mount(f"s3://{bucket}/", options(case, **keys))
        try:
            seen = listed(bucket)
            assert fault.applied > 0, "the fault was not placed"
            server.reset()
            assert "long time" in case.row or listed(bucket) == RIGHT
        finally:
            damacy.unmount(f"s3://{bucket}/")
    return {seen}


def listed(bucket):
    try:
        names = sorted(damacy.open(f"s3://{bucket}/group.zarr"))
    except damacy.DamacyError as error:
        return error.reason
    return RIGHT if names == sorted(ARRAYS) else f"names {names}"


def run(case, folder):
    """What is wrong with a case, or an empty text."""
    try:
        seen = run_list(case, folder) if case.kind == "list" else run_http(case, folder)
    except AssertionError as error:
        return f"{case}: {error}"
    allowed = case.allowed()
    fine = seen == allowed if allowed == {RIGHT} else seen & allowed and seen <= allowed | {RIGHT}
    return "" if fine else f"{case}: {sorted(seen)} where {sorted(allowed)} may be"


def open_files():
    """Of the process, except sockets: connections are kept for the next request."""
    names = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{entry}"))
        except OSError:
            pass  # the one that lists them
    return collections.Counter(name for name in names if not name.startswith("socket:"))


@pytest.fixture(scope="module")
def network(folder):
    """Network threads and their files are there."""
    with FaultServer(folder) as server:
        assert read_arrays(f"{server.url}/bucket/group.zarr").reasons == {RIGHT: len(ARRAYS)}


ALL = [(row, kind) for row in ROWS for kind in ROWS[row].kinds]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("row, kind", ALL, ids=[f"{row}-{kind}" for row, kind in ALL])
def test_a_fault(folder, network, row, kind, request):
    cases = cases_of(row, kind, request.config.getoption("--case-seed") or 0)
    before = open_files()
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        wrong = [text for text in pool.map(lambda case: run(case, folder), cases) if text]
    assert not wrong, "\n".join(wrong)
    assert open_files() <= before
