"""Convolution through an indirection, over blocked channels: any number of spatial dims, groups, transposed.

    chunk: image n, a place on the leading axes, `rows` x `width` positions, some tiles of output blocks (or groups)
        patch[slot][IB][rows][cols][c] = x around it, zero outside                 (or the input itself, without border)
        for tile of output blocks:  for phase:  for tile of positions:
            registers = bias
            for input block of its group:  for tap of the list:  for channel:  multiply-add
            epilogue

The positions of a chunk are numbered across its rows, and a table says where in the patch each begins, so that tiles
of 6 are full on rows of 7. A list says where in the patch each tap lies, so that neither the number of dims nor a
stride, dilation or phase changes the loops (M. Dukhan, "The Indirect Convolution Algorithm", 2019; there the table
holds a pointer for every position and tap).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from meta_infer.ir.builder import Builder, index
from meta_infer.ir.group import Group, Layout
from meta_infer.ir.loop import Buffer, Expr, const, mad, minimum, splat
from meta_infer.ir.shapes import ceildiv, divisible, product
from meta_infer.kernels.blocked import blocks
from meta_infer.kernels.conv.conv_patch import Corner, Spread, fill_patch
from meta_infer.kernels.conv.conv_positions import (
    Finish,
    PositionTable,
    fill_positions,
    make_finish,
    numbered,
    position_table,
)
from meta_infer.kernels.conv.conv_reach import Reach
from meta_infer.kernels.conv.conv_shape import extra_inputs, pack_bias
from meta_infer.kernels.conv.conv_tap_list import TapList, each_phase, list_taps, tap_list
from meta_infer.kernels.conv.conv_taps import TapConv
from meta_infer.kernels.conv.conv_tile import Accumulators, OutRun, start_tile, tiles_in
from meta_infer.kernels.kernel import KernelCall, Lowering
from meta_infer.support.dtypes import FLOAT32

# Larger bodies are loops over the input channels of a block instead of straight code.
_STRAIGHT_MADS = 400


@dataclass(frozen=True)
class IndirectConv:
    """A convolution with everything chosen. A chunk has `rows` x `width` positions and `units`: tiles where there is
    one part, else whole parts. `in_pass` input blocks are summed up before the next ones begin."""

    reach: Reach
    columns: int
    rows: int
    width: int
    units: int
    in_pass: int
    in_place: bool

    @property
    def taps(self) -> TapConv:
        return self.reach.taps

    @property
    def spread(self) -> Spread:
        return Spread(self.taps, self.rows, self.width)

    @cached_property
    def runs(self) -> tuple[OutRun, ...]:
        return self.reach.tiles(self.columns).runs

    @property
    def all_units(self) -> int:
        return self.reach.parts if self.reach.parts > 1 else sum(run.count for run in self.runs)

    @property
    def in_total(self) -> int:
        """Input blocks of an image."""
        return blocks(self.taps.conv.in_channels, self.reach.in_block)

    def tile_start(self, tile: int) -> tuple[int, int]:
        """First block and vectors of a tile of a part."""
        run = next(r for r in reversed(self.runs) if r.tile <= tile)
        return run.block + (tile - run.tile) * run.vectors, run.vectors

    @cached_property
    def patch_blocks(self) -> int:
        """Input blocks that a chunk meets, at most."""
        reach = self.reach
        if not reach.is_mixed:
            return reach.in_blocks * (min(self.units, reach.parts) if reach.parts > 1 else 1)
        most = 0
        for first in range(0, self.all_units, self.units):
            last = min(first + self.units, self.all_units) - 1
            most = max(most, reach.range_of(*self.tile_start(last))[1] - reach.range_of(*self.tile_start(first))[0])
        return most

    @property
    def patch_elements(self) -> int:
        return 0 if self.in_place else self.spread.elements(self.patch_blocks, self.reach.in_block)

    @property
    def positions(self) -> int:
        """Room in the position table: the last tile may reach beyond the last position."""
        return self.rows * self.width + self.columns

    @property
    def always_whole(self) -> bool:
        """Whether the positions of every chunk are a multiple of a tile's."""
        return self.rows * self.width % self.columns == 0 and all(
            divisible(size, part) for size, part in zip(self.taps.q_spatial[-2:], (self.rows, self.width), strict=True))

    @property
    def passes(self) -> bool:
        """Whether sums are kept between passes over the input blocks."""
        return not self.reach.is_mixed and self.in_pass < self.reach.in_blocks

    @property
    def kept_elements(self) -> int:
        return self.positions * max(run.vectors for run in self.runs) * self.reach.block if self.passes else 0

    @property
    def scratch_bytes(self) -> int:
        tables = 3 * self.positions + 2 * self.taps.taps + self.taps.phase_count + 1
        return 4 * (self.patch_elements + self.kept_elements) + 8 * tables + 7 * 64


@dataclass(frozen=True)
class _Input:
    """Where tiles read: `base` is the first element, `block_step` leads to the next input block; blocks are counted
    from `first_block` of the image."""

    buffer: Buffer
    base: Expr
    block_step: Expr
    first_block: Expr


@dataclass(frozen=True)
class _Tile:
    """A tile of output blocks in one phase."""

    vectors: int
    out_block: Expr
    firsts: tuple[Expr, ...]                          # the phase: its first output on every axis
    in_first: Expr                                    # input block, counted as the input's are
    weights: Expr
    tap_first: Expr
    tap_last: Expr


@dataclass(frozen=True)
class _Nest:
    """What the code inside a chunk needs at hand."""

    b: Builder
    plan: IndirectConv
    w: Buffer
    bias: Buffer
    kept: Buffer | None
    taps: TapList
    table: PositionTable
    finish: Finish
    source: _Input
    corner: Corner
    count: Expr                                       # positions of the chunk

    def run(self, run: OutRun, part: Expr, number: Expr) -> None:
        """All phases and positions of one tile of output blocks."""
        b, reach = self.b, self.plan.reach
        within = b.let(run.block + number * run.vectors, "within")
        first, in_count = reach.range_at(b, within, run.vectors)
        in_first = b.let(part * reach.in_blocks + first - self.source.first_block, "in_first")
        out_block = b.let(part * reach.out_blocks + within, "ob")
        weights = b.let(out_block * reach.block_weights, "w_tile")
        axes = len(self.plan.taps.kernel)
        with each_phase(b, self.plan.taps, axes) as (phase, firsts), self.finish.inside(b, self.corner, firsts):
            tile = _Tile(run.vectors, out_block, firsts, in_first, weights,
                         b.let(b.load(self.taps.starts, phase), "tap_first"),
                         b.let(b.load(self.taps.starts, phase + 1), "tap_last"))
            if self.kept is None:
                self._sweep(tile, 0, in_count)
            else:
                self._start_kept(tile)
                with b.loop(0, in_count, self.plan.in_pass, name="pass") as start:
                    self._sweep(tile, start, b.let(minimum(start + self.plan.in_pass, in_count), "stop"))

    def _start_kept(self, tile: _Tile) -> None:
        b, block = self.b, self.plan.reach.block
        assert self.kept is not None
        first = self._bias(tile)
        with b.loop(0, self.count, name="p") as p:
            for v, value in enumerate(first):
                b.store(self.kept, (p * tile.vectors + v) * block, value)

    def _bias(self, tile: _Tile) -> list[Expr]:
        b, block = self.b, self.plan.reach.block
        return [b.let(b.load(self.bias, (tile.out_block + v) * block, block), "bias") for v in range(tile.vectors)]

    def _sweep(self, tile: _Tile, start: Expr | int, stop: Expr | int) -> None:
        """Input blocks [start, stop) of a tile at all positions."""
        b, columns = self.b, self.plan.columns
        whole = b.let(self.count // columns * columns, "whole")
        with b.loop(0, whole, columns, name="p") as p:
            self._positions(tile, start, stop, p, None)
        if not self.plan.always_whole:
            with b.when(whole.lt(self.count)):
                self._positions(tile, start, stop, whole, self.count)

    def _positions(self, tile: _Tile, start: Expr | int, stop: Expr | int, p: Expr, count: Expr | None) -> None:
        b, block, columns = self.b, self.plan.reach.block, self.plan.columns
        kept = self.kept
        if kept is None:
            first = self._bias(tile)
            acc = start_tile(b, tile.vectors, columns, block, lambda v, j: first[v])
        else:
            acc = start_tile(b, tile.vectors, columns, block,
                             lambda v, j: b.load(kept, ((p + j) * tile.vectors + v) * block, block))
        places = [b.let(self.source.base + b.load(self.table.place, p + j), "place") for j in range(columns)]
        self._accumulate(tile, acc, places, start, stop)
        where = numbered(b, self.table, p, count)
        if kept is None:
            self.finish.store(b, acc, self.corner, tile.firsts, tile.out_block, where)
            return
        with b.when(index(stop).eq(self.plan.reach.in_blocks)):
            self.finish.store(b, acc, self.corner, tile.firsts, tile.out_block, where)
        with b.otherwise():
            for v, row in enumerate(acc):
                for j, value in enumerate(row):
                    b.store(kept, ((p + j) * tile.vectors + v) * block, value)

    def _accumulate(self, tile: _Tile, acc: Accumulators, places: list[Expr], start: Expr | int,
                    stop: Expr | int) -> None:
        b, reach = self.b, self.plan.reach
        block, in_block, vectors = reach.block, reach.in_block, tile.vectors
        tap_weights = in_block * vectors * block

        def weight(v: int, ic: Expr | int, w_at: Expr) -> Expr:
            return b.let(b.load(self.w, w_at + ic * (vectors * block) + v * block, block), "w")

        def value(place: Expr, ic: Expr | int, x_at: Expr) -> Expr:
            return b.let(splat(b.load(self.source.buffer, place + x_at + ic), block), "x")

        def channel(ic: Expr | int, x_at: Expr, w_at: Expr) -> None:
            """The smaller side stays in registers while the other passes."""
            if vectors > len(places):
                values = [value(place, ic, x_at) for place in places]
                for v in range(vectors):
                    factor = weight(v, ic, w_at)
                    for j, x in enumerate(values):
                        b.assign(acc[v][j], mad(x, factor, acc[v][j]))
                return
            factors = [weight(v, ic, w_at) for v in range(vectors)]
            for j, place in enumerate(places):
                x = value(place, ic, x_at)
                for v, factor in enumerate(factors):
                    b.assign(acc[v][j], mad(x, factor, acc[v][j]))

        def block_at(x_at: Expr, w_at: Expr) -> None:
            if tap_weights // block * len(places) <= _STRAIGHT_MADS:
                for ic in range(in_block):
                    channel(ic, x_at, w_at)
                return
            with b.loop(0, in_block, name="ic") as lane:
                channel(lane, x_at, w_at)

        with b.loop(start, stop, name="ib") as ib:
            x_block = b.let((tile.in_first + ib) * self.source.block_step, "x_block")
            w_block = b.let(tile.weights + ib * (self.plan.taps.taps * tap_weights), "w_block")
            if self.plan.taps.taps == self.plan.taps.phase_count == 1:      # it is the first place of its patch
                block_at(x_block, w_block)
                return
            with b.loop(tile.tap_first, tile.tap_last, name="t") as t:
                x_at = b.let(x_block + b.load(self.taps.place, t), "x_at")
                block_at(x_at, b.let(w_block + b.load(self.taps.number, t) * tap_weights, "w_at"))


def lower_indirect(group: Group, plan: IndirectConv, layouts: Mapping[str, Layout], name: str) -> Lowering:
    """The loop nest of the module's note."""
    b, taps, reach = Builder(name), plan.taps, plan.reach
    conv = taps.conv
    x, w, bias = (b.input(n, FLOAT32) for n in ("x", "w", "bias"))
    extras = extra_inputs(group, conv)
    buffers = {n: b.input("operand", group.values[n].dtype) for n in extras}
    buffers |= {n: b.output("y", group.values[n].dtype) for n in group.outputs}
    patch = None if plan.in_place else b.scratch("patch", FLOAT32, plan.patch_elements)
    kept = b.scratch("kept", FLOAT32, plan.kept_elements) if plan.passes else None
    table, found = position_table(b, plan.positions), tap_list(b, taps, len(taps.kernel))
    most = max(run.vectors for run in plan.runs)
    finish = make_finish(b, group, taps, buffers, layouts, reach.block, most * plan.columns)
    *lead_q, height_q, width_q = taps.q_spatial
    strips, row_groups = ceildiv(width_q, plan.width), ceildiv(height_q, plan.rows)
    unit_groups = -(-plan.all_units // plan.units)
    images = conv.y.shape[0]
    with b.chunks(b.dim(product((strips, row_groups, *lead_q, images))) * unit_groups) as chunk:
        strip, rest = _split(b, chunk, b.dim(strips))
        row_group, rest = _split(b, rest, b.dim(row_groups))
        lead: list[Expr] = []
        for size in reversed(lead_q):
            at, rest = _split(b, rest, b.dim(size))
            lead.insert(0, at)
        n, unit_group = _split(b, rest, b.dim(images))
        corner = Corner(n, lead, b.let(row_group * plan.rows, "q0"), b.let(strip * plan.width, "x0"))
        rows = b.let(minimum(b.dim(height_q) - corner.row, plan.rows), "rows")
        width = b.let(minimum(b.dim(width_q) - corner.column, plan.width), "width")
        units = b.let(unit_group * plan.units, "unit"), b.let(
            minimum(unit_group * plan.units + plan.units, plan.all_units), "unit_end")
        source = _place_input(b, plan, x, patch, corner, (rows, width), units, table, found)
        nest = _Nest(b, plan, w, bias, kept, found, table, finish, source, corner, b.let(rows * width, "positions"))
        parts = (const(0), const(1)) if reach.parts == 1 else units
        with b.loop(*parts, name="part", apart=True) as part:
            for run in plan.runs:
                bounds = (const(0), const(run.count)) if reach.parts > 1 else tiles_in(run, *units)
                with b.loop(*bounds, name="tile") as number:
                    nest.run(run, part, number)
    func, dims = b.finish()
    weight = conv.weight.name
    constant = group.constants[conv.bias.name] if conv.bias is not None else None
    packed = {f"{weight}@packed": reach.pack(taps.dense_weights(group.constants[weight])),
              f"{weight}@bias": _pack_bias(reach, constant)}
    return Lowering((KernelCall(func, (conv.x.name, *packed, *extras, *group.outputs), dims),), packed)


def _pack_bias(reach: Reach, bias: np.ndarray | None) -> np.ndarray:
    return pack_bias(bias, reach.taps.out_per_group * reach.taps.conv.group, reach.block)


def _split(b: Builder, number: Expr, size: Expr) -> tuple[Expr, Expr]:
    """(number mod size, number / size)."""
    return b.let(number % size, "at"), b.let(number // size, "rest")


def _place_input(b: Builder, plan: IndirectConv, x: Buffer, patch: Buffer | None, corner: Corner,
                 counts: tuple[Expr, Expr], units: tuple[Expr, Expr], table: PositionTable,
                 found: TapList) -> _Input:
    """Copy what the chunk reads, unless it is read in place, and fill its tables of positions and taps."""
    taps, spread, in_block = plan.taps, plan.spread, plan.reach.in_block
    first_block, in_count = _in_blocks(b, plan, units)
    if patch is not None:
        fill_patch(b, spread, patch, x, corner, first_block, in_count, plan.in_total, in_block)
        plane = const(spread.height * spread.pitch * in_block)
        pitch, block_step, base = const(spread.pitch * in_block), plane, const(0)
        slot_step: Expr = plane * in_count
        lead_steps: list[Expr] = []
        for slots in reversed(spread.slots):
            lead_steps.insert(0, slot_step)
            slot_step = slot_step * slots
    else:
        *depth, height, width = (b.dim(size) for size in taps.in_spatial)
        pitch = b.let(width * in_block, "pitch")
        plane = b.let(height * pitch, "plane")
        lead_steps, block_step = [], plane
        place = const(0)
        for axis in reversed(range(len(depth))):
            dilation = 1 if taps.is_transposed else taps.conv.dilations[axis]
            lead_steps.insert(0, block_step * dilation)
            place = place + corner.lead[axis] * taps.in_step[axis] * block_step
            block_step = b.let(block_step * depth[axis], "block_step")
        place = place + corner.row * taps.in_step[-2] * pitch + corner.column * (taps.in_step[-1] * in_block)
        base = b.let((corner.n * plan.in_total + first_block) * block_step + place, "base")
    fill_positions(b, table, *counts, pitch * taps.in_step[-2], const(taps.in_step[-1] * in_block), plan.columns)
    list_taps(b, spread, found, corner, counts, (*lead_steps, pitch, in_block))
    return _Input(x if patch is None else patch, base, block_step, first_block)


def _in_blocks(b: Builder, plan: IndirectConv, units: tuple[Expr, Expr]) -> tuple[Expr, Expr | int]:
    """(first, count) of the input blocks that the chunk's units meet."""
    reach = plan.reach
    if reach.parts > 1:
        count = reach.in_blocks if plan.units == 1 else b.let((units[1] - units[0]) * reach.in_blocks, "in_blocks")
        return b.let(units[0] * reach.in_blocks, "first_block"), count
    if not reach.is_mixed or plan.units >= plan.all_units:
        return const(0), plan.in_total
    size, vectors = plan.runs[0].count, plan.runs[0].vectors
    less = plan.runs[-1].vectors                                     # of the tiles after the first run

    def block(unit: Expr) -> Expr:
        return unit * less + minimum(unit, size) * (vectors - less)

    first, _ = reach.range_at(b, b.let(block(units[0]), "first"), 1)
    last_first, last_count = reach.range_at(b, b.let(block(units[1]) - 1, "last"), 1)
    assert isinstance(first, Expr)
    return first, b.let(last_first + last_count - first, "in_blocks")
