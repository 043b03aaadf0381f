"""`meta-infer library`: what builds have measured and decided on this machine, and moving it to others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meta_infer.cli.screen import note, show, show_json
from meta_infer.support.errors import LibraryError, UsageError
from meta_infer.support.switches import read_switches

if TYPE_CHECKING:
    from meta_infer.library.store import Library

library = typer.Typer(no_args_is_help=True, rich_markup_mode=None,
                      help="What builds have measured and decided: list, explain, move and prune it.\n\n"
                           "Example: meta-infer library list")

EMPTY = ("empty: nothing was measured yet. A build that searches fills it (--search-mode balanced), and\n"
         "`meta-infer library import FILE` takes what another machine has measured.")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
File = Annotated[Path | None, typer.Option("--library", metavar="FILE", help="The library's file.",
                                           show_default="META_INFER_LIBRARY, or library.sqlite in the cache")]
OfCpu = Annotated[str, typer.Option("--cpu", metavar="TEXT", help="Only CPUs whose name contains this text.")]


def words_known() -> list[str]:
    """Kernels, models and beginnings of keys; the shell's completions of `library show`."""
    from meta_infer.library.store import Library

    try:
        with Library.open_to_read(read_switches().library, patience=0.5) as opened:
            samples, decisions = opened.samples(), opened.decisions()
    except LibraryError:
        return []
    return sorted({s.kernel for s in samples} | {d.model for d in decisions if d.model}) + [s.key[:8] for s in samples]


@library.command("list")
def list_library(
    op: Annotated[str, typer.Option(metavar="OP", help="Only groups around this operator.")] = "",
    kernel: Annotated[str, typer.Option(metavar="NAME", help="Only samples of this kernel.")] = "",
    cpu: OfCpu = "",
    samples: Annotated[bool, typer.Option("--samples", help="A line for every sample, not for every group.")] = False,
    most: Annotated[int, typer.Option(min=0, metavar="N", help="Lines to print; 0: all.")] = 50,
    file: File = None,
    as_json: AsJson = False,
) -> None:
    """List the groups that were measured, each with its quickest kernel, or every sample.

    Example: meta-infer library list --op Conv
    """
    from meta_infer.cli.library_tables import contest_rows, sample_rows
    from meta_infer.library.explain import contests_of

    with _there(file) as opened:
        found = [] if opened is None else [
            s for s in opened.samples(op=op, kernel=kernel) if cpu.lower() in s.cpu.lower()]
        counts = (0, 0) if opened is None else (opened.counts().samples, opened.counts().decisions)
    contests = contests_of(found)
    path = file or read_switches().library
    if as_json:
        groups = [{"group": c.group, "cpu": c.cpu, "isa": c.isa, "threads": c.threads, "sizes": c.sizes,
                   "samples": len(c.samples),
                   "best": asdict(c.best) if c.best else None} for c in contests]
        show_json({"library": str(path), "samples": counts[0], "decisions": counts[1],
                   **({"listed": [asdict(s) for s in found]} if samples else {"groups": groups})})
        return
    if not counts[0] and not counts[1]:
        show(str(path), EMPTY)
        return
    lines = len(found) if samples else len(contests)
    shown = min(most or lines, lines)
    if shown:
        show(sample_rows([s for c in contests for s in c.samples][:shown]) if samples else
             contest_rows(contests[:shown]), "")
    left = f"; {lines - shown} lines more with --most 0" if shown < lines else ""
    if not found:
        asked = (("--op", op), ("--kernel", kernel), ("--cpu", cpu))
        left = "; none is of " + " ".join(f"{flag} {text}" for flag, text in asked if text)
    show(f"{path}: {counts[0]} samples, {counts[1]} decisions{left}")


@library.command("show")
def show_known(
    text: Annotated[str, typer.Argument(
        help="The beginning of a key, or a part of a group's text, a kernel's or a model's name.",
        autocompletion=words_known)],
    most: Annotated[int, typer.Option(min=0, metavar="N", help="Groups to show; 0: all.")] = 5,
    file: File = None,
    as_json: AsJson = False,
) -> None:
    """Explain where a decision came from: the group, the winner, its rivals and what they took.

    Example: meta-infer library show conv_winograd
    """
    from meta_infer.cli.library_tables import known_parts
    from meta_infer.library.explain import explain, nearest

    with _there(file) as opened:
        found = explain(opened, text) if opened else ()
        empty = opened is None or opened.counts().samples + opened.counts().decisions == 0
        near = nearest(opened, text) if opened and not found else []
    if as_json:
        show_json([asdict(known) for known in found])
        return
    if empty:
        show(str(file or read_switches().library), EMPTY)
        return
    if not found:
        guess = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        raise UsageError("is in no group, kernel or model of the library, and no key begins so", what=repr(text),
                         hint=f"{guess}`meta-infer library list` has all groups")
    shown = found[:most or len(found)]
    for index, known in enumerate(shown):
        show(*([""] if index else []), *known_parts(known))
    if len(found) > len(shown):
        show("", f"{len(found) - len(shown)} more groups with --most 0")


@library.command("export")
def export(
    output: Annotated[Path, typer.Argument(metavar="FILE", help="A .yaml or .json file to write.")],
    cpu: OfCpu = "",
    file: File = None,
) -> None:
    """Write samples and decisions as YAML or JSON, to read, edit, compare or take to another machine.

    Example: meta-infer library export measured.yaml
    """
    from meta_infer.library.exchange import export_library
    from meta_infer.library.store import Library

    with Library.open_to_read(file or read_switches().library) as opened:
        samples, decisions = export_library(opened, output, cpu)
    note(f"written: {output}, {samples} samples and {decisions} decisions")


@library.command("import")
def import_library(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="An exported file, or another library's file.")],
    replace_all: Annotated[bool, typer.Option("--replace", help="Take all of it, for values edited by hand.")] = False,
    file: File = None,
    as_json: AsJson = False,
) -> None:
    """Add what FILE holds. Of two samples of a key the more exact stays, or the newer one where both are as exact.

    Example: meta-infer library import measured.yaml
    """
    from meta_infer.library.exchange import import_file
    from meta_infer.library.store import Library

    with Library.open(file or read_switches().library) as opened:
        merged = import_file(opened, source, replace_all)
    if as_json:
        show_json(asdict(merged))
        return
    show(f"{merged.added} added, {merged.replaced} replaced, {merged.kept} left out for better or newer ones")


@library.command("prune")
def prune(
    older_than: Annotated[float | None, typer.Option(min=0, metavar="DAYS", help="Made more days ago.",
                                                     show_default=False)] = None,
    stale: Annotated[bool, typer.Option(
        "--stale", help="Of another measuring protocol or compiler than this meta-infer has.")] = False,
    cpu: Annotated[str, typer.Option(metavar="TEXT", help="On CPUs whose name contains this text.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and remove nothing.")] = False,
    file: File = None,
    as_json: AsJson = False,
) -> None:
    """Remove the samples that meet all conditions given, and the decisions that stand on them.

    Example: meta-infer library prune --stale --older-than 90 --dry-run
    """
    from datetime import UTC, datetime, timedelta

    from meta_infer.backends.cpu.toolchain import find_compiler
    from meta_infer.search.measure.measure_protocol import VERSION

    if older_than is None and not stale and not cpu:
        raise UsageError("says not what to remove", what="library prune",
                         hint="add --older-than DAYS, --stale or --cpu TEXT; delete the file to remove everything")
    try:
        before = None if older_than is None else datetime.now(UTC) - timedelta(days=older_than)
    except OverflowError:
        raise UsageError("is before the beginning of time", what="--older-than", hint="give fewer days") from None
    with _there(file) as opened:
        if opened is None:
            show(str(file or read_switches().library), EMPTY)
            return
        gone = opened.prune(before=before, cpu=cpu, dry_run=dry_run,
                            current=(VERSION, find_compiler().version) if stale else None)
        left = opened.counts()
    if as_json:
        show_json({"removed": asdict(gone), "left": asdict(left), "dry_run": dry_run})
        return
    would = "would be removed" if dry_run else "removed"
    show(f"{gone.samples} samples and {gone.decisions} decisions {would}; there are now {left.samples} and "
         f"{left.decisions}")


@contextmanager
def _there(file: Path | None) -> Iterator[Library | None]:
    """The library, None where there is none yet. Raises LibraryError."""
    from meta_infer.library.store import Library

    path = file or read_switches().library
    if not path.exists():
        yield None
        return
    with Library.open_to_read(path) as opened:
        yield opened
