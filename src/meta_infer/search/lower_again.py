"""What the cost model reads off a group of a package: its choice is lowered once more, as the build did."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from meta_infer.backends.registry import backend_for
from meta_infer.cost.algorithms import size_of
from meta_infer.cost.features import Call, Features, features_of, group_flops
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import PLAIN, Group
from meta_infer.kernels.registry import kernels_for
from meta_infer.search.candidate import launches_of, lowered_group
from meta_infer.search.ways import Way, variant_as
from meta_infer.support.errors import MetaInferError


def features_again(group: Group, way: Way, sizes: Mapping[str, int], profile: Profile) -> Features | None:
    """Features of one run at these sizes of the group's symbols; None where no kernel of this version, on the chip of
    `profile`, is what `way` names."""
    offered = tuple(variant for kernel in kernels_for(group.anchor.op) if kernel.name == way.kernel
                    for variant in kernel.variants(group, profile))
    variant = variant_as(way, group, offered, profile)
    if variant is None:
        return None
    layouts = {n: PLAIN for n in (*group.inputs, *group.outputs)} | {**variant.inputs, **variant.outputs}
    try:
        with np.errstate(all="ignore"):                       # large constants are zeros here, whatever they were
            lowering = backend_for(profile).lower(group, variant, layouts, profile)
    except (MetaInferError, ArithmeticError, ValueError, LookupError):
        return None
    flops = size_of(group_flops(group), sizes)
    lowered = lowered_group(group.label, group, lowering, layouts, sizes, flops)
    launches = launches_of(lowered, [""] * len(lowered.calls))
    calls = [Call(call.func, launch.args, launch.dims) for call, launch in zip(lowered.calls, launches, strict=True)]
    weights = [name for name, buffer in lowered.buffers.items() if buffer.role == "weights"]
    return features_of(calls, {n: buffer.bytes for n, buffer in lowered.buffers.items()}, weights, profile,
                       float(flops))
