"""ScatterElements and ScatterND: a copy of the data into which updates are written, one after another.

    ScatterElements:  for unit (position before the axis, block of columns behind it):  copy;  apply its updates
    ScatterND:        for part of the output:  copy;  for every index tuple:  apply what falls into the part

A chunk owns the part of the output it writes and walks the updates in their order, so duplicate indices give the
same result for any number of threads: the last one wins, or they are combined in order.

No knob: updates keep their order, and every chunk of ScatterND reads all of them, so parts are few whatever they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Expr, const, maximum, minimum, select
from meta_infer.ir.shapes import product, upper
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.picks import flat_pick, pick, unless_empty
from meta_infer.kernels.point import bind
from meta_infer.kernels.rows import GRAIN, copy_lanes, copy_run, unravel
from meta_infer.ops.attrs import int_of, text_of

# Columns of a block behind the axis: enough to copy in whole registers.
_COLUMNS = 256
# Every part of a ScatterND reads all the indices, so there are not many parts.
_PARTS = 16


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant("scatter", "plain", {n: PLAIN for n in group.inputs}, {n: PLAIN for n in group.outputs})


def _combined(reduction: str, old: Expr, new: Expr) -> Expr:
    """What stands in the output afterwards; NaN wins a maximum or minimum."""
    match reduction:
        case "add":
            return old + new
        case "mul":
            return old * new
        case "max" | "min":
            best = maximum(new, old) if reduction == "max" else minimum(new, old)
            return select(new.ne(new), new, best) if new.type.dtype.is_float else best
    return new


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    b = Builder("scatter_nd" if group.anchor.op == "ScatterND" else "scatter_elements")
    (_scatter_nd if group.anchor.op == "ScatterND" else _scatter_elements)(b, group, profile)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


def _within(b: Builder, flat: Expr, whole: Shape, part: Shape) -> tuple[Expr, Expr | None]:
    """The flat place in a box `part` of the element at `flat` of the larger `whole`, and whether it is inside.

    The condition is None when the boxes are the same.
    """
    if whole == part:
        return flat, None
    place: Expr = const(0)
    inside: Expr | None = None
    for coord, full, size in zip(unravel(b, flat, whole), whole, part, strict=True):
        place = place * b.dim(size) + coord
        if full != size:
            here = coord.lt(b.dim(size))
            inside = here if inside is None else inside & here
    return b.let(place, "place"), None if inside is None else b.let(inside, "inside")


def _scatter_elements(b: Builder, group: Group, profile: Profile) -> None:
    axis, reduction = int_of(group.anchor.attrs, "axis"), text_of(group.anchor.attrs, "reduction")
    data, picks, updates = (group.values[n] for n in group.anchor.inputs)
    buffers = bind(b, group)
    src, index, new, dst = (buffers[n] for n in (data.name, picks.name, updates.name, group.outputs[0]))
    size, inner = b.dim(data.shape[axis]), b.dim(product(data.shape[axis + 1:]))
    picked, picked_inner = b.dim(picks.shape[axis]), b.dim(product(picks.shape[axis + 1:]))
    outer = b.dim(product(data.shape[:axis]))
    blocks = (inner + (_COLUMNS - 1)) // _COLUMNS
    units = outer * blocks
    per_chunk = maximum(const(GRAIN) // maximum(size * minimum(inner, _COLUMNS), 1), 1)
    with b.chunks((units + per_chunk - 1) // per_chunk) as chunk:
        start = b.let(chunk * per_chunk, "start")
        with b.loop(start, minimum(start + per_chunk, units), name="unit") as unit:
            row = b.let(unit // blocks, "row")
            left = b.let(unit % blocks * _COLUMNS, "left")
            right = b.let(minimum(left + _COLUMNS, inner), "right")
            if upper(product(data.shape[axis + 1:])) <= _COLUMNS:        # the block is all there is: one run
                whole = b.let(row * size * inner, "whole")
                copy_run(b, src, whole, dst, whole, size * inner, copy_lanes(profile, src.dtype))
            else:
                with b.loop(0, size, name="at") as at:
                    place = b.let((row * size + at) * inner + left, "place")
                    copy_run(b, src, place, dst, place, right - left, copy_lanes(profile, src.dtype))
            picked_row, row_inside = _within(b, row, data.shape[:axis], picks.shape[:axis])
            picked_here = unless_empty(b, picked, data.shape[axis])
            last = picked_here if row_inside is None else b.let(select(row_inside, picked_here, const(0)), "last")
            with b.loop(0, last, name="k") as k, b.loop(left, right, name="column") as column, ExitStack() as stack:
                picked_column, inside = _within(b, column, data.shape[axis + 1:], picks.shape[axis + 1:])
                if inside is not None:
                    stack.enter_context(b.when(inside))
                source = b.let((picked_row * picked + k) * picked_inner + picked_column, "source")
                target = b.let((row * size + pick(b, index, source, size)) * inner + column, "target")
                b.store(dst, target, _combined(reduction, b.load(dst, target), b.load(new, source)))


def _scatter_nd(b: Builder, group: Group, profile: Profile) -> None:
    reduction = text_of(group.anchor.attrs, "reduction")
    data, picks, updates = (group.values[n] for n in group.anchor.inputs)
    buffers = bind(b, group)
    src, index, new, dst = (buffers[n] for n in (data.name, picks.name, updates.name, group.outputs[0]))
    depth = picks.shape[-1]
    assert isinstance(depth, int), "checked by infer"
    inner, tuples, total = (b.dim(product(s)) for s in (data.shape[depth:], picks.shape[:-1], data.shape))
    sizes = [b.dim(d) for d in data.shape[:depth]]
    lanes = copy_lanes(profile, src.dtype)
    per_chunk = maximum(const(GRAIN), (total + (_PARTS - 1)) // _PARTS)
    with b.chunks((total + per_chunk - 1) // per_chunk) as chunk:
        start = b.let(chunk * per_chunk, "start")
        stop = b.let(minimum(start + per_chunk, total), "stop")
        copy_run(b, src, start, dst, start, stop - start, lanes)
        with b.loop(0, tuples, name="k") as k:
            first = b.let(flat_pick(b, index, b.let(k * depth), sizes) * inner, "first")
            low, high = b.let(maximum(first, start), "low"), b.let(minimum(first + inner, stop), "high")
            source = b.let(k * inner - first, "source")
            if reduction == "none":
                with b.when(low.lt(high)):
                    copy_run(b, new, b.let(source + low), dst, low, high - low, lanes)
            else:
                with b.loop(low, high, name="at") as at:
                    b.store(dst, at, _combined(reduction, b.load(dst, at), b.load(new, source + at)))


SCATTER = Kernel("scatter", ("ScatterElements", "ScatterND"), _variants, _lower)
