"""Icechunk repositories, mounted by the stores of their sessions."""

import numpy as np
import pytest

zarr = pytest.importorskip("zarr", minversion="3.1")
icechunk = pytest.importorskip("icechunk", reason="icechunk is not installed: its stores are not tested")

import damacy  # noqa: E402

pytestmark = pytest.mark.timeout(180)
PREFIX = "store://icechunk-test/"
LINE = np.linspace(35, 70, 1001)
IMAGE = np.random.default_rng(1).integers(0, 60_000, (70, 90), dtype="u2")


@pytest.fixture(scope="module")
def repository():
    repository = icechunk.Repository.create(icechunk.in_memory_storage())
    session = repository.writable_session("main")
    zarr.create_array(session.store, name="group/line", data=LINE, chunks=(10,), shards=(100,))
    sparse = zarr.create_array(session.store, name="group/sparse", shape=(40,), chunks=(10,), dtype="i4", fill_value=-7)
    sparse[:10] = 1
    zarr.create_array(session.store, name="image", data=IMAGE, chunks=(32, 32))
    session.commit("arrays")
    return repository


@pytest.fixture(autouse=True)
def mounted(repository):
    damacy.mount(PREFIX, repository.readonly_session("main").store)


def test_arrays_are_read_and_chunks_that_were_never_written_are_fill():
    assert np.array_equal(damacy.open_array(PREFIX + "group/line")[:], LINE)
    assert damacy.open_array(PREFIX + "group/sparse")[:].tolist() == [1] * 10 + [-7] * 30


def test_groups_list_their_members():
    assert sorted(damacy.open_group(PREFIX + "group")) == ["line", "sparse"]
    assert "sparse" in str(damacy.open(PREFIX + "group").tree())
    assert sorted(damacy.open_group(PREFIX)) == ["group", "image"]


def test_what_is_absent_is_not_found():
    for path in ("nothing", "group/nothing"):
        with pytest.raises(damacy.NotFound):
            damacy.open_array(PREFIX + path)


def test_batches_are_the_boxes():
    boxes = [((y, y + 33), (x, x + 20)) for y, x in ((0, 0), (37, 70), (20, 31))]
    config = damacy.Config(
        batch_size=3, device="cpu", dtype="u16", host_buffer_bytes=1 << 24, device_buffer_bytes=1 << 24
    )
    with damacy.Pipeline(config) as pipeline:
        pipeline.push([damacy.Sample(PREFIX + "image", box) for box in boxes])
        with pipeline.pop() as batch:
            for row, ((y, below), (x, right)) in zip(batch.numpy(), boxes):
                assert np.array_equal(row, IMAGE[y:below, x:right])


def test_a_mount_shows_its_snapshot_and_a_later_session_the_new_one(repository):
    later = repository.writable_session("main")
    zarr.open_array(later.store, path="group/sparse", mode="r+")[10:20] = 2
    later.commit("more")
    try:
        assert damacy.open_array(PREFIX + "group/sparse")[:].tolist() == [1] * 10 + [-7] * 30
        damacy.mount(PREFIX, repository.readonly_session("main").store)
        assert damacy.open_array(PREFIX + "group/sparse")[:].tolist() == [1] * 10 + [2] * 10 + [-7] * 20
    finally:
        repository.reset_branch("main", next(iter(repository.ancestry(branch="main"))).parent_id)
