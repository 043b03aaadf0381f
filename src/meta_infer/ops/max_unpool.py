"""MaxUnpool: values put back where a MaxPool found them, zeros elsewhere; imported as ScatterElements."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import product
from meta_infer.ops.importing import attr_ints, core_node, dims_input, present, shape_of
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """x, indices  ->  ScatterElements(zeros, indices, x) on flat tensors, in the shape that the window implies

    Indices count in that implied shape; where `output_shape` is another, zeros follow (or the end is cut off).
    """
    x, kernel = shape_of(node, ctx), attr_ints(node, "kernel_shape") or ()
    n = len(kernel)
    strides, pads = attr_ints(node, "strides") or (1,) * n, attr_ints(node, "pads") or (0,) * (2 * n)
    implied = (*x[:2], *((d - 1) * strides[i] - pads[i] - pads[n + i] + kernel[i] for i, d in enumerate(x[2:])))
    dtype = ctx.type_of(node.inputs[0]).dtype
    zeros, values, places, filled, y = (ctx.fresh(node.outputs[0]) for _ in range(5))
    zero = ctx.constant(np.zeros((), dtype.numpy), "zero")
    yield core_node(node, "Expand", (zero,), (zeros,), shape=(product(implied),))
    yield core_node(node, "Reshape", node.inputs[:1], (values,), shape=(product(x),))
    yield core_node(node, "Reshape", node.inputs[1:2], (places,), shape=(product(x),))
    yield core_node(node, "ScatterElements", (zeros, places, values), (filled,), axis=0, reduction="none")
    wanted = dims_input(node, ctx, 2, "output_shape") if present(node, 2) else implied
    same = tuple(wanted) == implied
    yield core_node(node, "Reshape", (filled,), node.outputs if same else (y,), shape=implied)
    if not same:
        ends = tuple(w - d for w, d in zip(wanted, implied, strict=True))
        yield core_node(node, "Pad", (y,), node.outputs, pads=((0,) * len(x) + ends), mode="constant", value=0.0)


MAX_UNPOOL = OnnxImport("MaxUnpool", 9, convert=_import)
