"""After an error that ends the context, whatever caused it: one and the same `NativeCudaError` from everything, silence
from whatever frees, and a quick, quiet end. Each test is a process of its own. Not tested: programs that destroy the
context or reset the device under a pipeline. CUDA leaves undefined what later calls do, and its driver may crash."""

import textwrap

import pytest
from support import child
from support.streaming import store

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]

START = """
import gc, sys, time
import damacy
from support import cuda_driver as driver, dlpack_struct
path, end = sys.argv[1], sys.argv[2]
sample = lambda k: damacy.Sample(path, [(k, k + 16), (0, 64), (0, 64)])
def pipeline(device):
    return damacy.Pipeline(damacy.Config(batch_size=1, dtype="u16", device=device, host_buffer_bytes=1 << 24,
                                         device_buffer_bytes=1 << 24, n_batches=3, pop_timeout_s=20))
def error_of(call):
    try:
        call()
    except damacy.NativeCudaError as error:
        return error
    raise AssertionError("no error")
def pops_until_it_shows(running):
    for _ in range(1 << 15):  # on a shared GPU the kernel may not have started yet
        running.pop().release()
def check_the_end(running, held, device):
    first = error_of(lambda: pops_until_it_shows(running))
    assert first.sticky and first.status == damacy.Status.CUDA, first
    assert "restart" in str(first), first
    again = error_of(running.pop)
    assert again.sticky and again.status == damacy.Status.CUDA, again
    other = error_of(lambda: pipeline(0))
    assert other.sticky and again.args == first.args == other.args, (first, again, other)
    start = time.monotonic()
    for batch, delete in held:
        batch.release(1)
        delete()
    running.close()
    del running, held, batch
    gc.collect()
    took = time.monotonic() - start
    assert took < 5, f"{took} s"
    with pipeline("cpu") as host:  # the host back end needs no device
        host.push([sample(0)])
        assert host.pop().numpy()[0, 0, 0, 0] == 1
    print("ok", flush=True)
def begin(device):
    running = pipeline(device)
    running.push(sample(k % 80) for k in range(1 << 20))
    batch = running.pop()
    return running, [(batch, dlpack_struct.consume(batch.__dlpack__()))]
"""

WAYS = {
    "a kernel of the user's writes nowhere": """
        driver.set_current(driver.primary_context())
        kernels = driver.Kernels()
        running, held = begin(0)
        kernels.fault(driver.new_stream())
        check_the_end(running, held, 0)
    """,
    "a kernel asserts, in torch": """
        import torch
        torch.cuda.synchronize()
        running, held = begin(None)
        torch.zeros(4, device="cuda")[torch.tensor([1 << 20], device="cuda")]
        check_the_end(running, held, None)
    """,
}


@pytest.fixture
def stored(tmp_path):
    return store(tmp_path / "a.zarr", (96, 64, 64), (16, 64, 64))


@pytest.mark.parametrize("end", ["close", "exit"])
@pytest.mark.parametrize("way", WAYS)
def test_a_lost_device_raises_one_error_and_prints_nothing(stored, way, end):
    """`end`: pipelines are closed, or the interpreter ends with them."""
    if "torch" in way:
        pytest.importorskip("torch")
    program = textwrap.dedent(START)
    if end == "exit":
        before, _, after = program.partition("    start = time.monotonic()\n")
        program = before + '    print("ok", flush=True); return\n' + after[after.index("def begin") :]
    finished = child.run(program + textwrap.dedent(WAYS[way]), stored.path, end, limit_s=60)
    # The driver prints the kernel's assertion; damacy must not print anything.
    ours = [line for line in finished.stderr.splitlines() if "damacy" in line or "Traceback" in line]
    assert (finished.returncode, finished.stdout, ours) == (0, "ok\n", []), finished.stderr
    assert finished.seconds < 55
