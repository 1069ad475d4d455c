"""Tests that need a GPU, and the same tests on the host if they do not depend on a device.

`pytest tests/gpu -m gpu` runs those on the GPU; without one the host's remain, which keep the tests themselves right.
"""

import os

import pytest

from damacy import _native

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take most of the memory at once

_BACKEND = _native.backend_info()
NO_GPU = pytest.mark.skipif(not _BACKEND["cuda"], reason="no usable GPU: " + _BACKEND["cuda_reason"])
ON_GPU = pytest.param("cuda", marks=[pytest.mark.gpu, NO_GPU])


def pytest_collection_modifyitems(items):
    """Skips tests marked `gpu` if there is no GPU."""
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(NO_GPU)


@pytest.fixture(params=["cpu", ON_GPU])
def device(request) -> str:
    """Runs a test on both back ends."""
    return request.param


@pytest.fixture
def rounds(request) -> int:
    """The number of rounds of tests that provoke races: few by default, more by `--rounds N`."""
    return request.config.getoption("--rounds", default=None) or 60


@pytest.fixture
def device_decodes(monkeypatch):
    """A function after which the GPU decodes also small batches, which the cores would decode otherwise."""
    from support.streaming import set_natively

    def switch(on: bool = True, **native: object) -> None:
        set_natively(monkeypatch, **({"device_from_bytes": 0} if on else {}), **native)

    return switch
