"""`Config.for_this_machine`: how it measures a machine, what it chooses, and that it keeps settings of the caller."""

import copy
import dataclasses
import inspect
import json
import os
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from damacy import Config
from damacy._core.machine import Machine, this_machine
from damacy._pipeline.machine_settings import choices

CHOSEN = ("n_io_threads", "n_compute_threads", "host_buffer_bytes", "device_buffer_bytes", "n_batches")


# -- what it sees ------------------------------------------------------------------------------------------------------


def test_a_process_sees_its_cores_and_free_memory(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.delenv("SLURM_STEP_ID", raising=False)
    machine = this_machine("cpu")
    assert 1 <= machine.rank_cores == machine.cores <= len(os.sched_getaffinity(0))
    assert 0 < machine.host_bytes <= machine.physical_bytes
    assert machine.why_cores
    assert machine.why_memory
    assert (machine.ranks, machine.gpu, machine.gpu_bytes) == (1, False, None)


def test_ranks_of_a_launcher_share_what_the_process_sees(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4096")
    machine = this_machine("cpu")
    assert (machine.ranks, machine.rank_cores) == (4096, 1)
    assert machine.host_bytes < machine.physical_bytes / 4096


# -- what it chooses ---------------------------------------------------------------------------------------------------


GIB = 1 << 30


def values(machine, **more):
    return {name: choice.value for name, choice in choices(machine, **more).items()}


def test_a_gpu_with_16_cores_gets_the_settings_that_were_fastest():
    machine = Machine(16, "", 100 << 30, "", gpu=True, gpu_bytes=140 << 30)
    assert values(machine) == dict(zip(CHOSEN, (16, 15, 2 * GIB, 6 * GIB, 2)))


def test_a_host_gets_one_thread_per_core():
    assert values(Machine(2, "", 23 * GIB, "")) == dict(zip(CHOSEN, (2, 0, GIB, 4 * GIB, 4)))
    assert values(Machine(16, "", 23 * GIB, ""))["n_io_threads"] == 16


def test_limited_addresses_get_fewer_threads():
    found = choices(Machine(64, "", 2 * GIB, "", addresses=(3 * GIB, GIB)))["n_io_threads"]
    assert (found.value, "2.0 GiB left of the address-space limit" in found.why) == (7, True)
    assert values(Machine(64, "", 2 * GIB, "", addresses=(3 * GIB, 4 * GIB)))["n_io_threads"] == 1


@given(
    machine=st.builds(
        Machine,
        rank_cores=st.integers(1, 4096),
        why_cores=st.just("cores"),
        host_bytes=st.none() | st.integers(0, 1 << 44),
        why_memory=st.just("free"),
        addresses=st.none() | st.tuples(st.integers(0, 1 << 47), st.integers(0, 1 << 47)),
        gpu=st.booleans(),
        gpu_bytes=st.none() | st.integers(0, 1 << 40),
    ),
    chunk_bytes=st.integers(0, 1 << 30),
    max_gpu_bytes=st.just(0) | st.integers(1 << 30, 1 << 40),
)
def test_any_machine_gets_a_legal_configuration_that_fits(machine, chunk_bytes, max_gpu_bytes):
    found = choices(machine, chunk_bytes=chunk_bytes, max_gpu_bytes=max_gpu_bytes)
    assert set(found) == set(CHOSEN)
    config = Config(batch_size=1, **{name: choice.value for name, choice in found.items()})
    assert all(choice.why for choice in found.values())
    least = max(64 << 20, 2 * chunk_bytes + (128 << 10))
    for name in ("host_buffer_bytes", "device_buffer_bytes"):
        assert getattr(config, name) >= least
    assert config.host_buffer_bytes <= max(least, (machine.host_bytes or 0) // 8)
    if machine.gpu and machine.gpu_bytes is not None:
        assert config.device_buffer_bytes <= max(least, machine.gpu_bytes // 4)
    if machine.gpu and max_gpu_bytes:
        assert config.device_buffer_bytes <= max(least, max_gpu_bytes // 2)
    assert 1 <= config.n_io_threads <= 128
    assert config.n_compute_threads < max(1, config.n_io_threads)


# -- what the caller set -----------------------------------------------------------------------------------------------


def test_settings_of_the_caller_are_kept():
    config = Config.for_this_machine(
        8, device="cpu", n_io_threads=4, host_buffer_bytes=1 << 30, n_batches=2, n_compute_threads=0
    )
    assert (config.n_io_threads, config.host_buffer_bytes, config.n_batches) == (4, 1 << 30, 2)
    assert config == config._completed()


def test_the_documented_defaults_stay_and_look_like_numbers():
    config = Config(batch_size=8)
    explicit = Config(
        batch_size=8,
        host_buffer_bytes=1 << 30,
        device_buffer_bytes=4 << 30,
        n_io_threads=4,
        n_compute_threads=0,
        n_batches=2,
    )
    assert config == explicit
    assert hash(config) == hash(explicit)
    assert repr(config) == repr(explicit)
    assert json.dumps(dataclasses.asdict(config)) == json.dumps(dataclasses.asdict(explicit))
    assert "n_io_threads: 'int' = 4" in str(inspect.signature(Config))


@pytest.mark.parametrize(
    "travel",
    [
        lambda config: config,
        lambda config: pickle.loads(pickle.dumps(config)),
        copy.copy,
        copy.deepcopy,
        lambda config: dataclasses.replace(config, batch_size=8),
    ],
)
def test_which_fields_are_unset_survives_copies(travel):
    config = travel(Config(batch_size=8, n_io_threads=4))
    assert config._unset_fields() == tuple(
        name for name in (f.name for f in dataclasses.fields(Config)) if name in CHOSEN and name != "n_io_threads"
    )
    assert Config.for_this_machine(8, device="cpu")._completed()._unset_fields() == ()


def test_an_invalid_field_raises_the_error_of_config():
    with pytest.raises(ValueError, match="n_io_threads must be >= 1"):
        Config.for_this_machine(8, n_io_threads=0)
    with pytest.raises(TypeError, match="colour"):
        Config.for_this_machine(8, colour=1)


def test_a_loader_chooses_the_fields_that_the_caller_did_not_set(monkeypatch, tmp_path):
    zarr = pytest.importorskip("zarr")
    from damacy import training
    from damacy.samplers import SlidingGrid

    zarr.create_array(tmp_path / "a.zarr", shape=(8,), chunks=(4,), dtype="u1")[...] = 1
    made, real = [], training.KeepingPipeline
    monkeypatch.setattr(training, "KeepingPipeline", lambda config: made.append(config) or real(config))
    config = Config(batch_size=2, device="cpu", host_buffer_bytes=1 << 26)
    with training.Loader(SlidingGrid([tmp_path / "a.zarr"], (4,)), config) as loader:
        assert [batch.numpy().sum() for batch in loader] == [8]
    assert made == [config._completed()]
    assert made[0]._unset_fields() == ()
    assert made[0].host_buffer_bytes == 1 << 26
    assert loader.config is config


def test_under_an_address_space_limit_a_loader_still_works(tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.create_array(tmp_path / "a.zarr", shape=(8,), chunks=(4,), dtype="u1")[...] = 1
    program = """
import resource, sys
import numpy, damacy, damacy.training, damacy.samplers, damacy._native
limit = 3 << 30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
grid = damacy.samplers.SlidingGrid([sys.argv[1]], (4,))
with damacy.training.Loader(grid, damacy.Config(batch_size=2, device="cpu")) as loader:
    print(sum(int(batch.numpy().sum()) for batch in loader))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "a.zarr"], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.returncode) == ("8\n", 0), done.stderr
