"""Cheaper arithmetic of the same value.

    before                                   after
    %y = Add(%x, 0), Sub(%x, 0)              %x
    %y = Mul(%x, 1), Div(%x, 1), Pow(%x, 1)  %x
    %y = Neg(Neg(%x))                        %x
    %y = Pow(%x, 2)                          %y = Mul(%x, %x)
    %y = Pow(%x, 0.5)                        %y = Sqrt(%x)
    %y = Div(%x, 8)                          %y = Mul(%x, 0.125)     only where 1/c is exact: powers of two
    %y = Sub(%x, c)                          %y = Add(%x, -c)
    %y = Mul(Mul(%x, c), d)                  %y = Mul(%x, c * d)     only consumer, moderate numbers
    %y = Add(Add(%x, c), d)                  %y = Add(%x, c + d)     only consumer, numbers of one sign

Sums of constants of different signs stay: `(x + big) - big` is how some models round.
"""

from __future__ import annotations

import numpy as np

from meta_infer.ir.graph import Graph, Node
from meta_infer.passes.match import keeps_shape, split_constant
from meta_infer.passes.rewrite import Edit, apply_rule

_NEUTRAL = {"Add": 0.0, "Sub": 0.0, "Mul": 1.0, "Div": 1.0, "Pow": 1.0}
_COMMUTATIVE = ("Add", "Mul")
_MODERATE = (1e-6, 1e6)


def simplify_arithmetic(graph: Graph) -> Graph:
    """Rewrite sums, products and powers with constants; see the module for the list."""
    return apply_rule(graph, _simplify)


def _simplify(edit: Edit, node: Node) -> bool:
    return (_drop_neutral(edit, node) or _drop_double_neg(edit, node) or _lower_pow(edit, node)
            or _multiply_instead(edit, node) or _add_instead(edit, node) or _merge(edit, node))


def _drop_neutral(edit: Edit, node: Node) -> bool:
    if node.op not in _NEUTRAL:
        return False
    first, second = node.inputs
    orders = ((first, second), (second, first)) if node.op in _COMMUTATIVE else ((first, second),)
    return any(edit.uniform(number) == _NEUTRAL[node.op] and edit.bypass(node, kept)
               for kept, number in orders)


def _drop_double_neg(edit: Edit, node: Node) -> bool:
    inner = edit.made_by(node.inputs[0], "Neg") if node.op == "Neg" else None
    return inner is not None and edit.bypass(node, inner.inputs[0])


def _lower_pow(edit: Edit, node: Node) -> bool:
    if node.op != "Pow" or not keeps_shape(edit, node.inputs[0], node):
        return False
    base, exponent = node.inputs[0], edit.uniform(node.inputs[1])
    if exponent == 2.0:
        return _become(edit, node, "Mul", (base, base))
    if exponent == 0.5 and edit.value(base).dtype.is_float:
        return _become(edit, node, "Sqrt", (base,))
    return False


def _become(edit: Edit, node: Node, op: str, inputs: tuple[str, ...]) -> bool:
    edit.remove([node])
    edit.emit(op, inputs, origins=[node], output=node.outputs[0])
    return True


def _multiply_instead(edit: Edit, node: Node) -> bool:
    """Division by powers of two: the reciprocals are exact, and no denormals."""
    divisor = edit.constant(node.inputs[1]) if node.op == "Div" else None
    if divisor is None or divisor.size == 0 or divisor.dtype.kind != "f":
        return False
    mantissa, exponent = np.frexp(divisor)
    limits = np.finfo(divisor.dtype)
    if not (np.abs(mantissa) == 0.5).all() or (np.abs(exponent - 1) > limits.maxexp - 2).any():
        return False
    return _become(edit, node, "Mul", (node.inputs[0], edit.add_constant(1 / divisor, f"{node.inputs[1]}_inv")))


def _add_instead(edit: Edit, node: Node) -> bool:
    array = edit.constant(node.inputs[1]) if node.op == "Sub" else None
    if array is None or array.dtype.kind != "f" or edit.constant(node.inputs[0]) is not None:
        return False
    return _become(edit, node, "Add", (node.inputs[0], edit.add_constant(-array, f"{node.inputs[1]}_neg")))


def _merge(edit: Edit, node: Node) -> bool:
    outer = split_constant(edit, node) if node.op in _COMMUTATIVE else None
    inner_node = edit.made_by(outer[0], node.op) if outer else None
    if outer is None or inner_node is None or edit.only_user(outer[0]) is not node:
        return False
    inner = split_constant(edit, inner_node)
    if inner is None or not _is_safe(node.op, inner[1], outer[1]):
        return False
    with np.errstate(all="ignore"):
        merged = np.asarray(inner[1] * outer[1] if node.op == "Mul" else inner[1] + outer[1])
    if merged.size > max(inner[1].size, outer[1].size) or edit.value(inner[0]).quant is not None:
        return False
    edit.remove([inner_node, node])
    constant = edit.add_constant(merged, f"{node.outputs[0]}_c")
    edit.emit(node.op, (inner[0], constant), origins=[inner_node, node], output=node.outputs[0])
    return True


def _is_safe(op: str, a: np.ndarray, b: np.ndarray) -> bool:
    """Whether merging the constants rounds no worse than two operations did."""
    if a.dtype.kind in "iu":
        return True                                             # integers wrap: merging is exact
    if a.size == 0 or b.size == 0 or a.dtype.kind != "f":
        return False
    if op == "Add":
        return bool((a >= 0).all() and (b >= 0).all()) or bool((a <= 0).all() and (b <= 0).all())
    low, high = _MODERATE
    sizes = np.concatenate([np.abs(a).reshape(-1), np.abs(b).reshape(-1)])
    return bool(((sizes >= low) & (sizes <= high)).all())
