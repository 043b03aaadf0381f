"""GridSample and AffineGrid: images sampled at arbitrary points, and the points of an affine map.

Source: the operator specifications of ONNX, which follow PyTorch's grid_sample and affine_grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product as combinations

import numpy as np

from meta_infer.ir.graph import Attr, Node
from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.attrs import Attrs, bool_of, dims_of, ints_of, text_of
from meta_infer.ops.bind_dims import sizes_input
from meta_infer.ops.broadcast import same_dim, text
from meta_infer.ops.elementwise import floats
from meta_infer.ops.importing import attr_int, attr_text, core_node, unsupported
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
from meta_infer.ops.resize import keys

MODES = {"bilinear": "linear", "bicubic": "cubic", "linear": "linear", "cubic": "cubic", "nearest": "nearest"}
PADDINGS = ("zeros", "border", "reflection")
_CUBIC = -0.75

Arrays = Sequence[np.ndarray | None]


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x, grid = ctx.input(0), ctx.input(1)
    rank = len(x.shape) - 2
    if rank < 1 or len(grid.shape) != rank + 2 or grid.shape[-1] != rank:
        raise ShapeError(f"grid {text(grid.shape)} does not hold points of {text(x.shape)}")
    return (TensorType(x.dtype, (same_dim(x.shape[0], grid.shape[0]), x.shape[1], *grid.shape[1:-1])),)


def _reflect(at: np.ndarray, low: float, high: float) -> np.ndarray:
    width = max(high - low, 1.0)
    beyond = np.maximum(np.maximum(low - at, at - high), 0)
    times = np.trunc(beyond / width)
    rest = beyond - times * width
    mirrored = np.where((at < low) ^ (times % 2 > 0.5), low + rest, high - rest)
    return np.where(beyond > 0, mirrored, at)


def _axis(attrs: Attrs, point: np.ndarray, size: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Per tap: pixel, weight, and whether it counts, each of the points' shape."""
    mode, padding, align = text_of(attrs, "mode"), text_of(attrs, "padding_mode"), bool_of(attrs, "align_corners")
    at = (point + 1) / 2 * (size - 1) if align else ((point + 1) * size - 1) / 2
    at = np.rint(at) if mode == "nearest" else at
    low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
    if padding == "border" and mode != "cubic":
        at = np.where((at < low) | (at > high), np.clip(at, 0, size - 1), at)
    elif padding == "reflection":
        at = _reflect(at, low, high)
    base = at if mode == "nearest" else np.floor(at)
    far = (at - base).astype(point.dtype)
    weights = {"nearest": [np.ones_like(far)], "linear": [1 - far, far]}.get(mode) or list(
        np.moveaxis(keys(far.reshape(-1), _CUBIC), 1, 0).reshape(4, *far.shape))
    taps = []
    for i, weight in enumerate(weights):
        place = base + (i - 1 if mode == "cubic" else i)
        if padding == "reflection":
            place = np.trunc(_reflect(place, low, high))
        held = np.clip(place, 0, size - 1)
        taps.append((held.astype(np.int64), weight, (held == place) | (padding == "border")))
    return taps


def _grid_sample(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    x, grid = arrays
    assert x is not None and grid is not None
    real = np.float64 if np.float64 in (x.dtype, grid.dtype) else np.float32
    rank = x.ndim - 2
    axes = [_axis(attrs, grid[..., rank - 1 - i].astype(real), x.shape[2 + i]) for i in range(rank)]
    batch = np.arange(x.shape[0]).reshape(-1, *(1,) * rank)
    total = np.zeros((x.shape[0], *grid.shape[1:-1], x.shape[1]), real)
    for taps in combinations(*axes):
        pixels = np.moveaxis(x, 1, -1)[(batch, *(t[0] for t in taps))]
        inside = np.logical_and.reduce([t[2] for t in taps])
        weight = np.multiply.reduce([t[1] for t in taps])
        total = total + np.where(inside[..., None], pixels, 0) * weight[..., None]
    return (np.ascontiguousarray(np.moveaxis(total, -1, 1)).astype(x.dtype),)


def _sample_flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    taps = {"nearest": 0, "linear": 2, "cubic": 4}[text_of(attrs, "mode")]
    return product(outputs[0].shape) * (2 * int(taps ** (len(outputs[0].shape) - 2)))


def _infer_grid(ctx: InferContext) -> tuple[TensorType, ...]:
    theta, size = ctx.input(0), dims_of(ctx.node.attrs, "size")
    rank = len(size) - 2
    if rank not in (2, 3) or len(theta.shape) != 3 or theta.shape[1:] != (rank, rank + 1):
        raise ShapeError(f"theta {text(theta.shape)} is no affine map for images of {text(size)}")
    return (TensorType(theta.dtype, (theta.shape[0], *size[2:], rank)),)


def _affine_grid(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    theta, (_, _, *size) = arrays[0], ints_of(attrs, "size")
    assert theta is not None
    real = np.result_type(theta.dtype, np.float32)
    axes = []
    for n in size:
        at = np.arange(n, dtype=real)
        axes.append(at * 2 / max(n - 1, 1) - 1 if bool_of(attrs, "align_corners") else (at * 2 + 1) / n - 1)
    points = np.stack([*reversed(np.meshgrid(*axes, indexing="ij")), np.ones(size, real)], -1)
    grid = np.einsum("nij,...j->n...i", theta.astype(real), points)
    return (np.ascontiguousarray(grid, theta.dtype),)


# --- import ---------------------------------------------------------------------------------------------------

def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Version 16 says bilinear and bicubic and knows images of two dimensions only."""
    mode, padding = attr_text(node, "mode", "linear"), attr_text(node, "padding_mode", "zeros")
    if mode not in MODES or padding not in PADDINGS:
        raise unsupported(node, f"mode {mode!r} with padding {padding!r} is not known",
                          "correct the node: it breaks the specification")
    return (core_node(node, "GridSample", node.inputs, node.outputs, mode=MODES[mode], padding_mode=padding,
                      align_corners=bool(attr_int(node, "align_corners"))),)


def _import_grid(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    return (core_node(node, "AffineGrid", node.inputs[:1], node.outputs, size=sizes_input(node, ctx, 1, "size"),
                      align_corners=bool(attr_int(node, "align_corners"))),)


# --- samples --------------------------------------------------------------------------------------------------

def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    for padding in PADDINGS:
        for align in (False, True):
            attrs: dict[str, Attr] = {"padding_mode": padding, "align_corners": align}
            for mode in ("linear", "nearest", "cubic"):
                x, grid = floats(rng, (2, 3, 5, 4)), floats(rng, (2, 3, 2, 2), -1.7, 1.7)
                yield Sample((x, grid), {**attrs, "mode": mode}, 1e-3, 1e-4)
            x, grid = floats(rng, (1, 2, 3, 4, 2)), floats(rng, (1, 2, 1, 3, 3), -1.5, 1.5)
            for mode in ("linear", "nearest"):
                yield Sample((x, grid), {**attrs, "mode": mode}, 1e-3, 1e-4)


def _grid_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for size in ((2, 1, 3, 4), (1, 2, 5, 3), (2, 3, 2, 4, 3)):
        for align in (False, True):
            rank = len(size) - 2
            theta = floats(rng, (size[0], rank, rank + 1), -1, 1)
            yield Sample((theta,), {"size": size, "align_corners": align}, 1e-4, 1e-5,
                         onnx_inputs=(theta, np.array(size, np.int64)), onnx_attrs={"align_corners": align})


GRID_SAMPLE = OpDef("GridSample", _infer, _grid_sample, _samples, (OnnxImport("GridSample", 16, convert=_import),),
                    flops=_sample_flops)
AFFINE_GRID = OpDef("AffineGrid", _infer_grid, _affine_grid, _grid_samples,
                    (OnnxImport("AffineGrid", 20, convert=_import_grid),),
                    flops=lambda attrs, inputs, outputs: product(outputs[0].shape) * len(outputs[0].shape) * 2)

OPS: tuple[OpDef, ...] = (GRID_SAMPLE, AFFINE_GRID)
