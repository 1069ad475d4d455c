"""The ways of a sample and of a single read in docs/reference/units.md name units that exist, and their totals are
those of their tables."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reference/units.md").read_text()
ROW = re.compile(r"^\| (\d+) \|([^|]*)\|[^|]*\|([^|]*)\|", re.M)
TOTAL = re.compile(r"^On (the cores|a GPU): (\d+) units, (\d+) hand-overs\.", re.M)


Ways = dict[str, tuple[int, int, list[tuple[int, list[str]]]]]


@pytest.fixture(params=["a sample", "a single read"])
def ways(request: pytest.FixtureRequest) -> Ways:
    """By place: the totals for units and hand-overs, and the units of each step."""
    section = PAGE.split(f"## The way of {request.param}\n", 1)[1].split("\n## ", 1)[0]
    found = list(TOTAL.finditer(section))
    ends = [match.start() for match in found[1:]] + [len(section)]
    return {
        match[1]: (
            int(match[2]),
            int(match[3]),
            [(int(row[1]), re.findall(r"`([^`]+)`", row[3])) for row in ROW.finditer(section[match.end() : end])],
        )
        for match, end in zip(found, ends, strict=True)
    }


def test_each_unit_exists(ways: Ways) -> None:
    named = {unit for _, _, steps in ways.values() for _, units in steps for unit in units}
    assert len(named) > 30
    assert sorted(unit for unit in named if not (ROOT / f"src/damacy/{unit}.h").is_file()) == []


def test_the_totals_are_those_of_the_tables(ways: Ways) -> None:
    units, hand_overs, cores = ways["the cores"]
    assert [step for step, _ in cores] == list(range(1, len(cores) + 1))
    assert (len({unit for _, of_step in cores for unit in of_step}), len(cores) - 1) == (units, hand_overs)
    units, hand_overs, gpu = ways["a GPU"]
    shared = cores[: gpu[0][0] - 1]
    assert [step for step, _ in gpu] == list(range(len(shared) + 1, len(shared) + len(gpu) + 1))
    assert len({unit for _, of_step in shared + gpu for unit in of_step}) == units
    assert len(shared) + len(gpu) - 1 == hand_overs
