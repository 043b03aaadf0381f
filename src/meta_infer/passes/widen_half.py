"""Ops that sum or divide compute in float32 where their operands are float16, as CPUs without half arithmetic do.

    before                                          after
    %y: float16[4, 3] = MatMul(%x, %w)              %x_1: float32[4, 2] = Cast(%x) {to = float32}
                                                    %y_1: float32[4, 3] = MatMul(%x_1, %w_1)
                                                    %y: float16[4, 3] = Cast(%y_1) {to = float16}

Every result is rounded to float16, so the model keeps its meaning; constants become float32 here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from meta_infer.ir.graph import Graph, Node
from meta_infer.passes.rewrite import Edit, apply_rule
from meta_infer.support.dtypes import FLOAT16, FLOAT32

WIDENED = frozenset({
    "Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "Softmax", "LogSoftmax", "LayerNormalization",
    "InstanceNormalization", "BatchNormalization", "AveragePool", "GlobalAveragePool", "Resize", "CumSum", "ReduceSum",
    "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum",
    "ReduceLogSumExp",
})


def widen_half(graph: Graph) -> Graph:
    """Compute WIDENED ops of float16 operands in float32, between casts."""
    return apply_rule(graph, _widen)


def _widen(edit: Edit, node: Node) -> bool:
    narrow = {name for name in (*node.inputs, *node.outputs) if name and edit.value(name).dtype == FLOAT16}
    if node.op not in WIDENED or not narrow:
        return False
    edit.remove([node])
    wide = {name: _wide_operand(edit, node, name) for name in dict.fromkeys(node.inputs) if name in narrow}
    results = {name: edit.fresh(name) for name in node.outputs if name in narrow}
    edit.insert(replace(node, inputs=tuple(wide.get(n, n) for n in node.inputs),
                        outputs=tuple(results.get(n, n) for n in node.outputs)))
    for name, found in results.items():
        edit.emit("Cast", (found,), {"to": FLOAT16}, origins=[node], output=name)
    return True


def _wide_operand(edit: Edit, node: Node, name: str) -> str:
    array = edit.constant(name)
    if array is not None:
        return edit.add_constant(array.astype(np.float32), name)
    return edit.emit("Cast", (name,), {"to": FLOAT32}, origins=[node], hint=name)
