"""The example and the migration page of file I/O run as they are printed."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60)


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


def test_no_library_of_cudas_is_loaded_for_host_files(tmp_path):
    program = f"""
from damacy.cufile import CuFile
import damacy.cufile
with CuFile({str(tmp_path / "x")!r}, "w+") as f:
    f.write(b"abc")
    f.pread(bytearray(3)).get()
maps = open("/proc/self/maps").read()
assert "libcuda" not in maps and "libcufile" not in maps
"""
    done = run("-c", program)
    assert done.returncode == 0, done.stderr
