"""Recognise HardSigmoid(x) = max(0, min(1, alpha * x + beta)).

    before                                                 after
    %a: float32[N] = Add(%x, 3.0)                          %y: float32[N] = HardSigmoid(%x)
    %c: float32[N] = Clip(%a) {max = 6.0, min = 0.0}           {alpha = 0.16666667, beta = 0.5}
    %y: float32[N] = Div(%c, 6.0)

Also with Mul(%c, 1/6), and as Clip(alpha * x + beta, 0, 1).
"""

from __future__ import annotations

from meta_infer.ir.graph import Graph, Node
from meta_infer.ops.attrs import float_of
from meta_infer.passes.match import factors, is_near, split_number
from meta_infer.passes.rewrite import Edit, apply_rule


def raise_hard_sigmoid(graph: Graph) -> Graph:
    """Replace Clip between an affine function and a scaling, inner values read by nobody else. See the module."""
    return apply_rule(graph, _raise)


def _raise(edit: Edit, node: Node) -> bool:
    return _scaled_clip(edit, node) or _unit_clip(edit, node)


def _scaled_clip(edit: Edit, node: Node) -> bool:
    """Clip(x + c, 0, m) * s with s * m == 1."""
    matched: list[Node] = []
    product = factors(edit, node, matched) if node.op in ("Mul", "Div") else None
    clip = edit.made_by(product[1][0], "Clip") if product and len(product[1]) == 1 else None
    if product is None or clip is None or product[0] <= 0 or not has_bounds(edit, clip, 1.0 / product[0]):
        return False
    add = edit.made_by(clip.inputs[0], "Add")
    split = split_number(edit, add)
    if add is None or split is None:
        return False
    scale = product[0]
    return _become(edit, node, [add, clip, *reversed(matched)], split[0], scale, split[1] * scale)


def _unit_clip(edit: Edit, node: Node) -> bool:
    """Clip(alpha * x + beta, 0, 1)."""
    if node.op != "Clip" or not has_bounds(edit, node, 1.0):
        return False
    add = edit.made_by(node.inputs[0], "Add")
    split = split_number(edit, add)
    product = edit.made_by(split[0], "Mul", "Div") if split else None
    matched: list[Node] = []
    found = factors(edit, product, matched) if product is not None else None
    if add is None or split is None or found is None or len(found[1]) != 1:
        return False
    return _become(edit, node, [*reversed(matched), add, node], found[1][0], found[0], split[1])


def has_bounds(edit: Edit, clip: Node, high: float) -> bool:
    """Whether `clip` is Clip to 0..high."""
    found = float_of(clip.attrs, "max", float("inf"))
    return float_of(clip.attrs, "min", float("-inf")) == 0.0 and is_near(found, high, clip.outputs[0], edit)


def _become(edit: Edit, root: Node, nodes: list[Node], x: str, alpha: float, beta: float) -> bool:
    same = edit.value(x).shape == edit.value(root.outputs[0]).shape
    if not same or not edit.value(x).dtype.is_float or not edit.is_closed(nodes, root):
        return False
    edit.remove(nodes)
    attrs = {"alpha": alpha, "beta": beta}
    edit.emit("HardSigmoid", (x,), attrs, origins=nodes, output=root.outputs[0])
    return True
