"""One plain rule per kernel class, used before any search has run.

Heavy groups (convolution, matrix products, recurrences) take the variant whose kernel's guess of its cost, with the
layout conversions it needs, is least; where the first one has no guess, the first: kernels list their best first, and
the cost of a conversion is small beside the work. All other groups take the variant that needs the fewest bytes of
layout conversion, so a chain that is blocked stays blocked until something needs it plain; of those that need as many,
the one whose results their readers have to convert least. Ties go to the earlier variant. A variant that adds more
error than RISK_LIMIT is for a search that watches accuracy, never for this rule. Kernels that users bring for an op
take part where they state that they cost less than the others are guessed to, or where there are no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph, Node
from meta_infer.ir.group import PLAIN, Format, Group, Layout, Plan, PlannedGroup, Variant
from meta_infer.ir.shapes import product, usual_upper
from meta_infer.kernels.guess import alone_cost
from meta_infer.kernels.registry import rival_digest
from meta_infer.ops.registry import op_named
from meta_infer.passes.alternatives import Alternative, take_alternatives
from meta_infer.search.alternatives import worthwhile
from meta_infer.support.errors import UnsupportedError

HEAVY = frozenset({"Conv", "ConvTranspose", "MatMul", "Gemm", "ConvInteger", "MatMulInteger", "MatMulNBits", "LSTM",
                   "GRU", "RNN", "Attention"})

RISK_LIMIT = 1e-4
"""The relative error beyond rounding that a variant may add without anybody having looked at the model's accuracy."""

CONVERSION_COST = 4.0
"""Operations at the chip's peak that take as long as the conversion of one byte to another layout."""

Cover = Callable[[Graph], Sequence[Group]]
Variants = Callable[[Group, Profile], Iterable[Variant]]
Alternatives = Callable[[Graph, Sequence[Group]], Sequence[Alternative]]


def region_variant(group: Group) -> Variant:
    """The variant of a control-flow group: everything it touches is plain."""
    return Variant("region", "region", {n: PLAIN for n in group.inputs}, {n: PLAIN for n in group.outputs})


def view_variant(group: Group) -> Variant:
    """The variant of a group that moves no byte."""
    return Variant("view", "view", {n: PLAIN for n in group.inputs}, {n: PLAIN for n in group.outputs})


def conversion_bytes(group: Group, variant: Variant, have: Mapping[str, set[Layout]]) -> int:
    """Bytes of inputs that would have to be converted for this variant."""
    total = 0
    for name, layout in variant.inputs.items():
        if name not in group.constants and layout not in have[name]:
            value = group.values[name]
            total += usual_upper(product(value.shape)) * value.dtype.bytes
    return total


def no_variant(group: Group) -> UnsupportedError:
    """The error of a group that no kernel computes; it names the ONNX node."""
    shapes = ", ".join(str(group.values[n]) for n in (*group.inputs, *group.outputs))
    return UnsupportedError(f"no kernel computes {group.label} on ({shapes})", what=group.anchor.label,
                            hint="a float32 model with constant weights, or report this case")


Wanted = Callable[[str, Layout], int]
"""(value, layout) -> bytes of it that its readers would have to convert."""


def _wanted(graph: Graph, groups: Sequence[Group], offered: Callable[[Group], Sequence[Variant]]) -> Wanted:
    """Light readers take what any of their variants does, heavy ones what the variant of the least cost does."""
    readers: dict[str, list[Group]] = {}
    for group in groups:
        for name in dict.fromkeys(group.inputs):
            readers.setdefault(name, []).append(group)

    def taken(group: Group, name: str) -> set[Layout]:
        op = op_named(group.anchor.op)
        if op.is_control_flow or (op.is_view and not group.epilogue):
            return {PLAIN}
        variants = offered(group)
        if group.anchor.op in HEAVY:
            variants = [min(variants, key=lambda v: v.cost)] if all(v.cost for v in variants) else variants[:1]
        return {v.inputs.get(name, PLAIN) for v in variants}

    def wanted(name: str, layout: Layout) -> int:
        value = graph.values[name]
        count = sum(layout not in taken(group, name) for group in readers.get(name, ()))
        count += name in graph.outputs and layout != PLAIN
        return count * usual_upper(product(value.shape)) * value.dtype.bytes

    return wanted


def _choose(group: Group, candidates: Sequence[Variant], have: Mapping[str, set[Layout]], wanted: Wanted) -> Variant:
    if group.anchor.op in HEAVY:
        if not candidates[0].cost:
            return candidates[0]
        guessed = [c for c in candidates if c.cost]
        return min(guessed, key=lambda c: c.cost + CONVERSION_COST * conversion_bytes(group, c, have))
    least = min(conversion_bytes(group, v, have) for v in candidates)
    best = [v for v in candidates if conversion_bytes(group, v, have) == least]
    if all(v.outputs == best[0].outputs for v in best):
        return best[0]
    return min(best, key=lambda v: sum(wanted(name, layout) for name, layout in v.outputs.items()))


def _by_rule(group: Group, variants: list[Variant]) -> list[Variant]:
    """`variants` with those of users' kernels first that state a lesser cost, and without their others."""
    others = [v for v in variants if not rival_digest(v.kernel)]
    if not others or len(others) == len(variants):
        return variants
    least = alone_cost(group, others)
    return [*(v for v in variants if rival_digest(v.kernel) and 0 < v.cost < least), *others]


def _asked_once(variants: Variants) -> Variants:
    """`variants` that asks the kernels once for each group: costs are asked for before the plan is made."""
    known: dict[int, tuple[Group, tuple[Variant, ...]]] = {}     # the group is kept, so that its id stays its own

    def offered(group: Group, profile: Profile) -> tuple[Variant, ...]:
        if id(group) not in known:
            known[id(group)] = group, tuple(variants(group, profile))
        return known[id(group)][1]

    return offered


def _no_alternatives(graph: Graph, groups: Sequence[Group]) -> Sequence[Alternative]:
    return ()


def _plan_regions(node: Node, profile: Profile, cover: Cover, variants: Variants,
                  alternatives: Alternatives) -> dict[tuple[str, int], Plan]:
    key = next(name for name in node.outputs if name)
    return {(key, i): default_plan(region, profile, cover, variants, alternatives)
            for i, region in enumerate(node.regions)}


def default_plan(graph: Graph, profile: Profile, cover: Cover, variants: Variants,
                 alternatives: Alternatives = _no_alternatives) -> Plan:
    """Cover `graph` with the fusions that `cover` proposes and pick a variant for each group.

    `cover(graph)` gives groups in execution order; `variants(group, profile)` gives feasible variants, best first.
    `alternatives(graph, groups)` are groups of several anchors, taken where they save time (see alternatives.py).
    Raises UnsupportedError, naming the ONNX node, when a group has no variant.
    """
    given = (*graph.inputs, *graph.constants)
    formats = {name: Format(graph.values[name].dtype) for name in given}
    have: dict[str, set[Layout]] = {name: {PLAIN} for name in (*given, *graph.captures)}
    planned: list[PlannedGroup] = []
    regions: dict[tuple[str, int], Plan] = {}
    groups = cover(graph)
    variants = _asked_once(variants)
    groups = take_alternatives(groups, worthwhile(groups, alternatives(graph, groups), profile, variants))

    def offered(group: Group) -> list[Variant]:
        return [v for v in _by_rule(group, list(variants(group, profile))) if v.risk <= RISK_LIMIT]

    wanted = _wanted(graph, groups, offered)
    for group in groups:
        op = op_named(group.anchor.op)
        if op.is_control_flow:
            chosen = region_variant(group)
            regions |= _plan_regions(group.anchor, profile, cover, variants, alternatives)
        elif op.is_view and not group.epilogue:
            chosen = view_variant(group)
        else:
            candidates = offered(group)
            if not candidates:
                raise no_variant(group)
            chosen = _choose(group, candidates, have, wanted)
        for name, layout in chosen.inputs.items():
            have[name].add(layout)
        for name in group.outputs:
            formats[name] = Format(group.values[name].dtype, chosen.outputs[name])
            have[name] = {chosen.outputs[name]}
        planned.append(PlannedGroup(group, chosen))
    return Plan(graph, tuple(planned), formats, regions)
