"""Solving a dimension for one of its symbols."""

from __future__ import annotations

from meta_infer.ir.shapes import Dim, Symbol, floordiv, substitute


def solve(dim: Dim, symbol: Symbol, value: Dim) -> Dim | None:
    """What `symbol` must be for `dim` to be `value`, None when `dim` is not linear in it.

        solve(2*n + m, n, 7)  ->  (7 - m) // 2
    """
    rest = substitute(dim, {symbol.name: 0})
    slope = substitute(dim, {symbol.name: 1}) - rest
    if not isinstance(slope, int) or slope == 0 or dim - rest - symbol.dim * slope != 0:
        return None
    return floordiv(value - rest, slope) if slope > 0 else floordiv(rest - value, -slope)
