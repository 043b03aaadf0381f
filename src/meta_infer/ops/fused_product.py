"""com.microsoft's products that carry a scale, a transposition or an activation: FusedMatMul, FusedGemm, FusedConv."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from meta_infer.ir.graph import Node
from meta_infer.ops.attrs import floats_of
from meta_infer.ops.convolution import conv_operand
from meta_infer.ops.importing import attr_float, attr_int, attr_text, present, shape_of, unsupported
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode

MICROSOFT = "com.microsoft"

_PARAMETERS: dict[str, tuple[str, ...]] = {
    "Relu": (), "Tanh": (), "Sigmoid": (), "Silu": (), "LeakyRelu": ("alpha",), "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"), "Clip": ("min", "max"), "Softplus": (),
    "Softsign": ()}
"""Activations that may follow, and the attributes of each, in the order of `activation_params`."""


def _activate(b: NodeBuilder, node: OnnxNode, x: str, out: str) -> None:
    """The activation the node names, with its parameters from `activation_params` or `activation_alpha`, `_beta`."""
    name = attr_text(node, "activation")
    if not name:
        b.finish(x, out)
        return
    wanted = _PARAMETERS.get(name)
    if wanted is None:
        raise unsupported(node, f"activation {name!r} is not known", f"known are {', '.join(sorted(_PARAMETERS))}")
    given = floats_of(node.attrs, "activation_params", ())
    if not given:
        given = tuple(attr_float(node, f"activation_{key}") for key in ("alpha", "beta")[:len(wanted)])
    if len(given) != len(wanted):
        raise unsupported(node, f"activation {name!r} has {len(given)} parameters, it takes {len(wanted)}",
                          "correct activation_params")
    b.add(name, (x,), dict(zip(wanted, given, strict=True)), out)


def _swapped(b: NodeBuilder, node: OnnxNode, ctx: ImportContext, i: int, letter: str) -> str:
    """Operand i with its last two dims exchanged (`transA`), and with dim 0 moved behind the batch (`transBatchA`).

    transBatch: [d0, d1, ..., m, k] -> [d1, ..., d0, k]... the first dim takes the place of the rows, all dims
    between move one to the front.
    """
    name, rank = node.inputs[i], len(shape_of(node, ctx, i))
    axes = list(range(rank))
    if attr_int(node, f"transBatch{letter}") and rank > 2:
        axes = [*range(1, rank - 1), 0, rank - 1]
    if attr_int(node, f"trans{letter}") and rank > 1:
        axes[-1], axes[-2] = axes[-2], axes[-1]
    return name if axes == list(range(rank)) else b.transpose(name, axes)


def _import_matmul(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """alpha * A' B'; an operand of rank 1 is never transposed."""
    b = NodeBuilder.importing(node, ctx)
    left, right, alpha = _swapped(b, node, ctx, 0, "A"), _swapped(b, node, ctx, 1, "B"), attr_float(node, "alpha", 1.0)
    if alpha == 1.0:
        b.emit("MatMul", left, right, out=node.outputs[0])
        return b.nodes
    factor = b.scalar(alpha, ctx.type_of(node.inputs[0]).dtype, "alpha")
    b.emit("Mul", b.emit("MatMul", left, right), factor, out=node.outputs[0])
    return b.nodes


def _import_gemm(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    b = NodeBuilder.importing(node, ctx)
    product = b.emit("Gemm", *node.inputs, alpha=attr_float(node, "alpha", 1.0), beta=attr_float(node, "beta", 1.0),
                     transA=attr_int(node, "transA"), transB=attr_int(node, "transB"))
    _activate(b, node, product, node.outputs[0])
    return b.nodes


def _import_conv(node: OnnxNode, ctx: ImportContext, channels_last: bool) -> Iterable[Node]:
    """activation(Conv(x, w, b) + z); x, z and the result are [n, ..., c] when `channels_last`, the weights never."""
    b, (x, w), shape = NodeBuilder.importing(node, ctx), node.inputs[:2], shape_of(node, ctx)
    rank = len(shape)
    first, last = (0, rank - 1, *range(1, rank - 1)), (0, *range(2, rank), 1)
    x, attrs = conv_operand(b, node, b.transpose(x, first) if channels_last else x,
                            shape[1:-1] if channels_last else shape[2:], shape_of(node, ctx, 1))
    bias, z = (node.inputs[i] if present(node, i) else "" for i in (2, 3))
    total = b.add("Conv", (x, w, bias), attrs)
    if z:
        total = b.emit("Add", total, b.transpose(z, first) if channels_last else z)
    found = ctx.fresh(node.outputs[0]) if channels_last else node.outputs[0]
    _activate(b, node, total, found)
    if channels_last:
        b.transpose(found, last, out=node.outputs[0])
    return b.nodes


IMPORTS: tuple[OnnxImport, ...] = (
    OnnxImport("FusedMatMul", 1, convert=_import_matmul, domain=MICROSOFT),
    OnnxImport("TransposeMatMul", 1, convert=_import_matmul, domain=MICROSOFT),
    OnnxImport("FusedGemm", 1, convert=_import_gemm, domain=MICROSOFT),
    OnnxImport("FusedConv", 1, convert=partial(_import_conv, channels_last=False), domain=MICROSOFT),
    OnnxImport("NhwcFusedConv", 1, convert=partial(_import_conv, channels_last=True), domain=MICROSOFT))
