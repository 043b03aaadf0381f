"""Whether nodes need math functions, whose code is too long to repeat for every register of a tile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from meta_infer.ir.graph import Node, Value
from meta_infer.ir.group import Group
from meta_infer.ir.loop import Expr, Intrin, Type, Var
from meta_infer.ir.walk_loop import operands
from meta_infer.ops.registry import op_named

# Operations of one node's expression that are as long as a function.
_LONG = 16
# Functions that compute in doubles: their vectors are two registers each.
_IN_DOUBLES = ("sin", "cos", "pow")


def _parts(expr: Expr) -> list[Expr]:
    """An expression and all that it is made of, each once."""
    seen: dict[int, Expr] = {}
    waiting = [expr]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen[id(one)] = one
            waiting += operands(one)
    return list(seen.values())


def _is_long(expr: Expr) -> bool:
    """Whether an expression calls a MATH function, or is as long as one."""
    parts = _parts(expr)
    return any(isinstance(one, Intrin) for one in parts) or sum(bool(operands(one)) for one in parts) > _LONG


def _expressions(nodes: Iterable[Node], values: Mapping[str, Value]) -> Iterator[Expr]:
    for node in nodes:
        expr = op_named(node.op).expr
        assert expr is not None, f"{node.op} is not elementwise"
        yield expr(node.attrs, [Var(f"a{i}", Type(values[name].dtype)) for i, name in enumerate(node.inputs) if name])


def uses_math(group: Group) -> bool:
    """True when any epilogue node's expression calls a MATH function (exp, tanh, ...) or is as long."""
    return any(map(_is_long, _expressions(group.epilogue, group.values)))


def waits_for_itself(nodes: Iterable[Node], values: Mapping[str, Value]) -> bool:
    """True when some elementwise node is a long chain of operations and all compute in 32 bits at most.

    Several vectors of such nodes are computed abreast faster than one by one; doubles would leave the registers.
    """
    found = [(one, _parts(one)) for one in _expressions(nodes, values)]
    wide = any(part.type.dtype.bits > 32 or isinstance(part, Intrin) and part.name in _IN_DOUBLES
               for _, parts in found for part in parts)
    return not wide and any(_is_long(one) for one, _ in found)
