"""Fold a product or sum with per-channel constants into the weights of the Conv, ConvTranspose or Gemm before it.

    before                                           after
    %c: float32[1, 8, 4, 4] = Conv(%x, %w)           %y: float32[1, 8, 4, 4] = Conv(%x, %w_1, %y_bias)
    %m: float32[1, 8, 4, 4] = Mul(%c, %scale)
    %y: float32[1, 8, 4, 4] = Add(%m, %shift)

where %scale and %shift are constants [8, 1, 1] (or one number), and nobody else reads %c and %m. Div likewise.
"""

from __future__ import annotations

import numpy as np

from meta_infer.ir.graph import Graph, Node
from meta_infer.passes.match import keeps_shape, split_constant
from meta_infer.passes.rewrite import Edit, apply_rule
from meta_infer.passes.scale_shift import LINEAR, channels, fold_scale_shift, per_channel


def fuse_conv_scale(graph: Graph) -> Graph:
    """Fold Mul, Div and Add of constants into the linear op that they alone read. See the module."""
    return apply_rule(graph, _fuse)


def _fuse(edit: Edit, node: Node) -> bool:
    split = _operands(edit, node)
    linear = edit.made_by(split[0], *LINEAR) if split else None
    if split is None or linear is None or not keeps_shape(edit, split[0], node):
        return False
    count = channels(edit, linear)
    array = per_channel(split[1], edit.value(split[0]).rank, count) if count is not None else None
    if array is None or count is None:
        return False
    if node.op == "Add":
        return fold_scale_shift(edit, linear, np.ones(count), array, node)
    with np.errstate(all="ignore"):
        scale = array if node.op == "Mul" else 1.0 / array
    return fold_scale_shift(edit, linear, scale, np.zeros(count), node)


def _operands(edit: Edit, node: Node) -> tuple[str, np.ndarray] | None:
    if node.op in ("Mul", "Add"):
        return split_constant(edit, node)
    array = edit.constant(node.inputs[1]) if node.op == "Div" else None
    return (node.inputs[0], array) if array is not None else None
