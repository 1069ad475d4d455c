"""The C++ reference: the public headers through Doxygen and Breathe. Knows which headers are installed and how their
comments are written; not what they say.

Comments in the headers are plain ones, `// ...`. For Doxygen they become documentation: those above a declaration, and
those behind it in the same line. A comment that is a title, `// -- ... --`, is left out."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = HERE.parents[1] / "src"
INSTALL = HERE.parents[1] / "cmake" / "install.cmake"

COMMENT = re.compile(r"^(\s*)// ?(.*)$")
BEHIND = re.compile(r"^(.*?\S)(\s+)// (.*)$")


def public_headers() -> list[str]:
    """Those that are installed: the ones that install.cmake names, and what they include."""
    named = re.search(r"set\(DAMACY_PUBLIC_HEADERS ([^)]*)\)", INSTALL.read_text())
    assert named is not None
    waiting, reached = re.sub(r"#.*", "", named[1]).split(), []
    while waiting:
        header = waiting.pop(0)
        if header not in reached:
            reached.append(header)
            waiting += re.findall(r'^#include "(damacy/[^"]+)"', (SOURCES / header).read_text(), re.M)
    return reached


def documented(lines: Iterable[str]) -> Iterable[str]:
    """A header's lines with its comments as Doxygen reads them. The story at the top is not of a declaration."""
    is_story = True
    for line in lines:
        comment = COMMENT.match(line)
        if is_story and (comment or not line.strip()):
            yield ""
            continue
        is_story = False
        if comment and re.match(r"-- .*--$", comment[2]):
            yield ""
        elif comment:
            yield f"{comment[1]}/// {escaped(comment[2])}"
        elif behind := BEHIND.match(line):
            yield f"{behind[1]}{behind[2]}///< {escaped(behind[3])}"
        else:
            yield line


def escaped(text: str) -> str:
    """Signs that are not Doxygen's commands or HTML."""
    return re.sub(r"([\\@<>#])", r"\\\1", re.sub(r"NOLINT.*", "", text))


def run_doxygen(folder: pathlib.Path) -> None:
    """Writes folder/xml. Raises RuntimeError with what Doxygen warns of."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = [
        f"@INCLUDE = {HERE / 'Doxyfile'}",
        f"INPUT = {' '.join(str(SOURCES / header) for header in public_headers())}",
        f'INPUT_FILTER = "{sys.executable} {HERE / "cpp_reference.py"}"',
        f"OUTPUT_DIRECTORY = {folder}",
        f"STRIP_FROM_PATH = {SOURCES}",
    ]
    (folder / "Doxyfile").write_text("\n".join(settings) + "\n")
    ran = subprocess.run(["doxygen", str(folder / "Doxyfile")], capture_output=True, text=True)
    if ran.returncode != 0 or ran.stderr.strip():
        raise RuntimeError(f"doxygen: {ran.stderr.strip()}")
    name_files_by_path(folder / "xml")
    for file in (folder / "xml").glob("*.xml"):  # links to headers, which have no page
        file.write_text(re.sub(r"<includes [^>]*>[^<]*</includes>", "", file.read_text()))


def name_files_by_path(xml: pathlib.Path) -> None:
    """Breathe finds a file by its name in the index, where Doxygen leaves its folder out."""

    def with_folder(found: re.Match[str]) -> str:
        location = re.search(r'<location file="([^"]+)"/>\s*</compounddef>', (xml / f"{found[1]}.xml").read_text())
        return found[0] if location is None else found[0].replace(f">{found[2]}<", f">{location[1]}<")

    index = (xml / "index.xml").read_text()
    index = re.sub(r'<compound refid="([^"]+)" kind="file"><name>([^<]+)</name>', with_folder, index)
    (xml / "index.xml").write_text(index)


SECTIONS = (
    "briefdescription detaileddescription innernamespace innerclass public-type public-func public-static-func "
    "public-attrib public-static-attrib typedef enum func var define"
)


def page() -> str:
    """For each public header, the declarations of what it includes; of a header that includes none, its own."""
    named = re.search(r"set\(DAMACY_PUBLIC_HEADERS ([^)]*)\)", INSTALL.read_text())
    assert named is not None
    lines: list[str] = []
    shown: set[str] = set()
    for public in re.sub(r"#.*", "", named[1]).split():
        included = re.findall(r'^#include "(damacy/[^"]+)"', (SOURCES / public).read_text(), re.M)
        is_table_of_contents = "class " not in (SOURCES / public).read_text() and public.count("/") == 1 and included
        lines += [f"## {public}", ""]
        for header in included if is_table_of_contents else [public]:
            if header in shown:
                continue
            shown.add(header)
            lines += [f"### {header}", "", "```{eval-rst}", f".. doxygenfile:: {header}", f"   :sections: {SECTIONS}"]
            lines += ["```", ""]
    return "\n".join(lines)


def setup(app: Any) -> dict[str, bool]:
    """Before Breathe reads the XML and Sphinx the page."""
    generated = HERE.parent / "_generated"
    run_doxygen(generated / "doxygen")
    (generated / "cpp_api.md").write_text(page())
    app.config.breathe_projects = {"damacy": str(generated / "doxygen" / "xml")}
    app.config.breathe_default_project = "damacy"
    return {"parallel_read_safe": True}


if __name__ == "__main__":  # the filter of Doxygen
    print("\n".join(documented(pathlib.Path(sys.argv[1]).read_text().splitlines())))
