"""The C++ transformers compared byte for byte with index formulas: random types, dims, layouts, boxes and rotations."""

import ctypes
import importlib.util
import pathlib
import subprocess

import numpy as np
import pytest

from damacy.halo._dtypes import CODES

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/host/halo_messages"
CASES = 300


def load_cases():
    path = ROOT / "python/tests/test_halo_wire.py"
    spec = importlib.util.spec_from_file_location("halo_wire_cases", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Case


def memory_of(array):
    """The bytes between the array's lowest and highest byte, and where in them the first element is."""
    bounds = getattr(np.lib, "array_utils", np).byte_bounds(array)
    return ctypes.string_at(bounds[0], bounds[1] - bounds[0]), array.__array_interface__["data"][0] - bounds[0]


def described(case, received):
    words = [int(case.native), CODES[case.dtype], len(case.xs), len(case.ys)]
    for spec, array in zip(case.xs + case.ys, case.x + case.y):
        memory, first = memory_of(array)
        words.append(array.ndim)
        boxes = zip(spec.pack_slices, spec.unpack_slices)
        for dim, length, stride, (pack, unpack) in zip(spec.specification.dims, array.shape, array.strides, boxes):
            words += [dim, length, stride, pack.start, pack.stop, unpack.start, unpack.stop]
        words += [spec.pack_clockwise_rotation, first, memory.hex()]
    words.append(received.hex() or "-")
    return " ".join(map(str, words))


def received_by(case, rng):
    """A random message of the size of the unpack boxes."""
    itemsize, size = np.dtype(case.dtype).itemsize, 0
    for n in range(len(case.xs)):
        for specs in (case.xs, case.ys) if case.ys else (case.xs,):
            size += -size % 16 if case.native else 0
            size += specs[n]._unpack_buffer_size * itemsize
    return rng.integers(0, 2 if case.dtype == "bool" else 256, size, np.uint8).tobytes()


def test_cpp_transformers_put_the_bytes_of_the_oracle_on_the_wire_and_back():
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built: run `make all-host`")
    rng = np.random.default_rng(8)
    make = load_cases()
    cases = [make(seed) for seed in range(CASES)]
    messages = [received_by(case, rng) for case in cases]
    text = "\n".join(described(case, message) for case, message in zip(cases, messages))
    done = subprocess.run([PROGRAM], input=text, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == CASES
    for number, (case, message, line) in enumerate(zip(cases, messages, lines)):
        packed, *memories = (b"" if word == "-" else bytes.fromhex(word) for word in line.split(" "))
        assert packed == case.wire(), f"case {number}: packed"
        expected = [array for arrays in case.unpacked(message) for array in arrays]
        for array, wanted, memory in zip(case.x + case.y, expected, memories, strict=True):
            seen = np.ndarray(array.shape, array.dtype, memory, memory_of(array)[1], array.strides)
            assert seen.tobytes() == wanted.tobytes(), f"case {number}: unpacked"
