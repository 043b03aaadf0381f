"""The register tile of a dense convolution: `vectors` blocks of output channels by `columns` outputs of a row.

All accumulators live in registers while the input channels and kernel taps go by. Each step loads one vector of
weights per block and one input element per column and multiplies them all, so a 2 x 6 tile does 12 multiply-adds for
8 loads. Weights are packed in exactly the order in which the tile reads them (`conv_shape.pack_weights`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Value
from meta_infer.ir.group import Group, Layout
from meta_infer.ir.loop import Buffer, Expr, Var, const, mad, maximum, minimum, splat
from meta_infer.kernels.abreast import apply_abreast
from meta_infer.kernels.conv_chunks import LINE_BYTES
from meta_infer.kernels.math_use import uses_math
from meta_infer.kernels.point import Point, apply_nodes, channel_count, store_outputs
from meta_infer.support.dtypes import FLOAT32

# Multiply-adds in flight that keep two pipes of latency 4 busy, as on every out-of-order core of the catalog: 8, and
# some for the taps of a row's ends, which fewer columns meet. A 2 x 4 tile takes 1.16 times a 4 x 4 one's time.
_IN_FLIGHT = 10
# Larger bodies are loops over the input channels of a block instead of straight code.
_STRAIGHT_MADS = 400
_MOST_COLUMNS = 14
# Columns whose epilogues run abreast where they call math functions; vectors have powers of two of lanes.
_ABREAST = 4
# Elements of a cache line.
_LINE = LINE_BYTES // FLOAT32.bytes


def split_evenly(total: int, largest: int) -> list[int]:
    """`total` as the fewest sizes <= `largest`, differing by at most one, larger first: (7, 6) -> [4, 3]."""
    parts = -(-total // largest)
    size, more = divmod(total, parts)
    return [size + 1] * more + [size] * (parts - more)


def simd_registers(profile: Profile) -> int:
    """Vector registers a tile may use; one is kept free where a multiply-add needs a temporary."""
    return profile.vector_registers if profile.has_fma else profile.vector_registers - 1


@cache
def most_columns(vectors: int, registers: int) -> int:
    """The widest tile for `vectors` blocks: accumulators, the smaller side's operands and one more fit."""
    fitting = [t for t in range(1, _MOST_COLUMNS + 1) if vectors * t + min(vectors, t) + 1 <= registers]
    return max(fitting, default=1)


def step_cycles(vectors: int, columns: int) -> float:
    """Cycles of one input channel at one tap, for a core of two multiply-adds and two loads per cycle."""
    return max(vectors * columns, _IN_FLIGHT, vectors + columns) / 2


def _step_cost(vectors: int, columns: int) -> float:
    """Cycles of one step; loads of weights weigh a little more, because they may come from L2."""
    return step_cycles(vectors, columns) + 0.05 * vectors


@dataclass(frozen=True)
class OutRun:
    """`count` tiles of `vectors` output blocks and up to `columns` columns; the first one is `tile`, at `block`."""

    tile: int
    count: int
    block: int
    vectors: int
    columns: int


@dataclass(frozen=True)
class OutTiles:
    """How the output blocks are cut into tiles: one or two runs."""

    runs: tuple[OutRun, ...]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(run.vectors for run in self.runs for _ in range(run.count))


@cache
def out_tiles(blocks: int, most: int, registers: int, columns: int = _MOST_COLUMNS) -> OutTiles:
    """`blocks` output blocks in tiles of at most `most` blocks and `columns` columns."""
    sizes = split_evenly(blocks, most)
    runs, tile, block = [], 0, 0
    for vectors in sorted(set(sizes), reverse=True):
        count = sizes.count(vectors)
        runs.append(OutRun(tile, count, block, vectors, min(columns, most_columns(vectors, registers))))
        tile, block = tile + count, block + count * vectors
    return OutTiles(tuple(runs))


def choose_tiles(blocks: int, width: int | None, profile: Profile, load: float = 0.0) -> OutTiles:
    """Tiles with the least predicted time for `blocks` output blocks and rows of `width` (None: any) columns.

    `load` cycles are added for every load: where inputs are read but once per tile, fewer loads are worth more.
    """
    registers = simd_registers(profile)

    def step(vectors: int, columns: int) -> float:
        return _step_cost(vectors, columns) + load * (vectors + columns)

    def cost(tiles: OutTiles) -> float:
        total = 0.0
        for run in tiles.runs:
            if width is None:
                total += run.count * step(run.vectors, run.columns) / run.columns
            else:
                total += run.count * sum(step(run.vectors, t) for t in split_evenly(width, run.columns))
        return total

    most = 4 if registers > 16 else 3
    return min((out_tiles(blocks, v, registers) for v in range(1, min(most, blocks) + 1)), key=cost)


Accumulators = list[list[Var]]
Bounds = tuple[Expr | int, Expr | int]
"""A loop's start and stop; numbers where they are known at build."""


def start_tile(b: Builder, vectors: int, columns: int, block: int, first: Callable[[int, int], Expr]) -> Accumulators:
    """Registers [vector][column] that begin as `first(vector, column)`."""
    return [[b.var(first(v, j), f"acc{v}_{j}") for j in range(columns)] for v in range(vectors)]


@dataclass(frozen=True)
class Taps:
    """The taps of a kernel row: columns `ranges[k]` (first, last + 1) of the tile meet the input at tap k.

    Column j of tap k reads input column `j * stride + k * dilation` counted from the tile's first one.
    """

    ranges: tuple[tuple[int, int], ...]
    stride: int
    dilation: int


@dataclass(frozen=True)
class Source:
    """Where a tile reads: `x_row(input block, kernel row)` is the element of tap 0 of its first column.

    That element may lie outside the row: only columns in a tap's range are read. `w_tile` is the first weight of the
    tile, `kernel_rows` how many kernel rows its weights have. `unroll` channels of an input block are straight code
    (0: all of them, if that is not long). `ahead_x` elements further lies what the next tile reads, if that is to be
    asked for.
    """

    x: Buffer
    w: Buffer
    x_row: Callable[[Expr, Expr], Expr]
    w_tile: Expr
    kernel_rows: int
    block: int
    in_block: int
    unroll: int = 0
    ahead_x: int = 0


@dataclass(frozen=True)
class Ahead:
    """Weights that will be read next, `elements` from `start` on (`end` is the last of all), asked for in advance.

    The tiles of `places` positions share the work, so that weights from beyond L2 arrive while others are in use.
    """

    w: Buffer
    start: Expr
    elements: int
    end: int
    places: int

    def ask(self, b: Builder, place: Expr, columns: int) -> None:
        """The share of a tile of `columns` positions from `place` on."""
        lines = -(-self.elements // _LINE)
        each = -(-lines // self.places)
        first = b.let(self.start + place * (each * _LINE), "ahead")
        with b.loop(0, columns * each, name="line") as line:
            b.prefetch(self.w, minimum(first + line * _LINE, self.end))


@contextmanager
def _loop(b: Builder, start: Expr | int, stop: Expr | int, name: str) -> Iterator[Expr]:
    """A loop, or nothing around the body where there is exactly one pass."""
    if isinstance(start, int) and isinstance(stop, int) and stop == start + 1:
        yield const(start)
        return
    with b.loop(start, stop, name=name) as i:
        yield i


def accumulate(b: Builder, acc: Accumulators, source: Source, taps: Taps, rows: Bounds,
               in_blocks: Bounds) -> None:
    """Multiply kernel rows [rows) of input blocks [in_blocks) into a tile, in the order of the packed weights."""
    step = source.in_block * len(acc) * source.block
    with b.loop(*in_blocks, name="ib") as ib:
        if source.in_block == 1:
            _along_rows(b, acc, source, taps, rows, ib, step)
        else:
            _down_columns(b, acc, source, taps, rows, ib, step)


def _along_rows(b: Builder, acc: Accumulators, source: Source, taps: Taps, rows: Bounds, ib: Expr,
                step: int) -> None:
    """Taps of a kernel row side by side: a step of a plain input is one channel, too short for a loop of its own."""
    with _loop(b, *rows, "kh") as kh:
        x_row = b.let(source.x_row(ib, kh), "x_row")
        w_row = b.let(source.w_tile + (ib * source.kernel_rows + kh) * (len(taps.ranges) * step), "w_row")
        for kw, (low, high) in enumerate(taps.ranges):
            _multiply(b, acc, source, x_row + kw * taps.dilation, w_row + kw * step, range(low, high), taps.stride)


def _down_columns(b: Builder, acc: Accumulators, source: Source, taps: Taps, rows: Bounds, ib: Expr,
                  step: int) -> None:
    """Kernel rows innermost, as a loop of its own for each tap: neighbouring taps read the same inputs, and a
    compiler that saw them side by side would keep those in registers and spill the accumulators.
    """
    first = 0
    for (low, high), same in groupby(taps.ranges):
        count = len(list(same))
        if low < high:
            with _loop(b, first, first + count, "kw") as kw, _loop(b, *rows, "kh") as kh:
                shift = kw * (taps.dilation * source.in_block)
                x_at = b.let(source.x_row(ib, kh) + shift, "x_at")
                w_row = (ib * len(taps.ranges) + kw) * source.kernel_rows + kh
                w_at = b.let(source.w_tile + w_row * step, "w_at")
                for line in range(-(-source.ahead_x // _LINE)):
                    b.prefetch(source.x, x_at + source.ahead_x + line * _LINE)
                _multiply(b, acc, source, x_at, w_at, range(low, high), taps.stride)
        first += count


def _multiply(b: Builder, acc: Accumulators, source: Source, x_at: Expr, w_at: Expr, columns: range,
              stride: int) -> None:
    """One block of input channels at one tap.

    Fences keep the steps apart: loads of the next one, hoisted, would take registers that the tile has not left.
    """
    block, in_block, vectors = source.block, source.in_block, len(acc)

    def channel(ic: Expr | int) -> None:
        b.fence()
        weights = [b.let(b.load(source.w, w_at + ic * (vectors * block) + v * block, block), "w")
                   for v in range(vectors)]
        for j in columns:
            value = b.let(splat(b.load(source.x, x_at + j * stride * in_block + ic), block), "x")
            for v in range(vectors):
                b.assign(acc[v][j], mad(value, weights[v], acc[v][j]))

    straight = source.unroll or straight_channels(in_block, vectors * len(columns))
    if straight == in_block:
        for ic in range(in_block):
            channel(ic)
        return
    with b.loop(0, in_block, straight, name="ic") as first:
        for ic in range(straight):
            channel(first + ic)


def straight_channels(in_block: int, multiply_adds: int) -> int:
    """Channels of an input block in straight code: all, or one where steps of `multiply_adds` would make that long."""
    return in_block if in_block * multiply_adds <= _STRAIGHT_MADS else 1


@dataclass(frozen=True)
class Epilogue:
    """What follows the anchor: the group, its buffers and layouts, the blocked output it makes."""

    group: Group
    output: Value                               # the anchor's output
    buffers: Mapping[str, Buffer]
    layouts: Mapping[str, Layout]
    block: int

    def finish(self, b: Builder, acc: Accumulators, n: Expr, out_block: Expr, y: Expr, x: Expr,
               width: Expr | None = None, step: int = 1) -> None:
        """Run the epilogue on a tile whose columns are `x`, `x + step`, ... of row `y` and store it.

        Columns at or beyond `width` are not stored (None: all are inside).
        """
        if uses_math(self.group):
            self._finish_in_loop(b, acc, n, out_block, y, x, width, step)
            return
        for v, row in enumerate(acc):
            channel = b.let((out_block + v) * self.block, "oc")
            count = channel_count(b, self.output.shape, 1, channel, self.block)
            for j, value in enumerate(row):
                self._column(b, value, (n, channel, y, x + j * step), count, width)

    def _finish_in_loop(self, b: Builder, acc: Accumulators, n: Expr, out_block: Expr, y: Expr, x: Expr,
                        width: Expr | None, step: int) -> None:
        """The same as a loop over the tile in memory: long epilogues (exp, tanh) are emitted once."""
        vectors, columns = len(acc), len(acc[0])
        tile = b.stack("tile", acc[0][0].type.dtype, vectors * columns * self.block)
        for v, row in enumerate(acc):
            for j, value in enumerate(row):
                b.store(tile, (v * columns + j) * self.block, value)
        with b.loop(0, vectors, name="v") as vector:
            channel = b.let((out_block + vector) * self.block, "oc")
            count = channel_count(b, self.output.shape, 1, channel, self.block)

            def some(column: Expr, many: int) -> None:
                places = [b.let(column + j, "column") for j in range(many)]
                values = [b.let(b.load(tile, (vector * columns + j) * self.block, self.block), "r") for j in places]
                coords: list[tuple[Expr, ...]] = [(n, channel, y, b.let(x + j * step)) for j in places]
                self._columns(b, values, coords, count, width)

            first = 0
            for many in (_ABREAST, _ABREAST // 2, 1):
                last = first + (columns - first) // many * many
                if first < last:
                    with b.loop(first, last, many, name="j") as column:
                        some(column, many)
                first = last

    def _columns(self, b: Builder, values: list[Expr], coords: list[tuple[Expr, ...]], count: Expr | None,
                 width: Expr | None) -> None:
        """The epilogue on several columns at once."""
        points = [Point(self.output.shape, at, 1, self.block, count) for at in coords]
        found = apply_abreast(b, self.group, self.output.name, values, self.buffers, self.layouts, points)
        for known, point in zip(found, points, strict=True):
            if width is None:
                store_outputs(b, self.group, known, self.buffers, self.layouts, point)
                continue
            with b.when(point.coords[3].lt(width)):
                store_outputs(b, self.group, known, self.buffers, self.layouts, point)

    def _column(self, b: Builder, value: Expr, coords: tuple[Expr, ...], count: Expr | None,
                width: Expr | None) -> None:
        if width is None:
            self._store(b, value, coords, count)
            return
        with b.when(coords[3].lt(width)):
            self._store(b, value, coords, count)

    def _store(self, b: Builder, value: Expr, coords: tuple[Expr, ...], count: Expr | None) -> None:
        point = Point(self.output.shape, coords, 1, self.block, count)
        known = apply_nodes(b, self.group.epilogue, self.group.values, {self.output.name: value}, self.buffers,
                            self.layouts, point)
        store_outputs(b, self.group, known, self.buffers, self.layouts, point)


def tiles_in(run: OutRun, first: Expr, last: Expr) -> tuple[Expr, Expr]:
    """Bounds of the tiles of `run` that lie in [first, last), counted from the run's own first tile."""
    low = maximum(first - run.tile, 0) if run.tile else first
    return low, minimum(last - run.tile, run.count)
