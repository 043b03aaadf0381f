"""What `legalize` decided for each op of a graph: the record behind `--explain`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["native", "decomposed", "host", "impossible"]
VERDICTS: tuple[Verdict, ...] = ("impossible", "host", "decomposed", "native")
"""The worst first, as tables list them."""


@dataclass(frozen=True)
class Decision:
    """What became of one node.

    native      the device runs it; `detail` names what computes it.
    decomposed  it became the ops that `detail` lists.
    host        the device does not run it: it is placed on the host CPU; `detail` says why.
    impossible  nothing computes it; `detail` says why.

    `nodes` are the ONNX nodes it stands for, `field` is the field of the profile that would change the verdict.
    """

    op: str
    nodes: tuple[str, ...]
    verdict: Verdict
    detail: str
    field: str = ""


@dataclass(frozen=True)
class DecisionGroup:
    """Decisions that differ only in the nodes they are of."""

    op: str
    verdict: Verdict
    detail: str
    field: str
    nodes: tuple[str, ...]
    count: int


def group_decisions(decisions: Iterable[Decision]) -> tuple[DecisionGroup, ...]:
    """Equal decisions together, the worst verdicts first, otherwise in the order of the graph."""
    found: dict[tuple[str, Verdict, str, str], list[Decision]] = {}
    for decision in decisions:
        found.setdefault((decision.op, decision.verdict, decision.detail, decision.field), []).append(decision)
    groups = [DecisionGroup(*key, tuple(dict.fromkeys(node for d in members for node in d.nodes)), len(members))
              for key, members in found.items()]
    return tuple(sorted(groups, key=lambda group: VERDICTS.index(group.verdict)))


def listed(names: Sequence[str], most: int = 3) -> str:
    """'a, b, c and 4 more'."""
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def counted_ops(ops: Iterable[str]) -> str:
    """'Conv (x3), Add (x2), Concat': each op once, in order of appearance."""
    counts: dict[str, int] = {}
    for op in ops:
        counts[op] = counts.get(op, 0) + 1
    return ", ".join(op if n == 1 else f"{op} (x{n})" for op, n in counts.items())
