"""The command `damacy completion`: prints a script that makes a shell complete damacy's commands and options.

typer generates the script. For each completion the shell runs damacy with an environment variable of click's protocol.
"""

from __future__ import annotations

import enum
from typing import Annotated

import typer
import typer.completion


class Shell(enum.StrEnum):
    """Shells that have a completion script."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def answer_shells() -> None:
    """Makes this process answer completion requests of a shell; typer does so after it has looked for shells."""
    typer.completion.get_completion_inspect_parameters()


def command(shell: Annotated[Shell, typer.Argument(help="The shell to print a script for.")]) -> None:
    """Print a completion script; for bash, put `eval "$(damacy completion bash)"` into ~/.bashrc."""
    script = typer.completion.get_completion_script  # type: ignore[attr-defined]  # typer does not list it as exported
    print(script(prog_name="damacy", complete_var="_DAMACY_COMPLETE", shell=shell.value))
