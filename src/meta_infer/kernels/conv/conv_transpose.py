"""Transposed 2-D convolution whose kernel equals its stride, over blocked channels: how networks double a resolution.

    x [N, IB, H, W, c], weights [tap][tile][IB][c][v][c]  ->  y [N, OB, H*kh, W*kw, c]

Windows do not overlap, so every output element comes from one input position and one tap: each tap is a 1x1
convolution whose results lie `kw` columns and `kh` rows apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout, Variant, blocked
from meta_infer.ir.loop import Expr, minimum
from meta_infer.ir.shapes import ceildiv, product, usual_upper
from meta_infer.kernels.blocked import blocks, operand_layouts
from meta_infer.kernels.conv.conv_shape import ConvShape, conv_of, extra_inputs, pack_bias, pack_weights
from meta_infer.kernels.conv.conv_tile import (
    Epilogue,
    OutRun,
    OutTiles,
    Source,
    Taps,
    accumulate,
    choose_tiles,
    start_tile,
    tiles_in,
)
from meta_infer.kernels.conv_chunks import Cut, Work, cut
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.ops.attrs import ints_of
from meta_infer.support.dtypes import FLOAT32

# What its 1x1 convolutions reach of the multiply-adds' peak, stores far apart included.
_SHARE_OF_PEAK = 0.85


def _fits(group: Group, conv: ConvShape | None) -> bool:
    if conv is None or len(conv.kernel) != 2 or conv.group != 1 or conv.kernel != conv.strides or 0 in conv.y.shape:
        return False
    shifts = (*conv.begin, *conv.end, *ints_of(group.anchor.attrs, "output_padding", (0, 0)))
    return not any(shifts) and (set(conv.dilations) == {1} or conv.taps == 1) and isinstance(conv.in_channels, int)


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    conv, block = conv_of(group), profile.lanes(FLOAT32)
    if conv is None or block == 1 or not _fits(group, conv):
        return
    inputs = operand_layouts(group, extra_inputs(group, conv), 4, block) | {conv.x.name: blocked(block)}
    weights = blocks(conv.in_channels, block) * blocks(conv.out_channels, block) * block * block * conv.taps
    places = usual_upper(product(conv.in_spatial))
    yield Variant("conv_transpose", "conv_transpose", inputs, {out: blocked(block) for out in group.outputs},
                  packed_bytes=weights * 4, flops=2 * conv.taps * product(conv.x.shape) * conv.weight.shape[1],
                  cost=2.0 * weights * places / _SHARE_OF_PEAK)


def _pack(weight: np.ndarray, tiles: OutTiles, block: int) -> np.ndarray:
    """[IC, OC, kh, kw] -> the packed weights of every tap's 1x1 convolution, one tap after another."""
    taps = weight.transpose(2, 3, 1, 0).reshape(-1, weight.shape[1], weight.shape[0], 1, 1)
    return np.concatenate([pack_weights(tap, tiles.sizes, block, block) for tap in taps])


def _plan(conv: ConvShape, block: int, profile: Profile) -> tuple[OutTiles, Cut]:
    out_blocks, in_blocks = blocks(conv.out_channels, block), blocks(conv.in_channels, block)
    height, width = (usual_upper(d) for d in conv.in_spatial)
    tiles = choose_tiles(out_blocks, None, profile)
    images = conv.y.shape[0] if isinstance(conv.y.shape[0], int) else 1
    weights = in_blocks * out_blocks * block * block * conv.taps
    return tiles, cut(Work(images, len(tiles.sizes), height, 1, in_blocks * block * width * 4, 0, weights * 4,
                           2.0 * weights * height * width), profile)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    conv, block = conv_of(group), profile.lanes(FLOAT32)
    assert conv is not None
    tiles, chunk_cut = _plan(conv, block, profile)
    in_blocks, (kh, kw) = blocks(conv.in_channels, block), conv.kernel
    tap_weights = in_blocks * blocks(conv.out_channels, block) * block * block
    b = Builder("conv_transpose")
    x, w, bias = (b.input(n, FLOAT32) for n in ("x", "w", "bias"))
    extras = extra_inputs(group, conv)
    buffers = {n: b.input("operand", group.values[n].dtype) for n in extras}
    buffers |= {n: b.output("y", group.values[n].dtype) for n in group.outputs}
    epilogue = Epilogue(group, conv.y, buffers, layouts, block)
    row_groups = ceildiv(conv.in_spatial[0], chunk_cut.lines)
    tile_groups = -(-len(tiles.sizes) // chunk_cut.tiles)

    def row(run: OutRun, n: Expr, out_block: Expr, i: Expr, ky: Expr, kx: Expr) -> None:
        """All columns of input row `i` at one tap: whole tiles, then single columns."""
        height, width = (b.dim(d) for d in conv.in_spatial)
        w_tile = b.let((ky * kw + kx) * tap_weights + out_block * (in_blocks * block * block), "w_tile")
        whole = b.let(width // run.columns * run.columns, "whole")
        for first, last, columns in ((0, whole, run.columns), (whole, width, 1)):
            with b.loop(first, last, columns, name="column") as column:
                acc = start_tile(b, run.vectors, columns, block,
                                 lambda v, j: b.load(bias, (out_block + v) * block, block))

                def x_row(ib: Expr, _: Expr, column: Expr = column) -> Expr:
                    return (((n * in_blocks + ib) * height + i) * width + column) * block

                source = Source(x, w, x_row, w_tile, 1, block, block)
                accumulate(b, acc, source, Taps(((0, columns),), 1, 1), (0, 1), (0, in_blocks))
                epilogue.finish(b, acc, n, out_block, b.let(i * kh + ky), b.let(column * kw + kx), step=kw)

    with b.chunks(b.dim(conv.y.shape[0] * row_groups) * tile_groups) as chunk:
        rows_dim, height = b.dim(row_groups), b.dim(conv.in_spatial[0])
        row_group, rest = b.let(chunk % rows_dim, "row_group"), b.let(chunk // rows_dim, "rest")
        first_tile = b.let(rest % tile_groups * chunk_cut.tiles, "first_tile")
        n, top = b.let(rest // tile_groups, "n"), b.let(row_group * chunk_cut.lines, "top")
        bottom = b.let(minimum(top + chunk_cut.lines, height), "bottom")
        for run in tiles.runs:
            low, high = tiles_in(run, first_tile, first_tile + chunk_cut.tiles)
            with b.loop(low, high, name="tile") as tile:
                out_block = b.let(run.block + tile * run.vectors, "ob")
                with (b.loop(top, bottom, name="i") as i, b.loop(0, kh, name="ky") as ky,
                      b.loop(0, kw, name="kx") as kx):
                    row(run, n, out_block, i, ky, kx)
    func, dims = b.finish()
    name = conv.weight.name
    constant = group.constants[conv.bias.name] if conv.bias is not None else None
    packed = {f"{name}@packed": _pack(group.constants[name], tiles, block),
              f"{name}@bias": pack_bias(constant, int(conv.weight.shape[1]), block)}     # type: ignore[arg-type]
    return Lowering((KernelCall(func, (conv.x.name, *packed, *extras, *group.outputs), dims),), packed)


CONV_TRANSPOSE = Kernel("conv_transpose", ("ConvTranspose",), _variants, _lower)
