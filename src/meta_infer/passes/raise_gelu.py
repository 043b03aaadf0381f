"""Recognise Gelu in the chains of primitives that exporters write.

    before                                              after
    %d: float32[N, 8] = Div(%x, %sqrt2)                 %y: float32[N, 8] = Gelu(%x) {approximate = "none"}
    %e: float32[N, 8] = Erf(%d)
    %g: float32[N, 8] = Add(%e, %one)
    %m: float32[N, 8] = Mul(%x, %g)
    %y: float32[N, 8] = Mul(%m, %half)

x * 0.5 * (1 + erf(x / sqrt 2)) in any order of the product, the division also as a product with 1/sqrt 2; and the
tanh form x * 0.5 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), also as x * (1 + 0.044715 x^2) inside.
Source: Hendrycks and Gimpel, Gaussian Error Linear Units, arXiv:1606.08415.
"""

from __future__ import annotations

import math

from meta_infer.ir.graph import Graph, Node
from meta_infer.passes.match import factors, is_near, keeps_shape, split_number
from meta_infer.passes.rewrite import Edit, apply_rule

_CUBIC = 0.044715


def raise_gelu(graph: Graph) -> Graph:
    """Replace the erf and tanh chains, whose inner values nobody else reads, by Gelu. See the module."""
    return apply_rule(graph, _raise)


def _raise(edit: Edit, node: Node) -> bool:
    matched: list[Node] = []
    product = factors(edit, node, matched) if node.op in ("Mul", "Div") else None
    if product is None or len(product[1]) != 2 or not is_near(product[0], 0.5, node.outputs[0], edit):
        return False
    first, second = product[1]
    return any(_raise_product(edit, node, x, gate, list(matched))
               for x, gate in ((first, second), (second, first)))


def _raise_product(edit: Edit, root: Node, x: str, gate: str, matched: list[Node]) -> bool:
    """`root` is 0.5 * x * gate: see whether gate is 1 + erf(..) or 1 + tanh(..) of the same x."""
    add = edit.made_by(gate, "Add")
    split = split_number(edit, add)
    inner = edit.made_by(split[0], "Erf", "Tanh") if split and split[1] == 1.0 else None
    if add is None or inner is None or not keeps_shape(edit, x, root):
        return False
    matched += [add, inner]
    fits = _is_erf_operand if inner.op == "Erf" else _is_tanh_operand
    if not fits(edit, inner.inputs[0], x, matched) or not edit.is_closed(matched, root):
        return False
    edit.remove(matched)
    approximate = "none" if inner.op == "Erf" else "tanh"
    edit.emit("Gelu", (x,), {"approximate": approximate}, origins=reversed(matched), output=root.outputs[0])
    return True


def _product(edit: Edit, name: str, matched: list[Node]) -> tuple[float, list[str]] | None:
    node = edit.made_by(name, "Mul", "Div")
    return factors(edit, node, matched) if node is not None else None


def _is_erf_operand(edit: Edit, name: str, x: str, matched: list[Node]) -> bool:
    product = _product(edit, name, matched)
    return product is not None and product[1] == [x] and is_near(product[0], math.sqrt(0.5), x, edit)


def _is_tanh_operand(edit: Edit, name: str, x: str, matched: list[Node]) -> bool:
    """sqrt(2/pi) * (x + 0.044715 x^3), or sqrt(2/pi) * x * (1 + 0.044715 x^2)."""
    product = _product(edit, name, matched)
    if product is None or not is_near(product[0], math.sqrt(2 / math.pi), x, edit):
        return False
    rest = sorted(product[1], key=lambda factor: factor == x)
    add = edit.made_by(rest[0], "Add")
    if add is None:
        return False
    matched.append(add)
    if len(rest) == 1:
        others = [operand for operand in add.inputs if operand != x]
        return len(others) == 1 and _is_power(edit, others[0], x, 3, matched)
    split = split_number(edit, add)
    return rest[1:] == [x] and split is not None and split[1] == 1.0 and _is_power(edit, split[0], x, 2, matched)


def _is_power(edit: Edit, name: str, x: str, power: int, matched: list[Node]) -> bool:
    """0.044715 * x ** power."""
    product = _product(edit, name, matched)
    if product is None or not is_near(product[0], _CUBIC, x, edit):
        return False
    found = 0
    for factor in product[1]:
        node = edit.made_by(factor, "Pow", "Mul")
        if factor == x:
            found += 1
        elif node is not None and node.op == "Mul" and node.inputs == (x, x):
            matched.append(node)
            found += 2
        elif node is not None and node.op == "Pow" and node.inputs[0] == x:
            exponent = edit.uniform(node.inputs[1])
            if exponent not in (2.0, 3.0):
                return False
            matched.append(node)
            found += int(exponent)
        else:
            return False
    return found == power
