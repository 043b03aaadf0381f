"""Transposed 2-D convolution whose kernel equals its stride, over blocked channels: how networks double a resolution.

    x [N, IB, H, W, c], weights [tap][tile][IB][c][v][c]  ->  y [N, OB, H*kh, W*kw, c]

Windows do not overlap, so every output element comes from one input position and one tap: each tap is a 1x1
convolution whose results lie `kw` columns and `kh` rows apart. Knobs:

    vectors   output blocks of a register tile
    columns   columns of it, at most
    tiles     output tiles of a chunk
    lines     input rows of a chunk
    order     lines: all taps of a row, then the next row; taps: all rows of a chunk by one tap, whose weights stay near
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import groupby

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout, Variant, blocked
from meta_infer.ir.loop import Const, Expr, const, minimum
from meta_infer.ir.shapes import ceildiv, product, usual_upper
from meta_infer.kernels.blocked import blocks, operand_layouts
from meta_infer.kernels.conv.conv_indirect import among
from meta_infer.kernels.conv.conv_shape import ConvShape, conv_of, extra_inputs, pack_bias, pack_weights
from meta_infer.kernels.conv.conv_tile import (
    Epilogue,
    OutRun,
    OutTiles,
    Source,
    Taps,
    accumulate,
    choose_tiles,
    most_columns,
    out_tiles,
    simd_registers,
    split_evenly,
    start_tile,
    tiles_in,
)
from meta_infer.kernels.conv_chunks import Work, cut
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.ops.attrs import ints_of
from meta_infer.support.dtypes import FLOAT32

# What its 1x1 convolutions reach of the multiply-adds' peak, stores far apart included.
_SHARE_OF_PEAK = 0.85


_ORDERS = {"lines": ("i", "ky", "kx"), "taps": ("ky", "kx", "i")}
"""Loops around a row, by knob `order`, the outermost first."""


def _fits(group: Group, conv: ConvShape | None) -> bool:
    if conv is None or len(conv.kernel) != 2 or conv.group != 1 or conv.kernel != conv.strides or 0 in conv.y.shape:
        return False
    shifts = (*conv.begin, *conv.end, *ints_of(group.anchor.attrs, "output_padding", (0, 0)))
    return not any(shifts) and (set(conv.dilations) == {1} or conv.taps == 1) and isinstance(conv.in_channels, int)


@dataclass(frozen=True)
class Choice:
    """Values of the knobs."""

    vectors: int
    columns: int
    tiles: int
    lines: int
    order: str

    def out_tiles(self, conv: ConvShape, block: int, profile: Profile) -> OutTiles:
        return out_tiles(blocks(conv.out_channels, block), self.vectors, simd_registers(profile), self.columns)


def _choice(knobs: Mapping[str, KnobValue]) -> Choice:
    return Choice(**knobs)                                            # type: ignore[arg-type]


def _width(conv: ConvShape) -> int | None:
    """Columns of x, None where they are not known at build."""
    return conv.in_spatial[1] if isinstance(conv.in_spatial[1], int) else None


def _choose(conv: ConvShape, block: int, profile: Profile) -> Choice:
    """The rule's choice."""
    out_blocks, in_blocks = blocks(conv.out_channels, block), blocks(conv.in_channels, block)
    height, width = (usual_upper(d) for d in conv.in_spatial)
    tiles = choose_tiles(out_blocks, _width(conv), profile)
    images = conv.y.shape[0] if isinstance(conv.y.shape[0], int) else 1
    weights = in_blocks * out_blocks * block * block * conv.taps
    chunk = cut(Work(images, len(tiles.sizes), height, 1, in_blocks * block * width * 4, 0, weights * 4,
                     2.0 * weights * height * width), profile)
    return Choice(tiles.sizes[0], max(run.columns for run in tiles.runs), chunk.tiles, chunk.lines, "lines")


def _variant(group: Group, conv: ConvShape, choice: Choice, block: int) -> Variant:
    inputs = operand_layouts(group, extra_inputs(group, conv), 4, block) | {conv.x.name: blocked(block)}
    weights = blocks(conv.in_channels, block) * blocks(conv.out_channels, block) * block * block * conv.taps
    places = usual_upper(product(conv.in_spatial))
    return Variant("conv_transpose", "conv_transpose", inputs, {out: blocked(block) for out in group.outputs},
                   asdict(choice), packed_bytes=weights * 4,
                   flops=2 * conv.taps * product(conv.x.shape) * conv.weight.shape[1],
                   cost=2.0 * weights * places / _SHARE_OF_PEAK)


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    conv, block = conv_of(group), profile.lanes(FLOAT32)
    if conv is not None and block > 1 and _fits(group, conv) and isinstance(conv.in_channels, int):
        yield _variant(group, conv, _choose(conv, block, profile), block)


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    conv, default, block = conv_of(group), _choice(variant.knobs), profile.lanes(FLOAT32)
    assert conv is not None
    tiles, height = len(default.out_tiles(conv, block, profile).sizes), max(1, usual_upper(conv.in_spatial[0]))
    most = min(4, blocks(conv.out_channels, block))
    return (Knob("vectors", among(default.vectors, range(1, most + 1))),
            Knob("columns", among(default.columns, (1, 2, 3, 4, 6, 8, 12))),
            Knob("tiles", among(default.tiles, (1, max(1, default.tiles // 2), tiles))),
            Knob("lines", among(default.lines, (1, max(1, default.lines // 2), min(height, 2 * default.lines)))),
            Knob("order", ("lines", "taps")))


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    full = {**variant.knobs, **values}
    conv, choice, block = conv_of(group), _choice(full), profile.lanes(FLOAT32)
    assert conv is not None
    if not 0 < choice.vectors <= blocks(conv.out_channels, block):
        return Refusal(full, "shape", f"{choice.vectors} of {blocks(conv.out_channels, block)} output blocks")
    if choice.columns > most_columns(choice.vectors, simd_registers(profile)):
        return Refusal(full, "registers", f"{choice.vectors} x {choice.columns} sums and their operands")
    if not 0 < choice.tiles <= len(choice.out_tiles(conv, block, profile).sizes):
        return Refusal(full, "shape", f"{choice.tiles} of {len(choice.out_tiles(conv, block, profile).sizes)} tiles")
    if not 0 < choice.lines <= max(1, usual_upper(conv.in_spatial[0])):
        return Refusal(full, "shape", f"{choice.lines} of {conv.in_spatial[0]} rows")
    return _variant(group, conv, choice, block)


def _pack(weight: np.ndarray, tiles: OutTiles, block: int) -> np.ndarray:
    """[IC, OC, kh, kw] -> the packed weights of every tap's 1x1 convolution, one tap after another."""
    taps = weight.transpose(2, 3, 1, 0).reshape(-1, weight.shape[1], weight.shape[0], 1, 1)
    return np.concatenate([pack_weights(tap, tiles.sizes, block, block) for tap in taps])


def _spans(b: Builder, width: Expr, columns: int) -> list[tuple[Expr, Expr, int]]:
    """A row cut into spans (first, last + 1, columns of a tile): as even as can be where the width is known."""
    spans: list[tuple[Expr, Expr, int]] = []
    if isinstance(width, Const):
        first = 0
        for size, same in groupby(split_evenly(int(width.value), columns)):
            last = first + size * len(list(same))
            spans.append((const(first), const(last), size))
            first = last
        return spans
    start: Expr = const(0)
    for size in sorted({columns, -(-columns // 2), 1}, reverse=True):
        end = b.let(start + (width - start) // size * size, "end") if size > 1 else width
        spans.append((start, end, size))
        start = end
    return spans


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    conv, block = conv_of(group), profile.lanes(FLOAT32)
    assert conv is not None
    choice = _choice(variant.knobs)
    tiles = choice.out_tiles(conv, block, profile)
    in_blocks, (kh, kw) = blocks(conv.in_channels, block), conv.kernel
    tap_weights = in_blocks * blocks(conv.out_channels, block) * block * block
    b = Builder("conv_transpose")
    x, w, bias = (b.input(n, FLOAT32) for n in ("x", "w", "bias"))
    extras = extra_inputs(group, conv)
    buffers = {n: b.input("operand", group.values[n].dtype) for n in extras}
    buffers |= {n: b.output("y", group.values[n].dtype) for n in group.outputs}
    epilogue = Epilogue(group, conv.y, buffers, layouts, block)
    row_groups = ceildiv(conv.in_spatial[0], choice.lines)
    tile_groups = -(-len(tiles.sizes) // choice.tiles)

    def row(run: OutRun, n: Expr, out_block: Expr, i: Expr, ky: Expr, kx: Expr) -> None:
        """All columns of input row `i` at one tap: whole tiles, then single columns."""
        height, width = (b.dim(d) for d in conv.in_spatial)
        w_tile = b.let((ky * kw + kx) * tap_weights + out_block * (in_blocks * block * block), "w_tile")
        for first, last, columns in _spans(b, width, run.columns):
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
        first_tile = b.let(rest % tile_groups * choice.tiles, "first_tile")
        n, top = b.let(rest // tile_groups, "n"), b.let(row_group * choice.lines, "top")
        bottom = b.let(minimum(top + choice.lines, height), "bottom")
        for run in tiles.runs:
            low, high = tiles_in(run, first_tile, first_tile + choice.tiles)
            with b.loop(low, high, name="tile") as tile:
                out_block = b.let(run.block + tile * run.vectors, "ob")
                loops = {"i": (top, bottom), "ky": (const(0), const(kh)), "kx": (const(0), const(kw))}
                with ExitStack() as stack:
                    at = {name: stack.enter_context(b.loop(*loops[name], name=name)) for name in _ORDERS[choice.order]}
                    row(run, n, out_block, at["i"], at["ky"], at["kx"])
    func, dims = b.finish()
    name = conv.weight.name
    constant = group.constants[conv.bias.name] if conv.bias is not None else None
    packed = {f"{name}@packed": _pack(group.constants[name], tiles, block),
              f"{name}@bias": pack_bias(constant, int(conv.weight.shape[1]), block)}     # type: ignore[arg-type]
    return Lowering((KernelCall(func, (conv.x.name, *packed, *extras, *group.outputs), dims),), packed)


CONV_TRANSPOSE = Kernel("conv_transpose", ("ConvTranspose",), _variants, _lower, _knobs, _tune)
