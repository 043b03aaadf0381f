"""A group of several anchors as a chain of groups with one each: its links.

    {Conv (depthwise), Clip, Conv (1x1), Add}   ->   {Conv, Clip}, {Conv, Add}
    {Mul (a gate), Conv (1x1), Relu}            ->   {Mul}, {Conv, Relu}

Nodes before the group's own anchor stand in its prologue, in topological order. A link begins at every node that is
not elementwise; elementwise nodes belong to the link before them, the first ones are a link of their own.
"""

from __future__ import annotations

from meta_infer.ir.graph import Node
from meta_infer.ir.group import Group
from meta_infer.ops.registry import op_named


def links_of(group: Group) -> tuple[Group, ...]:
    """The links, the last one with the group's anchor and outputs; empty unless each feeds just the next one's first
    operand."""
    parts: list[list[Node]] = []
    for node in group.nodes:
        if parts and _is_elementwise(node):
            parts[-1].append(node)
        else:
            parts.append([node])
    if len(group.outputs) != 1 or not any(node is group.anchor for node in parts[-1][:1]):
        return ()
    links: list[Group] = []
    for i, nodes in enumerate(parts):
        made = [name for node in nodes for name in node.outputs if name]
        outside = [node for other in parts[:i] + parts[i + 1:] for node in other]
        read = [name for name in made if any(name in node.inputs for node in outside)]
        is_last = i + 1 == len(parts)
        if not is_last and (read != [parts[i + 1][0].inputs[0]] or _reads_again(parts[i + 1:], read[0])):
            return ()
        inputs = tuple(dict.fromkeys(name for node in nodes for name in node.inputs if name and name not in made))
        values = {name: group.values[name] for name in (*inputs, *made)}
        constants = {name: group.constants[name] for name in inputs if name in group.constants}
        yielded = group.outputs if is_last else tuple(read)
        links.append(Group(nodes[0], inputs, yielded, values, constants, (), tuple(nodes[1:])))
    return tuple(links)


def _is_elementwise(node: Node) -> bool:
    definition = op_named(node.op)
    return definition.expr is not None and not definition.is_view


def _reads_again(parts: list[list[Node]], name: str) -> bool:
    """Whether anything but the first operand of the first node reads `name`."""
    reads = [operand for nodes in parts for node in nodes for operand in node.inputs]
    return reads.count(name) > 1
