"""LSTM in two launches: the input's part of all steps as one matrix product, then the recurrence.

    gates[t]  = x[t] W + Wb + Rb                                for all steps at once
    i, f      = sigmoid(gates[t] + h R + P c)     g = tanh(...)
    c'        = f * c + i * g
    o         = sigmoid(... + P c')               h' = o * tanh(c')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, const
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.matmul.gemm_tile import multiply
from meta_infer.kernels.recurrent.recurrent import (
    SEQUENCES,
    Frame,
    Moment,
    Problem,
    Row,
    each_chunk,
    problem_of,
    recurrent_variants,
)
from meta_infer.kernels.recurrent.recurrent_weights import (
    GATES_OF_X,
    bias_by_units,
    input_product,
    joined,
    recurrent_panels,
)
from meta_infer.ops.lstm import DEFAULT_ACTIVATIONS, GATES
from meta_infer.support.dtypes import INT32

_ALL = range(GATES)


def _problem(group: Group) -> Problem | None:
    return problem_of(group, GATES, DEFAULT_ACTIVATIONS)


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    return recurrent_variants(group, "lstm", _problem(group))


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    problem = _problem(group)
    assert problem is not None, "no variant was offered for this group"
    lanes = profile.lanes(problem.dtype)
    bias, of_bias = bias_by_units(group, problem, lanes, _ALL, _ALL, "bias")
    recurrent, of_recurrent = recurrent_panels(group, problem, lanes, 0, GATES, "recurrent")
    call = _recurrence(problem, lanes, recurrent, bool(group.anchor.attrs.get("input_forget", False)))
    return joined(of_bias, input_product(group, problem, lanes, bias, profile), of_recurrent, Lowering((call,)))


@dataclass(frozen=True)
class _Buffers:
    """What the recurrence reads and writes; `h` and `c` are the chunk's states."""

    gates: Buffer
    recurrent: Buffer
    peepholes: Buffer | None
    y: Buffer | None
    h: Buffer
    c: Buffer
    coupled: bool                                        # input_forget


def _recurrence(problem: Problem, lanes: int, recurrent: str, coupled: bool) -> KernelCall:
    """One function for all directions."""
    b, dtype = Builder("lstm"), problem.dtype
    width = problem.blocks(lanes) * lanes
    gates, panels = b.input("gates", dtype), b.input("recurrent", dtype)
    lengths = b.input("lengths", INT32) if problem.lengths else None
    h0, c0, peepholes = (b.input(stem, dtype) if name else None for stem, name in
                         (("h0", problem.h0), ("c0", problem.c0), ("peepholes", problem.peepholes)))
    y, y_h, y_c = (b.output(stem, dtype) if name else None for stem, name in
                   (("y", problem.y), ("y_h", problem.y_h), ("y_c", problem.y_c)))
    buffers = _Buffers(gates, panels, peepholes, y, b.scratch("h", dtype, 2 * SEQUENCES * width),
                       b.scratch("c", dtype, SEQUENCES * width), coupled)
    with each_chunk(b, problem, lanes, lengths) as frame:
        frame.begin_state(h0, buffers.h)
        frame.begin_state(c0, buffers.c)
        with frame.each_step() as now:
            frame.each_tile(now, lambda rows, block: _step(frame, buffers, now, rows, block))
        last = b.let(frame.steps % 2 * (SEQUENCES * width), "last")
        frame.end_state(y_h, buffers.h, last)
        frame.end_state(y_c, buffers.c, const(0))
    func, dims = b.finish()
    args = (GATES_OF_X, recurrent, problem.lengths, problem.h0, problem.c0, problem.peepholes, problem.y, problem.y_h,
            problem.y_c)
    return KernelCall(func, tuple(name for name in args if name), dims)


def _step(frame: Frame, buffers: _Buffers, now: Moment, rows: list[Row], block: Expr) -> None:
    """New states of `lanes` hidden units for the sequences of a tile."""
    b, lanes, tile, hidden = frame.b, frame.lanes, frame.tile(GATES), frame.problem.hidden
    start = [[frame.gates(buffers.gates, row, g) for g in _ALL] for row in rows]
    panel_at = b.let((frame.side * frame.blocks + block) * (hidden * tile.columns), "panel_at")
    before = [now.old + row.at for row in rows]
    gates = multiply(b, tile, len(rows), buffers.h, before, 1, buffers.recurrent, panel_at, tile.columns, const(hidden),
                     start)
    unit = b.let(block * lanes, "unit")

    def peeped(gate: Expr, which: int, c: Expr) -> Expr:
        """A gate that also looks at the cell."""
        if buffers.peepholes is None:
            return gate
        weights = b.load(buffers.peepholes, (frame.side * 3 + which) * hidden + unit, lanes, frame.count(unit))
        return gate + weights * c

    for row, old, (of_i, of_o, of_f, of_c) in zip(rows, before, gates, strict=True):
        at = b.let(row.at + unit, "at")
        c = b.let(b.load(buffers.c, at, lanes), "c")
        i = b.let(frame.apply(0, peeped(of_i, 0, c)), "i")
        f = const(1, i.type) - i if buffers.coupled else frame.apply(0, peeped(of_f, 2, c))
        kept = b.let(f * c, "kept")
        cell = b.let(kept + i * frame.apply(1, of_c), "cell")
        value = b.let(frame.apply(0, peeped(of_o, 1, cell)) * frame.apply(2, cell, clip=False), "hidden")
        b.store(buffers.c, at, frame.lasting(row, cell, buffers.c, at))
        b.store(buffers.h, now.new + at, frame.lasting(row, value, buffers.h, old + unit))
        frame.put(buffers.y, row, unit, value)


LSTM = Kernel("lstm", ("LSTM",), _variants, _lower)
