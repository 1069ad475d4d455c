"""A copy of a batch comes after queued work of its consumers, which here sleeps on the device first."""

import numpy as np
import pytest
from support.streaming import pipeline, store

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(240)]

SLEEP_CYCLES = 100_000_000  # about 50 ms


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return store(tmp_path_factory.mktemp("copies") / "a.zarr", (64, 64), (16, 64))


def on_host(batch):
    return batch.numpy()


def by_dlpack_to_the_host(batch):
    return torch.from_dlpack(_Exports(batch, dl_device=(1, 0))).numpy()


def by_dlpack_as_a_copy(batch):
    return torch.from_dlpack(_Exports(batch, copy=True)).cpu().numpy()


class _Exports:
    """A batch that is exported with more arguments than torch passes."""

    def __init__(self, batch, **options) -> None:
        self._batch, self._options = batch, options

    def __dlpack_device__(self):
        return self._options.get("dl_device", self._batch.__dlpack_device__())

    def __dlpack__(self, *, stream=None, **_):
        return self._batch.__dlpack__(stream=stream if "copy" in self._options else None, **self._options)


@pytest.mark.parametrize("copy", [on_host, by_dlpack_to_the_host, by_dlpack_as_a_copy])
@pytest.mark.parametrize("side", [False, True], ids=["default-stream", "side-stream"])
def test_a_copy_comes_after_work_that_a_consumer_queued_on_a_view(stored, copy, side):
    stream = torch.cuda.Stream() if side else torch.cuda.default_stream()
    box = ((0, 64), (0, 64))
    wanted = stored.row(box, "float32").view(np.float32) * 2 + 1
    with pipeline(device=0, dtype="f32", batch_size=1, n_batches=2) as running:
        for _ in range(3):
            running.push([stored.sample(*box)])
            with running.pop() as batch:
                with torch.cuda.stream(stream):
                    view = torch.from_dlpack(batch)
                    torch.cuda._sleep(SLEEP_CYCLES)
                    view.mul_(2).add_(1)
                copied = copy(batch)[0]
                assert (copied == wanted).all()
                torch.cuda.synchronize()
                del view
