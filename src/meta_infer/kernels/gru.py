"""GRU in two launches: the input's part of all steps as one matrix product, then the recurrence.

    gates[t] = x[t] W + Wb + Rb                                 for all steps at once (Rbh apart, see below)
    z, r     = sigmoid(gates[t] + h R)
    n        = tanh(gates[t] + (r * h) R)                       two passes over the hidden units: r of all comes first
    n        = tanh(gates[t] + r * (h R + Rbh))                 linear_before_reset: one pass
    h        = (1 - z) * n + z * h

A chunk of the recurrence is one direction of up to `SEQUENCES` sequences; the weights of a direction stream from cache
once per step for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, const, minimum
from meta_infer.ir.shapes import Dim, product
from meta_infer.kernels.gemm_tile import Tile, by_rows, each_tile, multiply
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering, Temp
from meta_infer.kernels.recurrent import (
    ACTIVATIONS,
    GATES_OF_X,
    SEQUENCES,
    begin_state,
    by_units,
    end_state,
    input_bias,
    input_product,
    pack_recurrent,
)
from meta_infer.support.dtypes import FLOAT32, FLOAT64, DType

GATES = 3
ROWS = 2
_FIRST, _NEW, _NEW_BIAS = "packed:recurrent", "packed:recurrent_new", "packed:recurrent_bias"


@dataclass(frozen=True)
class Problem:
    """Sizes and the names of the group's values, '' where absent. `reverse` is the first direction's."""

    steps: Dim
    batch: Dim
    hidden: int
    directions: int
    reverse: bool
    before: bool                                    # linear_before_reset
    activations: tuple[str, str]
    h0: str
    y: str
    y_h: str
    dtype: DType


def _problem(group: Group) -> Problem | None:
    """None when something is asked for that these loops do not do."""
    anchor = group.anchor
    names = [*anchor.inputs, *("",) * (6 - len(anchor.inputs))]
    outputs = [*anchor.outputs, ""]
    if names[4] or group.epilogue or any(n not in group.constants for n in names[1:4] if n):
        return None
    if anchor.attrs.get("layout", 0) or anchor.attrs.get("clip"):
        return None
    x, (directions, _, hidden) = group.values[names[0]], group.constants[names[2]].shape
    given = tuple(anchor.attrs.get("activations") or ("Sigmoid", "Tanh") * directions)   # type: ignore[arg-type]
    if given[:2] * directions != given or any(name not in ACTIVATIONS for name in given):
        return None
    if x.dtype not in (FLOAT32, FLOAT64):
        return None
    y, y_h = (name if name in group.outputs else "" for name in outputs[:2])
    return Problem(x.shape[0], x.shape[1], hidden, directions, anchor.attrs.get("direction", "forward") == "reverse",
                   bool(anchor.attrs.get("linear_before_reset", 0)), given[:2],           # type: ignore[arg-type]
                   names[5], y, y_h, x.dtype)


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    problem = _problem(group)
    if problem is None:
        return
    weights = sum(group.constants[name].size for name in group.anchor.inputs[1:3])
    yield Variant("gru", "panels", {n: PLAIN for n in group.inputs if n not in group.constants},
                  {n: PLAIN for n in group.outputs}, packed_bytes=weights * problem.dtype.bytes,
                  flops=weights * problem.steps * problem.batch * 2)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    problem = _problem(group)
    assert problem is not None, "no variant was offered for this group"
    lanes, hidden = profile.lanes(problem.dtype), problem.hidden
    names = [*group.anchor.inputs, *("",) * 2]
    bias, recurrent = input_bias(group, names[3], GATES), group.constants[names[2]]
    packed = {}
    if problem.before:
        packed[_FIRST] = pack_recurrent(recurrent, GATES, Tile(problem.dtype, lanes, GATES))
        new_bias = bias[:, 2 * hidden:] * 0
        if names[3]:
            new_bias = group.constants[names[3]][:, 5 * hidden:]
            bias[:, 2 * hidden:] = group.constants[names[3]][:, 2 * hidden:3 * hidden]
        packed[_NEW_BIAS] = by_units(new_bias[:, :, None], 1, lanes).reshape(-1)
    else:
        packed[_FIRST] = pack_recurrent(recurrent[:, :2 * hidden], 2, Tile(problem.dtype, lanes, 2))
        packed[_NEW] = pack_recurrent(recurrent[:, 2 * hidden:], 1, Tile(problem.dtype, lanes, 1))
    projection = input_product(group, names[1], bias, GATES, lanes, profile)
    width = problem.directions * -(-hidden // lanes) * lanes * GATES
    gates = Temp(GATES_OF_X, problem.dtype, (product((problem.steps, problem.batch)), width))
    return Lowering((*projection.calls, _recurrence(problem, lanes, list(packed))), {**projection.packed, **packed},
                    (gates,))


@dataclass(frozen=True)
class _Recurrence:
    """Buffers and places of one function. `h` holds two states in turn, [2][rows][width]; the others one each."""

    b: Builder
    problem: Problem
    lanes: int
    buffers: Mapping[str, Buffer]
    y: Buffer | None
    h: Buffer
    z: Buffer
    reset_h: Buffer

    @property
    def blocks(self) -> int:
        return -(-self.problem.hidden // self.lanes)

    @property
    def width(self) -> int:
        return self.blocks * self.lanes

    def tile(self, vectors: int) -> Tile:
        return Tile(self.problem.dtype, self.lanes, vectors, ROWS)

    def given(self, line: Expr, gate: int, r: int) -> Expr:
        """The input's part of one gate, for sequence r of the tile whose first one is at `line`."""
        at = (line + r * self.problem.directions * self.blocks) * (GATES * self.lanes) + gate * self.lanes
        return self.b.load(self.buffers[GATES_OF_X], at, self.lanes)

    def products(self, name: str, vectors: int, rows: int, left: Buffer, left_rows: Sequence[Expr], side: Expr,
                 block: Expr, start: Sequence[Sequence[Expr]]) -> list[list[Expr]]:
        """`start` plus rows of `left` times the panel of `block`."""
        tile, b = self.tile(vectors), self.b
        hidden = self.problem.hidden
        panel_at = b.let((side * self.blocks + block) * (hidden * tile.columns), "panel_at")
        return multiply(b, tile, rows, left, left_rows, 1, self.buffers[name], panel_at, tile.columns, const(hidden),
                        start)

    def finish(self, z: Expr, n: Expr, old: Expr, new: Expr, unit: Expr, place: Expr) -> None:
        """Store the new state of one sequence's units. `old` and `new` are its rows in `h`."""
        b, hidden = self.b, self.problem.hidden
        value = b.let((const(1, z.type) - z) * n + z * b.load(self.h, old + unit, self.lanes), "hidden")
        b.store(self.h, new + unit, value)
        if self.y is not None:
            count = b.let(minimum(const(hidden) - unit, self.lanes), "count") if hidden % self.lanes else None
            b.store(self.y, place * hidden + unit, value, count)


def _recurrence(problem: Problem, lanes: int, packed: Sequence[str]) -> KernelCall:
    """One function for all directions; see the module's text."""
    b = Builder("gru")
    dtype, width = problem.dtype, -(-problem.hidden // lanes) * lanes
    buffers = {GATES_OF_X: b.input("gates", dtype)} | {name: b.input(name.split(":")[1], dtype) for name in packed}
    h0 = b.input("h0", dtype) if problem.h0 else None
    y = b.output("y", dtype) if problem.y else None
    y_h = b.output("y_h", dtype) if problem.y_h else None
    kept = 1 if problem.before else SEQUENCES * width
    rec = _Recurrence(b, problem, lanes, buffers, y, b.scratch("h", dtype, 2 * SEQUENCES * width),
                      b.scratch("z", dtype, kept), b.scratch("reset_h", dtype, kept))
    steps, batch = b.dim(problem.steps), b.dim(problem.batch)
    row_blocks = (batch + (SEQUENCES - 1)) // SEQUENCES
    with b.chunks(row_blocks * problem.directions) as chunk:
        side, part = b.let(chunk % problem.directions, "side"), b.let(chunk // problem.directions, "part")
        parts = b.let(row_blocks, "parts")
        first = b.let(part * batch // parts, "first")
        size = b.let((part + 1) * batch // parts - first, "size")
        row0 = b.let(side * batch + first, "row0")                       # in [directions, batch]
        begin_state(b, problem.hidden, rec.tile(1), size, row0, h0, rec.h)
        with b.loop(0, steps, 1, "step") as step:
            backward = const(1) if problem.reverse else side
            t = b.let(step + backward * (steps - 1 - step * 2), "t")
            old, new = (b.let(parity % 2 * (SEQUENCES * width), "state") for parity in (step, step + 1))

            def each(body: Callable[[int, Expr, Expr, Expr, Expr], None]) -> None:
                """`body(rows, row, block, line, place)` for all units; bound to this step's t."""
                with b.loop(0, rec.blocks, 1, "block") as block, each_tile(b, rec.tile(1), size) as (row, some):
                    line = b.let((t * batch + first + row) * (problem.directions * rec.blocks) + side * rec.blocks
                                 + block, "line")
                    place = b.let((t * problem.directions + side) * batch + first + row, "place")
                    by_rows(b, rec.tile(1), some, lambda rows: body(rows, row, block, line, place))

            if problem.before:
                each(partial(_one_pass, rec, side, old, new))
            else:
                each(partial(_gates, rec, side, old, new))
                each(partial(_update, rec, side, old, new))
        if y_h is not None:
            last = b.let(steps % 2 * (SEQUENCES * width), "last")
            end_state(b, problem.hidden, rec.tile(1), size, row0, y_h, rec.h, last)
    func, dims = b.finish()
    outside = (*buffers, problem.h0, problem.y, problem.y_h)
    return KernelCall(func, tuple(name for name in outside if name), dims)


def _one_pass(rec: _Recurrence, side: Expr, old: Expr, new: Expr, rows: int, row: Expr, block: Expr, line: Expr,
              place: Expr) -> None:
    """linear_before_reset: all gates of `lanes` units from the old state."""
    b, lanes, width = rec.b, rec.lanes, rec.width
    gate, activate = (ACTIVATIONS[name] for name in rec.problem.activations)
    inner = b.let(b.load(rec.buffers[_NEW_BIAS], (side * rec.blocks + block) * lanes, lanes), "inner")
    start = [[rec.given(line, 0, r), rec.given(line, 1, r), inner] for r in range(rows)]
    before = [old + (row + r) * width for r in range(rows)]
    sums = rec.products(_FIRST, GATES, rows, rec.h, before, side, block, start)
    unit = b.let(block * lanes, "unit")
    for r, (of_z, of_r, of_n) in enumerate(sums):
        n = b.let(activate(rec.given(line, 2, r) + gate(of_r) * of_n), "n")
        rec.finish(b.let(gate(of_z), "z"), n, before[r], new + (row + r) * width, unit, place + r)


def _gates(rec: _Recurrence, side: Expr, old: Expr, new: Expr, rows: int, row: Expr, block: Expr, line: Expr,
           place: Expr) -> None:
    """z, and the old state times r, of `lanes` units."""
    b, lanes, width = rec.b, rec.lanes, rec.width
    gate, _ = (ACTIVATIONS[name] for name in rec.problem.activations)
    start = [[rec.given(line, 0, r), rec.given(line, 1, r)] for r in range(rows)]
    before = [old + (row + r) * width for r in range(rows)]
    unit = b.let(block * lanes, "unit")
    for r, (of_z, of_r) in enumerate(rec.products(_FIRST, 2, rows, rec.h, before, side, block, start)):
        at = b.let((row + r) * width + unit, "at")
        b.store(rec.z, at, gate(of_z))
        b.store(rec.reset_h, at, gate(of_r) * b.load(rec.h, before[r] + unit, lanes))


def _update(rec: _Recurrence, side: Expr, old: Expr, new: Expr, rows: int, row: Expr, block: Expr, line: Expr,
            place: Expr) -> None:
    """The new state of `lanes` units, once r of all units is known."""
    b, lanes, width = rec.b, rec.lanes, rec.width
    _, activate = (ACTIVATIONS[name] for name in rec.problem.activations)
    start = [[rec.given(line, 2, r)] for r in range(rows)]
    left = [(row + r) * width for r in range(rows)]
    unit = b.let(block * lanes, "unit")
    for r, (of_n,) in enumerate(rec.products(_NEW, 1, rows, rec.reset_h, left, side, block, start)):
        z = b.let(b.load(rec.z, left[r] + unit, lanes), "z")
        rec.finish(z, b.let(activate(of_n), "n"), old + left[r], new + left[r], unit, place + r)


GRU = Kernel("gru", ("GRU",), _variants, _lower)
