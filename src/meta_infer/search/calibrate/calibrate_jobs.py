"""From the cases of a calibration to kernels to time: which variants of each, lowered, with what is known of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from meta_infer.cost.algorithms import size_of
from meta_infer.cost.features import group_flops
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group, Variant, layouts_of
from meta_infer.kernels.kernel import Refusal
from meta_infer.kernels.registry import kernel_named, kernels_for
from meta_infer.library.samples import Sample
from meta_infer.search.calibrate.calibrate_cases import Case
from meta_infer.search.calibrate.calibration import Job
from meta_infer.search.default_plan import RISK_LIMIT
from meta_infer.search.measure.candidate import Uncompiled, lowered_conversion, lowered_group
from meta_infer.search.measure.candidate_features import candidate_features
from meta_infer.search.measure.described import described
from meta_infer.search.measure.launch_probe import launch_probe
from meta_infer.search.space.ways import moves, way_of

_MOST = 4
"""Variants of a case, beside one with other knobs."""
_HOPELESS = 6.0
"""Times the least cost that kernels state from which a variant is not timed: it takes long, and no plan has it."""
_LOOKED_AT = 24
"""Values of knobs of which one is timed."""


@dataclass(frozen=True)
class Choice:
    """A variant of a case; None for a conversion."""

    case: Case
    variant: Variant | None


def choices(cases: Iterable[Case], profile: Profile) -> Iterator[Choice]:
    """A few variants of every case, of kernels first that were chosen least so far, and one with other knobs.

    What is chosen depends on nothing but cases and profile: a calibration that goes on finds what it has timed.
    """
    taken: Counter[str] = Counter()
    for number, case in enumerate(cases):
        if case.layouts is not None:
            yield Choice(case, None)
            continue
        found = sorted(offered(case.group, profile), key=lambda variant: taken[variant.kernel])[:_MOST]
        for variant in found:
            taken[variant.kernel] += 1
            yield Choice(case, variant)
        if found:
            moved = _neighbour(case.group, found[number % len(found)], profile, number)
            if moved is not None:
                taken[moved.kernel] += 1
                yield Choice(case, moved)


def offered(group: Group, profile: Profile) -> list[Variant]:
    """The variants that may be quick, in the order of the kernels, however they round: no model is computed."""
    found = [variant for kernel in kernels_for(group.anchor.op) for variant in kernel.variants(group, profile)]
    least = min((variant.cost for variant in found if variant.cost), default=0.0)
    return [variant for variant in found if not least or variant.cost <= _HOPELESS * least]


def cheapest(group: Group, profile: Profile) -> Variant | None:
    """The variant that the rule without a search takes of a group alone."""
    safe = [variant for variant in offered(group, profile) if variant.risk <= RISK_LIMIT]
    return min(safe, key=lambda variant: variant.cost, default=None)


def _neighbour(group: Group, variant: Variant, profile: Profile, number: int) -> Variant | None:
    """The variant with another value of one knob, a different one for each number."""
    near = [one for one in islice(moves(group, variant, profile), _LOOKED_AT)
            if not isinstance(one, Refusal)]
    return near[number * 7 % len(near)] if near else None


def lowered(choice: Choice, profile: Profile) -> Job:
    """Its loops, the features that the cost model reads off them, and the words of the library."""
    case, variant = choice.case, choice.variant
    if variant is None:
        assert case.layouts is not None
        (one,) = lowered_conversion(case.group.values[case.group.inputs[0]], *case.layouts, ({},), profile)
        sample = Sample("reorder", "reorder", op="Reorder", group=one.name)
    else:
        one = _kernel(case.group, variant, profile)
        sample = described(case.group, way_of(case.group, variant))
    return Job(one, replace(sample, features=candidate_features(one, profile).recorded()))


def launch_job(chunks: int, profile: Profile) -> Job:
    """A kernel that does nothing in so many chunks."""
    one = launch_probe(chunks)
    return Job(one, Sample("launch_probe", "copy", op="Probe", group=one.name,
                           features=candidate_features(one, profile).recorded()))


def _kernel(group: Group, variant: Variant, profile: Profile) -> Uncompiled:
    layouts = layouts_of(group, variant)
    lowering = kernel_named(variant.kernel).lower(group, variant, layouts, profile)
    name = f"{group.anchor.op} by {variant.kernel}"
    return lowered_group(name, group, lowering, layouts, {}, size_of(group_flops(group), {}))
