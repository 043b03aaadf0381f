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

from collections.abc import Mapping
from dataclasses import dataclass

from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout
from meta_infer.ir.loop import Buffer, Expr, Type, Var, const, mad, maximum, minimum, splat
from meta_infer.ir.shapes import divisible
from meta_infer.kernels.conv.conv_shape import extra_inputs, pack_bias
from meta_infer.kernels.conv.conv_tile import Epilogue
from meta_infer.kernels.conv.winograd_input import InputTransform, TileBlock, tile_block, tile_rows
from meta_infer.kernels.conv.winograd_plan import OutRun, WinogradConv
from meta_infer.kernels.conv.winograd_transforms import emit_program, linear_program, transforms
from meta_infer.kernels.conv.winograd_weights import block_of, pack_taps, pack_transformed, transform_launch
from meta_infer.kernels.kernel import KernelCall, Lowering, Temp
from meta_infer.support.dtypes import FLOAT32

# Elements of a cache line of 64 bytes.
_LINE = 16
# Larger bodies are loops over the input channels of a block instead of straight code.
_STRAIGHT_MADS = 400
# Input blocks of a chunk of the launch that transforms the input.
_SHARE = 8
_TRANSFORMED = "temp:transformed"


@dataclass(frozen=True)
class Pass:
    """Register tiles [first, last) of output blocks [out, end)."""

    first: Expr
    last: Expr
    out: Expr
    end: Expr


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
        count = b.let(one.end - one.out, "out_blocks")
        unit = plan.in_blocks * plan.block**2                          # weights of an output block at a point
        with b.loop(0, plan.points, name="p") as p:
            for run in plan.runs:
                low = b.let(maximum(one.first - run.tile, 0) if run.tile else one.first, "low")
                high = b.let(minimum(one.last - run.tile, run.count), "high")
                with b.loop(low, high, name="tile") as tile:
                    within = b.let(run.block + tile * run.vectors - one.out, "within")
                    w_at = b.let((one.out * plan.points + p * count + within) * unit, "w_tile")
                    m_at = b.let(p * plan.output_pitch + within * (plan.slots * plan.block), "m_tile")
                    self._groups(b, run, p, w_at, m_at, groups)

    def _groups(self, b: Builder, run: OutRun, p: Expr, w_at: Expr, m_at: Expr, groups: Expr) -> None:
        """All groups of tiles for one register tile of output blocks, in passes over input blocks."""
        plan = self.plan

        def sweep(first: Expr | int, last: Expr | int, begins: bool) -> None:
            with b.loop(0, groups, name="g") as g:
                at = b.let(m_at + g * (plan.columns * plan.block), "m_at")
                self._register_tile(b, run, p, w_at, at, g, first, last, begins)

        sweep(0, plan.in_pass, True)
        if plan.in_pass < plan.in_blocks:
            with b.loop(plan.in_pass, plan.in_blocks, plan.in_pass, name="pass") as first:
                sweep(first, b.let(minimum(first + plan.in_pass, plan.in_blocks), "pass_end"), False)

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
                self._ask_ahead(b, w_at, g, ib, step)
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

    def _ask_ahead(self, b: Builder, w_at: Expr, g: Expr, ib: Expr, step: int) -> None:
        """Ask for the share of the next register tile's weights, so that they come while these are in use."""
        plan = self.plan
        elements = step * plan.in_blocks
        lines = -(-step // _LINE)                                      # that a group has to ask for in a step
        each = -(-lines // plan.groups)
        start = b.let(w_at + elements + (g * plan.in_blocks + ib) * (each * _LINE), "ahead")
        for line in range(each):
            b.prefetch(self.w, minimum(start + line * _LINE, plan.weight_elements - 1))


def _write_output(b: Builder, plan: WinogradConv, tiles: TileBlock, one: Pass, m: Buffer, half: Buffer, bias: Buffer,
                  epilogue: Epilogue) -> None:
    """y of a block and a pass."""
    side, block = plan.side, plan.block
    height, width = (b.dim(d) for d in plan.conv.out_spatial)
    program = linear_program(transforms(plan.m).output)
    with tile_rows(b, plan, tiles) as row, b.loop(one.out, one.end, name="block") as ob:
        at = b.let(((ob - one.out) * plan.slots + row.slot) * block, "at")
        with b.loop(0, side, name="c") as c, b.loop(0, row.count, name="t") as t:
            values = [b.let(b.load(m, at + (c + r * side) * plan.output_pitch + t * block, block), "p")
                      for r in range(side)]
            for r, value in enumerate(emit_program(b, program, values)):
                b.store(half, ((c + r * side) * plan.slots + t) * block, value)
        offset = b.let(b.load(bias, ob * block, block), "bias")
        rows = b.let(minimum(height - row.y, plan.m), "rows")
        whole = b.let(minimum((width - row.x) // plan.m, row.count), "whole")

        def outputs(r: Expr, t: Expr, limit: Expr | None) -> None:
            values = [b.let(b.load(half, ((r * side + c) * plan.slots + t) * block, block), "p") for c in range(side)]
            results = [b.var(value + offset, "y") for value in emit_program(b, program, values)]
            epilogue.finish(b, [results], row.n, ob, b.let(row.y + r, "y"), b.let(row.x + t * plan.m, "x"), limit)

        with b.loop(0, rows, name="r") as line:
            with b.loop(0, whole, name="t") as t:
                outputs(line, t, None)
            if not divisible(plan.conv.out_spatial[1], plan.m):
                with b.loop(whole, row.count, name="t") as t:
                    outputs(line, t, width)


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
    return KernelCall(func, (plan.conv.x.name, _TRANSFORMED), dims)


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
    blocks_dim = b.dim(plan.tile_blocks)
    with b.chunks(blocks_dim * plan.passes) as chunk:
        index, part = b.let(chunk % blocks_dim, "tile_block"), b.let(chunk // blocks_dim, "part")
        tiles = tile_block(b, plan, index)
        if plan.is_shared:
            start = b.let(index * (plan.points * plan.input_pitch), "v_block")
        else:
            start = const(plan.input_pitch)
            InputTransform(plan, source, half, v, start).write(b, tiles, 0, plan.in_blocks)
        first = b.let(part * plan.out_pass, "first_tile")
        last = b.let(minimum(first + plan.out_pass, len(plan.sizes)), "last_tile")
        one = Pass(first, last, block_of(b, plan, first), block_of(b, plan, last))
        Products(plan, w, v, start, m).write(b, one, tiles.groups)
        _write_output(b, plan, tiles, one, m, half, bias, epilogue)
    func, dims = b.finish()
    weight, channels = conv.weight.name, int(conv.weight.shape[0])               # type: ignore[arg-type]
    known_bias = group.constants[conv.bias.name] if conv.bias is not None else None
    u, taps = f"{weight}@winograd", f"{weight}@taps"
    packed = {f"{weight}@bias": pack_bias(known_bias, channels, plan.block)}
    prepare: tuple[KernelCall, ...] = ()
    prepared: tuple[Temp, ...] = ()
    if plan.is_at_load:
        packed[taps] = pack_taps(plan, group.constants[weight])
        prepare, prepared = (transform_launch(plan, name, taps, u),), (Temp(u, FLOAT32, (plan.weight_elements,)),)
    else:
        packed[u] = pack_transformed(plan, group.constants[weight])
    given = _TRANSFORMED if plan.is_shared else conv.x.name
    call = KernelCall(func, (given, u, f"{weight}@bias", *extras, *group.outputs), dims)
    if not plan.is_shared:
        return Lowering((call,), packed, (), prepare, prepared)
    temp = Temp(_TRANSFORMED, FLOAT32, (plan.tile_blocks, plan.points * plan.input_pitch))
    return Lowering((_input_launch(plan, name), call), packed, (temp,), prepare, prepared)
