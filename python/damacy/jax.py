"""Training with JAX: the batches of a loader as arrays. Needs the extra `jax`.

Knows JAX and `damacy.training.Loader`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

try:
    import jax
except ModuleNotFoundError as missing:
    message = f"damacy.jax needs the package {missing.name}: pip install {missing.name}"
    raise ModuleNotFoundError(message, name=missing.name) from None

from damacy._core.dtype import Dtype
from damacy._pipeline.array_spec import ArraySpec
from damacy._pipeline.batch import Batch
from damacy._pipeline.batch_rows import rows_of, warn_of_unknown_rows
from damacy.training import Loader

_WIDE = {Dtype.F64: "f32", Dtype.I64: "i32", Dtype.U64: "u32"}


def batches(
    loader: Loader,
    sharding: jax.sharding.Sharding | Mapping[str, jax.sharding.Sharding] | None = None,
    *,
    info: bool = False,
) -> Iterator[Any]:
    """The batches of a `for` over the loader, as arrays on its device, without a copy. A batch of several arrays
    is a `dict` of arrays.

    With `sharding`, each batch becomes this process's part of a global array (by
    `jax.make_array_from_process_local_data`); every process is then a rank. One sharding is that of all arrays; a
    mapping has one for each name, else `ValueError` at the first batch. An array keeps its slot until it is deleted;
    `Config.keep_bytes` limits how many arrays can be kept.

    With `info=True`, yields pairs of an array and a `damacy.BatchRows`, which has the samples of the rows.

    `TypeError`, at the first batch, for elements of 64 bits unless `jax_enable_x64` allows them.
    """
    warn_of_unknown_rows(loader.config, info)

    def array(batch: Batch) -> Any:
        with batch as lent:
            made = lent.jax()
        if sharding is not None:
            made = _sharded(made, sharding)
        return (made, rows_of(batch)) if info else made

    return _checked(loader, array)


def _sharded(made: Any, sharding: Any) -> Any:
    """The array, or the dict of arrays, as parts of global arrays."""
    if not isinstance(sharding, Mapping):
        return jax.tree.map(lambda one: jax.make_array_from_process_local_data(sharding, one), made)
    there = sorted(made) if isinstance(made, dict) else []
    if sorted(sharding) != there:
        has = ", ".join(map(repr, there)) or "one array without a name"
        raise ValueError(f"sharding has {', '.join(map(repr, sharding)) or 'no names'}; the batch has {has}")
    return {name: jax.make_array_from_process_local_data(sharding[name], one) for name, one in made.items()}


def _checked(loader: Loader, array: Callable[[Batch], Any]) -> Iterator[Any]:
    config = loader.config
    specs = {"": ArraySpec()} if config.arrays is None else config.arrays
    for name, spec in specs.items():
        dtype = config.dtype if spec.dtype is None else spec.dtype
        if dtype in _WIDE and not jax.config.jax_enable_x64:
            where = f"ArraySpec of {name!r}" if name else "Config"
            raise TypeError(
                f"jax has no {dtype.name.lower()} unless jax_enable_x64 is set: "
                f'jax.config.update("jax_enable_x64", True), or {where}(dtype="{_WIDE[dtype]}")'
            )
    yield from loader._given_as(array)
