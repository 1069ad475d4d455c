"""Random arrays with random specs: a GPU's rows have the bits that NumPy computes.

40 cases by default, more by `--cases N`, from `--first-case`; one alone by `--case-seed NUMBER`. Arrays are written by
hand, so that neither zarr-python nor tensorstore is needed. Without a GPU a few run on the host.
"""

import pytest
from support import cuda_driver
from support.element_types import as_bits
from support.finish_cases import FinishCase
from support.streaming import assert_rows

import damacy
from damacy import _native

DEFAULT = 40 if _native.backend_info()["cuda"] else 3


def pytest_generate_tests(metafunc):
    if "number" not in metafunc.fixturenames:
        return
    one = metafunc.config.getoption("--case-seed", default=None)
    first = metafunc.config.getoption("--first-case")
    count = metafunc.config.getoption("--cases", default=None) or DEFAULT
    metafunc.parametrize("number", range(first, first + count) if one is None else [one])


@pytest.mark.parametrize("by_device", [True, False])
def test_finish_case(number, by_device, tmp_path, device, device_decodes):
    device_decodes(by_device)
    case = FinishCase(number, tmp_path, by_hand=True)
    rows = []
    with damacy.Pipeline(case.config(device=device)) as running:
        for _ in range(2):  # the second time in poisoned slots
            running.push(case.samples)
            for batch in running:
                with batch:
                    array = batch["a"] if case.named else batch
                    assert all(batch.valid)
                    rows += list(as_bits(array.numpy(), case.output).copy())
                    poison(batch, array)
    assert_rows([rows], case.wanted * 2, f"case {number}: {case}")


def poison(batch, array):
    size = array.numpy().nbytes
    if array.__dlpack_device__()[0] == 1:
        array.numpy().reshape(-1).view("u1")[...] = 0xA5
        return
    cuda_driver.set_current(cuda_driver.primary_context())
    cuda_driver.fill(array.info.device_ptr, 0x5A, size)
    batch.release(1)
