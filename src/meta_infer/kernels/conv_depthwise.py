"""Depthwise 2-D convolution over blocked channels: every channel block of an image is a plane of its own.

    x [N, CB, H, W, c], weights [CB][kh][kw][c]  ->  y [N, CB, H', W', c]

    for plane:  for row:  for tile of columns:
        registers = bias;  for kernel row inside the image:  weights of the row in registers
            for input column of the tile:  load once, multiply into every output column it meets
        epilogue

Border tiles of static widths are code of their own, as in `conv_direct`. For dynamic widths, columns whose taps all
lie inside the image go in tiles and the others one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout, Variant, blocked
from meta_infer.ir.loop import Buffer, Expr, const, mad, maximum, minimum
from meta_infer.kernels.blocked import blocks, operand_layouts
from meta_infer.kernels.conv_direct import column_runs, kernel_rows
from meta_infer.kernels.conv_shape import ConvShape, conv_of, extra_inputs, pack_bias
from meta_infer.kernels.conv_tile import Accumulators, Bounds, Epilogue, Taps, simd_registers, start_tile
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.plane_chunks import plane_chunks
from meta_infer.support.dtypes import FLOAT32

_MOST_COLUMNS = 8
_MOST_KINDS = 8


def pack_depthwise(weight: np.ndarray, block: int) -> np.ndarray:
    """[C, 1, kh, kw] -> [ceil(C / block)][kh][kw][block], flat, zero beyond C."""
    channels, _, kh, kw = weight.shape
    full = np.zeros((-(-channels // block) * block, kh, kw), np.float32)
    full[:channels] = weight[:, 0]
    return full.reshape(-1, block, kh, kw).transpose(0, 2, 3, 1).reshape(-1)


def tile_columns(conv: ConvShape, profile: Profile) -> int:
    """Accumulators that fit beside the weights of a kernel row and one input."""
    return max(1, min(_MOST_COLUMNS, simd_registers(profile) - conv.kernel[1] - 1))


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    conv, block = conv_of(group), profile.lanes(FLOAT32)
    if conv is None or block == 1 or not conv.is_depthwise or len(conv.kernel) != 2 or 0 in conv.y.shape:
        return
    inputs = operand_layouts(group, extra_inputs(group, conv), 4, block) | {conv.x.name: blocked(block)}
    packed = blocks(conv.out_channels, block) * block * (conv.taps + 1) * 4
    yield Variant("conv_depthwise", "conv_depthwise", inputs, {out: blocked(block) for out in group.outputs},
                  packed_bytes=packed, flops=conv.flops)


@dataclass(frozen=True)
class _Plane:
    """What the code of one plane needs at hand; x_plane and w_plane are first elements."""

    b: Builder
    conv: ConvShape
    block: int
    x: Buffer
    w: Buffer
    x_plane: Expr
    w_plane: Expr

    def row_start(self, y: Expr, kh: Expr) -> Expr:
        """Element of input column 0 of the row that kernel row `kh` meets."""
        conv = self.conv
        source = y * conv.strides[0] + kh * conv.dilations[0] - conv.begin[0]
        return self.x_plane + source * self.b.dim(conv.in_spatial[1]) * self.block

    def tile(self, acc: Accumulators, y: Expr, column: Expr, rows: Bounds, taps: Taps) -> None:
        """Multiply all taps in `taps` into the tile whose first output column is `column`."""
        b, conv, block = self.b, self.conv, self.block
        meets: dict[int, list[tuple[int, int]]] = {}
        for k, (lo, hi) in enumerate(taps.ranges):
            for j in range(lo, hi):
                meets.setdefault(j * taps.stride + k * taps.dilation, []).append((j, k))
        with b.loop(*rows, name="kh") as kh:
            left = column * conv.strides[1] - conv.begin[1]
            x_at = b.let(self.row_start(y, kh) + left * block, "x_at")
            w_at = b.let(self.w_plane + kh * (conv.kernel[1] * block), "w_at")
            used = sorted({k for pairs in meets.values() for _, k in pairs})
            weights = {k: b.let(b.load(self.w, w_at + k * block, block), "w") for k in used}
            for place in sorted(meets):
                value = b.let(b.load(self.x, x_at + place * block, block), "x")
                for j, k in meets[place]:
                    b.assign(acc[0][j], mad(value, weights[k], acc[0][j]))

    def column(self, acc: Accumulators, y: Expr, column: Expr, rows: Bounds) -> None:
        """One output column of a dynamic width, near a border or not."""
        b, conv, block = self.b, self.conv, self.block
        stride, dilation, taps, pad = conv.strides[1], conv.dilations[1], conv.kernel[1], conv.begin[1]
        left = b.let(column * stride, "left")
        low = b.let((maximum(pad - left, 0) + (dilation - 1)) // dilation, "kw_low")
        reach = maximum(b.dim(conv.in_spatial[1]) + pad - left, 0) + (dilation - 1)
        high = b.let(minimum(reach // dilation, taps), "kw_high")
        with b.loop(*rows, name="kh") as kh, b.loop(low, high, name="kw") as kw:
            at = self.row_start(y, kh) + (left + kw * dilation - pad) * block
            weight = b.load(self.w, self.w_plane + (kh * taps + kw) * block, block)
            b.assign(acc[0][0], mad(b.load(self.x, at, block), weight, acc[0][0]))


def _inner_columns(b: Builder, conv: ConvShape) -> tuple[Expr, Expr]:
    """Output columns [low, high) whose taps all lie inside the image."""
    stride, pad = conv.strides[1], conv.begin[1]
    width = b.dim(conv.out_spatial[1])
    low = b.let(minimum(const(-(-pad // stride)), width), "inner_low")
    reach = b.dim(conv.in_spatial[1]) + pad - (conv.kernel[1] - 1) * conv.dilations[1] + (stride - 1)
    return low, b.let(maximum(minimum(maximum(reach, 0) // stride, width), low), "inner_high")


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    conv, block = conv_of(group), profile.lanes(FLOAT32)
    assert conv is not None
    b = Builder("conv_depthwise")
    x, w, bias = (b.input(n, FLOAT32) for n in ("x", "w", "bias"))
    extras = extra_inputs(group, conv)
    buffers = {n: b.input("operand", group.values[n].dtype) for n in extras}
    buffers |= {n: b.output("y", group.values[n].dtype) for n in group.outputs}
    epilogue = Epilogue(group, conv.y, buffers, layouts, block)
    planes_per_image = blocks(conv.out_channels, block)
    most = tile_columns(conv, profile)
    out_height, out_width = conv.out_spatial
    runs = column_runs(conv, most) if isinstance(conv.in_spatial[1], int) else []
    line_work = conv.taps * (out_width if isinstance(out_width, int) else 256)

    with plane_chunks(b, conv.y.shape[0] * planes_per_image, out_height, line_work) as (plane, y0, y1):
        n, out_block = b.let(plane // planes_per_image, "n"), b.let(plane % planes_per_image, "ob")
        height, width = (b.dim(d) for d in conv.in_spatial)
        x_plane = b.let(plane * height * width * block, "x_plane")
        code = _Plane(b, conv, block, x, w, x_plane, b.let(out_block * (conv.taps * block), "w_plane"))

        def tile(y: Expr, column: Expr, columns: int, rows: Bounds, taps: Taps | None) -> None:
            acc = start_tile(b, 1, columns, block, lambda v, j: b.load(bias, out_block * block, block))
            if taps is not None:
                code.tile(acc, y, column, rows, taps)
            else:
                code.column(acc, y, column, rows)
            epilogue.finish(b, acc, n, out_block, y, column)

        with b.loop(y0, y1, name="y") as y:
            rows = kernel_rows(conv, b, y)
            if runs and len(runs) <= _MOST_KINDS:
                for run in runs:
                    if run.count == 1:
                        tile(y, const(run.first), run.columns, rows, run.taps)
                        continue
                    end = run.first + run.count * run.columns
                    with b.loop(run.first, end, run.columns, name="column") as column:
                        tile(y, column, run.columns, rows, run.taps)
            else:
                low, high = _inner_columns(b, conv)
                whole = b.let(low + (high - low) // most * most, "whole")
                inner = Taps(((0, most),) * conv.kernel[1], conv.strides[1], conv.dilations[1])
                with b.loop(low, whole, most, name="column") as column:
                    tile(y, column, most, rows, inner)
                for first, last in ((const(0), low), (whole, b.dim(out_width))):
                    with b.loop(first, last, name="column") as column:
                        tile(y, column, 1, rows, None)
    func, dims = b.finish()
    name = conv.weight.name
    constant = group.constants[conv.bias.name] if conv.bias is not None else None
    packed = {f"{name}@packed": pack_depthwise(group.constants[name], block),
              f"{name}@bias": pack_bias(constant, int(conv.weight.shape[0]), block)}    # type: ignore[arg-type]
    return Lowering((KernelCall(func, (conv.x.name, *packed, *extras, *group.outputs), dims),), packed)


CONV_DEPTHWISE = Kernel("conv_depthwise", ("Conv",), _variants, _lower)
