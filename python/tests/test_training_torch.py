"""Loaders in PyTorch, Lightning and JAX, on the CPU. Each part runs where its package is installed."""

import importlib
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import damacy
from damacy.samplers import RandomCrops
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
def test_a_package_that_is_missing_is_named_with_what_to_type(package, monkeypatch):
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


def test_a_dataset_in_worker_processes_says_what_to_do(array):
    torch = pytest.importorskip("torch")
    from damacy.torch import IterableDataset

    for context in ("fork", "spawn"):
        tensors = torch.utils.data.DataLoader(
            IterableDataset(loader(array)), batch_size=None, num_workers=1, multiprocessing_context=context
        )
        with pytest.raises(RuntimeError, match=r"num_workers=0.*n_io_threads"):
            next(iter(tensors))


def test_a_dataset_resumes(array):
    pytest.importorskip("torch")
    from damacy.torch import IterableDataset

    first = IterableDataset(loader(array))
    next(iter(first))
    again = IterableDataset(loader(array))
    again.load_state_dict(first.state_dict())
    same([tensor.clone() for tensor in again], expected(array)[1:])


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
