"""Keep weights of 4 and 8 bits as they are, where all that is done with them is to scale them and multiply by them.

    before                                                       after
    const %q: int8[4096, 64] = ...                               const %w: uint8[64, 1, 4096] = ...  q + 128, by column
    %f: float32[4096, 64] = Cast(%q) {to = float32}              const %s: float32[64, 1] = ...
    %w: float32[4096, 64] = Mul(%f, %scale)                      %y: float32[N, 64] = MatMulNBits(%x, %w, %s)
    %y: float32[N, 64] = MatMul(%x, %w)                              {N = 64, K = 4096, bits = 8, block_size = 4096}

A zero point may be taken off before, the weights may be transposed after, and the product may be a Gemm. Scales and
zero points are one for all, one per column, or one per column and block of rows. It must run before constants are
folded, which would make float32 of the weights; where no kernel takes them narrow, the product becomes that later.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from meta_infer.ir.graph import Graph, Node
from meta_infer.ops.attrs import float_of, int_of
from meta_infer.ops.registry import op_named
from meta_infer.ops.run_reference import run_reference
from meta_infer.passes.rewrite import Edit, apply_rule
from meta_infer.support.dtypes import FLOAT32, INT4, INT8, UINT4, UINT8

_BITS = {INT8: 8, UINT8: 8, INT4: 4, UINT4: 4}
# Fewer weights are not worth an op of their own.
_FEWEST = 256
_LEAST_BLOCK = 16


@dataclass(frozen=True)
class _Weights:
    """`q` [K, N] with what belongs to each: (q - zero) * scale. `nodes` made the float32 weights from them."""

    q: np.ndarray
    zero: np.ndarray
    scale: np.ndarray
    bits: int
    nodes: tuple[Node, ...]


def keep_narrow_weights(graph: Graph) -> Graph:
    """Replace products with scaled integer constants by MatMulNBits. See the module."""
    return apply_rule(graph, _keep)


def _keep(edit: Edit, node: Node) -> bool:
    if node.op not in ("MatMul", "Gemm") or edit.value(node.outputs[0]).dtype != FLOAT32:
        return False
    turned = node.op == "Gemm" and bool(int_of(node.attrs, "transB", 0))
    if node.op == "Gemm" and (int_of(node.attrs, "transA", 0) or float_of(node.attrs, "alpha", 1.0) != 1.0):
        return False
    summand = node.inputs[2] if len(node.inputs) > 2 else ""
    if summand and float_of(node.attrs, "beta", 1.0) != 1.0:
        return False
    found = _weights(edit, node.inputs[1], node, turned)
    if found is None:
        return False
    packed = _packed(found)
    if packed is None or not edit.value(node.inputs[0]).shape:
        return False
    words, scales, zeros, size = packed
    edit.remove([*found.nodes, node])
    made = [edit.add_constant(words, f"{node.inputs[1]}_packed"), edit.add_constant(scales, f"{node.inputs[1]}_scales")]
    made += [] if zeros is None else [edit.add_constant(zeros, f"{node.inputs[1]}_zeros")]
    attrs = {"N": words.shape[0], "K": found.q.shape[0], "bits": found.bits, "block_size": size}
    origins = [*found.nodes, node]
    result = edit.emit("MatMulNBits", (node.inputs[0], *made), attrs, origins=origins,
                       output="" if summand else node.outputs[0])
    if summand:
        edit.emit("Add", (result, summand), origins=[node], output=node.outputs[0])
    return True


def _weights(edit: Edit, name: str, reader: Node, turned: bool) -> _Weights | None:
    """The integers behind float32 weights `name` that `reader` alone reads."""
    product, nodes = edit.made_by(name, "Mul", "Transpose"), []
    if product is not None and product.op == "Transpose":
        if product.attrs["perm"] != (1, 0) or edit.only_user(name) is not reader:
            return None
        nodes, reader, name, turned = [product], product, product.inputs[0], not turned
        product = edit.made_by(name, "Mul")
    if product is None or edit.only_user(name) is not reader:
        return None
    nodes.append(product)
    scale, inner = _known(edit, product.inputs[1]), edit.made_by(product.inputs[0], "Cast", "Sub")
    zero: np.ndarray | None = np.zeros((), np.float32)
    if inner is not None and inner.op == "Sub":
        if edit.only_user(inner.outputs[0]) is not product:
            return None
        nodes.append(inner)
        zero, product = _known(edit, inner.inputs[1]), inner
        inner = edit.made_by(inner.inputs[0], "Cast")
    if inner is None or scale is None or zero is None or edit.only_user(inner.outputs[0]) is not product:
        return None
    stored, bits = edit.constant(inner.inputs[0]), _BITS.get(edit.value(inner.inputs[0]).dtype)
    if stored is None or bits is None or stored.ndim != 2 or stored.size < _FEWEST:
        return None
    nodes.append(inner)
    parts = [np.broadcast_to(a, stored.shape) for a in (stored.astype(np.int16), zero, scale)]
    q, zero, scale = (part.T if turned else part for part in parts)
    low = 0 if edit.value(inner.inputs[0]).dtype in (UINT8, UINT4) else -(1 << (bits - 1))
    return _Weights(q - low, zero - np.float32(low), scale, bits, tuple(nodes))


def _known(edit: Edit, name: str) -> np.ndarray | None:
    """The contents of `name`, computed where it depends on constants alone."""
    array, node = edit.constant(name), edit.made_by(name)
    if array is not None or node is None or node.regions or len(node.outputs) != 1 or not edit.value(name).is_static:
        return array
    arrays = [_known(edit, operand) if operand else None for operand in node.inputs]
    if not arrays or any(operand and a is None for operand, a in zip(node.inputs, arrays, strict=True)):
        return None
    return np.asarray(run_reference(op_named(node.op), node.attrs, arrays, [edit.value(name).dtype])[0])


def _packed(weights: _Weights) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, int] | None:
    """Operands of MatMulNBits and their block size; None when scales change more often than it allows."""
    depth, columns = weights.q.shape
    changes = (np.diff(weights.scale, axis=0) != 0).any(1) | (np.diff(weights.zero, axis=0) != 0).any(1)
    size = gcd(*(int(place) + 1 for place in np.flatnonzero(changes)))
    size = size or -(-depth // _LEAST_BLOCK) * _LEAST_BLOCK
    if size < _LEAST_BLOCK or size % (32 // weights.bits):
        return None
    count = -(-depth // size)
    full = np.zeros((columns, count * size), np.uint8)
    full[:, :depth] = weights.q.T
    words = full if weights.bits == 8 else full[:, 0::2] | (full[:, 1::2] << 4)
    firsts = slice(0, None, size)
    zeros = np.ascontiguousarray(weights.zero[firsts].T.astype(np.float32))
    plain = bool((zeros == 1 << (weights.bits - 1)).all())
    return (np.ascontiguousarray(words).reshape(columns, count, -1),
            np.ascontiguousarray(weights.scale[firsts].T.astype(np.float32)), None if plain else zeros, size)
