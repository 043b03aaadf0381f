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
from meta_infer.kernels.blocked import operand_layouts
from meta_infer.kernels.conv.conv_shape import ConvShape, conv_of, extra_inputs
from meta_infer.kernels.conv.conv_tile import most_columns, simd_registers
from meta_infer.kernels.conv.winograd_nest import lower_winograd
from meta_infer.kernels.conv.winograd_plan import WinogradConv, expected_cost, plan_winograd
from meta_infer.kernels.conv.winograd_transforms import TAPS, relative_error
from meta_infer.kernels.conv_chunks import l2_bytes
from meta_infer.kernels.kernel import Kernel, Knob, KnobValue, Lowering, Refusal
from meta_infer.support.dtypes import FLOAT32

OUTPUTS = {"winograd_f4": 4, "winograd_f2": 2, "winograd_f6": 6}
"""Rows and columns of outputs that a tile has, by variant."""


def _fits(conv: ConvShape | None) -> bool:
    """3x3, stride 1, no dilation, no groups, channels known at build."""
    if conv is None or conv.kernel != (TAPS, TAPS) or conv.group != 1 or 0 in conv.y.shape:
        return False
    if conv.strides != (1, 1) or conv.dilations != (1, 1):
        return False
    return isinstance(conv.in_channels, int) and isinstance(conv.out_channels, int)


def _knob_values(plan: WinogradConv) -> dict[str, KnobValue]:
    return {"vectors": plan.vectors, "columns": plan.columns, "groups": plan.groups, "out_pass": plan.out_pass,
            "in_pass": plan.in_pass, "ahead": int(plan.is_ahead), "shared": int(plan.is_shared),
            "at_load": int(plan.is_at_load)}


def _with_knobs(conv: ConvShape, m: int, values: Mapping[str, KnobValue], profile: Profile) -> WinogradConv:
    v = {name: int(value) for name, value in values.items()}
    return WinogradConv(conv, m, profile.lanes(FLOAT32), v["vectors"], v["columns"], v["groups"], v["out_pass"],
                        v["in_pass"], bool(v["ahead"]), bool(v["shared"]), bool(v["at_load"]))


def _variant(group: Group, plan: WinogradConv, name: str, profile: Profile) -> Variant:
    conv, block = plan.conv, plan.block
    inputs = operand_layouts(group, extra_inputs(group, conv), conv.y.rank, block) | {conv.x.name: blocked(block)}
    return Variant("conv_winograd", name, inputs, {out: blocked(block) for out in group.outputs},
                   knobs=_knob_values(plan), scratch_bytes=plan.scratch_bytes, packed_bytes=plan.packed_elements * 4,
                   risk=relative_error(plan.m, plan.is_at_load), flops=conv.flops, cost=expected_cost(plan, profile))


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    conv = conv_of(group)
    if conv is None or profile.lanes(FLOAT32) == 1 or not _fits(conv):
        return
    for name, m in OUTPUTS.items():
        yield _variant(group, plan_winograd(conv, m, profile), name, profile)


def _plan_of(group: Group, variant: Variant, profile: Profile) -> WinogradConv:
    conv = conv_of(group)
    assert conv is not None
    return _with_knobs(conv, OUTPUTS[variant.name], variant.knobs, profile)


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    plan = _plan_of(group, variant, profile)
    tried: dict[str, set[int]] = {
        "vectors": {1, 2, 3, 4}, "columns": {2, 3, 4, 6, 8, 12}, "groups": {1, 2, 4, 8, 16},
        "out_pass": {1, 2, 4, 8, len(plan.sizes)}, "in_pass": {4, 8, 16, plan.in_blocks},
        "ahead": {0, 1}, "shared": {0, 1}, "at_load": {0, 1},
    }
    return tuple(Knob(name, tuple(sorted(values | {int(variant.knobs[name])}))) for name, values in tried.items())


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    full = {**variant.knobs, **values}
    conv = conv_of(group)
    assert conv is not None
    plan = _with_knobs(conv, OUTPUTS[variant.name], full, profile)
    if plan.vectors > plan.out_blocks:
        return Refusal(full, "shape", f"{plan.vectors} vectors of {plan.out_blocks} output blocks")
    if plan.columns > most_columns(plan.vectors, simd_registers(profile)):
        return Refusal(full, "registers", f"{plan.vectors} x {plan.columns} sums and their operands")
    if plan.out_pass > len(plan.sizes) or plan.in_pass > plan.in_blocks:
        return Refusal(full, "shape", "a pass of more than there is")
    if isinstance(plan.tiles, int) and plan.groups > -(-plan.tiles // plan.columns):
        return Refusal(full, "shape", f"{plan.slots} tiles of {plan.tiles}")
    most = max(profile.l3_bytes or 0, 4 * l2_bytes(profile))
    if plan.scratch_bytes > most:
        return Refusal(full, "cache", f"{plan.scratch_bytes} bytes of scratch are more than {most}")
    return _variant(group, plan, variant.name, profile)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    return lower_winograd(group, _plan_of(group, variant, profile), layouts, variant.name)


CONV_WINOGRAD = Kernel("conv_winograd", ("Conv",), _variants, _lower, _knobs, _tune)
