"""The two programs of the README, unchanged, with torch and a GPU: batches are on the GPU."""

import re

import numpy as np
import pytest
from support import child
from support.streaming import store

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]

README = child.TESTS.parent / "README.md"


def program(with_text: str) -> str:
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)
    return next(block for block in blocks if with_text in block)


def test_the_quick_start_runs_on_the_gpu():
    pytest.importorskip("torch")
    look = "\nassert torch.cuda.is_available() and cfg.device is None\n"
    finished = child.run(program("tempfile") + look, limit_s=100)
    assert (finished.returncode, finished.stdout.split()[-1:]) == (0, ["ok"]), finished.stderr


def test_the_first_program_runs_on_the_gpu(tmp_path):
    pytest.importorskip("torch")
    for k in (1, 2):
        bits = np.full((64, 256, 256), k, np.uint16)
        store(tmp_path / f"cell-{k}.zarr", (64, 256, 256), (32, 128, 128), bits=bits)
    after = "\nassert tuple(x.shape) == (8, 64, 256, 256) and x.device.type == 'cuda' and x.dtype == torch.bfloat16\n"
    after += "assert {float(x[0, 0, 0, 0]), float(x[1, 0, 0, 0])} == {1.0, 2.0}\n"
    text = program("/data/cells").replace("/data/cells", str(tmp_path)) + after
    finished = child.run(text, limit_s=100)
    assert finished.returncode == 0, finished.stderr
