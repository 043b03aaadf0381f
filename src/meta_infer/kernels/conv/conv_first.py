"""The first convolution of a network: a plain NCHW input of few channels, a blocked output.

The loop nests are those of `conv_direct` and `conv_padded` with single channels in the place of channel blocks, so no
lane of the input is padding and nothing has to be converted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.kernels.conv.conv_direct import (
    DirectConv,
    direct_knobs,
    direct_variant,
    fits_direct,
    lower_direct,
    plan_direct,
    tune_direct,
)
from meta_infer.kernels.conv.conv_padded import (
    PaddedConv,
    fits_padded,
    lower_padded,
    padded_knobs,
    padded_variant,
    plan_padded,
    tune_padded,
)
from meta_infer.kernels.conv.conv_shape import conv_of, extra_inputs
from meta_infer.kernels.kernel import Kernel, Knob, KnobValue, Lowering, Refusal
from meta_infer.support.dtypes import FLOAT32

_MOST_CHANNELS = 4


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    conv, block = conv_of(group), profile.lanes(FLOAT32)
    if conv is None or block == 1 or not isinstance(conv.in_channels, int) or conv.in_channels > _MOST_CHANNELS:
        return
    if conv.x.name in extra_inputs(group, conv):                     # the epilogue would want it blocked
        return
    if fits_direct(group, conv):
        yield direct_variant(group, conv, plan_direct(conv, block, 1, profile), "conv_first", "direct", PLAIN)
    if fits_padded(conv):
        yield padded_variant(group, conv, plan_padded(conv, block, 1, profile), "conv_first", "padded", PLAIN)


def _default(group: Group, variant: Variant, profile: Profile) -> DirectConv | PaddedConv:
    conv, block = conv_of(group), profile.lanes(FLOAT32)
    assert conv is not None
    return (plan_direct if variant.name == "direct" else plan_padded)(conv, block, 1, profile)


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    plan = _default(group, variant, profile)
    return direct_knobs(plan) if isinstance(plan, DirectConv) else padded_knobs(plan)


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    plan = _default(group, variant, profile)
    if isinstance(plan, DirectConv):
        return tune_direct(group, variant, plan, values, profile)
    return tune_padded(group, variant, plan, values, profile)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    conv, block = conv_of(group), profile.lanes(FLOAT32)
    assert conv is not None
    if variant.name == "direct":
        return lower_direct(group, conv, plan_direct(conv, block, 1, profile, variant.knobs), layouts, "conv_first")
    return lower_padded(group, conv, plan_padded(conv, block, 1, profile, variant.knobs), layouts, "conv_first")


CONV_FIRST = Kernel("conv_first", ("Conv",), _variants, _lower, _knobs, _tune)
