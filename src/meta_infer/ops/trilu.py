"""Trilu: the upper or lower triangle of the last two dimensions, zeros elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ops.attrs import Attrs, bool_of, int_of
from meta_infer.ops.broadcast import text
from meta_infer.ops.diagonal import trilu_of_data
from meta_infer.ops.elementwise import floats, ints
from meta_infer.ops.importing import attr_int, core_node, ints_input, present, shape_of
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


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x = ctx.input(0)
    if len(x.shape) < 2:
        raise ShapeError(f"takes matrices, not {text(x.shape)}")
    return (TensorType(x.dtype, x.shape),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x, k = arrays[0], int_of(attrs, "k", 0)
    assert x is not None
    return (np.triu(x, k) if bool_of(attrs, "upper", True) else np.tril(x, k),)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    static = all(isinstance(d, int) for d in shape_of(node, ctx)[-2:])
    if not static or (present(node, 1) and ctx.known(node.inputs[1]) is None):
        return trilu_of_data(node, ctx)
    k = ints_input(node, ctx, 1, "k")[0] if present(node, 1) else 0
    return (core_node(node, "Trilu", node.inputs[:1], node.outputs, upper=bool(attr_int(node, "upper", 1)), k=k),)


def _decompose(node: Node, fresh: Callable[[str], str], constant: Callable[[np.ndarray, str], str],
               types: Mapping[str, TensorType]) -> tuple[Node, ...] | None:
    """y = Trilu(x)  ->  y = Where(mask, x, 0)"""
    x, k = types[node.inputs[0]], int_of(node.attrs, "k", 0)
    sizes = [d for d in x.shape[-2:] if isinstance(d, int)]
    if len(sizes) < 2:
        return None                                     # import has settled these otherwise
    ones = np.ones(sizes, np.bool_)
    kept = np.triu(ones, k) if bool_of(node.attrs, "upper", True) else np.tril(ones, k)
    zero = constant(np.zeros((), x.dtype.numpy), "zero")
    return (Node("Where", (constant(kept, "mask"), node.inputs[0], zero), node.outputs, origins=node.origins),)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape in ((3, 5), (5, 3), (2, 4, 4), (1, 1), (0, 3)):
        for k in (0, 1, -2, 7):
            for upper in (True, False):
                x = floats(rng, shape) if k else ints(rng, shape)
                yield Sample((x,), {"upper": upper, "k": k}, onnx_inputs=(x, np.array(k, np.int64)),
                             onnx_attrs={"upper": upper})


TRILU = OpDef("Trilu", _infer, _reference, _samples, (OnnxImport("Trilu", 14, convert=_import),),
              flops=lambda attrs, inputs, outputs: 0, decompose=_decompose)

OPS: tuple[OpDef, ...] = (TRILU,)
