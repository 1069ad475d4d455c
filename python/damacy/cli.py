"""The command `damacy`. Only prints the error if its packages are missing; the commands are in `_cli/commands.py`."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line; exits the process."""
    try:
        from damacy._cli.commands import app
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in ("typer", "rich", "click"):
            raise
        sys.exit(f"damacy's command line needs the package {missing.name}: pip install typer rich")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # removes unfinished files
    app(prog_name="damacy")  # also if it was started by `python -m damacy`
