"""GRU in two launches: the input's part of all steps as one matrix product, then the recurrence.

    gates[t] = x[t] W + Wb + Rb                                 for all steps at once (Rbh apart, see below)
    z, r     = sigmoid(gates[t] + h R)
    n        = tanh(gates[t] + (r * h) R)                       two passes over the hidden units: r of all comes first
    n        = tanh(gates[t] + r * (h R + Rbh))                 linear_before_reset: one pass
    h        = (1 - z) * n + z * h
"""

from __future__ import annotations

from dataclasses import dataclass

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group
from meta_infer.ir.loop import Buffer, Expr, const
from meta_infer.kernels.kernel import KernelCall, Lowering
from meta_infer.kernels.recurrent.recurrent import Frame, Moment, Row, Units, each_chunk
from meta_infer.kernels.recurrent.recurrent_knobs import Choice, recurrent_kernel
from meta_infer.kernels.recurrent.recurrent_problem import Problem, problem_of
from meta_infer.kernels.recurrent.recurrent_weights import (
    GATES_OF_X,
    bias_by_units,
    input_product,
    joined,
    recurrent_panels,
)
from meta_infer.ops.gru import DEFAULT_ACTIVATIONS, GATES
from meta_infer.support.dtypes import INT32

_ALL = range(GATES)


def _problem(group: Group) -> Problem | None:
    return problem_of(group, GATES, DEFAULT_ACTIVATIONS)


def _lower(group: Group, problem: Problem, choice: Choice, profile: Profile) -> Lowering:
    lanes, before = profile.lanes(problem.dtype), bool(group.anchor.attrs.get("linear_before_reset", False))
    bias, of_bias = bias_by_units(group, problem, lanes, _ALL, (0, 1, -1) if before else _ALL, "bias")
    if before:
        first, of_first = recurrent_panels(group, problem, lanes, 0, GATES, "recurrent")
        second, of_second = bias_by_units(group, problem, lanes, (-1,), (2,), "recurrent_bias")
    else:
        first, of_first = recurrent_panels(group, problem, lanes, 0, 2, "recurrent")
        second, of_second = recurrent_panels(group, problem, lanes, 2, 1, "recurrent_new")
    return joined(of_bias, input_product(group, problem, lanes, bias, profile), of_first, of_second,
                  Lowering((_recurrence(problem, lanes, choice, before, first, second),)))


@dataclass(frozen=True)
class _Cell:
    """The buffers of one chunk, and its loops. `first` and `second` are the panels of both passes, or, in one pass,
    those of all gates and the recurrent bias of n."""

    frame: Frame
    first: Buffer
    second: Buffer
    y: Buffer | None
    h: Buffer
    z: Buffer
    reset_h: Buffer

    def finish(self, z: Expr, n: Expr, now: Moment, units: Units) -> None:
        """Store the new state of some units."""
        frame, b, old_at = self.frame, self.frame.b, now.old + units.at
        value = b.let((const(1, z.type) - z) * n + z * b.load(self.h, old_at, units.lanes), "hidden")
        b.store(self.h, now.new + units.at, frame.lasting(units, value, self.h, old_at))
        frame.put(self.y, units, value)

    def one_pass(self, now: Moment) -> None:
        """linear_before_reset: all gates from the old state. The input's part of n is kept apart from the state's."""
        frame, b, lanes = self.frame, self.frame.b, self.frame.lanes

        def start(row: Row, block: Expr) -> list[Expr]:
            of_state = b.load(self.second, (frame.side * frame.blocks + block) * lanes, lanes)
            return [frame.gate(row, 0), frame.gate(row, 1), of_state, frame.gate(row, 2)]

        def update(units: Units) -> None:
            z, r = (frame.apply(0, frame.total(units, slot)) for slot in (0, 1))
            n = b.let(frame.apply(1, frame.total(units, 3) + r * frame.total(units, 2)), "n")
            self.finish(b.let(z, "z"), n, now, units)

        frame.sum_up(now, self.first, GATES, self.h, lambda row: now.old + row.at, start)
        frame.each_units(now, update)

    def two_passes(self, now: Moment) -> None:
        """z, and the old state times r, of all units; then the new state, which needs all of these."""
        frame, b = self.frame, self.frame.b

        def reset(units: Units) -> None:
            b.store(self.z, units.at, frame.apply(0, frame.total(units, 0)))
            old = b.load(self.h, now.old + units.at, units.lanes)
            b.store(self.reset_h, units.at, frame.apply(0, frame.total(units, 1)) * old)

        def update(units: Units) -> None:
            z = b.let(b.load(self.z, units.at, units.lanes), "z")
            self.finish(z, b.let(frame.apply(1, frame.total(units, 0)), "n"), now, units)

        frame.sum_up(now, self.first, 2, self.h, lambda row: now.old + row.at,
                     lambda row, block: [frame.gate(row, 0), frame.gate(row, 1)])
        frame.each_units(now, reset)
        frame.sum_up(now, self.second, 1, self.reset_h, lambda row: row.at, lambda row, block: [frame.gate(row, 2)])
        frame.each_units(now, update)


def _recurrence(problem: Problem, lanes: int, choice: Choice, before: bool, first: str, second: str) -> KernelCall:
    """One function for all directions."""
    b, dtype = Builder("gru"), problem.dtype
    state = choice.sequences * problem.blocks(lanes) * lanes
    gates, panels, more = b.input("gates", dtype), b.input("recurrent", dtype), b.input(second.split(":")[1], dtype)
    lengths = b.input("lengths", INT32) if problem.lengths else None
    h0 = b.input("h0", dtype) if problem.h0 else None
    y, y_h = (b.output(stem, dtype) if name else None for stem, name in (("y", problem.y), ("y_h", problem.y_h)))
    kept = 1 if before else state
    h, z, reset_h = (b.scratch(*named) for named in (("h", dtype, 2 * state), ("z", dtype, kept),
                                                     ("reset_h", dtype, kept)))
    with each_chunk(b, problem, lanes, choice, gates, lengths, GATES + 1 if before else 2) as frame:
        cell = _Cell(frame, panels, more, y, h, z, reset_h)
        frame.begin_state(h0, h)
        with frame.each_step() as now:
            if before:
                cell.one_pass(now)
            else:
                cell.two_passes(now)
        frame.end_state(y_h, h, frame.last)
    func, dims = b.finish()
    args = (GATES_OF_X, first, second, problem.lengths, problem.h0, problem.y, problem.y_h)
    return KernelCall(func, tuple(name for name in args if name), dims)


GRU = recurrent_kernel("gru", "GRU", _problem, _lower)
