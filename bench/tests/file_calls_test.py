from bench.file_calls.__main__ import verdicts

KIB = 1 << 10


def row(library, size, device="cuda", **said):
    return {"arm": library, "library": library, "device": device, "calls": "pread", "bytes": size, "cold": False} | said


def test_rates_into_a_gpu_are_judged_with_the_best_number_of_threads():
    rows = [
        row("damacy", 64 * KIB, threads=1, gb_per_s=9.0),
        row("damacy", 64 * KIB, threads=16, gb_per_s=10.5),
        row("C++", 64 * KIB, threads=16, gb_per_s=24.0),
        row("damacy", 4 * KIB, threads=1, gb_per_s=0.9, cold=True),
        row("damacy", 4 * KIB, threads=1, gb_per_s=0.9) | {"calls": "gather"},
        row("damacy", 4 * KIB, threads=1),  # failed
        row("kvikio", 64 * KIB, threads=16, gb_per_s=5.0),
        row("damacy", 16 * KIB, threads=16, gb_per_s=5.0),
    ]
    assert [(v["arm"], v["threads"], v["must_reach"], v["holds"]) for v in verdicts(rows)] == [
        ("damacy", 16, 10.0, True),
        ("C++", 16, 25.0, False),
    ]


def test_rates_into_host_memory_are_judged_by_the_loop_with_as_many_threads():
    rows = [
        row("os.preadv", 4 * KIB, "cpu", threads=1, gb_per_s=1.0, over_first=1.0),
        row("damacy", 4 * KIB, "cpu", threads=1, gb_per_s=1.0, over_first=1.01),
        row("damacy", 64 * KIB, "cpu", threads=2, gb_per_s=1.0, over_first=0.66),
    ]
    assert [(v["threads"], v["over_first"], v["holds"]) for v in verdicts(rows)] == [(1, 1.01, True), (2, 0.66, False)]
