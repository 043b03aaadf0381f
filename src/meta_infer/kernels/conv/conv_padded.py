"""Dense 2-D convolution over blocked channels, for any width: the part of the input a chunk needs is copied first.

    chunk: image n, some tiles of output blocks, `lines` rows from y0, `columns` columns from x0
        patch[IB][rows][cols][c] = x around it, zero outside the image             (per-thread scratch)
        for tile of output blocks:  for row:  for tile of columns:
            registers = bias;  for input block, tap, kernel row, channel:  multiply-add;  epilogue

The copy costs little beside kh*kw*OC multiply-adds per element. It serves dynamic sizes, and static ones whose pads
would give too many kinds of border tiles (`conv_direct`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout
from meta_infer.ir.loop import Buffer, Expr, Type, const, maximum, minimum
from meta_infer.ir.shapes import ceildiv, divisible, usual_upper
from meta_infer.kernels.blocked import blocks
from meta_infer.kernels.conv.conv_form import Form, TiledConv, form_kernel
from meta_infer.kernels.conv.conv_knobs import Problem, Tiling, knobs_of, tiling_of
from meta_infer.kernels.conv.conv_shape import ConvShape, extra_inputs, pack_operands
from meta_infer.kernels.conv.conv_tile import (
    Ahead,
    Epilogue,
    OutRun,
    Source,
    Taps,
    accumulate,
    choose_tiles,
    simd_registers,
    start_tile,
    straight_channels,
    tiles_in,
)
from meta_infer.kernels.conv_chunks import Work, cut, l2_bytes
from meta_infer.kernels.kernel import KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.support.dtypes import FLOAT32

# Columns of a chunk, in tiles: the taps beyond its ends are read twice, so wide chunks waste less.
_WIDE = 8
# Share of the multiply-adds' peak that a long run of steps gets, and cycles for copying a vector into the patch.
_LONG_RUN, _COPY_CYCLES = 0.93, 1.5
_LOAD_CYCLES = 0.1


@dataclass(frozen=True)
class PaddedConv(TiledConv):
    """A convolution with everything chosen. A chunk has `strip` columns."""

    strip: int

    @property
    def knob_values(self) -> Mapping[str, KnobValue]:
        return {**super().knob_values, "strip": self.strip}

    @property
    def patch(self) -> tuple[int, int]:
        """Rows and columns of input that a chunk reads; its last tiles may reach beyond its last column."""
        (sh, sw), (dh, dw), (kh, kw) = self.conv.strides, self.conv.dilations, self.conv.kernel
        reached = max(-(-self.strip // run.columns) * run.columns for run in self.tiles.runs)
        return (self.tiling.lines - 1) * sh + (kh - 1) * dh + 1, (reached - 1) * sw + (kw - 1) * dw + 1

    @property
    def scratch_elements(self) -> int:
        rows, columns = self.patch
        return self.in_blocks * rows * columns * self.in_block

    @property
    def cost(self) -> float:
        """Operations at peak in the time of one image: the tiles of all strips, and a copy for every chunk."""
        width, cycles = self.problem.line_columns, 0.0
        strips = -(-width // self.strip)
        for run in self.tiles.runs:
            tiles = (width // self.strip) * -(-self.strip // run.columns) + -(-(width % self.strip) // run.columns)
            tile = self.problem.cycles(self.tiling, run.vectors, run.columns, self.conv.taps)
            cycles += run.count * tiles * self.problem.lines * tile
        groups = -(-len(self.tiles.sizes) // self.tiling.tiles)
        chunks = strips * -(-self.problem.lines // self.tiling.lines) * groups
        copied = chunks * self.scratch_elements / self.in_block * _COPY_CYCLES
        arrive = self.problem.weight_cycles(chunks // groups, self.conv)
        return (cycles / _LONG_RUN + copied + arrive) * 4 * self.block


def problem_padded(conv: ConvShape, block: int, in_block: int, profile: Profile) -> Problem:
    height, width = (usual_upper(d) for d in conv.out_spatial)
    return Problem(blocks(conv.out_channels, block), blocks(conv.in_channels, in_block), in_block, block, conv.taps,
                   height, width, simd_registers(profile), l2_bytes(profile), lambda columns: 1, has_passes=False,
                   has_near=False)


def default_padded(conv: ConvShape, problem: Problem, profile: Profile) -> tuple[Tiling, int]:
    """Tiles, chunks and the columns of a strip; the patch of a chunk stays well inside L2 where a row of it does."""
    out_blocks, in_blocks, block, in_block = problem.out_blocks, problem.in_blocks, problem.block, problem.in_block
    tiles = choose_tiles(out_blocks, None, profile, _LOAD_CYCLES)
    step = max(run.columns for run in tiles.runs)
    height, width = (usual_upper(d) for d in conv.out_spatial)
    wide = -(-width // step)
    channels = in_blocks * in_block
    per_column = channels * ((conv.kernel[0] - 1) * conv.dilations[0] + 1) * conv.strides[1] * 4
    fitting = max(1, l2_bytes(profile) // 4 // (per_column * step))
    columns = min(wide, _WIDE, fitting) * step
    weights = channels * conv.taps * out_blocks * block
    strips = -(-width // columns)
    images = conv.y.shape[0] if isinstance(conv.y.shape[0], int) else 1
    row_bytes = columns * conv.strides[1] * channels * conv.strides[0] * 4
    work = Work(images * strips, len(tiles.sizes), height, 1, row_bytes,
                row_bytes * (conv.kernel[0] - 1) * conv.dilations[0] // conv.strides[0], weights * 4,
                2.0 * weights * height * columns)
    chosen = cut(work, profile)
    return Tiling(tiles.sizes[0], step, chosen.tiles, chosen.lines, in_blocks,
                  straight_channels(in_block, tiles.sizes[0] * tiles.runs[0].columns),
                  int(weights * 4 > l2_bytes(profile) // 2), 0), columns


def _plan(conv: ConvShape, block: int, in_block: int, profile: Profile,
          knobs: Mapping[str, KnobValue] | None) -> PaddedConv:
    problem = problem_padded(conv, block, in_block, profile)
    tiling, strip = default_padded(conv, problem, profile) if knobs is None else (tiling_of(knobs), int(knobs["strip"]))
    return PaddedConv(conv, tiling, problem, strip)


def fits_padded(group: Group, conv: ConvShape) -> bool:
    """Dense, 2-D, channels known at build."""
    if len(conv.kernel) != 2 or conv.group != 1 or 0 in conv.y.shape:
        return False
    return isinstance(conv.in_channels, int) and isinstance(conv.out_channels, int)


def _knobs(plan: PaddedConv) -> tuple[Knob, ...]:
    """Those of every dense convolution, and `strip`: the columns of a chunk."""
    strips = {plan.strip, max(1, plan.strip // 2), min(2 * plan.strip, max(plan.strip, plan.problem.line_columns))}
    return (*knobs_of(plan.problem, plan.tiling), Knob("strip", tuple(sorted(strips))))


def _unfit(tuned: PaddedConv, default: PaddedConv, profile: Profile) -> Refusal | None:
    knobs, columns = tuned.knob_values, tuned.problem.line_columns
    if not 1 <= tuned.strip <= max(default.strip, columns):
        return Refusal(knobs, "shape", f"strips of {tuned.strip} of {columns} columns")
    if tuned.scratch_elements > default.scratch_elements and tuned.scratch_elements * 4 > l2_bytes(profile):
        return Refusal(knobs, "cache", f"a patch of {tuned.scratch_elements * 4} bytes")
    return None


def _fill_patch(b: Builder, plan: PaddedConv, patch: Buffer, x: Buffer, n: Expr, y0: Expr, x0: Expr) -> None:
    """Copy what the image has of the patch and write zeros where it has nothing."""
    conv, step = plan.conv, plan.in_block
    rows, columns = plan.patch
    height, width = b.dim(conv.in_spatial[0]), b.dim(conv.in_spatial[1])
    top = b.let(y0 * conv.strides[0] - conv.begin[0], "top")
    left = b.let(x0 * conv.strides[1] - conv.begin[1], "left")
    low = b.let(minimum(maximum(const(0) - left, 0), columns), "low")
    high = b.let(maximum(minimum(width - left, columns), low), "high")
    zero = const(0.0, Type(FLOAT32, step))
    with b.loop(0, plan.in_blocks, name="ib") as ib, b.loop(0, rows, name="r") as r:
        to = b.let((ib * rows + r) * columns, "to")
        source_row = b.let(top + r, "row")
        inside = source_row.ge(0) & source_row.lt(height)
        with b.when(inside):
            source = b.let((((n * plan.in_blocks + ib) * height + source_row) * width + left) * step, "source")
            with b.loop(0, low, name="c") as c:
                b.store(patch, (to + c) * step, zero)
            with b.loop(low, high, name="c") as c:
                b.store(patch, (to + c) * step, b.load(x, source + c * step, step))
            with b.loop(high, columns, name="c") as c:
                b.store(patch, (to + c) * step, zero)
        with b.otherwise(), b.loop(0, columns, name="c") as c:
            b.store(patch, (to + c) * step, zero)


def _lower(group: Group, plan: PaddedConv, layouts: Mapping[str, Layout], name: str) -> Lowering:
    """The loop nest of the module's note."""
    b = Builder(name)
    conv, block, in_block = plan.conv, plan.block, plan.in_block
    x, w, bias = (b.input(n, FLOAT32) for n in ("x", "w", "bias"))
    extras = extra_inputs(group, conv)
    buffers = {n: b.input("operand", group.values[n].dtype) for n in extras}
    buffers |= {n: b.output("y", group.values[n].dtype) for n in group.outputs}
    epilogue = Epilogue(group, conv.y, buffers, layouts, block)
    patch = b.scratch("patch", FLOAT32, plan.scratch_elements)
    patch_rows, patch_columns = plan.patch
    out_height, out_width = conv.out_spatial
    tiles, lines, columns = plan.tiling.tiles, plan.tiling.lines, plan.strip
    tile_groups = -(-len(plan.tiles.sizes) // tiles)
    row_groups, strips = ceildiv(out_height, lines), ceildiv(out_width, columns)

    def out_tile(run: OutRun, n: Expr, tile: Expr, y0: Expr, x0: Expr, y1: Expr, x1: Expr) -> None:
        out_block = b.let(run.block + tile * run.vectors, "ob")
        w_tile = b.let(out_block * plan.tile_weights, "w_tile")
        taps = Taps(((0, run.columns),) * conv.kernel[1], conv.strides[1], conv.dilations[1])
        whole = divisible(out_width, run.columns) and columns % run.columns == 0
        elements = plan.tile_weights * run.vectors
        ahead = Ahead(w, w_tile + elements, elements, plan.weights - 1, lines * columns)
        with b.loop(y0, y1, name="y") as y, b.loop(x0, x1, run.columns, name="column") as column:
            if plan.tiling.ahead:
                ahead.ask(b, (y - y0) * columns + (column - x0), run.columns)
            acc = start_tile(b, run.vectors, run.columns, block,
                             lambda v, j: b.load(bias, (out_block + v) * block, block))

            def x_row(ib: Expr, kh: Expr) -> Expr:
                row = ib * patch_rows + (y - y0) * conv.strides[0] + kh * conv.dilations[0]
                return (row * patch_columns + (column - x0) * conv.strides[1]) * in_block

            source = Source(patch, w, x_row, w_tile, conv.kernel[0], block, in_block, plan.tiling.unroll)
            accumulate(b, acc, source, taps, (0, conv.kernel[0]), (0, plan.in_blocks))
            epilogue.finish(b, acc, n, out_block, y, column, None if whole else x1)

    with b.chunks(b.dim(conv.y.shape[0] * strips * row_groups) * tile_groups) as chunk:
        rows_dim, strips_dim = b.dim(row_groups), b.dim(strips)
        strip = b.let(chunk % strips_dim, "strip")
        rest = b.let(chunk // strips_dim, "rest")
        row_group, rest = b.let(rest % rows_dim, "row_group"), b.let(rest // rows_dim, "rest")
        tile_group, n = b.let(rest % tile_groups, "tile_group"), b.let(rest // tile_groups, "n")
        y0, x0 = b.let(row_group * lines, "y0"), b.let(strip * columns, "x0")
        y1 = b.let(minimum(y0 + lines, b.dim(out_height)), "y1")
        x1 = b.let(minimum(x0 + columns, b.dim(out_width)), "x1")
        _fill_patch(b, plan, patch, x, n, y0, x0)
        for run in plan.tiles.runs:
            low, high = tiles_in(run, tile_group * tiles, tile_group * tiles + tiles)
            with b.loop(low, high, name="tile") as tile:
                out_tile(run, n, tile, y0, x0, y1, x1)
    func, dims = b.finish()
    packed = pack_operands(group, conv, plan.tiles.sizes, block, in_block)
    args = (conv.x.name, *packed, *extras, *group.outputs)
    return Lowering((KernelCall(func, args, dims),), packed)


PADDED = Form(fits_padded, _plan, _lower, _knobs, _unfit)
CONV_PADDED = form_kernel("conv_padded", {"conv_padded": PADDED})
