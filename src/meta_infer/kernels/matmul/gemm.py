"""MatMul and Gemm with weights known at build: packed panels, a register tile, blocks of rows and columns.

All leading dims of the left-hand side are one dim of M rows, which may be dynamic. A chunk is a block of rows and a few
panels; within it each panel stays in the second-level cache while the rows pass, K being cut into blocks where a panel
or the rows are too long for that. While the rows pass over one panel they fetch the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Expr, Type, const, select
from meta_infer.ir.shapes import Dim, product
from meta_infer.kernels.collapse import collapse, keeps_shape, operand_values, unflatten
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.math_use import uses_math
from meta_infer.kernels.matmul.gemm_block import Factors, Spot, make_finish, multiply_block
from meta_infer.kernels.matmul.gemm_knobs import Choice, Size, cost_of, default_choice, knobs_of, read_choice, refuse
from meta_infer.kernels.matmul.gemm_tile import DTYPES, Ahead, pack_panels, steps_in_line
from meta_infer.kernels.point import Point, load_operand
from meta_infer.support.dtypes import dtype_of

# Steps of k that a tile fetches ahead of itself.
_DISTANCE = 16
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


def _size(group: Group) -> Size:
    problem, out = _problem(group), group.values[group.anchor.outputs[0]]
    depth, width = problem.weights.shape
    return Size(product(out.shape[:problem.lead]), depth, width, out.dtype, uses_math(group))


def _chosen(variant: Variant, choice: Choice, size: Size, profile: Profile) -> Variant:
    """`variant` with the values of `choice`, and what they take."""
    columns, item = choice.tile.columns, size.dtype.bytes
    partial = choice.block_rows if choice.depth_blocks > 1 else 0
    return replace(variant, knobs=choice.values(size),
                   scratch_bytes=(partial + choice.tile.rows * size.math) * columns * item,
                   packed_bytes=choice.tile.panels(size.width) * columns * size.depth * item,
                   cost=cost_of(choice, size, profile))


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    weights = group.constants.get(group.anchor.inputs[1])
    out = group.values[group.anchor.outputs[0]]
    if weights is None or weights.ndim not in (1, 2) or out.dtype not in DTYPES or not keeps_shape(group):
        return
    size = _size(group)
    plain = Variant("gemm", "panels", {name: PLAIN for name in group.inputs if name not in group.constants},
                    {name: PLAIN for name in group.outputs}, flops=product(out.shape) * size.depth * 2)
    yield _chosen(plain, default_choice(size, profile), size, profile)


def read_cost(group: Group, variant: Variant, profile: Profile, item: int) -> float:
    """The cost of `variant` when a weight takes `item` bytes."""
    size = _size(group)
    return cost_of(read_choice(variant.knobs, size, profile), size, profile, item)


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    return knobs_of(_size(group), profile)


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    size = _size(group)
    choice = read_choice({**variant.knobs, **values}, size, profile)
    return refuse(choice, size, profile) or _chosen(variant, choice, size, profile)


def _steps_between_fetches(choice: Choice, rows: Dim) -> int:
    """How often a tile fetches its share of the next panel: once for each line; of an unknown number of rows, for
    three tiles or more."""
    tiles = 3
    if isinstance(rows, int):
        tiles = max(1, -(-(rows // max(1, -(-rows // choice.block_rows))) // choice.tile.rows))
    return steps_in_line(-(-choice.tile.columns // tiles), choice.tile.dtype, choice.unroll) if tiles > 1 else 1


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    return lower_product(group, variant, layouts, profile, lambda panels: panels)


def lower_product(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile,
                  store: Callable[[np.ndarray], np.ndarray]) -> Lowering:
    """The product with panels as `store` keeps them (see `gemm_tile.widened`)."""
    problem, out = _problem(group), group.values[group.anchor.outputs[0]]
    depth, width = problem.weights.shape
    choice = read_choice(variant.knobs, _size(group), profile)
    tile, depth_blocks, block_rows = choice.tile, choice.depth_blocks, choice.block_rows
    panels = tile.panels(width)
    per_chunk = max(1, choice.grain // max(1, 2 * block_rows * tile.columns * depth))
    column_blocks = -(-panels // per_chunk)

    operands = operand_values(group)
    if problem.c:
        operands[problem.c] = group.values[problem.c]
    space = collapse(out.shape, operands, (problem.lead,))
    b = Builder("gemm")
    buffers = {problem.a: b.input("a", out.dtype)}
    weights = store(pack_panels(problem.weights.astype(out.dtype.numpy, copy=False), tile.columns))
    packed = b.input("weights", dtype_of(weights))
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

    finish = make_finish(b, tile, merged, space.shape, buffers, layouts, prepare, choice.abreast)
    partial = b.scratch("partial", out.dtype, block_rows * tile.columns) if depth_blocks > 1 else None
    m, a = b.dim(product(out.shape[:problem.lead])), buffers[problem.a]
    row_blocks = (m + (block_rows - 1)) // block_rows
    fetch_every = _steps_between_fetches(choice, product(out.shape[:problem.lead]))
    with b.chunks(row_blocks * column_blocks) as chunk:
        blocks = b.let(row_blocks, "row_blocks")
        row_block, column_block = b.let(chunk % blocks, "row_block"), b.let(chunk // blocks, "column_block")
        first = b.let(row_block * m // blocks, "row_first")
        count = b.let((row_block + 1) * m // blocks - first, "rows")
        a_first, a_row_step, a_step = (first, 1, m) if problem.transposed else (first * depth, depth, 1)
        start = b.let(column_block * panels // column_blocks, "panel_first")
        stop = b.let((column_block + 1) * panels // column_blocks, "panel_last")

        def factors(begin: Expr, size: Expr) -> Factors:
            """Steps begin..begin + size of k; behind them in memory lies what is needed next."""
            at = b.let(panel_at + begin * tile.columns, "panel_part")

            def fetch(row: Expr, rows: Expr) -> Ahead:
                """The tile's share of that; a tile that is alone streams, and fetches what it needs soon."""
                tiles = b.let((count + (tile.rows - 1)) // tile.rows, "tiles")
                step = b.let((tiles + (tile.columns - 1)) // tiles, "fetch_step")
                ahead = select(tiles.eq(1), const(_DISTANCE), size + row * size // count)
                return Ahead(packed, b.let(at + ahead * tile.columns, "fetch"), step, fetch_every)

            return Factors(a, a_first + begin * a_step, a_row_step, a_step, packed, at, tile.columns, size,
                           choice.unroll, fetch if choice.fetch == "next" else None)

        def place(r: Expr) -> tuple[Expr, ...]:
            return unflatten(b, b.let(first + r, "row"), space.shape[:-1])

        with b.loop(start, stop, 1, "panel") as panel:
            panel_at = b.let(panel * (depth * tile.columns), "panel_at")
            spot = Spot(place, b.let(panel * tile.columns, "column_first"))
            if partial is None:
                multiply_block(b, factors(const(0), const(depth)), count, finish, spot)
            else:
                with b.loop(0, count * tile.columns, tile.lanes, "i") as i:
                    b.store(partial, i, const(0, Type(tile.dtype, tile.lanes)))
                with b.loop(0, depth_blocks, 1, "block") as block:
                    begin = b.let(block * depth // depth_blocks, "k_first")
                    size = b.let((block + 1) * depth // depth_blocks - begin, "k_count")
                    multiply_block(b, factors(begin, size), count, finish, spot, partial,
                                   block.eq(depth_blocks - 1))
    func, dims = b.finish()
    return Lowering((KernelCall(func, tuple(names), dims),), {_PACKED: weights})


GEMM = Kernel("gemm", ("MatMul", "Gemm"), _variants, _lower, _knobs, _tune)
