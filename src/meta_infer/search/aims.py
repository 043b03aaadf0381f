"""What a build aims at: what is minimised, the latency to reach, and limits on memory and energy.

    latency    seconds of a run
    energy     joules of a run (cost/energy.py)
    memory     bytes of packed weights and of the arena; of plans that take as little, least energy, then least time
    balanced   a sum of the three, each beside that of the plan of the least latency, by the shares of BALANCED
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from meta_infer.cost.energy import Energy
from meta_infer.hardware.profile import Profile
from meta_infer.search.space.solve import ENERGY, LATENCY, MEMORY, NO_LIMITS, Goal, Limits, NothingFits, Solved
from meta_infer.support.errors import ProfileError

BALANCED: Mapping[str, float] = {"seconds": 0.5, "bytes": 0.25, "joules": 0.25}
"""Shares of the objective 'balanced'; where a profile states no power, that of joules goes to the others in kind."""

_SLIGHT = 1e-3
"""The weight of time beside energy where it only decides between equals."""

_SMALL_SLACK = 4.0

Solve = Callable[[Goal, Limits], Solved]


@dataclass(frozen=True)
class Aims:
    """All of a build's aims; figures are of one run.

    `memory_bytes` is the user's limit, or what the chip has where `memory_is_given` is False. `energy` prices plans,
    and is None where the profile states no power.
    """

    objective: str = "latency"
    target_seconds: float | None = None
    memory_bytes: int | None = None
    memory_is_given: bool = False
    joules: float | None = None
    energy: Energy | None = None

    @property
    def weighs_energy(self) -> bool:
        """Whether energies of kernels take part in decisions."""
        return self.energy is not None and (self.objective != "latency" or self.joules is not None
                                            or self.target_seconds is not None)

    def limits(self) -> Limits:
        """Those of the solver; where a model is timed at several sizes, its joules are sums over them."""
        joules = None if self.joules is None or self.energy is None else self.joules * len(self.energy.sizes)
        return Limits(self.memory_bytes, joules)

    def slack(self, usual: float) -> float:
        """Times the least guess that a way may be guessed to take and be kept: small ways are often slow ones."""
        return max(usual, _SMALL_SLACK) if self.memory_is_given or self.objective in ("memory", "balanced") else usual

    def at(self, points: tuple[Mapping[str, int], ...]) -> Aims:
        """The same with energies at these sizes of a model's symbols."""
        return self if self.energy is None else replace(self, energy=replace(self.energy, sizes=points))


NO_AIMS = Aims()


def aims_of(objective: str, chip: Profile, *, target_ms: float | None = None, memory_mib: float | None = None,
            energy_mj: float | None = None, precision: str = "fp32") -> Aims:
    """The aims of a build for a chip. Raises ProfileError where they need figures of power that it does not state."""
    energy = Energy.of(chip, precision)
    if energy is None and (objective == "energy" or energy_mj is not None):
        asked = "--energy-limit-mj" if energy_mj is not None else "--objective energy"
        raise ProfileError(
            f"states no power, which {asked} needs", what=f"profile {chip.name}",
            hint=f"give it power: {{static_w: W, joules_per_mac: {{{precision}: J}}, joules_per_byte: "
                 f"{{{_main_memory(chip)}: J}}}}; `meta-infer hardware probe --output my_machine.yaml` writes this "
                 "machine's profile to add them to, and --hardware my_machine.yaml builds with it")
    given = memory_mib is not None
    memory = int(memory_mib * 2 ** 20) if memory_mib is not None else chip.memory_bytes
    return Aims(objective, None if target_ms is None else target_ms / 1e3, memory, given,
                None if energy_mj is None else energy_mj / 1e3, energy)


def _main_memory(chip: Profile) -> str:
    return next((memory.name for memory in chip.chip.memories if memory.kind == "main"), "ram")


def solve_for(objective: str, solve: Solve, limits: Limits = NO_LIMITS, weighs_energy: bool = False) -> Solved:
    """The best plan for an objective; for 'memory' least memory, then least energy and time of what takes no more.

    The gap is that of the first goal. Raises what `solve(goal, limits)` does.
    """
    if objective == "balanced":
        return solve(balanced(solve(LATENCY, limits), weighs_energy), limits)
    if objective != "memory":
        return solve(ENERGY if objective == "energy" else LATENCY, limits)
    first = solve(MEMORY, limits)
    least = solve(_then(first) if weighs_energy else LATENCY, replace(limits, memory_bytes=first.bytes))
    return replace(least, objective=first.objective, bound=first.bound)


def _then(found: Solved) -> Goal:
    """Least energy, and of plans that take as much the quickest: one goal, for limits that just fit are hard to prove.
    """
    return replace(ENERGY, seconds=_SLIGHT * found.joules / found.seconds if found.seconds else 0.0)


def nearest(objective: str, solve: Solve, limits: Limits, weighs_energy: bool = False) -> Solved:
    """As `solve_for`; where no plan keeps within the limit on energy, or on memory, the one that takes least of it.

    Raises NothingFits where none keeps within the limit on seconds.
    """
    tries = [(objective, limits)]
    if limits.joules is not None:
        tries.append(("energy", replace(limits, joules=None)))
    if limits.memory_bytes is not None:
        tries.append(("memory", Limits(seconds=limits.seconds)))
    for wanted, within in tries[:-1]:
        try:
            return solve_for(wanted, solve, within, weighs_energy)
        except NothingFits:
            continue
    wanted, within = tries[-1]
    return solve_for(wanted, solve, within, weighs_energy)


def balanced(quickest: Solved, weighs_energy: bool) -> Goal:
    """The goal of 'balanced', beside the plan of the least latency."""
    beside = {"seconds": quickest.seconds, "bytes": float(quickest.bytes),
              "joules": quickest.joules if weighs_energy else 0.0}
    counted = sum(BALANCED[name] for name, whole in beside.items() if whole > 0) or 1.0
    parts = {name: BALANCED[name] / counted / whole if whole > 0 else 0.0 for name, whole in beside.items()}
    return Goal("balanced", parts["seconds"], parts["joules"], parts["bytes"], 1e-8)
