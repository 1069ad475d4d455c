"""What `stats()`, `explain()` and the log say of requests: exact counts, held against what the server was sent."""

import re
import threading
import time

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")

from support.fault_server import FaultServer, cut, silent, status  # noqa: E402

DATA = np.random.default_rng(0).integers(0, 60000, (32, 80, 80), dtype="u2")
CROPS = [[(0, 16), (0, 80), (0, 80)], [(16, 32), (0, 80), (0, 80)]]


@pytest.fixture
def server(tmp_path):
    zarr.create_array(tmp_path / "plain.zarr", data=DATA, chunks=(16, 80, 80))
    with FaultServer(tmp_path) as server:
        yield server


def config(**fields):
    memory = {"host_buffer_bytes": 64 << 20, "device_buffer_bytes": 64 << 20}
    return damacy.Config(**{"batch_size": 2, "device": "cpu", "dtype": "u16", **memory, **fields})


def read(pipeline, uri):
    pipeline.push([damacy.Sample(uri, crop) for crop in CROPS])
    with pipeline.pop() as batch:
        np.testing.assert_array_equal(batch.numpy(), DATA.reshape(2, 16, 80, 80))


def of_data(faults):
    """Faults of the requests for chunks, by their number."""
    seen = 0

    def apply(request, answer):
        nonlocal seen
        if "/c/" not in request.path:
            return
        seen += 1
        if seen in faults:
            faults[seen](request, answer)

    return apply


def test_requests_are_counted_as_the_server_saw_them(server):
    uri = f"{server.url}/plain.zarr"
    with damacy.Pipeline(config()) as pipeline:
        assert pipeline.stats().requests == 0 and pipeline.stats().first_byte.count == 0
        read(pipeline, uri)
        stats = pipeline.stats()
        assert stats.requests == len(server.requests) == stats.first_byte.count
        assert stats.connections_opened == server.connections
        assert stats.bytes_received >= sum(
            path.stat().st_size for path in (server.folder / "plain.zarr/c").rglob("0") if path.is_file()
        )
        assert (stats.requests_repeated, stats.requests_throttled, stats.documents_revalidated) == (0, 0, 0)
        assert stats.requests_in_flight == 0
        assert 0 < stats.first_byte.best_ms <= stats.first_byte.ms
        text = pipeline.explain().text
        assert re.search(
            r"network: \d+ MB/s; \d+ of 256 requests; first byte \d+ ms \(p99 \d+ ms\); 0 % repeated", text
        )
        assert "network" in [stage.name for stage in pipeline.explain().stages]
        pipeline.stats_reset()
        assert pipeline.stats().requests == 0 and pipeline.stats().bytes_received == 0
    assert pipeline.stats().requests == 0


def test_local_files_have_no_requests(tmp_path, server):
    with damacy.Pipeline(config()) as pipeline:
        read(pipeline, str(tmp_path / "plain.zarr"))
        assert pipeline.stats().requests == 0
        assert "network" not in pipeline.explain().text


def test_repeats_and_refusals_are_counted(server):
    server.reset(of_data({1: status("503 Slow Down", Retry_After="0"), 2: status("429 Too Many", Retry_After="0")}))
    with damacy.Pipeline(config()) as pipeline:
        read(pipeline, f"{server.url}/plain.zarr")
        stats = pipeline.stats()
    assert (stats.requests_throttled, stats.requests_repeated) == (2, 2)
    assert stats.requests == len(server.requests)


def test_a_body_that_is_cut_is_continued_and_counted_once(server):
    server.reset(of_data({1: cut(1000)}))
    with damacy.Pipeline(config()) as pipeline:
        read(pipeline, f"{server.url}/plain.zarr")
        stats = pipeline.stats()
    assert stats.requests_repeated == 1 and stats.requests == len(server.requests)


@pytest.mark.parametrize(("gap", "reads"), [(None, 1), (0, 3), (1023, 3), (1024, 2), (1 << 20, 2)])
def test_reads_that_are_as_near_as_gap_bytes_become_one_request(tmp_path, gap, reads):
    """Of chunks of 1 KiB in one shard 0 to 5, 7 and 12 are wanted. A gap of 1 KiB is an eighth of what is read; with
    the gap of 4 KiB more than a quarter would be."""
    data = np.random.default_rng(1).integers(0, 60000, 16 * 512, dtype="u2")
    zarr.create_array(tmp_path / "a.zarr", data=data, chunks=(512,), shards=(8192,), compressors=None)
    places = [0, 512, 1024, 1536, 2048, 2560, 3584, 6144]
    with FaultServer(tmp_path) as server:
        damacy.mount(f"{server.url}/", damacy.StoreOptions(gap_bytes=gap))
        with damacy.Pipeline(config(batch_size=8)) as pipeline:
            pipeline.push([damacy.Sample(f"{server.url}/a.zarr", [(at, at + 512)]) for at in places])
            with pipeline.pop() as batch:
                np.testing.assert_array_equal(batch.numpy(), [data[at : at + 512] for at in places])
            stats = pipeline.stats()
    assert stats.reads_issued == reads
    assert stats.requests == len(server.requests)
    assert stats.bytes_read == (8 if gap in (0, 1023) else 9 if gap else 13) * 1024


def test_two_pipelines_count_for_themselves(server):
    uri = f"{server.url}/plain.zarr"
    with damacy.Pipeline(config()) as one, damacy.Pipeline(config()) as other:
        read(one, uri)
        assert other.stats().requests == 0
        of_one = one.stats().requests
        read(other, uri)
        assert (one.stats().requests, other.stats().requests) == (of_one, len(server.requests) - of_one)


def test_what_is_too_old_is_asked_for_again_by_its_tag(server):
    uri = f"{server.url}/plain.zarr"
    damacy.mount(f"{server.url}/", damacy.StoreOptions(revalidate_s=0))
    with damacy.Pipeline(config()) as pipeline:
        read(pipeline, uri)
        before = pipeline.stats()
        read(pipeline, uri)
        after = pipeline.stats()
    assert after.documents_revalidated > before.documents_revalidated
    conditional = [request for request in server.requests if "if-none-match" in request.headers]
    assert len(conditional) == after.documents_revalidated
    assert any(request.path.endswith("zarr.json") for request in conditional)


@pytest.fixture
def many(tmp_path):
    """80 chunks, a server of them, and what reads chunks of it in one pipeline with hedging. Answers take so long that
    a busy machine makes few of them late by several times as much."""
    data = np.random.default_rng(2).integers(0, 60000, (80, 512), dtype="u2")
    zarr.create_array(tmp_path / "many.zarr", data=data, chunks=(1, 512))
    with FaultServer(tmp_path, delay=0.15) as server:
        damacy.mount(f"{server.url}/", damacy.StoreOptions(hedge="on"))
        with damacy.Pipeline(config(batch_size=40)) as pipeline:

            def read_rows(rows):
                pipeline.push([damacy.Sample(f"{server.url}/many.zarr", [(r, r + 1), (0, 512)]) for r in rows])
                pipeline.flush()
                with pipeline.pop() as batch:
                    np.testing.assert_array_equal(batch.numpy()[:, 0], data[list(rows)])

            yield server, pipeline, read_rows


def first_of(part, fault):
    """A fault of the first request for a key, and how often it was asked for."""
    seen = []

    def apply(request, answer):
        if request.path.endswith(part):
            seen.append(request)
            if len(seen) == 1:
                fault(request, answer)

    return apply, seen


def test_a_request_that_is_not_answered_is_sent_once_more(many):
    server, pipeline, read_rows = many
    read_rows(range(40))
    fault, seen = first_of("/c/77/0", silent)
    before = pipeline.stats()
    server.reset(fault)
    read_rows(range(40, 80))
    stats = pipeline.stats()
    hedged = stats.requests_hedged - before.requests_hedged  # a busy machine may be late, too
    assert len(seen) == 2 and hedged >= stats.hedges_won - before.hedges_won >= 1
    assert stats.requests - before.requests == 40 + hedged >= len(server.requests)  # a cancelled one may not have come
    assert stats.requests_repeated == 0 and stats.requests_in_flight == 0


def test_before_enough_is_known_nothing_is_sent_twice(many):
    server, pipeline, read_rows = many

    def late(request, answer):
        answer.delay = 0.3

    fault, seen = first_of("/c/0/0", late)
    server.reset(fault)
    read_rows(range(20))
    assert len(seen) == 1 and pipeline.stats().requests_hedged == 0


@pytest.mark.parametrize("fault", [status("500 Oops"), cut(10), status("412 Precondition Failed")])
def test_a_second_request_that_fails_changes_nothing(many, fault):
    server, pipeline, read_rows = many
    read_rows(range(40))
    seen = []

    def second_fails(request, answer):
        if request.path.endswith("/c/77/0"):
            seen.append(request)
            if len(seen) == 1:
                while len(seen) < 2 or not failed.wait(10):
                    if failed.wait(0.01):
                        break
            else:
                fault(request, answer)
                failed.set()

    failed = threading.Event()
    server.reset(second_fails)
    read_rows(range(40, 80))
    stats = pipeline.stats()
    assert len(seen) == 2 and stats.requests_hedged > stats.hedges_won
    assert stats.requests_repeated == 0


def test_close_cancels_both_requests(many):
    server, pipeline, read_rows = many
    read_rows(range(40))
    seen = []

    def never(request, answer):
        if request.path.endswith("/c/77/0"):
            seen.append(request)
            answer.silent = True

    server.reset(never)
    pipeline.push([damacy.Sample(f"{server.url}/many.zarr", [(r, r + 1), (0, 512)]) for r in range(40, 80)])
    deadline = time.monotonic() + 20
    while len(seen) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(seen) == 2
    begin = time.monotonic()
    pipeline.close()
    assert time.monotonic() - begin < 30


def test_without_hedging_a_late_request_is_sent_once(server):
    def late(request, answer):
        if "/c/" in request.path:
            answer.delay = 0.2

    server.reset(late)
    with damacy.Pipeline(config()) as pipeline:
        read(pipeline, f"{server.url}/plain.zarr")
        assert pipeline.stats().requests_hedged == 0
        assert pipeline.stats().requests == len(server.requests)


def test_at_debug_level_each_request_has_a_record(server, caplog, capfd):
    server.reset({1: status("503 Slow Down", Retry_After="0", x_amz_request_id="4442")})
    damacy.set_log_level(damacy.LOG_DEBUG)
    damacy.set_log_quiet(True)
    try:
        with caplog.at_level("DEBUG", logger="damacy"):
            array = damacy.open_array(f"{server.url}/plain.zarr")
            np.testing.assert_array_equal(array[:], DATA)
            deadline = time.monotonic() + 10
            lines = []
            while len(lines) < len(server.requests) and time.monotonic() < deadline:
                time.sleep(0.01)
                lines = [line for line in caplog.messages if ": attempt " in line]
    finally:
        damacy.set_log_level(damacy.LOG_FATAL)
        damacy.set_log_quiet(False)
    times = r"\((name [\d.]+, connected [\d.]+, )?first byte [\d.]+\)"
    read = r"attempt \d: GET bytes \d+-\d+: \d+, [\d.]+ (B|KiB) in [\d.]+ ms"
    pattern = rf"{server.url}/plain\.zarr: [\w./]+: {read} {times}(, request \w+)?"
    assert len(lines) == len(server.requests)
    assert all(re.fullmatch(pattern, line) for line in lines), lines
    assert re.search(r"attempt 1: GET bytes 0-65535: 503, 0 B in [\d.]+ ms \(name .*\), request 4442$", lines[0])
    assert ": attempt 2: " in lines[1]
    assert capfd.readouterr().err == ""


def test_without_debug_level_no_request_has_a_record(server, caplog):
    with caplog.at_level("DEBUG", logger="damacy"):
        array = damacy.open_array(f"{server.url}/plain.zarr")
        np.testing.assert_array_equal(array[:], DATA)
        array[0, 0, 0]
    assert not [line for line in caplog.messages if ": attempt " in line]
