"""GatherND (slices picked by index tuples) and GatherElements (one element per index).

Knob: `grain`, elements of a chunk (grain.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import const, maximum, minimum
from meta_infer.ir.shapes import product
from meta_infer.kernels.grain import Cut, grain_knob, output_rows, rows_cut, tune_grain
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.picks import flat_pick, pick, unless_empty
from meta_infer.kernels.point import bind
from meta_infer.kernels.rows import GRAIN, copy_lanes, copy_run, each_row, strides_of
from meta_infer.ops.attrs import int_of


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    kernel = "gather_nd" if group.anchor.op == "GatherND" else "gather_elements"
    outputs = {n: PLAIN for n in group.outputs}
    yield Variant(kernel, "plain", {n: PLAIN for n in group.inputs}, outputs, {"grain": GRAIN})


def _cut_nd(group: Group, variant: Variant) -> Cut:
    data, picks = (group.values[n] for n in group.anchor.inputs)
    depth = picks.shape[-1]
    assert isinstance(depth, int), "checked by infer"
    return rows_cut(product(picks.shape[:-1]), product(data.shape[int_of(group.anchor.attrs, "batch_dims") + depth:]))


def _lower_nd(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    data, picks = (group.values[n] for n in group.anchor.inputs)
    batch, depth = int_of(group.anchor.attrs, "batch_dims"), picks.shape[-1]
    assert isinstance(depth, int), "checked by infer"
    b = Builder("gather_nd")
    buffers = bind(b, group)
    src, index, dst = buffers[data.name], buffers[picks.name], buffers[group.outputs[0]]
    sizes = [b.dim(d) for d in data.shape[batch:batch + depth]]
    inner, box = b.dim(product(data.shape[batch + depth:])), b.dim(product(data.shape[batch:batch + depth]))
    rows = unless_empty(b, b.dim(product(picks.shape[:-1])), product(data.shape[batch:batch + depth]))
    per_batch = b.dim(product(picks.shape[batch:-1]))
    per_chunk = maximum(const(int(variant.knobs["grain"])) // maximum(inner, 1), 1)
    with b.chunks((rows + per_chunk - 1) // per_chunk) as chunk:
        start = b.let(chunk * per_chunk, "start")
        with b.loop(start, minimum(start + per_chunk, rows), name="row") as row:
            place = flat_pick(b, index, b.let(row * depth), sizes)
            slice_at = b.let((row // per_batch * box + place) * inner, "slice_at")
            copy_run(b, src, slice_at, dst, b.let(row * inner), inner, copy_lanes(profile, src.dtype))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


def _lower_elements(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    data, picks = (group.values[n] for n in group.anchor.inputs)
    axis, last = int_of(group.anchor.attrs, "axis"), data.rank - 1
    b = Builder("gather_elements")
    buffers = bind(b, group)
    src, index, dst = buffers[data.name], buffers[picks.name], buffers[group.outputs[0]]
    strides, size = strides_of(b, data.shape), b.dim(data.shape[axis])
    with each_row(b, picks.shape, int(variant.knobs["grain"])) as (coords, base):
        fixed = const(0)
        for i, coord in enumerate(coords):
            if i != axis:
                fixed = fixed + coord * strides[i]
        fixed = b.let(fixed, "fixed")
        with b.loop(0, unless_empty(b, b.dim(picks.shape[-1]), data.shape[axis]), name="x") as x:
            place = fixed + pick(b, index, base + x, size) * strides[axis]
            b.store(dst, base + x, b.load(src, place if axis == last else place + x))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


GATHER_ND = Kernel("gather_nd", ("GatherND",), _variants, _lower_nd, grain_knob, tune_grain(_cut_nd))
GATHER_ELEMENTS = Kernel("gather_elements", ("GatherElements",), _variants, _lower_elements, grain_knob,
                         tune_grain(output_rows))
