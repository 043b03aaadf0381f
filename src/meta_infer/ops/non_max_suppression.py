"""NonMaxSuppression: for every image and class the best boxes, without those that overlap a better one too much.

    %picked: int64[n, 3] = NonMaxSuppression(%boxes, %scores, %most, %overlap, %least) {center_point_box = false}

boxes [batch, boxes, 4], scores [batch, classes, boxes]; rows of the result are (image, class, box), best first within
a class; of equal scores the lower box comes first. Without `most` nothing is picked, as ONNX says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import UNBOUNDED, Dim, bounds, dim_max, dim_min
from meta_infer.ops.attrs import Attrs, bool_of
from meta_infer.ops.broadcast import same_dim, text
from meta_infer.ops.importing import attr_int, core_node
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
from meta_infer.support.dtypes import FLOAT32, INT64


def most_picked(boxes: Dim, limit: np.ndarray | None) -> Dim:
    """The largest number of boxes of one class, given the constant operand `limit` if it is one."""
    return boxes if limit is None else dim_min(boxes, max(int(limit.reshape(-1)[0]), 0))


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    boxes, scores = ctx.input(0), ctx.input(1)
    if len(boxes.shape) != 3 or boxes.shape[2] != 4 or len(scores.shape) != 3:
        raise ShapeError(f"boxes {text(boxes.shape)} should be [batch, boxes, 4], scores {text(scores.shape)} "
                         "[batch, classes, boxes]")
    if (boxes.dtype, scores.dtype) != (FLOAT32, FLOAT32):
        raise ShapeError(f"boxes and scores must be float32, not {boxes.dtype} and {scores.dtype}")
    batch, number = same_dim(boxes.shape[0], scores.shape[0]), same_dim(boxes.shape[1], scores.shape[2])
    limit = ctx.constants.get(2)
    each = most_picked(number, limit) if ctx.optional(2) is not None else 0
    most = dim_max(batch * scores.shape[1] * each, 0)
    if most == 0:
        return (TensorType(INT64, (0, 3)),)
    if all(i in ctx.constants for i, operand in enumerate(ctx.inputs) if operand is not None):
        given = [ctx.constants.get(i) for i in range(len(ctx.inputs))]
        return (TensorType(INT64, (len(_reference(ctx.node.attrs, given)[0]), 3)),)
    if ctx.fresh_symbol is None:
        raise ShapeError("how many boxes are picked depends on data")
    return (TensorType(INT64, (ctx.fresh_symbol("picked", 0, min(bounds(most)[1], UNBOUNDED)), 3)),)


def _corners(box: np.ndarray, centered: bool) -> tuple[np.ndarray, ...]:
    """(x_min, x_max, y_min, y_max) of [..., 4]."""
    a, b, c, d = (box[..., i] for i in range(4))
    if centered:
        return a - c / 2, a + c / 2, b - d / 2, b + d / 2
    return np.minimum(b, d), np.maximum(b, d), np.minimum(a, c), np.maximum(a, c)


def _pick(boxes: np.ndarray, scores: np.ndarray, most: int, overlap: float, least: float | None,
          centered: bool) -> list[int]:
    order = [i for i in np.argsort(-scores, kind="stable").tolist() if least is None or scores[i] > least]
    left, right, low, high = _corners(boxes, centered)
    area = (right - left) * (high - low)
    kept: list[int] = []
    for i in order:
        if len(kept) == most:
            break
        width = np.minimum(right[kept], right[i]) - np.maximum(left[kept], left[i])
        height = np.minimum(high[kept], high[i]) - np.maximum(low[kept], low[i])
        both = np.where((width > 0) & (height > 0), width * height, 0)
        union = area[kept] + area[i] - both
        solid = (both > 0) & (area[kept] > 0) & (area[i] > 0) & (union > 0)
        if not np.any(solid & (both / np.where(union > 0, union, 1) > overlap)):
            kept.append(i)
    return kept


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    given = (*arrays, None, None, None)[:5]
    boxes, scores = given[:2]
    assert boxes is not None and scores is not None
    most, overlap, least = (None if a is None else a.reshape(-1)[0] for a in given[2:])
    rows = [(image, kind, box) for image in range(scores.shape[0]) for kind in range(scores.shape[1])
            for box in _pick(boxes[image], scores[image, kind], max(int(most or 0), 0),
                             0.0 if overlap is None else overlap, least, bool_of(attrs, "center_point_box"))]
    return (np.array(rows, np.int64).reshape(-1, 3),)


def _import_nms(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    return (core_node(node, "NonMaxSuppression", node.inputs, node.outputs,
                      center_point_box=bool(attr_int(node, "center_point_box"))),)


def random_boxes(rng: np.random.Generator, batch: int, number: int, centered: bool) -> np.ndarray:
    """Boxes of a unit square, many of them overlapping; corners in any order."""
    center, size = rng.uniform(0, 1, (batch, number, 2)), rng.uniform(0.05, 0.5, (batch, number, 2))
    parts = (center, size) if centered else (center - size / 2, center + size / 2)
    found = np.concatenate(parts, -1).astype(np.float32)
    if not centered:
        found[:, ::3] = found[:, ::3, [2, 3, 0, 1]]
    return found


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    def scalar(value: float, dtype: type) -> np.ndarray:
        return np.array([value], dtype)

    for batch, classes, number, most, least in ((1, 1, 6, 3, 0.1), (2, 3, 20, 5, None), (1, 2, 33, 100, 0.5),
                                                (3, 1, 9, 2, 2.0), (1, 1, 1, 1, None), (2, 2, 12, 0, None)):
        for centered in (False, True):
            scores = rng.uniform(0, 1, (batch, classes, number)).astype(np.float32)
            if number == 20:                             # many of them equal
                scores = np.rint(scores * 8).astype(np.float32)
            given = (random_boxes(rng, batch, number, centered), scores, scalar(most, np.int64),
                     scalar(0.3, np.float32), None if least is None else scalar(least, np.float32))
            yield Sample(given, {"center_point_box": centered})
            yield Sample(given[:2], {"center_point_box": centered})


NON_MAX_SUPPRESSION = OpDef(
    "NonMaxSuppression", _infer, _reference, _samples,
    (OnnxImport("NonMaxSuppression", 10, convert=_import_nms),), flops=lambda attrs, inputs, outputs: 0)

OPS: tuple[OpDef, ...] = (NON_MAX_SUPPRESSION,)
