"""What the kernels of RNN, LSTM and GRU share: the problem they read off a node, and the loops of the recurrence.

A chunk of the recurrence is one direction of up to `SEQUENCES` sequences; the weights of a direction stream from cache
once per step for all of them. Hidden units go by blocks of `lanes`; the gates of a block lie together, in ONNX's
order, so that one pass over a panel of the recurrent weights yields everything that its new state needs.

The chunk's states lie in its own memory, [2][sequences][width] for h (two states in turn), width being the hidden size
rounded up to whole blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Variant
from meta_infer.ir.loop import Buffer, Expr, Type, cast, const, maximum, minimum, select, splat
from meta_infer.ir.shapes import Dim
from meta_infer.kernels.matmul.gemm_tile import Tile, by_rows, each_tile
from meta_infer.ops.recurrent import directions_of
from meta_infer.ops.recurrent_activations import Activation, read_activations
from meta_infer.support.dtypes import FLOAT32, FLOAT64, INT32, INT64, DType

# Sequences of a chunk, which share what streams from cache.
SEQUENCES = 6
# Sequences of a register tile: two times four accumulators leave registers for the panel, three do not.
ROWS = 2


@dataclass(frozen=True)
class Problem:
    """Sizes, functions and the names of the group's values, '' where absent. `reverse` is the first direction's."""

    gates: int
    steps: Dim
    batch: Dim
    features: Dim
    hidden: int
    directions: int
    reverse: bool
    functions: tuple[tuple[Activation, ...], ...]         # by direction
    clip: float | None
    x: str
    w: str
    r: str
    bias: str
    lengths: str
    h0: str
    c0: str
    peepholes: str
    y: str
    y_h: str
    y_c: str
    dtype: DType

    def blocks(self, lanes: int) -> int:
        return -(-self.hidden // lanes)


def problem_of(group: Group, gates: int, default: tuple[str, ...]) -> Problem | None:
    """None when something is asked for that these loops do not do. `default` are one direction's activations."""
    anchor = group.anchor
    x_name, w, r, bias, lengths, h0, c0, peepholes = [*anchor.inputs, *("",) * (8 - len(anchor.inputs))]
    y, y_h, y_c = [name if name in group.outputs else "" for name in (*anchor.outputs, "", "")][:3]
    x, hidden = group.values[x_name], anchor.attrs["hidden_size"]
    assert isinstance(hidden, int), "hidden_size"
    if group.epilogue or group.prologue or x.dtype not in (FLOAT32, FLOAT64):
        return None
    directions, clip = directions_of(anchor.attrs), anchor.attrs.get("clip")
    return Problem(gates, x.shape[0], x.shape[1], x.shape[2], hidden, directions,
                   anchor.attrs.get("direction", "forward") == "reverse",
                   read_activations(anchor.attrs, default, directions),
                   float(clip) if isinstance(clip, (int, float)) else None, x_name, w, r, bias, lengths, h0, c0,
                   peepholes, y, y_h, y_c, x.dtype)


def recurrent_variants(group: Group, kernel: str, problem: Problem | None) -> Iterable[Variant]:
    """The one variant; constant weights are packed at build, others by a launch of their own."""
    if problem is None:
        return
    weights = problem.directions * problem.gates * problem.hidden * (problem.features + problem.hidden)
    packed = sum(group.constants[n].nbytes for n in (problem.w, problem.r) if n in group.constants)
    yield Variant(kernel, "panels", {n: PLAIN for n in group.inputs if n not in group.constants},
                  {n: PLAIN for n in group.outputs}, packed_bytes=packed,
                  flops=weights * problem.steps * problem.batch * 2)


@dataclass(frozen=True)
class Moment:
    """One step: `t` is where all sequences are (unless they have lengths), `old` and `new` where h is and will be."""

    step: Expr
    t: Expr
    old: Expr
    new: Expr


@dataclass(frozen=True)
class Row:
    """One sequence of a register tile, in one step.

    `line` counts blocks of gates, `place` rows of Y; `at` is its first element in the chunk's states. `inside` is
    true in all lanes while the sequence lasts, None when it lasts for all steps.
    """

    line: Expr
    place: Expr
    at: Expr
    inside: Expr | None


@dataclass(frozen=True)
class Frame:
    """A chunk: direction `side`, `size` sequences from `first`; `row0` is their first row in [directions, batch]."""

    b: Builder
    problem: Problem
    lanes: int
    lengths: Buffer | None
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

    def tile(self, vectors: int) -> Tile:
        return Tile(self.problem.dtype, self.lanes, vectors, ROWS)

    @contextmanager
    def each_step(self) -> Iterator[Moment]:
        b = self.b
        with b.loop(0, self.steps, 1, "step") as step:
            t = b.let(step + self.backward * (self.steps - 1 - step * 2), "t")
            old, new = (b.let(parity % 2 * (SEQUENCES * self.width), "state") for parity in (step, step + 1))
            yield Moment(step, t, old, new)

    @property
    def backward(self) -> Expr:
        """1 in the reverse direction, else 0."""
        return const(1) if self.problem.reverse else self.side

    def each_tile(self, now: Moment, body: Callable[[list[Row], Expr], None]) -> None:
        """`body(rows, block)` for all blocks of hidden units and all tiles of the chunk's sequences."""
        b = self.b
        with b.loop(0, self.blocks, 1, "block") as block, each_tile(b, self.tile(1), self.size) as (row, some):
            sequence = b.let(self.first + row, "sequence")
            by_rows(b, self.tile(1), some, lambda rows: body(self._rows(now, rows, row, sequence, block), block))

    def _rows(self, now: Moment, rows: int, row: Expr, sequence: Expr, block: Expr) -> list[Row]:
        b, per_line = self.b, self.problem.directions * self.blocks
        at = [b.let((row + r) * self.width, "row_at") for r in range(rows)]

        def line_and_place(t: Expr, r: int) -> tuple[Expr, Expr]:
            line = b.let((t * self.batch + sequence + r) * per_line + self.side * self.blocks + block, "line")
            return line, b.let((t * self.problem.directions + self.side) * self.batch + sequence + r, "place")

        if self.lengths is None:
            line, place = line_and_place(now.t, 0)
            return [Row(line + r * per_line, place + r, at[r], None) for r in range(rows)]
        found = []
        for r in range(rows):
            length = b.let(b.load(self.lengths, sequence + r), "length")
            last = b.let(minimum(self.steps, cast(length, INT64)) - 1, "last")
            mirrored = select(now.step.le(last), last - now.step, now.step)
            t = b.let(now.step + self.backward * (mirrored - now.step), "t")
            inside = splat(cast(now.step, INT32), self.lanes).lt(splat(length, self.lanes))
            found.append(Row(*line_and_place(t, r), at[r], inside))
        return found

    def gates(self, gates: Buffer, row: Row, gate: int) -> Expr:
        """The input's part of one gate."""
        return self.b.load(gates, (row.line * self.problem.gates + gate) * self.lanes, self.lanes)

    def count(self, unit: Expr) -> Expr | None:
        """How many units of the block that begins at `unit` there are; None when always all."""
        if self.problem.hidden % self.lanes == 0:
            return None
        return self.b.let(minimum(const(self.problem.hidden) - unit, self.lanes), "count")

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

    def lasting(self, row: Row, new: Expr, state: Buffer, old_at: Expr) -> Expr:
        """The new state while the sequence lasts, behind its end the old one."""
        if row.inside is None:
            return new
        return self.b.let(select(row.inside, new, self.b.load(state, old_at, self.lanes)), "lasting")

    def put(self, y: Buffer | None, row: Row, unit: Expr, value: Expr) -> None:
        """Write `lanes` units of Y: zeros behind the end of the sequence."""
        if y is None:
            return
        if row.inside is not None:
            value = select(row.inside, value, const(0, value.type))
        self.b.store(y, row.place * self.problem.hidden + unit, value, self.count(unit))

    def begin_state(self, outside: Buffer | None, inside: Buffer) -> None:
        """Copy the chunk's part of an initial state [directions, batch, hidden], zeros where absent, to its memory."""
        for at, place, count in self._units():
            zero = const(0, Type(self.problem.dtype, self.lanes))
            self.b.store(inside, at, zero if outside is None else self.b.load(outside, place, self.lanes, count))

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
def each_chunk(b: Builder, problem: Problem, lanes: int, lengths: Buffer | None) -> Iterator[Frame]:
    """The chunks of a recurrence."""
    steps, batch = b.dim(problem.steps), b.dim(problem.batch)
    row_blocks = (batch + (SEQUENCES - 1)) // SEQUENCES
    with b.chunks(row_blocks * problem.directions) as chunk:
        side, part = b.let(chunk % problem.directions, "side"), b.let(chunk // problem.directions, "part")
        parts = b.let(row_blocks, "parts")
        first = b.let(part * batch // parts, "first")
        size = b.let((part + 1) * batch // parts - first, "size")
        row0 = b.let(side * batch + first, "row0")
        yield Frame(b, problem, lanes, lengths, side, first, size, row0, steps, batch)
