"""What `meta-infer check MODEL` prints: the findings by severity, as tables or JSON."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

if TYPE_CHECKING:
    from meta_infer.checklist.run import Finding
    from meta_infer.checklist.schema import Item
    from meta_infer.checklist.subject import Subject

_STYLES = {"blocker": "bold red", "warning": "yellow", "note": ""}


def check_model(model: Path, hardware: str, shape: list[str], checklist: Path | None, explain: bool,
                as_json: bool) -> bool:
    """Print the checklist of a model for a chip, and give whether nothing blocks it."""
    from meta_infer.checklist.run import run_checklist
    from meta_infer.checklist.schema import load_checklist
    from meta_infer.checklist.subject import examine
    from meta_infer.cli.screen import show, show_json
    from meta_infer.frontend.symbols import parse_shape_specs
    from meta_infer.hardware.load import load_profile
    from meta_infer.report.operators import operator_parts, operator_rows

    items, profile, shapes = load_checklist(checklist), load_profile(hardware), parse_shape_specs(shape)
    subject = examine(model, profile, shapes)
    findings = run_checklist(items, subject)
    if as_json:
        more = {"operators": operator_rows(subject.decisions)} if explain else {}
        show_json({**_as_data(subject, findings), **more})
    else:
        show(*_parts(subject, items, findings))
        if explain and subject.decisions:
            show("", *operator_parts(subject.decisions))
    return not any(finding.severity == "blocker" for finding in findings)


def _as_data(subject: Subject, findings: tuple[Finding, ...]) -> dict[str, Any]:
    from meta_infer.checklist.run import count_findings

    return {"model": str(subject.path), "hardware": subject.profile.name, "counts": count_findings(findings),
            "findings": [asdict(finding) for finding in findings]}


def _parts(subject: Subject, items: tuple[Item, ...], findings: tuple[Finding, ...]) -> list[RenderableType]:
    """A table for each severity; an item lists as many findings as its `show` says."""
    from meta_infer.checklist.run import counts_text
    from meta_infer.report.plain_table import plain_table

    most = {item.id: item.show for item in items}
    parts: list[RenderableType] = [Text(f"{subject.path.name} for {subject.profile.name}", style="bold"), ""]
    for severity, group in groupby(findings, key=lambda finding: finding.severity):
        table = plain_table(f"{severity}s", "finding")
        for name, members in groupby(group, key=lambda finding: finding.item):
            rows = list(members)
            for i, finding in enumerate(rows[:most[name]]):
                table.add_row(Text(finding.title if i == 0 else "", style=_STYLES[severity]), Text(finding.message))
            if len(rows) > most[name]:
                table.add_row("", Text(f"... and {len(rows) - most[name]} more (--json lists all)"))
            for hint in dict.fromkeys(finding.hint for finding in rows[:most[name]] if finding.hint):
                table.add_row("", Text(f"try: {hint}", style="dim"))
        parts += [table, ""]
    return [*parts, Text(counts_text(findings))]
