"""Slice: a strided box of the input; rows are copied whole where the last axis has step 1.

Channels in blocks are sliced by whole blocks: the first one begins a block, the last one ends a block or the tensor.

Knob: `grain`, elements of a chunk (grain.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape
from meta_infer.ir.group import PLAIN, Group, Layout, Variant, blocked
from meta_infer.ir.loop import const
from meta_infer.ir.shapes import divisible, product
from meta_infer.kernels.grain import Cut, grain_knob, rows_cut, tune_grain
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import bind
from meta_infer.kernels.rows import GRAIN, along_row, copy_lanes, copy_run, each_row, strides_of
from meta_infer.ops.attrs import dims_of
from meta_infer.support.dtypes import FLOAT32


def variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant("slice", "plain", {group.inputs[0]: PLAIN}, {group.outputs[0]: PLAIN}, {"grain": GRAIN})
    block = profile.lanes(FLOAT32)
    if block > 1 and _takes_blocks(group, block):
        layout = blocked(block)
        yield Variant("slice", "blocked", {group.inputs[0]: layout}, {group.outputs[0]: layout}, {"grain": GRAIN})


def _takes_blocks(group: Group, block: int) -> bool:
    value, out = group.values[group.inputs[0]], group.values[group.outputs[0]]
    if value.dtype != FLOAT32 or value.rank < 3:
        return False
    steps, first, size = dims_of(group.anchor.attrs, "steps"), dims_of(group.anchor.attrs, "starts")[1], out.shape[1]
    if steps[1] != 1 or steps[-1] != 1 or not all(isinstance(d, int) for d in (first, size, value.shape[1])):
        return False
    return divisible(first, block) and (divisible(size, block) or first + size == value.shape[1])


def _in_blocks(dims: Shape, channels: int, block: int) -> Shape:
    """`dims` of the plain shape as those of the blocked one, whose last axis are the numbers of a row."""
    return (dims[0], channels, *dims[2:-1], dims[-1] * block)


def _cut(group: Group, variant: Variant) -> Cut:
    shape, block = group.values[group.outputs[0]].shape, variant.outputs[group.outputs[0]].block
    if block:
        shape = _in_blocks(shape, -(-int(shape[1]) // block), block)                                    # type: ignore[arg-type]
    return rows_cut(product(shape[:-1]), shape[-1] if shape else 1)


def lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    starts, steps = dims_of(group.anchor.attrs, "starts"), dims_of(group.anchor.attrs, "steps")
    b = Builder("slice")
    buffers = bind(b, group)
    src, dst = buffers[group.inputs[0]], buffers[group.outputs[0]]
    shape, out_shape = group.values[group.inputs[0]].shape, group.values[group.outputs[0]].shape
    block = layouts[group.outputs[0]].block
    if block:
        shape, out_shape = (_in_blocks(s, -(-int(s[1]) // block), block) for s in (shape, out_shape))   # type: ignore[arg-type]
        starts = _in_blocks(starts, int(starts[1]) // block, block)                                     # type: ignore[arg-type]
    strides = strides_of(b, shape)
    with each_row(b, out_shape, int(variant.knobs["grain"])) as (coords, base):
        at = const(0)
        for axis, coord in enumerate((*coords, const(0))[:len(shape)]):
            at = at + (b.dim(starts[axis]) + coord * b.dim(steps[axis])) * strides[axis]
        at = b.let(at, "at")
        width = b.dim(out_shape[-1] if out_shape else 1)
        if not steps or steps[-1] == 1:
            copy_run(b, src, at, dst, base, width, copy_lanes(profile, src.dtype))
        else:
            step = b.dim(steps[-1])
            along_row(b, 0, width, 1, lambda x, n, count: b.store(dst, base + x, b.load(src, at + x * step)))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


SLICE = Kernel("slice", ("Slice",), variants, lower, grain_knob, tune_grain(_cut))
