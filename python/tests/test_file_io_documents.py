"""The programs of the file I/O example and of the migration page run without changes."""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, env=os.environ | environment
    )


def test_a_file_goes_to_the_gpu_and_back():
    done = run(str(ROOT / "examples/file_to_gpu.py"), "4")
    assert (done.returncode, done.stdout.endswith("ok\n")) == (0, True), done.stderr


def test_the_programs_of_the_migration_page_run():
    page = (ROOT / "docs/migrating-from-kvikio.md").read_text(encoding="utf-8")
    programs = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    assert programs
    for program in programs:
        done = run("-c", program)
        assert done.returncode == 0, done.stderr


HOST_ONLY = """
import sys
import numpy as np
import damacy
from damacy import cufile
from damacy.cufile import CuFile

folder = sys.argv[1]
with CuFile(folder + "/x", "w+") as f:
    f.write(b"abc" * 100_000)
    target = bytearray(300_000)
    assert f.pread(target, task_size=5000).get() == 300_000
    assert f.preadv_packed(target, np.full(9, 100), np.arange(9) * 7000).get() == 900
    f.explain(), f.is_direct_io_supported()
cufile.counters()

import zarr
import damacy.zarr
from damacy.zarr import GDSStore

damacy.zarr.enable(strict=True)
z = zarr.create_array(GDSStore(folder + "/a"), shape=(40, 40), chunks=(5, 5), shards=(20, 20), dtype="u2")
z[:] = 3
assert (zarr.open_array(GDSStore(folder + "/a"))[:] == 3).all() and (z[::3, 7] == 3).all()
assert damacy.zarr.stats()["reads"] >= 2

maps = open("/proc/self/maps").read()
assert "libcuda" not in maps and "libcufile" not in maps
"""


def test_imports_host_files_and_zarr_neither_load_nor_look_for_cuda_libraries(tmp_path):
    done = run("-c", HOST_ONLY, str(tmp_path), LD_DEBUG="libs,files", LD_DEBUG_OUTPUT=str(tmp_path / "looked"))
    assert done.returncode == 0, done.stderr
    looked = "".join(log.read_text(errors="replace") for log in tmp_path.glob("looked.*"))
    assert "_native" in looked, "the loader says nothing here"
    assert "libcuda" not in looked and "libcufile" not in looked


REFUSED = """
import sys
from damacy import cufile

with open(sys.argv[1], "wb") as file:
    file.write(b"precious")
try:
    cufile.CuFile(sys.argv[1], "w", compat_mode="OFF")
except cufile.CuFileLibraryError as error:
    assert "cuFile error" in str(error) and error.path == sys.argv[1], error
    assert open(sys.argv[1], "rb").read() == b"precious"
    print("refused")
"""


def test_without_cufile_mode_off_is_refused_before_the_file_is_truncated(tmp_path):
    done = run("-c", REFUSED, str(tmp_path / "x"), DAMACY_LIBCUFILE="/nowhere/libcufile.so.0")
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr
