"""RNN in two launches: the input's part of all steps as one matrix product, then the recurrence.

    gates[t]  = x[t] W + Wb + Rb                                for all steps at once
    h'        = tanh(gates[t] + h R)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout, Variant
from meta_infer.ir.loop import Expr, const
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
from meta_infer.ops.rnn import DEFAULT_ACTIVATIONS, GATES
from meta_infer.support.dtypes import INT32


def _problem(group: Group) -> Problem | None:
    return problem_of(group, GATES, DEFAULT_ACTIVATIONS)


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    return recurrent_variants(group, "rnn", _problem(group))


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    problem = _problem(group)
    assert problem is not None, "no variant was offered for this group"
    lanes = profile.lanes(problem.dtype)
    bias, of_bias = bias_by_units(group, problem, lanes, (0,), (0,), "bias")
    recurrent, of_recurrent = recurrent_panels(group, problem, lanes, 0, GATES, "recurrent")
    return joined(of_bias, input_product(group, problem, lanes, bias, profile), of_recurrent,
                  Lowering((_recurrence(problem, lanes, recurrent),)))


def _recurrence(problem: Problem, lanes: int, recurrent: str) -> KernelCall:
    """One function for all directions."""
    b, dtype = Builder("rnn"), problem.dtype
    width = problem.blocks(lanes) * lanes
    gates, panels = b.input("gates", dtype), b.input("recurrent", dtype)
    lengths = b.input("lengths", INT32) if problem.lengths else None
    h0 = b.input("h0", dtype) if problem.h0 else None
    y, y_h = (b.output(stem, dtype) if name else None for stem, name in (("y", problem.y), ("y_h", problem.y_h)))
    h = b.scratch("h", dtype, 2 * SEQUENCES * width)

    def step(frame: Frame, now: Moment, rows: list[Row], block: Expr) -> None:
        """New states of `lanes` hidden units for the sequences of a tile."""
        tile, hidden = frame.tile(GATES), problem.hidden
        panel_at = b.let((frame.side * frame.blocks + block) * (hidden * tile.columns), "panel_at")
        before = [now.old + row.at for row in rows]
        sums = multiply(b, tile, len(rows), h, before, 1, panels, panel_at, tile.columns, const(hidden),
                        [[frame.gates(gates, row, 0)] for row in rows])
        unit = b.let(block * lanes, "unit")
        for row, old, (total,) in zip(rows, before, sums, strict=True):
            value = b.let(frame.apply(0, total), "hidden")
            b.store(h, now.new + row.at + unit, frame.lasting(row, value, h, old + unit))
            frame.put(y, row, unit, value)

    with each_chunk(b, problem, lanes, lengths) as frame:
        frame.begin_state(h0, h)
        with frame.each_step() as now:
            frame.each_tile(now, lambda rows, block: step(frame, now, rows, block))
        frame.end_state(y_h, h, b.let(frame.steps % 2 * (SEQUENCES * width), "last"))
    func, dims = b.finish()
    args = (GATES_OF_X, recurrent, problem.lengths, problem.h0, problem.y, problem.y_h)
    return KernelCall(func, tuple(name for name in args if name), dims)


RNN = Kernel("rnn", ("RNN",), _variants, _lower)
