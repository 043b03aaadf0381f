"""The products of attention: the register tile of all matrix products, its loop unrolled.

Both products are short, as deep as a head is wide or as a block has keys. A loop of few turns whose end is foretold
wrongly costs a tenth of it; four steps a turn leave few enough turns for that to be rare.
"""

from __future__ import annotations

from collections.abc import Sequence

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr, Operand, Type, const, splat
from meta_infer.kernels.gemm_tile import Tile, multiply, multiply_add

STEPS = 4
# Fewer chains of multiply-adds than this need several sets of accumulators, which `multiply` has.
_CHAINS = 8


def product(b: Builder, tile: Tile, rows: int, a: Buffer, a_rows: Sequence[Expr], a_step: Operand, panel: Buffer,
            panel_at: Expr, panel_step: Operand, depth: Expr, start: Sequence[Sequence[Expr]] | None = None,
            ) -> Sequence[Sequence[Expr]]:
    """As gemm_tile.multiply: `rows` x `vectors` registers, plus `start`; sums run over k in order."""
    if rows * tile.vectors < _CHAINS:
        return multiply(b, tile, rows, a, a_rows, a_step, panel, panel_at, panel_step, depth, start)
    zero = const(0, Type(tile.dtype, tile.lanes))
    acc = [[b.var(start[r][v] if start else zero, "acc") for v in range(tile.vectors)] for r in range(rows)]

    def step(k: Expr) -> None:
        at = b.let(panel_at + k * panel_step, "at")
        right = [b.let(b.load(panel, at + v * tile.lanes, tile.lanes), "r") for v in range(tile.vectors)]
        for row, first in zip(acc, a_rows, strict=True):
            left = b.let(splat(b.load(a, first + k * a_step), tile.lanes), "l")
            for total, vector in zip(row, right, strict=True):
                b.assign(total, multiply_add(left, vector, total))

    whole = b.let(depth // STEPS * STEPS, "whole")
    with b.loop(0, whole, STEPS, "k") as k:
        for s in range(STEPS):
            step(k + s)
    with b.loop(whole, depth, 1, "k") as k:
        step(k)
    return acc
