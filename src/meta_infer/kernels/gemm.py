"""MatMul and Gemm with weights known at build: packed panels, a register tile, blocks of rows and columns.

All leading dims of the left-hand side are one dim of M rows, which may be dynamic. A chunk is a block of at most
`ROWS` rows and a few panels; within it each panel stays in the second-level cache while the rows pass, K being cut
into blocks where a panel is too long for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Expr, Type, const
from meta_infer.ir.shapes import product
from meta_infer.kernels.collapse import collapse, keeps_shape, operand_values, unflatten
from meta_infer.kernels.gemm_block import Factors, Spot, make_finish, multiply_block
from meta_infer.kernels.gemm_tile import DTYPES, Tile, pack_panels, tile_for
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import Point, load_operand

# Rows of a block: twelve tiles pass over a panel before it makes room for the next.
ROWS = 72
# Floating-point operations of a chunk: tens of microseconds on one core.
CHUNK_FLOPS = 3_000_000
_PACKED = "packed:weights"


@dataclass(frozen=True)
class Problem:
    """What an anchor asks for: rows [M, K] (or [K, M]) times `weights` [K, N], plus beta * c."""

    a: str
    a_shape: Shape
    transposed: bool
    weights: np.ndarray
    c: str | None
    beta: float
    lead: int                                            # how many leading dims of the output are rows


def _problem(group: Group) -> Problem:
    anchor, out = group.anchor, group.values[group.anchor.outputs[0]]
    a, weights = anchor.inputs[0], group.constants[anchor.inputs[1]]
    shape = group.values[a].shape
    if anchor.op == "MatMul":
        matrix = weights if weights.ndim == 2 else weights[:, None]
        return Problem(a, shape, False, matrix, None, 1.0, out.rank - (weights.ndim - 1))
    if anchor.attrs.get("transB", 0):
        weights = weights.T
    alpha = float(anchor.attrs.get("alpha", 1.0))        # type: ignore[arg-type]
    if alpha != 1.0:
        weights = (weights * alpha).astype(weights.dtype)
    c = anchor.inputs[2] if len(anchor.inputs) > 2 else ""
    beta = float(anchor.attrs.get("beta", 1.0))          # type: ignore[arg-type]
    return Problem(a, shape, bool(anchor.attrs.get("transA", 0)), weights, c or None, beta, 1)


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    weights = group.constants.get(group.anchor.inputs[1])
    out = group.values[group.anchor.outputs[0]]
    if weights is None or weights.ndim not in (1, 2) or out.dtype not in DTYPES or not keeps_shape(group):
        return
    problem = _problem(group)
    depth, width = problem.weights.shape
    tile = tile_for(profile, out.dtype, width)
    yield Variant(
        "gemm", f"{tile.rows}x{tile.columns}",
        {name: PLAIN for name in group.inputs if name not in group.constants},
        {name: PLAIN for name in group.outputs},
        scratch_bytes=ROWS * tile.columns * out.dtype.bytes,
        packed_bytes=tile.panels(width) * tile.columns * depth * out.dtype.bytes,
        flops=product(out.shape) * depth * 2)


def _depth_blocks(depth: int, tile: Tile, profile: Profile) -> int:
    """Blocks of K such that one block of a panel takes half of the second-level cache: that feeds a tile in time."""
    if not profile.l2_bytes:
        return 1
    longest = max(1, profile.l2_bytes // 2 // (tile.columns * tile.dtype.bytes))
    return max(1, -(-depth // longest))


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    problem, out = _problem(group), group.values[group.anchor.outputs[0]]
    depth, width = problem.weights.shape
    tile = tile_for(profile, out.dtype, width)
    panels, depth_blocks = tile.panels(width), _depth_blocks(depth, tile, profile)
    per_chunk = max(1, CHUNK_FLOPS // max(1, 2 * ROWS * tile.columns * depth))
    column_blocks = -(-panels // per_chunk)

    operands = operand_values(group)
    if problem.c:
        operands[problem.c] = group.values[problem.c]
    space = collapse(out.shape, operands, (problem.lead,))
    b = Builder("gemm")
    buffers = {problem.a: b.input("a", out.dtype)}
    packed = b.input("weights", out.dtype)
    for name in operands:
        if name not in group.outputs and name not in buffers:
            buffers[name] = b.input("operand", group.values[name].dtype)
    for name in group.outputs:
        buffers[name] = b.output("out", group.values[name].dtype)
    names = [problem.a, _PACKED, *(n for n in buffers if n != problem.a)]
    merged = space.group(group)

    def prepare(point: Point, value: Expr) -> Expr:
        if not problem.c:
            return value
        c = load_operand(b, buffers[problem.c], merged.values[problem.c], PLAIN, point)
        return value + (c if problem.beta == 1.0 else c * problem.beta)

    finish = make_finish(b, tile, merged, space.shape, buffers, layouts, prepare)
    partial = b.scratch("partial", out.dtype, ROWS * tile.columns) if depth_blocks > 1 else None
    m, a = b.dim(product(out.shape[:problem.lead])), buffers[problem.a]
    row_blocks = (m + (ROWS - 1)) // ROWS
    with b.chunks(row_blocks * column_blocks) as chunk:
        blocks = b.let(row_blocks, "row_blocks")
        row_block, column_block = b.let(chunk % blocks, "row_block"), b.let(chunk // blocks, "column_block")
        first = b.let(row_block * m // blocks, "row_first")
        count = b.let((row_block + 1) * m // blocks - first, "rows")
        a_first, a_row_step, a_step = (first, 1, m) if problem.transposed else (first * depth, depth, 1)
        start = b.let(column_block * panels // column_blocks, "panel_first")
        stop = b.let((column_block + 1) * panels // column_blocks, "panel_last")

        def place(r: Expr) -> tuple[Expr, ...]:
            return unflatten(b, b.let(first + r, "row"), space.shape[:-1])

        with b.loop(start, stop, 1, "panel") as panel:
            panel_at = b.let(panel * (depth * tile.columns), "panel_at")
            spot = Spot(place, b.let(panel * tile.columns, "column_first"))
            if partial is None:
                factors = Factors(a, a_first, a_row_step, a_step, packed, panel_at, tile.columns, const(depth))
                multiply_block(b, factors, count, finish, spot)
            else:
                with b.loop(0, count * tile.columns, tile.lanes, "i") as i:
                    b.store(partial, i, const(0, Type(tile.dtype, tile.lanes)))
                with b.loop(0, depth_blocks, 1, "block") as block:
                    begin = b.let(block * depth // depth_blocks, "k_first")
                    size = b.let((block + 1) * depth // depth_blocks - begin, "k_count")
                    factors = Factors(a, a_first + begin * a_step, a_row_step, a_step, packed,
                                      panel_at + begin * tile.columns, tile.columns, size)
                    multiply_block(b, factors, count, finish, spot, partial, block.eq(depth_blocks - 1))
    func, dims = b.finish()
    weights = pack_panels(problem.weights.astype(out.dtype.numpy, copy=False), tile.columns)
    return Lowering((KernelCall(func, tuple(names), dims),), {_PACKED: weights})


GEMM = Kernel("gemm", ("MatMul", "Gemm"), _variants, _lower)
