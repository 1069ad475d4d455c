"""Stores of other libraries in a forked child: opened anew, or refused by name. A child never reads through a file
offset, a connection or a thread of its parent."""

import os
import signal

import numpy as np
import pytest

zarr = pytest.importorskip("zarr", minversion="3.1")

from support.fault_server import FaultServer  # noqa: E402
from zarr.abc.store import Store  # noqa: E402
from zarr.storage import FsspecStore, LocalStore, LoggingStore, MemoryStore, ZipStore  # noqa: E402

import damacy  # noqa: E402
import damacy.zarr  # noqa: E402

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),  # of Python 3.12 and later
]
CHILD_S = 60
X = np.random.default_rng(0).integers(0, 60_000, (64, 48), dtype="u2")


def fill(store):
    options = {"shape": X.shape, "chunks": (8, 8), "shards": (32, 24), "dtype": "u2", "compressors": None}
    zarr.create_array(store, name="a", **options)[:] = X
    return store


def zipped(folder):
    with ZipStore(folder / "a.zip", mode="w") as writer:
        fill(writer)
    return ZipStore(folder / "a.zip", mode="r")


def of_fsspec(url):
    pytest.importorskip("fsspec", reason="fsspec is not installed: its stores are not tested")
    return FsspecStore.from_url(url)


def files_of_fsspec(folder):
    fill(LocalStore(folder / "a"))
    return of_fsspec(f"file://{folder / 'a'}")


class Owned(Store):
    """A class that is no kind of zarr's. It belongs to the process that made it; pickling makes it anew."""

    supports_listing = supports_writes = supports_deletes = True

    def __init__(self, root):
        super().__init__(read_only=False)
        self.root, self.files, self.process = root, LocalStore(root), os.getpid()

    def __reduce__(self):
        return type(self), (self.root,)

    def __eq__(self, other):
        return isinstance(other, Owned) and self.root == other.root

    async def get(self, key, prototype, byte_range=None):
        assert self.process == os.getpid(), "read through the parent's handle"
        return await self.files.get(key, prototype, byte_range)

    async def exists(self, key):
        return await self.files.exists(key)

    async def set(self, key, value, byte_range=None):
        await self.files.set(key, value)


class Bound(Owned):
    """It holds what cannot be pickled."""

    def __reduce__(self):
        raise TypeError("cannot pickle a socket")


for made in (Owned, Bound):
    made.__abstractmethods__ = frozenset()  # the tests need no others


READ = {
    "MemoryStore": lambda folder: fill(MemoryStore()),
    "LocalStore": lambda folder: fill(LocalStore(folder / "a")),
    "ZipStore": zipped,
    "a wrapper of a ZipStore": lambda folder: LoggingStore(zipped(folder), log_level="ERROR"),
    "FsspecStore in memory": lambda folder: fill(of_fsspec(f"memory://{folder.name}")),
    "FsspecStore of files": files_of_fsspec,
    "a class of the user": lambda folder: fill(Owned(folder / "a")),
}


def fork():
    """As `os.fork`. The child is killed if it does not end."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # pytest-timeout has a handler
        signal.alarm(CHILD_S)
    return child


def in_child(act):
    """What `act` returns in a forked child, or the error that it raises, as a text. Empty if the child does not end."""
    reader, writer = os.pipe()
    if (child := fork()) == 0:
        try:
            said = str(act())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


def by_mount(store):
    return damacy.open_array(damacy.mount(store) + "a")


def by_zarr(store):
    with damacy.zarr.enable():
        return zarr.open_array(store, path="a", mode="r" if store.read_only else "r+")


def is_right(array):
    return all(np.array_equal(array[at : at + 16, 8:40], X[at : at + 16, 8:40]) for at in range(0, 64, 16))


doors = pytest.mark.parametrize("opened", [by_mount, by_zarr])


@doors
@pytest.mark.parametrize("kind", READ)
def test_a_child_reads_what_its_parent_opened_and_read(kind, opened, tmp_path):
    array = opened(READ[kind](tmp_path))
    assert is_right(array)
    assert in_child(lambda: is_right(array)) == "True"
    assert is_right(array)


@doors
def test_a_child_connects_anew_to_a_server_of_an_fsspec_store(opened, tmp_path):
    pytest.importorskip("aiohttp", reason="aiohttp is not installed: fsspec over HTTP is not tested")
    fill(LocalStore(tmp_path / "a"))
    with FaultServer(tmp_path / "a") as server:
        array = opened(of_fsspec(server.url))
        assert is_right(array)
        before = server.connections
        assert in_child(lambda: is_right(array)) == "True"
        assert server.connections > before
        assert is_right(array)


def offsets(path):
    """Of all descriptors of this process that are open on a file."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.path.samefile(f"/proc/self/fd/{name}", path):
                found[name] = os.lseek(int(name), 0, os.SEEK_CUR)
        except OSError:  # of the listing itself, or no file
            pass
    return found


@doors
def test_a_child_moves_no_file_offset_of_its_parents_zip(opened, tmp_path):
    array = opened(zipped(tmp_path))
    assert np.array_equal(array[:8], X[:8])
    before = offsets(tmp_path / "a.zip")
    assert before
    assert in_child(lambda: np.array_equal(array[40:], X[40:])) == "True"
    assert offsets(tmp_path / "a.zip") == before


@doors
def test_reads_move_no_file_offset_of_the_users_zip(opened, tmp_path):
    """Children that read by zarr-python alone share that offset."""
    store = zipped(tmp_path)
    array = opened(store)
    before = os.lseek(store._zf.fp.fileno(), 0, os.SEEK_CUR)
    assert is_right(array)
    assert os.lseek(store._zf.fp.fileno(), 0, os.SEEK_CUR) == before


@doors
def test_a_child_reads_the_zip_that_its_parent_opened_although_another_has_its_name(opened, tmp_path):
    array = opened(zipped(tmp_path))
    assert is_right(array)
    (tmp_path / "a.zip").rename(tmp_path / "b.zip")
    (tmp_path / "a.zip").write_bytes(b"no zip")
    assert in_child(lambda: is_right(array)) == "True"


def test_a_zip_that_is_opened_again_is_read_anew(tmp_path):
    store = zipped(tmp_path)
    array = by_zarr(store)
    assert is_right(array)
    store.close()
    with ZipStore(tmp_path / "a.zip", mode="w") as writer:
        zarr.create_array(writer, name="a", data=X + 1, chunks=(8, 8), shards=(32, 24), compressors=None)
    store._sync_open()
    assert np.array_equal(array[:16], X[:16] + 1)


def for_writing(folder):
    return fill(ZipStore(folder / "a.zip", mode="w"))


def icechunks(folder):
    icechunk = pytest.importorskip("icechunk", reason="icechunk is not installed: its stores are not tested")
    repository = icechunk.Repository.create(icechunk.in_memory_storage())
    session = repository.writable_session("main")
    fill(session.store)
    session.commit("an array")
    return repository.readonly_session("main").store


def obstores(folder):
    obstore = pytest.importorskip("obstore", reason="obstore is not installed: its stores are not tested")
    return fill(zarr.storage.ObjectStore(obstore.store.MemoryStore()))


@doors
@pytest.mark.parametrize(
    ("make", "name"),
    [(for_writing, "ZipStore"), (icechunks, "icechunk"), (obstores, "obstore"), (lambda at: fill(Bound(at)), "Bound")],
    ids=["a ZipStore for writing", "Icechunk", "obstore", "a class that cannot be pickled"],
)
def test_other_stores_are_refused_by_name_in_a_child(make, name, opened, tmp_path):
    array = opened(make(tmp_path))
    assert is_right(array)
    said = in_child(lambda: is_right(array))
    assert said.startswith("StorageError") and "forked child" in said and "spawning" in said, said
    assert name.lower() in said.lower() or (opened, name) == (by_zarr, "obstore") and "ObjectStore" in said, said
    assert is_right(array)


def test_an_array_that_zarrs_own_pipeline_reads_is_opened_anew_too(tmp_path):
    with ZipStore(tmp_path / "a.zip", mode="w") as writer:
        zarr.create_array(writer, name="a", data=X, chunks=(8, 8), filters=[], compressors=zarr.codecs.GzipCodec())
    store = ZipStore(tmp_path / "a.zip", mode="r")
    array = by_zarr(store)
    array._async_array.codec_pipeline.reason = "as if it had a codec that is not read natively"
    before = os.lseek(store._zf.fp.fileno(), 0, os.SEEK_CUR)
    assert is_right(array) and in_child(lambda: is_right(array)) == "True"
    assert os.lseek(store._zf.fp.fileno(), 0, os.SEEK_CUR) == before


def test_children_and_parent_read_a_zip_at_the_same_time(tmp_path):
    array = by_mount(zipped(tmp_path))
    assert is_right(array)

    def wrong():
        rng = np.random.default_rng(os.getpid())
        starts = rng.integers(0, (56, 40), (40, 2))
        return sum(not np.array_equal(array[y : y + 8, x : x + 8], X[y : y + 8, x : x + 8]) for y, x in starts)

    reader, writer = os.pipe()
    children = []
    for _ in range(4):
        if (child := fork()) == 0:
            os.write(writer, f"{wrong()}\n".encode())
            os._exit(0)
        children.append(child)
    os.close(writer)
    assert wrong() == 0
    with os.fdopen(reader) as pipe:
        assert pipe.read() == 4 * "0\n"
    for child in children:
        os.waitpid(child, 0)
