"""Numbers beyond 32 bits, shard indices of odd shapes, memory at its caps, damage anywhere: right bytes or an error."""

import gc
import json
import os
import weakref

import numpy as np
import pytest
from support import child, random_cases, writers
from support.element_types import from_bits
from support.layout import Compressor, Layout
from support.line import endless, numbers, popped
from support.streaming import Stored, pipeline, row_bits, store

import damacy


def write_document(path, **changes):
    """A v3 array of bytes in shards of 4 chunks of 4, its index at the end; no object yet."""
    layout = Layout(shape=(64,), chunks=(4,), shards=(16,), dtype="uint8")
    document = {**writers.document_v3(layout), **changes}
    path.mkdir()
    (path / "zarr.json").write_text(json.dumps(document))
    return Stored(path, layout, np.zeros(64, np.uint8))


def write_shard(path, size: int, entries, payload) -> None:
    """A sparse file of `size` bytes before its index, with the pieces of `payload` at their offsets."""
    path.parent.mkdir(exist_ok=True)
    index = np.array(entries, "<u8").tobytes()
    with open(path, "wb") as file:
        for offset, data in payload:
            file.seek(offset)
            file.write(data)
        file.seek(size)
        file.write(index + writers.google_crc32c.value(index).to_bytes(4, "little"))


def rows(stored, boxes, **options):
    with pipeline(batch_size=len(boxes), dtype="u8", **options) as p:
        p.push([stored.sample(*box) for box in boxes])
        with p.pop() as batch:
            return batch.numpy().tolist()


def test_offsets_beyond_4_gib(tmp_path):
    stored = write_document(tmp_path / "a")
    far = [3, 2**32 - 2, 2**32 + 5, 5 * 2**30]
    content = [bytes([10 * k + j for j in range(1, 5)]) for k in range(4)]
    write_shard(stored.object(1), 6 * 2**30, [[o, 4] for o in far], list(zip(far, content)))
    assert rows(stored, [((16, 32),)]) == [list(b"".join(content))]
    os.unlink(stored.object(1))


def test_repeated_and_overlapping_ranges(tmp_path):
    stored = write_document(tmp_path / "a")
    write_shard(stored.object(0), 100, [[50, 4], [50, 4], [52, 4], [48, 4]], [(48, bytes(range(1, 9)))])
    assert rows(stored, [((0, 16),), ((0, 16),)])[1] == [3, 4, 5, 6, 3, 4, 5, 6, 5, 6, 7, 8, 1, 2, 3, 4]


def test_voxels_far_beyond_32_bits(tmp_path):
    extent = 2**40 + 10
    stored = write_document(
        tmp_path / "a",
        shape=[extent],
        chunk_grid={"name": "regular", "configuration": {"chunk_shape": [16]}},
        fill_value=9,
    )
    last = (extent - 1) // 16
    write_shard(stored.object(last), 4, [[0, 4], *[[2**64 - 1, 2**64 - 1]] * 3], [(0, b"\1\2\3\4")])
    start = 16 * last
    assert rows(stored, [((start - 2, start + 6),), ((0, 8),)]) == [[9, 9, 1, 2, 3, 4, 9, 9], [9] * 8]


def test_small_parts_of_many_large_objects_are_read(tmp_path):
    stored = store(tmp_path / "a", (64, 1 << 20), (1, 1 << 20), "uint8", compressor=Compressor("blosc", level=5))
    with pipeline(batch_size=1, dtype="u8", host_buffer_bytes=1 << 22, device_buffer_bytes=1 << 22) as p:
        p.push([stored.sample((0, 64), (5000, 5003))])
        with p.pop() as batch:
            np.testing.assert_array_equal(row_bits(batch, "uint8")[0], stored.row(((0, 64), (5000, 5003))))


def test_an_index_larger_than_the_metadata_budget_is_out_of_memory_for_its_samples_alone(tmp_path):
    entries = 1 << 19  # an index of 8 MiB; the budget is a quarter of 16 MiB
    layout = Layout(shape=(entries,), chunks=(1,), shards=(entries,), dtype="uint8")
    big = Stored(tmp_path / "big", layout, np.zeros(entries, np.uint8))
    big.path.mkdir()
    (big.path / "zarr.json").write_text(json.dumps(writers.document_v3(layout)))
    write_shard(big.object(0), 1, np.tile([0, 1], (entries, 1)), [(0, b"\7")])
    small = store(tmp_path / "small", (64,), (8,), shards=(32,))
    with pipeline(batch_size=1, host_buffer_bytes=1 << 24) as p:
        p.push([small.sample((0, 4)), big.sample((0, 4)), small.sample((32, 36))])
        p.pop().release()
        with pytest.raises(damacy.OutOfMemory) as caught:
            p.pop()
        assert caught.value.batch_id == 1 and caught.value.lost == (1,)
        with p.pop() as batch:
            assert batch.numpy().tolist() == [[33, 34, 35, 36]]
    with pipeline(batch_size=1, host_buffer_bytes=1 << 26) as p:
        p.push([big.sample((entries - 4, entries))])
        with p.pop() as batch:
            assert batch.numpy().tolist() == [[7] * 4]


RESIDENT = """
import sys
import damacy
from support.streaming import config
def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) << 10
import numpy
root, count = sys.argv[1], int(sys.argv[2])
host = device = 8 << 20
settings = config(batch_size=8, host_buffer_bytes=host, device_buffer_bytes=device, n_batches=3, dtype="f64")
numpy.zeros(1 << 20).sum()
before = resident()
most = 0
with damacy.Pipeline(settings) as p:
    p.push(damacy.Sample(uri=f"{root}/{k % count}", aabb=[(16 * (k % 40), 16 * (k % 40) + 256), (0, 256)])
           for k in range(8 * 400))
    for batch in p.batches(400):
        batch.release()
        most = max(most, resident() - before)
allowed = host + device + 3 * 8 * 256 * 256 * 8 + max(host // 4, 1 << 20) + (64 << 20)
print(most >> 20, allowed >> 20)
assert most <= allowed, (most, allowed)
"""


def test_resident_memory_stays_under_the_caps(tmp_path, capsys):
    rng = np.random.default_rng(1)
    for k in range(6):
        bits = rng.integers(1, 300, (1024, 256)).astype(np.uint16)
        store(tmp_path / str(k), bits.shape, (16, 64), shards=(128, 256), compressor=Compressor("zstd"), bits=bits)
    grown, allowed = child.run_well(RESIDENT, tmp_path, 6).stdout.split()
    with capsys.disabled():
        print(f"\nresident memory grew by {grown} MiB, {allowed} allowed")


# --- cycles -----------------------------------------------------------------------------------------------------------


def test_a_source_that_refers_to_its_pipeline_can_be_collected(line):
    def start():
        p = pipeline()

        def source():
            while True:
                yield line.at(p.config.batch_size)

        p.push(source())
        return weakref.ref(p)

    ref = start()
    gc.collect()
    assert ref() is None


def test_an_exception_that_waits_and_refers_to_its_pipeline_can_be_collected(line):
    def start():
        p = pipeline(lookahead_batches=2)

        def source():
            yield from line.all(range(10))
            error = LookupError("mine")
            error.pipeline = p
            raise error

        p.push(source())
        p.pop()
        p.pop()
        return weakref.ref(p)

    ref = start()
    gc.collect()
    assert ref() is None


def test_a_source_is_not_collected_while_its_pipeline_lives(line):
    with pipeline() as p:
        p.push(line.at(p.config.batch_size + k) for k in range(100))
        for k in range(2, 102, 2):
            gc.collect()
            assert popped(p) == [k, k + 1]


def test_a_waiting_exception_keeps_no_batch_of_the_frames_that_were_calling(line):
    """Otherwise its traceback would keep `batch`, and with one slot no further batch could be popped."""
    planted = LookupError("mine")

    def source():
        yield from line.all(range(12))
        raise planted

    def step(p):
        batch = p.pop()
        return numbers(batch)

    with pipeline(n_batches=1, lookahead_batches=3) as p:
        p.push(source())
        assert [step(p) for _ in range(6)] == [[k, k + 1] for k in range(0, 12, 2)]
        with pytest.raises(LookupError) as caught:
            step(p)
        assert caught.value is planted
        assert "in source" in "".join(planted.__notes__)


def test_batches_and_iterators_keep_what_they_need(line):
    def start():
        p = pipeline(n_batches=3)
        p.push(endless(line))
        return p.batches(10)

    batches = start()
    gc.collect()
    assert [next(batches).info.batch_id for _ in range(3)] == [0, 1, 2]


# --- damage -----------------------------------------------------------------------------------------------------------


def damage(rng, path) -> None:
    size = path.stat().st_size
    kind = int(rng.integers(3))
    if kind == 0:
        os.truncate(path, int(rng.integers(0, size)))
    elif kind == 1:
        path.write_bytes(b"")
    else:
        path.unlink()
        path.mkdir()


@pytest.mark.parametrize("number", range(1000, 1030))
def test_with_damaged_objects_a_batch_is_right_or_an_error_names_one(number, tmp_path):
    """Truncation is detected for every codec. A batch without damaged objects must be delivered."""
    case = random_cases.draw(number)
    rng = np.random.default_rng(number)
    arrays, damaged = [], {}
    for k, layout in enumerate(case.layouts):
        writers.write_by_hand(layout, from_bits(case.bits[k], layout.dtype), tmp_path / str(k), **case.by_hand)
        arrays.append(Stored(tmp_path / str(k), layout, case.bits[k]))
        objects = [i for i in layout.object_indices() if arrays[k].object(*i).is_file()]
        chosen = [i for i in objects if rng.random() < 0.3 and arrays[k].object(*i).stat().st_size]
        for index in chosen:
            damage(rng, arrays[k].object(*index))
        damaged[k] = chosen
    wanted = [item for run in case.runs for item in run]
    with pipeline(**{**case.config, "batch_size": 1}) as p:
        p.push(arrays[k].sample(*box) for k, box in wanted)
        for k, box in wanted:
            touched = [i for i in damaged[k] if touches(case.layouts[k], i, box)]
            try:
                with p.pop() as batch:
                    got = row_bits(batch, case.output)[0]
            except (damacy.StorageError, damacy.DecodeError) as error:
                assert error.key in {case.layouts[k].key(i) for i in touched}, f"{case}: {error}"
            else:
                np.testing.assert_array_equal(got, arrays[k].row(box, case.output), str(case))


def touches(layout, index, box) -> bool:
    return all(i * c < stop and (i + 1) * c > start for i, c, (start, stop) in zip(index, layout.object_shape, box))
