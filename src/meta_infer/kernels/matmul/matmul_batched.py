"""Matrix products of two operands that are known only at run time, with numpy's broadcast batch dims.

A chunk takes some products of the batch, or a block of rows and columns of one. Where rows are many it copies one
panel of the right-hand side at a time into its own memory, [K][columns] with zeros beyond the right edge, and runs the
rows of the left-hand side over it. A few rows read the right-hand side in place: a copy would cost more than it saves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, const, maximum, minimum
from meta_infer.ir.shapes import Dim, divisible, product
from meta_infer.kernels.collapse import Collapsed, collapse, keeps_shape, operand_values, unflatten
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.math_use import uses_math
from meta_infer.kernels.matmul.gemm_block import Factors, Fetch, Finish, Spot, make_finish, multiply_block
from meta_infer.kernels.matmul.gemm_tile import DTYPES, Ahead, steps_in_line
from meta_infer.kernels.matmul.matmul_dots import multiply_dots
from meta_infer.kernels.matmul.matmul_knobs import Choice, Size, cost_of, default_choice, knobs_of, read_choice, refuse
from meta_infer.kernels.matmul.matmul_panel import pack_panel, pack_swapped
from meta_infer.kernels.point import Point, flat_index, load_operand


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


def _size(group: Group) -> Size:
    problem, out = _problem(group), group.values[group.anchor.outputs[0]]
    return Size(problem.m, problem.k, problem.n, product(out.shape), out.dtype, uses_math(group), problem.a_swapped,
                problem.b_swapped)


def _chosen(variant: Variant, choice: Choice, size: Size, profile: Profile) -> Variant:
    return replace(variant, knobs=choice.values(size), scratch_bytes=choice.scratch_bytes(size),
                   cost=cost_of(choice, size))


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    out = group.values[group.anchor.outputs[0]]
    if out.dtype not in DTYPES or not keeps_shape(group):
        return
    size = _size(group)
    plain = Variant("matmul_batched", "panels", {name: PLAIN for name in group.inputs if name not in group.constants},
                    {name: PLAIN for name in group.outputs}, flops=product(out.shape) * size.depth * 2)
    yield _chosen(plain, default_choice(size, profile), size, profile)


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    return knobs_of(_size(group), profile)


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    size = _size(group)
    choice = read_choice({**variant.knobs, **values}, size, profile)
    return refuse(choice, size, profile) or _chosen(variant, choice, size, profile)


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


@dataclass(frozen=True)
class _Strip:
    """Rows of one product and where its factors lie; what is computed of it is one panel's columns at a time."""

    b: Builder
    problem: Problem
    choice: Choice
    finish: Finish
    buffers: Mapping[str, Buffer]
    panel: Buffer
    a_at: Expr
    a_row_step: Expr
    a_step: Expr
    b_first: Expr
    count: Expr
    n: Expr
    k: Expr

    def copied(self, spot: Spot) -> None:
        """Through a panel of its own."""
        b, p, tile = self.b, self.problem, self.choice.tile
        if p.b_swapped:
            pack_swapped(b, tile, self.buffers[p.b], self.b_first, self.n, self.k, spot.column, self.panel)
        else:
            pack_panel(b, tile, self.buffers[p.b], self.b_first, self.n, self.k, spot.column, self.panel,
                       divisible(p.n, tile.columns))
        factors = replace(self._factors(self.panel, const(0), const(tile.columns)),
                          fetch=self._fetch_next(spot) if self.choice.fetch == "next" else None)
        multiply_block(b, factors, self.count, self.finish, spot)

    def in_place(self, spot: Spot) -> None:
        """From where the right-hand side lies, row-major."""
        b, p, tile = self.b, self.problem, self.choice.tile
        source, at = self.buffers[p.b], b.let(self.b_first + spot.column, "panel_at")
        factors = self._factors(source, at, self.n)
        if divisible(p.n, tile.columns):
            multiply_block(b, factors, self.count, self.finish, spot)
            return
        with b.when((spot.column + tile.columns).le(self.n)):
            multiply_block(b, factors, self.count, self.finish, spot)
        with b.otherwise():
            factors = replace(factors, unroll=1, inside=self.n - spot.column)
            multiply_block(b, factors, self.count, self.finish, spot)

    def by_dots(self, spot: Spot) -> None:
        """From where the right-hand side lies, column-major."""
        p = self.problem
        multiply_dots(self.b, self.choice.tile, self.buffers[p.a], self.a_at, self.buffers[p.b], self.b_first, self.n,
                      self.k, self.count, self.finish, spot)

    def _factors(self, panel: Buffer, at: Expr, step: Expr) -> Factors:
        return Factors(self.buffers[self.problem.a], self.a_at, self.a_row_step, self.a_step, panel, at, step, self.k,
                       self.choice.unroll)

    def _fetch_next(self, spot: Spot) -> Fetch:
        """Each tile fetches the rows of the next one, and its share of the columns that are copied next."""
        b, p, tile = self.b, self.problem, self.choice.tile

        def fetch(first: Expr, size: Expr) -> Ahead:
            if not p.b_swapped:
                to = b.let((first + size) * self.k // self.count, "fetch_last")
                with b.loop(first * self.k // self.count, to, 1, "k") as k:
                    at = b.let(self.b_first + k * self.n + spot.column + tile.columns, "fetch")
                    b.prefetch(self.buffers[p.b], at)
                    b.prefetch(self.buffers[p.b], at + (tile.columns - 1))
            rows = b.let(self.a_at + (first + size) * self.a_row_step, "next_rows")
            if p.a_swapped:
                return Ahead(self.buffers[p.a], rows, self.a_step)
            return Ahead(self.buffers[p.a], rows, size, steps_in_line(tile.rows, tile.dtype, self.choice.unroll))

        return fetch


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    problem, out, size = _problem(group), group.values[group.anchor.outputs[0]], _size(group)
    choice, space = read_choice(variant.knobs, size, profile), _space(group, problem)
    tile, block_rows = choice.tile, choice.block_rows
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
    panel = b.scratch("panel", out.dtype, k * tile.columns if choice.copies(size) else 1)
    batch = b.dim(product(space.shape[:batch_dims]))

    def prepare(point: Point, value: Expr) -> Expr:
        if problem.alpha != 1.0:
            value = value * problem.alpha
        if not problem.c:
            return value
        c = load_operand(b, buffers[problem.c], merged.values[problem.c], PLAIN, point)
        return value + (c if problem.beta == 1.0 else c * problem.beta)

    finish = make_finish(b, tile, merged, space.shape, buffers, layouts, prepare, choice.abreast)
    per_product = maximum(m * n * k * 2, 1)
    per_chunk = maximum(const(choice.grain) // per_product, 1)                          # products
    row_blocks = (m + (block_rows - 1)) // block_rows
    panels = (n + (tile.columns - 1)) // tile.columns
    panel_flops = maximum(minimum(m, block_rows) * k * (2 * tile.columns), 1)
    panels_per_chunk = maximum(const(choice.grain) // panel_flops, 1)
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
            a_at, a_row_step, a_step = ((row_first, const(1), m) if problem.a_swapped else
                                        (row_first * k, k, const(1)))
            a_at = b.let(a_batch * m * k + a_at, "a_first")

            def place(r: Expr) -> tuple[Expr, ...]:
                return (*coords, b.let(row_first + r, "row"))

            part = _Strip(b, problem, choice, finish, buffers, panel, a_at, a_row_step, a_step, b_first, count, n, k)
            with b.loop(panel_first, panel_last, 1, "p") as p:
                spot = Spot(place, b.let(p * tile.columns, "column_first"))
                if choice.by_dots(size):
                    part.by_dots(spot)
                elif not choice.copies(size):
                    part.in_place(spot)
                elif choice.always_copies(size):
                    part.copied(spot)
                else:
                    with b.when(count.le(choice.few)):
                        part.in_place(spot)
                    with b.otherwise():
                        part.copied(spot)
    func, dims = b.finish()
    return Lowering((KernelCall(func, tuple(buffers), dims),))


MATMUL_BATCHED = Kernel("matmul_batched", ("MatMul", "Gemm"), _variants, _lower, _knobs, _tune)
