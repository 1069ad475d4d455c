"""Shared by all modules of the package: errors, element types, integers, sizes, log records, streams, the machine.

Imports none of the other folders."""

import sys

# Threads of the native library call Python and rely on the GIL.
if "t" in sys.abiflags:
    raise ImportError(
        f"damacy needs a Python with the GIL, and {sys.executable} is free-threaded: "
        f"use python{sys.version_info.major}.{sys.version_info.minor} without the t"
    )
