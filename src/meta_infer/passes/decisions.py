"""What `legalize` decided for each op of a graph: the record behind `--explain`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph, walk_nodes
from meta_infer.ops.registry import op_named
from meta_infer.passes.profile_words import profile_words

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
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def counted_ops(ops: Iterable[str]) -> str:
    """'Conv (x3), Add (x2), Concat': each op once, in order of appearance."""
    counts: dict[str, int] = {}
    for op in ops:
        counts[op] = counts.get(op, 0) + 1
    return ", ".join(op if n == 1 else f"{op} (x{n})" for op, n in counts.items())


def native_decisions(before: Graph, after: Graph, profile: Profile, decided: Iterable[Decision],
                     computed_by: Callable[[str], str]) -> list[Decision]:
    """The decisions for what `legalize` left as it was, from the graphs before and after it.

    `decided` are those that it recorded; `computed_by` names what computes an op. Ops that widening to another type
    put between casts count as left.
    """
    there = {(node.op, node.origins) for _, node in walk_nodes(before)}
    gone = {(decision.op, decision.nodes) for decision in decided}
    found = []
    for holder, node in walk_nodes(after):
        key = (node.op, node.origins)
        if key not in there or key in gone:
            continue
        detail = computed_by(node.op)
        if profile.supported_ops is not None and not (op_named(node.op).is_view or op_named(node.op).is_control_flow):
            shape = holder.values[next(name for name in node.outputs if name)].shape
            detail = f"supported_ops: {next(filter(profile.supports_op, profile_words(node, shape)), node.op)}"
        found.append(Decision(node.op, node.origins, "native", detail))
    return found
