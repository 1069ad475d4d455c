"""`Config.memory()`: the parts of a pipeline's memory, that they add up, and that a pipeline takes no more."""

import dataclasses
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import damacy
from damacy import Config
from damacy._core.machine import Machine
from damacy._pipeline.memory import memory_plan_from

GIB = 1 << 30


def planned(config, extents=None, *, gpu, loader=False, free=64 * GIB):
    """On a machine that is made up."""
    machine = Machine(
        16, "cores", free, "free", cores=16, physical_bytes=64 * GIB, gpu=gpu, gpu_bytes=free if gpu else 0
    )
    rows = None if extents is None else [(extents, int(config.dtype))]
    return memory_plan_from(
        damacy._native.plan_memory(config._native_fields(), dataclasses.asdict(machine), rows, loader)
    )


sizes = st.integers(1, 1 << 40)
configs = st.builds(
    Config,
    batch_size=st.integers(1, 64),
    host_buffer_bytes=sizes,
    device_buffer_bytes=sizes,
    n_io_threads=st.integers(1, 1024),
    n_compute_threads=st.integers(0, 1024),
    n_batches=st.integers(1, 8),
    keep_bytes=st.none() | sizes,
)


@given(config=configs, gpu=st.booleans(), elements=st.none() | st.integers(1, 1 << 16))
@settings(deadline=None)
def test_the_parts_of_any_config_add_up(config, gpu, elements):
    plan = planned(config, elements, gpu=gpu)
    assert len({(part.name, part.kind) for part in plan.parts}) == len(plan.parts)
    known = [part for part in plan.parts if part.bytes is not None]
    assert plan.host_bytes + plan.pinned_bytes + plan.gpu_bytes == sum(part.bytes for part in known)
    fields = {field.name for field in dataclasses.fields(Config)}
    assert {part.setting for part in plan.parts} <= fields | {None}
    assert plan.threads > config.n_io_threads + config.n_compute_threads
    if elements is not None:
        (slots,) = [part for part in plan.parts if part.name == "slots"]
        assert slots.bytes == config.n_batches * (-(-elements * config.batch_size * 4 // 256) * 256)
        assert plan.unknown == ()
    assert "slots" in str(plan)


@pytest.mark.parametrize("gpu", [False, True])
def test_a_larger_setting_makes_only_its_own_parts_larger(gpu):
    base = Config(batch_size=8, host_buffer_bytes=GIB, device_buffer_bytes=GIB, keep_bytes=0)
    for name in ("host_buffer_bytes", "device_buffer_bytes", "n_batches", "keep_bytes"):
        larger = dataclasses.replace(base, **{name: 2 * (getattr(base, name) or GIB)})
        before, after = (planned(config, 1 << 20, gpu=gpu) for config in (base, larger))
        changed = {a.setting for a, b in zip(before.parts, after.parts, strict=True) if a.bytes != b.bytes}
        assert changed <= {name}, (name, changed)


def test_a_loader_keeps_batches():
    config = Config(batch_size=1)
    sizes = {loader: planned(config, 100, gpu=False, loader=loader).parts[-1].bytes for loader in (False, True)}
    assert sizes == {False: 0, True: 2 * GIB}
    assert planned(config, 100, gpu=False, loader=True, free=4 * GIB).parts[-1].bytes == GIB


def test_it_is_a_table_with_sums():
    text = str(Config(batch_size=8, device="cpu", host_buffer_bytes=1 << 26, device_buffer_bytes=1 << 26).memory())
    assert text.splitlines()[0].split() == "staging 64.0 MiB host reserved host_buffer_bytes reads".split()
    assert text.splitlines()[-1] == "at most 192.0 MiB host; without slots"


def test_before_the_first_sample_only_what_depends_on_it_is_unknown():
    base = Config(batch_size=1)
    assert planned(base, gpu=False).unknown == ("slots",)
    assert planned(base, gpu=False, loader=True).unknown == ("slots", "added slots")
    assert planned(dataclasses.replace(base, keep_bytes=5), gpu=True, loader=True).unknown == ("slots",)


def test_it_refuses_what_a_pipeline_refuses():
    with pytest.raises(damacy.InvalidArgument, match="n_io_threads must be <= 1024"):
        Config(batch_size=8, device="cpu", n_io_threads=5000).memory()
    with pytest.raises(damacy.OutOfMemory, match="a batch_size of at most 1 would fit"):
        planned(Config(batch_size=8), 1 << 33, gpu=False)
    with pytest.raises(damacy.OutOfMemory):
        Config(batch_size=8, device="cpu").memory((1 << 40, 1 << 40, 1 << 40))
    with pytest.raises(ValueError, match=r"extents must be >= 1 \(got 0\)"):
        Config(batch_size=8, device="cpu").memory((4, 0))
    with pytest.raises(TypeError, match="extents"):
        Config(batch_size=8, device="cpu").memory((4, 1.5))


def test_it_is_plain_data():
    plan = Config(batch_size=8, device="cpu").memory((4, 4))
    assert pickle.loads(pickle.dumps(plan)) == plan


def test_an_error_of_a_pipeline_that_finds_no_memory_names_the_part():
    with pytest.raises(damacy.OutOfMemory) as raised:
        damacy.Pipeline(Config(batch_size=1, device="cpu", host_buffer_bytes=1 << 60, device_buffer_bytes=1 << 20))
    for text in (str(1 << 60), "it is for staging (reads), sized by host_buffer_bytes"):
        assert text in str(raised.value)


def test_what_a_pipeline_commits_is_planned(tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.create_array(tmp_path / "a.zarr", shape=(64, 64), chunks=(16, 16), dtype="u1")[...] = 1
    config = Config(
        batch_size=4, device="cpu", host_buffer_bytes=1 << 20, device_buffer_bytes=1 << 20, keep_bytes=1 << 20
    )
    plan = {part.name: part.bytes for part in config.memory((20, 20)).parts}
    with damacy.Pipeline(config) as pipeline:
        pipeline.push([damacy.Sample(tmp_path / "a.zarr", [(i, i + 20), (i, i + 20)]) for i in range(40)])
        kept = [pipeline.pop() for _ in range(4)]
        stats = pipeline.stats()
        assert stats.host_bytes_committed == plan["staging"]
        assert 0 < stats.kept_bytes_committed <= plan["added slots"]
        assert stats.gpu_bytes_committed - stats.kept_bytes_committed <= plan["slots"] + plan["scratch"]
        del kept
