"""What the cost model reads off a group of a package: its choice is lowered once more, as the build did."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from meta_infer.backends.registry import backend_for
from meta_infer.cost.algorithms import size_of
from meta_infer.cost.features import Features, group_flops
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group, layouts_of
from meta_infer.kernels.registry import kernels_for
from meta_infer.search.measure.candidate import lowered_group
from meta_infer.search.measure.candidate_features import candidate_features
from meta_infer.search.space.ways import Way, variant_as
from meta_infer.support.errors import MetaInferError


def features_again(group: Group, way: Way, sizes: Mapping[str, int], profile: Profile) -> Features | None:
    """Features of one run at these sizes of the group's symbols; None where no kernel of this version, on the chip of
    `profile`, is what `way` names."""
    offered = tuple(variant for kernel in kernels_for(group.anchor.op) if kernel.name == way.kernel
                    for variant in kernel.variants(group, profile))
    variant = variant_as(way, group, offered, profile)
    if variant is None:
        return None
    layouts = layouts_of(group, variant)
    try:
        with np.errstate(all="ignore"):                       # large constants are zeros here, whatever they were
            lowering = backend_for(profile).lower(group, variant, layouts, profile)
    except (MetaInferError, ArithmeticError, ValueError, LookupError):
        return None
    flops = size_of(group_flops(group), sizes)
    return candidate_features(lowered_group(group.label, group, lowering, layouts, sizes, flops), profile)
