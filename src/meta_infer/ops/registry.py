"""All ops, as one explicit tuple of the families' tuples."""

from __future__ import annotations

from meta_infer.ops.opdef import OpDef

OPS: tuple[OpDef, ...] = ()

_BY_NAME = {op.name: op for op in OPS}


def op_named(name: str) -> OpDef:
    """The OpDef called `name`. Raises KeyError when there is none."""
    return _BY_NAME[name]
