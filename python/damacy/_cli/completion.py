"""The command `damacy completion`: a script that makes a shell complete damacy's commands and options.

The shell asks damacy itself each time, by a variable of click's protocol; typer writes the script."""

from __future__ import annotations

import enum
from typing import Annotated

import typer
import typer.completion


class Shell(enum.StrEnum):
    """Shells that there is a script for."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def answer_shells() -> None:
    """Let the process answer a shell that asks for completions: typer does so once it has looked for shells."""
    typer.completion.get_completion_inspect_parameters()


def command(shell: Annotated[Shell, typer.Argument(help="The shell that is to complete.")]) -> None:
    """Print a completion script; for bash, put `eval "$(damacy completion bash)"` into ~/.bashrc."""
    script = typer.completion.get_completion_script  # type: ignore[attr-defined]  # typer does not list it as exported
    print(script(prog_name="damacy", complete_var="_DAMACY_COMPLETE", shell=shell.value))
