"""RoiAlign and MaxRoiPool: regions of an image pooled to a grid of one size.

Sources: the operator specification of ONNX; He et al., 2017 (RoiAlign) and Girshick, 2015 (MaxRoiPool).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.attrs import Attrs, bool_of, float_of, int_of, ints_of, text_of
from meta_infer.ops.broadcast import same_dim, text
from meta_infer.ops.elementwise import floats, ints
from meta_infer.ops.importing import attr_float, attr_int, attr_ints, attr_text, core_node, unsupported
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

Arrays = Sequence[np.ndarray | None]


def _infer_align(ctx: InferContext) -> tuple[TensorType, ...]:
    x, rois, batches, attrs = ctx.input(0), ctx.input(1), ctx.input(2), ctx.node.attrs
    if len(x.shape) != 4 or len(rois.shape) != 2 or rois.shape[1] != 4 or len(batches.shape) != 1:
        raise ShapeError(f"regions {text(rois.shape)} of images {text(batches.shape)} do not fit {text(x.shape)}")
    if int_of(attrs, "output_height") < 1 or int_of(attrs, "output_width") < 1:
        raise ShapeError("the output must have one cell at least")
    count = same_dim(rois.shape[0], batches.shape[0])
    return (TensorType(x.dtype, (count, x.shape[1], int_of(attrs, "output_height"), int_of(attrs, "output_width"))),)


def _samples_of(attrs: Attrs, low: float, high: float, cells: int) -> tuple[np.ndarray, int]:
    """Sample coordinates of one side, [cells, samples], and the samples per cell."""
    size = high - low if bool_of(attrs, "half_pixel") else max(high - low, 1.0)
    part, ratio = size / cells, int_of(attrs, "sampling_ratio")
    count = ratio if ratio > 0 else max(int(np.ceil(part)), 0)
    steps = (np.arange(count) + 0.5) / max(count, 1)
    return (low + (np.arange(cells)[:, None] + steps) * part).reshape(-1), count


def _side(at: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    held = np.clip(at, 0, size - 1)
    low = held.astype(np.int64)
    return low, np.minimum(low + 1, size - 1), held - low


def _roi_align(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    x, rois, batches = arrays
    assert x is not None and rois is not None and batches is not None
    rows, columns = int_of(attrs, "output_height"), int_of(attrs, "output_width")
    is_max, (height, width) = text_of(attrs, "mode") == "max", x.shape[2:]
    y = np.zeros((len(rois), x.shape[1], rows, columns), x.dtype)
    offset = 0.5 if bool_of(attrs, "half_pixel") else 0.0
    for i, roi in enumerate(rois.astype(np.float64) * float_of(attrs, "spatial_scale") - offset):
        ys, down = _samples_of(attrs, roi[1], roi[3], rows)
        xs, across = _samples_of(attrs, roi[0], roi[2], columns)
        if not down * across:
            continue
        (y0, y1, fy), (x0, x1, fx) = _side(ys, height), _side(xs, width)
        inside = ((ys >= -1) & (ys <= height))[:, None] & ((xs >= -1) & (xs <= width))
        image = x[int(batches[i])]
        parts = np.stack([image[:, a[:, None], c] * (wy[:, None] * wx) for a, wy in ((y0, 1 - fy), (y1, fy))
                          for c, wx in ((x0, 1 - fx), (x1, fx))])
        parts = np.where(inside, parts, 0).reshape(4, -1, rows, down, columns, across)
        y[i] = parts.max((0, 3, 5)) if is_max else parts.sum(0).mean((2, 4))
    return (y,)


def _infer_pool(ctx: InferContext) -> tuple[TensorType, ...]:
    x, rois, pooled = ctx.input(0), ctx.input(1), ints_of(ctx.node.attrs, "pooled_shape")
    if len(x.shape) != 4 or len(rois.shape) != 2 or rois.shape[1] != 5 or len(pooled) != 2 or min(pooled) < 1:
        raise ShapeError(f"regions {text(rois.shape)} of {text(x.shape)} do not pool to {pooled}")
    return (TensorType(x.dtype, (rois.shape[0], x.shape[1], *pooled)),)


def _roi_pool(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    x, rois = arrays
    assert x is not None and rois is not None
    pooled, scale = ints_of(attrs, "pooled_shape"), np.float32(float_of(attrs, "spatial_scale"))
    y = np.zeros((len(rois), x.shape[1], *pooled), x.dtype)
    for i, roi in enumerate(rois):
        scaled = roi[1:] * scale
        sides = np.where(scaled < 0, np.ceil(scaled - 0.5), np.floor(scaled + 0.5)).astype(np.int64)
        spans = []
        for first, last, cells, size in ((sides[1], sides[3], pooled[0], x.shape[2]),
                                         (sides[0], sides[2], pooled[1], x.shape[3])):
            part = rois.dtype.type(max(last - first + 1, 1)) / rois.dtype.type(cells)
            at = np.arange(cells, dtype=rois.dtype)
            spans.append((np.clip(np.floor(at * part).astype(int) + first, 0, size),
                          np.clip(np.ceil((at + 1) * part).astype(int) + first, 0, size)))
        for p, q in np.ndindex(*pooled):
            cell = x[int(roi[0]), :, spans[0][0][p]:spans[0][1][p], spans[1][0][q]:spans[1][1][q]]
            if cell.size:
                y[i, :, p, q] = cell.max((1, 2))
    return (y,)


# --- import ---------------------------------------------------------------------------------------------------

def _import_align(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Version 10 has no coordinate_transformation_mode: its regions are not shifted by half a pixel."""
    shift = attr_text(node, "coordinate_transformation_mode", "half_pixel") if node.version >= 16 else (
        "output_half_pixel")
    mode = attr_text(node, "mode", "avg")
    if mode not in ("avg", "max") or shift not in ("half_pixel", "output_half_pixel"):
        raise unsupported(node, f"mode {mode!r} with {shift!r} is not known",
                          "correct the node: it breaks the specification")
    return (core_node(node, "RoiAlign", node.inputs, node.outputs, mode=mode, half_pixel=shift == "half_pixel",
                      output_height=attr_int(node, "output_height", 1), output_width=attr_int(node, "output_width", 1),
                      sampling_ratio=attr_int(node, "sampling_ratio"),
                      spatial_scale=attr_float(node, "spatial_scale", 1.0)),)


def _import_pool(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    return (core_node(node, "MaxRoiPool", node.inputs, node.outputs, pooled_shape=attr_ints(node, "pooled_shape") or (),
                      spatial_scale=attr_float(node, "spatial_scale", 1.0)),)


# --- samples --------------------------------------------------------------------------------------------------

def _regions(rng: np.random.Generator, count: int, size: float) -> np.ndarray:
    first, extent = rng.uniform(-1, size / 2, (count, 2)), rng.uniform(0.2, size / 2, (count, 2))
    return np.concatenate((first, first + extent), 1).astype(np.float32)


def _align_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape, count in (((2, 3, 9, 7), 4), ((1, 1, 5, 5), 1)):
        for half_pixel in (True, False):
            for mode in ("avg", "max"):
                for ratio in (0, 2):
                    if mode == "max" and ratio == 0 and half_pixel:
                        continue
                    x, rois = floats(rng, shape), _regions(rng, count, 16)
                    shared = {"mode": mode, "output_height": 3, "output_width": 2, "sampling_ratio": ratio,
                              "spatial_scale": 0.5}
                    spelled = "half_pixel" if half_pixel else "output_half_pixel"
                    yield Sample((x, rois, ints(rng, (count,), np.int64, 0, shape[0] - 1)),
                                 {**shared, "half_pixel": half_pixel}, 1e-4, 1e-5,
                                 onnx_attrs={**shared, "coordinate_transformation_mode": spelled})


def _pool_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape, pooled in (((2, 3, 9, 7), (2, 3)), ((1, 2, 5, 6), (1, 1)), ((1, 1, 4, 4), (5, 5))):
        rois = np.concatenate((ints(rng, (3, 1), np.float32, 0, shape[0] - 1), np.rint(_regions(rng, 3, 10))), 1)
        yield Sample((floats(rng, shape), rois.astype(np.float32)), {"pooled_shape": pooled, "spatial_scale": 0.5})


def _align_flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    return product(outputs[0].shape) * max(int_of(attrs, "sampling_ratio"), 2) ** 2 * 8


ROI_ALIGN = OpDef("RoiAlign", _infer_align, _roi_align, _align_samples,
                  (OnnxImport("RoiAlign", 10, convert=_import_align),), flops=_align_flops)
MAX_ROI_POOL = OpDef("MaxRoiPool", _infer_pool, _roi_pool, _pool_samples,
                     (OnnxImport("MaxRoiPool", 1, convert=_import_pool),),
                     flops=lambda attrs, inputs, outputs: product(outputs[0].shape) * 4)

OPS: tuple[OpDef, ...] = (ROI_ALIGN, MAX_ROI_POOL)
