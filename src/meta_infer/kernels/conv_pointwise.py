"""1x1 convolution of stride 1 over blocked channels: a matrix product over all positions of an image at once.

    x [N, IB, HW, c], weights [tile][IB][c][v][c]  ->  y [N, OB, HW, c]

    chunk: image n, some tiles of output blocks, `lines` positions from p0
        for tile of output blocks:  for tile of positions:
            registers = bias;  for input block, channel:  multiply-add;  epilogue

Rows do not matter, so tiles run across them: 7 x 7 is 49 positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import lcm

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape, Value
from meta_infer.ir.group import Group, Layout, Variant, blocked
from meta_infer.ir.loop import Buffer, Expr, const, minimum
from meta_infer.ir.shapes import Dim, ceildiv, product, usual_upper
from meta_infer.kernels.blocked import blocks, operand_layouts
from meta_infer.kernels.conv_chunks import Cut, Work, cut, l2_bytes
from meta_infer.kernels.conv_shape import ConvShape, conv_of, extra_inputs, pack_operands
from meta_infer.kernels.conv_tile import (
    Ahead,
    Epilogue,
    OutRun,
    OutTiles,
    Source,
    Taps,
    accumulate,
    choose_tiles,
    split_evenly,
    start_tile,
    tiles_in,
)
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.support.dtypes import FLOAT32


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
        if shape is None:
            return None
        seen[name] = replace(value, shape=shape)
    return replace(group, values={**group.values, **seen})


@dataclass(frozen=True)
class PointwiseConv:
    """The convolution with everything chosen; `cut.lines` are positions."""

    conv: ConvShape
    block: int
    tiles: OutTiles
    cut: Cut
    is_streamed: bool                               # the weights do not stay in L2

    @property
    def in_blocks(self) -> int:
        return blocks(self.conv.in_channels, self.block)

    @property
    def positions(self) -> Dim:
        return product(self.conv.out_spatial)


def plan_pointwise(conv: ConvShape, block: int, profile: Profile) -> PointwiseConv:
    """Tiles and chunks; the image is one chunk per group of tiles where it is small."""
    positions = product(conv.out_spatial)
    most = usual_upper(positions)
    width = positions if isinstance(positions, int) and positions < 64 else None
    out_blocks, in_blocks = blocks(conv.out_channels, block), blocks(conv.in_channels, block)
    tiles = choose_tiles(out_blocks, width, profile)
    step = lcm(*(run.columns for run in tiles.runs))
    images = conv.y.shape[0] if isinstance(conv.y.shape[0], int) else 1
    weights = in_blocks * out_blocks * block * block
    step = min(step, most) if width is None else most
    chosen = cut(Work(images, len(tiles.sizes), most, step, in_blocks * block * 4, 0, weights * 4,
                      2.0 * weights * most), profile)
    return PointwiseConv(conv, block, tiles, chosen, weights * 4 > l2_bytes(profile) // 2)


def _fits(group: Group, conv: ConvShape | None) -> bool:
    if conv is None or conv.group != 1 or conv.taps != 1 or set(conv.strides) != {1} or 0 in conv.y.shape:
        return False
    if any(conv.begin) or any(conv.end) or flatten(group, conv) is None:
        return False
    return isinstance(conv.in_channels, int) and isinstance(conv.out_channels, int)


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    conv, block = conv_of(group), profile.lanes(FLOAT32)
    if conv is None or block == 1 or not _fits(group, conv):
        return
    inputs = operand_layouts(group, extra_inputs(group, conv), conv.y.rank, block) | {conv.x.name: blocked(block)}
    packed = blocks(conv.in_channels, block) * blocks(conv.out_channels, block) * block * block * 4
    yield Variant("conv_pointwise", "conv_pointwise", inputs, {out: blocked(block) for out in group.outputs},
                  packed_bytes=packed, flops=conv.flops)


def _flat_layouts(layouts: Mapping[str, Layout]) -> dict[str, Layout]:
    """Layouts of the flattened values: the blocked axis is 1 once leading ones are there."""
    return {name: replace(layout, axis=1) if layout.block else layout for name, layout in layouts.items()}


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    conv, block = conv_of(group), profile.lanes(FLOAT32)
    assert conv is not None
    flat = flatten(group, conv)
    assert flat is not None
    plan = plan_pointwise(conv, block, profile)
    b = Builder("conv_pointwise")
    x, w, bias = (b.input(n, FLOAT32) for n in ("x", "w", "bias"))
    extras = extra_inputs(group, conv)
    buffers = {n: b.input("operand", group.values[n].dtype) for n in extras}
    buffers |= {n: b.output("y", group.values[n].dtype) for n in group.outputs}
    epilogue = Epilogue(flat, flat.values[conv.y.name], buffers, _flat_layouts(layouts), block)
    tile_groups = -(-len(plan.tiles.sizes) // plan.cut.tiles)
    groups = ceildiv(plan.positions, plan.cut.lines)

    with b.chunks(b.dim(conv.y.shape[0] * groups) * tile_groups) as chunk:
        group_dim, positions = b.dim(groups), b.dim(plan.positions)
        part, rest = b.let(chunk % group_dim, "part"), b.let(chunk // group_dim, "rest")
        tile_group, n = b.let(rest % tile_groups, "tile_group"), b.let(rest // tile_groups, "n")
        p0 = b.let(part * plan.cut.lines, "p0")
        p1 = b.let(minimum(p0 + plan.cut.lines, positions), "p1")
        first_tile = tile_group * plan.cut.tiles
        for run in plan.tiles.runs:
            low, high = tiles_in(run, first_tile, first_tile + plan.cut.tiles)
            with b.loop(low, high, name="tile") as tile:
                out_block = b.let(run.block + tile * run.vectors, "ob")
                _positions(b, plan, run, epilogue, (x, w, bias), n, out_block, p0, p1)
    func, dims = b.finish()
    packed = pack_operands(group, conv, plan.tiles.sizes, block, block)
    args = (conv.x.name, *packed, *extras, *group.outputs)
    return Lowering((KernelCall(func, args, dims),), packed)


def _positions(b: Builder, plan: PointwiseConv, run: OutRun, epilogue: Epilogue, operands: tuple[Buffer, ...],
               n: Expr, out_block: Expr, p0: Expr, p1: Expr) -> None:
    """One tile of output blocks over positions [p0, p1)."""
    x, w, bias = operands
    block, in_blocks, positions = plan.block, plan.in_blocks, b.dim(plan.positions)
    w_tile = b.let(out_block * (in_blocks * block * block), "w_tile")

    tile_weights = in_blocks * block * run.vectors * block
    ahead = Ahead(w, w_tile + tile_weights, tile_weights,
                  in_blocks * block * blocks(plan.conv.out_channels, block) * block - 1, plan.cut.lines)

    def tile(p: Expr, columns: int) -> None:
        if plan.is_streamed:
            ahead.ask(b, p - p0, columns)
        acc = start_tile(b, run.vectors, columns, block, lambda v, j: b.load(bias, (out_block + v) * block, block))
        source = Source(x, w, lambda ib, kh: ((n * in_blocks + ib) * positions + p) * block, w_tile, 1, block, block)
        accumulate(b, acc, source, Taps(((0, columns),), 1, 1), (0, 1), (0, in_blocks))
        epilogue.finish(b, acc, n, out_block, const(0), p)

    def sweep(first: Expr, count: Expr, columns: int) -> Expr:
        end = b.let(first + count * columns, "end")
        with b.loop(first, end, columns, name="p") as p:
            tile(p, columns)
        return end

    total = plan.positions
    if isinstance(total, int) and plan.cut.lines >= total:           # the whole image, in tiles of almost equal size
        sizes = split_evenly(total, run.columns)
        place = p0
        for columns in sorted(set(sizes), reverse=True):
            place = sweep(place, const(sizes.count(columns)), columns)
        return
    rest = sweep(p0, b.let((p1 - p0) // run.columns, "whole"), run.columns)
    for columns in sorted({max(1, run.columns // 2), 1}, reverse=True):
        rest = sweep(rest, b.let((p1 - rest) // columns, "left"), columns)


CONV_POINTWISE = Kernel("conv_pointwise", ("Conv",), _variants, _lower)
