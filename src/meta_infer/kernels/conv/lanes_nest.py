"""Convolution of narrow groups over blocked channels: each lane of a vector belongs to the group of its own output.

    group of 4 -> 4, 8 lanes: outputs 0..7 are of two groups; input channel 1 of a group is lanes [1 1 1 1 5 5 5 5]
    depthwise, 2 outputs each: outputs 0..7 are of four groups, whose one channel each is lanes [0 0 1 1 2 2 3 3]

    chunk: image n, a place on the leading axes, `rows` x `width` positions, some output blocks
        patch[slot][IB][rows][cols][c] = x around it, zero outside
        for output block:  for row:  for tile of columns:
            registers = bias
            for channel of a group:  for kernel row:  for input column of the tile:
                pick its lanes once, multiply into every output column it meets
            epilogue

So every multiply-add does a vector of useful products, however narrow the groups are. The lanes repeat after a few
blocks (a period), for which there is code; transposed convolutions do one phase after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import lcm

import numpy as np

from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout
from meta_infer.ir.loop import Buffer, Expr, const, mad, minimum, shuffle, splat
from meta_infer.ir.shapes import ceildiv, divisible, product
from meta_infer.kernels.blocked import blocks
from meta_infer.kernels.conv.conv_patch import Corner, Spread, fill_patch
from meta_infer.kernels.conv.conv_positions import Finish, Where, make_finish
from meta_infer.kernels.conv.conv_shape import extra_inputs, pack_bias
from meta_infer.kernels.conv.conv_tap_list import TapList, each_phase, list_taps, tap_list
from meta_infer.kernels.conv.conv_taps import AxisPhase, TapConv
from meta_infer.kernels.conv.conv_tile import start_tile
from meta_infer.kernels.kernel import KernelCall, Lowering
from meta_infer.support.dtypes import FLOAT32

Lane = tuple[int, int]
"""A channel of the input: (input block, lane), the block counted from the first one of a period."""


@dataclass(frozen=True)
class LanesConv:
    """A convolution with everything chosen. A chunk has `rows` x `width` positions, `width` being a multiple of the
    `columns` of a tile, and `units` periods of output blocks."""

    taps: TapConv
    block: int
    columns: int
    rows: int
    width: int
    units: int

    @property
    def spread(self) -> Spread:
        return Spread(self.taps, self.rows, self.width)

    @property
    def out_total(self) -> int:
        return blocks(self.taps.conv.out_channels, self.block)

    @property
    def in_total(self) -> int:
        return blocks(self.taps.conv.in_channels, self.block)

    @cached_property
    def period(self) -> tuple[int, int]:
        """Output and input blocks after which the lanes repeat."""
        out, into = self.taps.out_per_group, self.taps.in_per_group
        groups = lcm(out, self.block) // out
        groups = lcm(groups * into, self.block) // into
        return groups * out // self.block, groups * into // self.block

    @property
    def kinds(self) -> int:
        """Output blocks of a period that there are."""
        return min(self.period[0], self.out_total)

    @property
    def all_units(self) -> int:
        return -(-self.out_total // self.period[0])

    @property
    def patch_blocks(self) -> int:
        return min(self.units * self.period[1], -(-self.in_total // self.period[1]) * self.period[1])

    @property
    def patch_elements(self) -> int:
        return self.spread.elements(self.patch_blocks, self.block)

    @property
    def kernel_rows(self) -> int:
        return self.taps.taps // self.taps.kernel[-1]

    @property
    def block_weights(self) -> int:
        """Packed weights of an output block."""
        return self.taps.taps * self.taps.in_per_group * self.block

    @property
    def scratch_bytes(self) -> int:
        return 4 * self.patch_elements + 8 * (2 * self.kernel_rows + self.taps.phase_count + 1) + 5 * 64

    def lanes(self, kind: int, channel: int) -> tuple[Lane, ...]:
        """Where the lanes of output block `kind` of a period find channel number `channel` of their groups."""
        found = []
        for lane in range(self.block):
            group = (kind * self.block + lane) // self.taps.out_per_group
            at = group * self.taps.in_per_group + channel
            found.append((at // self.block, at % self.block))
        return tuple(found)

    def statements(self) -> int:
        """About how many statements the code has."""
        width = self.taps.kernel[-1]
        body = 2 * (self.columns + width) + width + self.columns * width + 8
        return self.kinds * (self.taps.out_step[-1] * 24 * self.columns + self.taps.in_per_group * body)

    def pack(self, weight: np.ndarray) -> np.ndarray:
        """[OC, IC of a group, tap] -> [output block][kernel row][IC of a group][kw][block], flat, zero beyond OC."""
        channels, depth, _ = weight.shape
        full = np.zeros((self.out_total * self.block, depth, self.kernel_rows, self.taps.kernel[-1]), np.float32)
        full[:channels] = weight.reshape(channels, depth, self.kernel_rows, -1)
        split = full.reshape(self.out_total, self.block, depth, self.kernel_rows, -1)
        return split.transpose(0, 3, 2, 4, 1).reshape(-1)


def _pick(b: Builder, patch: Buffer, at: Expr, block_step: Expr, lanes: Sequence[Lane]) -> Expr:
    """A vector of the named lanes of the input blocks at one position; `at` is that of the period's first block."""
    block = len(lanes)
    sources = sorted({source for source, _ in lanes})
    if len(set(lanes)) == 1:
        source, lane = lanes[0]
        return b.let(splat(b.load(patch, at + source * block_step + lane), block), "x")
    loaded = [b.let(b.load(patch, at + source * block_step, block), "x") for source in sources]
    if len(sources) == 1:
        picks = tuple(lane for _, lane in lanes)
        return loaded[0] if picks == tuple(range(block)) else b.let(shuffle(loaded[0], loaded[0], picks), "x")
    value = loaded[0]
    for i, more in enumerate(loaded[1:], 1):                          # lanes of sources so far, then those of one more
        picks = tuple(block + lane if source == sources[i] else lane if i == 1 else at_lane
                      for at_lane, (source, lane) in enumerate(lanes))
        value = b.let(shuffle(value, more, picks), "x")
    return value


@dataclass(frozen=True)
class _Nest:
    """What the code inside a chunk needs at hand."""

    b: Builder
    plan: LanesConv
    patch: Buffer
    w: Buffer
    bias: Buffer
    taps: TapList
    finish: Finish
    corner: Corner
    rows: Expr
    width: Expr
    block_step: Expr                                 # from one input block of the patch to the next

    def block(self, kind: int, out_block: Expr, in_block: Expr) -> None:
        """All positions of one output block; `in_block` is where the patch has the period's first input block."""
        b, plan = self.b, self.plan
        axes = len(plan.taps.kernel) - 1
        x_block = b.let(in_block * self.block_step, "x_block")
        w_block = b.let(out_block * plan.block_weights, "w_block")
        with each_phase(b, plan.taps, axes) as (phase, firsts), self.finish.inside(b, self.corner, firsts):
            rows = (b.let(b.load(self.taps.starts, phase), "tap_first"),
                    b.let(b.load(self.taps.starts, phase + 1), "tap_last"))
            with b.loop(0, self.rows, name="row") as row, b.loop(0, self.width, plan.columns, name="column") as column:
                place = row * (plan.taps.in_step[-2] * plan.spread.pitch) + column * plan.taps.in_step[-1]
                x_at = b.let(x_block + place * plan.block, "x_place")
                for last in plan.taps.axes[-1]:
                    self._tile(kind, last, (*firsts, const(last.first)), rows, (row, column), x_at, w_block, out_block)

    def _tile(self, kind: int, last: AxisPhase, firsts: tuple[Expr, ...], rows: tuple[Expr, Expr],
              at: tuple[Expr, Expr], x_at: Expr, w_block: Expr, out_block: Expr) -> None:
        b, plan = self.b, self.plan
        taps, block, columns = plan.taps, plan.block, plan.columns
        first = b.let(b.load(self.bias, out_block * block, block), "bias")
        acc = start_tile(b, 1, columns, block, lambda v, j: first)
        least = taps.places(len(taps.kernel) - 1)[0]
        meets: dict[int, list[tuple[int, int]]] = {}                  # input column: (output column, tap)
        for j in range(columns):
            for place, k in last.taps:
                meets.setdefault(j * taps.in_step[-1] + place - least, []).append((j, k))
        for channel in range(taps.in_per_group if meets else 0):
            lanes = plan.lanes(kind, channel)
            with b.loop(*rows, name="t") as t:                        # a loop for each channel: code that saw several
                x_row = b.let(x_at + b.load(self.taps.place, t), "x_at")     # would hold their inputs in registers
                w_row = b.load(self.taps.number, t) * taps.in_per_group + channel
                w_at = b.let(w_block + w_row * (taps.kernel[-1] * block), "w_at")
                weights = {k: b.let(b.load(self.w, w_at + k * block, block), "w") for _, k in last.taps}
                for place in sorted(meets):
                    value = _pick(b, self.patch, x_row + place * block, self.block_step, lanes)
                    for j, k in meets[place]:
                        b.assign(acc[0][j], mad(value, weights[k], acc[0][j]))
        row, column = at
        end = None if divisible(taps.q_spatial[-1], columns) else self.width
        where = Where(lambda j: (row, b.let(column + j, "q")), lambda j: None if end is None else (column + j).lt(end))
        self.finish.store(b, acc, self.corner, firsts, out_block, where)


def lower_lanes(group: Group, plan: LanesConv, layouts: Mapping[str, Layout], name: str) -> Lowering:
    """The loop nest of the module's note."""
    b, taps, block = Builder(name), plan.taps, plan.block
    conv, spread = taps.conv, plan.spread
    x, w, bias = (b.input(n, FLOAT32) for n in ("x", "w", "bias"))
    extras = extra_inputs(group, conv)
    buffers = {n: b.input("operand", group.values[n].dtype) for n in extras}
    buffers |= {n: b.output("y", group.values[n].dtype) for n in group.outputs}
    patch, found = b.scratch("patch", FLOAT32, plan.patch_elements), tap_list(b, taps, len(taps.kernel) - 1)
    finish = make_finish(b, group, taps, buffers, layouts, block, plan.columns)
    *lead_q, height_q, width_q = taps.q_spatial
    strips, row_groups = ceildiv(width_q, plan.width), ceildiv(height_q, plan.rows)
    places = b.dim(product((strips, row_groups, *lead_q, conv.y.shape[0])))
    with b.chunks(places * -(-plan.all_units // plan.units)) as chunk:
        rest: Expr = chunk
        at = []
        for size in (strips, row_groups, *reversed(lead_q), conv.y.shape[0]):
            at.append(b.let(rest % b.dim(size), "at"))
            rest = b.let(rest // b.dim(size), "rest")
        corner = Corner(at[-1], at[-2:1:-1], b.let(at[1] * plan.rows, "q0"), b.let(at[0] * plan.width, "x0"))
        rows = b.let(minimum(b.dim(height_q) - corner.row, plan.rows), "rows")
        width = b.let(minimum(b.dim(width_q) - corner.column, plan.width), "width")
        first = b.let(rest * plan.units, "unit")
        last = b.let(minimum(first + plan.units, plan.all_units), "unit_end")
        in_first = b.let(first * plan.period[1], "in_first")
        in_count = b.let(minimum(last * plan.period[1], plan.in_total) - in_first, "in_count")
        fill_patch(b, spread, patch, x, corner, in_first, in_count, plan.in_total, block)
        plane = const(spread.height * spread.pitch * block)
        steps: list[Expr | int] = [spread.pitch * block]
        step: Expr = b.let(plane * in_count, "slot_step")
        for slots in reversed(spread.slots):
            steps.insert(0, step)
            step = step * slots
        list_taps(b, spread, found, corner, (rows, width), steps)
        nest = _Nest(b, plan, patch, w, bias, found, finish, corner, rows, width, plane)
        with b.loop(first, last, name="unit", apart=True) as unit:
            for kind in range(plan.kinds):
                out_block = b.let(unit * plan.period[0] + kind, "ob")
                within = (unit - first) * plan.period[1]
                if plan.all_units * plan.period[0] == plan.out_total or plan.all_units == 1:
                    nest.block(kind, out_block, within)
                    continue
                with b.when(out_block.lt(plan.out_total)):
                    nest.block(kind, out_block, within)
    func, dims = b.finish()
    weight = conv.weight.name
    constant = group.constants[conv.bias.name] if conv.bias is not None else None
    packed = {f"{weight}@packed": plan.pack(taps.dense_weights(group.constants[weight])),
              f"{weight}@bias": pack_bias(constant, taps.out_per_group * conv.group, block)}
    return Lowering((KernelCall(func, (conv.x.name, *packed, *extras, *group.outputs), dims),), packed)
