"""Random cases: whatever the layout, boxes, output type and configuration, a GPU's batches hold the bits that the
host's hold, and fail where the host's fail.

40 cases by default, more by `--cases N`, from `--first-case`; one alone by `--case-seed NUMBER`. Arrays are written by
hand, so that neither zarr-python nor tensorstore is needed. Without a GPU a few run on the host twice.
"""

import numpy as np
import pytest
from support import random_cases, writers
from support.element_types import from_bits, numpy_type
from support.streaming import Stored, pipeline, poison_where_it_lies

import damacy
from damacy import _native

ON_GPU = _native.backend_info()["cuda"]
DEFAULT = 40 if ON_GPU else 3
DAMAGE = ("raise", "skip", "fill")


def pytest_generate_tests(metafunc):
    if "number" not in metafunc.fixturenames:
        return
    one = metafunc.config.getoption("--case-seed", default=None)
    first = metafunc.config.getoption("--first-case")
    count = metafunc.config.getoption("--cases", default=None) or DEFAULT
    metafunc.parametrize("number", range(first, first + count) if one is None else [one])


def test_case(number, tmp_path, device, device_decodes):
    case = random_cases.draw(number)
    arrays = write(case, tmp_path)
    runs = [[arrays[k].sample(*box) for k, box in run] for run in case.runs]
    wanted = outcomes(case, runs, "cpu")
    assert not any(isinstance(one, tuple) for one in wanted), f"{case}: the host fails: {wanted}"
    for by_device in (True, False):
        device_decodes(by_device)
        assert_same(outcomes(case, runs, device), wanted, f"{case}, decoded by the device: {by_device}")


CACHES = {
    "evicts": {"device_cache_bytes": 30_000},
    "holds_all": {"device_cache_bytes": 64 << 20},
    "pinned": {"host_cache_bytes": 64 << 20},
    "both": {"device_cache_bytes": 30_000, "host_cache_bytes": 60_000},
}


@pytest.mark.parametrize("caches", CACHES)
@pytest.mark.parametrize("damaged", [False, True], ids=["whole", "damaged"])
def test_a_case_with_encoded_chunks_kept(number, caches, damaged, tmp_path, device, device_decodes):
    """The second of two equal runs finds chunks there. On the host the device is one that works late."""
    case = random_cases.draw(number)
    arrays = write(case, tmp_path)
    if damaged:
        damage(arrays[0], np.random.default_rng([12, number]))
    runs = [[arrays[k].sample(*box) for k, box in run] for run in case.runs]
    wanted = outcomes(case, runs, "cpu", verify="whole")
    device_decodes(**({} if device == "cuda" else {"host_device": "lazy"}))
    got = outcomes(case, runs, device, **CACHES[caches], verify="whole")
    assert_same(got, wanted, f"{case}, damaged: {damaged}")


@pytest.mark.parametrize("on_error", DAMAGE)
def test_a_damaged_case_fails_as_on_the_host(number, on_error, tmp_path, device, device_decodes):
    """One bit of one object is flipped. Every sample is the whole array, so that every decoder must detect it."""
    case = random_cases.draw(number)
    del case.layouts[1:], case.bits[1:], case.writers[1:]
    arrays = write(case, tmp_path)
    rng = np.random.default_rng([11, number])
    damage(arrays[0], rng)
    whole = tuple((0, extent) for extent in case.layouts[0].shape)
    runs = [[arrays[0].sample(*whole)] * int(rng.integers(1, 4)) for _ in range(2)]
    wanted = outcomes(case, runs, "cpu", on_error=on_error)
    for by_device in (True, False):
        device_decodes(by_device)
        got = outcomes(case, runs, device, on_error=on_error)
        assert_same(got, wanted, f"{case}, decoded by the device: {by_device}")


def write(case, folder) -> list[Stored]:
    arrays = []
    for k, layout in enumerate(case.layouts):
        writers.write_by_hand(layout, from_bits(case.bits[k], layout.dtype), folder / str(k), **case.by_hand)
        arrays.append(Stored(folder / str(k), layout, case.bits[k]))
    return arrays


def damage(stored: Stored, rng) -> None:
    objects = sorted(p for p in stored.path.rglob("*") if p.is_file() and p.name not in ("zarr.json", ".zarray"))
    if not objects:
        return  # all fill
    target = objects[int(rng.integers(len(objects)))]
    data = bytearray(target.read_bytes())
    data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    target.write_bytes(data)


def outcomes(case, runs, device: str, **options) -> list:
    """Bytes, rows and validity of every run's batches, or the error as a tuple. Runs twice, to reuse slots."""
    found: list = []
    with pipeline(**{**case.config, "device": device, **options}) as running:
        for _ in range(2):
            for run in runs:
                running.push(run)
                running.flush()
                found += drained(running, case.output)
    return found


def drained(running, output: str) -> list:
    found: list = []
    while True:
        try:
            with running.pop() as batch:
                shape = batch.info.shape
                found.append([batch.info.batch_id, shape, batch.valid, batch.sample_indices, bytes_of(batch)])
                assert len(found[-1][4]) == int(np.prod(shape)) * numpy_type(output).itemsize
                poison_where_it_lies(batch, len(found[-1][4]))
        except damacy.PopTimeout:
            raise
        except damacy.TryAgain:
            return found
        except damacy.DamacyError as error:
            found.append((type(error), error.batch_id, error.lost, error.key, error.chunk))


def bytes_of(batch) -> bytes:
    return batch.numpy().tobytes()


def assert_same(got: list, wanted: list, what: str) -> None:
    assert len(got) == len(wanted), f"{what}\n{len(got)} batches, wanted {len(wanted)}"
    for one, other in zip(got, wanted, strict=True):
        if one == other:
            continue
        if isinstance(one, tuple) or isinstance(other, tuple) or one[:4] != other[:4]:
            raise AssertionError(f"{what}\ngot    {short(one)}\nwanted {short(other)}")
        first, second = (np.frombuffer(x[4], np.uint8) for x in (one, other))
        where = np.flatnonzero(first != second)
        raise AssertionError(
            f"{what}\nbatch {one[0]}: {len(where)} of {len(first)} bytes differ, the first at {where[0]}: "
            f"{first[where[0]]:#x}, wanted {second[where[0]]:#x}"
        )


def short(outcome) -> object:
    return outcome if isinstance(outcome, tuple) else outcome[:4]
