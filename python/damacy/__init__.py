"""damacy streams boxes of chunked, compressed zarr arrays into batches.

>>> import damacy
>>> damacy.Sample("cell.zarr", [slice(0, 64), (0, 256)]).aabb
((0, 64), (0, 256))

Importing this module starts no thread, and imports neither NumPy nor the native library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from damacy._core.dtype import Dtype
from damacy._core.errors import (
    DamacyError,
    DecodeError,
    DtypeMismatch,
    InvalidArgument,
    NativeCudaError,
    NotFound,
    OutOfMemory,
    PopTimeout,
    RankMismatch,
    ShutdownError,
    Status,
    StorageError,
    TryAgain,
    UnsupportedFormat,
)
from damacy._core.log import LOG_DEBUG as LOG_DEBUG
from damacy._core.log import LOG_ERROR as LOG_ERROR
from damacy._core.log import LOG_FATAL as LOG_FATAL
from damacy._core.log import LOG_INFO as LOG_INFO
from damacy._core.log import LOG_TRACE as LOG_TRACE
from damacy._core.log import LOG_WARN as LOG_WARN
from damacy._core.log import set_log_level
from damacy._core.log import set_log_quiet as set_log_quiet
from damacy._pipeline.array_spec import ArraySpec
from damacy._pipeline.batch import Batch, BatchArray, BatchInfo, NamedBatch
from damacy._pipeline.batch_rows import BatchRows
from damacy._pipeline.config import MAX_CHUNK_UNCOMPRESSED_BYTES, Config
from damacy._pipeline.pipeline import Pipeline
from damacy._pipeline.sample import Sample
from damacy._pipeline.shared_cache import SharedCache
from damacy._pipeline.take import Take

if TYPE_CHECKING:  # loaded on first use
    from damacy import cufile_driver as cufile_driver
    from damacy import defaults as defaults
    from damacy._open.arrays import Array
    from damacy._open.groups import Group, Plate
    from damacy._open.images import Image
    from damacy._open.opening import open as open  # noqa: A004  not in __all__: a star import must not hide the builtin
    from damacy._open.opening import open_array, open_group, open_image, open_many
    from damacy._open.read_cache import set_read_cache
    from damacy._pipeline.array_attributes import Cf as Cf
    from damacy._pipeline.explanation import Explanation as Explanation
    from damacy._pipeline.explanation import StageLoad as StageLoad
    from damacy._pipeline.info import ArrayInfo as ArrayInfo
    from damacy._pipeline.memory import MemoryPart as MemoryPart
    from damacy._pipeline.memory import MemoryPlan as MemoryPlan
    from damacy._pipeline.stats import Metric, Stats
    from damacy._stores.mounts import mount, mounts, unmount
    from damacy._stores.options import Secret, StoreOptions
    from damacy._stores.references import ReferenceStore
    from damacy.cufile import CuFile as CuFile
    from damacy.cufile import clear_page_cache as clear_page_cache
    from damacy.cufile import drop_system_page_cache as drop_system_page_cache
    from damacy.mmap import Mmap as Mmap
    from damacy.remote_file import RemoteEndpointType, RemoteFile
    from damacy.remote_file import infer_remote_endpoint_type as infer_remote_endpoint_type
    from damacy.remote_file import is_remote_file_available as is_remote_file_available

__version__: str

__all__ = [
    "Array",
    "ArraySpec",
    "Batch",
    "BatchArray",
    "BatchInfo",
    "BatchRows",
    "Config",
    "DamacyError",
    "DecodeError",
    "Dtype",
    "DtypeMismatch",
    "Group",
    "Image",
    "InvalidArgument",
    "MAX_CHUNK_UNCOMPRESSED_BYTES",
    "Metric",
    "NamedBatch",
    "NativeCudaError",
    "NotFound",
    "OutOfMemory",
    "Pipeline",
    "Plate",
    "PopTimeout",
    "RankMismatch",
    "ReferenceStore",
    "RemoteEndpointType",
    "RemoteFile",
    "Sample",
    "Secret",
    "SharedCache",
    "ShutdownError",
    "Stats",
    "Status",
    "StorageError",
    "StoreOptions",
    "Take",
    "TryAgain",
    "UnsupportedFormat",
    "__version__",
    "mount",
    "mounts",
    "open_array",
    "open_group",
    "open_image",
    "open_many",
    "set_log_level",
    "set_read_cache",
    "unmount",
]

# Pickles and tracebacks show damacy.Config, not the private module that defines it.
for _name in (*__all__, "set_log_quiet"):
    if getattr(globals().get(_name), "__module__", "").startswith("damacy."):
        globals()[_name].__module__ = "damacy"
del _name


# Names that are loaded on first use, by module: a program that reads batches from files loads none of them. Classes
# among them that users pickle or print set `__module__` themselves.
_LAZY = {
    "damacy._open.arrays": ("Array",),
    "damacy._open.groups": ("Group", "Plate"),
    "damacy._open.images": ("Image",),
    "damacy._open.opening": ("open", "open_array", "open_group", "open_image", "open_many"),
    "damacy._open.read_cache": ("set_read_cache",),
    "damacy._pipeline.array_attributes": ("Cf",),
    "damacy._pipeline.explanation": ("Explanation", "StageLoad"),
    "damacy._pipeline.info": ("ArrayInfo",),
    "damacy._pipeline.memory": ("MemoryPart", "MemoryPlan"),
    "damacy._pipeline.stats": ("Metric", "Stats"),
    "damacy._stores.mounts": ("mount", "mounts", "unmount"),
    "damacy._stores.options": ("Secret", "StoreOptions"),
    "damacy._stores.references": ("ReferenceStore",),
    "damacy.cufile": ("CuFile", "CompatMode", "bounce_buffer_free", "memory_register", "memory_deregister")
    + ("get_page_cache_info", "drop_file_page_cache", "drop_system_page_cache", "clear_page_cache"),
    "damacy.mmap": ("Mmap",),
    "damacy.remote_file": ("RemoteFile", "RemoteEndpointType", "infer_remote_endpoint_type")
    + ("is_remote_file_available",),
    "damacy._device.array": ("DeviceArray", "asarray", "empty"),
}
# Modules that KvikIO's package has as attributes; import_module sets them here.
_LAZY_MODULES = ("cufile", "cufile_driver", "defaults", "mmap", "remote_file")


def __getattr__(name: str) -> Any:
    """The native library and its version, and the other public names, loaded on first use."""
    import importlib

    if name in ("_native", "__version__"):
        native = importlib.import_module("damacy._native")
        globals()["__version__"] = native.__version__
        return native if name == "_native" else native.__version__
    if name in _LAZY_MODULES:
        return importlib.import_module(f"damacy.{name}")
    for module, names in _LAZY.items():
        if name in names:
            found = globals()[name] = getattr(importlib.import_module(module), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_MODULES, *(name for names in _LAZY.values() for name in names)})
