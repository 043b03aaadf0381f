"""Orders in which independent branches may run: what a graph computes is the same, how much memory lives differs.

    %a = Conv(%x)   %b = Relu(%a)   %c = Conv(%x)   %d = Relu(%c)   %y = Add(%b, %d)

    depth_first     a b c d y     one branch to its end, then the next
    breadth_first   a c b d y     everything as soon as its operands are there, so branches run side by side
    least_live      of what can run, what leaves the fewest bytes live; it may follow either

`least_live` is the greedy rule of register allocation (Goodman and Hsu, 1988) on tensors: the next step is the one
after which the fewest bytes are live (results that are new, less operands that nobody needs any more), and where
several leave equally many, one whose branch is under way already. Memory is planned after the order is known, so that
the caller compares arenas and not this estimate; the best order found depends on the graph, hence a few of them.
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
        found = _order(flow, rule)
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


Rule = Callable[[Flow, Sequence[int], Mapping[str, int], Mapping[int, int]], int]
"""Of (ready steps in the given order, users left by root, when each became ready): the one that runs next."""


def _newest(flow: Flow, ready: Sequence[int], left: Mapping[str, int], since: Mapping[int, int]) -> int:
    """What became ready last; of several at once, the first."""
    return max(ready, key=lambda i: (since[i], -i))


def _oldest(flow: Flow, ready: Sequence[int], left: Mapping[str, int], since: Mapping[int, int]) -> int:
    return min(ready, key=lambda i: (since[i], i))


def _least_live(flow: Flow, ready: Sequence[int], left: Mapping[str, int], since: Mapping[int, int]) -> int:
    def grows(i: int) -> tuple[int, int, int]:
        made = sum(flow.bytes[name] for name in flow.makes[i] if left[name])
        freed = sum(flow.bytes[name] for name in flow.reads[i] if left[name] == 1)
        return made - freed, -since[i], i

    return min(ready, key=grows)


def _order(flow: Flow, rule: Rule) -> list[int]:
    """The steps as the rule takes them. Raises InternalError when they depend on each other in a cycle."""
    waits = [set(needed) for needed in flow.waits]
    left = dict(flow.users)
    ready = [i for i, needed in enumerate(waits) if not needed]
    since = dict.fromkeys(ready, 0)
    order: list[int] = []
    while ready:
        chosen = rule(flow, ready, left, since)
        ready.remove(chosen)
        order.append(chosen)
        for name in flow.reads[chosen]:
            left[name] -= 1
        for other in flow.after[chosen]:
            waits[other].discard(chosen)
            if not waits[other]:
                since[other] = len(order)
                ready.append(other)
    if len(order) != len(waits):
        raise InternalError("steps depend on each other in a cycle", what=f"{len(waits) - len(order)} of {len(waits)}")
    return order


RULES: Mapping[str, Rule] = {"depth_first": _newest, "breadth_first": _oldest, "least_live": _least_live}
