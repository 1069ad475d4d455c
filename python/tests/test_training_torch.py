"""Loaders in PyTorch, Lightning and JAX, on the CPU. Each part runs if its package is installed."""

import importlib
import pathlib
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

import damacy
from damacy.samplers import RandomCrops, SlidingGrid
from damacy.training import Loader

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def array(tmp_path_factory):
    path = tmp_path_factory.mktemp("frames") / "a.zarr"
    zarr = pytest.importorskip("zarr")
    zarr.create_array(path, shape=(12, 10), chunks=(4, 5), dtype="f4")[:] = np.arange(120).reshape(12, 10)
    return path


def loader(array, **arguments):
    config = damacy.Config(batch_size=2, host_buffer_bytes=1 << 20, device_buffer_bytes=1 << 20, device="cpu")
    return Loader(RandomCrops([array], (3, 4), length=8, seed=3), config, **arguments)


def expected(array):
    with loader(array) as each:
        found = []
        for batch in each:
            with batch as lent:
                found.append(lent.numpy().copy())
        return found


def same(found, wanted):
    assert len(found) == len(wanted) > 0
    assert all((np.asarray(a) == b).all() for a, b in zip(found, wanted))


@pytest.mark.parametrize("package", ["torch", "jax", "lightning"])
def test_a_missing_package_is_named_with_the_command_to_install_it(package, monkeypatch):
    for name in [name for name in sys.modules if name == package or name.startswith((f"{package}.", "damacy."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=rf"needs the package {package}: pip install {package}"):
        importlib.import_module(f"damacy.{package}")


# -- torch -------------------------------------------------------------------------------------------------------------


def test_a_dataset_gives_tensors_itself_and_in_a_data_loader(array):
    torch = pytest.importorskip("torch")
    from damacy.torch import IterableDataset

    with loader(array) as each:
        dataset = IterableDataset(each)
        assert len(dataset) == 4
        same([tensor.clone() for tensor in dataset], expected(array))
    with loader(array) as each:
        tensors = torch.utils.data.DataLoader(IterableDataset(each), batch_size=None)
        assert len(tensors) == 4
        same([tensor.clone() for tensor in tensors], expected(array))


def test_a_tensor_outlives_the_step_that_made_it(array):
    pytest.importorskip("torch")
    from damacy.torch import IterableDataset

    with loader(array) as each:
        before, wanted = None, expected(array)
        for tensor, now in zip(IterableDataset(each), wanted):
            assert before is None or (before.numpy() == previous).all()  # noqa: F821
            before, previous = tensor, now  # noqa: F841


def test_a_dataset_in_worker_processes_raises_an_error_with_advice(array):
    torch = pytest.importorskip("torch")
    from damacy.torch import IterableDataset

    for context in ("fork", "spawn"):
        tensors = torch.utils.data.DataLoader(
            IterableDataset(loader(array)), batch_size=None, num_workers=1, multiprocessing_context=context
        )
        with pytest.raises(RuntimeError, match=r"num_workers=0.*n_io_threads"):
            next(iter(tensors))


def test_a_dataset_of_anything_but_a_loader_is_refused_with_advice():
    pytest.importorskip("torch")
    from damacy.torch import IterableDataset, dataloader

    for take in (IterableDataset, dataloader):
        with pytest.raises(
            TypeError, match=r"must be a damacy\.training\.Loader \(got RandomCrops\): Loader\(sampler, "
        ):
            take(RandomCrops({"a.zarr": (8, 8)}, (4, 4), length=4))


def test_a_dataset_resumes(array):
    pytest.importorskip("torch")
    from damacy.torch import IterableDataset

    first = IterableDataset(loader(array))
    next(iter(first))
    again = IterableDataset(loader(array))
    again.load_state_dict(first.state_dict())
    same([tensor.clone() for tensor in again], expected(array)[1:])


def test_a_dataset_jumps_to_an_epoch(array):
    pytest.importorskip("torch")
    from damacy.torch import IterableDataset

    with loader(array) as each:
        dataset = IterableDataset(each, info=True)
        dataset.set_epoch(5)
        assert [rows.epoch for _, rows in dataset] == [5] * 4


def test_rows_come_with_tensors_also_through_a_data_loader(array):
    torch = pytest.importorskip("torch")
    from damacy.torch import IterableDataset, dataloader

    for wrap in (
        lambda each: IterableDataset(each, info=True),
        lambda each: dataloader(IterableDataset(each, info=True)),
        lambda each: dataloader(each, info=True, pin_memory=False),
    ):
        with loader(array, rank=1, ranks=2, tail="pad") as each:
            found = [(tensor.clone(), rows) for tensor, rows in wrap(each)]
        stored = torch.arange(120).reshape(12, 10)
        assert [rows.indices for _, rows in found] == [(2, 3), (6, 7)]
        for tensor, rows in found:
            assert isinstance(rows, damacy.BatchRows)
            assert (rows.epoch, rows.valid) == (0, (True, True))
            for row, sample, index in zip(tensor, rows.samples, rows.indices):
                assert sample == each._sampler.sample(0, index)
                assert (row == stored[tuple(slice(*axis) for axis in sample.aabb)]).all()


def test_a_data_loader_copies_on_demand_and_leaves_a_dataset_as_it_is(array):
    pytest.importorskip("torch")
    from damacy.torch import IterableDataset, dataloader

    config = damacy.Config(batch_size=2, n_batches=1, keep_bytes=0, device="cpu")
    with Loader(RandomCrops([array], (3, 4), length=8, seed=3), config) as each:
        assert len(list(dataloader(each, copy=True))) == 4  # more than there are slots
        with pytest.raises(TypeError, match=r"info and copy belong to the dataset: IterableDataset\(loader, "):
            dataloader(IterableDataset(each), info=True)


def test_rows_that_a_tail_added_are_marked(array):
    pytest.importorskip("torch")
    from damacy.torch import IterableDataset

    config = damacy.Config(batch_size=3, host_buffer_bytes=1 << 20, device_buffer_bytes=1 << 20, device="cpu")
    with Loader(RandomCrops([array], (3, 4), length=8, seed=3), config, tail="pad") as each:
        found = [rows for _, rows in IterableDataset(each, info=True)]
    assert [rows.valid for rows in found] == [(True,) * 3, (True,) * 3, (True, True, False)]
    assert found[-1].indices == (6, 7, 0)


def test_rows_can_be_pickled_and_are_a_leaf_for_other_libraries(array):
    import collections.abc
    import dataclasses

    rows = damacy.BatchRows(
        samples=(damacy.Sample("a", [(0, 1)], row_key=(2, 7)),), epoch=2, indices=(7,), valid=(True,)
    )
    again = pickle.loads(pickle.dumps(rows))
    assert (again, again.samples[0].row_key) == (rows, (2, 7))
    assert rows != damacy.BatchRows(samples=rows.samples, epoch=2, indices=(7,), valid=(False,))
    assert not isinstance(rows, (tuple, collections.abc.Mapping, collections.abc.Iterable))
    assert not dataclasses.is_dataclass(rows)
    torch = pytest.importorskip("torch")
    assert torch.utils.data.default_convert(rows) is rows
    lightning = pytest.importorskip("lightning")
    assert lightning.pytorch.utilities.move_data_to_device([rows], "cpu")[0] is rows


def test_a_transform_gets_the_batches_of_the_dataset(array):
    torch = pytest.importorskip("torch")
    from damacy.torch import IterableDataset

    with loader(array, transform=lambda x: x[:, None] / 2) as each:
        found = [tensor.clone() for tensor in IterableDataset(each)]
        same([tensor[:, 0] * 2 for tensor in found], expected(array))
    with loader(array, transform=lambda pair: (pair[0].shape, pair[1].indices)) as each:
        found = list(IterableDataset(each, info=True))
        assert found[0] == (torch.Size([2, 3, 4]), (0, 1))


SKIPPED_UNSEEN = (
    "on_error='skip' drops rows and whole batches, and nothing here says which: two loaders in step would pair wrong "
    "rows; use one with two arrays, 'fill', or info=True"
)


def skipping(array):
    config = damacy.Config(
        batch_size=2, host_buffer_bytes=1 << 20, device_buffer_bytes=1 << 20, device="cpu", on_error="skip"
    )
    return Loader(RandomCrops([array], (3, 4), length=8, seed=3), config)


def test_skipping_without_info_warns_once(array):
    pytest.importorskip("torch")
    from damacy.torch import IterableDataset

    with warnings.catch_warnings(record=True) as seen, skipping(array) as each:
        warnings.simplefilter("always")
        dataset = IterableDataset(each)
        for _ in range(2):
            for _ in dataset:
                pass
        IterableDataset(each, info=True)
    assert [(warning.category, str(warning.message)) for warning in seen] == [(UserWarning, SKIPPED_UNSEEN)]
    assert seen[0].filename == __file__


def test_two_datasets_that_skip_are_paired_by_their_rows(tmp_path):
    """As the warning advises: with `info=True`, rows that one dataset lacks can be left out of the other."""
    pytest.importorskip("torch")
    zarr = pytest.importorskip("zarr")
    from damacy.torch import IterableDataset

    stored = np.arange(16 * 4, dtype="f4").reshape(16, 4)
    for name, bad in (("image", 3), ("label", 9)):
        array = zarr.create_array(tmp_path / name, shape=(16, 4), chunks=(1, 4), dtype="f4", fill_value=-1)
        array[:] = stored
        (tmp_path / name / "c" / str(bad) / "0").write_bytes(b"broken")
    config = damacy.Config(
        batch_size=4, host_buffer_bytes=1 << 20, device_buffer_bytes=1 << 20, device="cpu", on_error="skip"
    )

    def rows_by_index(name):
        with Loader(SlidingGrid([tmp_path / name], (1, 4), seed=1), config) as each:
            pairs = [(tensor.clone(), rows) for tensor, rows in IterableDataset(each, info=True)]
        return {index: row for tensor, rows in pairs for row, index in zip(tensor, rows.indices)}

    images, labels = rows_by_index("image"), rows_by_index("label")
    both = images.keys() & labels.keys()
    assert (len(images), len(labels), len(both)) == (15, 15, 14)
    assert all((images[index] == labels[index]).all() for index in both)


def test_a_data_loader_with_a_batch_size_or_workers_is_refused(array):
    pytest.importorskip("torch")
    from damacy.torch import dataloader

    with loader(array) as each:
        with pytest.raises(ValueError, match=r"^batch_size must be None \(got 8\): batches are made by the loader"):
            dataloader(each, batch_size=8)
        with pytest.raises(ValueError, match=r"^num_workers must be 0 \(got 2\): the loader reads with threads"):
            dataloader(each, num_workers=2)
        same([tensor.clone() for tensor in dataloader(each, batch_size=None)], expected(array))


def test_rank_and_device_come_from_the_environment(monkeypatch):
    torch = pytest.importorskip("torch")
    from damacy import torch as ours

    assert ours.rank_and_ranks() == (0, 1)
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert ours.rank_and_ranks() == (2, 4)
    assert ours.local_device() == ("cuda:1" if torch.cuda.is_available() else "cpu")


@pytest.mark.slow
def test_the_torchrun_example_reads_every_crop_once_on_two_ranks(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("zarr")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    shown = subprocess.run(
        [*command, str(EXAMPLES / "torchrun_train.py"), "--folder", str(tmp_path), "--device", "cpu", "--epochs", "1"],
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert shown.returncode == 0, shown.stderr
    assert "2 ranks read the same number of steps" in shown.stdout


# -- Lightning ---------------------------------------------------------------------------------------------------------


def test_a_data_module_feeds_a_trainer_and_its_checkpoint_resumes(array, tmp_path):
    lightning = pytest.importorskip("lightning")
    import torch

    from damacy.lightning import DataModule

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(()))
            self.seen = []

        def training_step(self, batch, _):
            self.seen.append(batch.clone())
            return (batch.mean() - self.weight) ** 2

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-6)

    def fit(steps, checkpoint=None):
        net, data = Net(), DataModule(train=loader(array))
        trainer = lightning.Trainer(
            max_steps=steps,
            max_epochs=-1,
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            default_root_dir=tmp_path,
        )
        trainer.fit(net, data, ckpt_path=checkpoint)
        trainer.save_checkpoint(tmp_path / "last.ckpt", weights_only=False)
        return net.seen

    whole = fit(6)
    first = fit(3)
    rest = fit(6, tmp_path / "last.ckpt")
    same(first + rest, whole)


# -- JAX ---------------------------------------------------------------------------------------------------------------


def test_jax_gets_the_batches_as_arrays(array):
    jax = pytest.importorskip("jax")
    from damacy.jax import batches

    with loader(array) as each:
        found = []
        for x in batches(each):
            assert isinstance(x, jax.Array)
            found.append(np.array(jax.numpy.copy(x)))
        same(found, expected(array))
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("batch",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
    with loader(array) as each:
        found = [np.array(jax.numpy.copy(x)) for x in batches(each, sharding)]
        same(found, expected(array))


def test_jax_shards_each_array_of_a_batch_by_its_name(array):
    jax = pytest.importorskip("jax")
    from damacy.jax import batches

    def pairs():
        crops = RandomCrops({"image": array, "label": array}, (3, 4), length=8, seed=3)
        config = damacy.Config(batch_size=2, host_buffer_bytes=1 << 20, device_buffer_bytes=1 << 20, device="cpu")
        return Loader(crops, config)

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("batch",))
    rows, whole = (jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes)) for axes in (("batch",), ()))
    with pairs() as each:
        found = list(batches(each, {"label": whole, "image": rows}))
    assert all(list(batch) == ["image", "label"] for batch in found)
    assert all((batch["image"].sharding, batch["label"].sharding) == (rows, whole) for batch in found)
    for name in ("image", "label"):
        same([np.array(batch[name]) for batch in found], expected(array))
    with pairs() as each:
        assert all(one.sharding == rows for batch in batches(each, rows) for one in batch.values())
    with pairs() as each, pytest.raises(ValueError) as refused:
        next(batches(each, {"image": rows, "mask": rows}))
    assert str(refused.value) == "sharding has 'image', 'mask'; the batch has 'image', 'label'"
    with loader(array) as each, pytest.raises(ValueError) as refused:
        next(batches(each, {"image": rows}))
    assert str(refused.value) == "sharding has 'image'; the batch has one array without a name"


def test_jax_gets_rows_with_arrays_and_transforms(array):
    pytest.importorskip("jax")
    from damacy.jax import batches

    with loader(array) as each:
        assert [rows.indices for _, rows in batches(each, info=True)] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    with loader(array, transform=lambda x: x.shape) as each:
        assert list(batches(each)) == [(2, 3, 4)] * 4
    with warnings.catch_warnings(record=True) as seen, skipping(array) as each:
        warnings.simplefilter("always")
        for found in (batches(each), batches(each, info=True)):
            for _ in found:
                pass
    assert [str(warning.message) for warning in seen if warning.category is UserWarning] == [SKIPPED_UNSEEN]


@pytest.mark.parametrize(("dtype", "narrow"), [("f64", "f32"), ("i64", "i32"), ("u64", "u32")])
def test_jax_refuses_wide_elements_at_the_first_batch_unless_they_are_enabled(array, dtype, narrow):
    jax = pytest.importorskip("jax")
    from damacy.jax import batches

    config = damacy.Config(
        batch_size=2, host_buffer_bytes=1 << 20, device_buffer_bytes=1 << 20, device="cpu", dtype=dtype
    )
    with Loader(RandomCrops([array], (3, 4), length=8, seed=3), config) as each:
        found = batches(each)
        with pytest.raises(TypeError) as refused:
            next(found)
        assert str(refused.value) == (
            f"jax has no {dtype} unless jax_enable_x64 is set: "
            f'jax.config.update("jax_enable_x64", True), or Config(dtype="{narrow}")'
        )
        assert each.state_dict()["samples"] == 0
        jax.config.update("jax_enable_x64", True)
        try:
            array = next(batches(each))
            assert (array.dtype.itemsize, array.shape) == (8, (2, 3, 4))
        finally:
            jax.config.update("jax_enable_x64", False)
