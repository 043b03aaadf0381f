"""Depthwise convolution of 8-bit integers over blocked channels, exact in int32.

    x [N, CB, H, W, c], weights [CB][kh][kw][c]  ->  y [N, CB, H', W', c]

    chunk: some rows of one plane of c channels
        its rows of x, zero point taken off, go to scratch as float32, padding around them
        for row:  for tile of columns:  registers = 0
            for kernel row:  each input column is loaded once and multiplied into every output column it meets
        sums become int32, epilogue

A depthwise sum has few terms: where none can reach 2^24, float32 holds it exactly, and one multiply-add does what
integers need two instructions for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout, Variant, blocked
from meta_infer.ir.loop import Buffer, Expr, Type, Var, cast, const, mad, minimum
from meta_infer.ir.shapes import Dim, ceildiv, usual_upper
from meta_infer.kernels.blocked import blocks, operand_layouts
from meta_infer.kernels.conv.conv_shape import ConvShape, any_conv_of
from meta_infer.kernels.conv.conv_tile import Epilogue, simd_registers, split_evenly
from meta_infer.kernels.conv_chunks import l1_bytes
from meta_infer.kernels.int8.dot_path import FLOATS
from meta_infer.kernels.int8.int8_operands import Int8Operands, int8_operands
from meta_infer.kernels.int8.stage_int8 import Rows, stage
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.plane_chunks import cut_planes
from meta_infer.support.dtypes import FLOAT32, INT32

# Up to here float32 holds every integer.
_EXACT = 1 << 24
_MOST_COLUMNS = 8


@dataclass(frozen=True)
class Problem:
    conv: ConvShape
    operands: Int8Operands
    block: int

    def rows(self, lines: int) -> int:
        """Rows that `lines` rows of output read."""
        conv = self.conv
        return (lines - 1) * conv.strides[0] + (conv.kernel[0] - 1) * conv.dilations[0] + 1

    def pitch(self, columns: int) -> Dim:
        """Positions of a staged row."""
        return self.conv.in_spatial[1] + self.conv.begin[1] + self.right(columns)

    def right(self, columns: int) -> int:
        """Positions of padding after a row, as far as the last tile reads."""
        width = self.conv.out_spatial[1]
        return self.conv.end[1] + (0 if isinstance(width, int) else columns * self.conv.strides[1])


def _problem(group: Group, profile: Profile) -> Problem | None:
    operands, found, block = int8_operands(group), any_conv_of(group), profile.lanes(FLOAT32)
    if operands is None or found is None or block == 1 or len(found.kernel) != 2 or 0 in found.y.shape:
        return None
    conv = replace(found, bias=None)
    if not conv.is_depthwise or min(*conv.begin, *conv.end) < 0:
        return None
    sums = np.abs(operands.weights.astype(np.int64)).reshape(operands.weights.shape[0], -1).sum(1)
    return Problem(conv, operands, block) if int(sums.max(initial=0)) * 255 < _EXACT else None


def most_columns(conv: ConvShape, profile: Profile) -> int:
    """Sums that fit beside the weights of a kernel row and one input."""
    return max(1, min(_MOST_COLUMNS, simd_registers(profile) - conv.kernel[1] - 1))


def _variant(group: Group, problem: Problem, columns: int, lines: int) -> Variant:
    conv, block = problem.conv, problem.block
    inputs = operand_layouts(group, problem.operands.extras, 4, block) | {conv.x.name: blocked(block)}
    channels = blocks(conv.out_channels, block) * block
    places = usual_upper(conv.out_spatial[0]) * usual_upper(conv.out_spatial[1])
    return Variant("conv_depthwise_int8", "conv_depthwise_int8", inputs, {n: blocked(block) for n in group.outputs},
                   {"columns": columns, "lines": lines},
                   scratch_bytes=usual_upper(problem.pitch(columns)) * problem.rows(lines) * block * 4,
                   packed_bytes=channels * conv.taps * 4, flops=conv.flops,
                   cost=2.0 * channels * places * (conv.taps + 4) / 0.6)


def _default_lines(problem: Problem, columns: int, profile: Profile) -> int:
    """Rows of a chunk: about 50 us of work whose staged rows fit L1 where that leaves more than a few."""
    conv = problem.conv
    planes = conv.y.shape[0] * blocks(conv.out_channels, problem.block)
    _, lines = cut_planes(planes, conv.out_spatial[0], conv.taps * usual_upper(conv.out_spatial[1]) / 2)
    row = usual_upper(problem.pitch(columns)) * problem.block * 4
    fitting = max(4, (l1_bytes(profile) // row - conv.kernel[0] * conv.dilations[0]) // conv.strides[0])
    return max(1, min(lines, fitting, usual_upper(conv.out_spatial[0])))


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    problem = _problem(group, profile)
    if problem is not None:
        columns = most_columns(problem.conv, profile)
        yield _variant(group, problem, columns, _default_lines(problem, columns, profile))


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    problem = _problem(group, profile)
    assert problem is not None
    height = usual_upper(problem.conv.out_spatial[0])

    def listed(name: str, values: set[int]) -> Knob:
        return Knob(name, tuple(sorted(values | {int(variant.knobs[name])})))

    return listed("columns", {1, 4, 8}), listed("lines", {1, min(8, height), height})


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    problem = _problem(group, profile)
    assert problem is not None
    columns, lines = (int({**variant.knobs, **values}[name]) for name in ("columns", "lines"))
    if columns > most_columns(problem.conv, profile):
        return Refusal(values, "registers", f"{columns} sums do not fit beside {problem.conv.kernel[1]} weights")
    if lines > max(1, usual_upper(problem.conv.out_spatial[0])):
        return Refusal(values, "shape", f"there are fewer than {lines} rows")
    return _variant(group, problem, columns, lines)


def pack_weights(weights: np.ndarray, block: int) -> np.ndarray:
    """[C, 1, kh, kw] -> [ceil(C / block)][kh][kw][block] of float32, zero beyond C."""
    channels, _, kh, kw = weights.shape
    full = np.zeros((-(-channels // block) * block, kh, kw), np.float32)
    full[:channels] = weights[:, 0]
    return full.reshape(-1, block, kh, kw).transpose(0, 2, 3, 1).reshape(-1)


@dataclass(frozen=True)
class _Code:
    b: Builder
    problem: Problem
    epilogue: Epilogue
    staged: Buffer
    w: Buffer
    pitch: Expr
    n: Expr
    out_block: Expr
    first: Expr

    def tile(self, columns: int, y: Expr, column: Expr, limit: Expr | None) -> None:
        """`columns` neighbours of row y."""
        b, conv, block = self.b, self.problem.conv, self.problem.block
        stride, dilation, taps = conv.strides[1], conv.dilations[1], conv.kernel[1]
        acc: list[Var] = [b.var(const(0.0, Type(FLOAT32, block)), "acc") for _ in range(columns)]
        meets: dict[int, list[tuple[int, int]]] = {}
        for j in range(columns):
            for k in range(taps):
                meets.setdefault(j * stride + k * dilation, []).append((j, k))
        line = b.let((y - self.first) * conv.strides[0], "line")
        with b.loop(0, conv.kernel[0], name="kh") as kh:
            x_at = b.let(((line + kh * conv.dilations[0]) * self.pitch + column * stride) * block, "x_at")
            w_at = b.let((self.out_block * conv.kernel[0] + kh) * (taps * block), "w_at")
            weights = [b.let(b.load(self.w, w_at + k * block, block), "w") for k in range(taps)]
            for place in sorted(meets):
                value = b.let(b.load(self.staged, x_at + place * block, block), "x")
                for j, k in meets[place]:
                    b.assign(acc[j], mad(value, weights[k], acc[j]))
        found = [b.var(cast(value, INT32), "sum") for value in acc]
        self.epilogue.finish(b, [found], self.n, self.out_block, y, column, limit)

    def row(self, y: Expr, most: int) -> None:
        """All tiles of row y; where the width is not known at build the last is cut off."""
        b, width = self.b, self.problem.conv.out_spatial[1]
        if isinstance(width, int):
            sizes, place = split_evenly(width, most), 0
            for size in sorted(set(sizes), reverse=True):
                end = place + sizes.count(size) * size
                with b.loop(place, end, size, name="column") as column:
                    self.tile(size, y, column, None)
                place = end
            return
        whole = b.let(b.dim(width) // most * most, "whole")
        with b.loop(0, whole, most, name="column") as column:
            self.tile(most, y, column, None)
        with b.when(whole.lt(b.dim(width))):
            self.tile(most, y, whole, b.dim(width))


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    problem = _problem(group, profile)
    assert problem is not None
    conv, operands, block = problem.conv, problem.operands, problem.block
    columns, lines = int(variant.knobs["columns"]), int(variant.knobs["lines"])
    b = Builder("conv_depthwise_int8")
    x, w = b.input("x", conv.x.dtype), b.input("w", FLOAT32)
    buffers = {n: b.input("operand", group.values[n].dtype) for n in operands.extras}
    buffers |= {n: b.output("y", group.values[n].dtype) for n in group.outputs}
    epilogue = Epilogue(group, conv.y, buffers, layouts, block)
    rows, planes = problem.rows(lines), blocks(conv.out_channels, block)
    staged = b.scratch("staged", FLOAT32, b.dim(problem.pitch(columns) * (rows * block)))
    parts = ceildiv(conv.out_spatial[0], lines)
    with b.chunks(b.dim(conv.y.shape[0] * parts) * planes) as chunk:
        part, plane = b.let(chunk % b.dim(parts), "part"), b.let(chunk // b.dim(parts), "plane")
        first = b.let(part * lines, "first")
        last = b.let(minimum(first + lines, b.dim(conv.out_spatial[0])), "last")
        height, width = (b.dim(d) for d in conv.in_spatial)
        some = b.let((last - first - 1) * conv.strides[0] + problem.rows(1), "rows")
        top = b.let(first * conv.strides[0] - conv.begin[0], "top")
        area = Rows(top, some, rows, 1, height, width, 0, width, conv.begin[1], problem.right(columns))
        stage(b, FLOATS, x, plane, 1, area, operands.zero_point(b, buffers), block, staged)
        code = _Code(b, problem, epilogue, staged, w, b.let(b.dim(problem.pitch(columns)), "pitch"),
                     b.let(plane // planes, "n"), b.let(plane % planes, "ob"), first)
        with b.loop(first, last, name="y") as y:
            code.row(y, columns)
    func, dims = b.finish()
    packed = {f"{operands.weight.name}@packed": pack_weights(operands.weights, block)}
    return Lowering((KernelCall(func, (conv.x.name, *packed, *operands.extras, *group.outputs), dims),), packed)


CONV_DEPTHWISE_INT8 = Kernel("conv_depthwise_int8", ("ConvInteger",), _variants, _lower, _knobs, _tune)
