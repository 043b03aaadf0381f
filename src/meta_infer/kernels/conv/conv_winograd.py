"""Winograd convolutions F(2x2, 3x3), F(4x4, 3x3) and F(6x6, 3x3), over blocked channels: dense, stride 1.

A tile of m x m outputs takes (m+2)^2 multiplications for each pair of channels instead of 9 m^2: 16/36, 36/144, 64/324
of the direct sum. In return tiles and weights are transformed (the weights grow by (m+2)^2 / 9), and rounding errors
grow with m (`winograd_transforms.relative_error`, the variants' `risk`). An infinite or NaN input reaches every output
of its tile, not only those within the 3x3 window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group, Layout, Variant, blocked
from meta_infer.ir.shapes import usual_upper
from meta_infer.kernels.blocked import operand_layouts
from meta_infer.kernels.conv.conv_shape import conv_of, extra_inputs
from meta_infer.kernels.conv.conv_tile import most_columns, simd_registers
from meta_infer.kernels.conv.winograd_knobs import knob_values, winograd_knobs, winograd_refusal, with_knobs
from meta_infer.kernels.conv.winograd_nest import lower_winograd
from meta_infer.kernels.conv.winograd_plan import WinogradConv, expected_cost, fits_winograd, plan_winograd
from meta_infer.kernels.conv.winograd_transforms import relative_error
from meta_infer.kernels.kernel import Kernel, Knob, KnobValue, Lowering, Refusal
from meta_infer.support.dtypes import FLOAT32

OUTPUTS = {"winograd_f4": 4, "winograd_f2": 2, "winograd_f6": 6}
"""Rows and columns of outputs that a tile has, by variant."""


def _variant(group: Group, plan: WinogradConv, name: str, profile: Profile) -> Variant:
    conv, block = plan.conv, plan.block
    inputs = operand_layouts(group, extra_inputs(group, conv), conv.y.rank, block) | {conv.x.name: blocked(block)}
    return Variant("conv_winograd", name, inputs, {out: blocked(block) for out in group.outputs},
                   knobs=knob_values(plan), scratch_bytes=plan.scratch_bytes, packed_bytes=plan.packed_elements * 4,
                   prepared_bytes=4 * plan.weight_elements if plan.is_at_load else 0,
                   temp_bytes=4 * usual_upper(plan.tile_blocks * plan.points * plan.input_pitch) * plan.is_shared,
                   risk=relative_error(plan.m, plan.is_at_load), flops=conv.flops, cost=expected_cost(plan, profile))


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    conv = conv_of(group)
    if conv is None or profile.lanes(FLOAT32) == 1 or not fits_winograd(conv):
        return
    for name, m in OUTPUTS.items():
        yield _variant(group, plan_winograd(conv, m, profile), name, profile)


def _plan_of(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> WinogradConv:
    conv = conv_of(group)
    assert conv is not None
    return with_knobs(conv, OUTPUTS[variant.name], profile.lanes(FLOAT32), {**variant.knobs, **values})


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    plan = _plan_of(group, variant, {}, profile)
    return winograd_knobs(variant, plan, {2, 3, 4, 6, 8, 12}, {4, 8, 16, plan.in_blocks})


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    plan = _plan_of(group, variant, values, profile)
    refused = winograd_refusal(knob_values(plan), plan, plan.in_blocks,
                               most_columns(plan.vectors, simd_registers(profile)), plan.scratch_bytes, profile)
    return refused or _variant(group, plan, variant.name, profile)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    return lower_winograd(group, _plan_of(group, variant, {}, profile), layouts, variant.name)


CONV_WINOGRAD = Kernel("conv_winograd", ("Conv",), _variants, _lower, _knobs, _tune)
