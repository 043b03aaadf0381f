"""Attention of ONNX: softmax(Q K' * scale + mask) V for many heads.

What most models ask for is one core op (dot_product_attention.py). Where the node shows its scores, wants the softmax
in more bits, or the size of a head is not known at build, it is MatMul, Add, Softmax, MatMul.

Queries [batch, heads, Sq, d], keys [batch, kv_heads, T, d] and values [batch, kv_heads, T, dv], or all of them with
heads side by side in the last dimension. Where several queries' heads share one of the keys, the products run over
[batch, kv_heads, group, ...] with the keys broadcast over the group: nothing is repeated. Types of fewer bits than
float32 are computed in float32 from the scores to the result, which is then rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from meta_infer.ir.graph import Attr, Node, Shape
from meta_infer.ir.shapes import Dim
from meta_infer.ops.attention_mask import Bias, Rules, additive_mask, padded_mask
from meta_infer.ops.importing import attr_float, attr_int, present, shape_of, unsupported, wanted
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.onnx_dtypes import onnx_dtype
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, ShapeError
from meta_infer.support.dtypes import BOOL, FLOAT32, DType

RAW, CAPPED, BIASED, PROBABILITIES = range(4)            # qk_matmul_output_mode


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    b = NodeBuilder.importing(node, ctx)
    given, packed = ctx.type_of(node.inputs[0]).dtype, len(shape_of(node, ctx)) == 3
    dtype = FLOAT32 if given.bits < FLOAT32.bits else given
    if present(node, 4) != present(node, 5):
        raise ShapeError("past_key and past_value must be given together")
    if _is_plain(node, ctx, dtype):
        _one_op(b, node, ctx, dtype)
        return b.nodes
    (q, q_shape), (k, k_shape), (v, v_shape) = (_heads(b, node, ctx, i) for i in range(3))
    past: Dim = shape_of(node, ctx, 4)[2] if present(node, 4) else 0
    k, v = (_extended(b, node, x, 4 + i, 1 + i) for i, x in enumerate((k, v)))
    (batch, heads, queries, depth), keys = q_shape, past + k_shape[2]
    rules = _rules(node, queries, keys, past)
    mask = node.inputs[3] if present(node, 3) else ""
    group = _group(node, heads, k_shape[1])

    q, k = (x if given == dtype else b.cast(x, dtype) for x in (q, k))
    scores = _scores(b, node, q, k, q_shape, (*k_shape[:2], keys, depth), group, dtype)
    _expose(b, node, scores, RAW, given, dtype)
    cap = attr_float(node, "softcap", 0.0)
    if cap > 0:
        limit = b.scalar(cap, dtype, "softcap")
        scores = b.emit("Mul", b.emit("Tanh", b.emit("Div", scores, limit)), limit)
    _expose(b, node, scores, CAPPED, given, dtype)
    bias = additive_mask(b, ctx, node, rules, mask, dtype)
    if bias is not None:
        scores = b.emit("Add", scores, bias.name)
    _expose(b, node, scores, BIASED, given, dtype)
    probabilities = _softmax(b, node, scores, bias if mask or rules.may_leave_nothing else None, dtype)
    _expose(b, node, probabilities, PROBABILITIES, given, dtype)
    if ctx.type_of(node.inputs[2]).dtype != dtype:
        v = b.cast(v, dtype)
    y = _weighted(b, probabilities, v, (batch, heads, queries, keys), (*v_shape[:2], keys, v_shape[3]), group)
    if packed:
        y = b.reshape(b.transpose(y, (0, 2, 1, 3)), (batch, queries, heads * v_shape[3]))
    if wanted(node, 0):
        _finish(b, y, node.outputs[0], given, dtype)
    return b.nodes


def _rules(node: OnnxNode, queries: Dim, keys: Dim, past: Dim) -> Rules:
    return Rules(queries, keys, past, node.inputs[6] if present(node, 6) else "", bool(attr_int(node, "is_causal")),
                 attr_int(node, "left_window_size", -1), attr_int(node, "right_window_size", -1))


def _is_plain(node: OnnxNode, ctx: ImportContext, dtype: DType) -> bool:
    """Whether the core op says all of it: nothing inside is asked for, and sizes of heads are fixed."""
    asked = onnx_dtype(node, "softmax_precision") if node.attrs.get("softmax_precision") else dtype
    if not wanted(node, 0) or wanted(node, 3) or asked.bits > dtype.bits:
        return False
    sizes = [_sizes(node, ctx, i)[3] for i in (0, 2)]
    return all(isinstance(size, int) and size > 0 for size in sizes)


def _one_op(b: NodeBuilder, node: OnnxNode, ctx: ImportContext, dtype: DType) -> None:
    """The core op; heads that lie side by side are read so, unless a cache wants them apart."""
    given = ctx.type_of(node.inputs[0]).dtype
    apart = present(node, 4) or wanted(node, 1) or wanted(node, 2)
    sizes = [_sizes(node, ctx, i) for i in range(3)]
    past: Dim = shape_of(node, ctx, 4)[2] if present(node, 4) else 0
    (_, heads, queries, depth), keys = sizes[0], past + sizes[1][2]
    _group(node, heads, sizes[1][1])
    rules = _rules(node, queries, keys, past)
    attrs: dict[str, Attr] = {"scale": _scale(node, depth)}
    operands = []
    for i, (name, (batch, count, steps, size)) in enumerate(zip("qkv", sizes, strict=True)):
        x = node.inputs[i]
        if len(shape_of(node, ctx, i)) == 3:
            x = b.reshape(x, (batch, steps, count, size))
            if i and apart:
                x = b.transpose(x, (0, 2, 1, 3))
            else:
                attrs[f"{name}_order"] = "bshd"
        if i:
            x = _extended(b, node, x, 3 + i, i)
        operands.append(x if ctx.type_of(x).dtype == dtype else b.cast(x, dtype))
    cap, packed = attr_float(node, "softcap", 0.0), len(shape_of(node, ctx)) == 3
    if cap > 0:
        attrs["softcap"] = cap
    if rules.causal and not rules.valid and rules.left < 0:
        attrs |= {"causal": True, "offset": past}
        rules = replace(rules, causal=False, right=-1)
    mask = _mask(b, node, ctx, rules, dtype)
    if present(node, 3) or rules.may_leave_nothing:
        attrs["empty"] = "zero"
    y = b.add("Attention", (*operands, mask), {**attrs, **({"y_order": "bshd"} if packed else {})})
    if packed:
        y = b.reshape(y, (sizes[0][0], queries, heads * sizes[2][3]))
    _finish(b, y, node.outputs[0], given, dtype)


def _mask(b: NodeBuilder, node: OnnxNode, ctx: ImportContext, rules: Rules, dtype: DType) -> str:
    """What hides keys and adds to scores, as one operand of the core op; '' for nothing."""
    mask = node.inputs[3] if present(node, 3) else ""
    is_alone = not (rules.valid or rules.causal or rules.left >= 0 or rules.right >= 0)
    if mask and is_alone and ctx.type_of(mask).dtype == BOOL:
        return padded_mask(b, ctx, mask, rules.keys)
    bias = additive_mask(b, ctx, node, rules, mask, dtype)
    return bias.name if bias is not None else ""


def _sizes(node: OnnxNode, ctx: ImportContext, i: int) -> tuple[Dim, Dim, Dim, Dim]:
    """Batch, heads, steps and size of input i."""
    shape = shape_of(node, ctx, i)
    if len(shape) == 4:
        return shape[0], shape[1], shape[2], shape[3]
    if len(shape) != 3:
        raise ShapeError(f"input {i} has {len(shape)} dimensions, expected 3 or 4")
    heads = attr_int(node, "kv_num_heads" if i else "q_num_heads")
    batch, steps, width = shape
    if not isinstance(width, int) or heads <= 0 or width % heads:
        raise unsupported(node, f"{heads} heads do not share out a last dimension of {width}",
                          "give q_num_heads and kv_num_heads, and a fixed size that they divide")
    return batch, heads, steps, width // heads


def _heads(b: NodeBuilder, node: OnnxNode, ctx: ImportContext, i: int) -> tuple[str, Shape]:
    """Input i as [batch, heads, steps, depth], and that shape."""
    name, sizes = node.inputs[i], _sizes(node, ctx, i)
    if len(shape_of(node, ctx, i)) == 4:
        return name, sizes
    batch, heads, steps, size = sizes
    return b.transpose(b.reshape(name, (batch, steps, heads, size)), (0, 2, 1, 3)), sizes


def _extended(b: NodeBuilder, node: OnnxNode, new: str, past: int, present_output: int) -> str:
    """Keys or values behind those of the cache; also the node's output of that name."""
    output = node.outputs[present_output] if wanted(node, present_output) else ""
    if present(node, past):
        return b.emit("Concat", node.inputs[past], new, out=output, axis=2)
    if output:
        b.finish(new, output)
    return new


def _group(node: OnnxNode, heads: Dim, kv_heads: Dim) -> int:
    """How many heads of the queries share one of the keys."""
    if heads == kv_heads:
        return 1
    if not isinstance(heads, int) or not isinstance(kv_heads, int) or kv_heads == 0 or heads % kv_heads:
        raise unsupported(node, f"{heads} heads of queries do not share out {kv_heads} heads of keys",
                          "make the former a multiple of the latter")
    return heads // kv_heads


def _scale(node: OnnxNode, depth: Dim) -> float:
    if node.attrs.get("scale") is not None:
        return attr_float(node, "scale", 0.0)
    if not isinstance(depth, int) or depth == 0:
        raise unsupported(node, f"scale is not given and the head size {depth} is not fixed", "give scale")
    return 1 / math.sqrt(depth)


def _scores(b: NodeBuilder, node: OnnxNode, q: str, k: str, q_shape: Shape, k_shape: Shape, group: int,
            dtype: DType) -> str:
    """Q K' * scale, [batch, heads, Sq, T]."""
    batch, heads, queries, depth = q_shape
    q = b.emit("Mul", q, b.scalar(_scale(node, depth), dtype, "scale"))
    k = b.transpose(k, (0, 1, 3, 2))
    if group == 1:
        return b.emit("MatMul", q, k)
    _, kv_heads, keys, _ = k_shape
    q = b.reshape(q, (batch, kv_heads, group, queries, depth))
    k = b.reshape(k, (batch, kv_heads, 1, depth, keys))
    return b.reshape(b.emit("MatMul", q, k), (batch, heads, queries, keys))


def _softmax(b: NodeBuilder, node: OnnxNode, scores: str, bias: Bias | None, dtype: DType) -> str:
    """Probabilities; 0 for the queries whose `bias` hides every key (None when that cannot be)."""
    asked = onnx_dtype(node, "softmax_precision") if node.attrs.get("softmax_precision") else dtype
    wide = asked if asked.bits > dtype.bits else dtype     # more bits than asked for do no harm
    found = b.emit("Softmax", scores if wide == dtype else b.cast(scores, wide), axis=3)
    if wide != dtype:
        found = b.cast(found, dtype)
    if bias is None:
        return found
    best = b.emit("ReduceMax", bias.name, axes=(bias.rank - 1,), keepdims=True)
    hidden = b.emit("Equal", best, b.scalar(-np.inf, dtype, "hidden"))
    return b.emit("Where", hidden, b.scalar(0, dtype, "zero"), found)


def _weighted(b: NodeBuilder, probabilities: str, v: str, shape: Shape, v_shape: Shape, group: int) -> str:
    """P V, [batch, heads, Sq, dv]. `shape` is that of the probabilities."""
    if group == 1:
        return b.emit("MatMul", probabilities, v)
    batch, heads, queries, keys = shape
    _, kv_heads, _, depth = v_shape
    p = b.reshape(probabilities, (batch, kv_heads, group, queries, keys))
    v = b.reshape(v, (batch, kv_heads, 1, keys, depth))
    return b.reshape(b.emit("MatMul", p, v), (batch, heads, queries, depth))


def _expose(b: NodeBuilder, node: OnnxNode, value: str, mode: int, given: DType, dtype: DType) -> None:
    """The fourth output, when it is to show `value`."""
    if wanted(node, 3) and attr_int(node, "qk_matmul_output_mode") == mode:
        _finish(b, value, node.outputs[3], given, dtype)


def _finish(b: NodeBuilder, value: str, output: str, given: DType, dtype: DType) -> None:
    """Name an output, in the type that the node has outside."""
    if given == dtype:
        b.finish(value, output)
    else:
        b.cast(value, given, output)


IMPORTS: tuple[OnnxImport, ...] = (OnnxImport("Attention", 23, convert=_import),)
