"""Programs run in a process of their own, with a time limit: for exits, signals, forks and import times.

Knows where the package and the tests' support are; prints the child's output when it did not do as asked.
"""

import dataclasses
import os
import pathlib
import subprocess
import sys
import textwrap
import time

import damacy

TESTS = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = pathlib.Path(damacy.__file__).resolve().parent.parent

# What programs about pipelines begin with; the first argument is the array they read, and they end in EXIT_LIMIT_S.
# The last line tells `run` that the imports are done, which take long on a busy machine.
START = """
import sys, threading, time, os, signal, itertools
import damacy
from support.line import Line, LENGTH, endless, numbers, popped, drained
from support.streaming import Stored, pipeline
from support.layout import Layout
path = sys.argv[1]
def sample(k):
    return damacy.Sample(uri=path, aabb=[(k % 4000, k % 4000 + 1)])
def samples():
    return (sample(k) for k in itertools.count())
os.write(int(os.environ["STARTED_FD"]), str(time.monotonic()).encode())
"""
EXIT_LIMIT_S = 5.0


@dataclasses.dataclass
class Finished:
    returncode: int
    stdout: str
    stderr: str
    seconds: float  # from the end of START, if the program begins with it, else from the start of the process


def run(
    program: str, *arguments, limit_s: float = 90, flags: tuple[str, ...] = (), environ: dict[str, str] | None = None
) -> Finished:
    """Runs `program` with `sys.argv[1:]` = arguments. A child that outlives the limit is killed and fails the test."""
    paths = [str(TESTS), *([str(PACKAGE)] if PACKAGE.name != "site-packages" else [])]
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"}
    environment |= environ or {}
    command = [sys.executable, *flags, "-X", "faulthandler", "-c", textwrap.dedent(program), *map(str, arguments)]
    started, child_started = os.pipe()
    os.set_blocking(started, False)
    environment["STARTED_FD"] = str(child_started)
    start = time.monotonic()
    child = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=[child_started]
    )
    os.close(child_started)
    try:
        stdout, stderr = child.communicate(timeout=limit_s)
        end = time.monotonic()
    except subprocess.TimeoutExpired:
        child.kill()
        stdout, stderr = child.communicate()
        raise AssertionError(f"no end after {limit_s} s\n{stdout}\n{stderr}") from None
    finally:
        with os.fdopen(started, "rb", buffering=0) as pipe:
            start = float(pipe.read() or start)
    return Finished(child.returncode, stdout, stderr, end - start)


def run_well(program: str, *arguments, **options) -> Finished:
    """As `run`, and the child must end with status 0 and say nothing on stderr."""
    finished = run(program, *arguments, **options)
    assert finished.returncode == 0, f"status {finished.returncode}\n{finished.stdout}\n{finished.stderr}"
    assert finished.stderr == "", finished.stderr
    return finished
