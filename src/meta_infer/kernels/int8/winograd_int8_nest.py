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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout
from meta_infer.ir.loop import Buffer, Expr, Type, const, minimum
from meta_infer.kernels.conv.conv_tile import Epilogue
from meta_infer.kernels.conv.winograd_input import tile_block
from meta_infer.kernels.conv.winograd_plan import OutRun
from meta_infer.kernels.conv.winograd_walk import (
    TRANSFORMED,
    Pass,
    ask_ahead,
    each_group,
    each_product,
    pass_of,
    whole_lowering,
    write_output,
)
from meta_infer.kernels.conv_chunks import LINE_BYTES
from meta_infer.kernels.int8.dot_path import PAIRS
from meta_infer.kernels.int8.dot_tile import multiply
from meta_infer.kernels.int8.winograd_int8_input import Int8InputTransform
from meta_infer.kernels.int8.winograd_int8_plan import Int8Winograd
from meta_infer.kernels.int8.winograd_int8_transforms import INTEGER_TRANSFORMS, emit_integer, integer_program
from meta_infer.kernels.int8.winograd_int8_weights import pack_taps, pack_transformed, weights_launch
from meta_infer.kernels.kernel import KernelCall, Lowering, Temp
from meta_infer.kernels.packed_later import Packed, PackedLater
from meta_infer.support.dtypes import INT16, INT32

# Elements of int16 in a cache line.
_LINE = LINE_BYTES // INT16.bytes
# Pairs of input blocks of a chunk of the launch that transforms the input.
_SHARE = 4


@dataclass(frozen=True)
class _Products:
    """M of a pass from U and from V, which begins at element `start` of `v`."""

    plan: Int8Winograd
    w: Buffer
    v: Buffer
    start: Expr
    m: Buffer

    def write(self, b: Builder, one: Pass, groups: Expr) -> None:
        plan = self.plan

        def product(run: OutRun, p: Expr, w_at: Expr, m_at: Expr) -> None:
            each_group(b, plan.cut, plan.pairs, m_at, groups,
                       lambda at, g, *steps: self._register_tile(b, run, p, w_at, at, g, *steps))

        each_product(b, plan.cut, one, plan.unit, plan.output_pitch, product)

    def _register_tile(self, b: Builder, run: OutRun, p: Expr, w_at: Expr, m_at: Expr, g: Expr,
                       first: Expr | int, last: Expr | int, begins: bool) -> None:
        plan, cut = self.plan, self.plan.cut
        block, pitch = cut.block, cut.slots * cut.block
        zero = const(0, Type(INT32, block))
        acc = [[b.var(zero if begins else b.load(self.m, m_at + v * pitch + j * block, block), f"acc{v}_{j}")
                for j in range(cut.columns)] for v in range(run.vectors)]
        v_at = b.let(self.start + p * plan.input_pitch + g * (cut.columns * plan.deep), "v_tile")
        step = plan.deep * block * run.vectors
        with b.loop(first, last, name="pair") as pair:
            x, w = b.let(v_at + pair * (cut.slots * plan.deep), "x_at"), b.let(w_at + pair * step, "w_at")
            if cut.is_ahead:
                ask_ahead(b, cut, self.w, w_at, g, pair, step, plan.pairs, _LINE, plan.weight_elements)
            multiply(b, acc, PAIRS, self.v, x, plan.deep, self.w, w, plan.deep, block)
        for v, row in enumerate(acc):
            for j, value in enumerate(row):
                b.store(self.m, m_at + v * pitch + j * block, value)


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
    return KernelCall(func, (cut.conv.x.name, *zeros, TRANSFORMED), dims)


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
    transform = INTEGER_TRANSFORMS[cut.m]
    program = integer_program(transform.output)

    def apply(values: Sequence[Expr]) -> list[Expr]:
        return emit_integer(b, program, values)

    def exact(value: Expr) -> Expr:
        return (value if transform.inverse == 1 else value * transform.inverse) >> transform.shift

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
        one = pass_of(b, cut, part)
        _Products(plan, w, v, start, m).write(b, one, tiles.groups)
        write_output(b, cut, tiles, one, m, half, plan.output_pitch, apply, lambda ob: exact, epilogue)
    func, dims = b.finish()
    u, taps = f"{operands.weight.name}@winograd", f"{operands.weight.name}@taps"
    packed: dict[str, Packed] = {taps: pack_taps(plan)} if cut.is_at_load else {
        u: PackedLater(plan.weight_elements, INT16.numpy, lambda: pack_transformed(plan))}
    call = KernelCall(func, (TRANSFORMED if cut.is_shared else conv.x.name, u, *operands.extras, *group.outputs), dims)
    return whole_lowering(call, packed, Temp(u, INT16, (plan.weight_elements,)),
                          weights_launch(plan, name, taps, u) if cut.is_at_load else None,
                          Temp(TRANSFORMED, INT16, (cut.tile_blocks, cut.points * plan.input_pitch)),
                          _input_launch(plan, group, name) if cut.is_shared else None)
