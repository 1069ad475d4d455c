"""The page on atomics names each one that has an explicit memory order."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
CALL = re.compile(
    r"(\w+)(?:\[[^\]]*\]|\))?(?:\.|->)"
    r"(?:load|store|exchange|wait|fetch_\w+|compare_exchange_\w+)\([^;]*?memory_order_"
)


def ordered_atomics() -> set[tuple[str, str]]:
    found = set()
    for folder in ("src", "python/bindings"):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix not in {".h", ".cpp", ".cu", ".cuh"} or file.stem.endswith("_test"):
                continue
            text = file.read_text()
            calls = CALL.findall(text)
            assert bool(calls) == ("memory_order_" in text), f"{file}: an order that this test cannot attribute"
            found |= {(file.relative_to(ROOT).as_posix(), name) for name in calls}
    return found


# A parameter is replaced by its argument.
STANDS_FOR = {"held_": "reserving_", "count": "IoCounters"}


def test_the_page_on_atomics_names_each_with_an_explicit_order():
    page = (ROOT / "docs/design/memory-order.md").read_text()
    named = {word for code in re.findall(r"`([^`\n]+)`", page) for word in re.findall(r"\w+", code)}
    atomics = ordered_atomics()
    assert len(atomics) > 20
    assert [(file, name) for file, name in sorted(atomics) if STANDS_FOR.get(name, name) not in named] == []
