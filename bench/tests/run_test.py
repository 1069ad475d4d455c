"""The parts that compute figures, and one whole run of the smallest size against the peers."""

import json
from pathlib import Path

import numpy as np
import pytest

from bench import ceilings, content, gpu_training, plain, run, worker, workload, writer
from bench.peers import LOADERS, Setting


@pytest.fixture(scope="module", autouse=True)
def data_in_a_folder_of_its_own(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("DAMACY_BENCH_DATA", str(tmp_path_factory.mktemp("data")))
    yield
    patch.undo()


def tiny(name: str, **other) -> Setting:
    setting = Setting(workload.scenario(name, "tiny"), threads=2, **other)
    writer.prepare(setting.scenario.arrays)
    return setting


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("name", ["default", "aligned", "coarse-34", "climate"])
@pytest.mark.parametrize("loader", ["tensorstore", "tensorstore-read", "zarr"])
def test_every_peer_makes_the_batches_of_the_crops(loader, name, dtype):
    setting = tiny(name, dtype=dtype)
    volumes = [content.make(*array.volume) for array in setting.scenario.arrays]
    wanted = setting.scenario.first_batches(3)
    opened = LOADERS[loader](setting)
    opened.open()
    for crops, batch in zip(wanted, opened.batches(wanted), strict=True):
        for row, (array, box) in zip(opened.as_array(batch), crops, strict=True):
            expected = volumes[array][tuple(slice(a, b) for a, b in box)].astype(setting.numpy_dtype)
            np.testing.assert_array_equal(row.view("u1"), expected.view("u1"))
    opened.close()


def test_survey_counts_the_touched_blocks_of_a_blosc_chunk(tmp_path):
    array = workload.scenario("coarse-4").arrays[0]  # chunks of 128 cubed, 2 bytes: a plane is 32 KiB
    header = bytes([2, 1, 1, 2]) + np.array([128**3 * 2, 256 << 10, 1000], "<u4").tobytes()
    (tmp_path / "chunk").write_bytes(header)
    chunk = writer.StoredChunk(tmp_path / "chunk", 0, 1000)
    eight_planes = ((128, 136), (0, 128), (0, 128))  # block 0 of cell (1, 0, 0)
    across_a_border = ((135, 137), (5, 6), (7, 8))  # blocks 0 and 1
    last_voxel = ((255, 256), (127, 128), (127, 128))  # block 15
    for boxes, blocks in [([eight_planes], 1), ([across_a_border], 2), ([eight_planes, last_voxel], 2)]:
        assert ceilings.needed_share(chunk, (1, 0, 0), boxes, array) == blocks / 16


def test_survey_agrees_with_the_count_of_chunks():
    setting = tiny("default")
    work, chunks = ceilings.survey(setting, max_batches=3)
    counts = workload.count_chunks(setting.scenario, 3)
    assert (work.touches, work.distinct) == (counts["touches"], counts["distinct"])
    assert work.decoded_bytes == work.distinct * setting.scenario.arrays[0].chunk_bytes
    assert len(set(chunks)) == len(chunks) <= work.distinct


def test_the_times_of_stages_add_up():
    work = ceilings.Work(out_bytes=400, needed_stored_bytes=100, needed_decoded_bytes=200)
    one = {"wall": 1.0, "core": 1.0}
    found = ceilings.in_batches({"read": one, "decode": one, "cast_write": one}, work, threads=2)
    assert found["wall"] == {"read": 4.0, "decode": 2.0, "cast_write": 1.0, "all": 1 / (1 / 4 + 1 / 2 + 1)}
    assert found["cores"]["decode"] == 4.0
    assert found["binding"] == "cast_write"


def test_with_a_gpu_the_slowest_of_reads_bus_and_device_is_the_bottleneck():
    work = ceilings.Work(out_bytes=400, needed_stored_bytes=100, needed_decoded_bytes=200)
    one = {"wall": 1.0, "core": 1.0}
    rates = {"read": one, "decode": one, "cast_write": one, "h2d": 0.5, "device_copy": 30.0}
    found = ceilings.in_batches(rates, work, threads=2)
    assert (found["wall"]["h2d"], found["wall"]["place"]) == (2.0, 20.0)
    assert (found["binding"], found["wall"]["all"]) == ("h2d", 2.0)


def test_plain_tables_line_up_and_lose_the_markup(capsys):
    table = plain.Table(title="rates")
    table.add_column("name")
    table.add_column("GB/s")
    table.add_row("ours", "1.5")
    plain.Console().print(table)
    plain.Console().print("[bold red]wrong[/bold red] [dim]text[/dim] [kept]")
    assert capsys.readouterr().out == "rates\nname  GB/s\nours   1.5\nwrong text [kept]\n"


def test_ratios_pair_the_repetitions():
    def rounds(*rates):
        return [{"bytes": rate, "wall_s": 1, "cpu_s": 2} for rate in rates]

    found = run.ratios({"damacy": rounds(10, 40, 90), "zarr": rounds(10, 20, 30)})
    assert found == {"zarr": {"wall": 2.0, "cpu": 2.0}}


def test_latencies_are_those_between_batches_of_all_repetitions():
    times = run.between_batches([{"gaps_s": [9.0, 1.0, 2.0]}, {"gaps_s": [8.0, 3.0, 4.0]}, {"gaps_s": [5.0]}])
    assert times == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert [run.percentile(times, share) for share in (0.01, 0.5, 0.8, 0.99)] == [1.0, 3.0, 4.0, 5.0]
    assert run.percentile([float(k) for k in range(1, 201)], 0.99) == 198.0


def test_processor_time_is_compared_with_reading_as_many_bytes():
    rates = {"read_to_staging": {"cpu_s_per_byte": 0.5}}
    rounds = [{"cpu_s": cpu, "counters": {"bytes_read": 10}} for cpu in (5.0, 6.5, 9.0)]
    assert run.cpu_over_reading(rounds, rates) == 1.3
    assert run.cpu_over_reading([{"cpu_s": 1.0, "counters": {}}], rates) is None


def test_reading_to_staging_cycles_through_its_memory(tmp_path):
    (tmp_path / "chunk").write_bytes(bytes(range(100)))
    chunks = [writer.StoredChunk(tmp_path / "chunk", at, 10) for at in (0, 50, 90)]
    assert [ceilings.reading(chunks, staging)() for staging in (0, 25, 1000)] == [30, 30, 30]


def test_a_slowdown_is_relative_to_the_same_repetition():
    found = gpu_training.summary({"alone": [1.0, 2.0, 4.0], "fed": [1.1, 2.0, 6.0]}, steps=10, batch_bytes=100)
    assert found["alone"]["slowdown"] == 0 and found["alone"]["bytes_per_s"] == 0
    assert found["fed"]["slowdown"] == pytest.approx(0.1)
    assert (found["fed"]["step_s"], found["fed"]["bytes_per_s"]) == (0.2, 500.0)


@pytest.mark.timeout(300)
def test_a_training_loop_gets_batches_if_torch_is_installed(tmp_path):
    pytest.importorskip("torch")
    small = "--size tiny --device cpu --threads 1 --width 64 --seconds 0.2 --gb-per-s 0.05 --reps 1 --limit 1e9"
    gpu_training.main([*small.split(), "--buffer-bytes", str(64 << 20), "--out", str(tmp_path / "training.json")])
    result = json.loads((tmp_path / "training.json").read_text())
    assert {"alone", "fed", "copied"} <= set(result) and result["fed"]["bytes_per_s"] > 0


def test_a_slow_loader_starts_no_batch_after_its_time():
    assert list(worker.until(0.0, ["first", "second"])) == ["first"]
    assert list(worker.until(float("inf"), ["first", "second"])) == ["first", "second"]


def test_values_of_configuration_fields_are_read_as_people_write_them():
    options = run.parse(["--set", "host_buffer_bytes=2<<30", "--set", "verify=whole", "--set", "n_batches=3"])
    assert options.config == {"host_buffer_bytes": 2 << 30, "verify": "whole", "n_batches": 3}


@pytest.mark.timeout(300)
def test_a_run_of_the_peers_leaves_a_result(tmp_path):
    out = tmp_path / "result.json"
    run.main(["--scenario", "smoke", "--size", "tiny", "--no-ours", "--reps", "1", "--out", str(out)])
    result = json.loads(Path(out).read_text())
    (measured,) = result["scenarios"]
    assert measured["equal"] == {"tensorstore": True, "tensorstore-read": True, "zarr": True}
    assert all(loader["bytes_per_s"] > 0 for loader in measured["loaders"].values())
    assert measured["ceilings"]["wall"]["decode"] > 0
    assert result["machine"]["cores"] > 0
