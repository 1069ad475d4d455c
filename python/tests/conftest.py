"""Adds the package of this checkout to the search path if the environment has none."""

import pathlib
import sys

try:
    import damacy  # noqa: F401
except ImportError:
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
