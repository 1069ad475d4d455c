"""The rank of a process: from process groups and launchers' variables, in that order; loaders that look it up."""

import logging
import pickle
import subprocess
import sys

import pytest

import damacy
from damacy._pipeline.ranks import rank_and_ranks
from damacy.samplers import RandomCrops
from damacy.training import Loader

NAMES = (
    *("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"),
    *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE"),
)
TORCHRUN = {"RANK": "2", "WORLD_SIZE": "4"}
SLURM = {"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_STEP_ID": "0"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"}
MPICH = {"PMI_RANK": "4", "PMI_SIZE": "6"}
DAEMON = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "2", "SLURM_NTASKS": "3", "SLURM_STEP_NUM_TASKS": "3"}  # of mpirun
SHELL = {"SLURM_STEP_ID": "4294967290", "SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "1"}  # salloc
UNFINISHED = (
    "WORLD_SIZE is 2 and RANK is not set: a launcher has not finished; make loaders where the process group exists "
    "(Lightning: give DataModule samplers), or pass rank= and ranks="
)


@pytest.fixture
def environment(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)

    def set_all(*parts):
        for part in parts:
            for name, value in part.items():
                monkeypatch.setenv(name, value)

    return set_all


def loader(batch_size=2, length=16, **arguments):
    config = damacy.Config(batch_size=batch_size, host_buffer_bytes=1 << 20, device_buffer_bytes=1 << 20, device="cpu")
    return Loader(RandomCrops({"a": (9, 9)}, (3, 3), length=length, seed=1), config, **arguments)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((), (0, 1)),
        ((TORCHRUN,), (2, 4)),
        ((SLURM,), (5, 8)),
        ((OPEN_MPI,), (1, 3)),
        ((TORCHRUN, SLURM, OPEN_MPI), (2, 4)),
        ((SLURM, OPEN_MPI), (1, 3)),
        ((MPICH,), (4, 6)),
        ((MPICH, OPEN_MPI), (1, 3)),
        ((DAEMON, OPEN_MPI), (1, 3)),
        ((DAEMON, MPICH), (4, 6)),
        ((DAEMON,), (2, 3)),
        ((SHELL,), (0, 1)),
        ((SHELL, OPEN_MPI), (1, 3)),
        ((SLURM, {"SLURM_STEP_NUM_TASKS": "6"}), (5, 6)),  # the step's tasks, not the job's
        (({"PMI_RANK": "4"}, SLURM), (5, 8)),
        (({"WORLD_SIZE": "1"}, SLURM), (5, 8)),  # WORLD_SIZE 1 is ignored
        (({"RANK": "3"}, OPEN_MPI), (1, 3)),
        ((SLURM, {"SLURM_NTASKS": "1", "SLURM_PROCID": "0"}, OPEN_MPI), (1, 3)),
        (({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"},), (0, 1)),  # a shell in an allocation: no step
    ],
)
def test_the_first_launcher_in_order_decides(environment, parts, expected):
    environment(*parts)
    assert rank_and_ranks() == expected


def test_the_rank_is_logged_once(environment, caplog):
    caplog.set_level(logging.INFO, logger="damacy")
    environment({"PMI_RANK": "3", "PMI_SIZE": "1117"})  # which no other test has
    for _ in range(3):
        assert rank_and_ranks() == (3, 1117)
    texts = [record.getMessage() for record in caplog.records if "1117" in record.getMessage()]
    assert texts == ["rank 3 of 1117, from PMI_RANK and PMI_SIZE"]


@pytest.mark.parametrize("parts", [(), (SLURM,), (OPEN_MPI,)])
def test_a_world_without_a_rank_is_refused(environment, parts):
    environment({"WORLD_SIZE": "2"}, *parts)
    with pytest.raises(RuntimeError) as refused:
        rank_and_ranks()
    assert str(refused.value) == UNFINISHED


def test_variables_that_are_not_ranks_are_named(environment):
    environment({"RANK": "4", "WORLD_SIZE": "4"})
    with pytest.raises(ValueError, match=r"^RANK must be >= 0 and below WORLD_SIZE \(got 4 of 4\)$"):
        rank_and_ranks()
    environment({"RANK": "x"})
    with pytest.raises(ValueError, match=r"^RANK must be an integer \(got 'x'\)$"):
        rank_and_ranks()


def test_a_process_group_comes_before_the_environment(environment, tmp_path):
    pytest.importorskip("torch")
    program = (
        "import sys, torch.distributed as d; from damacy._pipeline.ranks import rank_and_ranks\n"
        "d.init_process_group('gloo', init_method=f'file://{sys.argv[1]}', rank=0, world_size=1)\n"
        "print(rank_and_ranks())"
    )
    environment(TORCHRUN)
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "group")], capture_output=True, text=True, timeout=60
    )
    assert (ran.stdout, ran.returncode) == ("(0, 1)\n", 0), ran.stderr


def test_looking_up_ranks_imports_no_framework():
    program = (
        "import sys; from damacy._pipeline.ranks import rank_and_ranks; rank_and_ranks(); print('torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "False\n", ran.stderr


@pytest.mark.parametrize("how", [{"rank": "auto", "ranks": "auto"}, {"ranks": "auto"}, {"rank": "auto"}])
def test_a_loader_looks_up_its_ranks_when_they_are_needed(environment, how):
    environment({"WORLD_SIZE": "2"})
    made = loader(**how)  # before the launcher has finished
    with pytest.raises(RuntimeError, match="a launcher has not finished"):
        len(made)
    environment({"RANK": "1"})
    assert (len(made), made.rank, made.ranks) == (4, 1, 2)
    environment({"RANK": "0"})
    assert made.rank == 1  # looked up once
    assert pickle.loads(pickle.dumps(made)).rank == 0  # a copy may be in another process


def test_settings_that_ranks_rule_out_are_refused_when_ranks_are_known(environment):
    environment(TORCHRUN)
    with pytest.raises(ValueError, match=r"^tail='short' would give ranks unequal steps: choose 'pad'$"):
        len(loader(ranks="auto", tail="short"))
    with pytest.raises(ValueError, match=r"no whole step of 12: reduce batch_size, or say tail='pad'$"):
        len(loader(batch_size=3, length=8, ranks="auto"))


def test_a_state_may_be_loaded_before_ranks_are_known(environment):
    made = loader(ranks="auto")
    state = made.state_dict() | {"samples": 15}  # too few are left for a step of two ranks
    made.load_state_dict(state)
    environment({"RANK": "0", "WORLD_SIZE": "2"})
    assert (len(made), made.epoch) == (4, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rank": 1, "ranks": "auto"}, r"^rank and ranks must both be integers, or both 'auto' \(got 1 and 'auto'\)$"),
        ({"rank": "auto", "ranks": 2}, r"^rank and ranks must both be integers, or both 'auto' \(got 'auto' and 2\)$"),
        ({"rank": "all"}, r"^rank must be an integer or 'auto' \(got 'all'\)$"),
        ({"ranks": 2, "tail": "short"}, r"^tail='short' would give ranks unequal steps: choose 'pad'$"),
    ],
)
def test_invalid_ranks_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        loader(**arguments)
