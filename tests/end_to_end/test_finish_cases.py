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


@pytest.mark.parametrize("engine", ["workers", "lazy"])
def test_finish_case(number, engine, tmp_path, monkeypatch):
    if engine == "lazy":  # the stream engine, as with a GPU; a missing wait would give wrong bytes
        settings = damacy._pipeline.pipeline._native_settings
        more = {"host_device": "lazy", "device_from_bytes": 0}
        monkeypatch.setattr(damacy._pipeline.pipeline, "_native_settings", lambda config: settings(config) | more)
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
