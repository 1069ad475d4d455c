"""Samples of many remote arrays: their documents are asked for together, ahead of the few threads that open arrays."""

import threading

import numpy as np
import pytest

import damacy
from damacy import samplers

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer, silent, status  # noqa: E402

MANY = 64
TOGETHER = 32  # requests that a pipeline has under way at first
THREADS = 4  # that open arrays


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    for i in range(MANY):
        for name, version in (("v3", 3), ("v2", 2)):
            data = np.full(4, i, "u2")
            zarr.create_array(folder / f"{name}-{i}.zarr", data=data, chunks=(4,), zarr_format=version)
    for i in range(MANY):
        image = zarr.create_group(folder / f"image-{i}.zarr")
        image.create_array("full", data=np.full(4, i, "u2"), chunks=(4,))
        levels = [{"path": "full", "coordinateTransformations": [{"type": "scale", "scale": [1.0]}]}]
        axes = [{"name": "x", "type": "space"}]
        image.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": levels}]}
    return folder


def config(**fields):
    memory = {"host_buffer_bytes": 64 << 20, "device_buffer_bytes": 64 << 20}
    threads = {"n_io_threads": 1, "n_compute_threads": 1, "lookahead_batches": MANY // 8}
    return damacy.Config(**{"batch_size": 8, "device": "cpu", "dtype": "u16", **threads, **memory, **fields})


def samples(server, name, count=MANY):
    return [damacy.Sample(f"{server.url}/{name}-{i}.zarr", [(0, 4)]) for i in range(count)]


class Meeting:
    """Requests of which each is answered only when all others are there, too."""

    def __init__(self, count, counts):
        self.barrier = threading.Barrier(count)
        self.counts = counts  # whether a path is one of them
        self.alone = []

    def __call__(self, request, answer):
        if not self.counts(request.path):
            return
        try:
            self.barrier.wait(15)
        except threading.BrokenBarrierError:
            self.alone.append(request.path)


def number_of(path):
    return int(path.split("-")[1].split(".")[0])


def check_rows(pipeline):
    pipeline.flush()
    seen = 0
    for batch in pipeline:
        with batch as held:
            for row in held.numpy():
                assert (row == seen).all()
                seen += 1
    assert seen == MANY


@pytest.mark.timeout(120)
def test_documents_of_pushed_samples_are_asked_for_together(folder):
    meeting = Meeting(TOGETHER, lambda path: path.endswith("zarr.json") and number_of(path) < TOGETHER)
    with FaultServer(folder) as server, damacy.Pipeline(config()) as pipeline:
        server.reset(meeting)
        pipeline.push(samples(server, "v3"))
        assert meeting.alone == []
        assert sorted(request.path for request in server.requests if request.path.endswith("zarr.json")) == sorted(
            f"/v3-{i}.zarr/zarr.json" for i in range(MANY)
        )
        check_rows(pipeline)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("name", "second"), [("v2", ".zarray"), ("image", "full/zarr.json")])
def test_what_the_first_arrays_needed_is_asked_for_of_all_others(folder, name, second):
    """The threads that open the first ones wait for their second documents, the others find theirs on its way."""
    meeting = Meeting(24, lambda path: path.endswith(second) and 16 <= number_of(path) < 40)
    with FaultServer(folder) as server, damacy.Pipeline(config()) as pipeline:
        server.reset(meeting)
        pipeline.push(samples(server, name))
        assert meeting.alone == []
        documents = ("zarr.json", ".zarray")
        paths = [request.path for request in server.requests if request.path.endswith(documents)]
        assert len(paths) == len(set(paths)) == 2 * MANY
        pipeline.push([damacy.Sample(f"{server.url}/{name}-0.zarr", [(0, 4)])] * 8)  # known by now
        assert len([request for request in server.requests if second in request.path]) == MANY


@pytest.mark.timeout(120)
def test_attributes_of_version_2_are_asked_for_with_the_array(folder):
    meeting = Meeting(24, lambda path: path.endswith(".zattrs") and 16 <= number_of(path) < 40)
    with (
        FaultServer(folder) as server,
        damacy.Pipeline(config(arrays=damacy.ArraySpec(cf=True, missing=0))) as pipeline,
    ):
        server.reset(meeting)
        pipeline.push(samples(server, "v2"))
        assert meeting.alone == []


@pytest.mark.timeout(120)
def test_a_sample_whose_document_is_missing_fails_alone(folder):
    def fault(request, answer):
        if "-40." in request.path:
            status("404 Not Found")(request, answer)
        if "-50." in request.path:
            status("403 Forbidden")(request, answer)

    with FaultServer(folder) as server, damacy.Pipeline(config()) as pipeline:
        server.reset(fault)
        for number, kind in ((40, damacy.NotFound), (50, damacy.StorageError)):
            rest = samples(server, "v3")[number - 8 :]
            with pytest.raises(kind, match=f"sample 8 of its source: .*v3-{number}") as caught:
                pipeline.push(rest[:16])
            assert caught.value.uri.endswith(f"v3-{number}.zarr")
            with pipeline.pop() as batch:
                assert [int(row[0]) for row in batch.numpy()] == list(range(number - 8, number))
            server.reset(fault)
            pipeline.push(rest[9:16])
            assert [request for request in server.requests if request.path.endswith("zarr.json")] == []
            pipeline.flush()
            pipeline.pop().release()


@pytest.mark.timeout(60)
def test_a_close_asks_for_nothing_that_waits(folder):
    with FaultServer(folder) as server:
        server.reset(silent)
        pipeline = damacy.Pipeline(config())
        failures = []

        def push():
            try:
                pipeline.push(samples(server, "v3"))
            except damacy.DamacyError as error:
                failures.append(error)

        pushing = threading.Thread(target=push)
        pushing.start()
        while len(server.requests) < TOGETHER:
            pushing.join(0.01)
            assert pushing.is_alive()
        pipeline.close()
        pushing.join()
        assert len(server.requests) <= TOGETHER + THREADS  # that one waits for may be sent before it is cancelled
        assert len(failures) == 1


@pytest.mark.timeout(120)
def test_samplers_ask_for_the_shapes_of_their_arrays_together(folder):
    meeting = Meeting(TOGETHER, lambda path: number_of(path) < TOGETHER)
    with FaultServer(folder) as server:
        server.reset(meeting)
        uris = [f"{server.url}/v3-{i}.zarr" for i in range(MANY)]
        samplers.RandomCrops(uris, (2,), length=4, seed=1)
        assert meeting.alone == [] and len(server.requests) == MANY
        server.reset()
        with pytest.raises(damacy.NotFound, match="none.zarr"):
            samplers.RandomCrops([uris[0], f"{server.url}/none.zarr", uris[1]], (2,), length=4, seed=1)
