"""NonZero: the coordinates of all elements that are not zero, in row-major order.

Parts of the tensor count first; once every part knows where it begins, all write (counted.py).

No knob: the parts that count and those that write have to be the same, and both passes run at the speed of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, const, minimum, select
from meta_infer.ir.shapes import ceildiv, product
from meta_infer.kernels.counted import BEGINS, COUNTS, count_temps, place_parts
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.rows import GRAIN, unravel
from meta_infer.support.dtypes import BOOL, INT64


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant("non_zero", "plain", {group.inputs[0]: PLAIN}, {group.outputs[0]: PLAIN})


def is_not_zero(b: Builder, src: Buffer, at: Expr) -> Expr:
    """Whether the element at `at` counts; NaN does."""
    element = b.load(src, at)
    return element if src.dtype == BOOL else element.ne(0)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    x, out = group.values[group.inputs[0]], group.values[group.outputs[0]]
    total, size = product(x.shape), out.shape[1]
    parts = ceildiv(total, GRAIN)

    b = Builder("non_zero_count")
    src, counts, elements = b.input("x", x.dtype), b.output("counts", INT64), b.dim(total)
    with b.chunks(b.dim(parts)) as part:
        count = b.var(const(0), "count")
        with b.loop(b.let(part * GRAIN), b.let(minimum((part + 1) * GRAIN, elements)), name="at") as at:
            b.assign(count, count + select(is_not_zero(b, src, at), const(1), const(0)))
        b.store(counts, part, count)
    func, dims = b.finish()
    count_call = KernelCall(func, (x.name, COUNTS), dims)

    b = Builder("non_zero_write")
    src, begins, dst = b.input("x", x.dtype), b.input("begins", INT64), b.output("places", INT64)
    elements, columns = b.dim(total), b.dim(size)
    with b.chunks(b.dim(parts)) as part:
        to = b.var(b.load(begins, part), "to")
        with b.loop(b.let(part * GRAIN), b.let(minimum((part + 1) * GRAIN, elements)), name="at") as at:
            with b.when(is_not_zero(b, src, at)):
                for axis, coord in enumerate(unravel(b, at, x.shape)):
                    b.store(dst, columns * axis + to, coord)
                b.assign(to, to + 1)
    func, dims = b.finish()
    write_call = KernelCall(func, (x.name, BEGINS, out.name), dims)
    return Lowering((count_call, place_parts(parts, size), write_call), temps=count_temps(parts))


NON_ZERO = Kernel("non_zero", ("NonZero",), _variants, _lower)
