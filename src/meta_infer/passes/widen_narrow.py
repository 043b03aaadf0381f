"""Ops compute in float32 or int32 where their operands are of a type that no kernel computes in.

    before                                          after
    %y: bfloat16[4, 3] = MatMul(%x, %w)             %x_1: float32[4, 2] = Cast(%x) {to = float32}
                                                    %y_1: float32[4, 3] = MatMul(%x_1, %w_1)
                                                    %y: bfloat16[4, 3] = Cast(%y_1) {to = bfloat16}

Every result is rounded to its type, so the model keeps its meaning; constants become wide here. Narrow types are
widened in all ops but those of MOVES, float16 in those of WIDENED, which sum or divide, as CPUs without half
arithmetic do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from meta_infer.ir.graph import Attr, Graph, Node
from meta_infer.ops.storage import MOVES, wide_of
from meta_infer.passes.rewrite import Edit, apply_rule
from meta_infer.support.dtypes import FLOAT16, FLOAT32, DType

WIDENED = frozenset({
    "Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "RNN", "Softmax", "LogSoftmax", "LayerNormalization",
    "InstanceNormalization", "BatchNormalization", "AveragePool", "GlobalAveragePool", "Resize", "CumSum", "ReduceSum",
    "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum",
    "ReduceLogSumExp", "CumProd", "SumPool", "Col2Im", "ResizeAxis", "Attention",
})


def widen_narrow(graph: Graph) -> Graph:
    """Compute ops on types that kernels lack in wider ones, between casts."""
    return apply_rule(graph, _widen)


def _wide(node: Node, dtype: DType) -> DType:
    """The type in which `node` computes operands of `dtype`."""
    if dtype.is_narrow and node.op not in MOVES:
        return wide_of(dtype)
    return FLOAT32 if dtype == FLOAT16 and node.op in WIDENED else dtype


def _widen(edit: Edit, node: Node) -> bool:
    types = {name: edit.value(name).dtype for name in (*node.inputs, *node.outputs) if name}
    narrow = {name: _wide(node, dtype) for name, dtype in types.items() if _wide(node, dtype) != dtype}
    if not narrow:
        return False
    edit.remove([node])
    wide = {name: _wide_operand(edit, node, name, narrow[name]) for name in dict.fromkeys(node.inputs)
            if name in narrow}
    results = {name: edit.fresh(name) for name in node.outputs if name in narrow}
    for name, found in results.items():
        edit.declare(found, narrow[name], edit.value(name).shape)
    edit.insert(replace(node, inputs=tuple(wide.get(n, n) for n in node.inputs), attrs=_wide_attrs(node),
                        outputs=tuple(results.get(n, n) for n in node.outputs)))
    for name, found in results.items():
        edit.emit("Cast", (found,), {"to": types[name]}, origins=[node], output=name)
    return True


def _wide_attrs(node: Node) -> Mapping[str, Attr]:
    return {key: _wide(node, attr) if isinstance(attr, DType) else attr for key, attr in node.attrs.items()}


def _wide_operand(edit: Edit, node: Node, name: str, to: DType) -> str:
    array = edit.constant(name)
    if array is not None:
        return edit.add_constant(array.astype(to.numpy), name)
    return edit.emit("Cast", (name,), {"to": to}, origins=[node], hint=name)
