"""`damacy.zarr.GDSStore` under zarr-python 2, compared with zarr's `DirectoryStore`. Skipped under zarr 3."""

import os

import numpy as np
import pytest

numcodecs = pytest.importorskip("numcodecs")
zarr = pytest.importorskip("zarr")
if not zarr.__version__.startswith("2."):
    pytest.skip("needs zarr 2", allow_module_level=True)

from zarr.errors import FSPathExistNotDir  # noqa: E402
from zarr.storage import DirectoryStore  # noqa: E402

import damacy  # noqa: E402
from damacy.zarr import GDSStore, _gds_store_v2  # noqa: E402


@pytest.fixture
def store(tmp_path):
    return GDSStore(tmp_path / "store", output="host")


def test_its_base_classes_and_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = GDSStore("x")
    assert isinstance(store, DirectoryStore) and store.path == str(tmp_path / "x")
    assert store == GDSStore(tmp_path / "x") and store != DirectoryStore(str(tmp_path / "x"))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FSPathExistNotDir):
        GDSStore(tmp_path / "file")
    if not damacy._native.backend_info()["cuda"]:
        with pytest.raises(damacy.InvalidArgument):
            GDSStore("x", output="gpu")


def test_documents_are_bytes_and_the_rest_arrays(store):
    store["a/.zarray"] = b"{}"
    store["a/0.0"] = np.arange(6, dtype="<i2").reshape(2, 3)
    assert store["a/.zarray"] == b"{}"
    got = store["a/0.0"]
    assert isinstance(got, np.ndarray) and got.dtype == np.uint8 and got.shape == (12,)
    assert got.tobytes() == np.arange(6, dtype="<i2").tobytes()
    for missing in ("a", "b", "a/0.0/c", "/etc/passwd", "../x", "a\0"):
        with pytest.raises(KeyError):
            store[missing]
        assert missing not in store
    for wrong in ("/etc/x", "../x", "a\0"):
        with pytest.raises(ValueError):
            store[wrong] = b""
    with pytest.raises(KeyError):
        store["a/.zarray/below"] = b""
    store["a/.zarray"] = np.arange(10)[::2].astype("u1")
    assert store["a/.zarray"] == bytes([0, 2, 4, 6, 8])


def test_names(store, tmp_path):
    store["a/0"] = b"x"
    store["b"] = b"y"
    (tmp_path / "store/a/.damacy-0f.partial").write_bytes(b"half")
    (tmp_path / "store/stray").write_bytes(b"")
    assert sorted(store) == sorted(store.keys()) == ["a/0", "b", "stray"] and len(store) == 3
    assert store.listdir("a") == ["0"]
    store["a"] = b"now a file"
    assert sorted(store) == ["a", "b", "stray"]
    del store["a"]
    with pytest.raises(KeyError):
        del store["a"]
    store["t/1"] = store["t/2"] = b"z"
    del store["t"]
    assert sorted(store) == ["b", "stray"]
    assert GDSStore(tmp_path / "store", normalize_keys=True, output="host")["B"].tobytes() == b"y"


def test_nested_chunks_are_listed_under_dotted_names(tmp_path):
    nested = GDSStore(tmp_path / "n", dimension_separator="/", output="host")
    zarr.create((4, 4), chunks=(2, 2), store=nested)[:] = 1
    (tmp_path / "n" / "0" / ".damacy-0f.partial").write_bytes(b"half")
    assert nested.listdir() == [".zarray", "0.0", "0.1", "1.0", "1.1"]
    assert sorted(nested) == [".zarray", "0/0", "0/1", "1/0", "1/1"]


def test_many_objects_at_once(store):
    for k in range(20):
        store[f"c/{k}"] = bytes([k]) * k
    found = store.getitems([f"c/{k}" for k in range(0, 40, 2)], contexts={})
    assert {k: v.tobytes() for k, v in found.items()} == {f"c/{k}": bytes([k]) * k for k in range(0, 20, 2)}


@pytest.mark.parametrize("separator", [".", "/"])
def test_arrays_equal_those_of_zarrs_own_store(tmp_path, separator):
    x = np.random.default_rng(0).normal(size=(50, 60))
    trees = []
    for cls in (GDSStore, DirectoryStore):
        root = tmp_path / cls.__name__
        given = {"output": "host"} if cls is GDSStore else {}
        store = cls(str(root), dimension_separator=separator, **given)
        z = zarr.open(store, "w", shape=x.shape, chunks=(20, 10), dtype="f8")
        z[:] = x
        z[3:7, 5:50] = 1
        trees.append({p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()})
        again = zarr.open(GDSStore(root, dimension_separator=separator, output="host"), "r")
        assert (again[:] == z[:]).all()
    assert trees[0] == trees[1]
    assert os.listdir(tmp_path / "GDSStore")


@pytest.fixture
def without_cupy(monkeypatch):
    """Simulates a machine with a GPU and without CuPy: values are device arrays, here in host memory."""
    monkeypatch.setattr(_gds_store_v2, "_gpu_is_usable", lambda: True)
    monkeypatch.setattr(_gds_store_v2, "_has_cupy", lambda: False)


ARRAYS = {
    "raw": {"compressor": None},
    "compressed": {},
    "filtered": {"filters": [numcodecs.Delta("<i4")]},
    "columns first": {"compressor": None, "order": "F"},
}


@pytest.mark.parametrize("options", ARRAYS.values(), ids=ARRAYS)
def test_arrays_over_device_values_are_read_and_written_without_cupy(tmp_path, options, without_cupy):
    x = np.arange(70, dtype="<i4").reshape(10, 7)
    plain = zarr.create(x.shape, chunks=(4, 3), dtype="<i4", store=DirectoryStore(str(tmp_path / "a")), **options)
    plain[:8] = x[:8]
    store = GDSStore(tmp_path / "a")
    assert isinstance(store["0.0"], damacy.DeviceArray)
    ours = zarr.open_array(store, mode="r+")
    for selection in (np.s_[:], np.s_[1:9:2, 2], np.s_[4:8, 3:6], (5, 5), np.s_[9:, 1]):
        got = ours[selection]
        assert isinstance(got, (np.ndarray, np.generic)) and np.array_equal(got, plain[selection])
    assert np.array_equal(ours.oindex[[0, 3, 9], [6, 1]], plain.oindex[[0, 3, 9], [6, 1]])
    assert np.array_equal(ours.vindex[[0, 7], [6, 1]], plain.vindex[[0, 7], [6, 1]])
    ours[3:6, 1:4] = -x[3:6, 1:4]  # parts of chunks: read, changed, written
    ours[8:] = 5
    wanted = x.copy()
    wanted[3:6, 1:4] *= -1
    wanted[8:] = 5
    assert np.array_equal(plain[:], wanted)


@pytest.mark.parametrize("compressor", [None, numcodecs.Zlib()], ids=["raw", "compressed"])
def test_a_scalar_array_over_device_values_is_read_without_cupy(tmp_path, compressor, without_cupy):
    zarr.create((), dtype="f8", compressor=compressor, store=DirectoryStore(str(tmp_path / "a")))[()] = 2.5
    assert float(np.asarray(zarr.open_array(GDSStore(tmp_path / "a"), mode="r")[()])) == 2.5
