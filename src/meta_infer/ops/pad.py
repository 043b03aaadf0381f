"""Pad with a constant, by reflection, by the edge, or wrapped around; negative pads crop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from meta_infer.ir.graph import Attr, Node
from meta_infer.ir.shapes import UNBOUNDED, Dim, bounds
from meta_infer.ops.attrs import Attrs, dims_of, ints_of, text_of
from meta_infer.ops.bind_dims import bind_dims
from meta_infer.ops.broadcast import text
from meta_infer.ops.elementwise import floats, ints
from meta_infer.ops.importing import (
    attr_float,
    attr_ints,
    attr_text,
    axis_in,
    constant_of,
    core_node,
    dims_input,
    ints_input,
    is_known,
    present,
    shape_of,
    unsupported,
)
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
from meta_infer.ops.size_math import SizeMath
from meta_infer.support.dtypes import BOOL

MODES = ("constant", "reflect", "edge", "wrap")


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x, pads = ctx.input(0), dims_of(ctx.node.attrs, "pads")
    rank, mode = len(x.shape), text_of(ctx.node.attrs, "mode", "constant")
    if len(pads) != 2 * rank:
        raise ShapeError(f"{len(pads)} pads for the {rank} dimensions of {text(x.shape)}, expected {2 * rank}")
    if mode not in MODES:
        raise ShapeError(f"mode {mode!r} is not one of {', '.join(MODES)}")
    shape = tuple(d + pads[i] + pads[rank + i] for i, d in enumerate(x.shape))
    for i, dim in enumerate(shape):
        if bounds(dim)[1] < 0:
            raise ShapeError(f"pads {text(pads)} crop more than dimension {i} of {text(x.shape)} has")
        if mode == "reflect" and any(bounds(amount - x.shape[i])[0] >= 0 for amount in (pads[i], pads[rank + i])
                                     if amount != 0):
            raise ShapeError(f"pads {text(pads)} reflect more than dimension {i} of {text(x.shape)} has")
    return (TensorType(x.dtype, shape),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x, pads = arrays[0], ints_of(attrs, "pads")
    assert x is not None
    rank, mode = x.ndim, text_of(attrs, "mode", "constant")
    crop = tuple(slice(max(-pads[i], 0), x.shape[i] - max(-pads[rank + i], 0)) for i in range(rank))
    grow = [(max(pads[i], 0), max(pads[rank + i], 0)) for i in range(rank)]
    if rank == 0:
        return (x,)
    how: dict[str, Any] = {"constant_values": attrs.get("value", 0)} if mode == "constant" else {}
    return (np.pad(x[crop], grow, mode=mode, **how),)  # type: ignore[call-overload]


def _pad(node: OnnxNode, ctx: ImportContext, pads: tuple[Dim, ...], axes: tuple[int, ...] | None,
         value: float) -> tuple[Node, ...]:
    shape = shape_of(node, ctx)
    rank, mode = len(shape), attr_text(node, "mode", "constant")
    if mode not in MODES:
        raise unsupported(node, f"mode {mode!r} is not known", f"use one of {', '.join(MODES)}")
    chosen = range(rank) if axes is None else [axis_in(node, a, rank) for a in axes]
    if len(pads) != 2 * len(chosen):
        raise unsupported(node, f"{len(pads)} pads for {len(chosen)} dimensions of {text(shape)}, expected "
                          f"{2 * len(chosen)}", "give all beginnings, then all ends")
    full: list[Dim] = [0] * (2 * rank)
    for i, axis in enumerate(chosen):
        full[axis], full[rank + axis] = pads[i], pads[len(chosen) + i]
    return (core_node(node, "Pad", node.inputs[:1], node.outputs, pads=tuple(full), mode=mode, value=value),)


def _import_attrs(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    return _pad(node, ctx, attr_ints(node, "pads") or (), None, attr_float(node, "value"))


def import_pad(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Pads and value are inputs since opset 11, `axes` since 18."""
    if not all(is_known(ctx, name) or ctx.known(name) is not None for name in node.inputs[1:] if name):
        return _computed(node, ctx)
    value = 0.0
    if present(node, 2):
        known = constant_of(node, ctx, 2, "constant_value").reshape(-1)
        value = known[0].item() if known.size else 0.0
    axes = ints_input(node, ctx, 3, "axes") if present(node, 3) else None
    return _pad(node, ctx, dims_input(node, ctx, 1, "pads"), axes, value)


def _computed(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Pads (or a value) that data tells: for each axis the position in the input that every position shows, gathered.

    Positions outside are filled by a mask in mode 'constant', folded back into the input in the others.
    """
    shape, mode, math = shape_of(node, ctx), attr_text(node, "mode", "constant"), SizeMath(node, ctx)
    rank = len(shape)
    if mode not in MODES:
        raise unsupported(node, f"mode {mode!r} is not known", f"use one of {', '.join(MODES)}")
    pads = math.vector(node.inputs[1], "pads")
    count = math.length(pads) // 2
    axes = math.vector(node.inputs[3], "axes") if present(node, 3) else math.constant(list(range(count)))
    axes, sizes = math.from_front(axes, rank), math.dims(shape)
    begins, ends = (math.spread(axes, math.part(pads, first, count), rank, 0) for first in (0, count))
    made = bind_dims(node, ctx, math.max(math.add(sizes, math.add(begins, ends)), 0), [(0, UNBOUNDED)] * rank, "pad")
    x, inside = node.inputs[0], ""
    for axis, size in enumerate(made):
        place = math.sub(math.iota(size), math.part(begins, axis, 1))
        length = math.part(sizes, axis, 1)
        shown = math.folded(place, length, mode)
        if mode == "constant":
            here = math.cast(math.equal(shown, place), BOOL)
            here = math.view(here, (*(1,) * axis, size, *(1,) * (rank - axis - 1)))
            inside = math.both(inside, here) if inside else here
        x = math.gather(x, shown, axis)
    if mode != "constant" or not rank:
        return (core_node(node, "Identity", (x,), node.outputs),)
    dtype = ctx.type_of(x).dtype
    fill = math.view(node.inputs[2], ()) if present(node, 2) else ctx.constant(np.zeros((), dtype.numpy), "zero")
    return (core_node(node, "Where", (inside, x, fill), node.outputs),)


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    def sample(x: np.ndarray, pads: tuple[int, ...], mode: str = "constant", value: float = 0.0) -> Sample:
        attrs: dict[str, Attr] = {"pads": pads, "mode": mode, "value": value}
        fill = np.array(value, x.dtype) if mode == "constant" else None
        return Sample((x,), attrs, onnx_inputs=(x, np.array(pads, np.int64), fill), onnx_attrs={"mode": mode})

    for mode in ("constant", "reflect", "edge", "wrap"):
        yield sample(floats(rng, (5,)), (2, 3), mode)
        yield sample(floats(rng, (1, 2, 4, 5)), (0, 0, 1, 2, 0, 0, 3, 0), mode)
        yield sample(floats(rng, (2, 3)), (1, 0, 0, 2), mode)
    yield sample(floats(rng, (2, 3)), (1, 1, 1, 1), value=-7.5)
    yield sample(floats(rng, (4, 5)), (-1, 2, 0, -2), value=1.5)
    yield sample(floats(rng, (0, 3)), (1, 0, 1, 0), value=2.0)
    yield sample(floats(rng, (3, 1)), (0, 2, 0, 0), "edge")
    yield sample(ints(rng, (3, 2)), (1, 0, 0, 1), value=3)
    x = floats(rng, (2, 3, 4))
    yield Sample((x,), {"pads": (0, 1, 0, 0, 2, 0), "mode": "constant", "value": 0.0},
                 onnx_inputs=(x, np.array([1, 2], np.int64), None, np.array([-2], np.int64)), onnx_attrs={})
    yield Sample((x,), {"pads": (0, 1, 0, 0, 2, 0), "mode": "constant", "value": 2.5},
                 onnx_attrs={"pads": (0, 1, 0, 0, 2, 0), "value": 2.5}, opset=10)


PAD = OpDef("Pad", _infer, _reference, _samples,
            (OnnxImport("Pad", 2, 10, _import_attrs), OnnxImport("Pad", 11, convert=import_pad)),
            flops=lambda attrs, inputs, outputs: 0)

OPS: tuple[OpDef, ...] = (PAD,)
