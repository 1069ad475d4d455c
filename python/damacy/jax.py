"""Training with JAX: the batches of a loader as arrays. Needs the extra `jax`.

Knows JAX and `damacy.training.Loader`."""

from __future__ import annotations

from collections.abc import Iterator

try:
    import jax
except ModuleNotFoundError as missing:
    message = f"damacy.jax needs the package {missing.name}: pip install {missing.name}"
    raise ModuleNotFoundError(message, name=missing.name) from None

from damacy.training import Loader


def batches(loader: Loader, sharding: jax.sharding.Sharding | None = None) -> Iterator[jax.Array]:
    """The batches that are left of the loader's epoch, as arrays on the loader's device, without a copy.

    With `sharding` each becomes this process's part of a global array, as `jax.make_array_from_process_local_data`
    puts it together; every process is then a rank of its own. An array keeps its slot until it is gone; with the
    default `Config.n_batches` one may be kept while the next is made.
    """
    for batch in loader:
        with batch as lent:
            array = jax.dlpack.from_dlpack(lent)
        if sharding is not None:
            array = jax.make_array_from_process_local_data(sharding, array)
        yield array
        del array
