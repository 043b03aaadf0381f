"""Col2Im: blocks of an image, given as columns, added up where they overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product as combinations
from typing import Any

import numpy as np

from meta_infer.ir.graph import Attr, Node, Shape
from meta_infer.ir.shapes import product
from meta_infer.ops.attrs import Attrs, dims_of, ints_of
from meta_infer.ops.bind_dims import sizes_input
from meta_infer.ops.broadcast import same_dim, text
from meta_infer.ops.elementwise import floats, ints
from meta_infer.ops.importing import attr_ints, core_node
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


def block_counts(attrs: Attrs) -> Shape:
    """Number of blocks along each axis of the image."""
    strides, pads, dilations = (ints_of(attrs, name) for name in ("strides", "pads", "dilations"))
    image, block = dims_of(attrs, "image_shape"), dims_of(attrs, "block_shape")
    n = len(image)
    return tuple((image[i] + pads[i] + pads[n + i] - (block[i] - 1) * dilations[i] - 1) // strides[i] + 1
                 for i in range(n))


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x, attrs = ctx.input(0), ctx.node.attrs
    image, block = dims_of(attrs, "image_shape"), dims_of(attrs, "block_shape")
    if len(x.shape) != 3 or len(image) != len(block) or not image:
        raise ShapeError(f"columns {text(x.shape)} do not hold blocks {text(block)} of an image {text(image)}")
    taps = product(block)
    if isinstance(x.shape[1], int) and isinstance(taps, int) and (taps < 1 or x.shape[1] % taps):
        raise ShapeError(f"{x.shape[1]} rows of columns {text(x.shape)} are no channels of blocks {text(block)}")
    count = product(block_counts(attrs))
    if isinstance(count, int):                            # else known while running only: the kernel stays inside
        same_dim(x.shape[2], count)
    return (TensorType(x.dtype, (x.shape[0], x.shape[1] // taps, *image)),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x, image, block = arrays[0], ints_of(attrs, "image_shape"), ints_of(attrs, "block_shape")
    assert x is not None
    strides, pads, dilations = (ints_of(attrs, name) for name in ("strides", "pads", "dilations"))
    n, counts = len(image), tuple(int(c) for c in block_counts(attrs))  # type: ignore[arg-type]
    channels = x.shape[1] // int(np.prod(block))
    y = np.zeros((x.shape[0], channels, *(s + pads[i] + pads[n + i] for i, s in enumerate(image))), x.dtype)
    for tap in combinations(*(range(k) for k in block)):
        at = tuple(slice(t * dilations[i], t * dilations[i] + (counts[i] - 1) * strides[i] + 1, strides[i])
                   for i, t in enumerate(tap))
        place: Any = (..., *at)
        y[place] += x.reshape(*y.shape[:2], -1, *counts)[:, :, np.ravel_multi_index(tap, block)]
    inside: Any = (..., *(slice(pads[i], pads[i] + s) for i, s in enumerate(image)))
    return (y[inside].copy(),)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    image, block = sizes_input(node, ctx, 1, "image_shape"), sizes_input(node, ctx, 2, "block_shape", lo=1)
    ones = (1,) * len(image)
    return (core_node(node, "Col2Im", node.inputs[:1], node.outputs, image_shape=image, block_shape=block,
                      strides=attr_ints(node, "strides") or ones, dilations=attr_ints(node, "dilations") or ones,
                      pads=attr_ints(node, "pads") or (0,) * (2 * len(image))),)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for image, block, strides, pads, dilations in (
            ((5, 5), (1, 5), (1, 1), (0, 0, 0, 0), (1, 1)), ((6, 7), (3, 2), (2, 1), (0, 1, 1, 1), (1, 2)),
            ((9,), (3,), (2,), (1, 1), (1,)), ((4, 3, 5), (2, 2, 3), (1, 1, 2), (0, 0, 1, 0, 1, 1), (1, 1, 1))):
        attrs: dict[str, Attr] = {"strides": strides, "pads": pads, "dilations": dilations}
        whole: dict[str, Attr] = {**attrs, "image_shape": image, "block_shape": block}
        shape = (2, 3 * int(np.prod(block)), int(product(block_counts(whole))))  # type: ignore[arg-type]
        for x in (floats(rng, shape), ints(rng, shape)):
            # ONNX Runtime adds up floats only.
            yield Sample((x,), whole, 1e-4, 1e-5, onnx_op="" if x.dtype == np.float32 and len(image) == 2 else "-",
                         onnx_inputs=(x, np.array(image, np.int64), np.array(block, np.int64)), onnx_attrs=attrs)


COL2IM = OpDef("Col2Im", _infer, _reference, _samples, (OnnxImport("Col2Im", 18, convert=_import),),
               flops=lambda attrs, inputs, outputs: product(inputs[0].shape) if inputs[0] is not None else 0)

OPS: tuple[OpDef, ...] = (COL2IM,)
