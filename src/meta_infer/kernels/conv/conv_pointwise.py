"""1x1 convolution over blocked channels: a matrix product over all positions of an image at once.

    x [N, IB, HW, c], weights [tile][IB][c][v][c]  ->  y [N, OB, HW, c]

    chunk: image n, some tiles of output blocks, `lines` positions from p0
        for tile of output blocks:  for tile of positions:
            registers = bias;  for input block, channel:  multiply-add;  epilogue

Rows do not matter, so tiles run across them: 7 x 7 is 49 positions. With a stride, a chunk first copies the positions
it needs, one after another, into scratch [IB, lines, c].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import lcm

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape, Value
from meta_infer.ir.group import Group, Layout
from meta_infer.ir.loop import Buffer, Expr, const, maximum, minimum
from meta_infer.ir.shapes import Dim, ceildiv, product, usual_upper
from meta_infer.kernels.blocked import blocks
from meta_infer.kernels.conv.conv_form import Form, TiledConv, form_kernel
from meta_infer.kernels.conv.conv_knobs import Problem, Tiling, tiling_of
from meta_infer.kernels.conv.conv_passes import Passes
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
    split_evenly,
    straight_channels,
    tiles_in,
)
from meta_infer.kernels.conv_chunks import Work, cut, l1_bytes, l2_bytes
from meta_infer.kernels.kernel import KernelCall, KnobValue, Lowering
from meta_infer.support.dtypes import FLOAT32

# Share of the multiply-adds' peak that a long run of steps gets.
_LONG_RUN = 0.96
_LOAD_CYCLES = 0.1
# Input blocks of which a processor notices by itself that they are read one after another.
_GUESSED_STREAMS = 8
# Output tiles that share what a chunk copies, at least, and cycles for copying a vector.
_TILES_OF_COPY, _COPY_CYCLES = 12, 2.0


def _flat_shape(shape: Shape, image: Shape) -> Shape | None:
    """[..., H, W] -> [..., 1, H*W] as an operand of rank-4 [N, C, 1, H*W]; None when it varies over one of H and W."""
    full = (1,) * (2 + len(image) - len(shape)) + shape
    spatial = full[2:]
    if all(d == 1 for d in spatial):
        return (*full[:2], 1, 1)
    return (*full[:2], 1, product(spatial)) if spatial == image else None


def flatten(group: Group, conv: ConvShape) -> Group | None:
    """The group with all tensors seen as [N, C, 1, HW]; None when an operand does not allow that."""
    seen: dict[str, Value] = {}
    for name, value in group.values.items():
        if name in (conv.weight.name, conv.bias.name if conv.bias else ""):
            continue
        shape = _flat_shape(value.shape, conv.out_spatial)
        if shape is None and name == conv.x.name and set(conv.strides) != {1}:
            continue                                                     # the convolution alone reads it, by rows
        if shape is None:
            return None
        seen[name] = replace(value, shape=shape)
    return replace(group, values={**group.values, **seen})


@dataclass(frozen=True)
class PointwiseConv(TiledConv):
    """The convolution with everything chosen; lines are positions."""

    @property
    def positions(self) -> Dim:
        return product(self.conv.out_spatial)

    @property
    def gathers(self) -> bool:
        """Whether a chunk's positions are copied first, because they are not neighbours."""
        return set(self.conv.strides) != {1}

    @property
    def panel_elements(self) -> int:
        return self.in_blocks * self.tiling.lines * self.block if self.gathers else 0

    @property
    def scratch_elements(self) -> int:
        return self.problem.kept_elements(self.tiling) + self.panel_elements

    def is_whole(self, run: OutRun) -> bool:
        """Whether a chunk has a whole image of a size known at build: its tiles are then of almost equal size."""
        return isinstance(self.positions, int) and self.tiling.lines >= self.positions

    @property
    def cost(self) -> float:
        """Operations at peak in the time of one image."""
        positions, cycles = self.problem.lines, 0.0
        for run in self.tiles.runs:
            if self.is_whole(run):
                sizes = split_evenly(positions, run.columns)
                cycles += run.count * sum(self.problem.cycles(self.tiling, run.vectors, t, 1) for t in sizes)
            else:
                tile = self.problem.cycles(self.tiling, run.vectors, run.columns, 1)
                cycles += run.count * tile * positions / run.columns
        reads = -(-positions // self.tiling.lines)
        chunks = reads * -(-len(self.tiles.sizes) // self.tiling.tiles)
        copied = chunks * self.panel_elements / self.block * _COPY_CYCLES
        arrive = self.problem.weight_cycles(reads, self.conv)
        return (cycles / _LONG_RUN + copied + arrive) * 4 * self.block


def problem_pointwise(conv: ConvShape, block: int, in_block: int, profile: Profile) -> Problem:
    return Problem(blocks(conv.out_channels, block), blocks(conv.in_channels, in_block), in_block, block, 1,
                   usual_upper(product(conv.out_spatial)), 1, simd_registers(profile), l2_bytes(profile),
                   lambda columns: 3, has_passes=True, has_near=set(conv.strides) == {1})


def default_pointwise(conv: ConvShape, problem: Problem, profile: Profile) -> Tiling:
    """Tiles and chunks; the image is one chunk per group of tiles where it is small."""
    positions, most = product(conv.out_spatial), problem.lines
    width = positions if isinstance(positions, int) and positions < 64 else None
    out_blocks, in_blocks, block = problem.out_blocks, problem.in_blocks, problem.block
    tiles = choose_tiles(out_blocks, width, profile, _LOAD_CYCLES)
    step = lcm(*(run.columns for run in tiles.runs))
    images = conv.y.shape[0] if isinstance(conv.y.shape[0], int) else 1
    weights = in_blocks * out_blocks * block * block
    step = min(step, most) if width is None else most
    columns, vectors = max(run.columns for run in tiles.runs), tiles.sizes[0]
    asks = in_blocks > _GUESSED_STREAMS and most * in_blocks * block * 4 > l2_bytes(profile)
    in_pass = _in_pass(in_blocks, block * block * vectors * 4, profile)
    chosen = cut(Work(images, len(tiles.sizes), most, step, in_blocks * block * 4, 0, weights * 4,
                      2.0 * weights * most, in_passes=problem.has_near), profile)
    if not problem.has_near:                                             # a copy is worth several tiles
        chosen = replace(chosen, tiles=min(len(tiles.sizes), max(chosen.tiles, _TILES_OF_COPY)))
    return Tiling(vectors, columns, chosen.tiles, chosen.lines, in_pass,
                  straight_channels(block, vectors * tiles.runs[0].columns), int(weights * 4 > l2_bytes(profile) // 2),
                  int(asks and problem.has_near))


def _in_pass(in_blocks: int, block_bytes: int, profile: Profile) -> int:
    """Input blocks of one pass, `block_bytes` being a tile's weights for one block.

    Three eighths of L1 for the weights in use leave as much for those asked for in advance, and room for inputs.
    """
    l1 = l1_bytes(profile)
    if in_blocks * block_bytes <= l1 // 2:
        return in_blocks
    passes = -(-in_blocks // max(1, 3 * l1 // 8 // block_bytes))
    return -(-in_blocks // passes)


def _plan(conv: ConvShape, block: int, in_block: int, profile: Profile,
          knobs: Mapping[str, KnobValue] | None) -> PointwiseConv:
    problem = problem_pointwise(conv, block, in_block, profile)
    tiling = default_pointwise(conv, problem, profile) if knobs is None else tiling_of(knobs)
    return PointwiseConv(conv, tiling, problem)


def _fits(group: Group, conv: ConvShape) -> bool:
    if conv.group != 1 or conv.taps != 1 or 0 in conv.y.shape:
        return False
    if set(conv.strides) != {1} and (len(conv.kernel) != 2 or conv.x.name in extra_inputs(group, conv)):
        return False
    if any(conv.begin) or any(conv.end) or flatten(group, conv) is None:
        return False
    return isinstance(conv.in_channels, int) and isinstance(conv.out_channels, int)


def _flat_layouts(layouts: Mapping[str, Layout]) -> dict[str, Layout]:
    """Layouts of the flattened values: the blocked axis is 1 once leading ones are there."""
    return {name: replace(layout, axis=1) if layout.block else layout for name, layout in layouts.items()}


def _lower(group: Group, plan: PointwiseConv, layouts: Mapping[str, Layout], name: str) -> Lowering:
    """The loop nest of the module's note."""
    conv, block = plan.conv, plan.block
    flat = flatten(group, conv)
    assert flat is not None
    b = Builder(name)
    x, w, bias = (b.input(n, FLOAT32) for n in ("x", "w", "bias"))
    extras = extra_inputs(group, conv)
    buffers = {n: b.input("operand", group.values[n].dtype) for n in extras}
    buffers |= {n: b.output("y", group.values[n].dtype) for n in group.outputs}
    epilogue = Epilogue(flat, flat.values[conv.y.name], buffers, _flat_layouts(layouts), block)
    kept_elements = plan.problem.kept_elements(plan.tiling)
    kept = b.scratch("kept", FLOAT32, kept_elements) if kept_elements else None
    passes = Passes(plan.in_blocks, plan.tiling.in_blocks, kept, block)
    panel = b.scratch("panel", FLOAT32, plan.panel_elements) if plan.gathers else None
    tile_groups = -(-len(plan.tiles.sizes) // plan.tiling.tiles)
    groups = ceildiv(plan.positions, plan.tiling.lines)

    with b.chunks(b.dim(conv.y.shape[0] * groups) * tile_groups) as chunk:
        group_dim, positions = b.dim(groups), b.dim(plan.positions)
        part, rest = b.let(chunk % group_dim, "part"), b.let(chunk // group_dim, "rest")
        tile_group, n = b.let(rest % tile_groups, "tile_group"), b.let(rest // tile_groups, "n")
        p0 = b.let(part * plan.tiling.lines, "p0")
        p1 = b.let(minimum(p0 + plan.tiling.lines, positions), "p1")
        if panel is not None:
            _gather(b, plan, x, panel, n, p0, p1)
        first_tile = tile_group * plan.tiling.tiles
        for run in plan.tiles.runs:
            low, high = tiles_in(run, first_tile, first_tile + plan.tiling.tiles)
            with b.loop(low, high, name="tile") as tile:
                out_block = b.let(run.block + tile * run.vectors, "ob")
                _positions(b, plan, run, epilogue, passes, (x if panel is None else panel, w, bias), n, out_block,
                           p0, p1)
    func, dims = b.finish()
    packed = pack_operands(group, conv, plan.tiles.sizes, block, block)
    args = (conv.x.name, *packed, *extras, *group.outputs)
    return Lowering((KernelCall(func, args, dims),), packed)


def _gather(b: Builder, plan: PointwiseConv, x: Buffer, panel: Buffer, n: Expr, p0: Expr, p1: Expr) -> None:
    """panel[ib, p - p0] = the input that output position p reads, for p in [p0, p1)."""
    conv, block = plan.conv, plan.block
    height, width = (b.dim(d) for d in conv.in_spatial)
    out_width = b.dim(conv.out_spatial[1])
    with b.loop(0, plan.in_blocks, name="ib") as ib:
        plane = b.let((n * plan.in_blocks + ib) * height, "plane")
        with b.loop(p0 // out_width, (p1 - 1) // out_width + 1, name="y") as y:
            row = b.let(y * out_width, "row")
            source = b.let((plane + y * conv.strides[0]) * width, "source")
            to = b.let(ib * plan.tiling.lines + row - p0, "to")
            with b.loop(maximum(p0 - row, 0), minimum(p1 - row, out_width), name="column") as column:
                b.store(panel, (to + column) * block, b.load(x, (source + column * conv.strides[1]) * block, block))


def _positions(b: Builder, plan: PointwiseConv, run: OutRun, epilogue: Epilogue, passes: Passes,
               operands: tuple[Buffer, ...], n: Expr, out_block: Expr, p0: Expr, p1: Expr) -> None:
    """One tile of output blocks over positions [p0, p1)."""
    x, w, bias = operands
    block, in_blocks, positions, tiling = plan.block, plan.in_blocks, b.dim(plan.positions), plan.tiling
    w_tile = b.let(out_block * (in_blocks * block * block), "w_tile")
    per_block = block * run.vectors * block
    last_weight = in_blocks * block * plan.problem.out_blocks * block - 1

    def tile(p: Expr, columns: int, first: Expr | int, last: Expr | int) -> None:
        place = p - p0
        if tiling.ahead:
            Ahead(w, w_tile + last * per_block, passes.length(first, last) * per_block, last_weight,
                  tiling.lines).ask(b, place, columns)
        acc = passes.start(b, run.vectors, columns, place, first,
                           lambda v: b.load(bias, (out_block + v) * block, block))

        def x_row(ib: Expr, kh: Expr) -> Expr:
            if plan.gathers:
                return (ib * tiling.lines + place) * block
            return ((n * in_blocks + ib) * positions + p) * block

        source = Source(x, w, x_row, w_tile, 1, block, block, tiling.unroll, columns * block * tiling.near)
        accumulate(b, acc, source, Taps(((0, columns),), 1, 1), (0, 1), (first, last))
        if not passes.keep(b, acc, place, last):
            epilogue.finish(b, acc, n, out_block, const(0), p)

    def some(start: Expr, count: Expr, columns: int, first: Expr | int, last: Expr | int) -> Expr:
        end = b.let(start + count * columns, "end")
        with b.loop(start, end, columns, name="p") as p:
            tile(p, columns, first, last)
        return end

    def sweep(first: Expr | int, last: Expr | int) -> None:
        rest = p0
        if plan.is_whole(run):
            sizes = split_evenly(plan.problem.lines, run.columns)
            for columns in sorted(set(sizes), reverse=True):
                rest = some(rest, const(sizes.count(columns)), columns, first, last)
            return
        for columns in sorted({run.columns, max(1, run.columns // 2), 1}, reverse=True):
            rest = some(rest, b.let((p1 - rest) // columns, "whole"), columns, first, last)

    passes.run(b, sweep)


CONV_POINTWISE = form_kernel("conv_pointwise", {"conv_pointwise": Form(_fits, _plan, _lower)})
