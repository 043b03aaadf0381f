"""Epilogues and operands: what every kernel does with a vector of results.

A kernel that has computed `lanes` neighbouring elements of its anchor's output describes where they are (a `Point`),
and `apply_nodes` runs the group's elementwise nodes on them, loading other operands with broadcasting;
`store_outputs` writes what the group yields. So any elementwise op can follow any anchor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Node, Shape, Value
from meta_infer.ir.group import Group, Layout
from meta_infer.ir.loop import Buffer, Expr, cast, const, iota, minimum, select, splat
from meta_infer.ir.shapes import divisible
from meta_infer.ops.registry import op_named
from meta_infer.support.dtypes import INT32


@dataclass(frozen=True)
class Point:
    """A run of `lanes` elements of a tensor of logical `shape`, along `axis`, starting at `coords`.

    For a blocked layout `axis` is the blocked axis, `coords[axis]` a multiple of the block, and lanes == block.
    `count` is how many lanes are inside the tensor; None means all are.
    """

    shape: Shape
    coords: tuple[Expr, ...]
    axis: int
    lanes: int
    count: Expr | None = None


def channel_count(b: Builder, shape: Shape, axis: int, first: Expr, lanes: int) -> Expr | None:
    """Lanes that lie inside the tensor for a run that starts at `first` of `axis`; None when always all."""
    if divisible(shape[axis], lanes):
        return None
    return b.let(minimum(b.dim(shape[axis]) - first, lanes), "count")


def flat_index(b: Builder, shape: Shape, layout: Layout, coords: tuple[Expr, ...]) -> Expr:
    """Element index in memory of a logical coordinate; dims of size 1 are skipped, so broadcast shapes work."""
    physical = layout.physical(shape)
    places = [*coords]
    if layout.block:
        channel = coords[layout.axis]
        places[layout.axis] = channel // layout.block
        places.append(channel % layout.block)
    index: Expr = const(0)
    for place, size in zip(places, physical, strict=True):
        index = index * b.dim(size) + (const(0) if size == 1 else place)
    return index


def load_operand(b: Builder, buffer: Buffer, value: Value, layout: Layout, point: Point) -> Expr:
    """The elements of `value` that meet `point` under numpy broadcasting, as `point.lanes` lanes.

    Raises AssertionError when the layout does not fit the point: planning must have converted the operand.
    """
    lead = len(point.shape) - value.rank
    coords = tuple(const(0) if d == 1 else point.coords[i + lead] for i, d in enumerate(value.shape))
    axis = point.axis - lead
    if axis < 0 or value.shape[axis] == 1 or point.lanes == 1:
        scalar = b.load(buffer, flat_index(b, value.shape, layout, coords))
        return scalar if point.lanes == 1 else splat(b.let(scalar, "s"), point.lanes)
    if layout.block:
        assert layout.axis == axis and layout.block == point.lanes, f"operand %{value.name} is {layout}"
        return b.load(buffer, flat_index(b, value.shape, layout, coords), point.lanes)
    assert all(d == 1 for d in value.shape[axis + 1:]), f"operand %{value.name} is strided along axis {axis}"
    return b.load(buffer, flat_index(b, value.shape, layout, coords), point.lanes, point.count)


def apply_nodes(b: Builder, nodes: Iterable[Node], values: Mapping[str, Value], known: dict[str, Expr],
                buffers: Mapping[str, Buffer], layouts: Mapping[str, Layout], point: Point) -> dict[str, Expr]:
    """Run elementwise nodes in order. `known` maps value names to registers; the result adds the nodes' outputs."""
    known = dict(known)
    for node in nodes:
        args = []
        for name in node.inputs:
            if name and name not in known:
                loaded = load_operand(b, buffers[name], values[name], layouts[name], point)
                known[name] = b.let(loaded, "op")
            if name:
                args.append(known[name])
        expr = op_named(node.op).expr
        assert expr is not None, f"{node.op} is not elementwise"
        known[node.outputs[0]] = b.let(expr(node.attrs, args), "e")
    return known


def zero_padding(b: Builder, value: Expr, point: Point) -> Expr:
    """`value` with the lanes beyond `point.count` set to zero."""
    if point.count is None:
        return value
    inside = iota(point.lanes).lt(splat(cast(point.count, INT32), point.lanes))
    return select(inside, value, const(0, value.type))


def store_outputs(b: Builder, group: Group, known: Mapping[str, Expr], buffers: Mapping[str, Buffer],
                  layouts: Mapping[str, Layout], point: Point) -> None:
    """Store every group output at `point`: padding lanes become zero when blocked, are not written when plain."""
    for name in group.outputs:
        at = flat_index(b, group.values[name].shape, layouts[name], point.coords)
        if layouts[name].block:
            b.store(buffers[name], at, zero_padding(b, known[name], point))
        else:
            b.store(buffers[name], at, known[name], point.count)


def bind(b: Builder, group: Group) -> dict[str, Buffer]:
    """A parameter for every input and output of the group, in that order: the args of the call are
    `(*group.inputs, *group.outputs)`. Kernels with packed weights bind by hand instead."""
    buffers = {name: b.input(f"in{i}", group.values[name].dtype) for i, name in enumerate(group.inputs)}
    for i, name in enumerate(group.outputs):
        buffers[name] = b.output(f"out{i}", group.values[name].dtype)
    return buffers
