"""Convolution of 8-bit integers over blocked channels, dense or in groups, exact in int32.

    x [N, IB, H, W, c], weights [tile][pass][kh][kw][ib][c / terms][v][c][terms]  ->  y [N, OB, H', W', c]

    chunk: image n, part of the channels, some tiles of output blocks, some rows (1x1: some positions)
        its part of x, padded and widened to the path's type, goes to scratch (stage_int8.py)
        for tile of output blocks:  for pass over input blocks:  for row:  for tile of columns:
            registers = 0, or what the last pass left;  for tap, input block, pair of channels:  multiply-add
            epilogue (requantisation is elementwise), or keep for the next pass

A part is a group of the convolution, or as many side by side as fill whole blocks of channels.
A 1x1 convolution of stride 1 sees an image as one row of positions, and its chunks are parts of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout, Variant, blocked
from meta_infer.ir.loop import Buffer, Expr, Type, Var, const, maximum, minimum, splat
from meta_infer.ir.shapes import ceildiv, usual_upper
from meta_infer.kernels.blocked import operand_layouts
from meta_infer.kernels.conv.conv_tile import Epilogue, split_evenly
from meta_infer.kernels.conv_chunks import l2_bytes
from meta_infer.kernels.int8.conv_int8_plan import (
    Problem,
    Tiling,
    column_sums,
    default_knobs,
    kept_elements,
    kept_row_pitch,
    pack_weights,
    path_of,
    problem_of,
    right_padding,
    row_pitch,
    staged_elements,
    staged_rows,
    tiling_of,
)
from meta_infer.kernels.int8.dot_tile import most_columns, multiply, step_share
from meta_infer.kernels.int8.stage_int8 import Rows, stage
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.support.dtypes import INT32


@contextmanager
def counted(b: Builder, count: int, name: str) -> Iterator[Expr]:
    """A loop of `count` passes, none around the body where there is one."""
    if count == 1:
        yield const(0)
        return
    with b.loop(0, count, name=name) as i:
        yield i


@dataclass(frozen=True)
class _Code:
    """What the code of one chunk has at hand. Lines [first, last) are rows, or positions of the one row."""

    b: Builder
    problem: Problem
    tiling: Tiling
    epilogue: Epilogue
    x: Buffer
    w: Buffer
    sums: Buffer
    staged: Buffer
    kept: Buffer | None
    zero: Expr
    pitch: Expr
    kept_pitch: Expr
    n: Expr
    part: Expr
    first: Expr
    last: Expr

    def stage(self) -> None:
        b, problem, tiling, conv = self.b, self.problem, self.tiling, self.problem.conv
        height, width = (b.dim(d) for d in conv.in_spatial)
        if problem.is_flat:
            count = b.let(self.last - self.first, "count")
            part = Rows(const(0), 1, 1, 1, height, width, self.first, count, 0, self.pitch - count)
        else:
            top = b.let(self.first * conv.strides[0] - conv.begin[0], "top")
            some = (self.last - self.first - 1) * (conv.strides[0] // problem.row_step) + problem.rows(1)
            part = Rows(top, some, staged_rows(problem, tiling), problem.row_step, height, width, 0, width,
                        conv.begin[1], right_padding(problem, tiling.columns))
        plane = b.let((self.n * problem.parts + self.part) * problem.in_blocks, "plane")
        stage(b, tiling.path, self.x, plane, problem.in_blocks, part, self.zero, problem.block, self.staged)

    def out_tile(self, vectors: int, out_block: Expr) -> None:
        """All lines of one tile of output blocks: a sweep over them for each pass, those between as one loop."""
        b, whole, step = self.b, self.problem.in_blocks, self.tiling.in_group
        final = (whole - 1) // step * step
        if final:
            self.sweep(vectors, out_block, 0, step)
        if final > step:
            with b.loop(step, final, step, name="pass") as middle:
                self.sweep(vectors, out_block, middle, step)
        self.sweep(vectors, out_block, final, whole - final)

    def sweep(self, vectors: int, out_block: Expr, start: Expr | int, count: int) -> None:
        """Input blocks [start, start + count) for all lines."""
        b, problem = self.b, self.problem
        if problem.is_flat:
            self.columns(vectors, out_block, start, count, const(0), self.first, self.last)
            return
        with b.loop(self.first, self.last, name="y") as y:
            self.columns(vectors, out_block, start, count, y, const(0), b.dim(problem.conv.out_spatial[1]))

    def columns(self, vectors: int, out_block: Expr, start: Expr | int, count: int, y: Expr, low: Expr,
                high: Expr) -> None:
        """Tiles of columns [low, high) of row y; where their number is not known at build the last is cut off."""
        b, most, width = self.b, self.tiling.columns, self.problem.conv.out_spatial[1]
        if isinstance(width, int) and (not self.problem.is_flat or self.tiling.cut.lines >= width):
            place = 0
            sizes = split_evenly(width, most)
            for size in sorted(set(sizes), reverse=True):
                end = place + sizes.count(size) * size
                with b.loop(place, end, size, name="column") as column:
                    self.tile(vectors, size, out_block, start, count, y, column, column, None)
                place = end
            return
        whole = b.let(low + (high - low) // most * most, "whole")
        with b.loop(low, whole, most, name="column") as column:
            self.tile(vectors, most, out_block, start, count, y, column, column - low, None)
        with b.when(whole.lt(high)):
            self.tile(vectors, most, out_block, start, count, y, whole, whole - low, high)

    def tile(self, vectors: int, columns: int, out_block: Expr, start: Expr | int, count: int, y: Expr, column: Expr,
             inside: Expr, limit: Expr | None) -> None:
        """One register tile; `inside` is the column counted from the chunk's first."""
        b, problem, path, conv = self.b, self.problem, self.tiling.path, self.problem.conv
        block, is_last = problem.block, not isinstance(start, Expr) and start + count == problem.in_blocks
        row = const(0) if problem.is_flat else y - self.first
        place = b.let((row * self.kept_pitch + inside) * (vectors * block), "place")
        acc = self._initial(vectors, columns, out_block, start, place)
        per_step = vectors * block * block
        w_tile = out_block * (problem.in_blocks * conv.taps * block * block)
        w_at = b.let(w_tile + start * (conv.taps * per_step), "w_at")
        line = b.let(row * (conv.strides[0] // problem.row_step), "line")
        left = b.let(inside * conv.strides[1], "left")
        plane = staged_rows(problem, self.tiling)
        with counted(b, conv.kernel[0], "kh") as kh, counted(b, conv.kernel[1], "kw") as kw:
            tap = b.let(w_at + (kh * conv.kernel[1] + kw) * (count * per_step), "tap")
            x_row = (start * plane + line + kh * conv.dilations[0]) * self.pitch + left + kw * conv.dilations[1]
            x_tap = b.let(x_row * block, "x_tap")
            x_step = b.let(self.pitch * (plane * block), "x_step")
            with counted(b, count, "ib") as ib:
                multiply(b, acc, path, self.staged, b.let(x_tap + ib * x_step, "x_at"), conv.strides[1] * block,
                         self.w, b.let(tap + ib * per_step, "w_ib"), block, block)
        if is_last:
            self.epilogue.finish(b, acc, self.n, out_block, y, column, limit)
            return
        assert self.kept is not None
        for v, sums in enumerate(acc):
            for j, value in enumerate(sums):
                b.store(self.kept, place + (j * vectors + v) * block, value)

    def _initial(self, vectors: int, columns: int, out_block: Expr, start: Expr | int, place: Expr) -> list[list[Var]]:
        """Zero, or what the zero point adds to quads with its sign turned, or what the last pass left."""
        b, block, path = self.b, self.problem.block, self.tiling.path
        nothing = const(0, Type(INT32, block))

        def first(v: int, j: int) -> Expr:
            if isinstance(start, Expr) or start:
                assert self.kept is not None
                return b.load(self.kept, place + (j * vectors + v) * block, block)
            if path.terms == 2:
                return nothing
            shift = splat(self.zero + path.shift(self.x.dtype), block)
            return nothing - shift * b.load(self.sums, (out_block + v) * block, block)

        return [[b.var(first(v, j), f"acc{v}_{j}") for j in range(columns)] for v in range(vectors)]


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    problem = problem_of(group, profile)
    assert problem is not None
    tiling, operands = tiling_of(problem, variant.knobs, profile), problem.operands
    conv, block = problem.conv, problem.block
    seen = {name: replace(layout, axis=1) if problem.is_flat and layout.block else layout
            for name, layout in layouts.items()}
    b = Builder("conv_int8")
    x, w, sums = b.input("x", conv.x.dtype), b.input("w", tiling.path.weight), b.input("sums", INT32)
    buffers = {n: b.input("operand", group.values[n].dtype) for n in operands.extras}
    buffers |= {n: b.output("y", group.values[n].dtype) for n in group.outputs}
    epilogue = Epilogue(problem.group, conv.y, buffers, seen, block)
    staged = b.scratch("staged", tiling.path.x, b.dim(staged_elements(problem, tiling)))
    waiting = kept_elements(problem, tiling)
    kept = b.scratch("kept", INT32, b.dim(waiting)) if waiting != 0 else None
    tiles, lines = tiling.cut.tiles, tiling.cut.lines
    tile_groups, line_groups = -(-len(tiling.sizes) // tiles), ceildiv(problem.lines, lines)
    with b.chunks(b.dim(conv.y.shape[0] * line_groups) * (tile_groups * problem.parts)) as chunk:
        line_group, rest = b.let(chunk % b.dim(line_groups), "line_group"), b.let(chunk // b.dim(line_groups), "rest")
        tile_group, image = b.let(rest % tile_groups, "tile_group"), b.let(rest // tile_groups, "image")
        part, n = b.let(image % problem.parts, "part"), b.let(image // problem.parts, "n")
        first = b.let(line_group * lines, "first")
        last = b.let(minimum(first + lines, b.dim(problem.lines)), "last")
        code = _Code(b, problem, tiling, epilogue, x, w, sums, staged, kept, operands.zero_point(b, buffers),
                     b.let(b.dim(row_pitch(problem, tiling)), "pitch"),
                     b.let(b.dim(kept_row_pitch(problem, tiling)), "kept_pitch"), n, part, first, last)
        code.stage()
        tile, block_at = 0, 0
        for vectors in sorted(set(tiling.sizes), reverse=True):
            count = tiling.sizes.count(vectors)
            low = maximum(tile_group * tiles - tile, 0)
            with b.loop(low, minimum(tile_group * tiles + (tiles - tile), count), name="tile") as i:
                code.out_tile(vectors, b.let(part * problem.out_blocks + (i * vectors + block_at), "ob"))
            tile, block_at = tile + count, block_at + count * vectors
    func, dims = b.finish()
    name = operands.weight.name
    packed = {f"{name}@packed": pack_weights(problem, tiling),
              f"{name}@sums": column_sums(operands.weights, problem.parts * problem.out_blocks * block)}
    return Lowering((KernelCall(func, (conv.x.name, *packed, *operands.extras, *group.outputs), dims),), packed)


def _variant(group: Group, problem: Problem, knobs: Mapping[str, KnobValue], profile: Profile) -> Variant:
    tiling = tiling_of(problem, knobs, profile)
    path, conv, block = tiling.path, problem.conv, problem.block
    inputs = operand_layouts(group, problem.operands.extras, group.values[conv.y.name].rank, block)
    weights = problem.parts * problem.in_blocks * problem.out_blocks * block * block * conv.taps
    scratch = staged_elements(problem, tiling) * path.x.bytes + kept_elements(problem, tiling) * 4
    share = 0.9 * step_share(tiling.sizes[0], tiling.columns)
    padded = 2.0 * weights * usual_upper(conv.out_spatial[0]) * usual_upper(conv.out_spatial[1])
    return Variant("conv_int8", f"conv_int8_{path.name}", inputs | {conv.x.name: blocked(block)},
                   {name: blocked(block) for name in group.outputs}, knobs,
                   scratch_bytes=usual_upper(scratch),
                   packed_bytes=weights * path.weight.bytes, flops=conv.flops, cost=padded / path.pace / share)


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    problem = problem_of(group, profile)
    if problem is None:
        return
    for path in problem.operands.paths(profile):
        yield _variant(group, problem, default_knobs(problem, path, profile), profile)


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    problem = problem_of(group, profile)
    assert problem is not None
    tiling = tiling_of(problem, variant.knobs, profile)
    width = most_columns(1, tiling.path, profile)
    lines = usual_upper(problem.lines)

    def listed(name: str, values: set[int]) -> Knob:
        return Knob(name, tuple(sorted({v for v in values if v > 0} | {int(variant.knobs[name])})))

    return (Knob("path", (tiling.path.name,)), listed("vectors", {1, 2, 3, 4}), listed("columns", {2, 4, 6, width}),
            listed("tiles", {1, 2, 4, len(tiling.sizes)}), listed("lines", {1, tiling.columns, lines // 2, lines}),
            listed("pass", {1, 4, problem.in_blocks}))


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    problem = problem_of(group, profile)
    assert problem is not None
    knobs = {**variant.knobs, **values}
    path, vectors, columns = path_of(problem, knobs["path"], profile), int(knobs["vectors"]), int(knobs["columns"])
    if path is None:
        return Refusal(values, "isa", f"{profile.isa} has no {knobs['path']} for these weights")
    if vectors > problem.out_blocks or int(knobs["pass"]) > problem.in_blocks:
        return Refusal(values, "shape", f"there are {problem.out_blocks} output and {problem.in_blocks} input blocks")
    if columns > most_columns(vectors, path, profile):
        return Refusal(values, "registers", f"{vectors} x {columns} sums do not fit")
    if int(knobs["tiles"]) > -(-problem.out_blocks // vectors):
        return Refusal(values, "shape", f"there are fewer than {knobs['tiles']} tiles")
    made = _variant(group, problem, knobs, profile)
    if made.scratch_bytes > 4 * l2_bytes(profile) and made.scratch_bytes > 2 * variant.scratch_bytes:
        return Refusal(values, "cache", f"a chunk stages {made.scratch_bytes} bytes")
    return made


CONV_INT8 = Kernel("conv_int8", ("ConvInteger",), _variants, _lower, _knobs, _tune)
