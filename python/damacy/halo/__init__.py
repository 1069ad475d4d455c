"""Halo exchange: the parts of a decomposed grid send border cells to each other. Plans, packing, rotation, transports.

>>> import numpy as np
>>> from damacy import halo
>>> q = halo.Quantity(np.arange(6.0).reshape(2, 3), ("j", "i"))
>>> spec = halo.HaloExchangeSpec(q.halo_spec(0), (slice(None),) * 2, 1, (slice(None),) * 2)
>>> with halo.HaloDataTransformer.get(np, [spec]) as transformer:
...     transformer.async_pack([q])
...     transformer.get_pack_buffer().array.tolist()
[3.0, 0.0, 4.0, 1.0, 5.0, 2.0]

This module only collects the public names.
"""

from damacy.halo.buffer import BUFFER_CACHE, Buffer, array_buffer, recv_buffer, send_buffer
from damacy.halo.constants import (
    BOUNDARIES,
    CORNERS,
    EAST,
    EDGES,
    HORIZONTAL_DIMS,
    I_DIMS,
    INTERFACE_DIMS,
    J_DIMS,
    NORTH,
    NORTHEAST,
    NORTHWEST,
    SOUTH,
    SOUTHEAST,
    SOUTHWEST,
    TILE_DIM,
    WEST,
    X_DIM,
    X_INTERFACE_DIM,
    Y_DIM,
    Y_INTERFACE_DIM,
    Z_DIM,
    Z_INTERFACE_DIM,
)
from damacy.halo.data_transformer import (
    INDICES_CACHE,
    STREAM_POOL,
    HaloDataTransformer,
    HaloDataTransformerCPU,
    HaloDataTransformerGPU,
    HaloExchangeSpec,
    pack_many,
    set_num_threads,
    unpack_many,
)
from damacy.halo.exchange import BoundExchange, Exchanger, Token
from damacy.halo.exchange_plan import ExchangePlan, Field
from damacy.halo.exchange_plan import compile as compile  # noqa: A004  not in __all__
from damacy.halo.interfaces import synchronize_vector_interfaces
from damacy.halo.quantity import Quantity, QuantityHaloSpec
from damacy.halo.rotate import rotate_scalar_data, rotate_vector_data
from damacy.halo.topology import Cartesian, CubedSphere, Link, Links, boundary_slice
from damacy.halo.transports import MPI, NCCL, Local, TorchDistributed

__all__ = [
    "BOUNDARIES",
    "BUFFER_CACHE",
    "BoundExchange",
    "Buffer",
    "Cartesian",
    "CORNERS",
    "CubedSphere",
    "EAST",
    "EDGES",
    "ExchangePlan",
    "Exchanger",
    "Field",
    "HORIZONTAL_DIMS",
    "HaloDataTransformer",
    "HaloDataTransformerCPU",
    "HaloDataTransformerGPU",
    "HaloExchangeSpec",
    "INDICES_CACHE",
    "INTERFACE_DIMS",
    "I_DIMS",
    "J_DIMS",
    "Link",
    "Links",
    "Local",
    "MPI",
    "NCCL",
    "NORTH",
    "NORTHEAST",
    "NORTHWEST",
    "Quantity",
    "QuantityHaloSpec",
    "SOUTH",
    "SOUTHEAST",
    "SOUTHWEST",
    "STREAM_POOL",
    "TILE_DIM",
    "Token",
    "TorchDistributed",
    "WEST",
    "X_DIM",
    "X_INTERFACE_DIM",
    "Y_DIM",
    "Y_INTERFACE_DIM",
    "Z_DIM",
    "Z_INTERFACE_DIM",
    "array_buffer",
    "boundary_slice",
    "pack_many",
    "recv_buffer",
    "rotate_scalar_data",
    "rotate_vector_data",
    "send_buffer",
    "set_num_threads",
    "synchronize_vector_interfaces",
    "unpack_many",
]
