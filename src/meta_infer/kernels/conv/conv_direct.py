"""Dense 2-D convolution over blocked channels, for widths known at build.

    x [N, IB, H, W, c], weights [tile][IB][kw][kh][c][v][c]  ->  y [N, OB, H', W', c]

    for tile of output blocks:  for pass over input blocks:  for row:  for tile of columns:
        registers = bias, or what the last pass left
        for input block:  for tap:  for kernel row inside the image:  for channel:  multiply-add
        epilogue, or keep for the next pass

Which taps of a tile fall left or right of the image is known at build, so border tiles are code of their own and no
inner loop has a branch. Rows above and below are left out by the bounds of the loop over kernel rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout
from meta_infer.ir.loop import Expr, maximum, minimum
from meta_infer.ir.shapes import ceildiv, usual_upper
from meta_infer.kernels.blocked import blocks
from meta_infer.kernels.conv.conv_form import Form, TiledConv, form_kernel
from meta_infer.kernels.conv.conv_knobs import Problem, Tiling, tiling_of
from meta_infer.kernels.conv.conv_passes import Passes
from meta_infer.kernels.conv.conv_shape import ConvShape, extra_inputs, pack_operands
from meta_infer.kernels.conv.conv_tile import (
    Ahead,
    Bounds,
    Epilogue,
    OutRun,
    Source,
    Taps,
    accumulate,
    choose_tiles,
    simd_registers,
    split_evenly,
    straight_channels,
    tiles_in,
)
from meta_infer.kernels.conv_chunks import Work, cut, l1_bytes, l2_bytes
from meta_infer.kernels.kernel import KernelCall, KnobValue, Lowering
from meta_infer.support.dtypes import FLOAT32

# Distinct kinds of tiles (border or inner, narrow or wide) beyond which code would outgrow its use.
_MOST_KINDS = 8
# Shares of the multiply-adds' peak that a long run of steps gets: of stride 1, of kernels of one tap (which use every
# input once for each output tile), of larger strides (whose inputs lie over more cache lines), and of those that use
# only some of the lines' elements.
_LONG_RUN, _LONG_RUN_POINT, _LONG_RUN_STRIDED, _LONG_RUN_SPARSE = 0.98, 0.91, 0.88, 0.77


@dataclass(frozen=True)
class ColumnRun:
    """`count` neighbouring tiles of `columns` columns from `first` on, all with the same taps."""

    first: int
    columns: int
    count: int
    taps: Taps


def _taps(conv: ConvShape, first: int, columns: int) -> Taps:
    width, stride, dilation = conv.in_spatial[1], conv.strides[1], conv.dilations[1]
    assert isinstance(width, int)
    ranges = []
    for k in range(conv.kernel[1]):
        inside = [j for j in range(columns)
                  if 0 <= (first + j) * stride + k * dilation - conv.begin[1] < width]
        ranges.append((inside[0], inside[-1] + 1) if inside else (0, 0))
    return Taps(tuple(ranges), stride, dilation)


def column_runs(conv: ConvShape, most: int) -> list[ColumnRun]:
    """The tiles of a row, at most `most` columns wide, neighbours of one kind joined."""
    width = conv.out_spatial[1]
    assert isinstance(width, int)
    runs: list[ColumnRun] = []
    first = 0
    for columns in split_evenly(width, most):
        taps = _taps(conv, first, columns)
        last = runs[-1] if runs else None
        if last is not None and (last.columns, last.taps) == (columns, taps):
            runs[-1] = ColumnRun(last.first, columns, last.count + 1, taps)
        else:
            runs.append(ColumnRun(first, columns, 1, taps))
        first += columns
    return runs


@dataclass(frozen=True)
class DirectConv(TiledConv):
    """A convolution of static width with everything chosen."""

    @property
    def scratch_elements(self) -> int:
        """Sums that wait for the next pass over input blocks: those of one output tile."""
        return self.problem.kept_elements(self.tiling)

    @property
    def cost(self) -> float:
        """Operations at peak in the time of one image: every tile of a row has its own taps inside the image."""
        conv, cycles = self.conv, 0.0
        height = usual_upper(conv.out_spatial[0])
        for run in self.tiles.runs:
            for columns in column_runs(conv, run.columns):
                taps = sum(high - low for low, high in columns.taps.ranges) / columns.columns * _rows_inside(conv)
                tile = self.problem.cycles(self.tiling, run.vectors, columns.columns, taps)
                cycles += run.count * columns.count * height * tile
        arrive = self.problem.weight_cycles(-(-height // self.tiling.lines), conv)
        dense, sparse = (_LONG_RUN, _LONG_RUN_STRIDED) if conv.taps > 1 else (_LONG_RUN_POINT, _LONG_RUN_SPARSE)
        share = dense if conv.strides[1] == 1 else sparse
        return (cycles / share + arrive) * 4 * self.block


def _rows_inside(conv: ConvShape) -> float:
    """Kernel rows that meet the image, on average."""
    rows, height, out = conv.kernel[0], usual_upper(conv.in_spatial[0]), usual_upper(conv.out_spatial[0])
    stride, dilation, pad = conv.strides[0], conv.dilations[0], conv.begin[0]
    meets = sum(0 <= y * stride + k * dilation - pad < height for y in range(out) for k in range(rows))
    return meets / max(1, out)


def problem_direct(conv: ConvShape, block: int, in_block: int, profile: Profile) -> Problem:
    height, width = (usual_upper(d) for d in conv.out_spatial)
    return Problem(blocks(conv.out_channels, block), blocks(conv.in_channels, in_block), in_block, block, conv.taps,
                   height, width, simd_registers(profile), l2_bytes(profile),
                   lambda columns: len(column_runs(conv, columns)), has_passes=True, has_near=False)


def default_direct(conv: ConvShape, problem: Problem, profile: Profile) -> Tiling:
    """Tiles, chunks and passes for a convolution of static width."""
    height, width = (usual_upper(d) for d in conv.out_spatial)
    block, in_block, in_blocks, out_blocks = problem.block, problem.in_block, problem.in_blocks, problem.out_blocks
    tiles = choose_tiles(out_blocks, width, profile)
    in_row = in_blocks * in_block * usual_upper(conv.in_spatial[1]) * 4
    per_block = in_blocks * in_block * conv.taps * block * 4
    images = conv.y.shape[0] if isinstance(conv.y.shape[0], int) else 1
    in_pass = _in_group(in_blocks, per_block // in_blocks * tiles.sizes[0], profile)
    reach = (conv.kernel[0] - 1) * conv.dilations[0] + 1
    work = Work(images, len(tiles.sizes), height, 1, in_row * min(conv.strides[0], reach),
                in_row * max(0, reach - conv.strides[0]), per_block * out_blocks,
                2.0 * per_block / 4 * out_blocks * height * width, in_pass < in_blocks)
    chosen, columns = cut(work, profile), max(run.columns for run in tiles.runs)
    return Tiling(tiles.sizes[0], columns, chosen.tiles, chosen.lines, in_pass,
                  straight_channels(in_block, tiles.sizes[0] * tiles.runs[0].columns),
                  int(per_block * out_blocks > l2_bytes(profile) // 2), 0)


def _in_group(in_blocks: int, block_bytes: int, profile: Profile) -> int:
    """Input blocks of one pass, `block_bytes` being a tile's weights for one block.

    A tile whose weights come from L2 again and again runs at L2's speed; passes over few input blocks keep them in
    a third of L1 for all positions of a chunk, for the price of storing the sums in between.
    """
    l1 = l1_bytes(profile)
    if in_blocks * block_bytes <= 3 * l1 // 2:
        return in_blocks
    passes = -(-in_blocks // max(1, l1 // 3 // block_bytes))
    return -(-in_blocks // passes)


def fits_direct(group: Group, conv: ConvShape | None) -> bool:
    """Dense, 2-D, static channels and width, and few kinds of column tiles."""
    if conv is None or len(conv.kernel) != 2 or conv.group != 1:
        return False
    width, channels = conv.in_spatial[1], (conv.in_channels, conv.out_channels)
    if not isinstance(width, int) or not all(isinstance(c, int) for c in channels) or 0 in conv.y.shape:
        return False
    return len(column_runs(conv, 6)) <= _MOST_KINDS


def _plan(conv: ConvShape, block: int, in_block: int, profile: Profile,
          knobs: Mapping[str, KnobValue] | None) -> DirectConv:
    problem = problem_direct(conv, block, in_block, profile)
    return DirectConv(conv, default_direct(conv, problem, profile) if knobs is None else tiling_of(knobs), problem)


def kernel_rows(conv: ConvShape, b: Builder, y: Expr) -> Bounds:
    """Kernel rows [low, high) that meet the image for output row `y`."""
    pad, stride, dilation, rows = conv.begin[0], conv.strides[0], conv.dilations[0], conv.kernel[0]
    if not pad and not conv.end[0]:
        return 0, rows
    height = b.dim(conv.in_spatial[0])
    top = b.let(y * stride, "top")
    low = b.let((maximum(pad - top, 0) + (dilation - 1)) // dilation, "kh_low")
    high = b.let(minimum((maximum(height + pad - top, 0) + (dilation - 1)) // dilation, rows), "kh_high")
    return low, high


def _lower(group: Group, plan: DirectConv, layouts: Mapping[str, Layout], name: str) -> Lowering:
    """The loop nest of the module's note."""
    b = Builder(name)
    conv, block = plan.conv, plan.block
    x, w, bias = (b.input(n, FLOAT32) for n in ("x", "w", "bias"))
    extras = extra_inputs(group, conv)
    buffers = {n: b.input("operand", group.values[n].dtype) for n in extras}
    buffers |= {n: b.output("y", group.values[n].dtype) for n in group.outputs}
    epilogue = Epilogue(group, conv.y, buffers, layouts, block)
    out_height, out_width = conv.out_spatial
    assert isinstance(out_width, int)
    tiles, lines = plan.tiling.tiles, plan.tiling.lines
    tile_groups = -(-len(plan.tiles.sizes) // tiles)
    row_groups = ceildiv(out_height, lines)
    kept = b.scratch("kept", FLOAT32, plan.scratch_elements) if plan.scratch_elements else None
    passes = Passes(plan.in_blocks, plan.tiling.in_blocks, kept, block)

    def out_tile(run: OutRun, n: Expr, tile: Expr, y0: Expr, y1: Expr) -> None:
        out_block = b.let(run.block + tile * run.vectors, "ob")
        x_image = b.let(n * plan.in_blocks, "image")
        height, width = (b.dim(d) for d in conv.in_spatial)
        w_tile = b.let(out_block * plan.tile_weights, "w_tile")

        def one(columns: ColumnRun, y: Expr, column: Expr, rows: Bounds,
                first: Expr | int, last: Expr | int) -> None:
            vectors, count = run.vectors, columns.columns
            place = (y - y0) * out_width + column
            if plan.tiling.ahead:
                per_block = conv.taps * plan.in_block * vectors * block
                Ahead(w, w_tile + last * per_block, passes.length(first, last) * per_block,
                      plan.weights - 1, lines * out_width).ask(b, place, count)
            acc = passes.start(b, vectors, count, place, first, lambda v: b.load(bias, (out_block + v) * block, block))
            left = column * conv.strides[1] - conv.begin[1]

            def x_row(ib: Expr, kh: Expr) -> Expr:
                row = y * conv.strides[0] + kh * conv.dilations[0] - conv.begin[0]
                return (((x_image + ib) * height + row) * width + left) * plan.in_block

            source = Source(x, w, x_row, w_tile, conv.kernel[0], block, plan.in_block, plan.tiling.unroll)
            accumulate(b, acc, source, columns.taps, rows, (first, last))
            if not passes.keep(b, acc, place, last):
                epilogue.finish(b, acc, n, out_block, y, column)

        def sweep(first: Expr | int, last: Expr | int) -> None:
            with b.loop(y0, y1, name="y") as y:
                rows = kernel_rows(conv, b, y)
                for columns in column_runs(conv, run.columns):
                    if columns.count == 1:
                        one(columns, y, b.let(columns.first), rows, first, last)
                        continue
                    end = columns.first + columns.count * columns.columns
                    with b.loop(columns.first, end, columns.columns, name="column") as column:
                        one(columns, y, column, rows, first, last)

        passes.run(b, sweep)

    with b.chunks(b.dim(conv.y.shape[0]) * (tile_groups * b.dim(row_groups))) as chunk:
        row_group = b.let(chunk % b.dim(row_groups), "row_group")
        rest = b.let(chunk // b.dim(row_groups), "rest")
        tile_group, n = b.let(rest % tile_groups, "tile_group"), b.let(rest // tile_groups, "n")
        y0 = b.let(row_group * lines, "y0")
        y1 = b.let(minimum(y0 + lines, b.dim(out_height)), "y1")
        for run in plan.tiles.runs:
            low, high = tiles_in(run, tile_group * tiles, tile_group * tiles + tiles)
            with b.loop(low, high, name="tile") as tile:
                out_tile(run, n, tile, y0, y1)
    func, dims = b.finish()
    packed = pack_operands(group, conv, plan.tiles.sizes, block, plan.in_block)
    args = (conv.x.name, *packed, *extras, *group.outputs)
    return Lowering((KernelCall(func, args, dims),), packed)


DIRECT = Form(fits_direct, _plan, _lower)
CONV_DIRECT = form_kernel("conv_direct", {"conv_direct": DIRECT})
