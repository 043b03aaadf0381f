"""How long a plan takes at least on a chip that only its profile is known of: the roofline model.

    seconds = sum over groups of max(operations / peak, bytes / bandwidth of main memory)

Williams, Waterman, Patterson: Roofline, an insightful visual performance model (CACM 52, 2009).
"""

from __future__ import annotations

from meta_infer.cost.features import group_bytes, group_flops
from meta_infer.hardware.profile import PRECISIONS, Profile
from meta_infer.ir.group import Plan
from meta_infer.ir.shapes import usual_upper


def estimate_precision(profile: Profile, wanted: str) -> str:
    """The precision to estimate for: the wanted one where the profile computes in it, else the profile's first."""
    words = [*profile.precisions, *(w for w in profile.macs_per_cycle if w not in profile.precisions)]
    known = [word for word in words if word in PRECISIONS]
    return wanted if wanted in known else known[0] if known else "fp32"


def plan_seconds(plan: Plan, profile: Profile, precision: str) -> float | None:
    """Seconds of one run with every tensor in `precision` and every dim at its upper bound; each body of an If or a
    Loop counts once. None when the profile states neither peak nor bandwidth."""
    dtype = PRECISIONS[precision]
    peak = profile.macs_per_second(dtype)
    if peak is None and profile.bandwidth is None:
        return None
    total = 0.0
    for planned in plan.groups:
        compute = usual_upper(group_flops(planned.group)) / (2 * peak) if peak else 0.0
        moved = usual_upper(group_bytes(planned.group)) * dtype.bits / 32     # groups are float32 so far
        total += max(compute, moved / profile.bandwidth if profile.bandwidth else 0.0)
    return total + sum(plan_seconds(region, profile, precision) or 0.0 for region in plan.regions.values())
