"""The loops that Winograd convolutions of floats and of 8-bit integers have in common; what is inside is theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr, const, maximum, minimum
from meta_infer.ir.shapes import divisible
from meta_infer.kernels.conv.conv_tile import Epilogue
from meta_infer.kernels.conv.winograd_input import TileBlock, tile_rows
from meta_infer.kernels.conv.winograd_plan import OutRun, WinogradConv
from meta_infer.kernels.kernel import KernelCall, Lowering, Temp
from meta_infer.kernels.packed_later import Packed

TRANSFORMED = "temp:transformed"

Apply = Callable[[Sequence[Expr]], list[Expr]]
"""One direction of a transform."""


@dataclass(frozen=True)
class Pass:
    """Register tiles [first, last) of output blocks [out, end)."""

    first: Expr
    last: Expr
    out: Expr
    end: Expr


def block_of(b: Builder, cut: WinogradConv, tile: Expr) -> Expr:
    """The first output block of a register tile; the number of blocks for one beyond the last."""
    vectors, more = cut.sizes[-1], cut.sizes.count(cut.sizes[-1] + 1)
    return b.let(tile * vectors + (minimum(tile, more) if more else const(0)), "ob")


def pass_of(b: Builder, cut: WinogradConv, part: Expr) -> Pass:
    """Pass number `part`."""
    first = b.let(part * cut.out_pass, "first_tile")
    last = b.let(minimum(first + cut.out_pass, len(cut.sizes)), "last_tile")
    return Pass(first, last, block_of(b, cut, first), block_of(b, cut, last))


def each_product(b: Builder, cut: WinogradConv, one: Pass, unit: int, pitch: int,
                 visit: Callable[[OutRun, Expr, Expr, Expr], None]) -> None:
    """`visit(run, point, place in U, place in M)` for each register tile of a pass at each point.

    `unit` is the weights of an output block at a point, `pitch` the elements from point to point of M.
    """
    count = b.let(one.end - one.out, "out_blocks")
    with b.loop(0, cut.points, name="p") as p:
        for run in cut.runs:
            low = b.let(maximum(one.first - run.tile, 0) if run.tile else one.first, "low")
            high = b.let(minimum(one.last - run.tile, run.count), "high")
            with b.loop(low, high, name="tile") as tile:
                within = b.let(run.block + tile * run.vectors - one.out, "within")
                w_at = b.let((one.out * cut.points + p * count + within) * unit, "w_tile")
                visit(run, p, w_at, b.let(p * pitch + within * (cut.slots * cut.block), "m_tile"))


def each_group(b: Builder, cut: WinogradConv, steps: int, m_at: Expr, groups: Expr,
               visit: Callable[[Expr, Expr, Expr | int, Expr | int, bool], None]) -> None:
    """`visit(place in M, group, first step, last step, whether sums begin)` for all groups of tiles, in passes over
    the `steps` steps of input channels."""

    def sweep(first: Expr | int, last: Expr | int, begins: bool) -> None:
        with b.loop(0, groups, name="g") as g:
            visit(b.let(m_at + g * (cut.columns * cut.block), "m_at"), g, first, last, begins)

    sweep(0, cut.in_pass, True)
    if cut.in_pass < steps:
        with b.loop(cut.in_pass, steps, cut.in_pass, name="pass") as first:
            sweep(first, b.let(minimum(first + cut.in_pass, steps), "pass_end"), False)


def ask_ahead(b: Builder, cut: WinogradConv, w: Buffer, w_at: Expr, g: Expr, at: Expr, step: int, steps: int,
              line: int, weight_elements: int) -> None:
    """Ask for the share of the next register tile's weights, so that they come while these are in use.

    `step` are the weights of one of the `steps` steps, `at` is the one under way; `line` elements fill a cache line.
    """
    lines = -(-step // line)                                           # that a group has to ask for in a step
    each = -(-lines // cut.groups)
    start = b.let(w_at + step * steps + (g * steps + at) * (each * line), "ahead")
    for i in range(each):
        b.prefetch(w, minimum(start + i * line, weight_elements - 1))


def write_output(b: Builder, cut: WinogradConv, tiles: TileBlock, one: Pass, m: Buffer, half: Buffer, pitch: int,
                 apply: Apply, finish: Callable[[Expr], Callable[[Expr], Expr]], epilogue: Epilogue) -> None:
    """y of a block and a pass. `finish` gives, for an output block, what becomes of a transformed value."""
    side, block = cut.side, cut.block
    height, width = (b.dim(d) for d in cut.conv.out_spatial)
    with tile_rows(b, cut, tiles) as row, b.loop(one.out, one.end, name="block") as ob:
        at = b.let(((ob - one.out) * cut.slots + row.slot) * block, "at")
        with b.loop(0, side, name="c") as c, b.loop(0, row.count, name="t") as t:
            values = [b.let(b.load(m, at + (c + r * side) * pitch + t * block, block), "p") for r in range(side)]
            for r, value in enumerate(apply(values)):
                b.store(half, ((c + r * side) * cut.slots + t) * block, value)
        finished = finish(ob)
        rows = b.let(minimum(height - row.y, cut.m), "rows")
        whole = b.let(minimum((width - row.x) // cut.m, row.count), "whole")

        def outputs(r: Expr, t: Expr, limit: Expr | None) -> None:
            values = [b.let(b.load(half, ((r * side + c) * cut.slots + t) * block, block), "p") for c in range(side)]
            results = [b.var(finished(value), "y") for value in apply(values)]
            epilogue.finish(b, [results], row.n, ob, b.let(row.y + r, "y"), b.let(row.x + t * cut.m, "x"), limit)

        with b.loop(0, rows, name="r") as line:
            with b.loop(0, whole, name="t") as t:
                outputs(line, t, None)
            if not divisible(cut.conv.out_spatial[1], cut.m):
                with b.loop(whole, row.count, name="t") as t:
                    outputs(line, t, width)


def transform_launch(cut: WinogradConv, b: Builder, unit: int, buffers: tuple[str, str],
                     transform: Callable[[OutRun, Expr, Expr, Expr], None]) -> KernelCall:
    """The launch of `b` that makes U, a register tile per chunk, from the first of `buffers` into the second.

    `transform(run, output block, place in U, elements from point to point)` writes one register tile. `unit` is the
    weights of an output block at a point.
    """
    with b.chunks(len(cut.sizes)) as tile:
        first = b.let(tile // cut.out_pass * cut.out_pass, "first_tile")
        out = block_of(b, cut, first)
        end = block_of(b, cut, b.let(minimum(first + cut.out_pass, len(cut.sizes)), "last_tile"))
        count = b.let(end - out, "out_blocks")
        for run in cut.runs:
            low, high = maximum(tile, run.tile), minimum(tile + 1, run.tile + run.count)
            with b.loop(b.let(low, "low"), b.let(high, "high"), name="one") as one:
                block = b.let(run.block + (one - run.tile) * run.vectors, "block")
                to = b.let((out * cut.points + block - out) * unit, "to")
                transform(run, block, to, b.let(count * unit, "pitch"))
    func, dims = b.finish()
    return KernelCall(func, buffers, dims)


def whole_lowering(call: KernelCall, packed: Mapping[str, Packed], u: Temp, at_load: KernelCall | None,
                   transformed: Temp, input_launch: KernelCall | None) -> Lowering:
    """The launch `call` behind the one that transforms the input where it is shared, and `u` made at load by a launch
    where the package does not have it."""
    prepare, prepared = ((), ()) if at_load is None else ((at_load,), (u,))
    if input_launch is None:
        return Lowering((call,), packed, (), prepare, prepared)
    return Lowering((input_launch, call), packed, (transformed,), prepare, prepared)
