"""Softmax and LogSoftmax over one axis, shifted by the row's maximum: exp(x - max) / sum(exp(x - max)).

A row of equal, however small, numbers is uniform; a row of minus infinities alone is NaN, as in ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, Type, binary, const, intrin, maximum, minimum, splat
from meta_infer.ir.shapes import ceildiv, divisible, product, usual_upper
from meta_infer.kernels.collapse import Collapsed, collapse, keeps_shape, operand_values, unflatten
from meta_infer.kernels.conv_chunks import LINE_BYTES
from meta_infer.kernels.fold import row_chunks
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.point import Point, apply_nodes, bind, flat_index, store_outputs
from meta_infer.kernels.power import powers_of
from meta_infer.kernels.reduction.row_choice import Rows, default_knobs, row_knobs, tile_of, tune_rows
from meta_infer.kernels.reduction.row_tile import RowTile, each_step, each_tile, fold_rows
from meta_infer.ops.attrs import int_of
from meta_infer.support.dtypes import FLOAT32, FLOAT64

# Vectors that are raised together: as many chains of dependent operations, and registers hold them.
_CHAINS = 4
# Rows abreast may take this part of L1: longer ones wait little for their sums, and streams of several are slower.
_L1_SHARE = 4
_X = "x of softmax"
Finish = Callable[[Point, Expr], None]


def _space(group: Group) -> Collapsed:
    """Dims before the axis, the axis, dims after it."""
    out = group.values[group.anchor.outputs[0]]
    axis = int_of(group.anchor.attrs, "axis", out.rank - 1)
    return collapse(out.shape, {**operand_values(group), _X: out}, (axis, axis + 1))


def _is_last(space: Collapsed) -> bool:
    return space.shape[space.starts[2]:] == (1,)


def _work(group: Group, profile: Profile) -> Rows:
    space, dtype = _space(group), group.values[group.anchor.outputs[0]].dtype
    axis, lanes = space.starts[1], profile.lanes(dtype)
    if _is_last(space):
        return Rows(product(space.shape[:axis]), space.shape[axis], lanes, 2 * dtype.bytes)
    return Rows(space.shape[-1], space.shape[axis], lanes, 2 * dtype.bytes, across=True)


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    out = group.values[group.anchor.outputs[0]]
    if out.dtype not in (FLOAT32, FLOAT64) or not keeps_shape(group) or out.rank == 0:
        return
    work = _work(group, profile)
    line = LINE_BYTES // (out.dtype.bytes * work.lanes)           # vectors across rows: of more, lines push out lines
    chains = max(1, line) if work.across else None
    found = Variant("softmax", "plain", {n: PLAIN for n in group.inputs if n not in group.constants},
                    {n: PLAIN for n in group.outputs}, default_knobs(work, profile, _L1_SHARE, chains),
                    flops=product(out.shape) * 20)
    yield replace(found, scratch_bytes=_scratch_bytes(work, found))


def _scratch_bytes(work: Rows, variant: Variant) -> int:
    """The powers of all rows of a tile; where rows are abreast, a lane each, of all lanes."""
    tile = tile_of(variant.knobs)
    rows = tile.vectors * work.lanes if work.across else tile.rows
    return rows * (usual_upper(work.length) * work.element_bytes // 2 + LINE_BYTES)


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    return row_knobs(_work(group, profile))


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    work = _work(group, profile)
    found = tune_rows(work, variant, values, profile)
    return found if isinstance(found, Refusal) else replace(found, scratch_bytes=_scratch_bytes(work, found))


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    out, space = group.values[group.anchor.outputs[0]], _space(group)
    b = Builder("softmax")
    buffers = bind(b, group)
    merged = space.group(group)

    def finish(point: Point, value: Expr) -> None:
        known = {group.anchor.outputs[0]: b.let(value, "y")}
        known = apply_nodes(b, group.epilogue, merged.values, known, buffers, layouts, point)
        store_outputs(b, merged, known, buffers, layouts, point)

    form = _rows if _is_last(space) else _columns
    form(b, space, buffers[group.anchor.inputs[0]], Type(out.dtype, profile.lanes(out.dtype)),
         group.anchor.op == "LogSoftmax", tile_of(variant.knobs), int(variant.knobs["grain"]), finish)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


def _raised(b: Builder, values: Sequence[Expr]) -> list[Expr]:
    """e^x of each, some at a time."""
    return [b.let(e, "e") for i in range(0, len(values), _CHAINS) for e in powers_of(b, values[i:i + _CHAINS])]


def _rows(b: Builder, space: Collapsed, x: Buffer, register: Type, log: bool, tile: RowTile, grain: int,
          finish: Finish) -> None:
    """The axis is the last: vectors along it."""
    axis, lanes = space.starts[1], register.lanes
    lead, length = space.shape[:axis], b.dim(space.shape[axis])
    count = product(lead)
    stride = b.dim(ceildiv(space.shape[axis], lanes) * lanes + LINE_BYTES // register.dtype.bytes)
    powers = b.scratch("powers", register.dtype, stride * tile.rows)

    def work(rows: Sequence[Expr]) -> None:
        bases, coords = [b.let(row * length, "base") for row in rows], [unflatten(b, row, lead) for row in rows]
        kept, among = [stride * i for i in range(len(rows))], RowTile(len(rows), tile.vectors)

        def load(places: Sequence[Expr], inside: Expr | None) -> list[list[Expr]]:
            return [[b.load(x, base + at, lanes, inside) for at in places] for base in bases]

        largest = [b.let(splat(one, lanes), "largest") for one in fold_rows(b, "max", length, register, among, load)]

        def raise_all(places: Sequence[Expr], inside: Expr | None) -> None:
            away = [b.let(value - most, "away") for most, values in zip(largest, load(places, inside), strict=True)
                    for value in values]
            for i, e in enumerate(_raised(b, away)):       # lanes beyond the row fall into the room behind it
                b.store(powers, kept[i // len(places)] + places[i % len(places)], e)

        def power(places: Sequence[Expr], inside: Expr | None) -> list[list[Expr]]:
            return [[b.load(powers, start + at, lanes) for at in places] for start in kept]

        each_step(b, length, lanes, max(1, _CHAINS // len(rows)), raise_all)
        totals = fold_rows(b, "+", length, register, among, power)
        factors = [b.let(splat(b.let(intrin("log", total) if log else const(1, total.type) / total), lanes), "factor")
                   for total in totals]

        def write(places: Sequence[Expr], inside: Expr | None) -> None:
            for at in places:
                for i, (base, place) in enumerate(zip(bases, coords, strict=True)):
                    value = (b.load(x, base + at, lanes, inside) - largest[i] - factors[i] if log
                             else b.load(powers, kept[i] + at, lanes) * factors[i])
                    finish(Point(space.shape, (*place, at, const(0)), axis, lanes, inside), value)

        each_step(b, length, lanes, tile.vectors, write, again=True)

    with row_chunks(b, b.dim(ceildiv(count, tile.rows)), length * tile.rows, grain) as (first, last):
        end = b.let(minimum(last * tile.rows, b.dim(count)), "end")
        each_tile(b, b.let(first * tile.rows, "begin"), end, tile.rows, divisible(count, tile.rows), work)


def _columns(b: Builder, space: Collapsed, x: Buffer, register: Type, log: bool, tile: RowTile, grain: int,
             finish: Finish) -> None:
    """Other axes follow: vectors along the last of them, one step of the axis at a time."""
    axis, last_axis, lanes = space.starts[1], len(space.shape) - 1, register.lanes
    length, width = b.dim(space.shape[axis]), b.dim(space.shape[-1])
    lead = (*space.shape[:axis], *space.shape[axis + 1:-1])
    powers = b.scratch("powers", register.dtype, length * (lanes * tile.vectors))
    across = lanes * tile.vectors
    strip = max(1, grain // max(1, usual_upper(space.shape[axis]) * across)) * across
    strips = maximum((width + (strip - 1)) // strip, 1)
    with row_chunks(b, b.dim(product(lead)) * strips, minimum(width, strip) * length, grain) as (first, last):
        parts = b.let(strips, "strips")
        with b.loop(first, last, 1, "row") as row:
            places = unflatten(b, b.let(row // parts), lead)
            begin = b.let(row % parts * strip, "begin")

            def columns(starts: Sequence[Expr], count: Expr | None) -> None:
                starts = [b.let(begin + at, "at") for at in starts]

                def load(step: Expr) -> list[Expr]:
                    return [b.load(x, flat_index(b, space.values[_X].shape, PLAIN, coords(step, at)), lanes, count)
                            for at in starts]

                def coords(step: Expr, at: Expr) -> tuple[Expr, ...]:
                    return (*places[:axis], step, *places[axis:], at)

                largest = [b.var(const(float("-inf"), register), "largest") for _ in starts]
                totals = [b.var(const(0, register), "total") for _ in starts]
                with b.loop(0, length, 1, "step") as step:
                    for most, value in zip(largest, load(step), strict=True):
                        b.assign(most, binary("max", value, most))
                with b.loop(0, length, 1, "step") as step:
                    away = [b.let(v - most, "away") for v, most in zip(load(step), largest, strict=True)]
                    for i, (total, e) in enumerate(zip(totals, _raised(b, away), strict=True)):
                        b.assign(total, total + e)
                        if not log:
                            b.store(powers, step * across + i * lanes, e)
                factors = [b.let(intrin("log", t) if log else const(1, register) / t, "factor") for t in totals]
                with b.loop(0, length, 1, "step") as step:
                    for i, (at, factor) in enumerate(zip(starts, factors, strict=True)):
                        value = (load(step)[i] - largest[i] - factor if log
                                 else b.load(powers, step * across + i * lanes, lanes) * factor)
                        finish(Point(space.shape, coords(step, at), last_axis, lanes, count), value)

            each_step(b, b.let(minimum(width - begin, strip), "some"), lanes, tile.vectors, columns)


SOFTMAX = Kernel("softmax", ("Softmax", "LogSoftmax"), _variants, _lower, _knobs, _tune)
