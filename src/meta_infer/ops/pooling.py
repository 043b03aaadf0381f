"""MaxPool and where its maxima are, AveragePool, GlobalAveragePool, GlobalMaxPool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Attr, Node, Shape
from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.attrs import Attrs, bool_of, ints_of
from meta_infer.ops.auto_pad import pad_first, resolve_pads
from meta_infer.ops.broadcast import text
from meta_infer.ops.elementwise import floats
from meta_infer.ops.importing import attr_int, attr_ints, core_node, shape_of, unsupported, wanted
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
from meta_infer.ops.windows import Ints, output_sizes, pad_spatial, span, windows_of
from meta_infer.support.dtypes import INT64

Arrays = Sequence[np.ndarray | None]


def _geometry(attrs: Attrs) -> tuple[Ints, Ints, Ints, Ints, bool]:
    kernel = ints_of(attrs, "kernel_shape")
    n = len(kernel)
    return (kernel, ints_of(attrs, "strides", (1,) * n), ints_of(attrs, "pads", (0,) * 2 * n),
            ints_of(attrs, "dilations", (1,) * n), bool_of(attrs, "ceil_mode", False))


def infer_pool(ctx: InferContext) -> tuple[TensorType, ...]:
    x = ctx.input(0)
    if len(x.shape) < 3:
        raise ShapeError(f"input {text(x.shape)} has no spatial dimensions")
    kernel, strides, pads, dilations, ceil = _geometry(ctx.node.attrs)
    return (TensorType(x.dtype, (*x.shape[:2], *output_sizes(x.shape[2:], kernel, strides, pads, dilations, ceil))),)


def pool_windows(attrs: Attrs, x: np.ndarray, value: float) -> np.ndarray:
    """[n, c, *counts, *kernel] windows; what lies outside the input is `value`."""
    kernel, strides, pads, dilations, ceil = _geometry(attrs)
    n = len(kernel)
    counts = tuple(int(d) for d in output_sizes(x.shape[2:], kernel, strides, pads, dilations, ceil))  # type: ignore[arg-type]
    extra = [max((counts[i] - 1) * strides[i] + span(kernel[i], dilations[i]) - s - pads[i] - pads[n + i], 0)
             for i, s in enumerate(x.shape[2:])]
    return windows_of(pad_spatial(x, pads, value, extra), kernel, strides, dilations, counts)


def _max_pool(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    x = arrays[0]
    assert x is not None
    lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    windows = pool_windows(attrs, x, lowest)
    return (windows.max(tuple(range(x.ndim, windows.ndim))),)


def _infer_indices(ctx: InferContext) -> tuple[TensorType, ...]:
    return (TensorType(INT64, infer_pool(ctx)[0].shape),)


def _max_indices(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    """Flat positions in the whole tensor; with column_major the first spatial axis is the fastest."""
    x = arrays[0]
    assert x is not None
    spatial = x.shape[2:]
    places = np.arange(int(np.prod(spatial))).reshape(spatial[::-1] if bool_of(attrs, "column_major") else spatial)
    places = places.T if bool_of(attrs, "column_major") else places
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * len(spatial)) * places.size
    lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    windows, marks = pool_windows(attrs, x, lowest), pool_windows(attrs, places + planes, -1)
    shape = (*windows.shape[:x.ndim], int(np.prod(windows.shape[x.ndim:])))
    values, marks = windows.reshape(shape), marks.reshape(shape)
    best = np.where((values == values.max(-1, keepdims=True)) & (marks >= 0), 1, 0).argmax(-1)
    return (np.take_along_axis(marks, best[..., None], -1)[..., 0].astype(np.int64),)


def _average_pool(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    """Divides by the elements inside the input or, with count_include_pad, inside the padded input."""
    x = arrays[0]
    assert x is not None
    _, _, pads, _, _ = _geometry(attrs)
    taps = tuple(range(x.ndim, 2 * x.ndim - 2))
    ones = np.ones((1, 1, *x.shape[2:]), x.dtype)
    if not bool_of(attrs, "count_include_pad", False):
        count = pool_windows(attrs, ones, 0.0).sum(taps)
    else:
        padded = pad_spatial(ones, pads, 1.0)
        count = pool_windows({**attrs, "pads": (0,) * len(pads)}, padded, 0.0).sum(taps)
        counts = pool_windows(attrs, ones, 0.0).shape[2:x.ndim]
        count = count[(..., *(slice(c) for c in counts))]
    return ((pool_windows(attrs, x, 0.0).sum(taps) / count).astype(x.dtype, copy=False),)


def pool_flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    return product(outputs[0].shape) * product(ints_of(attrs, "kernel_shape"))


def _infer_global(ctx: InferContext) -> tuple[TensorType, ...]:
    x = ctx.input(0)
    if len(x.shape) < 3:
        raise ShapeError(f"input {text(x.shape)} has no spatial dimensions")
    return (TensorType(x.dtype, (*x.shape[:2], *(1,) * (len(x.shape) - 2))),)


def _global(reduce: Callable[..., np.ndarray]) -> Callable[[Attrs, Arrays], tuple[np.ndarray, ...]]:
    def run(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
        x = arrays[0]
        assert x is not None
        return (np.asarray(reduce(x, axis=tuple(range(2, x.ndim)), keepdims=True)),)
    return run


def _global_flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    x = inputs[0]
    assert x is not None
    return product(x.shape)


# --- import ---------------------------------------------------------------------------------------------------

def window_attrs(node: OnnxNode, sizes: Shape) -> tuple[tuple[Dim, ...], dict[str, Attr]]:
    """Pads of a pooling node over spatial `sizes`, dims where they vary with these, and its other attributes."""
    kernel = attr_ints(node, "kernel_shape") or ()
    ones = (1,) * len(kernel)
    strides, dilations = attr_ints(node, "strides") or ones, attr_ints(node, "dilations") or ones
    return (resolve_pads(node, sizes, kernel, strides, dilations),
            {"kernel_shape": kernel, "strides": strides, "dilations": dilations,
             "ceil_mode": attr_int(node, "ceil_mode")})


def emit_max_pool(b: NodeBuilder, node: OnnxNode, x: str, of: TensorType, out: str = "") -> str:
    """MaxPool of `x`, a [n, c, *spatial] tensor of type `of`; padding that varies is the lowest value."""
    pads, attrs = window_attrs(node, of.shape[2:])
    lowest = float("-inf") if of.dtype.is_float else of.dtype.range[0]
    padded, fixed = pad_first(b, x, pads, lowest)
    return b.add("MaxPool", (padded,), {**attrs, "pads": fixed}, out)


def emit_average_pool(b: NodeBuilder, node: OnnxNode, x: str, of: TensorType, out: str = "") -> str:
    """AveragePool of `x`, a [n, c, *spatial] tensor of type `of`.

    Padding that varies is zeros. Unless it counts, the average of the padded tensor is divided by that of one that is
    1 where the input is and 0 in the padding: the share of the window's elements that count.
    """
    pads, given = window_attrs(node, of.shape[2:])
    attrs = {**given, "count_include_pad": attr_int(node, "count_include_pad")}
    padded, fixed = pad_first(b, x, pads, 0.0)
    attrs["pads"] = fixed
    if padded == x or attrs["count_include_pad"]:
        return b.add("AveragePool", (padded,), attrs, out)
    ones = b.emit("Expand", b.scalar(1.0, of.dtype, "one"), shape=(1, 1, *of.shape[2:]))
    share = b.add("AveragePool", (pad_first(b, ones, pads, 0.0)[0],), attrs)
    return b.emit("Div", b.add("AveragePool", (padded,), attrs), share, out=out)


def _import_average(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    b = NodeBuilder.importing(node, ctx)
    emit_average_pool(b, node, node.inputs[0], ctx.type_of(node.inputs[0]), node.outputs[0])
    return b.nodes


def _import_max(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """The values and, where they are used, the indices: two nodes."""
    b, x = NodeBuilder.importing(node, ctx), node.inputs[0]
    if wanted(node, 0):
        emit_max_pool(b, node, x, ctx.type_of(x), node.outputs[0])
    if wanted(node, 1):
        sizes = shape_of(node, ctx)[2:]
        pads, attrs = window_attrs(node, sizes)
        if not all(isinstance(amount, int) for amount in pads):
            raise unsupported(node, f"Indices with auto_pad of the dynamic sizes {text(sizes)}, which varies",
                              f"restrict the sizes to multiples of {attrs['strides']} with --shape")
        b.put(core_node(node, "MaxPoolIndices", (x,), node.outputs[1:], **attrs, pads=pads,
                        column_major=bool(attr_int(node, "storage_order"))))
    return b.nodes


# --- samples --------------------------------------------------------------------------------------------------

_CASES: tuple[tuple[Ints, Ints, Ints, Ints, Ints], ...] = (
    ((1, 3, 8, 8), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1)),
    ((2, 5, 7, 9), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    ((1, 17, 5, 6), (3, 2), (1, 3), (1, 0, 0, 1), (1, 1)),
    ((1, 1, 1, 1), (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    ((0, 3, 5, 5), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((1, 4, 9, 9), (2, 3), (2, 1), (0, 1, 1, 1), (2, 1)),
    ((2, 3, 11), (3,), (2,), (1, 1), (1,)),
    ((1, 2, 5, 6, 7), (2, 3, 2), (1, 2, 2), (0, 1, 0, 1, 1, 1), (1, 1, 1)))


def pool_samples(averages: bool) -> Callable[[np.random.Generator], Iterable[Sample]]:
    def samples(rng: np.random.Generator) -> Iterable[Sample]:
        for x, kernel, strides, pads, dilations in _CASES:
            for ceil in (0, 1):
                for include in (0, 1) if averages else (0,):
                    attrs: dict[str, Attr] = {"kernel_shape": kernel, "strides": strides, "pads": pads,
                                              "dilations": dilations, "ceil_mode": ceil}
                    if averages:
                        attrs["count_include_pad"] = include
                    yield Sample((floats(rng, x),), attrs)
    return samples


def _index_samples(rng: np.random.Generator) -> Iterable[Sample]:
    """As the second output of ONNX's MaxPool, which the tests of samples cannot name."""
    for x, kernel, strides, pads, dilations in _CASES:
        for column_major in (False, True):
            yield Sample((np.rint(floats(rng, x)),),
                         {"kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations,
                          "ceil_mode": 1, "column_major": column_major}, onnx_op="-")


def _global_samples(rng: np.random.Generator) -> Iterable[Sample]:
    for shape in ((1, 3, 7, 7), (2, 5, 1, 1), (1, 17, 4, 5), (2, 3, 11), (0, 3, 4, 4), (1, 2, 3, 4, 5)):
        yield Sample((floats(rng, shape),))


MAX_POOL = OpDef("MaxPool", infer_pool, _max_pool, pool_samples(False),
                 (OnnxImport("MaxPool", 1, convert=_import_max),), flops=pool_flops)
AVERAGE_POOL = OpDef("AveragePool", infer_pool, _average_pool, pool_samples(True),
                     (OnnxImport("AveragePool", 7, convert=_import_average),), flops=pool_flops)
MAX_POOL_INDICES = OpDef("MaxPoolIndices", _infer_indices, _max_indices, _index_samples, flops=pool_flops)
GLOBAL_AVERAGE_POOL = OpDef("GlobalAveragePool", _infer_global, _global(np.mean), _global_samples,
                            (OnnxImport("GlobalAveragePool", 1),), flops=_global_flops)
GLOBAL_MAX_POOL = OpDef("GlobalMaxPool", _infer_global, _global(np.max), _global_samples,
                        (OnnxImport("GlobalMaxPool", 1),), flops=_global_flops)

OPS: tuple[OpDef, ...] = (MAX_POOL, MAX_POOL_INDICES, AVERAGE_POOL, GLOBAL_AVERAGE_POOL, GLOBAL_MAX_POOL)
