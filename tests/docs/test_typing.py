"""Programs that users copy have correct types, and the check detects one that does not."""

import importlib.util
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import check_typing  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not all(importlib.util.find_spec(name) for name in ("mypy", "basedpyright")), reason="no type checkers"
    ),
]

HELD = """
import pathlib

import numpy as np
import zarr

import damacy
from damacy.samplers import RandomCrops, Sampler
from damacy.training import Loader
from damacy.typing import Box, Device, DtypeLike, OnError, Source, Tail, Verify


def config(dtype: DtypeLike, device: Device, on_error: OnError, verify: Verify) -> damacy.Config:
    return damacy.Config(batch_size=8, dtype=dtype, device=device, on_error=on_error, verify=verify)


def sample(source: Source, box: Box) -> damacy.Sample:
    return damacy.Sample(source, box)


stored = zarr.open_array("a.zarr", mode="r")
info: damacy.Array = damacy.open_array(stored)
samples = [
    sample(stored, [...]),
    sample(info, [slice(2, None), (0, 3), [1, 2]]),
    sample(pathlib.Path("a.zarr"), np.array([[0, 1]])),
    sample("a.zarr", [(np.int64(0), 1)]),
    sample("a.zarr", np.s_[0:1, 2:3]),
]
configs = [config(np.dtype("u2"), "cpu", "raise", "needed"), config(np.float32, 1, "fill", "whole")]
configs += [config("bf16", None, "skip", "needed"), damacy.Config.for_this_machine(8)]
stored_dtype: damacy.Dtype = configs[0].dtype
tail: Tail = "wrap"
crops: Sampler = RandomCrops([info.uri], (1, 1), length=8)
RandomCrops({"a.zarr": (8, 8)}, (1, 1), length=8, weights=[1.0])
RandomCrops([stored, info, pathlib.Path("a.zarr")], (1, 1), length=8)
with Loader(crops, configs[0], tail=tail) as loader:
    for batch in loader:
        print(batch)
names: tuple[str | None, ...] = info.dims
factor: float | None = None if info.cf is None else info.cf.scale_factor
"""
OF_SAMPLERS = """
import pathlib

import damacy
from damacy.samplers import (
    ForegroundCrops,
    ForegroundIndex,
    Indexed,
    RandomCrops,
    Sampler,
    SlidingGrid,
    Weighted,
    Windows,
    Within,
    split,
)

info = damacy.open_array("a.zarr")
sides: dict[str, Within] = split([info, "b.zarr"], {"train": 0.8, "val": 0.2}, by="chunk", extents={"z": 3})
crops: Sampler = RandomCrops(["a.zarr"], (1, 1), length=8, within=sides["train"])
grid: Sampler = SlidingGrid([pathlib.Path("a.zarr")], (4, 4), overlap=2, within=sides["val"])
ordered: Sampler = Indexed(crops, [1, 2, 3])
listed: Sampler = Indexed([damacy.Sample("a", [(0, 1)])], range(1))
weighted: Sampler = Weighted(grid, [0.5, 1], length=3)
windows = Windows({"x": (("era5.zarr", ["t2m", "u10"]), (-3, 1)), "y": ("era5.zarr/t2m", (6, 7))}, seed=1)
stacked: Sampler = Windows({"x": (["a", "b"], (0, 1)), "y": (info, (0, 1))}, extents={"x": 3}, within=(0, 5))
print(windows.times(windows.samples(0, 0, 3)), windows.boxes(0, 0, 3).shape)
index = ForegroundIndex.build(["a.zarr", info], classes=[1, 2], progress=print)
index.save("a.npz")
arrays = {"image": ["a.zarr"], "label": ["b.zarr"]}
foreground: Sampler = ForegroundCrops(arrays, (3, 3), length=4, classes={1: 0.5, 2: 1}, index=index)
"""
OF_STITCH = """
import pathlib

import numpy as np

import damacy
from damacy.samplers import SlidingGrid
from damacy.stitch import Writer
from damacy.training import Loader
from damacy.typing import Blend

blend: Blend = "hann"
grid = SlidingGrid(["a.zarr"], {"z": 8}, overlap=2)
with Loader(grid, damacy.Config(batch_size=1), tail="short") as loader:
    out = pathlib.Path("out.zarr")
    with Writer(out, grid, dtype=np.uint8, blend=blend, max_bytes="1 GiB", progress=print) as writer:
        for batch in loader:
            writer.add(batch.numpy(), batch)
needed: int = writer.needed_bytes
"""
OF_TORCH = """
import torch

import damacy


def norm(batch: damacy.Batch) -> "torch.Tensor":
    return torch.from_dlpack(batch).norm()
"""
TORCH = {  # a library with types that a strict program cannot satisfy
    "py.typed": "",
    "__init__.py": "from torch._C import Tensor\nfrom torch._C import from_dlpack\n",
    "_C.pyi": "from typing import Any\nclass Tensor:\n    def norm(self) -> Any: ...\n"
    "    def __eq__(self, other: Tensor) -> Tensor: ...\ndef from_dlpack(batch: Any) -> Tensor: ...\n",
}
WRONG = """
import damacy

damacy.Config(batch_size="8")
damacy.Config(batch_size=8, on_error="ignore")
damacy.Sample(3, [(0, 1)])
"""


def said_of(folder, **programs):
    check_typing.write(folder)
    for path in folder.glob("*.py"):
        path.unlink()
    for name, program in programs.items():
        (folder / f"{name}.py").write_text(program)
    return check_typing.check(folder)


def test_the_programs_of_the_readme_the_tutorial_and_the_examples(tmp_path):
    assert len(check_typing.programs()) >= 10
    check_typing.write(tmp_path)
    assert check_typing.check(tmp_path) == []


def test_types_of_public_values(tmp_path):
    assert said_of(tmp_path, held=HELD, samplers=OF_SAMPLERS, stitch=OF_STITCH) == []


def test_types_of_an_installed_torch_are_not_used(tmp_path, monkeypatch):
    programs, installed = tmp_path / "programs", tmp_path / "installed"
    programs.mkdir()
    for name, text in TORCH.items():
        path = installed / "torch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(check_typing, "SEARCHED", (*check_typing.SEARCHED, installed))
    assert said_of(programs, of_torch=OF_TORCH) == []


def test_both_checkers_notice_wrong_values(tmp_path):
    said = said_of(tmp_path, wrong=WRONG)
    assert len(said) == 2
    for text in said:
        assert all(f"wrong.py:{line}" in text for line in (4, 5, 6))
