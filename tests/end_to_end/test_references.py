"""HDF5 files read in place, through documents of references that kerchunk writes: elements equal those of h5py and of
zarr-python over fsspec's reference file system. Documents by hand show what is refused."""

import base64
import importlib.util
import json
import os
import time
import zlib

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer, cut, status  # noqa: E402
from support.s3_server import S3Server  # noqa: E402

MISSING = [name for name in ("kerchunk", "h5py", "fsspec") if importlib.util.find_spec(name) is None]
KERCHUNK = pytest.mark.skipif(
    bool(MISSING), reason=f"HDF5 files and their references need {', '.join(MISSING)}: pip install kerchunk h5py"
)
ARRAYS = ("t2m", "wind", "grid", "below/steps", "sparse", "small")


def write_hdf5(path):
    import h5py

    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        packed = {"shuffle": True, "compression": "gzip"}
        t2m = rng.normal(280, 20, (12, 90, 100)).cumsum(2).astype("f4").round(1)
        file.create_dataset("t2m", data=t2m, chunks=(4, 30, 40), **packed)
        file.create_dataset("wind", data=rng.integers(-3000, 3000, (90, 100), dtype="i2"), chunks=(32, 32), **packed)
        file.create_dataset("grid", data=np.arange(60.0).reshape(6, 10))  # contiguous
        file.create_dataset("below/steps", data=np.arange(50, dtype=">i4"), chunks=(8,))
        sparse = file.create_dataset("sparse", (64, 64), "f8", chunks=(16, 16), fillvalue=7.5, compression="gzip")
        sparse[:20, :20] = rng.random((20, 20))
        file.create_dataset("small", data=np.arange(5, dtype="u1"))  # in the document itself


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The file, and a document for each way to reach it."""
    pytest.importorskip("kerchunk")
    from kerchunk.hdf import SingleHdf5ToZarr

    folder = tmp_path_factory.mktemp("archive") / "bucket"
    folder.mkdir()
    write_hdf5(folder / "a b.h5")
    for name, url in {"absolute": str(folder / "a b.h5"), "relative": "a b.h5", "s3": "s3://bucket/a b.h5"}.items():
        with open(folder / "a b.h5", "rb") as file:
            refs = SingleHdf5ToZarr(file, url=url, inline_threshold=64).translate()
        (folder / f"{name}.json").write_text(json.dumps(refs))
    return folder


def expected(folder):
    import h5py

    with h5py.File(folder / "a b.h5") as file:
        return {name: file[name][...] for name in ARRAYS}


def of_fsspec(folder):
    import fsspec

    refs = json.loads((folder / "absolute.json").read_text())
    files = fsspec.filesystem("reference", fo=refs, remote_protocol="file", asynchronous=True)
    group = zarr.open_group(zarr.storage.FsspecStore(files, read_only=True), mode="r", zarr_format=2)
    return {name: np.asarray(group[name][...]) for name in ARRAYS}


@KERCHUNK
def test_arrays_equal_those_of_h5py_and_of_fsspec(folder):
    damacy.mount("store://archive/", damacy.ReferenceStore(folder / "absolute.json"))
    others = of_fsspec(folder)
    for name, wanted in expected(folder).items():
        array = damacy.open_array(f"store://archive/{name}")
        np.testing.assert_array_equal(array[...], wanted)
        np.testing.assert_array_equal(array[...], others[name])


@pytest.mark.parametrize("path", ["a", "below/a"])
def test_inlined_chunks_of_a_store_of_fsspec_are_read(tmp_path, path):
    """fsspec says of an inlined object how long its text is, `base64:` included."""
    fsspec = pytest.importorskip("fsspec")
    elements = np.arange(100, dtype="<i4")
    document = {"zarr_format": 2, "shape": [100], "chunks": [25], "dtype": "<i4", "compressor": {"id": "zlib"}}
    document |= {"filters": None, "order": "C", "fill_value": 7}
    chunks = [zlib.compress(elements[k : k + 25].tobytes()) for k in range(0, 100, 25)]
    (tmp_path / "chunks").write_bytes(chunks[1] + chunks[2])
    references = {
        f"{path}/.zarray": json.dumps(document),
        f"{path}/0": "base64:" + base64.b64encode(chunks[0]).decode(),
        f"{path}/1": [str(tmp_path / "chunks"), 0, len(chunks[1])],
        f"{path}/2": [str(tmp_path / "chunks"), len(chunks[1]), len(chunks[2])],
    }
    files = fsspec.filesystem("reference", fo=references, remote_protocol="file", asynchronous=True)
    damacy.mount("store://inlined/", zarr.storage.FsspecStore(files, read_only=True))
    read = damacy.open_array(f"store://inlined/{path}")[...]
    np.testing.assert_array_equal(read, [*elements[:75], *[7] * 25])


def stream(uri, wanted, boxes, kept=0, **fields):
    """The statistics, once `kept` entries are on disk: they are written in the background."""
    memory = {"host_buffer_bytes": 64 << 20, "device_buffer_bytes": 64 << 20}
    with damacy.Pipeline(
        damacy.Config(**{"batch_size": 2, "device": "cpu", "dtype": "f32", **memory, **fields})
    ) as pipeline:
        pipeline.push([damacy.Sample(uri, box) for box in boxes])
        pipeline.flush()
        seen = 0
        for batch in pipeline:
            with batch as b:
                for row, sample in zip(b.numpy(), b.samples, strict=True):
                    np.testing.assert_array_equal(row, wanted[tuple(slice(*axis) for axis in sample.aabb)])
                    seen += 1
        assert seen == len(boxes)
        deadline = time.monotonic() + 10
        while pipeline.stats().disk_kept < kept and time.monotonic() < deadline:
            time.sleep(0.01)
        return pipeline.stats()


BOXES = [[(i, i + 4), (7 * i, 7 * i + 20), (5 * i, 5 * i + 30)] for i in range(8)]


@KERCHUNK
def test_a_stream_reads_the_file(folder):
    damacy.mount("store://archive/", damacy.ReferenceStore(str(folder / "relative.json")))
    stream("store://archive/t2m", expected(folder)["t2m"], BOXES)
    assert damacy.open("store://archive")


@KERCHUNK
def test_a_stream_reads_from_http_and_counts_its_requests(folder):
    with FaultServer(folder) as server:
        refs = json.loads((folder / "absolute.json").read_text())
        text = json.dumps(refs).replace(str(folder / "a b.h5"), f"{server.url}/a%20b.h5")
        (folder / "http.json").write_text(text)
        damacy.mount("store://archive/", damacy.ReferenceStore(f"{server.url}/http.json"))
        before = len(server.requests)
        stats = stream("store://archive/t2m", expected(folder)["t2m"], BOXES)
        ranges = [request for request in server.requests[before:] if request.path.endswith("b.h5")]
        assert stats.requests == len(server.requests) - before == len(ranges)
        chunks = 3 * 3 * 3
        assert len(ranges) <= chunks + 2  # one tells what the file is


@KERCHUNK
def test_a_stream_reads_from_s3_with_signatures(folder):
    with S3Server(folder.parent, keys={"AKIDEXAMPLE": "secret"}) as server:
        options = {"endpoint": server.url, "access_key_id": "AKIDEXAMPLE", "secret_access_key": "secret"}
        damacy.mount("s3://bucket/", damacy.StoreOptions(**options))
        damacy.mount("store://archive/", damacy.ReferenceStore("s3://bucket/s3.json"))
        stream("store://archive/t2m", expected(folder)["t2m"], BOXES)


@KERCHUNK
def test_chunks_are_kept_on_disk(folder, tmp_path):
    with S3Server(folder.parent, keys={"AKIDEXAMPLE": "secret"}) as server:
        options = {"endpoint": server.url, "access_key_id": "AKIDEXAMPLE", "secret_access_key": "secret"}
        damacy.mount("s3://bucket/", damacy.StoreOptions(**options, immutable=True))
        damacy.mount("store://archive/", damacy.ReferenceStore("s3://bucket/s3.json"))
        disk = {"disk_cache": str(tmp_path), "disk_cache_bytes": 256 << 20}
        wanted = expected(folder)["t2m"]
        first = stream("store://archive/t2m", wanted, BOXES, kept=1, **disk)
        assert first.disk_kept > 0
        damacy.mount("s3://bucket/", damacy.StoreOptions(**options, immutable=True))
        damacy.mount("store://archive/", damacy.ReferenceStore("s3://bucket/s3.json"))
        before = len(server.requests)
        second = stream("store://archive/t2m", wanted, BOXES, **disk)
        assert second.disk_hits > 0 and second.disk_misses == 0
        assert len(server.requests) == before and second.requests == 0


@KERCHUNK
def test_a_store_may_be_passed_along(folder):
    store = damacy.ReferenceStore(folder / "absolute.json")
    assert damacy.open("t2m", store=store).shape == (12, 90, 100)
    sample = damacy.Sample("t2m", [(0, 4), (0, 20), (0, 30)], store=store)
    assert sample.uri == damacy.mount(store) + "t2m"
    assert damacy.mount(damacy.ReferenceStore(folder / "absolute.json")) == damacy.mount(store)


@KERCHUNK
@pytest.mark.parametrize("fault", [cut(100), status("503 Busy")], ids=["cut", "busy"])
def test_a_request_that_fails_is_repeated(folder, fault):
    with FaultServer(folder) as server:
        refs = (folder / "absolute.json").read_text().replace(str(folder / "a b.h5"), f"{server.url}/a%20b.h5")
        (folder / "http.json").write_text(refs)
        damacy.mount("store://archive/", damacy.ReferenceStore(f"{server.url}/http.json"))
        server.faults = {2: fault}
        stream("store://archive/t2m", expected(folder)["t2m"], BOXES)


def documented(tmp_path, refs, **more):
    path = tmp_path / "refs.json"
    path.write_text(json.dumps({"version": 1, "refs": refs, **more}))
    return damacy.ReferenceStore(path)


ZARRAY = {"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<u2", "order": "C", "fill_value": 9} | {
    "compressor": None,
    "filters": None,
}


def test_a_document_by_hand(tmp_path):
    np.arange(4, dtype="<u2").tofile(tmp_path / "raw")
    refs = {"a/.zarray": ZARRAY, "a/0": ["raw", 4, 4], "b/.zarray": json.dumps(ZARRAY), "b/1": ["raw", 0, 4]}
    refs["b/0"] = "base64:AQACAA=="
    prefix = damacy.mount(documented(tmp_path, refs))
    np.testing.assert_array_equal(damacy.open(prefix + "a")[:], [2, 3, 9, 9])
    np.testing.assert_array_equal(damacy.open(prefix + "b")[:], [1, 2, 0, 1])


def test_an_object_that_is_gone_is_an_error_and_never_fill(tmp_path):
    prefix = damacy.mount(documented(tmp_path, {"a/.zarray": ZARRAY, "a/0": ["gone", 4, 4], "a/1": "x" * 4}))
    with pytest.raises(damacy.StorageError) as caught:
        damacy.open(prefix + "a")[:]
    assert f"{tmp_path}/gone, which does not exist" in str(caught.value) and caught.value.key == "0"
    (tmp_path / "gone").write_bytes(b"12345")
    with pytest.raises(damacy.StorageError) as caught:
        damacy.open(prefix + "a")[:]
    assert caught.value.reason == "short-read" and "bytes 4 to 8" in str(caught.value)


CHUNK_BYTES, CHUNKS = 8192, 8
AT = {0: 512, 1: 8704, 3: 16896, 2: 25088, 4: 34280, 5: 42472, 6: 250_664, 7: 258_856}  # of chunks in a file
RUNS = [(512, 50_664), (250_664, 267_048)]  # chunks 0 to 5, with a gap of 1,000 bytes, and 6 to 7
GAP = damacy.StoreOptions(gap_bytes=2000)
WHOLE = [(0, CHUNKS), (0, CHUNK_BYTES // 2)]


@pytest.fixture
def contiguous(tmp_path):
    """A server of two arrays in one file, as NetCDF keeps them, elements of the first, and where they are mounted."""
    values = np.random.default_rng(2).integers(0, 60000, (CHUNKS, CHUNK_BYTES // 2), dtype="<u2")
    file = bytearray(300_000)
    array = ZARRAY | {"shape": list(values.shape), "chunks": [1, values.shape[1]]}
    refs = {"a/.zarray": array, "b/.zarray": array, "b/0.0": ["raw", 1000, CHUNK_BYTES]}
    for chunk, at in AT.items():
        file[at : at + CHUNK_BYTES] = values[chunk].tobytes()
        refs[f"a/{chunk}.0"] = ["raw", at, CHUNK_BYTES]
    (tmp_path / "raw").write_bytes(file)
    documented(tmp_path, refs)
    with FaultServer(tmp_path) as server:
        damacy.mount(f"{server.url}/", GAP)
        prefix = damacy.mount(damacy.ReferenceStore(f"{server.url}/refs.json"))
        server.requests.clear()
        yield server, values, prefix


def ranges_of(server):
    return sorted(request.range for request in server.requests if request.path == "/raw")


FIRST_LOOK = [(0, 0)]  # says what the file is
MERGED = [(begin, end - 1) for begin, end in RUNS]


def test_chunks_that_lie_near_each_other_in_a_file_are_read_together(contiguous):
    server, values, prefix = contiguous
    stats = stream(prefix + "a", values, [WHOLE], dtype="u16")
    assert ranges_of(server) == FIRST_LOOK + MERGED
    assert stats.requests == len(server.requests) == 3
    assert stats.reads_issued == len(MERGED) and stats.bytes_read == sum(end - begin for begin, end in RUNS)


def test_a_read_of_an_array_merges_them_too(contiguous):
    server, values, prefix = contiguous
    array = damacy.open_array(prefix + "a")
    np.testing.assert_array_equal(array[...], values)
    assert ranges_of(server) == FIRST_LOOK + MERGED
    np.testing.assert_array_equal(array[2:5], values[2:5])
    assert ranges_of(server) == sorted([*FIRST_LOOK, *MERGED, (16896, 34_280 + CHUNK_BYTES - 1)])  # 3, 2 and 4


def test_a_check_merges_them_too(contiguous):
    server, _, prefix = contiguous
    verifier = damacy._native.Verifier(prefix + "a")
    report = verifier.verify(0, verifier.places)
    assert (report["chunks"], report["encoded_bytes"], report["bad"]) == (CHUNKS, CHUNKS * CHUNK_BYTES, [])
    assert ranges_of(server) == FIRST_LOOK + MERGED


def test_a_check_names_each_chunk_that_is_wrong(contiguous):
    server, _, prefix = contiguous
    with open(server.folder / "raw", "r+b") as file:
        file.truncate(AT[6] + 1)
    verifier = damacy._native.Verifier(prefix + "a")
    report = verifier.verify(0, verifier.places)
    assert report["chunks"] == CHUNKS - 2
    assert [(error.key, error.reason) for error in report["bad"]] == [(f"{chunk}.0", "short-read") for chunk in (6, 7)]
    assert ranges_of(server) == FIRST_LOOK + MERGED[:1]


def test_a_file_on_a_local_disk_is_read_in_as_few_calls(tmp_path, contiguous):
    _, values, _ = contiguous
    prefix = damacy.mount(damacy.ReferenceStore(tmp_path / "refs.json"))
    assert stream(prefix + "a", values, [WHOLE], dtype="u16").reads_issued == len(MERGED)
    np.testing.assert_array_equal(damacy.open(prefix + "a")[...], values)


def test_arrays_of_one_file_are_read_each_by_itself(contiguous):
    server, values, prefix = contiguous
    expected_of_b = np.full_like(values, ZARRAY["fill_value"])
    raw = (server.folder / "raw").read_bytes()
    expected_of_b[0] = np.frombuffer(raw[1000 : 1000 + CHUNK_BYTES], "<u2")
    config = damacy.Config(batch_size=2, device="cpu", dtype="u16", host_buffer_bytes=64 << 20)
    with damacy.Pipeline(config) as pipeline:
        pipeline.push([damacy.Sample(prefix + name, WHOLE) for name in "ab"])
        with pipeline.pop() as batch:
            np.testing.assert_array_equal(batch.numpy(), [values, expected_of_b])
        assert pipeline.stats().reads_issued == len(MERGED) + 1
    assert ranges_of(server) == sorted([*FIRST_LOOK, *MERGED, (1000, 1000 + CHUNK_BYTES - 1)])


def refuse_long(line):
    def fault(request, answer):
        begin, end = request.range or (0, 0)
        if end - begin > CHUNK_BYTES:
            status(line)(request, answer)

    return fault


def test_a_merged_read_that_ends_early_is_read_apart(contiguous):
    server, values, prefix = contiguous
    server.faults = refuse_long("416 Range Not Satisfiable")
    stats = stream(prefix + "a", values, [WHOLE], dtype="u16")
    apart = [(at, at + CHUNK_BYTES - 1) for at in AT.values()]
    assert ranges_of(server) == sorted(FIRST_LOOK + MERGED + apart)
    assert stats.requests == len(server.requests)


@pytest.mark.parametrize("read", ["pop", "array"])
def test_the_error_of_a_merged_read_names_a_chunk_and_the_file(contiguous, read):
    server, values, prefix = contiguous
    server.faults = refuse_long("403 Forbidden")
    with pytest.raises(damacy.StorageError) as caught:
        if read == "pop":
            stream(prefix + "a", values, [WHOLE], dtype="u16")
        else:
            damacy.open_array(prefix + "a").read()
    assert caught.value.reason == "denied" and caught.value.key in {f"{chunk}.0" for chunk in AT}
    assert f"the reference names {server.url}/raw" in str(caught.value)


def test_chunks_of_a_merged_read_are_kept_one_by_one(contiguous, tmp_path):
    server, values, prefix = contiguous
    disk = {"dtype": "u16", "disk_cache": str(tmp_path / "disk"), "disk_cache_bytes": 256 << 20}
    first = stream(prefix + "a", values, [WHOLE], kept=CHUNKS, **disk)
    assert (first.disk_kept, ranges_of(server)) == (CHUNKS, FIRST_LOOK + MERGED)
    server.requests.clear()
    second = stream(prefix + "a", values, [[(2, 4), WHOLE[1]]], **disk)
    assert (second.disk_hits, second.disk_misses) == (2, 0)
    assert ranges_of(server) in ([], FIRST_LOOK)


def test_a_plan_shows_the_merged_reads(contiguous):
    from typer.testing import CliRunner

    from damacy._cli.commands import app

    server, _, _ = contiguous
    run = ["plan", "a", f"0:{CHUNKS}", "--references", f"{server.url}/refs.json", "--json"]
    found = json.loads(CliRunner().invoke(app, run).output)
    assert [(read["offset"], read["offset"] + read["bytes"]) for read in found["reads"]] == RUNS


@pytest.mark.parametrize("member", [{"templates": {"u": "s3://bucket/x"}}, {"gen": [{"key": "a"}]}])
def test_templates_and_gen_are_refused_by_name(tmp_path, member):
    with pytest.raises(damacy.UnsupportedFormat) as caught:
        damacy.mount(documented(tmp_path, {}, **member))
    assert caught.value.reason == "references" and caught.value.pointer == f"/{next(iter(member))}"
    assert str(tmp_path) in str(caught.value)


def test_parquet_is_refused_with_the_adapter(tmp_path):
    with pytest.raises(damacy.UnsupportedFormat, match="FsspecStore"):
        damacy.mount(damacy.ReferenceStore(tmp_path))


def test_other_places_are_refused_unless_allowed(tmp_path):
    with FaultServer(tmp_path) as server, FaultServer(tmp_path) as other:
        (tmp_path / "data").write_bytes(b"\1\0\2\0")
        refs = {".zarray": ZARRAY | {"shape": [2]}, "0": [f"{other.url}/data"]}
        documented(tmp_path, refs)
        uri = f"{server.url}/refs.json"
        with pytest.raises(damacy.InvalidArgument) as caught:
            damacy.mount(damacy.ReferenceStore(uri))
        assert caught.value.reason == "uri" and f'allow=["{other.url}/"]' in str(caught.value)
        assert not other.requests
        prefix = damacy.mount(damacy.ReferenceStore(uri, allow=[other.url]))
        np.testing.assert_array_equal(damacy.open(prefix)[:], [1, 2])
        documented(tmp_path, {"0": [str(tmp_path / "data")]})
        with pytest.raises(damacy.InvalidArgument, match="never lead to files"):
            damacy.mount(damacy.ReferenceStore(uri, allow=["http://x/"]))


def test_a_file_that_is_replaced_is_noticed(tmp_path):
    np.arange(4, dtype="<u2").tofile(tmp_path / "raw")
    prefix = damacy.mount(documented(tmp_path, {".zarray": ZARRAY, "0": ["raw", 0, 4], "1": ["raw", 4, 4]}))
    np.testing.assert_array_equal(damacy.open(prefix)[:], [0, 1, 2, 3])
    np.arange(4, 8, dtype="<u2").tofile(tmp_path / "new")
    os.replace(tmp_path / "new", tmp_path / "raw")
    np.testing.assert_array_equal(damacy.open(prefix)[:], [4, 5, 6, 7])


def test_arguments_are_checked():
    with pytest.raises(TypeError, match="uri must be"):
        damacy.ReferenceStore(7)
    with pytest.raises(TypeError, match="allow must be"):
        damacy.ReferenceStore("a.json", allow="s3://bucket/")
    assert hash(damacy.ReferenceStore("a.json")) == hash(damacy.ReferenceStore("a.json"))
    with pytest.raises(damacy.NotFound) as caught:
        damacy.mount(damacy.ReferenceStore("/nowhere/a.json"))
    assert caught.value.reason == "no-object"


def test_commands_take_paths_in_a_document(tmp_path):
    from typer.testing import CliRunner

    from damacy._cli.commands import app

    def run(*arguments):
        return CliRunner().invoke(app, [str(each) for each in arguments])

    np.arange(4, dtype="<u2").tofile(tmp_path / "raw")
    store = documented(tmp_path, {"a/.zarray": ZARRAY, "a/0": ["raw", 4, 4], ".zgroup": {"zarr_format": 2}})
    document = ["--references", store.uri]
    assert json.loads(run("info", "a", *document, "--json").output)["shape"] == [4]
    assert json.loads(run("ls", "/", *document, "--json").output)["members"].keys() == {"a"}
    assert run("verify", "a", *document).exit_code == 0
    assert json.loads(run("plan", "a", "0:2", *document, "--json").output)["read_bytes"] == 4
    (tmp_path / "raw").write_bytes(b"short")
    assert run("verify", "a", *document).exit_code == 1
    assert "--references" in run("info", "a", "--allow", "s3://bucket/").output
