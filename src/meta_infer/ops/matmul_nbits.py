"""MatMulNBits: a product with weights of 2, 4 or 8 bits, in blocks along K that have a scale and a zero point each.

    y[..., n] = sum over k of a[..., k] * (q[n, k] - zero[n, k // block_size]) * scale[n, k // block_size]  + bias[n]

q lies packed in bytes, [N, ceil(K / block_size), block_size * bits / 8], the lowest bits first; so do zero points when
they are bytes, [N, ceil(blocks * bits / 8)]. Without any, zero is 2^(bits - 1). With `g_idx`, column k takes the scale
of block g_idx[k]. Where no kernel takes the packed weights it decomposes into the float weights and a MatMul.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from meta_infer.ir.graph import Node, Shape
from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.attrs import Attrs, int_of
from meta_infer.ops.broadcast import same_dim, text
from meta_infer.ops.elementwise import floats
from meta_infer.ops.importing import attr_int, present, unsupported
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
from meta_infer.support.dtypes import FLOAT32, UINT8

Arrays = Sequence[np.ndarray | None]


def _blocks(attrs: Attrs) -> tuple[int, int, int, int, int]:
    """N, K, bits, block size and number of blocks."""
    n, k, bits, size = (int_of(attrs, name) for name in ("N", "K", "bits", "block_size"))
    return n, k, bits, size, -(-k // size)


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    """Inputs a, packed weights, scales, [zero points], [g_idx]."""
    a, packed, scales = ctx.input(0), ctx.input(1), ctx.input(2)
    n, k, bits, size, count = _blocks(ctx.node.attrs)
    if not a.shape:
        raise ShapeError("the left operand must have at least one dimension")
    same_dim(a.shape[-1], k)
    if packed.shape != (n, count, size * bits // 8):
        raise ShapeError(f"weights {text(packed.shape)} should be {text((n, count, size * bits // 8))}")
    if product(scales.shape) != n * count:
        raise ShapeError(f"scales {text(scales.shape)} should be {text((n, count))}")
    return (TensorType(a.dtype, (*a.shape[:-1], n)),)


def unpack_bits(packed: np.ndarray, bits: int, count: int) -> np.ndarray:
    """[N, ...] bytes -> [N, count] numbers."""
    flat = packed.reshape(packed.shape[0], -1, 1)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return np.asarray((flat >> shifts) & ((1 << bits) - 1)).reshape(packed.shape[0], -1)[:, :count]


def _reference(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    (a, packed, scales), (n, k, bits, size, count) = arrays[:3], _blocks(attrs)
    zeros, order = (arrays[i] if len(arrays) > i else None for i in (3, 4))
    assert a is not None and packed is not None and scales is not None
    of = np.arange(k) // size if order is None else order.astype(np.int64)
    point = np.full((n, count), 1 << (bits - 1), np.float32) if zeros is None else (
        unpack_bits(zeros, bits, count) if zeros.dtype == np.uint8 else zeros.reshape(n, count)).astype(np.float32)
    q = unpack_bits(packed, bits, k).astype(np.float32)
    weights = (q - point[:, of]) * scales.astype(np.float32).reshape(n, count)[:, of]
    return (np.asarray(a @ weights.T.astype(a.dtype)),)


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    return 2 * product(outputs[0].shape) * int_of(attrs, "K")


def _decompose(node: Node, fresh: Callable[[str], str], constant: Callable[[np.ndarray, str], str],
               types: Mapping[str, TensorType]) -> tuple[Node, ...]:
    """Float weights [K, N], which fold to a constant where the packed ones are constant, and a MatMul."""
    b, (n, k, bits, size, count) = NodeBuilder(fresh, constant, node.origins), _blocks(node.attrs)
    a, packed, scales, zeros, order = (*node.inputs, "", "")[:5]

    def unpacked(name: str, shape: Shape, wanted: int) -> str:
        """Bytes of `shape` -> [N, wanted] in float32."""
        per_byte = 8 // bits
        if per_byte > 1:
            shifts = b.constant(np.arange(0, 8, bits, dtype=np.uint8), "shifts")
            name = b.emit("BitShift", b.reshape(name, (*shape, 1)), shifts, direction="RIGHT")
            name = b.emit("BitwiseAnd", name, b.constant(np.array((1 << bits) - 1, np.uint8), "bits"))
        width = int(np.prod(shape[1:])) * per_byte        # type: ignore[arg-type]
        name = b.reshape(name, (n, width))
        if width != wanted:
            name = b.emit("Slice", name, starts=(0, 0), sizes=(n, wanted), steps=(1, 1))
        return b.cast(name, FLOAT32)

    def per_column(name: str) -> str:
        """[N, blocks] -> what broadcasts to the weights, [N, K] by g_idx or [N, blocks, 1]."""
        return b.emit("Gather", name, order, axis=1) if order else b.reshape(name, (n, count, 1))

    factor = b.reshape(scales, (n, count))
    factor = per_column(factor if types[scales].dtype == FLOAT32 else b.cast(factor, FLOAT32))
    if not zeros:
        point = b.constant(np.array(1 << (bits - 1), np.float32), "zero")
    elif types[zeros].dtype == UINT8:
        point = per_column(unpacked(zeros, types[zeros].shape, count))
    else:
        point = per_column(b.cast(b.reshape(zeros, (n, count)), FLOAT32))
    q = unpacked(packed, types[packed].shape, k if order else count * size)
    weights = b.emit("Mul", b.emit("Sub", q if order else b.reshape(q, (n, count, size)), point), factor)
    if not order:
        weights = b.reshape(weights, (n, count * size))
        if count * size != k:
            weights = b.emit("Slice", weights, starts=(0, 0), sizes=(n, k), steps=(1, 1))
    columns = b.transpose(weights, (1, 0))
    dtype = types[a].dtype
    b.emit("MatMul", a, columns if dtype == FLOAT32 else b.cast(columns, dtype), out=node.outputs[0])
    return tuple(b.nodes)


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    bits, size = attr_int(node, "bits", 4), attr_int(node, "block_size")
    if attr_int(node, "weight_prepacked"):
        raise unsupported(node, "weight_prepacked is set: the weights are in one device's own layout",
                          "export them with weight_prepacked 0")
    if bits not in (2, 4, 8) or size < 16 or size & (size - 1):
        raise unsupported(node, f"{bits} bits in blocks of {size} are not supported",
                          "use 2, 4 or 8 bits and a power of two from 16 on")
    b = NodeBuilder.importing(node, ctx)
    biased = present(node, 5)
    found = b.emit("MatMulNBits", *node.inputs[:5], out="" if biased else node.outputs[0], N=attr_int(node, "N"),
                   K=attr_int(node, "K"), bits=bits, block_size=size)
    if biased:
        b.emit("Add", found, node.inputs[5], out=node.outputs[0])
    return b.nodes


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for (n, k), bits, size, kind in (((5, 32), 4, 16, ""), ((3, 40), 4, 16, "packed"), ((4, 20), 8, 16, "packed"),
                                     ((7, 64), 2, 32, "packed"), ((5, 50), 4, 32, "float"), ((5, 32), 4, 16, "order")):
        count = -(-k // size)
        packed = rng.integers(0, 256, (n, count, size * bits // 8)).astype(np.uint8)
        zeros = {"packed": rng.integers(0, 256, (n, -(-count * bits // 8))).astype(np.uint8),
                 "float": floats(rng, (n, count), 0, 15)}.get(kind)
        order = rng.integers(0, count, k).astype(np.int32) if kind == "order" else None
        yield Sample((floats(rng, (2, 3, k)), packed, floats(rng, (n, count), 0.01, 0.1), zeros, order),
                     {"N": n, "K": k, "bits": bits, "block_size": size}, 1e-4, 1e-4, onnx_op="-")


MATMUL_NBITS = OpDef("MatMulNBits", _infer, _reference, _samples,
                     (OnnxImport("MatMulNBits", 1, convert=_import, domain="com.microsoft"),), flops=_flops,
                     decompose=_decompose)

OPS: tuple[OpDef, ...] = (MATMUL_NBITS,)
