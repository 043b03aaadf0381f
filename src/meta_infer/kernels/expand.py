"""Expand: numpy broadcasting to a larger shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import const, splat
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import bind, flat_index
from meta_infer.kernels.rows import along_row, copy_lanes, copy_run, each_row


def variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant("expand", "plain", {group.inputs[0]: PLAIN}, {group.outputs[0]: PLAIN})


def lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    value, out = group.values[group.inputs[0]], group.values[group.outputs[0]]
    b = Builder("expand")
    buffers = bind(b, group)
    src, dst = buffers[value.name], buffers[out.name]
    lanes = copy_lanes(profile, src.dtype)
    lead = out.rank - value.rank
    with each_row(b, out.shape) as (coords, base):
        full = (*coords, const(0))
        at = b.let(flat_index(b, value.shape, PLAIN, tuple(
            const(0) if d == 1 else full[axis + lead] for axis, d in enumerate(value.shape))), "at")
        width = b.dim(out.shape[-1] if out.shape else 1)
        if value.shape and value.shape[-1] != 1:
            copy_run(b, src, at, dst, base, width, lanes)
        else:
            one = b.let(b.load(src, at), "one")
            along_row(b, 0, width, lanes, lambda x, n, count: b.store(dst, base + x, splat(one, n), count))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


EXPAND = Kernel("expand", ("Expand",), variants, lower)
