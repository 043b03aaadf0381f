"""Fold BatchNormalization into the weights of the Conv, ConvTranspose or Gemm before it, else make it Mul and Add.

    before                                                       after
    %c: float32[1, 8, 4, 4] = Conv(%x, %w, %b)                   %y: float32[1, 8, 4, 4] = Conv(%x, %w_1, %y_bias)
    %y: float32[1, 8, 4, 4] = BatchNormalization(%c, %s, ...)

with w_1 = w * s / sqrt(var + epsilon) per output channel. Only when nobody else reads %c: behind a residual branch

    %y: float32[1, 8, 4, 4] = BatchNormalization(%x, %s, ...)    %m: float32[1, 8, 4, 4] = Mul(%x, %scale)
                                                                 %y: float32[1, 8, 4, 4] = Add(%m, %shift)

Source: Jacob et al., arXiv:1712.05877, section 3.2.
"""

from __future__ import annotations

import numpy as np

from meta_infer.ir.graph import Graph, Node
from meta_infer.ops.attrs import float_of
from meta_infer.passes.rewrite import Edit, apply_rule
from meta_infer.passes.scale_shift import LINEAR, fold_scale_shift


def fuse_batch_norm(graph: Graph) -> Graph:
    """Remove every BatchNormalization whose parameters are constants. See the module."""
    return apply_rule(graph, _fuse)


def _fuse(edit: Edit, node: Node) -> bool:
    if node.op != "BatchNormalization":
        return False
    arrays = [edit.constant(name) for name in node.inputs[1:5]]
    parameters = [array.astype(np.float64) for array in arrays if array is not None]
    if len(parameters) < 4 or not edit.value(node.outputs[0]).dtype.is_float:
        return False
    gamma, beta, mean, variance = parameters
    with np.errstate(all="ignore"):
        scale = gamma / np.sqrt(variance + float_of(node.attrs, "epsilon", 1e-5))
        shift = beta - mean * scale
    linear = edit.made_by(node.inputs[0], *LINEAR)
    if linear is not None and fold_scale_shift(edit, linear, scale, shift, node):
        return True
    return _as_mul_add(edit, node, scale, shift)


def _as_mul_add(edit: Edit, node: Node, scale: np.ndarray, shift: np.ndarray) -> bool:
    x = edit.value(node.inputs[0])
    shape = (len(scale), *[1] * (x.rank - 2)) if x.rank > 1 else (len(scale),)
    with np.errstate(all="ignore"):
        arrays = [a.astype(x.dtype.numpy).reshape(shape) for a in (scale, shift)]
    if not all(np.isfinite(array).all() for array in arrays):
        return False
    edit.remove([node])
    name = node.outputs[0]
    factor, term = (edit.add_constant(a, f"{name}_{word}") for a, word in zip(arrays, ("scale", "shift"), strict=True))
    product = edit.emit("Mul", (x.name, factor), origins=[node], hint=f"{name}_scaled")
    edit.emit("Add", (product, term), origins=[node], output=name)
    return True
