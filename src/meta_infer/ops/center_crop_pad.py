"""CenterCropPad: every axis cropped or padded with zeros around its middle; imported as a Pad that may be negative."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ops.importing import attr_ints, axis_in, core_node, shape_of
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode
from meta_infer.ops.pad import import_pad
from meta_infer.ops.size_math import SizeMath


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Of an odd difference the larger half is at the end."""
    old, math = shape_of(node, ctx), SizeMath(node, ctx)
    axes = [axis_in(node, axis, len(old)) for axis in attr_ints(node, "axes") or range(len(old))]
    more = math.sub(math.vector(node.inputs[1], "shape"), math.dims([old[axis] for axis in axes]))
    less = math.sub(0, more)
    begins = math.sub(math.div(math.max(more, 0), 2), math.div(math.max(less, 0), 2))
    pads = ctx.fresh("pads")
    ctx.emit(core_node(node, "Concat", (begins, math.sub(more, begins)), (pads,), axis=0))
    chosen = ctx.constant(np.array(axes, np.int64), "axes")
    padded = replace(node, op="Pad", inputs=(node.inputs[0], pads, "", chosen), attrs={"mode": "constant"})
    return import_pad(padded, ctx)


IMPORTS: tuple[OnnxImport, ...] = (OnnxImport("CenterCropPad", 18, convert=_import),)
