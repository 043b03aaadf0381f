"""MelWeightMatrix: triangles over the bins of a spectrum, evenly spaced on the mel scale.

The edges of triangle i are the bins of the mel points i, i + 1 and i + 2. Bins where no triangle rises or falls keep 0;
a triangle whose left edge is its peak has 1 there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from meta_infer.ir.graph import Node
from meta_infer.ops.bind_dims import sizes_input
from meta_infer.ops.importing import attr_int
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.onnx_dtypes import onnx_dtype
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode
from meta_infer.ops.size_math import SizeMath
from meta_infer.support.dtypes import FLOAT32, FLOAT64, INT64


class _Doubles:
    """Arithmetic on float64 values and Python numbers."""

    def __init__(self, build: NodeBuilder) -> None:
        self.build = build

    def __call__(self, op: str, *operands: str | float) -> str:
        return self.build.emit(op, *(o if isinstance(o, str) else self.build.scalar(o, FLOAT64) for o in operands))


def _edges(build: NodeBuilder, node: OnnxNode, points: str, total: str) -> str:
    """The spectrum's bin of each mel point: floor((length + 1) * hertz / rate), mel = 2595 log10(1 + hertz / 700)."""
    f = _Doubles(build)
    length, rate, low, high = (build.cast(build.reshape(name, ()), FLOAT64) for name in node.inputs[1:])
    ends = [f("Mul", f("Log", f("Add", f("Div", hertz, 700.0), 1.0)), 2595 / math.log(10)) for hertz in (low, high)]
    step = f("Div", f("Sub", ends[1], ends[0]), total)
    mel = f("Add", f("Mul", build.cast(points, FLOAT64), step), ends[0])
    hertz = f("Mul", f("Sub", f("Exp", f("Mul", mel, math.log(10) / 2595)), 1.0), 700.0)
    return build.cast(f("Floor", f("Div", f("Mul", f("Add", length, 1.0), hertz), rate)), INT64)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    build, sizes = NodeBuilder.importing(node, ctx), SizeMath(node, ctx)
    triangles = sizes_input(node, ctx, 0, "num_mel_bins")[0]
    bins = sizes_input(node, ctx, 1, "dft_length")[0] // 2 + 1
    total = build.cast(build.reshape(sizes.dims((triangles + 2,)), ()), FLOAT64)
    edges = _edges(build, node, build.emit("Iota", size=(triangles + 2,)), total)
    left, centre, right = (build.emit("Slice", edges, starts=(i,), sizes=(triangles,), steps=(1,)) for i in range(3))
    bin_ = build.reshape(build.emit("Iota", size=(bins,)), (bins, 1))
    one, zero = build.scalar(1, FLOAT64, "one"), build.scalar(0, FLOAT64, "zero")

    def between(low: str, high: str, above: str) -> str:
        return build.emit("And", build.emit("GreaterOrEqual", bin_, low), build.emit(above, bin_, high))

    def slope(distance: tuple[str, str], width: tuple[str, str]) -> str:
        """A quotient of integers in float64; where the width is 0 the quotient is not used."""
        across = build.emit("Max", build.emit("Sub", *width), build.scalar(1, INT64, "one"))
        return build.emit("Div", build.cast(build.emit("Sub", *distance), FLOAT64), build.cast(across, FLOAT64))

    upright = build.emit("Equal", left, centre)
    rising = build.emit("Where", upright, one, slope((bin_, left), (centre, left)))
    rise = build.emit("Where", between(left, centre, "LessOrEqual"), rising, zero)
    fall = build.emit("Where", between(centre, right, "Less"), slope((right, bin_), (right, centre)), rise)
    dtype = onnx_dtype(node, "output_datatype") if attr_int(node, "output_datatype", 1) != 1 else FLOAT32
    build.cast(fall, dtype, out=node.outputs[0])
    return build.nodes


IMPORTS: tuple[OnnxImport, ...] = (OnnxImport("MelWeightMatrix", 17, convert=_import),)
