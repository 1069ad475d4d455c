"""Which context a pipeline binds, and that no current context changes. What is current is
a matter of the process, so every test is a program of its own."""

import textwrap

import pytest
from support import child
from support.streaming import store

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]

START = """
import sys, warnings
import damacy
from support import cuda_driver as driver
path = sys.argv[1]
BOX = [(0, 4), (0, 8)]
def sample(k=0): return damacy.Sample(uri=path, aabb=[(k, k + 4), (0, 8)])
def pipeline(**options):
    given = dict(batch_size=2, host_buffer_bytes=1 << 24, device_buffer_bytes=1 << 24, n_io_threads=2, pop_timeout_s=20)
    return damacy.Pipeline(damacy.Config(**(given | options)))
def one_batch(running):
    running.push([sample(0), sample(1)])
    with running.pop() as batch:
        return batch.numpy()[:, 0, 0].tolist()
"""


QUIET = {"PYTHONWARNINGS": "ignore"}  # for warnings of torch about its dependencies


@pytest.fixture
def run(tmp_path):
    stored = store(tmp_path / "a.zarr", (16, 8), (4, 8))

    def run(program: str, **options) -> str:
        text = textwrap.dedent(START) + textwrap.dedent(program)
        return child.run_well(text, stored.path, limit_s=100, **options).stdout

    return run


def test_without_a_context_and_torch_the_error_says_what_to_do(run):
    run("""
    try:
        pipeline()
    except damacy.InvalidArgument as error:
        text = str(error)
        assert error.what == "create" and "torch" in text and "cuda_init_primary()" in text, text
        assert "device=0" in text and "cpu" in text, text
    else:
        raise AssertionError("a pipeline was made")
    assert driver.current_context() == 0
    """)


def test_a_current_context_is_taken_whether_primary_or_not(run):
    run("""
    own = driver.new_context()
    for device in (None, "cuda", "CUDA"):
        with pipeline(device=device) as running:
            assert running.device == 0
            assert one_batch(running) == [1, 9]
            assert driver.current_context() == own
    assert not driver.primary_is_active(), "the pipelines used another context than the current one"
    """)


@pytest.mark.parametrize("device", [0, "cuda:0", "cuda", "CUDA:0"])
def test_an_index_means_the_primary_context_and_makes_none_current(run, device):
    run(f"""
    with pipeline(device={device!r}) as running:
        assert running.device == 0 and driver.primary_is_active()
        assert one_batch(running) == [1, 9]
        assert driver.current_context() == 0
    """)


def test_an_index_with_another_current_context_is_no_error(run):
    run("""
    own = driver.new_context()
    with pipeline(device=0) as running:
        assert driver.primary_is_active()
        assert one_batch(running) == [1, 9]
        assert driver.current_context() == own
    """)


def test_a_device_that_is_not_there_is_refused_by_number(run):
    run("""
    for wrong in (driver.device_count(), "cuda:99"):
        try:
            pipeline(device=wrong)
        except damacy.InvalidArgument as error:
            assert error.what == "create" and str(wrong).removeprefix("cuda:") in str(error), str(error)
        else:
            raise AssertionError("a pipeline was made")
    """)


def test_cuda_init_primary_keeps_a_context_that_is_current(run):
    run("""
    from damacy._native import cuda_init_primary
    assert cuda_init_primary() is True
    primary = driver.current_context()
    assert primary == driver.primary_context()
    own = driver.new_context()
    assert cuda_init_primary(0) is True and driver.current_context() == own
    driver.set_current(primary)
    with pipeline() as running:
        assert running.device == 0 and one_batch(running) == [1, 9]
    """)


def test_the_host_is_chosen_by_name_and_no_driver_is_loaded(run):
    run("""
    with pipeline(device="CPU") as running:
        assert running.device == "cpu" and one_batch(running) == [1, 9]
    assert "libcuda.so" not in open("/proc/self/maps").read()
    """)


def test_importing_torch_is_enough(run):
    pytest.importorskip("torch")
    run("""
    import torch
    assert driver.current_context() == 0, "import torch made a context current"
    with pipeline() as running:
        assert running.device == torch.cuda.current_device()
        assert driver.current_context() == driver.primary_context()
        running.push([sample(0), sample(1)])
        with running.pop() as batch:
            assert torch.from_dlpack(batch)[:, 0, 0].tolist() == [1, 9]
    """, environ=QUIET)  # fmt: skip


def test_torch_initialised_has_no_context_current_until_it_is_made_to(run):
    """The behaviour of torch on which making its context current relies, and the call that does it."""
    pytest.importorskip("torch")
    run("""
    import torch
    torch.cuda.init()
    assert driver.current_context() == 0, "torch.cuda.init() made a context current"
    torch.cuda.synchronize()
    assert driver.current_context() == driver.primary_context()
    with pipeline() as running:
        assert one_batch(running) == [1, 9]
    """, environ=QUIET)  # fmt: skip


def test_damacy_imports_no_torch_for_this(run):
    run("""
    driver.new_context()
    with pipeline() as running:
        one_batch(running)
    assert "torch" not in sys.modules
    """)


def test_no_call_changes_the_callers_context(run):
    run("""
    import gc, threading
    from support import dlpack_struct
    own = driver.new_context()
    def check(what):
        assert driver.current_context() == own, what
    def every_call(device):
        running = pipeline(device=device); check("create")
        running.push([sample(k) for k in range(8)] + [sample(3)]); check("push")
        batch = running.pop(); check("pop")
        batch.info, batch.valid, repr(batch); check("info")
        batch.__dlpack_device__(); check("device")
        kept = batch.__dlpack__(stream=1); check("dlpack")
        delete = dlpack_struct.consume(batch.__dlpack__(stream=-1)); check("capsule")
        batch.__dlpack__(dl_device=(1, 0)); check("copy to the host")
        batch.__dlpack__(copy=True); check("copy")
        batch.numpy(); check("numpy")
        delete(); check("deleter")
        batch.release(1); check("release")
        del kept; check("capsule dropped")
        running.flush(); check("flush")
        for batch in running.batches(3): pass
        check("batches")
        del batch; gc.collect(); check("collected")
        with running.pop() as batch: pass
        check("short batch")
        try: running.pop()
        except damacy.TryAgain: pass
        check("try again")
        try: running.push([damacy.Sample("/nowhere", [(0, 4), (0, 8)])])
        except damacy.NotFound: pass
        check("refused")
        running.stats(), running.stats_reset(), running.device; check("stats")
        running.close(); check("close")
        running = pipeline(device=device); one_batch(running); del running; gc.collect(); check("collected open")
    for device in (None, "cuda", 0): every_call(device)
    # a thread without a context keeps none
    def bare():
        every_call(0)
    def check(what):
        assert driver.current_context() == expected, what
    expected, failures = 0, []
    def guarded():
        try: bare()
        except BaseException as error: failures.append(repr(error))
    thread = threading.Thread(target=guarded); thread.start(); thread.join()
    assert failures == [], failures
    """)


RANKS = """
def made(**options):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pipeline(**options) as running: one_batch(running)
    return [w.category for w in seen]
"""


@pytest.mark.parametrize(("rank", "warned"), [("1", 1), ("0", 0), ("x", 0), ("", 0), (" 7 ", 1)])
def test_a_local_rank_other_than_the_device_warns_once(run, rank, warned):
    program = textwrap.dedent(RANKS) + textwrap.dedent(f"""
    driver.set_current(driver.primary_context())
    assert made() == [UserWarning] * {warned}
    assert made() == []
    """)
    run(program, environ={"LOCAL_RANK": rank})


def test_local_rank_is_ignored_for_an_explicit_device(run):
    program = textwrap.dedent(RANKS) + textwrap.dedent("""
    driver.set_current(driver.primary_context())
    assert made(device=0) == made(device="cuda") == made(device="cpu") == []
    """)
    run(program, environ={"LOCAL_RANK": "5"})
