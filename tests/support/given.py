"""What programs of the documentation use without making it: data, servers and libraries, each by a name.

    with given(["servers"], folder) as context:
        run(context.before + context.on_this_machine(program), environment=context.environment)

Knows the names that pages write into their markers (`with: servers`). Does not run programs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Iterable, Iterator

from support.fault_server import FaultServer
from support.s3_server import S3Server

VOLUME = """
import zarr
zarr.create_array("a.zarr", shape=(80, 256), chunks=(64, 64), dtype="u2")[:] = 1
"""
CUBE = """
import numpy, xarray
xarray.Dataset({"t2m": (("time", "y", "x"), numpy.ones((4, 8, 8), "f4"))}).to_zarr("era5.zarr", consolidated=False)
"""
NETCDF = """
import h5py, numpy
with h5py.File("era5.nc", "w") as file:
    file.create_dataset("t2m", data=numpy.ones((4, 8, 8), "f4"), chunks=(1, 8, 8), compression="gzip")
"""
# Programs that only hand batches to torch run without it.
TORCH = """
import importlib.util, sys, types
def module(name, **members):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(members)
    return sys.modules[name]
if importlib.util.find_spec("torch") is None:
    loading = {"DataLoader": lambda dataset, **_: dataset, "get_worker_info": lambda: None}
    data = module("torch.utils.data", IterableDataset=object, **loading)
    no_gpu = types.SimpleNamespace(is_available=lambda: False)
    module("torch", utils=module("torch.utils", data=data), from_dlpack=lambda batch: batch.numpy(), cuda=no_gpu)
"""
KEYS = {"reader": "...", "AKIAIOSFODNN7EXAMPLE": "..."}  # as the pages write them
GOOGLE = {"GOOG1E...": "..."}


@dataclasses.dataclass
class Context:
    before: str = ""  # a program that runs first
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    places: dict[str, str] = dataclasses.field(default_factory=dict)

    def on_this_machine(self, program: str) -> str:
        """The program with addresses, directories and devices of this machine in place of those of the page."""
        for there, here in self.places.items():
            program = program.replace(there, here)
        return program


@contextlib.contextmanager
def given(names: Iterable[str], folder: pathlib.Path) -> Iterator[Context]:
    context = Context()
    with contextlib.ExitStack() as stack:
        for name in names:
            if name == "servers":
                stack.enter_context(_servers(folder, context))
            elif name == "cpu":
                context.places |= {'device="cuda:0"': 'device="cpu"', 'device="cuda"': 'device="cpu"'}
            else:
                context.before += {"a.zarr": VOLUME, "era5.zarr": CUBE, "era5.nc": NETCDF, "torch": TORCH}[name]
        yield context


@contextlib.contextmanager
def _servers(folder: pathlib.Path, context: Context) -> Iterator[None]:
    """The buckets `scans`, `my-bucket` and the public one `noaa-example`, which is also served by HTTP; and by Google's
    interface, for the key of `GOOGLE`."""
    from damacy.synthetic import write_image

    buckets = folder / "buckets"
    write_image(buckets / "noaa-example" / "cells" / "cell-1.zarr", (32, 256, 256), chunks=(16, 128, 128))
    for name in ("scans", "my-bucket"):
        (buckets / name).symlink_to("noaa-example/cells")
    with open(buckets / "noaa-example" / "volume.bin", "wb") as volume:
        volume.truncate(16 << 20)
    profile = "\naws_access_key_id = reader\naws_secret_access_key = ...\n"
    (folder / "credentials").write_text(f"[default]{profile}[lab]{profile}")
    with (
        S3Server(buckets, keys=KEYS) as s3,
        S3Server(buckets, keys=GOOGLE, region="auto") as google,
        FaultServer(buckets / "noaa-example") as http,
    ):
        s3.public = {"noaa-example"}
        context.environment |= {name: "" for name in os.environ if name.startswith("AWS_")} | {
            "AWS_ENDPOINT_URL_S3": s3.url,
            "AWS_REGION": "us-east-1",
            "AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"),
            "AWS_CONFIG_FILE": str(folder / "no-config"),
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        context.places |= {
            "https://data.example.org": http.url,
            "http://127.0.0.1:9000": s3.url,
            'access_key_id="GOOG1E..."': f'endpoint="{google.url}", access_key_id="GOOG1E..."',
            "/local/damacy": str(folder / "disk-cache"),
        }
        yield
