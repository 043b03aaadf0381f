"""The loop nest of an 8-bit Winograd convolution over blocked channels.

    chunk: a block of tiles, a pass over some output channels
        V[point][pair][tile][2 c] = B^T d B in int16               winograd_int8_input.py; or made by a launch of its
        for point:  for register tile:  for group of tiles:        own that all passes share
            M[point][output block][tile][c] = sum over input channels of U * V, in int32 modulo 2^32    (scratch)
        for row of tiles, output block:
            for column of M, tile:  half = A^T M                                                        (scratch)
            for row of outputs, tile:  y = epilogue(half A times the inverse of f^2's odd part, shifted)

For each point the weights stream by once for a block while V[point] stays in L1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout
from meta_infer.ir.loop import Buffer, Expr, Type, const, maximum, minimum
from meta_infer.ir.shapes import divisible
from meta_infer.kernels.conv.conv_tile import Epilogue
from meta_infer.kernels.conv.winograd_input import TileBlock, tile_block, tile_rows
from meta_infer.kernels.conv.winograd_nest import Pass
from meta_infer.kernels.conv.winograd_plan import OutRun
from meta_infer.kernels.conv.winograd_weights import block_of
from meta_infer.kernels.int8.dot_path import PAIRS
from meta_infer.kernels.int8.dot_tile import multiply
from meta_infer.kernels.int8.winograd_int8_input import Int8InputTransform
from meta_infer.kernels.int8.winograd_int8_plan import Int8Winograd
from meta_infer.kernels.int8.winograd_int8_transforms import INTEGER_TRANSFORMS, emit_integer, integer_program
from meta_infer.kernels.int8.winograd_int8_weights import pack_taps, pack_transformed, transform_launch
from meta_infer.kernels.kernel import KernelCall, Lowering, Temp
from meta_infer.support.dtypes import INT16, INT32

# Elements of int16 in a cache line of 64 bytes.
_LINE = 32
# Pairs of input blocks of a chunk of the launch that transforms the input.
_SHARE = 4
_TRANSFORMED = "temp:transformed"


@dataclass(frozen=True)
class _Products:
    """M of a pass from U and from V, which begins at element `start` of `v`."""

    plan: Int8Winograd
    w: Buffer
    v: Buffer
    start: Expr
    m: Buffer

    def write(self, b: Builder, one: Pass, groups: Expr) -> None:
        plan, cut = self.plan, self.plan.cut
        count = b.let(one.end - one.out, "out_blocks")
        unit = plan.pairs * plan.deep * cut.block                      # weights of an output block at a point
        with b.loop(0, cut.points, name="p") as p:
            for run in cut.runs:
                low = b.let(maximum(one.first - run.tile, 0) if run.tile else one.first, "low")
                high = b.let(minimum(one.last - run.tile, run.count), "high")
                with b.loop(low, high, name="tile") as tile:
                    within = b.let(run.block + tile * run.vectors - one.out, "within")
                    w_at = b.let((one.out * cut.points + p * count + within) * unit, "w_tile")
                    m_at = b.let(p * plan.output_pitch + within * (cut.slots * cut.block), "m_tile")
                    self._groups(b, run, p, w_at, m_at, groups)

    def _groups(self, b: Builder, run: OutRun, p: Expr, w_at: Expr, m_at: Expr, groups: Expr) -> None:
        """All groups of tiles for one register tile of output blocks, in passes over pairs of input blocks."""
        cut, pairs = self.plan.cut, self.plan.pairs

        def sweep(first: Expr | int, last: Expr | int, begins: bool) -> None:
            with b.loop(0, groups, name="g") as g:
                at = b.let(m_at + g * (cut.columns * cut.block), "m_at")
                self._register_tile(b, run, p, w_at, at, g, (first, last), begins)

        sweep(0, cut.in_pass, True)
        if cut.in_pass < pairs:
            with b.loop(cut.in_pass, pairs, cut.in_pass, name="pass") as first:
                sweep(first, b.let(minimum(first + cut.in_pass, pairs), "pass_end"), False)

    def _register_tile(self, b: Builder, run: OutRun, p: Expr, w_at: Expr, m_at: Expr, g: Expr,
                       pairs: tuple[Expr | int, Expr | int], begins: bool) -> None:
        plan, cut = self.plan, self.plan.cut
        block, pitch = cut.block, cut.slots * cut.block
        zero = const(0, Type(INT32, block))
        acc = [[b.var(zero if begins else b.load(self.m, m_at + v * pitch + j * block, block), f"acc{v}_{j}")
                for j in range(cut.columns)] for v in range(run.vectors)]
        v_at = b.let(self.start + p * plan.input_pitch + g * (cut.columns * plan.deep), "v_tile")
        step = plan.deep * block * run.vectors
        with b.loop(*pairs, name="pair") as pair:
            x, w = b.let(v_at + pair * (cut.slots * plan.deep), "x_at"), b.let(w_at + pair * step, "w_at")
            if cut.is_ahead:
                self._ask_ahead(b, w_at, g, pair, step)
            multiply(b, acc, PAIRS, self.v, x, plan.deep, self.w, w, plan.deep, block)
        for v, row in enumerate(acc):
            for j, value in enumerate(row):
                b.store(self.m, m_at + v * pitch + j * block, value)

    def _ask_ahead(self, b: Builder, w_at: Expr, g: Expr, pair: Expr, step: int) -> None:
        """Ask for the share of the next register tile's weights, so that they come while these are in use."""
        plan = self.plan
        lines = -(-step // _LINE)                                      # that a group has to ask for in a step
        each = -(-lines // plan.cut.groups)
        start = b.let(w_at + step * plan.pairs + (g * plan.pairs + pair) * (each * _LINE), "ahead")
        for line in range(each):
            b.prefetch(self.w, minimum(start + line * _LINE, plan.weight_elements - 1))


def _write_output(b: Builder, plan: Int8Winograd, tiles: TileBlock, one: Pass, m: Buffer, half: Buffer,
                  epilogue: Epilogue) -> None:
    """y of a block and a pass."""
    cut, t = plan.cut, INTEGER_TRANSFORMS[plan.cut.m]
    side, block = cut.side, cut.block
    height, width = (b.dim(d) for d in cut.conv.out_spatial)
    program = integer_program(t.output)
    with tile_rows(b, cut, tiles) as row, b.loop(one.out, one.end, name="block") as ob:
        at = b.let(((ob - one.out) * cut.slots + row.slot) * block, "at")
        with b.loop(0, side, name="c") as c, b.loop(0, row.count, name="t") as i:
            values = [b.let(b.load(m, at + (c + r * side) * plan.output_pitch + i * block, block), "p")
                      for r in range(side)]
            for r, value in enumerate(emit_integer(b, program, values)):
                b.store(half, ((c + r * side) * cut.slots + i) * block, value)
        rows = b.let(minimum(height - row.y, cut.m), "rows")
        whole = b.let(minimum((width - row.x) // cut.m, row.count), "whole")

        def outputs(r: Expr, i: Expr, limit: Expr | None) -> None:
            values = [b.let(b.load(half, ((r * side + c) * cut.slots + i) * block, block), "p") for c in range(side)]
            results = [b.var((value if t.inverse == 1 else value * t.inverse) >> t.shift, "y")
                       for value in emit_integer(b, program, values)]
            epilogue.finish(b, [results], row.n, ob, b.let(row.y + r, "y"), b.let(row.x + i * cut.m, "x"), limit)

        with b.loop(0, rows, name="r") as line:
            with b.loop(0, whole, name="t") as i:
                outputs(line, i, None)
            if not divisible(cut.conv.out_spatial[1], cut.m):
                with b.loop(whole, row.count, name="t") as i:
                    outputs(line, i, width)


def _input_launch(plan: Int8Winograd, group: Group, name: str) -> KernelCall:
    """V of all blocks, as a launch of its own."""
    b, cut, operands = Builder(f"{name}_input"), plan.cut, plan.operands
    x = b.input("x", cut.conv.x.dtype)
    zeros = () if isinstance(operands.zero, int) else (operands.zero.name,)
    buffers = {n: b.input("zero", group.values[n].dtype) for n in zeros}
    v, half = b.output("v", INT16), b.scratch("half", INT16, plan.half_input)
    parts = -(-plan.pairs // _SHARE)
    with b.chunks(b.dim(cut.tile_blocks) * parts) as chunk:
        index, part = b.let(chunk // parts, "tile_block"), b.let(chunk % parts, "part")
        start = b.let(index * (cut.points * plan.input_pitch), "v_block")
        transform = Int8InputTransform(plan, x, operands.zero_point(b, buffers), half, v, start)
        transform.write(b, tile_block(b, cut, index), part * _SHARE, minimum(part * _SHARE + _SHARE, plan.pairs))
    func, dims = b.finish()
    return KernelCall(func, (cut.conv.x.name, *zeros, _TRANSFORMED), dims)


def lower_int8_winograd(group: Group, plan: Int8Winograd, layouts: Mapping[str, Layout], name: str) -> Lowering:
    """The group as one launch, or two that share the transformed input, and its weights."""
    cut, operands = plan.cut, plan.operands
    conv, b = cut.conv, Builder(name)
    source = b.input("v", INT16) if cut.is_shared else b.input("x", conv.x.dtype)
    w = b.input("w", INT16)
    buffers = {n: b.input("operand", group.values[n].dtype) for n in operands.extras}
    buffers |= {n: b.output("y", group.values[n].dtype) for n in group.outputs}
    epilogue = Epilogue(group, conv.y, buffers, layouts, cut.block)
    m = b.scratch("m", INT32, cut.points * plan.output_pitch)
    half = b.scratch("half", INT32, plan.half_output)
    blocks_dim = b.dim(cut.tile_blocks)
    with b.chunks(blocks_dim * cut.passes) as chunk:
        index, part = b.let(chunk % blocks_dim, "tile_block"), b.let(chunk // blocks_dim, "part")
        tiles = tile_block(b, cut, index)
        if cut.is_shared:
            v, start = source, b.let(index * (cut.points * plan.input_pitch), "v_block")
        else:
            v, start = b.scratch("v", INT16, plan.own_input), const(0)
            half_input = b.scratch("half_input", INT16, plan.half_input)
            zero = operands.zero_point(b, buffers)
            Int8InputTransform(plan, source, zero, half_input, v, start).write(b, tiles, 0, plan.pairs)
        first = b.let(part * cut.out_pass, "first_tile")
        last = b.let(minimum(first + cut.out_pass, len(cut.sizes)), "last_tile")
        one = Pass(first, last, block_of(b, cut, first), block_of(b, cut, last))
        _Products(plan, w, v, start, m).write(b, one, tiles.groups)
        _write_output(b, plan, tiles, one, m, half, epilogue)
    func, dims = b.finish()
    u, taps = f"{operands.weight.name}@winograd", f"{operands.weight.name}@taps"
    prepare: tuple[KernelCall, ...] = ()
    prepared: tuple[Temp, ...] = ()
    if cut.is_at_load:
        packed = {taps: pack_taps(plan)}
        prepare, prepared = (transform_launch(plan, name, taps, u),), (Temp(u, INT16, (plan.weight_elements,)),)
    else:
        packed = {u: pack_transformed(plan)}
    call = KernelCall(func, (_TRANSFORMED if cut.is_shared else conv.x.name, u, *operands.extras, *group.outputs), dims)
    if not cut.is_shared:
        return Lowering((call,), packed, (), prepare, prepared)
    temp = Temp(_TRANSFORMED, INT16, (cut.tile_blocks, cut.points * plan.input_pitch))
    return Lowering((_input_launch(plan, group, name), call), packed, (temp,), prepare, prepared)
