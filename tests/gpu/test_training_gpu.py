"""Loaders for torch and JAX on a GPU deliver the sampler's crops; a run continues with another number of ranks."""

import numpy as np
import pytest
from support.layout import Compressor
from support.streaming import store

import damacy
from damacy.samplers import RandomCrops
from damacy.training import Loader

pytestmark = pytest.mark.timeout(120)

CROP, STEPS, BATCH = (24, 32, 40), 6, 4


@pytest.fixture
def image(tmp_path):
    bits = np.random.default_rng(3).integers(0, 60000, (64, 96, 128)).astype(np.uint16)
    return store(
        tmp_path / "image", bits.shape, (16, 32, 32), "uint16", bits=bits, compressor=Compressor("zstd", level=1)
    )


def crops(path):
    return RandomCrops({str(path): (64, 96, 128)}, CROP, length=BATCH * STEPS, seed=11)


def loader(path, device, ranks=1, rank=0):
    config = damacy.Config(
        batch_size=BATCH // ranks, device=device, host_buffer_bytes=64 << 20, device_buffer_bytes=128 << 20
    )
    return Loader(crops(path), config, rank=rank, ranks=ranks)


def wanted(bits, path):
    sampler = crops(path)
    boxes = [sampler.sample(0, index).aabb for index in range(len(sampler))]
    rows = np.stack([bits[tuple(slice(*axis) for axis in box)] for box in boxes]).astype(np.float32)
    return rows.reshape(STEPS, BATCH, *CROP)


def test_torch_gets_the_crops_on_the_loaders_device(device, image, tmp_path):
    torch = pytest.importorskip("torch")
    from damacy.torch import IterableDataset

    with loader(tmp_path / "image", device) as each:
        found = []
        for x in IterableDataset(each):
            assert x.device.type == device
            found.append((x * 2).cpu().numpy())  # queued on torch's stream before the slot can be written again
    assert np.array_equal(np.stack(found), 2 * wanted(image.bits, tmp_path / "image"))
    assert torch.float32 == x.dtype


def test_jax_gets_the_crops_on_the_loaders_device(device, image, tmp_path):
    jax = pytest.importorskip("jax")
    from damacy.jax import batches

    if device == "cuda" and jax.default_backend() != "gpu":
        pytest.skip("jax sees no GPU")
    with loader(tmp_path / "image", device) as each:
        found = [np.asarray(x * 2) for x in batches(each)]
    assert np.array_equal(np.stack(found), 2 * wanted(image.bits, tmp_path / "image"))


def test_a_run_resumes_with_two_ranks_where_one_stopped(device, image, tmp_path):
    expected = wanted(image.bits, tmp_path / "image")
    with loader(tmp_path / "image", device) as one:
        next(iter(one)).release()
        state = one.state_dict()
    parts = []
    for rank in range(2):
        with loader(tmp_path / "image", device, ranks=2, rank=rank) as each:
            each.load_state_dict(state)
            rows = []
            for batch in each:
                with batch as lent:
                    rows.append(lent.numpy().copy())
            parts.append(np.stack(rows))
    assert np.array_equal(np.concatenate(parts, axis=1), expected[1:])


def test_rows_are_reported_with_tensors_of_the_device(device, image, tmp_path):
    torch = pytest.importorskip("torch")
    from damacy.torch import IterableDataset

    counted = []
    for rank in range(2):
        config = damacy.Config(
            batch_size=5, device=device, host_buffer_bytes=64 << 20, device_buffer_bytes=128 << 20, dtype="u16"
        )
        with Loader(crops(tmp_path / "image"), config, rank=rank, ranks=2, tail="pad") as each:
            for x, rows in IterableDataset(each, info=True):
                assert x.device.type == device
                for row, sample, index, counts in zip(x, rows.samples, rows.indices, rows.valid):
                    box = tuple(slice(*axis) for axis in sample.aabb)
                    assert np.array_equal(row.cpu().view(torch.int16).numpy().view(np.uint16), image.bits[box])
                    assert sample.row_key == (0, index)
                    counted += [index] * counts
    assert sorted(counted) == list(range(BATCH * STEPS))


@pytest.mark.gpu
def test_the_local_rank_picks_the_device(monkeypatch):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    from damacy.torch import local_device

    monkeypatch.setenv("LOCAL_RANK", "0")
    assert local_device() == "cuda:0"
