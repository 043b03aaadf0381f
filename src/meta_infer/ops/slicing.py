"""Slice with any step. ONNX Slice and Split import to it with starts and sizes worked out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Attr, Node, Shape
from meta_infer.ir.shapes import UNBOUNDED, Dim, bounds, ceildiv, dim_max, dim_min
from meta_infer.ops.attrs import Attrs, dims_of, ints_of
from meta_infer.ops.bind_dims import bind_dims
from meta_infer.ops.broadcast import check_may_equal, is_found, same_dim, text
from meta_infer.ops.elementwise import floats, ints
from meta_infer.ops.importing import (
    attr_int,
    attr_ints,
    axis_in,
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


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x, attrs = ctx.input(0), ctx.node.attrs
    starts, sizes, steps = dims_of(attrs, "starts"), dims_of(attrs, "sizes"), dims_of(attrs, "steps")
    if not len(starts) == len(sizes) == len(steps) == len(x.shape):
        raise ShapeError(f"starts, sizes and steps must have one entry per dimension of {text(x.shape)}")
    for start, size, step, dim in zip(starts, sizes, steps, x.shape, strict=True):
        if not (isinstance(start, int) and isinstance(size, int) and isinstance(step, int) and isinstance(dim, int)):
            continue
        if size == 0:
            continue
        if not (0 <= start < dim and 0 <= start + (size - 1) * step < dim):
            raise ShapeError(f"slice from {start} of {size} elements by {step} leaves a dimension of size {dim}")
    return (TensorType(x.dtype, sizes, _content(ctx, starts, sizes, steps)),)


def _content(ctx: InferContext, starts: Shape, sizes: Shape, steps: Shape) -> tuple[Dim, ...] | None:
    content = ctx.content(0)
    if content is None or len(sizes) != 1:
        return None
    (start,), (size,), (step,) = starts, sizes, steps
    if not (isinstance(start, int) and isinstance(size, int) and isinstance(step, int)):
        return None
    return tuple(content[start + i * step] for i in range(size))


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x = arrays[0]
    assert x is not None
    for axis, (start, size, step) in enumerate(zip(ints_of(attrs, "starts"), ints_of(attrs, "sizes"),
                                                   ints_of(attrs, "steps"), strict=True)):
        stop = start + size * step
        x = x[(slice(None),) * axis + (slice(start, stop if stop >= 0 else None, step) if size else slice(0, 0),)]
    return (x.copy(),)


# --- import ---------------------------------------------------------------------------------------------------

def _from_front(node: OnnxNode, at: Dim, dim: Dim) -> Dim:
    """A position that may count from the end (negative). Raises UnsupportedError when its sign is not known."""
    low, high = bounds(at)
    if low >= 0:
        return at
    if high < 0:
        return at + dim
    raise unsupported(node, f"whether position {at} counts from the start or the end depends on the input",
                      "slice with positions that stay non-negative")


def slice_range(node: OnnxNode, start: Dim, end: Dim, step: int, dim: Dim) -> tuple[Dim, Dim]:
    """First element and number of elements of ONNX's start:end:step, clamped to a dimension of size `dim`."""
    first, last = _from_front(node, start, dim), _from_front(node, end, dim)
    if step > 0:
        first, last = (dim_min(dim_max(v, 0), dim) for v in (first, last))
        return first, dim_max(ceildiv(last - first, step), 0)
    first = dim_max(dim_min(first, dim - 1), 0)
    last = dim_max(dim_min(last, dim - 1), -1)
    return first, dim_min(dim_max(ceildiv(first - last, -step), 0), dim)


def _slice(node: OnnxNode, shape: Shape, starts: Sequence[Dim], ends: Sequence[Dim], axes: Sequence[int],
           steps: Sequence[int]) -> tuple[Node, ...]:
    if not shape or not len(starts) == len(ends) == len(axes) == len(steps):
        raise ShapeError(f"{len(starts)} starts, {len(ends)} ends, {len(axes)} axes and {len(steps)} steps do not "
                         f"describe a slice of {text(shape)}")
    first: list[Dim] = [0] * len(shape)
    sizes, by = [*shape], [1] * len(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = axis_in(node, axis, len(shape))
        if step == 0:
            raise unsupported(node, "a step is 0", "correct the node: it breaks the specification")
        first[at], sizes[at] = slice_range(node, start, end, step, shape[at])
        by[at] = step
    return (core_node(node, "Slice", node.inputs[:1], node.outputs, starts=tuple(first), sizes=tuple(sizes),
                      steps=tuple(by)),)


def _import_attrs(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    starts, ends = attr_ints(node, "starts") or (), attr_ints(node, "ends") or ()
    axes = attr_ints(node, "axes") or tuple(range(len(starts)))
    return _slice(node, shape_of(node, ctx), starts, ends, axes, (1,) * len(starts))


def _import_inputs(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Positions are inputs since opset 10, and there are steps."""
    if not all(is_known(ctx, name) for name in node.inputs[1:] if name):
        return _computed(node, ctx)
    starts, ends = dims_input(node, ctx, 1, "starts"), dims_input(node, ctx, 2, "ends")
    axes = ints_input(node, ctx, 3, "axes") if present(node, 3) else tuple(range(len(starts)))
    steps = ints_input(node, ctx, 4, "steps") if present(node, 4) else (1,) * len(starts)
    return _slice(node, shape_of(node, ctx), starts, ends, axes, steps)


def _computed(node: OnnxNode, ctx: ImportContext) -> tuple[Node, ...]:
    """Positions that data tells: clamped by the model itself, then bound as sizes. Steps and axes may be data too."""
    shape, math = shape_of(node, ctx), SizeMath(node, ctx)
    starts, ends = math.vector(node.inputs[1], "starts"), math.vector(node.inputs[2], "ends")
    count, rank = math.length(starts), len(shape)
    axes = math.vector(node.inputs[3], "axes") if present(node, 3) else math.constant(list(range(count)))
    steps = math.vector(node.inputs[4], "steps") if present(node, 4) else math.constant([1] * count)
    axes, sizes = math.from_front(axes, rank), math.dims(shape)
    at = math.at(sizes, axes)
    down, last = math.less(steps, 0), math.sub(at, 1)
    first = math.from_front(starts, at)
    first = math.where(down, math.max(math.min(first, last), 0), math.min(math.max(first, 0), at))
    stop = math.from_front(ends, at)
    stop = math.where(down, math.max(math.min(stop, last), -1), math.min(math.max(stop, 0), at))
    taken = math.min(math.max(math.ceil_div(math.sub(stop, first), steps), 0), at)
    taken = math.where(math.equal(steps, 0), -1, taken)      # no size: an error of the run
    steps = math.min(math.max(steps, -UNBOUNDED), UNBOUNDED)
    high = max((max(bounds(d)[1], 0) for d in shape), default=0)
    known = ctx.known(axes)
    if known is None:                                    # any axis may be cut
        full = [bind_dims(node, ctx, math.spread(axes, values, rank, default), [span] * rank, "slice")
                for values, default, span in ((first, 0, (0, high)), (taken, sizes, (0, high)), (steps, 1, _ANY_STEP))]
    else:
        full = [_placed(bind_dims(node, ctx, values, [span] * count, "slice"), known.reshape(-1).tolist(), default)
                for values, default, span in ((first, (0,) * rank, (0, high)), (taken, shape, (0, high)),
                                              (steps, (1,) * rank, _ANY_STEP))]
    return (core_node(node, "Slice", node.inputs[:1], node.outputs, starts=full[0], sizes=full[1], steps=full[2]),)


_ANY_STEP = (-UNBOUNDED, UNBOUNDED)


def _placed(found: Sequence[Dim], axes: Sequence[int], default: Sequence[Dim]) -> tuple[Dim, ...]:
    """`default` with `found[i]` at `axes[i]`."""
    full = [*default]
    for axis, dim in zip(axes, found, strict=True):
        full[axis] = dim
    return tuple(full)


def _split(node: OnnxNode, ctx: ImportContext, given: tuple[Dim, ...] | None, uneven: bool) -> Iterable[Node]:
    """One Slice per output. Without sizes the parts are equal; since opset 18 the last may be smaller.

    Sizes given for an axis whose own size data tells are compared with it while running.
    """
    shape, x = shape_of(node, ctx), node.inputs[0]
    axis = axis_in(node, attr_int(node, "axis"), len(shape))
    count = attr_int(node, "num_outputs", len(node.outputs))
    if not shape or count < 1:
        raise ShapeError(f"{text(shape)} does not split into {count} parts")
    size = shape[axis]
    if given is None:
        part = ceildiv(size, count) if uneven else size // count
        if not uneven and isinstance(size, int) and size % count:
            raise unsupported(node, f"{size} elements do not split into {count} equal parts", "give the sizes")
        given = (*(part,) * (count - 1), size - part * (count - 1))
    if len(given) < len(node.outputs):
        raise ShapeError(f"{len(given)} sizes for {len(node.outputs)} outputs")
    total = sum(given[1:], given[0])
    if total != size and is_found(size, total):
        check_may_equal(size, total)
        x = ctx.fresh(f"{x}/settled")
        yield core_node(node, "AssertShape", node.inputs[:1], (x,), shape=(*shape[:axis], total, *shape[axis + 1:]))
    else:
        same_dim(size, total)
    at: Dim = 0
    for name, part in zip(node.outputs, given, strict=False):
        starts: tuple[Dim, ...] = tuple(at if i == axis else 0 for i in range(len(shape)))
        sizes = tuple(part if i == axis else d for i, d in enumerate(shape))
        if name:
            yield core_node(node, "Slice", (x,), (name,), starts=starts, sizes=sizes,
                            steps=(1,) * len(shape))
        at = at + part


def _import_split_attr(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    return _split(node, ctx, attr_ints(node, "split") or None, uneven=False)


def _import_split_input(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Sizes are an input since opset 13; `num_outputs` and uneven parts exist since 18."""
    if present(node, 1) and not is_known(ctx, node.inputs[1]):
        return _split_by_data(node, ctx)
    given = dims_input(node, ctx, 1, "split") if present(node, 1) else None
    return _split(node, ctx, given, uneven=node.version >= 18)


def _split_by_data(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Sizes that data tells; those that do not add up to the axis are an error of the run."""
    shape, math = shape_of(node, ctx), SizeMath(node, ctx)
    axis = axis_in(node, attr_int(node, "axis"), len(shape))
    sizes = math.vector(node.inputs[1], "split")
    count, most = math.length(sizes), max(bounds(shape[axis])[1], 0)
    if count < len(node.outputs):
        raise ShapeError(f"{count} sizes for {len(node.outputs)} outputs")
    stops = math.min(math.running_sum(math.max(sizes, 0)), math.dims((shape[axis],)))
    ends = bind_dims(node, ctx, stops, [(0, most)] * count, "split_end")
    firsts = math.pad_front(math.part(stops, 0, count - 1), count, 0)
    whole = math.equal(math.reduce("Sum", math.max(sizes, 0), 0), math.dims((shape[axis],)))
    fits = math.both(whole, math.equal(math.reduce("Min", math.min(sizes, 0), 0), 0))
    found = math.where(fits, math.sub(stops, firsts), -1)    # no size: an error of the run
    parts = bind_dims(node, ctx, found, [(0, most)] * count, "split")
    for name, start, part in zip(node.outputs, (0, *ends), parts, strict=False):
        first = _placed((start,), (axis,), (0,) * len(shape))
        if name:
            yield core_node(node, "Slice", node.inputs[:1], (name,), starts=first,
                            sizes=_placed((part,), (axis,), shape), steps=(1,) * len(shape))


# --- samples --------------------------------------------------------------------------------------------------

def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    far = 2**63 - 1

    def sample(x: np.ndarray, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...],
               given: Sequence[Sequence[int]]) -> Sample:
        operands = tuple(np.array(v, np.int64) for v in given)
        return Sample((x,), {"starts": starts, "sizes": sizes, "steps": steps}, onnx_inputs=(x, *operands),
                      onnx_attrs={})

    x = floats(rng, (2, 7, 5))
    yield sample(x, (0, 1, 0), (2, 4, 5), (1, 1, 1), ((1,), (5,), (1,)))
    yield sample(x, (0, 1, 0), (2, 3, 5), (1, 2, 1), ((1,), (far,), (1,), (2,)))
    yield sample(x, (0, 6, 0), (2, 7, 5), (1, -1, 1), ((-1,), (-far,), (-2,), (-1,)))
    yield sample(x, (1, 5, 4), (1, 2, 5), (1, -2, -1), ((1, 5, 9), (2, 1, -9), (0, 1, 2), (1, -2, -1)))
    yield sample(x, (0, 4, 0), (2, 0, 5), (1, 1, 1), ((4,), (2,), (1,)))
    yield sample(x, (0, 0, 3), (2, 7, 2), (1, 1, 1), ((-2,), (far,), (-1,)))
    yield sample(floats(rng, (5,)), (1,), (3,), (1,), ((1,), (4,)))
    yield sample(floats(rng, (0, 3)), (0, 0), (0, 2), (1, 1), ((0, 0), (9, 2)))
    yield sample(ints(rng, (6, 2)), (5, 0), (3, 2), (-2, 1), ((5,), (-far,), (0,), (-2,)))
    old: dict[str, Attr] = {"starts": (1, -3), "ends": (9, -1), "axes": (0, 2)}
    yield Sample((x,), {"starts": (1, 0, 2), "sizes": (1, 7, 2), "steps": (1, 1, 1)}, onnx_attrs=old, opset=9)


SLICE = OpDef(
    "Slice", _infer, _reference, _samples,
    (OnnxImport("Slice", 1, 9, _import_attrs), OnnxImport("Slice", 10, convert=_import_inputs),
     OnnxImport("Split", 2, 12, _import_split_attr), OnnxImport("Split", 13, convert=_import_split_input)),
    flops=lambda attrs, inputs, outputs: 0)

OPS: tuple[OpDef, ...] = (SLICE,)
