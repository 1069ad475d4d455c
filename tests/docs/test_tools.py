"""What tools say about sources is true: each line that a fault is planted into is there. Plants none."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import plant_faults  # noqa: E402
import plant_halo_faults  # noqa: E402
from planting import ROOT, Fault  # noqa: E402


def test_the_lines_that_faults_are_planted_into_are_there():
    faults = [*plant_faults.faults(), *(Fault(name, *what) for name, what in plant_halo_faults.FAULTS.items())]
    assert len(faults) > 20
    assert [fault for fault in faults if fault.stands not in (ROOT / fault.file).read_text()] == []
