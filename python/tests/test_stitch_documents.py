"""The example of `damacy.stitch` runs, and the programs of its page are short."""

import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("zarr")
ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_example_stitches_what_the_filter_gives_for_the_whole_image(tmp_path):
    program = [sys.executable, str(ROOT / "examples" / "stitch_predictions.py"), "--folder", str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    crop, gaussian = done.stdout.splitlines()
    assert re.match(r"crop: 36 windows, .* scale \(1\.0, 1\.0, 1\.0\), largest difference \d\.\de[-+]\d\d$", crop)
    assert gaussian.startswith("gaussian: 36 windows")


def test_prediction_into_zarr_takes_at_most_15_lines():
    """Imports and synthetic data included. tests/docs/test_programs.py runs the programs."""
    page = (ROOT / "docs" / "how-to" / "predict-and-stitch.md").read_text()
    programs = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    with_torch, with_numpy = (program.splitlines() for program in programs[:2])
    for program in (with_torch, with_numpy):
        assert any("writer.add(" in line for line in program)
        assert len([line for line in program if line.strip()]) <= 15
    assert "import torch" in with_torch and "import torch" not in with_numpy
