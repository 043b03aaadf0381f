"""MaxUnpool: values put back where a MaxPool found them, zeros elsewhere; imported as ScatterElements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import product
from meta_infer.ops.importing import attr_ints, core_node, present, shape_of
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, ShapeError
from meta_infer.ops.pad import import_pad
from meta_infer.ops.size_math import SizeMath


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """x, indices  ->  ScatterElements(zeros, indices, x) on flat tensors, in the shape that the window implies

    Indices count in that implied shape; where `output_shape` is another, zeros follow (or the end is cut off).
    """
    x, kernel = shape_of(node, ctx), attr_ints(node, "kernel_shape") or ()
    n = len(kernel)
    strides, pads = attr_ints(node, "strides") or (1,) * n, attr_ints(node, "pads") or (0,) * (2 * n)
    if len(x) != n + 2 or len(strides) != n or len(pads) != 2 * n:
        raise ShapeError(f"kernel {kernel}, strides {strides} and pads {pads} do not fit {len(x) - 2} spatial "
                         "dimensions")
    implied = (*x[:2], *((d - 1) * strides[i] - pads[i] - pads[n + i] + kernel[i] for i, d in enumerate(x[2:])))
    dtype = ctx.type_of(node.inputs[0]).dtype
    zeros, values, places, filled, y = (ctx.fresh(node.outputs[0]) for _ in range(5))
    zero = ctx.constant(np.zeros((), dtype.numpy), "zero")
    ctx.emit(core_node(node, "Expand", (zero,), (zeros,), shape=(product(implied),)))
    ctx.emit(core_node(node, "Reshape", node.inputs[:1], (values,), shape=(product(x),)))
    ctx.emit(core_node(node, "Reshape", node.inputs[1:2], (places,), shape=(product(x),)))
    ctx.emit(core_node(node, "ScatterElements", (zeros, places, values), (filled,), axis=0, reduction="none"))
    if not present(node, 2):
        return (core_node(node, "Reshape", (filled,), node.outputs, shape=implied),)
    ctx.emit(core_node(node, "Reshape", (filled,), (y,), shape=implied))
    math = SizeMath(node, ctx)
    more = math.sub(math.vector(node.inputs[2], "output_shape"), math.dims(implied))
    grown = replace(node, op="Pad", inputs=(y, math.pad_front(more, 2 * len(x), 0)), attrs={"mode": "constant"})
    return import_pad(grown, ctx)


IMPORTS: tuple[OnnxImport, ...] = (OnnxImport("MaxUnpool", 9, convert=_import),)
