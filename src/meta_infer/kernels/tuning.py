"""The space that a variant's knobs span: all of it for the search, its corners for tests, and what others ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def tuned_as_asked(kernel: Kernel, group: Group, variant: Variant, values: Mapping[str, KnobValue],
                   profile: Profile) -> Variant | Refusal:
    """The variant with values that come from outside: from a user, a lock, an experience of another chip.

    Kernels are asked only for values of the kind that they offer, which need not be one of those worth trying.
    """
    offered = {knob.name: knob.values for knob in kernel.knobs(group, variant, profile)}
    for name, value in values.items():
        if value != variant.knobs.get(name) and not _is_like(value, offered.get(name, ())):
            return Refusal({name: value}, "value", f"{kernel.name} has no such {name}")
    return kernel.tune(group, variant, values, profile)


def _is_like(value: KnobValue, known: Sequence[KnobValue]) -> bool:
    """Whether a value is one of a knob's words, or a number that is not below all of its numbers and 1."""
    if not isinstance(value, int) or isinstance(value, bool):
        return value in known
    numbers = [one for one in known if isinstance(one, int)]
    return bool(numbers) and value >= min(1, *numbers)


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
