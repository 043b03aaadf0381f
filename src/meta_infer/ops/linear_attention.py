"""LinearAttention of ONNX: a state [dk, dv] per head that every step decays, corrects, writes and reads.

    S  = exp(g) * S                        with decay g, per head or per row of S
    v' = beta * (v - S' k)                 with beta, else v
    S  = S + k v'^T
    o  = scale * S' q                      for each head of queries that shares the state

Queries [batch, steps, q_heads * dk], keys [batch, steps, kv_heads * dk], values [batch, steps, kv_heads * dv], the
state [batch, kv_heads, dk, dv] (zeros where absent), decay [batch, steps, kv_heads or kv_heads * dk], beta [batch,
steps, kv_heads or 1]. ONNX's update_rule follows from the operands: gated with decay, delta with beta.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import Dim
from meta_infer.ops.attrs import Attrs, float_of, int_of
from meta_infer.ops.broadcast import same_dim, text
from meta_infer.ops.elementwise import floats
from meta_infer.ops.importing import attr_float, attr_int, attr_text, origin_of, present, unsupported, wanted
from meta_infer.ops.node_builder import NodeBuilder
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
from meta_infer.support.dtypes import FLOAT32

RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}
_STATE, _DECAY, _BETA = 3, 4, 5


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    """Output [batch, steps, q_heads * dv] and state [batch, kv_heads, dk, dv]."""
    q, k, v = (ctx.input(i) for i in range(3))
    heads, kv_heads = int_of(ctx.node.attrs, "q_num_heads"), int_of(ctx.node.attrs, "kv_num_heads")
    if any(len(t.shape) != 3 for t in (q, k, v)):
        raise ShapeError("query, key and value should be [batch, steps, heads * size]")
    if kv_heads <= 0 or heads <= 0 or heads % kv_heads:
        raise ShapeError(f"{heads} heads of queries are no multiple of {kv_heads} heads of keys")
    batch, steps, width = q.shape
    dk, dv = _share(width, heads), _share(v.shape[2], kv_heads)
    optional = {_STATE: ("past_state", (batch, kv_heads, dk, dv)), _DECAY: ("decay", (batch, steps, None)),
                _BETA: ("beta", (batch, steps, None)), 1: ("key", (batch, steps, kv_heads * dk)),
                2: ("value", (batch, steps, kv_heads * dv))}
    for i, (name, shape) in optional.items():
        found = ctx.optional(i)
        if found is None:
            continue
        if len(found.shape) != len(shape):
            raise ShapeError(f"{name} {text(found.shape)} should have {len(shape)} dimensions")
        for a, b in zip(found.shape, shape, strict=True):
            if b is not None:
                same_dim(a, b)
    decay, beta = ctx.optional(_DECAY), ctx.optional(_BETA)
    if decay is not None and decay.shape[2] not in (kv_heads, kv_heads * dk):
        raise ShapeError(f"decay {text(decay.shape)} should end in {kv_heads} or {kv_heads * dk}")
    if beta is not None and beta.shape[2] not in (kv_heads, 1):
        raise ShapeError(f"beta {text(beta.shape)} should end in {kv_heads} or 1")
    return TensorType(q.dtype, (batch, steps, heads * dv)), TensorType(q.dtype, (batch, kv_heads, dk, dv))


def _share(width: Dim, heads: int) -> int:
    if not isinstance(width, int) or width % heads:
        raise ShapeError(f"a last dimension of {width} is not shared out by {heads} heads")
    return width // heads


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    heads, kv_heads, scale = int_of(attrs, "q_num_heads"), int_of(attrs, "kv_num_heads"), float_of(attrs, "scale")
    q, k, v = arrays[:3]
    past, decay, beta = (arrays[i] if i < len(arrays) else None for i in (_STATE, _DECAY, _BETA))
    assert q is not None and k is not None and v is not None
    batch, steps, _ = q.shape
    q, k, v = (a.reshape(batch, steps, n, a.shape[2] // n) for a, n in ((q, heads), (k, kv_heads), (v, kv_heads)))
    dk, dv = k.shape[3], v.shape[3]
    state = np.zeros((batch, kv_heads, dk, dv), q.dtype) if past is None else past
    out = np.zeros((batch, steps, heads, dv), q.dtype)
    for t in range(steps):
        value = v[:, t]
        if decay is not None:
            state = state * np.exp(decay[:, t].reshape(batch, kv_heads, decay.shape[2] // kv_heads, 1))
        if beta is not None:
            value = beta[:, t, :, None] * (value - np.einsum("bhdm,bhd->bhm", state, k[:, t]))
        state = state + k[:, t, :, :, None] * value[:, :, None]
        shared = state if heads == kv_heads else np.repeat(state, heads // kv_heads, axis=1)
        out[:, t] = scale * np.einsum("bhd,bhdm->bhm", q[:, t], shared)
    return out.reshape(batch, steps, heads * dv), state.astype(q.dtype)


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    out, state = outputs[0].shape, outputs[1].shape
    return out[0] * out[1] * (state[1] * state[2] * state[3] * 5 + out[2] * state[2] * 2)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Types of few bits are computed in float32, as ONNX demands."""
    rule = attr_text(node, "update_rule", "gated_delta")
    if rule not in RULES:
        raise unsupported(node, f"update_rule {rule!r} is not known", f"use {', '.join(RULES)}")
    for i, name, needed in ((_DECAY, "decay", RULES[rule][0]), (_BETA, "beta", RULES[rule][1])):
        if present(node, i) != needed:
            raise ShapeError(f"update_rule {rule!r} {'needs' if needed else 'takes no'} {name}")
    b, heads = NodeBuilder.importing(node, ctx), attr_int(node, "q_num_heads")
    query = ctx.type_of(node.inputs[0])
    given, dtype = query.dtype, FLOAT32 if query.dtype.bits < FLOAT32.bits else query.dtype
    inputs = [name if not name or ctx.type_of(name).dtype == dtype else b.cast(name, dtype) for name in node.inputs]
    scale = attr_float(node, "scale") or 1 / math.sqrt(max(_share(query.shape[-1], max(heads, 1)), 1))
    outputs = [node.outputs[0] if wanted(node, 0) else "", node.outputs[1] if wanted(node, 1) else ""]
    kinds = [given, ctx.type_of(node.inputs[_STATE]).dtype if present(node, _STATE) else given]
    made = [ctx.fresh(name or "unused") if kind != dtype or not name else name
            for name, kind in zip(outputs, kinds, strict=True)]
    while inputs and not inputs[-1]:
        inputs.pop()
    b.put(Node("LinearAttention", tuple(inputs), tuple(made), {
        "q_num_heads": heads, "kv_num_heads": attr_int(node, "kv_num_heads"), "scale": scale}, (origin_of(node),)))
    for name, result, kind in zip(outputs, made, kinds, strict=True):
        if name and name != result:
            b.cast(result, kind, name)
    return b.nodes


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for batch, steps, kv_heads, group, dk, dv in ((1, 1, 1, 1, 1, 1), (2, 5, 2, 1, 4, 3), (1, 3, 2, 3, 9, 17),
                                                  (2, 0, 1, 2, 3, 4), (0, 2, 1, 1, 3, 4)):
        def make(*shape: int) -> np.ndarray:
            return floats(rng, shape, -1, 1)

        q, k = make(batch, steps, kv_heads * group * dk), make(batch, steps, kv_heads * dk)
        v, past = make(batch, steps, kv_heads * dv), make(batch, kv_heads, dk, dv)
        attrs = {"q_num_heads": kv_heads * group, "kv_num_heads": kv_heads, "scale": 0.5}
        for state, decay, beta in ((None, None, None), (past, -abs(make(batch, steps, kv_heads)), None),
                                   (None, None, make(batch, steps, 1)),
                                   (past, -abs(make(batch, steps, kv_heads * dk)), make(batch, steps, kv_heads))):
            yield Sample((q, k, v, state, decay, beta), attrs, 1e-4, 1e-5, onnx_op="-")


LINEAR_ATTENTION = OpDef("LinearAttention", _infer, _reference, _samples,
                         (OnnxImport("LinearAttention", 27, convert=_import),), flops=_flops)

OPS: tuple[OpDef, ...] = (LINEAR_ATTENTION,)
