"""The C++ and C of the README and of the pages compiles against the public headers, and calls of Fortran exist. Whole
programs are in `examples/`; tests/package builds and runs them.

The blocks of a page are one function: each has the names of those before it, and of GIVEN. Checked, not linked."""

import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r"^#include .*$", re.M)
PAGES = {
    path.relative_to(ROOT / "docs").as_posix(): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if path.relative_to(ROOT / "docs").parts[0] not in ("_build", "_generated")
}

# What the programs use without making it.
GIVEN = {
    "README.md": "#include <damacy/damacy.h>\n damacy::Config config; std::vector<damacy::Sample> samples;",
    "the README's C": "#include <damacy/c.h>\n"
    "damacy_options* options; damacy_pipeline* pipeline; damacy_samples* samples; damacy_batch* batch;",
    "how-to/c.md": "#include <stdio.h>\ndamacy_options* options; damacy_samples* samples; void train(const void*);",
    "how-to/stream-in-cpp.md": "std::vector<damacy::Sample> samples; bool more; void train(damacy::BatchView<float>);",
    "how-to/files-in-cpp.md": """
        void* pointer; std::uint64_t bytes, stream; std::vector<float> numbers;
        const damacy::FileMemory first = damacy::host_memory(numbers), second = first;""",
    "how-to/halo-in-cpp.md": """
        int rank; damacy::halo::Local transport(96); void *cuda_stream, *device_pointer;
        void send(std::span<const std::byte>); void receive(std::span<std::byte>);""",
    "reference/cpp.md": "#include <damacy/damacy.h>\n damacy::Config config; damacy::Pipeline pipeline(config);",
}


def blocks(language: str) -> dict[str, list[str]]:
    found = {page: re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S) for page, text in PAGES.items()}
    return {page: programs for page, programs in found.items() if programs}


def lines_of_the_readme(row: str) -> str:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(rf"^\| {re.escape(row)} \| (`.+`) \|", readme, re.M)
    return "\n".join(line.strip("`") for line in code.split("<br>")) + "\n"


def translation_unit(pages: dict[str, list[str]]) -> str:
    """The includes of all pages, then a function for each. A block is within the braces of the one before it."""
    texts = {page: "{\n".join([GIVEN.get(page, ""), *programs]) for page, programs in pages.items()}
    includes = sorted({line for text in texts.values() for line in INCLUDE.findall(text)})
    functions = [
        f"int page_{number}(void) {{\n{INCLUDE.sub('', text)}\nreturn 0;\n{'}' * (len(pages[page]) + 1)}"
        for number, (page, text) in enumerate(texts.items())
    ]
    return "\n".join([*includes, *functions])


def check(command: list[str], text: str) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]}")
    ran = subprocess.run(
        [*command, "-fsyntax-only", f"-I{ROOT / 'src'}", "-"], input=text, capture_output=True, text=True, timeout=100
    )
    assert ran.returncode == 0, ran.stderr[:4000]


def test_the_cpp_of_the_pages_compiles():
    pages = blocks("cpp") | {"README.md": [lines_of_the_readme("C++")]}
    assert len(pages) == 7
    check(["c++", "-std=c++20", "-x", "c++"], translation_unit(pages))


def test_the_c_of_the_pages_compiles():
    pages = blocks("c") | {"the README's C": [lines_of_the_readme("C")]}
    assert len(pages) == 2
    check(["cc", "-std=c11", "-x", "c"], translation_unit(pages))


def test_the_fortran_of_the_pages_calls_what_there_is():
    sources = "".join(path.read_text() for path in (ROOT / "examples/fortran").glob("*.f90"))
    there = set(re.findall(r"(?:subroutine|function|module) (\w+)", sources))
    for page, programs in blocks("fortran").items():
        for program in programs:
            used = set(re.findall(r"(?:call|use) (\w+)", program)) | set(re.findall(r"\b(damacy_\w+)\(", program))
            assert len(used) > 3
            assert used - there == set(), page
