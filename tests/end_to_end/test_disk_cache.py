"""Remote arrays through a disk tier: bytes equal those of the local array, epochs after the first ask little or nothing
of the server, and whatever is done to the files of the tier is a miss."""

import fcntl
import logging
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer  # noqa: E402
from support.s3_server import S3Server  # noqa: E402

SHAPE = (32, 80, 80)
DATA = np.random.default_rng(0).integers(0, 60000, SHAPE, dtype="u2")  # a chunk has more bytes than a head
LEAST = 256 << 20
NO_DISK = {"disk_cache": None, "disk_cache_bytes": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    zarr.create_array(folder / "plain.zarr", data=DATA, chunks=(16, 80, 80))
    zarr.create_array(folder / "sharded.zarr", data=DATA, chunks=(8, 40, 40), shards=(16, 80, 80))
    zarr.create_array(folder / "v2.zarr", data=DATA, chunks=(16, 80, 80), zarr_format=2)
    zarr.create_array(folder / "raw.zarr", data=DATA, chunks=(16, 80, 80), compressors=None)
    return folder


@pytest.fixture
def server(folder):
    with FaultServer(folder) as server:
        yield server


@pytest.fixture
def immutable(server):
    damacy.mount(server.url, damacy.StoreOptions(immutable=True))
    return server


def config(directory, **fields):
    memory = {"host_buffer_bytes": 64 << 20, "device_buffer_bytes": 64 << 20}
    disk = {"disk_cache": directory, "disk_cache_bytes": LEAST}
    return damacy.Config(**{"batch_size": 2, "device": "cpu", "dtype": "u16", **memory, **disk, **fields})


def crops(uri, count=4):
    return [damacy.Sample(uri, [(i, i + 16), (2 * i, 2 * i + 40), (3, 60)]) for i in range(count)]


def read_epoch(uri, directory, **fields):
    """An epoch in a pipeline of its own: all rows equal the array. The statistics are those of the closed pipeline: a
    thread writes the entries, and ends with it."""
    seen = 0
    with damacy.Pipeline(config(directory, **fields)) as pipeline:
        pipeline.push(crops(uri))
        for batch in pipeline:
            with batch as b:
                for row, sample in zip(b.numpy(), b.samples, strict=True):
                    np.testing.assert_array_equal(row, DATA[tuple(slice(*axis) for axis in sample.aabb)])
                    seen += 1
    assert seen == 4
    return pipeline.stats()


@pytest.mark.parametrize("name", ["plain", "sharded", "v2", "raw"])
def test_the_second_epoch_of_an_immutable_store_asks_nothing(immutable, tmp_path, name):
    uri = f"{immutable.url}/{name}.zarr"
    first = read_epoch(uri, tmp_path)
    assert first.disk_misses > 0
    before = len(immutable.requests)
    second = read_epoch(uri, tmp_path)
    new = [request.path for request in immutable.requests[before:]]
    if name == "v2":  # nothing is kept of documents that are not there
        new = [path for path in new if not path.endswith("zarr.json")]
    assert new == []
    assert second.disk_hits > 0 and second.disk_misses == 0


@pytest.mark.parametrize("name", ["plain", "sharded", "raw"])
def test_by_default_a_later_epoch_asks_once_for_each_object(server, tmp_path, name):
    uri = f"{server.url}/{name}.zarr"
    read_epoch(uri, tmp_path)
    before = len(server.requests)
    second = read_epoch(uri, tmp_path)
    new = [request.path for request in server.requests[before:]]
    assert len(new) == len(set(new)) > 0
    assert second.disk_misses == 0 and second.disk_hits > 0


def test_a_later_epoch_asks_for_the_objects_of_accepted_batches_together(tmp_path):
    """Each request for a shard is answered when all have arrived."""
    data = np.random.default_rng(1).integers(0, 60000, (64, 40, 40), dtype="u2")
    zarr.create_array(tmp_path / "served" / "many.zarr", data=data, chunks=(4, 40, 40), shards=(8, 40, 40))
    shards = 8
    met = threading.Barrier(shards)
    alone = []

    def meet(request, answer):
        if "/c/" in request.path:
            try:
                met.wait(10)
            except threading.BrokenBarrierError:
                alone.append(request.path)

    with FaultServer(tmp_path / "served") as server:
        for epoch in range(2):
            before = len(server.requests)
            server.faults = meet if epoch else {}
            fields = {"batch_size": 1, "n_batches": shards, "lookahead_batches": shards}
            with damacy.Pipeline(config(tmp_path / "cache", **fields)) as pipeline:
                boxes = [[(8 * shard, 8 * shard + 8), (0, 40), (0, 40)] for shard in range(shards)]
                pipeline.push([damacy.Sample(f"{server.url}/many.zarr", box) for box in boxes])
                for shard, batch in enumerate(pipeline):
                    with batch as b:
                        np.testing.assert_array_equal(b.numpy()[0], data[8 * shard : 8 * shard + 8])
                stats = pipeline.stats()
        assert not alone, alone
        assert stats.disk_misses == 0 and len(server.requests) - before == 1 + shards


def test_an_object_that_changed_is_read_anew(tmp_path):
    folder = tmp_path / "served"
    zarr.create_array(folder / "a.zarr", data=DATA, chunks=(16, 80, 80))
    with FaultServer(folder) as server:
        uri = f"{server.url}/a.zarr"
        read_epoch(uri, tmp_path / "cache")
        other = zarr.open_array(folder / "a.zarr")
        other[:] = DATA + 1
        with damacy.Pipeline(config(tmp_path / "cache")) as pipeline:
            pipeline.push(crops(uri))
            for batch in pipeline:
                with batch as b:
                    for row, sample in zip(b.numpy(), b.samples, strict=True):
                        np.testing.assert_array_equal(row, DATA[tuple(slice(*axis) for axis in sample.aabb)] + 1)


def test_a_cache_in_memory_is_asked_before_the_disk(immutable, tmp_path):
    uri = f"{immutable.url}/sharded.zarr"
    read_epoch(uri, tmp_path, cache_bytes="16MiB", verify="whole")
    before = len(immutable.requests)
    read_epoch(uri, tmp_path, cache_bytes="16MiB")
    assert len(immutable.requests) == before


def damage(directory, random):
    inside = directory / "damacy-1"
    for path in sorted(inside.iterdir()):
        data = bytearray(path.read_bytes()[: 1 << 20])
        kind = random.integers(4)
        if kind == 0:
            path.unlink()
        elif kind == 1:
            os.truncate(path, int(random.integers(path.stat().st_size + 1)))
        elif kind == 2:
            with path.open("r+b") as file:
                for at in random.integers(len(data), size=200) if data else ():
                    file.seek(int(at))
                    file.write(bytes([int(random.integers(256))]))


@pytest.mark.timeout(120)
def test_whatever_is_done_to_the_files_batches_are_right(immutable, tmp_path):
    random = np.random.default_rng(5)
    for number in range(25):
        read_epoch(f"{immutable.url}/{['plain', 'sharded', 'raw'][number % 3]}.zarr", tmp_path)
        damage(tmp_path, random)


def damaged(path):
    """The bytes of a file without its first and last ones: no frame, document or index."""
    whole = path.read_bytes()
    return bytes(4) + whole[4:-40] + bytes(40)


def first_row(uri, directory):
    with damacy.Pipeline(config(directory, batch_size=1)) as pipeline:
        pipeline.push(crops(uri, 1))
        return pipeline.pop().numpy()[0].copy()


@pytest.mark.parametrize(
    "part", ["plain.zarr/c/0/0/0", "plain.zarr/zarr.json", "sharded.zarr/c/0/0/0", "v2.zarr/.zarray"]
)
def test_bytes_that_do_not_decode_are_not_kept(folder, tmp_path, part):
    def damage(request, answer):
        if request.path.endswith(part):
            whole = damaged(folder / part)
            first, last = request.range_in(len(whole)) or (0, len(whole) - 1)
            answer.body = whole[first : last + 1]

    with FaultServer(folder) as server:
        uri = f"{server.url}/{part.partition('/')[0]}"
        server.faults = damage
        with pytest.raises(damacy.DecodeError):
            first_row(uri, tmp_path)
        server.faults = {}
        np.testing.assert_array_equal(first_row(uri, tmp_path), DATA[:16, :40, 3:60])


def test_a_kept_chunk_that_does_not_decode_is_read_from_the_server(immutable, tmp_path):
    """`RemoteFile` keeps whatever an object has; the chunk is the whole object."""
    part = "plain.zarr/c/0/0/0"
    whole = damaged(immutable.folder / part)

    def damage(request, answer):
        first, last = request.range_in(len(whole)) or (0, len(whole) - 1)
        answer.body = whole[first : last + 1]

    immutable.faults = damage
    script = f"""
        import numpy, damacy
        damacy.mount({immutable.url!r}, damacy.StoreOptions(immutable=True))
        with damacy.RemoteFile.open_url({immutable.url + "/" + part!r}) as file:
            file.read(numpy.empty(file.nbytes(), "u1"))
    """
    environment = os.environ | {"DAMACY_DISK_CACHE": str(tmp_path), "DAMACY_DISK_CACHE_BYTES": str(LEAST)}
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, env=environment, timeout=60)
    immutable.faults = {}
    before = len(immutable.requests)
    for asked in (True, False):
        np.testing.assert_array_equal(first_row(f"{immutable.url}/plain.zarr", tmp_path), DATA[:16, :40, 3:60])
        assert any(request.path.endswith(part) for request in immutable.requests[before:]) == asked
        before = len(immutable.requests)


def test_a_date_near_that_of_the_answer_is_no_version_to_keep(folder, tmp_path):
    """Within a second an object may be replaced by one of the same size and date."""
    dates = {"Last-Modified": "Mon, 23 Nov 2026 10:00:00 GMT", "Date": "Mon, 23 Nov 2026 10:00:30 GMT"}

    def dated(request, answer):
        answer.headers.pop("ETag", None)
        answer.headers |= dates

    with FaultServer(folder) as server:
        server.faults = dated
        for date, kept in (("Mon, 23 Nov 2026 10:00:30 GMT", False), ("Mon, 23 Nov 2026 10:01:00 GMT", True)):
            dates["Date"] = date
            stats = read_epoch(f"{server.url}/plain.zarr", tmp_path)
            assert (stats.disk_kept > 0) == kept


@pytest.mark.parametrize("disk", [True, False])
def test_an_object_does_not_change_when_its_date_becomes_old_enough(folder, tmp_path, disk):
    dates = {"Last-Modified": "Mon, 23 Nov 2026 10:00:00 GMT", "Date": "Mon, 23 Nov 2026 10:00:30 GMT"}

    def dated(request, answer):
        answer.headers.pop("ETag", None)
        answer.headers |= dates

    with FaultServer(folder) as server:
        server.faults = dated
        damacy.mount(server.url, damacy.StoreOptions(revalidate_s=0))
        with damacy.Pipeline(config(tmp_path, batch_size=1, **({} if disk else NO_DISK))) as pipeline:
            for seconds in ("00:30", "01:00", "01:30", "00:30"):
                dates["Date"] = f"Mon, 23 Nov 2026 10:{seconds} GMT"
                pipeline.push(crops(f"{server.url}/sharded.zarr", 1))
                with pipeline.pop() as batch:
                    np.testing.assert_array_equal(batch.numpy()[0], DATA[:16, :40, 3:60])
        assert (pipeline.stats().disk_kept > 0) == disk


@pytest.mark.parametrize("disk", [True, False])
@pytest.mark.parametrize("part", ["small.zarr/c/0", "small.zarr/zarr.json"])
def test_a_first_answer_that_was_damaged_is_asked_for_again(tmp_path, part, disk):
    zarr.create_array(tmp_path / "served" / "small.zarr", data=np.arange(100, dtype="u1"), chunks=(100,), fill_value=0)
    left = [part]

    def damage_once(request, answer):
        if left and request.path.endswith(left[0]):
            left.clear()
            answer.body = bytes(len(answer.body))

    with FaultServer(tmp_path / "served") as server:
        server.faults = damage_once
        with damacy.Pipeline(config(tmp_path / "cache", batch_size=1, **({} if disk else NO_DISK))) as pipeline:
            for _ in range(2):
                pipeline.push([damacy.Sample(f"{server.url}/small.zarr", [(0, 10)])])
                assert pipeline.pop().numpy()[0].tolist() == list(range(10))
        assert 2 <= sum(request.path.endswith(part) for request in server.requests) <= 3


def test_a_stopped_process_that_holds_the_lock_does_not_stop_others(immutable, tmp_path, caplog):
    caplog.set_level(logging.WARNING, "damacy")
    (tmp_path / "damacy-1").mkdir(mode=0o700)
    with (tmp_path / "damacy-1" / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        stats = read_epoch(f"{immutable.url}/plain.zarr", tmp_path)
    assert stats.disk_kept == stats.disk_hits == 0
    said = [record.message for record in caplog.records if "does not go on: the cache is not used" in record.message]
    assert len(said) == 1 and str(tmp_path) in said[0]
    assert read_epoch(f"{immutable.url}/plain.zarr", tmp_path).disk_kept > 0


def test_two_servers_with_the_same_paths_are_two_sets(tmp_path):
    for number in range(2):
        folder = tmp_path / str(number)
        zarr.create_array(folder / "a.zarr", data=DATA if number == 0 else DATA[::-1].copy(), chunks=(16, 80, 80))
    with FaultServer(tmp_path / "0") as one, FaultServer(tmp_path / "1") as other:
        for server, data in ((one, DATA), (other, DATA[::-1]), (one, DATA)):
            with damacy.Pipeline(config(tmp_path / "cache")) as pipeline:
                pipeline.push(crops(f"{server.url}/a.zarr"))
                for batch in pipeline:
                    with batch as b:
                        for row, sample in zip(b.numpy(), b.samples, strict=True):
                            np.testing.assert_array_equal(row, data[tuple(slice(*axis) for axis in sample.aabb)])


def test_refusals_say_what_to_do(tmp_path):
    inside = tmp_path / "damacy-1"
    inside.mkdir(mode=0o700)
    inside.chmod(0o777)
    with pytest.raises(
        damacy.InvalidArgument, match=r"has mode 0777, so other users can write to it: chmod 0700 it"
    ) as e:
        damacy.Pipeline(config(tmp_path))
    assert e.value.reason == "disk-cache"
    inside.rmdir()
    inside.symlink_to(tmp_path)
    with pytest.raises(damacy.InvalidArgument, match="is a symbolic link"):
        damacy.Pipeline(config(tmp_path))
    with pytest.raises(damacy.StorageError, match=r"disk_cache: cannot make .*/none/x: No such file") as e:
        damacy.Pipeline(config(tmp_path / "none" / "x"))
    assert e.value.errno == 2


def test_no_secret_is_in_the_directory(server, tmp_path):
    damacy.mount(server.url, damacy.StoreOptions(headers={"X-Key": "hidden-secret"}, bearer_token="hidden-token"))
    read_epoch(f"{server.url}/plain.zarr", tmp_path)
    for path in (tmp_path / "damacy-1").iterdir():
        assert b"hidden-" not in path.read_bytes()[: 8 << 20]
        assert path.stat().st_mode & 0o077 == 0


def test_memory_of_the_cache_is_in_the_plan(tmp_path):
    plan = config(tmp_path).memory({"": (16, 40, 57)})
    assert "disk cache" in str(plan)


def test_buckets_of_one_name_behind_two_endpoints_are_two_sets(tmp_path):
    key, secret = "AKIDEXAMPLE0123456789", "hunter2/SECRET+key"
    arrays = (DATA, DATA[::-1].copy())
    for number, data in enumerate(arrays):
        zarr.create_array(tmp_path / str(number) / "disk-bucket" / "a.zarr", data=data, chunks=(16, 80, 80))
    for number, data in (*enumerate(arrays), *enumerate(arrays)):
        with S3Server(tmp_path / str(number), keys={key: secret}) as server:
            # The same port would be the same endpoint: the objects are told apart by their tags then.
            options = {"endpoint": server.url, "access_key_id": key, "secret_access_key": secret}
            damacy.mount("s3://disk-bucket/", damacy.StoreOptions(region="us-east-1", **options))
            with damacy.Pipeline(config(tmp_path / "cache")) as pipeline:
                pipeline.push(crops("s3://disk-bucket/a.zarr"))
                for batch in pipeline:
                    with batch as b:
                        for row, sample in zip(b.numpy(), b.samples, strict=True):
                            np.testing.assert_array_equal(row, data[tuple(slice(*axis) for axis in sample.aabb)])
    held = b"".join(path.read_bytes()[: 4 << 20] for path in (tmp_path / "cache" / "damacy-1").iterdir())
    assert secret.encode() not in held and key.encode() not in held
