"""Settings of a pipeline that follow from a machine, for fields of `Config` that the caller did not set.

The native library chooses: a pure function from what the machine has to values, each with its reason. What the numbers
reach is in `docs/how-to/memory.md`."""

from __future__ import annotations

import dataclasses

from damacy._core.machine import Machine


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
    from damacy import _native

    found = _native.machine_settings(dataclasses.asdict(machine), chunk_bytes, max_gpu_bytes)
    return {name: Choice(*choice) for name, choice in found.items()}
