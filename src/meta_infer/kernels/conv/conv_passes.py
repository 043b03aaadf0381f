"""Parts of the input channels, one after another: the weights of a part stay in L1 for all positions of a chunk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr
from meta_infer.kernels.conv.conv_tile import Accumulators, start_tile


@dataclass(frozen=True)
class Passes:
    """A loop over parts of the input blocks, `size` each. The sums of a tile wait in `kept` between them.

    `kept` is None where there is one pass.
    """

    in_blocks: int
    size: int
    kept: Buffer | None
    block: int

    def run(self, b: Builder, sweep: Callable[[Expr | int, Expr | int], None]) -> None:
        """`sweep(first, last)` for every part: the first, those between as one loop, the one with the epilogue."""
        final = (self.in_blocks - 1) // self.size * self.size
        if final:
            sweep(0, self.size)
        if final > self.size:
            with b.loop(self.size, final, self.size, name="pass") as middle:
                sweep(middle, b.let(middle + self.size, "pass_end"))
        sweep(final, self.in_blocks)

    def length(self, first: Expr | int, last: Expr | int) -> int:
        return last - first if isinstance(last, int) and isinstance(first, int) else self.size

    def start(self, b: Builder, vectors: int, columns: int, place: Expr, first: Expr | int,
              bias: Callable[[int], Expr]) -> Accumulators:
        """Registers with the bias, or with what the last pass left; `place` counts columns of the chunk."""
        kept = self.kept
        if kept is None or isinstance(first, int) and first == 0:
            return start_tile(b, vectors, columns, self.block, lambda v, j: bias(v))
        at = place * (vectors * self.block)
        return start_tile(b, vectors, columns, self.block,
                          lambda v, j: b.load(kept, at + (j * vectors + v) * self.block, self.block))

    def keep(self, b: Builder, acc: Accumulators, place: Expr, last: Expr | int) -> bool:
        """Store the sums for the next pass; False when this one is the last."""
        if self.kept is None or isinstance(last, int) and last == self.in_blocks:
            return False
        vectors = len(acc)
        at = place * (vectors * self.block)
        for v, row in enumerate(acc):
            for j, value in enumerate(row):
                b.store(self.kept, at + (j * vectors + v) * self.block, value)
        return True
