"""Energy of one run, from what the profile states: static power, joules per multiply-accumulate and per byte.

    energy = static_w * seconds + macs * joules_per_mac + bytes * joules_per_byte of main memory
"""

from __future__ import annotations

from collections.abc import Mapping

from meta_infer.cost.algorithms import size_of
from meta_infer.cost.features import group_bytes, group_flops
from meta_infer.hardware.profile import PRECISIONS, Profile
from meta_infer.ir.group import Plan, walk_plans


def plan_joules(plan: Plan, profile: Profile, precision: str, seconds: float, sizes: Mapping[str, int]) -> float | None:
    """Joules of one run of `seconds`; None where the profile states no power. Bodies of If and Loop count once."""
    power = profile.chip.power
    if power is None:
        return None
    macs, moved = _work(plan, sizes)
    main = next((memory.name for memory in profile.chip.memories if memory.kind == "main"), "")
    return (seconds * (power.static_w or 0.0)
            + macs * {str(k): v for k, v in power.joules_per_mac.items()}.get(precision, 0.0)
            + moved * PRECISIONS[precision].bits / 32 * power.joules_per_byte.get(main, 0.0))


def _work(plan: Plan, sizes: Mapping[str, int]) -> tuple[float, float]:
    """(multiply-accumulates, bytes in float32) of all groups."""
    groups = [planned.group for one in walk_plans(plan) for planned in one.groups]
    macs = sum(size_of(group_flops(group), sizes) / 2 for group in groups)
    return macs, float(sum(size_of(group_bytes(group), sizes) for group in groups))
