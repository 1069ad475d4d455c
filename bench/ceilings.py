"""Upper bounds of the machine: reading, copying, decoding and casting the bytes of a scenario, each stage by itself.

Knows the scenario's real chunks and numcodecs' decoders. Does not know any loader. Runs in a process of its own
(`python -m bench.ceilings '{...}'`), so that no other threads exist when it forks.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import dataclasses
import itertools
import json
import multiprocessing
import os
import struct
import sys
import time
from collections.abc import Callable

import numpy as np

from bench import workload
from bench.peers import Setting
from bench.workload import Codec
from bench.writer import ChunkFinder, StoredChunk

_SECONDS = 0.6  # a stage is repeated for at least this long
_STAGING_BYTES = 256 << 20  # of all processes together
_SAMPLE_BYTES = 96 << 20  # packed bytes kept by one process for decoding


@dataclasses.dataclass
class Work:
    """The work that the first batches need in any loader. `needed` counts only the blosc blocks that a crop touches."""

    batches: int = 0
    out_bytes: int = 0
    touches: int = 0
    distinct: int = 0
    stored_bytes: int = 0
    decoded_bytes: int = 0
    needed_stored_bytes: int = 0
    needed_decoded_bytes: int = 0
    stored_item_bytes: int = 2
    out_item_bytes: int = 4


def survey(setting: Setting, max_batches: int = 4) -> tuple[Work, list[StoredChunk]]:
    """Count the work of the first timed batches and list their distinct chunks."""
    scenario = setting.scenario
    arrays = scenario.arrays
    finders = [ChunkFinder(array) for array in arrays]
    item_bytes = workload.ITEM_BYTES[scenario.dtype], setting.numpy_dtype.itemsize
    work = Work(stored_item_bytes=item_bytes[0], out_item_bytes=item_bytes[1])
    chunks: dict[StoredChunk, None] = {}
    for batch in scenario.first_batches(scenario.warmup + max_batches)[scenario.warmup :]:
        boxes: dict[tuple, list] = {}
        for array, box in batch:
            for cell in workload.cells_of(box, scenario.chunk):
                boxes.setdefault((array, cell), []).append(box)
        for (array, cell), touching in boxes.items():
            chunk = finders[array].find(cell)
            chunks[chunk] = None
            share = needed_share(chunk, cell, touching, arrays[array])
            work.stored_bytes += chunk.size
            work.decoded_bytes += arrays[array].chunk_bytes
            work.needed_stored_bytes += round(chunk.size * share)
            work.needed_decoded_bytes += round(arrays[array].chunk_bytes * share)
        work.batches += 1
        work.out_bytes += setting.batch_bytes
        work.touches += sum(map(len, boxes.values()))
        work.distinct += len(boxes)
    return work, list(chunks)


def needed_share(chunk: StoredChunk, cell: tuple, boxes: list, array: workload.ArraySpec) -> float:
    """The share of a chunk's blosc blocks that the boxes touch; 1 if a chunk is one frame."""
    if array.codec.kind != "blosc":
        return 1.0
    with open(chunk.path, "rb") as file:
        file.seek(chunk.offset)
        _, _, _, itemsize, raw_bytes, block_bytes, _ = struct.unpack("<BBBBIII", file.read(16))
    n_blocks = -(-raw_bytes // block_bytes)
    if n_blocks == 1:
        return 1.0
    touched = np.zeros(n_blocks, bool)
    strides = [itemsize * int(np.prod(array.chunk[axis + 1 :])) for axis in range(len(array.chunk))]
    for box in boxes:
        low = [max(a - c * n, 0) for (a, _), c, n in zip(box, cell, array.chunk)]
        high = [min(b - c * n, n) for (_, b), c, n in zip(box, cell, array.chunk)]
        rows = [np.arange(a, b) * stride for a, b, stride in zip(low[:-1], high[:-1], strides)]
        starts = sum(np.ix_(*rows)) if rows else np.zeros(1, int)
        first = (starts + low[-1] * itemsize) // block_bytes
        last = (starts + high[-1] * itemsize - 1) // block_bytes
        for ahead in range(int((last - first).max()) + 1):
            touched[np.minimum(first + ahead, last)] = True
    return float(touched.mean())


# --- the stages: each returns a function that does one round of work and returns the number of bytes ---


def reading(chunks: list[StoredChunk], staging_bytes: int = 0) -> Callable[[], int]:
    """Reads into the same memory each time, which stays in cache. With `staging_bytes`, cycles through so much memory,
    like a reader that passes its bytes on."""
    files = {path: os.open(path, os.O_RDONLY) for path in {chunk.path for chunk in chunks}}
    largest = max(chunk.size for chunk in chunks)
    buffer = memoryview(bytearray(max(largest, staging_bytes)))
    places = itertools.cycle(range(0, len(buffer) - largest + 1, largest))

    def read(chunk: StoredChunk) -> int:
        at = next(places)
        return os.preadv(files[chunk.path], [buffer[at : at + chunk.size]], chunk.offset)

    return lambda: sum(map(read, chunks))


def copying() -> Callable[[], int]:
    source = np.ones(64 << 20, np.uint8)
    target = np.ones(64 << 20, np.uint8)

    def round_of_copies() -> int:
        np.copyto(target, source)
        return target.nbytes

    return round_of_copies


def casting(source_type: str, target_type: np.dtype, chunk_items: int) -> Callable[[], int]:
    """Casts from a source in cache to a target that is not, like chunks to a batch. Counts target bytes."""
    source = np.ones(min(chunk_items, 1 << 17), source_type)
    if target_type.kind == "V":  # NumPy has no fast cast to bf16, so only the writing is measured
        target_type = np.dtype(f"u{target_type.itemsize}")
    target = np.ones((max(1, (128 << 20) // target_type.itemsize // source.size), source.size), target_type)

    def round_of_casts() -> int:
        for row in target:
            np.copyto(row, source, casting="unsafe")
        return target.nbytes

    return round_of_casts


def decoding(chunks: list[StoredChunk], codec: Codec, chunk_bytes: int) -> list[Callable[[], int]]:
    """One function for each available decoder; the fastest gives the ceiling. Counts decoded bytes."""
    packed: list[bytes] = []
    for chunk in chunks:
        with open(chunk.path, "rb") as file:
            file.seek(chunk.offset)
            packed.append(file.read(chunk.size))
        if sum(map(len, packed[-1:])) * len(packed) > _SAMPLE_BYTES:
            break
    out = np.empty(chunk_bytes, np.uint8)

    def rounds(decode: Callable) -> Callable[[], int]:
        def round_of_decodes() -> int:
            for data in packed:
                decode(data, out)
            return chunk_bytes * len(packed)

        return round_of_decodes

    return [rounds(decode) for decode in _decoders(codec)]


def _decoders(codec: Codec) -> list[Callable]:
    if codec.kind == "blosc":
        from numcodecs import blosc

        blosc.use_threads = False
        return [blosc.Blosc(codec.cname).decode]
    from numcodecs.zstd import Zstd

    return [Zstd().decode, *_system_zstd()]


def _system_zstd() -> list[Callable]:
    """libzstd with one context for all chunks; numcodecs creates a context for each chunk."""
    name = ctypes.util.find_library("zstd")
    if not name:
        return []
    library = ctypes.CDLL(name)
    library.ZSTD_createDCtx.restype = ctypes.c_void_p
    library.ZSTD_decompressDCtx.restype = ctypes.c_size_t
    decompress = library.ZSTD_decompressDCtx
    decompress.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    context = library.ZSTD_createDCtx()

    def decode(data: bytes, out: np.ndarray) -> None:
        if decompress(context, out.ctypes.data, out.nbytes, data, len(data)) != out.nbytes:
            raise RuntimeError("libzstd did not decode a chunk of the data set")

    return [decode]


# --- measuring ---


def measure(make_round: Callable[[int], Callable[[], int]], processes: int) -> dict[str, float]:
    """Rates of a stage in bytes per second: `wall` of all processes together, `core` of the best process by processor
    time. Also the processor time of all processes per byte."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(processes)
    answers = context.SimpleQueue()

    def repeat(number: int) -> None:
        one_round = make_round(number)
        one_round()
        barrier.wait()
        start, cpu = time.monotonic(), time.process_time()
        done = 0
        while time.monotonic() - start < _SECONDS:
            done += one_round()
        answers.put((done, start, time.monotonic(), time.process_time() - cpu))

    workers = [context.Process(target=repeat, args=(number,)) for number in range(processes)]
    for worker in workers:
        worker.start()
    results = [answers.get() for _ in workers]
    for worker in workers:
        worker.join()
    wall = max(end for _, _, end, _ in results) - min(start for _, start, _, _ in results)
    done, cpu_s = sum(r[0] for r in results), sum(r[3] for r in results)
    return {"wall": done / wall, "core": max(r[0] / r[3] for r in results), "cpu_s_per_byte": cpu_s / done}


def best(candidates: list[dict[str, float]]) -> dict[str, float]:
    return max(candidates, key=lambda rates: rates["core"])


def stages(setting: Setting) -> dict:
    """Rates of every stage, and the rates of finished batches that follow from them."""
    scenario, threads = setting.scenario, setting.threads
    work, chunks = survey(setting)
    mine = [chunks[number::threads] for number in range(threads)]
    array = scenario.arrays[0]
    items = array.chunk_bytes // workload.ITEM_BYTES[scenario.dtype]
    n_decoders = len(_decoders(scenario.codec))
    read = measure(lambda i: reading(mine[i]), threads)
    staged = measure(lambda i: reading(mine[i], _STAGING_BYTES // threads), threads)
    memcpy = measure(lambda i: copying(), threads)
    cast = measure(lambda i: casting(scenario.dtype, setting.numpy_dtype, items), threads)
    decodes = [(lambda i, d=d: decoding(mine[i], scenario.codec, array.chunk_bytes)[d]) for d in range(n_decoders)]
    alone = best([measure(decode, 1) for decode in decodes])
    together = best([measure(decode, threads) for decode in decodes])
    rates = {
        "read": read,
        "read_to_staging": staged,
        "memcpy": memcpy,
        "cast_write": cast,
        "decode": together | {"core": alone["core"]},
    }
    if setting.device != "cpu":
        rates |= gpu_rates()
    return {"rates": rates, "work": dataclasses.asdict(work), **in_batches(rates, work, threads)}


def in_batches(rates: dict, work: Work, threads: int) -> dict:
    """Each stage's ceiling in bytes of finished batches per second. `all`: each core does all host stages in turn."""
    scale = {
        "read": work.out_bytes / work.needed_stored_bytes,
        "decode": work.out_bytes / work.needed_decoded_bytes,
        "cast_write": 1.0,
    }
    by_wall = {stage: rates[stage]["wall"] * factor for stage, factor in scale.items()}
    by_core = {stage: rates[stage]["core"] * factor * threads for stage, factor in scale.items()}
    if "h2d" not in rates:
        binding = min(scale, key=lambda stage: by_core[stage])
        for ceilings in (by_wall, by_core):
            ceilings["all"] = 1 / sum(1 / ceilings[stage] for stage in scale)
        return {"wall": by_wall, "cores": by_core, "binding": binding}
    # With a GPU the cores only read; bus and device work at the same time, so the slowest of the three is the ceiling.
    moved = (work.stored_item_bytes + work.out_item_bytes) / work.out_item_bytes
    on_gpu = {"h2d": rates["h2d"] * scale["read"], "place": rates["device_copy"] / moved}
    by_wall, by_core = by_wall | on_gpu, by_core | on_gpu
    binding = min(("read", *on_gpu), key=lambda stage: by_wall[stage])
    for ceilings in (by_wall, by_core):
        ceilings["all"] = by_wall[binding]
    return {"wall": by_wall, "cores": by_core, "binding": binding}


def gpu_rates() -> dict[str, float]:
    """Host to device from page-locked memory, and a copy on the device counting read and write; needs torch."""
    import torch

    host = torch.ones(256 << 20, dtype=torch.uint8).pin_memory()
    device = torch.empty_like(host, device="cuda")
    big = torch.ones(2 << 30, dtype=torch.uint8, device="cuda")
    other = torch.empty_like(big)

    def rate(step: Callable[[], object], step_bytes: int) -> float:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        step()
        begin.record()
        for _ in range(10):
            step()
        end.record()
        end.synchronize()
        return step_bytes * 10 / (begin.elapsed_time(end) / 1e3)

    return {
        "h2d": rate(lambda: device.copy_(host, non_blocking=True), host.nbytes),
        "device_copy": rate(lambda: other.copy_(big), 2 * big.nbytes),
    }


def main() -> None:
    order = json.loads(sys.argv[1])
    scenario = workload.scenario(order["scenario"], order["size"])
    setting = Setting(scenario, order["threads"], order["dtype"], order["device"])
    print(json.dumps(stages(setting)))


if __name__ == "__main__":
    main()
