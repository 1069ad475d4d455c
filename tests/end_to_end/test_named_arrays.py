"""Batches of several arrays as a user meets them: the mapping, one verdict, what is refused, loaders."""

import collections.abc
import gc
import re

import numpy as np
import pytest
from support.streaming import pipeline, store

import damacy
import damacy.samplers
from damacy import ArraySpec, Sample
from damacy.training import Loader

BOXES = [((y, y + 8), (x, x + 16)) for y in (0, 3, 20) for x in (0, 5, 40)]


@pytest.fixture
def pair(tmp_path):
    image = store(tmp_path / "image.zarr", (2, 40, 64), (1, 8, 16))
    values = (np.arange(40 * 64) % 251).astype("u1").reshape(40, 64)
    label = store(tmp_path / "label.zarr", (40, 64), (8, 16), "uint8", bits=values)
    return image, label


def sample(pair, box):
    image, label = pair
    return Sample({"image": (image.path, [(0, 2), *box]), "label": (label.path, box)})


SPECS = {"image": ArraySpec(), "label": ArraySpec(dtype="i64")}


def check_row(batch, row, pair, box):
    image, label = pair
    cut = tuple(slice(*axis) for axis in box)
    np.testing.assert_array_equal(batch["image"].numpy()[row], image.bits[:, *cut].astype("f4"))
    np.testing.assert_array_equal(batch["label"].numpy()[row], label.bits[cut].astype("i8"))


def test_a_batch_is_a_mapping_and_one_slot(pair):
    with pipeline(batch_size=3, arrays=SPECS, n_batches=1) as p:
        p.push(sample(pair, box) for box in BOXES)
        for number in range(3):
            batch = p.pop()
            assert isinstance(batch, damacy.NamedBatch) and isinstance(batch, collections.abc.Mapping)
            assert list(batch) == ["image", "label"] == list(batch.arrays) and len(batch) == 2 and batch.rows == 3
            assert batch["label"].shape == (3, 8, 16) and batch["label"].dtype is damacy.Dtype.I64
            assert batch["image"].info.batch_id == number and batch["image"].device == "cpu"
            assert batch["image"].info.device_ptr % 256 == batch["label"].info.device_ptr % 256 == 0
            assert repr(batch) == f"<damacy.Batch {number}: image (3, 2, 8, 16) f32, label (3, 8, 16) i64>"
            assert repr(batch["label"]) == "<damacy.BatchArray (3, 8, 16) i64>"
            assert batch == batch and batch != dict(batch) and hash(batch)
            for row in range(3):
                check_row(batch, row, pair, BOXES[3 * number + row])
                assert batch.samples[row] == sample(pair, BOXES[3 * number + row])
            kept = batch.numpy()["label"]
            batch.release()
            assert "released" in repr(batch)
            with pytest.raises(damacy.InvalidArgument):
                batch["image"].shape  # noqa: B018
            del batch
            if number < 2:
                with pytest.raises(damacy.TryAgain, match="held"):  # by one array of it
                    p.pop()
            del kept
            gc.collect()


def test_members_of_one_array_say_which(pair):
    with pipeline(batch_size=1, arrays=SPECS) as p:
        p.push([sample(pair, BOXES[0])])
        batch = p.pop()
        for member in ("info", "shape", "dtype"):
            with pytest.raises(TypeError, match=re.escape(f"a batch of several arrays: say batch['image'].{member}")):
                getattr(batch, member)
        for call in (np.from_dlpack, lambda b: b.__dlpack__(), np.asarray):
            with pytest.raises(TypeError):
                call(batch)
        with pytest.raises(KeyError, match=re.escape("no array 'lable'; there are 'image', 'label'")):
            batch["lable"]
        assert "lable" not in batch and batch.get("lable") is None
        np.testing.assert_array_equal(np.from_dlpack(batch["label"]), batch["label"].numpy())
        with pytest.raises(TypeError, match="BatchArray"):
            np.asarray(batch["label"])


def test_a_batch_of_one_array_is_no_mapping(pair):
    with pipeline(batch_size=2) as p:
        p.push([Sample(pair[1].path, box) for box in BOXES[:2]])
        batch = p.pop()
        assert type(batch) is damacy.Batch and batch.arrays == () and batch.rows == 2
        assert batch.shape == (2, 8, 16) and batch.dtype is damacy.Dtype.F32
        for use in (lambda: batch["label"], lambda: list(batch), lambda: len(batch)):
            with pytest.raises(TypeError):
                use()


def test_one_spec_is_that_of_the_only_array(pair):
    with pipeline(batch_size=1, arrays=ArraySpec(dtype="u16")) as p:
        p.push([Sample(pair[1].path, BOXES[0])])
        assert p.pop().dtype is damacy.Dtype.U16
        with pytest.raises(
            damacy.InvalidArgument, match="names: the sample has 'image', 'label'; this pipeline has one"
        ):
            p.push([sample(pair, BOXES[0])])


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("on_error", ["raise", "skip", "fill"])
def test_one_damaged_label_has_one_verdict(tmp_path, batch_size, on_error):
    disc = (np.arange(80)[:, None] % 8 - 4) ** 2 + (np.arange(64) % 16 - 8) ** 2 < 12
    noise = np.random.default_rng(5).integers(0, 100, (2, 80, 64), dtype=np.uint16)
    image = store(tmp_path / "image.zarr", (2, 80, 64), (1, 8, 16), bits=noise + np.uint16(1000) * disc)
    label = store(tmp_path / "label.zarr", (80, 64), (8, 16), "uint8", bits=disc.astype("u1"))
    pair = image, label
    boxes = [((8 * k, 8 * k + 8), (16 * n, 16 * n + 16)) for k in range(10) for n in range(4)]  # one chunk each
    label.object(2, 2).write_bytes(b"short")
    bad = {boxes.index(((16, 24), (32, 48)))}
    seen, failures = [], []
    with pipeline(batch_size=batch_size, arrays=SPECS, on_error=on_error) as p:
        p.push(sample(pair, box) for box in boxes)
        batches = iter(p)
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                break
            except damacy.StorageError as error:
                assert error.array == "label" and error.uri == str(label.path) and error.chunk == (2, 2)
                assert f"sample {error.stream_index}: label: {label.path}" in str(error)
                failures.append(error)
                continue
            with batch:
                for row, (number, valid) in enumerate(zip(batch.sample_indices, batch.valid)):
                    seen.append(number)
                    assert valid == (number not in bad)
                    if valid:
                        check_row(batch, row, pair, boxes[number])
                        pixels, inside = batch["image"].numpy()[row], batch["label"].numpy()[row] > 0
                        assert pixels[:, inside].min() >= 1000 and pixels[:, ~inside].max() < 100
                    else:
                        assert not batch["image"].numpy()[row].any() and not batch["label"].numpy()[row].any()
    lost = {number for error in failures for number in error.lost}
    assert len(boxes) == 40
    if on_error == "fill":
        assert seen == list(range(40)) and not failures
    elif on_error == "skip":
        assert seen == [k for k in range(40) if k not in bad] and not failures
    else:
        assert seen == [k for k in range(40) if k not in lost] and bad <= lost
        assert len(failures) == 1 and len(lost) == batch_size


def test_a_refused_sample_names_its_array(pair):
    with pipeline(batch_size=1, arrays=SPECS) as p:
        p.push([sample(pair, BOXES[0])])
        wrong = Sample(
            {"image": (pair[0].path, [(0, 2), (0, 8), (0, 16)]), "label": (pair[1].path, [(0, 8), (60, 76)])}
        )
        with pytest.raises(damacy.InvalidArgument, match=r"label: .*stop 76 is beyond the array's size 64") as caught:
            p.push([wrong])
        assert caught.value.array == "label" and caught.value.sample_index == 0
        missing = Sample({"image": ("nowhere.zarr", [(0, 2), (0, 8), (0, 16)]), "label": (pair[1].path, BOXES[0])})
        with pytest.raises(damacy.NotFound) as caught:
            p.push([missing])
        assert caught.value.array == "image"
        far = Sample({"image": (pair[0].path, [(0, 2), (0, 8), (0, 1 << 64)]), "label": (pair[1].path, BOXES[0])})
        with pytest.raises(damacy.InvalidArgument, match="image: .*does not fit 64 bits"):
            p.push([far])
        with pytest.raises(damacy.InvalidArgument, match="names: the sample has one array without a name"):
            p.push([Sample(pair[1].path, BOXES[0])])
        p.pop().release()


def test_a_relative_uri_is_resolved_at_push(pair, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pipeline(batch_size=1, arrays=SPECS) as p:
        taken = iter([Sample({"image": ("image.zarr", [(0, 2), *BOXES[1]]), "label": ("label.zarr", BOXES[1])})] * 30)
        p.push(taken)
        monkeypatch.chdir("/")
        for batch in p.batches(30):
            check_row(batch, 0, pair, BOXES[1])
            batch.release()


def test_a_chunk_of_several_arrays_is_decoded_once(pair):
    _, label = pair
    both = Sample({"now": (label.path, [(0, 8), (0, 16)]), "next": (label.path, [(0, 8), (8, 24)])})
    with pipeline(batch_size=1) as p:
        p.push([both])
        p.pop().release()
        stats = p.stats()
        assert (stats.chunks_decoded, stats.chunks_deduplicated, stats.reads_issued) == (2, 1, 2)


def test_chunks_of_levels_and_of_a_label_are_decoded_once_a_batch(tmp_path):
    zarr = pytest.importorskip("zarr")
    random = np.random.default_rng(3)
    chunks = {"fine": 16, "coarse": 16, "label": 24}
    for name, chunk in chunks.items():
        size = 32 if name == "coarse" else 64
        data = random.integers(0, 9, (size, size), dtype="u1")
        zarr.create_array(tmp_path / name, data=data, chunks=(chunk, chunk))
    samples, distinct = [], set()
    for y, x in random.integers(0, 20, (6, 2)).tolist():
        boxes = {"fine": [(2 * y, 2 * y + 20), (2 * x, 2 * x + 20)], "coarse": [(y, y + 10), (x, x + 10)]}
        boxes["label"] = boxes["fine"]
        samples.append(Sample({name: (tmp_path / name, box) for name, box in boxes.items()}))
        for name, box in boxes.items():
            rows, columns = ({index // chunks[name] for index in range(*axis)} for axis in box)
            distinct |= {(name, row, column) for row in rows for column in columns}
    with pipeline(batch_size=len(samples)) as p:
        p.push(samples)
        p.pop().release()
        assert p.stats().chunks_decoded == len(distinct)


def test_a_loader_gives_named_batches_and_resumes(pair):
    crops = damacy.samplers.RandomCrops({"image": pair[0].path, "label": pair[1].path}, (8, 16), length=20, seed=5)
    config = damacy.Config(batch_size=4, device="cpu", arrays=SPECS)
    with Loader(crops, config) as loader:
        first = []
        for batch in loader:
            with batch:
                first.append([s.row_key for s in batch.samples])
                for row, drawn in enumerate(batch.samples):
                    check_row(batch, row, pair, drawn.arrays["label"][0][1])
            if len(first) == 2:
                state = loader.state_dict()
        assert len(first) == 5
    with Loader(crops, config) as again:
        again.load_state_dict(state)
        assert [[s.row_key for s in batch.samples] for batch in again] == first[2:]


def test_with_tail_pad_rows_of_all_arrays_are_marked(pair):
    crops = damacy.samplers.SlidingGrid({"image": pair[0].path, "label": pair[1].path}, (8, 16))
    with Loader(crops, damacy.Config(batch_size=8, device="cpu", arrays=SPECS), tail="pad") as loader:
        valid = [v for batch in loader for v in batch.valid]
    assert sum(valid) == len(crops) == 20 and len(valid) == 24
