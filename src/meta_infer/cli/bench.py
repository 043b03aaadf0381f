"""`meta-infer bench`: how long one run of a package takes, on this machine or on a board."""

from __future__ import annotations

from typing import Annotated

import typer

from meta_infer.cli.run import DeviceName, Dims, InputFiles, PackageFile, RandomInputs, Seed, TargetName, Threads
from meta_infer.cli.screen import show, show_json
from meta_infer.support.errors import UsageError

DURATION = 3.0
FIGURES = ("min", "mean", "p50", "p90", "p99", "max")


def bench(
    package: PackageFile,
    threads: Threads = None,
    target: TargetName = None,
    device: DeviceName = "local",
    warmup: Annotated[int, typer.Option(help="Runs before timing begins.", min=0)] = 5,
    iterations: Annotated[int | None, typer.Option(help="Time this many runs.", min=1,
                                                   show_default="as many as fit --duration")] = None,
    duration: Annotated[float | None, typer.Option(help="Time runs for this many seconds.", min=0.0,
                                                   show_default=f"{DURATION:g}")] = None,
    inputs: InputFiles = None,
    random: RandomInputs = False,
    dim: Dims = None,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; times in seconds.")] = False,
) -> None:
    """Measure latency, throughput and peak memory of a package.

    Example: meta-infer bench model.bin --threads 1 --duration 5 --dim batch=4
    """
    from meta_infer.backends.cpu.on_board import BoardPackage, opened
    from meta_infer.cli.inputs import choose_inputs
    from meta_infer.cli.peak_memory import peak_rss_bytes
    from meta_infer.hardware.device import open_device
    from meta_infer.search.measure.interleave import summarize, timed_runs

    if iterations is not None and duration is not None:
        raise UsageError("cannot be combined", what="--iterations and --duration", hint="give one of them")
    length = DURATION if duration is None else duration
    with open_device(device) as board, opened(package, board, threads, target) as session:
        feeds, _ = choose_inputs(session.package, inputs or [], dim or [], random, seed)
        if isinstance(session, BoardPackage):
            times, used, isa = session.timed_runs(feeds, warmup, iterations, length), session.threads, session.isa
        else:
            times = timed_runs(lambda: session.run(None, feeds), warmup, iterations, length)
            used, isa = session.threads, session.target.isa
    latency, peak = summarize(times), None if board else peak_rss_bytes()
    shapes = {name: list(a.shape) for name, a in feeds.items()}
    if as_json:
        show_json({"package": str(package), "device": device, "threads": used, "target": isa,
                   "warmup": warmup, "inputs": shapes,
                   "latency_seconds": {key: getattr(latency, key) for key in FIGURES},
                   "runs": latency.count, "runs_per_second": latency.per_second, "peak_rss_bytes": peak})
        return
    from rich.text import Text

    from meta_infer.report.plain_table import plain_table
    from meta_infer.report.units import bytes_text, seconds_text

    table = plain_table("figure", "value", right=("value",))
    for key in FIGURES:
        table.add_row(key, seconds_text(getattr(latency, key)))
    table.add_row("runs per second", f"{latency.per_second:.1f}")
    if peak is not None:
        table.add_row("peak memory of the process", bytes_text(peak))
    show(Text(f"{package}: {latency.count} runs with {used} thread{'s' if used > 1 else ''}, inputs "
              + ", ".join(f"{n} {'x'.join(map(str, s)) or 'scalar'}" for n, s in shapes.items())), "", table)
