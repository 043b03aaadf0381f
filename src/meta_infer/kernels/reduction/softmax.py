"""Softmax and LogSoftmax over one axis, shifted by the row's maximum: exp(x - max) / sum(exp(x - max)).

A row of equal, however small, numbers is uniform; a row of minus infinities alone is NaN, as in ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, Type, binary, const, intrin, splat
from meta_infer.ir.shapes import product
from meta_infer.kernels.collapse import Collapsed, collapse, keeps_shape, operand_values, unflatten
from meta_infer.kernels.fold import each_vector, fold, row_chunks
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import Point, apply_nodes, bind, flat_index, store_outputs
from meta_infer.kernels.power import power_of
from meta_infer.support.dtypes import FLOAT32, FLOAT64

# Elements of a chunk: an exponential each, tens of microseconds together.
GRAIN = 16384
_X = "x of softmax"


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    out = group.values[group.anchor.outputs[0]]
    if out.dtype not in (FLOAT32, FLOAT64) or not keeps_shape(group) or out.rank == 0:
        return
    yield Variant("softmax", "plain", {n: PLAIN for n in group.inputs if n not in group.constants},
                  {n: PLAIN for n in group.outputs}, flops=product(out.shape) * 20)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    out = group.values[group.anchor.outputs[0]]
    axis = int(group.anchor.attrs.get("axis", out.rank - 1))             # type: ignore[arg-type, call-overload]
    space = collapse(out.shape, {**operand_values(group), _X: out}, (axis, axis + 1))
    b = Builder("softmax")
    buffers = bind(b, group)
    merged, lanes = space.group(group), profile.lanes(out.dtype)
    x = buffers[group.anchor.inputs[0]]
    log = group.anchor.op == "LogSoftmax"

    def finish(point: Point, value: Expr) -> None:
        known = {group.anchor.outputs[0]: b.let(value, "y")}
        known = apply_nodes(b, group.epilogue, merged.values, known, buffers, layouts, point)
        store_outputs(b, merged, known, buffers, layouts, point)

    form = _rows if space.shape[space.starts[2]:] == (1,) else _columns
    form(b, space, x, Type(out.dtype, lanes), log, finish)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


def _rows(b: Builder, space: Collapsed, x: Buffer, register: Type, log: bool,
          finish: Callable[[Point, Expr], None]) -> None:
    """The axis is the last: vectors along it."""
    axis, lanes = space.starts[1], register.lanes
    lead, length = space.shape[:axis], b.dim(space.shape[axis])
    powers = b.scratch("powers", register.dtype, length)
    with row_chunks(b, b.dim(product(lead)), length, GRAIN) as (first, last):
        with b.loop(first, last, 1, "row") as row:
            base, coords = b.let(row * length, "base"), unflatten(b, row, lead)
            largest = splat(fold(b, "max", 0, length, register,
                                 lambda at, count: b.load(x, base + at, lanes, count)), lanes)

            def power(at: Expr, count: Expr | None) -> Expr:
                e = b.let(power_of(b, b.load(x, base + at, lanes, count) - largest), "e")
                if not log:
                    b.store(powers, at, e, count)
                return e

            total = fold(b, "+", 0, length, register, power)
            one = const(1, Type(register.dtype))
            factor = splat(b.let(intrin("log", total) if log else one / total, "factor"), lanes)

            def write(at: Expr, count: Expr | None) -> None:
                value = (b.load(x, base + at, lanes, count) - largest - factor if log
                         else b.load(powers, at, lanes, count) * factor)
                finish(Point(space.shape, (*coords, at, const(0)), axis, lanes, count), value)

            each_vector(b, 0, length, lanes, write)


def _columns(b: Builder, space: Collapsed, x: Buffer, register: Type, log: bool,
             finish: Callable[[Point, Expr], None]) -> None:
    """Other axes follow: vectors along the last of them, one step of the axis at a time."""
    axis, last_axis, lanes = space.starts[1], len(space.shape) - 1, register.lanes
    length, width = b.dim(space.shape[axis]), b.dim(space.shape[-1])
    lead = (*space.shape[:axis], *space.shape[axis + 1:-1])
    powers = b.scratch("powers", register.dtype, length * lanes)
    with row_chunks(b, b.dim(product(lead)), length * width, GRAIN) as (first, last):
        with b.loop(first, last, 1, "row") as row:
            places = unflatten(b, row, lead)

            def column(at: Expr, count: Expr | None) -> None:
                def coords(step: Expr) -> tuple[Expr, ...]:
                    return (*places[:axis], step, *places[axis:], at)

                def load(step: Expr) -> Expr:
                    return b.load(x, flat_index(b, space.values[_X].shape, PLAIN, coords(step)), lanes, count)

                largest = b.var(const(float("-inf"), register), "largest")
                total = b.var(const(0, register), "total")
                with b.loop(0, length, 1, "step") as step:
                    b.assign(largest, binary("max", load(step), largest))
                with b.loop(0, length, 1, "step") as step:
                    e = b.let(power_of(b, load(step) - largest), "e")
                    b.assign(total, total + e)
                    if not log:
                        b.store(powers, step * lanes, e)
                factor = b.let(intrin("log", total) if log else const(1, register) / total, "factor")
                with b.loop(0, length, 1, "step") as step:
                    value = (load(step) - largest - factor if log else b.load(powers, step * lanes, lanes) * factor)
                    finish(Point(space.shape, coords(step), last_axis, lanes, count), value)

            each_vector(b, 0, width, lanes, column)


SOFTMAX = Kernel("softmax", ("Softmax", "LogSoftmax"), _variants, _lower)
