"""LinearRegressor and LinearClassifier of ai.onnx.ml: x W' + b, in float32."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ops.importing import attr_int, attr_text, shape_of, unsupported, wanted
from meta_infer.ops.ml_features import ML, listed
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, ShapeError
from meta_infer.ops.score_transform import transformed
from meta_infer.support.dtypes import FLOAT32, INT64


def _scores(build: NodeBuilder, node: OnnxNode, ctx: ImportContext, targets: int) -> str:
    """[rows, targets]; coefficients of one target lie together."""
    shape, weights = shape_of(node, ctx), np.array(listed(node, "coefficients"), np.float32)
    x = build.cast(node.inputs[0], FLOAT32)
    if len(shape) == 1:
        x = build.reshape(x, (1, shape[0]))
    elif len(shape) != 2:
        raise ShapeError(f"takes rows of features, not {len(shape)} dimensions")
    if targets < 1 or len(weights) % targets or shape[-1] != len(weights) // targets:
        raise ShapeError(f"{len(weights)} coefficients do not fit {targets} targets of {shape[-1]} features")
    table = build.constant(np.ascontiguousarray(weights.reshape(targets, -1).T), "coefficients")
    product, bias = build.emit("MatMul", x, table), listed(node, "intercepts")
    return build.emit("Add", product, build.constant(np.array(bias, np.float32), "intercepts")) if bias else product


def _import_regressor(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    build = NodeBuilder.importing(node, ctx)
    scores = _scores(build, node, ctx, attr_int(node, "targets", 1))
    build.finish(transformed(build, scores, attr_text(node, "post_transform", "NONE"), FLOAT32), node.outputs[0])
    return build.nodes


def _import_classifier(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """The best score tells the label. One score for two labels is that of the second, positive where it wins; that of
    the first is what is left of 1, before LOGISTIC its negative (as ONNX Runtime has it)."""
    labels = listed(node, "classlabels_ints")
    if not labels:
        raise unsupported(node, "labels that are strings are not supported", "number the classes (classlabels_ints)")
    build, after = NodeBuilder.importing(node, ctx), attr_text(node, "post_transform", "NONE")
    features = shape_of(node, ctx)[-1]
    assert isinstance(features, int)
    targets = len(listed(node, "coefficients")) // max(features, 1)
    scores = _scores(build, node, ctx, targets)
    alone = scores if targets == 1 and len(labels) == 2 else ""
    if alone:
        scores = build.emit("Concat", build.emit("Neg", alone), alone, axis=1)
    if wanted(node, 0):
        best = build.emit("ArgMax", scores, axis=1, keepdims=False, select_last_index=False)
        table = build.constant(np.array(labels, INT64.numpy), "labels")
        build.emit("Gather", table, best, axis=0, out=node.outputs[0])
    if wanted(node, 1):
        if alone and after != "LOGISTIC":
            rest = build.emit("Sub", build.scalar(1, FLOAT32, "one"), alone)
            scores = build.emit("Concat", rest, alone, axis=1)
        build.finish(transformed(build, scores, after, FLOAT32), node.outputs[1])
    return build.nodes


IMPORTS: tuple[OnnxImport, ...] = (OnnxImport("LinearRegressor", 1, convert=_import_regressor, domain=ML),
                                   OnnxImport("LinearClassifier", 1, convert=_import_classifier, domain=ML))
