"""Reshape, the one view op. ONNX Reshape, Squeeze, Unsqueeze and Flatten all import to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Attr, Node, Shape
from meta_infer.ir.shapes import UNBOUNDED, Dim, bounds, divisible, product
from meta_infer.ops.attrs import Attrs, dims_of, ints_of
from meta_infer.ops.bind_dims import bind_dims
from meta_infer.ops.broadcast import is_found, text
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
    x, shape = ctx.input(0), dims_of(ctx.node.attrs, "shape")
    count, wanted = product(x.shape), product(shape)
    low, high = bounds(wanted - count)
    if low > 0 or high < 0:
        raise ShapeError(f"cannot view {text(x.shape)} as {text(shape)}: the number of elements differs")
    unsure = count != wanted and (isinstance(count, int) or isinstance(wanted, int))
    if unsure and not is_found(*x.shape, *shape):        # whether sizes that data tells fit is checked while running
        raise ShapeError(f"can view {text(x.shape)} as {text(shape)} for some of the sizes in range only; "
                         "narrow the range")
    return (TensorType(x.dtype, shape, ctx.content(0) if len(shape) <= 1 else None),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    assert arrays[0] is not None
    return (np.reshape(arrays[0], ints_of(attrs, "shape")),)


def _view(node: OnnxNode, shape: Shape) -> tuple[Node, ...]:
    return (core_node(node, "Reshape", node.inputs[:1], node.outputs, shape=shape),)


def resolve_shape(node: OnnxNode, old: Shape, wanted: tuple[Dim, ...], allow_zero: bool) -> Shape:
    """`wanted` with 0 (copy the old size, unless allow_zero) and -1 (whatever remains) filled in."""
    shape: list[Dim] = []
    for i, dim in enumerate(wanted):
        if dim == 0 and not allow_zero:
            if i >= len(old):
                raise unsupported(node, f"shape {text(wanted)} copies dimension {i} of {text(old)}",
                                  "correct the node: it breaks the specification")
            dim = old[i]
        shape.append(dim)
    if -1 not in shape:
        return tuple(shape)
    at, rest = shape.index(-1), product(d for d in shape if d != -1)
    total = product(old)
    if shape.count(-1) > 1 or (isinstance(total, int) and isinstance(rest, int) and (not rest or total % rest)):
        raise unsupported(node, f"{text(old)} cannot be viewed as {text(shape)}", "give a shape of as many elements")
    if not isinstance(total, int) and isinstance(rest, int) and rest > 1 and not (
            divisible(total, rest) or is_found(total)):
        raise ShapeError(f"the elements of {text(old)} are a multiple of {rest} for some of the sizes in range only; "
                         "narrow the range")
    if rest == 0 or bounds(rest)[0] < 0:
        raise unsupported(node, f"the size -1 of {text(shape)} is undefined", "give every size of the shape")
    shape[at] = total // rest
    return tuple(shape)


def _import_reshape(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """`allowzero` exists since opset 14."""
    if not is_known(ctx, node.inputs[1]):
        return _view(node, _computed_shape(node, ctx))
    wanted = dims_input(node, ctx, 1, "shape")
    return _view(node, resolve_shape(node, shape_of(node, ctx), wanted, bool(attr_int(node, "allowzero"))))


def _computed_shape(node: OnnxNode, ctx: ImportContext) -> Shape:
    """The shape operand, computed from data, with 0 and -1 worked out by the model itself while it runs."""
    math, old = SizeMath(node, ctx), shape_of(node, ctx)
    shape = math.vector(node.inputs[1], "shape")
    rank, total = math.length(shape), math.reduce("Prod", math.dims((1, *old)), 0)
    if not attr_int(node, "allowzero"):
        shape = math.where(math.equal(shape, 0), math.dims((*old, *(0,) * rank)[:rank]), shape)
    open = math.equal(shape, -1)
    rest = math.reduce("Prod", math.where(open, 1, shape), 0)
    shape = math.where(open, math.div(total, rest), shape)
    fewest, most = bounds(product(old))
    return bind_dims(node, ctx, shape, [(0, most if fewest > 0 else UNBOUNDED)] * rank, "reshape")


def _squeeze(node: OnnxNode, shape: Shape, axes: tuple[int, ...] | None) -> tuple[Node, ...]:
    if axes is None:
        unsure = [d for d in shape if not isinstance(d, int) and bounds(d)[0] <= 1 <= bounds(d)[1]]
        if unsure:
            raise ShapeError(f"whether dimension {unsure[0]} of {text(shape)} is removed depends on the input; give "
                             "Squeeze its axes, or a range above 1 to that dimension")
        return _view(node, tuple(d for d in shape if d != 1))
    gone = {axis_in(node, a, len(shape)) for a in axes}
    for a in gone:
        low, high = bounds(shape[a])
        if shape[a] != 1 and not (is_found(shape[a]) and low <= 1 <= high):     # else it is checked while running
            raise ShapeError(f"axis {a} of {text(shape)} has size {shape[a]}, not 1")
    return _view(node, tuple(d for i, d in enumerate(shape) if i not in gone))


def _any_of(shape: Shape, count: int) -> list[tuple[int, int]]:
    """The range of a size that is one of `shape`, `count` times."""
    ranges = [bounds(d) for d in shape] or [(1, 1)]
    return [(max(min(low for low, _ in ranges), 0), max(high for _, high in ranges))] * count


def _import_squeeze_attr(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    return _squeeze(node, shape_of(node, ctx), attr_ints(node, "axes") or None)


def _import_squeeze_input(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    if present(node, 1) and not is_known(ctx, node.inputs[1]):
        shape, math = shape_of(node, ctx), SizeMath(node, ctx)
        found, sizes = math.vector(node.inputs[1], "axes"), math.dims(shape)
        left = math.kept(sizes, math.among(found, len(shape)), len(shape) - math.length(found))
        return _view(node, bind_dims(node, ctx, left, _any_of(shape, math.length(left)), "squeeze"))
    axes = ints_input(node, ctx, 1, "axes") if present(node, 1) else None
    return _squeeze(node, shape_of(node, ctx), axes)


def _unsqueeze(node: OnnxNode, shape: Shape, axes: tuple[int, ...]) -> tuple[Node, ...]:
    rank = len(shape) + len(axes)
    new = {axis_in(node, a, rank) for a in axes}
    if len(new) != len(axes):
        raise unsupported(node, f"axes {axes} name one dimension twice", "check the axes")
    old = iter(shape)
    return _view(node, tuple(1 if i in new else next(old) for i in range(rank)))


def _import_unsqueeze_attr(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    return _unsqueeze(node, shape_of(node, ctx), attr_ints(node, "axes") or ())


def _import_unsqueeze_input(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    if not is_known(ctx, node.inputs[1]):
        shape, math = shape_of(node, ctx), SizeMath(node, ctx)
        axes = math.vector(node.inputs[1], "axes")
        rank = len(shape) + math.length(axes)
        made = math.with_ones(math.dims(shape), math.among(axes, rank), rank)
        return _view(node, bind_dims(node, ctx, made, _any_of((1, *shape), rank), "unsqueeze"))
    return _unsqueeze(node, shape_of(node, ctx), ints_input(node, ctx, 1, "axes"))


def _import_flatten(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """axis may equal the rank: then all dims go to the first of the two."""
    shape, axis = shape_of(node, ctx), attr_int(node, "axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise unsupported(node, f"axis {axis} is outside {text(shape)}", "check the axis attribute")
    cut = axis + len(shape) if axis < 0 else axis
    return _view(node, (product(shape[:cut]), product(shape[cut:])))


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    def reshape(x: np.ndarray, shape: tuple[int, ...], given: tuple[int, ...], allow_zero: int = 0) -> Sample:
        return Sample((x,), {"shape": shape}, onnx_inputs=(x, np.array(given, np.int64)),
                      onnx_attrs={"allowzero": allow_zero})

    yield reshape(floats(rng, (2, 3, 4)), (6, 4), (-1, 4))
    yield reshape(floats(rng, (2, 3, 4)), (2, 12), (0, -1))
    yield reshape(floats(rng, (1,)), (), ())
    yield reshape(floats(rng, ()), (1, 1), (1, -1))
    yield reshape(ints(rng, (5, 3)), (3, 5), (3, 5))
    yield reshape(floats(rng, (0, 3)), (0, 1, 3), (0, 1, 3))
    yield reshape(floats(rng, (0, 3)), (3, 0), (3, 0), 1)
    x = floats(rng, (1, 3, 1, 5))
    for op, shape, axes in (("Squeeze", (3, 1, 5), (0,)), ("Squeeze", (1, 3, 5), (-2,)), ("Squeeze", (3, 5), None),
                            ("Unsqueeze", (1, 1, 3, 1, 5, 1), (0, -1))):
        given = () if axes is None else (np.array(axes, np.int64),)
        old: dict[str, Attr] = {} if axes is None else {"axes": axes}
        yield Sample((x,), {"shape": shape}, onnx_op=op, onnx_inputs=(x, *given), onnx_attrs={})
        if not (op == "Unsqueeze" and -1 in axes):  # type: ignore[operator]
            yield Sample((x,), {"shape": shape}, onnx_op=op, onnx_inputs=(x,), onnx_attrs=old, opset=11)
    for axis, flat in ((1, (1, 15)), (-1, (3, 5)), (0, (1, 15)), (4, (15, 1)), (2, (3, 5))):
        yield Sample((x,), {"shape": flat}, onnx_op="Flatten", onnx_attrs={"axis": axis})


RESHAPE = OpDef(
    "Reshape", _infer, _reference, _samples,
    (OnnxImport("Reshape", 5, convert=_import_reshape),
     OnnxImport("Squeeze", 1, 12, _import_squeeze_attr), OnnxImport("Squeeze", 13, convert=_import_squeeze_input),
     OnnxImport("Unsqueeze", 1, 12, _import_unsqueeze_attr),
     OnnxImport("Unsqueeze", 13, convert=_import_unsqueeze_input),
     OnnxImport("Flatten", 1, convert=_import_flatten)),
    flops=lambda attrs, inputs, outputs: 0, is_view=True)

OPS: tuple[OpDef, ...] = (RESHAPE,)
