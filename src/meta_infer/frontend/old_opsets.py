"""Models of operator sets before 7, brought to 7 by onnx's own converter.

Opset 7 gave binary ops numpy's broadcasting; before it they had an attribute for it. Nothing below knows of older ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx
from onnx import version_converter

from meta_infer.frontend.check_model import OLDEST_OPSET, opsets_of
from meta_infer.support.errors import UnsupportedError


def raise_opset(proto: onnx.ModelProto, note: Callable[[str], None] | None) -> onnx.ModelProto:
    """`proto`, converted to OLDEST_OPSET when it is of an older one; `note` is told so.

    Raises UnsupportedError when the converter cannot.
    """
    opset = opsets_of(proto).get("", OLDEST_OPSET)
    if not 0 < opset < OLDEST_OPSET:
        return proto
    spread = onnx.ModelProto()
    spread.CopyFrom(proto)
    _spread_operands(spread)
    names = _number_dims(spread)
    try:
        converted = version_converter.convert_version(spread, OLDEST_OPSET)
    except Exception as error:                           # C++ code of onnx: whatever it throws comes as such
        reason = " ".join(str(error).split())
        raise UnsupportedError(f"opset {opset} is older than {OLDEST_OPSET}, and onnx cannot convert it: {reason}",
                               what="the model", hint="export the model again with opset 13 or newer") from error
    _name_dims(converted, names)
    if note is not None:
        note(f"opset {opset} was converted to {OLDEST_OPSET} by onnx.version_converter")
    return converted


_FIRST_NUMBER = 7_340_033                                # a prime, and no size of a model before opset 7


def _number_dims(proto: onnx.ModelProto) -> dict[int, str]:
    """Give dimensions with a name, or none, numbers that no other has: the converter takes only numbers."""
    names: dict[str, int] = {}
    del proto.graph.value_info[:]
    for value in (*proto.graph.input, *proto.graph.output):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                name = dim.dim_param or f"{value.name}/{axis}"
                dim.dim_value = names.setdefault(name, _FIRST_NUMBER + 2 * len(names))
    return {number: name for name, number in names.items()}


def _name_dims(proto: onnx.ModelProto, names: Mapping[int, str]) -> None:
    """Give the numbered dimensions their names back; what else the converter wrote down of shapes goes."""
    del proto.graph.value_info[:]
    for value in (*proto.graph.input, *proto.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value in names:
                name = names[dim.dim_value]
                dim.Clear()
                if "/" not in name:
                    dim.dim_param = name


def _spread_operands(proto: onnx.ModelProto) -> None:
    """Second operands that begin at some axis of the first get the ones behind them that numpy's rules want.

    They are those of binary ops with an attribute `axis`, and the slopes of PRelu, one per channel: the converter
    leaves both as they are.
    """
    known = onnx.shape_inference.infer_shapes(proto).graph
    ranks = {value.name: len(value.type.tensor_type.shape.dim)
             for value in (*known.input, *known.value_info, *known.output)}
    ranks |= {tensor.name: len(tensor.dims) for tensor in known.initializer}
    nodes = list(proto.graph.node)
    del proto.graph.node[:]
    for node in nodes:
        behind = _ones_behind(node, ranks)
        if behind > 0:
            rank, spread = ranks[node.input[1]], f"{node.output[0]}/spread"
            proto.graph.node.append(onnx.helper.make_node("Unsqueeze", [node.input[1]], [spread],
                                                          axes=list(range(rank, rank + behind))))
            node.input[1] = spread
        proto.graph.node.append(node)


def _ones_behind(node: onnx.NodeProto, ranks: Mapping[str, int]) -> int:
    """How many dimensions of size 1 the second operand lacks behind its own."""
    if len(node.input) != 2 or not {*node.input} <= ranks.keys():
        return 0
    rank, own = (ranks[name] for name in node.input)
    if node.op_type == "PRelu":
        return rank - 2 if own == 1 else 0
    axis = next((a for a in node.attribute if a.name == "axis"), None)
    if axis is None or not any(a.name == "broadcast" and a.i for a in node.attribute):
        return 0
    node.attribute.remove(axis)
    return rank - (axis.i + rank if axis.i < 0 else axis.i) - own
