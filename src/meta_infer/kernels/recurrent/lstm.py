"""LSTM in two launches: the input's part of all steps as one matrix product, then the recurrence.

    gates[t]  = x[t] W + Wb + Rb                                for all steps at once
    i, f      = sigmoid(gates[t] + h R + P c)     g = tanh(...)
    c'        = f * c + i * g
    o         = sigmoid(... + P c')               h' = o * tanh(c')
"""

from __future__ import annotations

from dataclasses import dataclass

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group
from meta_infer.ir.loop import Buffer, Expr, const
from meta_infer.kernels.kernel import KernelCall, Lowering
from meta_infer.kernels.recurrent.recurrent import Frame, Moment, Units, each_chunk
from meta_infer.kernels.recurrent.recurrent_knobs import Choice, recurrent_kernel
from meta_infer.kernels.recurrent.recurrent_problem import Problem, problem_of
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


def _lower(group: Group, problem: Problem, choice: Choice, profile: Profile) -> Lowering:
    lanes = profile.lanes(problem.dtype)
    bias, of_bias = bias_by_units(group, problem, lanes, _ALL, _ALL, "bias")
    recurrent, of_recurrent = recurrent_panels(group, problem, lanes, 0, GATES, "recurrent")
    call = _recurrence(problem, lanes, choice, recurrent, bool(group.anchor.attrs.get("input_forget", False)))
    return joined(of_bias, input_product(group, problem, lanes, bias, profile), of_recurrent, Lowering((call,)))


@dataclass(frozen=True)
class _Buffers:
    """What the functions read and write; `h` and `c` are the chunk's states."""

    peepholes: Buffer | None
    y: Buffer | None
    h: Buffer
    c: Buffer
    coupled: bool                                        # input_forget


def _recurrence(problem: Problem, lanes: int, choice: Choice, recurrent: str, coupled: bool) -> KernelCall:
    """One function for all directions."""
    b, dtype = Builder("lstm"), problem.dtype
    state = choice.sequences * problem.blocks(lanes) * lanes
    gates, panels = b.input("gates", dtype), b.input("recurrent", dtype)
    lengths = b.input("lengths", INT32) if problem.lengths else None
    h0, c0, peepholes = (b.input(stem, dtype) if name else None for stem, name in
                         (("h0", problem.h0), ("c0", problem.c0), ("peepholes", problem.peepholes)))
    y, y_h, y_c = (b.output(stem, dtype) if name else None for stem, name in
                   (("y", problem.y), ("y_h", problem.y_h), ("y_c", problem.y_c)))
    buffers = _Buffers(peepholes, y, b.scratch("h", dtype, 2 * state), b.scratch("c", dtype, state), coupled)
    with each_chunk(b, problem, lanes, choice, gates, lengths, GATES) as frame:
        frame.begin_state(h0, buffers.h)
        frame.begin_state(c0, buffers.c)
        with frame.each_step() as now:
            frame.sum_up(now, panels, GATES, buffers.h, lambda row: now.old + row.at,
                         lambda row, block: [frame.gate(row, g) for g in _ALL])
            frame.each_units(now, lambda units: _update(frame, buffers, now, units))
        frame.end_state(y_h, buffers.h, frame.last)
        frame.end_state(y_c, buffers.c, const(0))
    func, dims = b.finish()
    args = (GATES_OF_X, recurrent, problem.lengths, problem.h0, problem.c0, problem.peepholes, problem.y, problem.y_h,
            problem.y_c)
    return KernelCall(func, tuple(name for name in args if name), dims)


def _update(frame: Frame, buffers: _Buffers, now: Moment, units: Units) -> None:
    """New states of some hidden units."""
    b, at, hidden = frame.b, units.at, frame.problem.hidden

    def gate(slot: int, peephole: int | None = None, cell: Expr | None = None) -> Expr:
        """A gate's sum; some also look at the cell."""
        total = frame.total(units, slot)
        if buffers.peepholes is None or peephole is None or cell is None:
            return total
        weights = b.load(buffers.peepholes, (frame.side * 3 + peephole) * hidden + units.unit, units.lanes, units.count)
        return total + weights * cell

    c = b.let(b.load(buffers.c, at, units.lanes), "c")
    i = b.let(frame.apply(0, gate(0, 0, c)), "i")
    f = const(1, i.type) - i if buffers.coupled else frame.apply(0, gate(2, 2, c))
    kept = b.let(f * c, "kept")
    cell = b.let(kept + i * frame.apply(1, gate(3)), "cell")
    value = b.let(frame.apply(0, gate(1, 1, cell)) * frame.apply(2, cell, clip=False), "hidden")
    b.store(buffers.c, at, frame.lasting(units, cell, buffers.c, at))
    b.store(buffers.h, now.new + at, frame.lasting(units, value, buffers.h, now.old + at))
    frame.put(buffers.y, units, value)


LSTM = recurrent_kernel("lstm", "LSTM", _problem, _lower)
