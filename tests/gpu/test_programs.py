"""The programs of the README, with torch and a GPU: batches are on the GPU."""

import re

import pytest
from support import child

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]

README = child.TESTS.parent / "README.md"
LABELLED = """
import pathlib
import zarr
from damacy.synthetic import write_image
for k in (1, 2):
    write_image(f"cell-{k}.zarr", (24, 160, 160), chunks=(8, 64, 64), labels=True)
    pathlib.Path(f"cell-{k}.zarr/labels/blobs").rename(f"cell-{k}.zarr/labels/nuclei")
import damacy
damacy.mount("s3://scans/", zarr.storage.LocalStore("."))
def step(image, label):
    assert image.device.type == label.device.type == "cuda" and image.shape == label.shape == (8, 16, 96, 96)
    raise SystemExit(0)
"""


def program(title: str) -> str:
    section = README.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2]
    return re.search(r"^```python\n(.*?)^```", section, re.M | re.S)[1]


def test_the_first_program_runs_on_the_gpu(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    finished = child.run(program("First program").replace('"cpu"', '"cuda"'), limit_s=100)
    assert (finished.returncode, finished.stdout.count("(8, 16, 64, 64)")) == (0, 8), finished.stderr


def test_the_training_program_gets_tensors_on_the_gpu(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    finished = child.run(LABELLED + program("Train on image and label").replace("/data/cells/", ""), limit_s=100)
    assert finished.returncode == 0, finished.stderr
