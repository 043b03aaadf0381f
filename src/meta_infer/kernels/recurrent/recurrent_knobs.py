"""What can be chosen inside a recurrence, and the variant of RNN, LSTM and GRU with a choice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import PLAIN, Group, Variant
from meta_infer.ir.shapes import usual_upper
from meta_infer.kernels.kernel import Kernel, Knob, KnobValue, Lowering, Reason, Refusal
from meta_infer.kernels.matmul.gemm_tile import Tile, fits_registers
from meta_infer.kernels.recurrent.recurrent_problem import Problem

SEQUENCES = (1, 2, 6, 12, 24)
ROWS = (1, 2, 3, 4, 6)
UNROLL = (1, 2, 4, 8)
ABREAST = (1, 2, 4)
AHEAD = (0, 16)
# Operations that take as long at the peak: the recurrent weights stream from cache at about half of what is multiplied.
_SHARE = 0.65

ReadProblem = Callable[[Group], Problem | None]
Recurrence = Callable[[Group, Problem, "Choice", Profile], Lowering]


@dataclass(frozen=True)
class Choice:
    """Values of the knobs.

    sequences  of a chunk, which share the weights that stream from cache.
    rows       sequences of a register tile.
    unroll     steps of the product in a turn of the innermost loop.
    abreast    vectors of hidden units that go through the functions together.
    ahead      steps of the product by which weights are fetched ahead, 0: by the processor alone.
    """

    sequences: int
    rows: int
    unroll: int
    abreast: int
    ahead: int

    def values(self) -> dict[str, KnobValue]:
        """The choice as knob values."""
        return {"sequences": self.sequences, "rows": self.rows, "unroll": self.unroll, "abreast": self.abreast,
                "ahead": self.ahead}


def read_choice(knobs: Mapping[str, KnobValue]) -> Choice:
    """The choice that these knob values stand for."""
    return Choice(*(int(knobs[name]) for name in ("sequences", "rows", "unroll", "abreast", "ahead")))


def _tile(problem: Problem, rows: int, profile: Profile) -> Tile:
    """The widest tile that a step may take: all gates at once."""
    return Tile(problem.dtype, profile.lanes(problem.dtype), problem.gates, rows)


def _default(problem: Problem, profile: Profile) -> Choice:
    """As many rows as registers hold, of a few sequences; as many units abreast as fill a hidden size."""
    batch, lanes = usual_upper(problem.batch), profile.lanes(problem.dtype)
    rows = max(rows for rows in ROWS if rows == 1 or rows <= batch and fits_registers(_tile(problem, rows, profile),
                                                                                      profile))
    sequences = next((count for count in SEQUENCES if rows <= count and (batch <= count or count >= 6)), SEQUENCES[-1])
    abreast = max(a for a in ABREAST if a == 1 or lanes > 1 and a * lanes <= problem.hidden)
    return Choice(sequences, rows, 4, abreast, 0)


def _refuse(choice: Choice, problem: Problem, profile: Profile) -> Refusal | None:
    """Why these values cannot be, if so."""
    lanes, batch = profile.lanes(problem.dtype), problem.batch

    def because(reason: Reason, detail: str) -> Refusal:
        return Refusal(choice.values(), reason, detail)

    if choice.rows > 1 and not fits_registers(_tile(problem, choice.rows, profile), profile):
        return because("registers", f"{choice.rows} rows of {problem.gates} vectors")
    if choice.rows > choice.sequences:
        return because("shape", f"{choice.sequences} sequences are no tile of {choice.rows}")
    smaller = max((count for count in SEQUENCES if count < choice.sequences), default=0)
    if isinstance(batch, int) and 0 < batch and (batch <= smaller or choice.rows > batch):
        return because("shape", f"there are {batch} sequences")
    if choice.abreast > 1 and (lanes == 1 or choice.abreast * lanes > problem.hidden):
        return because("shape", f"{problem.hidden} units are less than {choice.abreast} vectors")
    return None


def _chosen(variant: Variant, choice: Choice, problem: Problem, profile: Profile) -> Variant:
    """`variant` with this choice. Of the chunk's memory there are two states and two more, and the sums."""
    lanes = profile.lanes(problem.dtype)
    elements = choice.sequences * problem.blocks(lanes) * lanes * (4 + problem.gates)
    return replace(variant, knobs=choice.values(), scratch_bytes=elements * problem.dtype.bytes)


def recurrent_kernel(name: str, op: str, problem_of: ReadProblem, lower: Recurrence) -> Kernel:
    """The kernel of one op: one variant; constant weights are packed at build, others by a launch of their own."""

    def variants(group: Group, profile: Profile) -> Iterable[Variant]:
        problem = problem_of(group)
        if problem is None:
            return
        weights = problem.directions * problem.gates * problem.hidden * (problem.features + problem.hidden)
        packed = sum(group.constants[n].nbytes for n in (problem.w, problem.r) if n in group.constants)
        flops = weights * problem.steps * problem.batch * 2
        plain = Variant(name, "panels", {n: PLAIN for n in group.inputs if n not in group.constants},
                        {n: PLAIN for n in group.outputs}, packed_bytes=packed, flops=flops,
                        cost=usual_upper(flops) / _SHARE)
        yield _chosen(plain, _default(problem, profile), problem, profile)

    def knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
        return (Knob("sequences", SEQUENCES), Knob("rows", ROWS), Knob("unroll", UNROLL), Knob("abreast", ABREAST),
                Knob("ahead", AHEAD))

    def tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
        problem = problem_of(group)
        assert problem is not None, "no variant was offered for this group"
        choice = read_choice({**variant.knobs, **values})
        return _refuse(choice, problem, profile) or _chosen(variant, choice, problem, profile)

    def lowered(group: Group, variant: Variant, layouts: object, profile: Profile) -> Lowering:
        problem = problem_of(group)
        assert problem is not None, "no variant was offered for this group"
        return lower(group, problem, read_choice(variant.knobs), profile)

    return Kernel(name, (op,), variants, lowered, knobs, tune)
