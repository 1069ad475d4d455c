"""Compares the writers with independent readers: zarr-python and tensorstore read the elements that were generated."""

import numpy as np
import pytest
import tensorstore
import zarr

from bench import content, workload, writer


@pytest.fixture(scope="module", autouse=True)
def data_in_a_folder_of_its_own(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("DAMACY_BENCH_DATA", str(tmp_path_factory.mktemp("data")))
    yield
    patch.undo()


@pytest.mark.parametrize("name", workload.SCENARIOS)
def test_every_scenario_reads_back_equal_in_zarr_and_tensorstore(name):
    arrays = workload.scenario(name, "tiny").arrays
    writer.prepare(arrays)
    for array in arrays:
        expected = content.make(*array.volume)
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(array.path)}}
        np.testing.assert_array_equal(zarr.open_array(array.path, mode="r")[...], expected)
        np.testing.assert_array_equal(tensorstore.open(spec).result().read().result(), expected)


def test_a_finished_array_is_not_written_again():
    arrays = workload.scenario("smoke", "tiny").arrays
    writer.prepare(arrays)
    before = arrays[0].path.stat().st_ino
    calls = []
    writer.prepare(arrays, on_volume=lambda done, total: calls.append((done, total)))
    assert calls == [(0, 0)]
    assert arrays[0].path.stat().st_ino == before


def test_the_finder_gives_each_chunk_its_own_bytes():
    array = workload.scenario("default", "tiny").arrays[0]
    writer.prepare([array])
    finder = writer.ChunkFinder(array)
    values = content.make(*array.volume)
    from numcodecs.zstd import Zstd

    for cell in [(0, 0, 0), (3, 2, 1), (7, 3, 3)]:
        chunk = finder.find(cell)
        packed = chunk.path.read_bytes()[chunk.offset : chunk.offset + chunk.size]
        where = tuple(slice(c * n, (c + 1) * n) for c, n in zip(cell, array.chunk))
        decoded = np.frombuffer(Zstd().decode(packed), "<u2").reshape(array.chunk)
        np.testing.assert_array_equal(decoded, values[where])


def test_morton_order_takes_the_lowest_bit_of_every_axis_first():
    assert writer.morton_order((2, 2)) == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert writer.morton_order((1, 3)) == [(0, 0), (0, 1), (0, 2)]
    assert sorted(writer.morton_order((4, 2, 8))) == list(np.ndindex(4, 2, 8))


def test_both_checksums_agree_with_the_published_value():
    assert writer.slow_crc32c(b"123456789") == 0xE3069283
    assert writer.crc32c(b"123456789") == 0xE3069283
