"""Runs a checklist: items and a subject to findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from meta_infer.checklist.probe import Fact
from meta_infer.checklist.schema import SEVERITIES, Item, Severity
from meta_infer.checklist.subject import Subject
from meta_infer.passes.decisions import listed
from meta_infer.report.operators import short_name

MOST_NAME = 40
"""Longest name of a node that a message shows whole."""
READABLE = "import_problems"
"""The probe that also answers for a file that breaks the specification, of which nothing else can be asked."""


@dataclass(frozen=True)
class Finding:
    """One line of the report. `where` names the nodes or tensors it is about, all of them."""

    item: str
    title: str
    severity: Severity
    message: str
    hint: str
    where: tuple[str, ...]


def run_checklist(items: Iterable[Item], subject: Subject) -> tuple[Finding, ...]:
    """All findings, blockers first, otherwise in the order of the items."""
    found = [finding for item in items if _applies(item, subject)
             for finding in (_finding(item, fact) for fact in item.probe.ask(subject, item.params))]
    return tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)))


def _applies(item: Item, subject: Subject) -> bool:
    if subject.is_broken:
        return item.probe.name == READABLE
    return item.when == "always" or subject.low_precision


def _finding(item: Item, fact: Fact) -> Finding:
    names = [short_name(name, MOST_NAME) for name in fact.where]
    values = {**fact.values, "where": listed(names, 2), "count": len(fact.where)}
    return Finding(item.id, item.title, item.severity, item.message.format(**values).strip(),
                   item.hint.format(**values).strip(), fact.where)


def count_findings(findings: Sequence[Finding]) -> dict[Severity, int]:
    """How many of each severity."""
    return {severity: sum(f.severity == severity for f in findings) for severity in SEVERITIES}


def counts_text(findings: Sequence[Finding]) -> str:
    """'1 blocker, 2 warnings, 14 notes'."""
    counts = count_findings(findings)
    return ", ".join(f"{n} {severity}{'' if n == 1 else 's'}" for severity, n in counts.items())
