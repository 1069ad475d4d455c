"""Sockets, links, folders and so on in the place of files, and files that change."""

import os
import shutil
import socket
import time

import numpy as np
import pytest
from support import child
from support.layout import Compressor
from support.streaming import pipeline, row_bits, store

import damacy


@pytest.fixture
def shards(tmp_path):
    return store(tmp_path / "s.zarr", (64,), (8,), shards=(32,), compressor=Compressor("zstd"))


def make_fifo(path):
    os.mkfifo(path)


def make_directory(path):
    path.mkdir()


def make_socket(path):
    # A path of a socket has at most 107 bytes.
    short = f"/tmp/damacy-test-{os.getpid()}.socket"
    server = socket.socket(socket.AF_UNIX)
    server.bind(short)
    server.close()
    shutil.move(short, path)


def make_device_link(path):
    path.symlink_to("/dev/zero")


SPECIAL = {"fifo": make_fifo, "directory": make_directory, "socket": make_socket, "device": make_device_link}


def pop_error(stored, axis, error=damacy.StorageError):
    with pipeline(batch_size=1) as p:
        p.push([stored.sample(axis)])
        with pytest.raises(error) as caught:
            p.pop()
    assert type(caught.value) is error
    return caught.value


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("sharded", [False, True], ids=["chunk", "shard"])
def test_data_that_is_not_a_regular_file_is_a_storage_error_at_once(tmp_path, kind, sharded):
    stored = store(tmp_path / "a", (64,), (8,), shards=(32,) if sharded else None)
    stored.object(1).unlink()
    SPECIAL[kind](stored.object(1))
    error = pop_error(stored, (32, 36) if sharded else (8, 12))
    assert error.reason == "io" and error.key == "c/1"


@pytest.mark.parametrize("kind", SPECIAL)
def test_metadata_that_are_not_a_regular_file_are_an_error(tmp_path, kind):
    stored = store(tmp_path / "a", (64,), (8,))
    (stored.path / "zarr.json").unlink()
    SPECIAL[kind](stored.path / "zarr.json")
    with pipeline() as p:
        with pytest.raises(damacy.StorageError) as caught:
            p.push([stored.sample((0, 4))])
    assert caught.value.reason == "io" and caught.value.key == "zarr.json" and caught.value.what == "push"


def test_a_file_in_place_of_the_array_holds_no_metadata(tmp_path):
    (tmp_path / "file").write_bytes(b"{}")
    with pipeline() as p, pytest.raises(damacy.NotFound):
        p.push([damacy.Sample(uri=tmp_path / "file", aabb=[(0, 1)])])


def test_a_file_in_place_of_a_directory_of_chunks_means_missing_chunks(tmp_path):
    stored = store(tmp_path / "a", (16, 16), (8, 8), fill_bits=3)
    shutil.rmtree(stored.path / "c" / "1")
    (stored.path / "c" / "1").write_bytes(b"no directory")  # ENOTDIR
    with pipeline(batch_size=1) as p:
        p.push([stored.sample((8, 16), (0, 8))])
        with p.pop() as batch:
            assert (batch.numpy() == 3).all()


def test_links_to_files_and_directories_are_followed(tmp_path):
    stored = store(tmp_path / "a", (64,), (8,))
    shutil.move(stored.path / "c", tmp_path / "scratch")
    (stored.path / "c").symlink_to(tmp_path / "scratch")
    with pipeline(batch_size=1) as p:
        p.push([stored.sample((8, 16))])
        with p.pop() as batch:
            assert batch.numpy()[0].tolist() == list(range(9, 17))


PERMISSIONS = """
import os, sys
import damacy
from support.streaming import pipeline
path = sys.argv[1]
with pipeline(batch_size=1) as p:  # imports as root: other users may not be able to read the package
    p.push([damacy.Sample(uri=path, aabb=[(0, 4)])])
    p.pop().release()
    try:
        p.push([damacy.Sample(uri=path + "-absent", aabb=[(0, 4)])])
    except damacy.NotFound:
        pass
if os.geteuid() == 0:
    os.setegid(65534); os.seteuid(65534)
with pipeline(batch_size=1) as p:
    p.push([damacy.Sample(uri=path, aabb=[(k, k + 4)]) for k in (8, 0)])
    try:
        p.pop()
    except damacy.StorageError as error:
        assert error.reason == "io" and error.key == "c/1" and error.errno == 13, error
        assert isinstance(error, OSError)
    else:
        raise AssertionError("no error")
    p.pop().release()
    try:
        p.push([damacy.Sample(uri=path + "-sealed", aabb=[(0, 4)])])
    except damacy.StorageError as error:
        assert error.reason == "io" and error.errno == 13, error
    else:
        raise AssertionError("no error")
    p.close()
"""


@pytest.mark.untraced
def test_no_permission_is_a_storage_error_never_fill(tmp_path_factory):
    import tempfile

    root = tempfile.mkdtemp(prefix="damacy-test-")  # not in pytest's folder, which other users cannot enter
    try:
        os.chmod(root, 0o755)
        stored = store(f"{root}/a", (64,), (8,))
        sealed = store(f"{root}/a-sealed", (64,), (8,))
        os.chmod(stored.object(1), 0)
        os.chmod(sealed.path / "zarr.json", 0)
        child.run_well(PERMISSIONS, stored.path)
    finally:
        shutil.rmtree(root)


# --- objects that change ----------------------------------------------------------------------------------------------


def read(p, stored, axis):
    p.push([stored.sample(axis)])
    with p.pop() as batch:
        return row_bits(batch, "uint16")[0]


def changed(p, stored, axis):
    p.push([stored.sample(axis)])
    with pytest.raises(damacy.StorageError) as caught:
        p.pop()
    assert caught.value.reason == "changed", caught.value
    return caught.value


def rewrite_in_place(path, content: bytes) -> None:
    with open(path, "r+b") as file:
        file.truncate(0)
        file.write(content)
    later = time.time_ns() + 1_000_000_000
    os.utime(path, ns=(later, later))


def test_a_shard_rewritten_after_its_index_was_cached_is_changed_then_read_anew(shards, tmp_path):
    other = store(
        tmp_path / "other.zarr",
        (64,),
        (8,),
        shards=(32,),
        compressor=Compressor("zstd"),
        bits=(shards.bits + 1000).astype(np.uint16),
    )
    with pipeline(batch_size=1, dtype="u16") as p:
        assert read(p, shards, (32, 40)).tolist() == list(range(33, 41))
        rewrite_in_place(shards.object(1), other.object(1).read_bytes())
        error = changed(p, shards, (32, 40))
        assert error.key == "c/1"
        assert read(p, shards, (32, 40)).tolist() == list(range(1033, 1041))
        assert read(p, shards, (0, 8)).tolist() == list(range(1, 9))


def test_a_shard_replaced_by_rename_after_its_index_was_cached_is_changed(shards):
    with pipeline(batch_size=1, dtype="u16") as p:
        read(p, shards, (32, 40))
        copy = shards.object(1).with_name("copy")
        shutil.copyfile(shards.object(1), copy)
        os.rename(copy, shards.object(1))
        changed(p, shards, (32, 40))
        assert read(p, shards, (32, 40)).tolist() == list(range(33, 41))


def test_a_shard_deleted_after_its_index_was_cached_is_changed_and_then_fill(shards):
    with pipeline(batch_size=1, dtype="u16") as p:
        read(p, shards, (32, 40))
        shards.object(1).unlink()
        changed(p, shards, (40, 48))
        assert not read(p, shards, (32, 40)).any()


def test_a_shard_truncated_after_its_index_was_cached(shards):
    with pipeline(batch_size=1, dtype="u16") as p:
        read(p, shards, (32, 40))
        os.truncate(shards.object(1), 10)
        with pytest.raises(damacy.StorageError) as caught:
            p.push([shards.sample((32, 40))])
            p.pop()
        assert caught.value.reason in ("changed", "short-read")


def test_metadata_rewritten_after_they_were_cached_are_changed_then_read_anew(volume):
    with pipeline(batch_size=1, dtype="u16") as p:
        box = ((0, 4), (0, 4))
        p.push([volume.sample(*box)])
        p.pop().release()
        document = (volume.path / "zarr.json").read_text()
        rewrite_in_place(volume.path / "zarr.json", document.replace('"fill_value": 0', '"fill_value": 9').encode())
        volume.object(0, 0).unlink()
        with pytest.raises(damacy.StorageError) as caught:  # from push, or from pop if push trusts its cache
            p.push([volume.sample(*box)])
            p.pop()
        assert caught.value.reason == "changed" and caught.value.key == "zarr.json"
        p.push([volume.sample(*box)])
        with p.pop() as batch:
            assert (batch.numpy() == 9).all()


def test_an_array_deleted_after_it_was_cached_is_never_fill(volume):
    with pipeline(batch_size=1) as p:
        p.push([volume.sample((0, 4), (0, 4))])
        p.pop().release()
        shutil.rmtree(volume.path)
        with pytest.raises((damacy.StorageError, damacy.NotFound)) as caught:
            p.push([volume.sample((0, 4), (0, 4))])
            p.pop()
        assert caught.value.reason in ("changed", "no-metadata")


def test_a_chunk_that_appears_after_it_was_missing_is_read(tmp_path):
    stored = store(tmp_path / "a", (64,), (8,), fill_bits=5)
    content = stored.object(1).read_bytes()
    stored.object(1).unlink()
    with pipeline(batch_size=1, dtype="u16") as p:
        assert (read(p, stored, (8, 16)) == 5).all()
        stored.object(1).write_bytes(content)
        assert read(p, stored, (8, 16)).tolist() == list(range(9, 17))


def test_few_descriptors_are_enough_for_many_objects(tmp_path):
    program = """
    import resource, sys
    import damacy
    from support.streaming import pipeline
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    path = sys.argv[1]
    with pipeline(batch_size=8, n_io_threads=4, dtype="u16") as p:
        p.push([damacy.Sample(uri=path, aabb=[(k, k + 100)]) for k in range(0, 1000, 25)] [:32])
        for n, batch in enumerate(p.batches(4)):
            with batch:
                for i, row in zip(batch.sample_indices, batch.numpy()):
                    assert row.tolist() == list(range(25 * i + 1, 25 * i + 101))
    """
    stored = store(tmp_path / "a", (1000,), (1,))
    child.run_well(program, stored.path)
