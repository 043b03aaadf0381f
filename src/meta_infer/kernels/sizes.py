"""Shape and Size where their numbers are used as data: the dims of a call, written to memory.

Where only other shapes depend on them they fold away at import and nothing reaches this kernel.

No knob: it stores a handful of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.shapes import product
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.ops.attrs import int_of


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant("sizes", "plain", {}, {group.outputs[0]: PLAIN})   # the input's memory is not read: any layout fits


def _numbers(group: Group) -> Shape:
    shape, attrs = group.values[group.inputs[0]].shape, group.anchor.attrs
    if group.anchor.op == "Size":
        return (product(shape),)
    return shape[int_of(attrs, "start", 0):int_of(attrs, "end", len(shape))]


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    out = group.values[group.outputs[0]]
    b = Builder("sizes")
    numbers = b.output("numbers", out.dtype)
    with b.chunks(1):
        for i, dim in enumerate(_numbers(group)):
            b.store(numbers, i, b.dim(dim))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (out.name,), dims),))


SIZES = Kernel("sizes", ("Shape", "Size"), _variants, _lower)
