"""LayerNormalization, BatchNormalization (inference) and InstanceNormalization."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from meta_infer.ir.graph import Attr, Node
from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.attrs import Attrs, float_of, int_of
from meta_infer.ops.broadcast import broadcast_shapes, same_dim, text
from meta_infer.ops.elementwise import floats
from meta_infer.ops.importing import attr_float, attr_int, axis_in, core_node, shape_of, unsupported, wanted
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
from meta_infer.ops.statistics import batch_in_training, layer_statistics, mean_variance
from meta_infer.support.dtypes import FLOAT32, FLOAT64

Arrays = Sequence[np.ndarray | None]


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    return 8 * product(outputs[0].shape)


def _affine_flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    return 2 * product(outputs[0].shape)


# --- LayerNormalization: over all dims from `axis` on ---------------------------------------------------------

def _infer_layer(ctx: InferContext) -> tuple[TensorType, ...]:
    x, axis = ctx.input(0), int_of(ctx.node.attrs, "axis")
    if not 0 <= axis < len(x.shape):
        raise ShapeError(f"axis {axis} is outside the {len(x.shape)} dimensions")
    for operand in (ctx.input(1), ctx.optional(2)):
        if operand is not None and len(broadcast_shapes(x.shape, operand.shape)) != len(x.shape):
            raise ShapeError(f"scale or bias {text(operand.shape)} has more dimensions than {text(x.shape)}")
    return (TensorType(x.dtype, x.shape),)


def _layer(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    x, scale, bias = arrays[0], arrays[1], arrays[2] if len(arrays) > 2 else None
    assert x is not None and scale is not None
    axes = tuple(range(int_of(attrs, "axis"), x.ndim))
    centred = x - x.mean(axes, keepdims=True)
    variance = np.mean(centred * centred, axes, keepdims=True)
    y = centred / np.sqrt(variance + x.dtype.type(float_of(attrs, "epsilon"))) * scale
    return (np.asarray(y if bias is None else y + bias),)


def _import_layer(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    axis = axis_in(node, attr_int(node, "axis", -1), len(shape_of(node, ctx)))
    if wanted(node, 0):
        yield core_node(node, "LayerNormalization", node.inputs, node.outputs[:1], axis=axis,
                        epsilon=attr_float(node, "epsilon", 1e-5))
    if wanted(node, 1) or wanted(node, 2):
        yield from layer_statistics(node, ctx, axis)


def _layer_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape, axis in (((3, 7), 1), ((2, 3, 5), 2), ((2, 3, 5), 1), ((2, 3, 4, 5), 3), ((4, 1), 1), ((1, 129), 1),
                        ((5,), 0)):
        for bias in (True, False):
            x = floats(rng, shape) + 100 * (axis == 2)
            yield Sample((x, floats(rng, shape[axis:]), floats(rng, shape[axis:]) if bias else None),
                         {"axis": axis, "epsilon": 1e-5}, rtol=1e-4, atol=2e-4)


# --- BatchNormalization and InstanceNormalization: per channel (dim 1) ----------------------------------------

def _infer_channels(ctx: InferContext) -> tuple[TensorType, ...]:
    x = ctx.input(0)
    if len(x.shape) < 2:
        raise ShapeError(f"input {text(x.shape)} has no channels")
    for i in range(1, len(ctx.inputs)):
        operand = ctx.input(i)
        if len(operand.shape) != 1:
            raise ShapeError(f"input {i} should be one value per channel, not {text(operand.shape)}")
        same_dim(x.shape[1], operand.shape[0])
    return (TensorType(x.dtype, x.shape),)


def _columns(x: np.ndarray, arrays: Arrays) -> list[np.ndarray]:
    """One value per channel, shaped to broadcast against x."""
    return [a.reshape(-1, *(1,) * (x.ndim - 2)) for a in arrays if a is not None]


def _batch(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    x = arrays[0]
    assert x is not None
    scale, bias, mean, variance = _columns(x, arrays[1:5])
    factor = scale / np.sqrt(variance + x.dtype.type(float_of(attrs, "epsilon")))
    return (np.asarray((x - mean) * factor + bias, x.dtype),)


def _decompose_batch(node: Node, fresh: Callable[[str], str], constant: Callable[[np.ndarray, str], str],
                     types: Mapping[str, TensorType]) -> tuple[Node, ...]:
    """y = BatchNormalization(x, s, b, m, v)  ->  f = s / sqrt(v + e);  y = x * f + (b - m * f), per channel"""
    x, scale, bias, mean, variance = node.inputs
    type, origins = types[x], node.origins
    columns: Attr = (type.shape[1], *(1,) * (len(type.shape) - 2))
    epsilon = constant(np.array(float_of(node.attrs, "epsilon"), type.dtype.numpy), "epsilon")
    above, root, factor, part, shift, f, s, scaled = (fresh(node.outputs[0]) for _ in range(8))
    return (Node("Add", (variance, epsilon), (above,), origins=origins),
            Node("Sqrt", (above,), (root,), origins=origins),
            Node("Div", (scale, root), (factor,), origins=origins),
            Node("Mul", (mean, factor), (part,), origins=origins),
            Node("Sub", (bias, part), (shift,), origins=origins),
            Node("Reshape", (factor,), (f,), {"shape": columns}, origins),
            Node("Reshape", (shift,), (s,), {"shape": columns}, origins),
            Node("Mul", (x, f), (scaled,), origins=origins), Node("Add", (scaled, s), node.outputs, origins=origins))


def _instance(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    x = arrays[0]
    assert x is not None
    scale, bias = _columns(x, arrays[1:3])
    axes = tuple(range(2, x.ndim))
    centred = x - x.mean(axes, keepdims=True)
    variance = np.mean(centred * centred, axes, keepdims=True)
    return (np.asarray(centred / np.sqrt(variance + x.dtype.type(float_of(attrs, "epsilon"))) * scale + bias),)


def _import_batch(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Version 7 has `spatial`; up to 13 more than one output means training; from 14 on `training_mode` says it."""
    if node.version < 9 and not attr_int(node, "spatial", 1):
        raise unsupported(node, "statistics per element (spatial=0) are not supported", "export with opset 9 or newer")
    if attr_int(node, "training_mode"):
        return batch_in_training(node, ctx)
    if any(wanted(node, i) for i in range(1, len(node.outputs))):
        raise unsupported(node, "the node computes training statistics", "export the model in inference mode")
    epsilon, types = attr_float(node, "epsilon", 1e-5), [ctx.type_of(name).dtype for name in node.inputs]
    if len(set(types)) == 1:
        return (core_node(node, "BatchNormalization", node.inputs, node.outputs[:1], epsilon=epsilon),)
    # Scale and statistics may have types of their own (float16 data beside float32 statistics).
    wide = FLOAT64 if FLOAT64 in types else FLOAT32
    names = [ctx.fresh(name) for name in node.inputs]
    casts = [core_node(node, "Cast", (old,), (new,), to=wide) for old, new in zip(node.inputs, names, strict=True)]
    result = ctx.fresh(node.outputs[0])
    return (*casts, core_node(node, "BatchNormalization", names, (result,), epsilon=epsilon),
            core_node(node, "Cast", (result,), node.outputs[:1], to=types[0]))


def _import_instance(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    return (core_node(node, "InstanceNormalization", node.inputs, node.outputs,
                      epsilon=attr_float(node, "epsilon", 1e-5)),)


def _import_group(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """x [n, c, ...]  ->  InstanceNormalization of x as [n, groups, c/groups * ...], then scale and bias.

    Version 21 has one scale and bias per channel; version 18, one per group, was withdrawn from the specification.
    """
    shape, groups = shape_of(node, ctx), attr_int(node, "num_groups")
    if len(shape) < 3 or groups < 1 or (isinstance(shape[1], int) and shape[1] % groups):
        raise ShapeError(f"{text(shape)} does not split into {groups} groups of channels")
    dtype = ctx.type_of(node.inputs[0]).dtype.numpy
    epsilon, (x, scale, bias) = attr_float(node, "epsilon", 1e-5), node.inputs
    grouped, normal = ctx.fresh(x), ctx.fresh(node.outputs[0])
    rows: Attr = (shape[0], groups, product(shape[1:]) // groups)
    yield core_node(node, "Reshape", (x,), (grouped,), shape=rows)
    one, zero = (ctx.constant(np.full(groups, v, dtype), "group") for v in (1, 0))
    plain, scaled, columns = ctx.fresh(normal), ctx.fresh(normal), (shape[1], *(1,) * (len(shape) - 2))
    yield core_node(node, "InstanceNormalization", (grouped, one, zero), (normal,), epsilon=epsilon)
    yield core_node(node, "Reshape", (normal,), (plain,), shape=shape)
    factor, offset = ctx.fresh(scale), ctx.fresh(bias)
    yield core_node(node, "Reshape", (scale,), (factor,), shape=columns)
    yield core_node(node, "Reshape", (bias,), (offset,), shape=columns)
    yield core_node(node, "Mul", (plain, factor), (scaled,))
    yield core_node(node, "Add", (scaled, offset), node.outputs)


def _batch_samples(rng: np.random.Generator) -> Iterable[Sample]:
    attrs: dict[str, Attr] = {"epsilon": 1e-3}
    for shape in ((1, 3, 5, 5), (2, 17, 3, 1), (4, 5), (2, 3, 7), (0, 3, 2, 2), (1, 2, 3, 4, 5)):
        c = (shape[1],)
        yield Sample((floats(rng, shape), floats(rng, c), floats(rng, c), floats(rng, c), floats(rng, c, 0.1, 3)),
                     attrs, rtol=1e-4, atol=1e-5)


def _instance_samples(rng: np.random.Generator) -> Iterable[Sample]:
    attrs: dict[str, Attr] = {"epsilon": 1e-5}
    for shape in ((1, 3, 5, 5), (2, 17, 3, 2), (2, 3, 7), (1, 2, 3, 4, 5)):
        yield Sample((floats(rng, shape), floats(rng, shape[1:2]), floats(rng, shape[1:2])), attrs, 1e-4, 1e-5)


LAYER_NORMALIZATION = OpDef("LayerNormalization", _infer_layer, _layer, _layer_samples,
                            (OnnxImport("LayerNormalization", 1, convert=_import_layer),), flops=_flops)
BATCH_NORMALIZATION = OpDef("BatchNormalization", _infer_channels, _batch, _batch_samples,
                            (OnnxImport("BatchNormalization", 7, convert=_import_batch),), flops=_affine_flops,
                             decompose=_decompose_batch)
INSTANCE_NORMALIZATION = OpDef("InstanceNormalization", _infer_channels, _instance, _instance_samples,
                               (OnnxImport("InstanceNormalization", 6, convert=_import_instance),
                                OnnxImport("GroupNormalization", 21, convert=_import_group),
                                OnnxImport("MeanVarianceNormalization", 9, convert=mean_variance)), flops=_flops)

OPS: tuple[OpDef, ...] = (LAYER_NORMALIZATION, BATCH_NORMALIZATION, INSTANCE_NORMALIZATION)
