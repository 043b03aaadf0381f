"""Energy of one run, from what the profile states: static power, joules per multiply-accumulate and per byte.

    energy = static_w * seconds + macs * joules_per_mac + bytes * joules_per_byte of main memory

The work is that of the model: multiply-accumulates as operators declare them, every tensor that enters or leaves a
group once, weights as the variant has packed them, and a converted tensor once in and once out. So two plans differ by
their seconds, by what passes between their groups, and by their weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meta_infer.cost.algorithms import size_of
from meta_infer.cost.features import group_bytes, group_flops
from meta_infer.hardware.profile import PRECISIONS, Profile
from meta_infer.ir.graph import Value
from meta_infer.ir.group import Group, Layout, Plan, Variant, walk_plans
from meta_infer.ir.shapes import product


@dataclass(frozen=True)
class Energy:
    """What a profile states of power: watts, joules per multiply-accumulate, joules per byte of main memory.

    `sizes` are the values of a model's symbols, one mapping for each size of it that counts; energies are sums over
    them. `share` is the size of an element beside one of float32.
    """

    static_w: float
    per_mac: float
    per_byte: float
    sizes: Sequence[Mapping[str, int]] = ({},)
    share: float = 1.0

    @classmethod
    def of(cls, profile: Profile, precision: str = "fp32", sizes: Sequence[Mapping[str, int]] = ({},)) -> Energy | None:
        """None where the profile states no figure of power at all."""
        power = profile.chip.power
        if power is None or not (power.static_w or power.joules_per_mac or power.joules_per_byte):
            return None
        main = next((memory.name for memory in profile.chip.memories if memory.kind == "main"), "")
        per_mac = {str(word): joules for word, joules in power.joules_per_mac.items()}
        return cls(power.static_w or 0.0, per_mac.get(precision, 0.0), power.joules_per_byte.get(main, 0.0), sizes,
                   PRECISIONS[precision].bits / 32)

    def group(self, group: Group, variant: Variant | None = None, seconds: float = 0.0) -> float:
        """Joules of a group that takes `seconds`; weights as `variant` has packed them, where it says."""
        total = self.static_w * seconds
        kept = sum(array.nbytes for array in group.constants.values())
        packed = variant.packed_bytes if variant is not None and variant.packed_bytes else kept
        for sizes in self.sizes:
            moved = size_of(group_bytes(group), sizes) + packed - kept
            total += size_of(group_flops(group), sizes) / 2 * self.per_mac + max(moved, 0) * self.share * self.per_byte
        return total

    def conversion(self, value: Value, source: Layout, target: Layout, seconds: float = 0.0) -> float:
        """Joules of a tensor's conversion from one layout to another."""
        elements = sum(size_of(product(layout.physical(value.shape)), sizes)
                       for layout in (source, target) for sizes in self.sizes)
        return self.static_w * seconds + elements * value.dtype.bytes * self.share * self.per_byte

    def plan(self, plan: Plan, seconds: float) -> float:
        """Joules of a run of a plan that takes `seconds`. Bodies of If and Loop count once."""
        total = self.static_w * seconds
        for one in walk_plans(plan):
            converted: set[tuple[str, Layout]] = set()
            for planned in one.groups:
                if planned.variant.kernel not in ("view", "region"):
                    total += self.group(planned.group, planned.variant)
                for name, layout in planned.variant.inputs.items():
                    made = one.formats.get(name)
                    if (made is not None and made.layout != layout and name not in planned.group.constants
                            and (name, layout) not in converted):
                        converted.add((name, layout))
                        total += self.conversion(planned.group.values[name], made.layout, layout)
        return total


def plan_joules(plan: Plan, profile: Profile, precision: str, seconds: float, sizes: Mapping[str, int]) -> float | None:
    """Joules of one run of `seconds`; None where the profile states no power."""
    energy = Energy.of(profile, precision, (sizes,))
    return None if energy is None else energy.plan(plan, seconds)
