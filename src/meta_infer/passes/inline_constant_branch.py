"""Put the branch that an If of known condition takes in its place.

    before                                                       after
    const %c: bool[] = (true,)                                   %t: float32[N] = Relu(%x)
    %y: float32[N] = If(%c) regions {                            %y: float32[N] = Identity(%t)
      region then() captures (%x) -> (%t) {
        %t: float32[N] = Relu(%x)
      }
      region else() captures (%x) -> (%x) {
      }
    }

Conditions on static shapes are folded to constants first; remove_identity then drops the Identity.
"""

from __future__ import annotations

from meta_infer.ir.graph import Graph, Node
from meta_infer.passes.rewrite import Edit, apply_rule, same_type


def inline_constant_branch(graph: Graph) -> Graph:
    """Replace If of constant condition by the nodes of one branch, where the types agree. See the module."""
    return apply_rule(graph, _inline)


def _inline(edit: Edit, node: Node) -> bool:
    condition = edit.constant(node.inputs[0]) if node.op == "If" else None
    if condition is None or condition.size != 1:
        return False
    region = node.regions[0 if bool(condition.reshape(-1)[0]) else 1]
    results = [(name, inner) for name, inner in zip(node.outputs, region.outputs, strict=True) if name]
    for name, inner in results:
        made = region.values[inner] if inner in region.values else edit.value(inner)
        if not same_type(edit.value(name), made):
            return False
    edit.remove([node])
    edit.adopt(region)
    for name, inner in results:
        edit.emit("Identity", (inner,), origins=[node], output=name)
    return True
