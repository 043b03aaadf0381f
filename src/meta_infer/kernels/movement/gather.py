"""Gather: rows of `inner` elements picked by index along one axis.

An index outside [-n, n) is clamped to the nearest row: a wrong index gives a wrong row, never a wild read.

Knob: `grain`, elements of a chunk (grain.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import cast, const, maximum, minimum, select
from meta_infer.ir.shapes import product
from meta_infer.kernels.grain import Cut, grain_knob, rows_cut, tune_grain
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import bind
from meta_infer.kernels.rows import GRAIN, copy_lanes, copy_run
from meta_infer.ops.attrs import int_of
from meta_infer.support.dtypes import INT64


def variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant("gather", "plain", {n: PLAIN for n in group.inputs}, {group.outputs[0]: PLAIN}, {"grain": GRAIN})


def _cut(group: Group, variant: Variant) -> Cut:
    axis = int_of(group.anchor.attrs, "axis")
    data, picks = (group.values[n] for n in group.anchor.inputs)
    return rows_cut(product((*data.shape[:axis], *picks.shape)), product(data.shape[axis + 1:]))


def lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    axis, grain = int_of(group.anchor.attrs, "axis"), int(variant.knobs["grain"])
    data, picks = (group.values[n] for n in group.anchor.inputs)
    b = Builder("gather")
    buffers = bind(b, group)
    src, index, dst = buffers[data.name], buffers[picks.name], buffers[group.outputs[0]]
    size, count = b.dim(data.shape[axis]), b.dim(product(picks.shape))
    inner, rows = b.dim(product(data.shape[axis + 1:])), b.dim(product(data.shape[:axis])) * b.dim(product(picks.shape))
    per_chunk = maximum(const(grain) // maximum(inner, 1), 1)
    with b.chunks((rows + per_chunk - 1) // per_chunk) as chunk:
        start = b.let(chunk * per_chunk, "start")
        with b.loop(start, minimum(start + per_chunk, rows), name="row") as row:
            raw = b.let(cast(b.load(index, row % count), INT64), "raw")
            wrapped = b.let(select(raw.lt(0), raw + size, raw), "wrapped")
            inside = b.let(maximum(minimum(wrapped, size - 1), 0), "pick")
            if inner == const(1):
                b.store(dst, row, b.load(src, row // count * size + inside))
            else:
                copy_run(b, src, b.let((row // count * size + inside) * inner), dst, b.let(row * inner), inner,
                         copy_lanes(profile, src.dtype))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


GATHER = Kernel("gather", ("Gather",), variants, lower, grain_knob, tune_grain(_cut))
