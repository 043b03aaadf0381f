"""Matrix products of two operands that are known only at run time, with numpy's broadcast batch dims.

A chunk takes some products of the batch, or a block of rows and columns of one. It copies one panel of the
right-hand side at a time into its own memory, [K][columns] with zeros beyond the right edge, and runs the rows of
the left-hand side over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, Type, const, maximum, minimum
from meta_infer.ir.shapes import Dim, divisible, product, usual_upper
from meta_infer.kernels.collapse import Collapsed, collapse, keeps_shape, operand_values, unflatten
from meta_infer.kernels.gemm_block import Factors, Spot, make_finish, multiply_block
from meta_infer.kernels.gemm_tile import DTYPES, Tile, tile_for
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import Point, flat_index, load_operand

# Rows that share one copied panel: the copy then costs a few percent of the product.
ROWS = 128
# Floating-point operations of a chunk: tens of microseconds on one core.
CHUNK_FLOPS = 2_000_000


@dataclass(frozen=True)
class Problem:
    """[a_batch..., M, K] times [b_batch..., K, N], operands possibly stored with their last two dims swapped."""

    a: str
    b: str
    a_batch: Shape
    b_batch: Shape
    m: Dim
    k: Dim
    n: Dim
    cuts: tuple[int, int]                                 # where rows and columns begin among the output's axes
    a_swapped: bool = False
    b_swapped: bool = False
    c: str | None = None
    alpha: float = 1.0
    beta: float = 1.0


def _problem(group: Group) -> Problem:
    anchor, out = group.anchor, group.values[group.anchor.outputs[0]]
    a, b = group.values[anchor.inputs[0]], group.values[anchor.inputs[1]]
    if anchor.op == "MatMul":
        m, k = (1, a.shape[0]) if a.rank == 1 else a.shape[-2:]
        n = 1 if b.rank == 1 else b.shape[-1]
        rows, columns = min(a.rank - 1, 1), min(b.rank - 1, 1)
        cuts = (out.rank - rows - columns, out.rank - columns)
        return Problem(a.name, b.name, a.shape[:-2], b.shape[:-2], m, k, n, cuts)
    a_swapped, b_swapped = bool(anchor.attrs.get("transA", 0)), bool(anchor.attrs.get("transB", 0))
    k, m = a.shape if a_swapped else reversed(a.shape)
    c = anchor.inputs[2] if len(anchor.inputs) > 2 else ""
    return Problem(a.name, b.name, (), (), m, k, b.shape[0 if b_swapped else 1], (0, 1), a_swapped, b_swapped,
                   c or None, float(anchor.attrs.get("alpha", 1.0)),     # type: ignore[arg-type]
                   float(anchor.attrs.get("beta", 1.0)))                 # type: ignore[arg-type]


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    out = group.values[group.anchor.outputs[0]]
    if out.dtype not in DTYPES or not keeps_shape(group):
        return
    problem, tile = _problem(group), tile_for(profile, out.dtype, out.shape[-1] if out.shape else 1)
    yield Variant(
        "matmul_batched", f"{tile.rows}x{tile.columns}",
        {name: PLAIN for name in group.inputs if name not in group.constants},
        {name: PLAIN for name in group.outputs},
        scratch_bytes=(ROWS + usual_upper(problem.k)) * tile.columns * out.dtype.bytes,
        flops=product(out.shape) * problem.k * 2)


def _pack_panel(b: Builder, tile: Tile, source: Buffer, first: Expr, width: Expr, depth: Expr, column_first: Expr,
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


def _pack_swapped(b: Builder, tile: Tile, source: Buffer, first: Expr, width: Expr, depth: Expr, column_first: Expr,
                  panel: Buffer) -> None:
    """The same from a [width][depth] matrix, element by element."""
    with b.loop(0, tile.columns, 1, "j") as j:
        row = b.let(column_first + j, "row")
        with b.when(row.lt(width)):
            with b.loop(0, depth, 1, "k") as k:
                b.store(panel, k * tile.columns + j, b.load(source, first + row * depth + k))
        with b.otherwise():
            with b.loop(0, depth, 1, "k") as k:
                b.store(panel, k * tile.columns + j, 0)


def _space(group: Group, problem: Problem) -> Collapsed:
    """The output's dims as batch, rows, columns; the two factors join in as operands of one element per product."""
    out = group.values[group.anchor.outputs[0]]
    ones = (1,) * (out.rank - problem.cuts[0])
    operands = operand_values(group)
    if problem.c:
        operands[problem.c] = group.values[problem.c]
    operands["batch of a"] = replace(out, shape=(*problem.a_batch, *ones))
    operands["batch of b"] = replace(out, shape=(*problem.b_batch, *ones))
    return collapse(out.shape, operands, problem.cuts)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    problem, out = _problem(group), group.values[group.anchor.outputs[0]]
    tile, space = tile_for(profile, out.dtype, problem.n), _space(group, problem)
    merged = space.group(group)
    batch_dims = space.starts[1]
    b = Builder("matmul")
    buffers: dict[str, Buffer] = {}
    for name in (problem.a, problem.b, *([problem.c] if problem.c else ()), *operand_values(group)):
        if name not in group.outputs and name not in buffers:
            buffers[name] = b.input("in", group.values[name].dtype)
    for name in group.outputs:
        buffers[name] = b.output("out", group.values[name].dtype)
    m, k, n = b.dim(problem.m), b.dim(problem.k), b.dim(problem.n)
    panel = b.scratch("panel", out.dtype, k * tile.columns)
    batch = b.dim(product(space.shape[:batch_dims]))

    def prepare(point: Point, value: Expr) -> Expr:
        if problem.alpha != 1.0:
            value = value * problem.alpha
        if not problem.c:
            return value
        c = load_operand(b, buffers[problem.c], merged.values[problem.c], PLAIN, point)
        return value + (c if problem.beta == 1.0 else c * problem.beta)

    finish = make_finish(b, tile, merged, space.shape, buffers, layouts, prepare)
    per_product = maximum(m * n * k * 2, 1)
    per_chunk = maximum(const(CHUNK_FLOPS) // per_product, 1)                           # products
    row_blocks = (m + (ROWS - 1)) // ROWS
    panels = (n + (tile.columns - 1)) // tile.columns
    panel_flops = maximum(minimum(m, ROWS) * k * (2 * tile.columns), 1)
    panels_per_chunk = maximum(const(CHUNK_FLOPS) // panel_flops, 1)
    column_blocks = (panels + (panels_per_chunk - 1)) // panels_per_chunk
    with b.chunks((batch + (per_chunk - 1)) // per_chunk * row_blocks * column_blocks) as chunk:
        blocks, strips = b.let(row_blocks, "row_blocks"), b.let(column_blocks, "column_blocks")
        some, count_panels = b.let(per_chunk, "per_chunk"), b.let(panels, "panels")
        rest = b.let(chunk // strips, "rest")
        first_product = b.let(rest // blocks * some, "product_first")
        strip, row_block = b.let(chunk % strips, "strip"), b.let(rest % blocks, "row_block")
        panel_first = b.let(strip * count_panels // strips, "panel_first")
        panel_last = b.let((strip + 1) * count_panels // strips, "panel_last")
        row_first = b.let(row_block * m // blocks, "row_first")
        count = b.let((row_block + 1) * m // blocks - row_first, "rows")
        with b.loop(first_product, minimum(first_product + some, batch), 1, "product") as which:
            coords = unflatten(b, which, space.shape[:batch_dims])
            a_batch, b_batch = (flat_index(b, space.values[f"batch of {factor}"].shape[:batch_dims], PLAIN, coords)
                                for factor in "ab")
            b_first = b.let(b_batch * k * n, "b_first")
            a_at, a_row_step, a_step = (row_first, 1, m) if problem.a_swapped else (row_first * k, k, 1)
            a_at = b.let(a_batch * m * k + a_at, "a_first")

            def place(r: Expr) -> tuple[Expr, ...]:
                return (*coords, b.let(row_first + r, "row"))

            with b.loop(panel_first, panel_last, 1, "p") as p:
                column = b.let(p * tile.columns, "column_first")
                if problem.b_swapped:
                    _pack_swapped(b, tile, buffers[problem.b], b_first, n, k, column, panel)
                else:
                    _pack_panel(b, tile, buffers[problem.b], b_first, n, k, column, panel,
                                divisible(problem.n, tile.columns))
                factors = Factors(buffers[problem.a], a_at, a_row_step, a_step, panel, const(0), tile.columns, k)
                multiply_block(b, factors, count, finish, Spot(place, column))
    func, dims = b.finish()
    return Lowering((KernelCall(func, tuple(buffers), dims),))


MATMUL_BATCHED = Kernel("matmul_batched", ("MatMul", "Gemm"), _variants, _lower)
