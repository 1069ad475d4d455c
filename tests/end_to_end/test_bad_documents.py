"""Arrays whose document is damaged or was removed: with `on_error` their samples fail like those of damaged chunks."""

import shutil

import numpy as np
import pytest

zarr = pytest.importorskip("zarr")

import damacy  # noqa: E402
from damacy.samplers import SlidingGrid  # noqa: E402
from damacy.training import Loader  # noqa: E402


def config(**fields):
    return damacy.Config(
        **{
            "batch_size": 4,
            "device": "cpu",
            "dtype": "u16",
            "host_buffer_bytes": 1 << 24,
            "device_buffer_bytes": 1 << 24,
        }
        | fields
    )


@pytest.fixture
def paths(tmp_path):
    """Of six arrays; array k is k + 1 everywhere."""
    found = [tmp_path / f"{k}.zarr" for k in range(6)]
    for k, path in enumerate(found):
        zarr.create_array(path, shape=(64, 64), chunks=(16, 16), dtype="u2")[:] = k + 1
    return found


def damage(path):
    (path / "zarr.json").write_text("{")


DAMAGES = {"damaged": damage, "removed": lambda path: (path / "zarr.json").unlink(), "store removed": shutil.rmtree}


def rows_of(loader):
    """By row, whether it is valid, and its only value."""
    rows = []
    for batch in loader:
        with batch as lent:
            for row, is_valid in zip(lent.numpy(), batch.valid):
                assert (row == row[0, 0]).all()
                rows.append((is_valid, int(row[0, 0])))
    return rows


@pytest.mark.parametrize("bad", [0, 3, 5])
@pytest.mark.parametrize("kind", DAMAGES)
def test_one_bad_store_of_many_loses_its_own_rows_only(paths, kind, bad):
    grid = SlidingGrid(paths, (32, 32))
    DAMAGES[kind](paths[bad])
    wanted = [(True, k + 1) for k in range(6) for _ in range(4)]
    filled = [(False, 0) if value == bad + 1 else (True, value) for _, value in wanted]
    with Loader(grid, config(on_error="fill")) as loader:
        assert rows_of(loader) == filled
        assert rows_of(loader) == filled
        assert loader.stats().samples_filled >= 8
    with Loader(grid, config(on_error="skip", batch_size=3)) as loader:
        assert rows_of(loader) == [row for row in wanted if row[1] != bad + 1]


def test_every_error_of_the_default_is_raised(paths):
    grid = SlidingGrid(paths, (32, 32))
    damage(paths[2])
    with Loader(grid, config()) as loader, pytest.raises(damacy.DecodeError, match="2.zarr"):
        rows_of(loader)


def test_a_pair_fails_if_one_of_its_arrays_cannot_be_opened(paths):
    damage(paths[1])
    box = ((0, 16), (0, 16))
    pairs = [damacy.Sample({"raw": (paths[0], box), "label": (paths[k], box)}) for k in (2, 1, 3, 4)]
    with damacy.Pipeline(config(on_error="fill")) as pipeline:
        pipeline.push(pairs)
        with pipeline.pop() as batch:
            assert batch.valid == (True, False, True, True)
            assert batch["label"].numpy()[:, 0, 0].tolist() == [3, 0, 4, 5]
            assert batch["raw"].numpy()[:, 0, 0].tolist() == [1, 0, 1, 1]


def test_a_wrong_box_or_uri_is_still_raised(paths):
    with damacy.Pipeline(config(on_error="skip")) as pipeline:
        for uri, box in ((paths[0], ((60, 70), (0, 16))), ("nothing://there", ((0, 16), (0, 16)))):
            with pytest.raises(damacy.InvalidArgument):
                pipeline.push([damacy.Sample(uri, box)])


def test_an_order_of_axes_needs_a_good_sample_first(paths):
    damage(paths[0])
    box = ((0, 16), (0, 24))
    with damacy.Pipeline(config(on_error="fill", batch_size=2, arrays=damacy.ArraySpec(order=(1, 0)))) as pipeline:
        with pytest.raises(damacy.DecodeError):
            pipeline.push([damacy.Sample(paths[0], box)])
        pipeline.push([damacy.Sample(paths[1], box), damacy.Sample(paths[0], box)])
        with pipeline.pop() as batch:
            assert batch.valid == (True, False)
            assert np.array_equal(batch.numpy(), np.stack([np.full((24, 16), 2), np.zeros((24, 16))]))
