"""A convolution and the pooling of its result, which lives in a few rows of cache only.

    chunk: image n, a tile of output blocks, pooled lines [y0, y1)
        for `lines` pooled lines:
            rows[v][R][W'][c]: what the windows before have left moves up, the convolution makes the rows that miss
            for pooled line, column:  registers;  for tap:  max or add;  epilogue

No row is made twice within a chunk; where a chunk begins, the rows that its first window shares with the chunk before
are. The convolution's code is that of `conv_direct`: a first layer takes a plain input of few channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant, blocked
from meta_infer.ir.loop import Buffer, Expr, const, maximum, minimum
from meta_infer.ir.shapes import ceildiv, product, usual_upper
from meta_infer.kernels.blocked import blocks, operand_layouts
from meta_infer.kernels.conv.chain_shape import is_local
from meta_infer.kernels.conv.conv_direct import CONV_DIRECT, ColumnRun, column_runs, fits_direct, kernel_rows
from meta_infer.kernels.conv.conv_first import CONV_FIRST
from meta_infer.kernels.conv.conv_shape import ConvShape, conv_of, pack_operands
from meta_infer.kernels.conv.conv_tile import Epilogue, OutRun, Source, accumulate, choose_tiles, start_tile
from meta_infer.kernels.conv.links import links_of
from meta_infer.kernels.conv_chunks import l1_bytes, l2_bytes
from meta_infer.kernels.guess import ELEMENT_COST, alone_cost
from meta_infer.kernels.image.pool import PoolPlane, PoolShape, pool_of, pool_row
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.point import Point, apply_nodes, channel_count, store_outputs
from meta_infer.support.dtypes import FLOAT32

_LINES = (1, 2, 4, 8)
_PARTS = (1, 2, 4, 8)
_FEWEST_CHUNKS = 4
_FEW_CHANNELS = 4
# What rows one at a time cost beside a convolution whose tiles and passes are its own: a fifth on a small network.
_ROW_BY_ROW = 1.2


@dataclass(frozen=True)
class _ConvPool:
    links: tuple[Group, ...]
    conv: ConvShape
    pool: PoolShape
    in_block: int                                   # 1 for a plain input

    def rows(self, lines: int) -> int:
        """Rows of the convolution that `lines` pooled lines read."""
        return (lines - 1) * self.pool.strides[0] + (self.pool.kernel[0] - 1) * self.pool.dilations[0] + 1


def _conv_pool_of(group: Group, profile: Profile) -> _ConvPool | None:
    block = profile.lanes(FLOAT32)
    if not group.prologue or group.anchor.op not in ("MaxPool", "AveragePool") or block == 1:
        return None
    links = links_of(group)
    if len(links) != 2 or links[0].anchor.op != "Conv" or not is_local(links[0], scalars_only=True):
        return None
    conv, pool = conv_of(links[0]), pool_of(links[1])
    if pool is None or len(pool.kernel) != 2 or not fits_direct(links[0], conv) or 0 in pool.y.shape:
        return None
    assert conv is not None
    few = isinstance(conv.in_channels, int) and conv.in_channels <= _FEW_CHANNELS
    found = _ConvPool(links, conv, pool, 1 if few else block)
    weights = blocks(conv.in_channels, found.in_block) * found.in_block * conv.taps * block * 4
    vectors = choose_tiles(blocks(conv.out_channels, block), usual_upper(conv.out_spatial[1]), profile).sizes[0]
    return found if weights * vectors <= 3 * l1_bytes(profile) // 2 else None


def _scratch(found: _ConvPool, lines: int, profile: Profile) -> int:
    block, width = profile.lanes(FLOAT32), usual_upper(found.conv.out_spatial[1])
    vectors = choose_tiles(blocks(found.conv.out_channels, block), width, profile).sizes[0]
    return vectors * found.rows(lines) * width * block


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    found, block = _conv_pool_of(group, profile), profile.lanes(FLOAT32)
    if found is None:
        return
    constants = {v.name for v in (found.conv.weight, found.conv.bias) if v is not None}
    inputs = operand_layouts(group, [n for n in group.inputs if n not in constants], 4, block)
    inputs |= {found.conv.x.name: PLAIN if found.in_block == 1 else blocked(block)}
    if found.conv.x.name in {name for link in found.links for node in link.epilogue for name in node.inputs}:
        return
    tiles = len(choose_tiles(blocks(found.conv.out_channels, block), usual_upper(found.conv.out_spatial[1]),
                             profile).sizes)
    images = found.conv.y.shape[0] if isinstance(found.conv.y.shape[0], int) else 1
    parts = next((p for p in _PARTS if p * tiles * images >= _FEWEST_CHUNKS), _PARTS[-1])
    height = usual_upper(found.pool.out_spatial[0])
    lines = max(n for n in _LINES if n == 1 or (n * parts <= height
                                                and _scratch(found, n, profile) * 4 <= l2_bytes(profile) // 4))
    packed = blocks(found.conv.in_channels, found.in_block) * found.in_block * found.conv.taps * 4 * (
        blocks(found.conv.out_channels, block) * block)
    variant = Variant("conv_pool", "conv_pool", inputs, {n: blocked(block) for n in group.outputs},
                      packed_bytes=packed, flops=found.conv.flops)
    yield _with(variant, found, lines, parts, profile)


def _with(variant: Variant, found: _ConvPool, lines: int, parts: int, profile: Profile) -> Variant:
    height = usual_upper(found.conv.out_spatial[0])
    shared = max(0, found.rows(1) - found.pool.strides[0]) * (parts - 1) / height
    kernel = CONV_FIRST if found.in_block == 1 else CONV_DIRECT
    conv = alone_cost(found.links[0], kernel.variants(found.links[0], profile))
    pooled = ELEMENT_COST * usual_upper(product(found.conv.y.shape[1:]))
    return replace(variant, knobs={"lines": lines, "parts": parts}, scratch_bytes=_scratch(found, lines, profile) * 4,
                   cost=conv * _ROW_BY_ROW * (1 + shared) + pooled)


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    return Knob("lines", _LINES), Knob("parts", _PARTS)


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    found = _conv_pool_of(group, profile)
    assert found is not None
    knobs = {**variant.knobs, **values}
    lines, parts = int(knobs["lines"]), int(knobs["parts"])
    height = usual_upper(found.pool.out_spatial[0])
    if lines * parts > height and (lines > 1 or parts > 1):
        return Refusal(knobs, "shape", f"{parts} parts of {lines} lines or more, of {height}")
    needed = _scratch(found, lines, profile) * 4
    if lines > 1 and needed > l2_bytes(profile):
        return Refusal(knobs, "cache", f"rows of {needed} bytes, L2 has {l2_bytes(profile)}")
    return _with(variant, found, lines, parts, profile)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    found, block = _conv_pool_of(group, profile), profile.lanes(FLOAT32)
    assert found is not None
    conv, pool, (first, last) = found.conv, found.pool, found.links
    lines, parts = int(variant.knobs["lines"]), int(variant.knobs["parts"])
    tiles = choose_tiles(blocks(conv.out_channels, block), usual_upper(conv.out_spatial[1]), profile)
    packed = pack_operands(first, conv, tiles.sizes, block, found.in_block)
    constants = {v.name for v in (conv.weight, conv.bias) if v is not None}
    extras = tuple(n for n in group.inputs if n not in constants and n != conv.x.name)
    b = Builder("conv_pool")
    x, w, bias = (b.input(n, FLOAT32) for n in ("x", "w", "bias"))
    buffers = {n: b.input("operand", group.values[n].dtype) for n in extras}
    buffers |= {n: b.output("y", group.values[n].dtype) for n in group.outputs}
    held, width = found.rows(lines), conv.out_spatial[1]
    assert isinstance(width, int)
    rows = b.scratch("rows", FLOAT32, tiles.sizes[0] * held * width * block)
    height, pooled = b.dim(conv.out_spatial[0]), b.dim(pool.out_spatial[0])
    each = ceildiv(pool.out_spatial[0], parts)

    def chunk_of(run: OutRun, n: Expr, tile: Expr, y0: Expr, y1: Expr) -> None:
        out_block = b.let(run.block + tile * run.vectors, "ob")
        done = b.var(b.let(maximum(y0 * pool.strides[0] - pool.begin[0], 0)), "done")
        step = pool.strides[0]
        stop = b.let(minimum((y1 - 1) * step - pool.begin[0] + found.rows(1), height), "stop")
        with b.loop(y0, y1, lines, name="line") as line:
            base = b.let(line * step - pool.begin[0], "base")
            low = b.let(maximum(base, 0), "low")
            kept = b.let(maximum(done, low), "kept")
            end = b.let(maximum(minimum(base + held, stop), kept), "end")
            with b.loop(0, run.vectors, name="v") as v, b.loop(low, kept, name="row") as row:
                to, source = ((v * held + row - base) * width, (v * held + row - base + lines * step) * width)
                with b.loop(0, width, name="column") as column:
                    b.store(rows, (to + column) * block, b.load(rows, (source + column) * block, block))
            with b.loop(kept, end, name="row", apart=True) as row:
                _conv_row(b, found, run, (x, w, bias, rows), (buffers, layouts), n, out_block, row, base, held,
                          block)
            b.assign(done, end)
            with b.loop(0, run.vectors, name="v", apart=True) as v:
                channel = b.let((out_block + v) * block, "channel")
                count = channel_count(b, pool.y.shape, 1, channel, block)
                with b.loop(line, minimum(line + lines, y1), name="y") as y:
                    finish = _finish(b, last, pool, buffers, layouts, (n, channel, y), block, count)
                    pool_row(b, PoolPlane(b, pool, rows, block, b.let(v * held - base, "first_line"), finish), [y])

    with b.chunks(b.dim(conv.y.shape[0]) * (len(tiles.sizes) * parts)) as chunk:
        part, rest = b.let(chunk % parts, "part"), b.let(chunk // parts, "rest")
        at, n = b.let(rest % len(tiles.sizes), "at"), b.let(rest // len(tiles.sizes), "n")
        y0 = b.let(minimum(part * b.dim(each), pooled), "y0")
        y1 = b.let(minimum(y0 + b.dim(each), pooled), "y1")
        for run in tiles.runs:
            with b.when(at.ge(run.tile) & at.lt(run.tile + run.count)):
                chunk_of(run, n, b.let(at - run.tile, "tile"), y0, y1)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (conv.x.name, *packed, *extras, *group.outputs), dims),), packed)


def _finish(b: Builder, link: Group, pool: PoolShape, buffers: Mapping[str, Buffer], layouts: Mapping[str, Layout],
            place: tuple[Expr, ...], block: int, count: Expr | None) -> Callable[[Expr, Expr], None]:
    """Takes (column, pooled value) of the line at `place`, runs the pool's epilogue and stores."""
    def finish(column: Expr, value: Expr) -> None:
        point = Point(pool.y.shape, (*place, column), 1, block, count)
        known = apply_nodes(b, link.epilogue, link.values, {pool.y.name: value}, buffers, layouts, point)
        store_outputs(b, link, known, buffers, layouts, point)

    return finish


def _conv_row(b: Builder, found: _ConvPool, run: OutRun, operands: tuple[Buffer, ...],
              others: tuple[Mapping[str, Buffer], Mapping[str, Layout]], n: Expr, out_block: Expr,
              row: Expr, base: Expr, held: int, block: int) -> None:
    """One row of the convolution, for a tile of output blocks, to its place in the held rows.

    `others` are the group's buffers and layouts: the convolution's epilogue may read scalars.
    """
    conv, link, in_block = found.conv, found.links[0], found.in_block
    x, w, bias, rows = operands
    in_blocks = blocks(conv.in_channels, in_block)
    w_tile = b.let(out_block * (in_blocks * conv.taps * in_block * block), "w_tile")
    height, width = (b.dim(d) for d in conv.in_spatial)
    shape = (1, run.vectors * block, held, conv.out_spatial[1])
    made = {node.outputs[0]: replace(link.values[node.outputs[0]], shape=shape) for node in link.nodes}
    buffers, layouts = others
    epilogue = Epilogue(replace(link, values={**link.values, **made}), replace(conv.y, shape=shape),
                        {**buffers, link.outputs[0]: rows}, {**layouts, link.outputs[0]: blocked(block)}, block)
    bounds = kernel_rows(conv, b, row)

    def tile(columns: ColumnRun, column: Expr) -> None:
        left = column * conv.strides[1] - conv.begin[1]

        def x_row(ib: Expr, kh: Expr) -> Expr:
            source = row * conv.strides[0] + kh * conv.dilations[0] - conv.begin[0]
            return (((n * in_blocks + ib) * height + source) * width + left) * in_block

        acc = start_tile(b, run.vectors, columns.columns, block,
                         lambda v, j: b.load(bias, (out_block + v) * block, block))
        accumulate(b, acc, Source(x, w, x_row, w_tile, conv.kernel[0], block, in_block), columns.taps, bounds,
                   (0, in_blocks))
        epilogue.finish(b, acc, const(0), const(0), b.let(row - base, "place"), column)

    for columns in column_runs(conv, run.columns):
        if columns.count == 1:
            tile(columns, b.let(columns.first))
            continue
        with b.loop(columns.first, columns.first + columns.count * columns.columns, columns.columns,
                    name="column") as column:
            tile(columns, column)


CONV_POOL = Kernel("conv_pool", ("MaxPool", "AveragePool"), _variants, _lower, _knobs, _tune)
