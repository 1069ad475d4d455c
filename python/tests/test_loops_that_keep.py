"""Typical loops that keep batches, with the default settings of a Loader: each runs to its end, and all batches that it
kept have the right bytes. With NumPy, and with torch if it is installed."""

import gc
import itertools
import weakref
import zlib

import numpy as np
import pytest

import damacy
from damacy.samplers import RandomCrops
from damacy.training import Loader

zarr = pytest.importorskip("zarr")

LENGTH = 24  # crops per epoch
BATCH = 2
STEPS = LENGTH // BATCH


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    """An image and its label; all elements are distinct."""
    folder = tmp_path_factory.mktemp("kept")
    for name, first in (("image", 0), ("label", 5000)):
        array = zarr.create_array(folder / f"{name}.zarr", shape=(40, 50), chunks=(8, 10), dtype="i4")
        array[:] = first + np.arange(2000).reshape(40, 50)
    return folder / "image.zarr", folder / "label.zarr"


def loader(path, **fields):
    return Loader(
        RandomCrops([path], (6, 7), length=LENGTH, seed=3), damacy.Config(batch_size=BATCH, device="cpu", **fields)
    )


def checksum(kept) -> int:
    return zlib.crc32(np.ascontiguousarray(kept))


def wanted(path, epochs=1) -> list[int]:
    """The checksums of an epoch's batches, each copied as soon as it was popped."""
    with loader(path) as each:
        return [checksum(batch.numpy().copy()) for _ in range(epochs) for batch in each]


def progress(iterable):
    """Like tqdm: a variable refers to the last item while the next one is fetched."""
    for item in iterable:  # noqa: UP028
        yield item


def stats(each):
    return each._pipeline.stats()


# -- NumPy -------------------------------------------------------------------------------------------------------------


def test_enumerate_of_a_zip_of_two_loaders(arrays):
    image, label = arrays
    with loader(image) as a, loader(label) as b:
        steps = 0
        for i, (x, y) in enumerate(zip(a, b)):
            assert (x.numpy() + 5000 == y.numpy()).all()
            assert i == steps
            steps += 1
        assert steps == STEPS
        assert checksum(x.numpy()) == wanted(image)[-1] and checksum(y.numpy()) == wanted(label)[-1]


def test_a_list_of_all_batches(arrays):
    with loader(arrays[0]) as each:
        batches = list(each)
        assert [checksum(batch.numpy()) for batch in batches] == wanted(arrays[0])
        assert stats(each).kept_bytes_committed <= 2 << 30


def test_a_progress_bar_over_a_zip(arrays):
    image, label = arrays
    with loader(image) as a, loader(label) as b:
        last = [checksum(x.numpy()) for x, _ in progress(zip(progress(a), progress(b)))]
    assert last == wanted(image)


def test_a_second_loop_works_while_the_last_batch_of_the_first_is_referenced(arrays):
    with loader(arrays[0]) as each:
        kept = []
        for _ in range(5):
            for x in each:  # noqa: B007
                break
            kept.append(x.numpy())
        whole = [batch.numpy() for batch in each]
        assert [checksum(view) for view in kept] == wanted(arrays[0])[:1] * 5
        assert [checksum(view) for view in whole] == wanted(arrays[0])


def test_views_of_fifty_batches_in_a_notebook(arrays):
    with loader(arrays[0]) as each:
        out = {}
        for k, batch in enumerate(itertools.islice(itertools.chain.from_iterable(itertools.repeat(each)), 50)):
            with batch as lent:
                out[k] = lent.numpy()
        assert [checksum(view) for view in out.values()] == wanted(arrays[0], 5)[:50]
        assert stats(each).slots_added >= 40


@pytest.mark.parametrize("n_batches", [2, 3])
def test_a_plain_loop_adds_no_slot(arrays, n_batches):
    with loader(arrays[0], n_batches=n_batches) as each:
        found = []
        for batch in each:
            with batch as lent:
                x = lent.numpy()
            found.append(checksum(x))
        assert found == wanted(arrays[0])
        assert stats(each).slots_added == 0


def test_kept_batches_are_limited_and_the_error_names_them(arrays):
    with loader(arrays[0], keep_bytes="1KiB", n_batches=2) as each:  # 336 bytes of a batch take 512
        kept = []
        with pytest.raises(
            damacy.TryAgain, match=r"2 slots and 2 added ones \(keep_bytes 1024\): drop batches 0, 1, 2"
        ):
            for batch in each:
                kept.append(batch)
                assert stats(each).kept_bytes_committed <= 1024
        assert len(kept) == 4
        assert [checksum(batch.numpy()) for batch in kept] == wanted(arrays[0])[:4]
        del batch
        kept.clear()
        assert [checksum(batch.numpy()) for batch in each] == wanted(arrays[0])[4:]  # nothing was lost


def test_a_loader_and_its_iterator_keep_no_reference(arrays):
    with loader(arrays[0]) as each:
        batches = iter(each)
        batch = next(batches)
        gone = weakref.ref(batch)
        del batch
        gc.collect()
        assert gone() is None


# -- torch -------------------------------------------------------------------------------------------------------------


def dataset(path, copy=False, **fields):
    pytest.importorskip("torch")
    from damacy.torch import IterableDataset

    return IterableDataset(loader(path, **fields), copy=copy)


def test_a_zip_of_two_datasets_under_enumerate_and_a_progress_bar(arrays):
    a, b = dataset(arrays[0]), dataset(arrays[1])
    for i, (x, y) in enumerate(progress(zip(a, b))):  # noqa: B007
        assert bool((x + 5000 == y).all())
    assert i == STEPS - 1
    assert checksum(x) == wanted(arrays[0])[-1]


def test_a_list_of_a_dataset(arrays):
    tensors = list(dataset(arrays[0]))
    assert [checksum(tensor) for tensor in tensors] == wanted(arrays[0])


def test_a_list_of_a_data_loader(arrays):
    torch = pytest.importorskip("torch")
    tensors = list(torch.utils.data.DataLoader(dataset(arrays[0]), batch_size=None))
    assert [checksum(tensor) for tensor in tensors] == wanted(arrays[0])


def test_a_loss_accumulated_over_eight_batches_has_the_right_gradient(arrays):
    torch = pytest.importorskip("torch")

    def gradient(tensors):
        weight = torch.ones((), dtype=torch.float64, requires_grad=True)
        loss = torch.zeros((), dtype=torch.float64)
        for x in tensors:
            loss = loss + (weight * x).square().mean()  # autograd keeps x
        loss.backward()
        return weight.grad.item()

    ours = itertools.islice(dataset(arrays[0], dtype="f64"), 8)
    copied = [tensor.clone() for tensor in itertools.islice(dataset(arrays[0], dtype="f64"), 1)]
    with loader(arrays[0], dtype="f64") as each:
        copied = [torch.from_numpy(batch.numpy().copy()) for batch in itertools.islice(each, 8)]
    assert gradient(ours) == gradient(copied)


def test_a_dataset_keeps_no_reference_to_a_tensor_while_the_consumer_works(arrays):
    tensors = dataset(arrays[0], n_batches=1, keep_bytes=0)  # one slot: the next pop needs it
    found = []
    for tensor in tensors:
        found.append(checksum(tensor))
        del tensor
    assert found == wanted(arrays[0])


def test_a_suspended_dataset_holds_no_slot(arrays):
    each = dataset(arrays[0], n_batches=1, keep_bytes=0)
    first = iter(each)
    next(first)
    assert checksum(next(iter(each))) == wanted(arrays[0])[0]


def test_copies_of_a_dataset_are_memory_of_their_own(arrays):
    tensors = []
    each = dataset(arrays[0], copy=True, n_batches=1, keep_bytes=0)
    for tensor in each:
        tensors.append(tensor)
    assert [checksum(tensor) for tensor in tensors] == wanted(arrays[0])
    assert stats(each.loader).slots_added == 0


def test_a_batch_is_a_tensor_that_views_its_slot_or_a_copy(arrays):
    torch = pytest.importorskip("torch")
    with loader(arrays[0]) as each:
        batch = next(iter(each))
        view, copied = batch.torch(), batch.torch(copy=True)
        assert isinstance(view, torch.Tensor) and view.data_ptr() == batch.info.device_ptr
        assert copied.data_ptr() != view.data_ptr() and torch.equal(view, copied)
        view.zero_()
        assert checksum(copied) == wanted(arrays[0])[0]
