"""QuantizeLinear and DequantizeLinear as arithmetic, which then fuses into the ops around them.

    y = QuantizeLinear(x, scale, zero)    ->  y = Cast(Add(Round(Div(x, scale)), zero)) {to = int8, saturate = true}
    y = DequantizeLinear(x, scale, zero)  ->  y = Mul(Sub(Cast(x), zero), scale)

Scale and zero point are reshaped so that they broadcast: one for all, one per index of an axis, or one per block of
consecutive indices of it. Clipping to the integer's range is the Cast's. float8 types have no zero point.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from meta_infer.ir.graph import Node, Shape
from meta_infer.ir.shapes import Dim, bounds
from meta_infer.ops.broadcast import text
from meta_infer.ops.importing import attr_int, axis_in, present, unsupported
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.onnx_dtypes import ONNX_DTYPES
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode
from meta_infer.support.dtypes import FLOAT16, FLOAT32, FLOAT64, INT32, UINT8, DType


def _cast(build: NodeBuilder, name: str, have: DType, to: DType) -> str:
    return name if have == to else build.cast(name, to)


def _spread(node: OnnxNode, build: NodeBuilder, name: str, shape: Shape, scale: Shape) -> str:
    """Scale or zero point `name` (of shape `scale`) in a shape that broadcasts against the data's `shape`."""
    if not scale:
        return name
    if scale == (1,):
        return build.reshape(name, ())
    axis, block = axis_in(node, attr_int(node, "axis", 1), len(shape)), attr_int(node, "block_size")
    if not block and len(scale) == 1:
        return build.reshape(name, tuple(scale[0] if i == axis else 1 for i in range(len(shape))))
    if len(scale) != len(shape):
        raise unsupported(node, f"a scale of shape {text(scale)} does not fit data of shape {text(shape)}",
                          "give one scale, one per index of the axis, or one per block")
    if not block:
        raise unsupported(node, f"a scale of shape {text(scale)} needs a block_size", "set block_size")
    return _per_element(node, build, name, shape, scale, axis, block)


def _per_element(node: OnnxNode, build: NodeBuilder, name: str, shape: Shape, scale: Shape, axis: int,
                 block: int) -> str:
    """Every scale repeated `block` times along `axis`, what is too much cut off."""
    count = scale[axis] * block
    low, high = bounds(count - shape[axis])
    if low < 0 or high >= block:
        raise unsupported(node, f"{scale[axis]} blocks of {block} do not cover axis {axis} of {text(shape)}",
                          "the number of blocks must be the size of the axis over block_size, rounded up")
    lead, tail = scale[:axis], scale[axis + 1:]
    apart = build.reshape(name, (*lead, scale[axis], 1, *tail))
    repeated = build.emit("Expand", apart, shape=(*lead, scale[axis], block, *tail))
    joined = build.reshape(repeated, (*lead, count, *tail))
    if count == shape[axis]:
        return joined
    sizes: tuple[Dim, ...] = (*lead, shape[axis], *tail)
    return build.emit("Slice", joined, starts=(0,) * len(shape), sizes=sizes, steps=(1,) * len(shape))


def _dtype(node: OnnxNode, attribute: str) -> DType | None:
    """The dtype an optional attribute names; 0 stands for none."""
    number = attr_int(node, attribute)
    if number and number not in ONNX_DTYPES:
        raise unsupported(node, f"{attribute} = {number}: that ONNX data type is not supported",
                          "use an integer or 8-bit float type")
    return ONNX_DTYPES[number] if number else None


def _working(*dtypes: DType) -> DType:
    """The float type that numbers of these types are divided in."""
    known = {FLOAT32 if dtype.is_narrow else FLOAT64 if dtype == INT32 else dtype for dtype in dtypes}
    return next((dtype for dtype in (FLOAT64, FLOAT32) if dtype in known), FLOAT16)


def _import_quantize(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """`precision` (since 23) is the type of the division; else it is the wider one of x and the scale."""
    build, x, scale = NodeBuilder.importing(node, ctx), *map(ctx.type_of, node.inputs[:2])
    zero = ctx.type_of(node.inputs[2]) if present(node, 2) else None
    to = zero.dtype if zero is not None else _dtype(node, "output_dtype") or UINT8
    precision = _dtype(node, "precision")
    steps = _spread(node, build, node.inputs[1], x.shape, scale.shape)
    if precision is not None:
        work = FLOAT32 if precision.is_narrow else precision
        data = _cast(build, _cast(build, node.inputs[0], x.dtype, precision), precision, work)
        steps = _cast(build, _cast(build, steps, scale.dtype, precision), precision, work)
    else:
        work = _working(x.dtype, scale.dtype)
        data, steps = _cast(build, node.inputs[0], x.dtype, work), _cast(build, steps, scale.dtype, work)
    found = build.emit("Div", data, steps)
    if precision is not None:
        found = _cast(build, _cast(build, found, work, precision), precision, work)
    if to.is_integer:
        found = build.emit("Round", found)
    if zero is not None and (to.is_integer or to.bits < 8) and not _is_zero(ctx, node.inputs[2]):
        wide = FLOAT64 if work == FLOAT64 else FLOAT32
        offset = _cast(build, _spread(node, build, node.inputs[2], x.shape, zero.shape), zero.dtype, wide)
        found = build.emit("Add", _cast(build, found, work, wide), offset)
    saturate = to.is_integer or (to.bits == 8 and bool(attr_int(node, "saturate", 1)))
    build.emit("Cast", found, out=node.outputs[0], to=to, saturate=saturate)
    return build.nodes


def _import_dequantize(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Computed in float32, whatever the scale's type; the result has that of `output_dtype` (since 23) or the scale."""
    build, x, scale = NodeBuilder.importing(node, ctx), *map(ctx.type_of, node.inputs[:2])
    to = _dtype(node, "output_dtype") or scale.dtype
    data = _cast(build, node.inputs[0], x.dtype, FLOAT32)
    if present(node, 2) and x.dtype.is_integer and not _is_zero(ctx, node.inputs[2]):
        zero = ctx.type_of(node.inputs[2])
        offset = _spread(node, build, node.inputs[2], x.shape, zero.shape)
        data = build.emit("Sub", data, _cast(build, offset, zero.dtype, FLOAT32))
    steps = _cast(build, _spread(node, build, node.inputs[1], x.shape, scale.shape), scale.dtype, FLOAT32)
    if to == FLOAT32:
        build.emit("Mul", data, steps, out=node.outputs[0])
    else:
        build.emit("Cast", build.emit("Mul", data, steps), out=node.outputs[0], to=to)
    return build.nodes


def _is_zero(ctx: ImportContext, name: str) -> bool:
    known = ctx.known(name)
    return known is not None and not np.any(known.astype(np.float32))


IMPORTS: tuple[OnnxImport, ...] = (
    OnnxImport("QuantizeLinear", 10, convert=_import_quantize),
    OnnxImport("DequantizeLinear", 10, convert=_import_dequantize),
    OnnxImport("QuantizeLinear", 1, convert=_import_quantize, domain="com.microsoft"),
    OnnxImport("DequantizeLinear", 1, convert=_import_dequantize, domain="com.microsoft"))
