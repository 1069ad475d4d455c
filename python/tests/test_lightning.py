"""`damacy.lightning.DataModule` with a real trainer: the samples of each stage, with one process and with two."""

import json
import logging
import os
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest

import damacy
from damacy.samplers import RandomCrops, SlidingGrid
from damacy.training import Loader

lightning = pytest.importorskip("lightning")
torch = pytest.importorskip("torch")
zarr = pytest.importorskip("zarr")

from damacy.lightning import DataModule  # noqa: E402

LENGTH = 21
ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def array(tmp_path_factory):
    """All elements of row k are k."""
    path = tmp_path_factory.mktemp("lightning") / "a.zarr"
    zarr.create_array(path, shape=(LENGTH, 4), chunks=(3, 4), dtype="f4")[:] = np.arange(LENGTH)[:, None]
    return path


def config(batch_size=2, **fields):
    return damacy.Config(
        batch_size=batch_size, device="cpu", host_buffer_bytes=1 << 20, device_buffer_bytes=1 << 20, **fields
    )


def crops(array):
    return RandomCrops({array: (LENGTH, 4)}, (1, 4), length=LENGTH, seed=1)


def grid(array, seed=None):
    return SlidingGrid({array: (LENGTH, 4)}, (1, 4), seed=seed)


class Net(lightning.LightningModule):
    """Records the first element of each row, for each run of a stage."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.runs = {"train": [], "sanity": [], "validation": [], "test": [], "predict": []}
        self.rows = []

    def note(self, stage, batch):
        if isinstance(batch, (list, tuple)):
            batch, rows = batch
            self.rows.append((stage, rows))
        self.runs[stage][-1].append(batch[:, 0, 0].int().tolist())
        return batch

    def on_train_epoch_start(self):
        self.runs["train"].append([])

    def training_step(self, batch, _):
        return (self.note("train", batch).mean() - self.weight) ** 2

    def on_validation_epoch_start(self):
        self.runs["sanity" if self.trainer.sanity_checking else "validation"].append([])

    def validation_step(self, batch, _):
        self.note("sanity" if self.trainer.sanity_checking else "validation", batch)

    def on_test_epoch_start(self):
        self.runs["test"].append([])

    def test_step(self, batch, _):
        self.note("test", batch)

    def on_predict_epoch_start(self):
        self.runs["predict"].append([])

    def predict_step(self, batch, _):
        return self.note("predict", batch).clone()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-6)


def trainer(folder, **arguments):
    return lightning.Trainer(
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        default_root_dir=folder,
        **arguments,
    )


def flat(run):
    return [value for step in run for value in step]


@pytest.mark.parametrize("given", ["samplers", "loaders"])
def test_the_sanity_check_and_every_validation_see_the_same_batches(array, tmp_path, given):
    if given == "samplers":
        data = DataModule(crops(array), grid(array, seed=4), config=config())
    else:
        data = DataModule(Loader(crops(array), config()), Loader(grid(array, seed=4), config()))
    net = Net()
    trainer(tmp_path, max_epochs=3, limit_val_batches=8, num_sanity_val_steps=2).fit(net, data)
    expected = [grid(array, seed=4).sample(0, k).aabb[0][0] for k in range(16)]
    assert [flat(run) for run in net.runs["validation"]] == [expected] * 3
    assert [flat(run) for run in net.runs["sanity"]] == [expected[:4]]
    trained = [[crops(array).sample(epoch, k).aabb[0][0] for k in range(20)] for epoch in range(3)]
    assert [flat(run) for run in net.runs["train"]] == trained


def test_whole_validations_tests_and_predictions_see_every_sample_once(array, tmp_path):
    data = DataModule(crops(array), grid(array), grid(array), grid(array), config=config(batch_size=4))
    net, run = Net(), trainer(tmp_path, max_epochs=2)
    run.fit(net, data)
    run.validate(net, data, verbose=False)
    run.test(net, data, verbose=False)
    predicted = run.predict(net, data)
    every = list(range(LENGTH))
    assert [flat(one) for one in net.runs["validation"]] == [every] * 3
    assert [flat(one) for one in net.runs["test"]] == [every]
    assert [flat(one) for one in net.runs["predict"]] == [every]
    assert torch.cat(predicted)[:, 0, 0].int().tolist() == every


def test_rows_reach_the_steps(array, tmp_path):
    net = Net()
    trainer(tmp_path, max_epochs=1, num_sanity_val_steps=0).fit(
        net, DataModule(crops(array), grid(array), config=config(batch_size=4), info=True)
    )
    assert [rows.indices for stage, rows in net.rows if stage == "train"] == [
        tuple(range(k, k + 4)) for k in (0, 4, 8, 12, 16)
    ]
    seen = [rows for stage, rows in net.rows if stage == "validation"]
    assert [rows.indices for rows in seen][-1] == (20,)
    assert [index for rows in seen for index in rows.indices] == list(range(LENGTH))
    assert all(type(rows) is damacy.BatchRows for rows in seen)


def test_a_run_with_validation_resumes_after_its_checkpoint(array, tmp_path):
    def fit(steps, checkpoint=None):
        net = Net()
        run = trainer(tmp_path, max_steps=steps, max_epochs=-1, val_check_interval=4)
        run.fit(net, DataModule(crops(array), grid(array), config=config()), ckpt_path=checkpoint)
        run.save_checkpoint(tmp_path / "last.ckpt", weights_only=False)
        return [step for one in net.runs["train"] for step in one]

    whole = fit(14)
    first = fit(6)
    state = torch.load(tmp_path / "last.ckpt", weights_only=False)["DataModule"]
    assert state == {"train": {"epoch": 0, "samples": 12, "seed": 1, "length": LENGTH, "stream": 2}}
    rest = fit(14, tmp_path / "last.ckpt")
    assert first + rest == whole


def test_states_of_other_stages_are_ignored(array):
    state = Loader(grid(array), config()).state_dict() | {"samples": 4}
    data = DataModule(Loader(crops(array), config()), grid(array, seed=9), config=config())
    data.load_state_dict({"validation": state, "train": Loader(crops(array), config()).state_dict() | {"samples": 6}})
    data.setup("fit")
    assert data.state_dict() == {
        "train": {"epoch": 0, "samples": 6, "seed": 1, "length": LENGTH, "stream": 2},
    }
    data.load_state_dict({"validation": state})
    assert data.state_dict()["train"]["samples"] == 6
    DataModule(validation=grid(array), config=config()).load_state_dict({"train": state})
    data.teardown("fit")


def rows_of(array, epoch, count=20, start=0):
    return [crops(array).sample(epoch, k).aabb[0][0] for k in range(start, count)]


@pytest.mark.parametrize("given", ["samplers", "loaders", "restarting"])
@pytest.mark.parametrize("batches", [2, 10])
def test_overfitting_trains_on_the_same_batches_in_each_epoch(array, tmp_path, given, batches):
    if given == "samplers":
        data = DataModule(crops(array), config=config())
    else:
        data = DataModule(Loader(crops(array), config(), restart=given == "restarting"))
    net = Net()
    trainer(tmp_path, max_epochs=3, overfit_batches=batches).fit(net, data)
    assert [flat(run) for run in net.runs["train"]] == [rows_of(array, 0, 2 * batches)] * 3
    net = Net()
    trainer(tmp_path, max_epochs=2).fit(net, data)  # without overfitting epochs follow one another
    first, second = (flat(run) for run in net.runs["train"])
    assert len(first) == len(second) == 20 and first != second


@pytest.mark.parametrize("restart", [False, True])
def test_limited_epochs_are_of_equal_length_and_begin_epochs_of_the_loader(array, tmp_path, restart):
    net = Net()
    data = DataModule(Loader(crops(array), config(), restart=restart))
    trainer(tmp_path, max_epochs=5, limit_train_batches=3).fit(net, data)
    assert [flat(run) for run in net.runs["train"]] == [rows_of(array, epoch, 6) for epoch in range(5)]


@pytest.mark.parametrize("every", [2, 3])
def test_a_limited_run_resumes_after_its_checkpoint(array, tmp_path, every):
    class Saving(lightning.Callback):
        def on_train_batch_end(self, trainer, net, *_):
            if trainer.global_step == every + 3:
                trainer.save_checkpoint(tmp_path / "last.ckpt", weights_only=False)

    def fit(epochs, **more):
        net = Net()
        run = trainer(tmp_path, max_epochs=epochs, limit_train_batches=3, callbacks=[Saving()])
        run.fit(net, DataModule(crops(array), config=config()), **more)
        return [step for one in net.runs["train"] for step in one]

    whole = fit(4)
    assert len(whole) == 12
    net = Net()
    net.runs["train"].append([])  # an epoch that is continued does not begin
    run = trainer(tmp_path, max_epochs=4, limit_train_batches=3)
    run.fit(net, DataModule(crops(array), config=config()), ckpt_path=tmp_path / "last.ckpt", weights_only=False)
    assert [step for one in net.runs["train"] for step in one] == whole[every + 3 :]


def test_ranks_of_one_tensor_parallel_group_get_the_same_batches(array):
    found = []
    for rank in range(4):
        data = DataModule(grid(array), config=config())
        place = {"num_replicas": 2, "rank": rank // 2}
        data.trainer = types.SimpleNamespace(global_rank=rank, world_size=4, distributed_sampler_kwargs=place)
        data.setup("fit")
        found.append([x[:, 0, 0].int().tolist() for x in data.train_dataloader()])
        data.teardown("fit")
    assert found[0] == found[1] != found[2] == found[3]
    assert sorted(value for steps in (found[0], found[2]) for step in steps for value in step) == list(range(20))


def of_ranks(data, rank, ranks):
    data.trainer = types.SimpleNamespace(global_rank=rank, world_size=ranks)
    data.setup("fit")
    return data


def test_a_loader_of_other_ranks_than_the_trainers_is_refused(array):
    with pytest.raises(ValueError) as refused:
        of_ranks(DataModule(Loader(crops(array), config())), 1, 2)
    assert str(refused.value) == (
        "the loader is of 1 rank, the trainer has 2: give DataModule a sampler, or Loader(ranks='auto')"
    )
    with pytest.raises(ValueError, match=r"^the loader is of 2 ranks, the trainer has 1: give DataModule a sampler"):
        of_ranks(DataModule(Loader(crops(array), config(), rank=1, ranks=2)), 0, 1)
    with pytest.raises(ValueError, match=r"^the loader is of rank 0, the trainer's is 1: give DataModule a sampler"):
        of_ranks(DataModule(Loader(crops(array), config(), rank=0, ranks=2)), 1, 2)
    looked_up = Loader(crops(array), config(), ranks="auto")
    of_ranks(DataModule(looked_up), 1, 2)
    assert (looked_up.rank, looked_up.ranks) == (1, 2)


def test_samplers_get_the_trainers_ranks_and_added_rows_are_logged(array, caplog):
    def added_rows():
        said = (text.split(" may have rows") for text in caplog.messages)
        return [text for text, *rest in said if rest]

    with caplog.at_level(logging.INFO, logger="damacy"):
        data = of_ranks(DataModule(crops(array), grid(array), config=config()), 1, 2)
        assert added_rows() == ["validation: the last step of 2 ranks"]
        of_ranks(data, 1, 2)  # keeps its loaders
        of_ranks(DataModule(crops(array), grid(array), config=config(), info=True), 1, 2)
        of_ranks(DataModule(crops(array), grid(array), config=config()), 0, 1)
        assert len(added_rows()) == 1
    assert (len(data.train_dataloader()), len(data.val_dataloader())) == (5, 6)
    assert data.test_dataloader() == []
    of_ranks(data, 0, 1)
    assert (len(data.train_dataloader()), len(data.val_dataloader())) == (10, 11)


def test_a_data_module_works_without_a_trainer(array):
    data = DataModule(validation=grid(array), config=config(batch_size=7))
    for _ in range(2):
        assert [x[:, 0, 0].int().tolist() for x in data.val_dataloader()] == [list(range(k, k + 7)) for k in (0, 7, 14)]
    data.teardown("validate")


def test_arguments_other_than_loaders_or_samplers_with_config_are_refused(array):
    with pytest.raises(TypeError, match=r"^validation is a sampler: say config=, for the batches of its loader$"):
        DataModule(Loader(crops(array), config()), grid(array))
    with pytest.raises(TypeError, match=r"^train must be a Loader or a sampler \(got list\)$"):
        DataModule([1, 2])


PROGRAM = """
import json, os, pathlib, sys

folder, array, given = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
sys.path.insert(0, sys.argv[4])
import lightning
from test_lightning import DataModule, Loader, Net, config, crops, grid

if given == "samplers":
    data = DataModule(crops(array), grid(array), config=config(), info=True)
else:  # created when the launcher has set WORLD_SIZE but not RANK
    data = DataModule(
        Loader(crops(array), config(), ranks="auto"), Loader(grid(array), config(), ranks="auto", tail="pad"), info=True
    )
net = Net()
trainer = lightning.Trainer(
    accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, num_sanity_val_steps=2, logger=False,
    enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False, default_root_dir=folder,
)
trainer.fit(net, data)
rows = [(stage, rows.epoch, rows.indices, rows.valid) for stage, rows in net.rows]
(folder / f"rank-{trainer.global_rank}.json").write_text(json.dumps({"runs": net.runs, "rows": rows}))
"""


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("given", ["samplers", "auto"])
def test_two_processes_read_disjoint_samples_in_equal_steps(array, tmp_path, given):
    (tmp_path / "fit.py").write_text(PROGRAM)
    unset = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    tests = str(pathlib.Path(__file__).parent)
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "fit.py"), str(tmp_path), str(array), given, tests],
        env=environment | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    found = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in (0, 1)]
    for epoch in (0, 1):
        trained = [one["runs"]["train"][epoch] for one in found]
        assert [len(steps) for steps in trained] == [5, 5]
        expected = [crops(array).sample(epoch, k).aabb[0][0] for k in range(20)]
        assert [value for pair in zip(*trained) for step in pair for value in step] == expected
        by_rank = [
            [i for s, e, indices, _ in one["rows"] if (s, e) == ("train", epoch) for i in indices] for one in found
        ]
        assert sorted(by_rank[0] + by_rank[1]) == list(range(20))
    validated = [[row for row in one["rows"] if row[0] == "validation"] for one in found]
    assert [len(rows) for rows in validated] == [12, 12]  # six steps, twice
    assert validated[0][:6] == validated[0][6:]
    counted = [
        index
        for rows in validated
        for _, _, indices, valid in rows[:6]
        for index, counts in zip(indices, valid)
        if counts
    ]
    assert sorted(counted) == list(range(LENGTH))
    assert [len(one["runs"]["sanity"][0]) for one in found] == [2, 2]
