"""ArgMax and ArgMin along one axis: the first (or last) position of the extreme element.

Where dims follow the axis, vectors run along them; along a last axis positions are compared one by one.

No knob: it runs once, at the end of a network, and mostly reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Expr, Type, binary, const, select, splat
from meta_infer.ir.shapes import product
from meta_infer.kernels.collapse import keeps_shape, unflatten
from meta_infer.kernels.fold import each_vector, row_chunks
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import Point, apply_nodes, bind, flat_index, store_outputs
from meta_infer.kernels.reduction.reduce import OUT, reduced_space
from meta_infer.support.dtypes import BOOL, INT64

# Elements read by a chunk.
GRAIN = 16384


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    x = group.values[group.anchor.inputs[0]]
    if x.dtype == BOOL or x.dtype.bits < 8 or not keeps_shape(group):
        return
    yield Variant("arg_reduce", "plain", {n: PLAIN for n in group.inputs if n not in group.constants},
                  {n: PLAIN for n in group.outputs}, flops=product(x.shape))


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    anchor, dtype = group.anchor, group.values[group.anchor.inputs[0]].dtype
    axis = int(anchor.attrs.get("axis", 0))                              # type: ignore[arg-type, call-overload]
    better = ">" if anchor.op == "ArgMax" else "<"
    if anchor.attrs.get("select_last_index"):
        better += "="
    space = reduced_space(group, (axis,))
    merged, shape = space.group(group), space.shape
    reduced = [i for i, (kept, dim) in enumerate(zip(space.values[OUT].shape, shape, strict=True)) if kept != dim]
    where, last = (reduced[0] if reduced else -1), len(shape) - 1
    along = where == last or not reduced                                 # nothing to vectorise over
    b = Builder("arg_reduce")
    buffers = bind(b, group)
    x, lanes = buffers[anchor.inputs[0]], 1 if along else profile.lanes(dtype)
    outer = tuple(d for i, d in enumerate(shape[:-1]) if i != where) if not along else (
        shape[:-1] if reduced else shape)
    length = b.dim(shape[where]) if reduced else const(1)
    width = const(1) if along else b.dim(shape[-1])
    with row_chunks(b, b.dim(product(outer)), length * width, GRAIN) as (first, stop):
        with b.loop(first, stop, 1, "row") as row:
            kept = unflatten(b, row, outer)

            def visit(at: Expr, count: Expr | None) -> None:
                def coords(step: Expr) -> tuple[Expr, ...]:
                    places = list(kept) if along else [*kept, at]
                    if reduced:
                        places.insert(where, step)
                    return tuple(places)

                def load(step: Expr) -> Expr:
                    return b.load(x, flat_index(b, shape, PLAIN, coords(step)), lanes, count)

                best, place = b.var(load(const(0)), "best"), b.var(const(0, Type(INT64, lanes)), "place")
                with b.loop(1, length, 1, "step") as step:
                    value = b.let(load(step), "value")
                    wins = b.let(binary(better, value, best), "wins")
                    b.assign(place, select(wins, splat(step, lanes), place))
                    b.assign(best, select(wins, value, best))
                point = Point(shape, coords(const(0)), last, lanes, count)
                known: dict[str, Expr] = {anchor.outputs[0]: place}
                known = apply_nodes(b, group.epilogue, merged.values, known, buffers, layouts, point)
                store_outputs(b, merged, known, buffers, layouts, point)

            each_vector(b, 0, width, lanes, visit)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


ARG_REDUCE = Kernel("arg_reduce", ("ArgMax", "ArgMin"), _variants, _lower)
