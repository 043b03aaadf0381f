"""The register tile of a depthwise convolution: `rows` by `columns` outputs of one channel block.

    registers = bias
    for input row of the tile:  weights of the kernel rows that meet it in registers (all weights where they fit)
        for input column:  load once, multiply into every output that it meets

An input row is loaded once for all output rows of the tile: two rows of a 3x3 read four rows instead of six. Tiles
whose kernel rows all lie inside the image are straight code; a row near the top or bottom border is a tile of its
own, whose kernel rows are a loop. Border columns of static widths are code of their own, as in `conv_direct`; for
dynamic widths, columns whose taps all lie inside the image go in tiles and the others one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr, const, mad, maximum, minimum
from meta_infer.kernels.conv.conv_direct import column_runs, kernel_rows
from meta_infer.kernels.conv.conv_shape import ConvShape
from meta_infer.kernels.conv.conv_tile import Accumulators, Bounds, Taps, start_tile
from meta_infer.kernels.conv_chunks import LINE_BYTES
from meta_infer.support.dtypes import FLOAT32

# Kinds of column tiles beyond which border columns go one by one.
_MOST_KINDS = 8
# Elements of a cache line.
_LINE = LINE_BYTES // FLOAT32.bytes

Finish = Callable[[Accumulators, Expr, Expr], None]
"""Takes one row of results: ([1][column], row, first column)."""


@dataclass(frozen=True)
class Window:
    """Kernel, strides and dilations: (height, width) each."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1]


def window_of(conv: ConvShape) -> Window:
    return Window(conv.kernel, conv.strides, conv.dilations)


def meeting(conv: Window | ConvShape, rows: int) -> list[list[tuple[int, int]]]:
    """For every input row of a tile of `rows` output rows, the (output row, kernel row) pairs that meet there."""
    stride, dilation, kernel = conv.strides[0], conv.dilations[0], conv.kernel[0]
    pairs: list[list[tuple[int, int]]] = [[] for _ in range((rows - 1) * stride + (kernel - 1) * dilation + 1)]
    for r in range(rows):
        for k in range(kernel):
            pairs[r * stride + k * dilation].append((r, k))
    return pairs


def registers_needed(conv: Window, rows: int, columns: int) -> int:
    """Vector registers of a tile whose weights are loaded anew for every input row."""
    most = max(len({k for _, k in pairs}) for pairs in meeting(conv, rows))
    return rows * columns + most * conv.kernel[1] + 1


def inner_range(b: Builder, conv: ConvShape, axis: int) -> tuple[Expr, Expr]:
    """Output positions [low, high) of a spatial axis whose taps all lie inside the image."""
    stride, pad = conv.strides[axis], conv.begin[axis]
    size = b.dim(conv.out_spatial[axis])
    low = b.let(minimum(const(-(-pad // stride)), size), "inner_low")
    reach = b.dim(conv.in_spatial[axis]) + pad - (conv.kernel[axis] - 1) * conv.dilations[axis] + (stride - 1)
    return low, b.let(maximum(minimum(maximum(reach, 0) // stride, size), low), "inner_high")


@dataclass(frozen=True)
class DepthwisePlane:
    """What the code of one plane (an image's channel block) needs at hand.

    `x_plane`, `w_plane` and `bias_at` are first elements; element 0 of the plane is row 0, column 0 of the input.
    `ahead` asks for input rows that many rows before their first use (0: never); `x_last` is the buffer's last element.
    """

    b: Builder
    conv: ConvShape
    block: int
    x: Buffer
    w: Buffer
    bias: Buffer
    x_plane: Expr
    w_plane: Expr
    bias_at: Expr
    rows: int
    columns: int
    keeps_weights: bool = False
    ahead: int = 0
    x_last: Expr | None = None

    def lines(self, y0: Expr, y1: Expr, finish: Finish) -> None:
        """All columns of output rows [y0, y1)."""
        b, conv = self.b, self.conv
        low, high = inner_range(b, conv, 0)
        low = b.let(minimum(maximum(low, y0), y1), "low_row")
        high = b.let(minimum(maximum(high, low), y1), "high_row")
        whole = b.let(low + (high - low) // self.rows * self.rows, "whole_rows")
        weights = self._all_weights() if self.keeps_weights else None
        with b.loop(low, whole, self.rows, name="y") as y:
            self._row_of_tiles(y, self.rows, None, weights, finish)
        with b.loop(0, 2, name="side") as side:               # rows above the inner ones, then those below
            first, last = b.let(y0 + side * (whole - y0), "first_row"), b.let(low + side * (y1 - low), "last_row")
            with b.loop(first, last, name="y") as y:
                self._row_of_tiles(y, 1, kernel_rows(conv, b, y), None, finish)

    def _all_weights(self) -> dict[tuple[int, int], Expr]:
        (kh, kw), block = self.conv.kernel, self.block
        return {(i, j): self.b.let(self.b.load(self.w, self.w_plane + (i * kw + j) * block, block), "w")
                for i in range(kh) for j in range(kw)}

    def _row_of_tiles(self, y: Expr, rows: int, bounds: Bounds | None, weights: dict[tuple[int, int], Expr] | None,
                      finish: Finish) -> None:
        """All columns of `rows` output rows from `y` on; `bounds` limits the kernel rows of a single one."""
        b, conv = self.b, self.conv

        def tile(column: Expr, columns: int, taps: Taps | None) -> None:
            acc = start_tile(b, rows, columns, self.block, lambda r, j: b.load(self.bias, self.bias_at, self.block))
            if taps is None:
                for r in range(rows):
                    self._column(acc, r, y, column, bounds or (0, conv.kernel[0]))
            elif bounds is not None:
                self._bounded(acc, y, column, bounds, taps)
            else:
                self._inside(acc, y, column, taps, weights)
            for r in range(rows):
                finish([acc[r]], b.let(y + r, "row"), column)

        runs = column_runs(conv, self.columns) if isinstance(conv.in_spatial[1], int) else []
        if runs and len(runs) <= _MOST_KINDS:
            for run in runs:
                if run.count == 1:
                    tile(const(run.first), run.columns, run.taps)
                    continue
                end = run.first + run.count * run.columns
                with b.loop(run.first, end, run.columns, name="column") as column:
                    tile(column, run.columns, run.taps)
            return
        most, (low, high) = self.columns, inner_range(b, conv, 1)
        whole = b.let(low + (high - low) // most * most, "whole")
        inner = Taps(((0, most),) * conv.kernel[1], conv.strides[1], conv.dilations[1])
        with b.loop(low, whole, most, name="column") as column:
            tile(column, most, inner)
        with b.loop(0, 2, name="side") as side:
            first = b.let(side * whole, "first")
            last = b.let(low + side * (b.dim(conv.out_spatial[1]) - low), "last")
            with b.loop(first, last, name="column") as column:
                tile(column, 1, None)

    def _row_start(self, source: Expr) -> Expr:
        """Element of column 0 of input row `source`."""
        return self.x_plane + source * self.b.dim(self.conv.in_spatial[1]) * self.block

    def _places(self, taps: Taps) -> dict[int, list[tuple[int, int]]]:
        """Input column, counted from the tile's first, -> the (output column, kernel column) pairs that meet there."""
        meets: dict[int, list[tuple[int, int]]] = {}
        for k, (low, high) in enumerate(taps.ranges):
            for j in range(low, high):
                meets.setdefault(j * taps.stride + k * taps.dilation, []).append((j, k))
        return dict(sorted(meets.items()))

    def _inside(self, acc: Accumulators, y: Expr, column: Expr, taps: Taps,
                kept: dict[tuple[int, int], Expr] | None) -> None:
        """A tile whose kernel rows all lie inside the image."""
        b, conv, block = self.b, self.conv, self.block
        places = self._places(taps)
        used = sorted({k for pairs in places.values() for _, k in pairs})
        top = b.let(y * conv.strides[0] - conv.begin[0], "top")
        left = b.let(column * conv.strides[1] - conv.begin[1], "left")
        start = b.let(self._row_start(top) + left * block, "start")
        if self.ahead:
            self._ask(top, left, len(acc), len(acc[0]))
        for i, rows in enumerate(meeting(conv, len(acc))):
            if not rows:
                continue
            x_at = b.let(start + i * (b.dim(conv.in_spatial[1]) * block), "x_at")
            weights = kept or {(kh, k): b.let(b.load(self.w, self.w_plane + (kh * conv.kernel[1] + k) * block, block),
                                              "w") for kh in sorted({kh for _, kh in rows}) for k in used}
            for place, pairs in places.items():
                value = b.let(b.load(self.x, x_at + place * block, block), "x")
                for r, kh in rows:
                    for j, k in pairs:
                        b.assign(acc[r][j], mad(value, weights[kh, k], acc[r][j]))

    def _ask(self, top: Expr, left: Expr, rows: int, columns: int) -> None:
        """Prefetch the input that the tile `ahead` input rows further down will be the first to read."""
        b, conv = self.b, self.conv
        assert self.x_last is not None
        below = top + ((conv.kernel[0] - 1) * conv.dilations[0] + self.ahead)
        for i in range(rows * conv.strides[0]):
            at = b.let(self._row_start(below + i) + left * self.block, "ahead")
            for line in range(0, columns * conv.strides[1] * self.block, _LINE):
                b.prefetch(self.x, minimum(at + line, self.x_last))

    def _bounded(self, acc: Accumulators, y: Expr, column: Expr, rows: Bounds, taps: Taps) -> None:
        """A tile of one row near the top or the bottom border: kernel rows [rows) only."""
        b, conv, block = self.b, self.conv, self.block
        places = self._places(taps)
        used = sorted({k for pairs in places.values() for _, k in pairs})
        with b.loop(*rows, name="kh") as kh:
            source = y * conv.strides[0] + kh * conv.dilations[0] - conv.begin[0]
            left = column * conv.strides[1] - conv.begin[1]
            x_at = b.let(self._row_start(source) + left * block, "x_at")
            w_at = b.let(self.w_plane + kh * (conv.kernel[1] * block), "w_at")
            weights = {k: b.let(b.load(self.w, w_at + k * block, block), "w") for k in used}
            for place, pairs in places.items():
                value = b.let(b.load(self.x, x_at + place * block, block), "x")
                for j, k in pairs:
                    b.assign(acc[0][j], mad(value, weights[k], acc[0][j]))

    def _column(self, acc: Accumulators, r: int, y: Expr, column: Expr, rows: Bounds) -> None:
        """One output column of a dynamic width, near a border or not, in row `y + r`."""
        b, conv, block = self.b, self.conv, self.block
        stride, dilation, taps, pad = conv.strides[1], conv.dilations[1], conv.kernel[1], conv.begin[1]
        left = b.let(column * stride, "left")
        low = b.let((maximum(pad - left, 0) + (dilation - 1)) // dilation, "kw_low")
        reach = maximum(b.dim(conv.in_spatial[1]) + pad - left, 0) + (dilation - 1)
        high = b.let(minimum(reach // dilation, taps), "kw_high")
        with b.loop(*rows, name="kh") as kh, b.loop(low, high, name="kw") as kw:
            source = (y + r) * conv.strides[0] + kh * conv.dilations[0] - conv.begin[0]
            at = self._row_start(source) + (left + kw * dilation - pad) * block
            weight = b.load(self.w, self.w_plane + (kh * taps + kw) * block, block)
            b.assign(acc[r][0], mad(b.load(self.x, at, block), weight, acc[r][0]))
