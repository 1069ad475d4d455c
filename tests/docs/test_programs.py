"""All programs of the documentation run, and each how-to page begins with one.

Above a fenced `python` block, or for all blocks of a page below its title:

    <!-- run; needs: PACKAGE ...; with: GIVEN ... -->      skipped where a package is missing; GIVEN as in support.given
    <!-- run page; needs: PACKAGE ...; with: GIVEN ... --> all blocks of the page are one program
    <!-- short program -->                                 test_short_programs.py runs it
"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest
from support.given import given

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
OPTIONS = r"(?:; needs: ([\w ]+))?(?:; with: ([\w. ]+))?"
PROGRAM = re.compile(rf"^<!-- run{OPTIONS} -->\n```python\n(.*?)^```$", re.M | re.S)
WHOLE_PAGE = re.compile(rf"^<!-- run page{OPTIONS} -->$", re.M)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
SHORT = re.compile(r"^<!-- short program -->\n```python\n(.*?)^```$", re.M | re.S)
FENCE = re.compile(r"^```(\S+)")

PAGES = {
    path.relative_to(DOCS).as_posix(): path.read_text()
    for path in sorted(DOCS.rglob("*.md"))
    if path.relative_to(DOCS).parts[0] not in ("_build", "_generated")
}
HOW_TO = [page for page in PAGES if page.startswith("how-to/")]


def programs():
    for page, text in PAGES.items():
        for number, (needs, names, program) in enumerate(PROGRAM.findall(text)):
            yield pytest.param(needs.split(), names.split(), program, id=f"{page}-{number}")
        if whole := WHOLE_PAGE.search(text):
            program = "\n".join(BLOCK.findall(text))
            yield pytest.param((whole[1] or "").split(), (whole[2] or "").split(), program, id=page)


@pytest.mark.parametrize("needs, names, program", list(programs()))
def test_the_programs_of_the_documentation_run(needs, names, program, tmp_path):
    for package in needs:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    path = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]))
    with given(names, tmp_path) as context:
        ran = subprocess.run(
            [
                sys.executable,
                *("-W", "error::DeprecationWarning:damacy"),
                *("-c", context.before + context.on_this_machine(program)),
            ],
            cwd=tmp_path,
            env=os.environ | context.environment | {"PYTHONPATH": path, "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=100,
        )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
@pytest.mark.timeout(420)
def test_the_program_of_the_tutorial_trains_and_finds_its_checkpoint(tmp_path):
    pytest.importorskip("torch")
    program = [sys.executable, str(ROOT / "examples" / "train_unet.py"), "--folder", str(tmp_path)]
    path = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]))
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "2"}  # one a core spins when busy
    for beginning in ("step 25: loss", "resumed after step 25"):
        ran = subprocess.run(
            [*program, "--batch", "1", "--steps", "25", "--enough", "2"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert ran.stdout.startswith(beginning), ran.stdout + ran.stderr


def test_each_python_block_is_run():
    unmarked = []
    for page, text in PAGES.items():
        if WHOLE_PAGE.search(text):
            continue
        marked = {block for *_, block in PROGRAM.findall(text)} | set(SHORT.findall(text))
        unmarked += [(page, block) for block in BLOCK.findall(text) if block not in marked]
    assert unmarked == []
    assert sum(1 for _ in programs()) >= 50


@pytest.mark.parametrize("page", HOW_TO)
def test_a_how_to_page_begins_with_a_short_program(page):
    """In its first twelve lines. A program in Python is one that is run."""
    lines = PAGES[page].splitlines()
    at, language = next((at, found[1]) for at, line in enumerate(lines) if (found := FENCE.match(line)))
    assert at < 12, f"the first block is in line {at + 1}"
    assert language in ("python", "cpp", "c", "fortran", "sh", "{literalinclude}")
    length = lines[at + 1 :].index("```")
    assert length <= 32, f"the first block has {length} lines"
    if language == "python" and not WHOLE_PAGE.search(PAGES[page]):
        assert lines[at - 1].startswith("<!-- run")
