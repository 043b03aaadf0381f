"""The middle step of kernels whose output's size depends on data: how much every part found, then where it goes.

    count   every part writes how many it found                                  in parallel
    place   where each part begins, and how many there are in all                this function
    write   the size is known now: every part writes to where it begins          in parallel
"""

from __future__ import annotations

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import const
from meta_infer.ir.shapes import Dim
from meta_infer.kernels.kernel import KernelCall, Temp, sizes_found
from meta_infer.support.dtypes import INT64

COUNTS, BEGINS, TOTAL = "temp:counts", "temp:begins", "temp:total"
"""Names of the temps: elements found by each part, where each begins, and their sum. No value is called so."""


def count_temps(parts: Dim) -> tuple[Temp, ...]:
    return Temp(COUNTS, INT64, (parts,)), Temp(BEGINS, INT64, (parts,)), Temp(TOTAL, INT64, (1,))


def place_parts(parts: Dim, size: Dim) -> KernelCall:
    """Sums up the counts of `parts` parts; the total is the size `size`."""
    b = Builder("place_parts")
    counts, begins, total = b.input("counts", INT64), b.output("begins", INT64), b.output("total", INT64)
    number = b.dim(parts)
    with b.chunks(1):
        sum = b.var(const(0), "sum")
        with b.loop(0, number, name="part") as part:
            b.store(begins, part, sum)
            b.assign(sum, sum + b.load(counts, part))
        b.store(total, 0, sum)
    func, dims = b.finish()
    return KernelCall(func, (COUNTS, BEGINS, TOTAL), dims, sizes_found(size, TOTAL))
