"""DFT and STFT as products with matrices or as fast transforms (see fourier.py)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from meta_infer.ir.graph import Node, Shape
from meta_infer.ir.shapes import Dim, bounds, dim_max, dim_min, product
from meta_infer.ops.bind_dims import bind_dims, sizes_input
from meta_infer.ops.fourier import LARGEST_CONSTANT, matrix, matrix_while_running, transform
from meta_infer.ops.importing import attr_int, axis_in, present, shape_of, unsupported
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, ShapeError
from meta_infer.ops.run_time_axis import axis_view
from meta_infer.ops.size_math import SizeMath
from meta_infer.support.dtypes import FLOAT32, DType


def _along_axis(node: OnnxNode, ctx: ImportContext, build: NodeBuilder, x: str, shape: Shape, axis: int,
                length: Dim | None, dtype: DType) -> tuple[str, Dim]:
    """The transform of x along `axis`, by the node's `inverse` and `onesided`: its name and the new size of the axis.

    `length` is the number of elements transformed (None: as many as there are); x is cut to it or padded with zeros.
    """
    inverse, onesided = bool(attr_int(node, "inverse")), bool(attr_int(node, "onesided"))
    parts = shape[-1]
    if parts not in (1, 2):
        raise ShapeError(f"the last dimension is {parts}: 1 for real numbers, 2 for complex ones")
    half = inverse and onesided
    if half and parts != 2:
        raise ShapeError("half a spectrum is complex: its last dimension must be 2")
    whole: Dim = length if length is not None else (shape[axis] - 1) * 2 if half else shape[axis]
    wanted = whole // 2 + 1 if half else whole
    rows = dim_min(shape[axis], wanted)
    columns = whole // 2 + 1 if onesided and not inverse else whole
    perm = (*(i for i in range(len(shape) - 1) if i != axis), axis, len(shape) - 1)
    back = tuple(perm.index(i) for i in range(len(shape)))
    lead, out_parts = tuple(shape[i] for i in perm[:-2]), 1 if half else 2
    moved = build.transpose(x, perm) if perm != tuple(range(len(shape))) else x
    if rows != shape[axis]:
        rank = len(shape)
        moved = build.emit("Slice", moved, starts=(0,) * rank, sizes=(*lead, rows, parts), steps=(1,) * rank)
    if isinstance(rows, int) and isinstance(columns, int) and isinstance(whole, int):
        if rows * parts * columns * out_parts > LARGEST_CONSTANT:
            y = _fast(build, moved, lead, rows, parts, whole, columns, half, inverse, dtype)
            return (build.transpose(y, back) if back != tuple(range(len(shape))) else y), columns
        weights = matrix(rows, columns, whole, inverse=inverse, parts=parts, half=half)
        table = build.constant(weights.astype(dtype.numpy), "fourier")
    else:
        size = SizeMath(node, ctx).dims((whole,))
        table = matrix_while_running(build, rows, columns, whole, build.reshape(size, ()), inverse=inverse,
                                     parts=int(parts), half=half, dtype=dtype)
    flat = build.emit("MatMul", build.reshape(moved, (*lead, rows * parts)), table)
    y = build.reshape(flat, (*lead, columns, out_parts))
    return (build.transpose(y, back) if back != tuple(range(len(shape))) else y), columns


def _fast(build: NodeBuilder, x: str, lead: tuple[Dim, ...], rows: int, parts: int, whole: int, columns: int,
          half: bool, inverse: bool, dtype: DType) -> str:
    """As a full complex transform: a real signal gets zeros for imaginary parts, half a spectrum its other half."""
    flat, batch = build.reshape(x, (product(lead), rows, parts)), product(lead)
    if half:
        count = whole - rows                               # frequencies rows .. whole - 1 mirror count .. 1
        other = build.emit("Slice", flat, starts=(0, count, 0), sizes=(batch, count, 2), steps=(1, -1, 1))
        conjugate = build.emit("Mul", other, build.constant(np.array([1, -1], dtype.numpy), "conjugate"))
        flat = build.emit("Concat", flat, conjugate, axis=1)
        missing, parts = 0, 2
    else:
        missing = whole - rows
    if missing or parts == 1:
        flat = build.emit("Pad", flat, pads=(0, 0, 0, 0, missing, 2 - parts), mode="constant", value=0.0)
    y = transform(build, flat, (batch,), whole, dtype, inverse=inverse)
    out_parts = 1 if half else 2
    if (columns, out_parts) != (whole, 2):
        y = build.emit("Slice", y, starts=(0, 0, 0), sizes=(batch, columns, out_parts), steps=(1, 1, 1))
    return build.reshape(y, (*lead, columns, out_parts))


def _import_dft(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """The axis is an attribute up to version 17 and input 2 since 20; it counts the last dimension too."""
    build, x, shape = NodeBuilder.importing(node, ctx), node.inputs[0], shape_of(node, ctx)
    given, rank = ctx.type_of(x).dtype, len(shape)
    if rank < 2:
        raise ShapeError(f"transforms signals and their parts, not {rank} dimensions")
    dtype = given if given.bits >= 32 else FLOAT32
    x = x if dtype == given else build.cast(x, dtype)
    length = sizes_input(node, ctx, 1, "dft_length", lo=1)[0] if present(node, 1) else None
    if node.version >= 20 and present(node, 2) and ctx.known(node.inputs[2]) is None:
        y = _along_axis_of_data(node, ctx, build, x, shape, length, dtype)
    else:
        number = attr_int(node, "axis", 1) if node.version < 20 else -2
        if node.version >= 20 and present(node, 2):
            number = int(np.asarray(ctx.known(node.inputs[2])).reshape(-1)[0])
        axis = axis_in(node, number, rank)
        if axis == rank - 1:
            raise unsupported(node, "the axis is that of real and imaginary parts", "give the axis of the signal")
        y, _ = _along_axis(node, ctx, build, x, shape, axis, length, dtype)
    build.cast(y, given, out=node.outputs[0])
    return build.nodes


def _along_axis_of_data(node: OnnxNode, ctx: ImportContext, build: NodeBuilder, x: str, shape: Shape,
                        length: Dim | None, dtype: DType) -> str:
    view = axis_view(node, ctx, 2, len(shape) - 1)
    lines: Shape = (*view.shape, shape[-1])
    y, size = _along_axis(node, ctx, build, build.reshape(x, lines), lines, 1, length, dtype)
    math, parts = SizeMath(node, ctx), 1 if attr_int(node, "inverse") and attr_int(node, "onesided") else 2
    if size == view.length:
        return build.reshape(y, (*shape[:-1], parts))
    sizes = math.where(view.is_axis, math.dims((size,)), math.dims(shape[:-1]))
    most = max(bounds(size)[1], *(bounds(d)[1] for d in shape[:-1]))
    return build.reshape(y, (*bind_dims(node, ctx, sizes, [(0, most)] * (len(shape) - 1), "dft"), parts))


def _import_stft(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """signal [b, n] or [b, n, 1 or 2] -> [b, frames, frequencies, 2]: frames by a Gather, a window, a DFT each."""
    build, x, shape = NodeBuilder.importing(node, ctx), node.inputs[0], shape_of(node, ctx)
    given = ctx.type_of(x).dtype
    dtype = given if given.bits >= 32 else FLOAT32
    x = x if dtype == given else build.cast(x, dtype)
    if len(shape) == 2:
        shape = (*shape, 1)
        x = build.reshape(x, shape)
    if len(shape) != 3:
        raise ShapeError(f"transforms batches of signals, not {len(shape)} dimensions")
    step, length = sizes_input(node, ctx, 1, "frame_step", lo=1)[0], shape[1]
    if present(node, 3):
        length = sizes_input(node, ctx, 3, "frame_length", lo=1)[0]
    elif present(node, 2):
        length = shape_of(node, ctx, 2)[0]
    frames, math = dim_max((shape[1] - length) // step + 1, 0), SizeMath(node, ctx)
    starts = build.emit("Mul", build.emit("Iota", size=(frames,)), math.dims((step,)))
    places = build.emit("Add", build.reshape(starts, (frames, 1)), build.emit("Iota", size=(length,)))
    framed = build.emit("Gather", x, places, axis=1)
    if present(node, 2):
        window = node.inputs[2] if dtype == given else build.cast(node.inputs[2], dtype)
        framed = build.emit("Mul", framed, build.reshape(window, (length, 1)))
    y, _ = _along_axis(node, ctx, build, framed, (shape[0], frames, length, shape[2]), 2, None, dtype)
    build.cast(y, given, out=node.outputs[0])
    return build.nodes


IMPORTS: tuple[OnnxImport, ...] = (OnnxImport("DFT", 17, convert=_import_dft),
                                   OnnxImport("STFT", 17, convert=_import_stft))
