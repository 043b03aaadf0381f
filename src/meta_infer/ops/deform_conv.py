"""DeformConv: a convolution whose taps are shifted by learned offsets and weighted by a mask.

It imports as columns of sampled pixels (the core op DeformColumns) times the weights, one matrix product per group.
Source: Dai et al., 2017; Zhu et al., 2019 (the mask).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product as combinations

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.attrs import Attrs, int_of, ints_of
from meta_infer.ops.broadcast import same_dim, text
from meta_infer.ops.elementwise import floats
from meta_infer.ops.importing import attr_int, attr_ints, core_node, present, shape_of, unsupported
from meta_infer.ops.opdef import (
    ImportContext,
    InferContext,
    OnnxImport,
    OnnxNode,
    OpDef,
    Sample,
    ShapeError,
    TensorType,
)
from meta_infer.ops.windows import Ints, output_sizes


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x, offsets, mask, attrs = ctx.input(0), ctx.input(1), ctx.optional(2), ctx.node.attrs
    kernel, strides, pads, dilations = (ints_of(attrs, n) for n in ("kernel_shape", "strides", "pads", "dilations"))
    rank, groups, taps = len(kernel), int_of(attrs, "offset_group"), int(np.prod(kernel))
    if len(x.shape) != rank + 2 or len(offsets.shape) != rank + 2 or offsets.shape[1] != groups * taps * rank:
        raise ShapeError(f"offsets {text(offsets.shape)} do not fit {text(x.shape)} and kernel {kernel}")
    if isinstance(x.shape[1], int) and x.shape[1] % groups:
        raise ShapeError(f"{x.shape[1]} channels do not divide into {groups} groups")
    sizes = output_sizes(x.shape[2:], kernel, strides, pads, dilations)
    for found, wanted in zip((offsets.shape[0], *offsets.shape[2:]), (x.shape[0], *sizes), strict=True):
        same_dim(found, wanted)
    if mask is not None and mask.shape != (offsets.shape[0], groups * taps, *offsets.shape[2:]):
        raise ShapeError(f"mask {text(mask.shape)} does not fit offsets {text(offsets.shape)}")
    return (TensorType(x.dtype, (x.shape[0], x.shape[1] * taps, product(sizes))),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    """Columns [n, channel * taps, positions] of bilinear samples; pixels outside count as zero."""
    x, offsets, mask = arrays[0], arrays[1], arrays[2] if len(arrays) > 2 else None
    assert x is not None and offsets is not None
    kernel, strides, pads, dilations = (ints_of(attrs, n) for n in ("kernel_shape", "strides", "pads", "dilations"))
    rank, groups, spatial = len(kernel), int_of(attrs, "offset_group"), offsets.shape[2:]
    n, channels = x.shape[:2]
    shifts = offsets.reshape(n, groups, *kernel, rank, *spatial)
    total = np.zeros((n, groups, *kernel, *spatial, channels // groups), x.dtype)
    positions = []
    for axis in range(rank):
        place = np.arange(spatial[axis]).reshape(-1, *(1,) * (rank - axis - 1)) * strides[axis] - pads[axis]
        tap = np.arange(kernel[axis]).reshape(-1, *(1,) * (rank - axis - 1), *(1,) * rank) * dilations[axis]
        at = np.moveaxis(shifts, 2 + rank, 0)[axis] + tap + place
        positions.append((np.floor(at), (at - np.floor(at)).astype(x.dtype)))
    grouped = np.moveaxis(x.reshape(n, groups, channels // groups, *x.shape[2:]), 2, -1)
    lead = (np.arange(n).reshape(-1, *(1,) * (2 * rank + 1)), np.arange(groups).reshape(-1, *(1,) * (2 * rank)))
    for corner in combinations((0, 1), repeat=rank):
        weight, inside, pixel = np.ones(1, x.dtype), np.ones(1, bool), []
        for axis, side in enumerate(corner):
            base, far = positions[axis]
            held = np.clip(base + side, 0, x.shape[2 + axis] - 1)
            weight, inside = weight * (far if side else 1 - far), inside & (held == base + side)
            pixel.append(held.astype(np.int64))
        total += np.where(inside[..., None], grouped[(*lead, *pixel)], 0) * weight[..., None]
    if mask is not None:
        total = total * mask.reshape(n, groups, *kernel, *spatial)[..., None]
    columns = np.moveaxis(total, -1, 2).reshape(n, channels * int(np.prod(kernel)), -1)
    return (np.ascontiguousarray(columns, x.dtype),)


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    return product(outputs[0].shape) * 8


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """x, w, offset, [b], [mask]  ->  Reshape(w') x Reshape(DeformColumns(x, offset, [mask])) per group, plus b"""
    x, w, offsets = (shape_of(node, ctx, i) for i in range(3))
    kernel = attr_ints(node, "kernel_shape") or tuple(d for d in w[2:] if isinstance(d, int))
    group, made, per_group, rank = attr_int(node, "group", 1), w[0], w[1], len(w) - 2
    if len(kernel) != rank or not isinstance(made, int) or not isinstance(per_group, int) or made % group:
        raise unsupported(node, f"weight {text(w)} has no fixed shape that {group} groups divide",
                          "make the weight a constant")
    ones, taps = (1,) * rank, int(np.prod(kernel))
    columns, grouped, weights, products, y = (ctx.fresh(node.outputs[0]) for _ in range(5))
    length = product(offsets[2:])
    yield core_node(node, "DeformColumns", (node.inputs[0], node.inputs[2], *node.inputs[4:5]), (columns,),
                    kernel_shape=kernel, strides=attr_ints(node, "strides") or ones,
                    pads=attr_ints(node, "pads") or (0,) * (2 * rank), dilations=attr_ints(node, "dilations") or ones,
                    offset_group=attr_int(node, "offset_group", 1))
    yield core_node(node, "Reshape", (columns,), (grouped,), shape=(x[0], group, per_group * taps, length))
    yield core_node(node, "Reshape", node.inputs[1:2], (weights,), shape=(group, made // group, per_group * taps))
    yield core_node(node, "MatMul", (weights, grouped), (products,))
    shape, has_bias = (x[0], made, *offsets[2:]), present(node, 3)
    yield core_node(node, "Reshape", (products,), (y,) if has_bias else node.outputs, shape=shape)
    if has_bias:
        bias = ctx.fresh(node.inputs[3])
        yield core_node(node, "Reshape", node.inputs[3:4], (bias,), shape=(made, *ones))
        yield core_node(node, "Add", (y, bias), node.outputs)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    cases: tuple[tuple[Ints, Ints, Ints, Ints, Ints, int], ...] = (
        ((1, 2, 5, 6), (2, 3), (1, 1), (0, 0, 0, 0), (1, 1), 1),
        ((2, 4, 6, 5), (3, 3), (2, 1), (1, 1, 0, 1), (1, 1), 2),
        ((1, 3, 7, 7), (2, 2), (1, 2), (0, 1, 1, 0), (2, 1), 1),
        ((1, 1, 4, 3, 5), (2, 1, 2), (1, 1, 1), (0, 0, 0, 0, 0, 0), (1, 1, 1), 1))
    for shape, kernel, strides, pads, dilations, groups in cases:
        sizes = tuple(int(d) for d in output_sizes(shape[2:], kernel, strides, pads, dilations))  # type: ignore[arg-type]
        taps = groups * int(np.prod(kernel))
        offsets = floats(rng, (shape[0], taps * len(kernel), *sizes), -2, 2)
        mask = floats(rng, (shape[0], taps, *sizes), 0, 1)
        for operands in ((offsets,), (offsets, mask)):
            yield Sample((floats(rng, shape), *operands),
                         {"kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations,
                          "offset_group": groups}, 1e-4, 1e-5, onnx_op="-")


DEFORM_COLUMNS = OpDef("DeformColumns", _infer, _reference, _samples,
                       (OnnxImport("DeformConv", 19, convert=_import),), flops=_flops)

OPS: tuple[OpDef, ...] = (DEFORM_COLUMNS,)
