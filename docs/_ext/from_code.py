"""Pages that are generated from the code when the site is built: limits, reason codes, C++ headers, commands,
parts of memory, and the programs of the README.

Knows how `core/limits.h` and the public headers are written. What a limit or a code means to a reader is in
`limits.toml` and `reasons.toml`; one that is missing there, or is there without being in the code, stops the build.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import tomllib
from collections.abc import Iterator
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCES = ROOT / "src" / "damacy"


def limits() -> dict[str, int]:
    """By name: the constants of `Limits`, as `core/limits.h` has them."""
    text = (SOURCES / "core" / "limits.h").read_text()
    found = re.findall(r"static constexpr (?:std::uint64_t|int) (\w+) = ([^;]+);", text)
    return {name: _value(expression) for name, expression in found}


def limits_page() -> str:
    words = tomllib.loads((HERE / "limits.toml").read_text())
    values = limits()
    _same(set(words), set(values), "limits.toml", "core/limits.h")
    rows = [f"| {words[name]} | {_number(value, name)} | `{name}` |" for name, value in values.items()]
    return "\n".join(["| what | limit | in `Limits` |", "| --- | --- | --- |", *rows]) + "\n"


def codes_in_sources() -> set[str]:
    """String literals that look like a reason code, anywhere in the library and its bindings."""
    found: set[str] = set()
    for folder in (SOURCES, ROOT / "python" / "bindings"):
        for path in folder.rglob("*"):
            if path.suffix in (".h", ".cpp", ".cu", ".cuh") and not path.stem.endswith("_test"):
                found |= set(re.findall(r'"([a-z][a-z-]+)"', path.read_text()))
    return found


def reasons() -> dict[str, dict[str, dict[str, str]]]:
    """By group, then by code: `error` (class), `means`, `do`."""
    return tomllib.loads((HERE / "reasons.toml").read_text())


def reasons_page() -> str:
    known = codes_in_sources()
    lines = []
    for group, codes in reasons().items():
        lines += [f"## {group}", ""]
        for code, entry in codes.items():
            if code not in known:
                raise ValueError(f"reasons.toml: no source has the code {code!r}")
            lines += [
                f"### `{code}`",
                "",
                f"*{entry['error']}.* {entry['means']}",
                "",
                f"**What to do:** {entry['do']}",
            ]
            lines += [""]
    return "\n".join(lines)


PUBLIC_HEADERS = {
    "damacy.h": "Batches",
    "array.h": "Single arrays",
    "file.h": "Files",
    "remote.h": "Mounted stores",
    "halo.h": "Halo exchange",
}


def headers_page() -> str:
    """The public headers, and what each includes, with the story at its top."""
    lines = []
    for public, title in PUBLIC_HEADERS.items():
        included = re.findall(r'#include "damacy/([^"]+)"', (SOURCES / public).read_text())
        lines += [f"## {title}: `damacy/{public}`", "", "| header | |", "| --- | --- |"]
        lines += [f"| `damacy/{header}` | {_cell(_story(SOURCES / header))} |" for header in included]
        lines.append("")
    return "\n".join(lines)


def commands_page() -> str:
    """Each command of the command line: what it does, its arguments and options."""
    import typer

    from damacy._cli.commands import app

    group = typer.main.get_command(app)
    lines = []
    for path, command in _commands("damacy", group):
        lines += [f"## {path}", "", _cell(" ".join((command.help or "").split())), "", "| | |", "| --- | --- |"]
        for parameter in command.params:
            lines.append(
                f"| `{_names(parameter)}` | {_cell(getattr(parameter, 'help', None) or '')}{_default(parameter)} |"
            )
        lines.append("")
    return "\n".join(lines)


def memory_page() -> str:
    """Every part of a pipeline's memory, with the figures of the default settings, on the host and with a GPU."""
    from damacy import Config, _native
    from damacy._core.machine import Machine
    from damacy._pipeline.memory import memory_plan_from

    lines = []
    for title, gpu in (("On the host", False), ("With a GPU", True)):
        machine = Machine(4, "cores", None, "unknown", cores=4, physical_bytes=1 << 40, gpu=gpu)
        fields = Config(batch_size=1, device="cpu")._native_fields()
        plan = memory_plan_from(_native.plan_memory(fields, dataclasses.asdict(machine), None, False))
        lines += [f"**{title}**", "", "| part | `Config()` | where | taken | changed by | used for |"]
        lines += ["| --- | --- | --- | --- | --- | --- |", *map(_memory_row, plan.parts)]
        lines += [f"| **at most, without slots** | {plan.sums().partition(';')[0]} | | | | |", ""]
    return "\n".join(lines)


def _memory_row(part: Any) -> str:
    from damacy._core.sizes import size_text
    from damacy._pipeline.memory import KINDS

    bytes_ = "by sample" if part.bytes is None else size_text(part.bytes)
    setting = f"`{part.setting}`" if part.setting else "fixed"
    return f"| {part.name} | {bytes_} | {KINDS[part.kind]} | {part.taken} | {setting} | {part.use} |"


def coverage_page() -> str:
    """Lines and branches that tests run, by layer, from `bench/results/coverage.json` if that is recorded."""
    recorded = ROOT / "bench" / "results" / "coverage.json"
    if not recorded.exists():
        return "No figures are recorded. `make coverage` measures them and writes `bench/results/coverage.json`.\n"
    return coverage_tables(json.loads(recorded.read_text()))


def coverage_tables(result: dict[str, Any]) -> str:
    """A table for each language of what `tools/coverage_report.py` wrote."""
    date, commit = result["date"].partition("T")[0], result["commit"][:10]
    lines = [f"Measured on {date} at commit `{commit}` by `{result['command']}`.", ""]
    for title, key in (("C++, by layer", "cpp"), ("Python, by folder", "python")):
        lines += [f"## {title}", "", "| | lines | run | branches | run |", "| --- | --- | --- | --- | --- |"]
        everything = dict.fromkeys(next(iter(result[key].values())), 0)
        for folder, counts in result[key].items():
            lines.append(_covered("top" if folder == "." else folder, counts))
            everything = {name: number + counts[name] for name, number in everything.items()}
        lines += [_covered("**all**", everything), ""]
    return "\n".join(lines)


def _covered(name: str, counts: dict[str, int]) -> str:
    cells = []
    for what in ("lines", "branches"):
        total, run = counts[what], counts[what + "_run"]
        cells += [f"{total:,}".replace(",", " "), f"{100 * run / total:.1f} %" if total else "—"]
    return f"| {name} | {' | '.join(cells)} |"


def quick_start() -> str:
    """The install command and the two programs of the README, unchanged. tests/docs/test_readme.py runs them."""
    parts = [
        "Install it from a checkout, on Linux with Python 3.11 or newer and a C++20 compiler. For batches in GPU "
        "memory the build also needs `nvcc`: [Building from source](reference/wheels.md#building-from-source)."
    ]
    for title, language, before in (
        ("Install", "sh", ""),
        ("First program", "python", "This program makes its own data, and prints the mean of each batch:"),
        ("Train on image and label", "python", "With your own arrays and PyTorch:"),
    ):
        blocks = re.findall(rf"^```{language}\n.*?^```$", _section(title), re.M | re.S)
        if not blocks:
            raise ValueError(f"README.md: no {language} block under {title!r}")
        parts += [before, blocks[0]]
    return "\n\n".join(filter(None, parts)) + "\n"


def _section(title: str) -> str:
    """The text of the README between the heading `title` and the next heading of its level."""
    return (ROOT / "README.md").read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _commands(path: str, group: object) -> Iterator[tuple[str, object]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(f"{path} {name}", command)
        elif not command.hidden:
            yield f"{path} {name}", command


def _names(parameter: Any) -> str:
    if parameter.param_type_name != "option":
        return str(parameter.name).upper()
    return ", ".join([*parameter.opts, *parameter.secondary_opts])


def _default(parameter: Any) -> str:
    """What an option is when it is left out; switches, and options whose help says it, need none."""
    if parameter.param_type_name != "option" or isinstance(parameter.default, bool) or parameter.default in (None, ""):
        return ""
    return f" Default: `{parameter.default}`."


def _story(path: pathlib.Path) -> str:
    """The first sentence of the comment at a header's top."""
    lines = []
    for line in path.read_text().splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").strip())
    return re.split(r"(?<=[.])\s", " ".join(lines), maxsplit=1)[0]


def _cell(text: str) -> str:
    return re.sub(r"([|<>*_\[\]])", r"\\\1", text)


def _value(expression: str) -> int:
    plain = re.sub(r"std::uint64_t\{(\d+)\}", r"\1", expression)
    if shifted := re.fullmatch(r"(\d+) << (\d+)", plain):
        return int(shifted[1]) << int(shifted[2])
    return int(plain, 0)


def _number(value: int, name: str) -> str:
    if name.endswith("_bytes") or name == "zstd_window":
        for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
            if value % size == 0:
                return f"{value // size} {unit}"
    return f"{value:,}".replace(",", " ") + (" bytes" if name.endswith("_bytes") else "")


def _same(words: set[str], code: set[str], where: str, source: str) -> None:
    if words != code:
        raise ValueError(f"{where} and {source} differ in {', '.join(sorted(words ^ code))}")


PAGES = {
    "limits.md": limits_page,
    "reasons.md": reasons_page,
    "headers.md": headers_page,
    "commands.md": commands_page,
    "coverage.md": coverage_page,
    "memory.md": memory_page,
    "quick_start.md": quick_start,
}


def write(folder: pathlib.Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(page())


def setup(app: object) -> dict[str, bool]:
    write(HERE.parent / "_generated")
    return {"parallel_read_safe": True}
