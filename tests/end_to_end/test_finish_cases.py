"""Random arrays with random specs: each row has the bits that NumPy computes (`support.finish_model`).

20 by default, more by `--cases N` or DAMACY_CASES.
"""

import itertools
import os

import numpy as np
import pytest
from support.element_types import as_bits
from support.finish_cases import FinishCase
from support.streaming import LAZY, assert_rows, set_natively

import damacy


def pytest_generate_tests(metafunc):
    if "number" in metafunc.fixturenames:
        option = metafunc.config.getoption
        first, only = option("--first-case", default=0), option("--case-seed", default=None)
        count = int(option("--cases", default=None) or os.environ.get("DAMACY_CASES", "60"))
        metafunc.parametrize("number", [only] if only is not None else range(first, first + max(count // 3, 1)))


@pytest.fixture(params=["workers", "lazy"])
def engine(request, monkeypatch):
    if request.param == "lazy":  # the stream engine, as with a GPU; a missing wait would give wrong bytes
        set_natively(monkeypatch, **LAZY)


@pytest.mark.usefixtures("engine")
def test_finish_case(number, tmp_path):
    case = FinishCase(number, tmp_path)
    rows, poisons = [], itertools.cycle((0xA5, 0x5A))
    with damacy.Pipeline(case.config()) as running:
        for _ in range(2):  # the second time in poisoned slots
            running.push(case.samples)
            for batch in running:
                with batch:
                    array = batch["a"] if case.named else batch
                    assert all(batch.valid)
                    rows += list(as_bits(array.numpy(), case.output).copy())
                    array.numpy().reshape(-1).view(np.uint8)[...] = next(poisons)
    assert_rows([rows], case.wanted * 2, f"case {number}: {case}")


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("size", range(1, 8))
def test_borders_are_those_of_numpy_pad(mode, size, tmp_path):
    """Up to five sizes beyond both ends, and each window of a few elements there."""
    zarr = pytest.importorskip("zarr")
    elements = np.random.default_rng(size).integers(0, 1000, (size, 3), dtype="u2")
    zarr.create_array(tmp_path / "a", data=elements, chunks=(2, 2))
    beyond = 5 * size
    wide = np.pad(elements, [(beyond, beyond), (0, 0)], mode=mode)
    for extent in (1, 4, 2 * beyond + size):
        starts = range(-beyond, size + beyond - extent + 1)
        samples = [damacy.Sample(tmp_path / "a", [(start, start + extent), (0, 3)]) for start in starts]
        options = {"batch_size": len(samples), "dtype": "u16", "arrays": damacy.ArraySpec(pad={0: mode})}
        with damacy.Pipeline(damacy.Config(device="cpu", **options)) as pipeline:
            pipeline.push(samples)
            rows = pipeline.pop().numpy()
            wanted = [wide[start + beyond : start + beyond + extent] for start in starts]
            np.testing.assert_array_equal(rows, wanted)


NANS = [0x7FC00000, 0xFFC01234, 0x7F800001, 0xFF800001]  # quiet and signalling, with payloads and signs
OPERANDS = {
    "u2": [0, 1, 2, 4097, 32767, 32768, 65535],
    "i2": [-32768, -1, 0, 1, 4097, 32767],
    "f4": [0.0, -0.0, 0.5, -1.5, 2.5, 4097, 1e-45, -1e-40, 1.1754944e-38, 3.4028235e38, np.inf, -np.inf],
    "f2": [0.0, -0.0, 0.5, -1.5, 6e-8, 65504, np.inf, -np.inf, np.nan],
    "i4": [-(2**31), 2**31 - 1, -1, 0, 16777217],
    "u8": [0, 2**64 - 1, 2**63, 2**53 + 1],
    "f8": [0.0, -0.0, 0.1, 5e-324, 1e300, np.inf, -np.inf, np.nan],
}


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("stored", OPERANDS)
def test_operands_that_tell_roundings_apart(stored, tmp_path):
    """A product and a sum, each rounded: 4097 * f4(1/3) + f4(-1365.6667) is 0.0, and -4.068e-05 with one rounding."""
    zarr = pytest.importorskip("zarr")
    x = np.array(OPERANDS[stored], stored)
    if stored == "f4":
        x = np.concatenate([x, np.array(NANS, "u4").view("f4")])
    x = np.tile(x, 40)  # whole vectors, and a rest
    zarr.create_array(tmp_path / "a", data=x, chunks=(len(x),))
    working = np.dtype("f4" if stored in ("u2", "i2", "f4", "f2") else "f8").type
    for scale, offset in [(1 / 3, -1365.6667), (1e-10, 0.0), (-2.0, 0.5), (0.0, 0.0), (1.0, 1e-45)]:
        spec = damacy.ArraySpec(dtype="f32", scale=scale, offset=offset)
        with damacy.Pipeline(damacy.Config(batch_size=1, device="cpu", arrays=spec)) as pipeline:
            pipeline.push([damacy.Sample(tmp_path / "a", [(0, len(x))])])
            with pipeline.pop() as batch:
                row = batch.numpy()[0].copy()
        with np.errstate(all="ignore"):
            wanted = (x.astype(working) * working(scale) + working(offset)).astype("f4")
        wanted[np.isnan(wanted)] = np.array(0x7FC00000, "u4").view("f4")  # the one NaN
        np.testing.assert_array_equal(row.view("u4"), wanted.view("u4"))
        if stored == "u2" and scale == 1 / 3:
            assert row[3] == 0.0
            fused = 4097 * float(np.float32(1 / 3)) + float(np.float32(-1365.6667))
            assert abs(fused + 4.068e-05) < 1e-8  # so the operands tell


def test_an_opened_array_gives_the_rows_of_a_pipeline(number, tmp_path):
    case = FinishCase(number, tmp_path)
    if case.stack:
        pytest.skip("a stack is no array")
    array = damacy.open_array(case.uri)
    for sample, wanted in zip(case.samples, case.wanted):
        box = sample.arrays["a"][0][1] if case.named else sample.aabb
        found = array.read(box, spec=case.spec)
        if not sample.flip and sample.transpose is None and sample.scale is None:
            assert_rows([[as_bits(found, case.output)]], [wanted], f"case {number}: {case}")
        with damacy.Pipeline(damacy.Config(batch_size=1, device="cpu", arrays=case.spec)) as pipeline:
            pipeline.push([damacy.Sample(case.uri, box)])
            row = as_bits(pipeline.pop().numpy(), case.output)[0]
        assert_rows([[as_bits(found, case.output)]], [row], f"case {number}: {case}")
