"""Panels of a matrix that is known only at run time: [K][columns] copies of some of its columns, zeros beyond."""

from __future__ import annotations

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr, Type, const, minimum
from meta_infer.kernels.lane_transpose import transpose_lanes
from meta_infer.kernels.matmul.gemm_tile import Tile


def pack_panel(b: Builder, tile: Tile, source: Buffer, first: Expr, width: Expr, depth: Expr, column_first: Expr,
               panel: Buffer, always_full: bool) -> None:
    """Copy columns `column_first`.. of a row-major [depth][width] matrix into `panel`."""
    register = Type(tile.dtype, tile.lanes)

    def copy(partial: bool) -> None:
        with b.loop(0, depth, 1, "k") as k:
            for v in range(tile.vectors):
                column = b.let(column_first + v * tile.lanes, "column")
                at, to = first + k * width + column, k * tile.columns + v * tile.lanes
                if not partial:
                    b.store(panel, to, b.load(source, at, tile.lanes))
                    continue
                with b.when(column.lt(width)):
                    inside = b.let(minimum(width - column, tile.lanes), "count") if tile.lanes > 1 else None
                    b.store(panel, to, b.load(source, at, tile.lanes, inside))
                with b.otherwise():
                    b.store(panel, to, const(0, register))

    if always_full:
        copy(partial=False)
        return
    with b.when((column_first + tile.columns).le(width)):
        copy(partial=False)
    with b.otherwise():
        copy(partial=True)


def pack_swapped(b: Builder, tile: Tile, source: Buffer, first: Expr, width: Expr, depth: Expr, column_first: Expr,
                 panel: Buffer) -> None:
    """The same from a [width][depth] matrix: squares of `lanes` columns and steps are transposed in registers."""
    lanes = tile.lanes
    whole = b.let(depth // lanes * lanes, "whole")
    with b.loop(0, tile.columns, lanes, "j") as j:
        row = b.let(column_first + j, "row")
        at = b.let(first + row * depth, "row_at")
        if lanes > 1:
            with b.when((row + lanes).le(width)):
                with b.loop(0, whole, lanes, "k") as k:
                    square = [b.let(b.load(source, at + (k + c * depth), lanes), "line") for c in range(lanes)]
                    for offset, step in enumerate(transpose_lanes(b, square)):
                        b.store(panel, (k + offset) * tile.columns + j, step)
                with b.loop(0, lanes, 1, "i") as i:
                    _line(b, tile, source, at + i * depth, whole, depth, j + i, panel)
            with b.otherwise():
                with b.loop(0, lanes, 1, "i") as i:
                    _line_or_zeros(b, tile, source, first, width, depth, row + i, j + i, panel)
        else:
            _line_or_zeros(b, tile, source, first, width, depth, row, j, panel)


def _line(b: Builder, tile: Tile, source: Buffer, at: Expr, start: Expr, depth: Expr, j: Expr, panel: Buffer) -> None:
    with b.loop(start, depth, 1, "k") as k:
        b.store(panel, k * tile.columns + j, b.load(source, at + k))


def _line_or_zeros(b: Builder, tile: Tile, source: Buffer, first: Expr, width: Expr, depth: Expr, row: Expr, j: Expr,
                   panel: Buffer) -> None:
    with b.when(row.lt(width)):
        _line(b, tile, source, first + row * depth, const(0), depth, j, panel)
    with b.otherwise(), b.loop(0, depth, 1, "k") as k:
        b.store(panel, k * tile.columns + j, 0)
