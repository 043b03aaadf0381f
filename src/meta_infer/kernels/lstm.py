"""LSTM in two launches: the input's part of all steps as one matrix product, then the recurrence.

The gates of `lanes` neighbouring hidden units lie together, in ONNX's order i, o, f, c, so that one pass over a panel
of the recurrent weights yields everything that the new state of these units needs:

    gates[t]  = x[t] W + Wb + Rb                                for all steps at once
    i, o, f   = sigmoid(gates[t] + h R)      g = tanh(...)
    c         = f * c + i * g                h = o * tanh(c)

A chunk of the recurrence is one direction of up to `SEQUENCES` sequences; the weights of a direction stream from cache
once per step for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

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
    end_state,
    input_bias,
    input_product,
    pack_recurrent,
)
from meta_infer.support.dtypes import FLOAT32, FLOAT64, DType

GATES = 4
# Sequences of a register tile: two times four accumulators leave registers for the panel, three do not.
ROWS = 2
_RECURRENT = "packed:recurrent"
_DEFAULT = ("Sigmoid", "Tanh", "Tanh")


@dataclass(frozen=True)
class Problem:
    """Sizes and the names of the group's values, '' where absent. `reverse` is the first direction's."""

    steps: Dim
    batch: Dim
    inputs: int
    hidden: int
    directions: int
    reverse: bool
    activations: tuple[str, str, str]
    x: str
    h0: str
    c0: str
    y: str
    y_h: str
    y_c: str
    dtype: DType


def _problem(group: Group) -> Problem | None:
    """None when something is asked for that these loops do not do."""
    anchor = group.anchor
    names = [*anchor.inputs, *("",) * (8 - len(anchor.inputs))]
    outputs = [*anchor.outputs, *("",) * (3 - len(anchor.outputs))]
    weights = [n for n in names[1:4] if n]
    if names[4] or names[7] or group.epilogue or any(n not in group.constants for n in weights):
        return None
    if anchor.attrs.get("layout", 0) or anchor.attrs.get("clip") or anchor.attrs.get("input_forget", 0):
        return None
    x, recurrent = group.values[names[0]], group.constants[names[2]]
    directions, _, hidden = recurrent.shape
    given = tuple(anchor.attrs.get("activations") or _DEFAULT * directions)             # type: ignore[arg-type, operator]
    if given[:3] * directions != given or any(name not in ACTIVATIONS for name in given):
        return None
    if x.dtype not in (FLOAT32, FLOAT64):
        return None
    y, y_h, y_c = (name if name in group.outputs else "" for name in outputs)
    return Problem(x.shape[0], x.shape[1], group.constants[names[1]].shape[2], hidden, directions,
                   anchor.attrs.get("direction", "forward") == "reverse", given[:3],     # type: ignore[arg-type]
                   names[0], names[5], names[6], y, y_h, y_c, x.dtype)


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    problem = _problem(group)
    if problem is None:
        return
    weights = problem.directions * GATES * problem.hidden * (problem.inputs + problem.hidden)
    yield Variant("lstm", "panels", {n: PLAIN for n in group.inputs if n not in group.constants},
                  {n: PLAIN for n in group.outputs}, packed_bytes=weights * problem.dtype.bytes,
                  flops=weights * problem.steps * problem.batch * 2)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    problem = _problem(group)
    assert problem is not None, "no variant was offered for this group"
    tile = Tile(problem.dtype, profile.lanes(problem.dtype), GATES, ROWS)
    names = [*group.anchor.inputs, "", ""]
    projection = input_product(group, names[1], input_bias(group, names[3], GATES), GATES, tile.lanes, profile)
    recurrent = pack_recurrent(group.constants[names[2]], GATES, tile)
    rows = product((problem.steps, problem.batch))
    width = problem.directions * tile.panels(GATES * problem.hidden) * tile.columns
    gates = Temp(GATES_OF_X, problem.dtype, (rows, width))
    call = _recurrence(problem, tile)
    return Lowering((*projection.calls, call), {**projection.packed, _RECURRENT: recurrent}, (gates,))


@dataclass(frozen=True)
class _State:
    """Buffers of the recurrence. `h` holds two states in turn, [2][rows][width]; `c` one, [rows][width]."""

    gates: Buffer
    recurrent: Buffer
    h0: Buffer | None
    c0: Buffer | None
    y: Buffer | None
    y_h: Buffer | None
    y_c: Buffer | None
    h: Buffer
    c: Buffer


def _recurrence(problem: Problem, tile: Tile) -> KernelCall:
    """One function for all directions; see the module's text."""
    b = Builder("lstm")
    blocks = -(-problem.hidden // tile.lanes)
    width = blocks * tile.lanes
    names = [GATES_OF_X, _RECURRENT, problem.h0, problem.c0, problem.y, problem.y_h, problem.y_c]

    def optional(make: Callable[[str, DType], Buffer], stem: str, name: str) -> Buffer | None:
        return make(stem, problem.dtype) if name else None

    state = _State(
        b.input("gates", problem.dtype), b.input("recurrent", problem.dtype),
        optional(b.input, "h0", problem.h0), optional(b.input, "c0", problem.c0),
        optional(b.output, "y", problem.y),
        optional(b.output, "y_h", problem.y_h), optional(b.output, "y_c", problem.y_c),
        b.scratch("h", problem.dtype, 2 * SEQUENCES * width), b.scratch("c", problem.dtype, SEQUENCES * width))
    steps, batch = b.dim(problem.steps), b.dim(problem.batch)
    row_blocks = (batch + (SEQUENCES - 1)) // SEQUENCES
    with b.chunks(row_blocks * problem.directions) as chunk:
        side, part = b.let(chunk % problem.directions, "side"), b.let(chunk // problem.directions, "part")
        parts = b.let(row_blocks, "parts")
        first = b.let(part * batch // parts, "first")
        size = b.let((part + 1) * batch // parts - first, "size")
        row0 = b.let(side * batch + first, "row0")                       # in [directions, batch]
        begin_state(b, problem.hidden, tile, size, row0, state.h0, state.h)
        begin_state(b, problem.hidden, tile, size, row0, state.c0, state.c)
        with b.loop(0, steps, 1, "step") as step:
            backward = const(1) if problem.reverse else side
            t = b.let(step + backward * (steps - 1 - step * 2), "t")
            with b.loop(0, blocks, 1, "block") as block, each_tile(b, tile, size) as (row, some):
                sequence = b.let(first + row, "sequence")
                by_rows(b, tile, some, lambda rows: _step(
                    b, problem, tile, state, rows, row, side, sequence, batch, step, t, block, blocks))
        last = b.let(steps % 2 * (SEQUENCES * width), "last")
        if state.y_h is not None:
            end_state(b, problem.hidden, tile, size, row0, state.y_h, state.h, last)
        if state.y_c is not None:
            end_state(b, problem.hidden, tile, size, row0, state.y_c, state.c, const(0))
    func, dims = b.finish()
    return KernelCall(func, tuple(name for name in names if name), dims)


def _step(b: Builder, problem: Problem, tile: Tile, state: _State, rows: int, row: Expr, side: Expr, first: Expr,
          batch: Expr, step: Expr, t: Expr, block: Expr, blocks: int) -> None:
    """New states of `lanes` hidden units for `rows` sequences: `row`.. of the chunk, `first`.. of the batch."""
    hidden, lanes, width = problem.hidden, tile.lanes, blocks * tile.lanes
    old, new = (b.let(parity % 2 * (SEQUENCES * width), "state") for parity in (step, step + 1))
    line = b.let((t * batch + first) * (problem.directions * blocks) + side * blocks + block, "line")
    start = [[b.load(state.gates, (line + r * problem.directions * blocks) * tile.columns + g * lanes, lanes)
              for g in range(GATES)] for r in range(rows)]
    panel_at = b.let((side * blocks + block) * (hidden * tile.columns), "panel_at")
    before = [old + (row + r) * width for r in range(rows)]
    gates = multiply(b, tile, rows, state.h, before, 1, state.recurrent, panel_at, tile.columns, const(hidden), start)
    f, g, h = (ACTIVATIONS[name] for name in problem.activations)
    unit = b.let(block * lanes, "unit")
    for r, (gate_i, gate_o, gate_f, gate_c) in enumerate(gates):
        at = b.let((row + r) * width + unit, "at")
        kept = b.let(f(gate_f) * b.load(state.c, at, lanes), "kept")
        c = b.let(kept + f(gate_i) * g(gate_c), "cell")
        b.store(state.c, at, c)
        value = b.let(f(gate_o) * h(c), "hidden")
        b.store(state.h, new + at, value)
        if state.y is None:
            continue
        count = None
        if hidden % lanes:
            count = b.let(minimum(const(hidden) - unit, lanes), "count")
        place = (t * problem.directions + side) * batch + first + r
        b.store(state.y, place * hidden + unit, value, count)


LSTM = Kernel("lstm", ("LSTM",), _variants, _lower)
