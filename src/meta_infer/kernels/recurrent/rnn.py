"""RNN in two launches: the input's part of all steps as one matrix product, then the recurrence.

    gates[t]  = x[t] W + Wb + Rb                                for all steps at once
    h'        = tanh(gates[t] + h R)
"""

from __future__ import annotations

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group
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
from meta_infer.ops.rnn import DEFAULT_ACTIVATIONS, GATES
from meta_infer.support.dtypes import INT32


def _problem(group: Group) -> Problem | None:
    return problem_of(group, GATES, DEFAULT_ACTIVATIONS)


def _lower(group: Group, problem: Problem, choice: Choice, profile: Profile) -> Lowering:
    lanes = profile.lanes(problem.dtype)
    bias, of_bias = bias_by_units(group, problem, lanes, (0,), (0,), "bias")
    recurrent, of_recurrent = recurrent_panels(group, problem, lanes, 0, GATES, "recurrent")
    return joined(of_bias, input_product(group, problem, lanes, bias, profile), of_recurrent,
                  Lowering((_recurrence(problem, lanes, choice, recurrent),)))


def _recurrence(problem: Problem, lanes: int, choice: Choice, recurrent: str) -> KernelCall:
    """One function for all directions."""
    b, dtype = Builder("rnn"), problem.dtype
    gates, panels = b.input("gates", dtype), b.input("recurrent", dtype)
    lengths = b.input("lengths", INT32) if problem.lengths else None
    h0 = b.input("h0", dtype) if problem.h0 else None
    y, y_h = (b.output(stem, dtype) if name else None for stem, name in (("y", problem.y), ("y_h", problem.y_h)))
    h = b.scratch("h", dtype, 2 * choice.sequences * problem.blocks(lanes) * lanes)

    def update(frame: Frame, now: Moment, units: Units) -> None:
        """New states of some hidden units."""
        value = b.let(frame.apply(0, frame.total(units, 0)), "hidden")
        b.store(h, now.new + units.at, frame.lasting(units, value, h, now.old + units.at))
        frame.put(y, units, value)

    with each_chunk(b, problem, lanes, choice, gates, lengths, GATES) as frame:
        frame.begin_state(h0, h)
        with frame.each_step() as now:
            frame.sum_up(now, panels, GATES, h, lambda row: now.old + row.at,
                         lambda row, block: [frame.gate(row, 0)])
            frame.each_units(now, lambda units: update(frame, now, units))
        frame.end_state(y_h, h, frame.last)
    func, dims = b.finish()
    args = (GATES_OF_X, recurrent, problem.lengths, problem.h0, problem.y, problem.y_h)
    return KernelCall(func, tuple(name for name in args if name), dims)


RNN = recurrent_kernel("rnn", "RNN", _problem, _lower)
