"""Ops along an axis that is known only while a model runs: the tensor as [before, axis, behind], whose sizes are bound.

    %y = CumSum(%x, %axis)   ->   %t = Reshape(%x) {shape = ([before], [n], [behind])};
                                  %u = CumSum(%t) {axis = 1};  %y = Reshape(%u) {shape of x}
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from meta_infer.ir.shapes import UNBOUNDED, Dim, bounds
from meta_infer.ops.bind_dims import bind_dims
from meta_infer.ops.importing import shape_of, unsupported
from meta_infer.ops.opdef import ImportContext, OnnxNode
from meta_infer.ops.size_math import SizeMath


@dataclass(frozen=True)
class AxisView:
    """Input 0 seen along the axis: its three sizes, and for each of its axes whether it is the one (bool vector)."""

    before: Dim
    length: Dim
    behind: Dim
    is_axis: str

    @property
    def shape(self) -> tuple[Dim, Dim, Dim]:
        return self.before, self.length, self.behind


def axis_view(node: OnnxNode, ctx: ImportContext, i: int, axes: int | None = None) -> AxisView:
    """The view of input 0 along the axis in input `i`, which may count from the end.

    `axes` is how many of the tensor's axes the axis may be, from the front (None: all); those behind stay behind.
    """
    shape = shape_of(node, ctx)
    rank = len(shape) if axes is None else axes
    math_, where = SizeMath(node, ctx), ctx.type_of(node.inputs[i])
    if where.shape not in ((), (1,)):
        raise unsupported(node, f"the axis must be one number, not {len(where.shape)} dimensions of them",
                          "give it as a scalar")
    axis = math_.vector(node.inputs[i], "axis")
    front = math_.from_front(axis, len(shape))
    sizes, place = math_.dims(shape[:rank]), math_.constant(list(range(rank)))
    is_axis = math_.equal(place, front)
    largest = [bounds(d)[1] for d in shape[:rank]]
    whole = min(math.prod(max(n, 1) for n in largest), UNBOUNDED)
    before = math_.reduce("Prod", math_.where(math_.less(place, front), sizes, 1), 0)
    length = math_.reduce("Sum", math_.where(is_axis, sizes, 0), 0)
    behind = math_.reduce("Prod", math_.where(math_.less(front, place), sizes, 1), 0)
    (n0,) = bind_dims(node, ctx, before, [(0, whole)], "before")
    (n1,) = bind_dims(node, ctx, length, [(0, max(largest))], "length")
    (n2,) = bind_dims(node, ctx, behind, [(0, whole)], "behind")
    return AxisView(n0, n1, n2, is_axis)
