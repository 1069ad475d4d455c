"""Type-checks the programs that users copy: those of the README, the tutorial and the examples.

    python tools/check_typing.py            the status is 0 if mypy and pyright, both strict, find no errors

Knows where the programs are and how to call the checkers. Libraries that are not installed count as untyped, and so do
torch, JAX and Lightning even if installed, so that the result does not depend on them."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ("README.md", "docs/tutorial/train.md", "docs/how-to/memory.md", "docs/explanation/pipeline.md")
SEARCHED = (ROOT / "python",)  # searched for modules before the installed packages
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
# Names that the programs use without defining them.
GIVEN = ("images", "model", "step", "optimiser", "criterion", "loader")


def programs() -> dict[str, str]:
    """The text of each program, by file name."""
    found = {f"examples_{path.stem}.py": path.read_text() for path in sorted((ROOT / "examples").glob("*.py"))}
    for page in PAGES:
        for number, program in enumerate(PROGRAM.findall((ROOT / page).read_text())):
            found[f"{re.sub('[^a-z]', '_', page.lower())}_{number}.py"] = with_given(program)
    return found


def with_given(program: str) -> str:
    """The program behind declarations of the names that it uses without defining them."""
    used = [n for n in GIVEN if re.search(rf"\b{n}\b", program)]
    missing = [n for n in used if not re.search(rf"^\s*(def {n}\b|{n}\b[^(]*=|for {n}\b)|\bas {n}\b", program, re.M)]
    return "".join(["from typing import Any\n", *(f"{n}: Any = None\n" for n in missing)] if missing else []) + program


def write(folder: pathlib.Path) -> None:
    """Writes the programs, and settings of both checkers, into an empty folder."""
    for name, program in programs().items():
        (folder / name).write_text(program)
    (folder / "mypy.ini").write_text(
        "[mypy]\nstrict = True\nignore_missing_imports = True\nexplicit_package_bases = True\n"
        "disallow_any_generics = False\ndisallow_subclassing_any = False\nwarn_unused_ignores = False\n"
        "[mypy-damacy.*]\nfollow_imports = silent\nfollow_imports_for_stubs = True\n"
        "[mypy-torch.*,jax.*,lightning.*]\nfollow_imports = skip\nfollow_imports_for_stubs = True\n"
    )
    settings = {
        "typeCheckingMode": "strict",
        "include": ["*.py"],
        "extraPaths": [str(path) for path in SEARCHED],
        # Errors about libraries that are missing or have no types.
        **dict.fromkeys(
            ["reportMissingImports", "reportMissingModuleSource", "reportMissingTypeStubs"]
            + [f"reportUnknown{what}Type" for what in ("Variable", "Member", "Argument", "Parameter", "Lambda")]
            + ["reportUntypedBaseClass", "reportUnusedExpression"],
            "none",
        ),
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))


def check(folder: pathlib.Path) -> list[str]:
    """The messages of the checkers; empty if there are no errors."""
    environment = os.environ | {"MYPYPATH": os.pathsep.join(map(str, SEARCHED)), "NO_COLOR": "1"}
    scripts = pathlib.Path(sys.executable).parent
    files = sorted(path.name for path in folder.glob("*.py"))
    said = []
    for command in (
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", str(folder / "cache"), *files],
        [str(scripts / "basedpyright"), "--pythonpath", sys.executable, "-p", "pyrightconfig.json"],
    ):
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
        if done.returncode:
            said.append(f"{pathlib.Path(command[-1]).name}: {done.stdout}{done.stderr}")
    return said


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write(folder)
        said = check(folder)
    print("\n".join(said) or f"types: {len(programs())} programs, clean")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
