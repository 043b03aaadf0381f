"""Products with constant weights that are stored in 16 bits and widened in registers; the arithmetic is float32.

    bf16   the upper half of a float32, rounded to nearest even: its range, 8 bits of precision
    f16    IEEE half: 11 bits, for weights whose largest is neither beyond 65504 nor so small that bits would be lost

Half the bytes are read for each row block, which is what limits products of few rows. Each weight moves by up to its
rounding, which is the variant's `risk`: a plan that watches accuracy may take them, no other does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from meta_infer.hardware.isa import isa_named
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group, Layout, Variant
from meta_infer.kernels.kernel import Kernel, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.matmul.gemm import GEMM, lower_product, read_cost
from meta_infer.support.dtypes import FLOAT32

# What is worth choosing anew where weights are narrow; all else is as for whole floats.
_KNOBS = ("tile", "unroll", "fetch")
RISKS = {"bf16": 2.0**-8, "f16": 2.0**-11}
_LARGEST_HALF, _LEAST_MAXIMUM = 65504.0, 2.0**-10


def to_bf16(weights: np.ndarray) -> np.ndarray:
    """The upper 16 bits of float32, rounded to nearest even; NaN stays NaN."""
    bits = np.ascontiguousarray(weights, np.float32).view(np.uint32)
    rounded = (bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))) >> 16
    return np.where(np.isnan(weights), (bits >> 16) | 0x40, rounded).astype(np.uint16)


def _widens_halves(profile: Profile) -> bool:
    """Whether a vector of half floats is converted by an instruction."""
    return "f16c" in profile.features or profile.isa is not None and isa_named(profile.isa).architecture == "aarch64"


def _stored(variant: Variant, name: str, group: Group, profile: Profile) -> Variant:
    knobs = {knob: variant.knobs[knob] for knob in _KNOBS}
    return replace(variant, kernel="gemm_half", name=name, packed_bytes=variant.packed_bytes // 2, risk=RISKS[name],
                   cost=read_cost(group, variant, profile, 2), knobs=knobs)


def _whole(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    """The variant with values for all knobs."""
    plain = next(iter(GEMM.variants(group, profile)))
    return GEMM.tune(group, plain, {**variant.knobs, **values}, profile)


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.values[group.anchor.outputs[0]].dtype != FLOAT32:
        return
    for variant in GEMM.variants(group, profile):
        largest = float(np.abs(group.constants[group.anchor.inputs[1]]).max(initial=0.0))
        yield _stored(variant, "bf16", group, profile)
        if _LEAST_MAXIMUM <= largest <= _LARGEST_HALF and _widens_halves(profile):
            yield _stored(variant, "f16", group, profile)


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    return tuple(knob for knob in GEMM.knobs(group, variant, profile) if knob.name in _KNOBS)


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    tuned = _whole(group, variant, values, profile)
    return tuned if isinstance(tuned, Refusal) else _stored(tuned, variant.name, group, profile)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    whole = _whole(group, variant, {}, profile)
    assert isinstance(whole, Variant), "the knobs of a variant are feasible"
    if variant.name == "bf16":
        return lower_product(group, whole, layouts, profile, to_bf16)
    return lower_product(group, whole, layouts, profile, lambda panels: panels.astype(np.float16))


GEMM_HALF = Kernel("gemm_half", ("MatMul", "Gemm"), _variants, _lower, _knobs, _tune)
