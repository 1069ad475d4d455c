"""The README: its programs and the lines of its table run, its figures have files, and it is short."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

LABELLED = """
import os, zarr, damacy
from damacy.synthetic import write_image
for k in (1, 2):
    write_image(f"cell-{k}.zarr", (24, 160, 160), chunks=(8, 64, 64), labels=True)
    os.rename(f"cell-{k}.zarr/labels/blobs", f"cell-{k}.zarr/labels/nuclei")
damacy.mount("s3://scans/", zarr.storage.LocalStore("."))
steps = []
def step(image, label):
    steps.append((image.shape, label.shape, str(image.dtype), str(label.dtype)))
    if len(steps) == 3:
        print(steps[-1])
        raise SystemExit(0)
"""
WITHOUT_TORCH = """
import sys, types
def module(name, **members):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(members)
    return sys.modules[name]
data = module("torch.utils.data", IterableDataset=object, get_worker_info=lambda: None)
no_gpu = types.SimpleNamespace(is_available=lambda: False)
module("torch", utils=module("torch.utils", data=data), from_dlpack=lambda batch: batch.numpy(), cuda=no_gpu)
"""
# What the lines of the table use without making it.
GIVEN = {
    "batches": """
import damacy, zarr
from damacy.samplers import RandomCrops
zarr.create_array("a.zarr", shape=(16, 16), chunks=(8, 8), dtype="u2")[:] = 1
samples = RandomCrops(["a.zarr"], (4, 4), length=4).samples(0, 0, 4)
config = damacy.Config(batch_size=4, device="cpu", host_buffer_bytes=1 << 24, device_buffer_bytes=1 << 24)
""",
    "faster zarr-python": """
import zarr
zarr.create_array("a.zarr", shape=(80, 256), chunks=(64, 64), dtype="u2")[:] = 1
""",
    "files": """
import numpy as np
np.arange(1000, dtype="f4").tofile("numbers.bin")
""",
    "halos": """
import numpy as np
from damacy import halo
arrays = [np.zeros((14, 14))]
fields = [halo.Field.like(arrays[0], ("j", "i"), origin=(3, 3), extent=(8, 8))]
grid, rank, comm = halo.Cartesian((1, 1), periodic=True), 0, 1
halo.MPI = halo.Local
""",
}


def block(title: str) -> str:
    section = README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    found = re.search(r"^```python\n(.*?)^```$", section, re.M | re.S)
    assert found, title
    return found[1]


def interfaces() -> dict[str, list[str]]:
    """By the first cell of each row of "Interfaces": its lines of code."""
    section = README.partition("\n## Interfaces\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|`]+) \| (`.+`) \| \[[^|]+\]\([^|]+\) \|$", section, re.M)
    return {what: [line.strip("`") for line in code.split("<br>")] for what, code in rows}


def run(program: str, folder: pathlib.Path) -> str:
    path = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")]))
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_first_program_has_at_most_twelve_lines_and_runs(tmp_path):
    pytest.importorskip("zarr")
    program = block("First program")
    assert len(program.splitlines()) <= 12
    assert run(program, tmp_path).count("(8, 16, 64, 64)") == 8


def test_the_training_program_reads_a_path_and_a_bucket(tmp_path):
    """With the folder of the test for /data/cells and for the bucket, and a stand-in where torch is not installed."""
    pytest.importorskip("zarr")
    program = block("Train on image and label")
    assert len([line for line in program.splitlines() if line and "import" not in line]) <= 10
    assert program.count("s3://scans/") == 1
    try:
        import torch  # noqa: F401

        before = ""
    except ImportError:
        before = WITHOUT_TORCH
    said = run(before + LABELLED + program.replace("/data/cells", str(tmp_path)), tmp_path)
    assert said.count("(8, 16, 96, 96)") == 2 or said.count("[8, 16, 96, 96]") == 2
    assert "float32" in said and "int64" in said


def test_the_table_of_interfaces_has_three_lines_for_each():
    assert len(interfaces()) == 7
    assert {what: len(lines) for what, lines in interfaces().items() if len(lines) != 3} == {}


@pytest.mark.parametrize("interface", GIVEN)
def test_the_python_lines_of_the_table_run(interface, tmp_path):
    pytest.importorskip("zarr")
    (lines,) = [lines for what, lines in interfaces().items() if what.startswith(interface)]
    run(GIVEN[interface] + "\n".join(lines), tmp_path)


def test_the_other_lines_of_the_table_are_calls_that_exist():
    c = (ROOT / "src/damacy/c.h").read_text()
    assert [call for call in re.findall(r"damacy_\w+(?=\()", "".join(interfaces()["C"])) if f" {call}(" not in c] == []
    cpp = "".join((ROOT / "src/damacy/pipeline" / name).read_text() for name in ("pipeline.h",))
    assert all(f" {call}(" in cpp for call in re.findall(r"pipeline\.(\w+)\(", "".join(interfaces()["C++"])))
    commands = pytest.importorskip("damacy._cli.commands").app.registered_commands
    names = {command.name or command.callback.__name__ for command in commands}
    (shell,) = [lines for what, lines in interfaces().items() if "shell" in what]
    assert {line.split()[1] for line in shell} <= names


def test_the_readme_is_short():
    assert len(README.split()) <= 1300


def test_result_files_that_it_links_exist():
    linked = re.findall(r"\]\((bench/results/[^)]+)\)", README)
    assert len(linked) >= 4
    assert [path for path in linked if not (ROOT / path).is_file()] == []


def test_there_are_at_most_35_result_files():
    assert len(list((ROOT / "bench" / "results").glob("*.json"))) <= 35


def test_result_files_that_pages_name_exist():
    results = ROOT / "bench" / "results"
    there = {path.stem for path in results.glob("*.json")}
    pages = [ROOT / "bench/README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"results/([a-z0-9-]+)\.json", page.read_text())}
    named |= set(re.findall(r"`([a-z0-9-]+)\.json`", (ROOT / "docs/reference/speed.md").read_text()))
    assert len(named) > 20
    assert named - there == set()
