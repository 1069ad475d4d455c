"""Checks a machine: versions, back ends, cores, memory, limits, the settings chosen from them, optional packages.

Starts no thread, creates no CUDA context and imports none of the packages that it lists. With a uri it opens what is
there."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import logging
import os
import platform
import resource
from typing import Any, Literal

from damacy._core.errors import InvalidArgument
from damacy._core.machine import Machine, this_machine
from damacy._core.sizes import size_text
from damacy._pipeline.config import Config
from damacy._pipeline.machine_settings import choices

Verdict = Literal["ok", "note", "bad"]

# Packages and their use.
_PACKAGES = {
    "numpy": "Batch.numpy()",
    "torch": "batches as tensors, and damacy.torch",
    "lightning": "damacy.lightning",
    "jax": "damacy.jax",
    "ml_dtypes": "Batch.numpy() of bfloat16",
    "zarr": "writing arrays",
    "tensorstore": "the demo's comparison",
    "nibabel": "the demo's scan",
    "matplotlib": "the demo's picture",
}
_ENOUGH_FILES = 1024
_PROXIES = ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY")


@dataclasses.dataclass(frozen=True)
class Line:
    name: str
    verdict: Verdict
    text: str
    value: Any


@dataclasses.dataclass(frozen=True)
class Report:
    lines: tuple[Line, ...]

    @property
    def usable(self) -> bool:
        return all(line.verdict != "bad" for line in self.lines)

    def as_dict(self) -> dict[str, Any]:
        return {"usable": self.usable} | {line.name: line.value for line in self.lines}


def examine(uri: str = "") -> Report:
    """All checks, each as one line; with `uri`, also of what is there."""
    python = platform.python_version()
    lines = [Line("python", "ok", f"{python}, {platform.system()} {platform.machine()}", python)]
    lines += [*_native(), *_machine(), _open_files()]
    return Report((*lines, *_file_io(), *_remote(), *_packages(), *(_opened(uri) if uri else ())))


def _machine() -> list[Line]:
    """What the process may use of it, and what follows for settings and memory; the native library sees it."""
    try:
        machine = this_machine()
    except ImportError:
        return []
    return [_cores(machine), _memory(machine), *_settings(machine), *_plans()]


def _plans() -> list[Line]:
    """What a pipeline would take."""
    configs = {"Config()": Config(batch_size=1), "for_this_machine()": Config.for_this_machine(1)}
    return [_plan(f"memory of {name}", config) for name, config in configs.items()]


def _plan(name: str, config: Config) -> Line:
    plan = config.memory()
    parts = [(part.name, part.kind, part.bytes) for part in plan.parts if part.bytes is not None]
    text = f"at most {plan.sums()}: " + ", ".join(f"{part} {size_text(size)}" for part, _, size in parts)
    sums = {"host_bytes": plan.host_bytes, "pinned_bytes": plan.pinned_bytes, "gpu_bytes": plan.gpu_bytes}
    value = {"parts": [{"name": part, "kind": kind, "bytes": size} for part, kind, size in parts]} | sums
    return Line(name, "ok", text, value | {"threads": plan.threads})


def _native() -> list[Line]:
    try:
        from damacy import _native
    except ImportError as error:
        return [Line("damacy", "bad", f"the native library does not load: {error}", None)]
    backend = _native.backend_info()
    version = Line("damacy", "ok", backend["version"], backend["version"])
    with_cuda = backend["cuda_build"]
    built = Line("built with", "ok" if with_cuda else "note", with_cuda or "no CUDA: host only", with_cuda)
    if backend["cuda"]:
        return [version, built, Line("backend", "ok", "CUDA, and the host", backend)]
    return [version, built, Line("backend", "note", f"the host only: {backend['cuda_reason']}", backend)]


def _cores(machine: Machine) -> Line:
    return Line(
        "cores", "ok", f"{machine.rank_cores} usable of {os.cpu_count()}: {machine.why_cores}", machine.rank_cores
    )


def _memory(machine: Machine) -> Line:
    total = machine.physical_bytes
    available = machine.host_bytes or 0
    verdict: Verdict = "ok" if available >= 2 << 30 else "note"
    text = f"{available / 2**30:.1f} GiB {machine.why_memory}, of {total / 2**30:.1f} GiB"
    if machine.ranks > 1:
        text += f", for each of {machine.ranks} ranks"
    if verdict == "note":
        text += "; choose smaller host_buffer_bytes and device_buffer_bytes"
    return Line("memory", verdict, text, {"total_bytes": total, "available_bytes": available})


def _settings(machine: Machine) -> list[Line]:
    """What `Config.for_this_machine` would choose."""
    return [
        Line(name, "ok", f"{choice.value}: {choice.why}", {"value": choice.value, "why": choice.why})
        for name, choice in choices(machine).items()
    ]


def _open_files() -> Line:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = soft != resource.RLIM_INFINITY and soft < _ENOUGH_FILES
    text = f"{_limit(soft)} (hard limit {_limit(hard)}); a pipeline keeps at most a quarter of them open"
    if few:
        text += "; raise it with ulimit -n"
    return Line("open files", "note" if few else "ok", text, {"soft": soft, "hard": hard})


def _file_io() -> list[Line]:
    """Engines that `damacy.cufile` uses, and why it does not use the others. Does not load CUDA libraries."""
    try:
        from damacy import _native
    except ImportError:
        return []
    ring = _native.io_uring_probe()
    lines = [
        Line("io_uring", "ok", "gathers are read through it", ring)
        if ring["usable"]
        else Line("io_uring", "note", f"not used, pread is used instead: {ring['reason']}", ring)
    ]
    udev = os.path.isdir("/run/udev") and os.access("/run/udev", os.R_OK)
    text = "loaded when a file first needs it" if udev else "not used: /run/udev is not a readable directory"
    return [*lines, Line("cuFile", "ok" if udev else "note", text, {"udev": udev})]


def _remote() -> list[Line]:
    """What reads `http(s)://`, `s3://` and `gs://`. Loads libcurl, but makes no request."""
    try:
        from damacy import _native

        facts = _native.libcurl_facts()
    except (ImportError, InvalidArgument) as error:
        return [Line("libcurl", "note", f"not used: {error}", None)]
    certificates = facts["certificates"]
    proxies = {name: os.environ[name].rpartition("@")[2] for name in _PROXIES if os.environ.get(name)}
    shown = ", ".join(f"{name} {value}" for name, value in proxies.items())
    return [
        Line("libcurl", "ok", f"{facts['version']}, {facts['path']}", facts),
        Line("certificates", "note" if certificates.startswith("none") else "ok", certificates, certificates),
        Line("proxies", "ok", shown or "none", proxies),
    ]


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.found: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append((record.levelno, record.getMessage()))


def _opened(uri: str) -> list[Line]:
    """Opens what is at `uri`: what the library said of the origin and the credentials, and each request with times."""
    import damacy

    logger, records = logging.getLogger("damacy"), _Records()
    before = logger.level
    logger.addHandler(records)
    logger.setLevel(logging.DEBUG)
    damacy.set_log_level(damacy.LOG_DEBUG)
    damacy.set_log_quiet(True)
    try:
        found = Line("uri", "ok", repr(damacy.open(uri)), True)
    except damacy.DamacyError as error:
        found = Line("uri", "bad", str(error), False)
    finally:
        damacy.set_log_level(damacy.LOG_FATAL)
        damacy.set_log_quiet(False)
        logger.removeHandler(records)
        logger.setLevel(before)
    facts = [text for level, text in records.found if level >= logging.INFO]
    requests = [text for level, text in records.found if level < logging.INFO]
    lines = [Line("origin", "ok", "; ".join(facts), facts)] if facts else []
    lines += [Line(f"request {number}", "ok", text, text) for number, text in enumerate(requests, 1)]
    return [*lines, found]


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def _packages() -> list[Line]:
    return [_package(name, purpose) for name, purpose in _PACKAGES.items()]


def _package(name: str, purpose: str) -> Line:
    if importlib.util.find_spec(name) is None:
        return Line(name, "note", f"not installed; for {purpose}", None)
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        version = "unknown version"
    return Line(name, "ok", version, version)
