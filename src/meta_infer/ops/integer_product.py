"""MatMulInteger and ConvInteger: products of 8-bit integers minus their zero points, exact in int32.

Without a kernel of their own they decompose:

    %y = MatMulInteger(%a, %b, %a_zero, %b_zero)
      ->  %y = MatMul(Sub(Cast(%a), Cast(%a_zero)), Sub(Cast(%b), Cast(%b_zero)))       all casts to int32

or to float32 and back, where no sum can reach 2^24: up to there float32 holds every integer, so the product is exact in
any order, and its kernels are the fast ones. `largest_sum` is what the importer knows of constant weights.

The zero points of the core ops broadcast against their operands; '' is zero. Padding of ConvInteger is the zero point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from meta_infer.ir.graph import Attr, Node
from meta_infer.ir.shapes import product
from meta_infer.ops.attrs import Attrs
from meta_infer.ops.broadcast import broadcast_shapes, text
from meta_infer.ops.convolution import CONV, conv_operand
from meta_infer.ops.importing import present
from meta_infer.ops.matmul import MATMUL
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
from meta_infer.ops.requantize import known_zero, number_of, spread
from meta_infer.support.dtypes import FLOAT32, INT8, INT32, UINT8

Arrays = Sequence[np.ndarray | None]


def _infer(op: OpDef) -> Callable[[InferContext], tuple[TensorType, ...]]:
    """The shapes of the float op, 8-bit operands, an int32 result."""
    def infer(ctx: InferContext) -> tuple[TensorType, ...]:
        wide: list[TensorType | None] = []
        for i in (0, 1):
            x, zero = ctx.input(i), ctx.optional(2 + i)
            if x.dtype not in (INT8, UINT8):
                raise ShapeError(f"takes int8 and uint8, not {x.dtype}")
            if zero is not None and (zero.dtype != x.dtype or broadcast_shapes(x.shape, zero.shape) != x.shape):
                raise ShapeError(f"zero point {zero.dtype}{text(zero.shape)} does not fit {x.dtype}{text(x.shape)}")
            wide.append(TensorType(INT32, x.shape))
        return op.infer(InferContext(ctx.node, tuple(wide), {}))
    return infer


def _reference(op: OpDef) -> Callable[[Attrs, Arrays], tuple[np.ndarray, ...]]:
    def run(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
        wide = []
        for i in (0, 1):
            x, zero = arrays[i], arrays[2 + i] if len(arrays) > 2 + i else None
            assert x is not None
            wide.append(x.astype(np.int32) if zero is None else x.astype(np.int32) - zero.astype(np.int32))
        return op.reference(attrs, wide)
    return run


def _decompose(op: OpDef) -> Callable[..., tuple[Node, ...]]:
    def decompose(node: Node, fresh: Callable[[str], str], constant: Callable[[np.ndarray, str], str],
                  types: Mapping[str, TensorType]) -> tuple[Node, ...]:
        b, wide = NodeBuilder(fresh, constant, node.origins), []
        work = FLOAT32 if _largest(node, types) < EXACT_IN_FLOAT32 else INT32
        for i in (0, 1):
            zero = node.inputs[2 + i] if len(node.inputs) > 2 + i else ""
            x = b.cast(node.inputs[i], work)
            wide.append(b.emit("Sub", x, b.cast(zero, work)) if zero else x)
        attrs = {name: value for name, value in node.attrs.items() if name != "largest_sum"}
        if work == INT32:
            b.add(op.name, wide, attrs, node.outputs[0])
        else:
            b.cast(b.add(op.name, wide, attrs), INT32, out=node.outputs[0])
        return tuple(b.nodes)
    return decompose


EXACT_IN_FLOAT32 = 1 << 24


def _largest(node: Node, types: Mapping[str, TensorType]) -> int:
    """What no sum of the node exceeds: by its attribute, else by the number of its terms."""
    found = node.attrs.get("largest_sum")
    if isinstance(found, int):
        return found
    weight = types[node.inputs[1]].shape
    terms = product(weight[1:]) if node.op == "ConvInteger" else weight[-2 if len(weight) > 1 else 0]
    return terms * 255 * 255 if isinstance(terms, int) else EXACT_IN_FLOAT32


def largest_sum(ctx: ImportContext, weight: str, zero: str, axes: tuple[int, ...]) -> dict[str, Attr]:
    """`largest_sum` of constant weights, summed over `axes`; no attribute when they are not constant.

    An 8-bit element and its zero point are at most 255 apart.
    """
    known, point = ctx.known(weight), ctx.known(zero) if zero else None
    if known is None or (zero and point is None):
        return {}
    wide = known.astype(np.int64)
    if point is not None and point.size == 1:
        wide = wide - int(point.reshape(-1)[0])
    elif point is not None:
        wide = np.abs(wide) + int(np.abs(point.astype(np.int64)).max(initial=0))
    return {"largest_sum": int(np.abs(wide).sum(axes).max(initial=0)) * 255}


def emit_matmul(b: NodeBuilder, ctx: ImportContext, a: str, right: str, a_zero: str, b_zero: str, out: str = "") -> str:
    """MatMulInteger of values whose types `ctx` knows; 1-D zero points are one per row of a, one per column of b."""
    left_zero = "" if known_zero(ctx, a_zero) else spread(b, a_zero, ctx.type_of(a_zero), 2, 0)
    right_zero = "" if known_zero(ctx, b_zero) else spread(b, b_zero, ctx.type_of(b_zero), 2, 1)
    return b.add("MatMulInteger", (a, right, left_zero, right_zero), matmul_attrs(ctx, right, b_zero), out)


def matmul_attrs(ctx: ImportContext, right: str, b_zero: str) -> dict[str, Attr]:
    """Attributes of a MatMulInteger by these constants."""
    rank = len(ctx.type_of(right).shape)
    return largest_sum(ctx, right, b_zero, (max(rank - 2, 0),))


def emit_conv(b: NodeBuilder, ctx: ImportContext, x: str, weight: str, x_zero: str, w_zero: str,
              attrs: Mapping[str, Attr], out: str = "") -> str:
    """ConvInteger; a 1-D zero point of the weights is one per output channel."""
    rank = len(ctx.type_of(weight).shape)
    point = "" if known_zero(ctx, x_zero) else spread(b, x_zero, ctx.type_of(x_zero), rank, 0)
    points = "" if known_zero(ctx, w_zero) else spread(b, w_zero, ctx.type_of(w_zero), rank, 0)
    whole = {**attrs, **largest_sum(ctx, weight, w_zero, tuple(range(1, rank)))}
    return b.add("ConvInteger", (x, weight, point, points), whole, out)


def _zero_points(node: OnnxNode) -> tuple[str, str]:
    return node.inputs[2] if present(node, 2) else "", node.inputs[3] if present(node, 3) else ""


def _import_matmul(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    b = NodeBuilder.importing(node, ctx)
    (a, right), (a_zero, b_zero) = node.inputs[:2], _zero_points(node)
    emit_matmul(b, ctx, a, right, a_zero, b_zero, node.outputs[0])
    return b.nodes


def _import_conv(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    b, (x, w), (x_zero, w_zero) = NodeBuilder.importing(node, ctx), node.inputs[:2], _zero_points(node)
    x, attrs = conv_operand(b, node, x, ctx.type_of(x).shape[2:], ctx.type_of(w).shape, number_of(ctx, x_zero))
    emit_conv(b, ctx, x, w, x_zero, w_zero, attrs, node.outputs[0])
    return b.nodes


def _bytes(rng: np.random.Generator, dtype: type, *shape: int) -> np.ndarray:
    """Random elements; int8 in 7 bits, since ONNX Runtime's sums of u8 x s8 saturate on CPUs without VNNI."""
    low, high = (-64, 63) if dtype == np.int8 else (0, 255)
    return rng.integers(low, high, shape, dtype, endpoint=True)


def _matmul_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for a, b in (((3, 4), (4, 5)), ((2, 3, 7), (7, 5)), ((2, 3, 4), (2, 4, 5)), ((0, 4), (4, 5)),
                 ((17, 33), (33, 9))):
        for right in (np.int8, np.uint8):
            yield Sample((_bytes(rng, np.uint8, *a), _bytes(rng, right, *b)))
            columns = b[-1:] if len(b) == 2 else (*b[:-2], 1, b[-1])
            yield Sample((_bytes(rng, np.uint8, *a), _bytes(rng, right, *b), _bytes(rng, np.uint8),
                          _bytes(rng, right, *columns)))
    left = _bytes(rng, np.uint8, 3, 4), _bytes(rng, np.int8, 4, 5)
    rows = _bytes(rng, np.uint8, 3, 1)
    yield Sample((*left, rows), onnx_op="-")
    yield Sample((_bytes(rng, np.uint8, 3, 0), _bytes(rng, np.int8, 0, 5)), onnx_op="-")   # the peer leaves it unset


def _conv_samples(rng: np.random.Generator) -> Iterable[Sample]:
    cases: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Attr]], ...] = (
        ((2, 3, 7, 9), (5, 3, 3, 3), {"pads": (1, 1, 1, 1), "strides": (1, 1)}),
        ((1, 4, 9, 11), (6, 2, 3, 2), {"pads": (0, 1, 2, 0), "strides": (2, 3), "dilations": (1, 2), "group": 2}),
        ((0, 3, 5, 5), (2, 3, 1, 1), {}), ((2, 3, 11), (4, 3, 3), {"pads": (1, 0), "strides": (2,)}),
        ((1, 8, 6, 6), (8, 1, 3, 3), {"group": 8, "pads": (1, 1, 1, 1)}))
    for x, w, given in cases:
        n = len(w) - 2
        attrs: dict[str, Attr] = {"kernel_shape": w[2:], "strides": (1,) * n, "pads": (0,) * 2 * n,
                                  "dilations": (1,) * n, "group": 1, **given}
        yield Sample((_bytes(rng, np.uint8, *x), _bytes(rng, np.uint8, *w)), attrs)
        yield Sample((_bytes(rng, np.uint8, *x), _bytes(rng, np.int8, *w), _bytes(rng, np.uint8)), attrs)


MATMUL_INTEGER = OpDef("MatMulInteger", _infer(MATMUL), _reference(MATMUL), _matmul_samples,
                       (OnnxImport("MatMulInteger", 10, convert=_import_matmul),), flops=MATMUL.flops,
                       decompose=_decompose(MATMUL))
CONV_INTEGER = OpDef("ConvInteger", _infer(CONV), _reference(CONV), _conv_samples,
                     (OnnxImport("ConvInteger", 10, convert=_import_conv),), flops=CONV.flops,
                     decompose=_decompose(CONV))

OPS: tuple[OpDef, ...] = (MATMUL_INTEGER, CONV_INTEGER)
