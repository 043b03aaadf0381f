"""`meta-infer hardware calibrate`: times kernels on this machine or a board, and fits the cost model to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meta_infer.cli.run import DeviceName
from meta_infer.cli.screen import note, show, show_json, warn
from meta_infer.support.errors import UsageError
from meta_infer.support.switches import read_switches

if TYPE_CHECKING:
    from meta_infer.search.calibrate.calibration import Calibration


def calibrate_machine(
    output: Annotated[Path | None, typer.Option(
        "--output", "-o", help="Write the profile to this file.",
        show_default="native.yaml in the cache, which --hardware native reads")] = None,
    seconds: Annotated[float, typer.Option(
        min=0.0, metavar="N", help="Begin nothing new after this long; the next run goes on.")] = 140.0,
    device: DeviceName = "local",
    fresh: Annotated[bool, typer.Option("--fresh", help="Time everything anew, also what is known.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; times in seconds, rates per second.")] = False,
) -> None:
    """Time kernels on this machine, or a board, and write a profile with the costs that were fitted to them.

    What was timed is kept: after Ctrl-C, or when the time is over, the next run goes on.

    Example: meta-infer hardware calibrate --output my_machine.yaml
    Example: meta-infer hardware calibrate --device ssh://pi@192.168.1.20 --output board.yaml
    """
    from contextlib import ExitStack
    from datetime import UTC, datetime

    from meta_infer.backends.cpu.toolchain import find_compiler
    from meta_infer.cli.profile_file import check_output, write_profile
    from meta_infer.cli.progress import counted
    from meta_infer.hardware.device import open_device, parse_device
    from meta_infer.hardware.load import NATIVE, calibrated_file, load_profile
    from meta_infer.library.store import Library
    from meta_infer.search.calibrate.calibrate import Calibrator, Planned
    from meta_infer.search.calibrate.calibrated_profile import calibrated_profile

    file = output or calibrated_file()
    if output is None and parse_device(device) is not None:
        raise UsageError("is missing", what="--output", hint="a profile of a board is a file of its own: board.yaml")
    check_output(file)
    with open_device(device) as board, ExitStack() as stack:
        profile = board.profile if board else load_profile(NATIVE)
        if profile.backend is None:
            raise UsageError("has an instruction set that no code is generated for",
                             what=f"device {device}" if board else "this machine",
                             hint="`meta-infer hardware probe` says what was found")
        planned, compiler = Planned.of(profile), find_compiler().version
        library = Library.open_or_warn(read_switches().library, warn)
        if library is not None:
            stack.callback(library.close)
        with counted("calibrate", planned.total) as done:
            found = Calibrator(profile, library, seconds, fresh, done, warn, board=board).calibrate(
                planned, datetime.now(UTC).date())
    if output is None:
        file.parent.mkdir(parents=True, exist_ok=True)
    write_profile(file, calibrated_profile(found, compiler, profile.source if board else ""))
    if as_json:
        show_json(_facts(found, file))
    else:
        show(_table(found), "", *_lines(found))
    note("--hardware native reads it from now on" if output is None else f"to use it: --hardware {output}")
    for text in _warnings(found):
        warn(text)


def _warnings(found: Calibration) -> list[str]:
    told = []
    if found.noise.is_loud:
        told.append(f"the machine was too busy to trust these times: {found.noise}; calibrate again with --fresh when "
                    "it is idle")
    if not found.is_complete:
        told.append(f"the time ended after {found.timed + found.recalled} of {found.total} kernels: the same command "
                    "goes on from there")
    if found.failed:
        told.append(f"{found.failed} kernels failed; `meta-infer library list --samples` has them")
    return told


def _facts(found: Calibration, file: Path) -> dict[str, Any]:
    return {
        "file": str(file), "peak_flops_per_second": found.peak, "core_bytes_per_second": dict(found.rates),
        "bytes_per_second": dict(found.all_rates), "channel_step": found.step,
        "launch_seconds": dict(found.launches),
        "noise": {"repeats": found.noise.repeats, "probe": found.noise.probe, "is_loud": found.noise.is_loud},
        "timed": found.timed, "recalled": found.recalled, "failed": found.failed, "total": found.total,
        "classes": [{"kernel_class": kernel, "precision": precision, "error": quality.error, "rank": quality.rank,
                     "held_out": quality.samples} for (kernel, precision), quality in found.fitted.quality.items()],
        "warnings": _warnings(found),
    }


def _table(found: Calibration) -> Any:
    from rich.table import Table

    table = Table("kernels", "precision", "samples", "error", "rank", box=None, pad_edge=False)
    for entry in found.fitted.entries:
        quality = found.fitted.quality[entry.kernel_class, entry.precision]
        table.add_row(entry.kernel_class, entry.precision, str(entry.samples), f"{quality.error:.1%}",
                      f"{quality.rank:.2f}")
    return table


def _lines(found: Calibration) -> list[str]:
    from meta_infer.report.units import seconds_text

    rates = ", ".join(f"{name} {rate / 1e9:.1f}" for name, rate in found.rates.items())
    step = {None: "not timed", 1: "no step found"}.get(found.step, f"multiples of {found.step}")
    launches = ", ".join(f"{seconds_text(seconds)} with {threads} thread{'s' if threads > 1 else ''}"
                         for threads, seconds in found.launches.items())
    return ["error: median over groups that were held out of the fit; rank: Spearman's correlation on them",
            f"peak of a core: {found.peak / 1e9:.1f} GFLOP/s; GB/s of a core: {rates}",
            f"channels: {step}; a launch: {launches or 'not timed'}"]
