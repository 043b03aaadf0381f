"""Outcomes of the operator suite, counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from meta_infer.suite.cases import KINDS
from meta_infer.suite.run_case import Outcome


@dataclass(frozen=True)
class Tally:
    """How many cases passed, did not for a reason that ops/gaps.py gives, failed, and were refused as unsupported."""

    passed: int
    known: int
    failed: int
    refused: int

    @property
    def total(self) -> int:
        return self.passed + self.known + self.failed + self.refused


def _tally(outcomes: Iterable[Outcome]) -> Tally:
    kinds = ["known" if not outcome.passed and outcome.is_known else outcome.status for outcome in outcomes]
    return Tally(*(kinds.count(kind) for kind in ("passed", "known", "failed", "refused")))


def _grouped(outcomes: Iterable[Outcome], key: Callable[[Outcome], str]) -> dict[str, list[Outcome]]:
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(key(outcome), []).append(outcome)
    return groups


def by_op(outcomes: Iterable[Outcome]) -> list[tuple[str, Tally]]:
    """(op, tally), by name."""
    return [(op, _tally(found)) for op, found in sorted(_grouped(outcomes, lambda o: o.op).items())]


def by_kind(outcomes: Iterable[Outcome]) -> list[tuple[str, Tally]]:
    """(kind, tally) in the order of KINDS, then 'all'."""
    groups = _grouped(outcomes, lambda o: o.kind)
    found = [(kind, _tally(groups[kind])) for kind in KINDS if kind in groups]
    return [*found, ("all", _tally(o for group in groups.values() for o in group))]
