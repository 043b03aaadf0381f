"""GRU in two launches: the input's part of all steps as one matrix product, then the recurrence.

    gates[t] = x[t] W + Wb + Rb                                 for all steps at once (Rbh apart, see below)
    z, r     = sigmoid(gates[t] + h R)
    n        = tanh(gates[t] + (r * h) R)                       two passes over the hidden units: r of all comes first
    n        = tanh(gates[t] + r * (h R + Rbh))                 linear_before_reset: one pass
    h        = (1 - z) * n + z * h
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from meta_infer.ops.gru import DEFAULT_ACTIVATIONS, GATES
from meta_infer.support.dtypes import INT32

_ALL = range(GATES)


def _problem(group: Group) -> Problem | None:
    return problem_of(group, GATES, DEFAULT_ACTIVATIONS)


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    return recurrent_variants(group, "gru", _problem(group))


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    problem = _problem(group)
    assert problem is not None, "no variant was offered for this group"
    lanes, before = profile.lanes(problem.dtype), bool(group.anchor.attrs.get("linear_before_reset", False))
    bias, of_bias = bias_by_units(group, problem, lanes, _ALL, (0, 1, -1) if before else _ALL, "bias")
    if before:
        first, of_first = recurrent_panels(group, problem, lanes, 0, GATES, "recurrent")
        second, of_second = bias_by_units(group, problem, lanes, (-1,), (2,), "recurrent_bias")
    else:
        first, of_first = recurrent_panels(group, problem, lanes, 0, 2, "recurrent")
        second, of_second = recurrent_panels(group, problem, lanes, 2, 1, "recurrent_new")
    return joined(of_bias, input_product(group, problem, lanes, bias, profile), of_first, of_second,
                  Lowering((_recurrence(problem, lanes, before, first, second),)))


@dataclass(frozen=True)
class _Cell:
    """The buffers of one chunk, and its loops. `first` and `second` are the panels of both passes, or, in one pass,
    those of all gates and the recurrent bias of n."""

    frame: Frame
    gates: Buffer
    first: Buffer
    second: Buffer
    y: Buffer | None
    h: Buffer
    z: Buffer
    reset_h: Buffer

    def products(self, panels: Buffer, vectors: int, left: Buffer, left_rows: Sequence[Expr], block: Expr,
                 start: Sequence[Sequence[Expr]]) -> list[list[Expr]]:
        """`start` plus rows of `left` times the panel of `block`."""
        frame, hidden = self.frame, self.frame.problem.hidden
        tile = frame.tile(vectors)
        panel_at = frame.b.let((frame.side * frame.blocks + block) * (hidden * tile.columns), "panel_at")
        return multiply(frame.b, tile, len(left_rows), left, left_rows, 1, panels, panel_at, tile.columns,
                        const(hidden), start)

    def finish(self, z: Expr, n: Expr, now: Moment, row: Row, unit: Expr) -> None:
        """Store the new state of one sequence's units."""
        frame, b, old_at = self.frame, self.frame.b, now.old + row.at + unit
        value = b.let((const(1, z.type) - z) * n + z * b.load(self.h, old_at, frame.lanes), "hidden")
        b.store(self.h, now.new + row.at + unit, frame.lasting(row, value, self.h, old_at))
        frame.put(self.y, row, unit, value)

    def one_pass(self, now: Moment, rows: list[Row], block: Expr) -> None:
        """linear_before_reset: all gates of `lanes` units from the old state."""
        frame, b, lanes = self.frame, self.frame.b, self.frame.lanes
        inner = b.let(b.load(self.second, (frame.side * frame.blocks + block) * lanes, lanes), "inner")
        start = [[frame.gates(self.gates, row, 0), frame.gates(self.gates, row, 1), inner] for row in rows]
        sums = self.products(self.first, GATES, self.h, [now.old + row.at for row in rows], block, start)
        unit = b.let(block * lanes, "unit")
        for row, (of_z, of_r, of_n) in zip(rows, sums, strict=True):
            n = b.let(frame.apply(1, frame.gates(self.gates, row, 2) + frame.apply(0, of_r) * of_n), "n")
            self.finish(b.let(frame.apply(0, of_z), "z"), n, now, row, unit)

    def reset(self, now: Moment, rows: list[Row], block: Expr) -> None:
        """First of two passes: z, and the old state times r, of `lanes` units."""
        frame, b, lanes = self.frame, self.frame.b, self.frame.lanes
        start = [[frame.gates(self.gates, row, 0), frame.gates(self.gates, row, 1)] for row in rows]
        unit, before = b.let(block * lanes, "unit"), [now.old + row.at for row in rows]
        for row, old, (of_z, of_r) in zip(rows, before, self.products(self.first, 2, self.h, before, block, start),
                                          strict=True):
            at = b.let(row.at + unit, "at")
            b.store(self.z, at, frame.apply(0, of_z))
            b.store(self.reset_h, at, frame.apply(0, of_r) * b.load(self.h, old + unit, lanes))

    def update(self, now: Moment, rows: list[Row], block: Expr) -> None:
        """Second of two passes: the new state of `lanes` units, once r of all units is known."""
        frame, b, lanes = self.frame, self.frame.b, self.frame.lanes
        start = [[frame.gates(self.gates, row, 2)] for row in rows]
        unit = b.let(block * lanes, "unit")
        sums = self.products(self.second, 1, self.reset_h, [row.at for row in rows], block, start)
        for row, (of_n,) in zip(rows, sums, strict=True):
            z = b.let(b.load(self.z, row.at + unit, lanes), "z")
            self.finish(z, b.let(frame.apply(1, of_n), "n"), now, row, unit)


def _recurrence(problem: Problem, lanes: int, before: bool, first: str, second: str) -> KernelCall:
    """One function for all directions."""
    b, dtype = Builder("gru"), problem.dtype
    width = problem.blocks(lanes) * lanes
    gates, panels, more = b.input("gates", dtype), b.input("recurrent", dtype), b.input(second.split(":")[1], dtype)
    lengths = b.input("lengths", INT32) if problem.lengths else None
    h0 = b.input("h0", dtype) if problem.h0 else None
    y, y_h = (b.output(stem, dtype) if name else None for stem, name in (("y", problem.y), ("y_h", problem.y_h)))
    kept = 1 if before else SEQUENCES * width
    h, z, reset_h = (b.scratch(*named) for named in (("h", dtype, 2 * SEQUENCES * width), ("z", dtype, kept),
                                                     ("reset_h", dtype, kept)))
    with each_chunk(b, problem, lanes, lengths) as frame:
        cell = _Cell(frame, gates, panels, more, y, h, z, reset_h)
        frame.begin_state(h0, h)
        with frame.each_step() as now:
            for part in (cell.one_pass,) if before else (cell.reset, cell.update):
                frame.each_tile(now, lambda rows, block, part=part: part(now, rows, block))  # type: ignore[misc]
        frame.end_state(y_h, h, b.let(frame.steps % 2 * (SEQUENCES * width), "last"))
    func, dims = b.finish()
    args = (GATES_OF_X, first, second, problem.lengths, problem.h0, problem.y, problem.y_h)
    return KernelCall(func, tuple(name for name in args if name), dims)


GRU = Kernel("gru", ("GRU",), _variants, _lower)
