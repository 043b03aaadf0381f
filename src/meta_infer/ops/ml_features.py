"""Feature preparation of ai.onnx.ml: Binarizer, ArrayFeatureExtractor, LabelEncoder, Scaler, Normalizer, Imputer."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import product
from meta_infer.ops.importing import attr_float, attr_int, attr_text, shape_of, unsupported
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, ShapeError
from meta_infer.support.dtypes import FLOAT32, INT32

ML = "ai.onnx.ml"


def listed(node: OnnxNode, name: str) -> tuple[float, ...]:
    """A list of numbers, empty when absent."""
    found = node.attrs.get(name)
    return tuple(float(v) for v in found) if isinstance(found, tuple) else ()  # type: ignore[arg-type]


def _import_binarizer(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """1 above the threshold, else 0. An integer is compared as a float."""
    build, x, dtype = NodeBuilder.importing(node, ctx), node.inputs[0], ctx.type_of(node.inputs[0]).dtype
    real = dtype if dtype.is_float else FLOAT32
    wide = x if real == dtype else build.cast(x, real)
    above = build.emit("Greater", wide, build.scalar(attr_float(node, "threshold"), real, "threshold"))
    build.cast(above, dtype, out=node.outputs[0])
    return build.nodes


def _import_extractor(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Columns picked from the last axis; a vector gives one row."""
    build, x, shape = NodeBuilder.importing(node, ctx), node.inputs[0], shape_of(node, ctx)
    if not shape:
        raise ShapeError("takes features from a vector or more, not from a scalar")
    picks = build.reshape(node.inputs[1], (product(shape_of(node, ctx, 1)),))
    if len(shape) == 1:
        x, shape = build.reshape(x, (1, shape[0])), (1, shape[0])
    build.emit("Gather", x, picks, axis=len(shape) - 1, out=node.outputs[0])
    return build.nodes


def _table(node: OnnxNode, side: str) -> np.ndarray:
    """Keys or values of a LabelEncoder. Raises UnsupportedError for strings."""
    for key, dtype in (("int64s", np.int64), ("floats", np.float32)):
        found = node.attrs.get(f"{side}_{key}")
        if isinstance(found, tuple) and found:
            return np.array(found, dtype)
    array = node.tensors.get(f"{side}_tensor")
    if array is None or array.dtype.kind not in "if":
        raise unsupported(node, f"{side} that are strings are not supported", "encode strings before the model")
    return array.reshape(-1)


def _import_encoder(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Compares with every key; of equal keys the last counts, and a NaN finds the key NaN."""
    build, x, shape = NodeBuilder.importing(node, ctx), node.inputs[0], shape_of(node, ctx)
    keys, values, dtype = _table(node, "keys"), _table(node, "values"), ctx.type_of(node.inputs[0]).dtype
    if len(keys) != len(values):
        raise unsupported(node, f"{len(keys)} keys do not fit {len(values)} values",
                          "correct the node: it breaks the specification")
    column = build.reshape(x, (product(shape), 1))
    hits = build.emit("Equal", column, build.constant(keys.astype(dtype.numpy), "keys"))
    if dtype.is_float and np.isnan(keys).any():
        unordered = build.emit("And", build.emit("IsNaN", column), build.constant(np.isnan(keys), "nan_keys"))
        hits = build.emit("Or", hits, unordered)
    hits = build.cast(hits, INT32)
    where = build.emit("ArgMax", hits, axis=1, keepdims=False, select_last_index=True)
    some = build.emit("ReduceMax", hits, axes=(1,), keepdims=False)
    found = build.emit("Gather", build.constant(values, "values"), where, axis=0)
    default = node.tensors.get("default_tensor")
    if default is None:
        default = np.array(attr_int(node, "default_int64", -1) if values.dtype.kind == "i" else
                           attr_float(node, "default_float", -0.0))
    other = build.constant(default.reshape(-1)[:1].astype(values.dtype), "default")
    missing = build.emit("Equal", some, build.constant(np.array(0, np.int32), "zero"))
    build.reshape(build.emit("Where", missing, other, found), shape, out=node.outputs[0])
    return build.nodes


def _import_scaler(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """(x - offset) * scale, in float32; both of one element or one per feature."""
    build = NodeBuilder.importing(node, ctx)
    x = build.cast(node.inputs[0], FLOAT32)
    offset, scale = listed(node, "offset") or (0.0,), listed(node, "scale") or (1.0,)
    moved = build.emit("Sub", x, build.constant(np.array(offset, np.float32), "offset"))
    build.emit("Mul", moved, build.constant(np.array(scale, np.float32), "scale"), out=node.outputs[0])
    return build.nodes


def _import_normalizer(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Rows over their largest element, the sum of their sizes (L1) or their length (L2); 0 divides nothing."""
    build, shape, how = NodeBuilder.importing(node, ctx), shape_of(node, ctx), attr_text(node, "norm", "MAX")
    folds = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}
    if how not in folds or not shape:
        raise unsupported(node, f"norm {how!r} of {len(shape)} dimensions is not known",
                          "the specification knows MAX, L1 and L2")
    x = build.cast(node.inputs[0], FLOAT32)
    norm = build.emit(folds[how], x, axes=(len(shape) - 1,), keepdims=True)
    none = build.emit("Equal", norm, build.scalar(0, FLOAT32, "zero"))
    build.emit("Div", x, build.emit("Where", none, build.scalar(1, FLOAT32, "one"), norm), out=node.outputs[0])
    return build.nodes


def _import_imputer(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """`replaced_value` (NaN finds NaN) becomes `imputed_value`, one for all or one per feature."""
    build, x, dtype = NodeBuilder.importing(node, ctx), node.inputs[0], ctx.type_of(node.inputs[0]).dtype
    kind = "float" if dtype.is_float else "int64"
    new = node.attrs.get(f"imputed_value_{kind}s")
    if not isinstance(new, tuple) or not new:
        raise unsupported(node, f"imputed_value_{kind}s is missing", "correct the node: it breaks the specification")
    old = attr_float(node, "replaced_value_float") if dtype.is_float else attr_int(node, "replaced_value_int64")
    is_old = build.emit("IsNaN", x) if old != old else build.emit("Equal", x, build.scalar(old, dtype, "old"))
    build.emit("Where", is_old, build.constant(np.array(new, dtype.numpy), "new"), x, out=node.outputs[0])
    return build.nodes


IMPORTS: tuple[OnnxImport, ...] = (
    OnnxImport("Binarizer", 1, convert=_import_binarizer, domain=ML),
    OnnxImport("ArrayFeatureExtractor", 1, convert=_import_extractor, domain=ML),
    OnnxImport("LabelEncoder", 2, convert=_import_encoder, domain=ML),
    OnnxImport("Scaler", 1, convert=_import_scaler, domain=ML),
    OnnxImport("Normalizer", 1, convert=_import_normalizer, domain=ML),
    OnnxImport("Imputer", 1, convert=_import_imputer, domain=ML))
