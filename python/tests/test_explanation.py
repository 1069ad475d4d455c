"""`Pipeline.explain()` counts what a cache would hold, and is printed with a bar for each stage."""

import contextlib
import dataclasses
import io

import numpy as np
import pytest

import damacy

zarr = pytest.importorskip("zarr")


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_what_a_cache_would_hold_is_measured_also_without_one(tmp_path, cache_bytes):
    path = tmp_path / "a.zarr"
    array = zarr.create_array(path, shape=(8, 8), chunks=(4, 4), dtype="i4", compressors=None, fill_value=0)
    array[:4] = np.arange(1, 33).reshape(4, 8)  # two chunks; the other two are missing
    config = damacy.Config(
        batch_size=1, device="cpu", n_io_threads=1, host_buffer_bytes=1 << 20, device_buffer_bytes=1 << 20,
        cache_bytes=cache_bytes,
    )  # fmt: skip
    with damacy.Pipeline(config) as pipeline:
        assert pipeline.explain().wanted_again == 0
        pipeline.push([damacy.Sample(path, [(0, 8), (0, 8)])] * 4)
        for batch in pipeline.batches(4):
            batch.release()
        found = pipeline.explain()
        assert (found.encoded_bytes, found.decoded_bytes) == (2 * 64, 2 * 64)
        assert found.wanted_again == 0.75
        pipeline.stats_reset()
        pipeline.push([damacy.Sample(path, [(0, 8), (0, 8)])])
        pipeline.pop().release()
        assert (pipeline.explain().wanted_again, pipeline.explain().encoded_bytes) == (0, 2 * 64)
    assert pipeline.explain().encoded_bytes == 2 * 64  # also after close


FOUND = damacy.Explanation(
    binds="read",
    share=0.94,
    bytes_per_s=1.02e9,
    consumer_waited=0.8,
    stages=(
        damacy.StageLoad("plan", 0.0, 0.0),
        damacy.StageLoad("read", 0.94, 1.085e9),
        damacy.StageLoad("decode", 1.2, 8.5e8),
    ),
    advice="more readers: n_io_threads=4 (now 2)",
    text="1.02 GB/s over 3 s: the bottleneck is read, at 94 % of its measured ceiling. "
    "What would help: more readers: n_io_threads=4 (now 2). Busy: plan 0 %, read 94 %, decode 120 %; "
    "the consumer waited 80 % of the time. network: 412 MB/s; 96 of 256 requests.",
)
PRINTED = """\
1.02 GB/s over 3 s: the bottleneck is read, at 94 % of its measured ceiling.
  plan    ..............................   0 %
> read    ############################..  94 %  at most 1.1 GB/s
  decode  ############################## 120 %  at most 850 MB/s
pop waited 80 % of the time.
What would help: more readers: n_io_threads=4 (now 2).
network: 412 MB/s; 96 of 256 requests."""


def printed(encoding):
    raw = io.BytesIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(raw, encoding=encoding)) as out:
        print(FOUND)
        out.flush()
    return raw.getvalue().decode(encoding)


def test_it_is_printed_with_a_bar_for_each_stage():
    assert printed("ascii") == printed("latin-1") == PRINTED + "\n"
    assert printed("utf-8") == PRINTED.replace("#", "█").replace("." * 30, "░" * 30).replace("..", "░░") + "\n"
    assert repr(FOUND) == f"<damacy.Explanation: {FOUND.text}>" and "\n" not in repr(FOUND)


def test_in_a_notebook_it_is_a_table_with_escaped_texts():
    page = dataclasses.replace(FOUND, advice="<b>", text="a & b. What would help: <b>. Busy: 80 % of the time.")
    html = page._repr_html_()
    assert "<b>a &amp; b.</b>" in html and "What would help: &lt;b&gt;." in html
    assert html.count("<tr>") == 3 + 2 and "█" * 28 + "░░" in html and "&gt; read" in html


def test_before_the_first_batch_there_is_only_its_text():
    nothing = damacy.Explanation("nothing yet", 0, 0, 0, (), "none", "No batch was placed yet.")
    assert str(nothing) == "No batch was placed yet."
    assert "No batch was placed yet." in nothing._repr_html_()


def test_an_explanation_of_a_pipeline_has_all_its_stages(tmp_path):
    path = tmp_path / "a.zarr"
    zarr.create_array(path, shape=(8, 8), chunks=(4, 4), dtype="i4", fill_value=0)[:] = 1
    config = damacy.Config(batch_size=1, device="cpu", host_buffer_bytes=1 << 20, device_buffer_bytes=1 << 20)
    with damacy.Pipeline(config) as pipeline:
        pipeline.push([damacy.Sample(path, [(0, 8), (0, 8)])] * 4)
        for batch in pipeline.batches(4):
            batch.release()
        found = pipeline.explain()
    head, *lines = str(found).splitlines()
    assert found.text.startswith(head) and head.endswith((".", "%"))
    assert [line[2:].split()[0] for line in lines[:4]] == ["plan", "read", "decode", "place"]
    assert lines[4].startswith("pop waited ") and lines[5:] == [f"What would help: {found.advice}."]
