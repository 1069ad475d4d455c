"""`damacy bench`: a group of benchmarks. The default one reads crops of an array; others register with `app.command`.

Parses options and shows results; `bench_crops` does the measuring."""

from __future__ import annotations

import pathlib
from typing import Annotated, Any

import rich.markup
import rich.table
import typer
import typer.core

import damacy
from damacy._cli import bench_crops, bench_page
from damacy._cli.console import (
    AsJson,
    Threads,
    extents,
    fail,
    fields_table,
    out,
    print_json,
    progress_bar,
    refuse,
    report_failures,
)
from damacy._cli.output import written_whole
from damacy._core.sizes import size_text


class _DefaultCommand(typer.core.TyperGroup):
    """A command group that runs `crops` if the first word is not the name of a command."""

    def parse_args(self, context: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = ["crops", *args]
        return super().parse_args(context, args)


app = typer.Typer(
    cls=_DefaultCommand,
    no_args_is_help=True,
    help="Measure this machine. `damacy bench URI` measures crops of an array, as `damacy bench crops URI` does.",
)


@app.callback()
def group() -> None:
    """Makes typer treat `bench` as a group although only one command may be registered."""


@app.command("crops")
def crops(
    uri: Annotated[str | None, typer.Argument(help="Path or uri of an array or an image.")] = None,
    synthetic: Annotated[
        bool, typer.Option("--synthetic", help="Write an image and read that one; needs zarr.")
    ] = False,
    folder: Annotated[pathlib.Path, typer.Option(help="Where --synthetic keeps its image.")] = pathlib.Path(
        "damacy-bench"
    ),
    crop: Annotated[str, typer.Option(help="Shape of a crop, such as 64,256,256; by default about 1 MiB.")] = "",
    batch: Annotated[int, typer.Option(min=1, help="Crops in a batch.")] = 8,
    seconds: Annotated[float, typer.Option(min=0.01, max=3600, help="How long each measurement lasts.")] = 3.0,
    threads: Threads = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    peers: Annotated[bool, typer.Option(help="Also measure tensorstore and zarr, if installed.")] = True,
    html: Annotated[
        pathlib.Path | None, typer.Option("--html", help="Also write the result to this HTML file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Stream random crops of an array; show time by stage, upper bounds of this machine, other readers, and advice."""
    if (uri is None) != synthetic:
        refuse("name either a URI or --synthetic", as_json)
    if uri is None:
        with report_failures(folder, as_json):
            uri = _synthetic(folder, as_json)
    try:
        setting = bench_crops.setting(uri, _numbers(crop), batch, seconds, threads, device)
    except damacy.DamacyError as error:
        fail(error, as_json)
    except ValueError as error:
        refuse(str(error), as_json)
    steps = bench_crops.steps(setting, peers)
    try:
        with progress_bar(as_json) as progress:
            task = progress.add_task("bench", total=len(steps))
            report = bench_crops.Report(setting)
            for name, step in steps:
                progress.update(task, description=name)
                step(report)
                progress.advance(task)
    except damacy.DamacyError as error:
        fail(error, as_json)
    if html is not None:
        with report_failures(html, as_json), written_whole(html) as file:
            file.write(bench_page.page(report).encode())
    if as_json:
        print_json(report.as_dict())
    else:
        _show(report)


def _synthetic(folder: pathlib.Path, as_json: bool) -> str:
    try:
        from damacy import synthetic
    except ModuleNotFoundError as missing:
        refuse(f"a synthetic image needs the package {missing.name}: pip install {missing.name}", as_json)
    path = folder / "synthetic.zarr"
    if not path.exists():
        unfinished = folder / "unfinished.zarr"
        synthetic.write_image(unfinished, (64, 768, 768))
        unfinished.rename(path)
    return str(path)


def _numbers(text: str) -> tuple[int, ...] | None:
    try:
        return tuple(int(part) for part in text.split(",")) if text else None
    except ValueError:
        raise ValueError(f"--crop: expected integers such as 64,256,256 (got {text!r})") from None


def _show(report: bench_crops.Report) -> None:
    setting = report.setting
    what = f"{setting.uri}: crops of {extents(setting.crop)}, batches of {setting.batch}, {setting.threads} threads"
    out.print(rich.markup.escape(f"{what}, {setting.device}"), soft_wrap=True)
    out.print(_stage_table(report))
    out.print(_rate_table(report))
    table = fields_table()
    for line in report.advice():
        table.add_row("•", rich.markup.escape(line))
    out.print(table)


def _stage_table(report: bench_crops.Report) -> rich.table.Table:
    """Times are summed over the threads of a stage. A rate is the output of one thread."""
    table = rich.table.Table(title="stages", title_justify="left")
    table.add_column("stage")
    for name in ("times", "busy ms", "in", "out", "out/s a thread"):
        table.add_column(name, justify="right")
    for name, metric in report.stages.items():
        rate = metric.output_bytes / metric.ms * 1e3 if metric.ms and metric.output_bytes else 0
        table.add_row(
            name,
            f"{metric.count:,}",
            f"{metric.ms:,.1f}",
            size_text(metric.input_bytes),
            size_text(metric.output_bytes),
            f"{size_text(rate)}/s" if rate else "–",
        )
    return table


def _rate_table(report: bench_crops.Report) -> rich.table.Table:
    table = rich.table.Table(title="rates, in bytes of finished float32 batches", title_justify="left")
    table.add_column("what")
    for name in ("bytes/s", "crops/s", "share"):
        table.add_column(name, justify="right")
    rows: dict[str, Any] = {"damacy": report.bytes_per_s}
    rows |= {f"ceiling: {name}": rate for name, rate in report.ceilings.items()} | report.peers
    for name, rate in rows.items():
        if isinstance(rate, str):
            table.add_row(name, rich.markup.escape(rate), "", "")
        else:
            share = report.bytes_per_s / rate
            table.add_row(name, f"{size_text(rate)}/s", f"{rate / report.setting.crop_bytes:,.0f}", f"{share:.2f}")
    table.caption = "share: damacy's rate divided by this one"
    return table
