"""A few rows times a matrix that is stored by columns, [N][K]: dot products along k, some columns at a time.

Each column keeps a vector of partial sums; in the end they are transposed in registers and added, so that a vector of
results comes out as from any other product. Nothing is copied: this is for so few rows that a copy would cost more.
"""

from __future__ import annotations

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr, Type, const, minimum
from meta_infer.kernels.lane_transpose import transpose_lanes
from meta_infer.kernels.matmul.gemm_block import Finish, Rows, Spot, finish_block
from meta_infer.kernels.matmul.gemm_tile import Tile, multiply_add
from meta_infer.support.dtypes import DType

# Chains of dependent multiply-adds that keep two units of latency four busy.
_CHAINS = 8


def dots_tile(profile: Profile, dtype: DType) -> Tile:
    """One row of whole vectors of columns, enough of them to hide the latency of an addition."""
    lanes = profile.lanes(dtype)
    return Tile(dtype, lanes, max(1, _CHAINS // lanes), 1)


def multiply_dots(b: Builder, tile: Tile, a: Buffer, a_first: Expr, matrix: Buffer, matrix_first: Expr, width: Expr,
                  depth: Expr, count: Expr, finish: Finish, spot: Spot) -> None:
    """Rows 0..count of `a`, dense from `a_first`, times columns `spot.column`.. of `matrix` [width][depth].

    Columns beyond `width` repeat the last one; nobody stores them.
    """
    lanes = tile.lanes
    starts = [b.let(matrix_first + minimum(spot.column + j, width - 1) * depth, "column_at")
              for j in range(tile.columns)]
    whole = b.let(depth // lanes * lanes, "whole")

    def compute(rows: int, row: Expr) -> Rows:
        left_at = b.let(a_first + row * depth, "left_at")
        sums = [b.var(const(0, Type(tile.dtype, lanes)), "sum") for _ in starts]

        def step(k: Expr, inside: Expr | None) -> None:
            left = b.let(b.load(a, left_at + k, lanes, inside), "left")
            for total, at in zip(sums, starts, strict=True):
                b.assign(total, multiply_add(left, b.load(matrix, at + k, lanes, inside), total))

        with b.loop(0, whole, lanes, "k") as k:
            step(k, None)
        if lanes > 1:
            with b.when(whole.lt(depth)):
                step(whole, b.let(depth - whole, "count"))
        results = []
        for v in range(tile.vectors):
            parts = transpose_lanes(b, sums[v * lanes:(v + 1) * lanes])
            while len(parts) > 1:
                parts = [x + y for x, y in zip(parts[::2], parts[1::2], strict=True)]
            results.append(b.let(parts[0], "dots"))
        return [results]

    finish_block(b, count, finish, spot, compute)
