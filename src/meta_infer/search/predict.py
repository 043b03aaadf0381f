"""The time of a plan by the cost model, group by group, without compiling or running anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from meta_infer.backends.base import Backend
from meta_infer.cost.algorithms import size_of
from meta_infer.cost.features import group_flops
from meta_infer.cost.model import CostModel, precision_of
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Value
from meta_infer.ir.group import Layout, Plan, layouts_of
from meta_infer.ir.group_text import group_text
from meta_infer.lower.views import slice_view_offset
from meta_infer.search.candidate import lowered_conversion, lowered_group
from meta_infer.search.candidate_features import candidate_features
from meta_infer.search.ways import Way, way_of

DISPATCH = 1e-6
"""Seconds from one command of a package to the next: the interpreter and, with several threads, a barrier."""


@dataclass(frozen=True)
class GroupPrediction:
    """One group, or one conversion between layouts: what it computes, by which kernel, seconds and their spread."""

    label: str
    origins: tuple[str, ...]
    kernel: str
    seconds: float
    spread: float


def predict_groups(plan: Plan, profile: Profile, backend: Backend, cost: CostModel,
                   sizes: Mapping[str, int]) -> list[GroupPrediction]:
    """Every group of a plan that takes time, with the conversions before it; regions once each. One thread."""
    known: dict[tuple[str, Way], tuple[float, float]] = {}
    converted: set[tuple[str, Layout]] = set()
    found = []
    for planned in plan.groups:
        group, variant = planned.group, planned.variant
        for name, layout in variant.inputs.items():
            made = plan.formats.get(name)
            if name in group.constants or made is None or made.layout == layout or (name, layout) in converted:
                continue
            converted.add((name, layout))
            seconds, spread = _conversion(group.values[name], made.layout, layout, profile, cost, sizes)
            found.append(GroupPrediction(f"Reorder {made.layout} -> {layout}", (), "reorder", seconds, spread))
        if variant.kernel in ("view", "region") or slice_view_offset(group, variant) is not None:
            continue
        key = group_text(group), way_of(group, variant)
        if key not in known:
            layouts = layouts_of(group, variant)
            lowering = backend.lower(group, variant, layouts, profile)
            one = lowered_group(group.label, group, lowering, layouts, sizes, size_of(group_flops(group), sizes))
            features = candidate_features(one, profile)
            precision = precision_of(group.values[group.outputs[0]].dtype.name)
            estimate = cost.seconds(variant.kernel, precision, features)
            known[key] = estimate.seconds + DISPATCH * len(one.calls), estimate.spread
        found.append(GroupPrediction(group.label, group.origins, variant.kernel, *known[key]))
    for region in plan.regions.values():
        found += predict_groups(region, profile, backend, cost, sizes)
    return found


def _conversion(value: Value, source: Layout, target: Layout, profile: Profile, cost: CostModel,
                sizes: Mapping[str, int]) -> tuple[float, float]:
    (one,) = lowered_conversion(value, source, target, (sizes,), profile)
    features = candidate_features(one, profile)
    estimate = cost.seconds("reorder", precision_of(value.dtype.name), features)
    return estimate.seconds + DISPATCH, estimate.spread
