"""Slice: a strided box of the input; rows are copied whole where the last axis has step 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import const
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import bind
from meta_infer.kernels.rows import along_row, copy_lanes, copy_run, each_row, strides_of


def variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant("slice", "plain", {group.inputs[0]: PLAIN}, {group.outputs[0]: PLAIN})


def lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    starts, steps = group.anchor.attrs["starts"], group.anchor.attrs["steps"]
    assert isinstance(starts, tuple) and isinstance(steps, tuple)
    b = Builder("slice")
    buffers = bind(b, group)
    src, dst = buffers[group.inputs[0]], buffers[group.outputs[0]]
    shape, out_shape = group.values[group.inputs[0]].shape, group.values[group.outputs[0]].shape
    strides = strides_of(b, shape)
    with each_row(b, out_shape) as (coords, base):
        at = const(0)
        for axis, coord in enumerate((*coords, const(0))[:len(shape)]):
            at = at + (b.dim(starts[axis]) + coord * b.dim(steps[axis])) * strides[axis]  # type: ignore[arg-type]
        at = b.let(at, "at")
        width = b.dim(out_shape[-1] if out_shape else 1)
        if not steps or steps[-1] == 1:
            copy_run(b, src, at, dst, base, width, copy_lanes(profile, src.dtype))
        else:
            step = b.dim(steps[-1])  # type: ignore[arg-type]
            along_row(b, 0, width, 1, lambda x, n, count: b.store(dst, base + x, b.load(src, at + x * step)))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


SLICE = Kernel("slice", ("Slice",), variants, lower)
