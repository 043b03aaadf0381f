"""`meta-infer profile`: where the time of a run goes, group by group, beside what this machine could do."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from meta_infer.cli.run import Dims, InputFiles, PackageFile, RandomInputs, Seed, TargetName, Threads
from meta_infer.cli.screen import show, show_json, warn
from meta_infer.support.errors import ToolchainError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from meta_infer.cli.progress import StepNames
    from meta_infer.library.samples import Sample
    from meta_infer.library.store import Library
    from meta_infer.report.profile import PackageTime
    from meta_infer.report.profile_parts import Parts
    from meta_infer.runtime.session import Session
    from meta_infer.search.measure.live_probes import LiveProbes
    from meta_infer.search.whole.in_place import Round

ROUNDS = 11
SORTS = ("floor", "time", "order")


def profile(
    package: PackageFile,
    threads: Threads = None,
    target: TargetName = None,
    sort: Annotated[str, typer.Option(metavar="|".join(SORTS), help="Furthest above its floor first, most time first, "
                                      "or in the order of execution.")] = "floor",
    most: Annotated[int, typer.Option(min=0, metavar="N", help="Groups to print; 0: all.")] = 30,
    duration: Annotated[float, typer.Option(help="Time for this many seconds.", min=0.0)] = 6.0,
    inputs: InputFiles = None,
    random: RandomInputs = False,
    dim: Dims = None,
    seed: Seed = 0,
    learn: Annotated[bool, typer.Option("--learn", help="Add the times to the experience library, and print what the "
                                        "cost model says of them.")] = False,
    hardware: Annotated[str, typer.Option(metavar="PROFILE", help="With --learn: whose cost model.")] = "native",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; times in seconds.")] = False,
) -> None:
    """Time every group of a package in place, beside its own floor: the least time it can take on this machine.

    Example: meta-infer profile model.bin --threads 1 --sort time
    """
    from meta_infer.cli.inputs import choose_inputs
    from meta_infer.cli.progress import step_names
    from meta_infer.hardware.load import load_profile
    from meta_infer.report.learn import class_errors, learned_parts
    from meta_infer.report.profile import evaluate
    from meta_infer.report.profile_parts import parts_of
    from meta_infer.report.profile_text import profile_json, profile_parts
    from meta_infer.runtime.session import load

    if sort not in SORTS:
        raise UsageError(f"is {sort!r}, expected {', '.join(SORTS)}", what="--sort")
    chip = load_profile(hardware)
    with (_library(learn) as library, load(package, threads=threads, target=target) as session,
          step_names("profile") as steps):
        feeds, _ = choose_inputs(session.package, inputs or [], dim or [], random, seed)
        parts = parts_of(session.package, session.target, session.info.commands)
        sizes = session.sizes(feeds)
        rounds = _timed(session, feeds, parts, duration, steps)
        used, isa = session.threads, session.target.isa
        found = evaluate(parts.parts, rounds, sizes)
        samples = _learned(library, found, sizes, session) if library else []
    errors = class_errors(samples, chip)
    shapes = {name: list(a.shape) for name, a in feeds.items()}
    if as_json:
        learned = {"library": str(library.path), "samples": len(samples),
                   "with_features": sum(bool(sample.features) for sample in samples),
                   "kernels": [asdict(one) for one in errors]} if library else None
        show_json({"package": str(package), "threads": used, "target": isa, "inputs": shapes,
                   **profile_json(found, sort, parts.free), **({"learned": learned} if learned else {})})
        return
    from rich.text import Text

    show(Text(f"{package}: {used} thread{'s' if used > 1 else ''}, inputs "
              + ", ".join(f"{n} {'x'.join(map(str, s)) or 'scalar'}" for n, s in shapes.items())), "",
         *profile_parts(found, sort, most, parts.free),
         *(learned_parts(samples, errors, str(library.path), chip) if library else ()))


def _library(learn: bool) -> AbstractContextManager[Library | None]:
    """Opened before anything is timed: what cannot be written is told at once. Raises LibraryError."""
    from meta_infer.library.store import Library
    from meta_infer.support.switches import read_switches

    return Library.open(read_switches().library) if learn else nullcontext()


def _learned(library: Library, found: PackageTime, sizes: Mapping[str, int], session: Session) -> list[Sample]:
    """The samples that the library has been given."""
    from meta_infer.hardware.load import load_profile
    from meta_infer.report.learn import Origin, samples_of
    from meta_infer.search.measure.measure import measured_cpu

    lock, package = session.package.json("build.lock.json"), session.package
    compiler = str(lock.get("compiler", "")) if isinstance(lock, dict) else ""
    origin = Origin(package.model, session.target.isa, compiler, measured_cpu(), session.threads)
    samples = samples_of(found.parts, sizes, origin, load_profile("native"))
    library.add(samples)
    return samples


def _timed(session: Session, feeds: Mapping[str, np.ndarray], parts: Parts, duration: float,
           steps: StepNames) -> list[Round]:
    from meta_infer.search.whole.in_place import time_in_place

    steps("preparing the probes of this machine")
    probes = _probes(session.threads)
    steps("timing in place")
    rounds = []
    for one in time_in_place(session, feeds, probes, ROUNDS, duration, parts.holders):
        rounds.append(one)
        steps.progress(f"round {len(rounds)} of {ROUNDS}")
    return rounds


def _probes(threads: int) -> LiveProbes | None:
    """None, with a warning, on a machine without a compiler: there are times then, but no floors."""
    from meta_infer.hardware.load import load_profile
    from meta_infer.search.measure.live_probes import LiveProbes

    host = load_profile("native")
    if host.isa is None:
        warn("this processor is unknown, so there are no probes of it: times are printed without floors")
        return None
    try:
        return LiveProbes(host, threads)
    except ToolchainError as error:
        warn(f"{error}\n  times are printed without floors")
        return None
