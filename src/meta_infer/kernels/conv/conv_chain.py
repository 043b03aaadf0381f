"""A 1x1 convolution together with what makes its input, through a buffer that stays in cache.

    gated      {elementwise, Conv 1x1}                          e.g. squeeze-and-excitation's product
    separable  {Conv depthwise, Conv 1x1}                       (Howard et al., MobileNets, 2017)
    inverted   {Conv 1x1, Conv depthwise, Conv 1x1}             (Sandler et al., MobileNetV2, CVPR 2018)

each with elementwise nodes in between and behind, the residual sum among them.

    chunk: image n, `lines` rows of outputs from y0
        inverted, for tile of expanded blocks:  wide[v][rows][W][c] = expand(x), the rows that the depthwise one reads
        for channel block:  middle[CB][lines][W'][c] = depthwise(x or wide), or the elementwise nodes on x
        for tile of output blocks, of positions:  registers = bias;  multiply-adds from `middle`;  epilogue

Nothing between is written to memory: a chunk's buffers are to stay in L2. Neighbouring chunks of an inverted one both
expand the rows that their depthwise windows share: more lines waste less, and take more of the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout, Variant, blocked
from meta_infer.ir.loop import Buffer, Expr, const, maximum, minimum
from meta_infer.ir.shapes import ceildiv, product, usual_upper
from meta_infer.kernels.blocked import blocks, operand_layouts
from meta_infer.kernels.conv.chain_shape import ChainShape, chain_of
from meta_infer.kernels.conv.conv_depthwise import pack_depthwise_operands, tile_of
from meta_infer.kernels.conv.conv_pointwise import flatten
from meta_infer.kernels.conv.conv_shape import pack_operands
from meta_infer.kernels.conv.conv_tile import Accumulators, Epilogue, choose_tiles
from meta_infer.kernels.conv.depthwise_tile import DepthwisePlane
from meta_infer.kernels.conv.position_tiles import Positions
from meta_infer.kernels.conv_chunks import l2_bytes
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.math_use import uses_math
from meta_infer.kernels.point import Point, apply_nodes, channel_count, zero_padding
from meta_infer.support.dtypes import FLOAT32

_LINES = (1, 2, 3, 4, 6, 8, 12, 16, 32)
_FEWEST_CHUNKS = 4


def _scratch(chain: ChainShape, lines: int, block: int, profile: Profile) -> tuple[int, int]:
    """Elements of `middle` and `wide` for chunks of `lines` rows, at usual sizes."""
    middle = blocks(chain.last.in_channels, block) * block * lines * usual_upper(chain.last.out_spatial[1])
    if chain.first is None:
        return middle, 0
    vectors = choose_tiles(blocks(chain.first.out_channels, block), None, profile).sizes[0]
    return middle, vectors * block * chain.rows_read(lines) * usual_upper(chain.first.out_spatial[1])


def _default_lines(chain: ChainShape, alone: tuple[float, ...], block: int, profile: Profile) -> int:
    """The quickest, by the guess, whose buffers take half of L2 and that leave a few chunks."""
    height = usual_upper(chain.last.out_spatial[0])
    images = chain.last.y.shape[0] if isinstance(chain.last.y.shape[0], int) else 1
    fitting = [lines for lines in _LINES
               if lines == 1 or (sum(_scratch(chain, lines, block, profile)) * 4 <= l2_bytes(profile) // 2
                                 and images * -(-height // lines) >= _FEWEST_CHUNKS)]
    return min(fitting, key=lambda lines: chain.cost(lines, alone, profile))


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    chain, block = chain_of(group), profile.lanes(FLOAT32)
    if chain is None or block == 1:
        return
    alone = chain.alone(profile)
    lines = _default_lines(chain, alone, block, profile)
    inputs = operand_layouts(group, [n for n in group.inputs if n not in chain.weights], 4, block)
    inputs |= {chain.x.name: blocked(block)}
    yield _variant(group, chain, Variant("conv_chain", chain.kind, inputs, {n: blocked(block) for n in group.outputs},
                                         flops=chain.flops), lines, alone, profile)


def _variant(group: Group, chain: ChainShape, variant: Variant, lines: int, alone: tuple[float, ...],
             profile: Profile) -> Variant:
    block = profile.lanes(FLOAT32)
    packed = sum(blocks(c.out_channels, block) * block * (usual_upper(c.weight.shape[1]) * c.taps + 1) * 4
                 for c in chain.convolutions)
    return replace(variant, knobs={"lines": lines}, packed_bytes=packed,
                   scratch_bytes=sum(_scratch(chain, lines, block, profile)) * 4,
                   cost=chain.cost(lines, alone, profile))


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    chain = chain_of(group)
    assert chain is not None
    height = usual_upper(chain.last.out_spatial[0])
    return (Knob("lines", tuple(lines for lines in _LINES if lines <= max(1, height))),)


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    chain, block = chain_of(group), profile.lanes(FLOAT32)
    assert chain is not None
    lines = int(values.get("lines", variant.knobs["lines"]))
    height = usual_upper(chain.last.out_spatial[0])
    if lines > height:
        return Refusal({"lines": lines}, "shape", f"{lines} lines of {height}")
    needed = sum(_scratch(chain, lines, block, profile)) * 4
    if lines > 1 and needed > l2_bytes(profile):
        return Refusal({"lines": lines}, "cache", f"buffers of {needed} bytes, L2 has {l2_bytes(profile)}")
    return _variant(group, chain, variant, lines, chain.alone(profile), profile)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    chain, block = chain_of(group), profile.lanes(FLOAT32)
    assert chain is not None
    b = Builder(f"conv_chain_{variant.name}")
    code = _Code(b, chain, block, profile, int(variant.knobs["lines"]), group, layouts)
    out_height, out_width = chain.last.out_spatial
    parts = ceildiv(out_height, code.lines)
    with b.chunks(b.dim(chain.last.y.shape[0] * parts)) as chunk:
        n, part = b.let(chunk // b.dim(parts), "n"), b.let(chunk % b.dim(parts), "part")
        y0 = b.let(part * code.lines, "y0")
        y1 = b.let(minimum(y0 + code.lines, b.dim(out_height)), "y1")
        if chain.depthwise is None:
            code.elementwise(n, y0, y1)
        elif chain.first is None:
            code.separable(n, y0, y1)
        else:
            code.inverted(n, y0, y1)
        code.project(n, y0, y1)
    func, dims = b.finish()
    args = (chain.x.name, *code.packed, *code.extras, *group.outputs)
    return Lowering((KernelCall(func, args, dims),), code.packed)


class _Code:
    """The parts of a chunk's code, and the buffers they share."""

    def __init__(self, b: Builder, chain: ChainShape, block: int, profile: Profile, lines: int, group: Group,
                 layouts: Mapping[str, Layout]) -> None:
        self.b, self.chain, self.block, self.profile = b, chain, block, profile
        self.lines, self.layouts = lines, layouts
        self.x = b.input("x", FLOAT32)
        self.out_tiles = choose_tiles(blocks(chain.last.out_channels, block), None, profile)
        self.packed: dict[str, np.ndarray] = {}
        self.operands: list[tuple[Buffer, Buffer]] = []
        for link, conv in zip(chain.links[-len(chain.convolutions):], chain.convolutions, strict=True):
            if conv is chain.depthwise:
                self.packed |= pack_depthwise_operands(link, conv, block)
            else:
                tiles = choose_tiles(blocks(conv.out_channels, block), None, profile)
                self.packed |= pack_operands(link, conv, tiles.sizes, block, block)
            self.operands.append((b.input("w", FLOAT32), b.input("bias", FLOAT32)))
        self.extras = tuple(n for n in group.inputs if n not in chain.weights and n not in chain.only_input(group))
        self.buffers = {n: b.input("operand", group.values[n].dtype) for n in self.extras}
        self.buffers |= {n: b.output("y", group.values[n].dtype) for n in group.outputs}
        self.width = b.dim(chain.last.out_spatial[1])
        self.middle = b.scratch("middle", FLOAT32, b.dim(blocks(chain.last.in_channels, block) * block * lines
                                                         * chain.last.out_spatial[1]))

    def elementwise(self, n: Expr, y0: Expr, y1: Expr) -> None:
        """middle = the first link's nodes on x."""
        b, block, link = self.b, self.block, self.chain.links[0]
        value = link.values[link.outputs[0]]
        buffers = {**self.buffers, self.chain.x.name: self.x}
        with b.loop(0, blocks(value.shape[1], block), name="cb") as cb, b.loop(y0, y1, name="y") as y:
            channel = b.let(cb * block, "channel")
            count = channel_count(b, value.shape, 1, channel, block)
            row = b.let((cb * self.lines + y - y0) * self.width, "row")
            with b.loop(0, self.width, name="column") as column:
                point = Point(value.shape, (n, channel, y, column), 1, block, count)
                known = apply_nodes(b, link.nodes, link.values, {}, buffers, self.layouts, point)
                b.store(self.middle, (row + column) * block, zero_padding(b, known[value.name], point))

    def separable(self, n: Expr, y0: Expr, y1: Expr) -> None:
        """middle = depthwise(x)."""
        conv, b = self.chain.depthwise, self.b
        assert conv is not None
        count = blocks(conv.in_channels, self.block)
        plane = b.dim(product(conv.in_spatial)) * self.block
        with b.loop(0, count, name="cb", apart=True) as cb:
            self._depthwise(self.x, b.let((n * count + cb) * plane, "x_plane"), cb, y0, y1)

    def inverted(self, n: Expr, y0: Expr, y1: Expr) -> None:
        """middle = depthwise(expand(x)), a tile of expanded blocks after the other."""
        chain, b, block = self.chain, self.b, self.block
        first, conv = chain.first, chain.depthwise
        assert first is not None and conv is not None
        height, width = b.dim(first.out_spatial[0]), b.dim(first.out_spatial[1])
        tiles = choose_tiles(blocks(first.out_channels, block), None, self.profile)
        rows = chain.rows_read(self.lines)
        wide = b.scratch("wide", FLOAT32, tiles.sizes[0] * block * rows * width)
        top, reach = conv.begin[0], (conv.kernel[0] - 1) * conv.dilations[0] + 1
        r0 = b.let(minimum(maximum(y0 * conv.strides[0] - top, 0), height), "r0")
        r1 = b.let(maximum(minimum(maximum((y1 - 1) * conv.strides[0] - top + reach, 0), height), r0), "r1")
        in_blocks = blocks(first.in_channels, block)
        positions = b.let(height * width, "positions")
        w, bias = self.operands[0]
        source = Positions(b, self.x, w, bias, lambda ib: (n * in_blocks + ib) * positions * block, in_blocks, block)
        link = chain.links[0]
        for run in tiles.runs:
            value = replace(first.y, shape=(1, run.vectors * block, 1, rows * first.out_spatial[1]))
            inner = replace(link, values={**link.values, **{node.outputs[0]: replace(link.values[node.outputs[0]],
                            shape=value.shape) for node in link.nodes}})
            epilogue = Epilogue(inner, value, {**self.buffers, link.outputs[0]: wide},
                                {**self.layouts, link.outputs[0]: blocked(block)}, block)

            def finish(acc: Accumulators, out_block: Expr, p: Expr, epilogue: Epilogue = epilogue) -> None:
                epilogue.finish(b, acc, const(0), const(0), const(0), b.let(p - r0 * width, "place"))

            with b.loop(0, run.count, name="tile") as tile:
                eb = b.let(run.block + tile * run.vectors, "eb")
                source.sweep(run, eb, b.let(r0 * width, "first"), b.let(r1 * width, "last"), finish)
                with b.loop(0, run.vectors, name="v", apart=True) as v:
                    self._depthwise(wide, b.let((v * rows - r0) * width * block, "plane"), b.let(eb + v), y0, y1)

    def _depthwise(self, x: Buffer, x_plane: Expr, cb: Expr, y0: Expr, y1: Expr) -> None:
        """Rows [y0, y1) of channel block `cb` into middle."""
        b, block, chain = self.b, self.block, self.chain
        conv, link = chain.depthwise, chain.links[-2]
        assert conv is not None
        shape = (1, conv.out_channels, self.lines, conv.out_spatial[1])
        made = {node.outputs[0]: replace(link.values[node.outputs[0]], shape=shape) for node in link.nodes}
        epilogue = Epilogue(replace(link, values={**link.values, **made}), replace(conv.y, shape=shape),
                            {**self.buffers, link.outputs[0]: self.middle},
                            {**self.layouts, link.outputs[0]: blocked(block)}, block)
        w, bias = self.operands[-2]
        rows, columns, keeps = tile_of(conv, self.profile, uses_math(link))
        plane = DepthwisePlane(b, conv, block, x, w, bias, x_plane, b.let(cb * (conv.taps * block), "w_plane"),
                               b.let(cb * block, "bias_at"), rows, columns, keeps)
        plane.lines(y0, y1, lambda acc, y, column: epilogue.finish(b, acc, const(0), cb, y - y0, column))

    def project(self, n: Expr, y0: Expr, y1: Expr) -> None:
        """y = the 1x1 convolution of middle, and its epilogue."""
        b, block, conv, link = self.b, self.block, self.chain.last, self.chain.links[-1]
        flat = flatten(link, conv)
        assert flat is not None
        layouts = {name: replace(layout, axis=1) if layout.block else layout for name, layout in self.layouts.items()}
        epilogue = Epilogue(flat, flat.values[conv.y.name], self.buffers, layouts, block)
        w, bias = self.operands[-1]
        line = b.let(self.width * self.lines * block, "line")
        source = Positions(b, self.middle, w, bias, lambda ib: ib * line, blocks(conv.in_channels, block), block)
        start, count = b.let(y0 * self.width, "start"), b.let((y1 - y0) * self.width, "count")

        def finish(acc: Accumulators, out_block: Expr, p: Expr) -> None:
            epilogue.finish(b, acc, n, out_block, const(0), b.let(start + p, "place"))

        for run in self.out_tiles.runs:
            with b.loop(0, run.count, name="tile") as tile:
                source.sweep(run, b.let(run.block + tile * run.vectors, "ob"), const(0), count, finish)


CONV_CHAIN = Kernel("conv_chain", ("Conv",), _variants, _lower, _knobs, _tune)
