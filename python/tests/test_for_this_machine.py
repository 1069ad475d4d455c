"""`Config.for_this_machine`: how it measures a machine, what it chooses, and that it keeps settings of the caller."""

import copy
import dataclasses
import inspect
import json
import os
import pickle
import resource
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from damacy import Config
from damacy._core import machine as machine_module
from damacy._core.machine import Machine, free_gpu_bytes, free_host_bytes, ranks_here, usable_cores
from damacy._pipeline.machine_settings import choices

CHOSEN = ("n_io_threads", "n_compute_threads", "host_buffer_bytes", "device_buffer_bytes", "n_batches")


@pytest.fixture
def mask_of_16(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))


def tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


# -- what it sees ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "ranks"),
    [
        ({}, 1),
        ({"LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "16"}, 4),
        ({"LOCAL_WORLD_SIZE": ""}, 1),
        ({"LOCAL_WORLD_SIZE": "many"}, 1),
        ({"LOCAL_WORLD_SIZE": "0"}, 1),
        ({"SLURM_NTASKS_PER_NODE": "8"}, 1),  # a shell in an allocation
        ({"SLURM_STEP_ID": "0", "SLURM_NTASKS_PER_NODE": "8"}, 8),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_TASKS_PER_NODE": "4(x2),3"}, 4),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_TASKS_PER_NODE": "4", "LOCAL_WORLD_SIZE": "2"}, 2),
    ],
)
def test_ranks_are_those_of_the_host(environ, ranks):
    assert ranks_here(environ) == ranks


@pytest.mark.parametrize(
    ("files", "environ", "cores"),
    [
        ({}, {}, 16),
        ({}, {"LOCAL_WORLD_SIZE": "4"}, 4),
        ({}, {"LOCAL_WORLD_SIZE": "64"}, 1),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "400000 100000"}, {}, 4),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "max 100000"}, {}, 16),
        ({"proc/self/cgroup": "0::/job/a\n", "sys/fs/cgroup/job/cpu.max": "600000 100000"}, {}, 6),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/cpu.max": "50000 100000"}, {}, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "800000 100000"}, {"LOCAL_WORLD_SIZE": "4"}, 2),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/docker/1\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "300000",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
            },
            {},
            3,
        ),
        ({"proc/self/cgroup": "4:cpu:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1"}, {}, 16),
        ({"proc/self/cgroup": "\n:::\nnonsense", "sys/fs/cgroup/cpu.max": "4 x"}, {}, 16),
        ({}, {"SLURM_STEP_ID": "0", "SLURM_STEP_TASKS_PER_NODE": "4", "SLURM_CPU_BIND_TYPE": "mask_cpu:"}, 16),
        ({}, {"SLURM_STEP_ID": "0", "SLURM_STEP_TASKS_PER_NODE": "4", "SLURM_CPU_BIND_TYPE": "none"}, 4),
    ],
)
def test_cores_are_limited_by_mask_and_quota_and_divided_among_ranks(tmp_path, mask_of_16, files, environ, cores):
    assert usable_cores(tree(tmp_path, files), environ)[0] == cores


MEMINFO = "MemTotal: 100 kB\nMemAvailable: 8388608 kB\n"  # 8 GiB
GIB = 1 << 30


@pytest.mark.parametrize(
    ("files", "ranks", "free", "why"),
    [
        ({}, 1, 8 * GIB, "free on the host"),
        ({}, 4, 2 * GIB, "free on the host"),
        (
            {
                "proc/self/cgroup": "0::/job\n",
                "sys/fs/cgroup/job/memory.max": str(4 * GIB),
                "sys/fs/cgroup/job/memory.current": str(3 * GIB),
                "sys/fs/cgroup/job/memory.stat": f"anon {GIB}\nactive_file {GIB}\ninactive_file {GIB // 2}\n",
            },
            1,
            4 * GIB - 3 * GIB + 3 * GIB // 2,
            "free in the cgroup",
        ),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/memory.max": "max\n"}, 1, 8 * GIB, "free on the host"),
        (
            {
                "proc/self/cgroup": "7:memory:/a/b\n",
                "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": str((1 << 63) - 4096),
                "sys/fs/cgroup/memory/a/memory.limit_in_bytes": str(2 * GIB),
                "sys/fs/cgroup/memory/a/memory.usage_in_bytes": str(GIB),
            },
            2,
            GIB // 2,
            "free in the cgroup",
        ),
    ],
)
def test_free_memory_is_the_minimum_of_host_and_cgroups(tmp_path, monkeypatch, files, ranks, free, why):
    monkeypatch.setattr(resource, "getrlimit", lambda what: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert free_host_bytes(tree(tmp_path, {"proc/meminfo": MEMINFO} | files), ranks) == (free, why)


def test_an_address_space_limit_bounds_memory_and_is_not_shared(tmp_path, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda what: (3 * GIB, 3 * GIB))
    root = tree(tmp_path, {"proc/meminfo": MEMINFO, "proc/self/statm": f"{GIB // resource.getpagesize()} 1 1 1"})
    assert free_host_bytes(root, 2) == (2 * GIB, "left of the address-space limit (ulimit -v)")


class Nvml:
    """Two GPUs with 10 and 20 bytes free; UUIDs begin with GPU-."""

    def nvmlDeviceGetHandleByIndex_v2(self, index, handle):
        handle._obj.value = index.value + 1
        return 0 if index.value < 2 else 2

    def nvmlDeviceGetHandleByUUID(self, name, handle):
        handle._obj.value = 2
        return 0 if name == b"GPU-1" else 2

    def nvmlDeviceGetMemoryInfo(self, handle, memory):
        memory._obj[:] = [100, 10 * handle.value, 0]
        return 0


@pytest.mark.parametrize(
    ("device", "environ", "free"),
    [
        (None, {}, 10),
        ("cuda", {}, 10),
        (1, {}, 20),
        (7, {}, None),
        (None, {"CUDA_VISIBLE_DEVICES": "1"}, 20),
        (1, {"CUDA_VISIBLE_DEVICES": "1, 0"}, 10),
        (0, {"CUDA_VISIBLE_DEVICES": "GPU-1"}, 20),
        (0, {"CUDA_VISIBLE_DEVICES": "MIG-x"}, None),
        (3, {"CUDA_VISIBLE_DEVICES": "0"}, None),
        (0, {"CUDA_VISIBLE_DEVICES": ""}, None),
    ],
)
def test_free_memory_is_that_of_the_visible_gpu(monkeypatch, device, environ, free):
    monkeypatch.setattr(machine_module, "_nvml", Nvml)
    assert free_gpu_bytes(device, environ) == free


def test_without_nvml_free_memory_of_a_gpu_is_unknown(monkeypatch):
    monkeypatch.setattr(machine_module, "_nvml", lambda: None)
    assert free_gpu_bytes(0, {}) is None


# -- what it chooses ---------------------------------------------------------------------------------------------------


def values(machine, **more):
    return {name: choice.value for name, choice in choices(machine, **more).items()}


def test_a_gpu_with_16_cores_gets_the_settings_that_were_fastest():
    machine = Machine(16, "", 100 * GIB, "", gpu=True, gpu_bytes=140 * GIB)
    assert values(machine) == dict(zip(CHOSEN, (16, 15, 2 * GIB, 6 * GIB, 2)))


def test_a_host_gets_one_thread_per_core():
    assert values(Machine(2, "", 23 * GIB, "")) == dict(zip(CHOSEN, (2, 0, GIB, 4 * GIB, 4)))
    assert values(Machine(16, "", 23 * GIB, ""))["n_io_threads"] == 16


@given(
    machine=st.builds(
        Machine,
        cores=st.integers(1, 4096),
        why_cores=st.just("cores"),
        host_bytes=st.integers(0, 1 << 44),
        why_memory=st.just("free"),
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
    assert config.host_buffer_bytes <= max(least, machine.host_bytes // 8)
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
