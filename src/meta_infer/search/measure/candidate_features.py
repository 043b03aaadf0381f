"""What lowered kernels do, as the cost model takes it."""

from __future__ import annotations

from meta_infer.cost.features import Call, Features, features_of
from meta_infer.hardware.profile import Profile
from meta_infer.search.measure.candidate import Uncompiled, launches_of


def candidate_features(one: Uncompiled, profile: Profile) -> Features:
    """Features of all launches of a candidate."""
    launches = launches_of(one, [""] * len(one.calls))
    calls = [Call(call.func, call.args, launch.dims) for call, launch in zip(one.calls, launches, strict=True)]
    weights = [name for name, buffer in one.buffers.items() if buffer.role == "weights"]
    return features_of(calls, {name: buffer.bytes for name, buffer in one.buffers.items()}, weights, profile,
                       float(one.flops))
