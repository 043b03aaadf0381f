"""`meta-infer check`: what stands between a model and a chip; with `--suite`, the operator suite of onnx."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meta_infer.cli.hardware import profile_names
from meta_infer.cli.screen import note, show, show_json
from meta_infer.support.errors import UsageError

if TYPE_CHECKING:
    from meta_infer.suite.run_case import Outcome

BLOCKED = 10
"""Exit code of a checklist with blockers."""


def check(
    model: Annotated[Path | None, typer.Argument(help="The ONNX file.", show_default=False)] = None,
    hardware: Annotated[str, typer.Option(
        help="A profile: 'native' (this machine), a name of `meta-infer hardware list`, or a YAML file.",
        autocompletion=profile_names)] = "native",
    shape: Annotated[list[str] | None, typer.Option(
        help="Shape of an input, ranges allowed: x=1,3,48,32..960. Repeatable.", metavar="NAME=DIMS",
        show_default="as the model says")] = None,
    checklist: Annotated[Path | None, typer.Option(
        help="A YAML file with items of your own, see docs/checklist.md.", metavar="FILE", show_default=False)] = None,
    custom: Annotated[list[Path] | None, typer.Option(
        help="A Python file with ops of your own, see docs/custom-ops.md. Repeatable.", metavar="FILE",
        show_default=False)] = None,
    explain: Annotated[bool, typer.Option(
        "--explain", help="Also print what becomes of each operator: native, decomposed, on the host.")] = False,
    suite: Annotated[bool, typer.Option(
        "--suite", help="Build and run the operator cases that the onnx package ships.")] = False,
    stored: Annotated[bool, typer.Option(
        "--stored", help="With --suite: the models that the onnx package stores as files, not the operator cases.")
        ] = False,
    match: Annotated[list[str] | None, typer.Option(
        help="Only cases whose name fits this pattern, such as 'test_topk*'. Repeatable.", metavar="PATTERN",
        show_default="all")] = None,
    kind: Annotated[list[str] | None, typer.Option(
        help="Only cases of this kind. Repeatable.", metavar="plain|narrow|string|sequence|training",
        show_default="all")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes at work.", min=1, show_default="all cores")] = None,
    resume: Annotated[Path | None, typer.Option(
        help="Write each outcome to this file, and skip the cases that it holds.", show_default=False)] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print every case that did not pass.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print findings or outcomes as JSON.")] = False,
) -> None:
    """Print the conversion checklist of a model for a chip; nothing is compiled. Exits 10 when something blocks it.

    With --suite: run the operator suite of onnx on compiled packages.

    Example: meta-infer check model.onnx --hardware edge_npu_v2
    """
    if suite == (model is not None):
        raise UsageError("takes a model or --suite" if suite else "nothing to check", what="meta-infer check",
                         hint="meta-infer check model.onnx --hardware edge_npu_v2")
    if model is not None:
        from meta_infer.cli.check_model import check_model
        from meta_infer.custom import load_custom

        load_custom(custom or [])
        if not check_model(model, hardware, shape or [], checklist, explain, as_json):
            raise typer.Exit(BLOCKED)
        return
    _check_suite(stored, match, kind, workers, resume, verbose, as_json)


def _check_suite(stored: bool, match: list[str] | None, kind: list[str] | None, workers: int | None,
                 resume: Path | None, verbose: bool, as_json: bool) -> None:
    from meta_infer.cli.progress import counted
    from meta_infer.runtime.cpu import available_cores
    from meta_infer.suite.cases import KINDS, collect_cases
    from meta_infer.suite.run_suite import run_suite
    from meta_infer.suite.stored_cases import collect_stored_cases

    for word in kind or []:
        if word not in KINDS:
            raise UsageError(f"is {word!r}, expected one of {', '.join(KINDS)}", what="--kind")
    note("suite: collecting the cases")
    cases = collect_stored_cases(match or ()) if stored else collect_cases(match or ())
    cases = [case for case in cases if not kind or case.kind in kind]
    if not cases:
        raise UsageError(f"no case fits {', '.join(match or kind or [])}", what="--match",
                         hint="patterns are of whole names: 'test_softmax*'")
    with counted("suite", len(cases)) as done:
        outcomes = run_suite(cases, workers or available_cores(), resume, lambda outcome: done(outcome.name))
    if as_json:
        from dataclasses import asdict

        show_json([asdict(outcome) for outcome in outcomes])
    else:
        _show(outcomes, verbose)
    if not all(outcome.passed or outcome.is_known for outcome in outcomes):
        raise typer.Exit(1)


def _show(outcomes: list[Outcome], verbose: bool) -> None:
    from rich.text import Text

    from meta_infer.report.plain_table import plain_table
    from meta_infer.suite.tally import by_kind, by_op

    columns = ("passed", "known gap", "failed", "refused")
    table = plain_table("op", *columns, right=columns)
    for op, tally in by_op(outcomes):
        if tally.passed < tally.total:
            table.add_row(op, *(str(n) if n else "" for n in (tally.passed, tally.known, tally.failed, tally.refused)))
    if table.row_count:
        show(table, "")
    if verbose:
        for outcome in outcomes:
            if not outcome.passed:
                known = " (known gap)" if outcome.is_known else ""
                show(f"{outcome.name} [{outcome.kind}] {outcome.status}{known}: {outcome.reason}")
        show("")
    for kind, tally in by_kind(outcomes):
        show(Text(f"{kind}: {tally.passed} of {tally.total} passed, {tally.known} known gaps, {tally.failed} failed, "
                  f"{tally.refused} refused"))
