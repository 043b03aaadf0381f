"""ReduceSum, Mean, Max, Min and Prod over any set of axes, in an order that never changes.

Neighbouring axes of one kind (kept or reduced) become one. When the last of them is reduced its elements are summed
as vectors and then across lanes; when it is kept, vectors run along it and the reduced axes are loops outside.

Knobs: `vectors`, accumulators, so that one addition need not wait for the last; `strip`, kept elements that one pass
over the reduced dims takes along, where the last dim is kept; `grain`, elements read by a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape, Value
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, Type, binary, cast, const, minimum
from meta_infer.ir.shapes import Dim, product, usual_upper
from meta_infer.kernels.collapse import Collapsed, collapse, operand_values, unflatten
from meta_infer.kernels.fold import each_vector, fold, identity, row_chunks
from meta_infer.kernels.grain import Cut, grain_refusal, grains, rows_cut
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.point import Point, apply_nodes, bind, flat_index, store_outputs
from meta_infer.support.dtypes import FLOAT32, FLOAT64

OPERATIONS = {"ReduceSum": "+", "ReduceMean": "+", "ReduceProd": "*", "ReduceMax": "max", "ReduceMin": "min"}
GRAIN = 32768
VECTORS, STRIP = 4, 512
_VECTORS = (1, 2, 4, 8)
_STRIPS = (128, STRIP, 2048)
# Elements summed by one set of accumulators: long sums in pieces lose less to rounding.
PIECE = 4096
OUT = "out of reduce"


def _axes(group: Group) -> tuple[int, ...]:
    rank = group.values[group.anchor.inputs[0]].rank
    axes = group.anchor.attrs.get("axes")
    return tuple(range(rank)) if axes is None else tuple(int(a) % rank for a in axes)   # type: ignore[union-attr, arg-type]


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    x, out = group.values[group.anchor.inputs[0]], group.values[group.anchor.outputs[0]]
    if x.dtype not in (FLOAT32, FLOAT64) and not x.dtype.is_integer:
        return
    if any(group.values[name].shape != out.shape for name in group.outputs):
        return
    strip = {} if _folds_rows(group) else {"strip": STRIP}
    knobs = {"vectors": VECTORS, **strip, "grain": GRAIN}
    yield Variant("reduce", "plain", {n: PLAIN for n in group.inputs if n not in group.constants},
                  {n: PLAIN for n in group.outputs}, knobs, flops=product(x.shape))


def reduced_space(group: Group, axes: Sequence[int]) -> Collapsed:
    """The input's dims, merged; in it outputs and operands have 1 wherever an axis is reduced.

    `values[OUT]` is the anchor's output: where it differs from `shape` a dim is reduced.
    """
    x, out = group.values[group.anchor.inputs[0]], group.values[group.anchor.outputs[0]]

    def spread(value: Value) -> Value:
        shape: list[Dim] = [*(1,) * (out.rank - value.rank), *value.shape]
        if out.rank != x.rank:
            for axis in sorted(axes):
                shape.insert(axis, 1)
        return replace(value, shape=tuple(shape))

    operands = {name: spread(value) for name, value in operand_values(group).items()}
    return collapse(x.shape, {**operands, OUT: spread(out)})


def _is_reduced(space: Collapsed) -> list[bool]:
    return [kept != dim for kept, dim in zip(space.values[OUT].shape, space.shape, strict=True)]


def _folds_rows(group: Group) -> bool:
    """Whether the last of the merged dims is reduced."""
    return _is_reduced(reduced_space(group, _axes(group)))[-1]


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    strips = (Knob("strip", _STRIPS),) if "strip" in variant.knobs else ()
    return Knob("vectors", _VECTORS), *strips, Knob("grain", grains(GRAIN))


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    full, space = {**variant.knobs, **values}, reduced_space(group, _axes(group))
    is_reduced, last = _is_reduced(space), usual_upper(space.shape[-1])
    size = product(d for d, r in zip(space.shape, is_reduced, strict=True) if r)
    kept = product(d for d, r in zip(space.shape, is_reduced, strict=True) if not r)
    vectors, strip = int(full["vectors"]), int(full.get("strip", PIECE))
    lanes = profile.lanes(group.values[group.anchor.outputs[0]].dtype)
    if vectors not in _VECTORS:
        return Refusal(full, "alignment", f"{vectors} accumulators are none of {_VECTORS}")
    if vectors != VECTORS and vectors * lanes > max(lanes, min(last, strip)):
        return Refusal(full, "shape", f"{vectors} accumulators along {min(last, strip)} elements")
    if "strip" not in full:
        return grain_refusal(full, rows_cut(kept, size), GRAIN) or replace(variant, knobs=full)
    if strip != STRIP and any(last <= other for other in _STRIPS if other < strip):
        return Refusal(full, "shape", f"strips of {strip} of {last} elements")
    return grain_refusal(full, _strips_cut(kept, size, last, strip), GRAIN) or replace(variant, knobs=full)


def _strips_cut(kept: Dim, size: Dim, width: int, strip: int) -> Cut:
    """Chunks of strips; `kept` counts the `width` elements of a row too."""
    strips = -(-width // strip)
    return rows_cut(usual_upper(kept) // max(1, width) * strips, min(width, strip) * usual_upper(size))


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    anchor, dtype = group.anchor, group.values[group.anchor.outputs[0]].dtype
    space = reduced_space(group, _axes(group))
    merged, shape, op = space.group(group), space.shape, OPERATIONS[anchor.op]
    is_reduced = _is_reduced(space)
    reduced = tuple(d for d, r in zip(shape, is_reduced, strict=True) if r)
    b = Builder("reduce")
    buffers = bind(b, group)
    x, lanes = buffers[anchor.inputs[0]], profile.lanes(dtype)
    size = b.dim(product(reduced))

    def coords(kept: Sequence[Expr], steps: Sequence[Expr]) -> tuple[Expr, ...]:
        kept_left, steps_left = iter(kept), iter(steps)
        return tuple(next(steps_left) if r else next(kept_left) for r in is_reduced)

    def finish(kept: Sequence[Expr], axis: int, width: int, count: Expr | None, total: Expr) -> None:
        if anchor.op == "ReduceMean":
            total = total / cast(size, dtype)
        point = Point(shape, coords(kept, [const(0)] * len(reduced)), axis, width, count)
        known = {anchor.outputs[0]: b.let(total, "total")}
        known = apply_nodes(b, group.epilogue, merged.values, known, buffers, layouts, point)
        store_outputs(b, merged, known, buffers, layouts, point)

    vectors, grain = int(variant.knobs["vectors"]), int(variant.knobs["grain"])
    if is_reduced[-1]:
        _along_last(b, shape, is_reduced, x, op, Type(dtype, lanes), coords, finish, vectors, grain)
    else:
        strip = int(variant.knobs["strip"])
        _across_last(b, shape, is_reduced, x, op, Type(dtype, lanes), coords, finish, vectors, strip, grain)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


Coords = Callable[[Sequence[Expr], Sequence[Expr]], tuple[Expr, ...]]
Finish = Callable[[Sequence[Expr], int, int, Expr | None, Expr], None]


def _along_last(b: Builder, shape: Shape, is_reduced: Sequence[bool], x: Buffer, op: str, register: Type,
                coords: Coords, finish: Finish, ways: int, grain: int) -> None:
    """The last dim is reduced: one output element at a time, vectors along the dim."""
    kept_dims = tuple(d for d, r in zip(shape, is_reduced, strict=True) if not r)
    outer = tuple(d for d, r in zip(shape[:-1], is_reduced, strict=False) if r)
    length, lanes = b.dim(shape[-1]), register.lanes
    with row_chunks(b, b.dim(product(kept_dims)), b.dim(product(outer)) * length, grain) as (first, last):
        with b.loop(first, last, 1, "row") as row:
            kept = unflatten(b, row, kept_dims)
            total = b.var(const(identity(op, register.dtype), Type(register.dtype)), "acc")
            with b.loop(0, b.dim(product(outer)), 1, "line") as line:
                steps = unflatten(b, line, outer)
                base = b.let(flat_index(b, shape, PLAIN, coords(kept, (*steps, const(0)))), "base")
                with b.loop(0, length, PIECE, "piece") as piece:
                    end = b.let(minimum(piece + PIECE, length), "end")
                    folded = fold(b, op, piece, end, register, lambda at, count: b.load(x, base + at, lanes, count),
                                  ways)
                    b.assign(total, binary(op, folded, total))
            finish(kept, len(shape) - 1, 1, None, total)


def _across_last(b: Builder, shape: Shape, is_reduced: Sequence[bool], x: Buffer, op: str, register: Type,
                 coords: Coords, finish: Finish, vectors: int, strip: int, grain: int) -> None:
    """The last dim is kept: a vector of output elements at a time, one step of the reduced dims after the other."""
    kept_dims = tuple(d for d, r in zip(shape, is_reduced, strict=True) if not r)[:-1]
    reduced = tuple(d for d, r in zip(shape, is_reduced, strict=True) if r)
    width, size, lanes = b.dim(shape[-1]), b.dim(product(reduced)), register.lanes
    strips = (width + (strip - 1)) // strip
    with row_chunks(b, b.dim(product(kept_dims)) * strips, minimum(width, strip) * size, grain) as (first, last):
        parts = b.let(strips, "strips")
        with b.loop(first, last, 1, "row") as row:
            outer = unflatten(b, b.let(row // parts), kept_dims)
            begin = b.let(row % parts * strip, "begin")

            def columns(at: Expr, count: Expr | None, abreast: int) -> None:
                neutral = const(identity(op, register.dtype), register)
                totals = [b.var(neutral, "acc") for _ in range(abreast)]
                with b.loop(0, size, 1, "step") as step:
                    steps = unflatten(b, step, reduced)
                    index = b.let(flat_index(b, shape, PLAIN, coords((*outer, at), steps)), "index")
                    for v, total in enumerate(totals):
                        b.assign(total, binary(op, b.load(x, index + v * lanes, lanes, count), total))
                for v, total in enumerate(totals):
                    finish((*outer, at + v * lanes), len(shape) - 1, lanes, count, total)

            end = b.let(minimum(begin + strip, width), "end")
            wide = b.let(begin + (end - begin) // (vectors * lanes) * (vectors * lanes), "wide")
            with b.loop(begin, wide, vectors * lanes, "at") as at:
                columns(at, None, vectors)
            each_vector(b, wide, end, lanes, lambda at, count: columns(at, count, 1))


REDUCE = Kernel("reduce", tuple(OPERATIONS), _variants, _lower, _knobs, _tune)
