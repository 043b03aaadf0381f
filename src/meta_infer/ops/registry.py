"""All ops, as one explicit tuple of the families' tuples."""

from __future__ import annotations

from meta_infer.ops import (
    activation,
    cast,
    clip,
    comparison,
    concat,
    convolution,
    elementwise_binary,
    elementwise_unary,
    gather,
    identity,
    matmul,
    normalization,
    pooling,
    reduction,
    reshape,
    shape,
    softmax,
    transpose,
)
from meta_infer.ops.opdef import OnnxImport, OpDef

OPS: tuple[OpDef, ...] = (
    *elementwise_unary.OPS,
    *activation.OPS,
    *elementwise_binary.OPS,
    *comparison.OPS,
    *cast.OPS,
    *clip.OPS,
    *identity.OPS,
    *matmul.OPS,
    *convolution.OPS,
    *pooling.OPS,
    *softmax.OPS,
    *normalization.OPS,
    *reduction.OPS,
    *shape.OPS,
    *reshape.OPS,
    *transpose.OPS,
    *concat.OPS,
    *gather.OPS,
)

NEWEST_OPSET = 24
"""Newest version of the ONNX operator set whose changes to these ops have been read; newer ones are refused."""

_BY_NAME = {op.name: op for op in OPS}
_IMPORTS = [(op, rule) for op in OPS for rule in op.onnx]


def op_named(name: str) -> OpDef:
    """The OpDef called `name`. Raises KeyError when there is none."""
    return _BY_NAME[name]


def ops_importing(onnx_op: str, version: int, domain: str = "") -> OnnxImport | None:
    """The rule that imports ONNX op `onnx_op` whose schema is of `version` (its since_version); None when none does.

    A rule without `convert` keeps op name, inputs, outputs and attributes.
    """
    for _, rule in _IMPORTS:
        if rule.op == onnx_op and rule.domain == domain and rule.since <= version <= min(rule.until, NEWEST_OPSET):
            return rule
    return None
