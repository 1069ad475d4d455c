"""Where the package is, when the environment does not say."""

import pathlib
import sys

try:
    import damacy  # noqa: F401
except ImportError:
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
