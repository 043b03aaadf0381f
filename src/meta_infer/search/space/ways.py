"""Ways: variants with their knobs, named so that what is learnt of one group holds for all groups like it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import PLAIN, Group, Plan, Variant, walk_plans
from meta_infer.kernels.kernel import Knob, KnobValue, Refusal
from meta_infer.kernels.registry import kernel_named
from meta_infer.kernels.tuning import tuned_as_asked


@dataclass(frozen=True, order=True)
class Way:
    """A variant without the names of the group it was found in: layouts stand in the order of inputs and outputs."""

    kernel: str
    variant: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    knobs: tuple[tuple[str, KnobValue], ...] = ()

    @property
    def layouts(self) -> dict[str, str]:
        """Those that are not plain, by place: 'in0', 'out0' -> 'b8@1'. So the library has them."""
        return {f"{side}{i}": layout for side, layouts in (("in", self.inputs), ("out", self.outputs))
                for i, layout in enumerate(layouts) if layout != str(PLAIN)}

    def __str__(self) -> str:
        knobs = " ".join(f"{name}={value}" for name, value in self.knobs)
        return f"{self.kernel}/{self.variant} {knobs}".rstrip()


def choices_of(plan: Plan) -> tuple[tuple[str, Way], ...]:
    """What a plan takes for each group, by the first value it makes: plans that take the same are the same."""
    return tuple((one.group.outputs[0], way_of(one.group, one.variant)) for inner in walk_plans(plan)
                 for one in inner.groups)


def way_of(group: Group, variant: Variant) -> Way:
    return Way(variant.kernel, variant.name, tuple(str(variant.inputs.get(name, PLAIN)) for name in group.inputs),
               tuple(str(variant.outputs.get(name, PLAIN)) for name in group.outputs),
               tuple(sorted(variant.knobs.items())))


def variant_as(way: Way, group: Group, variants: tuple[Variant, ...], profile: Profile) -> Variant | None:
    """The variant that `way` names, of a group that offers `variants`; None where it has none like it."""
    for variant in variants:
        own = way_of(group, variant)
        if own == way:
            return variant
        if (own.kernel, own.variant, own.inputs, own.outputs) == (way.kernel, way.variant, way.inputs, way.outputs):
            tuned = tuned_as_asked(kernel_named(way.kernel), group, variant, dict(way.knobs), profile)
            if not isinstance(tuned, Refusal) and way_of(group, tuned) == way:
                return tuned
    return None


def moves(group: Group, variant: Variant, profile: Profile, pairs: bool = False) -> Iterator[Variant | Refusal]:
    """The variant with one knob at another value, or, with `pairs`, with two knobs one step away each."""
    if variant.kernel in ("view", "region"):
        return
    kernel = kernel_named(variant.kernel)
    knobs = kernel.knobs(group, variant, profile)
    for values in _pairs(variant, knobs) if pairs else _singles(variant, knobs):
        yield kernel.tune(group, variant, values, profile)


def _singles(variant: Variant, knobs: tuple[Knob, ...]) -> Iterator[Mapping[str, KnobValue]]:
    for knob in knobs:
        for value in knob.values:
            if value != variant.knobs.get(knob.name):
                yield {knob.name: value}


def _pairs(variant: Variant, knobs: tuple[Knob, ...]) -> Iterator[Mapping[str, KnobValue]]:
    for one, other in combinations(knobs, 2):
        for a in _beside(one, variant):
            for b in _beside(other, variant):
                yield {one.name: a, other.name: b}


def _beside(knob: Knob, variant: Variant) -> list[KnobValue]:
    """Values next to the one it has, in the order the kernel lists them."""
    values, now = list(knob.values), variant.knobs.get(knob.name)
    if now not in values:
        return values[:2]
    at = values.index(now)
    return [values[i] for i in (at - 1, at + 1) if 0 <= i < len(values)]
