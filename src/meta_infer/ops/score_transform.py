"""What the models of ai.onnx.ml do to their scores last: `post_transform`."""

from __future__ import annotations

import math

from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.support.dtypes import DType

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""By number, as TreeEnsemble of version 5 numbers them."""


def transformed(build: NodeBuilder, scores: str, how: str, dtype: DType) -> str:
    """Scores [rows, classes] after `how`. SOFTMAX_ZERO leaves zeros out and keeps them."""
    if how == "SOFTMAX":
        return build.emit("Softmax", scores, axis=1)
    if how == "LOGISTIC":
        return build.emit("Sigmoid", scores)
    if how == "SOFTMAX_ZERO":
        zero = build.scalar(0, dtype, "zero")
        absent = build.emit("Equal", scores, zero)
        low = build.emit("Where", absent, build.scalar(-math.inf, dtype, "absent"), scores)
        top = build.emit("Max", build.emit("ReduceMax", low, axes=(1,), keepdims=True),
                         build.scalar(-1e30, dtype, "lowest"))
        powers = build.emit("Exp", build.emit("Sub", low, top))
        total = build.emit("ReduceSum", powers, axes=(1,), keepdims=True)
        some = build.emit("Where", build.emit("Equal", total, zero), build.scalar(1, dtype, "one"), total)
        return build.emit("Div", powers, some)
    if how == "PROBIT":
        return _probit(build, scores, dtype)
    return scores


def _probit(build: NodeBuilder, p: str, dtype: DType) -> str:
    """sqrt(2) erf^-1(2 p - 1), erf^-1 by Winitzki's formula (2008), as ONNX Runtime computes it."""
    def c(value: float) -> str:
        return build.scalar(value, dtype)

    x = build.emit("Sub", build.emit("Mul", p, c(2.0)), c(1.0))
    log = build.emit("Log", build.emit("Mul", build.emit("Sub", c(1.0), x), build.emit("Add", c(1.0), x)))
    v = build.emit("Add", build.emit("Mul", log, c(0.5)), c(2 / (math.pi * 0.147)))
    inner = build.emit("Sub", build.emit("Mul", v, v), build.emit("Mul", log, c(1 / 0.147)))
    root = build.emit("Sqrt", build.emit("Sub", build.emit("Sqrt", inner), v))
    return build.emit("Mul", build.emit("Mul", root, build.emit("Sign", x)), c(math.sqrt(2)))
