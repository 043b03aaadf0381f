"""Recognise HardSwish(x) = x * max(0, min(1, x / 6 + 1/2)).

    before                                                 after
    %a: float32[N] = Add(%x, 3.0)                          %y: float32[N] = HardSwish(%x)
    %c: float32[N] = Clip(%a) {max = 6.0, min = 0.0}
    %m: float32[N] = Mul(%x, %c)
    %y: float32[N] = Div(%m, 6.0)

The division may be a product and may stand before the product with x; or the gate is HardSigmoid with alpha = 1/6
and beta = 1/2. Source: Howard et al., Searching for MobileNetV3, arXiv:1905.02244.
"""

from __future__ import annotations

from meta_infer.ir.graph import Graph, Node
from meta_infer.ops.attrs import float_of
from meta_infer.passes.match import factors, is_near, split_number
from meta_infer.passes.raise_hard_sigmoid import has_bounds
from meta_infer.passes.rewrite import Edit, apply_rule


def raise_hard_swish(graph: Graph) -> Graph:
    """Replace the product of x and its gate, inner values read by nobody else, by HardSwish. See the module."""
    return apply_rule(graph, _raise)


def _raise(edit: Edit, node: Node) -> bool:
    matched: list[Node] = []
    product = factors(edit, node, matched) if node.op in ("Mul", "Div") else None
    if product is None or len(product[1]) != 2:
        return False
    first, second = product[1]
    for x, gate in ((first, second), (second, first)):
        nodes = _gate(edit, x, gate, product[0])
        if nodes and edit.is_closed([*nodes, *matched], node):
            whole = [*nodes, *reversed(matched)]
            edit.remove(whole)
            edit.emit("HardSwish", (x,), origins=whole, output=node.outputs[0])
            return True
    return False


def _gate(edit: Edit, x: str, gate: str, scale: float) -> list[Node]:
    """The nodes that make `scale * gate` the hard sigmoid of x; empty when they do not."""
    node = edit.made_by(gate, "Clip", "HardSigmoid")
    if node is None:
        return []
    if node.op == "HardSigmoid":
        alpha, beta = float_of(node.attrs, "alpha"), float_of(node.attrs, "beta")
        fits = scale == 1.0 and beta == 0.5 and is_near(alpha, 1 / 6, x, edit)
        return [node] if fits and node.inputs[0] == x else []
    add = edit.made_by(node.inputs[0], "Add")
    if add is None or split_number(edit, add) != (x, 3.0):
        return []
    return [add, node] if has_bounds(edit, node, 6.0) and is_near(scale, 1 / 6, x, edit) else []
