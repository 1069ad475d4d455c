"""A slot is not written while a consumer's queued work may read it. Readers queue a long wait before
they look at a batch, give it back at once, and count on the device what differs from what the batch held."""

import itertools
import time

import numpy as np
import pytest
from support import cuda_driver, dlpack_struct
from support.streaming import pipeline, store

import damacy

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(240)]

SHAPE, CHUNKS, CROP = (96, 64, 64), (16, 64, 64), (16, 64, 64)
BOXES = [((z, z + 16), (0, 64), (0, 64)) for z in range(0, 81, 3)]
DELAY_MS = 1.0  # producing the next batch takes about a tenth of it


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return store(tmp_path_factory.mktemp("reuse") / "a.zarr", SHAPE, CHUNKS)


@pytest.fixture(scope="module")
def gpu(stored):
    return Gpu(stored)


class Gpu:
    """The primary context with kernels, a stream, the expected batches, and a count of differences."""

    def __init__(self, stored) -> None:
        self.context = cuda_driver.primary_context()
        cuda_driver.set_current(self.context)
        self.kernels = cuda_driver.Kernels()
        self.stream = cuda_driver.new_stream()
        self.event = cuda_driver.new_event()
        self.rows = [stored.row(box, "float32") for box in BOXES]
        self.wanted = [cuda_driver.to_device(row.tobytes()) for row in self.rows]
        self.size = self.rows[0].nbytes
        self.count = cuda_driver.to_device(bytes(4))

    def read_late(self, stream: int, address: int, box: int, ms: float = DELAY_MS) -> None:
        self.kernels.delay(stream, ms)
        self.kernels.differences(stream, address, self.wanted[box], self.size, self.count)

    def wrong(self) -> int:
        """How many words differed since the last call, when all that is queued has run."""
        cuda_driver.synchronize()
        found = int.from_bytes(cuda_driver.to_host(self.count, 4), "little")
        cuda_driver.fill(self.count, 0, 4)
        return found


def feed(stored, rounds: int, n_batches: int, use, **options) -> None:
    """Pops `rounds` batches and passes each to `use(batch, box)`, which releases it."""
    numbers = [k % len(BOXES) for k in range(rounds)]
    options = {"device": 0, "dtype": "f32", "batch_size": 1, "n_batches": n_batches} | options
    with pipeline(**options) as running:
        running.push(stored.sample(*BOXES[k]) for k in numbers)
        for k in numbers:
            use(popped(running), k)


def popped(running) -> damacy.Batch:
    """The next batch; retries while threads of a framework still hold the last tensor."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return running.pop()
        except damacy.TryAgain as error:
            if error.reason != "held" or time.monotonic() > deadline:
                raise
            time.sleep(0.0005)


def by_capsule(named, read_on):
    """Exports with `stream=named`, reads on `read_on`, deletes the tensor while the reading is queued."""

    def use(gpu, batch, box):
        streams = {"own": gpu.stream}
        capsule = batch.__dlpack__(stream=streams.get(named, named), max_version=(1, 0))
        address, delete = dlpack_struct.view(capsule).address, dlpack_struct.consume(capsule)
        batch.release()
        gpu.read_late(streams.get(read_on, read_on), address, box)
        delete()

    return use


class CudaStream:
    """An object with the stream protocol."""

    def __init__(self, stream: int):
        self.stream = stream

    def __cuda_stream__(self):
        return 0, self.stream


class Handle:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def by_release(spelled):
    """Reads at the batch's device pointer, and passes the stream, or an event, to release."""

    def use(gpu, batch, box):
        gpu.read_late(gpu.stream, batch.info.device_ptr, box)
        if spelled == "event":
            cuda_driver.record(gpu.event, gpu.stream)
        batch.release({
            "number": gpu.stream,
            "protocol": CudaStream(gpu.stream),
            "attribute": Handle(cuda_stream=gpu.stream),
            "event": Handle(cuda_event=gpu.event),
            "any": -1,
        }[spelled])  # fmt: skip

    return use


def by_default_stream_release(gpu, batch, box):
    gpu.read_late(1, batch.info.device_ptr, box)
    batch.release(1)


WAYS = {
    "stream=None": by_capsule(None, 1),
    "stream=0": by_capsule(0, 1),
    "stream=1": by_capsule(1, 1),
    "stream=2": by_capsule(2, 2),
    "stream=-1": by_capsule(-1, "own"),
    "stream=handle": by_capsule("own", "own"),
    "release(1)": by_default_stream_release,
    **{f"release({spelled})": by_release(spelled) for spelled in ("number", "protocol", "attribute", "event", "any")},
}


@pytest.mark.parametrize("n_batches", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_a_slot_waits_for_the_work_queued_on_its_consumers_stream(gpu, stored, way, n_batches, rounds):
    cuda_driver.set_current(gpu.context)
    feed(stored, rounds, n_batches, lambda batch, box: WAYS[way](gpu, batch, box))
    assert gpu.wrong() == 0


@pytest.mark.parametrize("way", ["stream=None", "stream=handle", "release(number)", "release(any)"])
def test_added_slots_wait_for_the_work_queued_on_their_consumers_stream(gpu, stored, way):
    """Of every 80 batches four are kept for a while, so slots are added, used while reads are queued, and dropped."""
    cuda_driver.set_current(gpu.context)
    kept = []
    boxes = itertools.cycle(range(len(BOXES)))
    with pipeline(device=0, dtype="f32", batch_size=1, n_batches=1, keep_bytes="64MiB") as running:
        running.push(stored.sample(*box) for box in itertools.cycle(BOXES))
        for k, box in zip(range(400), boxes):
            batch = popped(running)
            if k % 80 < 4:
                kept.append((batch, box))
                continue
            if k % 80 == 8:
                assert all((b.numpy()[0].view(np.uint32) == gpu.rows[i]).all() for b, i in kept)
                kept.clear()
            WAYS[way](gpu, batch, box)
            del batch
        stats = running.stats()
    assert gpu.wrong() == 0
    assert stats.slots_added >= 8 and stats.slots_dropped >= 4


def test_a_stream_that_was_not_named_sees_its_batch_overwritten(gpu, stored):
    """Shows that the other tests of this file can fail."""
    cuda_driver.set_current(gpu.context)

    def use(batch, box):
        gpu.read_late(gpu.stream, batch.info.device_ptr, box, ms=20)
        batch.release()

    feed(stored, 20, 1, use)
    assert gpu.wrong() > 0


def test_deleting_on_another_thread_fences_too(gpu, stored, rounds):
    import threading

    def use(batch, box):
        capsule = batch.__dlpack__(stream=gpu.stream)
        address, delete = dlpack_struct.view(capsule).address, dlpack_struct.consume(capsule)
        batch.release()
        gpu.read_late(gpu.stream, address, box)
        thread = threading.Thread(target=delete)  # no context is current there
        thread.start()
        thread.join()

    cuda_driver.set_current(gpu.context)
    feed(stored, rounds, 1, use)
    assert gpu.wrong() == 0


# --- libraries --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_batches", [1, 2])
@pytest.mark.parametrize("how", ["default stream", "side stream", "two streams", "release(stream)", "release(event)"])
def test_torch(gpu, stored, how, n_batches, rounds):
    torch = pytest.importorskip("torch")
    torch.cuda.synchronize()
    sides = [torch.cuda.Stream() for _ in range(2)]
    wanted = [torch.from_numpy(row.view(np.float32)).cuda() for row in gpu.rows]
    wrong = [torch.zeros((), dtype=torch.int64, device="cuda") for _ in sides]
    torch.cuda.synchronize()
    turn = iter(range(rounds))

    def use(batch, box):
        number = next(turn) % 2 if how == "two streams" else 0
        stream = torch.cuda.default_stream() if how == "default stream" else sides[number]
        with torch.cuda.stream(stream):
            tensor = torch.from_dlpack(batch)
            gpu.kernels.delay(stream.cuda_stream, DELAY_MS)
            wrong[number] += (tensor[0] != wanted[box]).any()
            del tensor
            event = torch.cuda.Event()
            event.record()
            batch.release({"release(stream)": stream, "release(event)": event}.get(how))

    feed(stored, rounds, n_batches, use)
    torch.cuda.synchronize()
    assert [w.item() for w in wrong] == [0, 0]


@pytest.mark.parametrize("n_batches", [1, 2])
@pytest.mark.parametrize("how", ["default stream", "side stream", "release(stream)", "release(event)"])
def test_cupy(gpu, stored, how, n_batches, rounds):
    cupy = pytest.importorskip("cupy")
    side = cupy.cuda.Stream(non_blocking=True)
    wanted = [cupy.asarray(row.view(np.float32)) for row in gpu.rows]
    wrong = cupy.zeros((), cupy.int64)
    cupy.cuda.Device().synchronize()
    stream = cupy.cuda.Stream.null if how == "default stream" else side

    def use(batch, box):
        with stream:
            tensor = cupy.from_dlpack(batch)
            gpu.kernels.delay(stream.ptr, DELAY_MS)
            wrong.__iadd__((tensor[0] != wanted[box]).any())
            del tensor
            event = cupy.cuda.Event(disable_timing=True)
            event.record(stream)
            batch.release({"release(stream)": stream, "release(event)": event}.get(how))

    feed(stored, rounds, n_batches, use)
    cupy.cuda.Device().synchronize()
    assert int(wrong) == 0


@pytest.mark.parametrize("n_batches", [1, 2])
def test_jax(gpu, stored, n_batches, rounds):
    """JAX passes its stream only by `__dlpack__`, so the wait is arithmetic that JAX runs before."""
    jax = pytest.importorskip("jax")
    from support.consumers import Jax

    Jax("cuda")
    jnp = jax.numpy

    @jax.jit
    def slowly(matrix):
        return jax.lax.fori_loop(0, 12, lambda _, m: jnp.tanh(m @ matrix), matrix)

    @jax.jit
    def count(before, tensor, wanted, matrix):
        return before + (tensor[0] != wanted).any() + (matrix[0, 0] > 2)

    wanted = [jax.device_put(row.view(np.float32)) for row in gpu.rows]
    matrix = jnp.full((2048, 2048), 1e-3)
    state = [jnp.zeros((), jnp.int32)]
    jax.block_until_ready((slowly(matrix), wanted))

    def use(batch, box):
        tensor = jax.dlpack.from_dlpack(batch)
        state[0] = count(state[0], tensor, wanted[box], slowly(matrix))
        del tensor
        batch.release()

    feed(stored, rounds, n_batches, use)
    assert int(state[0]) == 0


def test_a_held_tensor_is_never_overwritten_however_many_batches_follow(gpu, stored, rounds):
    torch = pytest.importorskip("torch")
    torch.cuda.synchronize()
    with pipeline(device=0, dtype="f32", batch_size=1, n_batches=3) as running:
        running.push(stored.sample(*BOXES[k % len(BOXES)]) for k in range(rounds + 1))
        kept = torch.from_dlpack(running.pop())
        for _ in running.batches(rounds):
            pass
        assert (kept[0].cpu().numpy() == gpu.rows[0].view(np.float32)).all()
