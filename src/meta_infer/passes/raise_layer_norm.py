"""Recognise LayerNormalization in the chain of primitives that exporters write.

    before                                                               after
    %m: float32[N, 1] = ReduceMean(%x) {axes = (1,), keepdims = true}    %y: float32[N, 8] =
    %d: float32[N, 8] = Sub(%x, %m)                                          LayerNormalization(%x, %w, %b)
    %q: float32[N, 8] = Mul(%d, %d)                                          {axis = 1, epsilon = 1e-05}
    %v: float32[N, 1] = ReduceMean(%q) {axes = (1,), keepdims = true}
    %e: float32[N, 1] = Add(%v, %eps)
    %s: float32[N, 1] = Sqrt(%e)
    %n: float32[N, 8] = Div(%d, %s)
    %g: float32[N, 8] = Mul(%n, %w)
    %y: float32[N, 8] = Add(%g, %b)

The square may be Pow(d, 2), the division a product with 1/s or Reciprocal(s); scale and bias may be missing (then
the scale is ones). The axes must be the last ones. Source: Ba et al., Layer Normalization, arXiv:1607.06450.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from meta_infer.ir.graph import Graph, Node, Shape
from meta_infer.ops.attrs import bool_of, ints_of
from meta_infer.passes.match import split_number
from meta_infer.passes.rewrite import Edit, apply_rule


def raise_layer_norm(graph: Graph) -> Graph:
    """Replace the chain, whose inner values nobody else reads, by LayerNormalization. See the module."""
    return apply_rule(graph, _raise)


@dataclass
class _Match:
    """(x - mean) / sqrt(var + epsilon) as found so far."""

    x: str
    axis: int
    epsilon: float
    nodes: list[Node] = field(default_factory=list)


def _raise(edit: Edit, node: Node) -> bool:
    match = _normalised(edit, node)
    if match is None or not edit.is_closed(match.nodes, node):
        return False
    shape = edit.value(match.x).shape[match.axis:]
    if not all(isinstance(dim, int) for dim in shape):
        return False
    nodes, root = match.nodes, node
    scale = _following(edit, root, "Mul", shape)
    if scale is not None:
        root = scale[1]
        nodes.append(root)
    bias = _following(edit, root, "Add", shape) if scale is not None else None
    if bias is not None:
        root = bias[1]
        nodes.append(root)
    edit.remove(nodes)
    inputs = [match.x, _as_parameter(edit, scale[0], shape) if scale else _ones(edit, match.x, shape)]
    if bias is not None:
        inputs.append(_as_parameter(edit, bias[0], shape))
    attrs = {"axis": match.axis, "epsilon": match.epsilon}
    edit.emit("LayerNormalization", tuple(inputs), attrs, origins=nodes, output=root.outputs[0])
    return True


def _normalised(edit: Edit, node: Node) -> _Match | None:
    """Match `node` as the quotient of deviation and standard deviation."""
    if node.op == "Div":
        root = edit.made_by(node.inputs[1], "Sqrt")
        return _deviation(edit, node.inputs[0], root, [node]) if root is not None else None
    if node.op != "Mul":
        return None
    for deviation, factor in (node.inputs, node.inputs[::-1]):
        inverse = edit.made_by(factor, "Reciprocal", "Div")
        if inverse is None or (inverse.op == "Div" and edit.uniform(inverse.inputs[0]) != 1.0):
            continue
        root = edit.made_by(inverse.inputs[-1], "Sqrt")
        found = _deviation(edit, deviation, root, [inverse, node]) if root is not None else None
        if found is not None:
            return found
    return None


def _deviation(edit: Edit, name: str, root: Node, nodes: list[Node]) -> _Match | None:
    """`name` / `root`, where root is the square root of the mean square of `name` plus epsilon."""
    add = edit.made_by(root.inputs[0], "Add")
    split = split_number(edit, add)
    variance = edit.made_by(split[0], "ReduceMean") if split else None
    square = edit.made_by(variance.inputs[0], "Mul", "Pow") if variance is not None else None
    sub = edit.made_by(name, "Sub")
    mean = edit.made_by(sub.inputs[1], "ReduceMean") if sub is not None else None
    if add is None or split is None or variance is None or square is None or sub is None or mean is None:
        return None
    squared = square.inputs == (name, name) if square.op == "Mul" else (
        square.inputs[0] == name and edit.uniform(square.inputs[1]) == 2.0)
    axis = _last_axes(edit, mean)
    if not squared or mean.inputs[0] != sub.inputs[0] or axis is None or axis != _last_axes(edit, variance):
        return None
    if not edit.value(sub.inputs[0]).dtype.is_float:
        return None
    return _Match(sub.inputs[0], axis, split[1], [mean, sub, square, variance, add, root, *nodes])


def _last_axes(edit: Edit, node: Node) -> int | None:
    """The first axis when `node` reduces that and all later ones and keeps them as 1."""
    rank, axes = edit.value(node.inputs[0]).rank, ints_of(node.attrs, "axes")
    first = rank - len(axes)
    return first if axes and axes == tuple(range(first, rank)) and bool_of(node.attrs, "keepdims", True) else None


def _following(edit: Edit, node: Node, op: str, shape: Shape) -> tuple[str, Node] | None:
    """(parameter, node) when the one reader of `node` applies `op` with a parameter of `shape` to it."""
    user = edit.only_user(node.outputs[0])
    if user is None or user.op != op or set(user.inputs) == {node.outputs[0]}:
        return None
    other = next(name for name in user.inputs if name != node.outputs[0])
    if edit.value(user.outputs[0]).shape != edit.value(node.outputs[0]).shape:
        return None
    value = edit.value(other)
    lead = value.rank - len(shape)
    is_trailing = lead >= 0 and value.shape[lead:] == shape and all(dim == 1 for dim in value.shape[:lead])
    return (other, user) if is_trailing or edit.uniform(other) is not None else None


def _ones(edit: Edit, x: str, shape: Shape) -> str:
    sizes = tuple(dim for dim in shape if isinstance(dim, int))
    return edit.add_constant(np.ones(sizes, edit.value(x).dtype.numpy), "ones")


def _as_parameter(edit: Edit, name: str, shape: Shape) -> str:
    """`name` as a tensor of exactly `shape`: leading ones are dropped, a number is repeated."""
    if edit.value(name).shape == shape:
        return name
    array = edit.constant(name)
    if array is None:
        return edit.emit("Reshape", (name,), {"shape": shape})
    sizes = tuple(dim for dim in shape if isinstance(dim, int))
    flat = array.reshape(sizes) if array.size == np.prod(sizes) else np.full(sizes, array.flat[0], array.dtype)
    return edit.add_constant(np.ascontiguousarray(flat), name)
