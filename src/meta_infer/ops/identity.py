"""Identity, and Constant, which is one of a constant."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ops.elementwise import UNARY_SHAPES, bools, floats, ints
from meta_infer.ops.importing import core_node, unsupported
from meta_infer.ops.opdef import ImportContext, InferContext, OnnxImport, OnnxNode, OpDef, Sample, TensorType


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x = ctx.input(0)
    return (TensorType(x.dtype, x.shape, ctx.content(0)),)


def _import_constant(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    name = ctx.constant(_constant_value(node), node.outputs[0])
    return (core_node(node, "Identity", (name,), node.outputs),)


def _constant_value(node: OnnxNode) -> np.ndarray:
    """The tensor in whichever of the value attributes is given (value_float and its kin since opset 12)."""
    if "value" in node.tensors:
        return node.tensors["value"]
    dtypes = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    for name, dtype in dtypes.items():
        if node.attrs.get(name) is not None:
            return np.array(node.attrs[name], dtype)
    raise unsupported(node, "only tensors of numbers can be constants, not strings or sparse tensors",
                      "give the constant as a dense tensor")


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape in UNARY_SHAPES:
        yield Sample((floats(rng, shape),))
    yield Sample((ints(rng, (3, 2)),))
    yield Sample((bools(rng, (5,)),))


IDENTITY = OpDef(
    "Identity", _infer, lambda attrs, arrays: (np.asarray(arrays[0]),), _samples,
    (OnnxImport("Identity", 1), OnnxImport("Constant", 1, convert=_import_constant)),
    lambda attrs, args: args[0], lambda attrs, inputs, outputs: 0, keeps_zero=True, is_view=True)

OPS: tuple[OpDef, ...] = (IDENTITY,)
