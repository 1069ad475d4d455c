"""Random arrays with random specs: each row has the bits that NumPy computes (`support.finish_model`).

20 by default, more by `--cases N` or DAMACY_CASES.
"""

import itertools
import os

import numpy as np
import pytest
from support.element_types import as_bits
from support.finish_cases import FinishCase
from support.streaming import assert_rows

import damacy
import damacy._pipeline.pipeline


def pytest_generate_tests(metafunc):
    if "number" in metafunc.fixturenames:
        option = metafunc.config.getoption
        first, only = option("--first-case", default=0), option("--case-seed", default=None)
        count = int(option("--cases", default=None) or os.environ.get("DAMACY_CASES", "60"))
        metafunc.parametrize("number", [only] if only is not None else range(first, first + max(count // 3, 1)))


@pytest.fixture(params=["workers", "lazy"])
def engine(request, monkeypatch):
    if request.param == "lazy":  # the stream engine, as with a GPU; a missing wait would give wrong bytes
        settings = damacy._pipeline.pipeline._native_settings
        more = {"host_device": "lazy", "device_from_bytes": 0}
        monkeypatch.setattr(damacy._pipeline.pipeline, "_native_settings", lambda config: settings(config) | more)


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
