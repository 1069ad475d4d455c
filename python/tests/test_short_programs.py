"""The training loops of the documentation are short, and run as they stand once their data and model are there."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHORT = re.compile(r"^<!-- short program -->\n```python\n(.*?)^```$", re.M | re.S)

IMAGES = """
import torch
from damacy.synthetic import write_image
write_image("cell.zarr", (24, 128, 128), chunks=(8, 64, 64), labels=True)
os.rename("cell.zarr/labels/blobs", "cell.zarr/labels/nuclei")
images = ["cell.zarr"]
net = torch.nn.Conv3d(1, 2, 3, padding=1)
model = lambda x: net(x[:, None])
optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
"""

ERA5 = """
import numpy as np, xarray as xr
hours = np.datetime64("2009-12-31", "ns") + np.arange(60) * np.timedelta64(1, "h")
dims = ("time", "latitude", "longitude")
random = np.random.default_rng(0)
means = {"t2m": 280, "u10": 0, "v10": 0}
fields = {name: (dims, mean + random.standard_normal((60, 19, 36), dtype="f4")) for name, mean in means.items()}
packing = {name: {"dtype": "int16", "scale_factor": 0.002, "add_offset": float(mean), "chunks": (4, 19, 36)}
           for name, mean in means.items()}
xr.Dataset(fields, {"time": hours}).to_zarr("era5.zarr", encoding=packing, consolidated=False)
model = lambda x: x[:, :1, -1:]
criterion = lambda found, wanted: ((found - wanted) ** 2).mean()
"""


def program_of(page: str) -> str:
    (program,) = SHORT.findall((ROOT / "docs" / "how-to" / page).read_text())
    return program


@pytest.mark.parametrize("page, most", [("image-and-label.md", 15), ("era5.md", 12)])
def test_programs_are_short(page, most):
    """Statements that share a line count as lines of their own."""
    lines = [line for line in program_of(page).splitlines() if line.strip()]
    assert any("IterableDataset(" in line for line in lines)
    assert len(lines) + sum(line.count(";") for line in lines) <= most


@pytest.mark.parametrize(
    "page, data, needs",
    [("image-and-label.md", IMAGES, ["torch"]), ("era5.md", ERA5, ["torch", "xarray"])],
    ids=["image and label", "era5"],
)
@pytest.mark.timeout(100)
def test_programs_run(page, data, needs, tmp_path):
    for package in ["zarr", *needs]:
        pytest.importorskip(package)
    program = program_of(page).replace("length=10_000", "length=32")
    ended = "\nimport math; assert math.isfinite(float(loss)), loss; print('done')"
    path = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]))
    ran = subprocess.run(
        [sys.executable, "-c", "import os\n" + data + program + ended],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert ran.stdout == "done\n", ran.stdout + ran.stderr


@pytest.mark.timeout(600)
def test_the_example_of_era5_forecasts_better_than_no_change(tmp_path):
    pytest.importorskip("xarray")
    pytest.importorskip("matplotlib")
    picture = tmp_path / "forecast.png"
    program = [
        sys.executable,
        str(ROOT / "examples" / "train_era5.py"),
        "--folder",
        str(tmp_path),
        "--plot",
        str(picture),
    ]
    path = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]))
    ran = subprocess.run(program, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=590)
    errors = re.match(r"error of the forecast (\d\.\d+), of no change (\d\.\d+) deviations", ran.stdout)
    assert errors, ran.stdout + ran.stderr
    assert float(errors[1]) < float(errors[2]) / 4
    assert picture.read_bytes().startswith(b"\x89PNG")
