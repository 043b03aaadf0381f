"""LpPool and GlobalLpPool: (sum of |x|^p over a window)^(1/p), imported as elementwise ops around SumPool or ReduceSum.

Types below 32 bits are computed in float32: powers leave their range.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from meta_infer.ir.graph import Attr, Node
from meta_infer.ops.attrs import Attrs
from meta_infer.ops.auto_pad import pad_first
from meta_infer.ops.importing import core_node, shape_of, unsupported
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, OpDef, Sample
from meta_infer.ops.pooling import infer_pool, pool_flops, pool_samples, pool_windows, window_attrs
from meta_infer.support.dtypes import FLOAT32


def _power(node: OnnxNode) -> float:
    p = node.attrs.get("p", 2)
    if not isinstance(p, (int, float)) or p <= 0:
        raise unsupported(node, f"p is {p}", "give a positive p")
    return float(p)


def _around(node: OnnxNode, ctx: ImportContext, op: str, attrs: dict[str, Attr]) -> Iterable[Node]:
    """x  ->  Abs, Pow p, the sum `op`, Pow 1/p; p = 1 needs no power, p = 2 a product and a root."""
    p, name, (out,) = _power(node), node.inputs[0], node.outputs
    dtype = ctx.type_of(name).dtype
    narrow = dtype.bits < 32
    if narrow:
        wide = ctx.fresh(name)
        yield core_node(node, "Cast", (name,), (wide,), to=FLOAT32)
        name = wide
    real = np.dtype(np.float32) if narrow else dtype.numpy
    powers, total, root = (ctx.fresh(out) for _ in range(3))
    if p == 2:
        yield core_node(node, "Mul", (name, name), (powers,))
    else:
        size = ctx.fresh(name) if p != 1 else powers
        yield core_node(node, "Abs", (name,), (size,))
        if p != 1:
            yield core_node(node, "Pow", (size, ctx.constant(np.array(p, real), "p")), (powers,))
    last = root if narrow else out
    yield core_node(node, op, (powers,), (last if p == 1 else total,), **attrs)
    if p == 2:
        yield core_node(node, "Sqrt", (total,), (last,))
    elif p != 1:
        yield core_node(node, "Pow", (total, ctx.constant(np.array(1 / p, real), "p")), (last,))
    if narrow:
        yield core_node(node, "Cast", (root,), (out,), to=dtype)


def _import_pool(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Ceiling and dilations exist since version 18. Padding that varies is zeros, whose powers are zeros."""
    b, x = NodeBuilder.importing(node, ctx), node.inputs[0]
    pads, attrs = window_attrs(node, shape_of(node, ctx)[2:])
    padded, fixed = pad_first(b, x, pads, 0.0)
    return _around(replace(node, inputs=(padded,)), ctx, "SumPool", {**attrs, "pads": fixed})


def _import_global(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    axes = tuple(range(2, len(shape_of(node, ctx))))
    return _around(node, ctx, "ReduceSum", {"axes": axes, "keepdims": True})


def _sum_pool(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x = arrays[0]
    assert x is not None
    return (pool_windows(attrs, x, 0.0).sum(tuple(range(x.ndim, 2 * x.ndim - 2)), dtype=x.dtype),)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for sample in pool_samples(False)(rng):
        yield Sample(sample.inputs, sample.attrs, onnx_op="-")


SUM_POOL = OpDef(
    "SumPool", infer_pool, _sum_pool, _samples,
    (OnnxImport("LpPool", 1, convert=_import_pool), OnnxImport("GlobalLpPool", 1, convert=_import_global)),
    flops=pool_flops)

OPS: tuple[OpDef, ...] = (SUM_POOL,)
