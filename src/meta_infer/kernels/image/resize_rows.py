"""Resize of the last two axes, or of one of them, line by line; an element is a number, or a block of channels.

    chunk: planes, and some of their output lines
        columns[tap][X] = where the taps of each output column are, and their weights            (per-thread scratch)
        nearest     for line:  y[line] = x[the line's tap][columns];  again the line before where the tap is the same
        others      for line, tap:  lines[tap % taps] = x[tap] across the columns, unless it is there already
                        y[line] = sum over taps of weight * lines[tap % taps]

So each input line is resized across once, however many output lines it takes part in. Nearest by a whole number s that
takes element x // s (`AxisResize.repeats`) needs no table: elements are repeated in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr, const, mad, shuffle, splat
from meta_infer.ir.shapes import Dim, usual_upper
from meta_infer.kernels.image.resize_taps import TAPS, AxisResize, Tap
from meta_infer.kernels.kernel import KernelCall
from meta_infer.kernels.plane_chunks import part_chunks
from meta_infer.kernels.rows import along_row, copy_run
from meta_infer.support.dtypes import FLOAT32, INT64, DType

# Vectors, in the time of a plain copy of one, that an output element takes by mode.
_WORK = {"nearest": 1.0, "linear": 3.0, "cubic": 5.0}


@dataclass(frozen=True)
class RowsResize:
    """[planes, height, width] -> [planes, new height, new width], of elements of `block` numbers.

    `lanes` are those of a vector register, equal to `block` unless that is 1; `lines` those of a chunk, 0 for the
    rule's own choice.
    """

    dtype: DType
    planes: Dim
    vertical: AxisResize
    horizontal: AxisResize
    block: int
    lanes: int
    lines: int

    @property
    def mode(self) -> str:
        return str(self.horizontal.attrs["mode"])

    @property
    def taps(self) -> int:
        return TAPS[self.mode]

    @property
    def line_work(self) -> float:
        """Vector operations of an output line."""
        return _WORK[self.mode] * usual_upper(self.horizontal.out) * self.block / self.lanes


@dataclass(frozen=True)
class _Columns:
    """The table of the taps of all output columns, or none where elements stay or are repeated."""

    places: Buffer | None = None                                      # of the element's first number, from the line's
    weights: Buffer | None = None


def lower_rows(plan: RowsResize, name: str, args: Sequence[str]) -> KernelCall:
    """The launch with args (input, output)."""
    b = Builder(name)
    x, y = b.input("x", plan.dtype), b.output("y", plan.dtype)
    columns = _table(b, plan)
    sums = None
    if plan.mode != "nearest" and not (plan.horizontal.is_same or plan.vertical.is_same):
        sums = b.scratch("lines", plan.dtype, b.dim(plan.horizontal.out) * (plan.taps * plan.block))
    with part_chunks(b, plan.planes, plan.vertical.out, plan.line_work, rows=plan.lines) as (planes, first, last):
        _fill_table(b, plan, columns)
        with b.loop(*planes, name="plane") as plane:
            code = _Plane(b, plan, x, y, columns, sums, b.let(plane * b.dim(plan.vertical.size), "top"),
                          b.let(plane * b.dim(plan.vertical.out), "y_top"))
            if plan.mode == "nearest":
                code.nearest(first, last)
            else:
                code.weighted(first, last)
    func, dims = b.finish()
    return KernelCall(func, tuple(args), dims)


def _table(b: Builder, plan: RowsResize) -> _Columns:
    axis = plan.horizontal
    if axis.is_same or axis.repeats() is not None:
        return _Columns()
    size = b.dim(axis.out) * plan.taps
    weights = b.scratch("weights", FLOAT32, size) if plan.taps > 1 else None
    return _Columns(b.scratch("places", INT64, size), weights)


def _fill_table(b: Builder, plan: RowsResize, columns: _Columns) -> None:
    if columns.places is None:
        return
    width = b.dim(plan.horizontal.out)
    with b.loop(0, width, name="column") as column:
        for k, (place, weight) in enumerate(plan.horizontal.taps(b, column)):
            b.store(columns.places, width * k + column, place * plan.block)
            if columns.weights is not None and weight is not None:
                b.store(columns.weights, width * k + column, weight)


@dataclass(frozen=True)
class _Plane:
    """One plane's code: `top` and `y_top` are the lines of x and y before its first ones."""

    b: Builder
    plan: RowsResize
    x: Buffer
    y: Buffer
    columns: _Columns
    sums: Buffer | None
    top: Expr
    y_top: Expr

    @property
    def pitch(self) -> Expr:
        """Numbers of an output line."""
        return self.b.dim(self.plan.horizontal.out) * self.plan.block

    def line_taps(self, line: Expr) -> list[Tap]:
        axis, b = self.plan.vertical, self.b
        if axis.is_same:
            return [(line, None)]
        repeats = axis.repeats()
        return axis.taps(b, line) if repeats is None else [(b.let(line // repeats, "source"), None)]

    def source(self, line: Expr) -> Expr:
        """The first number of an input line."""
        return self.b.let((self.top + line) * (self.b.dim(self.plan.horizontal.size) * self.plan.block), "source")

    # --- nearest ------------------------------------------------------------------------------------------

    def nearest(self, first: Expr, last: Expr) -> None:
        b, plan = self.b, self.plan
        repeats = plan.horizontal.repeats()
        before = b.var(const(-1), "before")
        with b.loop(first, last, name="line") as line:
            tap, _ = self.line_taps(line)[0]
            source, to = self.source(tap), b.let((self.y_top + line) * self.pitch, "to")
            if plan.horizontal.is_same:
                copy_run(b, self.x, source, self.y, to, self.pitch, plan.lanes)
            elif repeats is not None:
                self._repeat(source, to, repeats)
            elif plan.block > 1 or plan.vertical.is_same:
                self._pick(source, to)
            else:                                             # numbers one by one: rather copy the line before
                with b.when(tap.eq(before)):
                    copy_run(b, self.y, to - self.pitch, self.y, to, self.pitch, plan.lanes)
                with b.otherwise():
                    self._pick(source, to)
                b.assign(before, tap)

    def _pick(self, source: Expr, to: Expr) -> None:
        b, block = self.b, self.plan.block
        assert self.columns.places is not None
        with b.loop(0, b.dim(self.plan.horizontal.out), name="column") as column:
            place = b.load(self.columns.places, column)
            b.store(self.y, to + column * block, b.load(self.x, source + place, block))

    def _repeat(self, source: Expr, to: Expr, repeats: int) -> None:
        b, plan, block = self.b, self.plan, self.plan.block
        width = b.dim(plan.horizontal.size)
        if block > 1:
            with b.loop(0, width, name="column") as column:
                value = b.let(b.load(self.x, source + column * block, block), "v")
                for k in range(repeats):
                    b.store(self.y, to + (column * repeats + k) * block, value)
            return
        lanes = plan.lanes
        whole = b.let(width // lanes * lanes, "whole")
        if lanes > 1:
            with b.loop(0, whole, lanes, name="column") as column:
                value = b.let(b.load(self.x, source + column, lanes), "v")
                for k in range(repeats):
                    picks = tuple((k * lanes + lane) // repeats for lane in range(lanes))
                    b.store(self.y, to + column * repeats + k * lanes, shuffle(value, value, picks))
        with b.loop(whole if lanes > 1 else 0, width, name="column") as column:
            single = b.let(b.load(self.x, source + column), "v")
            for k in range(repeats):
                b.store(self.y, to + column * repeats + k, single)

    # --- sums ---------------------------------------------------------------------------------------------

    def weighted(self, first: Expr, last: Expr) -> None:
        b, plan = self.b, self.plan
        held = b.stack("held", INT64, plan.taps)
        for slot in range(plan.taps):
            b.store(held, slot, const(-1))
        with b.loop(first, last, name="line") as line:
            taps, to = self.line_taps(line), b.let((self.y_top + line) * self.pitch, "to")
            if plan.vertical.is_same:
                self._across(self.source(taps[0][0]), self.y, to)
            elif self.sums is None:                                   # input lines serve as they are
                self._add_up(self.x, [(self.source(tap), weight) for tap, weight in taps], to)
            else:
                self._make_lines(held, [tap for tap, _ in taps], self.sums)
                places = [b.let(tap % plan.taps * self.pitch, "sums_at") for tap, _ in taps]
                self._add_up(self.sums, [(at, weight) for at, (_, weight) in zip(places, taps, strict=True)], to)

    def _make_lines(self, held: Buffer, taps: Sequence[Expr], sums: Buffer) -> None:
        """See that input line `tap` lies across the columns at `tap % taps`, for each of them: `held` knows who does.

        They are neighbours, so no two of them want the same place.
        """
        b, count = self.b, self.plan.taps
        wanted = b.stack("wanted", INT64, count)
        for i, place in enumerate(taps):
            b.store(wanted, i, place)
        with b.loop(0, count, name="k") as k:
            tap = b.let(b.load(wanted, k), "tap")
            slot = b.let(tap % count, "slot")
            with b.when(b.load(held, slot).ne(tap)):
                self._across(self.source(tap), sums, b.let(slot * self.pitch, "sums_at"))
                b.store(held, slot, tap)

    def _across(self, source: Expr, to: Buffer, at: Expr) -> None:
        """An input line at the output's columns."""
        b, plan, block = self.b, self.plan, self.plan.block
        assert self.columns.places is not None and self.columns.weights is not None
        width = b.dim(plan.horizontal.out)
        with b.loop(0, width, name="column") as column:
            total: Expr | None = None
            for k in range(plan.taps):
                place = b.load(self.columns.places, width * k + column)
                weight = b.let(b.load(self.columns.weights, width * k + column), "w")
                wide = splat(weight, block) if block > 1 else weight
                value = b.load(self.x, source + place, block)
                total = b.let(wide * value if total is None else mad(wide, value, total), "total")
            assert total is not None
            b.store(to, at + column * block, total)

    def _add_up(self, lines: Buffer, taps: Sequence[tuple[Expr, Expr | None]], to: Expr) -> None:
        """An output line from the lines at its taps."""
        b, plan = self.b, self.plan

        def some(i: Expr, lanes: int, count: Expr | None) -> None:
            total: Expr | None = None
            for at, weight in taps:
                assert weight is not None
                value = b.load(lines, at + i, lanes, count)
                wide = splat(weight, lanes) if lanes > 1 else weight
                total = b.let(wide * value if total is None else mad(wide, value, total), "total")
            assert total is not None
            b.store(self.y, to + i, total, count)

        along_row(b, 0, self.pitch, plan.lanes, some)
