"""Register tiles of a 1x1 convolution over positions that lie one after another, from any buffer into any buffer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr
from meta_infer.kernels.conv.conv_tile import Accumulators, OutRun, Source, Taps, accumulate, start_tile

Finish = Callable[[Accumulators, Expr, Expr], None]
"""Takes a tile of results: (registers [vector][position], first output block, first position)."""


@dataclass(frozen=True)
class Positions:
    """`x_at(input block)` is the element of position 0 of a block in `x`; weights are packed tile by tile."""

    b: Builder
    x: Buffer
    w: Buffer
    bias: Buffer
    x_at: Callable[[Expr], Expr]
    in_blocks: int
    block: int

    def sweep(self, run: OutRun, out_block: Expr, first: Expr, last: Expr, finish: Finish) -> None:
        """One tile of output blocks over positions [first, last): wide tiles, then narrower ones for the rest."""
        b = self.b
        w_tile = b.let(out_block * (self.in_blocks * self.block * self.block), "w_tile")
        for columns in sorted({run.columns, max(1, run.columns // 2), 1}, reverse=True):
            end = b.let(first + (last - first) // columns * columns, "end")
            with b.loop(first, end, columns, name="p", apart=True) as p:
                acc = start_tile(b, run.vectors, columns, self.block,
                                 lambda v, j: b.load(self.bias, (out_block + v) * self.block, self.block))
                source = Source(self.x, self.w, lambda ib, kh, p=p: self.x_at(ib) + p * self.block,  # type: ignore[misc]
                                w_tile, 1, self.block, self.block)
                accumulate(b, acc, source, Taps(((0, columns),), 1, 1), (0, 1), (0, self.in_blocks))
                finish(acc, out_block, p)
            first = end
