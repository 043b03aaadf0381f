"""Normalisations as ONNX Runtime fuses them: with the addition before them, without a mean, with the embeddings.

In ONNX's own domain its optimiser also writes LayerNormalization at opsets that do not have it (normalization.py) and
SimplifiedLayerNormalization, which is x / sqrt(mean(x²) + epsilon) * scale.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import Dim
from meta_infer.ops.importing import attr_float, attr_int, axis_in, present, shape_of, unsupported, wanted
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode
from meta_infer.ops.requantize import dequantize
from meta_infer.support.dtypes import FLOAT32, INT32, DType

MICROSOFT = "com.microsoft"


def simplified_norm(b: NodeBuilder, x: str, scale: str, dtype: DType, axes: tuple[int, ...], epsilon: float,
                    out: str = "", inverse: str = "") -> str:
    """x / sqrt(mean(x²) + epsilon) * scale over `axes`, in float32 where x has fewer bits; `inverse` names 1/sqrt."""
    wide = x if dtype.bits >= 32 else b.cast(x, FLOAT32)
    kind = dtype if dtype.bits >= 32 else FLOAT32
    mean = b.emit("ReduceMean", b.emit("Mul", wide, wide), axes=axes, keepdims=True)
    root = b.emit("Sqrt", b.emit("Add", mean, b.scalar(epsilon, kind, "epsilon")))
    if inverse:
        b.emit("Reciprocal", root, out=inverse)
    normal = b.emit("Div", wide, root)
    return b.emit("Mul", normal if kind == dtype else b.cast(normal, dtype), scale, out=out)


def _import_simplified(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    b, rank = NodeBuilder.importing(node, ctx), len(shape_of(node, ctx))
    x, scale = ctx.type_of(node.inputs[0]), ctx.type_of(node.inputs[1])
    if x.dtype != scale.dtype:
        raise unsupported(node, f"a scale of {scale.dtype} for a tensor of {x.dtype}", "cast one of them")
    axes = tuple(range(axis_in(node, attr_int(node, "axis", -1), rank), rank))
    inverse = node.outputs[1] if wanted(node, 1) else ""
    simplified_norm(b, node.inputs[0], node.inputs[1], x.dtype, axes, attr_float(node, "epsilon", 1e-5),
                    node.outputs[0] or ctx.fresh("unused"), inverse)
    return b.nodes


def _import_skip(node: OnnxNode, ctx: ImportContext, simplified: bool) -> Iterable[Node]:
    """norm(input + skip + bias); the fourth output is the sum."""
    if wanted(node, 1) or wanted(node, 2):
        raise unsupported(node, "the mean or inv_std_var output is used", "export the model in inference mode")
    b, x = NodeBuilder.importing(node, ctx), node.inputs[0]
    bias = 3 if simplified else 4
    total = b.emit("Add", x, node.inputs[1], out="" if present(node, bias) else _sum_name(node))
    if present(node, bias):
        total = b.emit("Add", total, node.inputs[bias], out=_sum_name(node))
    epsilon, axis = attr_float(node, "epsilon", 1e-12), len(shape_of(node, ctx)) - 1
    out = node.outputs[0] or ctx.fresh("unused")
    if simplified:
        simplified_norm(b, total, node.inputs[2], ctx.type_of(x).dtype, (axis,), epsilon, out)
        return b.nodes
    beta = node.inputs[3] if present(node, 3) else ""
    b.emit("LayerNormalization", total, node.inputs[2], beta, out=out, axis=axis, epsilon=epsilon)
    return b.nodes


def _sum_name(node: OnnxNode) -> str:
    return node.outputs[3] if wanted(node, 3) else ""


def _import_embed(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """norm(words[ids] + positions[0..S or position_ids] + segments[segment_ids]); the second output counts the mask."""
    b = NodeBuilder.importing(node, ctx)
    ids, segment_ids, words, positions, segments, gamma, beta = node.inputs[:7]
    terms = _embeddings(b, node, ctx, ids, segment_ids, words, positions, segments, 8)
    sum_name = node.outputs[2] if wanted(node, 2) else ""
    return _embedded(b, node, ctx, terms, gamma, beta, sum_name)


def _import_quantized_embed(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """The same with 8-bit tables, gamma and beta, each with a scale and a zero point; looked up first, then widened."""
    b = NodeBuilder.importing(node, ctx)
    ids, segment_ids, words, positions, segments, gamma, beta = node.inputs[:7]
    terms = _embeddings(b, node, ctx, ids, segment_ids, words, positions, segments, len(node.inputs))
    places = (0, 1, 2) if segments else (0, 1)
    wide = [dequantize(b, ctx, term, node.inputs[8 + i], node.inputs[13 + i])
            for i, term in zip(places, terms, strict=True)]
    gamma, beta = (dequantize(b, ctx, name, node.inputs[8 + i], node.inputs[13 + i])
                   for i, name in ((3, gamma), (4, beta)))
    return _embedded(b, node, ctx, wide, gamma, beta, "")


def _embeddings(b: NodeBuilder, node: OnnxNode, ctx: ImportContext, ids: str, segment_ids: str, words: str,
                positions: str, segments: str, place: int) -> list[str]:
    """Rows of the tables of words, positions and, if there are any, segments; input `place` may hold positions."""
    if bool(segment_ids) != bool(segments):
        raise unsupported(node, "segment_ids and segment_embedding must be given together", "give both or neither")
    rows = b.emit("Gather", words, ids, axis=0)
    if present(node, place):
        at = b.emit("Gather", positions, node.inputs[place], axis=0)
    else:
        steps, width = shape_of(node, ctx)[1], ctx.type_of(positions).shape[1]
        at = b.emit("Slice", positions, starts=(0, 0), sizes=(steps, width), steps=(1, 1))
    return [rows, at, b.emit("Gather", segments, segment_ids, axis=0)] if segments else [rows, at]


def _embedded(b: NodeBuilder, node: OnnxNode, ctx: ImportContext, terms: list[str], gamma: str, beta: str,
              sum_name: str) -> Iterable[Node]:
    total = b.emit("Add", terms[0], terms[1], out="" if terms[2:] else sum_name)
    if terms[2:]:
        total = b.emit("Add", total, terms[2], out=sum_name)
    b.emit("LayerNormalization", total, gamma, beta, out=node.outputs[0] or ctx.fresh("unused"), axis=2,
           epsilon=attr_float(node, "epsilon", 1e-12))
    if wanted(node, 1):
        _count_mask(b, node, shape_of(node, ctx)[0])
    return b.nodes


def _count_mask(b: NodeBuilder, node: OnnxNode, batch: Dim) -> None:
    """How many elements of each row of the mask are 1; 0 without a mask."""
    if not present(node, 7):
        b.emit("Expand", b.constant(np.zeros(1, np.int32)), out=node.outputs[1], shape=(batch,))
        return
    ones = b.cast(b.emit("Equal", node.inputs[7], b.scalar(1, INT32)), INT32)
    b.emit("ReduceSum", ones, out=node.outputs[1], axes=(1,), keepdims=False)


IMPORTS: tuple[OnnxImport, ...] = (
    OnnxImport("SimplifiedLayerNormalization", 1, convert=_import_simplified),
    OnnxImport("SkipLayerNormalization", 1, convert=partial(_import_skip, simplified=False), domain=MICROSOFT),
    OnnxImport("SkipSimplifiedLayerNormalization", 1, convert=partial(_import_skip, simplified=True),
               domain=MICROSOFT),
    OnnxImport("EmbedLayerNormalization", 1, convert=_import_embed, domain=MICROSOFT),
    OnnxImport("QEmbedLayerNormalization", 1, convert=_import_quantized_embed, domain=MICROSOFT))
