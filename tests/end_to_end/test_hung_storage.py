"""Programs whose storage does not respond: they can be interrupted, and they end.

The deadline itself is for C++ tests, which turn the clock.
"""

import pathlib
import shutil
import subprocess
import threading

import pytest
from support import child
from support.streaming import store

import damacy
from damacy._cli.verify import find_arrays
from damacy._open import folders

HUNG_CALLS = pathlib.Path(__file__).resolve().parent.parent / "fakes" / "hung_calls.cpp"

# The first argument is an array; the second names a file that appears when something hangs.
START = """
import os, signal, sys, threading, time
import damacy
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it by default
path, mark = sys.argv[1:]
def wait_until_hung():
    while not os.path.exists(mark):
        time.sleep(0.01)
def interrupt_when_hung():
    wait_until_hung()
    os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.fixture(scope="session")
def hung_calls(tmp_path_factory):
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler: calls that hang cannot be made")
    library = tmp_path_factory.mktemp("hung") / "hung_calls.so"
    subprocess.run(
        [compiler, "-std=c++20", "-shared", "-fPIC", "-O1", HUNG_CALLS, "-o", library], check=True, timeout=60
    )
    return library


@pytest.fixture
def run(hung_calls, tmp_path):
    """Runs a program over an array of four chunks, in which reads of objects that end in `hang` hang."""
    array = store(tmp_path / "a.zarr", (4, 8), (1, 8), separator=".").path

    def run(program: str, hang: str) -> child.Finished:
        mark = tmp_path / "hung"
        environ = {"LD_PRELOAD": str(hung_calls), "DAMACY_HANG": hang, "DAMACY_HANG_MARK": str(mark)}
        finished = child.run(START + program, array, mark, environ=environ)
        assert mark.exists(), "nothing hung"
        assert finished.returncode == 0, finished.stderr
        return finished

    return run


def test_opening_an_array_can_be_interrupted(run):
    program = """
threading.Thread(target=interrupt_when_hung).start()
try:
    damacy.open(path)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert run(program, "zarr.json").stdout == "interrupted\n"


@pytest.mark.parametrize("arguments", ["", "spec=damacy.ArraySpec(scale=2)"], ids=["stored", "spec"])
def test_reading_an_opened_array_can_be_interrupted(run, arguments):
    program = f"""
array = damacy.open_array(path)
threading.Thread(target=interrupt_when_hung).start()
try:
    array.read({arguments})
except KeyboardInterrupt:
    print("interrupted")
"""
    assert run(program, "c.2.0").stdout == "interrupted\n"


def test_verifying_an_array_can_be_interrupted(run):
    program = """
from damacy._cli import verify
threading.Thread(target=interrupt_when_hung).start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # another thread gets it; this thread is not woken
try:
    verify.verify(path, threads=2)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert run(program, "c.2.0").stdout == "interrupted\n"


def test_a_command_that_is_terminated_leaves_no_unfinished_file(run):
    pytest.importorskip("typer")
    program = """
from damacy import cli
def terminate_when_hung():
    wait_until_hung()
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=terminate_when_hung).start()
folder = os.path.dirname(path)
sys.argv = ["damacy", "cat", path, "--out", os.path.join(folder, "x.raw")]
try:
    cli.main()
except SystemExit as end:
    print(end.code, *sorted(os.listdir(folder)))
"""
    assert run(program, "c.2.0").stdout == "143 a.zarr hung\n"


def test_the_walk_for_arrays_ends_at_its_deadline(tmp_path, monkeypatch):
    answered = threading.Event()

    def is_array(folder):
        answered.wait(60)
        return True

    monkeypatch.setattr(folders, "_is_array", is_array)
    monkeypatch.setattr(folders, "_DEADLINE_S", 0.1)
    try:
        with pytest.raises(damacy.StorageError, match="did not answer") as raised:
            find_arrays(str(tmp_path))
        assert raised.value.reason == "deadline" and str(tmp_path) in str(raised.value)
    finally:
        answered.set()


def test_a_program_ends_while_a_read_of_zarr_pythons_hangs(run):
    pytest.importorskip("zarr", minversion="3.1")
    program = """
import damacy.zarr, zarr
def read():
    with damacy.zarr.enable(strict=True):
        zarr.open_array(path, mode="r")[:]
threading.Thread(target=read, daemon=True).start()
wait_until_hung()
"""
    run(program, "c.2.0")


def test_a_program_ends_while_a_batch_hangs(run):
    program = """
p = damacy.Pipeline(damacy.Config(batch_size=1, device="cpu"))
p.push([damacy.Sample(uri=path, aabb=[(2, 3), (0, 8)])])
wait_until_hung()
"""
    run(program, "c.2.0")
