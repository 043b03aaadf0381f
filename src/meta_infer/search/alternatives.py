"""Which groups of several anchors the plan without a search takes.

Those that some kernel computes for less, by its guess, than the groups it replaces: what those cost alone, what passes
between them, and a launch for each. Where two overlap, the one that saves more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group, Variant
from meta_infer.kernels.guess import alone_cost, passing_cost
from meta_infer.passes.alternatives import Alternative

Variants = Callable[[Group, Profile], Iterable[Variant]]

LAUNCH_COST = 5e4
"""Operations at the chip's peak that take as long as a launch."""

MARGIN = 0.05
"""Share of what the parts cost that has to be saved: guesses are no finer."""


def saving(alternative: Alternative, parts: Sequence[float], profile: Profile, variants: Variants) -> float | None:
    """Operations at the chip's peak that it saves beside `parts`, the costs of what it replaces.

    None where no kernel computes it or none states a cost.
    """
    fused = [variant.cost for variant in variants(alternative.group, profile) if variant.cost]
    if not fused:
        return None
    made = [node.outputs[0] for node in alternative.group.nodes]
    between = [alternative.group.values[name] for name in alternative.replaces[:-1] if name in made]
    passing = sum(passing_cost(value, profile) for value in between)
    return sum(parts) + passing + LAUNCH_COST * (len(parts) - 1) - min(fused)


def worthwhile(groups: Sequence[Group], alternatives: Iterable[Alternative], profile: Profile,
               variants: Variants) -> list[Alternative]:
    """Alternatives that save time, none of which overlap."""
    known = {group.outputs[0]: group for group in groups if group.outputs}
    costs: dict[str, float] = {}
    gains = []
    for one in alternatives:
        for name in one.replaces:
            if name not in costs:
                costs[name] = alone_cost(known[name], variants(known[name], profile))
        parts = [costs[name] for name in one.replaces]
        saved = saving(one, parts, profile, variants)
        if saved is not None and saved > MARGIN * sum(parts):
            gains.append((saved, one))
    taken: list[Alternative] = []
    gone: set[str] = set()
    for _, one in sorted(gains, key=lambda item: -item[0]):
        if gone.isdisjoint(one.replaces):
            taken.append(one)
            gone.update(one.replaces)
    return taken
