"""What a group costs at least, read off its types: floating-point operations, and bytes that must move."""

from __future__ import annotations

from meta_infer.ir.graph import Node
from meta_infer.ir.group import Group
from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.opdef import TensorType
from meta_infer.ops.registry import op_named


def node_flops(node: Node, group: Group) -> Dim:
    """Floating-point operations of one node; a multiply-add counts as two. 0 for an op that declares none."""
    flops = op_named(node.op).flops
    if flops is None:
        return 0
    types = {name: TensorType(value.dtype, value.shape) for name, value in group.values.items()}
    inputs = [types[name] if name else None for name in node.inputs]
    return flops(node.attrs, inputs, [types[name] for name in node.outputs if name])


def group_flops(group: Group) -> Dim:
    """Floating-point operations of all nodes of a group."""
    total: Dim = 0
    for node in group.nodes:
        total = total + node_flops(node, group)
    return total


def group_bytes(group: Group) -> Dim:
    """Bytes of all tensors that enter or leave the group, each counted once."""
    total: Dim = 0
    for name in (*group.inputs, *group.outputs):
        value = group.values[name]
        total = total + product(value.shape) * value.dtype.bytes
    return total
