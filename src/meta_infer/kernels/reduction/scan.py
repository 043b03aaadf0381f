"""CumSum and CumProd: running totals along one axis, forwards or from the end, with or without the element itself.

Totals are serial along the axis, so the order never changes; vectors run along the dims behind it where there are any.

No knob: the order along the axis is fixed, and what a chunk is hardly shows beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Expr, Type, binary, const
from meta_infer.ir.shapes import product
from meta_infer.kernels.fold import each_vector, identity, row_chunks
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import bind
from meta_infer.ops.attrs import bool_of, int_of
from meta_infer.support.dtypes import BOOL

OPERATIONS = {"CumSum": "+", "CumProd": "*"}
# Elements of a chunk: tens of microseconds.
GRAIN = 16384


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue or group.values[group.inputs[0]].dtype == BOOL:
        return
    yield Variant("scan", "plain", {n: PLAIN for n in group.inputs}, {group.outputs[0]: PLAIN})


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    anchor, value = group.anchor, group.values[group.inputs[0]]
    axis, op = int_of(anchor.attrs, "axis"), OPERATIONS[anchor.op]
    exclusive, reverse = bool_of(anchor.attrs, "exclusive", False), bool_of(anchor.attrs, "reverse", False)
    b = Builder("scan")
    buffers = bind(b, group)
    x, y = buffers[group.inputs[0]], buffers[group.outputs[0]]
    behind = product(value.shape[axis + 1:])
    lanes = 1 if behind == 1 else profile.lanes(value.dtype)
    length, width = b.dim(value.shape[axis]), b.dim(behind)
    with row_chunks(b, b.dim(product(value.shape[:axis])), length * width, GRAIN) as (first, last):
        with b.loop(first, last, 1, "row") as row:
            base = b.let(row * length * width, "base")

            def column(at: Expr, count: Expr | None) -> None:
                register = Type(value.dtype, lanes)
                total = b.var(const(identity(op, value.dtype), register), "total")
                with b.loop(0, length, 1, "step") as step:
                    place = length - 1 - step if reverse else step
                    index = b.let(base + place * width + at, "index")
                    element = b.let(b.load(x, index, lanes, count), "element")
                    if exclusive:
                        b.store(y, index, total, count)
                    b.assign(total, binary(op, total, element))
                    if not exclusive:
                        b.store(y, index, total, count)

            each_vector(b, 0, width, lanes, column)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


SCAN = Kernel("scan", tuple(OPERATIONS), _variants, _lower)
