"""The loops of the recurrence, which the kernels of RNN, LSTM and GRU share.

A chunk of the recurrence is one direction of a few sequences; the weights of a direction stream from cache once per
step for all of them. Hidden units go by blocks of `lanes`; the gates of a block lie together, in ONNX's order, so that
one pass over a panel of the recurrent weights yields everything that its new state needs.

    for step:  for block, tile of sequences:  sums = gates[t] + h R            nothing but multiply-adds, which stream R
               for sequence:  for several blocks abreast:  h' = f(sums)         chains of functions, side by side

Apart, neither waits for the other: a chain of functions behind every block would leave the stream idle for as long.

The chunk's states lie in its own memory, [2][sequences][width] for h (two states in turn), width being the hidden size
rounded up to whole blocks; the sums are [sequences][gates][width].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr, Type, cast, const, maximum, minimum, select, splat
from meta_infer.kernels.matmul.gemm_tile import Ahead, Tile, by_rows, each_tile, multiply
from meta_infer.kernels.recurrent.recurrent_knobs import Choice
from meta_infer.kernels.recurrent.recurrent_problem import Problem
from meta_infer.support.dtypes import INT32, INT64


@dataclass(frozen=True)
class Moment:
    """One step: `t` is where all sequences are (unless they have lengths), `old` and `new` where h is and will be."""

    step: Expr
    t: Expr
    old: Expr
    new: Expr


@dataclass(frozen=True)
class Row:
    """One sequence of a register tile, in one step: `line` counts blocks of gates, `at` is where its states begin."""

    line: Expr
    at: Expr


@dataclass(frozen=True)
class Units:
    """`lanes` neighbouring hidden units of one sequence, from `unit`, of which `count` are inside (None: all).

    `at` is their place in the chunk's states and `sums` in its sums; `place` counts rows of Y. `inside` is true in all
    lanes while the sequence lasts, None when it lasts for all steps.
    """

    lanes: int
    unit: Expr
    count: Expr | None
    at: Expr
    sums: Expr
    place: Expr
    inside: Expr | None


@dataclass(frozen=True)
class Frame:
    """A chunk: direction `side`, `size` sequences from `first`; `row0` is their first row in [directions, batch].

    `gates` is the input's part of all steps; `sums` has `slots` sums for each unit.
    """

    b: Builder
    problem: Problem
    lanes: int
    choice: Choice
    lengths: Buffer | None
    of_input: Buffer
    sums: Buffer
    slots: int
    side: Expr
    first: Expr
    size: Expr
    row0: Expr
    steps: Expr
    batch: Expr

    @property
    def blocks(self) -> int:
        return self.problem.blocks(self.lanes)

    @property
    def width(self) -> int:
        return self.blocks * self.lanes

    @property
    def state(self) -> int:
        """Elements of one state of all sequences."""
        return self.choice.sequences * self.width

    @contextmanager
    def each_step(self) -> Iterator[Moment]:
        b = self.b
        with b.loop(0, self.steps, 1, "step") as step:
            t = b.let(step + self.backward * (self.steps - 1 - step * 2), "t")
            old, new = (b.let(parity % 2 * self.state, "state") for parity in (step, step + 1))
            yield Moment(step, t, old, new)

    @property
    def backward(self) -> Expr:
        """1 in the reverse direction, else 0."""
        return const(1) if self.problem.reverse else self.side

    def time(self, now: Moment, sequence: Expr) -> tuple[Expr, Expr | None]:
        """Where a sequence is in this step, and its length where it has one of its own."""
        b = self.b
        if self.lengths is None:
            return now.t, None
        length = b.let(b.load(self.lengths, sequence), "length")
        last = b.let(minimum(self.steps, cast(length, INT64)) - 1, "last")
        mirrored = select(now.step.le(last), last - now.step, now.step)
        return b.let(now.step + self.backward * (mirrored - now.step), "t"), length

    def sum_up(self, now: Moment, panels: Buffer, vectors: int, left: Buffer, left_at: Callable[[Row], Expr],
               start: Callable[[Row, Expr], list[Expr]]) -> None:
        """For all sequences and units the first `vectors` sums: `start` plus `left` times the panel of their block.

        What `start` gives beyond `vectors` is kept as it is.
        """
        b, hidden, choice = self.b, self.problem.hidden, self.choice
        tile = Tile(self.problem.dtype, self.lanes, vectors, choice.rows)
        per_line = self.problem.directions * self.blocks

        def body(block: Expr, first_row: Expr, rows: int) -> None:
            panel_at = b.let((self.side * self.blocks + block) * (hidden * tile.columns), "panel_at")
            found = []
            for r in range(rows):
                sequence = b.let(self.first + first_row + r, "sequence")
                t, _ = self.time(now, sequence)
                line = b.let((t * self.batch + sequence) * per_line + self.side * self.blocks + block, "line")
                found.append(Row(line, b.let((first_row + r) * self.width, "row_at")))
            begin = [start(row, block) for row in found]
            ahead = Ahead(panels, panel_at + choice.ahead * tile.columns, tile.columns) if choice.ahead else None
            sums = multiply(b, replace(tile, rows=rows), rows, left, [left_at(row) for row in found], 1, panels,
                            panel_at, tile.columns, const(hidden), [some[:vectors] for some in begin], choice.unroll,
                            ahead)
            for row, made, given in zip(found, sums, begin, strict=True):
                for slot, value in enumerate([*made, *given[vectors:]]):
                    b.store(self.sums, row.at * self.slots + (slot * self.width + block * self.lanes), value)

        with b.loop(0, self.blocks, 1, "block") as block, each_tile(b, tile, self.size) as (row, some):
            by_rows(b, tile, some, lambda rows: body(block, row, rows))

    def each_units(self, now: Moment, body: Callable[[Units], None]) -> None:
        """`body` for all units of all sequences: blocks wholly inside several abreast, the others one by one."""
        b, problem, wide = self.b, self.problem, self.lanes * self.choice.abreast
        with b.loop(0, self.size, 1, "row") as row:
            sequence = b.let(self.first + row, "sequence")
            t, length = self.time(now, sequence)
            place = b.let((t * problem.directions + self.side) * self.batch + sequence, "place")
            row_at = b.let(row * self.width, "row_at")
            whole = problem.hidden // wide * wide
            for lanes, begin, end in ((wide, 0, whole), (self.lanes, whole, self.width)):
                if begin < end:
                    with b.loop(begin, end, lanes, "unit") as unit:
                        inside = None if length is None else splat(cast(now.step, INT32), lanes).lt(
                            splat(length, lanes))
                        count = None
                        if end > problem.hidden:
                            count = b.let(minimum(const(problem.hidden) - unit, lanes), "count")
                        body(Units(lanes, unit, count, b.let(row_at + unit, "at"),
                                   b.let(row_at * self.slots + unit, "sums_at"), place, inside))

    def total(self, units: Units, slot: int) -> Expr:
        """A sum of these units."""
        return self.b.load(self.sums, units.sums + slot * self.width, units.lanes)

    def gate(self, row: Row, gate: int) -> Expr:
        """The input's part of one gate of a block."""
        return self.b.load(self.of_input, (row.line * self.problem.gates + gate) * self.lanes, self.lanes)

    def apply(self, which: int, x: Expr, clip: bool = True) -> Expr:
        """Activation function number `which` of this direction."""
        bound = self.problem.clip if clip else None
        if bound is not None:
            x = self.b.let(maximum(const(-bound, x.type), minimum(const(bound, x.type), x)), "clipped")
        here, *other = dict.fromkeys(functions[which] for functions in self.problem.functions)
        if not other:
            return here.expr(x)
        x = self.b.let(x, "gate")
        return select(self.side.eq(0), here.expr(x), other[0].expr(x))

    def lasting(self, units: Units, new: Expr, state: Buffer, old_at: Expr) -> Expr:
        """The new state while the sequence lasts, behind its end the old one."""
        if units.inside is None:
            return new
        return self.b.let(select(units.inside, new, self.b.load(state, old_at, units.lanes)), "lasting")

    def put(self, y: Buffer | None, units: Units, value: Expr) -> None:
        """Write units of Y: zeros behind the end of the sequence."""
        if y is None:
            return
        if units.inside is not None:
            value = select(units.inside, value, const(0, value.type))
        self.b.store(y, units.place * self.problem.hidden + units.unit, value, units.count)

    def begin_state(self, outside: Buffer | None, inside: Buffer) -> None:
        """Copy the chunk's part of an initial state [directions, batch, hidden], zeros where absent, to its memory."""
        for at, place, count in self._units():
            zero = const(0, Type(self.problem.dtype, self.lanes))
            self.b.store(inside, at, zero if outside is None else self.b.load(outside, place, self.lanes, count))

    @property
    def last(self) -> Expr:
        """Where the state after the last step begins."""
        return self.b.let(self.steps % 2 * self.state, "last")

    def end_state(self, outside: Buffer | None, inside: Buffer, last: Expr) -> None:
        """Copy the chunk's state, from element `last`, to an output [directions, batch, hidden]."""
        if outside is None:
            return
        for at, place, count in self._units():
            value = self.b.load(inside, last + at, self.lanes)
            if self.lengths is not None:                  # a sequence without an element leaves zeros
                length = self.b.load(self.lengths, place // self.problem.hidden - self.row0 + self.first)
                some = splat(length, self.lanes).gt(splat(const(0, Type(INT32)), self.lanes))
                value = select(some, value, const(0, value.type))
            self.b.store(outside, place, value, count)

    def _units(self) -> Iterator[tuple[Expr, Expr, Expr | None]]:
        """(where in the chunk's state, where in [directions, batch, hidden], how many) of all blocks, in a loop."""
        hidden, b = self.problem.hidden, self.b
        with b.loop(0, self.size, 1, "r") as r:
            for unit in range(0, self.width, self.lanes):
                count = None if unit + self.lanes <= hidden else const(hidden - unit)
                yield r * self.width + unit, (self.row0 + r) * hidden + unit, count


@contextmanager
def each_chunk(b: Builder, problem: Problem, lanes: int, choice: Choice, of_input: Buffer, lengths: Buffer | None,
               slots: int) -> Iterator[Frame]:
    """The chunks of a recurrence with `slots` sums for each hidden unit."""
    steps, batch, most = b.dim(problem.steps), b.dim(problem.batch), choice.sequences
    sums = b.scratch("sums", problem.dtype, most * slots * problem.blocks(lanes) * lanes)
    row_blocks = (batch + (most - 1)) // most
    with b.chunks(row_blocks * problem.directions) as chunk:
        side, part = b.let(chunk % problem.directions, "side"), b.let(chunk // problem.directions, "part")
        parts = b.let(row_blocks, "parts")
        first = b.let(part * batch // parts, "first")
        size = b.let((part + 1) * batch // parts - first, "size")
        row0 = b.let(side * batch + first, "row0")
        yield Frame(b, problem, lanes, choice, lengths, of_input, sums, slots, side, first, size, row0, steps, batch)
