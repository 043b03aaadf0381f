"""What several patterns look for: constants near a number, products of factors, a constant beside a variable."""

from __future__ import annotations

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.passes.rewrite import Edit


def is_near(found: float | None, wanted: float, name: str, edit: Edit) -> bool:
    """Whether `found` is `wanted` as an exporter writes it in the dtype of value `name` (1e-5, or 2 eps if more)."""
    if found is None or not edit.value(name).dtype.is_float:
        return False
    bits = edit.value(name).dtype.bits
    tolerance = 1e-5 if bits >= 32 else 2e-3
    return abs(found - wanted) <= tolerance * abs(wanted)


def split_constant(edit: Edit, node: Node) -> tuple[str, np.ndarray] | None:
    """(variable, constant) operands of a commutative binary node, in either order."""
    first, second = node.inputs
    for variable, other in ((first, second), (second, first)):
        array = edit.constant(other)
        if array is not None and edit.constant(variable) is None:
            return variable, array
    return None


def split_number(edit: Edit, node: Node | None) -> tuple[str, float] | None:
    """(variable, number) when one operand of a commutative binary node is a constant full of one number."""
    if node is None or len(node.inputs) != 2:
        return None
    first, second = node.inputs
    for variable, other in ((first, second), (second, first)):
        number = edit.uniform(other)
        if number is not None and edit.constant(variable) is None and keeps_shape(edit, variable, node):
            return variable, number
    return None


def keeps_shape(edit: Edit, name: str, node: Node) -> bool:
    """Whether `node` yields the type of its operand `name`: the other operand does not broadcast it up."""
    a, b = edit.value(name), edit.value(node.outputs[0])
    return (a.dtype, a.shape) == (b.dtype, b.shape)


def scaled_by(edit: Edit, node: Node) -> tuple[str, float] | None:
    """(x, c) when `node` is x * c or x / c with a number c that is finite and not 0."""
    if node.op not in ("Mul", "Div"):
        return None
    for x, other in (node.inputs, node.inputs[::-1])[:1 if node.op == "Div" else 2]:
        number = edit.uniform(other)
        if number and np.isfinite(number) and edit.constant(x) is None and keeps_shape(edit, x, node):
            return x, number if node.op == "Mul" else 1 / number
    return None


def factors(edit: Edit, node: Node, matched: list[Node]) -> tuple[float, list[str]] | None:
    """The product that `node` (Mul or Div) is: (number, other factors). Nodes it consists of go to `matched`.

    Follows Mul and division by a number as long as each inner product has one reader.
    """
    if node.op == "Div":
        number = edit.uniform(node.inputs[1])
        if not number or not keeps_shape(edit, node.inputs[0], node):
            return None
        operands, coefficient = [node.inputs[0]], 1.0 / number
    elif node.op == "Mul":
        operands, coefficient = list(node.inputs), 1.0
    else:
        return None
    matched.append(node)
    found: list[str] = []
    for name in operands:
        number = edit.uniform(name)
        inner = edit.made_by(name, "Mul", "Div")
        if number is not None:
            coefficient *= number
            continue
        alone = inner is not None and edit.only_user(name) is node and node.inputs.count(name) == 1
        deeper = factors(edit, inner, matched) if inner is not None and alone else None
        if deeper is None:
            found.append(name)
            continue
        coefficient *= deeper[0]
        found += deeper[1]
    return coefficient, found
