"""Whether an epilogue needs math functions, whose code is too long to repeat for every register of a tile."""

from __future__ import annotations

from meta_infer.ir.group import Group
from meta_infer.ir.loop import Expr, Intrin, Type, Var
from meta_infer.ir.walk_loop import operands
from meta_infer.ops.registry import op_named

# Operations of one node's expression that are as long as a function.
_LONG = 16


def _is_long(expr: Expr) -> bool:
    """Whether an expression calls a MATH function, or is as long as one."""
    seen: dict[int, Expr] = {}
    waiting = [expr]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Intrin):
            return True
        if id(one) not in seen:
            seen[id(one)] = one
            waiting += operands(one)
    return sum(bool(operands(one)) for one in seen.values()) > _LONG


def uses_math(group: Group) -> bool:
    """True when any epilogue node's expression calls a MATH function (exp, tanh, ...) or is as long."""
    for node in group.epilogue:
        expr = op_named(node.op).expr
        assert expr is not None, f"{node.op} is not elementwise"
        args = [Var(f"a{i}", Type(group.values[name].dtype)) for i, name in enumerate(node.inputs) if name]
        if _is_long(expr(node.attrs, args)):
            return True
    return False
