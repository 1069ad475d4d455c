"""Each interface in ARCHITECTURE.md's table of seams has a conformance suite, which implementations join."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = re.search(r"^## Seams\n(.*?)^Each has a suite", (ROOT / "ARCHITECTURE.md").read_text(), re.M | re.S)
INTERFACES = re.findall(r"^\| `(\w+)`", TABLE[1] if TABLE else "", re.M)


def snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def test_the_table_is_found():
    assert len(INTERFACES) > 5


@pytest.mark.parametrize("interface", INTERFACES)
def test_every_seam_has_a_suite_that_is_used(interface):
    suite = f"conformance/{snake(interface)}_suite.h"
    assert f"class {interface}Suite" in (ROOT / "tests" / suite).read_text()
    tests = [p for folder in ("src", "tests") for p in (ROOT / folder).rglob("*_test.c*")]
    users = [p.read_text() for p in tests]
    joined = [line for text in users for line in re.findall(rf"INSTANTIATE\w+\(\w+, {interface}Suite\b", text)]
    assert len(joined) > 0, f"no implementation joins {suite}"


@pytest.mark.parametrize("interface", INTERFACES)
def test_the_interfaces_header_names_its_suite(interface):
    suite = f"tests/conformance/{snake(interface)}_suite.h"
    headers = [p for p in (ROOT / "src" / "damacy").rglob("*.h") if f"class {interface} {{" in p.read_text()]
    assert [p.name for p in headers if suite in p.read_text()] != [], f"no header of {interface} names {suite}"
