"""Orders in which independent branches may run: what a graph computes is the same, how much memory lives differs.

    %a = Conv(%x)   %b = Relu(%a)   %c = Conv(%x)   %d = Relu(%c)   %y = Add(%b, %d)

    depth_first     a b c d y     one branch to its end, then the next
    breadth_first   a c b d y     everything as soon as its operands are there, so branches run side by side
    least_live      of what can run, what leaves the fewest bytes live; it may follow either

`least_live` takes next what leaves the fewest bytes live: results that are new, less operands that nobody needs any
more (as schedulers do for registers: Goodman and Hsu, 1988). Since the best step is not always the one that frees most
at once, a beam of the best beginnings is kept, by their peak so far. Memory is planned after the order is known, so
that the caller compares arenas and not this estimate; which order is best depends on the graph, hence a few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from meta_infer.ir.graph import Graph, Node
from meta_infer.ir.group import Group
from meta_infer.ir.shapes import product, usual_upper
from meta_infer.ops.registry import op_named
from meta_infer.support.errors import InternalError

MOST_STARTS, MOST_STEPS = 16, 8192
"""Beginnings of an order kept side by side, and how many steps of these are looked at in a round at most."""


@dataclass(frozen=True)
class Step:
    """What an order sees of a node or group: values read and made, and where a made one is a view, of what."""

    reads: tuple[str, ...]
    makes: tuple[str, ...]
    view_of: str = ""


T = TypeVar("T", Node, Group)


def branch_orders(graph: Graph) -> dict[str, tuple[Node, ...]]:
    """Topological orders of the graph's nodes by name, equal ones once, the given one first."""
    steps = [Step(node.reads, tuple(filter(None, node.outputs)), _source(node, node)) for node in graph.nodes]
    return _distinct(graph, graph.nodes, steps)


def group_orders(graph: Graph, groups: Sequence[Group]) -> dict[str, tuple[Group, ...]]:
    """The same for groups of a cover of `graph`, in which values inside a group take no memory."""
    steps = []
    for group in groups:
        made = {name for node in group.nodes for name in node.outputs}
        reads = dict.fromkeys(name for node in group.nodes for name in node.reads if name not in made)
        steps.append(Step(tuple(reads), group.outputs, _source(group.anchor, group.nodes[-1])))
    return _distinct(graph, groups, steps)


def _source(anchor: Node, last: Node) -> str:
    """What the result is a view of, if it is one."""
    return anchor.inputs[0] if op_named(anchor.op).is_view and anchor is last else ""


def _distinct(graph: Graph, items: Sequence[T], steps: Sequence[Step]) -> dict[str, tuple[T, ...]]:
    orders = {"as_given": list(range(len(items)))}
    flow = _flow_of(graph, steps)
    for name, rule in RULES.items():
        found = rule(flow)
        if found not in orders.values():
            orders[name] = found
    return {name: tuple(items[i] for i in order) for name, order in orders.items()}


@dataclass(frozen=True)
class Flow:
    """Steps by number: whom they wait for, who waits for them, and the tensors in memory that they read and make.

    A view holds the tensor that it is a view of. `users` counts the steps that read a tensor, one more for outputs.
    """

    waits: Sequence[frozenset[int]]
    after: Sequence[tuple[int, ...]]
    reads: Sequence[tuple[str, ...]]
    makes: Sequence[tuple[str, ...]]
    bytes: Mapping[str, int]
    users: Mapping[str, int]


def _flow_of(graph: Graph, steps: Sequence[Step]) -> Flow:
    maker = {name: i for i, step in enumerate(steps) for name in step.makes}
    waits = [frozenset(maker[name] for name in step.reads if name in maker) - {i} for i, step in enumerate(steps)]
    after: list[list[int]] = [[] for _ in steps]
    for i, needed in enumerate(waits):
        for other in sorted(needed):
            after[other].append(i)
    root: dict[str, str] = {}
    for step in steps:
        for name in step.makes:
            root[name] = root.get(step.view_of, step.view_of) if step.view_of else name
    size = {name: usual_upper(product(graph.values[name].shape)) * graph.values[name].dtype.bytes
            for name in maker if root[name] == name}
    reads = [tuple(dict.fromkeys(r for name in step.reads if (r := root.get(name, "")) in size)) for step in steps]
    makes = [tuple(name for name in step.makes if name in size) for step in steps]
    users = dict.fromkeys(size, 0)
    for names in reads:
        for name in names:
            users[name] += 1
    for name in graph.outputs:
        if root.get(name, "") in users:
            users[root[name]] += 1
    return Flow(waits, [tuple(found) for found in after], reads, makes, size, users)


@dataclass(frozen=True)
class Start:
    """How an order begins: its steps, what can run next and since which step, how many waits and users are left."""

    order: tuple[int, ...]
    ready: Mapping[int, int]
    waits: Mapping[int, int]
    left: Mapping[str, int]
    peak: int = 0
    live: int = 0

    def after(self, flow: Flow, step: int) -> Start:
        """The same with one step more."""
        peak, live = self.cost(flow, step)
        ready = {i: since for i, since in self.ready.items() if i != step}
        waits = {**self.waits, **{other: self.waits[other] - 1 for other in flow.after[step]}}
        ready |= dict.fromkeys((other for other in flow.after[step] if not waits[other]), len(self.order) + 1)
        left = {**self.left, **{name: self.left[name] - 1 for name in flow.reads[step]}}
        return Start((*self.order, step), ready, waits, left, peak, live)

    def cost(self, flow: Flow, step: int) -> tuple[int, int]:
        """(most bytes live until then, bytes live then) with one step more."""
        live = self.live + sum(flow.bytes[name] for name in flow.makes[step])
        freed = [name for name in flow.reads[step] if self.left[name] == 1]
        freed += [name for name in flow.makes[step] if not self.left[name]]
        return max(self.peak, live), live - sum(flow.bytes[name] for name in freed)


def _start(flow: Flow) -> Start:
    waits = {i: len(needed) for i, needed in enumerate(flow.waits)}
    return Start((), {i: 0 for i, count in waits.items() if not count}, waits, flow.users)


def _whole(flow: Flow, start: Start) -> list[int]:
    """The order, when it is one of all steps. Raises InternalError when they depend on each other in a cycle."""
    missing = len(flow.waits) - len(start.order)
    if missing:
        raise InternalError("steps depend on each other in a cycle", what=f"{missing} of {len(flow.waits)}")
    return list(start.order)


def _depth_first(flow: Flow) -> list[int]:
    """Next what became ready last; of several at once, the first."""
    start = _start(flow)
    while start.ready:
        start = start.after(flow, max(start.ready, key=lambda i: (start.ready[i], -i)))
    return _whole(flow, start)


def _breadth_first(flow: Flow) -> list[int]:
    start = _start(flow)
    while start.ready:
        start = start.after(flow, min(start.ready, key=lambda i: (start.ready[i], i)))
    return _whole(flow, start)


def _least_live(flow: Flow) -> list[int]:
    """Beginnings of one more step each round, of which the best stay; of those with the same steps, the best one."""
    beam, width = [_start(flow)], max(1, min(MOST_STARTS, MOST_STEPS // max(1, len(flow.waits))))
    for _ in flow.waits:
        ranked = sorted((*start.cost(flow, step), number, step)
                        for number, start in enumerate(beam) for step in start.ready)
        seen: set[frozenset[int]] = set()
        kept: list[Start] = []
        for *_, number, step in ranked:
            start = beam[number]
            done = frozenset((*start.order, step))
            if done not in seen and len(kept) < width:
                seen.add(done)
                kept.append(start.after(flow, step))
        beam = kept or beam
    return _whole(flow, beam[0])


RULES: Mapping[str, Callable[[Flow], list[int]]] = {
    "depth_first": _depth_first, "breadth_first": _breadth_first, "least_live": _least_live}
