"""Whether an epilogue needs math functions, whose code is too long to repeat for every register of a tile."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from meta_infer.ir.group import Group
from meta_infer.ir.loop import Expr, Intrin, Type, Var
from meta_infer.ops.registry import op_named


def _holds_intrin(expr: object) -> bool:
    if isinstance(expr, Intrin):
        return True
    if isinstance(expr, tuple):
        return any(_holds_intrin(e) for e in expr)
    return is_dataclass(expr) and isinstance(expr, Expr) and any(
        _holds_intrin(getattr(expr, f.name)) for f in fields(expr))


def uses_math(group: Group) -> bool:
    """True when any epilogue node's expression calls a MATH function (exp, tanh, ...)."""
    for node in group.epilogue:
        expr = op_named(node.op).expr
        assert expr is not None, f"{node.op} is not elementwise"
        args = [Var(f"a{i}", Type(group.values[name].dtype)) for i, name in enumerate(node.inputs) if name]
        if _holds_intrin(expr(node.attrs, args)):
            return True
    return False
