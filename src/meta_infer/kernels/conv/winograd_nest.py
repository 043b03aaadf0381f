"""The loop nest of a Winograd convolution over blocked channels.

    chunk: a block of tiles, a pass over some output channels
        V[point][input block][tile][c] = B^T d B               winograd_input.py; or made by a launch of its own that
        for point:  for register tile:  for group of tiles:    all passes share
            M[point][output block][tile][c] = sum over input channels of U * V                  (scratch)
        for row of tiles, output block:
            for column of M, tile:  half = A^T M                                                (scratch)
            for row of outputs, tile:  y = epilogue(half A + bias)

    U [pass][point][register tile][input block][c][v][c] are the transformed weights: winograd_weights.py.

For each point the weights stream by once for a block while V[point] stays in L1 or L2. V that is not shared lies one
point behind M in the same memory, which halves what has to stay in L2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout
from meta_infer.ir.loop import Buffer, Expr, Type, Var, const, mad, minimum, splat
from meta_infer.kernels.conv.conv_shape import extra_inputs, pack_bias
from meta_infer.kernels.conv.conv_tile import Epilogue
from meta_infer.kernels.conv.winograd_input import InputTransform, tile_block
from meta_infer.kernels.conv.winograd_plan import OutRun, WinogradConv
from meta_infer.kernels.conv.winograd_transforms import emit_program, linear_program, transforms
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
from meta_infer.kernels.conv.winograd_weights import pack_taps, pack_transformed, weights_launch
from meta_infer.kernels.conv_chunks import LINE_BYTES
from meta_infer.kernels.kernel import KernelCall, Lowering, Temp
from meta_infer.kernels.packed_later import Packed, PackedLater
from meta_infer.support.dtypes import FLOAT32

# Elements of a cache line.
_LINE = LINE_BYTES // FLOAT32.bytes
# Larger bodies are loops over the input channels of a block instead of straight code.
_STRAIGHT_MADS = 400
# Input blocks of a chunk of the launch that transforms the input.
_SHARE = 8


@dataclass(frozen=True)
class Products:
    """M of a pass from U and from V, which begins at element `start` of `v`."""

    plan: WinogradConv
    w: Buffer
    v: Buffer
    start: Expr
    m: Buffer

    def write(self, b: Builder, one: Pass, groups: Expr) -> None:
        plan = self.plan

        def product(run: OutRun, p: Expr, w_at: Expr, m_at: Expr) -> None:
            each_group(b, plan, plan.in_blocks, m_at, groups,
                       lambda at, g, *steps: self._register_tile(b, run, p, w_at, at, g, *steps))

        each_product(b, plan, one, plan.in_blocks * plan.block**2, plan.output_pitch, product)

    def _register_tile(self, b: Builder, run: OutRun, p: Expr, w_at: Expr, m_at: Expr, g: Expr,
                       first: Expr | int, last: Expr | int, begins: bool) -> None:
        plan = self.plan
        block, vectors, columns = plan.block, run.vectors, plan.columns
        pitch = plan.slots * block
        zero = const(0.0, Type(FLOAT32, block))
        acc = [[b.var(zero if begins else b.load(self.m, m_at + v * pitch + j * block, block), f"acc{v}_{j}")
                for j in range(columns)] for v in range(vectors)]
        v_at = b.let(self.start + p * plan.input_pitch + g * (columns * block), "v_tile")
        step = block * block * vectors
        with b.loop(first, last, name="ib") as ib:
            x, w = b.let(v_at + ib * pitch, "x_at"), b.let(w_at + ib * step, "w_at")
            if plan.is_ahead:
                ask_ahead(b, plan, self.w, w_at, g, ib, step, plan.in_blocks, _LINE, plan.weight_elements)
            self._channels(b, acc, x, w)
        for v, row in enumerate(acc):
            for j, value in enumerate(row):
                b.store(self.m, m_at + v * pitch + j * block, value)

    def _channels(self, b: Builder, acc: list[list[Var]], x: Expr, w: Expr) -> None:
        """One block of input channels."""
        block, vectors = self.plan.block, len(acc)

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


def _input_launch(plan: WinogradConv, name: str) -> KernelCall:
    """V of all blocks, as a launch of its own."""
    b = Builder(f"{name}_input")
    x, v = b.input("x", FLOAT32), b.output("v", FLOAT32)
    half = b.scratch("half", FLOAT32, plan.half_elements)
    parts = -(-plan.in_blocks // _SHARE)
    with b.chunks(b.dim(plan.tile_blocks) * parts) as chunk:
        index, part = b.let(chunk // parts, "tile_block"), b.let(chunk % parts, "part")
        transform = InputTransform(plan, x, half, v, b.let(index * (plan.points * plan.input_pitch), "v_block"))
        transform.write(b, tile_block(b, plan, index), part * _SHARE, minimum(part * _SHARE + _SHARE, plan.in_blocks))
    func, dims = b.finish()
    return KernelCall(func, (plan.conv.x.name, TRANSFORMED), dims)


def lower_winograd(group: Group, plan: WinogradConv, layouts: Mapping[str, Layout], name: str) -> Lowering:
    """The group as one launch, or two that share the transformed input, and its weights."""
    conv = plan.conv
    b = Builder(name)
    source, w, bias = (b.input(n, FLOAT32) for n in ("v" if plan.is_shared else "x", "w", "bias"))
    extras = extra_inputs(group, conv)
    buffers = {n: b.input("operand", group.values[n].dtype) for n in extras}
    buffers |= {n: b.output("y", group.values[n].dtype) for n in group.outputs}
    epilogue = Epilogue(group, conv.y, buffers, layouts, plan.block)
    m, half = (b.scratch(n, FLOAT32, size) for n, size in (("m", plan.product_elements), ("half", plan.half_elements)))
    v = source if plan.is_shared else m
    program = linear_program(transforms(plan.m).output)

    def apply(values: Sequence[Expr]) -> list[Expr]:
        return emit_program(b, program, values)

    def with_bias(ob: Expr) -> Callable[[Expr], Expr]:
        offset = b.let(b.load(bias, ob * plan.block, plan.block), "bias")
        return lambda value: value + offset

    blocks_dim = b.dim(plan.tile_blocks)
    with b.chunks(blocks_dim * plan.passes) as chunk:
        index, part = b.let(chunk % blocks_dim, "tile_block"), b.let(chunk // blocks_dim, "part")
        tiles = tile_block(b, plan, index)
        if plan.is_shared:
            start = b.let(index * (plan.points * plan.input_pitch), "v_block")
        else:
            start = const(plan.input_pitch)
            InputTransform(plan, source, half, v, start).write(b, tiles, 0, plan.in_blocks)
        one = pass_of(b, plan, part)
        Products(plan, w, v, start, m).write(b, one, tiles.groups)
        write_output(b, plan, tiles, one, m, half, plan.output_pitch, apply, with_bias, epilogue)
    func, dims = b.finish()
    weight, channels = conv.weight.name, int(conv.weight.shape[0])               # type: ignore[arg-type]
    known_bias = group.constants[conv.bias.name] if conv.bias is not None else None
    u, taps = f"{weight}@winograd", f"{weight}@taps"
    packed: dict[str, Packed] = {f"{weight}@bias": pack_bias(known_bias, channels, plan.block)}
    packed |= {taps: pack_taps(plan, group.constants[weight])} if plan.is_at_load else {
        u: PackedLater(plan.weight_elements, FLOAT32.numpy,
                       lambda: pack_transformed(plan, group.constants[weight]))}
    call = KernelCall(func, (TRANSFORMED if plan.is_shared else conv.x.name, u, f"{weight}@bias", *extras,
                             *group.outputs), dims)
    return whole_lowering(call, packed, Temp(u, FLOAT32, (plan.weight_elements,)),
                          weights_launch(plan, name, taps, u) if plan.is_at_load else None,
                          Temp(TRANSFORMED, FLOAT32, (plan.tile_blocks, plan.points * plan.input_pitch)),
                          _input_launch(plan, name) if plan.is_shared else None)
