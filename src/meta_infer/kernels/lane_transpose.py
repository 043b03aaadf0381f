"""A square of elements, as many vectors as each has lanes, transposed in registers."""

from __future__ import annotations

from collections.abc import Sequence

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Expr, shuffle


def transpose_lanes(b: Builder, rows: Sequence[Expr]) -> list[Expr]:
    """Vector i of the result holds lane i of every row; there are a power of two of both.

    At step s = 1, 2, 4... pairs of rows swap their off-diagonal s x s blocks.
    """
    rows, size = list(rows), len(rows)
    step = 1
    while step < size:
        low = tuple(i if not i & step else size + i - step for i in range(size))
        high = tuple(i + step if not i & step else size + i for i in range(size))
        for i in range(size):
            if not i & step:
                first, second = rows[i], rows[i + step]
                rows[i] = b.let(shuffle(first, second, low), "t")
                rows[i + step] = b.let(shuffle(first, second, high), "t")
        step *= 2
    return rows
