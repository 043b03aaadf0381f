"""The space that a variant's knobs span: all of it for the search, its corners for tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group, Variant
from meta_infer.kernels.kernel import Kernel, KnobValue, Refusal


def tunings(kernel: Kernel, group: Group, variant: Variant, profile: Profile) -> Iterator[Variant | Refusal]:
    """Every combination of the variant's knobs, the last knob fastest: a variant, or why there is none."""
    knobs = kernel.knobs(group, variant, profile)
    for values in product(*(knob.values for knob in knobs)):
        chosen = {knob.name: value for knob, value in zip(knobs, values, strict=True)}
        yield kernel.tune(group, variant, chosen, profile)


def corners(kernel: Kernel, group: Group, variant: Variant, profile: Profile) -> Iterator[Variant | Refusal]:
    """The default, each knob at its first and its last value with the others at theirs, and all first and all last."""
    yield variant
    knobs = kernel.knobs(group, variant, profile)
    ends: list[Mapping[str, KnobValue]] = [{knob.name: knob.values[i]} for knob in knobs for i in (0, -1)]
    ends += [{knob.name: knob.values[i] for knob in knobs} for i in (0, -1)]
    seen = [dict(variant.knobs)]
    for values in ends:
        full = {**variant.knobs, **values}
        if full not in seen:
            seen.append(full)
            yield kernel.tune(group, variant, values, profile)


def feasible(found: Iterable[Variant | Refusal]) -> tuple[list[Variant], Counter[str]]:
    """The variants among what was found, and how many combinations each reason has cost."""
    variants: list[Variant] = []
    refused: Counter[str] = Counter()
    for one in found:
        if isinstance(one, Refusal):
            refused[one.reason] += 1
        else:
            variants.append(one)
    return variants, refused
