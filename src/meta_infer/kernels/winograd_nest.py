"""The loop nest of a Winograd convolution over blocked channels.

    chunk: a block of tiles, some passes over output channels
        for row of tiles (or the part of it in the block), input block:                           transform_input
            for column:  half = B^T d, the image's rows and columns with zeros around
            for row of half, tile:  V[point][input block][tile][c] = half B
        for pass:
            for point:  for register tile of output blocks:  for group of tiles:                  multiply
                M[point][output block][tile][c] = sum over input channels of U * V
            for row of tiles, output block:                                                       transform_output
                for column of M, tile:  half = A^T M
                for row of outputs, tile:  y = epilogue(half A + bias)

    U [pass][point][register tile][input block][c][v][c] are the weights, transformed at build. V, M, half are scratch.

For each point the weights stream by once for a block while V[point] stays in L1 or L2. Neighbouring tiles share the
first half of their input transform, and all inner loops are long, without branches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout
from meta_infer.ir.loop import Expr, Type, Var, const, mad, maximum, minimum, select, splat
from meta_infer.ir.shapes import ceildiv, divisible
from meta_infer.kernels.conv_shape import extra_inputs, pack_bias, pack_weights
from meta_infer.kernels.conv_tile import Epilogue
from meta_infer.kernels.kernel import KernelCall, Lowering
from meta_infer.kernels.winograd_plan import OutRun, WinogradConv
from meta_infer.kernels.winograd_transforms import emit_program, linear_program, transform_weights, transforms
from meta_infer.support.dtypes import FLOAT32

# Elements of a cache line of 64 bytes.
_LINE = 16
# Larger bodies are loops over the input channels of a block instead of straight code.
_STRAIGHT_MADS = 400


@dataclass(frozen=True)
class _TileRow:
    """`count` neighbouring tiles of image `n` whose first output is at (`y`, `x`); the first one has slot `slot`."""

    n: Expr
    y: Expr
    x: Expr
    slot: Expr
    count: Expr


class _Nest:
    """One function being written: the buffers and bounds that its parts share."""

    def __init__(self, plan: WinogradConv, group: Group, layouts: Mapping[str, Layout], name: str) -> None:
        self.plan, self.conv = plan, plan.conv
        self.b = b = Builder(name)
        self.x, self.w, self.bias = (b.input(n, FLOAT32) for n in ("x", "w", "bias"))
        extras = extra_inputs(group, plan.conv)
        buffers = {n: b.input("operand", group.values[n].dtype) for n in extras}
        buffers |= {n: b.output("y", group.values[n].dtype) for n in group.outputs}
        self.epilogue = Epilogue(group, plan.conv.y, buffers, layouts, plan.block)
        self.v = b.scratch("v", FLOAT32, plan.points * plan.input_pitch)
        self.m = b.scratch("m", FLOAT32, plan.points * plan.output_pitch)
        self.half = b.scratch("half", FLOAT32, plan.half_elements)

    # --- tiles --------------------------------------------------------------------------------------------

    @contextmanager
    def tile_rows(self, first: Expr, last: Expr) -> Iterator[_TileRow]:
        """A loop over the rows of tiles that tiles [first, last) of all images lie in."""
        b, plan = self.b, self.plan
        rows, columns = b.dim(plan.tile_rows), b.dim(plan.tile_columns)
        with b.loop(first // columns, (last - 1) // columns + 1, name="tile_row") as row:
            start = b.let(row * columns, "row_start")
            begin, end = b.let(maximum(first, start), "begin"), b.let(minimum(last, start + columns), "end")
            yield _TileRow(b.let(row // rows, "n"), b.let(row % rows * plan.m, "y"),
                           b.let((begin - start) * plan.m, "x"), b.let(begin - first, "slot"),
                           b.let(end - begin, "count"))

    # --- input --------------------------------------------------------------------------------------------

    def transform_input(self, first: Expr, last: Expr) -> None:
        b, plan, conv = self.b, self.plan, self.conv
        side, block, m = plan.side, plan.block, plan.m
        height, width = (b.dim(d) for d in conv.in_spatial)
        program = linear_program(transforms(m).input)
        zero = const(0.0, Type(FLOAT32, block))
        pitch = plan.half_columns * block

        def vertical(c: Expr, values: Sequence[Expr]) -> None:
            for r, value in enumerate(values):
                b.store(self.half, c * block + r * pitch, value)

        with self.tile_rows(first, last) as tiles, b.loop(0, plan.in_blocks, name="ib") as ib:
            top, left = b.let(tiles.y - conv.begin[0], "top"), b.let(tiles.x - conv.begin[1], "left")
            image = b.let((tiles.n * plan.in_blocks + ib) * height, "image")
            columns = b.let(tiles.count * m + (side - m), "columns")
            low = b.let(minimum(maximum(const(0) - left, 0), columns), "low")
            high = b.let(maximum(minimum(width - left, columns), low), "high")
            for start, stop in ((const(0), low), (high, columns)):
                with b.loop(start, stop, name="c") as c:
                    vertical(c, [zero] * side)
            at = b.let(((image + top) * width + left) * block, "at")
            with b.when(top.ge(0) & (top + side).le(height)), b.loop(low, high, name="c") as c:
                values = [b.let(b.load(self.x, at + (width * r + c) * block, block), "d") for r in range(side)]
                vertical(c, emit_program(b, program, values, plan.is_fused))
            with b.otherwise():
                self._edge_columns(image, top, left, low, high, vertical)
            to = b.let((ib * plan.slots + tiles.slot) * block, "to")
            with b.loop(0, side, name="r") as r, b.loop(0, tiles.count, name="t") as t:
                values = [b.let(b.load(self.half, r * pitch + (t * m + k) * block, block), "d") for k in range(side)]
                place = b.let(to + r * (side * plan.input_pitch) + t * block, "place")
                for k, value in enumerate(emit_program(b, program, values, plan.is_fused)):
                    b.store(self.v, place + k * plan.input_pitch, value)

    def _edge_columns(self, image: Expr, top: Expr, left: Expr, low: Expr, high: Expr,
                      vertical: Callable[[Expr, Sequence[Expr]], None]) -> None:
        """The vertical half where some rows lie outside of the image: their elements count as zero."""
        b, plan = self.b, self.plan
        block = plan.block
        height, width = (b.dim(d) for d in self.conv.in_spatial)
        zero = const(0.0, Type(FLOAT32, block))
        rows, inside = [], []
        for r in range(plan.side):
            row = b.let(top + r, "row")
            nearest = maximum(minimum(row, height - 1), 0)
            rows.append(b.let(((image + nearest) * width + left) * block, "at"))
            inside.append(b.let(splat(row.ge(0) & row.lt(height), block), "inside"))
        with b.loop(low, high, name="c") as c:
            loaded = [b.let(b.load(self.x, at + c * block, block), "d") for at in rows]
            values = [b.let(select(known, value, zero), "d") for known, value in zip(inside, loaded, strict=True)]
            vertical(c, emit_program(b, linear_program(transforms(plan.m).input), values, plan.is_fused))

    def clear_slots(self, first: Expr, last: Expr) -> None:
        """Slots beyond the last tile take part in the products: zeros, which are quick on every processor."""
        b, plan = self.b, self.plan
        with b.when(first.lt(last)), b.loop(0, plan.points, name="p") as p, b.loop(0, plan.in_blocks, name="ib") as ib:
            with b.loop(first, last, name="t") as t:
                b.store(self.v, p * plan.input_pitch + (ib * plan.slots + t) * plan.block,
                        const(0.0, Type(FLOAT32, plan.block)))

    # --- products -----------------------------------------------------------------------------------------

    def block_of(self, tile: Expr) -> Expr:
        """The first output block of a register tile; the number of blocks for one beyond the last."""
        vectors, more = self.plan.sizes[-1], self.plan.sizes.count(self.plan.sizes[-1] + 1)
        return self.b.let(tile * vectors + (minimum(tile, more) if more else const(0)), "ob")

    def multiply(self, first: Expr, last: Expr, groups: Expr) -> None:
        """M of register tiles [first, last), those of one pass."""
        b, plan = self.b, self.plan
        out, end = self.block_of(first), self.block_of(last)
        count = b.let(end - out, "out_blocks")
        unit = plan.in_blocks * plan.block**2                          # weights of an output block at a point
        with b.loop(0, plan.points, name="p") as p:
            for run in plan.runs:
                low = b.let(maximum(first - run.tile, 0) if run.tile else first, "low")
                high = b.let(minimum(last - run.tile, run.count), "high")
                with b.loop(low, high, name="tile") as tile:
                    within = b.let(run.block + tile * run.vectors - out, "within")
                    w_at = b.let((out * plan.points + p * count + within) * unit, "w_tile")
                    m_at = b.let(p * plan.output_pitch + within * (plan.slots * plan.block), "m_tile")
                    self._register_tiles(run, p, w_at, m_at, groups)

    def _register_tiles(self, run: OutRun, p: Expr, w_at: Expr, m_at: Expr, groups: Expr) -> None:
        """All groups of tiles for one register tile of output blocks, in passes over input blocks."""
        b, plan = self.b, self.plan

        def sweep(first: Expr | int, last: Expr | int, begins: bool) -> None:
            with b.loop(0, groups, name="g") as g:
                at = b.let(m_at + g * (plan.columns * plan.block), "m_at")
                self._register_tile(run, p, w_at, at, g, first, last, begins)

        sweep(0, plan.in_pass, True)
        if plan.in_pass < plan.in_blocks:
            with b.loop(plan.in_pass, plan.in_blocks, plan.in_pass, name="pass") as first:
                sweep(first, b.let(minimum(first + plan.in_pass, plan.in_blocks), "pass_end"), False)

    def _register_tile(self, run: OutRun, p: Expr, w_at: Expr, m_at: Expr, g: Expr, first: Expr | int,
                       last: Expr | int, begins: bool) -> None:
        b, plan = self.b, self.plan
        block, vectors, columns = plan.block, run.vectors, plan.columns
        pitch = plan.slots * block
        zero = const(0.0, Type(FLOAT32, block))
        acc = [[b.var(zero if begins else b.load(self.m, m_at + v * pitch + j * block, block), f"acc{v}_{j}")
                for j in range(columns)] for v in range(vectors)]
        v_at = b.let(p * plan.input_pitch + g * (columns * block), "v_tile")
        step = block * block * vectors
        with b.loop(first, last, name="ib") as ib:
            x, w = b.let(v_at + ib * pitch, "x_at"), b.let(w_at + ib * step, "w_at")
            if plan.is_ahead:
                self._ask_ahead(w_at, g, ib, step)
            self._channels(acc, x, w)
        for v, row in enumerate(acc):
            for j, value in enumerate(row):
                b.store(self.m, m_at + v * pitch + j * block, value)

    def _channels(self, acc: list[list[Var]], x: Expr, w: Expr) -> None:
        """One block of input channels."""
        b, block, vectors = self.b, self.plan.block, len(acc)

        def channel(ic: Expr | int) -> None:
            weights = [b.let(b.load(self.w, w + ic * (vectors * block) + v * block, block), "w")
                       for v in range(vectors)]
            for j in range(self.plan.columns):
                value = b.let(splat(b.load(self.v, x + j * block + ic), block), "x")
                for v in range(vectors):
                    b.assign(acc[v][j], mad(value, weights[v], acc[v][j]))

        if block * vectors * self.plan.columns <= _STRAIGHT_MADS:
            for ic in range(block):
                channel(ic)
            return
        with b.loop(0, block, name="ic") as lane:
            channel(lane)

    def _ask_ahead(self, w_at: Expr, g: Expr, ib: Expr, step: int) -> None:
        """Ask for the share of the next register tile's weights, so that they come while these are in use."""
        b, plan = self.b, self.plan
        elements = step * plan.in_blocks
        lines = -(-step // _LINE)                                      # that a group has to ask for in a step
        each = -(-lines // plan.groups)
        start = b.let(w_at + elements + (g * plan.in_blocks + ib) * (each * _LINE), "ahead")
        for line in range(each):
            b.prefetch(self.w, minimum(start + line * _LINE, plan.weight_elements - 1))

    # --- output -------------------------------------------------------------------------------------------

    def transform_output(self, first: Expr, last: Expr, tile: Expr, tile_end: Expr) -> None:
        """y of output blocks of register tiles [first, last), tiles [tile, tile_end)."""
        b, plan, conv = self.b, self.plan, self.conv
        side, block, m = plan.side, plan.block, plan.m
        height, width = (b.dim(d) for d in conv.out_spatial)
        program = linear_program(transforms(m).output)
        out, end = self.block_of(first), self.block_of(last)
        with self.tile_rows(tile, tile_end) as tiles, b.loop(out, end, name="block") as ob:
            at = b.let(((ob - out) * plan.slots + tiles.slot) * block, "at")
            with b.loop(0, side, name="c") as c, b.loop(0, tiles.count, name="t") as t:
                values = [b.let(b.load(self.m, at + (c + r * side) * plan.output_pitch + t * block, block), "p")
                          for r in range(side)]
                for r, value in enumerate(emit_program(b, program, values, plan.is_fused)):
                    b.store(self.half, ((c + r * side) * plan.slots + t) * block, value)
            bias = b.let(b.load(self.bias, ob * block, block), "bias")
            rows = b.let(minimum(height - tiles.y, m), "rows")
            whole = b.let(minimum((width - tiles.x) // m, tiles.count), "whole")

            def outputs(r: Expr, t: Expr, limit: Expr | None) -> None:
                values = [b.let(b.load(self.half, ((r * side + k) * plan.slots + t) * block, block), "p")
                          for k in range(side)]
                results = [b.var(value + bias, "y") for value in emit_program(b, program, values, plan.is_fused)]
                self.epilogue.finish(b, [results], tiles.n, ob, b.let(tiles.y + r, "y"),
                                     b.let(tiles.x + t * m, "x"), limit)

            with b.loop(0, rows, name="r") as row:
                with b.loop(0, whole, name="t") as t:
                    outputs(row, t, None)
                if not divisible(conv.out_spatial[1], m):
                    with b.loop(whole, tiles.count, name="t") as t:
                        outputs(row, t, width)

    # --- all ----------------------------------------------------------------------------------------------

    def write(self) -> None:
        b, plan = self.b, self.plan
        tile_blocks = b.dim(ceildiv(plan.tiles, plan.slots))
        pass_groups = -(-plan.passes // plan.chunk_passes)
        with b.chunks(tile_blocks * pass_groups) as chunk:
            tile_block, part = b.let(chunk % tile_blocks, "tile_block"), b.let(chunk // tile_blocks, "part")
            first = b.let(tile_block * plan.slots, "first_tile")
            tiles = b.let(minimum(b.dim(plan.tiles) - first, plan.slots), "tiles")
            groups = b.let((tiles + (plan.columns - 1)) // plan.columns, "groups")
            self.transform_input(first, first + tiles)
            self.clear_slots(tiles, b.let(groups * plan.columns, "slots"))
            step = plan.chunk_passes * plan.out_pass
            stop = b.let(minimum(part * step + step, len(plan.sizes)), "stop")
            with b.loop(part * step, stop, plan.out_pass, name="out") as out:
                last = b.let(minimum(out + plan.out_pass, stop), "out_end")
                self.multiply(out, last, groups)
                self.transform_output(out, last, first, first + tiles)


def _pack_transformed(plan: WinogradConv, weight: np.ndarray) -> np.ndarray:
    """[OC, IC, 3, 3] -> U of the module's note, flat."""
    transformed = transform_weights(weight, plan.m)
    parts, block = [], 0
    for first in range(0, len(plan.sizes), plan.out_pass):
        sizes = plan.sizes[first:first + plan.out_pass]
        end = block + sum(sizes)
        channels = transformed[:, block * plan.block:end * plan.block, :, None, None]
        parts += [pack_weights(one, sizes, plan.block, plan.block) for one in channels]
        block = end
    return np.concatenate(parts)


def lower_winograd(group: Group, plan: WinogradConv, layouts: Mapping[str, Layout], name: str) -> Lowering:
    """The group as one launch, with its weights transformed and packed."""
    conv = plan.conv
    nest = _Nest(plan, group, layouts, name)
    nest.write()
    func, dims = nest.b.finish()
    weight, channels = conv.weight.name, int(conv.weight.shape[0])               # type: ignore[arg-type]
    bias = group.constants[conv.bias.name] if conv.bias is not None else None
    packed = {f"{weight}@winograd": _pack_transformed(plan, group.constants[weight]),
              f"{weight}@bias": pack_bias(bias, channels, plan.block)}
    args = (conv.x.name, *packed, *extra_inputs(group, conv), *group.outputs)
    return Lowering((KernelCall(func, args, dims),), packed)
