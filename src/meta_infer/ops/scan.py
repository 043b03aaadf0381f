"""ONNX's Scan as Loops: the rows of its inputs are slices at the number of the pass, which need no copy.

    %last, %ys = Scan(%state, %xs)  ->  %last, %ys = Loop(T, , %state) regions {
                                          body(%i, %go, %s) captures %xs {
                                            %x = Reshape(Slice(%xs) {starts = ([i], 0), sizes = (1, 8)})
                                            ... the body of the Scan ...
                                          } -> (%go, %s1, %y)

Scanned axes other than the first are transposed to the front before, and back behind. Backwards, row T - 1 - i is
read or written. Version 8 has a batch in front, which is a Loop of its own around that one; with sequence_lens all
run to the end, but past an entry's length its states keep their values and its rows are zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from meta_infer.ir.graph import Graph, Node, Shape, Value, free_names
from meta_infer.ir.shapes import Dim, upper
from meta_infer.ops.attrs import dims_of
from meta_infer.ops.importing import attr_int, attr_ints, axis_in, core_node, origin_of, present
from meta_infer.ops.loop_node import loop_node
from meta_infer.ops.opdef import ImportContext, OnnxNode, TensorType
from meta_infer.support.dtypes import BOOL, INT64, DType


@dataclass
class _Region:
    """The body of a Loop in the making."""

    ctx: ImportContext
    origin: str
    nodes: list[Node] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)

    def value(self, hint: str, dtype: DType, shape: Shape) -> str:
        name = self.ctx.fresh(hint)
        self.values[name] = Value(name, dtype, shape)
        return name

    def row(self, x: str, found: TensorType, at: Dim, out: str = "") -> str:
        """Row `at` of `x`, which is of type `found`, without its first dimension."""
        rest = found.shape[1:]
        cut = self.value(f"{x}/row", found.dtype, (1, *rest))
        self.nodes.append(Node("Slice", (x,), (cut,), {
            "starts": (at, *(0,) * len(rest)), "sizes": (1, *rest), "steps": (1,) * len(found.shape)}, (self.origin,)))
        out = out or self.value(f"{x}/entry", found.dtype, rest)
        self.nodes.append(Node("Reshape", (cut,), (out,), {"shape": rest}, (self.origin,)))
        return out

    def where(self, cond: str, a: str, b: str, found: TensorType) -> str:
        out = self.value(f"{a}/kept", found.dtype, found.shape)
        self.nodes.append(Node("Where", (cond, a, b), (out,), {}, (self.origin,)))
        return out

    def finish(self, name: str, inputs: Sequence[str], outputs: Sequence[str], like: Graph | None = None) -> Graph:
        """The region; `like` gives its own values and constants, too."""
        values = {**(like.values if like else {}), **self.values}
        made = Graph(name, tuple(inputs), tuple(outputs), tuple(self.nodes), values, like.constants if like else {})
        return made.replace(captures=free_names(made))


def import_scan(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """See the module."""
    absent = [""] * (len(node.regions["body"].outputs) - len(node.outputs))
    node = replace(node, outputs=(*node.outputs, *absent))
    if node.version < 9:
        return _with_batch(node, ctx)
    count = attr_int(node, "num_scan_inputs")
    states, scanned = node.inputs[:len(node.inputs) - count], node.inputs[len(node.inputs) - count:]
    xs = [_to_front(node, ctx, x, axis)
          for x, axis in zip(scanned, _flags(node, "scan_input_axes", count), strict=True)]
    types = [ctx.type_of(x) for x in xs]
    outs = node.outputs[len(states):]
    ranks = [len(ctx.type_of(name).shape) + 1 for name in node.regions["body"].outputs[len(states):]]
    axes = [axis_in(node, axis, rank)
            for axis, rank in zip(_flags(node, "scan_output_axes", len(outs)), ranks, strict=True)]
    names = [ctx.fresh(f"{out}/rows") if out and axis else out for out, axis in zip(outs, axes, strict=True)]

    body = node.regions["body"]
    step, length = dims_of(node.attrs, "iteration")[0], types[0].shape[0]
    inner = _scan_body(node, ctx, body, xs, types, _flags(node, "scan_input_directions", count), step, length)
    reverse = tuple(i for i, backward in enumerate(_flags(node, "scan_output_directions", len(outs))) if backward)
    starts = [ctx.type_of(name).shape for name in states]
    inputs = (_length(ctx, xs[0], 0, origin_of(node)), "", *states)
    loop = loop_node(inputs, starts, (*node.outputs[:len(states)], *names), inner, step, origin_of(node), ctx,
                     node.attrs["contents"], reverse)
    return (loop, *_move_back(node, names, outs, axes, ranks))


def _flags(node: OnnxNode, name: str, count: int) -> tuple[int, ...]:
    return attr_ints(node, name) or (0,) * count


def _to_front(node: OnnxNode, ctx: ImportContext, x: str, axis: int) -> str:
    rank = len(ctx.type_of(x).shape)
    at = axis_in(node, axis, rank)
    if at == 0:
        return x
    front = ctx.fresh(f"{x}/front")
    ctx.emit(core_node(node, "Transpose", (x,), (front,), perm=(at, *(i for i in range(rank) if i != at))))
    return front


def _move_back(node: OnnxNode, names: Sequence[str], outs: Sequence[str], axes: Sequence[int],
               ranks: Sequence[int]) -> Iterable[Node]:
    for name, out, axis, rank in zip(names, outs, axes, ranks, strict=True):
        if name != out:
            rest = tuple(range(1, rank))
            yield core_node(node, "Transpose", (name,), (out,), perm=(*rest[:axis], 0, *rest[axis:]))


def _length(ctx: ImportContext, x: str, axis: int, origin: str) -> str:
    """A value that holds the size of one dimension of `x`."""
    length = ctx.type_of(x).shape[axis]
    if isinstance(length, int):
        return ctx.constant(np.array(length, np.int64), f"{x}/length")
    name = ctx.fresh(f"{x}/length")
    ctx.emit(Node("Shape", (x,), (name,), {"start": axis, "end": axis + 1}, (origin,)))
    return name


def _scan_body(node: OnnxNode, ctx: ImportContext, body: Graph, xs: Sequence[str], types: Sequence[TensorType],
               backward: Sequence[int], step: Dim, length: Dim, lens: str = "") -> Graph:
    """The Loop's body around the Scan's. `lens`, if given, is a scalar: the pass from which on nothing changes."""
    region = _Region(ctx, origin_of(node))
    i, go = region.value("pass", INT64, ()), region.value("going", BOOL, ())
    count = len(body.inputs) - len(xs)
    for x, found, back, name in zip(xs, types, backward, body.inputs[count:], strict=True):
        region.row(x, found, length - 1 - step if back else step, name)
    region.nodes += body.nodes
    outputs = list(body.outputs)
    if lens:
        valid = region.value("valid", BOOL, ())
        region.nodes.append(Node("Less", (i, lens), (valid,), {}, (region.origin,)))
        for k, name in enumerate(body.outputs):
            found = ctx.type_of(name)
            old = body.inputs[k] if k < count else ctx.constant(np.zeros((), found.dtype.numpy), "zero")
            outputs[k] = region.where(valid, name, old, found)
    return region.finish(body.name, (i, go, *body.inputs[:count]), (go, *outputs), body)


def _with_batch(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Scan of opset 8: [batch, ...] states and [batch, length, ...] scan inputs, one entry after the other."""
    count, body = attr_int(node, "num_scan_inputs"), node.regions["body"]
    operands = node.inputs[1:]
    states, xs = operands[:len(operands) - count], operands[len(operands) - count:]
    batch, length = ctx.type_of(xs[0]).shape[:2]
    step, origin = dims_of(node.attrs, "iteration")[0], origin_of(node)
    entry = ctx.fresh_symbol("entry", 0, max(upper(batch) - 1, 1), "")

    outer = _Region(ctx, origin)
    i, go = outer.value("entry", INT64, ()), outer.value("going", BOOL, ())
    lens = outer.row(node.inputs[0], ctx.type_of(node.inputs[0]), entry) if present(node, 0) else ""
    starts = [outer.row(name, ctx.type_of(name), entry) for name in states]
    rows = [outer.row(name, ctx.type_of(name), entry) for name in xs]
    types = [TensorType(ctx.type_of(x).dtype, ctx.type_of(x).shape[1:]) for x in xs]
    inner = _scan_body(node, ctx, body, rows, types, _flags(node, "directions", count), step, length, lens)
    made = [ctx.fresh(f"{out or 'unused'}/entry") for out in node.outputs]
    loop = loop_node((_length(ctx, xs[0], 1, origin), "", *starts), [outer.values[name].shape for name in starts],
                     made, inner, step, origin, ctx, node.attrs["contents"])
    shapes = loop.attrs["shapes"]
    assert isinstance(shapes, tuple)
    for name, source, shape in zip(made, inner.outputs[1:], shapes, strict=True):
        dtype = (inner.values[source] if source in inner.values else ctx.type_of(source)).dtype
        outer.values[name] = Value(name, dtype, shape)  # type: ignore[arg-type]
    outer.nodes.append(loop)
    region = outer.finish("batch", (i, go), (go, *made))
    return (loop_node((_length(ctx, xs[0], 0, origin), ""), (), node.outputs, region, entry, origin, ctx),)


