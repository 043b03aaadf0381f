"""Expand: numpy broadcasting to a larger shape.

An axis whose size is only found while running may turn out to be 1, and is then read again and again.

Knob: `grain`, elements of a chunk (grain.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Expr, const, select, splat
from meta_infer.ir.shapes import Dim
from meta_infer.kernels.grain import grain_knob, output_rows, tune_grain
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import bind, flat_index
from meta_infer.kernels.rows import GRAIN, along_row, copy_lanes, copy_run, each_row
from meta_infer.ops.broadcast import may_be_one


def variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant("expand", "plain", {group.inputs[0]: PLAIN}, {group.outputs[0]: PLAIN}, {"grain": GRAIN})


def lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    value, out = group.values[group.inputs[0]], group.values[group.outputs[0]]
    b = Builder("expand")
    buffers = bind(b, group)
    src, dst = buffers[value.name], buffers[out.name]
    lanes = copy_lanes(profile, src.dtype)
    lead = out.rank - value.rank
    with each_row(b, out.shape, int(variant.knobs["grain"])) as (coords, base):
        full = (*coords, const(0))
        at = b.let(flat_index(b, value.shape, PLAIN, tuple(
            _place(b, d, out.shape[axis + lead], full[axis + lead]) for axis, d in enumerate(value.shape))), "at")
        width, last = b.dim(out.shape[-1] if out.shape else 1), value.shape[-1] if value.shape else 1

        def repeat() -> None:
            one = b.let(b.load(src, at), "one")
            along_row(b, 0, width, lanes, lambda x, n, count: b.store(dst, base + x, splat(one, n), count))

        if last == 1:
            repeat()
        elif last == out.shape[-1] or not may_be_one(last):
            copy_run(b, src, at, dst, base, width, lanes)
        else:
            with b.when(b.dim(last).eq(1)):
                repeat()
            with b.otherwise():
                copy_run(b, src, at, dst, base, width, lanes)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


def _place(b: Builder, own: Dim, wanted: Dim, coord: Expr) -> Expr:
    """Where an axis of size `own` is read for position `coord` of an axis of size `wanted`."""
    if own == 1:
        return const(0)
    return coord if own == wanted or not may_be_one(own) else select(b.dim(own).eq(1), const(0), coord)


EXPAND = Kernel("expand", ("Expand",), variants, lower, grain_knob, tune_grain(output_rows))
