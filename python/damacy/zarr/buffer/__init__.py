"""Buffer classes for zarr-python: `gpu`."""
