"""The commands of the README and of the pages name targets, files, modules, commands and options that exist."""

import pathlib
import re
import shlex

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "bench/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TARGETS = set(re.findall(r"^([\w.-]+):", (ROOT / "Makefile").read_text(), re.M))


def lines() -> list[tuple[str, list[str]]]:
    """Each command as its words, with the name of its page."""
    found = []
    for path in PAGES:
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(("docs/_build/", "docs/_generated/")):
            continue
        for block in re.findall(r"^```sh\n(.*?)^```$", path.read_text(encoding="utf-8"), re.M | re.S):
            for line in block.replace("\\\n", " ").splitlines():
                if words := shlex.split(line, comments=True):
                    found.append((name, words))
    return found


def options(words: list[str]) -> list[str]:
    return [word.partition("=")[0] for word in words if word.startswith("--")]


def test_make_has_the_targets():
    wanted = {word for _, words in lines() if words[0] == "make" for word in words[1:] if "=" not in word}
    assert len(wanted) > 8
    assert wanted - TARGETS == set()


def test_programs_and_modules_exist_and_have_the_options():
    missing = []
    counted = 0
    for page, words in lines():
        programs = [at for at, word in enumerate(words) if word.endswith(".py")]
        modules = [at + 1 for at, word in enumerate(words) if word == "-m" and words[at + 1].startswith("bench")]
        for at in programs + modules:
            name = words[at] if at in programs else words[at].replace(".", "/")
            files = [ROOT / name, ROOT / f"{name}.py", *(ROOT / name).glob("*.py")]
            text = "".join(file.read_text(encoding="utf-8") for file in files if file.is_file())
            counted += 1
            missing += [(page, name)] if not text else []
            missing += [(page, name, option) for option in options(words[at:]) if f'"{option}"' not in text]
    assert counted > 8
    assert missing == []


def test_the_command_line_has_the_commands_and_options():
    typer = pytest.importorskip("typer")
    commands = typer.main.get_command(pytest.importorskip("damacy._cli.commands").app).commands
    missing = []
    counted = 0
    for page, words in lines():
        if words[0].rpartition("/")[2] != "damacy":
            continue
        counted += 1
        command = commands.get(words[1])
        there = {option for parameter in command.params for option in parameter.opts} if command else set()
        missing += [(page, words[1])] if command is None else []
        missing += [(page, words[1], option) for option in options(words) if option not in there]
    assert counted > 6
    assert missing == []
