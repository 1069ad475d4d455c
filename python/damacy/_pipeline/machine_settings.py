"""Settings of a pipeline that follow from a machine, for fields of `Config` that the caller did not set.

A pure function from what the machine has to values, each with its reason. What the numbers reach is in
`docs/how-to/memory.md`."""

from __future__ import annotations

import dataclasses

from damacy._core.machine import Machine

_MIB = 1 << 20
_GIB = 1 << 30
_CHUNK_SLACK = 128 << 10  # in addition to two decoded chunks, in both buffers
_LEAST_BUFFER = 64 * _MIB
# Of a host that only decodes, and of one that feeds a GPU: more threads were never faster.
_MOST_READERS = 128
_MOST_READERS_FOR_GPU = 64


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """A value for a field of `Config`, and the reason."""

    value: int
    why: str


def choices(machine: Machine, *, chunk_bytes: int = 0, max_gpu_bytes: int = 0) -> dict[str, Choice]:
    """By field. The buffers hold decoded chunks of `chunk_bytes`; those of a GPU stay below half of `max_gpu_bytes`.

    >>> found = choices(Machine(16, "16 cores", 100 << 30, "free", gpu=True, gpu_bytes=140 << 30))
    >>> {name: choice.value for name, choice in found.items()}  # doctest: +NORMALIZE_WHITESPACE
    {'n_io_threads': 16, 'n_compute_threads': 15, 'host_buffer_bytes': 2147483648,
     'device_buffer_bytes': 6442450944, 'n_batches': 2}
    """
    return {
        **_threads(machine),
        "host_buffer_bytes": _host_buffer(machine, chunk_bytes),
        "device_buffer_bytes": _device_buffer(machine, chunk_bytes, max_gpu_bytes),
        "n_batches": _slots(machine),
    }


def _threads(machine: Machine) -> dict[str, Choice]:
    if machine.gpu:
        readers = min(machine.cores, _MOST_READERS_FOR_GPU)
        return {
            "n_io_threads": Choice(readers, f"{machine.why_cores}; two thirds read at a time"),
            "n_compute_threads": Choice(readers - 1, "for what a GPU does not decode, one less than readers"),
        }
    readers = min(machine.cores, _MOST_READERS)
    return {
        "n_io_threads": Choice(readers, f"{machine.why_cores}; they read, decode and place"),
        "n_compute_threads": Choice(0, "readers decode on the host"),
    }


def _host_buffer(machine: Machine, chunk_bytes: int) -> Choice:
    most = 2 * _GIB if machine.gpu else _GIB
    why = f"an eighth of {_size(machine.host_bytes)} {machine.why_memory}, at most {_size(most)}"
    return Choice(_bounded(machine.host_bytes // 8, most, chunk_bytes), why)


def _device_buffer(machine: Machine, chunk_bytes: int, max_gpu_bytes: int) -> Choice:
    if not machine.gpu:
        why = f"a quarter of {_size(machine.host_bytes)} {machine.why_memory}, at most {_size(4 * _GIB)}"
        return Choice(_bounded(machine.host_bytes // 4, 4 * _GIB, chunk_bytes), why)
    most = min(6 * _GIB, max_gpu_bytes // 2) if max_gpu_bytes else 6 * _GIB
    if machine.gpu_bytes is None:
        most = min(most, 4 * _GIB)
        return Choice(_bounded(most, most, chunk_bytes), "the default: the GPU's free memory is unknown")
    share = machine.gpu_bytes // 4
    why = f"a quarter of {_size(machine.gpu_bytes)} free on the GPU, at most {_size(most)}"
    return Choice(_bounded(share, most, chunk_bytes), why)


def _slots(machine: Machine) -> Choice:
    if machine.gpu:
        return Choice(2, "one held, one in production: reading and decoding run ahead of slots")
    return Choice(4, "one held, three in production: threads do not wait where a batch ends")


def _bounded(bytes_: int, most: int, chunk_bytes: int) -> int:
    least = max(_LEAST_BUFFER, 2 * chunk_bytes + _CHUNK_SLACK)
    return max(least, min(bytes_, most) // _MIB * _MIB)


def _size(number: int) -> str:
    return f"{number / _GIB:.1f} GiB"
