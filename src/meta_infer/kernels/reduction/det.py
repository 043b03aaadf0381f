"""Det: determinants by elimination with the largest pivot of each column, in float64, one matrix at a time.

No knob: elimination is a chain of divisions, and matrices are small and few.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Type, cast, const, select, unary
from meta_infer.ir.shapes import product
from meta_infer.kernels.fold import row_chunks
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import bind
from meta_infer.support.dtypes import FLOAT64

# Multiplications of a chunk: tens of microseconds.
GRAIN = 16384


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant("det", "plain", {n: PLAIN for n in group.inputs}, {group.outputs[0]: PLAIN})


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    value = group.values[group.inputs[0]]
    b = Builder("det")
    buffers = bind(b, group)
    x, y, n = buffers[group.inputs[0]], buffers[group.outputs[0]], b.dim(value.shape[-1])
    work = b.scratch("work", FLOAT64, n * n)
    with row_chunks(b, b.dim(product(value.shape[:-2])), n * n * n, GRAIN) as (first, last):
        with b.loop(first, last, 1, "matrix") as matrix:
            with b.loop(0, n * n, 1, "i") as i:
                b.store(work, i, cast(b.load(x, matrix * n * n + i), FLOAT64))
            total = b.var(const(1.0, Type(FLOAT64)), "total")
            with b.loop(0, n, 1, "k") as k:
                best, pivot = b.var(unary("abs", b.load(work, k * n + k)), "best"), b.var(k + 0, "pivot")
                with b.loop(k + 1, n, 1, "row") as row:
                    size = b.let(unary("abs", b.load(work, row * n + k)), "size")
                    wins = b.let(size.gt(best), "wins")
                    b.assign(pivot, select(wins, row, pivot))
                    b.assign(best, select(wins, size, best))
                with b.when(pivot.ne(k)):
                    b.assign(total, -total)
                    with b.loop(k, n, 1, "column") as column:
                        upper = b.let(b.load(work, k * n + column), "upper")
                        b.store(work, k * n + column, b.load(work, pivot * n + column))
                        b.store(work, pivot * n + column, upper)
                diagonal = b.let(b.load(work, k * n + k), "diagonal")
                b.assign(total, total * diagonal)
                with b.when(diagonal.ne(0.0)), b.loop(k + 1, n, 1, "row") as row:
                    factor = b.let(b.load(work, row * n + k) / diagonal, "factor")
                    with b.loop(k + 1, n, 1, "column") as column:
                        b.store(work, row * n + column,
                                b.load(work, row * n + column) - factor * b.load(work, k * n + column))
            b.store(y, matrix, cast(total, value.dtype))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


DET = Kernel("det", ("Det",), _variants, _lower)
